//! The reasons for which nodes stay or have drifted, and their messages.

pub(crate) mod drift;

use drift::Drift;
use jiff::Timestamp;
use nodeless_model::duration::format_go_duration;
use nodeless_model::{DisruptionReason, DollarsPerHour, Workload};
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// The kind of Event that reports on Node and NodeClaim why a node stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptEvent {
    /// The node cannot be disrupted.
    DisruptionBlocked,
    /// The node can be disrupted, but not consolidated.
    Unconsolidatable,
}

/// Why a node stays. Its text is a message for users.
#[derive(Clone, Debug, PartialEq)]
pub enum KeptReason {
    /// A command disrupts it already.
    InCommand(String),
    /// The node is already terminating.
    Leaving,
    /// The node is not managed by a NodePool.
    Unmanaged,
    /// The node is removed independently of the decision: it reached its `expireAfter`, its NodePool is scheduled off, or it is a
    /// surplus node of a static NodePool.
    RemovedAnyway(String),
    /// The node has not joined or is not initialized yet.
    NotInitialized,
    /// The node was launched for pods that may not be bound to it yet.
    Nominated {
        /// The end of that time.
        until: Timestamp,
    },
    /// A pending pod fits on it.
    PendingPod(String),
    /// The node has the local volume of a pod.
    LocalVolume {
        /// The PersistentVolumeClaim.
        claim: String,
    },
    /// The node has the annotation `karpenter.sh/do-not-disrupt`.
    DoNotDisruptNode,
    /// A pod of the node has the annotation `karpenter.sh/do-not-disrupt`.
    DoNotDisruptPod {
        /// The pod.
        pod: String,
        /// Until when; `None` means until the annotation is removed.
        until: Option<Timestamp>,
    },
    /// A pod of the node could not be decoded, so what it needs is unknown.
    UndecodedPod {
        /// The pod.
        pod: String,
        /// Why it could not be decoded.
        why: String,
    },
    /// The zone has a zonal shift: its nodes are needed when the shift ends.
    ZonalShift {
        /// The zone.
        zone: String,
        /// The end of the shift.
        until: Timestamp,
    },
    /// The NodePool does not exist.
    NoNodePool(String),
    /// The NodePool is static.
    Static(String),
    /// A PodDisruptionBudget allows no eviction of one of its pods.
    PodDisruptionBudget {
        /// The pod.
        pod: String,
        /// The budget.
        budget: String,
    },
    /// More than one PodDisruptionBudget selects one of its pods, which the Eviction API rejects.
    SeveralPodDisruptionBudgets {
        /// The pod.
        pod: String,
        /// The budgets.
        budgets: Vec<String>,
    },
    /// `consolidateAfter` is `Never`.
    ConsolidationNever,
    /// The pods changed less than `consolidateAfter` ago.
    TooRecent {
        /// The NodePool's `consolidateAfter`.
        consolidate_after: Duration,
        /// The end of that time.
        until: Timestamp,
    },
    /// The removal of such a node led to a launch.
    HeldBack {
        /// The workloads for whose pods the node was launched.
        workloads: BTreeSet<Workload>,
        /// Until when such nodes are not consolidated.
        until: Timestamp,
    },
    /// The replacements of an earlier command did not become ready.
    UnreadyReplacements {
        /// Their NodePool, from which commands launch no node.
        node_pool: String,
        /// Until when, unless one of its nodes becomes ready.
        until: Timestamp,
    },
    /// The node runs pods, and the NodePool consolidates empty nodes only.
    NotEmptyPolicy {
        /// The number of pods.
        pods: usize,
    },
    /// Voluntary disruption is paused.
    Paused {
        /// The paused scope: `NodePool NAME` or `the cluster`.
        scope: String,
        /// Until when; `None` means until the annotation is removed.
        until: Option<Timestamp>,
    },
    /// No maintenance window of the cluster is open; why, and when the next one begins.
    MaintenanceWindow(String),
    /// Voluntary disruption of its NodePool has stopped, because it evicted many pods and did not lower the price.
    Churn(String),
    /// A pod of a node that is being removed is expected to move to it.
    MovingPod(String),
    /// Empty or drifted nodes are disrupted first.
    ConsolidationWaits,
    /// The node's price is unknown, so the savings are unknown.
    PriceUnknown(String),
    /// A command of this decision moves pods to it.
    Receives(String),
    /// The decision reached its work limit; the next one evaluates it first.
    NotEvaluated,
    /// A pod of the node fits on no other node, and a replacement would not be cheaper.
    DoesNotFit(DoesNotFit),
    /// The scheduler found no node for one of its pods.
    Unschedulable {
        /// The pod.
        pod: String,
        /// The reasons.
        why: String,
    },
    /// The preferences of a pod that its node meets are required of any other node, which may be why none is found.
    PreferencesKept {
        /// The pod.
        pod: String,
    },
    /// A pod of the node fits only on nodes where it would violate the topology spread of a pod that runs there.
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
    PredictedPending {
        /// The pod.
        pod: String,
    },
    /// A replacement costs as much or more.
    NotCheaper {
        /// The node's price in dollars per hour.
        price: f64,
        /// The minimum price of a replacement in dollars per hour, for the pods that fit on no other node.
        replacement: f64,
        /// The instance types of that replacement; empty if unknown.
        instance_types: Vec<String>,
    },
    /// What is paid for all nodes would not be lower, because commitments cover the node.
    PaidNoLess {
        /// The node's price in dollars per hour, without commitments.
        price: f64,
        /// The minimum savings in dollars per hour; not above zero.
        saving: f64,
    },
    /// No instance type is large enough for its pods and cheaper.
    NoReplacement,
    /// The pods would cost as much on any other nodes.
    WellUtilized {
        /// The node's price in dollars per hour.
        price: f64,
        /// The minimum price of its pods in dollars per hour, if fractions of nodes could be launched.
        worth: f64,
    },
    /// The savings are less than [`crate::Options::min_saving`] of its price.
    SavingTooSmall {
        /// Dollars per hour.
        saving: f64,
        /// The minimum savings in dollars per hour.
        min_saving: f64,
    },
    /// A command would save less than the NodePool's annotation [`crate::MIN_SAVINGS`] requires.
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
    ZonesNoBetter {
        /// The workload.
        workload: String,
    },
    /// The spread of a workload over zones would be less even.
    ZonesWorse {
        /// The workload.
        workload: String,
    },
    /// The node was launched recently, the pods that it was launched for run on such nodes or are pending, and the savings are too small
    /// to move them again.
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
    LowerWeightNodePool {
        /// The node's NodePool.
        node_pool: String,
        /// The other NodePool.
        lighter: String,
    },
    /// The node is a spot node, and spot nodes are not replaced by spot nodes.
    SpotToSpotOff,
    /// The node is a spot node, and too few cheaper types could replace it.
    SpotToSpotTypes {
        /// The number of cheaper types.
        found: usize,
        /// The required number.
        needed: usize,
    },
    /// Cheaper instance types are too few for the NodePool's `minValues`.
    MinValues {
        /// The NodePool.
        node_pool: String,
        /// The label's key.
        key: String,
    },
    /// The NodePool would have less than its minimum on demand without the node.
    OnDemandMinimum {
        /// The NodePool.
        node_pool: String,
        /// The minimum, such as `2 nodes`.
        minimum: String,
        /// Why no on-demand node replaces it, if that was evaluated.
        instead: Option<Box<Self>>,
    },
    /// Under the policy `Balanced` the savings do not justify the disruption.
    Balanced {
        /// The NodePool.
        node_pool: String,
        /// The fraction of the price that is saved, divided by the fraction of the pods that is disrupted.
        score: f64,
    },
    /// The static NodePool has more nodes than replicas, and surplus nodes are removed first.
    StaticSurplus {
        /// The NodePool.
        node_pool: String,
        /// The number of nodes.
        nodes: usize,
        /// The replicas.
        replicas: i64,
    },
    /// The static NodePool cannot launch a replacement.
    NoReplacementNow {
        /// The NodePool.
        node_pool: String,
        /// The reason.
        why: String,
    },
    /// A disruption budget is used up.
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
    DriftBlocked {
        /// The drift.
        drift: Drift,
        /// The pod.
        pod: String,
        /// Why it is unschedulable.
        why: String,
    },
    /// The node's AMI drifted, and the first node of its NodePool with the new AMI is not replaced, has not run for long enough,
    /// or fails.
    AmiCanary {
        /// The drift.
        drift: Drift,
        /// The reason for waiting.
        why: String,
        /// Until when, if known.
        until: Option<Timestamp>,
    },
    /// The node drifted, and another reason keeps it.
    Drifted(Drift),
    /// The node drifted, and other nodes are disrupted first.
    DriftWaits(Drift),
}

