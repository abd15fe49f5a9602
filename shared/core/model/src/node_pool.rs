//! NodePools as planning uses them.

use crate::nodes::claim::{CapacityType, Charge};
use crate::options::{NodePoolOptions, OnDemandMinimum};
use crate::{
    InvalidAnnotation, NillableDuration, Requirements, ResourceList, Setting, StringMap, Taint, Unusable, labels,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A NodePool, validated and decoded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePool {
    /// The name.
    pub name: String,
    /// The unique id.
    pub uid: String,
    /// The generation of its spec; zero if unknown.
    pub generation: i64,
    /// The template of its nodes.
    pub template: NodeTemplate,
    /// When its nodes may be disrupted.
    pub disruption: Disruption,
    /// Its annotations in the domain of nodeless.
    pub options: NodePoolOptions,
    /// The keys of its own labels in the domain of nodeless, which have no effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub label_keys: Vec<String>,
    /// The limits of all its nodes together; `nodes` counts nodes. A resource that is not listed is unlimited.
    pub limits: ResourceList,
    /// The limit on the price of all its nodes together, in dollars per hour: the smaller value of `spec.limits` and the
    /// annotation [`labels::DOLLARS_PER_HOUR`].
    pub limit_dollars_per_hour: Option<f64>,
    /// NodePools with a greater weight are tried first.
    pub weight: i32,
    /// The replicas of a static NodePool.
    pub replicas: Option<i64>,
    /// Whether the NodePool and its EC2NodeClass are ready; otherwise why not.
    pub ready: Result<(), Unusable>,
    /// Whether the NodePool is being deleted.
    pub deleting: bool,
    /// The hash of its static fields, for drift.
    pub hash: String,
}

impl NodePool {
    /// The minimum of its capacity that is on demand: the annotation [`labels::MIN_ON_DEMAND`]. A minimum that it cannot keep is invalid;
    /// zero is none.
    #[must_use]
    pub fn min_on_demand(&self) -> Setting<OnDemandMinimum> {
        let minimum = self.options.min_on_demand.clone();
        if matches!(minimum.valid(), Some(OnDemandMinimum::Nodes(0) | OnDemandMinimum::Percent(0))) {
            return Setting::Unset;
        }
        let contradiction =
            |why, remedy| Some(InvalidAnnotation::Contradiction { key: labels::MIN_ON_DEMAND, why, remedy });
        let other_pool = "use a second NodePool that allows only on-demand";
        minimum.unless(|_| {
            if !self.allows_on_demand() {
                let remedy = format!("add on-demand to {}", labels::CAPACITY_TYPE);
                return contradiction("the requirements of the NodePool do not allow on-demand", remedy);
            }
            if self.replicas.is_some() {
                return contradiction("the NodePool has spec.replicas", other_pool.to_owned());
            }
            self.limit_dollars_per_hour?;
            contradiction(
                "the NodePool has a limit on dollars per hour, which decides between spot and on-demand",
                format!("remove one of the two, or {other_pool}"),
            )
        })
    }

    /// How many stopped instances it keeps: the annotation [`labels::WARM`]. A number that it cannot keep is invalid.
    #[must_use]
    pub fn warm_nodes(&self) -> Setting<usize> {
        let contradiction = |why, remedy| Some(InvalidAnnotation::Contradiction { key: labels::WARM, why, remedy });
        self.options.warm.clone().unless(|number| {
            if *number == 0 {
                return None;
            }
            if !self.allows_on_demand() {
                return contradiction(
                    "the requirements of the NodePool do not allow on-demand, and a spot instance of a fleet cannot be stopped",
                    format!("add on-demand to {}, or remove the annotation", labels::CAPACITY_TYPE),
                );
            }
            self.replicas?;
            let why = "the NodePool has spec.replicas, whose nodes run all the time";
            contradiction(why, "remove one of the two".to_owned())
        })
    }

    fn allows_on_demand(&self) -> bool {
        let allowed = self.template.requirements.get(labels::CAPACITY_TYPE);
        allowed.is_none_or(|allowed| allowed.has(CapacityType::OnDemand.as_str()))
    }
}

/// The template of a NodePool's nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeTemplate {
    /// The EC2NodeClass.
    pub node_class: String,
    /// The possible labels of the nodes: the template's requirements and labels together.
    pub requirements: Requirements,
    /// Labels that every node gets.
    pub labels: StringMap,
    /// Annotations that every node gets.
    pub annotations: StringMap,
    /// Taints that every node keeps.
    pub taints: Vec<Taint>,
    /// The startup taints, which something in the cluster removes before the node is initialized.
    pub startup_taints: Vec<Taint>,
    /// The age at which a node is replaced forcefully; `None` and `Never` mean never.
    pub expire_after: Option<NillableDuration>,
    /// How long a drain may take before pods are deleted forcefully; `None` means without limit.
    pub termination_grace_period: Option<Duration>,
}

