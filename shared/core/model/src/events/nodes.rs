//! Events on Nodes and NodeClaims about their lifecycle.

use super::{DEDUPE_TIMEOUT_OF_NODES, event, normal, warning};
use crate::nodes::claim::REGISTRATION_TIMEOUT;
use crate::object::{EventType, ObjectEvent, ObjectRef};
use jiff::Timestamp;

/// On a NodeClaim: EC2 has no capacity for it, or a quota of the account is used up, which the message names.
#[must_use]
pub fn insufficient_capacity(claim: ObjectRef, why: &str) -> ObjectEvent {
    ended(claim, "InsufficientCapacityError", why)
}

/// On a NodeClaim: its EC2NodeClass is not ready.
#[must_use]
pub fn node_class_not_ready(claim: ObjectRef, why: &str) -> ObjectEvent {
    ended(claim, "NodeClassNotReady", why)
}

/// On a NodeClaim: it was not launched in time.
#[must_use]
pub fn launch_timeout(claim: ObjectRef, why: &str) -> ObjectEvent {
    ended(claim, "LaunchTimeout", why)
}

/// On a NodeClaim: its node did not register in time.
#[must_use]
pub fn registration_timeout(claim: ObjectRef, why: &str) -> ObjectEvent {
    ended(claim, "RegistrationTimeout", why)
}

/// On a Node or NodeClaim: it joined and did not become ready in time.
#[must_use]
pub fn initialization_timeout(object: ObjectRef) -> ObjectEvent {
    let message = format!(
        "It joined, was never initialized, and has not been ready for {} minutes: no pods are planned for it",
        REGISTRATION_TIMEOUT.as_secs() / 60
    );
    warning(object, "InitializationTimeout", message).quiet_for(DEDUPE_TIMEOUT_OF_NODES)
}

/// On a NodeClaim: it is terminated because of an interruption.
#[must_use]
pub fn interruption_terminating(claim: ObjectRef, why: &str) -> ObjectEvent {
    ended(claim, TERMINATING_ON_INTERRUPTION, why)
}

fn ended(claim: ObjectRef, reason: &str, why: &str) -> ObjectEvent {
    let message = format!("Disrupting {}: {why}", claim.kind);
    warning(claim, reason, message)
}

const TERMINATING_ON_INTERRUPTION: &str = "TerminatingOnInterruption";

/// On a Node or NodeClaim: its pods are moved because of an interruption.
#[must_use]
pub fn terminating_on_interruption(object: ObjectRef) -> ObjectEvent {
    warning(object, TERMINATING_ON_INTERRUPTION, "Its pods are moved because of an interruption")
}

/// On a Node or NodeClaim: an interruption of the instance was announced. `reason` is that of the kind of interruption.
#[must_use]
pub fn interrupted(object: ObjectRef, event_type: EventType, reason: &str, message: &str) -> ObjectEvent {
    event(object, event_type, reason, message.to_owned())
}

/// On a Node or NodeClaim: the instance fails its status checks, or EC2 has scheduled an event for it.
#[must_use]
pub fn instance_unhealthy(object: ObjectRef, why: &str) -> ObjectEvent {
    warning(object, "InstanceUnhealthy", why)
}

/// On a NodeClaim: EC2 refuses to terminate its instance, which runs until that is allowed.
#[must_use]
pub fn failed_termination(claim: ObjectRef, instance: &str, why: &str) -> ObjectEvent {
    let message = format!(
        "Failed to terminate instance {instance}, {why}. It runs, and its costs continue. nodeless may terminate only instances with the \
         tags that it sets at launch, and EC2 terminates none with termination protection: restore the tags, disable the protection, or \
         terminate the instance yourself."
    );
    warning(claim, "FailedTermination", message)
}

/// On a Node, NodeClaim or NodePool: an unhealthy node is not replaced.
#[must_use]
pub fn node_repair_blocked(object: ObjectRef, why: &str) -> ObjectEvent {
    warning(object, "NodeRepairBlocked", why).quiet_for(DEDUPE_TIMEOUT_OF_NODES)
}

/// On a Node or NodeClaim: node repair reboots the instance, because the node is unhealthy.
#[must_use]
pub fn reboot_requested(object: ObjectRef, why: &str) -> ObjectEvent {
    let message = format!("Rebooting {}: {why}", object.kind);
    warning(object, "RebootRequested", message)
}

/// On a NodeClaim: its node was not ready in time after node repair rebooted the instance.
#[must_use]
pub fn reboot_failed(claim: ObjectRef, why: &str) -> ObjectEvent {
    warning(claim, "RebootFailed", why)
}

/// On a NodeClaim: its node is not as the NodeClaim describes it.
#[must_use]
pub fn failed_consistency_check(claim: ObjectRef, message: &str) -> ObjectEvent {
    warning(claim, "FailedConsistencyCheck", message).keyed([message])
}

/// On a NodeClaim that has no NodePool: no node is launched for it yet.
#[must_use]
pub fn node_claim_not_launched(claim: ObjectRef, why: &str) -> ObjectEvent {
    warning(claim, "NotLaunched", why).keyed([why]).quiet_for(DEDUPE_TIMEOUT_OF_NODES)
}

/// On a Node: it joined without the taint `karpenter.sh/unregistered`.
#[must_use]
pub fn unregistered_taint_missing(node: impl Into<ObjectRef>) -> ObjectEvent {
    let message = "it joined without the taint karpenter.sh/unregistered, so pods may have been scheduled before it was registered";
    warning(node, "UnregisteredTaintMissing", message)
}

/// On a Node or NodeClaim: when its drain ends by force.
#[must_use]
pub fn termination_grace_period_expiring(object: impl Into<ObjectRef>, deadline: Timestamp) -> ObjectEvent {
    warning(object, "TerminationGracePeriodExpiring", format!("All pods will be deleted by {deadline:.0}"))
}

/// On a Node: its volumes are still attached.
#[must_use]
pub fn awaiting_volume_detachment(node: impl Into<ObjectRef>, message: &str) -> ObjectEvent {
    normal(node, "AwaitingVolumeDetachment", message)
}

/// On a Node: what blocks its drain.
#[must_use]
pub fn failed_draining(node: impl Into<ObjectRef>, message: &str) -> ObjectEvent {
    warning(node, "FailedDraining", message)
}
