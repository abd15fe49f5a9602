//! The events of NodeClaims and Nodes, with Karpenter's reasons.

use nodeless_model::object::{ObjectEvent, ObjectRef};
use nodeless_model::{ConditionStatus, Node, NodeClaim};

/// An event for each condition whose status changed, as Karpenter publishes them; that of a condition which was not there
/// counts as unknown. `uid` is that of the NodeClaim object, empty when not known.
#[must_use]
pub fn transitions(before: &NodeClaim, after: &NodeClaim, uid: &str) -> Vec<ObjectEvent> {
    let changed = after.status.conditions.iter().filter_map(|condition| {
        let old = before.condition(&condition.kind).map_or(ConditionStatus::Unknown, |old| old.status);
        if old == condition.status {
            return None;
        }
        let mut text = format!(
            "Status condition transitioned, Type: {}, Status: {} -> {}, Reason: {}",
            condition.kind,
            old.as_str(),
            condition.status.as_str(),
            condition.reason
        );
        if !condition.message.is_empty() {
            text.push_str(&format!(", Message: {}", condition.message));
        }
        Some(claim_event(&after.name, uid, false, &condition.kind, &text))
    });
    changed.collect()
}

/// An event about a NodeClaim object. The uid is that of the object, empty when not known.
#[must_use]
pub fn claim_event(name: &str, uid: &str, warning: bool, reason: &str, message: &str) -> ObjectEvent {
    ObjectEvent {
        object: ObjectRef {
            api_version: "karpenter.sh/v1".to_owned(),
            kind: "NodeClaim".to_owned(),
            namespace: String::new(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        },
        warning,
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

/// An event about a node.
pub(crate) fn node_event(node: &Node, warning: bool, reason: &str, message: &str) -> ObjectEvent {
    ObjectEvent {
        object: ObjectRef {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            namespace: String::new(),
            name: node.name.clone(),
            uid: node.uid.clone(),
        },
        warning,
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}
