//! Events of changed conditions.

use nodeless_model::events::condition_changed;
use nodeless_model::object::{ObjectEvent, ObjectRef};
use nodeless_model::{ConditionStatus, NodeClaim};

/// An event for each condition whose status changed, as Karpenter publishes them; an absent condition counts as unknown. `uid` is
/// that of the NodeClaim object, empty if it is unknown.
#[must_use]
pub fn transitions(before: &NodeClaim, after: &NodeClaim, uid: &str) -> Vec<ObjectEvent> {
    let changed = after.status.conditions.iter().filter_map(|condition| {
        let old = before.condition(&condition.kind).map_or(ConditionStatus::Unknown, |old| old.status);
        if old == condition.status {
            return None;
        }
        let statuses = [old.as_str(), condition.status.as_str()];
        let claim = ObjectRef::node_claim(&after.name, uid);
        Some(condition_changed(claim, &condition.kind, statuses, &condition.reason, &condition.message))
    });
    changed.collect()
}
