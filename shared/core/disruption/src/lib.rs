//! Decides which nodes are disrupted, when and why, and why every other node stays.
//!
//! [`decide`] is a pure function of the cluster and the time. It tries Karpenter's methods in order (node repair, emptiness, drift,
//! consolidation), and then zone balance, and returns commands within the NodePools' budgets, with a reason for every node that stays.
//! [`expired`] lists the claims that have reached their NodePool's `expireAfter`, to which budgets do not apply.
//! [`drift`] compares a node with its NodePool and EC2NodeClass.
//! [`consolidate_planned`] consolidates nodes that are only planned, for the crate `nodeless-placement`.
//!
//! A command is a proposal. It is executed only if [`revalidate`] confirms it on a new snapshot of the cluster at least
//! [`VALIDATION_DELAY`] later; [`command`] carries it out.
//!
//! | folder | has |
//! |---|---|
//! | `policy` | what limits disruption: budgets, schedules, maintenance windows, pauses, on-demand minimums |
//! | `repair`, `drift`, `emptiness`, `consolidation` | the methods, which propose commands, and zone balance with consolidation; `method` is their interface |
//! | `replicas`, `static_capacity` | NodePools with `spec.replicas` |
//! | `forceful` | expiration, spot interruptions and rebalance recommendations, to which budgets do not apply |
//! | `simulation` | whether the pods of nodes fit elsewhere, and what new nodes for them cost |
//! | `churn` | the churn breaker, and NodePools from which no command launches a node because replacements did not become ready |
//! | `command` | the steps of a command |
//! | `events` | the Events about objects that keep nodes from disruption |
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod candidates;
pub mod churn;
mod cluster;
pub mod command;
mod consolidation;
mod decide;
mod details;
mod drift;
mod emptiness;
mod events;
mod forceful;
#[cfg(feature = "test-support")]
pub mod meter;
#[cfg(not(feature = "test-support"))]
mod meter;
mod method;
mod output;
mod pods;
mod policy;
mod reasons;
pub mod repair;
mod replicas;
mod simulation;
mod static_capacity;

pub use candidates::consolidatable_since;
pub use churn::unready;
pub use cluster::{
    AssumedBindings, ClassImage, Cluster, ClusterNode, MIN_SAVING, NodeClassFacts, Options, UndecodedPod, template_of,
};
pub use consolidation::{OtherNode, PlannedConsolidation, PlannedNodes, UnplacedPod, consolidate_planned};
pub use decide::{decide, revalidate};
pub use details::{BudgetStatus, NodeDetails, PodDetails, node_details};
pub use drift::detection::drift;
pub use forceful::expiration::{Expired, expired};
pub use forceful::spot_interruptions;
pub use output::{
    Candidate, Command, CommandReport, Decision, Kept, Method, PodPlacement, Repair, Replacement, ReplacementReport,
    ZoneMove,
};
pub use pods::DisruptionBudgetIndex;
pub use policy::budgets::allowed_disruptions;
pub use policy::on_demand_minimum::OnDemandMinimums;
pub use policy::{maintenance, schedules};
pub use reasons::drift::{Drift, DriftReason, KeepsPlace};
pub use reasons::{DoesNotFit, KeptEvent, KeptReason};
pub use replicas::{StaticChange, static_changes};
pub use static_capacity::launches_of_template;

/// The time after which a command is validated again on a new snapshot, as in Karpenter.
pub const VALIDATION_DELAY: std::time::Duration = std::time::Duration::from_secs(15);

/// The time after its initialization for which a node that was launched for pods is not disrupted, as in Karpenter.
pub const NOMINATION_WINDOW: std::time::Duration = std::time::Duration::from_secs(20);
