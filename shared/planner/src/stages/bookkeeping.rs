//! Bookkeeping: statuses of NodeOverlays and NodePools, and updates of claims.

use crate::action::{Action, Batch, PlanLine, Stage, Written};
use crate::claims::deletions;
use crate::claims::updates::{self, Noted};
use crate::execute::Execute;
use crate::pools::hashes;
use crate::pools::overlays;
use crate::pools::registration_health::{self, PoolRegistrations, Registrations};
use crate::pools::{self, Offered};
use crate::records::report::Outcome;
use crate::snapshot::Snapshot;
use nodeless_lifecycle::Awaited;
use nodeless_model::events::daemon_set_not_awaited;
use nodeless_model::object::ObjectEvent;
use nodeless_model::{NodeClaim, OptionFault};
use nodeless_state::RecordKind;
use std::collections::BTreeMap;

/// Reports invalid objects, and writes what is known of NodeOverlays, NodePools and claims. Returns the claims after it.
pub(crate) async fn run(
    snapshot: &Snapshot,
    offered: &Offered,
    executor: &dyn Execute,
    outcome: &mut Outcome,
) -> Vec<NodeClaim> {
    let known = write_records(snapshot, offered, executor, outcome).await;
    let (mut actions, events): (Vec<Action>, Vec<Vec<ObjectEvent>>) = statuses(snapshot, offered, &known).unzip();
    // Only disruption needs these updates. The next plan makes them too, with a slightly later time.
    let noted = if snapshot.is_whole() { updates::noted(snapshot, &offered.evaluated) } else { Vec::new() };
    actions.extend(noted.iter().map(|noted| Action::UpdateClaim(Box::new(noted.after.clone()))));
    actions.extend(left_out(offered, outcome));
    outcome.events.extend(snapshot.view.option_faults().iter().map(OptionFault::event));
    outcome.events.extend(not_awaited(snapshot));
    let written = executor.carry_out(&batch(actions)).await;

    let mut answers = written.iter();
    let statuses = events.into_iter().zip(answers.by_ref());
    outcome.events.extend(statuses.filter(|(_, answer)| answer.problem().is_none()).flat_map(|(events, _)| events));
    let claims = updated(snapshot, noted, answers, outcome);
    executor.carry_out(&batch(wake_changed(&claims, snapshot))).await;
    claims
}

const fn batch(actions: Vec<Action>) -> Batch {
    Batch::each(Stage::Bookkeeping, actions)
}

/// Writes the statuses of NodeOverlays and the records that the statuses of NodePools report. Returns the launch results of each
/// NodePool for which they are known.
async fn write_records(
    snapshot: &Snapshot,
    offered: &Offered,
    executor: &dyn Execute,
    outcome: &mut Outcome,
) -> BTreeMap<String, Registrations> {
    let mut actions = skipped(snapshot, outcome);
    outcome.report.problems.extend(offered.memory.problem.clone());
    // A failed write is harmless: the next plan sees the same Nodes.
    actions.extend(offered.memory.record.clone().map(|record| Action::PutRecord(RecordKind::ReportedMemory, record)));
    actions.extend(overlays::statuses(snapshot, offered));
    let before = actions.len();
    let (results, problems) = registration_health::evaluate(snapshot, offered.evaluated.iter().map(|one| &one.pool));
    outcome.report.problems.extend(problems);
    let records = results.iter().filter_map(|one| one.record.clone());
    actions.extend(records.map(|record| Action::PutRecord(RecordKind::Registrations, record)));
    let written = executor.carry_out(&batch(actions)).await;
    known_registrations(results, written.iter().skip(before), outcome)
}

/// Reports the objects that cannot be used.
fn skipped(snapshot: &Snapshot, outcome: &mut Outcome) -> Vec<Action> {
    let mut lines = Vec::new();
    for object in &snapshot.view.invalid {
        let (kind, name, why) = (object.kind.clone(), object.name.clone(), object.message.clone());
        outcome.report.problems.push(format!("{kind} {name} is left out: {why}"));
        lines.push(Action::Log(PlanLine::ObjectSkipped { kind, name, why }));
    }
    lines
}