/// When nodes of a pool may be disrupted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// Which nodes may be consolidated.
    pub consolidation_policy: ConsolidationPolicy,
    /// How long a node must be without pod changes before it may be consolidated.
    pub consolidate_after: NillableDuration,
    /// The maximum numbers of nodes that are disrupted at once; all active budgets apply.
    pub budgets: Vec<Budget>,
}

/// Which nodes may be consolidated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConsolidationPolicy {
    /// Only nodes without pods that would need another node.
    WhenEmpty,
    /// Also nodes whose pods would fit elsewhere or on something cheaper.
    #[default]
    WhenEmptyOrUnderutilized,
    /// Nodes as for `WhenEmptyOrUnderutilized`, if the savings justify the disruption.
    Balanced,
}

/// Why a node is disrupted voluntarily.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DisruptionReason {
    /// The node has no pods.
    Empty,
    /// The node's pods fit elsewhere for less.
    Underutilized,
    /// The node no longer matches its NodePool or EC2NodeClass.
    Drifted,
    /// The node has been unhealthy for too long, and is repaired.
    Unhealthy,
    /// The node's pods are uneven over zones. Karpenter's CRD does not have this reason, so only budgets without reasons apply.
    Unbalanced,
}

/// The maximum number of nodes of a NodePool that are disrupted at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// The reasons; empty means all.
    pub reasons: Vec<DisruptionReason>,
    /// The number of nodes.
    pub nodes: BudgetNodes,
    /// The schedule, as a cron expression in UTC with a duration; `None` means always.
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
    /// How long the window stays active.
    pub duration: Duration,
}

impl BudgetNodes {
    /// The allowed number out of a number of nodes.
    #[must_use]
    pub fn allowed(self, total: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => {
                u32::try_from((u64::from(total) * u64::from(percent)).div_ceil(100)).unwrap_or(u32::MAX)
            }
        }
    }
}

impl Default for Disruption {
    /// Karpenter's defaults: the policy WhenEmptyOrUnderutilized, without a delay, ten per cent of the nodes.
    fn default() -> Self {
        Self {
            consolidation_policy: ConsolidationPolicy::default(),
            consolidate_after: NillableDuration::After(Duration::ZERO),
            budgets: vec![Budget { reasons: Vec::new(), nodes: BudgetNodes::Percent(10), window: None }],
        }
    }
}

/// The usage of a NodePool's limits by its claims. It is stored beside the claims and changed in the same transaction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolUsage {
    /// The sum of the claims' resources, including `nodes`.
    pub resources: ResourceList,
    /// The sum of the claims' prices, in dollars per hour.
    pub dollars_per_hour: f64,
    /// When it was last recomputed from the claims.
    pub recounted: Option<Timestamp>,
    /// Increases with each charge, so that a correction that is based on an earlier read fails, even if the sums are the same.
    #[serde(default)]
    pub revision: u64,
}

impl PoolUsage {
    /// Counts a charge.
    pub fn add(&mut self, charge: &Charge) {
        self.resources.add(&charge.resources);
        self.dollars_per_hour += charge.dollars_per_hour;
    }

    /// Counts a charge no longer.
    pub fn subtract(&mut self, charge: &Charge) {
        self.resources.subtract(&charge.resources);
        self.dollars_per_hour -= charge.dollars_per_hour;
    }

