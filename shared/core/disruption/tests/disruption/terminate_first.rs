//! `nodeless.sh/terminate-first`: a drifted or unhealthy node leaves its place in a full capacity reservation to its replacement.

use crate::support::*;
use jiff::SignedDuration;
use nodeless_disruption::*;
use nodeless_model::node_pool::BudgetNodes;
use nodeless_model::*;
use std::time::Duration;

/// Drifted nodes that their pods fill, in a full capacity reservation, of a NodePool that uses nothing else and asks to terminate first.
fn pinned(nodes: u32) -> TestCluster {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    let reserved = Requirement::one_of(["reserved"]);
    world.pools[0].template.requirements = Requirements::from([(labels::CAPACITY_TYPE, reserved)]);
    world.pools[0].options.set(labels::TERMINATE_FIRST, Some("drift"));
    reserve(&mut world, 0, Reuse::Owned { used: nodes });
    for node in 0..nodes {
        let pods = vec![labelled(pod(&format!("web-{node}"), 1900, 3500), "app", "web")];
        let place = world.node("default", "c9.large", CapacityType::Reserved, ZONES[0], pods);
        place.claim.status.instance.as_mut().unwrap().reservation_id = Some("cr-1".into());
    }
    world.pools[0].hash = "hash-2".into();
    world
}

/// A capacity reservation of c9.large.
fn reserve(world: &mut TestCluster, remaining: u32, reuse: Reuse) {
    let mut types = catalog().to_vec();
    let kind = types.iter_mut().find(|kind| kind.name == "c9.large").unwrap();
    kind.requirements.remove(labels::CAPACITY_TYPE);
    kind.requirements.add(labels::CAPACITY_TYPE, Requirement::one_of(["on-demand", "spot", "reserved"]));
    kind.offerings.push(Offering {
        capacity_type: CapacityType::Reserved,
        price: 1e-8,
        available: remaining > 0,
        reservation: Some(Reservation { id: "cr-1".into(), remaining, each: 1, reuse }),
        requirements: Requirements::from([(labels::CAPACITY_RESERVATION_ID, Requirement::one_of(["cr-1"]))]),
        ..kind.offerings[0].clone()
    });
    world.types = types.into();
}

fn going(decision: &Decision) -> Vec<&str> {
    decision.commands.iter().flat_map(|command| &command.candidates).map(|candidate| candidate.node.as_str()).collect()
}

/// Why the first node stays; nothing is disrupted.
fn stays(world: &TestCluster) -> String {
    assert_eq!(world.decide().commands, []);
    world.kept(0)
}

#[test]
fn a_drifted_node_goes_first_if_its_replacement_fits_only_in_its_place() {
    let world = pinned(1);
    let decision = world.decide();
    assert_eq!(going(&decision), ["node-00000"]);
    let command = &decision.commands[0];
    assert!(command.drains_first && command.replacements.is_empty() && command.placements.is_empty(), "{command:#?}");
    let later = now() + SignedDuration::from_secs(15);
    assert_eq!(revalidate(command, &world.cluster(), later, &world.options).as_ref(), Some(command));
    let summary = command::CommandRecord::propose(command.clone()).summary();
    assert!(
        summary.contains("their capacity reservation is full, so their replacements are launched once"),
        "{summary}"
    );
}

#[test]
fn a_node_pool_has_to_ask_for_it_and_the_reason_states_how() {
    for value in [None, Some("ignore"), Some("true")] {
        let mut world = pinned(1);
        world.pools[0].options.set(labels::TERMINATE_FIRST, value);
        let why = stays(&world);
        for part in [
            "cannot be scheduled elsewhere",
            "capacity reservation cr-1 is full",
            "set the annotation nodeless.sh/terminate-first: drift on NodePool default",
        ] {
            assert!(why.contains(part), "{value:?}: {why}");
        }
    }
}

#[test]
fn an_unhealthy_node_goes_first_if_its_node_pool_asks_for_that() {
    let mut world = pinned(1);
    world.pools[0].hash = "hash-1".into();
    world.options.node_repair = true;
    world.places[0].node.conditions.push(node::NodeCondition {
        kind: "KernelReady".into(),
        status: Some(false),
        since: Some(at(0)),
        reason: String::new(),
    });
    let why = stays(&world);
    assert!(why.contains("set the annotation nodeless.sh/terminate-first: repair on NodePool default"), "{why}");
    for value in ["repair", "drift,repair"] {
        world.pools[0].options.set(labels::TERMINATE_FIRST, Some(value));
        let command = world.decide().commands.remove(0);
        assert!(command.method == Method::Repair && command.drains_first && command.repair.is_some(), "{command:#?}");
    }
    // Without another place for its pods, not even for a while, a pod that may not be evicted keeps its node.
    world.budgets = vec![PodDisruptionBudget {
        namespace: "default".into(),
        name: "web".into(),
        selector: Some(selector("app", "web")),
        ..PodDisruptionBudget::default()
    }];
    let why = stays(&world);
    assert!(why.contains("not terminated first") && why.contains("PodDisruptionBudget default/web"), "{why}");
}

