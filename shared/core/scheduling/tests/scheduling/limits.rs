//! Limits of NodePools: never passed, charged with what is really launched, and stated in words when reached.

use crate::support::*;
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::*;
use nodeless_scheduling::{ClusterUsage, Problem};

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
fn what_a_node_pool_adds_to_root_volumes_counts_against_a_limit_in_dollars() {
    let mut pool = node_pool("default");
    pool.limit_dollars_per_hour = Some(0.3);
    let pools = [pool];
    let pods = pods(40, 1000, 512);
    let types = catalog();
    let sized = types.iter().map(|kind| {
        let planned = RootVolume { gib: 500, dollars_per_hour: 0.05 };
        InstanceType { root_volume: Some(RootVolumes { planned, least_gib: 20, class_gib: 20 }), ..kind.clone() }
    });
    let mut problem = problem(&pods, &pools);
    problem.node_pools[0].instance_types = sized.collect();
    let solution = solve_checked(&problem);
    let charged: f64 = solution.launches.iter().map(|launch| launch.charge.dollars_per_hour).sum();
    assert!(!solution.launches.is_empty() && charged <= 0.3 + 1e-9, "{charged}");
    for launch in &solution.launches {
        assert!(launch.charge.dollars_per_hour >= launch.offering.price + 0.05 - 1e-9, "{launch:#?}");
    }
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
    // Spot costs 0.016 an hour for each CPU here, on-demand 0.04: by its price 10 would fit.
    assert!(placed >= 20, "{placed}");
    let charged: f64 = solution.launches.iter().map(|launch| launch.charge.dollars_per_hour).sum();
    assert!(charged <= 0.4 + 1e-9, "{charged}");
    for launch in &solution.launches {
        // The launch is charged for every offering that it may become, so on-demand is excluded.
        let spot = Requirement::one_of(["spot"]);
        assert_eq!(launch.requirements.get(labels::CAPACITY_TYPE), Some(&spot));
        let kinds = types.iter().filter(|kind| launch.instance_types.iter().any(|listed| listed.name == kind.name));
        let prices = kinds.flat_map(|kind| kind.available_offerings(&launch.requirements)).map(|one| one.price);
        assert!((prices.fold(0.0, f64::max) - launch.charge.dollars_per_hour).abs() < 1e-9, "{launch:#?}");
    }
    // The remaining dollars are less than any node costs.
    let reason = solution.unschedulable[0].reasons[0].to_string();
    assert!(reason.contains("a new node that fits costs up to $0.0320/h in the most expensive zone"), "{reason}");
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
    pods[1].template_mut().priority = 1000;
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
        ["NodePool default: limit cpu 10 reached: 12 used, pod needs 0.1 (smallest node that fits: 2)"]
    );
}

/// Limits all NodePools of a problem together.
fn limit_cluster(problem: &mut Problem<'_>, resources: &[(&str, i64)], dollars: Option<f64>) {
    let resources = resources.iter().map(|(name, units)| ((*name).to_owned(), Quantity::from_units(*units))).collect();
    let limits = ClusterLimits { resources, dollars_per_hour: dollars };
    let usage = PoolUsage::sum(problem.node_pools.iter().map(|offer| &offer.usage));
    let cluster = ClusterUsage { limits, usage };
    problem.node_pools.iter_mut().for_each(|offer| offer.cluster = Some(cluster.clone()));
}

/// NodePools for teams `a` and `b`, of which each runs only its own pods.
fn teams() -> [NodePool; 2] {
    ["a", "b"].map(|team| {
        let mut pool = node_pool(team);
        pool.template.requirements.add("team", Requirement::one_of([team]));
        pool.template.requirements.add(labels::INSTANCE_SIZE, Requirement::one_of(["xlarge"]));
        pool
    })
}

fn of_team(team: &str, name: &str, cpu_milli: i64) -> Pod {
    let mut made = pod(name, cpu_milli, 512);
    made.template_mut().node_selector = StringMap::from([("team".to_owned(), team.to_owned())]);
    made
}

