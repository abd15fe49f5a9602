//! HorizontalPodAutoscalers of autoscaling/v1 and v2 are the same objects.

use super::{World, world};
use crate::server::resource::{HORIZONTAL_POD_AUTOSCALERS as V2, HORIZONTAL_POD_AUTOSCALERS_V1 as V1};
use crate::server::{ListOptions, PatchOptions, PatchType, UpdateOptions};
use serde_json::{Value, json};

const PREFIX: &str = "autoscaling.alpha.kubernetes.io";

fn autoscaler(version: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": version, "kind": "HorizontalPodAutoscaler", "metadata": { "name": "web", "namespace": "default" },
        "spec": { "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" }, "maxReplicas": 5 },
    });
    object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    object
}

/// The metrics in the annotation of autoscaling/v1.
fn annotated(object: &Value, name: &str) -> Value {
    let text = object["metadata"]["annotations"][format!("{PREFIX}/{name}")].as_str().unwrap();
    serde_json::from_str(text).unwrap()
}

fn patch(world: &World, spec: &Value) {
    let (patch, options) = (json!({ "spec": spec }), PatchOptions::default());
    world.server.patch(&V1, "default", "web", None, PatchType::Strategic, &patch, &options).unwrap();
}

#[test]
fn the_utilization_of_cpu_is_a_field_of_v1() {
    let world = world();
    let made =
        world.create(&V1, autoscaler("autoscaling/v1", &json!({ "targetCPUUtilizationPercentage": 50 }))).unwrap();
    assert_eq!((&made["apiVersion"], &made["spec"]["minReplicas"]), (&json!("autoscaling/v1"), &json!(1)));
    assert_eq!((&made["spec"]["targetCPUUtilizationPercentage"], made["spec"].get("metrics")), (&json!(50), None));
    let target = json!({ "type": "Utilization", "averageUtilization": 50 });
    let metrics = json!([{ "type": "Resource", "resource": { "name": "cpu", "target": target } }]);
    assert_eq!(world.get(&V2, "web")["spec"]["metrics"], metrics);
    patch(&world, &json!({ "targetCPUUtilizationPercentage": 70 }));
    assert_eq!(world.get(&V2, "web")["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 70);
    assert_eq!(world.server.list(&V1, &ListOptions::default()).unwrap().items[0], world.get(&V1, "web"));
    assert_eq!(world.create(&V2, autoscaler("autoscaling/v2", &json!({}))).unwrap_err().reason, "AlreadyExists");
    assert_eq!(world.create(&V1, autoscaler("autoscaling/v2", &json!({}))).unwrap_err().code, 400);
    world.delete(&V1, "web").unwrap();
    assert!(!world.exists(&V2, "web"));
    let made = world.create(&V1, autoscaler("autoscaling/v1", &json!({}))).unwrap();
    assert_eq!(made["spec"]["targetCPUUtilizationPercentage"], 80);
}

#[test]
fn what_v1_has_no_fields_for_is_in_annotations() {
    let world = world();
    let resource =
        |name: &str, target: &Value| json!({ "type": "Resource", "resource": { "name": name, "target": target } });
    let requests = json!({ "type": "Object", "object": {
        "describedObject": { "kind": "Service", "name": "web", "apiVersion": "v1" }, "metric": { "name": "requests" },
        "target": { "type": "AverageValue", "averageValue": "10" },
    } });
    let memory = resource("memory", &json!({ "type": "AverageValue", "averageValue": "1Gi" }));
    let cpu = resource("cpu", &json!({ "type": "Utilization", "averageUtilization": 60 }));
    let spec = json!({ "metrics": [memory, requests, cpu], "behavior": { "scaleDown": { "stabilizationWindowSeconds": 60 } } });
    let stored = world.create(&V2, autoscaler("autoscaling/v2", &spec)).unwrap();
    let old = world.get(&V1, "web");
    let expected = json!([
        { "type": "Resource", "resource": { "name": "memory", "targetAverageValue": "1Gi" } },
        { "type": "Object", "object": { "target": { "kind": "Service", "name": "web", "apiVersion": "v1" },
            "metricName": "requests", "averageValue": "10" } },
    ]);
    assert_eq!(annotated(&old, "metrics"), expected);
    assert_eq!(annotated(&old, "behavior"), spec["behavior"]);
    assert_eq!(old["spec"]["targetCPUUtilizationPercentage"], 60);
    world.server.update(&V1, old.as_ref().clone(), &UpdateOptions::default()).unwrap();
    assert_eq!(world.get(&V2, "web"), stored, "an update without a change changes nothing");
    let mut changed = stored.as_ref().clone();
    let current = json!({ "averageUtilization": 40, "averageValue": "4m" });
    changed["status"] = json!({ "currentReplicas": 1, "desiredReplicas": 1,
        "conditions": [{ "type": "AbleToScale", "status": "True" }],
        "currentMetrics": [{ "type": "Resource", "resource": { "name": "cpu", "current": current } }] });
    let stored = world.server.update_status(&V2, changed, &UpdateOptions::default()).unwrap();
    let old = world.get(&V1, "web");
    assert_eq!(
        old["status"],
        json!({ "currentReplicas": 1, "desiredReplicas": 1, "currentCPUUtilizationPercentage": 40 })
    );
    assert_eq!(annotated(&old, "conditions")[0]["type"], "AbleToScale");
    assert_eq!(annotated(&old, "current-metrics")[0]["resource"]["currentAverageUtilization"], 40);
    world.server.update_status(&V1, old.as_ref().clone(), &UpdateOptions::default()).unwrap();
    assert_eq!(world.get(&V2, "web"), stored);
}
