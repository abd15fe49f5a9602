//! What pods request that are made again, of pods that run with other requests than their controller gives to new ones.
#![allow(clippy::needless_pass_by_value)]

use nodeless_snapshot::{Reader, Snapshot};
use serde_json::{Value, json};

fn read(objects: &[Value]) -> Snapshot {
    let mut reader = Reader::default();
    reader.read("file", json!({ "kind": "List", "items": objects }).to_string().as_bytes());
    reader.finish()
}

/// The CPUs of the next pod, if they are known and others than now, and without warnings.
fn next(objects: &[Value]) -> Option<String> {
    let snapshot = read(objects);
    assert!(
        snapshot.faults.is_empty() && snapshot.warnings.is_empty(),
        "{:?} {:?}",
        snapshot.faults,
        snapshot.warnings
    );
    let pod = snapshot.view.pods().find(|pod| pod.name == "p").unwrap();
    assert_eq!(pod.template.requests.get("cpu").to_string(), "500m", "on its node it counts with its requests now");
    Some(pod.template.requests_again.as_ref()?.get("cpu").to_string())
}

fn container(name: &str, cpu: &str) -> Value {
    json!({ "name": name, "resources": { "requests": { "cpu": cpu } } })
}

fn pod(owner: &str) -> Value {
    let (kind, name) = owner.split_once('/').unwrap();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "p", "namespace": "shop",
            "ownerReferences": [{ "apiVersion": "v1", "kind": kind, "name": name, "uid": "u", "controller": true }],
        },
        "spec": { "nodeName": "n", "containers": [container("m", "500m")] },
        "status": { "phase": "Running" },
    })
}

fn workload(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": if kind == "Job" { "batch/v1" } else { "apps/v1" }, "kind": kind,
        "metadata": { "name": name, "namespace": "shop" }, "spec": { "template": { "spec": spec } },
    })
}

fn seven(kind: &str, name: &str) -> Value {
    workload(kind, name, json!({ "containers": [container("m", "7")] }))
}

fn autoscaler(target: &str, spec: Value) -> Value {
    let (kind, name) = target.split_once('/').unwrap();
    let mut spec = spec;
    spec["targetRef"] = json!({ "apiVersion": "apps/v1", "kind": kind, "name": name });
    json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
        "metadata": { "name": "v", "namespace": "shop", "creationTimestamp": "2026-01-01T00:00:00Z" }, "spec": spec,
        "status": { "recommendation": { "containerRecommendations": [{ "containerName": "m", "target": { "cpu": "3" } }] } },
    })
}

#[test]
fn the_next_pod_has_the_template_of_its_controller() {
    for (owner, objects, expected) in [
        ("ReplicaSet/web-1a", vec![seven("ReplicaSet", "web-1a")], Some("7")),
        ("ReplicaSet/web-1a", vec![seven("Deployment", "web")], Some("7")),
        // During a rollout the ReplicaSet makes pods of the former template.
        (
            "ReplicaSet/web-1a",
            vec![
                seven("ReplicaSet", "web-1a"),
                workload("Deployment", "web", json!({ "containers": [container("m", "9")] })),
            ],
            Some("7"),
        ),
        ("StatefulSet/db", vec![seven("StatefulSet", "db")], Some("7")),
        ("Job/batch", vec![seven("Job", "batch")], Some("7")),
        // Others.
        ("ReplicaSet/web-1a", vec![seven("ReplicaSet", "web-2b"), seven("StatefulSet", "web")], None),
        ("ReplicaSet/web-1a", vec![], None),
        (
            "ReplicaSet/web-1a",
            vec![workload("ReplicaSet", "web-1a", json!({ "containers": [container("m", "500m")] }))],
            None,
        ),
        ("DaemonSet/agent", vec![], None),
        ("Node/n", vec![], None),
    ] {
        let objects: Vec<Value> = std::iter::once(pod(owner)).chain(objects).collect();
        assert_eq!(next(&objects).as_deref(), expected, "{objects:?}");
        // The order of an export does not matter.
        let reversed: Vec<Value> = objects.into_iter().rev().collect();
        assert_eq!(next(&reversed).as_deref(), expected);
    }
}

#[test]
fn admission_of_the_next_pod_counts() {
    let range = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": "l", "namespace": "shop" },
        "spec": { "limits": [{ "type": "Container", "defaultRequest": { "cpu": "2" } }] },
    });
    let bare = workload("ReplicaSet", "web", json!({ "containers": [{ "name": "m" }] }));
    let limited = json!({ "containers": [{ "name": "m", "resources": { "limits": { "cpu": "4" } } }] });
    assert_eq!(next(&[pod("ReplicaSet/web"), bare.clone(), range.clone()]).as_deref(), Some("2"));
    assert_eq!(next(&[pod("ReplicaSet/web"), workload("ReplicaSet", "web", limited), range]).as_deref(), Some("4"));
    assert_eq!(next(&[pod("ReplicaSet/web"), bare]), None, "a webhook has set the request");

    // A webhook adds a container, and a RuntimeClass the overhead, to every pod of the workload.
    let mut injected = pod("ReplicaSet/web");
    injected["spec"]["containers"] = json!([container("proxy", "200m"), container("m", "200m")]);
    injected["spec"]["overhead"] = json!({ "cpu": "100m" });
    assert_eq!(next(&[injected, seven("ReplicaSet", "web")]).as_deref(), Some("7300m"));

    let mut whole = pod("ReplicaSet/web");
    whole["spec"]["resources"] = json!({ "requests": { "cpu": "500m" } });
    let template = json!({ "containers": [container("m", "100m")], "resources": { "requests": { "cpu": "6" } } });
    assert_eq!(next(&[whole, workload("ReplicaSet", "web", template)]).as_deref(), Some("6"));
}

