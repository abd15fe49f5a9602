//! The capacity for CapacityBuffers: it moves with its node, and is never lost.

use crate::support::*;
use nodeless_disruption::*;
use nodeless_model::buffer::ACTIVE_CAPACITY;
use nodeless_model::node_pool::BudgetNodes;
use nodeless_model::*;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::collections::BTreeSet;

/// The virtual pods of a buffer with this number of chunks.
fn chunks(count: u32, cpu_milli: i64, memory_mib: i64) -> Vec<Pod> {
    let buffer = CapacityBuffer {
        namespace: "default".into(),
        name: "spare".into(),
        uid: "uid-spare".into(),
        strategy: ACTIVE_CAPACITY.into(),
        replicas: Some(count),
        ..CapacityBuffer::default()
    };
    let chunk = labelled(pod("chunk", cpu_milli, memory_mib), "app", "web");
    buffer.virtual_pods(&PodShape { pod: chunk, ..PodShape::default() }, count)
}

/// The number of equal pods that fit on the nodes, counted node by node.
fn fitting_chunks(world: &TestCluster) -> u32 {
    let Some(chunk) = world.buffers.first() else { return 0 };
    let of_node = |place: &Place| {
        let mut free = place.node.allocatable.clone();
        place.pods.iter().for_each(|pod| free.subtract(&pod.template.requests));
        let fits = chunk.template.requests.iter().map(|(name, asked)| free.get(name).milli().max(0) / asked.milli());
        u32::try_from(fits.min().unwrap_or(0)).unwrap()
    };
    world.places.iter().map(of_node).sum()
}

fn world_with(buffers: Vec<Pod>) -> TestCluster {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.buffers = buffers;
    world
}

fn going(decision: &Decision) -> Vec<&str> {
    let candidates = decision.commands.iter().flat_map(|command| &command.candidates);
    candidates.map(|candidate| candidate.node.as_str()).collect()
}

#[test]
fn a_node_is_removed_whose_buffer_capacity_is_free_elsewhere_too() {
    let mut world = world_with(chunks(1, 1000, 1024));
    world.on_demand("c9.xlarge", vec![pod("a", 1000, 1024)]);
    world.on_demand("c9.xlarge", vec![pod("b", 1000, 1024)]);
    let decision = world.decide();
    assert_eq!(going(&decision).len(), 1, "{decision:#?}");
    assert!(decision.commands[0].replacements.is_empty());
    assert_eq!(decision.commands[0].evictions.len(), 1, "virtual pods are not evicted");
    world.apply(&decision.commands);
    assert_eq!((world.places.len(), world.decide().commands.len()), (1, 0));
    assert!(fitting_chunks(&world) >= 1);
}

#[test]
fn the_capacity_is_launched_again_for_less_together_with_the_pods() {
    let mut world = world_with(chunks(2, 1000, 4 * 1024));
    world.on_demand("m9.4xlarge", vec![pod("a", 1300, 5 * 1024)]);
    let decision = world.decide();
    let [command] = &decision.commands[..] else { panic!("{decision:#?}") };
    assert_eq!(command.replacements[0].launch.offering.instance_type, "m9.xlarge", "4 cpu for 1.3 and 2");
    assert_eq!((command.replacements[0].pods.len(), command.evictions.len()), (3, 1));
    assert_eq!(revalidate(command, &world.cluster(), now(), &world.options).as_ref(), Some(command));
    world.apply(&decision.commands);
    assert!(fitting_chunks(&world) >= 2 && world.decide().commands.is_empty());
}

#[test]
fn a_node_that_is_there_for_a_buffer_alone_is_replaced_by_a_cheaper_one_and_then_stays() {
    let mut world = world_with(chunks(1, 1000, 1024));
    world.on_demand("m9.4xlarge", Vec::new());
    let decision = world.decide();
    let [command] = &decision.commands[..] else { panic!("{decision:#?}") };
    assert_eq!((command.method, command.evictions.len()), (Method::SingleNodeConsolidation, 0));
    assert_eq!(command.replacements[0].launch.offering.instance_type, "c9.large");
    world.apply(&decision.commands);
    assert!(world.decide().commands.is_empty(), "it is not empty");
    world.buffers.clear();
    assert_eq!(world.decide().commands[0].method, Method::Emptiness, "and without the buffer it is");
}

#[test]
fn capacity_of_a_buffer_is_not_free_for_pods_that_could_stay() {
    let mut world = world_with(chunks(1, 1900, 1024));
    // The pod of the second would fit on the first, were it not for the buffer.
    world.on_demand("c9.xlarge", vec![pod("a", 2000, 6 * 1024)]);
    world.on_demand("c9.large", vec![pod("b", 1900, 1024)]);
    assert_eq!(going(&world.decide()), [""; 0]);
    world.buffers.clear();
    assert_eq!(going(&world.decide()), ["node-00001"]);
}

#[test]
fn nothing_prevents_the_capacity_from_moving() {
    let mut world = world_with(chunks(1, 1000, 1024));
    world.buffers[0].template_mut().annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
    world.budgets = vec![PodDisruptionBudget {
        namespace: "default".into(),
        name: "web".into(),
        selector: Some(selector("app", "web")),
        blocks_always: true,
        ..PodDisruptionBudget::default()
    }];
    world.on_demand("m9.4xlarge", vec![pod("a", 1000, 1024)]);
    let decision = world.decide();
    assert_eq!(going(&decision), ["node-00000"], "{decision:#?}");
    assert!(decision.events.iter().all(|event| event.object.kind != "Pod"), "{:#?}", decision.events);
}