impl fmt::Display for KeptReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InCommand(id) => write!(f, "command {id} disrupts it already"),
            Self::Leaving => f.write_str("it is already terminating"),
            Self::RemovedAnyway(why) => write!(f, "{why}, so it is removed"),
            Self::Unmanaged => f.write_str("it is not managed by a NodePool"),
            Self::NotInitialized => f.write_str("it is not initialized yet"),
            Self::Nominated { until } => write!(f, "it is nominated for pending pods until {until:.0}"),
            Self::PendingPod(pod) => write!(f, "pending pod {pod} fits on it"),
            Self::LocalVolume { claim } => write!(f, "it has the local volume of PersistentVolumeClaim {claim}"),
            Self::DoNotDisruptNode => f.write_str("it is annotated karpenter.sh/do-not-disrupt"),
            Self::DoNotDisruptPod { pod, until } => {
                write!(f, "pod {pod} is annotated karpenter.sh/do-not-disrupt")?;
                until.map_or(Ok(()), |until| write!(f, ", which protects it until {until:.0}"))
            }
            Self::UndecodedPod { pod, why } => write!(
                f,
                "pod {pod} cannot be decoded ({why}), so what it needs is unknown: the node stays, and no other pod is planned for it; \
                 correct the field, or delete the pod"
            ),
            Self::ZonalShift { zone, until } => f.write_str(&zonal_shift(zone, *until)),
            Self::NoNodePool(name) => write!(f, "its NodePool {name} does not exist"),
            Self::Static(name) => write!(f, "NodePool {name} keeps a fixed number of nodes"),
            Self::PodDisruptionBudget { pod, budget } => {
                write!(f, "PodDisruptionBudget {budget} allows no eviction of pod {pod}")
            }
            Self::SeveralPodDisruptionBudgets { pod, budgets } => {
                write!(
                    f,
                    "PodDisruptionBudgets {} cover pod {pod}, and a pod with several cannot be evicted",
                    budgets.join(" and ")
                )
            }
            Self::ConsolidationNever => f.write_str("consolidateAfter is Never"),
            Self::TooRecent { consolidate_after, until } => write!(
                f,
                "its pods changed less than consolidateAfter ({}) ago; it can be consolidated from {until:.0}",
                format_go_duration(*consolidate_after)
            ),
            Self::HeldBack { workloads, until } => write!(
                f,
                "consolidation removed such a node, and another was launched for pods of {}; nodes of this instance type \
                 with these pods are not consolidated until {until:.0}",
                listed(workloads)
            ),
            Self::UnreadyReplacements { node_pool, until } => write!(
                f,
                "the replacements of an earlier command did not become ready; no command launches a node of NodePool \
                 {node_pool} until one of its nodes becomes ready, or until {until:.0}"
            ),
            Self::NotEmptyPolicy { pods } => {
                write!(f, "it runs {pods}, and consolidationPolicy is WhenEmpty", pods = Pods(*pods))
            }
            Self::Paused { scope, until: None } => write!(f, "disruption is paused for {scope}"),
            Self::Paused { scope, until: Some(until) } => {
                write!(f, "disruption is paused for {scope} until {until:.0}")
            }
            Self::MaintenanceWindow(why) | Self::Churn(why) => f.write_str(why),
            Self::MovingPod(pod) => write!(f, "pod {pod} is expected to move to it"),
            Self::ConsolidationWaits => f.write_str("empty and drifted nodes are disrupted first"),
            Self::PriceUnknown(kind) if kind.is_empty() => {
                f.write_str("its price is unknown, because its instance type, zone or capacity type is unknown")
            }
            Self::PriceUnknown(kind) => write!(f, "the price of its instance type {kind} is unknown"),
            Self::Receives(id) => write!(f, "command {id} moves pods to it"),
            Self::NotEvaluated => f.write_str("it was not evaluated, because the decision reached its work limit; the next decision evaluates it first"),
            Self::DoesNotFit(why) => why.fmt(f),
            Self::Unschedulable { pod, why } => write!(f, "pod {pod} cannot be scheduled on another node: {why}"),
            Self::PreferencesKept { pod } => {
                write!(f, "the preferences of pod {pod} that its node meets are required of any other node")
            }
            Self::HostSpread { pod, node, owner } => {
                write!(f, "moving pod {pod} to {node} would violate the topology spread of pod {owner} there")
            }
            Self::PredictedPending { pod } => write!(
                f,
                "its pods would not all fit where the kube-scheduler is predicted to bind them: pod {pod} would stay pending"
            ),
            Self::NotCheaper { price, replacement, instance_types } => {
                write!(f, "it costs {}, and for the pods that fit on no other node ", DollarsPerHour(*price))?;
                match &instance_types[..] {
                    [] => write!(f, "new nodes would cost at least {}", DollarsPerHour(*replacement))?,
                    kinds => write!(f, "{} would cost {}", kinds.join(" and "), DollarsPerHour(*replacement))?,
                }
                match replacement - price {
                    more if more >= 0.000_05 => write!(f, ", {} more", DollarsPerHour(more)),
                    _ => f.write_str(", which is no less"),
                }
            }
            Self::PaidNoLess { price, saving } => {
                write!(f, "it costs {} without commitments, and with them ", DollarsPerHour(*price))?;
                match -saving {
                    more if more >= 0.000_05 => write!(f, "{} more would be paid for all nodes without it", DollarsPerHour(more)),
                    _ => f.write_str("no less would be paid for all nodes without it"),
                }
            }
            Self::NoReplacement => f.write_str("no instance type fits the pods that fit on no other node"),
            Self::WellUtilized { price, worth } => {
                let (price, worth) = (DollarsPerHour(*price), DollarsPerHour(*worth));
                write!(f, "it costs {price}, and its pods would cost at least {worth} anywhere else")
            }
            Self::SavingTooSmall { saving, min_saving } => {
                let (saving, min_saving) = (DollarsPerHour(*saving), DollarsPerHour(*min_saving));
                write!(f, "only {saving} would be saved, less than the minimum of {min_saving}")
            }
            Self::MinSavings { node_pool, saving, min_saving: Some(min_saving) } => write!(
                f,
                "at most {} would be saved, and NodePool {node_pool} requires at least {} (nodeless.sh/min-savings-per-hour)",
                DollarsPerHour(*saving),
                DollarsPerHour(*min_saving)
            ),
            Self::MinSavings { node_pool, min_saving: None, .. } => {
                write!(f, "annotation nodeless.sh/min-savings-per-hour of NodePool {node_pool} is invalid, so no node of it is consolidated")
            }
            Self::ZoneBalanceCost { node_pool, workload, cost, max_cost } => write!(
                f,
                "{workload} is uneven over zones, a move costs at least {} more, and NodePool {node_pool} allows {} \
                 (nodeless.sh/balance-zones)",
                DollarsPerHour(*cost),
                DollarsPerHour(*max_cost)
            ),
            Self::ZonesNoBetter { workload } => write!(
                f,
                "{workload} is uneven over zones, and would not be more even where the kube-scheduler is predicted to bind the pods of \
                 the node"
            ),
            Self::ZonesWorse { workload } => {
                write!(f, "{workload} would be less even over zones (nodeless.sh/balance-zones)")
            }
            Self::JustLaunched { saving, min_saving, until } => write!(
                f,
                "it was launched within the last hour, and the pods that it was launched for run here, run on other nodes of \
                 these launches, or are yet to be bound; until {until:.0} they are moved only to save at least {}, and at most {} would be saved",
                DollarsPerHour(*min_saving),
                DollarsPerHour(*saving)
            ),
            Self::LowerWeightNodePool { node_pool, lighter } => write!(
                f,
                "only NodePool {lighter} could launch a replacement, and NodePool {node_pool} has a higher weight"
            ),
            Self::SpotToSpotOff => {
                f.write_str("spot-to-spot consolidation is disabled, so no spot node replaces it")
            }
            Self::SpotToSpotTypes { found, needed } => write!(
                f,
                "spot-to-spot consolidation requires {needed} cheaper instance types, and {found} could replace this node"
            ),
            Self::MinValues { node_pool, key } => {
                write!(f, "too few cheaper instance types meet minValues of {key} in NodePool {node_pool}")
            }
            Self::OnDemandMinimum { node_pool, minimum, instead } => {
                write!(f, "NodePool {node_pool} needs it for nodeless.sh/min-on-demand, at least {minimum} on demand")?;
                match instead {
                    None => Ok(()),
                    Some(why) => write!(f, "; about an on-demand node instead: {why}"),
                }
            }
            Self::Balanced { node_pool, score } => {
                write!(
                    f,
                    "the saving is not worth the disruption in NodePool {node_pool}: score {score:.2}, below 0.50"
                )
            }
            Self::StaticSurplus { node_pool, nodes, replicas } => {
                write!(f, "NodePool {node_pool} has {nodes} nodes for {replicas} replicas, and surplus nodes are removed first")
            }
            Self::NoReplacementNow { node_pool, why } => {
                write!(f, "NodePool {node_pool} cannot launch a replacement: {why}")
            }
            Self::Budget { node_pool, budget, reason, allowed, disrupting } => {
                write!(f, "the disruption budgets of NodePool {node_pool} allow {allowed} at once for {reason:?}")?;
                if let Some(place) = budget {
                    write!(f, " (spec.disruption.budgets[{place}])")?;
                }
                let unready = if *reason == DisruptionReason::Unhealthy { "" } else { " or not ready" };
                write!(f, ", and {disrupting} are disrupted{unready}")
            }
            Self::DriftBlocked { drift, pod, why } => write!(f, "{drift}, but pod {pod} cannot be scheduled elsewhere: {why}"),
            Self::AmiCanary { drift, why, .. } => write!(f, "{drift}; {why} (nodeless.sh/ami-canary)"),
            Self::Drifted(drift) => drift.fmt(f),
            Self::DriftWaits(drift) => write!(f, "{drift}; other nodes are disrupted first"),
        }
    }
}

