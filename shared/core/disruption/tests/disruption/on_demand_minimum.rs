//! `nodeless.sh/min-on-demand`: what is launched, and what stays.

use crate::support::*;
use jiff::SignedDuration;
use nodeless_disruption::*;
use nodeless_model::*;
use nodeless_scheduling::{Launch, PoolOffer, Problem, solve};

/// A NodePool of spot and on-demand nodes with a minimum.
fn mixed(minimum: &str) -> NodePool {
    let mut pool = node_pool("default");
    let both = Requirement::one_of(["spot", "on-demand"]);
    pool.template.requirements = Requirements::from([(labels::CAPACITY_TYPE, both)]);
    pool.options.set(labels::MIN_ON_DEMAND, Some(minimum));
    pool
}

fn world(minimum: &str) -> TestCluster {
    let mut world = TestCluster::new(vec![mixed(minimum)]);
    world.options.spot_to_spot = true;
    world
}

impl TestCluster {
    fn spot(&mut self, kind: &str, pods: Vec<Pod>) -> &mut Place {
        self.node("default", kind, CapacityType::Spot, ZONES[0], pods)
    }
}

/// Pods of which one fills a c9.large.
fn large(count: usize) -> Vec<Pod> {
    (0..count).map(|index| test_support::pod(format!("web-{index}"), 1900, 3500)).collect()
}

/// The launches of a plan for pods beside the nodes of a world, limited to its minimums.
fn planned(world: &TestCluster, pods: &[Pod], under_way: &[&Command]) -> Vec<Launch> {
    let offers: Vec<PoolOffer<'_>> = world.cluster().node_pools;
    let largest = nodeless_scheduling::Options { max_pods_per_node: Some(1), ..Default::default() };
    let problem = Problem { pods: pods.iter().collect(), node_pools: offers, ..Problem::default() };
    let mut launches = solve(&problem, &largest).launches;
    let claims = world.places.iter().map(|place| &place.claim);
    OnDemandMinimums::new(&problem.node_pools, claims, under_way).limit(&mut launches, &problem.node_pools);
    launches
}

fn on_demand(launches: &[Launch]) -> usize {
    let only = |launch: &&Launch| launch.requirements.get(labels::CAPACITY_TYPE).unwrap().single() == Some("on-demand");
    let limited = launches.iter().filter(only);
    limited.inspect(|launch| assert_eq!(launch.offering.capacity_type, CapacityType::OnDemand)).count()
}

#[test]
fn warm_nodes_are_no_part_of_the_minimum() {
    let mut world = world("1");
    world.node("default", "c9.large", CapacityType::OnDemand, ZONES[0], vec![]).claim.phase = Phase::Stopped;
    assert_eq!(on_demand(&planned(&world, &large(2), &[])), 1, "its instance is stopped");
    world.places[0].claim.phase = Phase::Initialized;
    assert_eq!(on_demand(&planned(&world, &large(2), &[])), 0);
}

#[test]
fn launches_are_on_demand_until_the_minimum_is_met() {
    for (minimum, existing, pods, expected) in [
        ("2", 0, 5, 2),
        ("2", 1, 5, 1),
        ("2", 3, 5, 0),
        ("9", 0, 5, 5),
        ("0", 0, 5, 0),
        ("40%", 0, 5, 2),
        ("41%", 0, 5, 3),
        ("50%", 5, 5, 0),
        ("100%", 0, 4, 4),
    ] {
        let mut world = world(minimum);
        for _ in 0..existing {
            world.on_demand("c9.large", Vec::new());
        }
        // Launches of equal pods may be any type that is large enough: their CPUs count in the worst case.
        world.types = world.types.iter().filter(|kind| kind.name == "c9.large").cloned().collect();
        let launches = planned(&world, &large(pods), &[]);
        assert_eq!((launches.len(), on_demand(&launches)), (pods, expected), "{minimum} with {existing}");
    }
}

#[test]
fn a_limited_launch_has_the_prices_and_the_charge_of_on_demand() {
    let launch = planned(&world("1"), &large(1), &[]).remove(0);
    let names: Vec<&str> = launch.instance_types.iter().map(|kind| kind.name.as_str()).collect();
    assert_eq!(names[..2], ["c9.large", "m9.large"]);
    assert!((launch.instance_types[0].price - 0.08).abs() < 1e-9 && (launch.offering.price - 0.08).abs() < 1e-9);
    assert!((launch.charge.dollars_per_hour - 0.065 * 64.0).abs() < 1e-9, "the most expensive possible offering");
}

