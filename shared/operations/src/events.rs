//! Events: publishing those about NodeClaims and Nodes, which people find by the uid of the object, and what is said of
//! conditions and of EC2NodeClasses.

use nodeless_api::{Condition, ConditionStatus, EC2NodeClass, EC2NodeClassStatus};
use nodeless_model::object::{ObjectEvent, ObjectRef};
use nodeless_ports::{Cluster, PortError};
use std::collections::{BTreeMap, BTreeSet};

/// Publishes events. Those about a NodeClaim whose uid is not known get it from the object, because `kubectl describe` shows
/// only events with the uid of what it describes.
///
/// # Errors
/// When the objects cannot be read, although the events were published without a uid; or when they cannot be published.
pub(crate) async fn publish(cluster: &dyn Cluster, events: &[ObjectEvent]) -> Result<(), PortError> {
    let mut events = events.to_vec();
    let names: BTreeSet<String> =
        events.iter().filter(|event| nameless(event)).map(|event| event.object.name.clone()).collect();
    for event in events.iter_mut().filter(|event| event.object.kind == "Node" && event.object.uid.is_empty()) {
        // As the kubelet does: `kubectl describe node` looks for both, the uid and the name in its place.
        event.object.uid.clone_from(&event.object.name);
    }
    let uids = uids(cluster, &names).await;
    if let Ok(uids) = &uids {
        for event in events.iter_mut().filter(|event| nameless(event)) {
            if let Some(uid) = uids.get(&event.object.name) {
                event.object.uid.clone_from(uid);
            }
        }
    }
    cluster.publish(&events).await?;
    uids.map(drop)
}

/// The same event about a node.
pub(crate) fn on_node(event: &ObjectEvent, node: String) -> ObjectEvent {
    let object = ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        namespace: String::new(),
        name: node,
        uid: String::new(),
    };
    ObjectEvent { object, ..event.clone() }
}

/// The conditions whose status changed, each with what Karpenter says of that in an event.
pub(crate) fn transitions<'c>(before: &[Condition], after: &'c [Condition]) -> impl Iterator<Item = (&'c str, String)> {
    after.iter().filter_map(|condition| {
        let old = before.iter().find(|old| old.type_ == condition.type_);
        let old = old.map_or(ConditionStatus::Unknown, |old| old.status);
        if old == condition.status {
            return None;
        }
        let Condition { type_, status, reason, message, .. } = condition;
        let message = if message.is_empty() { String::new() } else { format!(", Message: {message}") };
        let text = format!(
            "Status condition transitioned, Type: {type_}, Status: {old:?} -> {status:?}, Reason: {reason}{message}"
        );
        Some((type_.as_str(), text))
    })
}

/// The conditions of an EC2NodeClass whose status changes, as events about it.
pub(crate) fn class_transitions(class: &EC2NodeClass, status: &EC2NodeClassStatus) -> Vec<ObjectEvent> {
    let before = class.status.as_ref().map_or(&[][..], |status| &status.conditions);
    transitions(before, &status.conditions).map(|(kind, text)| class_event(class, kind, text)).collect()
}

/// How many names are told of one event.
const NAMES: usize = 5;

/// That an EC2NodeClass stays until these claims are gone.
pub(crate) fn waiting_on_claims(class: &EC2NodeClass, names: &[&str]) -> ObjectEvent {
    let shown = names.iter().take(NAMES).copied().collect::<Vec<_>>().join(", ");
    let more = match names.len().saturating_sub(NAMES) {
        0 => String::new(),
        more => format!(" and {more} other(s)"),
    };
    class_event(class, "WaitingOnNodeClaimTermination", format!("Waiting on NodeClaim termination for {shown}{more}"))
}

fn class_event(class: &EC2NodeClass, reason: &str, message: String) -> ObjectEvent {
    ObjectEvent {
        object: ObjectRef {
            api_version: "karpenter.k8s.aws/v1".to_owned(),
            kind: "EC2NodeClass".to_owned(),
            namespace: String::new(),
            name: class.metadata.name.clone().unwrap_or_default(),
            uid: class.metadata.uid.clone().unwrap_or_default(),
        },
        warning: false,
        reason: reason.to_owned(),
        message,
    }
}

fn nameless(event: &ObjectEvent) -> bool {
    event.object.kind == "NodeClaim" && event.object.uid.is_empty()
}

/// The uids by name: of one claim it is read alone, of several all claims are listed once.
async fn uids(cluster: &dyn Cluster, names: &BTreeSet<String>) -> Result<BTreeMap<String, String>, PortError> {
    let mut few = names.iter();
    let mirrors = match (few.next(), few.next()) {
        (None, _) => return Ok(BTreeMap::new()),
        (Some(name), None) => cluster.mirrored_claim(name).await?.into_iter().collect(),
        _ => cluster.mirrored_claims().await?,
    };
    Ok(mirrors.into_iter().map(|mirror| (mirror.name, mirror.uid)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_changed_condition_is_told_in_karpenters_words() {
        let condition = |status: &str, reason: &str, message: &str| -> Condition {
            let time = "2026-01-01T00:00:00Z";
            let object = json!({ "type": "Ready", "status": status, "reason": reason, "message": message,
                "lastTransitionTime": time });
            serde_json::from_value(object).unwrap()
        };
        let (good, bad) = ([condition("True", "Ready", "")], [condition("False", "No", "why")]);
        let told: Vec<_> = transitions(&good, &bad).collect();
        let text = "Status condition transitioned, Type: Ready, Status: True -> False, Reason: No, Message: why";
        assert_eq!(told, [("Ready", text.to_owned())]);
        let first: Vec<_> = transitions(&[], &good).collect();
        let text = "Status condition transitioned, Type: Ready, Status: Unknown -> True, Reason: Ready";
        assert_eq!(first, [("Ready", text.to_owned())]);
        assert_eq!(transitions(&good, &[condition("True", "Other", "")]).count(), 0);
    }

    #[test]
    fn of_many_claims_a_few_are_named() {
        let class = EC2NodeClass::new("default", Default::default());
        let event = waiting_on_claims(&class, &["a", "b", "c", "d", "e", "f", "g"]);
        assert_eq!(event.message, "Waiting on NodeClaim termination for a, b, c, d, e and 2 other(s)");
        assert_eq!((event.object.kind.as_str(), event.warning), ("EC2NodeClass", false));
    }
}
