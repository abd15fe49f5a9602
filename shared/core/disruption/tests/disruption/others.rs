//! Static NodePools, graceful expiration, and errors about invalid input.

use crate::support::*;
use jiff::SignedDuration;
use nodeless_disruption::*;
use nodeless_model::node_pool::BudgetNodes;
use nodeless_model::*;
use std::time::Duration;

fn fixed(replicas: i64, nodes: usize) -> TestCluster {
    let mut world = TestCluster::new(vec![NodePool { replicas: Some(replicas), ..node_pool("fixed") }]);
    for index in 0..nodes {
        world.on_demand("m9.large", vec![pod(&format!("pod-{index}"), 500, 512)]);
    }
    world
}

fn changes(world: &TestCluster) -> Vec<StaticChange> {
    static_changes(&world.cluster(), now(), &world.options)
}

fn annotate(world: &mut TestCluster, key: &str, value: &str) {
    world.pools[0].options.set(key, Some(value));
}

#[test]
fn a_static_pool_gets_the_nodes_that_it_lacks() {
    let mut world = fixed(4, 1);
    let [change] = &changes(&world)[..] else { panic!("one change") };
    assert_eq!((change.launches.len(), change.short.as_deref()), (3, None));
    assert!(change.launches.iter().all(|launch| launch.offering.instance_type == "c9.large" && launch.pods.is_empty()));
    assert!(change.launches[0].instance_types.len() > 10);
    assert_eq!(changes(&fixed(1, 1)), []);
    world.pools[0].limits = ResourceList::from([("nodes", Quantity::from_units(3))]);
    let [change] = &changes(&world)[..] else { panic!("one change") };
    assert_eq!(change.launches.len(), 2);
    assert!(change.short.as_ref().unwrap().contains("nodes"), "{:?}", change.short);
}

#[test]
fn a_static_pool_loses_first_what_is_missed_least() {
    let mut world = fixed(1, 4);
    world.places[0].pods[0].template_mut().annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
    world.places[2].pods.clear();
    world.places[3].claim.status.instance = None;
    let surplus: Vec<String> = changes(&world)[0].surplus.iter().map(|one| one.node.clone()).collect();
    assert_eq!(surplus, ["node-00003", "node-00002", "node-00001"]);
    annotate(&mut world, labels::PAUSE, "true");
    assert_eq!(changes(&world), []);
}

#[test]
fn a_static_pool_loses_drifted_nodes_first_among_equals() {
    let mut world = fixed(2, 4);
    world.pools[0].template.requirements.add("team", Requirement::one_of(["a"]));
    for place in [0, 1, 3] {
        world.places[place].claim.spec.labels.insert("team".into(), "a".into());
    }
    world.places[2].pods.push(pod("further", 500, 512));
    let surplus: Vec<String> = changes(&world)[0].surplus.iter().map(|one| one.node.clone()).collect();
    assert_eq!(
        surplus,
        ["node-00002", "node-00000"],
        "the drifted node would be replaced, though its pods cost most to move"
    );
    world.places[3].pods.clear();
    let surplus: Vec<String> = changes(&world)[0].surplus.iter().map(|one| one.node.clone()).collect();
    assert_eq!(surplus, ["node-00003", "node-00002"], "an empty node evicts no pod");
}

#[test]
fn a_static_pool_sleeps() {
    let mut world = fixed(2, 2);
    // The time is two o'clock in the night.
    annotate(&mut world, labels::SLEEP, "0 20 * * * for 10h");
    assert_eq!(changes(&world)[0].surplus.len(), 2);
    annotate(&mut world, labels::SLEEP, "0 20 * * * for 5h");
    assert_eq!(changes(&world), []);
}

#[test]
fn the_nodes_of_a_sleeping_pool_retire() {
    let mut world = TestCluster::new(vec![node_pool("default"), node_pool("other")]);
    for _ in 0..3 {
        world.on_demand("c9.large", vec![pod("a", 500, 512)]);
    }
    world.node("other", "c9.large", CapacityType::OnDemand, ZONES[0], Vec::new());
    let retiring = |world: &TestCluster| -> Vec<String> {
        schedules::retiring(&world.cluster(), now()).into_iter().map(|(one, _)| one.node).collect()
    };
    assert!(retiring(&world).is_empty());
    annotate(&mut world, labels::SLEEP, "0 20 * * * for 10h");
    world.places[0].node.annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
    assert_eq!(retiring(&world), ["node-00001", "node-00002"]);
    world.places[1].claim.phase = Phase::Draining;
    assert_eq!(retiring(&world), ["node-00002"]);
    annotate(&mut world, labels::PAUSE, "true");
    assert!(retiring(&world).is_empty());
}

#[test]
fn drifted_nodes_of_a_static_pool_are_replaced_one_for_one() {
    let mut world = fixed(3, 3);
    world.pools[0].hash = "hash-2".into();
    world.pools[0].disruption.budgets = vec![budget(BudgetNodes::Count(2))];
    let decision = world.decide();
    assert_eq!(decision.commands.len(), 2);
    for command in &decision.commands {
        assert_eq!((command.method, command.reason), (Method::StaticDrift, DisruptionReason::Drifted));
        assert_eq!((command.candidates.len(), command.replacements.len()), (1, 1));
        let later = now() + SignedDuration::from_secs(15);
        assert_eq!(revalidate(command, &world.cluster(), later, &world.options).as_ref(), Some(command));
    }
    assert!(world.kept(2).contains("allow 2 at once for Drifted"), "{}", world.kept(2));
    world.pools[0].replicas = Some(2);
    assert!(world.kept(0).contains("NodePool fixed has 3 nodes for 2 replicas"), "{}", world.kept(0));
}

