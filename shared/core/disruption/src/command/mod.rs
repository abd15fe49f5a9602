//! A command on its way, from the proposal to the end, as a record that survives the process.
//!
//! ```text
//! Proposed -> Tainting -> Launching -> Waiting -> Draining -> (ended)
//!     \           \___________\__________\________\-> RollingBack -> (ended)
//!      \-> (dropped)
//!
//! A command that launches nothing goes from Proposed to Draining at once, since a drain begins with the taint.
//! ```
//!
//! The record is written, conditionally, before the effects of its phase are run, and every effect may be repeated: so a
//! command that was left in the middle goes on from the record alone. [`step()`] says what to do next. A claim carries the
//! id of the command that has taken it ([`NodeClaimStatus::command`](nodeless_model::NodeClaimStatus)), written with the
//! claim's own condition, so two commands never hold one node.

mod events;
mod step;
#[cfg(test)]
mod tests;

pub use step::{CommandEffect, CommandStep, Outcome, Surroundings, step};

use crate::VALIDATION_DELAY;
use crate::output::{Candidate, Command};
use jiff::{SignedDuration, Timestamp};
use nodeless_model::{NodeClaim, Phase};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The least time that replacements get to be ready for pods, as in Karpenter.
const SHORTEST_WAIT: Duration = Duration::from_mins(10);
/// The most.
const LONGEST_WAIT: Duration = Duration::from_hours(1);
/// How much longer they get for each command that is on its way.
const WAIT_PER_COMMAND: Duration = Duration::from_millis(80);

/// How far a command has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CommandPhase {
    /// It was decided, and waits to be found right again on a later view. Nothing has been touched.
    Proposed,
    /// Its candidates are being taken: each claim gets the command's id, and then each node the taint.
    Tainting,
    /// Its replacements are being written as claims.
    Launching,
    /// Its replacements are on their way.
    Waiting,
    /// Its candidates are being told to leave.
    Draining,
    /// It failed: its candidates are being released. Replacements that exist stay, as in Karpenter; consolidation removes
    /// those that turn out useless.
    RollingBack,
}

impl CommandPhase {
    /// Whether it has touched something that can be given back.
    const fn may_be_taken_back(self) -> bool {
        matches!(self, Self::Tainting | Self::Launching | Self::Waiting | Self::Draining)
    }
}

/// A command and how far it has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandRecord {
    /// The command; once it is validated, as it was found right.
    pub command: Command,
    /// How far it has come.
    pub phase: CommandPhase,
    /// Since when.
    pub since: Timestamp,
    /// The claims that take the candidates' place. They are decided, names and launch groups included, before the first is
    /// written, so that whoever goes on with the command launches the same ones.
    pub replacements: Vec<NodeClaim>,
    /// By when the replacements must be ready for pods.
    pub deadline: Option<Timestamp>,
    /// Why it is being rolled back.
    pub failure: Option<String>,
    /// Counts the writes of the record; zero before the first.
    #[serde(skip)]
    pub version: u64,
}

impl CommandRecord {
    /// A command that was just decided.
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

    /// How long until it may be validated; zero when it may be.
    #[must_use]
    pub fn ripe_in(&self, now: Timestamp) -> Duration {
        let age = Duration::try_from(now.duration_since(self.command.decided)).unwrap_or_default();
        VALIDATION_DELAY.saturating_sub(age)
    }

    /// The record of a command that was found right again. `replacements` are the claims to write, `in_flight` says how
    /// many commands are on their way.
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

    /// The record of a command that cannot go on.
    #[must_use]
    pub fn roll_back(&self, why: impl Into<String>, now: Timestamp) -> Self {
        Self { phase: CommandPhase::RollingBack, since: now, failure: Some(why.into()), ..self.clone() }
    }

    /// When it is to be looked at again even if nobody says that something happened. Whoever taints nodes or sees them ready
    /// says so, but of several such messages within a second the queue lets only the first through.
    #[must_use]
    pub fn next_look(&self, claims: &BTreeMap<String, NodeClaim>) -> Option<Duration> {
        let is_ready = |made: &NodeClaim| claims.get(&made.name).is_some_and(|claim| claim.phase == Phase::Initialized);
        match self.phase {
            CommandPhase::Tainting => Some(Duration::from_secs(3)),
            CommandPhase::Waiting if self.replacements.iter().any(is_ready) => Some(Duration::from_secs(10)),
            _ => None,
        }
    }

    /// Whether the pods of its candidates have to find a place now, because its replacements are there to take them.
    #[must_use]
    pub const fn moves_pods(&self) -> bool {
        matches!(self.phase, CommandPhase::Waiting | CommandPhase::Draining)
    }

    /// Whether a claim is one of its candidates.
    #[must_use]
    pub fn concerns(&self, node_claim: &str) -> bool {
        self.candidates().iter().any(|candidate| candidate.node_claim == node_claim)
    }

    /// The nodes that it removes.
    #[must_use]
    pub fn candidates(&self) -> &[Candidate] {
        &self.command.candidates
    }

    /// One sentence for people.
    #[must_use]
    pub fn summary(&self) -> String {
        let nodes: Vec<&str> = self.candidates().iter().map(|candidate| candidate.node_claim.as_str()).collect();
        let made: Vec<&str> = self.replacements.iter().map(|claim| claim.name.as_str()).collect();
        let instead = if self.command.drains_first {
            "their NodePool is at its limit, so their replacements are launched once they are gone".to_owned()
        } else if made.is_empty() {
            "without replacements".to_owned()
        } else {
            format!("replaced by {}", made.join(", "))
        };
        let failure = self.failure.as_ref().map_or_else(String::new, |why| format!("; rolled back: {why}"));
        format!("{:?}, {:?}: {}; {instead}{failure}", self.command.reason, self.phase, nodes.join(", "))
    }
}
