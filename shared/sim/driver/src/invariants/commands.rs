//! What must hold of disruption commands: no node is in two, and no node drains before what takes its place is ready.

use super::{ONE_COMMAND, REPLACEMENTS_FIRST, Violation};
use jiff::{SignedDuration, Timestamp};
use nodeless_disruption::command::{CommandPhase, CommandRecord};
use nodeless_model::NodeClaim;
use nodeless_model::claim::condition;
use nodeless_operations::plan::decode_command;
use nodeless_ports::plans::StoredCommand;
use std::collections::{BTreeMap, BTreeSet};

/// How long before it is first seen in the table a command may have been validated, whatever its record says: so long a plan
/// takes at most.
const PLAN: SignedDuration = SignedDuration::from_mins(1);
/// How long after a command without replacements was validated its nodes may begin to leave because of that.
const LEFT: SignedDuration = SignedDuration::from_mins(1);

/// The commands that were seen, and the claims whose nodes were ever ready for pods.
#[derive(Debug, Default)]
pub(super) struct CommandChecks {
    /// The names of replacements, by the id of the command. A command may have ended by the time that its nodes leave.
    replacements: BTreeMap<String, Vec<String>>,
    ready: BTreeSet<String>,
    /// By the name of the claim, what was validated about it: as of this look, and of the one before, since a command may end
    /// in the very step in which its last node begins to leave.
    validated: [BTreeMap<String, Validated>; 2],
}

/// A command that was validated: whoever reads its record carries it out.
#[derive(Clone, Debug)]
struct Validated {
    command: String,
    at: Timestamp,
    launches: bool,
}

impl CommandChecks {
    /// Looks at commands and claims as they are now, and gives what is wrong with commands.
    pub(super) fn check(&mut self, stored: &[StoredCommand], claims: &[NodeClaim], now: Timestamp) -> Vec<Violation> {
        let ready = claims.iter().filter(|claim| claim.has_condition(condition::INITIALIZED));
        self.ready.extend(ready.map(|claim| claim.name.clone()));
        let mut wrong = Vec::new();
        let mut taken: BTreeMap<String, String> = BTreeMap::new();
        let mut validated = BTreeMap::new();
        for command in stored {
            let record = match decode_command(command) {
                Ok(record) => record,
                Err(why) => {
                    let detail = format!("command {} cannot be read: {why}", command.id);
                    wrong.push(Violation { at: now, invariant: ONE_COMMAND, detail });
                    continue;
                }
            };
            // One that is only proposed has not touched anything yet.
            if record.phase == CommandPhase::Proposed {
                continue;
            }
            let names = record.replacements.iter().map(|claim| claim.name.clone()).collect();
            self.replacements.insert(command.id.clone(), names);
            for candidate in record.candidates() {
                validated.insert(candidate.node_claim.clone(), self.validation(&record, &candidate.node_claim, now));
            }
            wrong.extend(taken_twice(&record, &mut taken, now));
        }
        self.validated.swap(0, 1);
        self.validated[0] = validated;
        wrong
    }

    /// When a command was validated: what was seen of it first counts.
    fn validation(&self, record: &CommandRecord, claim: &str, now: Timestamp) -> Validated {
        let id = &record.command.id;
        if let Some(known) = self.validated[0].get(claim).filter(|known| known.command == *id) {
            return known.clone();
        }
        let earliest = now.checked_sub(PLAN).unwrap_or(Timestamp::MIN);
        let at = record.since.clamp(earliest, now);
        Validated { command: id.clone(), at, launches: !record.replacements.is_empty() }
    }

    /// When it was decided for the last time that a claim may leave by choice, if that was seen. A command is written down
    /// before anything is touched for it, so what came of a decision may come a little later: another process goes on with it.
    pub(super) fn decided(&self, claim: &NodeClaim, now: Timestamp) -> Option<Timestamp> {
        let known = self.validated.iter().find_map(|known| known.get(&claim.name))?;
        let earliest = if known.launches { Timestamp::MIN } else { now.checked_sub(LEFT).unwrap_or(Timestamp::MIN) };
        Some(known.at.max(earliest))
    }

    /// What is wrong with a claim's beginning to leave by choice: replacements of its command that were never ready.
    pub(super) fn leaves(&self, claim: &NodeClaim, now: Timestamp) -> Option<Violation> {
        let id = claim.status.command.as_ref()?;
        let waits: Vec<&String> =
            self.replacements.get(id)?.iter().filter(|name| !self.ready.contains(*name)).collect();
        (!waits.is_empty()).then(|| {
            let detail = format!("claim {} drains by command {id}, and {waits:?} was never ready", claim.name);
            Violation { at: now, invariant: REPLACEMENTS_FIRST, detail }
        })
    }
}

fn taken_twice(record: &CommandRecord, taken: &mut BTreeMap<String, String>, now: Timestamp) -> Vec<Violation> {
    let mut wrong = Vec::new();
    for candidate in record.candidates() {
        let id = &record.command.id;
        if let Some(other) = taken.insert(candidate.node_claim.clone(), id.clone()) {
            let detail = format!("claim {} is in the commands {other} and {id}", candidate.node_claim);
            wrong.push(Violation { at: now, invariant: ONE_COMMAND, detail });
        }
    }
    wrong
}
