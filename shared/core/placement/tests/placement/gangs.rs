//! Pods of a PodGroup are planned together or not at all.

use crate::support::*;
use jiff::Timestamp;
use nodeless_model::*;
use nodeless_placement::{Policy, plan};
use nodeless_scheduling::{BoundPods, ClusterFacts, Options, Problem, Solution};
use std::collections::BTreeMap;

/// A pending pod of this PodGroup with seven CPUs.
fn member(group: &str, index: usize) -> Pod {
    let mut pod = pod(&format!("{group}-{index}"), 7000, 512).with_template(|it| it.pod_group = Some(group.into()));
    pod.created = Some(Timestamp::from_second(i64::try_from(index).unwrap()).unwrap());
    pod
}

fn members(group: &str, count: usize) -> Vec<Pod> {
    (0..count).map(|index| member(group, index)).collect()
}

/// The plan for pods where NodePools may launch so many CPUs, and the names of its pods that have a place.
fn planned(pods: &[Pod], bound: &[Pod], groups: &[(&str, u32)], cpus: i64) -> (Solution, Vec<String>) {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.types = world.types.iter().filter(|kind| kind.name == "m9.2xlarge").cloned().collect();
    world.pools[0].limits = ResourceList::new().with("cpu", Quantity::from_units(cpus));
    let cluster = world.cluster();
    let groups: BTreeMap<String, u32> =
        groups.iter().map(|(name, least)| (format!("default/{name}"), *least)).collect();
    let node = Node { name: "n".into(), ..Node::default() };
    let problem = Problem {
        pods: pods.iter().collect(),
        node_pools: cluster.node_pools.clone(),
        bound_pods: vec![BoundPods::on(&node, bound.iter().collect())],
        facts: ClusterFacts { pod_groups: &groups, ..cluster.facts },
        ..Problem::default()
    };
    let solution = plan(&problem, &Policy::new(&Options::default(), true));
    let launched = solution.launches.iter().flat_map(|launch| launch.pods.iter().copied());
    let mut placed: Vec<usize> = launched.chain(solution.placements.iter().map(|placement| placement.pod)).collect();
    placed.sort_unstable();
    let refused: Vec<usize> = solution.unschedulable.iter().map(|refused| refused.pod).collect();
    let all: std::collections::BTreeSet<usize> = placed.iter().chain(&refused).copied().collect();
    assert_eq!((all.len(), placed.len() + refused.len()), (pods.len(), pods.len()), "{solution:#?}");
    let placed = placed.into_iter().map(|pod| pods[pod].name.clone()).collect();
    (solution, placed)
}

fn reasons(solution: &Solution) -> Vec<String> {
    solution.unschedulable.iter().map(|refused| refused.reasons[0].to_string()).collect()
}

#[test]
fn fewer_pods_than_are_scheduled_together_get_no_nodes() {
    let pods = members("g", 3);
    // The least number, the CPUs of the limit, and the pods that are planned.
    for (least, cpus, expected) in [(3, 16, 0), (3, 24, 3), (2, 16, 2), (2, 8, 0), (4, 100, 0), (0, 16, 2)] {
        let groups = [("g", least)];
        let groups = if least == 0 { &[][..] } else { &groups };
        let (solution, placed) = planned(&pods, &[], groups, cpus);
        assert_eq!(placed.len(), expected, "{least} {cpus}: {solution:#?}");
    }
    let (solution, _) = planned(&pods, &[], &[("g", 3)], 16);
    let why = reasons(&solution);
    assert_eq!(why.len(), 3, "the reason is on all of them");
    for why in why {
        assert!(
            why.starts_with("PodGroup default/g schedules 3 pods at once") && why.contains("nodes for 2: NodePool"),
            "{why}"
        );
    }
}

#[test]
fn pods_that_do_not_exist_yet_are_waited_for() {
    let (solution, placed) = planned(&members("g", 2), &[], &[("g", 3)], 100);
    assert!(placed.is_empty() && reasons(&solution)[0].ends_with("there are 2"), "{solution:#?}");
    // Those that run count, and those of other groups and without one do not.
    let running = Pod { name: "g-9".into(), node_name: Some("n".into()), ..member("g", 9) };
    let (_, placed) = planned(&members("g", 2), std::slice::from_ref(&running), &[("g", 3)], 100);
    assert_eq!(placed.len(), 2);
    let (_, placed) = planned(&members("h", 2), &[running], &[("h", 3)], 100);
    assert!(placed.is_empty());
}

#[test]
fn pods_beyond_the_least_number_are_planned_one_by_one() {
    let (solution, placed) = planned(&members("g", 5), &[], &[("g", 3)], 32);
    assert_eq!(placed.len(), 4);
    assert!(reasons(&solution)[0].starts_with("NodePool default"), "{solution:#?}");
}

