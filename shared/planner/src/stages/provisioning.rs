//! Nodes for pending pods.

use crate::action::{Action, Batch, Stage};
use crate::buffers;
use crate::execute::Execute;
use crate::facts::Facts;
use crate::launches::beyond_limits;
use crate::launches::budgets;
use crate::launches::{self, Created, PlannedNode, stopped};
use crate::nodes::cluster_state::ClusterState;
use crate::nodes::local_volumes;
use crate::nodes::node_events::NodeEvents;
use crate::nodes::promised::BOUND_WITHIN;
use crate::pods::expected::Expectations;
use crate::pods::placed::{Placed, VirtualPods};
use crate::pools::no_compatible_types;
use crate::records::decisions;
use crate::records::report::Outcome;
use crate::requests;
use crate::stages::policy;
use crate::stages::request_capacity;
use crate::standing::RestrictedPod;
use nodeless_disruption::spot_interruptions::LeftOut;
use nodeless_model::events::{daemon_set_large, daemon_set_left_out, failed_scheduling, nominated};
use nodeless_model::object::{ObjectEvent, ObjectRef};
use nodeless_model::plural::counted;
use nodeless_model::provisioning_request::request_of;
use nodeless_model::{NodeClaim, Pod, PodOrigin, labels};
use nodeless_operations::{names::Names, zonal_shift};
use nodeless_scheduling::{Effect, Launch, Placement, Reason, Unschedulable, daemon_set_effects};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How soon buffers are evaluated again, as in Karpenter.
const BUFFERS_AGAIN: Duration = Duration::from_secs(30);

/// Whether the scheduler left a pod for the next plan because of the work limit.
fn is_left(refused: &Unschedulable) -> bool {
    refused.reasons.iter().any(|reason| matches!(reason, Reason::OutOfWork))
}

/// Whether a launch with pods of these indices is for expected pods only.
fn is_for_expected(launched: &[usize], pods: &[&Pod]) -> bool {
    let is_expected = |pod: &usize| matches!(pods[*pod].origin, PodOrigin::Workload(_));
    !launched.is_empty() && launched.iter().all(is_expected)
}

/// Schedules all pending pods and the virtual pods.
pub(crate) fn place<'a>(
    facts: Facts<'a>,
    virtual_pods: VirtualPods<'a>,
    restricted: &'a [RestrictedPod],
) -> Placed<'a> {
    let VirtualPods { reserved, requested, expected } = virtual_pods;
    let of_buffers = reserved.iter().flat_map(|buffer| &buffer.pods).flatten();
    let mut cluster_state = cluster_state(facts, expected.pods.iter().chain(of_buffers).collect());
    cluster_state.pending.restrict(restricted);
    cluster_state.pending.set(&requests::standings(requested));
    cluster_state.hold_promised(facts.snapshot.now);
    let mut findings = requests::findings(requested);
    request_capacity::hold(facts, &mut cluster_state, requested, &mut findings);
    let (problem, solution) = request_capacity::solve_whole(facts, &mut cluster_state, requested, &mut findings);
    Placed { cluster_state, problem, solution, virtual_pods, findings }
}

/// The cluster with its claims, as pods see it.
pub(crate) fn cluster_state<'a>(facts: Facts<'a>, virtual_pods: Vec<&'a Pod>) -> ClusterState<'a> {
    let Facts { snapshot, claims, commands, .. } = facts;
    let mut cluster_state = ClusterState::new(&snapshot.view, claims).with_unseen(snapshot.now);
    cluster_state = cluster_state.with_replaced(commands.replaced(claims)).with_shifted(&snapshot.shifted);
    cluster_state.virtual_pods = virtual_pods;
    cluster_state.awaited = commands.awaited(claims);
    cluster_state
}

