//! The constraints that an attempt at a plan learns for the next one.

use super::{Binding, Engine, ONE_BY_ONE};
use crate::assigning;
use crate::groups::{GroupId, Kind};
use crate::topology::{Domain, Target};
use std::collections::{BTreeSet, HashMap, HashSet};

/// The constraints from earlier attempts at a plan.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// How many pods of a class fit in their target, if not all did.
    pub(super) fitting: HashMap<Binding, u32>,
    /// Classes that are left out, because the pods that they depend on are unschedulable.
    pub(super) left_out: HashSet<usize>,
    pub(super) attempts: u32,
    /// How often the work limit of an attempt was halved, so that all of them together are limited too.
    pub(super) halvings: u32,
    /// Whether an attempt has reached its work limit.
    pub(super) limited: bool,
}

/// After this number of attempts, pods that still depend on other unschedulable pods are left out.
const MAX_ATTEMPTS: u32 = 6;

impl Engine<'_, '_, '_> {
    /// The constraints that another attempt has to respect, if pods depend on others that are unschedulable in the end.
    pub(super) fn learned(&mut self) -> Option<Known> {
        let failed: Vec<(Binding, u32)> = self
            .outcomes
            .iter()
            .filter(|(_, outcome)| outcome.failed)
            .map(|(binding, outcome)| (binding.clone(), outcome.placed))
            .collect();
        if failed.is_empty() {
            return None;
        }
        let placed: BTreeSet<(usize, Target)> = self
            .outcomes
            .iter()
            .filter(|(_, outcome)| outcome.placed > 0)
            .map(|((_, class, target), _)| (*class, target.clone()))
            .collect();
        let missing: BTreeSet<usize> = failed.iter().map(|((_, class, _), _)| *class).collect();
        let adrift: Vec<usize> = placed
            .into_iter()
            .filter(|(class, target)| self.is_adrift(*class, target, &missing))
            .map(|(class, _)| class)
            .collect();
        if adrift.is_empty() {
            return None;
        }
        let mut known = self.known.clone();
        known.attempts += 1;
        // Pods that are assigned one by one depend on the pods that were actually placed, which differs each time.
        for (binding, placed) in failed.into_iter().filter(|((level, _, _), _)| *level != ONE_BY_ONE) {
            let most = known.fitting.entry(binding).or_insert(placed);
            *most = placed.min(*most);
        }
        let out_of_work = self.is_out_of_work();
        // The first attempt that reaches the limit is repeated with the same limit and only the workloads of which it placed pods.
        known.halvings += u32::from(!out_of_work || known.limited);
        if out_of_work {
            known.left_out.extend(self.without_placements());
        }
        if known.attempts > MAX_ATTEMPTS || (out_of_work && known.limited) {
            known.left_out.extend(adrift);
        }
        known.limited |= out_of_work;
        Some(known)
    }

    /// The classes of which no pod was placed.
    fn without_placements(&self) -> impl Iterator<Item = usize> {
        let all = self.classes.list.iter().zip(&self.pending).enumerate();
        all.filter(|(_, (class, pending))| class.pods.len() <= **pending as usize).map(|(class, _)| class)
    }

    /// Whether pods of a class are where they are only because of pods that are missing now.
    fn is_adrift(&mut self, class: usize, target: &[(usize, Domain)], missing: &BTreeSet<usize>) -> bool {
        let last = self.classes.list[class].levels.len().saturating_sub(1);
        let eligible = self.eligible(class, last);
        let of_class = &self.classes.list[class];
        let Some(level) = of_class.level(last) else { return false };
        let relies = |group: usize| missing.iter().any(|missing| self.classes.list[*missing].is_selected_by(group));
        level.bounded.iter().any(|&group| {
            let here = self.topology.matching(group, assigning::domain_of(target, self.topology.key(group)));
            relies(group)
                && match self.topology.kind(group) {
                    Kind::Affinity => {
                        here <= self.followers(group, target) && self.topology.matches_beyond(group, target)
                    }
                    Kind::Anti => false,
                    Kind::Spread { max_skew, min_domains } => {
                        let known = eligible.iter().find(|(one, _)| *one == group);
                        let least = known.map_or(0, |(_, known)| self.topology.least(group, known, min_domains));
                        here > least.saturating_add(max_skew)
                    }
                }
        })
    }

    /// How many of the pods that an affinity counts in a domain are there because of it.
    fn followers(&self, group: GroupId, target: &[(usize, Domain)]) -> u32 {
        let domain = |target: &[(usize, Domain)]| assigning::domain_of(target, self.topology.key(group));
        let follow = |class: usize| {
            let class = &self.classes.list[class];
            class.required.contains(&group) && class.is_selected_by(group)
        };
        let here =
            self.outcomes.iter().filter(|((_, class, place), _)| follow(*class) && domain(place) == domain(target));
        here.map(|(_, outcome)| outcome.placed).sum()
    }
}
