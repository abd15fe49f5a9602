//! Events, which users read with `kubectl describe`.

use crate::FIELD_MANAGER;
use crate::api::{self, PatchKind};
use crate::connection::Connection;
use crate::error::CallError;
use jiff::Timestamp;
use nodeless_ports::PortError;
use nodeless_ports::cluster::ObjectEvent;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const OPERATION: &str = "Kubernetes publish Event";
/// The maximum length of the object's name in the name of an event, which may have 253 characters.
const NAME_LENGTH: usize = 230;
/// The maximum length of the message of an event.
const MESSAGE_LENGTH: usize = 1024;
/// The namespace of events about cluster-scoped objects, as in Kubernetes.
const DEFAULT_NAMESPACE: &str = "default";

/// Publishes one event, or increases its count if it was published before. An event in a namespace that is being deleted is
/// dropped.
pub(crate) async fn publish(connection: &Connection, event: &ObjectEvent, now: Timestamp) -> Result<(), PortError> {
    let object = render(event, now);
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or(DEFAULT_NAMESPACE);
    let collection = format!("/api/v1/namespaces/{namespace}/events");
    match connection.post(OPERATION, &collection, &object).await {
        Err(failed) if failed.is(409) => {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            count_up(connection, &api::object(&collection, name), now).await.map_err(Into::into)
        }
        // Nothing can be created in a namespace that is being deleted, and its Events are deleted with it.
        Err(failed) if failed.is_terminating_namespace() => Ok(()),
        done => done.map(drop).map_err(Into::into),
    }
}

/// Increases the count of an event. The role may write events but not read them, so a first patch of the time returns the count.
async fn count_up(connection: &Connection, path: &str, now: Timestamp) -> Result<(), CallError> {
    let seen = json!({ "lastTimestamp": seconds(now) });
    let event = connection.patch(OPERATION, path, PatchKind::Merge, &seen).await?;
    let count = event["count"].as_i64().unwrap_or(1).saturating_add(1);
    connection.patch(OPERATION, path, PatchKind::Merge, &json!({ "count": count })).await.map(drop)
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
