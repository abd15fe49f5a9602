//! Assigns pods to domains before anything is packed.

use super::{Engine, InVain, ONE_BY_ONE, Targets};
use crate::Reason;
use crate::classes::CONSTRAINTS_PER_UNIT;
use crate::constraints::AlternativeId;
use crate::constraints::groups::{GroupId, Kind};
use crate::packing::assigning::{self, DomainCandidate, Eligible};
use crate::packing::bin::Unit;
use crate::pools;
use crate::problem::reason::PodFault;
use crate::topology::offered_domains;
use crate::topology::{ABSENT, Standing, Standings, Target};
use std::cmp::Reverse;
use std::rc::Rc;

/// A class that takes a larger part of the work limit before any of its pods is assigned is left out: half of it.
const MAX_SHARE: u64 = 2;

/// A class with no more targets is never left out for its work: only a very low limit would do that.
const FEW_TARGETS: usize = 100;

/// For how many times as many groups as elsewhere a unit of work is counted where only numbers are compared.
const GROUPS_AT_ONCE: usize = 4;

/// The work of computing the targets of a class in a domain.
const WORK_OF_TARGET: usize = 10;

impl Engine<'_, '_, '_> {
    /// Creates units of all pending pods, and fills existing nodes with them in the order of the classes.
    pub(super) fn assign(&mut self, level: usize, first: bool) -> Vec<Unit> {
        let mut units = Vec::new();
        let mut again = true;
        let mut first_pass = first;
        while again {
            again = false;
            for place in 0..self.order.len() {
                let class = self.order[place];
                if self.pending[class] == 0 || self.is_just_as_before(class, level) {
                    continue;
                }
                if self.classes.list[class].example.template.priority < self.min_priority {
                    continue;
                }
                if self.known.left_out.contains(&class) {
                    continue;
                }
                if self.is_out_of_work() {
                    return units;
                }
                let of_class = &self.classes.list[class];
                let bound = of_class.level(level).is_some_and(|level| !level.keys.is_empty());
                if !of_class.is_tried(level, first_pass) {
                    continue;
                }
                if bound && self.is_in_vain(class, level) {
                    continue;
                }
                let made = if bound { self.bound_units(class, level) } else { self.free_unit(class, level) };
                self.without_gain[class] =
                    made.is_empty().then_some(InVain { level, counts: self.topology.changes(), others: self.changes });
                for mut unit in made {
                    self.pending[class] -= unit.assigned;
                    again |= bound && level != ONE_BY_ONE;
                    self.fill_existing(level, &mut unit);
                    units.push(unit);
                }
            }
            first_pass = false;
        }
        units
    }

    /// Puts classes for which no NodePool launches a node before the others of their priority: only existing nodes can run them.
    pub(super) fn sort_classes(&mut self) {
        if self.nodes.is_empty() || self.pools.is_empty() || self.order.len() < 2 {
            return;
        }
        let launched: Vec<bool> = (0..self.order.len())
            .map(|class| {
                let last = self.classes.list[class].levels.last();
                let alternatives = last.map(|level| level.alternatives.clone()).unwrap_or_default();
                self.worth(class, &alternatives).is_some()
            })
            .collect();
        let priority = |class: &usize| {
            self.classes.by_priority.then(|| Reverse(self.classes.list[*class].example.template.priority))
        };
        self.order.sort_by_key(|class| (priority(class), launched[*class]));
    }

    /// Whether nothing has changed since pods of a class last found no target at this level.
    fn is_just_as_before(&self, class: usize, level: usize) -> bool {
        let now = InVain { level, counts: self.topology.changes(), others: self.changes };
        self.without_gain[class] == Some(now)
    }

    /// Whether nothing that affects pods of a class has changed since they last found no target at this level.
    fn is_in_vain(&mut self, class: usize, level: usize) -> bool {
        let Some(last) = self.without_gain[class] else { return false };
        let of_class = &self.classes.list[class];
        let bounded = of_class.level(level).into_iter().flat_map(|level| &level.bounded);
        let groups = bounded.chain(&of_class.selected);
        self.work.add(1 + of_class.extra_work(level) / GROUPS_AT_ONCE);
        last.level == level && last.others == self.changes && !self.topology.changed_since(groups, last.counts)
    }

    pub(super) fn free_unit(&self, class: usize, level: usize) -> Vec<Unit> {
        let alternatives = self.classes.list[class].level(level).map(|level| level.alternatives.clone());
        let pending = self.pending[class];
        vec![Unit {
            class,
            alternatives: alternatives.unwrap_or_default(),
            target: Vec::new(),
            assigned: pending,
            pending,
        }]
    }

    pub(super) fn bound_units(&mut self, class: usize, level: usize) -> Vec<Unit> {
        if self.has_too_many_domains(class) {
            self.refuse(class, self.classes.list[class].levels.len().saturating_sub(1));
            return Vec::new();
        }
        let mut candidates = self.open_candidates(class, level);
        let eligible = self.eligible(class, level);
        self.gather(class, level, &mut candidates);
        let of_class = &self.classes.list[class];
        let pending = if level == ONE_BY_ONE { 1 } else { self.pending[class] };
        if let Some(of_level) = of_class.level(level) {
            self.work.add(assigning::assign(
                of_class,
                of_level,
                &mut candidates,
                &eligible,
                pending,
                &mut self.topology,
            ));
        }
        assigning::units(class, candidates)
    }

    /// The domains by which the spread of a class is measured: those with a counted node, and those where one can be launched for
    /// any pods. Of the latter only those that the required terms of the pods allow: until a node exists, nothing counts in a
    /// domain that they exclude.
    pub(super) fn eligible(&mut self, class: usize, level: usize) -> Eligible {
        let class = &self.classes.list[class];
        let Some(of_level) = class.level(level) else { return Eligible::new() };
        let strict = class.levels.last().map_or(&[][..], |level| &level.alternatives);
        let spreads =
            of_level.bounded.iter().filter(|group| matches!(self.topology.kind(**group), Kind::Spread { .. }));
        let mut eligible = Eligible::new();
        for &group in spreads {
            let Some(key) = self.topology.key(group) else { continue };
            let (of_group, domains) = (&self.topology.groups.list[group], &self.topology.domains[key]);
            let offered = self
                .offered
                .entry(group)
                .or_insert_with(|| offered_domains::offered(of_group, domains, &mut self.pools));
            let may_use = |value: &str| {
                let of_key = |one: &AlternativeId| self.classes.alternatives[*one].requirements.get(&of_group.key);
                strict.iter().any(|one| of_key(one).is_none_or(|allowed| allowed.has(value)))
            };
            self.work.add(domains.len() * strict.len() / CONSTRAINTS_PER_UNIT);
            let present = self.topology.present(group);
            let counts = |domain: usize| present[domain] || (offered[domain] && may_use(&domains[domain]));
            eligible.push((group, (0..domains.len()).map(|domain| domain != ABSENT && counts(domain)).collect()));
        }
        eligible
    }

    /// The targets of pods of a class, and what is available there.
    pub(super) fn candidates(&mut self, class: usize, level: usize) -> Vec<DomainCandidate> {
        let targets = self.targets(class, level);
        self.candidates_at(class, level, targets.iter())
    }

    /// [`Self::candidates`] without targets that anti-affinity excludes.
    fn open_candidates(&mut self, class: usize, level: usize) -> Vec<DomainCandidate> {
        let targets = self.targets(class, level);
        self.work.add(targets.len());
        let of_class = &self.classes.list[class];
        let Some(of_level) = of_class.level(level) else { return Vec::new() };
        let is_spread = |group: &GroupId| matches!(self.topology.kind(*group), Kind::Spread { .. });
        // With a spread among them those are left in: the assignment rejects them itself.
        if of_level.bounded.iter().any(is_spread) {
            return self.candidates_at(class, level, targets.iter());
        }
        let is_open = |target: &Target| !assigning::is_repelled(of_class, of_level, target, &self.topology);
        let open: Vec<_> = targets.iter().filter(|(target, _)| is_open(target)).collect();
        self.candidates_at(class, level, open.into_iter())
    }

    /// Whether the required constraints of a class combine too many domains. A preference with too many is never met.
    fn has_too_many_domains(&self, class: usize) -> bool {
        let required = self.classes.list[class].levels.last();
        required.is_some_and(|level| assigning::combinations(level, &self.topology) > assigning::MAX_COMBINATIONS)
    }

    /// Leaves a class out because of its domains at a level, so that its pods do not use up the work of others.
    fn refuse(&mut self, class: usize, level: usize) {
        let class = &mut self.classes.list[class];
        let Some(of_level) = class.level(level) else { return };
        let fault = PodFault::TooManyDomains {
            topology_keys: of_level.keys.iter().map(|key| self.topology.keys[*key].clone()).collect(),
            combinations: assigning::combinations(of_level, &self.topology),
        };
        class.refused = Some(Reason::Pod(fault));
        class.levels.clear();
    }

    pub(super) fn targets(&mut self, class: usize, level: usize) -> Targets {
        let Some(of_level) = self.classes.list[class].level(level) else { return Rc::default() };
        self.work.add(of_level.keys.len() / CONSTRAINTS_PER_UNIT);
        let alternatives = of_level.alternatives.clone();
        let keys = of_level.keys.iter().map(|&key| (key, of_level.needs_label(key))).collect();
        let key = (alternatives, keys);
        if let Some(known) = self.targets.get(&key) {
            return Rc::clone(known);
        }
        let made = assigning::targets(&mut self.classes, class, level, &key.0, &self.topology);
        let made = Targets::from(made);
        self.targets.insert(key, Rc::clone(&made));
        made
    }

    fn candidates_at<'t>(
        &mut self,
        class: usize,
        level: usize,
        targets: impl ExactSizeIterator<Item = &'t (Target, Vec<AlternativeId>)>,
    ) -> Vec<DomainCandidate> {
        let before = self.work();
        let may_be_refused = targets.len() > FEW_TARGETS;
        let mut candidates = Vec::new();
        for (target, alternatives) in targets {
            if may_be_refused && self.max_work.is_some_and(|max| self.work() - before > max / MAX_SHARE) {
                self.refuse(class, level);
                return Vec::new();
            }
            self.work.add(WORK_OF_TARGET);
            let worth = self.worth(class, alternatives);
            let is_met = self.classes.list[class].unmet(level, target, &self.topology).next().is_none();
            let fit_on_existing = if is_met { self.fit_on_existing(class, level, alternatives) } else { 0 };
            let planned_before = self.planned_before(class, alternatives);
            if worth.is_none() && fit_on_existing == 0 {
                continue;
            }
            let (alternatives, binding) = (alternatives.clone(), (level, class, target.clone()));
            let outcome = self.outcomes.get(&binding).copied().unwrap_or_default();
            let most = self.known.fitting.get(&binding).map_or(u32::MAX, |most| most.saturating_sub(outcome.placed));
            let most = if outcome.failed { 0 } else { most };
            let standings = self.standings(class, &alternatives);
            candidates.push(DomainCandidate {
                target: binding.2,
                alternatives,
                standings,
                worth,
                together: None,
                gathered: 0,
                fit_on_existing,
                planned_before,
                max: most,
                assigned: 0,
            });
        }
        candidates
    }

    /// Whether pods of a class count for spreads that leave out some nodes, with these alternatives.
    pub(super) fn standings(&mut self, class: usize, alternatives: &[AlternativeId]) -> Standings {
        let selected = self.classes.list[class].selected.iter().copied();
        let particular: Vec<GroupId> = selected.filter(|group| self.topology.is_particular(*group)).collect();
        particular
            .into_iter()
            .map(|group| {
                let each = alternatives.iter().filter_map(|&alternative| self.standing(group, alternative));
                (group, each.reduce(Standing::and).unwrap_or(Standing::Counts))
            })
            .collect()
    }

    /// Whether pods with an alternative count for one group; `None` where the alternative is unsatisfiable.
    pub(super) fn standing(&mut self, group: GroupId, alternative: AlternativeId) -> Option<Standing> {
        if let Some(known) = self.standing.get(&(group, alternative)) {
            return *known;
        }
        let mut found: Option<Standing> = None;
        let mut add = |standing: Standing| found = Some(found.map_or(standing, |known| known.and(standing)));
        for pool in &mut self.pools {
            if let Some(set) = pool.admit(pools::BASE, alternative, &self.classes.alternatives) {
                add(self.topology.standing(group, &pool.set(set).requirements, &pool.pool.template.taints, false));
            }
        }
        self.allow(alternative);
        let allowed = self.allowed[alternative].iter().flat_map(|allowed| allowed.iter());
        for (node, _) in self.nodes.iter().zip(allowed).filter(|(_, allowed)| **allowed) {
            add(self.topology.standing(group, &node.node.requirements, &node.node.taints, true));
        }
        self.standing.insert((group, alternative), found);
        found
    }

    /// The price of one pod where it is cheapest; `None` if no node can be launched for it.
    pub(super) fn worth(&mut self, class: usize, alternatives: &[AlternativeId]) -> Option<f64> {
        let requests = &self.classes.list[class].requests;
        let mut worths = Vec::new();
        for pool in &mut self.pools {
            for &alternative in alternatives {
                let all = &self.classes.alternatives;
                if let Some(set) =
                    pool.admit_class(pools::BASE, alternative, all, self.classes.list[class].needs(class))
                {
                    worths.extend(pool.worth(set, requests));
                }
            }
        }
        worths.into_iter().min_by(f64::total_cmp)
    }

    /// If pods are the first that fix the domain for others, computes how many of all of them could be in each domain, and their price
    /// there.
    fn gather(&mut self, class: usize, level: usize, candidates: &mut [DomainCandidate]) {
        let bounded = self.classes.list[class].level(level).map(|level| &level.bounded[..]).unwrap_or_default();
        let Some(group) = self.undecided(class, bounded.iter()) else { return };
        let followers: Vec<usize> = self.followers.get(&group).cloned().unwrap_or_default();
        // Then every domain takes all pods, and the price of each is known.
        let is_unlimited = self.nodes.is_empty() && self.pools.iter().all(|pool| pool.limits.are_none());
        if candidates.len() < 2 || (followers.len() < 2 && is_unlimited) {
            return;
        }
        self.work.add(followers.len() * candidates.len() * WORK_OF_TARGET);
        let key = self.topology.key(group);
        for candidate in candidates {
            let domain = assigning::domain_of(&candidate.target, key);
            let each = followers.iter().filter(|follower| self.pending[**follower] > 0).copied().collect::<Vec<_>>();
            let mut price = 0.0;
            for follower in &each {
                let (pods, worth) = self.gathered_in(*follower, level, key, domain);
                candidate.gathered += pods;
                price += f64::from(self.pending[*follower]) * worth;
            }
            candidate.together = (followers.len() > 1).then_some(price);
        }
    }
}
