//! Nodes that join, drain and leave.

use super::{World, node};
use nodeless_fake_kubernetes::resource::NODES;
use nodeless_fake_kubernetes::{PatchOptions, PatchType};
use nodeless_model::{StringMap, Taint, labels};
use nodeless_ports::cluster::{FoundNodes, NodePatch, SoughtNode};
use nodeless_ports::{ErrorKind, NodesAndPods as _};
use serde_json::{Value, json};

#[tokio::test]
async fn a_node_is_found_by_its_provider_id() {
    let world = World::installed().await;
    world.create(&NODES, node("n1"));
    let cluster = world.cluster();
    for hint in [None, Some("n1"), Some("other")] {
        let found = cluster.nodes_of("aws:///us-east-1a/i-n1", hint).await.unwrap();
        assert_eq!(found.len(), 1, "{hint:?}");
    }
    assert!(cluster.nodes_of("aws:///us-east-1a/i-n2", Some("n1")).await.unwrap().is_empty());
}

fn sought(name: &str, joining: bool) -> SoughtNode {
    let provider_id = format!("aws:///us-east-1a/i-{name}");
    SoughtNode { provider_id, name: Some(name.to_owned()).filter(|_| !joining), joining }
}

#[tokio::test]
async fn joining_nodes_are_listed_once_and_patched_without_being_read() {
    let world = World::installed().await;
    for name in ["n1", "n2", "other"] {
        world.create(&NODES, node(name));
    }
    let mut done = node("done");
    done["metadata"]["labels"]["karpenter.sh/initialized"] = json!("true");
    world.create(&NODES, done);
    let cluster = world.cluster();
    world.requests();
    let all = [sought("n1", true), sought("n2", true), sought("missing", true), sought("done", false)];
    let FoundNodes { nodes, invalid, joining_listed } = cluster.nodes_of_all(&all).await.unwrap();
    assert_eq!(joining_listed, 3, "all that are not initialized, also of other claims");
    let mut names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!((names, invalid.len()), (vec!["done", "n1", "n2"], 0));
    let made = world.requests();
    assert_eq!(made.len(), 2, "one list of joining nodes, and one node by its name: {made:?}");

    let patch = NodePatch { add_taints: vec![Taint::disrupted()], ..NodePatch::default() };
    let uid = |name: &str| nodes.iter().find(|node| node.name == name).unwrap().uid.clone();
    cluster.patch_node("n1", &uid("n1"), &patch).await.unwrap();
    let made = world.requests();
    assert!(matches!(made.as_slice(), [one] if one.starts_with("PATCH")), "{made:?}");
    // A list that another process has changed meanwhile is read.
    let change = json!({ "spec": { "taints": [{ "key": "team", "value": "a", "effect": "NoSchedule" }] } });
    let options = PatchOptions::default();
    world.server.patch(&NODES, "", "n2", None, PatchType::Merge, &change, &options).unwrap();
    cluster.patch_node("n2", &uid("n2"), &patch).await.unwrap();
    let made: Vec<String> = world.requests().iter().map(|one| one[..4].to_owned()).collect();
    assert_eq!(made, ["PATC", "GET ", "PATC"]);
    let taints = world.server.get(&NODES, "", "n2").unwrap()["spec"]["taints"].clone();
    assert_eq!(taints.as_array().unwrap().len(), 2, "{taints}");
    // This process adds its entry again after another process removed it.
    let none = json!({ "spec": { "taints": [] } });
    world.server.patch(&NODES, "", "n1", None, PatchType::Merge, &none, &options).unwrap();
    cluster.patch_node("n1", &uid("n1"), &patch).await.unwrap();
    assert_eq!(world.server.get(&NODES, "", "n1").unwrap()["spec"]["taints"][0]["key"], "karpenter.sh/disrupted");
}

