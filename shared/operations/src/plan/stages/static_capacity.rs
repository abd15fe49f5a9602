//! Static capacity and repair, independent of pods: static NodePools, schedules, and unhealthy nodes.
//!
//! The stage is level-triggered: each plan compares the desired nodes with the claims, and changes the claims. A claim is written before
//! it is launched and before its node is drained, so if the process ends here, the next plan or the sweep finds everything.

use crate::names::Names;
use crate::plan::action::{Action, Batch, PlanLine, Stage, Written};
use crate::plan::facts::Facts;
use crate::plan::launches::beyond_limits;
use crate::plan::launches::{self, PlannedNode};
use crate::plan::nodes::cluster_state::ClusterState;
use crate::plan::nodes::voluntary_disruption::{doubt, input};
use crate::plan::pools::EvaluatedPool;
use crate::plan::records::decisions::decision;
use crate::plan::records::report::Outcome;
use crate::plan::snapshot::command_records::Commands;
use jiff::Timestamp;
use nodeless_disruption::command::{CommandPhase, CommandRecord};
use nodeless_disruption::repair::{Unhealthy, Verdict, unhealthy};
use nodeless_disruption::{Candidate, Cluster, ClusterNode, StaticChange, schedules, static_changes};
use nodeless_lifecycle::begin_termination;
use nodeless_model::NodeClaim;
use nodeless_model::claim::TerminationReason;
use nodeless_model::events::{disruption_terminating, node_repair_blocked, repairing, replicas_not_reached};
use nodeless_model::object::{ObjectEvent, ObjectRef};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

/// When a plan is retried that could not write a claim.
const SOON: Duration = Duration::from_secs(5);

/// A node to remove, with the reason.
struct Going {
    candidate: Candidate,
    reason: TerminationReason,
    message: String,
}

/// The kind of the records of these decisions.
const KIND: &str = "static-capacity";

/// A claim to terminate.
struct Leaving {
    going: Going,
    /// The index of the claim among the claims.
    place: usize,
    after: NodeClaim,
}

/// The nodes to remove because they are unhealthy, or because their NodePool is scheduled off.
pub(in crate::plan) struct Retiring {
    pub(in crate::plan) batch: Batch,
    leaving: Vec<Leaving>,
    outcome: Outcome,
}

/// The claims after a part of this stage, and the further actions.
pub(in crate::plan) struct Retired {
    pub(in crate::plan) batch: Batch,
    pub(in crate::plan) claims: Vec<NodeClaim>,
    pub(in crate::plan) outcome: Outcome,
}

/// Finds the nodes to remove.
pub(in crate::plan) fn retire(facts: Facts<'_>) -> Retiring {
    let under_way = launched(facts.commands, facts.claims);
    let (mut lines, mut going, mut outcome) = (Vec::new(), Vec::new(), Outcome::default());
    if facts.snapshot.settings.gates.node_repair {
        let (repaired, stated) = repairs(facts, &under_way);
        going.extend(repaired);
        outcome.add(stated);
    }
    let scheduled_off = facts.evaluated.iter().any(|evaluated| evaluated.scheduled_off.is_some());
    // An object that cannot be decoded may forbid voluntary disruption, but it forbids no new node.
    let doubt = doubt(&facts.snapshot.view).filter(|_| scheduled_off || fixed(facts.evaluated));
    if scheduled_off && doubt.is_none() {
        going.extend(sleepers(facts, &under_way));
    }
    lines.extend(doubt.map(|why| Action::Log(PlanLine::DisruptionSkipped { why })));
    let leaving = leaving(going, facts);
    // Log lines last, so that the results of the writes are the first ones.
    let mut actions = updates(&leaving);
    actions.extend(lines);
    Retiring { batch: Batch::each(Stage::StaticCapacity, actions), leaving, outcome }
}

impl Retiring {
    /// The claims after this part, given the results of the writes.
    pub(in crate::plan) fn done(self, facts: Facts<'_>, written: &[Written]) -> Retired {
        let Self { leaving, mut outcome, .. } = self;
        let mut claims = facts.claims.to_vec();
        let (actions, left) = left(leaving, facts.snapshot.now, (&mut claims, written));
        outcome.add(left);
        Retired { batch: Batch::each(Stage::StaticCapacity, actions), claims, outcome }
    }
}

/// The missing and the surplus nodes of static NodePools.
pub(in crate::plan) struct Keeping {
    pub(in crate::plan) batch: Batch,
    changes: Vec<Change>,
}

