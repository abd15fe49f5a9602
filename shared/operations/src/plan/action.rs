//! The actions that the stages of a plan request, and their results.

use jiff::Timestamp;
use nodeless_api::{CapacityBufferStatus, NodeOverlayStatus, NodePoolStatus};
use nodeless_disruption::command::CommandRecord;
use nodeless_model::NodeClaim;
use nodeless_ports::claims::PoolLimits;
use nodeless_ports::decisions::Decision;
use nodeless_ports::plans::UnfinishedPlan;
use nodeless_ports::{RecordKind, StoredRecord};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// One thing to do, as a stage decided it. Doing it needs no further decision.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Write that a plan begins which may be too much.
    BeginPlan(UnfinishedPlan),
    /// Write that it has ended: take back what was written with this id.
    EndPlan(String),
    /// Write a NodeOverlay's status.
    WriteNodeOverlayStatus(String, NodeOverlayStatus),
    /// Write a NodePool's status.
    WriteNodePoolStatus(String, Box<NodePoolStatus>),
    /// Write a CapacityBuffer's status: namespace, name, status.
    WriteCapacityBufferStatus(String, String, Box<CapacityBufferStatus>),
    /// Write a record, unless another process did.
    PutRecord(RecordKind, StoredRecord),
    /// Write a claim, unless another process did.
    UpdateClaim(Box<NodeClaim>),
    /// The same. Where another process wrote it first, it is read again.
    ChangeClaim(Box<NodeClaim>),
    /// Write a claim that this plan ends, unless another process wrote it meanwhile; in the same write its NodePool gets back
    /// what the claim does not count for any more.
    RetireClaim(Box<NodeClaim>),
    /// Write the claims of a launch group: all of them, or none that is ever launched.
    CreateGroup(Vec<NodeClaim>, PoolLimits),
    /// Write the claim of a command's replacement, unless it is there already.
    CreateReplacement(Box<NodeClaim>, PoolLimits),
    /// Write a command.
    PutCommand(Box<CommandRecord>),
    /// Delete a command that has ended: id and version.
    DeleteCommand(String, u64),
    /// Find out how much work there is time for now: [`nodeless_disruption::Options::most_work`].
    ReadWork,
    /// Read what voluntary disruption did within the last hour.
    ReadChurn,
    /// Write which nodes a decision had no time for, and until when that is worth knowing.
    PutNotYetEvaluated(BTreeSet<String>, Timestamp),
    /// Write down why something was decided.
    Record(Decision),
    /// Wake lifecycle for these claims.
    WakeClaims(Vec<String>),
    /// Ask for another plan at once.
    WakePlanner,
    /// Log a line.
    Log(PlanLine),
}

/// A log line of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum PlanLine {
    /// An object could not be used, and the rest went on without it.
    ObjectSkipped {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
    /// Voluntary disruption was left out.
    DisruptionSkipped {
        /// Why.
        why: String,
    },
    /// Voluntary disruption of a NodePool has stopped.
    DisruptionStopped {
        /// The NodePool.
        node_pool: String,
        /// Why.
        why: String,
    },
    /// Claims were not created.
    ClaimRefused {
        /// The first of them.
        claim: String,
        /// The NodePool.
        node_pool: String,
        /// Why.
        why: String,
    },
    /// A disruption command went a step further.
    CommandStepped {
        /// Its id.
        command: String,
        /// How far it has come.
        to: String,
        /// What it is about.
        summary: String,
    },
    /// A disruption command could not continue this time.
    CommandWaits {
        /// Its id.
        command: String,
        /// Why.
        why: String,
    },
    /// An earlier plan did not finish.
    PlanUnfinished {
        /// Its id.
        plan: String,
        /// When it began.
        began: Timestamp,
    },
}

/// What came of an action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Written {
    /// It was done.
    Done,
    /// It was written, and has this version now.
    Version(u64),
    /// Another process wrote first, and nothing was written.
    Conflict(String),
    /// Another process wrote the claim first; this is what it is now, if it is there.
    Changed(Option<Box<NodeClaim>>),
    /// The claim is there, and this is what it is.
    There(Box<NodeClaim>),
    /// It will never be possible, and why.
    Refused(String),
    /// So much work there is time for.
    Work(u64),
    /// What was read.
    Churn(Vec<StoredRecord>),
    /// It failed, and may be possible later.
    Failed(String),
    /// It was not tried, because what comes before it was not done.
    NotTried,
}

impl Written {
    /// Why it was neither done nor will be.
    pub(super) fn problem(&self) -> Option<&str> {
        match self {
            Self::Conflict(why) | Self::Refused(why) | Self::Failed(why) => Some(why),
            _ => None,
        }
    }
}

/// The stages of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Stage {
    /// What is kept up from plan to plan: statuses, hashes, drift.
    Bookkeeping,
    /// Nodes that are due whatever pods need.
    StaticCapacity,
    /// Nodes for pods that wait.
    Provisioning,
    /// Nodes that are disrupted voluntarily.
    Disruption,
    /// The end of the plan.
    End,
}

/// Actions that are done one after another.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// Which stage wants it.
    pub stage: Stage,
    /// Whether those after one that was not done are left out.
    pub in_turn: bool,
    /// The actions.
    pub actions: Vec<Action>,
}

impl Batch {
    /// Actions that are independent: each is tried, whether or not others fail.
    pub(super) const fn each(stage: Stage, actions: Vec<Action>) -> Self {
        Self { stage, in_turn: false, actions }
    }

    /// Actions each of which is tried only when those before it were done.
    pub(super) const fn in_turn(stage: Stage, actions: Vec<Action>) -> Self {
        Self { stage, in_turn: true, actions }
    }
}
