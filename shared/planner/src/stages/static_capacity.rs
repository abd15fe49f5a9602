//! Static capacity, independent of pods: static NodePools, schedules, and unhealthy nodes that are rebooted or were never initialized.
//!
//! The stage is level-triggered: each plan compares the desired nodes with the claims, and changes the claims. A claim is written before
//! it is launched and before its node is drained, so if the process ends here, the next plan or the sweep finds everything.

use crate::action::{Action, Batch, PlanLine, Stage, Written};
use crate::execute::Execute;
use crate::facts::Facts;
use crate::launches::beyond_limits;
use crate::launches::{self, PlannedNode};
use crate::nodes::cluster_state::ClusterState;
use crate::nodes::voluntary_disruption::{doubt, input};
use crate::pools::EvaluatedPool;
use crate::records::decisions::decision;
use crate::records::report::Outcome;
use crate::snapshot::command_records::Commands;
use crate::stages::reboots;
use jiff::Timestamp;
use nodeless_disruption::command::{CommandPhase, CommandRecord};
use nodeless_disruption::repair::{Unhealthy, Verdict, unhealthy};
use nodeless_disruption::{Candidate, Cluster, ClusterNode, StaticChange, schedules, static_changes};
use nodeless_lifecycle::begin_termination;
use nodeless_model::NodeClaim;
use nodeless_model::claim::TerminationReason;
use nodeless_model::events::{disruption_terminating, node_repair_blocked, repairing, replicas_not_reached};
use nodeless_model::object::{ObjectEvent, ObjectRef};
use nodeless_model::plural::counted;
use nodeless_operations::names::Names;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

/// When a plan is retried that could not write a claim.
const SOON: Duration = Duration::from_secs(5);
/// The kind of the records of these decisions.
const KIND: &str = "static-capacity";

/// A node to remove, with the reason.
struct Going {
    node: String,
    node_claim: String,
    reason: TerminationReason,
    message: String,
}

/// A claim to terminate.
struct Leaving {
    going: Going,
    /// The index of the claim among the claims.
    place: usize,
    after: NodeClaim,
}

/// Retires nodes, and keeps the numbers of static NodePools. Returns the claims after it.
///
/// The stage precedes provisioning: removed nodes make their pods move, and launched nodes add capacity.
pub(crate) async fn run(
    facts: Facts<'_>,
    names: &mut Names,
    executor: &dyn Execute,
    outcome: &mut Outcome,
) -> Vec<NodeClaim> {
    let claims = retire(facts, executor, outcome).await;
    keep_numbers(Facts { claims: &claims, ..facts }, names, executor, outcome).await
}

const fn batch(actions: Vec<Action>) -> Batch {
    Batch::each(Stage::StaticCapacity, actions)
}

/// Terminates the nodes that never became healthy, or whose NodePool is scheduled off. Returns the claims after it.
async fn retire(facts: Facts<'_>, executor: &dyn Execute, outcome: &mut Outcome) -> Vec<NodeClaim> {
    let under_way = launched(facts.commands, facts.claims);
    let unhealthy =
        if facts.snapshot.settings.gates.node_repair { to_repair(facts, &under_way, outcome) } else { Vec::new() };
    let mut going = never_healthy(&unhealthy);
    let scheduled_off = facts.evaluated.iter().any(|evaluated| evaluated.scheduled_off.is_some());
    // An object that cannot be decoded may forbid voluntary disruption, but it forbids no new node.
    let doubt = doubt(&facts.snapshot.view).filter(|_| scheduled_off || fixed(facts.evaluated));
    if scheduled_off && doubt.is_none() {
        going.extend(sleepers(facts, &under_way));
    }
    let leaving = leaving(going, facts);
    // Log lines last, so that the results of the writes are the first ones.
    let mut actions = updates(&leaving);
    actions.extend(doubt.map(|why| Action::Log(PlanLine::DisruptionSkipped { why })));
    let written = executor.carry_out(&batch(actions)).await;

    let mut claims = facts.claims.to_vec();
    let actions = left(leaving, facts.snapshot.now, &mut claims, written.iter(), outcome);
    executor.carry_out(&batch(actions)).await;
    reboots::request(&unhealthy, facts.snapshot.now, &mut claims, executor, outcome).await;
    claims
}

