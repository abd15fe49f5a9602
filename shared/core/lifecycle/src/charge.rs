//! What NodePools are charged for nodes that leave.
//!
//! A node that leaves by choice counts until its instance is gone: nobody had to make it leave. One that leaves by force stops
//! counting once it is told to: its pods need their next node now, and the limits bound what stays, as in Karpenter.

use nodeless_model::NodeClaim;
use nodeless_model::claim::{Charge, TerminationReason};

/// Whether the node of a claim leaves although nobody here chose that, so that what takes its place may come at once. A claim
/// whose node never joined has no pods that would wait.
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

/// What a NodePool is charged for a claim once it is written; nothing where that does not change. `charge` is what it would be
/// charged otherwise, if that is to change too.
///
/// Whoever writes the claim again afterwards has to know it with this charge.
#[must_use]
pub fn charge_when_written(claim: &NodeClaim, charge: Option<&Charge>) -> Option<Charge> {
    if leaves_by_force(claim) {
        let nothing = Charge::default();
        return (claim.spec.charge != nothing).then_some(nothing);
    }
    charge.cloned()
}
