//! What kind of reason a reason is: whether it lasts, its Event, and its heading.

use super::KeptReason;

/// The kind of Event that reports on Node and NodeClaim why a node stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptEvent {
    /// The node cannot be disrupted.
    DisruptionBlocked,
    /// The node can be disrupted, but not consolidated.
    Unconsolidatable,
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
            | Self::Rebooting
            | Self::Unmanaged
            | Self::RemovedAnyway(_)
            | Self::NotInitialized
            // Reported as invalid configuration.
            | Self::NoNodePool(_)
            | Self::Static(_)
            | Self::TooRecent { .. }
            | Self::MovingPod(_)
            | Self::EmptinessWaits
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
            Self::Rebooting => "being rebooted",
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
            Self::UnreadyReplacements { .. } => "replacements of an earlier command did not become ready",
            Self::NotEmptyPolicy { .. } => "not empty, and consolidationPolicy is WhenEmpty",
            Self::Paused { .. } => "disruption is paused",
            Self::MaintenanceWindow(_) => "no maintenance window is open",
            Self::Churn(_) => "too many evictions that lowered no price",
            Self::MovingPod(_) | Self::Receives(_) => "pods of other nodes move to them",
            Self::EmptinessWaits => "unhealthy nodes are replaced first",
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
            Self::DriftBlocked { .. } => "drifted or unhealthy, and a pod cannot be scheduled elsewhere",
            Self::AmiCanary { .. } => "drifted, and the first node with the new AMI comes first",
            Self::Drifted(_) => "drifted",
            Self::DriftWaits(_) => "drifted or unhealthy, and other nodes are disrupted first",
        }
    }
}
