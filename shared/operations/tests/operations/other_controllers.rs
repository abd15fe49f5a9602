//! The objects of another controller, such as EKS Auto Mode, beside those of nodeless: they are seen, and never changed.

use crate::common::{Harness, pod, running_cluster};
use nodeless_api::test_support::{auto_mode_node, auto_mode_node_claim, auto_mode_node_pool};
use nodeless_fake_kubernetes::Resource;
use nodeless_fake_kubernetes::resource::{EVENTS, NODES};
use nodeless_lifecycle::Collection;
use nodeless_model::{EndedNode, NodeClaim, labels};
use nodeless_ports::ErrorKind;
use nodeless_world::resources::{NODE_CLAIMS, NODE_POOLS};
use serde_json::{Value, json};

const OBJECTS: [(Resource, &str); 3] =
    [(NODE_POOLS, "general-purpose"), (NODE_CLAIMS, "general-purpose-abcde"), (NODES, "i-0123456789abcdef0")];

/// A cluster of nodeless with one node, and beside it a NodePool, a NodeClaim and a Node of Auto Mode that is not ready.
async fn side_by_side() -> Harness {
    let harness = running_cluster(1).await;
    harness.cluster.create(&NODE_POOLS, auto_mode_node_pool());
    harness.cluster.create(&NODE_CLAIMS, auto_mode_node_claim());
    harness.cluster.create(&NODES, auto_mode_node());
    harness
}

fn objects(harness: &Harness) -> Vec<Value> {
    OBJECTS.iter().map(|(resource, name)| harness.cluster.get(resource, name)).collect()
}

/// An object without its version and without the taints that Kubernetes gives to a Node that is not ready.
fn without_version(mut object: Value) -> Value {
    object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    object["spec"].as_object_mut().unwrap().remove("taints");
    object
}

#[tokio::test]
async fn nothing_of_another_controller_is_written_and_nothing_is_launched_for_it() {
    let mut harness = side_by_side().await;
    let before: Vec<Value> = objects(&harness).into_iter().map(without_version).collect();
    let (launched, events) = (harness.cloud.launched(), harness.cluster.list(&EVENTS).len());
    let mut selects = pod("selects", 100);
    selects["spec"]["nodeSelector"] = json!({ labels::NODE_POOL: "general-purpose" });
    harness.cluster.add_pods([selects]);
    harness.queue_wake().await;
    harness.minutes(10).await;
    let after: Vec<Value> = objects(&harness).into_iter().map(without_version).collect();
    assert_eq!(after, before);
    assert_eq!(harness.cloud.launched(), launched, "a node of nodeless cannot have the label of that NodePool");
    let all = harness.cluster.list(&EVENTS);
    let about = |event: &&Value| OBJECTS.iter().any(|(_, name)| event["involvedObject"]["name"] == *name);
    assert!(!all.iter().map(AsRef::as_ref).any(|event| about(&event)), "{events} events before");
}

#[tokio::test]
async fn a_node_that_is_not_ready_keeps_its_finalizer_with_and_without_its_node_claim() {
    let harness = side_by_side().await;
    harness.cluster.patch(&NODE_CLAIMS, OBJECTS[1].1, json!({ "metadata": { "finalizers": null } }));
    for what in ["with its NodeClaim", "without"] {
        let report = harness.sweeper().run().await.unwrap();
        assert_eq!(report.collected, [], "{what}");
        let node = harness.cluster.get(&NODES, OBJECTS[2].1);
        assert_eq!(node["metadata"]["finalizers"], json!([labels::TERMINATION_FINALIZER]), "{what}");
        assert!(node["metadata"].get("deletionTimestamp").is_none(), "{what}");
        if what == "with its NodeClaim" {
            harness.cluster.delete(&NODE_CLAIMS, OBJECTS[1].1);
        }
    }
}

/// A Node with the label of an EC2NodeClass, which anybody can set, and without a record and an instance.
#[tokio::test]
async fn a_node_is_released_only_with_proof_that_its_instance_was_ours_and_is_gone() {
    let harness = running_cluster(1).await;
    let mut node = auto_mode_node();
    node["metadata"]["labels"][labels::EC2_NODE_CLASS] = json!("default");
    harness.cluster.create(&NODES, node);
    let name = OBJECTS[2].1;
    let sweep = async || harness.sweeper().run().await.unwrap();
    assert_eq!(sweep().await.collected, [], "nothing shows whose it was");

    let now = harness.context().now();
    let mut ended =
        NodeClaim { name: "default-ended".into(), uid: "ended".into(), ..harness.records().await.remove(0) };
    ended.status.instance.as_mut().unwrap().id = name.into();
    ended.spec.launch_group = None;
    harness.claims.create(&ended, None).await.unwrap();
    let stored = harness.records().await.into_iter().find(|claim| claim.uid == "ended").unwrap();
    harness.claims.delete_ended(&stored, EndedNode::new(&stored, now).as_ref()).await.unwrap();
    for kind in [ErrorKind::Throttled, ErrorKind::Denied] {
        harness.faults.fail("cloud instances", kind);
        let report = sweep().await;
        assert_eq!(report.collected, [], "{kind:?} proves nothing");
        assert!(
            report.problems.iter().any(|problem| problem.contains("instances of nodes without a claim")),
            "{report:?}"
        );
        harness.faults.end_outages();
    }
    assert!(matches!(&sweep().await.collected[..], [Collection::ReleaseNode { instance, .. }] if instance == name));
    assert!(harness.cluster.list(&NODES).iter().all(|node| node["metadata"]["name"] != name), "it is gone");
}
