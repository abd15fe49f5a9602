//! The lifecycle of a command, from the proposal to the end, as a record that survives the process.
//!
//! ```text
//! Proposed -> Tainting -> Launching -> Waiting -> Draining -> (ended)
//!     \           \___________\__________\________\-> RollingBack -> (ended)
//!      \-> (dropped)
//!
//! A command that launches nothing continues from Proposed to Draining at once, because a drain begins with the taint.
//! ```
//!
//! The record is written conditionally before the effects of its phase are executed, and every effect may be repeated: so an
//! interrupted command continues from the record alone. [`step()`] decides what to do next. A claim has the id of the command
//! that has taken it ([`NodeClaimStatus::command`](nodeless_model::NodeClaimStatus)), written on condition of the claim's
//! version, so two commands never have the same node.

mod events;
mod step;
#[cfg(test)]
mod tests;

pub use events::replaced_nodes;
pub use step::{CommandEffect, CommandOutcome, CommandStep, Surroundings, step};

use crate::VALIDATION_DELAY;
use crate::output::{Candidate, Command};
use jiff::{SignedDuration, Timestamp};
use nodeless_model::claim::{TerminationReason, condition};
use nodeless_model::{NodeClaim, Phase};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The minimum time until replacements have to be initialized, as in Karpenter.
const SHORTEST_WAIT: Duration = Duration::from_mins(10);
/// The maximum.
const LONGEST_WAIT: Duration = Duration::from_hours(1);
/// The additional time for each command in progress.
const WAIT_PER_COMMAND: Duration = Duration::from_millis(80);

/// The phase of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CommandPhase {
    /// The command was decided and waits for its validation on a later snapshot. Nothing was changed.
    Proposed,
    /// The candidates are being tainted: each claim gets the command's id, and then each node the taint.
    Tainting,
    /// The replacements are being written as claims.
    Launching,
    /// The replacements are launched and not initialized yet.
    Waiting,
    /// The candidates are being terminated.
    Draining,
    /// The command failed: its candidates are being released. Existing replacements stay, as in Karpenter; consolidation removes
    /// those that are not needed.
    RollingBack,
}

impl CommandPhase {
    /// Whether a command in this phase has changed something that a rollback restores.
    const fn may_be_taken_back(self) -> bool {
        matches!(self, Self::Tainting | Self::Launching | Self::Waiting | Self::Draining)
    }
}

/// A command and its progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandRecord {
    /// The command; after the validation, in its validated form.
    pub command: Command,
    /// The phase.
    pub phase: CommandPhase,
    /// The start of the phase.
    pub since: Timestamp,
    /// The claims of the replacements. They are decided, including names and launch groups, before the first is written, so that
    /// a process that continues the command launches the same ones.
    pub replacements: Vec<NodeClaim>,
    /// When the replacements must be initialized.
    pub deadline: Option<Timestamp>,
    /// Why it is being rolled back.
    pub failure: Option<String>,
    /// The number of writes of the record; zero before the first.
    #[serde(skip)]
    pub version: u64,
}

impl CommandRecord {
    /// A new command.
    #[must_use]
    pub fn propose(command: Command) -> Self {
        Self {
            since: command.decided,
            command,
            phase: CommandPhase::Proposed,
            replacements: Vec::new(),
            deadline: None,
            failure: None,
            version: 0,
        }
    }

    /// The time until it may be validated.
    #[must_use]
    pub fn validation_due_in(&self, now: Timestamp) -> Duration {
        let age = Duration::try_from(now.duration_since(self.command.decided)).unwrap_or_default();
        VALIDATION_DELAY.saturating_sub(age)
    }