#[test]
fn a_launch_that_can_be_larger_counts_in_the_worst_case() {
    // A spot node may be the largest listed type, and an on-demand node the smallest.
    let launches = planned(&world("10%"), &large(2), &[]);
    assert_eq!(on_demand(&launches), 2, "64 CPUs of spot would need 6.4 on demand");
}

#[test]
fn spot_is_launched_where_on_demand_is_not_available_or_not_admitted() {
    let mut world = world("2");
    world.types = world
        .types
        .iter()
        .cloned()
        .map(|mut kind| {
            let offerings =
                kind.offerings.iter_mut().filter(|offering| offering.capacity_type == CapacityType::OnDemand);
            offerings.for_each(|offering| offering.available = false);
            kind
        })
        .collect();
    assert_eq!(on_demand(&planned(&world, &large(2), &[])), 0);
    let mut pods = large(3);
    pods[0].template_mut().node_selector.insert(labels::CAPACITY_TYPE.into(), "spot".into());
    let launches = planned(&super::on_demand_minimum::world("3"), &pods, &[]);
    let of_first = launches.iter().find(|launch| launch.pods == [0]).unwrap();
    assert_eq!(of_first.offering.capacity_type, CapacityType::Spot);
    assert_eq!(on_demand(&launches), 2);
}

#[test]
fn an_invalid_minimum_has_no_effect() {
    let mut pool = mixed("2");
    pool.template.requirements = Requirements::from([(labels::CAPACITY_TYPE, Requirement::one_of(["spot"]))]);
    let mut world = TestCluster::new(vec![pool]);
    world.spot("c9.large", vec![pod("web", 1900, 3500)]);
    assert_eq!(world.decide().events, []);
}

#[test]
fn a_node_pool_below_its_minimum_has_an_event() {
    let mut world = world("2");
    world.on_demand("c9.large", vec![pod("a", 1900, 3500)]);
    world.spot("c9.large", vec![pod("b", 1900, 3500)]);
    let of = |world: &TestCluster| world.decide().events.iter().map(|event| event.message.clone()).collect::<Vec<_>>();
    let [event] = &of(&world)[..] else { panic!("{:#?}", of(&world)) };
    assert!(event.starts_with("1 of 2 nodes are on demand, and annotation nodeless.sh/min-on-demand requires 2 nodes"));
    world.on_demand("c9.large", vec![pod("c", 1900, 3500)]);
    assert_eq!(of(&world), Vec::<String>::new());
}

#[test]
fn empty_nodes_go_as_far_as_the_minimum_allows() {
    let mut world = world("2");
    world.on_demand("c9.large", vec![pod("a", 1900, 3500)]);
    world.on_demand("c9.xlarge", Vec::new());
    world.spot("c9.large", vec![pod("b", 1900, 3500)]);
    world.spot("c9.large", Vec::new());
    let decision = world.decide();
    let going: Vec<&str> = decision.commands[0].candidates.iter().map(|one| one.node.as_str()).collect();
    assert_eq!(going, ["node-00003"]);
    assert!(
        world
            .kept(1)
            .starts_with("NodePool default needs it for nodeless.sh/min-on-demand, at least 2 nodes on demand")
    );
    // If all nodes are empty, all go, the spot node first.
    world.places.iter_mut().for_each(|place| place.pods.clear());
    let decision = world.decide();
    assert_eq!(decision.commands[0].candidates.len(), 4);
    let later = now() + SignedDuration::from_secs(15);
    let again = revalidate(&decision.commands[0], &world.cluster(), later, &world.options).unwrap();
    assert_eq!(again.candidates.len(), 4);
}

