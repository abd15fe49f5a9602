//! Bookkeeping: statuses of NodeOverlays and NodePools, and updates of claims.

use crate::plan::action::{Action, Batch, PlanLine, Stage, Written};
use crate::plan::claims::deletions;
use crate::plan::claims::updates::{self, Noted};
use crate::plan::pools::hashes;
use crate::plan::pools::overlays;
use crate::plan::pools::registration_health::{self, PoolRegistrations, Registrations};
use crate::plan::pools::{self, Offered};
use crate::plan::records::report::Outcome;
use crate::plan::snapshot::Snapshot;
use nodeless_model::NodeClaim;
use nodeless_model::object::ObjectEvent;
use nodeless_state::RecordKind;
use std::collections::BTreeMap;

/// The first findings, and those of them that have to be written before statuses can report them.
pub(in crate::plan) struct Findings {
    pub(in crate::plan) batch: Batch,
    launch_results: Vec<PoolRegistrations>,
    outcome: Outcome,
}

/// Looks for invalid objects, evaluates NodeOverlays, and evaluates whether the nodes of NodePools register.
pub(in crate::plan) fn notice(snapshot: &Snapshot, offered: &Offered) -> Findings {
    let (mut actions, mut outcome) = (Vec::new(), Outcome::default());
    for object in &snapshot.view.invalid {
        let (kind, name, why) = (object.kind.clone(), object.name.clone(), object.message.clone());
        outcome.report.problems.push(format!("{kind} {name} is left out: {why}"));
        actions.push(Action::Log(PlanLine::ObjectSkipped { kind, name, why }));
    }
    outcome.report.problems.extend(offered.memory.problem.clone());
    // A failed write is harmless: the next plan sees the same Nodes.
    actions.extend(offered.memory.record.clone().map(|record| Action::PutRecord(RecordKind::ReportedMemory, record)));
    let (launch_results, problems) =
        registration_health::evaluate(snapshot, offered.evaluated.iter().map(|one| &one.pool));
    outcome.report.problems.extend(problems);
    // Last, so that the results of these writes are the last ones.
    actions.extend(overlays::statuses(snapshot, offered));
    actions.extend(
        launch_results
            .iter()
            .filter_map(|one| one.record.clone())
            .map(|record| Action::PutRecord(RecordKind::Registrations, record)),
    );
    Findings { batch: Batch::each(Stage::Bookkeeping, actions), launch_results, outcome }
}

/// Statuses and claims to write.
pub(in crate::plan) struct Noting {
    pub(in crate::plan) batch: Batch,
    /// The events of each status that is written, in the order of the actions.
    statuses: Vec<Vec<ObjectEvent>>,
    noted: Vec<Noted>,
    outcome: Outcome,
}

impl Findings {
    /// Continues with NodePools and claims, given the results of the writes.
    pub(in crate::plan) fn note(self, snapshot: &Snapshot, offered: &Offered, written: &[Written]) -> Noting {
        let Self { launch_results, mut outcome, .. } = self;
        let records = launch_results.iter().filter(|one| one.record.is_some()).count();
        let mut answers = written.iter().skip(written.len().saturating_sub(records));
        let mut known: BTreeMap<String, Registrations> = BTreeMap::new();
        for PoolRegistrations { node_pool, registrations, record } in launch_results {
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
        let (mut lines, mut actions, mut statuses) = (Vec::new(), Vec::new(), Vec::new());
        for one in &offered.evaluated {
            let name = &one.pool.name;
            if let Err(why) = &one.pool.ready
                && one.scheduled_off.is_none()
            {
                let (kind, name, why) = ("NodePool".to_owned(), name.clone(), why.to_string());
                outcome.report.problems.push(format!("NodePool {name} is left out: {why}"));
                lines.push(Action::Log(PlanLine::ObjectSkipped { kind, name, why }));
            }
            let changed = pools::changed_status(&snapshot.view, one, known.get(name), snapshot.now);
            if let Some((action, events)) = changed {
                actions.push(action);
                statuses.push(events);
            }
        }
        // Only disruption needs these updates. The next plan makes them too, with a slightly later time.
        let noted = if snapshot.is_whole() { updates::noted(snapshot, &offered.evaluated) } else { Vec::new() };
        actions.extend(noted.iter().map(|noted| Action::UpdateClaim(Box::new(noted.after.clone()))));
        // Log lines last, so that the results of the writes are the first ones.
        actions.extend(lines);
        Noting { batch: Batch::each(Stage::Bookkeeping, actions), statuses, noted, outcome }
    }
}

/// The claims after this stage, and the further actions.
pub(in crate::plan) struct Kept {
    pub(in crate::plan) batch: Batch,
    pub(in crate::plan) claims: Vec<NodeClaim>,
    pub(in crate::plan) outcome: Outcome,
}

impl Noting {
    /// The claims after this stage, given the results of the writes.
    pub(in crate::plan) fn done(self, snapshot: &Snapshot, written: &[Written]) -> Kept {
        let Self { statuses, noted, mut outcome, .. } = self;
        let mut claims = snapshot.claims.clone();
        let (of_statuses, of_claims) = written.split_at(statuses.len().min(written.len()));
        for (events, answer) in statuses.into_iter().zip(of_statuses) {
            if answer.problem().is_none() {
                outcome.events.extend(events);
            }
        }
        for (Noted { place, after, pods_changed, events }, answer) in noted.into_iter().zip(of_claims) {
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
        let mut due = hashes::behind(&claims, &snapshot.view);
        due.extend(deletions::deleted(&claims, &snapshot.view));
        due.sort();
        due.dedup();
        let wake = if due.is_empty() { Vec::new() } else { vec![Action::WakeClaims(due)] };
        Kept { batch: Batch::each(Stage::Bookkeeping, wake), claims, outcome }
    }
}
