//! NodePools as planning sees them.

use crate::{NillableDuration, Requirements, ResourceList, StringMap, Taint};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The limit of a NodePool on what its nodes may cost together, in `spec.limits` or as an annotation.
pub const DOLLARS_PER_HOUR: &str = "nodeless.sh/dollars-per-hour";

/// A NodePool, checked and decoded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePool {
    /// The name.
    pub name: String,
    /// The unique id.
    pub uid: String,
    /// Counts the changes of what it prescribes; zero where that is not known.
    pub generation: i64,
    /// What its nodes look like.
    pub template: NodeTemplate,
    /// When its nodes may be disrupted.
    pub disruption: Disruption,
    /// What all its nodes together may not exceed; `nodes` counts nodes. A resource that is not listed is unlimited.
    pub limits: ResourceList,
    /// What all its nodes together may cost, in dollars per hour: the smaller value of `spec.limits` and the annotation
    /// under [`DOLLARS_PER_HOUR`].
    pub limit_dollars_per_hour: Option<f64>,
    /// Pools of greater weight are tried first.
    pub weight: i32,
    /// The fixed number of nodes of a static pool.
    pub replicas: Option<i64>,
    /// Whether it and its EC2NodeClass are ready; otherwise why not.
    pub ready: Result<(), String>,
    /// Whether deletion was asked for.
    pub deleting: bool,
    /// The hash of its static fields, for drift.
    pub hash: String,
}

/// What a NodePool's nodes look like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeTemplate {
    /// The EC2NodeClass.
    pub node_class: String,
    /// What the nodes' labels may be: the template's requirements and labels together.
    pub requirements: Requirements,
    /// Labels that every node gets.
    pub labels: StringMap,
    /// Annotations that every node gets.
    pub annotations: StringMap,
    /// Taints that every node keeps.
    pub taints: Vec<Taint>,
    /// Taints that something in the cluster will remove before the node is initialised.
    pub startup_taints: Vec<Taint>,
    /// The age at which a node is replaced by force; `None` and `Never` mean never.
    pub expire_after: Option<NillableDuration>,
    /// How long a drain may take before pods are deleted by force; `None` means for ever.
    pub termination_grace_period: Option<Duration>,
}

/// When nodes of a pool may be disrupted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// Which nodes consolidation may touch.
    pub consolidation_policy: ConsolidationPolicy,
    /// How long a node must be without pod changes before it is considered.
    pub consolidate_after: NillableDuration,
    /// How many nodes may be disrupted at once; all that are active hold.
    pub budgets: Vec<Budget>,
    /// The nodeless annotations of the NodePool (`nodeless.sh/…`), as written: pauses, schedules and others.
    pub annotations: StringMap,
}

/// Which nodes consolidation may touch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConsolidationPolicy {
    /// Only nodes without pods that would need another node.
    WhenEmpty,
    /// Also nodes whose pods would fit elsewhere or on something cheaper.
    #[default]
    WhenEmptyOrUnderutilized,
    /// As above, when the saving is worth the disruption.
    Balanced,
}

/// Why a node is disrupted voluntarily.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DisruptionReason {
    /// It has no pods.
    Empty,
    /// Its pods fit elsewhere for less.
    Underutilized,
    /// It no longer is what its NodePool or EC2NodeClass describes.
    Drifted,
}

/// How many nodes of a pool may be disrupted at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// For which reasons; empty means all.
    pub reasons: Vec<DisruptionReason>,
    /// How many nodes.
    pub nodes: BudgetNodes,
    /// When it starts being active, as a cron expression in UTC with how long it stays so; `None` means always.
    pub window: Option<BudgetWindow>,
}

/// A number of nodes, or a share of the pool's nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BudgetNodes {
    /// A number of nodes.
    Count(u32),
    /// A percentage of the pool's nodes, rounded up.
    Percent(u32),
}

/// When a budget is active.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetWindow {
    /// When it starts: a cron expression in UTC, or a macro such as `@daily`.
    pub schedule: String,
    /// How long it stays active.
    pub duration: Duration,
}

impl BudgetNodes {
    /// The allowed number out of a number of nodes.
    #[must_use]
    pub fn of(self, total: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => {
                u32::try_from((u64::from(total) * u64::from(percent)).div_ceil(100)).unwrap_or(u32::MAX)
            }
        }
    }
}

impl Default for Disruption {
    /// Karpenter's defaults: whole policy, at once, ten per cent of the nodes.
    fn default() -> Self {
        Self {
            consolidation_policy: ConsolidationPolicy::default(),
            consolidate_after: NillableDuration::After(Duration::ZERO),
            budgets: vec![Budget { reasons: Vec::new(), nodes: BudgetNodes::Percent(10), window: None }],
            annotations: StringMap::new(),
        }
    }
}

/// How much of a NodePool's limits its claims use. Kept beside the claims and changed in the same transaction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolUsage {
    /// What the claims amount to, `nodes` included.
    pub resources: ResourceList,
    /// What they cost, in dollars per hour.
    pub dollars_per_hour: f64,
    /// When it was last counted again from the claims.
    pub recounted: Option<Timestamp>,
    /// Grows with each charge, so that what was read before another charge corrects nothing, even where the sums are the same
    /// again.
    #[serde(default)]
    pub revision: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_nodes_is_rounded_up() {
        for (nodes, total, expected) in [
            (BudgetNodes::Percent(10), 0, 0),
            (BudgetNodes::Percent(10), 1, 1),
            (BudgetNodes::Percent(10), 11, 2),
            (BudgetNodes::Percent(100), 7, 7),
            (BudgetNodes::Count(3), 1, 3),
        ] {
            assert_eq!(nodes.of(total), expected, "{nodes:?} of {total}");
        }
    }
}
