//! What must hold of disruption commands: no node is in two, and no node drains before what takes its place is ready.

use super::Violation;
use jiff::Timestamp;
use nodeless_disruption::command::{CommandPhase, CommandRecord};
use nodeless_model::NodeClaim;
use nodeless_model::claim::condition;
use nodeless_operations::plan::decode_command;
use nodeless_ports::claims::StoredCommand;
use std::collections::{BTreeMap, BTreeSet};

const ALONE: &str = "no node is in two commands";
const FIRST: &str = "no node drains before its replacements are ready";

/// The commands that were seen, and the claims whose nodes were ever ready for pods.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The names of replacements, by the id of the command. A command may have ended by the time that its nodes leave.
    replacements: BTreeMap<String, Vec<String>>,
    ready: BTreeSet<String>,
}

impl Order {
    /// Looks at commands and claims as they are now, and gives what is wrong with commands.
    pub(super) fn look(&mut self, stored: &[StoredCommand], claims: &[NodeClaim], now: Timestamp) -> Vec<Violation> {
        let ready = claims.iter().filter(|claim| claim.has_condition(condition::INITIALIZED));
        self.ready.extend(ready.map(|claim| claim.name.clone()));
        let mut wrong = Vec::new();
        let mut taken: BTreeMap<String, String> = BTreeMap::new();
        for command in stored {
            let record = match decode_command(command) {
                Ok(record) => record,
                Err(why) => {
                    let detail = format!("command {} cannot be read: {why}", command.id);
                    wrong.push(Violation { at: now, invariant: ALONE, detail });
                    continue;
                }
            };
            // One that is only proposed has not touched anything yet.
            if record.phase == CommandPhase::Proposed {
                continue;
            }
            let names = record.replacements.iter().map(|claim| claim.name.clone()).collect();
            self.replacements.insert(command.id.clone(), names);
            wrong.extend(taken_twice(&record, &mut taken, now));
        }
        wrong
    }

    /// What is wrong with a claim's beginning to leave by choice: replacements of its command that were never ready.
    pub(super) fn leaves(&self, claim: &NodeClaim, now: Timestamp) -> Option<Violation> {
        let id = claim.status.command.as_ref()?;
        let waits: Vec<&String> =
            self.replacements.get(id)?.iter().filter(|name| !self.ready.contains(*name)).collect();
        (!waits.is_empty()).then(|| {
            let detail = format!("claim {} drains by command {id}, and {waits:?} was never ready", claim.name);
            Violation { at: now, invariant: FIRST, detail }
        })
    }
}

fn taken_twice(record: &CommandRecord, taken: &mut BTreeMap<String, String>, now: Timestamp) -> Vec<Violation> {
    let mut wrong = Vec::new();
    for candidate in record.candidates() {
        let id = &record.command.id;
        if let Some(other) = taken.insert(candidate.node_claim.clone(), id.clone()) {
            let detail = format!("claim {} is in the commands {other} and {id}", candidate.node_claim);
            wrong.push(Violation { at: now, invariant: ALONE, detail });
        }
    }
    wrong
}
