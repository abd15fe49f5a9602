//! Nodes that commitments cover: consolidation saves what is no longer paid.

use crate::support::first_node::{FIRST, held, web};
use crate::support::*;
use nodeless_commitments::{Commitments, Instance, ReservedInstances, SavingsPlan};
use nodeless_disruption::*;
use nodeless_model::*;

/// Small nodes whose pods fit on a large one.
fn small_beside_large(small: usize) -> TestCluster {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    for number in 0..small {
        world.on_demand("c9.large", vec![web(&format!("mover-{number}"))]);
    }
    world.on_demand("c9.16xlarge", vec![held(pod("filler", 60_000, 512))]);
    world
}

/// A node of a NodePool that may launch spot nodes.
fn one_of_spot_pool() -> TestCluster {
    let mut world = TestCluster::new(vec![test_support::node_pool("default")]);
    world.pools[0].disruption.budgets = node_pool("default").disruption.budgets;
    world.pools[0].hash = node_pool("default").hash;
    world.on_demand("c9.large", vec![web("web")]);
    world
}

fn reserved(zone: Option<&str>, count: f64) -> Commitments {
    let own = ReservedInstances {
        id: "ri".into(),
        instance_type: "c9.large".into(),
        count,
        zone: zone.map(str::to_owned),
        dollars_per_hour: count * 0.05,
    };
    Commitments { reserved: vec![own], ..Commitments::default() }
}

fn savings_plan(dollars_per_hour: f64) -> Commitments {
    let rates = [("c9.large".to_owned(), 0.05)].into();
    let own = SavingsPlan { id: "sp".into(), family: None, dollars_per_hour, rates };
    Commitments { plans: vec![own], ..Commitments::default() }
}

fn with_commitments<'a>(world: &'a TestCluster, commitments: &'a Commitments) -> Cluster<'a> {
    let mut cluster = world.cluster();
    cluster.commitments = Some(commitments);
    for node in &mut cluster.nodes {
        let launched = node.claim.and_then(|claim| claim.status.instance.as_ref()).unwrap();
        node.instance = Some(Instance {
            instance_type: launched.instance_type.clone(),
            zone: launched.zone.clone(),
            capacity_type: launched.capacity_type,
            linux: true,
            price: Some(launched.price),
        });
    }
    cluster
}

fn decided(world: &TestCluster, commitments: &Commitments) -> Decision {
    decide(&with_commitments(world, commitments), now(), &world.options)
}

fn going(decision: &Decision) -> usize {
    decision.commands.iter().map(|command| command.candidates.len()).sum()
}

#[test]
fn a_node_that_is_prepaid_is_not_removed_for_nothing() {
    let world = small_beside_large(1);
    assert_eq!(going(&world.decide()), 1, "by its price");
    let kept = decided(&world, &reserved(Some(ZONES[0]), 1.0));
    assert_eq!(going(&kept), 0);
    let reasons = &kept.kept.iter().find(|kept| kept.node == FIRST).unwrap().reasons;
    assert!(matches!(reasons[..], [KeptReason::PaidNoLess { .. }]), "{reasons:?}");
    assert_eq!(
        reasons[0].to_string(),
        "it costs $0.0800/h without commitments, and with them no less would be paid for all nodes without it"
    );
    assert_eq!(going(&decided(&world, &reserved(Some(ZONES[1]), 1.0))), 1, "of another zone");
}

#[test]
fn a_node_goes_if_another_one_uses_its_commitment() {
    // The regional Reserved Instance covers a part of the large node then.
    let decision = decided(&small_beside_large(1), &reserved(None, 1.0));
    assert_eq!(going(&decision), 1);
    assert!((decision.commands[0].savings_per_hour - 0.08).abs() < 1e-9, "{decision:?}");
    // One is covered, whichever.
    assert_eq!(going(&decided(&small_beside_large(3), &reserved(Some(ZONES[0]), 1.0))), 2);
}

#[test]
fn a_covered_node_is_not_replaced_by_spot() {
    let world = one_of_spot_pool();
    let by_price = world.decide();
    assert_eq!(by_price.commands[0].replacements.len(), 1, "{by_price:?}");
    assert_eq!(going(&decided(&world, &savings_plan(0.05))), 0);
    // A tenth of it is covered: spot costs less than the rest.
    let in_part = decided(&world, &savings_plan(0.005));
    assert_eq!(going(&in_part), 1);
    let saving = in_part.commands[0].savings_per_hour;
    let price = in_part.commands[0].replacements[0].launch.offering.price;
    assert!((saving - (0.072 - price)).abs() < 1e-9, "{saving} for {price}");
}

#[test]
fn a_proposal_is_dropped_once_its_nodes_are_covered() {
    for world in [small_beside_large(1), one_of_spot_pool()] {
        let decision = world.decide();
        let [command] = &decision.commands[..] else { panic!("{decision:?}") };
        let now = now() + VALIDATION_DELAY;
        let covering = [reserved(Some(ZONES[0]), 1.0), Commitments::default()];
        let again = covering.map(|all| revalidate(command, &with_commitments(&world, &all), now, &world.options));
        assert!(again[0].is_none(), "{again:?}");
        let valid = again[1].as_ref().expect("nothing covers it");
        assert!((valid.savings_per_hour - command.savings_per_hour).abs() < 1e-9);
    }
}

#[test]
fn empty_nodes_go_whatever_covers_them() {
    let mut world = small_beside_large(1);
    world.places[0].pods.clear();
    assert_eq!(decided(&world, &reserved(Some(ZONES[0]), 1.0)).commands[0].method, Method::Emptiness);
}
