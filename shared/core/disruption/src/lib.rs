//! Which nodes are disrupted, when and why, and why every other node stays.
//!
//! [`decide`] is a pure function of the cluster and the time. It tries Karpenter's methods in order (emptiness, drift,
//! consolidation) and returns commands within the NodePools' budgets, with a reason for every node that stays.
//! [`expired`] lists the claims that have reached their NodePool's `expireAfter`, to which budgets do not apply.
//! [`drift`] compares a node with its NodePool and EC2NodeClass.
//!
//! A command is a proposal. It is executed only if [`revalidate`] confirms it on a new snapshot of the cluster at least
//! [`VALIDATION_DELAY`] later.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod ami_canary;
mod buffers;
mod candidates;
pub mod churn;
mod cluster;
pub mod command;
mod consolidation;
mod decide;
mod details;
mod disruption_budgets;
mod drift_detection;
mod drift_reason;
mod drift_replacement;
mod drift_simulation;
mod emptiness;
pub mod expiration;
pub mod held_back;
mod launch_types;
pub mod maintenance;
#[cfg(feature = "test-support")]
pub mod meter;
#[cfg(not(feature = "test-support"))]
mod meter;
mod misconfiguration;
mod node_prices;
mod on_demand_minimum;
mod output;
mod packed;
pub mod pause;
mod pods;
mod preferences;
mod reasons;
pub mod rebalance;
mod refinement;
pub mod repair;
pub mod schedules;
mod simulation;
pub mod spot_interruptions;
mod static_capacity;
mod static_drift;
mod windows;

pub use ami_canary::{AMI_CANARY, ami_canary};
pub use candidates::consolidatable_since;
pub use cluster::{ClassImage, Cluster, ClusterNode, NodeClassFacts, Options};
pub use consolidation::{OtherNode, UnplacedPod};
pub use decide::{decide, revalidate};
pub use details::{BudgetStatus, NodeDetails, PodDetails, node_details};
pub use drift_detection::drift;
pub use drift_reason::{Drift, DriftReason};
pub use expiration::{Expired, expired};
pub use on_demand_minimum::{MIN_ON_DEMAND, OnDemandMinimum, OnDemandMinimums, on_demand_minimum};
pub use output::{
    Candidate, Command, CommandReport, Decision, Kept, Method, PodPlacement, Replacement, ReplacementReport,
};
pub use pods::DisruptionBudgetIndex;
pub use reasons::{DoesNotFit, KeptEvent, KeptReason};
pub use refinement::plan;
pub use static_capacity::{StaticChange, static_changes};

/// How long a command waits before it is validated again on a new snapshot, as in Karpenter.
pub const VALIDATION_DELAY: std::time::Duration = std::time::Duration::from_secs(15);

/// How long a node that was launched for pods is not disrupted after it is initialized, as in Karpenter.
pub const NOMINATION_WINDOW: std::time::Duration = std::time::Duration::from_secs(20);
