//! Preferences are kept by consolidation.

use crate::support::first_node::held;
use crate::support::preferences::{preferred, soft_spread, web};
use crate::support::*;
use nodeless_disruption::*;
use nodeless_model::pod::Weighted;
use nodeless_model::requirement::RequirementTerm;
use nodeless_model::*;
use nodeless_scheduling::PreferencePolicy;

/// A node in each of the zones, with one pod each.
fn one_in_each_zone(pods: [Pod; 3]) -> TestCluster {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    for (zone, pod) in ZONES.iter().zip(pods) {
        world.node("default", "c9.large", CapacityType::OnDemand, zone, vec![pod]);
    }
    world
}

#[test]
fn consolidation_keeps_a_spread_over_zones_that_is_only_preferred() {
    let spread = |name: &str| {
        let mut pod = labelled(pod(name, 100, 128), "app", "web");
        pod.template_mut().topology_spread = soft_spread(labels::ZONE, "web");
        pod
    };
    let mut world = one_in_each_zone(["a", "b", "c"].map(spread));
    assert_eq!(world.decide().commands, Vec::new());
    assert!(world.kept(0).contains("topology.kubernetes.io/zone"), "{}", world.kept(0));
    world.options.scheduling.preferences = PreferencePolicy::Ignore;
    assert_eq!(world.decide().commands.iter().map(|command| command.candidates.len()).sum::<usize>(), 2);
}

#[test]
fn consolidation_keeps_hosts_apart_that_are_apart() {
    let apart = |name: &str| {
        let mut pod = labelled(pod(name, 100, 128), "app", "web");
        pod.template_mut().preferred_pod_anti_affinity = preferred(labels::HOSTNAME, "web");
        pod
    };
    let mut world = one_in_each_zone(["a", "b", "c"].map(apart));
    assert_eq!(world.decide().commands, Vec::new());
    // Pods that share a node already lose nothing when they share another.
    world.places[0].pods.extend(["d", "e"].map(apart));
    world.places[1].pods = vec![labelled(pod("other", 100, 128), "app", "other")];
    world.places[2].pods = vec![labelled(pod("another", 100, 128), "app", "other")];
    assert_eq!(world.decide().commands.iter().map(|command| command.candidates.len()).sum::<usize>(), 2);
}

#[test]
fn consolidation_keeps_pods_near_those_that_they_prefer() {
    let mut near = labelled(pod("near", 100, 128), "app", "near");
    near.template_mut().preferred_pod_affinity = preferred(labels::ZONE, "cache");
    let mut world = TestCluster::new(vec![node_pool("default")]);
    first_node::going(&mut world, ZONES[0], vec![near]);
    first_node::full(&mut world, ZONES[0], vec![first_node::app("cache", "cache")]);
    first_node::staying(&mut world, ZONES[1], Vec::new());
    assert_goes_only_without_preferences(world);
}

/// The first node is removed if preferences are ignored, and only then.
fn assert_goes_only_without_preferences(mut world: TestCluster) {
    assert!(!first_node::goes(&world), "{:#?}", world.decide().commands);
    world.options.scheduling.preferences = PreferencePolicy::Ignore;
    assert!(first_node::goes(&world), "{:#?}", world.decide().kept);
}

#[test]
fn consolidation_keeps_a_spread_over_hosts_that_is_only_preferred() {
    let spread = |name: &str| {
        first_node::web(name).with_template(|it| it.topology_spread = soft_spread(labels::HOSTNAME, "web"))
    };
    let mut world = TestCluster::new(vec![node_pool("default")]);
    first_node::going(&mut world, ZONES[0], vec![spread("a")]);
    first_node::staying(&mut world, ZONES[0], vec![spread("b")]);
    first_node::full(&mut world, ZONES[0], Vec::new());
    assert_goes_only_without_preferences(world);
}

