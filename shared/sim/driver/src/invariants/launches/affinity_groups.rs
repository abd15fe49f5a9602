//! Pods that wait although other pods of their group run.

use crate::Driver;
use crate::invariants::{condition, text};
use jiff::{SignedDuration, Timestamp};
use nodeless_fake_kubernetes::ListOptions;
use nodeless_fake_kubernetes::resource::PODS;
use serde_json::Value;

/// Within this time after its creation kube-scheduler binds a pod before a plan can see it: times are in whole seconds.
const AT_ONCE: SignedDuration = SignedDuration::from_secs(1);

/// The pending pods that must run with pods like themselves, of which some run, one line each. Only a quiescent cluster whose limits leave
/// space for all of them must have none. Pods that were bound at once do not count: kube-scheduler chose a node for them that may not have
/// space for their group, and no plan was asked.
pub(crate) fn divided_groups(driver: &Driver) -> Vec<String> {
    let pods = driver.world().api().list(&PODS, &ListOptions::default()).map(|list| list.items).unwrap_or_default();
    let is_bound = |pod: &Value| {
        !text(pod, "/spec/nodeName").is_empty() && text(pod, "/status/phase") == "Running" && has_waited(pod)
    };
    let divided = |pod: &&std::sync::Arc<Value>| {
        let terms = pod.pointer("/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution");
        let mut own = terms.and_then(Value::as_array).into_iter().flatten().filter(|term| selects(term, pod));
        let together = |term: &Value| {
            pods.iter().any(|other| {
                is_bound(other)
                    && text(other, "/metadata/namespace") == text(pod, "/metadata/namespace")
                    && selects(term, other)
            })
        };
        text(pod, "/spec/nodeName").is_empty() && text(pod, "/status/phase") == "Pending" && own.any(together)
    };
    let name = |pod: &std::sync::Arc<Value>| {
        let (namespace, name) = (text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
        format!("pod {namespace}/{name} waits, and other pods of its group run")
    };
    pods.iter().filter(divided).map(name).collect()
}

/// Whether a pod was pending for so long that a plan may have chosen its node.
fn has_waited(pod: &Value) -> bool {
    let time = |text: &str| text.parse::<Timestamp>().ok();
    let bound = condition(pod, "PodScheduled").and_then(|it| time(text(it, "/lastTransitionTime")));
    let created = time(text(pod, "/metadata/creationTimestamp"));
    created.zip(bound).is_none_or(|(created, bound)| bound.duration_since(created) > AT_ONCE)
}

/// Whether the labels of a pod match a term, which has `matchLabels` alone.
fn selects(term: &Value, pod: &Value) -> bool {
    let labels = term.pointer("/labelSelector/matchLabels").and_then(Value::as_object);
    labels.is_some_and(|labels| labels.iter().all(|(key, value)| pod["metadata"]["labels"][key] == *value))
}
