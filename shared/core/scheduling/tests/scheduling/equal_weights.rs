//! The choice between NodePools: by weight, and of those of equal weight by the price of the pods.

use crate::support::*;
use nodeless_model::*;
use nodeless_scheduling::Solution;
use std::collections::BTreeMap;

fn pool_of(name: &str, types: &[&str]) -> NodePool {
    let mut pool = node_pool(name);
    pool.template.requirements.add(labels::INSTANCE_TYPE, Requirement::one_of(types.iter().copied()));
    pool
}

fn pool_of_family(name: &str, family: &str) -> NodePool {
    let mut pool = node_pool(name);
    pool.template.requirements.add(labels::INSTANCE_FAMILY, Requirement::one_of([family]));
    pool
}

/// The number of nodes by NodePool.
fn launched(solution: &Solution) -> BTreeMap<&str, usize> {
    let mut launched = BTreeMap::new();
    solution.launches.iter().for_each(|launch| *launched.entry(launch.node_pool.as_str()).or_default() += 1);
    launched
}

#[test]
fn pools_are_tried_by_weight_and_then_by_price() {
    let pods = pods(1, 500, 512);
    let mut pools = [pool_of("a", &["m9.large"]), pool_of("b", &["m9.2xlarge"]), pool_of("c", &["m9.xlarge"])];
    assert_eq!(chosen(&solve_checked(&problem(&pods, &pools))), ["m9.large"]);
    pools[1].weight = 10;
    assert_eq!(chosen(&solve_checked(&problem(&pods, &pools))), ["m9.2xlarge"]);
    pools[2].weight = 10;
    assert_eq!(chosen(&solve_checked(&problem(&pods, &pools))), ["m9.xlarge"]);
}

#[test]
fn of_pools_with_the_same_prices_the_last_by_name_is_used() {
    let pods = pods(1, 500, 512);
    let alike = [node_pool("b"), node_pool("c")];
    assert_eq!(solve_checked(&problem(&pods, &alike)).launches[0].node_pool, "c");
    let narrower = [pool_of("b", &["c9.large"]), pool_of("c", &["c9.large", "m9.xlarge"]), node_pool("a")];
    assert_eq!(solve_checked(&problem(&pods, &narrower)).launches[0].node_pool, "c");
}

#[test]
fn spot_is_used_whatever_the_names_of_pools() {
    let spot = |name: &str| {
        let mut pool = node_pool(name);
        pool.template.requirements = Requirements::from([(labels::CAPACITY_TYPE, Requirement::one_of(["spot"]))]);
        pool
    };
    let pods = pods(30, 1000, 2048);
    for pools in [[node_pool("b"), spot("a")], [node_pool("a"), spot("b")]] {
        let solution = solve_checked(&problem(&pods, &pools));
        assert!(solution.launches.iter().all(|launch| launch.offering.capacity_type == CapacityType::Spot));
    }
}

#[test]
fn many_pods_go_where_all_of_them_cost_least() {
    // For one pod the small nodes are cheaper, for a hundred the large ones, which cost a third less for each cpu.
    let pools = [pool_of("small", &["r9.large"]), pool_of("large", &["c9.16xlarge"])];
    let few = pods(1, 500, 512);
    assert_eq!(launched(&solve_checked(&problem(&few, &pools))), BTreeMap::from([("small", 1)]));
    let many = pods(100, 500, 512);
    assert_eq!(launched(&solve_checked(&problem(&many, &pools))), BTreeMap::from([("large", 1)]));
}

#[test]
fn different_pods_go_to_different_pools() {
    let pools = [pool_of_family("cpu", "c9"), pool_of_family("memory", "r9")];
    let mut all = pods(120, 2000, 3800);
    all.extend(pods(40, 500, 14 * 1024));
    let solution = solve_checked(&problem(&all, &pools));
    let launched = launched(&solution);
    assert!(launched.contains_key("cpu") && launched.contains_key("memory"), "{launched:?}");
    for only in &pools {
        let alone = solve_checked(&problem(&all, std::slice::from_ref(only)));
        assert!(solution.price_per_hour() < alone.price_per_hour() * 0.95);
    }
}

#[test]
fn pods_use_what_is_left_of_nodes_for_others_before_new_ones() {
    let pools = [pool_of_family("gpu", "g9"), pool_of_family("web", "m9")];
    let web = pods(1, 1000, 1024);
    assert_eq!(launched(&solve_checked(&problem(&web, &pools))), BTreeMap::from([("web", 1)]));
    let mut all = pods(2, 1000, 1024);
    let gpu = pod("train", 1000, 1024).with_template(|it| it.requests.set("nvidia.com/gpu", Quantity::from_units(1)));
    all.push(gpu);
    assert_eq!(launched(&solve_checked(&problem(&all, &pools))), BTreeMap::from([("gpu", 1)]));
    all.extend(pods(10, 1500, 1024));
    let solution = solve_checked(&problem(&all, &pools));
    assert_eq!(launched(&solution)["gpu"], 1, "{:?}", chosen(&solution));
}

#[test]
fn what_the_limits_of_the_cheapest_pool_leave_goes_to_the_next() {
    let mut pools =
        [pool_of("a", &["m9.large"]), pool_of("b", &["m9.2xlarge"]), pool_of("c", &["m9.xlarge"]), node_pool("d")];
    pools[3].weight = -1;
    for place in [0, 2] {
        pools[place].limits = ResourceList::from([("nodes", Quantity::from_units(1))]);
    }
    let few = pods(3, 1800, 1024);
    let solution = solve_checked(&problem(&few, &pools));
    assert_eq!(launched(&solution), BTreeMap::from([("a", 1), ("c", 1)]), "{:?}", chosen(&solution));
    let more = pods(7, 1900, 1024);
    let solution = solve_checked(&problem(&more, &pools));
    assert!(solution.unschedulable.is_empty());
    assert_eq!(launched(&solution), BTreeMap::from([("a", 1), ("b", 1), ("c", 1)]), "{:?}", chosen(&solution));
}

#[test]
fn pods_of_higher_priority_get_the_limits_of_all_pools() {
    let mut pools = [pool_of("a", &["m9.large"]), pool_of("b", &["m9.2xlarge"])];
    pools[0].limits = ResourceList::from([("nodes", Quantity::from_units(0))]);
    pools[1].limits = ResourceList::from([("nodes", Quantity::from_units(1))]);
    let mut all = pods(1, 7000, 1024);
    let low = pod("low", 7100, 1024)
        .with_template(|it| drop(it.node_selector.insert(labels::INSTANCE_TYPE.into(), "m9.2xlarge".into())));
    all[0].template_mut().priority = 1000;
    all.push(low);
    let solution = solve_checked(&problem(&all, &pools));
    assert_eq!(solution.unschedulable.iter().map(|pod| pod.pod).collect::<Vec<_>>(), [1]);
}
