//! `InterPodAffinity` as a score: the preferences of the pod for pods on a node and in its domains, and those of pods there for it.

use super::Counts;
use super::domains::Domains;
use super::kinds::Kinds;
use super::preference::Preference;
use crate::classes::Class;
use crate::constraints::groups::Group;
use crate::problem::ClusterFacts;
use nodeless_model::Pod;

/// The scores of nodes for the pods of one class.
#[derive(Clone, Debug, Default)]
pub(super) struct Affinity {
    /// By topology key, the sum of weights by domain.
    sums: Vec<(usize, Counts)>,
    /// By class, what a bound pod of it adds in its domain of a key.
    adds: Vec<Vec<(usize, i64)>>,
}

impl Affinity {
    /// The scores by the running pods; `closed` are nodes whose pods do not count.
    pub(super) fn of<'a>(
        class: &Class<'a>,
        all: &[Class<'a>],
        kinds: &Kinds<'a>,
        facts: &ClusterFacts<'a>,
        (domains, closed, work): (&mut Domains<'_>, &[bool], &mut usize),
    ) -> Self {
        let mut affinity = Self::default();
        let pod = class.example;
        for preference in Preference::of(pod).filter(|one| one.own) {
            let group = Group::of_term(pod, preference.term);
            let key = domains.key(&group.key);
            *work += kinds.list.len();
            for kind in kinds.list.iter().filter(|kind| group.selects(facts, kind.example)) {
                affinity.count(key, preference.weight, &kind.at, (domains, closed, work));
            }
        }
        for kind in kinds.preferring() {
            *work += 1;
            for preference in Preference::of(kind.example) {
                let group = Group::of_term(kind.example, preference.term);
                if group.selects(facts, pod) {
                    let key = domains.key(&group.key);
                    affinity.count(key, preference.weight, &kind.at, (domains, closed, work));
                }
            }
        }
        affinity.adds = all.iter().map(|other| added(pod, other.example, facts, domains)).collect();
        *work += all.len();
        affinity
    }

    fn count(
        &mut self,
        key: usize,
        weight: i64,
        at: &[(usize, i64)],
        (domains, closed, work): (&Domains<'_>, &[bool], &mut usize),
    ) {
        *work += at.len();
        for (node, count) in at.iter().filter(|(node, _)| !closed[*node]) {
            self.add(key, domains.of(key, *node), weight * count);
        }
    }

    fn add(&mut self, key: usize, domain: u32, weight: i64) {
        if domain == Domains::ABSENT {
            return;
        }
        let place = self.sums.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            self.sums.push((key, Counts::new()));
            self.sums.len() - 1
        });
        *self.sums[place].1.entry(domain).or_default() += weight;
    }

    /// Counts a pod of a class that was bound to a node.
    pub(super) fn bound(&mut self, class: usize, node: usize, domains: &Domains<'_>) {
        for place in 0..self.adds[class].len() {
            let (key, weight) = self.adds[class][place];
            self.add(key, domains.of(key, node), weight);
        }
    }

    /// The score of a node, not normalized; `None` if no term applies to any node.
    pub(super) fn score(&self, node: usize, domains: &Domains<'_>) -> Option<i64> {
        let one = |(key, sums): &(usize, Counts)| sums.get(&domains.of(*key, node)).copied().unwrap_or(0);
        (!self.sums.is_empty()).then(|| self.sums.iter().map(one).sum())
    }
}

/// The score that a bound pod adds to its domains for another pod.
fn added(pod: &Pod, other: &Pod, facts: &ClusterFacts<'_>, domains: &mut Domains<'_>) -> Vec<(usize, i64)> {
    let mut found = Vec::new();
    let own = Preference::of(pod).filter(|one| one.own).map(|one| (pod, one, other));
    for (owner, preference, selected) in own.chain(Preference::of(other).map(|one| (other, one, pod))) {
        let group = Group::of_term(owner, preference.term);
        if group.selects(facts, selected) {
            found.push((domains.key(&group.key), preference.weight));
        }
    }
    found
}
