//! Nodes that are replaced together, so that no pod is evicted twice.

use crate::support::*;
use jiff::SignedDuration;
use nodeless_disruption::*;
use nodeless_model::node_pool::BudgetNodes;
use nodeless_model::*;

/// Small pods on this many nodes of four CPUs, which together fit on one with two.
fn sparse(nodes: usize) -> TestCluster {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    for number in 0..nodes {
        world.on_demand("m9.xlarge", vec![pod(&format!("web-{number}"), 600, 1024)]);
    }
    world
}

/// The commands of all decisions until there is nothing left to do. Each is confirmed before it is carried out.
fn until_rest(world: &mut TestCluster) -> Vec<Command> {
    let mut commands = Vec::new();
    loop {
        let decision = world.decide();
        if decision.commands.is_empty() {
            return commands;
        }
        for command in &decision.commands {
            let others = decision.commands.iter().filter(|other| other.id != command.id);
            let later = now() + SignedDuration::from_secs(15);
            let again = revalidate(command, &world.cluster_during(others), later, &world.options).unwrap();
            assert_eq!(
                (&again.candidates, again.replacements.len()),
                (&command.candidates, command.replacements.len())
            );
        }
        world.apply(&decision.commands);
        commands.extend(decision.commands);
        assert!(commands.len() < 20, "no end");
    }
}

fn evictions(commands: &[Command]) -> usize {
    commands.iter().map(|command| command.evictions.len()).sum()
}

fn kinds(world: &TestCluster) -> Vec<&str> {
    world.places.iter().map(|place| place.claim.status.instance.as_ref().unwrap().instance_type.as_str()).collect()
}

#[test]
fn nodes_whose_pods_fit_on_one_cheaper_node_are_replaced_by_it_at_once() {
    let mut world = sparse(3);
    let commands = until_rest(&mut world);
    assert_eq!((kinds(&world), evictions(&commands)), (vec!["c9.large"], 3), "{commands:#?}");
    let [command] = &commands[..] else { panic!("{commands:#?}") };
    assert_eq!((command.method, command.candidates.len()), (Method::MultiNodeConsolidation, 3));
    assert!((command.savings_per_hour - 0.52).abs() < 1e-9, "{command:#?}");
    // Whatever EC2 launches is cheaper than the node that would have taken all pods.
    assert!(command.replacements[0].launch.instance_types.iter().all(|kind| kind.price < 0.2), "{command:#?}");
}

#[test]
fn a_node_that_is_cheapest_with_all_pods_takes_them() {
    let mut world = sparse(3);
    for place in &mut world.places {
        // 3.6 CPUs and 9 GiB: no cheaper node has both.
        place.pods[0].template_mut().requests = pod("", 1200, 3 * 1024).template.requests.clone();
    }
    let commands = until_rest(&mut world);
    assert_eq!((kinds(&world), evictions(&commands)), (vec!["m9.xlarge"], 2), "{commands:#?}");
}

#[test]
fn budgets_hold_for_all_nodes_that_are_replaced_together() {
    for (nodes, going) in [(1, 1), (2, 2), (3, 3)] {
        let mut world = sparse(3);
        world.pools[0].disruption.budgets = vec![budget(BudgetNodes::Count(nodes))];
        let commands = world.decide().commands;
        let removed: usize = commands.iter().map(|command| command.candidates.len()).sum();
        assert_eq!((removed, commands.len() == 1), (going, nodes != 2), "{commands:#?}");
        assert_eq!(until_rest(&mut world).iter().map(|command| command.replacements.len()).sum::<usize>(), 1);
        assert_eq!(kinds(&world), ["c9.large"]);
    }
    // A third NodePool's node is the one that would take the pods, and may not go.
    let mut world = sparse(2);
    let mut fixed = node_pool("fixed");
    fixed.disruption.budgets = vec![budget(BudgetNodes::Count(0))];
    world.pools.push(fixed);
    world.node("fixed", "m9.xlarge", CapacityType::OnDemand, ZONES[0], vec![pod("web-2", 600, 1024)]);
    let commands = until_rest(&mut world);
    assert_eq!((evictions(&commands), kinds(&world)), (2, vec!["m9.xlarge"]), "{commands:#?}");
}

#[test]
fn spot_nodes_are_replaced_together_as_one_of_them_would_be() {
    let spot = |spot_to_spot: bool, kind: &str| {
        let mut world = TestCluster::new(vec![node_pool("default")]);
        world.pools[0].template.requirements = Requirements::new();
        world.options.spot_to_spot = spot_to_spot;
        for number in 0..3 {
            let pods = vec![pod(&format!("web-{number}"), 600, 1024)];
            world.node("default", kind, CapacityType::Spot, ZONES[0], pods);
        }
        world
    };
    let mut off = spot(false, "m9.xlarge");
    assert_eq!((evictions(&until_rest(&mut off)), kinds(&off)), (2, vec!["m9.xlarge"]));
    let mut few = spot(true, "m9.xlarge");
    assert_eq!((evictions(&until_rest(&mut few)), kinds(&few)), (2, vec!["m9.xlarge"]), "fewer than 15 are cheaper");
    let mut many = spot(true, "r9.16xlarge");
    let commands = until_rest(&mut many);
    assert_eq!((evictions(&commands), kinds(&many)), (3, vec!["c9.large"]), "{commands:#?}");
    assert_eq!(commands[0].replacements[0].launch.instance_types.len(), 15);
}

#[test]
fn a_protected_node_takes_pods_and_stays() {
    let mut world = sparse(3);
    world.places[2].node.annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
    let commands = until_rest(&mut world);
    assert_eq!((kinds(&world), evictions(&commands)), (vec!["m9.xlarge"], 2), "{commands:#?}");
}

#[test]
fn what_replacing_the_last_node_saves_has_to_be_worth_its_own_pods() {
    // Its price is a third of its NodePool's, and its pods are nearly all: a tenth of the price is saved for them.
    let mut world = sparse(2);
    world.pools[0].disruption.consolidation_policy = ConsolidationPolicy::Balanced;
    let pods = (0..12).map(|number| pod(&format!("many-{number}"), 180, 512)).collect();
    world.on_demand("m9.xlarge", pods);
    let commands = until_rest(&mut world);
    assert_eq!((kinds(&world), evictions(&commands)), (vec!["m9.xlarge"], 2), "{commands:#?}");
}