impl<'a> Placed<'a> {
    /// The pod of this index, if it is one of the cluster. Virtual pods get no events.
    fn pod(&self, index: usize) -> Option<&'a Pod> {
        self.problem.pods.get(index).copied().filter(|pod| !pod.is_virtual())
    }

    /// All pods of the cluster that are scheduled.
    fn pods(&self) -> impl Iterator<Item = &'a Pod> {
        self.problem.pods.iter().copied().filter(|pod| !pod.is_virtual())
    }

    /// The pod of this index, if the node that is launched for it is kept for it: a real pod, an expected one, or one of a request, so that
    /// the next plans do not pack these anew.
    fn nominated(&self, index: usize) -> Option<&'a Pod> {
        self.problem.pods.get(index).copied().filter(|pod| !matches!(pod.origin, PodOrigin::CapacityBuffer(_)))
    }

    /// What is to be recorded of expected pods.
    pub(crate) const fn expectations(&self) -> &'a Expectations {
        &self.virtual_pods.expected.record
    }

    /// The pods that wait for a node.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &'a Pod> {
        self.pods().filter(|pod| pod.node_name.is_none())
    }

    /// The node that each pod is placed on, by the pod's uid, and whether it is ready for pods.
    pub(crate) fn nodes_of_pods(&self) -> BTreeMap<&'a str, (&str, bool)> {
        let place = |placement: &Placement| {
            let node = self.problem.nodes.get(placement.node)?;
            Some((self.pod(placement.pod)?.uid.as_str(), (node.name.as_str(), node.initialized)))
        };
        self.solution.placements.iter().filter_map(place).collect()
    }

    /// The uids of the pods that were left for the next plan.
    pub(crate) fn left_pods(&self) -> BTreeSet<&'a str> {
        let left = self.solution.unschedulable.iter().filter(|refused| is_left(refused));
        left.filter_map(|refused| Some(self.pod(refused.pod)?.uid.as_str())).collect()
    }

    /// The spot offerings that each launch does not use because of interruptions.
    fn left_out(&self, facts: Facts<'_>) -> Vec<Vec<LeftOut>> {
        let recent = facts.snapshot.recent_interruptions(facts.claims);
        let offers = &self.problem.node_pools;
        let of = |launch: &Launch| {
            let offer = offers.iter().find(|offer| offer.pool.name == launch.node_pool);
            offer.map(|offer| recent.left_out(launch, offer.pool, &offer.instance_types)).unwrap_or_default()
        };
        self.solution.launches.iter().map(of).collect()
    }

    /// How many pending pods are about to be bound to the nodes that were launched for them.
    fn promised(&self) -> usize {
        self.cluster_state.pending.promised().count()
    }

    /// The number of pending pods.
    fn all_pods(&self) -> usize {
        self.pods().count() + self.promised()
    }

    /// How many pending pods fit on existing or launching nodes.
    fn fitting_pods(&self) -> usize {
        self.promised() + self.solution.placements.iter().filter_map(|placement| self.pod(placement.pod)).count()
    }

    /// How many pods were left for the next plan.
    fn left(&self) -> usize {
        self.solution.unschedulable.iter().filter(|refused| is_left(refused)).count()
    }

    /// Why not all pods were evaluated, if so. Nothing is disrupted voluntarily then.
    pub(crate) fn unfinished(&self) -> Option<String> {
        let left = self.left();
        let were = if left == 1 { "was" } else { "were" };
        let why = "left for the next plan, since this one reached its work limit";
        (left > 0).then(|| format!("{} {were} {why}", counted(left, "pod")))
    }

    /// The request whose pods are all that a launch is for, if the launch is in one zone: only for one zone, EC2 can be asked for all
    /// instances of a fleet or for none.
    fn whole_for(&self, launch: &Launch) -> Option<(String, String)> {
        launch.requirements.get(labels::ZONE)?.single()?;
        let mut requests = launch.pods.iter().map(|pod| request_of(self.problem.pods.get(*pod)?));
        let first = requests.next()??;
        let whole = requests.all(|request| request == Some(first));
        whole.then(|| (first.0.to_owned(), first.1.to_owned()))
    }

    /// The nodes to launch for pods that fit on no node, and those that wait for a launch budget, each with the reason.
    fn planned(&self, facts: Facts<'_>) -> (Vec<PlannedNode<'_>>, Vec<(PlannedNode<'_>, String)>) {
        // Launch budgets and limits are for the pods that exist first.
        let (expected, launches): (Vec<&Launch>, Vec<&Launch>) =
            self.solution.launches.iter().partition(|launch| is_for_expected(&launch.pods, &self.problem.pods));
        let planned = launches.into_iter().chain(expected).map(|launch| {
            let pods = launch.pods.iter().filter_map(|pod| self.nominated(*pod)).map(Pod::key).collect();
            let whole_for = self.whole_for(launch);
            PlannedNode { launch, pods, whole_for, replaces: Vec::new(), avoided: Vec::new() }
        });
        match &facts.snapshot.launch_budgets {
            Some(written) => {
                let left = budgets::left(written, facts.claims, facts.evaluated);
                budgets::within(planned.collect(), facts.evaluated, left, facts.snapshot.settings.group_size)
            }
            None => (planned.collect(), Vec::new()),
        }
    }
}

