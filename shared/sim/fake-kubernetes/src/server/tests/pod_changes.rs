//! What may change of a pod that exists.

use serde_json::{Value, json};

use super::{World, pod, world};
use crate::server::resource::PODS;
use crate::server::{PatchOptions, PatchType, Status};

/// Patches the pod `a`, or a subresource of it, and returns its spec.
fn patched(world: &World, subresource: Option<&str>, patch: &Value) -> Result<Value, Status> {
    let options = PatchOptions::default();
    let patched = world.server.patch(&PODS, "default", "a", subresource, PatchType::Strategic, patch, &options)?;
    Ok(patched["spec"].clone())
}

#[test]
fn tolerations_compare_numbers() {
    let world = world();
    let tolerating = |name: &str, operator: &str, value: &str| {
        let mut object = pod(name);
        object["spec"]["tolerations"] = json!([{"key": "sla", "operator": operator, "value": value}]);
        world.create(&PODS, object).map_err(|error| error.message)
    };
    assert!(tolerating("a", "Gt", "950").is_ok() && tolerating("b", "Lt", "-1").is_ok());
    for value in ["0950", "+1", "high", "9223372036854775808"] {
        let refused = tolerating("c", "Gt", value).unwrap_err();
        assert!(refused.contains("spec.tolerations[0].value: Invalid value"), "{refused}");
    }
    let refused = tolerating("c", "Ge", "1").unwrap_err();
    assert!(refused.ends_with(r#"Unsupported value: "Ge": supported values: "Equal", "Exists""#), "{refused}");
}

#[test]
fn the_nodes_of_a_gated_pod_can_be_narrowed() {
    let world = world();
    let one_of = |key: &str| json!({"key": key, "operator": "In", "values": ["x"]});
    let affinity = |terms: Value| {
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        json!({"spec": {"affinity": {"nodeAffinity": required}}})
    };
    let mut object = pod("a");
    object["spec"]["schedulingGates"] = json!([{"name": "example.com/gate"}]);
    object["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    world.create(&PODS, object).unwrap();
    let spec = patched(&world, None, &json!({"spec": {"nodeSelector": {"zone": "a"}}})).unwrap();
    assert_eq!(spec["nodeSelector"], json!({"disk": "ssd", "zone": "a"}));
    let refused = |patch: &Value, expected: &str| {
        let refused = patched(&world, None, patch).unwrap_err();
        assert!(refused.code == 422 && refused.message.contains(expected), "{refused}");
    };
    refused(&json!({"spec": {"nodeSelector": {"disk": "hdd"}}}), "only additions to spec.nodeSelector are allowed");
    patched(&world, None, &affinity(json!([{"matchExpressions": [one_of("p")]}]))).unwrap();
    patched(&world, None, &affinity(json!([{"matchExpressions": [one_of("p"), one_of("q")]}]))).unwrap();
    refused(&affinity(json!([{"matchExpressions": [one_of("q")]}])), "nodeSelectorTerms[0]: Invalid value");
    refused(&affinity(json!([{"matchExpressions": [one_of("p"), one_of("q")]}, {}])), "no additions/deletions");
    let gate = json!({"spec": {"schedulingGates": [{"name": "example.com/other"}]}});
    refused(&gate, "only deletion is allowed, but found new scheduling gate 'example.com/other'");
    refused(&json!({"spec": {"hostNetwork": true}}), "pod updates may not change fields other than");

    // Without gates it is scheduled, and its nodes are fixed.
    let open = json!([{"op": "remove", "path": "/spec/schedulingGates"}]);
    world.server.patch(&PODS, "default", "a", None, PatchType::Json, &open, &PatchOptions::default()).unwrap();
    refused(&json!({"spec": {"nodeSelector": {"more": "x"}}}), "pod updates may not change fields other than");
}

#[test]
fn a_resize_changes_cpu_and_memory_alone() {
    let world = world();
    let mut object = pod("a");
    object["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "1", "example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}});
    world.create(&PODS, object).unwrap();
    let resources = |resources: Value| json!({"spec": {"containers": [{"name": "c", "resources": resources}]}});
    let more = resources(json!({"requests": {"cpu": "2", "memory": "1Gi"}}));
    assert!(patched(&world, None, &more).is_err(), "only as a resize");
    let spec = patched(&world, Some("resize"), &more).unwrap();
    let requests = json!({"cpu": "2", "memory": "1Gi", "example.com/gpu": "1"});
    assert_eq!(spec["containers"][0]["resources"]["requests"], requests);
    let image = json!({"spec": {"containers": [{"name": "c", "image": "other"}], "nodeSelector": {"a": "b"}}});
    let spec = patched(&world, Some("resize"), &image).unwrap();
    assert_eq!((&spec["containers"][0]["image"], spec.get("nodeSelector")), (&json!("pause:3"), None));
    for (patch, expected) in [
        (resources(json!({"requests": {"cpu": null}})), "spec.containers[0].resources.requests: Forbidden"),
        (
            resources(json!({"requests": {"example.com/gpu": "2"}, "limits": {"example.com/gpu": "2"}})),
            "only cpu and memory resources are mutable",
        ),
        (resources(json!({"requests": {"cpu": "-1"}})), "must be greater than or equal to 0"),
        (json!({"spec": {"containers": [{"name": "d", "image": "x"}]}}), "may not be added or removed on resize"),
    ] {
        let refused = patched(&world, Some("resize"), &patch).unwrap_err();
        assert!(refused.code == 422 && refused.message.contains(expected), "{refused}");
    }
}