/// Launches the missing nodes of static NodePools, and terminates the surplus ones. Returns the claims after it.
async fn keep_numbers(
    facts: Facts<'_>,
    names: &mut Names,
    executor: &dyn Execute,
    outcome: &mut Outcome,
) -> Vec<NodeClaim> {
    let mut claims = facts.claims.to_vec();
    if !fixed(facts.evaluated) {
        return claims;
    }
    let removes = doubt(&facts.snapshot.view).is_none();
    let changes: Vec<Change> =
        numbers(facts).into_iter().map(|change| prepared(change, removes, facts, names)).collect();
    let actions = changes.iter().flat_map(|change| change.writes(facts)).collect();
    let written = executor.carry_out(&batch(actions)).await;

    let (mut actions, mut answers) = (Vec::new(), written.iter());
    for change in changes {
        actions.extend(change.written(facts, &mut claims, &mut answers, outcome));
    }
    executor.carry_out(&batch(actions)).await;
    claims
}

/// The missing and the surplus nodes of each static NodePool.
pub(crate) fn numbers(facts: Facts<'_>) -> Vec<StaticChange> {
    let under_way = launched(facts.commands, facts.claims);
    let cluster_state = ClusterState::new(&facts.snapshot.view, facts.claims).with_shifted(&facts.snapshot.shifted);
    let cluster = whole(&cluster_state, facts.evaluated, &under_way);
    static_changes(&cluster, facts.snapshot.now, &facts.disruption_options())
}

/// The missing and the surplus nodes of one static NodePool, as claims.
struct Change {
    node_pool: String,
    short: Option<String>,
    leaving: Vec<Leaving>,
    groups: Vec<Vec<NodeClaim>>,
}

fn prepared(change: StaticChange, removes: bool, facts: Facts<'_>, names: &mut Names) -> Change {
    let scheduled_off = facts.pool(&change.node_pool).is_some_and(|one| one.scheduled_off.is_some());
    let surplus = change.surplus.iter().filter(|_| removes);
    let planned =
        |launch| PlannedNode { launch, pods: Vec::new(), whole_for: None, replaces: Vec::new(), avoided: Vec::new() };
    Change {
        leaving: leaving(surplus.map(|candidate| too_many(candidate, scheduled_off)).collect(), facts),
        groups: launches::groups(change.launches.iter().map(planned).collect(), facts, names),
        node_pool: change.node_pool,
        short: change.short,
    }
}

impl Change {
    fn writes(&self, facts: Facts<'_>) -> Vec<Action> {
        let mut actions = updates(&self.leaving);
        actions.extend(launches::writes(&self.groups, facts));
        actions
    }

    /// Applies the results of [`writes`](Self::writes) to the claims. Returns the further actions.
    fn written(
        self,
        facts: Facts<'_>,
        claims: &mut Vec<NodeClaim>,
        answers: &mut std::slice::Iter<'_, Written>,
        outcome: &mut Outcome,
    ) -> Vec<Action> {
        let Self { node_pool, short, leaving, groups } = self;
        let mut actions = left(leaving, facts.snapshot.now, claims, answers.by_ref(), outcome);
        let created = launches::created(groups, answers);
        if !created.claims.is_empty() {
            let names: Vec<String> = created.claims.iter().map(|claim| claim.name.clone()).collect();
            let summary = format!("{} launched for the replicas of NodePool {node_pool}", counted(names.len(), "node"));
            let detail = json!({ "nodePool": node_pool, "claims": names, "short": short }).to_string();
            actions.push(Action::WakeClaims(created.leaders));
            actions.push(decision(KIND, names, summary, detail, facts.snapshot.now));
        }
        if created.incomplete {
            actions.push(Action::WakePlanner);
        }
        actions.extend(created.lines);
        outcome.events.extend(beyond_limits::events(&created.claims, Facts { claims: claims.as_slice(), ..facts }));
        claims.extend(created.claims);
        outcome.add(created.outcome);
        report_shortage(&node_pool, short, facts, outcome);
        actions
    }
}

