//! The topology constraints that exclude pods. Determined only for unschedulable pods.

use crate::classes::{Class, Level};
use crate::constraints::AlternativeId;
use crate::constraints::groups::{GroupId, Kind};
use crate::packing::assigning::{self, DomainCandidate};
use crate::problem::reason::{Barrier, BarrierKind, PodFault};
use crate::topology::{ABSENT, Topology};

/// The alternatives that topology allows by the final counts; or what excludes the pods everywhere.
pub(crate) fn by_domains(
    class: &Class<'_>,
    level: &Level,
    candidates: &[DomainCandidate],
    eligible: &[(GroupId, Vec<bool>)],
    topology: &Topology<'_>,
) -> Result<Vec<AlternativeId>, PodFault> {
    let mut open = Vec::new();
    let mut constraints: Vec<(GroupId, Barrier)> = Vec::new();
    for candidate in candidates {
        let Some(group) = assigning::first_against(class, level, &candidate.target, eligible, topology) else {
            open.extend(&candidate.alternatives);
            continue;
        };
        let own = level.bounded.contains(&group);
        let barrier = match constraints.iter().position(|(known, _)| *known == group) {
            Some(place) => &mut constraints[place].1,
            None => {
                let kind = barrier_kind(group, own, eligible, topology);
                let topology_key = topology.groups.list[group].key.clone();
                constraints.push((group, Barrier { topology_key, kind, domains: Vec::new() }));
                let last = constraints.len() - 1;
                &mut constraints[last].1
            }
        };
        let key = topology.key(group);
        let domain = assigning::domain_of(&candidate.target, key);
        let name = match domain {
            ABSENT => "nodes without it".to_owned(),
            domain => key.map(|key| topology.domains[key][domain].clone()).unwrap_or_default(),
        };
        if !barrier.domains.iter().any(|(known, _)| *known == name) {
            barrier.domains.push((name, topology.matching(group, domain)));
        }
    }
    if open.is_empty() {
        return Err(PodFault::Topology { constraints: constraints.into_iter().map(|(_, barrier)| barrier).collect() });
    }
    Ok(open)
}

fn barrier_kind(group: GroupId, own: bool, eligible: &[(GroupId, Vec<bool>)], topology: &Topology<'_>) -> BarrierKind {
    match topology.kind(group) {
        Kind::Spread { max_skew, min_domains } => {
            let known = assigning::domains_of(eligible, group);
            let min_count = topology.least(group, known, min_domains);
            BarrierKind::Spread { max_skew, min_count }
        }
        Kind::Affinity => BarrierKind::Affinity,
        Kind::Anti if own => BarrierKind::AntiAffinity,
        Kind::Anti => BarrierKind::AntiAffinityOfOthers,
    }
}

/// A label that the pods' nodes must have and that no node has or can get.
pub(crate) fn by_absence(level: &Level, topology: &Topology<'_>) -> Option<PodFault> {
    let without = |key: &&usize| topology.domains[**key].len() <= 1 && level.needs_label(**key);
    let key = level.keys.iter().find(without)?;
    Some(PodFault::NoDomain { topology_key: topology.keys[*key].clone() })
}

/// The constraints over the host name that exclude the pods from every node.
///
/// Only affinity can: a new node has no pods that exclude others.
pub(crate) fn by_hosts(class: &Class<'_>, level: usize, topology: &Topology<'_>) -> Option<PodFault> {
    let hosts = class.level(level).into_iter().flat_map(|level| &level.hosts);
    let constraints: Vec<Barrier> = hosts
        .filter(|group| topology.kind(**group) == Kind::Affinity)
        .map(|&group| Barrier {
            topology_key: topology.groups.list[group].key.clone(),
            kind: BarrierKind::Affinity,
            domains: Vec::new(),
        })
        .collect();
    (!constraints.is_empty()).then_some(PodFault::Topology { constraints })
}
