//! Properties of every problem.

mod problems;

pub(crate) use problems::{RandomProblem, related_worlds, worlds};

use crate::support::*;
use nodeless_model::*;
use nodeless_scheduling::{
    BindingLimits, BindingNode, Bindings, BoundPods, Launch, Options, Placement, Problem, Reason, Solution,
    Unschedulable, existing_node, solve,
};
use problems::running_worlds;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// A solution with names for indices, so that it can be compared across orders of the input.
fn named(problem: &Problem<'_>, options: &Options) -> Vec<String> {
    let solution = solve(problem, options);
    let pod = |index: usize| problem.pods[index].name.clone();
    let mut lines: Vec<String> = Vec::new();
    for launch in &solution.launches {
        let mut pods: Vec<String> = launch.pods.iter().map(|index| pod(*index)).collect();
        pods.sort();
        let mut launch = launch.clone();
        launch.pods.clear();
        lines.push(format!("{pods:?} {launch:?}"));
    }
    lines.extend(solution.placements.iter().map(|p| format!("{} on {}", pod(p.pod), problem.nodes[p.node].name)));
    lines.extend(solution.unschedulable.iter().map(|u| format!("{} unschedulable {:?}", pod(u.pod), u.reasons)));
    lines.sort();
    lines
}

/// Packing is a heuristic, and one more instance type may change its result: a plan may then cost up to this factor, or one node
/// of that type, more.
const MAX_PRICE_RATIO: f64 = 2.0;

/// The node that comes of the cheapest of a launch.
fn become_node(index: usize, launch: &Launch) -> Node {
    let types = catalog();
    let kind = types.iter().find(|kind| kind.name == launch.offering.instance_type).unwrap();
    let mut node = Node { name: format!("launched-{index:03}"), allocatable: kind.allocatable(), ..Node::default() };
    let of_kind = launch.requirements.with(&kind.requirements);
    node.labels = of_kind.single_values();
    node.labels.insert(labels::HOSTNAME.into(), node.name.clone());
    node.labels.insert(labels::ZONE.into(), launch.offering.zone.clone());
    node.labels.insert(labels::CAPACITY_TYPE.into(), launch.offering.capacity_type.as_str().into());
    node.labels.insert(labels::REGISTERED.into(), "true".into());
    node.labels.insert(labels::INITIALIZED.into(), "true".into());
    node
}

/// The problem that is left when all that was planned has come about: what was left out waits still.
fn come_true<'a>(
    problem: &Problem<'a>,
    solution: &Solution,
    nodes: &'a [Node],
    world: &'a RandomProblem,
) -> Problem<'a> {
    let mut again = problem.clone();
    again.pods = solution.unschedulable.iter().map(|pod| problem.pods[pod.pod]).collect();
    for placement in &solution.placements {
        let pod = problem.pods[placement.pod];
        let node = &mut again.nodes[placement.node];
        node.available.subtract(&pod.template.requests);
        node.host_ports.extend(pod.template.host_ports.iter().cloned());
        if let Some(bound) = again.bound_pods.iter_mut().find(|bound| bound.name == node.name) {
            bound.pods.push(pod);
        }
    }
    for (launch, node) in solution.launches.iter().zip(nodes) {
        let pods: Vec<&Pod> = launch.pods.iter().map(|pod| problem.pods[*pod]).collect();
        let offer = again.node_pools.iter_mut().find(|offer| offer.pool.name == launch.node_pool).unwrap();
        offer.usage.resources.add(&launch.charge.resources);
        offer.usage.dollars_per_hour += launch.charge.dollars_per_hour;
        let mut existing = existing_node(Some(node), None, &pods, &world.daemons).unwrap();
        existing.taints.clone_from(&offer.pool.template.taints);
        again.nodes.push(existing);
        again.bound_pods.push(BoundPods {
            name: &node.name,
            labels: &node.labels,
            taints: &offer.pool.template.taints,
            pods,
        });
    }
    again
}

/// The nodes of a problem for predictions.
fn nodes<'a>(problem: &Problem<'a>, world: &'a RandomProblem) -> Bindings<'a> {
    let requests = problem.pods.iter().map(|pod| &pod.template.requests);
    let (resources, running) = (ResourceIndex::new(requests), problem.bound_pods.clone());
    let mut bindings =
        Bindings::new(resources, problem.facts, problem.pods.clone(), running).with_daemon_sets(problem.daemon_sets);
    for (node, (place, pods)) in problem.nodes.iter().zip(&world.running) {
        let allocatable = place.allocatable.clone();
        bindings.add(BindingNode { node: node.clone(), allocatable, pods: pods.iter().collect() });
    }
    bindings
}

/// Where the kube-scheduler is predicted to bind the pods of a problem.
fn predicted(problem: &Problem<'_>, world: &RandomProblem, seed: u64) -> Vec<Option<usize>> {
    nodes(problem, world).bind(&problem.pods, [seed], BindingLimits::NONE).orders.remove(0)
}