#[test]
fn a_place_that_others_could_take_is_kept() {
    // Of another account, of an owner that may reclaim it, and with an instance outside of the cluster.
    for reuse in [Reuse::Shared, Reuse::Owned { used: 2 }] {
        for asks in [Some("drift"), None] {
            let mut world = pinned(1);
            world.pools[0].options.set(labels::TERMINATE_FIRST, asks);
            reserve(&mut world, 0, reuse);
            let why = stays(&world);
            assert!(why.contains("not terminated first") && why.contains("others could take its place"), "{why}");
            assert!(!why.contains("set the annotation"), "{why}");
        }
    }
    // Nothing can be launched into the reservation.
    let mut world = pinned(1);
    reserve(&mut world, 0, Reuse::No);
    let why = stays(&world);
    assert!(why.contains("cannot be scheduled elsewhere") && !why.contains("terminated first"), "{why}");
}

#[test]
fn a_disruption_budget_of_pods_at_its_limit_keeps_the_node_whatever_ends_its_drain() {
    let mut world = pinned(1);
    world.budgets = vec![PodDisruptionBudget {
        namespace: "default".into(),
        name: "web".into(),
        selector: Some(selector("app", "web")),
        ..PodDisruptionBudget::default()
    }];
    let why = stays(&world);
    assert!(why.contains("PodDisruptionBudget default/web"), "{why}");
    // With a grace period, it does not keep a drifted node whose replacement is launched first.
    world.places[0].claim.spec.termination_grace_period = Some(Duration::from_hours(1));
    let why = stays(&world);
    assert!(why.contains("not terminated first") && why.contains("PodDisruptionBudget default/web"), "{why}");
    world.budgets[0].disruptions_allowed = 1;
    assert_eq!(going(&world.decide()), ["node-00000"]);
}

#[test]
fn disruption_budgets_hold() {
    let mut world = pinned(1);
    world.pools[0].disruption.budgets = vec![budget(BudgetNodes::Count(0))];
    let why = stays(&world);
    assert!(why.contains("allow 0 at once for Drifted"), "{why}");
}

#[test]
fn one_node_of_a_node_pool_goes_at_a_time() {
    let mut world = pinned(2);
    let decision = world.decide();
    assert_eq!(going(&decision), ["node-00000"]);
    assert!(world.kept(1).contains("other nodes are disrupted first"), "{}", world.kept(1));
    let cluster = world.cluster_during(decision.commands.iter());
    assert_eq!(decide(&cluster, now(), &world.options).commands, []);
    // It is terminating, or its replacement has not joined yet.
    world.places[0].claim.phase = Phase::Draining;
    assert_eq!(world.decide().commands, []);
    world.places[0].claim.phase = Phase::Registered;
    world.places[0].node.labels.remove(labels::INITIALIZED);
    assert_eq!(world.decide().commands, []);
    // Its place is free, and the number of instances is that of before.
    let gone = world.places.remove(0);
    assert!(stays(&world).contains("others could take its place"), "{}", world.kept(0));
    // Its pod waits for the place.
    reserve(&mut world, 0, Reuse::Owned { used: 1 });
    world.pending = gone.pods.into_iter().map(|pod| Pod { node_name: None, ..pod }).collect();
    assert!(stays(&world).contains("cannot be scheduled elsewhere"), "{}", world.kept(0));
}

#[test]
fn a_replacement_that_fits_elsewhere_comes_first() {
    let replaced_first = |world: &TestCluster| {
        let decision = world.decide();
        let [command] = &decision.commands[..] else { panic!("{decision:#?}") };
        assert!(!command.drains_first, "{command:#?}");
        command.replacements[0].launch.offering.capacity_type
    };
    let mut world = pinned(1);
    world.pools.push(node_pool("other"));
    assert_eq!(replaced_first(&world), CapacityType::OnDemand);
    let mut world = pinned(1);
    reserve(&mut world, 1, Reuse::Owned { used: 1 });
    assert_eq!(replaced_first(&world), CapacityType::Reserved);
}

#[test]
fn a_limit_and_a_full_reservation_have_the_same_place() {
    let mut world = pinned(1);
    world.pools[0].limits = ResourceList::from([("nodes", Quantity::from_units(1))]);
    let decision = world.decide();
    assert!(going(&decision) == ["node-00000"] && decision.commands[0].drains_first, "{decision:#?}");
    // The limit allows no node, even without this one.
    world.pools[0].limits = ResourceList::from([("nodes", Quantity::ZERO)]);
    assert!(stays(&world).contains("cannot be scheduled elsewhere"), "{}", world.kept(0));
}

#[test]
fn a_static_node_pool_replaces_its_nodes_in_their_places_one_after_the_other() {
    let mut world = pinned(2);
    world.pools[0].replicas = Some(2);
    let decision = world.decide();
    assert_eq!(going(&decision), ["node-00000"]);
    let command = &decision.commands[0];
    assert!(command.drains_first && command.method == Method::StaticDrift && command.replacements.is_empty());
    assert!(world.kept(1).contains("cannot launch a replacement"), "{}", world.kept(1));
    let cluster = world.cluster_during(decision.commands.iter());
    assert_eq!(decide(&cluster, now(), &world.options).commands, []);
    world.pools[0].options.set(labels::TERMINATE_FIRST, None);
    assert!(stays(&world).contains("set the annotation nodeless.sh/terminate-first"), "{}", world.kept(0));
}