#[test]
fn consolidation_keeps_zones_apart_that_are_apart() {
    let apart = |name: &str| {
        first_node::web(name).with_template(|it| it.preferred_pod_anti_affinity = preferred(labels::ZONE, "web"))
    };
    let mut world = TestCluster::new(vec![node_pool("default")]);
    first_node::going(&mut world, ZONES[0], vec![apart("a")]);
    first_node::staying(&mut world, ZONES[1], vec![apart("b")]);
    assert_goes_only_without_preferences(world);
}

#[test]
fn consolidation_keeps_preferred_nodes() {
    let mut choosy = pod("choosy", 100, 128);
    let preference = vec![RequirementTerm {
        key: labels::ZONE.into(),
        operator: Operator::In,
        values: vec![ZONES[1].into()],
        min_values: None,
    }];
    choosy.template_mut().preferred_node_affinity = vec![Weighted { weight: 1, preference }];
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.node("default", "c9.large", CapacityType::OnDemand, ZONES[0], vec![held(pod("a", 1500, 2000))]);
    world.node("default", "c9.large", CapacityType::OnDemand, ZONES[1], vec![choosy.clone()]);
    assert_eq!(world.decide().commands, Vec::new());
    // Where it is not met, there is nothing to keep.
    world.places.clear();
    world.node("default", "c9.large", CapacityType::OnDemand, ZONES[0], vec![held(pod("a", 1500, 2000))]);
    world.node("default", "c9.large", CapacityType::OnDemand, ZONES[2], vec![choosy]);
    assert_eq!(world.decide().commands.len(), 1);
}

#[test]
fn consolidation_moves_nothing_to_nodes_that_would_rather_not_have_it() {
    let mut world = TestCluster::new(vec![node_pool("default"), node_pool("spare")]);
    let taint = Taint { key: "spare".into(), value: String::new(), effect: TaintEffect::PreferNoSchedule };
    world.pools[1].template.taints.push(taint);
    world.node("default", "c9.large", CapacityType::OnDemand, ZONES[0], vec![pod("a", 100, 128)]);
    world.node("spare", "c9.large", CapacityType::OnDemand, ZONES[0], vec![held(pod("b", 1500, 2000))]);
    assert!(!first_node::goes(&world));
    assert!(world.kept(0).contains("does not tolerate the taint spare:PreferNoSchedule"), "{}", world.kept(0));
    world.pools[1].template.taints.clear();
    world.places[1].node.taints.clear();
    world.places[1].claim.spec.taints.clear();
    assert!(first_node::goes(&world));
}

#[test]
fn a_command_is_dropped_when_it_would_break_a_preference_by_now() {
    let spread = |name: &str| {
        let mut pod = labelled(pod(name, 100, 128), "app", "web");
        pod.template_mut().topology_spread = soft_spread(labels::ZONE, "web");
        pod
    };
    let mut world = one_in_each_zone(["a", "b", "c"].map(spread));
    world.options.scheduling.preferences = PreferencePolicy::Ignore;
    let command = world.decide().commands.remove(0);
    assert!(revalidate(&command, &world.cluster(), now(), &world.options).is_some());
    world.options.scheduling.preferences = PreferencePolicy::Respect;
    assert_eq!(revalidate(&command, &world.cluster(), now(), &world.options), None);
}

#[test]
fn a_node_that_stays_for_a_preference_reports_it() {
    let mut world = one_in_each_zone([web("a"), web("b"), held(web("c"))]);
    world.options.explain = true;
    let stated = world.kept(0);
    let reported = "the preferences of pod default/a that its node meets are required of any other node";
    assert!(stated.contains(reported), "{stated}");
    let reported = node_details(&world.cluster(), "node-00000", now(), &world.options).unwrap();
    let elsewhere = reported.elsewhere.expect("the pod fits on no other node");
    assert_eq!(elsewhere.pod, "default/a");
    world.options.scheduling.preferences = PreferencePolicy::Ignore;
    let reported = format!("{:?}", world.decide().kept);
    assert!(!reported.contains("prefers"), "{reported}");
    assert_eq!(node_details(&world.cluster(), "node-00000", now(), &world.options).unwrap().elsewhere, None);
}