#[test]
fn a_node_that_the_minimum_needs_is_replaced_only_by_an_on_demand_node() {
    // Spot would cost 0.032 instead of 0.16, and on-demand 0.08.
    let mut world = world("1");
    world.on_demand("c9.xlarge", vec![pod("a", 1900, 3500)]);
    world.spot("c9.xlarge", vec![pod("b", 3900, 7000)]);
    let decision = world.decide();
    let [command] = &decision.commands[..] else { panic!("{decision:#?}") };
    assert_eq!(command.replacements[0].launch.offering.capacity_type, CapacityType::OnDemand);
    assert_eq!(on_demand(&[command.replacements[0].launch.clone()]), 1);
    assert!((command.savings_per_hour - 0.08).abs() < 1e-9, "{}", command.savings_per_hour);
    let later = now() + SignedDuration::from_secs(15);
    let again = revalidate(command, &world.cluster(), later, &world.options).unwrap();
    assert_eq!(again.replacements, command.replacements);
    // Without a cheaper on-demand node it stays, and the reason names both.
    world.places[0] = {
        let mut other = super::on_demand_minimum::world("1");
        other.on_demand("c9.large", vec![pod("a", 1900, 3500)]).clone()
    };
    let kept = world.kept(0);
    assert!(
        kept.contains("needs it for nodeless.sh/min-on-demand, at least 1 node on demand; about an on-demand node"),
        "{kept}"
    );
    // Once another node is on demand, spot replaces it.
    world.on_demand("c9.large", vec![pod("c", 1900, 3500)]);
    let decision = world.decide();
    let spot = |command: &Command| command.replacements[0].launch.offering.capacity_type == CapacityType::Spot;
    assert_eq!(decision.commands.iter().filter(|command| spot(command)).count(), 1, "{decision:#?}");
}

#[test]
fn a_command_is_dropped_if_the_minimum_needs_its_node_by_now() {
    let mut world = world("1");
    world.on_demand("c9.large", vec![pod("a", 1900, 3500)]);
    world.on_demand("c9.large", vec![pod("b", 1900, 3500)]);
    world.spot("c9.large", vec![pod("c", 1900, 3500)]);
    let command = world.decide().commands.remove(0);
    assert_eq!(command.replacements[0].launch.offering.capacity_type, CapacityType::Spot);
    let later = now() + SignedDuration::from_secs(15);
    assert!(revalidate(&command, &world.cluster(), later, &world.options).is_some());
    let other = world.places.iter().position(|place| place.node.name != command.candidates[0].node).unwrap();
    world.places.remove(other);
    assert_eq!(revalidate(&command, &world.cluster(), later, &world.options), None);
}

#[test]
fn nodes_of_commands_under_way_do_not_count_and_their_replacements_do() {
    let mut world = world("2");
    for name in ["a", "b", "c"] {
        world.on_demand("c9.large", vec![pod(name, 1900, 3500)]);
    }
    world.spot("c9.large", vec![pod("d", 1900, 3500)]);
    let command = world.decide().commands.remove(0);
    assert_eq!(command.replacements[0].launch.offering.capacity_type, CapacityType::Spot);
    let cluster = world.cluster_during([&command].into_iter());
    assert!(decide(&cluster, now(), &world.options).commands.is_empty(), "two are left on demand");
    assert_eq!(on_demand(&planned(&world, &large(1), &[&command])), 0, "which is enough");
    world.pools[0].options.set(labels::MIN_ON_DEMAND, Some("3"));
    assert_eq!(on_demand(&planned(&world, &large(1), &[])), 0);
    assert_eq!(on_demand(&planned(&world, &large(1), &[&command])), 1);
}

#[test]
fn a_drifted_node_that_the_minimum_needs_gets_an_on_demand_successor() {
    let mut world = world("1");
    world.on_demand("c9.large", vec![pod("a", 1900, 3500)]);
    world.spot("c9.large", vec![pod("b", 1900, 3500)]);
    world.pools[0].hash = "hash-2".into();
    let decision = world.decide();
    let types: Vec<CapacityType> =
        decision.commands.iter().map(|command| command.replacements[0].launch.offering.capacity_type).collect();
    assert_eq!(types, [CapacityType::OnDemand, CapacityType::Spot]);
    // The pods would fit on the spot node, but get a new on-demand node.
    let mut small = super::on_demand_minimum::world("1");
    small.on_demand("c9.large", vec![pod("a", 100, 100)]);
    let spot = small.spot("c9.xlarge", vec![pod("b", 3500, 3500)]);
    spot.claim.spec.annotations.insert(labels::NODE_POOL_HASH.into(), "hash-2".into());
    small.pools[0].hash = "hash-2".into();
    let decision = small.decide();
    let [command] = &decision.commands[..] else { panic!("{decision:#?}") };
    assert_eq!(on_demand(&[command.replacements[0].launch.clone()]), 1);
    assert_eq!(command.replacements[0].pods, ["default/a"]);
    // Where the limits allow no node beside it, it stays.
    small.pools[0].limits = ResourceList::from([("nodes", Quantity::from_units(2))]);
    assert!(small.decide().commands.is_empty());
    assert!(small.kept(0).contains("nodeless.sh/min-on-demand"), "{}", small.kept(0));
}
