//! Launches that the removal of other nodes led to: they are recorded, and such nodes are not consolidated for a time.

use crate::action::{Action, Batch, Stage, Written};
use crate::execute::Execute;
use crate::facts::Facts;
use crate::records::decisions;
use crate::records::report::Outcome;
use jiff::Timestamp;
use nodeless_disruption::churn::Churn;
use nodeless_disruption::held_back::{LaunchForPods, Removal, WINDOW};
use nodeless_model::plural::counted;
use nodeless_model::{DollarsPerHour, EndedNode};
use nodeless_operations::records;
use nodeless_state::{RecordKind, StoredRecord};
use std::collections::{BTreeMap, BTreeSet};

/// A record of recent disruption with new launches, and the removals that led to them, by command.
struct Caused {
    record: StoredRecord,
    removals: BTreeMap<String, Removal>,
}

/// The time since which ended claims matter.
pub(crate) fn since(now: Timestamp) -> Timestamp {
    now.checked_sub(WINDOW).unwrap_or(Timestamp::MIN)
}

/// Records which launches for pods of workloads the removals of nodes of the same NodePool led to. The recent disruption is read for
/// that only if there are launches; all its records are returned if they are known after the writes.
pub(crate) async fn note(
    launches: &[(String, LaunchForPods)],
    facts: Facts<'_>,
    executor: &dyn Execute,
    outcome: &mut Outcome,
) -> Option<Vec<StoredRecord>> {
    if launches.is_empty() {
        return None;
    }
    let read = executor.carry_out(&batch(vec![Action::ReadChurn, Action::ReadEnded(since(facts.snapshot.now))])).await;
    let [Written::Churn(stored), Written::Ended(ended)] = read.as_slice() else {
        let why = read.iter().find_map(Written::problem).unwrap_or("it was not read");
        outcome.report.problems.push(not_recorded(why));
        return None;
    };
    let (caused, mut failures) = caused(launches, stored, &removing(facts, ended), facts.snapshot.now);
    let actions = caused.iter().map(|one| Action::PutRecord(RecordKind::Churn, one.record.clone())).collect();
    let written = executor.carry_out(&batch(actions)).await;

    let (mut stored, mut explanations) = (stored.clone(), Vec::new());
    for (Caused { record, removals }, answer) in caused.into_iter().zip(&written) {
        let Written::Version(version) = answer else {
            failures.push(answer.problem().unwrap_or("it was not written").to_owned());
            continue;
        };
        explanations.extend(removals.values().map(|removal| explanation(&record.node_pool, removal, facts)));
        let old = stored.iter_mut().filter(|old| old.node_pool == record.node_pool);
        old.for_each(|old| *old = StoredRecord { version: *version, ..record.clone() });
    }
    executor.carry_out(&batch(explanations)).await;
    outcome.report.problems.extend(failures.iter().map(|why| not_recorded(why)));
    failures.is_empty().then_some(stored)
}

const fn batch(actions: Vec<Action>) -> Batch {
    Batch::each(Stage::Provisioning, actions)
}

fn not_recorded(why: &str) -> String {
    format!("it could not be recorded whether a removal led to a launch: {why}")
}

/// The claims that commands remove, and those that ended within [`WINDOW`]. Those of a command that was rolled back are not removed.
fn removing<'a>(facts: Facts<'a>, ended: &'a [EndedNode]) -> BTreeSet<&'a str> {
    let leaving = facts.claims.iter().filter(|claim| claim.phase.is_leaving() || claim.status.command.is_some());
    leaving.map(|claim| claim.name.as_str()).chain(ended.iter().map(|node| node.name.as_str())).collect()
}

/// The records with new launches, and the errors.
fn caused(
    launches: &[(String, LaunchForPods)],
    stored: &[StoredRecord],
    removing: &BTreeSet<&str>,
    now: Timestamp,
) -> (Vec<Caused>, Vec<String>) {
    let (mut caused, mut failures) = (Vec::new(), Vec::new());
    for record in stored {
        let own = launches.iter().filter(|(pool, _)| *pool == record.node_pool).map(|(_, launch)| launch);
        match with_launches(record, own, removing, now) {
            Ok(one) => caused.extend(one),
            Err(why) => failures.push(why),
        }
    }
    (caused, failures)
}

/// The record of a NodePool with the launches that its removals led to; `None` if they led to none.
///
/// # Errors
/// If the record cannot be decoded or encoded.
fn with_launches<'l>(
    stored: &StoredRecord,
    launches: impl Iterator<Item = &'l LaunchForPods>,
    removing: &BTreeSet<&str>,
    now: Timestamp,
) -> Result<Option<Caused>, String> {
    let mut launches = launches.peekable();
    if launches.peek().is_none() {
        return Ok(None);
    }
    let mut churn: Churn = records::decode(RecordKind::Churn, stored).map_err(|error| error.to_string())?;
    let mut removals = BTreeMap::new();
    for launch in launches {
        if let Some(removal) = churn.held_back.note_launch(launch, removing, now) {
            removals.insert(removal.command.clone(), removal.clone());
        }
    }
    if removals.is_empty() {
        return Ok(None);
    }
    let expires = churn.expires().unwrap_or(now);
    let record = records::encode(&stored.node_pool, stored.version, &churn, Some(expires));
    Ok(Some(Caused { record: record.map_err(|error| error.to_string())?, removals }))
}

fn explanation(node_pool: &str, removal: &Removal, facts: Facts<'_>) -> Action {
    let launches = removal.launches.iter().map(|launch| launch.node_claim.clone());
    let subjects = removal.node_claims.iter().cloned().chain(launches).collect();
    let summary = format!(
        "command {} led to {}: realized savings {}, predicted {}",
        removal.command,
        counted(removal.launches.len(), "launched node"),
        DollarsPerHour(removal.realized()),
        DollarsPerHour(removal.predicted)
    );
    let detail = decisions::removal_led_to_launch(node_pool, removal);
    decisions::decision("removal-led-to-launch", subjects, summary, detail, facts.snapshot.now)
}
