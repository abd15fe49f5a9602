//! The charge of terminating nodes.
//!
//! A node that is disrupted voluntarily counts until its instance is terminated. A node that is terminated forcefully stops
//! counting at once: its pods need their next node now, and the limits apply to the nodes that stay, as in Karpenter.

use nodeless_model::NodeClaim;
use nodeless_model::claim::{Charge, TerminationReason};

/// Whether the node of a claim is terminated involuntarily, so that its replacement may be launched at once. A claim
/// whose node never joined has no pods to reschedule.
#[must_use]
pub fn leaves_by_force(claim: &NodeClaim) -> bool {
    claim.phase.is_leaving()
        && claim.status.node_name.is_some()
        && claim.status.termination.as_ref().is_some_and(|end| is_forced(end.reason))
}

/// Whether nodeless does not choose when the node is terminated.
const fn is_forced(reason: TerminationReason) -> bool {
    match reason {
        TerminationReason::Expired
        | TerminationReason::Interrupted
        | TerminationReason::Unhealthy
        | TerminationReason::Deleted
        | TerminationReason::InstanceMissing => true,
        // Claims whose nodes never joined.
        TerminationReason::InsufficientCapacity
        | TerminationReason::NodeClassNotReady
        | TerminationReason::LaunchTimeout
        | TerminationReason::RegistrationTimeout
        // Disruption, which launches replacements first, within the limits.
        | TerminationReason::Empty
        | TerminationReason::Underutilized
        | TerminationReason::Drifted
        | TerminationReason::Repaired
        | TerminationReason::Unbalanced
        // No node replaces these in their NodePool.
        | TerminationReason::NodePoolDeleted
        | TerminationReason::ScaledDown
        | TerminationReason::ScheduledOff => false,
    }
}

/// The new charge of a claim for its next write; nothing if it does not change. `charge` is the charge that it would have
/// otherwise, if that changes too.
///
/// A caller that writes the claim again uses it with this charge.
#[must_use]
pub fn charge_when_written(claim: &NodeClaim, charge: Option<&Charge>) -> Option<Charge> {
    if leaves_by_force(claim) {
        let nothing = Charge::default();
        return (claim.spec.charge != nothing).then_some(nothing);
    }
    charge.cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::claim;
    use jiff::Timestamp;
    use nodeless_model::claim::{Phase, Termination};
    use nodeless_model::{Quantity, ResourceList};

    #[test]
    fn a_joined_node_that_is_terminated_by_force_stops_counting() {
        use TerminationReason as Reason;
        let by_force = [
            (Reason::InsufficientCapacity, false),
            (Reason::NodeClassNotReady, false),
            (Reason::LaunchTimeout, false),
            (Reason::RegistrationTimeout, false),
            (Reason::Empty, false),
            (Reason::Underutilized, false),
            (Reason::Drifted, false),
            (Reason::Repaired, false),
            (Reason::Expired, true),
            (Reason::Interrupted, true),
            (Reason::Unhealthy, true),
            (Reason::Deleted, true),
            (Reason::InstanceMissing, true),
            (Reason::NodePoolDeleted, false),
            (Reason::ScaledDown, false),
            (Reason::ScheduledOff, false),
        ];
        let charge = Charge { resources: ResourceList::from([("cpu", Quantity::from_units(2))]), ..Charge::default() };
        let other = Charge { dollars_per_hour: 0.1, ..charge.clone() };
        for (reason, forced) in by_force {
            let mut claim = claim(Phase::Initialized);
            claim.spec.charge = charge.clone();
            let requested = Timestamp::UNIX_EPOCH;
            claim.status.termination = Some(Termination { reason, message: String::new(), requested, deadline: None });
            assert!(!leaves_by_force(&claim), "{reason:?}: it still counts while it is not drained");
            for phase in [Phase::Draining, Phase::Terminating] {
                claim.phase = phase;
                assert_eq!(leaves_by_force(&claim), forced, "{reason:?}");
                let (released, kept) = (Some(Charge::default()), Some(other.clone()));
                let expected = if forced { released } else { kept };
                assert_eq!(charge_when_written(&claim, Some(&other)), expected, "{reason:?}");
            }
            claim.status.node_name = None;
            assert!(!leaves_by_force(&claim), "{reason:?}: no pods wait for a node that never joined");
        }
    }
}