/// Reports that a NodePool has fewer nodes than its replicas. Readiness is reported where it is evaluated.
fn report_shortage(node_pool: &str, short: Option<String>, facts: Facts<'_>, outcome: &mut Outcome) {
    let evaluated = facts.pool(node_pool).filter(|one| one.pool.ready.is_ok());
    if let (Some(why), Some(evaluated)) = (short, evaluated) {
        outcome.report.problems.push(format!("NodePool {node_pool} has fewer nodes than replicas: {why}"));
        outcome.events.push(replicas_not_reached(&evaluated.pool, &why));
    }
}

/// Whether any NodePool is static.
fn fixed(evaluated: &[EvaluatedPool]) -> bool {
    evaluated.iter().any(|evaluated| evaluated.pool.replicas.is_some())
}

/// The claims of nodes to remove, each with its termination. Claims that are already terminating are left out.
fn leaving(going: Vec<Going>, facts: Facts<'_>) -> Vec<Leaving> {
    let mut leaving: Vec<Leaving> = Vec::new();
    for going in going {
        let found = facts.claims.iter().position(|claim| claim.name == going.node_claim);
        let leaves = |place: &usize| leaving.iter().any(|one| one.place == *place);
        let Some(place) = found.filter(|place| !leaves(place)) else { continue };
        let Some(mut after) = facts.claims.get(place).cloned() else { continue };
        if begin_termination(&mut after, going.reason, &going.message, facts.snapshot.now) {
            leaving.push(Leaving { going, place, after });
        }
    }
    leaving
}

fn updates(leaving: &[Leaving]) -> Vec<Action> {
    leaving.iter().map(|one| Action::RetireClaim(Box::new(one.after.clone()))).collect()
}

/// Applies the results for terminating claims. Lifecycle is woken for those that were written. A claim that another process wrote at
/// the same time is left for the next plan.
fn left<'w>(
    leaving: Vec<Leaving>,
    now: Timestamp,
    claims: &mut [NodeClaim],
    answers: impl Iterator<Item = &'w Written>,
    outcome: &mut Outcome,
) -> Vec<Action> {
    let (mut names, mut reasons) = (Vec::new(), BTreeSet::new());
    for (Leaving { going, place, after }, answer) in leaving.into_iter().zip(answers) {
        let Written::There(written) = answer else {
            if let (Some(why), false) = (answer.problem(), matches!(answer, Written::Conflict(_))) {
                outcome.report.problems.push(format!("NodeClaim {}: {why}", after.name));
            }
            outcome.report.wait_at_most(SOON);
            continue;
        };
        outcome.events.extend(leaving_events(&going));
        reasons.insert(going.message);
        names.push(after.name.clone());
        if written.spec.charge != after.spec.charge {
            // The replacement may have exceeded the limits that were read.
            outcome.report.wait_at_most(SOON);
        }
        if let Some(claim) = claims.get_mut(place) {
            *claim = written.as_ref().clone();
        }
    }
    if names.is_empty() {
        return Vec::new();
    }
    let summary = reasons.into_iter().collect::<Vec<_>>().join("; ");
    let detail = json!({ "claims": names }).to_string();
    outcome.report.leaving.extend(names.iter().cloned());
    vec![Action::WakeClaims(names.clone()), decision(KIND, names, summary, detail, now)]
}

/// The commands whose replacements all exist. Until then their nodes still count as replicas.
fn launched(commands: &Commands, records: &[NodeClaim]) -> Vec<CommandRecord> {
    let there = |name: &str| records.iter().any(|claim| claim.name == name);
    let complete = |record: &&CommandRecord| {
        let begun = matches!(record.phase, CommandPhase::Launching | CommandPhase::Waiting | CommandPhase::Draining);
        begun && record.replacements.iter().all(|replacement| there(&replacement.name))
    };
    commands.records.iter().filter(complete).cloned().collect()
}

/// The cluster with all claims, including those that have lost their node.
fn whole<'a>(
    cluster_state: &'a ClusterState<'_>,
    evaluated: &'a [EvaluatedPool],
    under_way: &'a [CommandRecord],
) -> Cluster<'a> {
    let mut cluster = input(cluster_state, evaluated, under_way, None);
    let placed: BTreeSet<&str> =
        cluster_state.places.iter().filter_map(|place| place.claim).map(|claim| claim.name.as_str()).collect();
    let lost = cluster_state.records.iter().filter(|claim| !placed.contains(claim.name.as_str()));
    cluster.nodes.extend(lost.map(|claim| ClusterNode { claim: Some(claim), ..ClusterNode::default() }));
    cluster
}

