//! The capacity for ProvisioningRequests: held on nodes that exist, or launched for all pods of a request or for none.

use crate::plan::facts::Facts;
use crate::plan::nodes::cluster_state::ClusterState;
use crate::plan::requests::Requested;
use crate::plan::stages::policy;
use nodeless_model::Pod;
use nodeless_model::provisioning_request::{Class, Due, Finding};
use nodeless_scheduling::{Options, Problem, Reason, Solution, Unschedulable};
use std::collections::{BTreeMap, HashMap, HashSet};

/// After so many solutions with incomplete requests, all incomplete requests are left out at once, and after one more, all requests.
const SOLUTIONS: usize = 6;
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
    let waiting: HashSet<&str> = cluster_state.waiting().into_iter().map(|pod| pod.uid.as_str()).collect();
    let pending = |one: &&Requested<'a>| one.pending.clone();
    let pending = booked.iter().flat_map(pending).filter(|pod| waiting.contains(pod.uid.as_str()));
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
    let mut pods = cluster_state.waiting();
    let others = pods.len();
    pods.extend(own);
    let mut placed = on_existing_nodes(facts, cluster_state, &pods, work);
    placed.retain(|(pod, _)| *pod >= others);
    if placed.len() == own.len() {
        cluster_state.hold(placed.into_iter().map(|(pod, node)| (node, pods[pod])).collect());
        return Finding::Fits;
    }
    Finding::NotFound(format!(
        "{} of {} pods fit on the nodes of the cluster, and no nodes are launched for requests of the class {}",
        placed.len(),
        own.len(),
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

/// A solution for some of the requests that launch nodes, by index.
struct Attempt<'a> {
    planned: Vec<usize>,
    problem: Problem<'a>,
    solution: Solution,
}

/// Schedules all pods, and the virtual pods of requests that launch nodes, if all pods of a request can have nodes. While the solution
/// leaves one of its pods without a node, the newest of the incomplete requests is left out and the problem is solved again. A request
/// that was left out for an older one, which is then left out itself, is tried again.
pub(super) fn solve_whole<'a>(
    facts: Facts<'a>,
    cluster_state: &mut ClusterState<'a>,
    requests: &'a [Requested<'a>],
    findings: &mut [Finding],
) -> (Problem<'a>, Solution) {
    let buffers = std::mem::take(&mut cluster_state.virtual_pods);
    let is_planned = |index: &usize| requests[*index].needs(Class::AtomicScaleUp);
    let mut planned: Vec<usize> = (0..requests.len()).filter(is_planned).collect();
    let mut solve = |planned: Vec<usize>| {
        let pods = planned.iter().flat_map(|index| requests[*index].virtual_pods());
        cluster_state.virtual_pods = pods.chain(buffers.iter().copied()).collect();
        let (problem, solution) = policy::solve(facts, cluster_state);
        Attempt { planned, problem, solution }
    };
    let (mut solutions, mut work) = (0, 0_u64);
    let mut left_out: Vec<usize> = Vec::new();
    let mut found: Option<Attempt<'_>> = None;
    let found = loop {
        let attempt = solve(planned);
        solutions += 1;
        work = work.saturating_add(attempt.solution.work);
        let has_work = facts.snapshot.work.provisioning.is_none_or(|max| work < max / 2);
        let one_by_one = solutions < SOLUTIONS && has_work;
        let incomplete = incomplete(&attempt, requests);
        if found.is_none() && !incomplete.is_empty() {
            planned = if solutions > SOLUTIONS { Vec::new() } else { attempt.planned };
            let skip = if one_by_one { incomplete.len() - 1 } else { 0 };
            for (index, why) in incomplete.into_iter().skip(skip) {
                planned.retain(|one| *one != index);
                left_out.push(index);
                findings[index] = Finding::NotFound(why);
            }
            continue;
        }
        if found.is_none() {
            // Without the last one, all others have nodes.
            left_out.pop();
        }
        let best = if incomplete.is_empty() { attempt } else { found.unwrap_or(attempt) };
        match left_out.pop().filter(|_| one_by_one) {
            Some(again) => planned = best.planned.iter().copied().chain([again]).collect(),
            None => break best,
        }
        found = Some(best);
    };
    for index in found.planned.iter().copied() {
        findings[index] = complete(&found, index, requests);
    }
    let pods = found.planned.iter().flat_map(|index| requests[*index].virtual_pods());
    cluster_state.virtual_pods = pods.chain(buffers.iter().copied()).collect();
    (found.problem, found.solution)
}

/// The requests that have pods without a node, the oldest first, each with the reason.
fn incomplete(attempt: &Attempt<'_>, requests: &[Requested<'_>]) -> Vec<(usize, String)> {
    let owners = owners(requests, &attempt.planned);
    let owner = |refused: &Unschedulable| owners.get(attempt.problem.pods.get(refused.pod)?.uid.as_str()).copied();
    let mut refused: BTreeMap<usize, Vec<&Unschedulable>> = BTreeMap::new();
    for one in &attempt.solution.unschedulable {
        if let Some(index) = owner(one) {
            refused.entry(index).or_default().push(one);
        }
    }
    let why = |(index, refused): (usize, Vec<&Unschedulable>)| {
        let reasons = refused.first().into_iter().flat_map(|first| &first.reasons);
        let reasons: Vec<String> = reasons.map(Reason::to_string).collect();
        let (count, pods) = (refused.len(), requests[index].virtual_pods().len());
        (index, format!("no node for {count} of {pods} pods, so that none is launched: {}", reasons.join("; ")))
    };
    refused.into_iter().map(why).collect()
}

/// The request of each virtual pod, by the pod's uid.
fn owners<'a>(requests: &'a [Requested<'_>], planned: &[usize]) -> HashMap<&'a str, usize> {
    let mut owners = HashMap::new();
    for index in planned {
        owners.extend(requests[*index].virtual_pods().iter().map(|pod| (pod.uid.as_str(), *index)));
    }
    owners
}

/// How many pods of a request that all have nodes fit on initialized ones.
fn complete(attempt: &Attempt<'_>, index: usize, requests: &[Requested<'_>]) -> Finding {
    let own = requests[index].virtual_pods();
    let uids: HashSet<&str> = own.iter().map(|pod| pod.uid.as_str()).collect();
    let Attempt { problem, solution, .. } = attempt;
    let is_own = |pod: usize| problem.pods.get(pod).is_some_and(|pod| uids.contains(pod.uid.as_str()));
    let is_initialized = |node: usize| problem.nodes.get(node).is_some_and(|node| node.initialized);
    let placements = solution.placements.iter();
    let fitting = placements.filter(|place| is_own(place.pod) && is_initialized(place.node)).count();
    if fitting == own.len() { Finding::Fits } else { Finding::Launching { pods: own.len(), fitting } }
}
