//! The capacity for ProvisioningRequests: held on nodes that exist, or launched for all pods of a request or for none.

use crate::facts::Facts;
use crate::nodes::cluster_state::ClusterState;
use crate::requests::Requested;
use crate::stages::policy;
use nodeless_model::Pod;
use nodeless_model::plural::counted;
use nodeless_model::provisioning_request::{Class, Due, Finding};
use nodeless_scheduling::{Options, Problem, Reason, Solution, Unschedulable};
use std::collections::{HashMap, HashSet};

/// The part of the work limit that holding capacity may take.
const PART_FOR_HOLDING: u64 = 4;

/// Holds the capacity of provisioned requests on initialized nodes, and finds capacity there for requests that launch no nodes.
///
/// The pending pods of a provisioned request take its capacity first: they are about to be bound. Those that do not fit, because other
/// pods took the capacity, get nodes like all pods.
pub(super) fn hold<'a>(
    facts: Facts<'a>,
    cluster_state: &mut ClusterState<'a>,
    requests: &'a [Requested<'a>],
    findings: &mut [Finding],
) {
    let mut work = facts.snapshot.work.provisioning.map(|work| work / PART_FOR_HOLDING);
    let pods = booked(cluster_state, requests);
    if !pods.is_empty() {
        let placed = on_existing_nodes(facts, cluster_state, &pods, &mut work);
        cluster_state.hold(placed.into_iter().map(|(pod, node)| (node, pods[pod])).collect());
    }
    for (one, finding) in requests.iter().zip(findings) {
        if one.needs(Class::CheckCapacity) && work != Some(0) {
            *finding = check(facts, cluster_state, one, &mut work);
        }
    }
}

/// The pending pods and the virtual pods of provisioned requests.
fn booked<'a>(cluster_state: &ClusterState<'a>, requests: &'a [Requested<'a>]) -> Vec<&'a Pod> {
    let booked: Vec<&Requested<'_>> = requests.iter().filter(|one| one.due == Due::Booking).collect();
    if booked.is_empty() {
        return Vec::new();
    }
    let planned: HashSet<&str> = cluster_state.pending.planned().map(|pod| pod.uid.as_str()).collect();
    let pending = |one: &&Requested<'a>| one.pending.clone();
    let pending = booked.iter().flat_map(pending).filter(|pod| planned.contains(pod.uid.as_str()));
    pending.chain(booked.iter().flat_map(|one| one.virtual_pods())).collect()
}

/// Whether all pods of a request fit on initialized nodes, after all pending pods. Their capacity is held then.
fn check<'a>(
    facts: Facts<'a>,
    cluster_state: &mut ClusterState<'a>,
    request: &'a Requested<'a>,
    work: &mut Option<u64>,
) -> Finding {
    let own = request.virtual_pods();
    let mut pods: Vec<&Pod> = cluster_state.pending.planned().collect();
    let others = pods.len();
    pods.extend(own);
    let mut placed = on_existing_nodes(facts, cluster_state, &pods, work);
    placed.retain(|(pod, _)| *pod >= others);
    if placed.len() == own.len() {
        cluster_state.hold(placed.into_iter().map(|(pod, node)| (node, pods[pod])).collect());
        return Finding::Fits;
    }
    Finding::NotFound(format!(
        "{} of {} on the nodes of the cluster, and no nodes are launched for requests of the class {}",
        placed.len(),
        counted(own.len(), "pod"),
        Class::CheckCapacity.name()
    ))
}

/// Which of these pods, by index, fit on initialized nodes, each with the name of the node.
fn on_existing_nodes<'a>(
    facts: Facts<'a>,
    cluster_state: &ClusterState<'a>,
    pods: &[&'a Pod],
    work: &mut Option<u64>,
) -> Vec<(usize, String)> {
    let mut problem = cluster_state.problem_of(pods.to_vec(), &[], facts.snapshot.now);
    problem.nodes.retain(|node| node.initialized);
    let options = Options { max_work: *work, ..facts.snapshot.settings.scheduling };
    let solution = nodeless_scheduling::solve(&problem, &options);
    *work = work.map(|work| work.saturating_sub(solution.work));
    solution.placements.iter().map(|place| (place.pod, problem.nodes[place.node].name.clone())).collect()
}

/// Schedules all pods, and the virtual pods of requests that launch nodes, if all pods of a request can have nodes. Afterwards the cluster
/// has the virtual pods of these requests alone.
pub(super) fn solve_whole<'a>(
    facts: Facts<'a>,
    cluster_state: &mut ClusterState<'a>,
    requests: &'a [Requested<'a>],
    findings: &mut [Finding],
) -> (Problem<'a>, Solution) {
    let buffers = std::mem::take(&mut cluster_state.virtual_pods);
    let with_pods = |planned: &[usize]| {
        let pods = planned.iter().flat_map(|index| requests[*index].virtual_pods());
        pods.chain(buffers.iter().copied()).collect()
    };
    let is_planned = |index: &usize| requests[*index].needs(Class::AtomicScaleUp);
    let mut planned: Vec<usize> = (0..requests.len()).filter(is_planned).collect();
    cluster_state.virtual_pods = with_pods(&planned);
    let uids = |index: &usize| requests[*index].virtual_pods().iter().map(|pod| pod.uid.as_str()).collect();
    let (problem, solution) = policy::solve(facts, cluster_state, planned.iter().map(uids).collect());
    let refused = refused(&problem, &solution);
    planned.retain(|index| {
        let own = requests[*index].virtual_pods();
        let why = own.iter().find_map(|pod| refused.get(pod.uid.as_str()));
        findings[*index] = match why {
            Some(why) => Finding::NotFound(why.reasons.iter().map(Reason::to_string).collect::<Vec<_>>().join("; ")),
            None => complete(&problem, &solution, own),
        };
        why.is_none()
    });
    cluster_state.virtual_pods = with_pods(&planned);
    (problem, solution)
}

/// The virtual pods without a node, by uid.
fn refused<'a, 's>(problem: &Problem<'a>, solution: &'s Solution) -> HashMap<&'a str, &'s Unschedulable> {
    let of = |refused: &'s Unschedulable| {
        let pod = problem.pods.get(refused.pod).filter(|pod| pod.is_virtual())?;
        Some((pod.uid.as_str(), refused))
    };
    solution.unschedulable.iter().filter_map(of).collect()
}

/// How many of these pods, which all have nodes, fit on initialized ones.
fn complete(problem: &Problem<'_>, solution: &Solution, own: &[Pod]) -> Finding {
    let uids: HashSet<&str> = own.iter().map(|pod| pod.uid.as_str()).collect();
    let is_own = |pod: usize| problem.pods.get(pod).is_some_and(|pod| uids.contains(pod.uid.as_str()));
    let is_initialized = |node: usize| problem.nodes.get(node).is_some_and(|node| node.initialized);
    let placements = solution.placements.iter();
    let fitting = placements.filter(|place| is_own(place.pod) && is_initialized(place.node)).count();
    if fitting == own.len() { Finding::Fits } else { Finding::Launching { pods: own.len(), fitting } }
}