/// Launches nodes for pods that fit on no node, and reports where pods are placed. Returns the written claims.
pub(crate) async fn launch(
    placed: &Placed<'_>,
    facts: Facts<'_>,
    names: &mut Names,
    executor: &dyn Execute,
    outcome: &mut Outcome,
) -> Vec<NodeClaim> {
    let (planned, held) = placed.planned(facts);
    let (taken, planned) = stopped::taken(planned, facts);
    let groups = launches::groups(planned, facts, names);
    let mut actions = stopped::writes(&taken, facts);
    actions.extend(launches::writes(&groups, facts));
    let written = executor.carry_out(&Batch::each(Stage::Provisioning, actions)).await;

    let (of_taken, of_groups) = written.split_at(taken.len().min(written.len()));
    let mut created = launches::created(groups, of_groups);
    stopped::started(taken, of_taken, &mut created);
    report_placements(placed, facts, outcome);
    outcome.add(created.outcome.clone());
    if let Err(error) = &facts.snapshot.interruptions {
        let problem = format!("it is unknown which spot offerings were interrupted, so none is avoided: {error}");
        outcome.report.problems.push(problem);
    }
    report_held(held, placed, outcome);
    report_launches(&created.claims, placed, facts, outcome);
    report_unschedulable(placed, facts, outcome);
    let VirtualPods { reserved, requested, expected } = placed.virtual_pods;
    outcome.expected_pods_came += expected.came;
    outcome.expected_pods_missing += expected.missing;
    if let Some(again) = expected.again() {
        outcome.report.wait_at_most(again);
    }
    let mut actions = wakes(&created, placed);
    actions.extend(decision_record(placed, &created.claims, facts));
    actions.extend(buffers::statuses(reserved, &fitting(placed), facts.snapshot.now));
    actions.extend(requests::statuses(requested, &placed.findings, facts.snapshot.now));
    if let Some(again) = requests::again(requested, &placed.findings) {
        outcome.report.wait_at_most(again);
    }
    if !reserved.is_empty() {
        // Real pods take the capacity of a buffer without an event.
        outcome.report.wait_at_most(BUFFERS_AGAIN);
    }
    executor.carry_out(&Batch::each(Stage::Provisioning, actions)).await;
    created.claims
}

/// Reports which pods fit on existing or launching nodes.
fn report_placements(placed: &Placed<'_>, facts: Facts<'_>, outcome: &mut Outcome) {
    outcome.report.pods += placed.all_pods();
    outcome.report.placed += placed.fitting_pods();
    if placed.promised() > 0 {
        outcome.report.wait_at_most(BOUND_WITHIN.unsigned_abs());
    }
    outcome.report.placements.extend(placements(placed));
    outcome.events.extend(placement_events(placed));
    outcome.events.extend(local_volumes::lost(&placed.cluster_state));
    outcome.events.extend(NodeEvents::new(&placed.cluster_state).failed_to_initialize(facts.snapshot.now));
}

/// Reports on pods which claims were created for them, and on limits that are exceeded for a while.
fn report_launches(created: &[NodeClaim], placed: &Placed<'_>, facts: Facts<'_>, outcome: &mut Outcome) {
    outcome.events.extend(nominations(created, placed));
    outcome.events.extend(beyond_limits::events(created, facts));
    outcome.events.extend(daemon_set_events(placed));
}

