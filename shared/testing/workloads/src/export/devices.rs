//! Requests for GPUs as claims for devices.

use nodeless_model::Pod;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const DRIVER: &str = "gpu.nvidia.com";
const RESOURCE: &str = "nvidia.com/gpu";

pub(super) fn class() -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": { "name": DRIVER },
        "spec": { "selectors": [{ "cel": {
            "expression": format!("device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'")
        } }] }
    })
}

/// A template for each number of GPUs that pods request.
pub(super) fn templates(pods: &[Pod]) -> Vec<Value> {
    let keys: BTreeSet<(&str, i64)> = pods.iter().map(|pod| (pod.namespace.as_str(), gpus(pod))).collect();
    let template = |(namespace, count): (&str, i64)| {
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
            "metadata": { "name": name(count), "namespace": namespace },
            "spec": { "spec": { "devices": { "requests": [
                { "name": "gpu", "exactly": { "deviceClassName": DRIVER, "count": count } }
            ] } } }
        })
    };
    keys.into_iter().filter(|(_, count)| *count > 0).map(template).collect()
}

/// Replaces the request of a pod.
pub(super) fn request(item: &mut Value, pod: &Pod) {
    let count = gpus(pod);
    if count > 0 {
        let resources = &mut item["spec"]["containers"][0]["resources"];
        for list in ["requests", "limits"] {
            resources[list].as_object_mut().and_then(|list| list.remove(RESOURCE));
        }
        resources["claims"] = json!([{ "name": "gpu" }]);
        item["spec"]["resourceClaims"] = json!([{ "name": "gpu", "resourceClaimTemplateName": name(count) }]);
    }
}

fn gpus(pod: &Pod) -> i64 {
    pod.template.requests.get(RESOURCE).milli() / 1000
}

fn name(count: i64) -> String {
    format!("gpus-{count}")
}