/// The launch results of NodePools, without those whose record could not be written.
fn known_registrations<'w>(
    results: Vec<PoolRegistrations>,
    mut answers: impl Iterator<Item = &'w Written>,
    outcome: &mut Outcome,
) -> BTreeMap<String, Registrations> {
    let mut known = BTreeMap::new();
    for PoolRegistrations { node_pool, registrations, record } in results {
        match record.and_then(|_| answers.next()) {
            // Lifecycle is writing a result now. The next plan reads it.
            Some(Written::Conflict(_)) => continue,
            Some(answer) if answer.problem().is_some() => {
                let why = answer.problem().unwrap_or_default();
                outcome.report.problems.push(format!("launch results of NodePool {node_pool}: {why}"));
                continue;
            }
            _ => {}
        }
        known.insert(node_pool, registrations);
    }
    known
}

/// The statuses of NodePools that change, each with the events to publish once it is written.
fn statuses(
    snapshot: &Snapshot,
    offered: &Offered,
    known: &BTreeMap<String, Registrations>,
) -> impl Iterator<Item = (Action, Vec<ObjectEvent>)> {
    let status = |one| pools::changed_status(snapshot, one, known.get(&one.pool.name));
    offered.evaluated.iter().filter_map(status)
}

/// Reports the NodePools that are not ready.
fn left_out(offered: &Offered, outcome: &mut Outcome) -> Vec<Action> {
    let mut lines = Vec::new();
    for one in offered.evaluated.iter().filter(|one| one.scheduled_off.is_none()) {
        let Err(why) = &one.pool.ready else { continue };
        let (kind, name, why) = ("NodePool".to_owned(), one.pool.name.clone(), why.to_string());
        outcome.report.problems.push(format!("NodePool {name} is left out: {why}"));
        lines.push(Action::Log(PlanLine::ObjectSkipped { kind, name, why }));
    }
    lines
}

/// The DaemonSets that annotations of NodePools name and nodes do not wait for.
fn not_awaited(snapshot: &Snapshot) -> impl Iterator<Item = ObjectEvent> {
    let sets = &snapshot.view.daemon_sets;
    snapshot.view.node_pools.iter().flat_map(|pool| {
        let ignored = Awaited::new(pool, sets).ignored.into_iter();
        ignored.map(move |why| daemon_set_not_awaited(pool, &why))
    })
}

/// The claims after their updates.
fn updated<'w>(
    snapshot: &Snapshot,
    noted: Vec<Noted>,
    answers: impl Iterator<Item = &'w Written>,
    outcome: &mut Outcome,
) -> Vec<NodeClaim> {
    let mut claims = snapshot.claims.clone();
    for (Noted { place, after, pods_changed, events }, answer) in noted.into_iter().zip(answers) {
        let Some(claim) = claims.get_mut(place) else { continue };
        if let Written::Version(version) = answer {
            outcome.events.extend(events);
            *claim = NodeClaim { version: *version, ..after };
            continue;
        }
        // The next plan records it. Until then its pods count as changed.
        if pods_changed {
            claim.status.last_pod_event = Some(snapshot.now);
        }
        // A conflict with another writer is not an error.
        if let (Some(why), false) = (answer.problem(), matches!(answer, Written::Conflict(_))) {
            outcome.report.problems.push(format!("NodeClaim {}: {why}", claim.name));
        }
    }
    claims
}

/// Wakes lifecycle for claims with outdated hashes, and for deleted ones.
fn wake_changed(claims: &[NodeClaim], snapshot: &Snapshot) -> Vec<Action> {
    let mut due = hashes::behind(claims, &snapshot.view);
    due.extend(deletions::deleted(claims, &snapshot.view));
    due.sort();
    due.dedup();
    if due.is_empty() { Vec::new() } else { vec![Action::WakeClaims(due)] }
}
