//! The invariants of disruption commands: no node is in two, and no node drains before its replacements are ready.

use crate::invariants::{ONE_COMMAND, REPLACEMENTS_FIRST, Violation};
use jiff::{SignedDuration, Timestamp};
use nodeless_disruption::command::{CommandPhase, CommandRecord};
use nodeless_model::NodeClaim;
use nodeless_model::claim::condition;
use nodeless_planner::decode_command;
use nodeless_state::plans::StoredCommand;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum time between the validation of a command and its first observation in the table, whatever its record contains: the maximum
/// duration of a plan.
const PLAN: SignedDuration = SignedDuration::from_mins(1);
/// The maximum time between the validation of a command without replacements and the start of the disruption of its nodes.
const LEFT: SignedDuration = SignedDuration::from_mins(1);

/// The observed commands, and the claims whose nodes were ever ready for pods.
#[derive(Debug, Default)]
pub(in crate::invariants) struct CommandChecks {
    /// The names of replacements, by the id of the command. A command may have ended when its nodes are disrupted.
    replacements: BTreeMap<String, Vec<String>>,
    ready: BTreeSet<String>,
    /// The validations of each claim by name: as of this check, and of the one before, because a command may end in the step in
    /// which the disruption of its last node begins.
    validated: [BTreeMap<String, Validated>; 2],
    /// The claims of proposed commands as of the check before: one that is validated by a plan and ended by the next may never be
    /// observed as validated.
    proposed: [BTreeSet<String>; 2],
}

/// A validated command: any process that reads its record executes it.
#[derive(Clone, Debug)]
struct Validated {
    command: String,
    at: Timestamp,
    launches: bool,
}

impl CommandChecks {
    /// Checks the current commands and claims, and returns the violations about commands.
    pub(in crate::invariants) fn check(
        &mut self,
        stored: &[StoredCommand],
        claims: &[NodeClaim],
        now: Timestamp,
    ) -> Vec<Violation> {
        let ready = claims.iter().filter(|claim| claim.has_condition(condition::INITIALIZED));
        self.ready.extend(ready.map(|claim| claim.name.clone()));
        let mut wrong = Vec::new();
        let mut taken: BTreeMap<String, String> = BTreeMap::new();
        let (mut validated, mut proposed) = (BTreeMap::new(), BTreeSet::new());
        for command in stored {
            let record = match decode_command(command) {
                Ok(record) => record,
                Err(why) => {
                    let detail = format!("command {} cannot be read: {why}", command.id);
                    wrong.push(Violation { at: now, invariant: ONE_COMMAND, detail });
                    continue;
                }
            };
            // A proposed command has not changed anything yet.
            if record.phase == CommandPhase::Proposed {
                proposed.extend(record.candidates().iter().map(|candidate| candidate.node_claim.clone()));
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
        self.proposed.swap(0, 1);
        self.proposed[0] = proposed;
        wrong
    }

    /// When a command was validated: the first observation counts.
    fn validation(&self, record: &CommandRecord, claim: &str, now: Timestamp) -> Validated {
        let id = &record.command.id;
        if let Some(known) = self.validated[0].get(claim).filter(|known| known.command == *id) {
            return known.clone();
        }
        let earliest = now.checked_sub(PLAN).unwrap_or(Timestamp::MIN);
        let at = record.since.clamp(earliest, now);
        Validated { command: id.clone(), at, launches: !record.replacements.is_empty() }
    }

    /// When the voluntary disruption of a claim was decided last, if that was observed. A command is written before it changes
    /// anything, so its effects may be later, when another process continues it.
    pub(in crate::invariants) fn decided(&self, claim: &NodeClaim, now: Timestamp) -> Option<Timestamp> {
        let Some(known) = self.validated.iter().find_map(|known| known.get(&claim.name)) else {
            // Validated since the check before, by a plan that began at most this long ago.
            let proposed = self.proposed[1].contains(&claim.name);
            return proposed.then(|| now.checked_sub(PLAN).unwrap_or(Timestamp::MIN));
        };
        let earliest = if known.launches { Timestamp::MIN } else { now.checked_sub(LEFT).unwrap_or(Timestamp::MIN) };
        Some(known.at.max(earliest))
    }

    /// The violations of a voluntary disruption: replacements of its command that were never ready.
    pub(in crate::invariants) fn leaves(&self, claim: &NodeClaim, now: Timestamp) -> Option<Violation> {
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
