//! What pods request and are limited to, from their JSON.

use crate::server::path::{Path as _, text};
use nodeless_model::{Quantity, ResourceList};
use serde_json::Value;

/// `requests` or `limits` of a container.
pub(crate) fn of_container(container: &Value, field: &str) -> ResourceList {
    quantities(container.at("/resources").and_then(|resources| resources.get(field)))
}

/// `requests` or `limits` of a pod, as for its admission: the sum of its containers and sidecars, or those of an init container with the
/// sidecars before it if they are higher, and its overhead.
pub(crate) fn of_pod(pod: &Value, field: &str) -> ResourceList {
    let (mut sum, mut sidecars, mut peak) = (ResourceList::new(), ResourceList::new(), ResourceList::new());
    for container in list(pod, "/spec/containers") {
        sum.add(&of_container(container, field));
    }
    for container in list(pod, "/spec/initContainers") {
        let own = of_container(container, field);
        let mut at_once = sidecars.clone();
        at_once.add(&own);
        peak.max_with(&at_once);
        if is_sidecar(container) {
            sum.add(&own);
            sidecars = at_once;
        }
    }
    sum.max_with(&peak);
    // Overhead adds to limits only where there are some, as in Kubernetes.
    for (name, quantity) in quantities(pod.at("/spec/overhead")).iter() {
        if field == "requests" || sum.contains(name) {
            sum.set(name, sum.get(name) + quantity);
        }
    }
    sum
}

/// The containers that run as long as the pod: its containers and sidecars.
pub(crate) fn running_containers(pod: &Value) -> impl Iterator<Item = &Value> {
    list(pod, "/spec/initContainers").iter().filter(|it| is_sidecar(it)).chain(list(pod, "/spec/containers"))
}

/// The list at a path; empty if there is none.
pub(crate) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.at(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A map of quantities. What is no quantity was refused by validation.
pub(crate) fn quantities(map: Option<&Value>) -> ResourceList {
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), quantity(value)?))).collect()
}

/// A quantity, which JSON may also write as a number.
pub(crate) fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

fn is_sidecar(container: &Value) -> bool {
    text(container, "/restartPolicy") == "Always"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn init_containers_count_where_they_are_higher() {
        let container = |cpu: &str| json!({ "resources": { "requests": { "cpu": cpu } } });
        let mut sidecar = container("100m");
        sidecar["restartPolicy"] = json!("Always");
        let pod = json!({ "spec": {
            "containers": [container("200m"), container("300m"), json!({})],
            "initContainers": [sidecar, container("2")], "overhead": { "cpu": "50m" },
        } });
        assert_eq!(of_pod(&pod, "requests").get("cpu"), Quantity::from_milli(2_150));
        assert!(of_pod(&pod, "limits").is_empty());
        assert_eq!(running_containers(&pod).count(), 4);
    }
}