#[test]
fn the_next_pod_has_what_its_vertical_autoscaler_recommends() {
    let bounded = |bound: &str, cpu: &str| json!({ "resourcePolicy": { "containerPolicies": [{ "containerName": "*", bound: { "cpu": cpu } }] } });
    let policy = |policy: Value| json!({ "resourcePolicy": { "containerPolicies": [policy] } });
    for (target, spec, expected) in [
        ("Deployment/web", json!({}), "3"),
        ("ReplicaSet/web-1a", json!({}), "3"),
        ("Deployment/web", json!({ "updatePolicy": { "updateMode": "Initial" } }), "3"),
        ("Deployment/web", json!({ "updatePolicy": { "updateMode": "InPlaceOrRecreate" } }), "3"),
        ("Deployment/web", json!({ "updatePolicy": { "updateMode": "Off" } }), "7"),
        ("Deployment/other", json!({}), "7"),
        ("StatefulSet/web", json!({}), "7"),
        ("Deployment/web", bounded("minAllowed", "4"), "4"),
        ("Deployment/web", bounded("maxAllowed", "2"), "2"),
        ("Deployment/web", policy(json!({ "containerName": "other", "maxAllowed": { "cpu": "2" } })), "3"),
        ("Deployment/web", policy(json!({ "containerName": "m", "mode": "Off" })), "7"),
        ("Deployment/web", policy(json!({ "containerName": "m", "controlledResources": ["memory"] })), "7"),
    ] {
        let objects = [pod("ReplicaSet/web-1a"), seven("Deployment", "web"), autoscaler(target, spec.clone())];
        assert_eq!(next(&objects).as_deref(), Some(expected), "{target} {spec}");
    }
    let alone = [pod("ReplicaSet/web-1a"), autoscaler("Deployment/web", json!({}))];
    assert_eq!(next(&alone).as_deref(), Some("3"), "the template is not needed");
    let limited = json!({ "containers": [{ "name": "m", "resources": { "limits": { "cpu": "2500m" } } }] });
    let keeping = policy(json!({ "containerName": "m", "controlledValues": "RequestsOnly" }));
    for (spec, expected) in [(json!({}), "3"), (keeping, "2500m")] {
        let objects = [
            pod("ReplicaSet/web-1a"),
            workload("Deployment", "web", limited.clone()),
            autoscaler("Deployment/web", spec),
        ];
        assert_eq!(next(&objects).as_deref(), Some(expected));
    }
    // Of two, the one that changes pods, and of these the oldest.
    let off = autoscaler("Deployment/web", json!({ "updatePolicy": { "updateMode": "Off" } }));
    let mut later = autoscaler("Deployment/web", bounded("minAllowed", "5"));
    later["metadata"]["creationTimestamp"] = json!("2026-02-01T00:00:00Z");
    for (place, object) in [off, later].into_iter().enumerate() {
        for name in ["a", "z"] {
            let mut object = object.clone();
            object["metadata"]["name"] = json!(name);
            let objects =
                [pod("ReplicaSet/web-1a"), object, seven("Deployment", "web"), autoscaler("Deployment/web", json!({}))];
            assert_eq!(next(&objects).as_deref(), Some("3"), "{place} {name}");
        }
    }
}

#[test]
fn without_the_autoscaler_that_set_its_requests_a_pod_counts_as_now() {
    let mut resized = pod("ReplicaSet/web-1a");
    resized["metadata"]["annotations"] =
        json!({ "vpaUpdates": "Pod resources updated by v: container 0: cpu request" });
    assert_eq!(next(&[resized.clone(), seven("Deployment", "web")]), None);
    let off = autoscaler("Deployment/web", json!({ "updatePolicy": { "updateMode": "Off" } }));
    assert_eq!(next(&[resized, seven("Deployment", "web"), off]).as_deref(), Some("7"), "it sets them no more");
}

#[test]
fn pods_without_a_node_and_objects_that_cannot_be_read_change_nothing() {
    let mut pending = pod("ReplicaSet/web");
    pending["spec"].as_object_mut().unwrap().remove("nodeName");
    assert_eq!(next(&[pending, seven("ReplicaSet", "web")]), None);

    let broken = workload("ReplicaSet", "web", json!({ "containers": [container("m", "many")] }));
    let snapshot = read(&[pod("ReplicaSet/web"), broken]);
    assert!(
        snapshot.warnings[0].starts_with("ReplicaSet shop/web cannot be decoded, so its pods count"),
        "{:?}",
        snapshot.warnings
    );
    let mut invalid = autoscaler("ReplicaSet/web", json!({}));
    invalid["status"]["recommendation"]["containerRecommendations"][0]["target"]["cpu"] = json!("many");
    let snapshot = read(&[pod("ReplicaSet/web"), invalid]);
    assert!(snapshot.faults[0].to_string().contains("VerticalPodAutoscaler shop/v"), "{:?}", snapshot.faults);
    assert!(snapshot.view.pods().all(|pod| pod.template.requests_again.is_none()));
}