/// Requests the reconciliation of the created claims, and another plan for what this one could not do.
fn wakes(created: &Created, placed: &Placed<'_>) -> Vec<Action> {
    let mut actions = Vec::new();
    if !created.leaders.is_empty() {
        actions.push(Action::WakeClaims(created.leaders.clone()));
    }
    if created.incomplete || placed.left() > 0 {
        actions.push(Action::WakePlanner);
    }
    actions.extend(created.lines.iter().cloned());
    actions
}

/// The explanation of this decision, if anything was decided.
fn decision_record(placed: &Placed<'_>, created: &[NodeClaim], facts: Facts<'_>) -> Option<Action> {
    let refused = placed.solution.unschedulable.iter().filter_map(|refused| placed.pod(refused.pod)).count();
    if created.is_empty() && refused == 0 {
        return None;
    }
    let created: Vec<String> = created.iter().map(|claim| claim.name.clone()).collect();
    let committed = policy::committed(facts, &placed.cluster_state);
    let covered = committed.map(|committed| committed.covered(&placed.problem, &placed.solution)).unwrap_or_default();
    let detail =
        decisions::provisioning(&placed.problem, &placed.solution, &placed.left_out(facts), &covered, &created);
    let summary = format!(
        "{}: {} on existing nodes, {} launched, {refused} unschedulable",
        counted(placed.all_pods(), "pod"),
        placed.fitting_pods(),
        counted(created.len(), "node"),
    );
    Some(decisions::decision("provisioning", created, summary, detail, facts.snapshot.now))
}

/// The virtual pods, `namespace/name`, that fit on existing or launching nodes.
fn fitting(placed: &Placed<'_>) -> BTreeSet<String> {
    let pods = placed.solution.placements.iter().filter_map(|placement| placed.problem.pods.get(placement.pod));
    let mut fitting: BTreeSet<String> = pods.filter(|pod| pod.is_virtual()).map(|pod| pod.key()).collect();
    fitting.extend(placed.cluster_state.awaited.iter().cloned());
    fitting
}

/// The events on pods for which claims were created.
fn nominations(created: &[NodeClaim], placed: &Placed<'_>) -> Vec<ObjectEvent> {
    let by_pod: BTreeMap<&str, &str> = created
        .iter()
        .flat_map(|claim| claim.spec.nominated_pods.iter().map(|pod| (pod.as_str(), claim.name.as_str())))
        .collect();
    let event = |pod: &Pod| {
        let claim = by_pod.get(pod.key().as_str())?;
        Some(nominated(pod, &format!("nodeclaim/{claim}")))
    };
    placed.pods().filter_map(event).collect()
}

/// The events on DaemonSets that take most of new nodes, or are left out of them.
fn daemon_set_events(placed: &Placed<'_>) -> impl Iterator<Item = ObjectEvent> {
    let effects = daemon_set_effects(&placed.problem, &placed.solution.launches);
    effects.into_iter().filter_map(|found| {
        let set = placed.problem.daemon_sets.iter().find(|set| found.daemon_set.is_of(set))?;
        let event = match found.effect {
            Effect::Large(_) => daemon_set_large,
            Effect::LeftOut | Effect::Refused(_) => daemon_set_left_out,
        };
        Some(event(set, &found.node_pool, &found.event_message()))
    })
}

