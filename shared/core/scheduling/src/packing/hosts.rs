//! The pods of a single node by group over the host name.

use crate::classes::Class;
use crate::constraints::groups::{GroupId, Kind};
use crate::pools::Daemons;
use crate::topology::Topology;
use std::rc::Rc;

/// The pods of a node by the groups over the host name, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostCounts(Vec<HostCount>);

#[derive(Clone, Copy, Debug)]
struct HostCount {
    group: GroupId,
    /// Pods that the group selects.
    matching: u32,
    /// Pods that own the group and exclude others by it: anti-affinity or spread.
    owners: u32,
    /// Pods for which the group is only a preference.
    preferring: u32,
}

impl HostCounts {
    fn count(&self, group: GroupId) -> HostCount {
        match self.place(group) {
            Ok(place) => self.0[place],
            Err(_) => HostCount { group, matching: 0, owners: 0, preferring: 0 },
        }
    }

    fn at(&mut self, group: GroupId) -> &mut HostCount {
        let place = self.place(group).unwrap_or_else(|place| {
            self.0.insert(place, HostCount { group, matching: 0, owners: 0, preferring: 0 });
            place
        });
        &mut self.0[place]
    }

    fn place(&self, group: GroupId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&group, |count| count.group)
    }

    /// Those of the DaemonSets of a new node.
    pub(crate) fn of_new_node(topology: &Topology<'_>, daemons: &Rc<Daemons>) -> Self {
        let mut hosts = Self::default();
        for one in topology.daemon_pods.relations(daemons).iter().filter(|one| topology.key(one.group).is_none()) {
            let count = hosts.at(one.group);
            count.matching += u32::from(!one.owns);
            count.owners += u32::from(one.owns);
        }
        hosts
    }

    /// Adds the counts of other pods of the same node.
    pub(crate) fn join(&mut self, other: &Self) {
        for more in &other.0 {
            let count = self.at(more.group);
            count.matching += more.matching;
            count.owners += more.owners;
            count.preferring += more.preferring;
        }
    }

    /// Changes the counts by a pod that runs here: of the groups that select it, and of those that it owns.
    pub(crate) fn change_bound<'g>(
        &mut self,
        selected: impl Iterator<Item = &'g GroupId>,
        owned: impl Iterator<Item = &'g GroupId>,
        change: impl Fn(&mut u32),
    ) {
        selected.for_each(|group| change(&mut self.at(*group).matching));
        owned.for_each(|group| change(&mut self.at(*group).owners));
    }

    /// Counts pods of a class that are placed here at a level.
    pub(crate) fn add(&mut self, class: &Class<'_>, level: usize, count: u32) {
        for group in &class.selected_hosts {
            self.at(*group).matching += count;
        }
        for group in class.level(level).into_iter().flat_map(|level| &level.hosts) {
            if class.required.binary_search(group).is_ok() {
                self.at(*group).owners += count;
            } else {
                self.at(*group).preferring += count;
            }
        }
    }

    /// Drops the preferences of the pods on the node.
    pub(crate) fn drop_preferences(&mut self) {
        self.0.iter_mut().for_each(|count| count.preferring = 0);
    }

    /// The number of pods of a class that may be added.
    ///
    /// The rule for the host name: a new node is always possible, so the emptiest domain counts zero. The constraints
    /// of the pods on the node and those of the added pods both hold, so the order in which the kube-scheduler places
    /// them does not matter.
    pub(crate) fn max_added(&self, class: &Class<'_>, level: usize, topology: &Topology<'_>) -> u32 {
        let kept_by = |group: &GroupId| {
            let here = self.count(*group);
            match topology.kind(*group) {
                _ if here.owners + here.preferring == 0 => u32::MAX,
                Kind::Anti => 0,
                Kind::Spread { max_skew, .. } => max_skew.saturating_sub(here.matching),
                Kind::Affinity => u32::MAX,
            }
        };
        let kept = class.selected_hosts.iter().map(kept_by).min().unwrap_or(u32::MAX);
        if kept == 0 {
            return 0;
        }
        let allowed = |group: &GroupId| {
            let here = self.count(*group).matching;
            let selects_itself = class.is_selected_by(*group);
            match (topology.kind(*group), selects_itself) {
                (Kind::Spread { max_skew, .. }, true) => max_skew.saturating_sub(here),
                (Kind::Spread { max_skew, .. }, false) => {
                    if here <= max_skew {
                        u32::MAX
                    } else {
                        0
                    }
                }
                (Kind::Anti, true) => u32::from(here == 0),
                (Kind::Anti, false) => {
                    if here == 0 {
                        u32::MAX
                    } else {
                        0
                    }
                }
                (Kind::Affinity, itself) => {
                    let first = itself && !topology.matches_anywhere(*group);
                    if here > 0 || first { u32::MAX } else { 0 }
                }
            }
        };
        kept.min(class.level(level).map_or(0, |level| level.hosts.iter().map(allowed).min().unwrap_or(u32::MAX)))
    }

    /// Whether the pods on the node, including pods of this class, meet the constraints of the class.
    pub(crate) fn allows(&self, class: &Class<'_>, level: usize, topology: &Topology<'_>) -> bool {
        class.level(level).is_none_or(|level| {
            level.hosts.iter().all(|group| {
                let here = self.count(*group).matching;
                match topology.kind(*group) {
                    Kind::Spread { max_skew, .. } => here <= max_skew,
                    Kind::Anti => here <= u32::from(class.is_selected_by(*group)),
                    Kind::Affinity => here > 0,
                }
            })
        })
    }
}
