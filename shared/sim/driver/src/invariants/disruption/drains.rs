//! The order of a drain, computed from the JSON of pods, Nodes and VolumeAttachments: groups of pods in turn, endpoints removed and
//! volumes detached before the instance is terminated.

use crate::invariants::text;
use jiff::{SignedDuration, Timestamp};
use nodeless_model::claim::Termination;
use nodeless_model::labels;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The minimum duration of a drain in Karpenter.
const SHORTEST: SignedDuration = SignedDuration::from_secs(5);
/// Each step must take into account the objects that are older than this.
pub(in crate::invariants) const KNOWN_AFTER: SignedDuration = SignedDuration::from_mins(1);
/// A drain waits this long for a pod after the end of the pod's grace period.
const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// A pod of an earlier group on the node of an evicted pod, if there is one. Karpenter's groups, in order: non-critical pods, non-critical
/// DaemonSet pods, critical pods, critical DaemonSet pods. The clock of the process that evicts it may be fast by `skew`, so that it does
/// not wait for a pod that is overdue then.
pub(in crate::invariants) fn before_its_turn(
    evicted: &Value,
    on_node: &[Arc<Value>],
    now: Timestamp,
    skew: SignedDuration,
) -> Option<String> {
    let latest = now.saturating_add(skew).unwrap_or(now);
    let earlier = |pod: &&Arc<Value>| {
        let started: Option<Timestamp> = text(pod, "/status/startTime").parse().ok();
        let known = started.is_some_and(|started| now.duration_since(started) > KNOWN_AFTER);
        known && holds_drain(pod, latest) && group(pod) < group(evicted)
    };
    on_node.iter().find(earlier).map(|pod| {
        let key = |pod: &Value| format!("{}/{}", text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
        format!("pod {} was evicted before {}, which belongs to an earlier group", key(evicted), key(pod))
    })
}

/// Whether a pod is critical, and whether it belongs to a DaemonSet.
fn group(pod: &Value) -> (bool, bool) {
    let class = text(pod, "/spec/priorityClassName");
    (matches!(class, "system-cluster-critical" | "system-node-critical"), has_owner(pod, "DaemonSet"))
}

fn has_owner(pod: &Value, kind: &str) -> bool {
    let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.into_iter().flatten().any(|owner| owner["kind"] == kind)
}

/// Whether a drain waits for a pod. Pods do not block a drain if they have ended, are static, tolerate the disruption taint, or their
/// deletion is overdue.
fn holds_drain(pod: &Value, now: Timestamp) -> bool {
    let ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
    let deletion: Option<Timestamp> = text(pod, "/metadata/deletionTimestamp").parse().ok();
    let stuck = deletion.is_some_and(|end| now.duration_since(end) > STUCK_AFTER);
    !ended && !stuck && !has_owner(pod, "Node") && !tolerates_disruption(pod)
}

fn tolerates_disruption(pod: &Value) -> bool {
    let tolerations = pod.pointer("/spec/tolerations").and_then(Value::as_array);
    tolerations.into_iter().flatten().any(|it| {
        let exists = it["operator"] == "Exists";
        let key = text(it, "/key");
        let matches = key == labels::DISRUPTED_TAINT && (exists || text(it, "/value").is_empty());
        let effect = text(it, "/effect");
        (matches || (key.is_empty() && exists)) && (effect.is_empty() || effect == "NoSchedule")
    })
}

/// Whether a Node is registered, and old enough to be known to each step.
pub(in crate::invariants) fn is_registered(node: &Value, now: Timestamp) -> bool {
    let created: Option<Timestamp> = text(node, "/metadata/creationTimestamp").parse().ok();
    let registered = node["metadata"]["labels"][labels::REGISTERED] == "true";
    registered && created.is_some_and(|created| now.duration_since(created) > KNOWN_AFTER)
}

/// The duration of the drain of a terminated instance, if it is too short: load balancers and kube-proxy need some time to remove the
/// endpoints of the last pods. The clock of the process that terminates it may be fast by `skew`.
pub(in crate::invariants) fn too_short(
    end: &Termination,
    now: Timestamp,
    skew: SignedDuration,
) -> Option<SignedDuration> {
    let lasted = now.duration_since(end.requested);
    (lasted.saturating_add(skew) < SHORTEST).then_some(lasted)
}

/// The volumes that are attached to a node although no pod on it mounts them any more.
pub(in crate::invariants) fn left_attached(
    node: &str,
    attachments: &[Arc<Value>],
    mounted: &BTreeSet<String>,
) -> Vec<String> {
    let here = attachments.iter().filter(|it| text(it, "/spec/nodeName") == node);
    let volumes = here.map(|it| text(it, "/spec/source/persistentVolumeName").to_owned());
    volumes.filter(|volume| !mounted.contains(volume)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_that_is_overdue_by_a_fast_clock_holds_no_other() {
        let pod = |name: &str, class: &str, deletion: Value| {
            json!({
                "metadata": { "namespace": "default", "name": name, "deletionTimestamp": deletion },
                "spec": { "priorityClassName": class },
                "status": { "startTime": "2026-03-02T00:00:00Z" },
            })
        };
        let on_node = [Arc::new(pod("web", "", json!("2026-03-02T00:10:00Z")))];
        let critical = pod("dns", "system-cluster-critical", Value::Null);
        let evicted = |at: &str, skew| before_its_turn(&critical, &on_node, at.parse().unwrap(), skew).is_some();
        let skew = SignedDuration::from_millis(500);
        assert!(evicted("2026-03-02T00:10:59.8Z", SignedDuration::ZERO) && !evicted("2026-03-02T00:10:59.8Z", skew));
        assert!(evicted("2026-03-02T00:10:59.4Z", skew) && !evicted("2026-03-02T00:11:01Z", SignedDuration::ZERO));
    }
}
