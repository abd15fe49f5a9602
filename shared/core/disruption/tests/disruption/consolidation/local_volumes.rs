//! Nodes with local volumes are not consolidated.

use crate::support::*;
use nodeless_model::pod::VolumeClaim;
use nodeless_model::*;
use std::collections::BTreeSet;

fn with_volume(mut pod: Pod) -> Pod {
    pod.template_mut().volume_claims = vec![VolumeClaim { claim_name: "data".into(), ephemeral: false }];
    pod
}

/// A node with a small pod that mounts a volume, which is local to the node of this place, and a node with free capacity.
fn world(host: usize) -> TestCluster {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.on_demand("m9.4xlarge", vec![with_volume(pod("db", 500, 512))]);
    world.on_demand("m9.large", vec![pod("web", 500, 512)]);
    world.volumes.insert("default/data".into(), Vec::new());
    world.volume_hosts.insert("default/data".into(), BTreeSet::from([format!("node-{host:05}")]));
    world
}

const STAYS: &str = "it has the local volume of PersistentVolumeClaim default/data";

#[test]
fn a_node_with_the_local_volume_of_a_pod_is_not_consolidated() {
    let kept = world(0);
    assert!(kept.kept(0).contains(STAYS), "{}", kept.kept(0));
    let lost = world(7);
    assert!(lost.decide().commands.iter().any(|command| command.candidates[0].node == "node-00000"));
}

#[test]
fn a_node_with_the_local_volume_of_a_pending_pod_is_not_empty() {
    let mut world = world(0);
    let pods = std::mem::take(&mut world.places[0].pods);
    // It fits on no node, and only there once something goes.
    world.pending = pods.into_iter().map(|pod| Pod { node_name: None, ..pod }).collect();
    world.pending[0].template_mut().requests.set("cpu", Quantity::from_units(17));
    assert!(world.kept(0).contains(STAYS), "{}", world.kept(0));
}

#[test]
fn a_drifted_node_with_a_local_volume_is_replaced_as_others_are() {
    let mut world = world(0);
    world.pools[0].hash = "hash-2".into();
    let decision = world.decide();
    let going: Vec<&str> = decision.commands.iter().flat_map(|it| &it.candidates).map(|it| it.node.as_str()).collect();
    assert!(going.contains(&"node-00000"), "{decision:#?}");
}
