//! Nodes go only if their pods fit where the kube-scheduler is predicted to bind them.

use crate::support::preferences::preferred;
use crate::support::*;
use nodeless_disruption::*;
use nodeless_model::*;
use nodeless_scheduling::{BindingLimits, BindingNode, Bindings, ClusterFacts, existing_node};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const GIB: i64 = 1024;

/// A full node with a small and a large pod, and two nodes that stay, with this much free cpu: beside the small pod, the large
/// one fits only where most is free.
fn world(kind: &str, free: [i64; 2]) -> TestCluster {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.on_demand("m9.xlarge", vec![pod("a-small", 1000, 4 * GIB), pod("b-large", 3000, 12 * GIB)]);
    for (place, free) in free.into_iter().enumerate() {
        let whole = world.types.iter().find(|known| known.name == kind).unwrap().capacity.get("cpu").milli();
        let used = whole - free;
        let stays = world.on_demand(kind, vec![pod(&format!("stays-{place}"), used, used * 4 * GIB / 1000)]);
        stays.node.annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
    }
    world
}

#[test]
fn a_node_stays_if_its_pods_fit_elsewhere_only_by_a_plan() {
    // The small pod on the first and the large one on the second is a plan; the kube-scheduler prefers the second for both.
    let world = world("m9.xlarge", [1000, 3000]);
    let decision = world.decide();
    assert!(decision.commands.is_empty(), "{decision:#?}");
    assert_eq!(
        world.kept(0),
        "its pods would not all fit where the kube-scheduler is predicted to bind them: pod default/b-large would stay pending"
    );
    let kept = &decision.kept[0].reasons[0];
    assert_eq!(kept.event(), Some(KeptEvent::Unconsolidatable));
    assert!(!kept.is_lasting());
}

#[test]
fn a_node_goes_if_its_pods_fit_in_every_order() {
    for (kind, free) in [("m9.2xlarge", [1000, 4000]), ("m9.xlarge", [1000, 4000]), ("m9.2xlarge", [3000, 3000])] {
        let world = world(kind, free);
        let decision = world.decide();
        let [command] = &decision.commands[..] else { panic!("{kind} {free:?}: {decision:#?}") };
        assert_eq!(command.candidates[0].node, "node-00000");
        assert!(revalidate(command, &world.cluster(), now(), &world.options).is_some());
    }
}

#[test]
fn one_node_replaces_a_node_whose_pods_would_not_all_fit_on_two() {
    // A node for each pod is the cheapest plan; the kube-scheduler may bind the small pod to the node for the large one.
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.on_demand("m9.4xlarge", vec![pod("a-small", 1000, 4 * GIB), pod("b-large", 4000, 16 * GIB)]);
    let decision = world.decide();
    let [command] = &decision.commands[..] else { panic!("{decision:#?}") };
    let [replacement] = &command.replacements[..] else { panic!("{command:#?}") };
    assert_eq!(replacement.pods.len(), 2);
    assert_eq!(replacement.launch.offering.instance_type, "m9.2xlarge");
    assert!(revalidate(command, &world.cluster(), now(), &world.options).is_some());
    // Bound first, the large pod has its node in every order.
    world.places[0].pods[1].template_mut().priority = 10;
    assert_eq!(world.decide().commands[0].replacements.len(), 2);
}

#[test]
fn pods_of_higher_priority_are_bound_first() {
    let mut world = world("m9.xlarge", [1000, 3000]);
    world.places[0].pods[1].template_mut().priority = 10;
    assert_eq!(world.decide().commands.len(), 1, "the large pod comes first in every order");
}

#[test]
fn a_command_is_dropped_once_its_pods_would_not_fit() {
    let mut world = world("m9.2xlarge", [1000, 4000]);
    let decision = world.decide();
    // By a plan they still fit.
    world.places[2].pods.push(pod("more", 1000, 4 * GIB));
    assert_eq!(revalidate(&decision.commands[0], &world.cluster(), now(), &world.options), None);
}

#[test]
fn nodes_that_consolidate_after_protects_are_bound_to_as_well() {
    // No pods are moved there voluntarily, but the kube-scheduler prefers it: then both fit.
    let mut world = world("m9.xlarge", [1000, 3000]);
    world.on_demand("m9.4xlarge", Vec::new());
    world.places[3].claim.status.last_pod_event = Some(now());
    world.places[3].node.annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
    world.pools[0].disruption.consolidate_after = NillableDuration::After(std::time::Duration::from_secs(60));
    let decision = world.decide();
    let goes: Vec<&str> = decision.commands.iter().map(|command| command.candidates[0].node.as_str()).collect();
    assert_eq!(goes, ["node-00000"], "{decision:#?}");
}

