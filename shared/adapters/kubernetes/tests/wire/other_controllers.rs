//! The objects of EKS Auto Mode, beside those of nodeless.

use super::claims::claim;
use super::{World, node_class, node_pool};
use nodeless_api::NodePoolStatus;
use nodeless_api::test_support::{auto_mode_node, auto_mode_node_claim, auto_mode_node_pool};
use nodeless_fake_kubernetes::Resource;
use nodeless_fake_kubernetes::resource::NODES;
use nodeless_kubernetes::install::remove_nodes;
use nodeless_model::{NodeClaim, Phase};
use nodeless_ports::{ClaimMirror as _, Configuration as _, ErrorKind, PlanningView as _};
use nodeless_world::resources::{NODE_CLAIMS, NODE_CLASSES, NODE_POOLS};
use serde_json::{Value, json};
use std::time::Duration;

const NAMES: [(Resource, &str); 3] =
    [(NODE_POOLS, "general-purpose"), (NODE_CLAIMS, "general-purpose-abcde"), (NODES, "i-0123456789abcdef0")];

/// A NodePool of nodeless, and a NodePool, a NodeClaim and a Node of Auto Mode.
async fn side_by_side() -> World {
    let world = World::installed().await;
    world.create(&NODE_CLASSES, node_class("default"));
    world.create(&NODE_POOLS, node_pool("default"));
    world.create(&NODE_POOLS, auto_mode_node_pool());
    world.create(&NODE_CLAIMS, auto_mode_node_claim());
    world.create(&NODES, auto_mode_node());
    world
}

fn objects_of_others(world: &World) -> Vec<Value> {
    NAMES.iter().map(|(resource, name)| world.server.get(resource, "", name).unwrap().as_ref().clone()).collect()
}

#[tokio::test]
async fn what_others_manage_is_seen_and_is_not_ours() {
    let world = side_by_side().await;
    let view = world.cluster().view().await.unwrap();
    assert_eq!(view.node_pools.iter().map(|pool| pool.name.as_str()).collect::<Vec<_>>(), ["default"]);
    assert_eq!(view.node_pool_statuses.keys().collect::<Vec<_>>(), ["default"]);
    assert_eq!(view.other_node_pools[0].name, "general-purpose");
    assert!(view.node_claims.is_empty() && view.invalid.is_empty(), "{:?}", view.invalid);
    assert_eq!(view.other_node_claims[0].name, "general-purpose-abcde");
    assert!(view.other_node_claims[0].capacity.is_some());
    assert_eq!((view.nodes.len(), view.nodes[0].node_pool()), (1, None));
}

#[tokio::test]
async fn reads_by_name_and_lists_keep_them_apart() {
    let world = side_by_side().await;
    let cluster = world.cluster();
    let pools = cluster.node_pools().await.unwrap();
    assert_eq!(pools.names().collect::<Vec<_>>(), ["default", "general-purpose"]);
    assert_eq!(pools.node_pools.len(), 1);
    let error = cluster.node_pool("general-purpose").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("eks.amazonaws.com/NodeClass"), "{error}");
    let claims = cluster.mirrored_claims().await.unwrap();
    assert_eq!((claims.mirrors.len(), claims.others.len()), (0, 1));
    let error = cluster.mirrored_claim("general-purpose-abcde").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    let names = ["general-purpose-abcde".to_owned(), "none".to_owned()];
    let (mirrors, doubtful) = cluster.mirrors_of(&names).await.unwrap();
    assert_eq!((mirrors.len(), doubtful.len(), doubtful[0].name.as_str()), (0, 1, "general-purpose-abcde"));
}

/// The NodePool that a plan read may have been replaced by one of another controller since.
#[tokio::test]
async fn the_status_of_a_node_pool_of_others_is_not_written() {
    let world = side_by_side().await;
    let before = objects_of_others(&world);
    let error = world.cluster().write_node_pool_status("general-purpose", &NodePoolStatus::default()).await;
    assert_eq!(error.unwrap_err().kind, ErrorKind::Conflict);
    assert_eq!(objects_of_others(&world), before);
}

/// The status of a claim that this process has not read yet is written without a read, but not into an object of another controller.
#[tokio::test]
async fn the_status_of_a_node_claim_of_others_is_not_written() {
    let world = side_by_side().await;
    let before = objects_of_others(&world);
    for phase in [Phase::Launched, Phase::Registered] {
        let claim = NodeClaim { name: "general-purpose-abcde".into(), phase, ..claim() };
        let error = world.cluster().mirror_claim(&claim).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Conflict);
        assert!(error.message.contains("eks.amazonaws.com/NodeClass"), "{error}");
        assert_eq!(objects_of_others(&world), before);
    }
}

#[tokio::test]
async fn removing_all_nodes_keeps_those_of_others() {
    let world = side_by_side().await;
    let mut own = auto_mode_node_claim();
    own["metadata"]["name"] = json!("default-abcde");
    own["metadata"]["finalizers"] = json!([]);
    own["spec"]["nodeClassRef"] = json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" });
    world.create(&NODE_CLAIMS, own);
    let before = objects_of_others(&world);
    let removed = remove_nodes(&world.connection, "nodeless-a", Duration::ZERO).await.unwrap();
    let removed: Vec<_> = removed.steps.iter().map(|step| step.object.as_str()).collect();
    assert_eq!(removed, ["NodePool default", "NodeClaim default-abcde", "EC2NodeClass default"]);
    assert_eq!(objects_of_others(&world), before);
}
