//! The zones and preferences of the planned pods, which refinement does not change.

use super::planned_nodes::{existing, nodes, of_launch};
use nodeless_model::pod::TopologySpread;
use nodeless_model::{Node, NodeClaim, Pod, labels};
use nodeless_scheduling::{
    BoundPods, Dependence, Launch, Options, PreferencePolicy, Problem, Solution, dependences, held_preferences,
};

/// The constraints that refinement keeps, by the index of the pod.
pub(super) struct Pinned {
    dependences: Vec<Dependence>,
    /// The pods with these constraints as requirements.
    pods: Vec<Option<Pod>>,
}

impl Pinned {
    /// `None` if a launch refers to something unknown.
    pub(super) fn new(problem: &Problem<'_>, solution: &Solution, options: &Options) -> Option<Self> {
        let dependences = dependences(problem, options);
        let mut pods: Vec<Option<Pod>> = vec![None; problem.pods.len()];
        if options.preferences == PreferencePolicy::Respect {
            let planned = nodes(problem, solution)?;
            for (place, index, pod) in preferred(problem, solution, &planned) {
                pods[solution.launches[place].pods[index]] = Some(pod);
            }
        }
        for launch in &solution.launches {
            for pod in launch.pods.iter().filter(|pod| dependences[**pod] == Dependence::Zone) {
                let apart = spreads_over_nodes(problem, launch, problem.pods[*pod]);
                let held = pods[*pod].get_or_insert_with(|| problem.pods[*pod].clone());
                keep_in_zone(held, &launch.offering.zone);
                held.template_mut().topology_spread.extend(apart);
            }
        }
        Some(Self { dependences, pods })
    }

    pub(super) fn dependence(&self, pod: usize) -> Dependence {
        self.dependences.get(pod).copied().unwrap_or(Dependence::Other)
    }

    /// Whether the node of a pod has to be in the zone for which it was planned.
    pub(super) fn keeps_zone(&self, pod: usize) -> bool {
        self.dependence(pod) != Dependence::None
    }

    /// The pod with the constraints as requirements.
    pub(super) fn pod<'h, 'a: 'h>(&'h self, problem: &Problem<'a>, pod: usize) -> &'h Pod {
        self.pods[pod].as_ref().unwrap_or(problem.pods[pod])
    }
}

/// The required spreads of a pod over zones, as spreads over nodes, as far as its node meets these: the kube-scheduler counts the pods that
/// are nominated for a node when it checks `maxSkew` there, and binds no more than this to it at the first attempt.
fn spreads_over_nodes(problem: &Problem<'_>, launch: &Launch, pod: &Pod) -> Vec<TopologySpread> {
    let is_met = |spread: &&TopologySpread| {
        let counted = launch.pods.iter().filter(|other| spread.counts(pod, problem.pods[**other])).count();
        i32::try_from(counted).is_ok_and(|counted| counted <= spread.max_skew)
    };
    let over_zones = |spread: &&TopologySpread| spread.hard && labels::normalize(&spread.topology_key) == labels::ZONE;
    let over_nodes = |spread: &TopologySpread| TopologySpread {
        topology_key: labels::HOSTNAME.to_owned(),
        min_domains: None,
        ..spread.clone()
    };
    pod.template.topology_spread.iter().filter(over_zones).filter(is_met).map(over_nodes).collect()
}

/// Restricts a pod to a zone. Its constraints over zones hold there, because the counts of the zones do not change.
fn keep_in_zone(pod: &mut Pod, zone: &str) {
    let other = |key: &str| labels::normalize(key) != labels::ZONE;
    pod.template_mut().topology_spread.retain(|spread| other(&spread.topology_key));
    pod.template_mut().required_pod_affinity.retain(|term| other(&term.topology_key));
    pod.template_mut().required_pod_anti_affinity.retain(|term| other(&term.topology_key));
    pod.template_mut().preferred_pod_affinity.retain(|term| other(&term.preference.topology_key));
    pod.template_mut().preferred_pod_anti_affinity.retain(|term| other(&term.preference.topology_key));
    pod.template_mut().node_selector.insert(labels::ZONE.to_owned(), zone.to_owned());
}

/// The pods of launches whose preferences the plan meets: launch, place among its pods, and the pod.
fn preferred(problem: &Problem<'_>, solution: &Solution, planned: &[(Node, NodeClaim)]) -> Vec<(usize, usize, Pod)> {
    let launched = planned.iter().zip(&solution.launches);
    let mut running: Vec<BoundPods<'_>> =
        launched.map(|((node, _), launch)| BoundPods::on(node, of_launch(problem, launch))).collect();
    running.extend(existing(problem, solution).bound_pods);
    let held = held_preferences(&running, problem.facts).into_iter();
    held.filter(|held| held.node < planned.len()).map(|held| (held.node, held.place, held.pod)).collect()
}
