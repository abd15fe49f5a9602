//! Limits of NodePools: never passed, charged with what is really launched, and stated in words when reached.
#![allow(missing_docs, clippy::unwrap_used)]

mod support;

use nodeless_model::*;
use support::*;

fn limited(resource: &str, units: i64) -> NodePool {
    let mut pool = node_pool("default");
    pool.limits = ResourceList::new().with(resource, Quantity::from_units(units));
    pool
}

#[test]
fn reports_which_limit_is_exceeded_and_by_how_much() {
    let pods = [pod("web", 8000, 1024)];
    let pools = [limited("cpu", 100)];
    let mut problem = problem(&pods, &pools);
    problem.node_pools[0].usage.resources = ResourceList::new().with("cpu", Quantity::from_units(96));
    assert_eq!(
        reasons(&solve_checked(&problem)),
        ["NodePool default: limit cpu 100 reached: 96 used, pod needs 8 (smallest node that fits: 16)"]
    );
}

#[test]
fn the_smaller_node_is_taken_where_only_it_keeps_the_limit() {
    let pods = pods(3, 1000, 512);
    let pools = [limited("cpu", 6)];
    let solution = solve_checked(&problem(&pods, &pools));
    assert!(solution.unschedulable.is_empty(), "{solution:#?}");
    let charged: i64 = solution.launches.iter().map(|launch| launch.charge.resources.get("cpu").units()).sum();
    assert!(charged <= 6, "{charged}");
    assert!(solution.launches.iter().all(|launch| launch.charge.resources.get("nodes").units() == 1));
}

#[test]
fn nodes_of_this_very_plan_count() {
    let mut pods = pods(3, 60_000, 1024);
    pods.push(pod("small", 100, 128));
    let pools = [limited("nodes", 2)];
    let solution = solve_checked(&problem(&pods, &pools));
    assert_eq!(solution.launches.len(), 2);
    assert_eq!(reasons(&solution), ["NodePool default: limit nodes 2 reached: 2 used"]);
}

#[test]
fn what_one_pool_cannot_hold_goes_to_the_next() {
    let mut first = limited("cpu", 4);
    first.weight = 1;
    let mut second = node_pool("second");
    second.template.requirements.add(labels::ARCH, Requirement::one_of(["arm64"]));
    let pools = [first, second];
    let pods = pods(8, 1000, 512);
    let solution = solve_checked(&problem(&pods, &pools));
    assert!(solution.unschedulable.is_empty());
    let used: Vec<&str> = solution.launches.iter().map(|launch| launch.node_pool.as_str()).collect();
    assert!(used.contains(&"default") && used.contains(&"second"), "{used:?}");
}

#[test]
fn dollars_are_a_limit_too() {
    let mut pool = node_pool("default");
    pool.limit_dollars_per_hour = Some(0.3);
    let pools = [pool];
    let pods = pods(40, 1000, 512);
    let solution = solve_checked(&problem(&pods, &pools));
    assert!(!solution.launches.is_empty() && !solution.unschedulable.is_empty());
    let charged: f64 = solution.launches.iter().map(|launch| launch.charge.dollars_per_hour).sum();
    assert!(charged <= 0.3 + 1e-9, "{charged}");
    let reason = solution.unschedulable[0].reasons[0].to_string();
    assert!(reason.starts_with("NodePool default: limit of $0.3000/h reached: $0.2"), "{reason}");
}

