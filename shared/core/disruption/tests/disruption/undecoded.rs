//! Nodes with a pod that cannot be decoded: they stay, and take no other pods.

use crate::support::*;
use nodeless_disruption::*;
use nodeless_model::*;
use std::time::Duration;

const ODD: UndecodedPod<'static> =
    UndecodedPod { name: "default/odd", uid: "u", why: "spec.tolerations[0].operator: unknown operator" };

/// The cluster of a world, in which a pod on this node cannot be decoded.
fn with_odd(world: &TestCluster, node: usize) -> Cluster<'_> {
    let mut cluster = world.cluster();
    cluster.nodes[node].undecoded = vec![ODD];
    cluster
}

fn removed(decision: &Decision) -> Vec<&str> {
    decision.commands.iter().flat_map(|command| &command.candidates).map(|one| one.node.as_str()).collect()
}

fn small(name: &str) -> Vec<Pod> {
    vec![pod(name, 500, 512)]
}

#[test]
fn only_the_node_of_the_pod_stays() {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    for name in ["a", "b", "c"] {
        world.on_demand("m9.4xlarge", small(name));
    }
    let decision = decide(&with_odd(&world, 0), now(), &world.options);
    assert_eq!(removed(&decision), ["node-00001", "node-00002"], "one smaller node replaces the other two");
    assert!(decision.commands.iter().flat_map(|command| &command.placements).all(|to| to.node != "node-00000"));
    let kept = decision.kept.iter().find(|kept| kept.node == "node-00000").unwrap();
    let reason = KeptReason::UndecodedPod { pod: ODD.name.into(), why: ODD.why.into() };
    assert_eq!(kept.reasons, [reason]);
    let event = decision.events.iter().find(|event| event.object.kind == "Pod").unwrap();
    assert_eq!(
        (event.reason.as_str(), event.object.name.as_str(), event.object.uid.as_str()),
        ("DisruptionBlocked", "odd", "u")
    );
    assert!(event.message.contains("node node-00000") && event.message.contains(ODD.why), "{}", event.message);
}

#[test]
fn no_pod_is_moved_to_the_node_of_the_pod() {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    let mut stays = small("a");
    stays[0].template_mut().annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
    world.on_demand("m9.xlarge", stays);
    world.on_demand("c9.large", small("b"));
    let moved = decide(&world.cluster(), now(), &world.options);
    let [command] = &moved.commands[..] else { panic!("{:?}", moved.commands) };
    assert!(command.placements.iter().any(|to| to.node == "node-00000"), "{command:?}");
    let decision = decide(&with_odd(&world, 0), now(), &world.options);
    assert_eq!(removed(&decision), Vec::<&str>::new());
    let later = now() + Duration::from_secs(15);
    assert!(revalidate(command, &world.cluster(), later, &world.options).is_some());
    assert_eq!(revalidate(command, &with_odd(&world, 0), later, &world.options), None);
}

#[test]
fn a_node_with_no_other_pod_is_not_empty() {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.on_demand("m9.large", Vec::new());
    world.on_demand("m9.large", Vec::new());
    assert_eq!(removed(&decide(&with_odd(&world, 0), now(), &world.options)), ["node-00001"]);
}

#[test]
fn a_static_pool_and_a_schedule_keep_the_node_of_the_pod() {
    let mut world = TestCluster::new(vec![NodePool { replicas: Some(0), ..node_pool("default") }]);
    world.on_demand("m9.large", Vec::new());
    world.on_demand("m9.large", Vec::new());
    let changes = static_changes(&with_odd(&world, 0), now(), &world.options);
    let surplus: Vec<&str> = changes[0].surplus.iter().map(|one| one.node.as_str()).collect();
    assert_eq!(surplus, ["node-00001"]);
    world.pools[0].replicas = None;
    // The time is two o'clock in the night.
    world.pools[0].options.set(labels::SLEEP, Some("0 20 * * * for 10h"));
    let retiring = schedules::retiring(&with_odd(&world, 0), now());
    assert_eq!(retiring.iter().map(|(one, _)| one.node.as_str()).collect::<Vec<_>>(), ["node-00001"]);
}