/// The missing and the surplus nodes of one static NodePool.
struct Change {
    node_pool: String,
    short: Option<String>,
    leaving: Vec<Leaving>,
    groups: Vec<Vec<NodeClaim>>,
}

/// Compares static NodePools with their numbers of nodes.
pub(in crate::plan) fn keep_numbers(facts: Facts<'_>, names: &mut Names) -> Keeping {
    if !fixed(facts.evaluated) {
        return Keeping { batch: Batch::each(Stage::StaticCapacity, Vec::new()), changes: Vec::new() };
    }
    let removes = doubt(&facts.snapshot.view).is_none();
    let changes: Vec<Change> =
        numbers(facts).into_iter().map(|change| prepared(change, removes, facts, names)).collect();
    let of = |change: &Change| {
        let mut actions = updates(&change.leaving);
        actions.extend(launches::writes(&change.groups, facts));
        actions
    };
    Keeping { batch: Batch::each(Stage::StaticCapacity, changes.iter().flat_map(of).collect()), changes }
}

/// The missing and the surplus nodes of each static NodePool.
pub(in crate::plan) fn numbers(facts: Facts<'_>) -> Vec<StaticChange> {
    let under_way = launched(facts.commands, facts.claims);
    let cluster_state = ClusterState::new(&facts.snapshot.view, facts.claims).with_shifted(&facts.snapshot.shifted);
    let cluster = whole(&cluster_state, facts.evaluated, &under_way);
    static_changes(&cluster, facts.snapshot.now, &facts.disruption_options())
}

fn prepared(change: StaticChange, removes: bool, facts: Facts<'_>, names: &mut Names) -> Change {
    let scheduled_off = facts.pool(&change.node_pool).is_some_and(|one| one.scheduled_off.is_some());
    let surplus = change.surplus.iter().filter(|_| removes);
    let planned = |launch| PlannedNode { launch, pods: Vec::new(), replaces: Vec::new(), avoided: Vec::new() };
    Change {
        leaving: leaving(surplus.map(|candidate| too_many(candidate, scheduled_off)).collect(), facts),
        groups: launches::groups(change.launches.iter().map(planned).collect(), facts, names),
        node_pool: change.node_pool,
        short: change.short,
    }
}

impl Keeping {
    /// The claims after this part, given the results of the writes.
    pub(in crate::plan) fn done(self, facts: Facts<'_>, written: &[Written]) -> Retired {
        let mut claims = facts.claims.to_vec();
        let (mut actions, mut outcome, mut answers) = (Vec::new(), Outcome::default(), written);
        for Change { node_pool, short, leaving, groups } in self.changes {
            let (of_leaving, rest) = answers.split_at(leaving.len().min(answers.len()));
            let (of_groups, rest) = rest.split_at(groups.len().min(rest.len()));
            answers = rest;
            let (written, left) = left(leaving, facts.snapshot.now, (&mut claims, of_leaving));
            actions.extend(written);
            outcome.add(left);
            let created = launches::created(groups, of_groups);
            if !created.claims.is_empty() {
                let names: Vec<String> = created.claims.iter().map(|claim| claim.name.clone()).collect();
                let summary = format!("{} nodes launched for the replicas of NodePool {node_pool}", names.len());
                let detail = json!({ "nodePool": node_pool, "claims": names, "short": short }).to_string();
                actions.push(Action::WakeClaims(created.leaders));
                actions.push(decision(KIND, names, summary, detail, facts.snapshot.now));
            }
            if created.incomplete {
                actions.push(Action::WakePlanner);
            }
            actions.extend(created.lines);
            outcome.events.extend(beyond_limits::events(&created.claims, Facts { claims: &claims, ..facts }));
            claims.extend(created.claims);
            outcome.add(created.outcome);
            outcome.add(shortage(&node_pool, short, facts));
        }
        Retired { batch: Batch::each(Stage::StaticCapacity, actions), claims, outcome }
    }
}

/// Reports that a NodePool has fewer nodes than its replicas. Readiness is reported where it is evaluated.
fn shortage(node_pool: &str, short: Option<String>, facts: Facts<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let evaluated = facts.pool(node_pool).filter(|one| one.pool.ready.is_ok());
    if let (Some(why), Some(evaluated)) = (short, evaluated) {
        outcome.report.problems.push(format!("NodePool {node_pool} has fewer nodes than replicas: {why}"));
        outcome.events.push(replicas_not_reached(&evaluated.pool, &why));
    }
    outcome
}

