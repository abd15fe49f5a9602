//! The order of the queue, and choices between equal nodes, from a seed.

use nodeless_model::Pod;
use std::cmp::Reverse;

/// A generator of numbers that always gives the same ones for a seed (SplitMix64).
#[derive(Clone, Debug)]
pub(super) struct Choices(u64);

impl Choices {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below a bound, zero if there is none.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % bound).unwrap_or(0)
    }
}

/// Pods that wait to be bound.
pub(super) struct Queue {
    /// By creation.
    oldest_first: Vec<usize>,
    priorities: Vec<i32>,
}

impl Queue {
    pub(super) fn new(pods: &[&Pod]) -> Self {
        let mut oldest_first: Vec<usize> = (0..pods.len()).collect();
        let name = |place: usize| (&pods[place].namespace, &pods[place].name, &pods[place].uid);
        oldest_first.sort_by(|a, b| (pods[*a].created, name(*a)).cmp(&(pods[*b].created, name(*b))));
        Self { oldest_first, priorities: pods.iter().map(|pod| pod.template.priority).collect() }
    }

    /// The order in which pods are bound: by priority as `PrioritySort` does, and those of equal priority by their creation for the
    /// seed 0, and shuffled for every other one. Pods that are evicted together are created again in an order that nobody knows.
    pub(super) fn order(&self, seed: u64, choices: &mut Choices) -> Vec<usize> {
        let mut queue = self.oldest_first.clone();
        if seed != 0 {
            for last in (1..queue.len()).rev() {
                queue.swap(last, choices.below(last + 1));
            }
        }
        queue.sort_by_key(|place| Reverse(self.priorities[*place]));
        queue
    }
}
