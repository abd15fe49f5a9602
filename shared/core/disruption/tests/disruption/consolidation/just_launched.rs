//! Nodes that were launched within the last hour are disrupted only for savings of a tenth of their price.

use crate::support::first_node::{FIRST, goes, held, web};
use crate::support::*;
use nodeless_disruption::KeptReason;
use nodeless_model::*;

/// The age in seconds at which a node no longer counts as just launched.
const HOUR: i64 = 3600;

/// A small node whose pod fits on a large one in a NodePool of this name. Both nodes have this age in seconds, and the pods that
/// they were launched for.
fn launched_with(large_node_pool: &str, age: i64) -> TestCluster {
    let mut world = TestCluster::new(vec![node_pool("default"), node_pool("other")]);
    world.node("default", "c9.large", CapacityType::OnDemand, ZONES[0], vec![web("mover")]);
    let filler = vec![held(pod("filler", 60_000, 512))];
    world.node(large_node_pool, "c9.16xlarge", CapacityType::OnDemand, ZONES[0], filler);
    for place in &mut world.places {
        place.claim.created = at(7200 - age);
        place.claim.spec.nominated_pods = place.pods.iter().map(Pod::key).collect();
    }
    world
}

#[test]
fn small_savings_wait_for_the_end_of_the_hour() {
    assert!(goes(&launched_with("default", HOUR)));
    let young = launched_with("default", HOUR - 1);
    assert!(!goes(&young));
    let decision = young.decide();
    let kept = decision.kept.iter().find(|kept| kept.node == FIRST).unwrap();
    let until_of = |reason: &KeptReason| match reason {
        KeptReason::JustLaunched { saving, min_saving, until } => {
            assert!(*saving < *min_saving && (*min_saving - 0.264).abs() < 1e-9, "{reason:?}");
            Some(*until)
        }
        _ => None,
    };
    assert_eq!(kept.reasons.iter().find_map(until_of), Some(at(7201)), "{kept:?}");
}

#[test]
fn a_node_without_the_pods_that_it_was_launched_for_goes_at_once() {
    let mut world = launched_with("default", HOUR / 2);
    assert!(!goes(&world));
    world.places[0].claim.spec.nominated_pods.push("default/gone".into());
    assert!(goes(&world));
    world.places[0].claim.spec.nominated_pods.clear();
    assert!(goes(&world), "it was not launched for pods");
}

#[test]
fn pods_may_run_on_any_just_launched_node_of_the_node_pool() {
    let exchanged = |node_pool: &str| {
        let mut world = launched_with(node_pool, HOUR / 2);
        let mover = std::mem::take(&mut world.places[0].claim.spec.nominated_pods);
        world.places[0].claim.spec.nominated_pods =
            std::mem::replace(&mut world.places[1].claim.spec.nominated_pods, mover);
        world
    };
    assert!(!goes(&exchanged("default")), "the kube-scheduler bound each pod to the other node");
    assert!(goes(&exchanged("other")), "its pod runs in another NodePool");
    let mut world = exchanged("default");
    world.places[1].claim.created = at(7200 - HOUR);
    assert!(goes(&world), "its pod runs on an older node, so it was not necessary");
}

#[test]
fn pods_that_are_not_bound_yet_count_like_those_that_run() {
    let mut world = launched_with("default", HOUR / 2);
    world.places[0].claim.spec.nominated_pods.push("default/late".into());
    assert!(goes(&world), "the pod does not exist any more");
    // It fits on no node, so it keeps none by itself.
    world.pending.push(pod("late", 1_000_000, 512));
    assert!(!goes(&world));
}

#[test]
fn the_savings_are_compared_with_the_launched_nodes_of_the_same_node_pool() {
    assert!(!goes(&launched_with("default", HOUR / 2)));
    assert!(goes(&launched_with("other", HOUR / 2)));
    // The large node is no longer one of those that were just launched.
    let mut world = launched_with("default", HOUR / 2);
    world.places[1].claim.created = at(7200 - HOUR);
    assert!(goes(&world));
}
