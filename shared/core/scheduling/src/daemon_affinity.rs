//! Affinity of pods to the pods of DaemonSets on new nodes.

use crate::classes::Class;
use crate::constraints::groups::{GroupId, Kind};
use crate::pools::Daemons;
use crate::topology::{ABSENT, Domain, Topology, domain_in};
use std::rc::Rc;

impl Class<'_> {
    /// The affinity to pods of DaemonSets that nothing in a target meets, so that only a new node can.
    pub(crate) fn unmet<'c>(
        &'c self,
        level: usize,
        target: &'c [(usize, Domain)],
        topology: &'c Topology<'_>,
    ) -> impl Iterator<Item = GroupId> {
        let of_level = self.level(level).filter(|_| !topology.daemon_pods.is_empty());
        let groups = of_level.into_iter().flat_map(|level| level.bounded.iter().chain(&level.hosts));
        groups.copied().filter(move |&group| {
            let nothing_here = || match topology.key(group) {
                Some(key) => topology.matching(group, domain_in(target, key).unwrap_or(ABSENT)) == 0,
                None => !topology.matches_anywhere(group),
            };
            topology.kind(group) == Kind::Affinity
                && topology.daemon_pods.selects_any(group)
                && nothing_here()
                && (!self.is_selected_by(group) || topology.matches_anywhere(group))
        })
    }

    /// Whether new nodes with these DaemonSets meet what nothing else in a target meets.
    pub(crate) fn is_met_by(
        &self,
        level: usize,
        target: &[(usize, Domain)],
        topology: &Topology<'_>,
        daemons: &Rc<Daemons>,
    ) -> bool {
        self.unmet(level, target, topology).all(|group| topology.daemon_pods.has(daemons, group))
    }
}
