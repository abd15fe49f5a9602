//! The constraints that an attempt at a plan learns for the next one.

use super::attempts::Stage;
use super::{Binding, Engine, ONE_BY_ONE};
use crate::constraints::groups::{GroupId, Kind};
use crate::packing::assigning;
use crate::topology::{Domain, Target};
use nodeless_model::hashed::{HashMap, HashSet};
use std::collections::BTreeSet;

/// The constraints from earlier attempts at a plan.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// The number of pods of a class that fit in their target, if not all did.
    pub(super) fitting: HashMap<Binding, u32>,
    /// Classes that are left out, because the pods that they depend on are unschedulable.
    pub(super) left_out: HashSet<usize>,
    pub(super) attempts: u32,
    /// The classes that the next attempt places.
    pub(super) stage: Stage,
}

/// After this number of attempts, pods that still depend on other unschedulable pods are left out.
const MAX_ATTEMPTS: u32 = 6;

impl Engine<'_, '_, '_> {
    /// The constraints that another attempt has to respect, if pods depend on others that are unschedulable in the end. `is_reserved`:
    /// all classes were tried often enough for the work limit.
    pub(super) fn learned(&mut self, is_reserved: bool) -> Option<Known> {
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
        known.stage = match known.stage {
            Stage::All if self.is_out_of_work() => Stage::Started,
            Stage::All if !is_reserved => Stage::All,
            Stage::All => Stage::Complete,
            later => later.next(),
        };
        match known.stage {
            Stage::All if known.attempts > MAX_ATTEMPTS => known.left_out.extend(adrift),
            Stage::All => {}
            Stage::Started => known.left_out.extend(self.without_placements()),
            Stage::Complete => known.left_out.extend(self.incomplete()),
            Stage::Independent => known.left_out.extend(self.dependent()),
        }
        Some(known)
    }

    /// The classes that are not placed completely, and those that depend on them.
    fn incomplete(&self) -> HashSet<usize> {
        let all = 0..self.classes.list.len();
        let mut incomplete: HashSet<usize> = all.clone().filter(|class| self.pending[*class] > 0).collect();
        loop {
            let more: Vec<usize> = all
                .clone()
                .filter(|class| !incomplete.contains(class) && self.depends_on(*class, &incomplete))
                .collect();
            if more.is_empty() {
                return incomplete;
            }
            incomplete.extend(more);
        }
    }

    /// The classes that depend on any pods.
    fn dependent(&self) -> impl Iterator<Item = usize> {
        (0..self.classes.list.len()).filter(|class| self.dependences(*class).next().is_some())
    }

    fn depends_on(&self, class: usize, others: &HashSet<usize>) -> bool {
        self.dependences(class).any(|group| others.iter().any(|other| self.classes.list[*other].is_selected_by(group)))
    }

    /// The groups whose pods determine where a class may be: affinity and spread over domains.
    fn dependences(&self, class: usize) -> impl Iterator<Item = GroupId> {
        let class = &self.classes.list[class];
        let level = class.level(class.levels.len().saturating_sub(1));
        let bounded = level.map_or(&[][..], |level| &level.bounded[..]);
        bounded.iter().copied().filter(|group| self.topology.kind(*group) != Kind::Anti)
    }

    /// The classes of which no pod was placed.
    fn without_placements(&self) -> impl Iterator<Item = usize> {
        let all = self.classes.list.iter().zip(&self.pending).enumerate();
        all.filter(|(_, (class, pending))| class.pods.len() <= **pending as usize).map(|(class, _)| class)
    }

    /// Whether pods of a class are in their domain only because of pods that are missing now.
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
                        let known = assigning::domains_of(&eligible, group);
                        let least = self.topology.least(group, known, min_domains);
                        here > least.saturating_add(max_skew)
                    }
                }
        })
    }

    /// The number of pods in a domain that an affinity counts and that are there because of that affinity.
    fn followers(&self, group: GroupId, target: &[(usize, Domain)]) -> u32 {
        let domain = |target: &[(usize, Domain)]| assigning::domain_of(target, self.topology.key(group));
        let follow = |class: usize| {
            let class = &self.classes.list[class];
            class.required.binary_search(&group).is_ok() && class.is_selected_by(group)
        };
        let here =
            self.outcomes.iter().filter(|((_, class, place), _)| follow(*class) && domain(place) == domain(target));
        here.map(|(_, outcome)| outcome.placed).sum()
    }
}