    /// The usage of several NodePools together.
    #[must_use]
    pub fn sum<'u>(usages: impl IntoIterator<Item = &'u Self>) -> Self {
        usages.into_iter().fold(Self::default(), |mut sum, usage| {
            sum.resources.add(&usage.resources);
            sum.dollars_per_hour += usage.dollars_per_hour;
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Requirement;
    use crate::test_support::node_pool;

    fn annotated(key: &str, value: &str) -> NodePool {
        let mut pool = node_pool("default");
        pool.options.set(key, Some(value));
        pool
    }

    fn with_capacity_types<const N: usize>(mut pool: NodePool, types: [&str; N]) -> NodePool {
        pool.template.requirements.add(labels::CAPACITY_TYPE, Requirement::one_of(types));
        pool
    }

    #[test]
    fn a_minimum_that_a_node_pool_cannot_keep_is_invalid() {
        let minimum = |value: &str| annotated(labels::MIN_ON_DEMAND, value).min_on_demand();
        assert_eq!(minimum("3"), Setting::Valid(OnDemandMinimum::Nodes(3)));
        assert_eq!(minimum("30%"), Setting::Valid(OnDemandMinimum::Percent(30)));
        assert_eq!((minimum("0"), minimum("0%")), (Setting::Unset, Setting::Unset));
        for text in ["two", "-1", "101%", "%", "", "1.5", "+2"] {
            let why = minimum(text).invalid().unwrap().to_string();
            assert!(
                why.contains(&format!("is {text:?}, which is ignored: write a number of nodes such as \"2\"")),
                "{why}"
            );
        }
        let two = || annotated(labels::MIN_ON_DEMAND, "2");
        for (pool, part) in [
            (with_capacity_types(two(), ["spot"]), "do not allow on-demand"),
            (NodePool { replicas: Some(2), ..two() }, "spec.replicas"),
            (NodePool { limit_dollars_per_hour: Some(2.0), ..two() }, "dollars per hour"),
        ] {
            let why = pool.min_on_demand().invalid().unwrap().to_string();
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn nodes_that_cannot_be_stopped_or_always_run_are_not_kept_warm() {
        let warm = |value: &str| annotated(labels::WARM, value);
        assert_eq!(node_pool("default").warm_nodes(), Setting::Unset);
        for (value, number) in [("0", 0), ("3", 3), ("100", 100)] {
            assert_eq!(warm(value).warm_nodes(), Setting::Valid(number));
        }
        for wrong in ["101", "-1", "three", "", "1.5", "true", "3 "] {
            let why = warm(wrong).warm_nodes().invalid().unwrap().to_string();
            assert!(why.contains("a number from 0 to 100"), "{why}");
        }
        let why = with_capacity_types(warm("2"), ["spot"]).warm_nodes().invalid().unwrap().to_string();
        assert!(why.starts_with("annotation nodeless.sh/warm is ignored, because the requirements"), "{why}");
        assert!(why.contains("cannot be stopped: add on-demand to karpenter.sh/capacity-type"), "{why}");
        assert_eq!(with_capacity_types(warm("0"), ["spot"]).warm_nodes(), Setting::Valid(0));
        let both = with_capacity_types(warm("2"), ["spot", "on-demand"]);
        assert_eq!(both.warm_nodes(), Setting::Valid(2));
        let fixed = NodePool { replicas: Some(3), ..both };
        assert!(fixed.warm_nodes().invalid().unwrap().to_string().contains("spec.replicas"));
    }

    #[test]
    fn a_share_of_nodes_is_rounded_up() {
        for (nodes, total, expected) in [
            (BudgetNodes::Percent(10), 0, 0),
            (BudgetNodes::Percent(10), 1, 1),
            (BudgetNodes::Percent(10), 11, 2),
            (BudgetNodes::Percent(100), 7, 7),
            (BudgetNodes::Count(3), 1, 3),
        ] {
            assert_eq!(nodes.allowed(total), expected, "{nodes:?} of {total}");
        }
    }
}
