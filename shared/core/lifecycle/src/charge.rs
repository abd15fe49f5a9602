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
    let forced = |reason| {
        matches!(
            reason,
            TerminationReason::Expired
                | TerminationReason::Interrupted
                | TerminationReason::Unhealthy
                | TerminationReason::Deleted
                | TerminationReason::InstanceMissing
        )
    };
    claim.phase.is_leaving()
        && claim.status.node_name.is_some()
        && claim.status.termination.as_ref().is_some_and(|end| forced(end.reason))
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
