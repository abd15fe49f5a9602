//! Events about consolidation commands.

use super::normal;
use crate::object::{ObjectEvent, ObjectRef};

/// On a Node or NodeClaim: a command would consolidate it, and what that saves.
#[must_use]
pub fn consolidation_candidate(object: ObjectRef, command: &str, savings: &str) -> ObjectEvent {
    normal(object, "ConsolidationCandidate", format!("Consolidation candidate: {command} ({savings})")).keyed([command])
}

/// On a Node or NodeClaim: a command to consolidate it does not hold any more.
#[must_use]
pub fn consolidation_rejected(object: ObjectRef, command: &str, why: &str, savings: &str) -> ObjectEvent {
    let message = format!("Consolidation rejected: {command}, reason: {why} ({savings})");
    normal(object, "ConsolidationRejected", message).keyed([command, why])
}

/// On a Node or NodeClaim: a command would replace it, so that a workload is more even over zones, and what that costs.
#[must_use]
pub fn zone_balance_candidate(object: ObjectRef, command: &str, zones: &str, cost: &str) -> ObjectEvent {
    normal(object, "ZoneBalanceCandidate", format!("Zone balance candidate: {command}; {zones} ({cost})"))
        .keyed([command])
}

/// On a Node or NodeClaim, or on a NodePool for a command of several nodes: the policy `Balanced` approves a command.
#[must_use]
pub fn consolidation_approved(object: ObjectRef, score: f64, threshold: f64, savings: &str) -> ObjectEvent {
    normal(object, "ConsolidationApproved", format!("score {score:.2} >= threshold {threshold:.2} ({savings})"))
}
