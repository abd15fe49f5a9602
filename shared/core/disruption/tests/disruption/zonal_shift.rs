//! Zones that the cluster is shifted away from: their nodes stay, and nothing is sent there.

use crate::support::*;
use jiff::{SignedDuration, Timestamp};
use nodeless_disruption::repair::{Verdict, unhealthy};
use nodeless_disruption::*;
use nodeless_model::node::NodeCondition;
use nodeless_model::node_pool::BudgetNodes;
use nodeless_model::*;

/// A world with a node in each of two zones.
fn world(first: Vec<Pod>, second: Vec<Pod>) -> TestCluster {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.node("default", "m9.large", CapacityType::OnDemand, ZONES[0], first);
    world.node("default", "m9.xlarge", CapacityType::OnDemand, ZONES[1], second);
    world
}

fn until() -> Timestamp {
    now() + SignedDuration::from_mins(30)
}

fn away_from<'w>(world: &'w TestCluster, zone: &str) -> Cluster<'w> {
    Cluster { shifted_zones: [(zone.to_owned(), until())].into(), ..world.cluster() }
}

fn going(decision: &Decision) -> Vec<&str> {
    decision.commands.iter().flat_map(|command| &command.candidates).map(|one| one.node.as_str()).collect()
}

#[test]
fn nodes_of_the_zone_stay_empty_drifted_or_not() {
    let mut world = world(Vec::new(), Vec::new());
    assert_eq!(going(&world.decide()), ["node-00000", "node-00001"]);
    let decide = |world: &TestCluster| decide(&away_from(world, ZONES[0]), now(), &world.options);
    let decision = decide(&world);
    assert_eq!(going(&decision), ["node-00001"]);
    assert_eq!(decision.kept[0].reasons, [KeptReason::ZonalShift { zone: ZONES[0].into(), until: until() }]);
    let stated = decision.kept[0].reasons[0].to_string();
    assert!(stated.starts_with(&format!("a zonal shift away from {} is in effect until", ZONES[0])), "{stated}");

    world.pools[0].hash = "hash-2".into();
    world.places[0].pods = vec![pod("a", 500, 512)];
    world.places.truncate(1);
    assert_eq!(world.decide().commands[0].method, Method::Drift);
    assert_eq!(decide(&world).commands, []);
}

#[test]
fn no_pod_is_sent_to_a_node_of_the_zone() {
    let world = world(vec![pod("a", 1000, 1024)], vec![pod("b", 1000, 5 * 1024), pod("c", 1500, 5 * 1024)]);
    // Both fit together on the larger node.
    let [command] = &world.decide().commands[..] else { panic!("one command") };
    assert_eq!(
        (command.candidates[0].node.as_str(), command.placements[0].node.as_str()),
        ("node-00000", "node-00001")
    );
    let decision = decide(&away_from(&world, ZONES[1]), now(), &world.options);
    assert!(decision.commands.iter().all(|command| command.placements.is_empty()), "{decision:#?}");

    let later = now() + SignedDuration::from_secs(15);
    assert!(revalidate(command, &world.cluster(), later, &world.options).is_some());
    for zone in [ZONES[0], ZONES[1]] {
        let again = revalidate(command, &away_from(&world, zone), later, &world.options);
        assert_eq!(again, None, "a proposal from before the shift away from {zone} is dropped");
    }
}

#[test]
fn no_node_of_the_zone_is_repaired() {
    let mut world = world(vec![pod("a", 500, 512)], vec![pod("b", 500, 512)]);
    for _ in 0..8 {
        world.node("default", "m9.large", CapacityType::OnDemand, ZONES[1], vec![pod("c", 500, 512)]);
    }
    for place in &mut world.places[..2] {
        let ready =
            NodeCondition { kind: "Ready".into(), status: Some(false), since: Some(at(0)), reason: String::new() };
        place.node.conditions = vec![ready];
    }
    world.pools[0].disruption.budgets = vec![budget(BudgetNodes::Percent(100))];
    let verdicts = |cluster: &Cluster<'_>| -> Vec<Verdict> {
        unhealthy(cluster, &Options::default(), now()).into_iter().map(|one| one.verdict).collect()
    };
    assert_eq!(verdicts(&world.cluster()), [Verdict::Repair, Verdict::Repair]);
    let [first, second] = &verdicts(&away_from(&world, ZONES[0]))[..] else { panic!("two are unhealthy") };
    assert!(matches!(first, Verdict::Blocked(why) if why.contains("zonal shift")), "{first:?}");
    assert_eq!(second, &Verdict::Repair);
}
