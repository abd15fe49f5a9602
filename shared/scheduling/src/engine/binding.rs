//! Where pods are bound for before anything is packed, and what there is for them.

use super::{CAREFUL, Engine};
use crate::assigning::{self, Eligible, Prospect};
use crate::classes::AlternativeId;
use crate::groups::{GroupId, Kind};
use crate::packing::{self, Unit};
use crate::pools;
use crate::topology::{Domain, Standing, Standings, Target};

/// What it takes to find out what there is for a class in a domain.
const WORK_OF_TARGET: usize = 10;

impl Engine<'_, '_, '_> {
    /// Makes units of all that waits, and fills existing nodes with them in the order of the classes.
    pub(super) fn assign(&mut self, level: usize, first: bool) -> Vec<Unit> {
        let mut units = Vec::new();
        let mut again = true;
        let mut first_pass = first;
        while again {
            again = false;
            for class in 0..self.classes.list.len() {
                if self.pending[class] == 0 || self.known.left_out.contains(&class) {
                    continue;
                }
                if self.is_out_of_work() {
                    return units;
                }
                let of_class = &self.classes.list[class];
                let bound = of_class.level(level).is_some_and(|level| !level.keys.is_empty());
                // Nothing that happens meanwhile helps pods that no topology concerns.
                let tried = (level >= of_class.levels.len() || !first_pass) && !of_class.is_related();
                if tried || of_class.levels.is_empty() {
                    continue;
                }
                let made = if bound { self.bound_units(class, level) } else { self.free_unit(class, level) };
                for mut unit in made {
                    self.pending[class] -= unit.assigned;
                    again |= bound && level != CAREFUL;
                    self.fill_existing(level, &mut unit);
                    units.push(unit);
                }
            }
            first_pass = false;
        }
        units
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
        let mut prospects = self.prospects(class, level);
        let eligible = self.eligible(class, level, &prospects);
        self.price_together(class, level, &mut prospects);
        let of_class = &self.classes.list[class];
        let pending = if level == CAREFUL { 1 } else { self.pending[class] };
        if let Some(of_level) = of_class.level(level) {
            self.work.add(assigning::assign(
                of_class,
                of_level,
                &mut prospects,
                &eligible,
                pending,
                &mut self.topology,
            ));
        }
        assigning::units(class, prospects)
    }

    /// The domains by which the spread of a class is measured.
    pub(super) fn eligible(&mut self, class: usize, level: usize, prospects: &[Prospect]) -> Eligible {
        let Some(of_level) = self.classes.list[class].level(level) else { return Eligible::new() };
        if !of_level.bounded.iter().any(|group| matches!(self.topology.kind(*group), Kind::Spread { .. })) {
            return Eligible::new();
        }
        let strict = self.classes.list[class].levels.last().map(|level| level.alternatives.clone()).unwrap_or_default();
        let launchable: Vec<Target> = if strict == of_level.alternatives {
            let launched = prospects.iter().filter(|prospect| prospect.worth.is_some());
            launched.map(|prospect| prospect.target.clone()).collect()
        } else {
            let targets = assigning::targets(&mut self.classes, class, level, &strict, &self.topology);
            let mut launchable = Vec::new();
            for (target, alternatives) in targets {
                if self.worth(class, &alternatives).is_some() {
                    launchable.push(target);
                }
            }
            launchable
        };
        let Some(of_level) = self.classes.list[class].level(level) else { return Eligible::new() };
        assigning::eligible(of_level, &launchable, &self.topology)
    }

    /// Where pods of a class could be bound for, and what there is.
    pub(super) fn prospects(&mut self, class: usize, level: usize) -> Vec<Prospect> {
        let alternatives = self.classes.list[class].level(level).map(|level| level.alternatives.clone());
        let alternatives = alternatives.unwrap_or_default();
        let targets = assigning::targets(&mut self.classes, class, level, &alternatives, &self.topology);
        self.work.add(targets.len() * WORK_OF_TARGET);
        let mut prospects = Vec::new();
        for (target, alternatives) in targets {
            let worth = self.worth(class, &alternatives);
            let room = self.room(class, level, &alternatives);
            if worth.is_none() && room == 0 {
                continue;
            }
            let binding = (level, class, target);
            let outcome = self.outcomes.get(&binding).copied().unwrap_or_default();
            let most = self.known.most.get(&binding).map_or(u32::MAX, |most| most.saturating_sub(outcome.placed));
            let most = if outcome.failed { 0 } else { most };
            let standings = self.standings(class, &alternatives);
            prospects.push(Prospect {
                target: binding.2,
                alternatives,
                standings,
                worth,
                together: None,
                room,
                most,
                assigned: 0,
            });
        }
        prospects
    }

    /// Whether pods of a class count for spreads that leave out some nodes, wherever these alternatives let them go.
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

    /// The same of one group and alternative; `None` where it leads nowhere.
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

    /// What one pod is worth where it is cheapest; `None` where no node can be launched for it.
    pub(super) fn worth(&mut self, class: usize, alternatives: &[AlternativeId]) -> Option<f64> {
        let requests = &self.classes.list[class].requests;
        let mut worths = Vec::new();
        for pool in &mut self.pools {
            for &alternative in alternatives {
                if let Some(set) = pool.admit(pools::BASE, alternative, &self.classes.alternatives) {
                    worths.extend(packing::worth(pool, set, requests));
                }
            }
        }
        worths.into_iter().min_by(f64::total_cmp)
    }
    /// Where pods are the first that fix the domain for others, prices what all of them would be worth in each.
    fn price_together(&mut self, class: usize, level: usize, prospects: &mut [Prospect]) {
        let Some(group) = self.undecided(class, level) else { return };
        let followers: Vec<usize> = self.followers.get(&group).cloned().unwrap_or_default();
        if followers.len() < 2 || prospects.len() < 2 {
            return;
        }
        self.work.add(followers.len() * prospects.len() * WORK_OF_TARGET);
        let key = self.topology.key(group);
        for prospect in prospects {
            let domain = assigning::domain_of(&prospect.target, key);
            let each = followers.iter().filter(|follower| self.pending[**follower] > 0).copied().collect::<Vec<_>>();
            let worths = each
                .into_iter()
                .map(|follower| f64::from(self.pending[follower]) * self.worth_in(follower, level, (key, domain)));
            prospect.together = Some(worths.sum());
        }
    }

    /// The affinity of a class that selects it too, if nothing that it selects is anywhere yet.
    fn undecided(&self, class: usize, level: usize) -> Option<GroupId> {
        let of_class = &self.classes.list[class];
        let mut bounded = of_class.level(level)?.bounded.iter().copied();
        bounded.find(|&group| {
            self.topology.kind(group) == Kind::Affinity
                && of_class.is_selected_by(group)
                && !self.topology.matches_anywhere(group)
        })
    }

    /// What one pod of a class is worth in a domain, or without end where it cannot be there.
    fn worth_in(&mut self, class: usize, level: usize, (key, domain): (Option<usize>, Domain)) -> f64 {
        let alternatives = self.classes.list[class].level(level).map(|level| level.alternatives.clone());
        let alternatives = alternatives.unwrap_or_default();
        let targets = assigning::targets(&mut self.classes, class, level, &alternatives, &self.topology);
        let within = targets.into_iter().filter(|(target, _)| assigning::domain_of(target, key) == domain);
        let worths = within.filter_map(|(_, alternatives)| self.worth(class, &alternatives));
        worths.min_by(f64::total_cmp).unwrap_or(f64::INFINITY)
    }
}