    /// The record of a validated command. `replacements` are the claims to write; `in_flight` is the number of commands in
    /// progress.
    #[must_use]
    pub fn confirm(&self, again: Command, replacements: Vec<NodeClaim>, in_flight: usize, now: Timestamp) -> Self {
        let factor = u32::try_from(in_flight).unwrap_or(u32::MAX);
        let wait = WAIT_PER_COMMAND.saturating_mul(factor).clamp(SHORTEST_WAIT, LONGEST_WAIT);
        let deadline = SignedDuration::try_from(wait).ok().and_then(|wait| now.checked_add(wait).ok());
        Self {
            command: again,
            phase: if replacements.is_empty() { CommandPhase::Draining } else { CommandPhase::Tainting },
            since: now,
            replacements,
            deadline,
            failure: None,
            version: self.version,
        }
    }

    /// The record of a command that has to be rolled back.
    #[must_use]
    pub fn roll_back(&self, why: impl Into<String>, now: Timestamp) -> Self {
        Self { phase: CommandPhase::RollingBack, since: now, failure: Some(why.into()), ..self.clone() }
    }

    /// When it has to be evaluated again without an event. The functions that taint nodes or find them ready send a message, but
    /// of several messages within a second the queue delivers only the first.
    #[must_use]
    pub fn next_look(&self, claims: &BTreeMap<String, NodeClaim>) -> Option<Duration> {
        let is_ready = |made: &NodeClaim| claims.get(&made.name).is_some_and(|claim| claim.phase == Phase::Initialized);
        match self.phase {
            CommandPhase::Tainting => Some(Duration::from_secs(3)),
            CommandPhase::Waiting if self.replacements.iter().any(is_ready) => Some(Duration::from_secs(10)),
            _ => None,
        }
    }

    /// Whether the pods of the candidates have to be scheduled now, because the replacements exist.
    #[must_use]
    pub const fn moves_pods(&self) -> bool {
        matches!(self.phase, CommandPhase::Waiting | CommandPhase::Draining)
    }

    /// The NodePools of its replacements that did not become ready in time, whatever else it is rolled back for. A launch that EC2 had
    /// no capacity for, and a node that was interrupted or deleted, do not count.
    #[must_use]
    pub fn unready_node_pools(&self, claims: &BTreeMap<String, NodeClaim>, now: Timestamp) -> BTreeSet<String> {
        use TerminationReason::{InstanceMissing, LaunchTimeout, RegistrationTimeout, Unhealthy};
        let is_late = self.deadline.is_some_and(|deadline| now >= deadline);
        let is_unready = |present: &&NodeClaim| match &present.status.termination {
            Some(end) => {
                matches!(end.reason, LaunchTimeout | RegistrationTimeout | InstanceMissing | Unhealthy)
                    && !present.has_condition(condition::INITIALIZED)
            }
            None => is_late && present.phase < Phase::Initialized,
        };
        let present =
            self.replacements.iter().filter_map(|made| claims.get(&made.name).filter(|it| it.uid == made.uid));
        present.filter(is_unready).filter_map(|claim| claim.node_pool.clone()).collect()
    }

    /// Whether a claim is one of the candidates.
    #[must_use]
    pub fn concerns(&self, node_claim: &str) -> bool {
        self.candidates().iter().any(|candidate| candidate.node_claim == node_claim)
    }

    /// The nodes that it removes.
    #[must_use]
    pub fn candidates(&self) -> &[Candidate] {
        &self.command.candidates
    }

    /// A summary in one sentence.
    #[must_use]
    pub fn summary(&self) -> String {
        let nodes: Vec<&str> = self.candidates().iter().map(|candidate| candidate.node_claim.as_str()).collect();
        let made: Vec<&str> = self.replacements.iter().map(|claim| claim.name.as_str()).collect();
        let instead = if self.command.drains_first {
            "a limit is reached or their capacity reservation is full, so their replacements are launched once they are gone".to_owned()
        } else if made.is_empty() {
            "without replacements".to_owned()
        } else {
            format!("replaced by {}", made.join(", "))
        };
        let failure = self.failure.as_ref().map_or_else(String::new, |why| format!("; rolled back: {why}"));
        let zones = self.command.zones.as_ref().map_or_else(String::new, |zones| format!("; {zones}"));
        format!("{:?}, {:?}: {}; {instead}{zones}{failure}", self.command.reason, self.phase, nodes.join(", "))
    }
}