#[test]
fn a_gang_that_does_not_fit_leaves_its_space_to_others() {
    let mut pods = members("large", 4);
    pods.extend(members("small", 2).into_iter().map(|pod| Pod { created: Some(at(100)), ..pod }));
    pods.push(pod("single", 7000, 512));
    let (_, mut placed) = planned(&pods, &[], &[("large", 4), ("small", 2)], 24);
    placed.sort();
    assert_eq!(placed, ["single", "small-0", "small-1"]);
    // Of two that fit one by one, the older is planned, and the one of higher priority before it.
    let pods: Vec<Pod> = members("old", 2)
        .into_iter()
        .chain(members("new", 2).into_iter().map(|pod| Pod { created: Some(at(100)), ..pod }))
        .collect();
    let groups = [("old", 2), ("new", 2)];
    let names = |pods: &[Pod]| planned(pods, &[], &groups, 24).1;
    assert_eq!(names(&pods), ["old-0", "old-1"]);
    let urgent = |pod: Pod| if pod.name.starts_with("new") { pod.with_template(|it| it.priority = 7) } else { pod };
    assert_eq!(names(&pods.into_iter().map(urgent).collect::<Vec<_>>()), ["new-0", "new-1"]);
}

/// The plan of a policy for pods with limits of so many CPUs, and the names of the pods that have a place.
fn planned_with(
    policy: &Policy<'_>,
    pods: &[Pod],
    groups: &BTreeMap<String, u32>,
    cpus: i64,
) -> (Solution, Vec<String>) {
    let mut world = TestCluster::new(vec![node_pool("default")]);
    world.types = world.types.iter().filter(|kind| kind.name == "m9.2xlarge").cloned().collect();
    world.pools[0].limits = ResourceList::new().with("cpu", Quantity::from_units(cpus));
    let cluster = world.cluster();
    let problem = Problem {
        pods: pods.iter().collect(),
        node_pools: cluster.node_pools.clone(),
        facts: ClusterFacts { pod_groups: groups, ..cluster.facts },
        ..Problem::default()
    };
    let solution = plan(&problem, policy);
    let launched = solution.launches.iter().flat_map(|launch| launch.pods.iter().copied());
    let placed = launched.map(|pod| pods[pod].name.clone()).collect();
    (solution, placed)
}

#[test]
fn all_solutions_share_the_work_of_the_plan() {
    // Of twelve gangs of three, each needs more than the limit allows.
    let names: Vec<String> = (0..12).map(|number| format!("g{number:02}")).collect();
    let mut pods: Vec<Pod> = names.iter().flat_map(|name| members(name, 3)).collect();
    pods.extend((0..3).map(|index| pod(&format!("single-{index}"), 7000, 512)));
    let groups: BTreeMap<String, u32> = names.iter().map(|name| (format!("default/{name}"), 3)).collect();
    let free = Options::default();
    let (solution, placed) = planned_with(&Policy::new(&free, true), &pods, &groups, 16);
    assert_eq!(placed.len(), 2, "{placed:?}");
    assert!(placed.iter().all(|name| name.starts_with("single")), "{placed:?}");
    for max in [solution.work, solution.work / 2, solution.work / 4] {
        let limited = Options { max_work: Some(max), ..free };
        let (solution, _) = planned_with(&Policy::new(&limited, true), &pods, &groups, 16);
        // The work of one step may exceed the limit, once for each solution.
        assert!(solution.work <= max + max / 5, "{} of {max}", solution.work);
        let names = |prefix: &str| {
            let launched = solution.launches.iter().flat_map(|launch| &launch.pods);
            launched.filter(|pod| pods[**pod].name.starts_with(prefix)).count()
        };
        assert_eq!(names("g") % 3, 0, "no part of a gang");
        assert!(names("single") > 0, "others have their nodes");
    }
}

#[test]
fn all_pods_of_a_request_have_nodes_or_none() {
    let pods: Vec<Pod> = [("a", 2), ("b", 2), ("c", 1)]
        .iter()
        .flat_map(|(name, count)| {
            (0..*count)
                .map(move |index| Pod { uid: format!("{name}-{index}"), ..pod(&format!("{name}-{index}"), 7000, 512) })
        })
        .collect();
    let none = BTreeMap::new();
    let policy = Policy {
        whole: vec![vec!["a-0", "a-1"], vec!["b-0", "b-1"], vec!["c-0"]],
        ..Policy::new(&Options::default(), true)
    };
    let names = |cpus| {
        let (solution, mut placed) = planned_with(&policy, &pods, &none, cpus);
        placed.sort();
        (placed, reasons(&solution))
    };
    assert_eq!(names(40), (pods.iter().map(|pod| pod.name.clone()).collect(), vec![]));
    let (placed, why) = names(24);
    assert_eq!(placed, ["a-0", "a-1", "c-0"], "the last one that fits takes the place of one before it that does not");
    assert_eq!(why.len(), 2);
    assert!(why[0].starts_with("no node for 1 of 2 pods, so that none is launched: NodePool default"), "{why:?}");
    assert_eq!(names(8).0, ["c-0"]);
}
