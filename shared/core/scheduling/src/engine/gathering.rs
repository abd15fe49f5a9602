//! The node or the domain of pods with affinity to each other of which none runs yet: the one that takes most of them.

use super::Engine;
use crate::constraints::AlternativeId;
use crate::constraints::groups::{GroupId, Kind};
use crate::dense;
use crate::packing::assigning;
use crate::pools::{self, SetId};
use crate::topology::Domain;

/// Where the first pods of a group with affinity over the host name go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// To an existing node.
    Node(usize),
    /// To a new node.
    New,
}

/// Pending pods of a class.
#[derive(Clone, Copy, Debug)]
struct Members {
    class: usize,
    pods: u32,
}

impl Engine<'_, '_, '_> {
    /// The affinity among groups of a class that selects itself, if no pod that it selects runs anywhere yet.
    pub(super) fn undecided<'g>(&self, class: usize, mut groups: impl Iterator<Item = &'g GroupId>) -> Option<GroupId> {
        let of_class = &self.classes.list[class];
        let is_undecided = |group: &&GroupId| {
            self.topology.kind(**group) == Kind::Affinity
                && of_class.is_selected_by(**group)
                && !self.topology.matches_anywhere(**group)
                && !self.topology.daemon_pods.selects_any(**group)
        };
        groups.find(is_undecided).copied()
    }

    /// Where pods of a class go, because they are the first of a group with required affinity; `None` if they are not.
    pub(super) fn home(&mut self, class: usize, level: usize, pending: u32) -> Option<Home> {
        let of_class = &self.classes.list[class];
        let groups = of_class.level(level).map(|level| &level.hosts[..]).unwrap_or_default();
        let required = groups.iter().filter(|group| of_class.required.binary_search(group).is_ok());
        let group = self.undecided(class, required)?;
        if let Some(home) = self.homes.get(&group) {
            return Some(*home);
        }
        let of_group = self.followers.get(&group).cloned().unwrap_or_default();
        let waiting = |other: usize| if other == class { pending } else { self.pending[other] };
        let members: Vec<Members> =
            of_group.into_iter().map(|other| Members { class: other, pods: waiting(other) }).collect();
        let home = self.chosen_home(group, &members, level);
        self.homes.insert(group, home);
        Some(home)
    }

    fn chosen_home(&mut self, group: GroupId, members: &[Members], level: usize) -> Home {
        let all: u32 = members.iter().map(|members| members.pods).sum();
        let mut best: Option<(u32, usize)> = None;
        for place in 0..self.nodes.len() {
            let takes = self.taken_by(place, members, level);
            if takes > best.map_or(0, |(most, _)| most) {
                best = Some((takes, place));
            }
            if takes == all {
                break;
            }
        }
        match best {
            Some((most, place)) if most == all || self.homeless.contains(&group) => Home::Node(place),
            Some((most, place)) if most >= self.taken_by_new(members, level) => Home::Node(place),
            _ => Home::New,
        }
    }

    /// The number of pods that an existing node takes together.
    fn taken_by(&mut self, place: usize, members: &[Members], level: usize) -> u32 {
        let mut taken = 0;
        let of_group: Vec<_> = members.iter().map(|one| (one.class, &self.classes.list[one.class])).collect();
        let mut free = self.nodes[place].free_for(&of_group);
        for Members { class, pods } in members {
            let alternatives = self.alternatives(*class, level);
            alternatives.iter().for_each(|alternative| self.allow(*alternative));
            let is_allowed = |one: &AlternativeId| self.allowed[*one].as_ref().is_some_and(|allowed| allowed[place]);
            if !alternatives.iter().any(is_allowed) {
                continue;
            }
            let of_class = &self.classes.list[*class];
            self.work.add(1 + of_class.extra_work(level));
            let capacity = &self.nodes[place].capacity;
            let times = capacity.times(&free, of_class, level, &self.topology, *pods);
            dense::take(&mut free, &of_class.requests, times);
            taken += times;
        }
        taken
    }

    /// The number of pods that a new node takes together, of the NodePool and type that take most.
    fn taken_by_new(&mut self, members: &[Members], level: usize) -> u32 {
        (0..self.pools.len()).map(|pool| self.taken_by_new_of(pool, members, level)).max().unwrap_or(0)
    }

    fn taken_by_new_of(&mut self, pool: usize, members: &[Members], level: usize) -> u32 {
        let (mut set, mut admitted): (SetId, Vec<Members>) = (pools::BASE, Vec::new());
        for one in members {
            let alternatives = self.alternatives(one.class, level);
            let needs = self.classes.list[one.class].needs(one.class);
            let all = &self.classes.alternatives;
            let pool = &mut self.pools[pool];
            let narrowed = alternatives.iter().find_map(|alternative| pool.admit_class(set, *alternative, all, needs));
            if let Some(narrowed) = narrowed {
                set = narrowed;
                admitted.push(*one);
            }
        }
        let pool = &self.pools[pool];
        let choices = pool.set(set).offer.choices.iter();
        self.work.add(choices.len());
        let taken = choices.filter(|choice| pool.limits.allowed(&choice.share, 1) > 0).map(|choice| {
            let mut free = pool.types[choice.kind].allocatable.clone();
            let one = |members: &Members| {
                let of_class = &self.classes.list[members.class];
                let times = dense::times_fitting(&of_class.requests, &free, members.pods.min(of_class.max_per_node()));
                dense::take(&mut free, &of_class.requests, times);
                times
            };
            admitted.iter().map(one).sum::<u32>()
        });
        taken.max().unwrap_or(0)
    }

    fn alternatives(&self, class: usize, level: usize) -> Vec<AlternativeId> {
        self.classes.list[class].level(level).map(|level| level.alternatives.clone()).unwrap_or_default()
    }

    /// Notes the groups that found no new node, so that they go to existing ones. Returns whether there are such groups.
    pub(super) fn note_homeless(&mut self) -> bool {
        let new = self.homes.iter().filter(|(_, home)| **home == Home::New).map(|(group, _)| *group);
        let homeless: Vec<GroupId> = new.filter(|group| !self.topology.matches_anywhere(*group)).collect();
        homeless.into_iter().filter(|group| self.homeless.insert(*group)).count() > 0
    }

    /// The number of pending pods of a class that could be in a domain, and the price of one; infinite if it cannot be there.
    pub(super) fn gathered_in(&mut self, class: usize, level: usize, key: Option<usize>, domain: Domain) -> (u32, f64) {
        let pending = self.pending[class];
        let targets = self.targets(class, level);
        let (mut count, mut least) = (0_u32, f64::INFINITY);
        for (_, alternatives) in targets.iter().filter(|(target, _)| assigning::domain_of(target, key) == domain) {
            let worth = self.worth(class, alternatives);
            least = worth.unwrap_or(f64::INFINITY).min(least);
            if count < pending && worth.is_some() {
                count = count.saturating_add(self.launchable(class, alternatives, pending));
            }
            if count < pending {
                count = count.saturating_add(self.fit_on_existing(class, level, alternatives));
            }
        }
        (count.min(pending), least)
    }

    /// The number of pods of a class for which nodes can be launched within the limits, at most `most`.
    fn launchable(&mut self, class: usize, alternatives: &[AlternativeId], most: u32) -> u32 {
        let of_class = &self.classes.list[class];
        let mut count = 0_u32;
        for pool in &mut self.pools {
            let all = &self.classes.alternatives;
            let mut sets = alternatives.iter();
            let Some(set) = sets.find_map(|one| pool.admit_class(pools::BASE, *one, all, of_class.needs(class))) else {
                continue;
            };
            let offer = &pool.set(set).offer;
            let on = offer.shapes.iter().map(|place| &offer.choices[*place]).map(|choice| {
                let each = dense::times_fitting(&of_class.requests, &pool.types[choice.kind].allocatable, most);
                each.saturating_mul(if each == 0 { 0 } else { pool.limits.allowed(&choice.share, most) })
            });
            count = count.saturating_add(on.max().unwrap_or(0));
            if count >= most {
                return most;
            }
        }
        count
    }
}
