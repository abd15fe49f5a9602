//! Preferences are kept by plans and by their refinement.

use crate::support::preferences::{preferred, soft_spread, web};
use crate::support::*;
use nodeless_model::*;
use nodeless_placement::{Policy, plan};
use nodeless_scheduling::{PreferencePolicy, Problem, Solution};
use std::collections::BTreeSet;

fn planned(world: &TestCluster, pods: &[Pod]) -> Solution {
    let cluster = world.cluster();
    let problem = Problem { pods: pods.iter().collect(), node_pools: cluster.node_pools.clone(), ..Problem::default() };
    plan(&problem, &Policy::new(&world.options.scheduling, true))
}

#[test]
fn a_plan_and_its_second_look_keep_pods_apart_that_prefer_it() {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    let pods = [web("a"), web("b"), web("c")];
    let solution = planned(&world, &pods);
    let zones: BTreeSet<&str> = solution.launches.iter().map(|launch| launch.offering.zone.as_str()).collect();
    assert_eq!((solution.launches.len(), zones.len()), (3, 3), "{solution:#?}");

    // Two replicas of a DNS server.
    let dns = [0, 1].map(|index| {
        let mut pod = labelled(pod(&format!("coredns-{index}"), 100, 70), "app", "dns");
        pod.template_mut().preferred_pod_anti_affinity = preferred(labels::HOSTNAME, "dns");
        pod
    });
    assert_eq!(planned(&world, &dns).launches.len(), 2);
    world.options.scheduling.preferences = PreferencePolicy::Ignore;
    assert_eq!(planned(&world, &dns).launches.len(), 1);
}

#[test]
fn a_preference_that_cannot_be_met_is_given_up() {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.pools[0].limits = ResourceList::from([("nodes", Quantity::from_units(2))]);
    let solution = planned(&world, &[web("a"), web("b"), web("c")]);
    assert_eq!((solution.launches.len(), solution.unschedulable.len()), (2, 0), "{solution:#?}");
}

/// The price of a plan that places all pods.
fn price(world: &TestCluster, pods: &[Pod]) -> f64 {
    let solution = planned(world, pods);
    assert!(solution.unschedulable.is_empty(), "{solution:#?}");
    solution.launches.iter().map(|launch| launch.offering.price).sum()
}

#[test]
fn a_spread_over_zones_that_cannot_be_met_costs_nothing() {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    let spread = |index: usize| {
        let mut pod = labelled(pod(&format!("web-{index}"), 2000, 2000), "app", "web");
        pod.template_mut().topology_spread = soft_spread(labels::ZONE, "web");
        pod
    };
    let pods: Vec<Pod> = (0..6).map(spread).collect();
    let assert_costs_nothing = |world: &mut TestCluster, what: &str| {
        world.options.scheduling.preferences = PreferencePolicy::Ignore;
        let ignored = price(world, &pods);
        world.options.scheduling.preferences = PreferencePolicy::Respect;
        let respected = price(world, &pods);
        assert!(respected <= ignored + 1e-9, "{what}: {respected} instead of {ignored}");
    };
    assert_costs_nothing(&mut world, "all zones");
    world.pools[0].limits = ResourceList::from([("cpu", Quantity::from_units(12))]);
    assert_costs_nothing(&mut world, "a limit of what the pods request");
    world.pools[0].limits = ResourceList::new();
    for zones in [1, 2] {
        let mut types = world.types.to_vec();
        let offerings = types.iter_mut().flat_map(|kind| &mut kind.offerings);
        offerings.for_each(|offering| offering.available = ZONES[..zones].contains(&offering.zone.as_str()));
        world.types = types.into();
        assert_costs_nothing(&mut world, "few zones");
    }
}
