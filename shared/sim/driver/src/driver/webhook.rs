//! The match conditions of the webhook (`infra/webhook`), for changes that are already stored, and the wake function behind it.

use jiff::{SignedDuration, Timestamp};
use nodeless_api::managed::is_managed;
use nodeless_api::{NodeClaim, NodePool};
use nodeless_fake_kubernetes::resource::{EVENTS, NODES};
use nodeless_fake_kubernetes::{Change, ChangeKind};
use nodeless_model::labels;
use nodeless_model::wake_ups::WakeUps;
use nodeless_ports::queue::{WAKE_INTERVAL, WakeSource};
use nodeless_world::ports::FIELD_MANAGER;
use nodeless_world::resources::{NODE_CLAIMS, NODE_CLASSES, NODE_POOLS};
use serde_json::Value;

/// The wake function.
#[derive(Default)]
pub(super) struct Webhook {
    wake_ups: WakeUps,
    /// Whether a plan was requested for another object than a pod, and has not been received.
    for_object: bool,
}

impl Webhook {
    /// Whether the calls for these changes request a plan.
    pub(super) fn requests_plan(&mut self, changes: &[Change], now: Timestamp) -> bool {
        let interval = SignedDuration::try_from(WAKE_INTERVAL).unwrap_or_default();
        let mut is_requested = false;
        for change in changes.iter().filter(|change| matches(change)) {
            is_requested |= match reported_pod(change) {
                Some((namespace, uid)) => self.wake_ups.requests_plan(namespace, uid, interval, now),
                None => {
                    let is_due = self.wake_ups.requests_plan_for_object(interval, now);
                    self.for_object |= is_due;
                    is_due
                }
            };
        }
        is_requested
    }

    /// The source of the next message that is received.
    pub(super) fn take_source(&mut self) -> WakeSource {
        if std::mem::take(&mut self.for_object) { WakeSource::Object } else { WakeSource::Webhook }
    }
}

/// Whether the API server calls the webhook for the request that made this change.
fn matches(change: &Change) -> bool {
    if change.resource == EVENTS {
        change.kind != ChangeKind::Deleted && is_failed_scheduling(&change.object)
    } else if change.resource == NODE_CLASSES {
        change.kind != ChangeKind::Deleted && has_new_generation(change)
    } else if change.resource == NODES {
        is_deleted_by_others(change) && has_label(change, labels::EC2_NODE_CLASS)
    } else if change.resource == NODE_CLAIMS {
        let created = change.previous.is_none() && change.kind != ChangeKind::Deleted;
        is_managed::<NodeClaim>(&change.object)
            && (is_deleted_by_others(change) || (created && !has_label(change, labels::NODE_POOL)))
    } else {
        change.resource == NODE_POOLS && is_managed::<NodePool>(&change.object) && is_deleted_by_others(change)
    }
}

/// The namespace and uid of the pod that the call is about, if it is about an Event.
fn reported_pod(change: &Change) -> Option<(&str, &str)> {
    let text = |pointer: &str| change.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    (change.resource == EVENTS).then(|| (text("/metadata/namespace"), text("/involvedObject/uid")))
}

fn has_label(change: &Change, key: &str) -> bool {
    !change.object["metadata"]["labels"][key].is_null()
}

/// A FailedScheduling event about a pod, not published by nodeless.
fn is_failed_scheduling(event: &Value) -> bool {
    event["reason"] == "FailedScheduling"
        && event["involvedObject"]["kind"] == "Pod"
        && event["reportingComponent"] != FIELD_MANAGER
}

/// The object is new, changed or being deleted.
fn has_new_generation(change: &Change) -> bool {
    let generation = |object: &Value| object["metadata"]["generation"].clone();
    change.previous.as_ref().is_none_or(|before| generation(before) != generation(&change.object))
}

/// The first request to delete the object, of others than nodeless.
fn is_deleted_by_others(change: &Change) -> bool {
    let is_deleting = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
    let before = change.previous.as_ref().is_some_and(|before| is_deleting(before));
    let now = change.kind == ChangeKind::Deleted || is_deleting(&change.object);
    now && !before && change.user != Some(FIELD_MANAGER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_fake_kubernetes::{ApiServer, CreateOptions, DeleteOptions, Options};
    use serde_json::json;
    use std::sync::Arc;

    fn node(pool: Option<&str>, finalizers: &[&str]) -> Value {
        let labels = pool.map(|pool| json!({ labels::NODE_POOL: pool, labels::EC2_NODE_CLASS: "default" }));
        json!({ "metadata": { "name": "n1", "labels": labels, "finalizers": finalizers } })
    }

    /// An API server, and its revision.
    fn api() -> (ApiServer, u64) {
        let api = ApiServer::new(Options::with_clock(Arc::new(|| Timestamp::UNIX_EPOCH))).unwrap();
        let start = api.revision();
        (api, start)
    }

    /// The number of matching changes when the user deletes the node twice.
    fn calls(node: Value, user: Option<&'static str>) -> usize {
        let (api, _) = api();
        api.create(&NODES, node, &CreateOptions::default()).unwrap();
        let start = api.revision();
        let user = user.map_or_else(|| api.clone(), |user| api.as_user(user));
        for _ in 0..2 {
            drop(user.delete(&NODES, "", "n1", &DeleteOptions::default()));
        }
        api.watch_since(None, start).unwrap().iter().filter(|change| matches(change)).count()
    }

    #[test]
    fn the_first_request_of_others_to_delete_a_node_of_a_node_pool_matches() {
        assert_eq!(calls(node(Some("default"), &[]), None), 1);
        assert_eq!(calls(node(Some("default"), &["karpenter.sh/termination"]), None), 1);
        assert_eq!(calls(node(Some("default"), &[]), Some(FIELD_MANAGER)), 0);
        assert_eq!(calls(node(Some("default"), &["karpenter.sh/termination"]), Some(FIELD_MANAGER)), 0);
        assert_eq!(calls(node(None, &[]), None), 0, "nodes of others");
        let mut auto_mode = node(Some("general-purpose"), &[]);
        auto_mode["metadata"]["labels"].as_object_mut().unwrap().remove(labels::EC2_NODE_CLASS);
        assert_eq!(calls(auto_mode, None), 0, "nodes of another controller");
        let mut standalone = node(None, &[]);
        standalone["metadata"]["labels"] = json!({ labels::EC2_NODE_CLASS: "default" });
        assert_eq!(calls(standalone, None), 1, "a node without a NodePool");
    }

    #[test]
    fn a_new_node_claim_matches_unless_it_has_a_node_pool_or_is_of_another_controller() {
        // The change of another kind, because the API server has no CustomResourceDefinitions.
        let created = |labels: Value, group: &str| {
            let (api, start) = api();
            let class = json!({ "group": group, "kind": "EC2NodeClass", "name": "default" });
            let object =
                json!({ "metadata": { "name": "single", "labels": labels }, "spec": { "nodeClassRef": class } });
            api.create(&NODES, object, &CreateOptions::default()).unwrap();
            let mut created = api.watch_since(None, start).unwrap().remove(0);
            created.resource = NODE_CLAIMS;
            created
        };
        assert!(matches(&created(json!({}), "karpenter.k8s.aws")));
        assert!(!matches(&created(json!({ labels::NODE_POOL: "default" }), "karpenter.k8s.aws")));
        assert!(!matches(&created(json!({}), "eks.amazonaws.com")));
    }
}
