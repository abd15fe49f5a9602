//! The actions that the stages of a plan request, and their results.

use crate::snapshot::RecordedCosts;
use jiff::Timestamp;
use nodeless_api::{CapacityBufferStatus, NodeOverlayStatus, NodePoolStatus, ProvisioningRequestStatus};
use nodeless_bill::PoolNow;
use nodeless_disruption::command::CommandRecord;
use nodeless_model::NodeClaim;
use nodeless_model::claim::Charge;
use nodeless_state::costs::{StoredCosts, StoredHour};
use nodeless_state::decisions::Decision;
use nodeless_state::limits::LaunchLimits;
use nodeless_state::plans::UnfinishedPlan;
use nodeless_state::{RecordKind, StoredRecord};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// One action of a stage. Executing it needs no further decision.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Write that a plan begins that may not finish in time.
    BeginPlan(UnfinishedPlan),
    /// Write that the plan has ended: delete what was written with this id.
    EndPlan(String),
    /// Write a NodeOverlay's status.
    WriteNodeOverlayStatus(String, NodeOverlayStatus),
    /// Write a NodePool's status.
    WriteNodePoolStatus(String, Box<NodePoolStatus>),
    /// Write a CapacityBuffer's status: namespace, name, status.
    WriteCapacityBufferStatus(String, String, Box<CapacityBufferStatus>),
    /// Write a ProvisioningRequest's status: namespace, name, status.
    WriteProvisioningRequestStatus(String, String, Box<ProvisioningRequestStatus>),
    /// Write a record, unless another process wrote it first.
    PutRecord(RecordKind, StoredRecord),
    /// Write a claim, unless another process wrote it first.
    UpdateClaim(Box<NodeClaim>),
    /// Write a claim. If another process wrote it first, read it again.
    ChangeClaim(Box<NodeClaim>),
    /// Write a claim that this plan terminates, unless another process wrote it meanwhile. The same write releases the part of
    /// its charge that no longer counts against its NodePool.
    RetireClaim(Box<NodeClaim>),
    /// Write the claims of a launch group in one transaction.
    CreateGroup(Vec<NodeClaim>, LaunchLimits),
    /// Write a claim whose stopped instance is taken for pods, with its charge.
    StartClaim(Box<NodeClaim>, Charge, LaunchLimits),
    /// Write the claim of a command's replacement, unless it exists.
    CreateReplacement(Box<NodeClaim>, LaunchLimits),
    /// Write a command.
    PutCommand(Box<CommandRecord>),
    /// Delete a command that has ended: id and version.
    DeleteCommand(String, u64),
    /// Compute how much work there is time for now: [`nodeless_disruption::Options::max_work`].
    ReadWork,
    /// Read what voluntary disruption did within the last hour.
    ReadChurn,
    /// Write which nodes a decision did not evaluate, and until when to keep that.
    PutNotYetEvaluated(BTreeSet<String>, Timestamp),
    /// Read what is recorded of the costs of nodes, and which instances have ended since.
    ReadCosts,
    /// Write what nodes cost: the open record, and those of the hours that have ended.
    PutCosts(StoredCosts, Vec<StoredHour>),
    /// Remember in this process until when costs are recorded.
    NoteCosts(Timestamp),
    /// Write the explanation of a decision.
    Record(Decision),
    /// Wake lifecycle for these claims.
    WakeClaims(Vec<String>),
    /// Request another plan at once.
    WakePlanner,
    /// Log a line.
    Log(PlanLine),
}

/// A log line of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum PlanLine {
    /// An object could not be used. The plan continued without it.
    ObjectSkipped {
        /// The kind of the object.
        kind: String,
        /// The name of the object.
        name: String,
        /// The reason.
        why: String,
    },
    /// Voluntary disruption was skipped.
    DisruptionSkipped {
        /// The reason.
        why: String,
    },
    /// Voluntary disruption of a NodePool has stopped.
    DisruptionStopped {
        /// The NodePool.
        node_pool: String,
        /// The reason.
        why: String,
    },
    /// Claims were not created.
    ClaimRefused {
        /// The first of them.
        claim: String,
        /// The NodePool, if they have one.
        node_pool: Option<String>,
        /// The reason.
        why: String,
    },
    /// The costs of a NodePool's nodes were recorded.
    CostsRecorded(PoolNow),
    /// The costs of nodes could not be recorded. A later plan includes them.
    CostsNotRecorded {
        /// The reason.
        why: String,
    },
    /// Nodes cost more than a budget, or will at the present pace.
    BudgetExceeded {
        /// The NodePool; empty for the cluster.
        node_pool: String,
        /// The budget.
        dollars_per_month: f64,
        /// The cost of the month so far.
        dollars_this_month: f64,
        /// The cost of the whole month at the present pace.
        dollars_this_month_at_this_pace: f64,
    },
    /// A disruption command advanced.
    CommandStepped {
        /// The id of the command.
        command: String,
        /// The new phase.
        to: String,
        /// The nodes and the reason.
        summary: String,
    },
    /// A disruption command could not continue in this plan.
    CommandWaits {
        /// The id of the command.
        command: String,
        /// The reason.
        why: String,
    },
    /// An earlier plan did not finish.
    PlanUnfinished {
        /// The id of the plan.
        plan: String,
        /// When it started.
        began: Timestamp,
        /// How many consecutive plans did not finish, with this one.
        consecutive: u32,
    },
}

/// The result of an action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Written {
    /// The action succeeded.
    Done,
    /// The item was written, with this new version.
    Version(u64),
    /// Another process wrote first, and nothing was written.
    Conflict(String),
    /// Another process wrote the claim first. This is its current state, if it exists.
    Changed(Option<Box<NodeClaim>>),
    /// The claim exists in this state.
    There(Box<NodeClaim>),
    /// The action is impossible, for this reason. Retrying does not help.
    Refused(String),
    /// There is time for this much work.
    Work(u64),
    /// The result of [`Action::ReadChurn`].
    Churn(Vec<StoredRecord>),
    /// The result of [`Action::ReadCosts`].
    Costs(Box<RecordedCosts>),
    /// The action failed. A retry may succeed.
    Failed(String),
    /// The action was skipped, because an earlier one did not succeed.
    NotTried,
}

impl Written {
    /// Why the action did not succeed.
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
    /// Bookkeeping: statuses, hashes, drift.
    Bookkeeping,
    /// Static capacity and repair.
    StaticCapacity,
    /// NodeClaims without a NodePool.
    Standalone,
    /// Nodes for pending pods.
    Provisioning,
    /// Warm nodes.
    Warm,
    /// Voluntary disruption.
    Disruption,
    /// The end of the plan.
    End,
    /// The costs of nodes.
    Costs,
}

/// Actions that are executed in order.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// The stage that requests it.
    pub stage: Stage,
    /// Whether the actions after a failed one are skipped.
    pub in_turn: bool,
    /// The actions.
    pub actions: Vec<Action>,
}

impl Batch {
    /// Independent actions: each is executed, whether or not others fail.
    pub(super) const fn each(stage: Stage, actions: Vec<Action>) -> Self {
        Self { stage, in_turn: false, actions }
    }

    /// Dependent actions: each is executed only if those before it succeeded.
    pub(super) const fn in_turn(stage: Stage, actions: Vec<Action>) -> Self {
        Self { stage, in_turn: true, actions }
    }
}
