//! Pods that are alike in everything that matters, as one.

use crate::Reason;
use crate::constraints::{self, Alternative};
use crate::dense::{Amounts, ResourceIndex};
use crate::problem::{Options, Problem};
use nodeless_model::pod::{HostPort, PodAffinityTerm, TopologySpread, VolumeClaim, Weighted};
use nodeless_model::requirement::RequirementTerm;
use nodeless_model::{Pod, ResourceList, StringMap, Toleration, resources};
use std::cmp::Reverse;
use std::collections::HashMap;

/// The place of an [`Alternative`] in the table of all that occur.
pub(crate) type AlternativeId = usize;

/// Pods that are alike in everything that matters.
#[derive(Debug)]
pub(crate) struct Class<'a> {
    /// One of them.
    pub(crate) example: &'a Pod,
    /// All of them, the oldest first: indices into the problem's pods.
    pub(crate) pods: Vec<usize>,
    /// What one of them needs.
    pub(crate) requests: Amounts,
    /// Ports that one of them takes on its node.
    pub(crate) host_ports: &'a [HostPort],
    /// From the most to the least preferred level, the alternatives of that level, none better than another. Empty where
    /// the pods are refused.
    pub(crate) levels: Vec<Vec<AlternativeId>>,
    /// Why the pods are refused.
    pub(crate) refused: Option<Reason>,
}

impl Class<'_> {
    /// How many of them can be on one node as far as their own ports go.
    pub(crate) fn most_per_node(&self) -> u32 {
        if self.host_ports.is_empty() { u32::MAX } else { 1 }
    }

    /// Whether one of them can join a node where these ports are taken.
    pub(crate) fn ports_free(&self, taken: &[HostPort]) -> bool {
        self.host_ports.iter().all(|port| !taken.iter().any(|other| port.conflicts_with(other)))
    }
}

/// All classes in the order in which they are placed, and the alternatives that their levels refer to.
#[derive(Debug)]
pub(crate) struct Classes<'a> {
    pub(crate) list: Vec<Class<'a>>,
    pub(crate) alternatives: Vec<Alternative>,
}

/// Everything that tells two pods apart. Its order breaks ties between classes of one size.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key<'a> {
    requests: &'a ResourceList,
    priority: Reverse<i32>,
    node_selector: &'a StringMap,
    required_node_affinity: &'a [Vec<RequirementTerm>],
    preferred_node_affinity: &'a [Weighted<Vec<RequirementTerm>>],
    has_match_fields: bool,
    tolerations: &'a [Toleration],
    host_ports: &'a [HostPort],
    volumes: Option<(&'a str, &'a [VolumeClaim])>,
    resource_claims: &'a [String],
    pod_affinity: &'a [PodAffinityTerm],
    pod_anti_affinity: &'a [PodAffinityTerm],
    topology_spread: &'a [TopologySpread],
}

impl<'a> Key<'a> {
    fn of(pod: &'a Pod) -> Self {
        let volumes = (!pod.volume_claims.is_empty()).then_some((pod.namespace.as_str(), &pod.volume_claims[..]));
        Self {
            requests: &pod.requests,
            priority: Reverse(pod.priority),
            node_selector: &pod.node_selector,
            required_node_affinity: &pod.required_node_affinity,
            preferred_node_affinity: &pod.preferred_node_affinity,
            has_match_fields: pod.has_match_fields,
            tolerations: &pod.tolerations,
            host_ports: &pod.host_ports,
            volumes,
            resource_claims: &pod.resource_claims,
            pod_affinity: &pod.required_pod_affinity,
            pod_anti_affinity: &pod.required_pod_anti_affinity,
            topology_spread: &pod.topology_spread,
        }
    }
}

impl<'a> Classes<'a> {
    /// Groups the pods. The largest classes by cpu, then memory, come first; with `by_priority` those of higher priority
    /// before them.
    pub(crate) fn of(
        problem: &Problem<'a>,
        options: &Options,
        resources: &ResourceIndex,
        some_taint_prefers: bool,
        by_priority: bool,
    ) -> Self {
        let mut places: HashMap<Key<'a>, usize> = HashMap::new();
        let mut members: Vec<Vec<usize>> = Vec::new();
        for (index, pod) in problem.pods.iter().enumerate() {
            let place = *places.entry(Key::of(pod)).or_insert_with(|| {
                members.push(Vec::new());
                members.len() - 1
            });
            members[place].push(index);
        }
        let mut keyed: Vec<(Key<'a>, usize)> = places.into_iter().collect();
        let size = |key: &Key<'_>, name| Reverse(key.requests.get(name));
        keyed.sort_unstable_by(|(a, _), (b, _)| {
            let order = |key: &Key<'a>| {
                (
                    by_priority.then_some(key.priority),
                    size(key, resources::name::CPU),
                    size(key, resources::name::MEMORY),
                )
            };
            order(a).cmp(&order(b)).then_with(|| a.cmp(b))
        });

        let mut table = AlternativeTable::default();
        let list = keyed
            .into_iter()
            .map(|(_, place)| {
                let pods = oldest_first(std::mem::take(&mut members[place]), &problem.pods);
                let example = problem.pods[pods[0]];
                let alternatives =
                    constraints::levels(example, &problem.volumes, options.preferences, some_taint_prefers);
                let (levels, refused) = match alternatives {
                    Ok(levels) => (levels, None),
                    Err(fault) => (Vec::new(), Some(Reason::Pod(fault))),
                };
                let levels =
                    levels.into_iter().map(|level| level.into_iter().map(|one| table.id(one)).collect()).collect();
                Class {
                    example,
                    requests: resources.amounts(&example.requests),
                    host_ports: &example.host_ports,
                    pods,
                    levels,
                    refused,
                }
            })
            .collect();
        Self { list, alternatives: table.list }
    }
}

fn oldest_first(mut indices: Vec<usize>, pods: &[&Pod]) -> Vec<usize> {
    indices.sort_by_cached_key(|&index| {
        let pod = pods[index];
        (pod.created, &pod.namespace, &pod.name, &pod.uid)
    });
    indices
}

/// Gives each different alternative a number, so that what follows from it is worked out once.
#[derive(Default)]
struct AlternativeTable {
    ids: HashMap<Alternative, AlternativeId>,
    list: Vec<Alternative>,
}

impl AlternativeTable {
    fn id(&mut self, alternative: Alternative) -> AlternativeId {
        if let Some(id) = self.ids.get(&alternative) {
            return *id;
        }
        let id = self.list.len();
        self.list.push(alternative.clone());
        self.ids.insert(alternative, id);
        id
    }
}
