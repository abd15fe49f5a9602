//! `nodeless.sh/min-savings-per-hour`: consolidation commands that save less are not made.

use crate::support::*;
use nodeless_disruption::*;
use nodeless_model::labels;

fn world(minimum: &str) -> TestCluster {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.pools[0].options.set(labels::MIN_SAVINGS, Some(minimum));
    world
}

/// A node that costs $0.08 and whose pod fits on another, for which there is no cheaper one.
fn removable(minimum: &str) -> TestCluster {
    let mut world = world(minimum);
    world.on_demand("c9.large", vec![pod("a", 1000, 1024)]);
    world.on_demand("m9.xlarge", vec![pod("b", 2900, 13 * 1024)]);
    world
}

fn removed(world: &TestCluster) -> usize {
    world.decide().commands.iter().map(|command| command.candidates.len()).sum()
}

#[test]
fn a_node_is_removed_if_that_saves_enough() {
    assert_eq!([removed(&removable("0")), removed(&removable("0.08")), removed(&removable("0.0801"))], [1, 1, 0]);
    assert_eq!(
        removable("0.1").kept(0),
        "at most $0.0800/h would be saved, and NodePool default requires at least $0.1000/h (nodeless.sh/min-savings-per-hour)"
    );
}

#[test]
fn a_node_is_replaced_if_that_saves_enough() {
    let replaceable = |minimum: &str| {
        let mut world = world(minimum);
        world.on_demand("m9.4xlarge", vec![pod("a", 1300, 5 * 1024)]);
        world
    };
    // By one that costs $0.10 in place of $0.80.
    assert_eq!([removed(&replaceable("0.7")), removed(&replaceable("0.75"))], [1, 0]);
    let why = replaceable("0.75").kept(0);
    assert!(
        why.contains("at most $0.7000/h would be saved, and NodePool default requires at least $0.7500/h"),
        "{why}"
    );
}

#[test]
fn several_nodes_are_replaced_if_together_they_save_enough() {
    let group = |minimum: &str| {
        let mut world = world(minimum);
        for node in 0..5 {
            let pods = (0..3).map(|index| pod(&format!("{node}-{index}"), 100, 5 * 1024)).collect();
            world.on_demand("c9.2xlarge", pods);
        }
        world
    };
    let decision = group("0").decide();
    let most = decision.commands.iter().map(|command| command.savings_per_hour).fold(0.0, f64::max);
    let cheaper = group(&format!("{most:.6}"));
    assert_eq!(cheaper.decide().commands[0].method, Method::MultiNodeConsolidation);
    assert_eq!(removed(&group("1.7")), 0);
}

#[test]
fn nothing_is_consolidated_while_the_annotation_is_invalid() {
    let world = removable("much");
    assert_eq!(
        world.kept(0),
        "annotation nodeless.sh/min-savings-per-hour of NodePool default is invalid, so no node of it is consolidated"
    );
}

#[test]
fn empty_and_drifted_nodes_go_whatever_they_save() {
    for minimum in ["100", "much"] {
        let mut world = removable(minimum);
        world.places[0].pods.clear();
        assert_eq!(world.decide().commands[0].method, Method::Emptiness);
        let mut world = removable(minimum);
        world.pools[0].hash = "hash-2".into();
        assert_eq!(world.decide().commands[0].method, Method::Drift);
    }
}

#[test]
fn a_proposal_is_dropped_once_it_saves_too_little() {
    let mut world = removable("0.08");
    let decision = world.decide();
    let later = now() + VALIDATION_DELAY;
    let again = |world: &TestCluster| revalidate(&decision.commands[0], &world.cluster(), later, &world.options);
    assert!(again(&world).is_some());
    world.pools[0].options.set(labels::MIN_SAVINGS, Some("0.09"));
    assert_eq!(again(&world), None);
}