/// The nodes of NodePools that are scheduled off.
fn sleepers(facts: Facts<'_>, under_way: &[CommandRecord]) -> Vec<Going> {
    let cluster_state = ClusterState::new(&facts.snapshot.view, facts.claims).with_shifted(&facts.snapshot.shifted);
    let retiring = schedules::retiring(&whole(&cluster_state, facts.evaluated, under_way), facts.snapshot.now);
    let going = retiring.into_iter().map(|(candidate, until)| Going {
        message: format!("its NodePool {} is scheduled off until {until}", candidate.node_pool),
        node: candidate.node,
        node_claim: candidate.node_claim,
        reason: TerminationReason::ScheduledOff,
    });
    going.collect()
}

fn too_many(candidate: &Candidate, scheduled_off: bool) -> Going {
    let pool = &candidate.node_pool;
    let (reason, message) = match scheduled_off {
        true => (TerminationReason::ScheduledOff, format!("its NodePool {pool} is scheduled off")),
        false => (TerminationReason::ScaledDown, format!("NodePool {pool} has more nodes than its replicas")),
    };
    Going { node: candidate.node.clone(), node_claim: candidate.node_claim.clone(), reason, message }
}

/// The unhealthy nodes. Events report which of them are not repaired although they are due.
fn to_repair(facts: Facts<'_>, under_way: &[CommandRecord], outcome: &mut Outcome) -> Vec<Unhealthy> {
    match unhealthy_nodes(facts, under_way) {
        Ok(found) => {
            outcome.events.extend(found.iter().flat_map(|node| repair_blocked(node, facts.evaluated)));
            found
        }
        Err(why) => {
            outcome.report.problems.push(why);
            Vec::new()
        }
    }
}

/// The unhealthy nodes that were never initialized.
fn never_healthy(unhealthy: &[Unhealthy]) -> Vec<Going> {
    let due = unhealthy.iter().filter(|node| node.verdict == Verdict::Terminate);
    let going = |node: &Unhealthy| Going {
        node: node.node.clone(),
        node_claim: node.node_claim.clone(),
        reason: TerminationReason::Unhealthy,
        message: node.message.clone(),
    };
    due.map(going).collect()
}

/// The unhealthy nodes, and what node repair does about them if it is enabled.
///
/// # Errors
/// If a Node cannot be decoded: the unhealthy share cannot be computed without it.
pub(crate) fn unhealthy_nodes(facts: Facts<'_>, under_way: &[CommandRecord]) -> Result<Vec<Unhealthy>, String> {
    if let Some(hidden) = facts.snapshot.view.invalid.iter().find(|object| object.kind == "Node") {
        return Err(format!("no node is repaired: Node {}: {}", hidden.name, hidden.message));
    }
    let cluster_state = ClusterState::new(&facts.snapshot.view, facts.claims).with_shifted(&facts.snapshot.shifted);
    let cluster = whole(&cluster_state, facts.evaluated, under_way);
    Ok(unhealthy(&cluster, &facts.disruption_options(), facts.snapshot.now))
}

/// The events on a node that is due for repair and is not repaired.
fn repair_blocked(node: &Unhealthy, evaluated: &[EvaluatedPool]) -> Vec<ObjectEvent> {
    let Verdict::Blocked(why) = &node.verdict else { return Vec::new() };
    let of_node = |one: &&EvaluatedPool| node.node_pool.as_deref() == Some(one.pool.name.as_str());
    let pool = evaluated.iter().find(of_node).map(|one| ObjectRef::from(&one.pool));
    let objects = [ObjectRef::node(&node.node, ""), ObjectRef::node_claim(&node.node_claim, "")];
    objects.into_iter().chain(pool).map(|object| node_repair_blocked(object, why)).collect()
}

fn leaving_events(going: &Going) -> [ObjectEvent; 2] {
    let Going { node, node_claim, reason, message } = going;
    let event = if *reason == TerminationReason::Unhealthy { repairing } else { disruption_terminating };
    let objects = [ObjectRef::node_claim(node_claim, ""), ObjectRef::node(node, "")];
    objects.map(|object| event(object, message))
}
