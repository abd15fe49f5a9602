//! What nodes and pods use, as metrics-server reports it: `metrics.k8s.io/v1beta1`.
//!
//! Containers do nothing here, so their usage is a rule: half of what they request, or the percentage in the annotation [`USAGE`] of their
//! pod. A container that requests nothing uses nothing. A node uses what its pods use.

use super::definition::Definition;
use super::path::text;
use super::pod_resources::{of_container, running_containers};
use super::resource::{NODES, PODS, Resource};
use super::selectors::LabelSelector;
use super::store::Store;
use super::time::seconds;
use jiff::Timestamp;
use nodeless_model::resources::format_quantity;
use nodeless_model::{Quantity, ResourceList};
use serde_json::{Value, json};
use std::sync::Arc;

/// The annotation of a pod with its usage in percent of its requests, such as `120%`.
pub(crate) const USAGE: &str = "local.nodeless.sh/usage";
/// The annotation of a workload with the CPUs that its ready pods use together, in equal parts, which a HorizontalPodAutoscaler reads instead of
/// their usage.
pub const LOAD: &str = "local.nodeless.sh/load";
/// The usage of other pods, in percent of their requests.
const USUAL: i64 = 50;
/// The resources whose usage is reported.
const MEASURED: [&str; 2] = ["cpu", "memory"];
/// The time over which metrics-server measures, by its default resolution.
const WINDOW: &str = "15s";

/// The usage of nodes.
pub(crate) const NODE_METRICS: Resource = Resource::new(GROUP, "v1beta1", "nodes", "NodeMetrics", false);
/// The usage of pods.
pub(crate) const POD_METRICS: Resource = Resource::new(GROUP, "v1beta1", "pods", "PodMetrics", true);
/// The group of both.
pub(crate) const GROUP: &str = "metrics.k8s.io";

/// The definitions of both resources, which are computed when they are read, and not stored.
pub(crate) fn definitions() -> [Arc<Definition>; 2] {
    [NODE_METRICS, POD_METRICS].map(|resource| {
        Arc::new(Definition {
            resource,
            singular: String::new(),
            short_names: Vec::new(),
            categories: Vec::new(),
            status: false,
            scale: None,
            generation: false,
            custom: None,
        })
    })
}

/// The definition of one of them.
pub(crate) fn definition(group: &str, version: &str, plural: &str) -> Option<Arc<Definition>> {
    definitions().into_iter().find(|it| {
        let resource = &it.resource;
        resource.group == group && resource.version == version && resource.plural == plural
    })
}

/// The usage of the containers of a pod, by their names; `None` if the pod does not run.
pub(crate) fn of_pod(pod: &Value) -> Option<Vec<(&str, ResourceList)>> {
    if text(pod, "/status/phase") != "Running" || pod["metadata"].get("deletionTimestamp").is_some() {
        return None;
    }
    let percent = percent_of(pod);
    let usage = |container| (text(container, "/name"), used(container, percent));
    Some(running_containers(pod).map(usage).collect())
}

fn used(container: &Value, percent: i64) -> ResourceList {
    let requests = of_container(container, "requests");
    let share = |name: &str| {
        let of = requests.get(name).milli().saturating_mul(percent) / 100;
        // Bytes are whole.
        if name == "memory" { Quantity::from_units(of / 1000) } else { Quantity::from_milli(of) }
    };
    MEASURED.into_iter().map(|name| (name.to_owned(), share(name))).collect()
}

/// The usage of a pod in percent of its requests. An annotation that is no percentage has no effect.
fn percent_of(pod: &Value) -> i64 {
    let annotation = pod["metadata"]["annotations"][USAGE].as_str();
    let stated =
        annotation.and_then(|value| value.strip_suffix('%')).and_then(|value| value.trim().parse::<u32>().ok());
    stated.map_or(USUAL, i64::from)
}