impl KeptReason {
    /// Whether the reason is a property of the node or its pods and does not depend on the rest of the decision.
    #[must_use]
    pub const fn is_lasting(&self) -> bool {
        matches!(
            self,
            Self::DoNotDisruptNode
                | Self::LocalVolume { .. }
                | Self::DoNotDisruptPod { .. }
                | Self::PodDisruptionBudget { .. }
                | Self::SeveralPodDisruptionBudgets { .. }
                | Self::UndecodedPod { .. }
                | Self::ZonalShift { .. }
                | Self::NoNodePool(_)
                | Self::Static(_)
                | Self::ConsolidationNever
                | Self::TooRecent { .. }
                | Self::HeldBack { .. }
                | Self::NotEmptyPolicy { .. }
                | Self::Paused { .. }
                | Self::MaintenanceWindow(_)
                | Self::Churn(_)
                | Self::Nominated { .. }
        )
    }

    /// The kind of the event on Node and NodeClaim, as in Karpenter. `None` for temporary reasons, and for those with an event on
    /// the NodePool.
    #[must_use]
    pub const fn event(&self) -> Option<KeptEvent> {
        match self {
            Self::Nominated { .. }
            | Self::PendingPod(_)
            | Self::DoNotDisruptNode
            | Self::DoNotDisruptPod { .. }
            | Self::PodDisruptionBudget { .. }
            | Self::SeveralPodDisruptionBudgets { .. }
            | Self::UndecodedPod { .. }
            | Self::ZonalShift { .. }
            | Self::Paused { .. }
            | Self::MaintenanceWindow(_)
            | Self::Churn(_)
            | Self::UnreadyReplacements { .. }
            | Self::NoReplacementNow { .. }
            | Self::OnDemandMinimum { .. }
            | Self::AmiCanary { .. }
            | Self::DriftBlocked { .. } => Some(KeptEvent::DisruptionBlocked),
            Self::ConsolidationNever
            | Self::LocalVolume { .. }
            | Self::HeldBack { .. }
            | Self::NotEmptyPolicy { .. }
            | Self::PriceUnknown(_)
            | Self::DoesNotFit(_)
            | Self::Unschedulable { .. }
            | Self::HostSpread { .. }
            | Self::PredictedPending { .. }
            | Self::LowerWeightNodePool { .. }
            | Self::NotCheaper { .. }
            | Self::PaidNoLess { .. }
            | Self::NoReplacement
            | Self::WellUtilized { .. }
            | Self::SavingTooSmall { .. }
            | Self::MinSavings { .. }
            | Self::ZoneBalanceCost { .. }
            | Self::ZonesNoBetter { .. }
            | Self::ZonesWorse { .. }
            | Self::JustLaunched { .. }
            | Self::SpotToSpotOff
            | Self::SpotToSpotTypes { .. }
            | Self::MinValues { .. }
            | Self::Balanced { .. } => Some(KeptEvent::Unconsolidatable),
            Self::InCommand(_)
            | Self::Leaving
            | Self::Unmanaged
            | Self::RemovedAnyway(_)
            | Self::NotInitialized
            // Reported as invalid configuration.
            | Self::NoNodePool(_)
            | Self::Static(_)
            | Self::TooRecent { .. }
            | Self::MovingPod(_)
            | Self::ConsolidationWaits
            | Self::Receives(_)
            | Self::NotEvaluated
            // Reported together with the reason for which the pod cannot be scheduled.
            | Self::PreferencesKept { .. }
            | Self::StaticSurplus { .. }
            | Self::Budget { .. }
            | Self::Drifted(_)
            | Self::DriftWaits(_) => None,
        }
    }

