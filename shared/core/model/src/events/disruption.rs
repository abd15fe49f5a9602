//! Events about disruption: what is disrupted, and what holds it up.

use super::{DEDUPE_TIMEOUT_OF_NODES, DISRUPTION_BLOCKED, DISRUPTION_TERMINATING, UNCONSOLIDATABLE};
use super::{event, normal, warning};
use crate::DisruptionReason;
use crate::object::{EventType, ObjectEvent, ObjectRef};

/// On a NodeClaim: it is launched to replace nodes.
#[must_use]
pub fn disruption_launching(claim: ObjectRef, reason: DisruptionReason) -> ObjectEvent {
    let reason = format!("{reason:?}");
    normal(claim, "DisruptionLaunching", format!("Launching NodeClaim: {reason}")).keyed([&reason])
}

/// On a NodeClaim: the nodes that it replaces stay until its own is ready.
#[must_use]
pub fn disruption_waiting_readiness(claim: ObjectRef) -> ObjectEvent {
    let message = "Waiting until the node is ready before the nodes it replaces are drained";
    normal(claim, "DisruptionWaitingReadiness", message)
}

/// On a Node or NodeClaim: its pods are moved, and it is terminated.
#[must_use]
pub fn disruption_terminating(object: ObjectRef, why: &str) -> ObjectEvent {
    terminating(object, EventType::Normal, why)
}

/// On a Node or NodeClaim: it is replaced because it is unhealthy.
#[must_use]
pub fn repairing(object: ObjectRef, why: &str) -> ObjectEvent {
    terminating(object, EventType::Warning, why)
}

fn terminating(object: ObjectRef, event_type: EventType, why: &str) -> ObjectEvent {
    let message = format!("Disrupting {}: {why}", object.kind);
    event(object, event_type, DISRUPTION_TERMINATING, message).keyed([why])
}

/// On a Node or NodeClaim: a command to disrupt it was cancelled.
#[must_use]
pub fn disruption_failed(object: ObjectRef, why: &str) -> ObjectEvent {
    let message = format!("Cannot disrupt {}: {why}", object.kind);
    warning(object, DISRUPTION_BLOCKED, message).keyed([why])
}

/// On a Node or NodeClaim: why it cannot be disrupted.
#[must_use]
pub fn disruption_blocked(object: ObjectRef, why: &str) -> ObjectEvent {
    normal(object, DISRUPTION_BLOCKED, why)
}

/// On a Node or NodeClaim: why it cannot be consolidated.
#[must_use]
pub fn unconsolidatable(object: ObjectRef, why: &str) -> ObjectEvent {
    normal(object, UNCONSOLIDATABLE, why).quiet_for(DEDUPE_TIMEOUT_OF_NODES)
}

/// On a NodePool: nodes are not replaced because of their AMI, because the first node with the new AMI fails.
#[must_use]
pub fn ami_canary_failed(pool: impl Into<ObjectRef>, image: &str, why: &str) -> ObjectEvent {
    warning(pool, "AmiCanaryFailed", format!("Nodes are not replaced by ones with AMI {image}: {why}")).keyed([image])
}

/// On a NodePool: its budgets allow no disruption now for these reasons.
#[must_use]
pub fn budgets_block(pool: ObjectRef, reasons: &str) -> ObjectEvent {
    normal(pool, DISRUPTION_BLOCKED, format!("the disruption budgets allow no disruption now for {reasons}"))
        .keyed([reasons])
}

/// On a NodePool: its voluntary disruption has stopped, because it evicted many pods and lowered no price.
#[must_use]
pub fn disruption_stopped(pool: ObjectRef, why: &str) -> ObjectEvent {
    warning(pool, "DisruptionStopped", why)
}
