//! The topology constraints that exclude pods. Determined only for unschedulable pods.

use crate::classes::{Class, Level};
use crate::constraints::AlternativeId;
use crate::constraints::groups::{GroupId, Kind, Relations};
use crate::packing::assigning::{self, DomainCandidate};
use crate::problem::Problem;
use crate::problem::reason::{Barrier, BarrierKind, PodFault};
use crate::topology::{ABSENT, Domain, Topology};
use nodeless_model::Pod;

/// The input of topology's explanations.
pub(crate) struct Barriers<'b, 'a> {
    pub(crate) input: &'b Problem<'a>,
    pub(crate) topology: &'b Topology<'a>,
}

impl<'a> Barriers<'_, 'a> {
    /// The alternatives that topology allows by the final counts; or what excludes the pods everywhere.
    pub(crate) fn by_domains(
        &self,
        class: &Class<'_>,
        level: &Level,
        candidates: &[DomainCandidate],
        eligible: &[(GroupId, Vec<bool>)],
    ) -> Result<Vec<AlternativeId>, PodFault> {
        let topology = self.topology;
        let mut open = Vec::new();
        let mut excluded: Vec<(GroupId, Vec<Domain>)> = Vec::new();
        for candidate in candidates {
            let Some(group) = assigning::first_against(class, level, &candidate.target, eligible, topology) else {
                open.extend(&candidate.alternatives);
                continue;
            };
            let domain = assigning::domain_of(&candidate.target, topology.key(group));
            match excluded.iter_mut().find(|(known, _)| *known == group) {
                Some((_, domains)) if domains.contains(&domain) => {}
                Some((_, domains)) => domains.push(domain),
                None => excluded.push((group, vec![domain])),
            }
        }
        if !open.is_empty() {
            return Ok(open);
        }
        let barriers = excluded.into_iter().map(|(group, domains)| Barrier {
            topology_key: topology.groups.list[group].key.clone(),
            kind: self.kind(group, &domains, level.bounded.contains(&group), eligible),
            domains: domains
                .iter()
                .map(|domain| (self.name(group, *domain), topology.matching(group, *domain)))
                .collect(),
        });
        Err(PodFault::Topology { constraints: barriers.collect() })
    }

    fn name(&self, group: GroupId, domain: Domain) -> String {
        match domain {
            ABSENT => "nodes without it".to_owned(),
            domain => {
                let key = self.topology.key(group);
                key.map(|key| self.topology.domains[key][domain].clone()).unwrap_or_default()
            }
        }
    }

    fn kind(&self, group: GroupId, domains: &[Domain], own: bool, eligible: &[(GroupId, Vec<bool>)]) -> BarrierKind {
        match self.topology.kind(group) {
            Kind::Spread { max_skew, min_domains } => {
                let known = assigning::domains_of(eligible, group);
                let min_count = self.topology.least(group, known, min_domains);
                BarrierKind::Spread { max_skew, min_count }
            }
            Kind::Affinity => BarrierKind::Affinity,
            Kind::Anti if own => BarrierKind::AntiAffinity,
            Kind::Anti => BarrierKind::AntiAffinityOfOthers { example: self.owner(group, domains) },
        }
    }

    /// The first by name of the running pods in these domains with an anti-affinity, or of the pending pods with it.
    fn owner(&self, group: GroupId, domains: &[Domain]) -> Option<String> {
        let groups = &self.topology.groups;
        let key = self.topology.key(group)?;
        let bound = self.input.bound_pods.iter().flat_map(|node| node.pods.iter().map(move |pod| (node, *pod)));
        let running = bound
            .filter(|(_, pod)| pod.is_active() && groups.owned_by_bound(pod).contains(&group))
            .filter(|(node, _)| domains.contains(&self.topology.domains_of_node(node)[key]))
            .map(|(_, pod)| pod);
        let owns = |relations: &Relations| groups.owned[relations.owned].required.contains(&group);
        let related = self.input.pods.iter().zip(&groups.relations);
        let pending = related.filter(|(_, relations)| owns(relations)).map(|(pod, _)| *pod);
        let by_name = |a: &&'a Pod, b: &&'a Pod| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name));
        running.min_by(by_name).or_else(|| pending.min_by(by_name)).map(Pod::key)
    }
}

/// A label that the pods' nodes must have and that no node has or can get.
pub(crate) fn absent_label<'t>(level: &Level, topology: &'t Topology<'_>) -> Option<&'t str> {
    let without = |key: &&usize| topology.domains[**key].len() <= 1 && level.needs_label(**key);
    level.keys.iter().find(without).map(|key| topology.keys[*key].as_str())
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