#[test]
fn a_pod_that_does_not_want_to_go_keeps_no_other_node() {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.on_demand("c9.large", vec![pod("a", 500, 512)]).claim.phase = Phase::Draining;
    world.on_demand("c9.large", Vec::new());
    assert!(world.decide().commands.is_empty(), "the pod needs the capacity");
    world.places[0].pods[0].template_mut().annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
    let decision = world.decide();
    let going = decision.commands.iter().flat_map(|command| &command.candidates).map(|one| one.node.as_str());
    assert_eq!(going.collect::<Vec<_>>(), ["node-00001"]);
}

#[test]
fn a_node_expires_gracefully_if_configured() {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.on_demand("c9.large", vec![pod("a", 1500, 3000)]).claim.spec.expire_after = Some(Duration::from_secs(6000));
    // The node was created at 3000 and is 4200 seconds old.
    assert!(world.decide().commands.is_empty());
    annotate(&mut world, labels::GRACEFUL_EXPIRATION, "29m");
    assert!(world.decide().commands.is_empty());
    annotate(&mut world, labels::GRACEFUL_EXPIRATION, "30m");
    let decision = world.decide();
    assert_eq!((decision.commands[0].method, decision.commands[0].replacements.len()), (Method::Drift, 1));
    world.pools[0].disruption.budgets = vec![budget(BudgetNodes::Count(0))];
    assert!(world.decide().commands.is_empty());
}

#[test]
fn invalid_input_is_reported_on_the_object_concerned() {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.on_demand(
        "c9.large",
        vec![labelled(pod("a", 100, 100), "app", "a"), labelled(pod("b", 100, 100), "app", "b")],
    );
    world.on_demand("c9.large", Vec::new()).claim.node_pool = Some("gone".into());
    world.places[1].node.labels.insert(labels::NODE_POOL.into(), "gone".into());
    let guard = |name: &str, app: &str, blocks_always: bool| PodDisruptionBudget {
        namespace: "default".into(),
        name: name.into(),
        selector: Some(selector("app", app)),
        disruptions_allowed: i32::from(!blocks_always),
        blocks_always,
        ..PodDisruptionBudget::default()
    };
    world.budgets = vec![guard("never", "a", true), guard("one", "b", false), guard("two", "b", false)];
    world.pools[0].disruption.budgets = vec![
        budget(BudgetNodes::Count(1)),
        Budget { reasons: vec![DisruptionReason::Drifted], ..budget(BudgetNodes::Count(0)) },
    ];
    let events = world.decide().events;
    let stated = |kind: &str, name: &str, part: &str| {
        let found = events
            .iter()
            .any(|event| event.object.kind == kind && event.object.name == name && event.message.contains(part));
        assert!(found, "nothing about {part} on {kind} {name}: {events:#?}");
    };
    stated("NodePool", "default", "budgets[1] admits no node for Drifted at any time");
    stated("PodDisruptionBudget", "never", "It never allows an eviction");
    stated("Pod", "b", "PodDisruptionBudgets one and two cover this pod");
    stated("Node", "node-00001", "NodePool gone does not exist");
}

#[test]
fn capacity_is_kept_for_the_pods_of_a_draining_node_until_a_budget_has_held_them_for_long() {
    let blocked = |allowed: i32, minutes: i64| {
        let mut world = TestCluster::new(vec![node_pool("default")]);
        let draining = world.on_demand("c9.large", vec![labelled(pod("db", 1500, 1024), "app", "db")]);
        draining.claim.phase = Phase::Draining;
        draining.claim.status.drain_started = Some(now() - SignedDuration::from_mins(minutes));
        world.on_demand("c9.large", Vec::new());
        world.budgets = vec![PodDisruptionBudget {
            namespace: "default".into(),
            name: "db".into(),
            selector: Some(selector("app", "db")),
            disruptions_allowed: allowed,
            ..PodDisruptionBudget::default()
        }];
        world
    };
    let stays = "pod default/db";
    for (allowed, minutes) in [(0, 9), (1, 9), (1, 60)] {
        let world = blocked(allowed, minutes);
        assert!(world.kept(1).contains(stays), "{allowed} allowed, {minutes} minutes: {}", world.kept(1));
    }
    let goes = |world: &TestCluster| world.decide().commands[0].candidates[0].node == "node-00001";
    assert!(goes(&blocked(0, 10)));
    // The Eviction API refuses a pod that two budgets cover, whatever they allow.
    let mut twice = blocked(1, 1);
    let second = PodDisruptionBudget { name: "db-too".into(), ..twice.budgets[0].clone() };
    twice.budgets.push(second);
    assert!(goes(&twice));
    // A pod that is not ready may be evicted where the budget reports it.
    let mut unhealthy = blocked(0, 60);
    unhealthy.budgets[0].always_allows_unhealthy = true;
    unhealthy.places[0].pods[0].ready = Some(false);
    assert!(unhealthy.kept(1).contains(stays), "{}", unhealthy.kept(1));
}

/// Kubernetes deletes the pods of a node that is gone after a while, and their owners make them again.
#[test]
fn a_node_stays_for_the_pods_of_a_node_that_is_gone() {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.on_demand("m9.large", Vec::new());
    let orphan = pod("a", 500, 512);
    let mut cluster = world.cluster();
    assert_eq!(decide(&cluster, now(), &world.options).commands[0].method, Method::Emptiness);
    cluster.orphans = vec![&orphan];
    let decision = decide(&cluster, now(), &world.options);
    assert_eq!(decision.commands, []);
    assert_eq!(decision.kept[0].reasons, [KeptReason::MovingPod("default/a".into())]);
}
