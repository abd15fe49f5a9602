//! Publishing Events: those about NodeClaims and Nodes get the uid of the object, by which `kubectl describe` finds them. Also
//! the Events about changed conditions of NodePools and EC2NodeClasses. The other kinds are in [`nodeless_model::events`].

use jiff::Timestamp;
use nodeless_api::{Condition, ConditionStatus, EC2NodeClass, EC2NodeClassStatus};
use nodeless_model::events::condition_changed;
use nodeless_model::object::{EventType, ObjectEvent, ObjectRef};
use nodeless_ports::{Cluster, PortError};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

/// The limit on Events about the NodeClaims of a NodePool: those of eight that join at once, with five conditions each.
const OF_NODE_CLAIMS: Rate = Rate { burst: 40.0, per_second: 1.0 };

/// How many Events may be published.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// How many at once.
    pub burst: f64,
    /// How many more each second.
    pub per_second: f64,
}

/// How much of a [`Rate`] is used by each namespace or NodePool, so that the Events of one do not suppress those of others.
#[derive(Debug, Default)]
pub struct Used(HashMap<String, (f64, Timestamp)>);

impl Used {
    /// Whether another Event of this namespace or NodePool may be published now. If so, it counts.
    pub fn take(&mut self, whose: &str, rate: Rate, now: Timestamp) -> bool {
        let left = |(count, since): (f64, Timestamp)| {
            (count - now.duration_since(since).as_secs_f64().max(0.0) * rate.per_second).max(0.0)
        };
        let used = self.0.get(whose).copied().map_or(0.0, left);
        if used >= rate.burst {
            return false;
        }
        if used == 0.0 {
            self.0.retain(|_, used| left(*used) > 0.0);
        }
        self.0.insert(whose.to_owned(), (used + 1.0, now));
        true
    }
}

/// Limits how many Events of the type Normal about the NodeClaims of each NodePool a process publishes: when hundreds of nodes join at once,
/// the conditions of their NodeClaims show the same. Other Events, and those of the type Warning, are always published.
#[derive(Debug, Default)]
pub struct EventRate {
    used: Mutex<Used>,
}

impl EventRate {
    /// The events to publish now.
    pub fn limit(&self, events: impl Iterator<Item = ObjectEvent>, now: Timestamp) -> Vec<ObjectEvent> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let limited = |event: &ObjectEvent| event.event_type == EventType::Normal && event.object.kind == "NodeClaim";
        // The name of a NodeClaim is that of its NodePool and a random word.
        let pool = |event: &ObjectEvent| event.object.name.rsplit_once('-').unwrap_or_default().0.to_owned();
        events.filter(|event| !limited(event) || used.take(&pool(event), OF_NODE_CLAIMS, now)).collect()
    }
}

/// Publishes events. If the uid of a NodeClaim is not known, it is read from the object first, because `kubectl describe` shows
/// only events with the uid of the described object.
///
/// # Errors
/// When the objects cannot be read, although the events were published without a uid; or when they cannot be published.
pub async fn publish(cluster: &dyn Cluster, events: &[ObjectEvent]) -> Result<(), PortError> {
    let mut events = events.to_vec();
    let names: BTreeSet<String> =
        events.iter().filter(|event| lacks_claim_uid(event)).map(|event| event.object.name.clone()).collect();
    for event in events.iter_mut().filter(|event| event.object.kind == "Node" && event.object.uid.is_empty()) {
        // `kubectl describe node` looks up events by the uid and by the name, so the kubelet uses the name as the uid.
        event.object.uid.clone_from(&event.object.name);
    }
    let uids = uids(cluster, &names).await;
    if let Ok(uids) = &uids {
        for event in events.iter_mut().filter(|event| lacks_claim_uid(event)) {
            if let Some(uid) = uids.get(&event.object.name) {
                event.object.uid.clone_from(uid);
            }
        }
    }
    cluster.publish(&events).await?;
    uids.map(drop)
}

/// An event for each condition whose status changed. An absent condition counts as unknown.
pub fn transitions(object: &ObjectRef, before: &[Condition], after: &[Condition]) -> Vec<ObjectEvent> {
    let changed = after.iter().filter_map(|condition| {
        let old = before.iter().find(|old| old.type_ == condition.type_);
        let old = old.map_or(ConditionStatus::Unknown, |old| old.status);
        if old == condition.status {
            return None;
        }
        let Condition { type_, status, reason, message, .. } = condition;
        let statuses = [format!("{old:?}"), format!("{status:?}")];
        Some(condition_changed(object.clone(), type_, [&statuses[0], &statuses[1]], reason, message))
    });
    changed.collect()
}

