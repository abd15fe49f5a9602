//! Capacity reservations: used first, and counted down within a plan.

use crate::support::*;
use nodeless_model::*;
use nodeless_scheduling::{Launch, Options, PRICE_OF_NODE, Problem, Solution};

/// The catalog with a reservation of a number of instances of a type in the second zone.
fn reserved_catalog(instance_type: &str, remaining: u32) -> InstanceTypes {
    let mut types = catalog().to_vec();
    for kind in types.iter_mut().filter(|kind| kind.name == instance_type) {
        let on_demand = kind.offerings.iter().find(|one| one.capacity_type == CapacityType::OnDemand).unwrap();
        let offering = Offering {
            zone: ZONES[1].into(),
            capacity_type: CapacityType::Reserved,
            price: on_demand.price / 10_000_000.0,
            available: true,
            lacks_price: false,
            reservation: Some(Reservation { id: "cr-1".into(), remaining, each: 1, reuse: Reuse::No }),
            requirements: Requirements::from([(labels::CAPACITY_RESERVATION_ID, Requirement::one_of(["cr-1"]))]),
        };
        kind.offerings.push(offering);
        kind.requirements.remove(labels::CAPACITY_TYPE);
        kind.requirements.add(labels::CAPACITY_TYPE, Requirement::one_of(["on-demand", "reserved", "spot"]));
    }
    types.into()
}

fn pool(name: &str) -> NodePool {
    let mut pool = node_pool(name);
    pool.template.requirements =
        Requirements::from([(labels::CAPACITY_TYPE, Requirement::one_of(["on-demand", "reserved"]))]);
    pool
}

fn planned<'a>(pods: &'a [Pod], pools: &'a [NodePool], remaining: u32) -> Problem<'a> {
    let mut problem = problem(pods, pools);
    for offer in &mut problem.node_pools {
        offer.instance_types = reserved_catalog("m9.xlarge", remaining);
    }
    problem
}

fn reserved(solution: &Solution) -> Vec<&Launch> {
    let is = |launch: &&Launch| launch.offering.capacity_type == CapacityType::Reserved;
    solution.launches.iter().filter(is).collect()
}

#[test]
fn no_more_nodes_go_into_a_reservation_than_it_has_left() {
    for (remaining, pods, expected) in [(0, 9, 0), (2, 9, 2), (2, 3, 1), (5, 9, 3)] {
        let pods = pods_of(pods);
        let pools = [pool("default")];
        let solution = solve_checked(&planned(&pods, &pools, remaining));
        assert!(solution.unschedulable.is_empty());
        assert_eq!(reserved(&solution).len(), expected, "{remaining} left: {solution:#?}");
        for launch in reserved(&solution) {
            let single = |key| launch.requirements.get(key).unwrap().single();
            assert_eq!(single(labels::CAPACITY_TYPE), Some("reserved"));
            assert_eq!(single(labels::CAPACITY_RESERVATION_ID), Some("cr-1"));
            assert_eq!(single(labels::ZONE), Some(ZONES[1]));
            assert_eq!(launch.instance_types.len(), 1);
        }
        for launch in solution.launches.iter().filter(|one| one.offering.capacity_type != CapacityType::Reserved) {
            assert!(!launch.requirements.get(labels::CAPACITY_TYPE).unwrap().has("reserved"));
        }
    }
}

/// Three of them fill an xlarge.
fn pods_of(count: usize) -> Vec<Pod> {
    pods(count, 1200, 4096)
}

#[test]
fn pools_share_what_is_left_of_a_reservation() {
    let (mut first, second) = (pool("first"), pool("second"));
    first.weight = 10;
    first.limits = ResourceList::new().with("nodes", Quantity::from_units(1));
    let pools = [first, second];
    let pods = pods_of(12);
    let solution = solve_checked(&planned(&pods, &pools, 2));
    assert!(solution.unschedulable.is_empty());
    assert_eq!(reserved(&solution).len(), 2, "{solution:#?}");
}

#[test]
fn a_pod_that_must_not_use_a_reservation_does_not_join_a_node_in_one() {
    let mut pods = pods_of(2);
    pods[1].template_mut().node_selector.insert(labels::CAPACITY_TYPE.into(), "on-demand".into());
    let pools = [pool("default")];
    let solution = solve_checked(&planned(&pods, &pools, 5));
    assert_eq!(reserved(&solution).iter().map(|launch| launch.pods.clone()).collect::<Vec<_>>(), [vec![0]]);
}