#[tokio::test]
async fn a_node_that_another_process_registered_is_not_closed_again() {
    let world = World::installed().await;
    world.create(&NODES, node("n1"));
    let cluster = world.cluster();
    let FoundNodes { nodes, .. } = cluster.nodes_of_all(&[sought("n1", true)]).await.unwrap();
    // The other process has opened it, too.
    let change = json!({ "metadata": { "labels": { "karpenter.sh/registered": "true" } } });
    let options = PatchOptions::default();
    world.server.patch(&NODES, "", "n1", None, PatchType::Merge, &change, &options).unwrap();
    let patch = NodePatch {
        add_taints: vec![Taint::joining()],
        unless_labelled: Some("karpenter.sh/registered".into()),
        ..NodePatch::default()
    };
    let error = cluster.patch_node("n1", &nodes[0].uid, &patch).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert!(error.message.contains("n1 has the label karpenter.sh/registered"), "{error}");
    assert!(world.server.get(&NODES, "", "n1").unwrap()["spec"]["taints"].as_array().is_none_or(Vec::is_empty));
}

#[tokio::test]
async fn nodes_that_were_listed_are_drained_without_being_read() {
    let world = World::installed().await;
    let names = ["n1", "n2", "n3", "n4", "n5"];
    for name in names {
        world.create(&NODES, node(name));
    }
    let added = "2026-01-01T00:00:00Z";
    let lost = json!({ "key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": added });
    let team = json!({ "key": "team", "value": "a", "effect": "NoSchedule" });
    let options = PatchOptions::default();
    let change = |name: &str, taint: &Value| {
        let taints = json!({ "spec": { "taints": [taint] } });
        world.server.patch(&NODES, "", name, None, PatchType::Merge, &taints, &options).unwrap();
    };
    change("n1", &team);
    change("n2", &lost);
    let cluster = world.cluster();
    let found = cluster.nodes_of_all(&names.map(|name| sought(name, false))).await.unwrap();
    change("n3", &team);
    world.requests();
    // As lifecycle patches a node that it drains.
    let excluded = labels::EXCLUDE_FROM_LOAD_BALANCERS.to_owned();
    let patch = NodePatch {
        labels: StringMap::from([(excluded, "karpenter".to_owned())]),
        add_taints: vec![Taint::disrupted()],
        add_finalizer: Some(labels::TERMINATION_FINALIZER.to_owned()),
        ..NodePatch::default()
    };
    let mut calls = Vec::new();
    for node in &found.nodes {
        cluster.patch_node(&node.name, &node.uid, &patch).await.unwrap();
        calls.push(world.requests().iter().map(|one| one[..3].to_owned()).collect::<Vec<_>>().join(" "));
    }
    assert_eq!(calls, ["PAT", "GET PAT", "PAT GET PAT", "PAT", "PAT"], "the second has a time, the third has changed");
    for name in names {
        let metadata = &world.server.get(&NODES, "", name).unwrap()["metadata"];
        assert_eq!(metadata["labels"][labels::EXCLUDE_FROM_LOAD_BALANCERS], "karpenter");
        assert_eq!(metadata["finalizers"], json!([labels::TERMINATION_FINALIZER]));
        assert!(metadata["labels"].as_object().unwrap().len() > 1, "its labels stay: {metadata}");
    }
    let taints = |name: &str| world.server.get(&NODES, "", name).unwrap()["spec"]["taints"].clone();
    let disrupted = json!({ "key": "karpenter.sh/disrupted", "effect": "NoSchedule" });
    assert_eq!([taints("n1"), taints("n2")], [json!([team, disrupted]), json!([lost, disrupted])]);
    assert_eq!([taints("n3"), taints("n4")], [json!([team, disrupted]), json!([disrupted])]);
}

#[tokio::test]
async fn a_node_that_has_been_initialized_is_found_by_its_name() {
    let world = World::installed().await;
    let mut done = node("n1");
    done["metadata"]["labels"]["karpenter.sh/initialized"] = json!("true");
    world.create(&NODES, done);
    let registered = SoughtNode { name: Some("n1".to_owned()), ..sought("n1", true) };
    assert_eq!(world.cluster().nodes_of_all(&[registered]).await.unwrap().nodes.len(), 1);
}
