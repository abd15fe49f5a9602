//! Events, which users read with `kubectl describe`.

use crate::FIELD_MANAGER;
use crate::failure::CallError;
use crate::object_cluster::ObjectCluster;
use crate::objects::{ObjectAt, Objects, Part, PatchKind};
use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use nodeless_ports::cluster::ObjectEvent;
use nodeless_ports::{Events, PortError};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// How many Events are written concurrently.
const EVENTS_AT_ONCE: usize = 8;
/// The path of Events.
const EVENTS: &str = "/api/v1/events";
const OPERATION: &str = "Kubernetes publish Event";
/// The maximum length of the object's name in the name of an event, which may have 253 characters.
const NAME_LENGTH: usize = 230;
/// The maximum length of the message of an event.
const MESSAGE_LENGTH: usize = 1024;
/// The namespace of events about cluster-scoped objects, as in Kubernetes.
const DEFAULT_NAMESPACE: &str = "default";

#[async_trait]
impl<O: Objects> Events for ObjectCluster<O> {
    async fn publish(&self, published: &[ObjectEvent]) -> Result<(), PortError> {
        let now = self.now();
        let mut times: Vec<(&ObjectEvent, u32)> = Vec::new();
        for event in published {
            match times.iter_mut().find(|(known, _)| *known == event) {
                Some((_, count)) => *count += 1,
                None => times.push((event, 1)),
            }
        }
        // A repeated event is read and written to increase its count, so equal events are published one after the other.
        let posts = times.into_iter().map(async |(event, count)| {
            for _ in 0..count {
                self.publish_one(event, now).await?;
            }
            Ok(())
        });
        let posts: Vec<_> = posts.collect();
        // Several concurrently, because an interruption of many nodes publishes many Events at once.
        let results: Vec<Result<(), PortError>> = stream::iter(posts).buffered(EVENTS_AT_ONCE).collect().await;
        results.into_iter().collect()
    }
}

impl<O: Objects> ObjectCluster<O> {
    /// Publishes one event, or increases its count if it was published before. An event in a namespace that is being deleted is
    /// dropped.
    async fn publish_one(&self, event: &ObjectEvent, now: Timestamp) -> Result<(), PortError> {
        let object = render(event, now);
        match self.objects.create(OPERATION, EVENTS, &object).await {
            Err(failed) if failed.is(409) => {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
                let at = ObjectAt { path: EVENTS, namespace: text("namespace"), name: text("name") };
                self.count_up(at, now).await.map_err(Into::into)
            }
            // Nothing can be created in a namespace that is being deleted, and its Events are deleted with it.
            Err(failed) if failed.is_terminating_namespace() => Ok(()),
            done => done.map(drop).map_err(Into::into),
        }
    }

    /// Increases the count of an event. The role may write events but not read them, so a first patch of the time returns the count.
    async fn count_up(&self, at: ObjectAt<'_>, now: Timestamp) -> Result<(), CallError> {
        let seen = json!({ "lastTimestamp": seconds(now) });
        let event = self.objects.patch(OPERATION, Part::Object(at), PatchKind::Merge, &seen).await?;
        let count = json!({ "count": event["count"].as_i64().unwrap_or(1).saturating_add(1) });
        self.objects.patch(OPERATION, Part::Object(at), PatchKind::Merge, &count).await.map(drop)
    }
}

/// The object. Its name is a hash of its content, so that the same event is the same object in every process.
fn render(event: &ObjectEvent, now: Timestamp) -> Value {
    let about = &event.object;
    let namespace = if about.namespace.is_empty() { DEFAULT_NAMESPACE } else { &about.namespace };
    let kind = event.event_type.as_str();
    let message = cut(&event.message, MESSAGE_LENGTH);
    let digest = Sha256::digest(
        [about.kind.as_str(), &about.name, &about.uid, kind, &event.reason, message].join("\0").as_bytes(),
    );
    let suffix: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let mut involved = json!({ "apiVersion": about.api_version, "kind": about.kind, "name": about.name });
    for (key, value) in [("namespace", &about.namespace), ("uid", &about.uid)] {
        if !value.is_empty() {
            involved[key] = json!(value);
        }
    }
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "name": format!("{}.{suffix}", cut(&about.name, NAME_LENGTH)), "namespace": namespace },
        "involvedObject": involved, "type": kind, "reason": event.reason, "message": message,
        "firstTimestamp": seconds(now), "lastTimestamp": seconds(now), "count": 1,
        // The match conditions of the wake webhook use these: the events of nodeless must not wake the planner.
        "source": { "component": FIELD_MANAGER }, "reportingComponent": FIELD_MANAGER, "reportingInstance": "",
    })
}

/// A time in the format of Kubernetes' `Time`: whole seconds.
fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The longest prefix of a text with at most this number of bytes that does not split a character.
fn cut(text: &str, length: usize) -> &str {
    let end = (0..=length.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::events::failed_scheduling;
    use nodeless_ports::cluster::PodRef;

    fn event(message: &str) -> ObjectEvent {
        let pod = PodRef { namespace: "web".into(), name: "front".into(), uid: "u".into() };
        ObjectEvent { message: message.into(), ..failed_scheduling(&pod, "") }
    }

    #[test]
    fn the_same_event_is_the_same_object() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let (first, again) = (render(&event("no"), at(0)), render(&event("no"), at(60)));
        assert_eq!(first["metadata"]["name"], again["metadata"]["name"]);
        assert_ne!(first["metadata"]["name"], render(&event("other"), at(0))["metadata"]["name"]);
        assert_eq!((&first["metadata"]["namespace"], &first["type"]), (&json!("web"), &json!("Warning")));
        assert_eq!(first["firstTimestamp"], "1970-01-01T00:00:00Z");
        assert_eq!(first["source"]["component"], "nodeless");
    }

    #[test]
    fn an_event_about_a_cluster_scoped_object_is_in_the_default_namespace() {
        let mut event = event("no");
        event.object.namespace = String::new();
        let object = render(&event, Timestamp::UNIX_EPOCH);
        assert_eq!(object["metadata"]["namespace"], "default");
        assert!(object["involvedObject"].get("namespace").is_none());
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(render(&event(&"é".repeat(600)), Timestamp::UNIX_EPOCH)["message"].as_str().unwrap().len(), 1024);
    }
}