/// Events about the conditions of an EC2NodeClass whose status changes.
pub fn class_transitions(class: &EC2NodeClass, status: &EC2NodeClassStatus) -> Vec<ObjectEvent> {
    let before = class.status.as_ref().map_or(&[][..], |status| &status.conditions);
    transitions(&class_reference(class), before, &status.conditions)
}

/// An EC2NodeClass as the object of an event.
pub fn class_reference(class: &EC2NodeClass) -> ObjectRef {
    let uid = class.metadata.uid.as_deref().unwrap_or_default();
    ObjectRef::node_class(class.metadata.name.as_deref().unwrap_or_default(), uid)
}

fn lacks_claim_uid(event: &ObjectEvent) -> bool {
    event.object.kind == "NodeClaim" && event.object.uid.is_empty()
}

/// The uids by name. A single claim is read by name; for several, all claims are listed once.
async fn uids(cluster: &dyn Cluster, names: &BTreeSet<String>) -> Result<BTreeMap<String, String>, PortError> {
    let mut few = names.iter();
    let mirrors = match (few.next(), few.next()) {
        (None, _) => return Ok(BTreeMap::new()),
        (Some(name), None) => cluster.mirrored_claim(name).await?.into_iter().collect(),
        _ => cluster.mirrored_claims().await?.mirrors,
    };
    Ok(mirrors.into_iter().map(|mirror| (mirror.name, mirror.uid)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn many_events_about_node_claims_are_limited_and_warnings_are_not() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let event_of = |pool: &str, kind: &str| {
            let claim = ObjectRef::node_claim(&format!("{pool}-abcde"), "u");
            let mut event = condition_changed(claim, "Ready", ["False", "True"], "Ready", "");
            event.event_type = if kind == "Warning" { EventType::Warning } else { EventType::Normal };
            event
        };
        let event = |kind: &str| event_of("a", kind);
        let rate = EventRate::default();
        let publish =
            |kind: &str, count: usize, second| rate.limit(std::iter::repeat_n(event(kind), count), at(second)).len();
        assert_eq!((publish("Normal", 30, 0), publish("Normal", 30, 0), publish("Normal", 30, 0)), (30, 10, 0));
        assert_eq!(publish("Warning", 200, 0), 200);
        let of_another = std::iter::repeat_n(event_of("a-b", "Normal"), 50);
        assert_eq!(rate.limit(of_another, at(0)).len(), 40, "those of another NodePool are published");
        assert_eq!((publish("Normal", 30, 10), publish("Normal", 90, 600)), (10, 40));
        let of_node = |event: ObjectEvent| ObjectEvent { object: ObjectRef::node("a", ""), ..event };
        let nodes = std::iter::repeat_n(of_node(event("Normal")), 90);
        assert_eq!(rate.limit(nodes, at(600)).len(), 90, "Events about other objects are not limited");
    }

    #[test]
    fn a_condition_that_changes_its_status_is_published_in_karpenters_words() {
        let condition = |status: &str, reason: &str, message: &str| -> Condition {
            let time = "2026-01-01T00:00:00Z";
            let object = json!({ "type": "Ready", "status": status, "reason": reason, "message": message,
                "lastTransitionTime": time });
            serde_json::from_value(object).unwrap()
        };
        let class = ObjectRef::node_class("default", "");
        let texts = |before: &[Condition], after: &[Condition]| -> Vec<(String, String)> {
            transitions(&class, before, after).into_iter().map(|event| (event.reason, event.message)).collect()
        };
        let (good, bad) = ([condition("True", "Ready", "")], [condition("False", "No", "why")]);
        let text = "Status condition transitioned, Type: Ready, Status: True -> False, Reason: No, Message: why";
        assert_eq!(texts(&good, &bad), [("Ready".to_owned(), text.to_owned())]);
        let text = "Status condition transitioned, Type: Ready, Status: Unknown -> True, Reason: Ready";
        assert_eq!(texts(&[], &good), [("Ready".to_owned(), text.to_owned())]);
        assert!(texts(&good, &[condition("True", "Other", "")]).is_empty());
    }
}