/// The metrics of the objects of a resource that match: of one namespace, or of all.
pub(crate) fn list(
    store: &Store,
    resource: &Resource,
    namespace: Option<&str>,
    labels: &LabelSelector,
    now: Timestamp,
) -> Vec<Arc<Value>> {
    let measured: Vec<Value> = if *resource == POD_METRICS {
        let pods = store.iter(&PODS.storage_key(), namespace).filter(|(_, pod)| labels.matches(pod));
        pods.filter_map(|(_, pod)| pod_metrics(pod, now)).collect()
    } else {
        let nodes = store.iter(&NODES.storage_key(), None).filter(|(_, node)| labels.matches(node) && is_ready(node));
        nodes.map(|(_, node)| node_metrics(store, node, now)).collect()
    };
    measured.into_iter().map(Arc::new).collect()
}

fn pod_metrics(pod: &Value, now: Timestamp) -> Option<Value> {
    let containers = of_pod(pod)?.into_iter().map(|(name, usage)| json!({ "name": name, "usage": written(&usage) }));
    let containers: Vec<Value> = containers.collect();
    let mut metrics = metrics(&POD_METRICS, pod, now);
    metrics["metadata"]["namespace"] = pod["metadata"]["namespace"].clone();
    metrics["containers"] = json!(containers);
    Some(metrics)
}

fn node_metrics(store: &Store, node: &Value, now: Timestamp) -> Value {
    let name = text(node, "/metadata/name");
    let mut sum = used(&Value::Null, 0);
    for (_, pod) in store.iter(&PODS.storage_key(), None).filter(|(_, pod)| text(pod, "/spec/nodeName") == name) {
        of_pod(pod).into_iter().flatten().for_each(|(_, usage)| sum.add(&usage));
    }
    let mut metrics = metrics(&NODE_METRICS, node, now);
    metrics["usage"] = written(&sum);
    metrics
}

/// The fields that both kinds have.
fn metrics(resource: &Resource, of: &Value, now: Timestamp) -> Value {
    let now = seconds(now);
    let mut metadata = json!({ "name": of["metadata"]["name"], "creationTimestamp": now });
    if let Some(labels) = of["metadata"].get("labels") {
        metadata["labels"] = labels.clone();
    }
    json!({ "kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata, "timestamp": now, "window": WINDOW })
}

fn written(usage: &ResourceList) -> Value {
    usage.iter().map(|(name, quantity)| (name.to_owned(), json!(format_quantity(name, quantity)))).collect()
}

fn is_ready(node: &Value) -> bool {
    let conditions = super::pod_resources::list(node, "/status/conditions");
    conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(annotation: Option<&str>) -> Value {
        let resources = json!({ "requests": { "cpu": "500m", "memory": "128Mi" } });
        let mut pod = json!({ "metadata": {}, "status": { "phase": "Running" },
            "spec": { "containers": [{ "name": "a", "resources": resources }, { "name": "b" }] } });
        if let Some(annotation) = annotation {
            pod["metadata"]["annotations"][USAGE] = json!(annotation);
        }
        pod
    }

    #[test]
    fn usage_is_a_share_of_the_requests() {
        let first = |annotation| {
            let pod = pod(annotation);
            let of = of_pod(&pod).unwrap();
            assert!(of[1].0 == "b" && of[1].1.iter().all(|(_, quantity)| quantity.is_zero()));
            written(&of[0].1)
        };
        assert_eq!(first(None), json!({ "cpu": "250m", "memory": "64Mi" }));
        assert_eq!(first(Some("150%")), json!({ "cpu": "750m", "memory": "192Mi" }));
        assert_eq!(first(Some("0%")), json!({ "cpu": "0", "memory": "0" }));
        for invalid in ["150", "-1%", "much%", ""] {
            assert_eq!(first(Some(invalid)), first(None), "{invalid}");
        }
        let mut ended = pod(None);
        ended["status"]["phase"] = json!("Succeeded");
        assert!(of_pod(&ended).is_none());
    }
}
