//! Which nodes go, when and why, and why every other node stays.
//!
//! [`decide`] is a pure function of the cluster and the time: it looks for empty nodes first, then for drifted ones, and
//! returns commands within the NodePools' budgets, with a sentence for every node that stays. [`expired`] lists the claims
//! that have reached their NodePool's `expireAfter`, which no budget holds back. [`drift`] says whether a node still is
//! what its NodePool and EC2NodeClass describe.
//!
//! A command is a proposal. It is carried out only if [`revalidate`] still finds it right on a fresh view at least
//! [`VALIDATION_DELAY`] later.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod budgets;
mod buffers;
mod candidates;
pub mod churn;
mod cluster;
pub mod command;
mod consolidation;
pub mod cron;
mod decide;
mod details;
mod drift_detection;
mod drift_reason;
mod drift_replacement;
mod drift_simulation;
mod emptiness;
pub mod expiration;

mod market;
mod misconfiguration;
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
mod static_capacity;
mod static_drift;

pub use candidates::consolidatable_since;
pub use cluster::{ClassImage, Cluster, ClusterNode, NodeClassFacts, Options};
pub use consolidation::{OtherNode, UnplacedPod};
pub use decide::{decide, revalidate};
pub use details::{BudgetStatus, NodeDetails, PodDetails, node_details};
pub use drift_detection::drift;
pub use drift_reason::{Drift, DriftReason};
pub use expiration::{Expired, expired};
pub use output::{
    Candidate, Command, CommandReport, Decision, Kept, Method, PodPlacement, Replacement, ReplacementReport,
};
pub use pods::Guards;
pub use reasons::{KeptReason, NoRoom};
pub use refinement::plan;
pub use static_capacity::{StaticChange, static_changes};

/// How long a command waits before it is validated again on a fresh view, as in Karpenter.
pub const VALIDATION_DELAY: std::time::Duration = std::time::Duration::from_secs(15);

/// How long a node that was made for pods stays untouched after it is ready for them, as in Karpenter.
pub const NOMINATION_WINDOW: std::time::Duration = std::time::Duration::from_secs(20);
