//! The Ready condition of claims.

use jiff::Timestamp;
use nodeless_model::claim::condition;
use nodeless_model::{ConditionStatus, NodeClaim};

/// Sets the Ready condition from the conditions that it depends on.
pub(crate) fn set_ready(claim: &mut NodeClaim, now: Timestamp) {
    let parts = [condition::LAUNCHED, condition::REGISTERED, condition::INITIALIZED];
    let missing = parts.into_iter().find(|kind| !claim.has_condition(kind));
    let (status, reason, message) = match missing {
        None => (ConditionStatus::True, "Ready".to_owned(), String::new()),
        Some(kind) => {
            let present = claim.condition(kind);
            let status = present.map_or(ConditionStatus::Unknown, |condition| condition.status);
            (status, format!("Not{kind}"), present.map_or(String::new(), |condition| condition.message.clone()))
        }
    };
    if claim
        .condition(condition::READY)
        .is_none_or(|ready| ready.status != status || ready.reason != reason || ready.message != message)
    {
        claim.set_condition(condition::READY, status, &reason, &message, now);
    }
}