/// Whether any NodePool is static.
fn fixed(evaluated: &[EvaluatedPool]) -> bool {
    evaluated.iter().any(|evaluated| evaluated.pool.replicas.is_some())
}

/// The claims of nodes to remove, each with its termination. Claims that are already terminating are left out.
fn leaving(going: Vec<Going>, facts: Facts<'_>) -> Vec<Leaving> {
    let mut leaving: Vec<Leaving> = Vec::new();
    for going in going {
        let found = facts.claims.iter().position(|claim| claim.name == going.candidate.node_claim);
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

/// The results for terminating claims. Lifecycle is woken for those that were written. A claim that another process wrote at the
/// same time is left for the next plan.
fn left(
    leaving: Vec<Leaving>,
    now: Timestamp,
    (claims, written): (&mut [NodeClaim], &[Written]),
) -> (Vec<Action>, Outcome) {
    let (mut outcome, mut names, mut reasons) = (Outcome::default(), Vec::new(), BTreeSet::new());
    for (Leaving { going, place, after }, answer) in leaving.into_iter().zip(written) {
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
        return (Vec::new(), outcome);
    }
    let summary = reasons.into_iter().collect::<Vec<_>>().join("; ");
    let detail = json!({ "claims": names }).to_string();
    outcome.report.leaving.clone_from(&names);
    (vec![Action::WakeClaims(names.clone()), decision(KIND, names, summary, detail, now)], outcome)
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
        candidate,
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
    Going { candidate: candidate.clone(), reason, message }
}

/// The nodes that have been unhealthy for too long. If too many are unhealthy at once, that is reported instead.
fn repairs(facts: Facts<'_>, under_way: &[CommandRecord]) -> (Vec<Going>, Outcome) {
    let mut outcome = Outcome::default();
    let found = match unhealthy_nodes(facts, under_way) {
        Ok(found) => found,
        Err(why) => {
            outcome.report.problems.push(why);
            return (Vec::new(), outcome);
        }
    };
    outcome.events.extend(found.iter().flat_map(|node| repair_blocked(node, facts.evaluated)));
    let due = found.into_iter().filter(|node| node.verdict == Verdict::Repair);
    let going = |Unhealthy { node, node_claim, node_pool, message, .. }| Going {
        candidate: Candidate { node, node_claim, node_pool },
        reason: TerminationReason::Unhealthy,
        message,
    };
    (due.map(going).collect(), outcome)
}

/// The unhealthy nodes, and what node repair does about them if it is enabled.
///
/// # Errors
/// If a Node cannot be decoded: the unhealthy share cannot be computed without it.
pub(in crate::plan) fn unhealthy_nodes(
    facts: Facts<'_>,
    under_way: &[CommandRecord],
) -> Result<Vec<Unhealthy>, String> {
    if let Some(hidden) = facts.snapshot.view.invalid.iter().find(|object| object.kind == "Node") {
        return Err(format!("no node is repaired: Node {}: {}", hidden.name, hidden.message));
    }
    let cluster_state = ClusterState::new(&facts.snapshot.view, facts.claims).with_shifted(&facts.snapshot.shifted);
    Ok(unhealthy(&whole(&cluster_state, facts.evaluated, under_way), facts.snapshot.now))
}

/// The events on a node that is due for repair and is not repaired.
fn repair_blocked(node: &Unhealthy, evaluated: &[EvaluatedPool]) -> Vec<ObjectEvent> {
    let Verdict::Blocked(why) = &node.verdict else { return Vec::new() };
    let pool = evaluated.iter().find(|one| one.pool.name == node.node_pool).map(|one| ObjectRef::from(&one.pool));
    let objects = [ObjectRef::node(&node.node, ""), ObjectRef::node_claim(&node.node_claim, "")];
    objects.into_iter().chain(pool).map(|object| node_repair_blocked(object, why)).collect()
}

fn leaving_events(going: &Going) -> [ObjectEvent; 2] {
    let Going { candidate, reason, message } = going;
    let event = if *reason == TerminationReason::Unhealthy { repairing } else { disruption_terminating };
    let objects = [ObjectRef::node_claim(&candidate.node_claim, ""), ObjectRef::node(&candidate.node, "")];
    objects.map(|object| event(object, message))
}
