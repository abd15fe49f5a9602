//! The nodes and NodeClaims of other controllers, as plans see them.

use crate::nodes::cluster_state::ClusterState;
use jiff::Timestamp;
use nodeless_model::claim::{NodeClaimSpec, NodeClaimStatus};
use nodeless_model::{
    ClassKind, Node, NodeClaim, OtherNodeClaim, Phase, Pod, Quantity, ResourceList, StringMap, labels,
};
use nodeless_ports::cluster::ClusterView;

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn cpus(cpus: i64) -> ResourceList {
    ResourceList::from([("cpu", Quantity::from_units(cpus))])
}

/// A node of another controller that joined at this second, and whose kubelet has not reported yet.
fn joined(created: i64) -> Node {
    Node {
        name: "other".into(),
        provider_id: Some("aws:///us-east-1a/i-other".into()),
        created: Some(second(created)),
        labels: StringMap::from([(labels::NODE_POOL.into(), "general-purpose".into())]),
        ..Node::default()
    }
}

/// The name and the free CPUs of each node on which a plan places pods.
fn free_cpus(view: &ClusterView) -> Vec<(String, i64)> {
    let problem = ClusterState::new(view, &[]).problem(&[], second(110));
    problem.nodes.into_iter().map(|node| (node.name, node.available.get("cpu").milli() / 1000)).collect()
}

/// A NodeClaim of another controller, created at this second, with the instance `i-other` and 8 CPUs.
fn of_other(created: i64) -> OtherNodeClaim {
    let capacity = NodeClaim {
        name: "general-purpose-abcde".into(),
        uid: "u".into(),
        node_pool: None,
        node_class: String::new(),
        created: second(created),
        version: 0,
        spec: NodeClaimSpec::default(),
        phase: Phase::Launched,
        status: NodeClaimStatus { allocatable: cpus(8), ..NodeClaimStatus::default() },
    };
    OtherNodeClaim {
        name: capacity.name.clone(),
        class: ClassKind { group: "eks.amazonaws.com".into(), kind: "NodeClass".into() },
        provider_id: Some("aws:///us-east-1a/i-other".into()),
        capacity: Some(Box::new(capacity)),
    }
}

#[test]
fn a_node_of_another_controller_is_capacity_before_and_after_it_joins() {
    let mut view = ClusterView { other_node_claims: vec![of_other(100)], ..ClusterView::default() };
    assert_eq!(free_cpus(&view), [("general-purpose-abcde".to_owned(), 8)]);
    view.other_node_claims = vec![of_other(110 - 15 * 60)];
    assert_eq!(free_cpus(&view), [], "it did not join in time");

    view.other_node_claims = vec![of_other(100)];
    view.nodes = vec![joined(105)];
    assert_eq!(free_cpus(&view), [("other".to_owned(), 8)], "the kubelet does not report yet");
    let problem = ClusterState::new(&view, &[]).problem(&[], second(110));
    let [node] = &problem.nodes[..] else { panic!("{:?}", problem.nodes) };
    assert_eq!((node.node_claim.as_ref(), node.node_pool.as_ref()), (None, None), "nothing is done with them");
    let state = ClusterState::new(&view, &[]);
    assert!(state.places.iter().all(|place| place.claim.is_none()), "no decision sees a claim");
}

/// Its controller launches a node for them.
#[test]
fn pods_of_a_node_that_another_controller_removes_are_not_planned_before_they_are_pending() {
    let node = Node { deletion_timestamp: Some(second(100)), ..joined(50) };
    let pod = Pod {
        name: "web".into(),
        uid: "web".into(),
        node_name: Some("other".into()),
        owner_kind: Some("ReplicaSet".into()),
        ..Pod::default()
    };
    let mut view = ClusterView { nodes: vec![node], pods: vec![pod.into()], ..ClusterView::default() };
    let planned = |view: &ClusterView| ClusterState::new(view, &[]).problem(&[], second(110)).pods.len();
    assert_eq!(planned(&view), 0);
    view.nodes[0].labels.clear();
    assert_eq!(planned(&view), 1, "nobody else does it for a node group");
}