#[test]
fn a_spot_launch_takes_of_a_limit_in_dollars_what_spot_can_cost() {
    let mut pool = node_pool("default");
    pool.template.requirements = Requirements::new();
    pool.limit_dollars_per_hour = Some(0.4);
    let pools = [pool];
    let pods = pods(60, 1000, 512);
    let types = catalog();
    let solution = solve_checked(&problem(&pods, &pools));
    let placed: usize = solution.launches.iter().map(|launch| launch.pods.len()).sum();
    // Spot costs 0.016 an hour for each CPU here, on-demand 0.04: by its price there would be room for 10.
    assert!(placed >= 20, "{placed}");
    let charged: f64 = solution.launches.iter().map(|launch| launch.charge.dollars_per_hour).sum();
    assert!(charged <= 0.4 + 1e-9, "{charged}");
    for launch in &solution.launches {
        // What the launch is charged covers all that it may become, so it may not become on-demand.
        let spot = Requirement::one_of(["spot"]);
        assert_eq!(launch.requirements.get(labels::CAPACITY_TYPE), Some(&spot));
        let kinds = types.iter().filter(|kind| launch.instance_types.iter().any(|listed| listed.name == kind.name));
        let prices = kinds.flat_map(|kind| kind.available_offerings(&launch.requirements)).map(|one| one.price);
        assert!((prices.fold(0.0, f64::max) - launch.charge.dollars_per_hour).abs() < 1e-9, "{launch:#?}");
    }
    // What is left is less than any node takes.
    let reason = solution.unschedulable[0].reasons[0].to_string();
    assert!(reason.contains("a new node that fits costs up to 0.0320 in the most expensive zone"), "{reason}");
    assert!(charged + 0.032 > 0.4, "{charged}");
}

#[test]
fn the_dearest_zone_of_a_spot_launch_counts() {
    let mut types = catalog().to_vec();
    for kind in &mut types {
        let dear =
            kind.offerings.iter_mut().filter(|one| one.zone == ZONES[1] && one.capacity_type == CapacityType::Spot);
        dear.for_each(|one| one.price *= 2.0);
    }
    let types: InstanceTypes = types.into();
    let mut pool = node_pool("default");
    pool.template.requirements = Requirements::new();
    pool.limit_dollars_per_hour = Some(0.06);
    let pools = [pool];
    let pods = pods(1, 1000, 512);
    let mut problem = problem(&pods, &pools);
    problem.node_pools[0].instance_types = types;
    assert_eq!(
        reasons(&solve_checked(&problem)),
        [
            "NodePool default: limit of $0.0600/h reached: $0.0000/h used, and a new node that fits costs up to $0.0640/h in \
          the most expensive zone where it may be launched"
        ]
    );
}

#[test]
fn without_spot_capacity_a_launch_under_a_limit_in_dollars_is_on_demand() {
    let mut types = catalog().to_vec();
    for kind in &mut types {
        let spot = kind.offerings.iter_mut().filter(|one| one.capacity_type == CapacityType::Spot);
        spot.for_each(|one| one.available = false);
    }
    let mut pool = node_pool("default");
    pool.template.requirements = Requirements::new();
    pool.limit_dollars_per_hour = Some(0.4);
    let pools = [pool];
    let pods = pods(2, 1000, 512);
    let mut problem = problem(&pods, &pools);
    problem.node_pools[0].instance_types = types.into();
    let solution = solve_checked(&problem);
    assert!(solution.unschedulable.is_empty(), "{solution:#?}");
    let launch = &solution.launches[0];
    assert_eq!(launch.requirements.get(labels::CAPACITY_TYPE), Some(&Requirement::one_of(["on-demand"])));
    assert!(launch.charge.dollars_per_hour <= 0.4);
}

#[test]
fn pods_of_lower_priority_are_left_out_first() {
    let mut pods = vec![pod("large", 15_000, 1024), pod("important", 1000, 1024)];
    pods[1].priority = 1000;
    let pools = [limited("cpu", 16)];
    let solution = solve_checked(&problem(&pods, &pools));
    assert_eq!(solution.unschedulable.iter().map(|pod| pod.pod).collect::<Vec<_>>(), [0]);
    assert_eq!(solution.launches[0].pods, [1]);
}

#[test]
fn a_limit_that_is_passed_already_launches_nothing() {
    let pools = [limited("cpu", 10)];
    let pods = pods(1, 100, 128);
    let mut problem = problem(&pods, &pools);
    problem.node_pools[0].usage.resources = ResourceList::new().with("cpu", Quantity::from_units(12));
    let solution = solve_checked(&problem);
    assert!(solution.launches.is_empty());
    assert_eq!(
        reasons(&solution),
        ["NodePool default: limit cpu 10 reached: 12 used, pod needs 100m (smallest node that fits: 2)"]
    );
}
