//! Launches that the removal of other nodes led to: they are recorded, and such nodes are not consolidated for a time.

use crate::plan::action::{Action, Batch, Stage, Written};
use crate::plan::facts::Facts;
use crate::plan::records::decisions;
use crate::plan::records::report::Outcome;
use crate::records;
use jiff::Timestamp;
use nodeless_disruption::churn::Churn;
use nodeless_disruption::held_back::{LaunchForPods, Removal, WINDOW};
use nodeless_model::{DollarsPerHour, EndedNode};
use nodeless_state::{RecordKind, StoredRecord};
use std::collections::{BTreeMap, BTreeSet};

/// The records to write because of launches.
pub(crate) struct Noting {
    pub(crate) batch: Batch,
    /// All records as they were read.
    stored: Vec<StoredRecord>,
    /// The removals that led to launches, by command, for each record to write.
    caused: Vec<BTreeMap<String, Removal>>,
    /// The errors.
    failures: Vec<String>,
}

/// The result of noting launches.
pub(crate) struct Noted {
    /// The explanations to record.
    pub(crate) batch: Batch,
    /// All records after the writes; `None` if one of them is unknown.
    pub(crate) churn: Option<Vec<StoredRecord>>,
    pub(crate) outcome: Outcome,
}

/// The time since which ended claims matter.
pub(crate) fn since(now: Timestamp) -> Timestamp {
    now.checked_sub(WINDOW).unwrap_or(Timestamp::MIN)
}

/// The reads before launches are noted: the removals and the claims that ended recently.
pub(crate) fn read(facts: Facts<'_>) -> Batch {
    Batch::each(Stage::Provisioning, vec![Action::ReadChurn, Action::ReadEnded(since(facts.snapshot.now))])
}

/// Notes the launches for pods of workloads that removals of the same NodePool move, given what was read.
pub(crate) fn note(launches: &[(String, LaunchForPods)], facts: Facts<'_>, read: &[Written]) -> Noting {
    let batch = Batch::each(Stage::Provisioning, Vec::new());
    let mut noting = Noting { batch, stored: Vec::new(), caused: Vec::new(), failures: Vec::new() };
    let [Written::Churn(stored), Written::Ended(ended)] = read else {
        let why = read.iter().find_map(Written::problem).unwrap_or("it was not read");
        noting.failures.push(why.to_owned());
        return noting;
    };
    noting.stored.clone_from(stored);
    let removing = removing(facts, ended);
    for record in stored {
        let launched: Vec<&LaunchForPods> =
            launches.iter().filter(|(pool, _)| *pool == record.node_pool).map(|(_, launch)| launch).collect();
        if !launched.is_empty()
            && let Err(why) = noting.add(record, &launched, &removing, facts)
        {
            noting.failures.push(why);
        }
    }
    noting
}

/// The claims that commands remove, and those that ended within [`WINDOW`]. Those of a command that was rolled back are not removed.
fn removing<'a>(facts: Facts<'a>, ended: &'a [EndedNode]) -> BTreeSet<&'a str> {
    let leaving = facts.claims.iter().filter(|claim| claim.phase.is_leaving() || claim.status.command.is_some());
    leaving.map(|claim| claim.name.as_str()).chain(ended.iter().map(|node| node.name.as_str())).collect()
}

impl Noting {
    fn add(
        &mut self,
        stored: &StoredRecord,
        launched: &[&LaunchForPods],
        removing: &BTreeSet<&str>,
        facts: Facts<'_>,
    ) -> Result<(), String> {
        let now = facts.snapshot.now;
        let mut churn: Churn = records::decode(RecordKind::Churn, stored).map_err(|error| error.to_string())?;
        let mut caused = BTreeMap::new();
        for launch in launched {
            if let Some(removal) = churn.held_back.note_launch(launch, removing, now) {
                caused.insert(removal.command.clone(), removal.clone());
            }
        }
        if caused.is_empty() {
            return Ok(());
        }
        let expires = churn.expires().unwrap_or(now);
        let next = records::encode(&stored.node_pool, stored.version, &churn, Some(expires));
        self.batch.actions.push(Action::PutRecord(RecordKind::Churn, next.map_err(|error| error.to_string())?));
        self.caused.push(caused);
        Ok(())
    }

    /// The explanations of what was recorded, given the results of the writes.
    pub(crate) fn done(self, facts: Facts<'_>, written: &[Written]) -> Noted {
        let Self { batch, mut stored, caused, mut failures } = self;
        let mut explanations = Vec::new();
        for ((action, caused), answer) in batch.actions.into_iter().zip(caused).zip(written) {
            let Action::PutRecord(_, record) = action else { continue };
            match answer {
                Written::Version(version) => {
                    explanations.extend(caused.values().map(|removal| explanation(&record.node_pool, removal, facts)));
                    let old = stored.iter_mut().filter(|old| old.node_pool == record.node_pool);
                    old.for_each(|old| *old = StoredRecord { version: *version, ..record.clone() });
                }
                answer => failures.push(answer.problem().unwrap_or("it was not written").to_owned()),
            }
        }
        let churn = failures.is_empty().then_some(stored);
        let mut outcome = Outcome::default();
        let problem = |why: &String| format!("it could not be recorded whether a removal led to a launch: {why}");
        outcome.report.problems.extend(failures.iter().map(problem));
        Noted { batch: Batch::each(Stage::Provisioning, explanations), churn, outcome }
    }
}

fn explanation(node_pool: &str, removal: &Removal, facts: Facts<'_>) -> Action {
    let launches = removal.launches.iter().map(|launch| launch.node_claim.clone());
    let subjects = removal.node_claims.iter().cloned().chain(launches).collect();
    let summary = format!(
        "command {} led to {} launches: realized savings {}, predicted {}",
        removal.command,
        removal.launches.len(),
        DollarsPerHour(removal.realized()),
        DollarsPerHour(removal.predicted)
    );
    let detail = decisions::removal_led_to_launch(node_pool, removal);
    decisions::decision("removal-led-to-launch", subjects, summary, detail, facts.snapshot.now)
}
