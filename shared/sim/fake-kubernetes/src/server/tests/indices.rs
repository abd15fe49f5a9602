//! The indices of pods agree with the pods, whatever happens to these.

use serde_json::{Value, json};

use super::{World, pod, running_pod, world};
use crate::server::resource::{CONFIG_MAPS, PODS, REPLICA_SETS};
use crate::server::{DeleteOptions, ListOptions, PatchOptions, PatchType, Propagation, controller_uid};

fn names(pods: &[std::sync::Arc<Value>]) -> Vec<&str> {
    pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str()).collect()
}

/// Compares the indices with all pods, and returns the names of the pods on a node and of those of an owner.
fn check(world: &World, node: &str, owner: &str) -> (String, String) {
    let all = world.server.list(&PODS, &ListOptions::default()).unwrap().items;
    for node in ["", "a", "b"] {
        let mut here = all.clone();
        here.retain(|pod| pod["spec"]["nodeName"].as_str().unwrap_or_default() == node);
        assert_eq!(names(&world.server.pods_on(node)), names(&here), "on {node:?}");
        let options = ListOptions { fields: format!("spec.nodeName={node}"), ..ListOptions::namespace("default") };
        let listed = world.server.list(&PODS, &options).unwrap().items;
        here.retain(|pod| pod["metadata"]["namespace"] == "default");
        assert_eq!(names(&listed), names(&here), "listed on {node:?}");
    }
    let mut owned = all;
    owned.retain(|pod| controller_uid(pod) == owner);
    assert_eq!(names(&world.server.controlled_pods(owner)), names(&owned));
    (names(&world.server.pods_on(node)).join(" "), names(&owned).join(" "))
}

#[test]
fn pods_are_found_by_their_node_and_by_their_controller() {
    let world = world();
    world.create(&crate::server::resource::NAMESPACES, json!({ "metadata": { "name": "other" } })).unwrap();
    let template = json!({ "metadata": { "labels": { "app": "web" } }, "spec": pod("")["spec"] });
    let set = json!({
        "metadata": { "name": "set", "namespace": "default" },
        "spec": { "selector": { "matchLabels": { "app": "web" } }, "template": template },
    });
    let set = world.create(&REPLICA_SETS, set).unwrap();
    let uid = set["metadata"]["uid"].as_str().unwrap();
    let owner = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": uid, "controller": true });
    let of_set = |mut pod: Value, owner: &Value| {
        pod["metadata"]["ownerReferences"] = json!([owner]);
        world.create(&PODS, pod).unwrap();
    };
    let mut elsewhere = running_pod("0", "a");
    elsewhere["metadata"]["namespace"] = json!("other");
    world.create(&PODS, elsewhere).unwrap();
    of_set(pod("1"), &owner);
    of_set(running_pod("2", "b"), &owner);
    // An owner that is no controller, and an object that is no pod.
    let mut other = owner.clone();
    other["controller"] = json!(false);
    of_set(running_pod("3", "a"), &other);
    let map = json!({ "metadata": { "name": "m", "namespace": "default", "ownerReferences": [owner] } });
    world.create(&CONFIG_MAPS, map).unwrap();
    assert_eq!(check(&world, "a", uid), ("3 0".into(), "1 2".into()));
    world.server.bind("default", "1", "a").unwrap();
    assert_eq!(check(&world, "a", uid), ("1 3 0".into(), "1 2".into()));
    let none = json!({ "metadata": { "ownerReferences": null } });
    let options = PatchOptions::default();
    world.server.patch(&PODS, "default", "1", None, PatchType::Merge, &none, &options).unwrap();
    assert_eq!(check(&world, "a", uid), ("1 3 0".into(), "2".into()));
    world.delete(&PODS, "1").unwrap();
    assert_eq!(check(&world, "a", uid), ("1 3 0".into(), "2".into()), "it is being deleted");
    let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    world.server.delete(&PODS, "default", "1", &now).unwrap();
    assert_eq!(check(&world, "b", uid), ("2".into(), "2".into()));
    world.create(&PODS, running_pod("1", "b")).unwrap();
    assert_eq!(check(&world, "b", uid), ("1 2".into(), "2".into()));
    let orphan = DeleteOptions { propagation: Propagation::Orphan, ..DeleteOptions::default() };
    world.server.delete(&REPLICA_SETS, "default", "set", &orphan).unwrap();
    assert_eq!(check(&world, "b", uid), ("1 2".into(), String::new()));
}