/// The catalog with hours that are paid for anyway, of which a node of each size uses as much as it has cpu.
fn prepaid_catalog(remaining: u32) -> InstanceTypes {
    let mut types = catalog().to_vec();
    for kind in &mut types {
        let each = u32::try_from(kind.capacity.get("cpu").milli() / 1000).unwrap();
        let on_demand = kind.offerings.iter().filter(|one| one.capacity_type == CapacityType::OnDemand);
        let prepaid: Vec<Offering> = on_demand
            .map(|one| Offering {
                price: one.price / 10_000_000.0,
                reservation: Some(Reservation { id: "prepaid".into(), remaining, each, reuse: Reuse::No }),
                ..one.clone()
            })
            .collect();
        kind.offerings.extend(prepaid);
    }
    types.into()
}

#[test]
fn nodes_of_several_sizes_use_no_more_of_a_reservation_than_it_has_left() {
    for remaining in [0, 1, 7, 16, 33, 1000] {
        let pods = pods_of(40);
        let pools = [pool("first"), pool("second")];
        let mut problem = problem(&pods, &pools);
        for offer in &mut problem.node_pools {
            offer.instance_types = prepaid_catalog(remaining);
        }
        let solution = nodeless_scheduling::solve(&problem, &Options::default());
        assert!(solution.unschedulable.is_empty());
        let (prepaid, others): (Vec<&Launch>, Vec<&Launch>) =
            solution.launches.iter().partition(|launch| launch.reservation() == Some("prepaid"));
        let each = |launch: &&Launch| {
            let types = &problem.node_pools[0].instance_types;
            let kind = types.iter().find(|kind| kind.name == launch.offering.instance_type).unwrap();
            u32::try_from(kind.capacity.get("cpu").milli() / 1000).unwrap()
        };
        let used: u32 = prepaid.iter().map(each).sum();
        assert!(used <= remaining, "{used} of {remaining}");
        assert!(prepaid.iter().all(|launch| launch.offering.price < 1e-4));
        assert!(others.iter().all(|launch| launch.offering.price > 1e-3));
        // Other nodes are launched only where too little is left for a node.
        let least = problem.node_pools[0]
            .instance_types
            .iter()
            .filter_map(|kind| kind.offerings.iter().find_map(|one| one.reservation.as_ref()).map(|held| held.each));
        assert!(others.is_empty() || remaining - used < least.max().unwrap(), "{used} of {remaining}");
    }
}

/// A catalog whose m9.xlarge has these reservations: zone, instances, type, and whether it is interruptible.
fn catalog_with(reservations: &[(&str, &str, u32, &str, bool)]) -> InstanceTypes {
    let mut types = reserved_catalog("m9.xlarge", 1).to_vec();
    for kind in types.iter_mut().filter(|kind| kind.name == "m9.xlarge") {
        let example = kind.offerings.pop().unwrap();
        kind.offerings.extend(reservations.iter().map(|(id, zone, remaining, kind, interruptible)| {
            let own = [
                (labels::CAPACITY_RESERVATION_ID, Requirement::one_of([*id])),
                (labels::CAPACITY_RESERVATION_TYPE, Requirement::one_of([*kind])),
                (labels::CAPACITY_RESERVATION_INTERRUPTIBLE, Requirement::one_of([interruptible.to_string()])),
            ];
            Offering {
                zone: (*zone).into(),
                reservation: Some(Reservation { id: (*id).into(), remaining: *remaining, each: 1, reuse: Reuse::No }),
                requirements: Requirements::from(own),
                ..example.clone()
            }
        }));
    }
    types.into()
}

#[test]
fn of_reservations_with_one_price_those_that_can_be_reclaimed_and_smaller_ones_are_used_last() {
    let (one, other) = (ZONES[0], ZONES[1]);
    for (first, second) in [
        (("b", other, 1, "default", false), ("a", one, 9, "default", true)),
        (("b", other, 1, "default", false), ("a", one, 9, "capacity-block", false)),
        (("b", other, 1, "capacity-block", false), ("a", one, 9, "default", true)),
        (("b", other, 6, "default", false), ("a", one, 5, "default", false)),
        (("a", one, 5, "default", false), ("b", other, 5, "default", false)),
    ] {
        let pods = pods_of(1);
        let pools = [pool("default")];
        let mut problem = problem(&pods, &pools);
        problem.node_pools[0].instance_types = catalog_with(&[second, first]);
        let solution = solve_checked(&problem);
        assert_eq!(solution.launches[0].reservation(), Some(first.0), "{first:?} before {second:?}");
    }
}