#[test]
fn node_pools_share_the_limits_of_the_cluster() {
    let pods: Vec<Pod> =
        (0..4).flat_map(|n| ["a", "b"].map(|team| of_team(team, &format!("{team}-{n}"), 3500))).collect();
    let pools = teams();
    for (resources, dollars, fitting) in [
        (&[("nodes", 5)][..], None, 5),
        (&[("cpu", 20)], None, 5),
        // c9.xlarge costs 0.16.
        (&[], Some(0.81), 5),
        (&[("cpu", 8), ("nodes", 5)], Some(0.81), 2),
    ] {
        let mut problem = problem(&pods, &pools);
        limit_cluster(&mut problem, resources, dollars);
        let solution = solve_checked(&problem);
        assert_eq!(pods.len() - solution.unschedulable.len(), fitting, "{resources:?} {dollars:?} {solution:#?}");
    }
}

#[test]
fn reports_which_limit_of_the_cluster_is_exceeded_and_what_to_change() {
    let pods = [pod("web", 8000, 1024)];
    let pools = [node_pool("default"), node_pool("other")];
    let mut problem = problem(&pods, &pools);
    problem.node_pools[1].usage.resources = ResourceList::new().with("cpu", Quantity::from_units(96));
    limit_cluster(&mut problem, &[("cpu", 100)], None);
    let solution = solve_checked(&problem);
    let why = "limit cpu 100 of the cluster reached: 96 used, pod needs 8 (smallest node that fits: 16)";
    assert_eq!(reasons(&solution), [format!("NodePool other: {why}"), format!("NodePool default: {why}")]);
    let expected = "raise the annotation nodeless.sh/max-cpu of the Namespace kube-system to 112 or more";
    assert_eq!(advice(&problem).remedies, [expected]);
    limit_cluster(&mut problem, &[], Some(0.5));
    let solution = solve_checked(&problem);
    assert!(
        reasons(&solution)[0].contains("limit of $0.5000/h of the cluster reached: $0.0000/h used"),
        "{solution:#?}"
    );
    let expected = "raise the annotation nodeless.sh/max-dollars-per-hour of the Namespace kube-system to 0.64 or more";
    assert_eq!(advice(&problem).remedies, [expected]);
}

#[test]
fn a_limit_of_the_node_pool_holds_under_a_greater_one_of_the_cluster() {
    let pods = pods(3, 60_000, 1024);
    let pools = [limited("nodes", 2)];
    let mut problem = problem(&pods, &pools);
    limit_cluster(&mut problem, &[("nodes", 3), ("cpu", 1000)], Some(100.0));
    let solution = solve_checked(&problem);
    assert!(reasons(&solution).iter().all(|why| why.contains("limit nodes 2 reached")), "{solution:#?}");
}

#[test]
fn pods_of_lower_priority_are_left_out_first_whichever_node_pool_runs_them() {
    let mut pods = vec![of_team("a", "a", 3500), of_team("b", "b", 3500)];
    for (important, left_out) in [(0, 1), (1, 0)] {
        pods.iter_mut().for_each(|pod| pod.template_mut().priority = 0);
        pods[important].template_mut().priority = 1000;
        let pools = teams();
        let mut problem = problem(&pods, &pools);
        limit_cluster(&mut problem, &[("nodes", 1)], None);
        let solution = solve_checked(&problem);
        assert_eq!(solution.unschedulable.iter().map(|pod| pod.pod).collect::<Vec<_>>(), [left_out]);
    }
}

#[test]
fn a_launch_under_a_limit_of_the_cluster_in_dollars_has_one_capacity_type() {
    let mut pool = node_pool("default");
    pool.template.requirements = Requirements::new();
    let pools = [pool];
    let pods = pods(2, 1000, 512);
    let mut problem = problem(&pods, &pools);
    limit_cluster(&mut problem, &[], Some(0.4));
    let solution = solve_checked(&problem);
    let launch = &solution.launches[0];
    assert_eq!(launch.requirements.get(labels::CAPACITY_TYPE), Some(&Requirement::one_of(["spot"])));
    assert!(launch.charge.dollars_per_hour <= 0.4);
}