fn as_solution(bound: &[Option<usize>]) -> Solution {
    let pods = || bound.iter().copied().enumerate();
    Solution {
        placements: pods().filter_map(|(pod, node)| Some(Placement { pod, node: node? })).collect(),
        unschedulable: pods()
            .filter(|(_, node)| node.is_none())
            .map(|(pod, _)| Unschedulable { pod, reasons: vec![Reason::NotExplained] })
            .collect(),
        ..Solution::default()
    }
}

/// Without PROPTEST_CASES and PROPTEST_RNG_SEED in the environment, the same cases each time.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    let given = |name| std::env::var_os(name).is_some();
    let mut config = ProptestConfig { failure_persistence: None, max_shrink_iters: 4096, ..ProptestConfig::default() };
    if !given("PROPTEST_CASES") {
        config.cases = cases;
    }
    if !given("PROPTEST_RNG_SEED") {
        config.rng_seed = RngSeed::Fixed(20);
    }
    config
}

proptest! {
    // The seed is fixed: the checker looks for an order of placing greedily, and over some thousand cases it misses one now
    // and then; a test must not depend on luck.
    #![proptest_config(config(256))]

    #[test]
    fn every_solution_is_valid(world in worlds()) {
        let (problem, options) = (world.problem(), world.options());
        let solution = solve(&problem, &options);
        let wrong = nodeless_checker::violations(&problem, &solution, &options);
        prop_assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn predicted_bindings_violate_no_filter(
        world in prop_oneof![related_worlds(true, true), running_worlds()],
        seed in any::<u64>(),
    ) {
        let problem = Problem { node_pools: Vec::new(), ..world.problem() };
        let bound = predicted(&problem, &world, seed);
        let solution = as_solution(&bound);
        let wrong = nodeless_checker::violations(&problem, &solution, &world.options());
        prop_assert!(wrong.is_empty(), "{wrong:#?}");
        prop_assert_eq!(&bound, &predicted(&problem, &world, seed), "the same for the same seed");
    }

    #[test]
    fn pods_that_are_always_bound_are_bound_in_every_order(
        world in prop_oneof![related_worlds(true, true), running_worlds()],
        seeds in prop::array::uniform4(any::<u64>()),
    ) {
        let problem = Problem { node_pools: Vec::new(), ..world.problem() };
        if nodes(&problem, &world).always_bound(&problem.pods) {
            for seed in seeds {
                prop_assert!(predicted(&problem, &world, seed).iter().all(Option::is_some));
            }
        }
    }

    #[test]
    fn every_solution_keeps_topology_constraints(world in prop_oneof![related_worlds(true, true), related_worlds(false, true)]) {
        let (problem, options) = (world.problem(), world.options());
        let solution = solve(&problem, &options);
        let wrong = nodeless_checker::violations(&problem, &solution, &options);
        prop_assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn limits_are_never_passed_whatever_is_used_already(world in worlds(), used in 0..50_i64) {
        let options = world.options();
        let mut problem = world.problem();
        for offer in &mut problem.node_pools {
            offer.usage.resources = ResourceList::new()
                .with("cpu", Quantity::from_units(used))
                .with("memory", gib(used))
                .with("nodes", Quantity::from_units(used % 3));
            offer.usage.dollars_per_hour = used as f64 / 40.0;
        }
        let solution = solve(&problem, &options);
        for offer in &problem.node_pools {
            let launches = || solution.launches.iter().filter(|launch| launch.node_pool == offer.pool.name);
            let mut total = offer.usage.resources.clone();
            launches().for_each(|launch| total.add(&launch.charge.resources));
            for (name, limit) in offer.pool.limits.iter().filter(|_| launches().next().is_some()) {
                prop_assert!(total.get(name) <= limit, "{name}: {} of {limit}", total.get(name));
            }
            let dollars: f64 = launches().map(|launch| launch.charge.dollars_per_hour).sum();
            let limit = offer.pool.limit_dollars_per_hour.filter(|_| dollars > 0.0).unwrap_or(f64::INFINITY);
            prop_assert!(offer.usage.dollars_per_hour + dollars <= limit + 1e-5);
        }
        let wrong = nodeless_checker::violations(&problem, &solution, &options);
        prop_assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn an_instance_type_more_never_costs_much(world in worlds(), which in 0..26_usize) {
        let mut world = world;
        for pool in &mut world.pools {
            pool.limits = ResourceList::new();
            pool.limit_dollars_per_hour = None;
        }
        let options = world.options();
        let more = world.problem();
        let mut fewer = world.problem();
        for offer in &mut fewer.node_pools {
            let kinds = offer.instance_types.iter().enumerate();
            offer.instance_types = kinds.filter(|(place, _)| *place != which).map(|(_, kind)| kind.clone()).collect();
        }
        let (with, without) = (solve(&more, &options), solve(&fewer, &options));
        if with.unschedulable.len() == without.unschedulable.len() {
            let (with, without) = (with.price_per_hour(), without.price_per_hour());
            let types = catalog();
            let one = types[which % types.len()].offerings.iter().map(|offering| offering.price).fold(0.0, f64::max);
            let most = (without * MAX_PRICE_RATIO).max(without + one);
            prop_assert!(with <= most + 1e-9, "{with} with the type, {without} without");
        }
    }

    #[test]
    fn the_order_of_the_input_does_not_matter(world in prop_oneof![worlds(), related_worlds(true, true)], turn in 0..60_usize) {
        let options = world.options();
        let mut turned = world.clone();
        let middle = turn.min(turned.pods.len());
        turned.pods.rotate_left(middle);
        turned.pools.reverse();
        turned.nodes.reverse();
        turned.running.reverse();
        turned.daemons.reverse();
        let mut problem = turned.problem();
        for offer in &mut problem.node_pools {
            offer.instance_types = offer.instance_types.iter().rev().cloned().collect();
        }
        prop_assert_eq!(named(&world.problem(), &options), named(&problem, &options));
    }
}

proptest! {
    // The checker evaluates every node that could be launched, which is slow. The property after a plan has an exception once in
    // some hundred worlds, which docs/scheduling-constraints.md describes.
    #![proptest_config(config(64))]

    #[test]
    fn nothing_changes_once_the_plan_has_come_true(world in prop_oneof![worlds(), related_worlds(true, false), related_worlds(false, false)]) {
        let (problem, options) = (world.problem(), world.options());
        let solution = solve(&problem, &options);
        let nodes: Vec<Node> = solution.launches.iter().enumerate().map(|(index, one)| become_node(index, one)).collect();
        let again = come_true(&problem, &solution, &nodes, &world);
        let next = solve(&again, &options);
        let left_out: Vec<(&str, String)> =
            solution.unschedulable.iter().map(|pod| (&*problem.pods[pod.pod].name, pod.reasons[0].to_string())).collect();
        prop_assert!(next.launches.is_empty(), "{left_out:?} found a place: {next:#?}");
        // A pod that `minValues` or a limit refused a node of its own may fit on an existing node.
        let bounded = |pool: &NodePool| {
            let choosy = pool.template.requirements.iter().any(|(_, one)| one.min_values().is_some());
            choosy || !pool.limits.is_empty() || pool.limit_dollars_per_hour.is_some()
        };
        if !world.pools.iter().any(bounded) {
            prop_assert!(next.placements.is_empty(), "{left_out:?} found a place: {next:#?}");
            prop_assert_eq!(next.unschedulable.len(), solution.unschedulable.len());
        }
    }

    #[test]
    fn no_pod_is_left_out_that_fits_on_a_fresh_node(world in worlds()) {
        let (problem, options) = (world.problem(), world.options());
        let solution = solve(&problem, &options);
        for left_out in &solution.unschedulable {
            let pod = problem.pods[left_out.pod];
            let place = nodeless_checker::fresh_node(&problem, &solution, pod, &options);
            prop_assert!(place.is_none(), "{} fits on {place:?}: {:?}", pod.name, left_out.reasons);
        }
    }

    #[test]
    fn no_pod_is_left_out_that_topology_lets_onto_a_fresh_node(world in related_worlds(false, false)) {
        let (problem, options) = (world.problem(), world.options());
        let solution = solve(&problem, &options);
        for left_out in &solution.unschedulable {
            let pod = problem.pods[left_out.pod];
            let place = nodeless_checker::fresh_node(&problem, &solution, pod, &options);
            prop_assert!(place.is_none(), "{} fits on {place:?}: {:?}", pod.name, left_out.reasons);
        }
    }
}

#[test]
fn the_checker_finds_faults() {
    let pods = pods(4, 1000, 1024);
    let pools = [node_pool("default")];
    let problem = problem(&pods, &pools);
    let options = Options::default();
    let good = solve(&problem, &options);
    type Spoil = fn(&mut nodeless_scheduling::Solution);
    let faults: [(&str, Spoil); 7] = [
        ("occurs 0 times", |solution| {
            let _ = solution.launches[0].pods.pop();
        }),
        ("occurs 2 times", |solution| {
            let pods = solution.launches[0].pods.clone();
            solution.launches[0].pods.extend(pods);
        }),
        ("no NodePool", |solution| solution.launches[0].node_pool = "none".into()),
        ("not sorted", |solution| solution.launches[0].instance_types.reverse()),
        ("more than is charged", |solution| solution.launches[0].charge.resources.set("cpu", Quantity::from_units(1))),
        ("requested, ", |solution| {
            solution.launches[0].instance_types[0] =
                nodeless_scheduling::PricedType { name: "c9.large".into(), price: 0.08 };
        }),
        ("costs more than is charged", |solution| solution.launches[0].charge.dollars_per_hour = 0.0),
    ];
    for (expected, spoil) in faults {
        let mut bad = good.clone();
        spoil(&mut bad);
        let wrong = nodeless_checker::violations(&problem, &bad, &options).join("\n");
        assert!(wrong.contains(expected), "{expected}: {wrong}");
    }
    assert!(nodeless_checker::violations(&problem, &good, &options).is_empty());
}