/// Reports on pods why their nodes wait for a launch budget, and requests the next plan soon.
fn report_held(held: Vec<(PlannedNode<'_>, String)>, placed: &Placed<'_>, outcome: &mut Outcome) {
    for (planned, why) in held {
        outcome.report.wait_at_most(budgets::AGAIN);
        for pod in planned.launch.pods.iter().filter_map(|pod| placed.pod(*pod)) {
            outcome.events.push(failed_scheduling(pod, &why));
            outcome.report.unschedulable.push((pod.key(), why.clone()));
        }
    }
}

/// The pods that fit on existing or launching nodes, each with its node.
fn placements(placed: &Placed<'_>) -> Vec<(String, String)> {
    let place = |placement: &Placement| {
        Some((placed.pod(placement.pod)?.key(), placed.problem.nodes.get(placement.node)?.name.clone()))
    };
    let promised = placed.cluster_state.pending.promised().map(|(pod, node)| (pod.key(), node.to_owned()));
    placed.solution.placements.iter().filter_map(place).chain(promised).collect()
}

/// The events on pods about where they are expected to run: as in Karpenter on a node, a claim, or the node of a claim.
fn placement_events(placed: &Placed<'_>) -> Vec<ObjectEvent> {
    let cluster_state = &placed.cluster_state;
    // A pod for which a claim was created has its event. No other event is needed if the pod is bound to the node of an equal
    // claim.
    let on_the_way = cluster_state.places.iter().filter(|place| place.node.is_none()).filter_map(|place| place.claim);
    let already: BTreeSet<&str> = on_the_way.flat_map(|claim| &claim.spec.nominated_pods).map(String::as_str).collect();
    let joined: BTreeSet<&str> = cluster_state.view.nodes.iter().map(|node| node.name.as_str()).collect();
    let place = |placement: &Placement| {
        let (pod, node) = (placed.pod(placement.pod)?, placed.problem.nodes.get(placement.node)?);
        if already.contains(pod.key().as_str()) {
            return None;
        }
        let target = match &node.node_claim {
            Some(claim) if joined.contains(node.name.as_str()) => format!("nodeclaim/{claim}, node/{}", node.name),
            Some(claim) => format!("nodeclaim/{claim}"),
            None if joined.contains(node.name.as_str()) => format!("node/{}", node.name),
            // Another controller launches it.
            None => format!("nodeclaim/{}", node.name),
        };
        Some(nominated(pod, &target))
    };
    placed.solution.placements.iter().filter_map(place).collect()
}

/// Reports the pods without a node that cannot be decoded.
fn report_undecoded(placed: &Placed<'_>, outcome: &mut Outcome) {
    let invalid = placed.cluster_state.view.invalid.iter();
    for object in invalid.filter(|object| object.is_unbound_pod()) {
        let (namespace, name) = object.name.split_once('/').unwrap_or(("", &object.name));
        let why = format!(
            "nodeless cannot decode it ({}), so no node is launched for it; correct the field, or delete the pod",
            object.message
        );
        outcome.events.push(failed_scheduling(ObjectRef::pod(namespace, name, &object.outline.uid), &why));
        outcome.report.unschedulable.push((object.name.clone(), why));
    }
}

/// Reports on pods why they are unschedulable, and on NodePools without compatible instance types.
fn report_unschedulable(placed: &Placed<'_>, facts: Facts<'_>, outcome: &mut Outcome) {
    let cluster_state = &placed.cluster_state;
    let without_launch = cluster_state.pending.without_launch();
    let unschedulable = placed.solution.unschedulable.iter().filter_map(|refused| {
        let reasons = refused.reasons.iter().map(ToString::to_string);
        let reasons: Vec<String> =
            reasons.chain(zonal_shift::explanation(cluster_state.shifted, &refused.reasons)).collect();
        let pod = placed.pod(refused.pod)?;
        let why = without_launch.get(pod.uid.as_str()).cloned().unwrap_or_else(|| reasons.join("; "));
        Some((pod, why, is_left(refused)))
    });
    let left_out = cluster_state.pending.left_out().map(|(pod, why)| (pod, why, false));
    for (pod, why, is_left) in unschedulable.chain(left_out) {
        // A pod that was not evaluated has not failed to schedule, and a pod that excludes managed nodes needs no event.
        if !is_left && !pod.keeps_off_node_pools() {
            outcome.events.push(failed_scheduling(pod, &why));
        }
        outcome.report.unschedulable.push((pod.key(), why));
    }
    report_undecoded(placed, outcome);
    if !placed.problem.pods.is_empty() {
        let policy = facts.snapshot.settings.scheduling.min_values;
        outcome.events.extend(no_compatible_types::warnings(facts.evaluated, policy));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::Workload;
    use std::sync::Arc;

    #[test]
    fn a_launch_without_pods_is_not_for_expected_ones() {
        let workload = Workload::new("shop", "Job", "web", None);
        let expected = Pod { origin: PodOrigin::Workload(Arc::new(workload)), ..Pod::default() };
        let pods = [&expected, &Pod::default()];
        let is_expected = [&[][..], &[0], &[1], &[0, 1]].map(|launched| is_for_expected(launched, &pods));
        assert_eq!(is_expected, [false, true, false, false]);
    }
}