#[test]
fn pods_of_several_commands_are_bound_together() {
    // Each of two nodes has one pod, that fits on either of two others: but not both together.
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.on_demand("m9.large", vec![pod("a", 2000, 2 * GIB)]);
    world.on_demand("m9.large", vec![pod("b", 1000, 2 * GIB)]);
    for free in [1000, 2000] {
        let stays = world.on_demand("m9.xlarge", vec![pod(&format!("stays-{free}"), 4000 - free, GIB)]);
        stays.node.annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
    }
    let decision = world.decide();
    assert_eq!(decision.commands.len(), 1, "{decision:#?}");
    let kept = decision.kept.iter().flat_map(|kept| &kept.reasons);
    assert!(kept.into_iter().any(|why| matches!(why, KeptReason::PredictedPending { .. })), "{decision:#?}");
}

#[test]
fn preferences_keep_no_pod_from_a_node_in_the_prediction() {
    // The plan keeps the pods apart. If the kube-scheduler binds the small one first, it prefers the node where only the large one fits,
    // and then binds the large one to the same node, although that one prefers to be apart.
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.on_demand("m9.large", vec![labelled(pod("a-small", 1000, 2 * GIB), "app", "web")]);
    let mut large = pod("b-large", 2000, 2 * GIB);
    large.template_mut().preferred_pod_anti_affinity = preferred(labels::HOSTNAME, "web");
    world.on_demand("m9.large", vec![large]);
    for free in [1000, 3000] {
        let stays = world.on_demand("m9.xlarge", vec![pod(&format!("stays-{free}"), 4000 - free, GIB)]);
        stays.node.annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
    }
    let decision = world.decide();
    assert_eq!(decision.commands.len(), 2, "{decision:#?}");
}

/// The pod that would stay pending in the predicted bindings of the kube-scheduler once all commands are executed, in the order
/// of a seed.
fn unbound(world: &TestCluster, decision: &Decision, seed: u64) -> Option<String> {
    let goes = |name: &str| {
        decision.commands.iter().flat_map(|command| &command.candidates).any(|candidate| candidate.node == name)
    };
    let (gone, stay): (Vec<&Place>, Vec<&Place>) = world.places.iter().partition(|place| goes(&place.node.name));
    let mut queue: Vec<&Pod> = gone.iter().flat_map(|place| &place.pods).filter(|pod| pod.is_reschedulable()).collect();
    queue.sort_by_key(|pod| pod.key());
    let requests = queue.iter().map(|pod| &pod.template.requests);
    let mut bindings = Bindings::new(ResourceIndex::new(requests), ClusterFacts::default(), queue.clone(), Vec::new());
    // Closed nodes keep their numbers, from which the choice between equal nodes follows.
    for place in &world.places {
        let pods: Vec<&Pod> = place.pods.iter().collect();
        let node = existing_node(Some(&place.node), Some(&place.claim), &pods, &[]).unwrap();
        let added = bindings.add(BindingNode { node, allocatable: place.node.allocatable.clone(), pods });
        if stay.iter().all(|stays| stays.node.name != place.node.name) {
            bindings.close(added);
        }
    }
    let bound = bindings.bind(&queue, [seed], BindingLimits::NONE);
    bound.unbound().map(|pod| queue[pod].key())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        rng_seed: RngSeed::Fixed(28),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_goes_leaves_capacity_for_its_pods(
        nodes in prop::collection::vec((0..4_usize, prop::collection::vec((0..6_usize, 0..4_usize), 0..6)), 2..9),
    ) {
        let mut world = TestCluster::new(vec![node_pool("default")]);
        for (place, (kind, pods)) in nodes.iter().enumerate() {
            let made = pods.iter().enumerate().map(|(index, (cpu, memory))| {
                let cpu = [100, 250, 500, 800, 1000, 1500][*cpu];
                pod(&format!("p-{place}-{index}"), cpu, [256, 512, 1024, 3072][*memory])
            });
            let (mut pods, mut used) = (Vec::new(), ResourceList::new());
            let kind = ["m9.large", "m9.xlarge", "c9.xlarge", "m9.2xlarge"][*kind];
            let whole = world.types.iter().find(|known| known.name == kind).unwrap().allocatable();
            for pod in made {
                let mut more = used.clone();
                more.add(&pod.template.requests);
                if more.fits(&whole) {
                    used = more;
                    pods.push(pod);
                }
            }
            world.on_demand(kind, pods);
        }
        let decision = world.decide();
        prop_assume!(decision.commands.iter().all(|command| command.replacements.is_empty()));
        for seed in 0..5 {
            prop_assert_eq!(unbound(&world, &decision, seed), None);
        }
    }
}
