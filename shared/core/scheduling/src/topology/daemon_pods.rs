//! The pods of DaemonSets on new nodes, for topology constraints.

use super::Topology;
use crate::constraints::groups::{GroupId, Groups, Kind};
use crate::daemon_sets;
use crate::pools::{Daemons, Pool};
use crate::problem::Problem;
use crate::problem::reason::{Barrier, BarrierKind};
use nodeless_model::DaemonSetName;
use std::rc::Rc;

/// The pods of the DaemonSets of new nodes by topology group. Empty if no group concerns any of them.
#[derive(Debug, Default)]
pub(crate) struct DaemonPods(Vec<(Rc<Daemons>, Vec<Relation>)>);

/// A topology group that concerns the pod of a DaemonSet.
#[derive(Debug)]
pub(crate) struct Relation {
    pub(crate) group: GroupId,
    /// The index in [`Daemons::sets`].
    set: usize,
    /// Whether the pod owns the group, and keeps away the pods that it selects; otherwise the group selects the pod.
    pub(crate) owns: bool,
}

/// What keeps pods off new nodes with some DaemonSets.
#[derive(Clone, Debug)]
pub(crate) struct KeptOff {
    pub(crate) daemons: Rc<Daemons>,
    /// The constraint, and the DaemonSet whose pod it concerns.
    pub(crate) barrier: Barrier,
    pub(crate) daemon_set: DaemonSetName,
}

impl DaemonPods {
    /// For the new nodes of these NodePools.
    pub(super) fn new<'a>(problem: &Problem<'a>, groups: &mut Groups<'a>, pools: &[Pool<'_>]) -> Self {
        let mut found: Vec<(Rc<Daemons>, Vec<Relation>)> = Vec::new();
        if groups.list.is_empty() || problem.daemon_sets.is_empty() {
            return Self(found);
        }
        for kind in pools.iter().flat_map(|pool| pool.types.iter()) {
            if found.iter().rev().any(|(known, _)| Rc::ptr_eq(known, &kind.daemons)) {
                continue;
            }
            let mut relations = Vec::new();
            for (set, place) in kind.daemons.places.iter().enumerate() {
                let Some(daemon_set) = problem.daemon_sets.get(*place).filter(|set| daemon_sets::is_created(set))
                else {
                    continue;
                };
                let signature = groups.signature(&daemon_set.template);
                let selected = groups.selected[signature].iter();
                relations.extend(selected.map(|group| Relation { group: *group, set, owns: false }));
                let owned = groups.owned_by_bound(&daemon_set.template).iter();
                relations.extend(owned.map(|group| Relation { group: *group, set, owns: true }));
            }
            found.push((Rc::clone(&kind.daemons), relations));
        }
        if found.iter().all(|(_, relations)| relations.is_empty()) {
            found.clear();
        }
        Self(found)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn relations(&self, daemons: &Rc<Daemons>) -> &[Relation] {
        self.0.iter().find(|(known, _)| Rc::ptr_eq(known, daemons)).map_or(&[], |(_, relations)| relations)
    }

    /// Whether a group selects a pod that each new node with these DaemonSets gets.
    pub(crate) fn has(&self, daemons: &Rc<Daemons>, group: GroupId) -> bool {
        self.relations(daemons).iter().any(|one| one.group == group && !one.owns)
    }

    /// Whether a group selects a pod of some DaemonSet of new nodes.
    pub(crate) fn selects_any(&self, group: GroupId) -> bool {
        self.0.iter().any(|(_, relations)| relations.iter().any(|one| one.group == group && !one.owns))
    }

    /// The new nodes that pods cannot be on, by their DaemonSets. The pods are selected by some groups and own required ones, both ascending.
    pub(crate) fn kept_off(&self, selected: &[GroupId], required: &[GroupId], topology: &Topology<'_>) -> Vec<KeptOff> {
        let by = |(daemons, relations): &(Rc<Daemons>, Vec<Relation>)| {
            let (set, group, kind) = relations.iter().find_map(|one| {
                let kind = excluded_by(one, relations, selected, required, topology)?;
                Some((one.set, one.group, kind))
            })?;
            let topology_key = topology.groups.list[group].key.clone();
            Some(KeptOff {
                daemons: Rc::clone(daemons),
                barrier: Barrier { topology_key, kind, domains: Vec::new() },
                daemon_set: daemons.sets[set].key(),
            })
        };
        self.0.iter().filter_map(by).collect()
    }
}

/// How a group keeps pods off a node with the pod of a DaemonSet, if it does.
fn excluded_by(
    one: &Relation,
    all: &[Relation],
    selected: &[GroupId],
    required: &[GroupId],
    topology: &Topology<'_>,
) -> Option<BarrierKind> {
    let is_selected = selected.binary_search(&one.group).is_ok();
    if one.owns {
        return is_selected.then_some(BarrierKind::AntiAffinityOfOthers { example: None });
    }
    required.binary_search(&one.group).ok()?;
    match topology.kind(one.group) {
        Kind::Anti => Some(BarrierKind::AntiAffinity),
        Kind::Spread { max_skew, .. } if topology.key(one.group).is_none() => {
            let here = all.iter().filter(|other| other.group == one.group && !other.owns).count();
            let with_pod = u32::try_from(here).unwrap_or(u32::MAX).saturating_add(u32::from(is_selected));
            (with_pod > max_skew).then_some(BarrierKind::Spread { max_skew, min_count: 0 })
        }
        Kind::Spread { .. } | Kind::Affinity => None,
    }
}