#[test]
fn where_only_empty_nodes_go_a_node_with_buffer_capacity_stays_with_a_reason() {
    let mut world = world_with(chunks(1, 1000, 1024));
    world.pools[0].disruption.consolidation_policy = ConsolidationPolicy::WhenEmpty;
    world.on_demand("m9.4xlarge", Vec::new());
    assert_eq!(world.kept(0), "pending pod default/capacity-buffer-spare-0 fits on it");
}

/// The virtual pods of a provisioned request.
fn booked(count: u32, cpu_milli: i64, memory_mib: i64) -> Vec<Pod> {
    let request = ProvisioningRequest {
        namespace: "default".into(),
        name: "train".into(),
        uid: "uid-train".into(),
        class_name: "check-capacity.autoscaling.x-k8s.io".into(),
        pod_sets: vec![provisioning_request::PodSet { template: "worker".into(), count }],
        ..ProvisioningRequest::default()
    };
    let shape = PodShape { pod: pod("worker", cpu_milli, memory_mib), ..PodShape::default() };
    request.virtual_pods(&[shape], std::iter::empty(), 1).unwrap()
}

/// The pods of the request may be bound to it at any moment.
#[test]
fn a_node_that_holds_the_capacity_of_a_request_stays_until_the_booking_ends() {
    let mut world = world_with(booked(1, 1000, 1024));
    world.on_demand("m9.4xlarge", Vec::new());
    assert_eq!(going(&world.decide()), [""; 0], "not even for a cheaper one");
    assert_eq!(world.kept(0), "pending pod default/provisioning-request-train-0-0 fits on it");
    world.buffers.clear();
    assert_eq!(world.decide().commands[0].method, Method::Emptiness);
}

#[test]
fn a_drifted_node_is_replaced_with_or_without_its_buffer_capacity() {
    let mut world = world_with(chunks(1, 1000, 1024));
    world.on_demand("m9.xlarge", vec![pod("a", 1000, 1024)]);
    world.pools[0].hash = "hash-2".into();
    let drifted = |world: &TestCluster| {
        let decision = world.decide();
        let [command] = &decision.commands[..] else { panic!("{decision:#?}") };
        assert_eq!((command.method, command.evictions.len()), (Method::Drift, 1));
        let [replacement] = &command.replacements[..] else { panic!("{command:#?}") };
        replacement.pods.clone()
    };
    assert_eq!(drifted(&world), ["default/a", "default/capacity-buffer-spare-0"]);
    world.buffers = chunks(1, 64_000, 1024);
    assert_eq!(drifted(&world), ["default/a"], "it holds no capacity for that");
}

#[test]
fn while_a_command_is_in_progress_its_buffer_capacity_is_on_its_target() {
    let mut world = world_with(chunks(1, 1000, 1024));
    world.on_demand("m9.xlarge", vec![pod("a", 1000, 1024)]);
    world.on_demand("m9.xlarge", vec![pod("b", 1000, 1024)]);
    let commands = world.decide().commands;
    let during = world.cluster_during(commands.iter());
    assert_eq!(decide(&during, now(), &world.options).commands, [], "the other node takes all of it");
    let mut full = world.clone();
    let other = full.places.iter_mut().find(|place| place.node.name != commands[0].candidates[0].node).unwrap();
    other.pods.push(Pod { node_name: Some(other.node.name.clone()), ..pod("c", 1500, 1024) });
    assert_eq!(revalidate(&commands[0], &full.cluster(), now(), &full.options), None, "the capacity is no longer free");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default()
    })]

    /// Whatever consolidation does, there is as much capacity for buffers as before, as far as they ask for it; and it
    /// ends.
    #[test]
    fn consolidation_never_loses_the_capacity_of_a_buffer(
        nodes in prop::collection::vec((0..5_usize, prop::collection::vec((0..6_usize, 0..5_usize), 0..6)), 1..9),
        (count, size) in (1..7_u32, 0..4_usize),
        (share, spot) in (0..3_usize, any::<bool>()),
    ) {
        let (cpu, memory) = [(500, 512), (1000, 4096), (1500, 2048), (3000, 3000)][size];
        let mut world = world_with(chunks(count, cpu, memory));
        world.pools[0].disruption.budgets = vec![budget([BudgetNodes::Percent(100), BudgetNodes::Count(1), BudgetNodes::Percent(40)][share])];
        if spot {
            world.pools[0].template.requirements = Requirements::new();
        }
        for (number, (kind, pods)) in nodes.iter().enumerate() {
            let (kind, capacity) = [("c9.xlarge", 3900), ("m9.xlarge", 3900), ("m9.2xlarge", 7900), ("r9.2xlarge", 7900), ("m9.4xlarge", 15_900)][*kind];
            let mut left = capacity;
            let mut own = Vec::new();
            for (index, (cpu, memory)) in pods.iter().enumerate() {
                let cpu = [100, 250, 500, 1000, 2000, 3000][*cpu];
                if cpu <= left {
                    left -= cpu;
                    own.push(pod(&format!("pod-{number}-{index}"), cpu, [64, 256, 512, 1024, 1200][*memory]));
                }
            }
            world.on_demand(kind, own);
        }
        let mut before = fitting_chunks(&world).min(count);
        let mut rounds = 0;
        loop {
            let decision = world.decide();
            if decision.commands.is_empty() {
                break;
            }
            for command in &decision.commands {
                let evicted: BTreeSet<String> = command.evictions.iter().map(|pod| pod.name.clone()).collect();
                prop_assert!(evicted.iter().all(|name| !name.starts_with("capacity-buffer")));
            }
            world.apply(&decision.commands);
            let after = fitting_chunks(&world).min(count);
            prop_assert!(after >= before, "{before} chunks fitted, and now {after}, after {decision:#?}");
            before = after;
            rounds += 1;
            prop_assert!(rounds < 30, "it comes to no end");
        }
        prop_assert!(world.buffers.iter().all(Pod::is_virtual));
    }
}