    /// The kind of reason without names and numbers, as a heading for many nodes.
    #[must_use]
    pub const fn heading(&self) -> &'static str {
        match self {
            Self::InCommand(_) => "a command disrupts them already",
            Self::Leaving => "already terminating",
            Self::Unmanaged => "not managed by a NodePool",
            Self::RemovedAnyway(_) => "removed whatever is decided",
            Self::NotInitialized => "not initialized yet",
            Self::Nominated { .. } => "nominated for pending pods",
            Self::PendingPod(_) => "pending pods fit on them",
            Self::LocalVolume { .. } => "with a local volume of a pod",
            Self::DoNotDisruptNode => "annotated karpenter.sh/do-not-disrupt",
            Self::DoNotDisruptPod { .. } => "with a pod annotated karpenter.sh/do-not-disrupt",
            Self::UndecodedPod { .. } => "with a pod that cannot be decoded",
            Self::ZonalShift { .. } => "in a zone with a zonal shift",
            Self::NoNodePool(_) => "their NodePool does not exist",
            Self::Static(_) => "of a NodePool with a fixed number of nodes",
            Self::PodDisruptionBudget { .. } => "a PodDisruptionBudget allows no eviction",
            Self::SeveralPodDisruptionBudgets { .. } => "several PodDisruptionBudgets cover a pod",
            Self::ConsolidationNever => "consolidateAfter is Never",
            Self::TooRecent { .. } => "their pods changed less than consolidateAfter ago",
            Self::HeldBack { .. } => "the removal of such a node led to a launch",
            Self::UnreadyReplacements { .. } => "replacements of an earlier command did not become ready",
            Self::NotEmptyPolicy { .. } => "not empty, and consolidationPolicy is WhenEmpty",
            Self::Paused { .. } => "disruption is paused",
            Self::MaintenanceWindow(_) => "no maintenance window is open",
            Self::Churn(_) => "too many evictions that lowered no price",
            Self::MovingPod(_) | Self::Receives(_) => "pods of other nodes move to them",
            Self::ConsolidationWaits => "empty and drifted nodes are disrupted first",
            Self::PriceUnknown(_) => "price unknown",
            Self::NotEvaluated => "not evaluated",
            Self::DoesNotFit(_) => "a pod fits on no other node",
            Self::Unschedulable { .. } => "a pod cannot be scheduled on another node",
            Self::PreferencesKept { .. } => "a pod keeps its preferences",
            Self::HostSpread { .. } => "a move would violate a topology spread",
            Self::PredictedPending { .. } => {
                "pods would not all fit where the kube-scheduler is predicted to bind them"
            }
            Self::NotCheaper { .. } => "a replacement costs as much or more",
            Self::PaidNoLess { .. } => "commitments cover them, so removing them saves nothing",
            Self::NoReplacement => "no instance type fits their pods",
            Self::WellUtilized { .. } => "well utilized",
            Self::SavingTooSmall { .. } => "saving too small",
            Self::MinSavings { .. } => "less would be saved than nodeless.sh/min-savings-per-hour requires",
            Self::ZoneBalanceCost { .. } => {
                "a move toward an even spread over zones costs more than nodeless.sh/balance-zones allows"
            }
            Self::ZonesNoBetter { .. } => "a move would not make the spread over zones more even",
            Self::ZonesWorse { .. } => "a move would make the spread over zones less even",
            Self::JustLaunched { .. } => "just launched, and saving too small",
            Self::LowerWeightNodePool { .. } => "only a NodePool of lower weight could launch a replacement",
            Self::SpotToSpotOff | Self::SpotToSpotTypes { .. } => "no spot-to-spot consolidation",
            Self::MinValues { .. } => "too few cheaper instance types for minValues",
            Self::OnDemandMinimum { .. } => "needed for nodeless.sh/min-on-demand",
            Self::Balanced { .. } => "the saving is not worth the disruption",
            Self::StaticSurplus { .. } => "surplus nodes are removed first",
            Self::NoReplacementNow { .. } => "no replacement can be launched",
            Self::Budget { .. } => "a disruption budget is used up",
            Self::DriftBlocked { .. } => "drifted, and a pod cannot be scheduled elsewhere",
            Self::AmiCanary { .. } => "drifted, and the first node with the new AMI comes first",
            Self::Drifted(_) => "drifted",
            Self::DriftWaits(_) => "drifted, and other nodes are disrupted first",
        }
    }
}

/// A message about a zonal shift. `Timestamp::MAX` means that its end is unknown.
pub(crate) fn zonal_shift(zone: &str, until: Timestamp) -> String {
    let end = if until == Timestamp::MAX { String::new() } else { format!(" until {until}") };
    format!("a zonal shift away from {zone} is in effect{end}")
}

/// The maximum number of workloads that a message names.
const MAX_WORKLOADS: usize = 3;

fn listed(workloads: &BTreeSet<Workload>) -> String {
    let mut named: Vec<String> = workloads.iter().take(MAX_WORKLOADS).map(Workload::to_string).collect();
    let more = workloads.len().saturating_sub(MAX_WORKLOADS);
    named.extend((more > 0).then(|| format!("{more} more")));
    named.join(", ")
}

/// A number of pods, for a message.
struct Pods(usize);

impl fmt::Display for Pods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, if self.0 == 1 { "pod" } else { "pods" })
    }
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