/// The catalog with stopped instances of a type in the second zone, whose nodes have the label `team`.
fn with_stopped(instance_type: &str, count: u32) -> InstanceTypes {
    let mut types = catalog().to_vec();
    for kind in types.iter_mut().filter(|kind| kind.name == instance_type) {
        let is_launched = |one: &&Offering| one.zone == ZONES[1] && one.capacity_type == CapacityType::OnDemand;
        let launched = kind.offerings.iter().find(is_launched).unwrap();
        let stopped = Offering {
            price: launched.price - PRICE_OF_NODE,
            reservation: Some(Reservation {
                id: format!("{}a", Reservation::STOPPED),
                remaining: count,
                each: 1,
                reuse: Reuse::No,
            }),
            requirements: Requirements::from([("team", Requirement::one_of(["a"]))]),
            ..launched.clone()
        };
        kind.offerings.push(stopped);
    }
    types.into()
}

/// How many stopped instances of a type are started, and how many nodes are launched, for pods of three CPUs.
fn started(pool: NodePool, pods: &[Pod], instance_type: &str, count: u32) -> (usize, usize) {
    let pools = [pool];
    let mut problem = problem(pods, &pools);
    problem.node_pools[0].instance_types = with_stopped(instance_type, count);
    let solution = nodeless_scheduling::solve(&problem, &Options::default());
    assert!(solution.unschedulable.is_empty(), "{solution:#?}");
    let (started, launched): (Vec<&Launch>, Vec<&Launch>) =
        solution.launches.iter().partition(|launch| launch.starts.is_some());
    for launch in &started {
        assert_eq!((launch.offering.zone.as_str(), launch.reservation()), (ZONES[1], None), "{launch:#?}");
        assert_eq!(launch.offering.instance_type, instance_type);
    }
    (started.len(), launched.len())
}

#[test]
fn stopped_instances_are_started_where_a_launch_costs_no_less() {
    let on_demand = || {
        let mut pool = node_pool("default");
        let requirements = &mut pool.template.requirements;
        requirements.add(labels::CAPACITY_TYPE, Requirement::one_of(["on-demand"]));
        requirements.add(labels::INSTANCE_FAMILY, Requirement::one_of(["m9"]));
        pool
    };
    let two = pods(2, 3000, 4096);
    // A 2xlarge for both pods costs as much as two xlarge.
    assert_eq!(started(on_demand(), &two, "m9.xlarge", 0), (0, 1));
    assert_eq!(started(on_demand(), &two, "m9.xlarge", 2), (2, 0));
    assert_eq!(started(on_demand(), &two, "m9.xlarge", 1), (1, 1));
    assert_eq!(started(on_demand(), &pods(3, 3000, 4096), "m9.xlarge", 2), (2, 1));
    // One pod needs no more than an xlarge.
    assert_eq!(started(on_demand(), &two[..1], "m9.2xlarge", 1), (0, 1));
    // Of another family, it is cheaper to launch.
    let mut any = on_demand();
    any.template.requirements.remove(labels::INSTANCE_FAMILY);
    assert_eq!(started(any, &two, "m9.xlarge", 2), (0, 1));
    // Spot is cheaper.
    let mut spot = on_demand();
    spot.template.requirements.remove(labels::CAPACITY_TYPE);
    assert_eq!(started(spot, &two, "m9.xlarge", 2).0, 0);
    // To start one, no other type has to be listed.
    let mut flexible = on_demand();
    let sizes = Requirement::one_of(["xlarge", "2xlarge"]).with_min_values(Some(2));
    flexible.template.requirements.add(labels::INSTANCE_SIZE, sizes);
    assert_eq!(started(flexible, &two, "m9.xlarge", 2), (2, 0));
}

#[test]
fn stopped_instances_are_not_started_for_pods_that_select_other_labels() {
    let mut pool = node_pool("default");
    pool.template.requirements.add(labels::CAPACITY_TYPE, Requirement::one_of(["on-demand"]));
    pool.template.requirements.add(labels::INSTANCE_FAMILY, Requirement::one_of(["m9"]));
    pool.template.requirements.add("team", Requirement::one_of(["a", "b"]));
    let of = |key: &str, value: &str| -> Vec<Pod> {
        let selecting = |pod: Pod| pod.with_template(|it| it.node_selector.extend([(key.into(), value.into())]));
        pods(2, 3000, 4096).into_iter().map(selecting).collect()
    };
    assert_eq!(started(pool.clone(), &of("team", "a"), "m9.xlarge", 2), (2, 0));
    assert_eq!(started(pool.clone(), &of("team", "b"), "m9.xlarge", 2).0, 0);
    assert_eq!(started(pool, &of(labels::ZONE, ZONES[0]), "m9.xlarge", 2).0, 0);
}
