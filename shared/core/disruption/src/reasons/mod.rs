//! The reasons for which nodes stay or have drifted, and their messages.

pub(crate) mod drift;
mod kinds;
mod messages;

pub use kinds::KeptEvent;
pub(crate) use messages::zonal_shift;
use messages::{
    and_place, budget_field, instead_of_it, min_savings, not_cheaper, or_not_ready, paid_no_less, paused_until,
    price_unknown, protected_until,
};

use drift::{Drift, KeepsPlace};
use jiff::Timestamp;
use nodeless_model::duration::format_go_duration;
use nodeless_model::plural::counted;
use nodeless_model::{DisruptionReason, DollarsPerHour};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use thiserror::Error;

/// Why a node stays. Its text is a message for users.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum KeptReason {
    /// A command disrupts it already.
    #[error("command {0} disrupts it already")]
    InCommand(String),
    /// The node is already terminating.
    #[error("it is already terminating")]
    Leaving,
    /// Node repair reboots the instance.
    #[error("its instance is being rebooted by node repair")]
    Rebooting,
    /// The node is not managed by a NodePool.
    #[error("it is not managed by a NodePool")]
    Unmanaged,
    /// The node is removed independently of the decision: it reached its `expireAfter`, its NodePool is scheduled off, or it is a
    /// surplus node of a static NodePool.
    #[error("{0}, so it is removed")]
    RemovedAnyway(String),
    /// The node has not joined or is not initialized yet.
    #[error("it is not initialized yet")]
    NotInitialized,
    /// The node was launched for pods that may not be bound to it yet.
    #[error("it is nominated for pending pods until {until:.0}")]
    Nominated {
        /// The end of that time.
        until: Timestamp,
    },
    /// A pending pod fits on it.
    #[error("pending pod {0} fits on it")]
    PendingPod(String),
    /// The node has the local volume of a pod.
    #[error("it has the local volume of PersistentVolumeClaim {claim}")]
    LocalVolume {
        /// The PersistentVolumeClaim.
        claim: String,
    },
    /// The node has the annotation `karpenter.sh/do-not-disrupt`.
    #[error("it is annotated karpenter.sh/do-not-disrupt")]
    DoNotDisruptNode,
    /// A pod of the node has the annotation `karpenter.sh/do-not-disrupt`.
    #[error("pod {pod} is annotated karpenter.sh/do-not-disrupt{}", protected_until(*.until))]
    DoNotDisruptPod {
        /// The pod.
        pod: String,
        /// Until when; `None` means until the annotation is removed.
        until: Option<Timestamp>,
    },
    /// A pod of the node could not be decoded, so what it needs is unknown.
    #[error(
        "pod {pod} cannot be decoded ({why}), so what it needs is unknown: the node stays, and no other pod is planned for it; correct the \
         field, or delete the pod"
    )]
    UndecodedPod {
        /// The pod.
        pod: String,
        /// Why it could not be decoded.
        why: String,
    },
    /// The zone has a zonal shift: its nodes are needed when the shift ends.
    #[error("{}", zonal_shift(.zone, *.until))]
    ZonalShift {
        /// The zone.
        zone: String,
        /// The end of the shift.
        until: Timestamp,
    },
    /// The NodePool does not exist.
    #[error("its NodePool {0} does not exist")]
    NoNodePool(String),
    /// The NodePool is static.
    #[error("NodePool {0} keeps a fixed number of nodes")]
    Static(String),
    /// A PodDisruptionBudget allows no eviction of one of its pods.
    #[error("PodDisruptionBudget {budget} allows no eviction of pod {pod}")]
    PodDisruptionBudget {
        /// The pod.
        pod: String,
        /// The budget.
        budget: String,
    },
    /// More than one PodDisruptionBudget selects one of its pods, which the Eviction API rejects.
    #[error("PodDisruptionBudgets {} cover pod {pod}, and a pod with several cannot be evicted", .budgets.join(" and "))]
    SeveralPodDisruptionBudgets {
        /// The pod.
        pod: String,
        /// The budgets.
        budgets: Vec<String>,
    },
    /// `consolidateAfter` is `Never`.
    #[error("consolidateAfter is Never")]
    ConsolidationNever,
    /// The pods changed less than `consolidateAfter` ago.
    #[error(
        "its pods changed less than consolidateAfter ({}) ago; it can be consolidated from {until:.0}",
        format_go_duration(*.consolidate_after)
    )]
    TooRecent {
        /// The NodePool's `consolidateAfter`.
        consolidate_after: Duration,
        /// The end of that time.
        until: Timestamp,
    },
    /// The replacements of an earlier command did not become ready.
    #[error(
        "the replacements of an earlier command did not become ready; no command launches a node of NodePool {node_pool} until one of its \
         nodes becomes ready, or until {until:.0}"
    )]
    UnreadyReplacements {
        /// Their NodePool, from which commands launch no node.
        node_pool: String,
        /// Until when, unless one of its nodes becomes ready.
        until: Timestamp,
    },
    /// The node runs pods, and the NodePool consolidates empty nodes only.
    #[error("it runs {}, and consolidationPolicy is WhenEmpty", counted(*.pods, "pod"))]
    NotEmptyPolicy {
        /// The number of pods.
        pods: usize,
    },
    /// Voluntary disruption is paused.
    #[error("disruption is paused for {scope}{}", paused_until(*.until))]
    Paused {
        /// The paused scope: `NodePool NAME` or `the cluster`.
        scope: String,
        /// Until when; `None` means until the annotation is removed.
        until: Option<Timestamp>,
    },
    /// No maintenance window of the cluster is open; why, and when the next one begins.
    #[error("{0}")]
    MaintenanceWindow(String),
    /// Voluntary disruption of its NodePool has stopped, because it evicted many pods and did not lower the price.
    #[error("{0}")]
    Churn(String),
    /// A pod of a node that is being removed is expected to move to it.
    #[error("pod {0} is expected to move to it")]
    MovingPod(String),
    /// Unhealthy nodes are replaced first.
    #[error("unhealthy nodes are replaced first")]
    EmptinessWaits,
    /// Empty or drifted nodes are disrupted first.
    #[error("empty and drifted nodes are disrupted first")]
    ConsolidationWaits,
    /// The node's price is unknown, so the savings are unknown.
    #[error("{}", price_unknown(.0))]
    PriceUnknown(String),
    /// A command of this decision moves pods to it.
    #[error("command {0} moves pods to it")]
    Receives(String),
    /// The decision reached its work limit; the next one evaluates it first.
    #[error("it was not evaluated, because the decision reached its work limit; the next decision evaluates it first")]
    NotEvaluated,
    /// A pod of the node fits on no other node, and a replacement would not be cheaper.
    #[error("{0}")]
    DoesNotFit(DoesNotFit),
    /// The scheduler found no node for one of its pods.
    #[error("pod {pod} cannot be scheduled on another node: {why}")]
    Unschedulable {
        /// The pod.
        pod: String,
        /// The reasons.
        why: String,
    },
    /// The preferences of a pod that its node meets are required of any other node, which may be why none is found.
    #[error("the preferences of pod {pod} that its node meets are required of any other node")]
    PreferencesKept {
        /// The pod.
        pod: String,
    },
    /// A pod of the node fits only on nodes where it would violate the topology spread of a pod that runs there.
    #[error("moving pod {pod} to {node} would violate the topology spread of pod {owner} there")]
    HostSpread {
        /// The pod that would move.
        pod: String,
        /// The target node.
        node: String,
        /// The pod there whose topology spread counts it.
        owner: String,
    },
    /// The pods fit elsewhere by a plan, but one of them would stay pending where the kube-scheduler is predicted to bind the
    /// others.
    #[error(
        "its pods would not all fit where the kube-scheduler is predicted to bind them: pod {pod} would stay pending"
    )]
    PredictedPending {
        /// The pod.
        pod: String,
    },
    /// A replacement costs as much or more.
    #[error("{}", not_cheaper(*.price, *.replacement, .instance_types))]
    NotCheaper {
        /// The node's price in dollars per hour.
        price: f64,
        /// The minimum price of a replacement in dollars per hour, for the pods that fit on no other node.
        replacement: f64,
        /// The instance types of that replacement; empty if unknown.
        instance_types: Vec<String>,
    },
    /// What is paid for all nodes would not be lower, because commitments cover the node.
    #[error("it costs {} without commitments, and with them {}", DollarsPerHour(*.price), paid_no_less(*.saving))]
    PaidNoLess {
        /// The node's price in dollars per hour, without commitments.
        price: f64,
        /// The minimum savings in dollars per hour; not above zero.
        saving: f64,
    },
    /// No instance type is large enough for its pods and cheaper.
    #[error("no instance type fits the pods that fit on no other node")]
    NoReplacement,
    /// The pods would cost as much on any other nodes.
    #[error(
        "it costs {}, and its pods would cost at least {} anywhere else",
        DollarsPerHour(*.price),
        DollarsPerHour(*.worth)
    )]
    WellUtilized {
        /// The node's price in dollars per hour.
        price: f64,
        /// The minimum price of its pods in dollars per hour, if fractions of nodes could be launched.
        worth: f64,
    },
    /// The savings are less than [`crate::Options::min_saving`] of its price.
    #[error(
        "only {} would be saved, less than the minimum of {}",
        DollarsPerHour(*.saving),
        DollarsPerHour(*.min_saving)
    )]
    SavingTooSmall {
        /// Dollars per hour.
        saving: f64,
        /// The minimum savings in dollars per hour.
        min_saving: f64,
    },
    /// A command would save less than the NodePool's annotation [`crate::MIN_SAVINGS`] requires.
    #[error("{}", min_savings(.node_pool, *.saving, *.min_saving))]
    MinSavings {
        /// The NodePool.
        node_pool: String,
        /// Dollars per hour.
        saving: f64,
        /// The minimum savings in dollars per hour; `None` if the annotation is invalid.
        min_saving: Option<f64>,
    },
    /// Fewer pods of a workload would be above its spread over zones, but for more than the NodePool's annotation
    /// [`crate::BALANCE_ZONES`] allows.
    #[error(
        "{workload} is uneven over zones, a move costs at least {} more, and NodePool {node_pool} allows {} (nodeless.sh/balance-zones)",
        DollarsPerHour(*.cost),
        DollarsPerHour(*.max_cost)
    )]
    ZoneBalanceCost {
        /// The NodePool.
        node_pool: String,
        /// The workload.
        workload: String,
        /// What the move costs at least, in dollars per hour.
        cost: f64,
        /// What it may cost, in dollars per hour.
        max_cost: f64,
    },
    /// The spread of a workload over zones would not be more even.
    #[error(
        "{workload} is uneven over zones, and would not be more even where the kube-scheduler is predicted to bind the pods of the node"
    )]
    ZonesNoBetter {
        /// The workload.
        workload: String,
    },
    /// The spread of a workload over zones would be less even.
    #[error("{workload} would be less even over zones (nodeless.sh/balance-zones)")]
    ZonesWorse {
        /// The workload.
        workload: String,
    },
    /// The node was launched recently, the pods that it was launched for run on such nodes or are pending, and the savings are too small
    /// to move them again.
    #[error(
        "it was launched within the last hour, and the pods that it was launched for run here, run on other nodes of these launches, or are \
         yet to be bound; until {until:.0} they are moved only to save at least {}, and at most {} would be saved",
        DollarsPerHour(*.min_saving),
        DollarsPerHour(*.saving)
    )]
    JustLaunched {
        /// Dollars per hour.
        saving: f64,
        /// The minimum savings in dollars per hour: a tenth of the price of the NodePool's launches within the last hour.
        min_saving: f64,
        /// Until when it counts as just launched.
        until: Timestamp,
    },
    /// The replacement would belong to a NodePool with a lower weight, because the limits of the node's NodePool allow no other
    /// node.
    #[error("only NodePool {lighter} could launch a replacement, and NodePool {node_pool} has a higher weight")]
    LowerWeightNodePool {
        /// The node's NodePool.
        node_pool: String,
        /// The other NodePool.
        lighter: String,
    },
    /// The node is a spot node, and spot nodes are not replaced by spot nodes.
    #[error("spot-to-spot consolidation is disabled, so no spot node replaces it")]
    SpotToSpotOff,
    /// The node is a spot node, and too few cheaper types could replace it.
    #[error("spot-to-spot consolidation requires {needed} cheaper instance types, and {found} could replace this node")]
    SpotToSpotTypes {
        /// The number of cheaper types.
        found: usize,
        /// The required number.
        needed: usize,
    },
    /// Cheaper instance types are too few for the NodePool's `minValues`.
    #[error("too few cheaper instance types meet minValues of {key} in NodePool {node_pool}")]
    MinValues {
        /// The NodePool.
        node_pool: String,
        /// The label's key.
        key: String,
    },
    /// The NodePool would have less than its minimum on demand without the node.
    #[error(
        "NodePool {node_pool} needs it for nodeless.sh/min-on-demand, at least {minimum} on demand{}",
        instead_of_it(.instead.as_deref())
    )]
    OnDemandMinimum {
        /// The NodePool.
        node_pool: String,
        /// The minimum, such as `2 nodes`.
        minimum: String,
        /// Why no on-demand node replaces it, if that was evaluated.
        instead: Option<Box<Self>>,
    },
    /// Under the policy `Balanced` the savings do not justify the disruption.
    #[error("the saving is not worth the disruption in NodePool {node_pool}: score {score:.2}, below 0.50")]
    Balanced {
        /// The NodePool.
        node_pool: String,
        /// The fraction of the price that is saved, divided by the fraction of the pods that is disrupted.
        score: f64,
    },
    /// The static NodePool has more nodes than replicas, and surplus nodes are removed first.
    #[error(
        "NodePool {node_pool} has {} for {}, and surplus nodes are removed first",
        counted(*.nodes, "node"),
        counted(*.replicas, "replica")
    )]
    StaticSurplus {
        /// The NodePool.
        node_pool: String,
        /// The number of nodes.
        nodes: usize,
        /// The replicas.
        replicas: i64,
    },
    /// The static NodePool cannot launch a replacement.
    #[error("NodePool {node_pool} cannot launch a replacement: {why}{}", and_place(.place.as_deref()))]
    NoReplacementNow {
        /// The NodePool.
        node_pool: String,
        /// The reason.
        why: String,
        /// Why it is not terminated before its replacement is launched, if it is in a full capacity reservation.
        place: Option<Box<KeepsPlace>>,
    },
    /// A disruption budget is used up.
    #[error(
        "the disruption budgets of NodePool {node_pool} allow {allowed} at once for {reason:?}{}, and {disrupting} {} disrupted{}",
        budget_field(*.budget),
        if *.disrupting == 1 { "is" } else { "are" },
        or_not_ready(*.reason)
    )]
    Budget {
        /// The NodePool.
        node_pool: String,
        /// The index of the budget in `spec.disruption.budgets`, if there is one.
        budget: Option<usize>,
        /// The reason of the disruption.
        reason: DisruptionReason,
        /// The maximum number of nodes that may be disrupted at once.
        allowed: u32,
        /// The number of nodes that count as disrupted: not ready or terminating, including those of this decision.
        disrupting: u32,
    },
    /// The node drifted, but one of its pods is unschedulable elsewhere.
    #[error("{drift}, but pod {pod} cannot be scheduled elsewhere: {why}{}", and_place(.place.as_deref()))]
    DriftBlocked {
        /// The drift.
        drift: Drift,
        /// The pod.
        pod: String,
        /// Why it is unschedulable.
        why: String,
        /// Why it is not terminated before its replacement is launched, if it is in a full capacity reservation.
        place: Option<Box<KeepsPlace>>,
    },
    /// The node's AMI drifted, and the first node of its NodePool with the new AMI is not replaced, has not run for long enough,
    /// or fails.
    #[error("{drift}; {why} (nodeless.sh/ami-canary)")]
    AmiCanary {
        /// The drift.
        drift: Drift,
        /// The reason for waiting.
        why: String,
        /// Until when, if known.
        until: Option<Timestamp>,
    },
    /// The node drifted, and another reason keeps it.
    #[error("{0}")]
    Drifted(Drift),
    /// The node drifted, and other nodes are disrupted first.
    #[error("{0}; other nodes are disrupted first")]
    DriftWaits(Drift),
}

impl Serialize for KeptReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A pod that fits on no other node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoesNotFit {
    /// The pod.
    pub pod: String,
    /// Why the other nodes do not take it, and how many of them; empty unless [`crate::Options::explain`] is set.
    pub obstacles: BTreeMap<String, usize>,
}

impl fmt::Display for DoesNotFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod {} fits on no other node", self.pod)?;
        for (index, (obstacle, nodes)) in self.obstacles.iter().enumerate() {
            let separator = if index == 0 { ": " } else { ", " };
            write!(f, "{separator}{obstacle} on {nodes}")?;
        }
        Ok(())
    }
}
