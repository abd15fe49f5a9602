//! Equal pods change places, so that the kube-scheduler can bind them in the order of its queue.

use crate::support::*;
use nodeless_model::*;
use nodeless_scheduling::{ExistingNode, Launch, Placement, Problem, Solution, exchange_equal_pods};

fn web(index: usize) -> Pod {
    let topology_spread = vec![topology_spread(labels::ZONE, selector("app", "web"))];
    labelled(pod(format!("web-{index}"), 1000, 1024), "app", "web")
        .with_template(|it| it.topology_spread = topology_spread)
}

/// The zones of the launches of pods, in the order of the pods.
fn zones<'s>(solution: &'s Solution, pods: &[Pod]) -> Vec<&'s str> {
    let launch = |pod: usize| solution.launches.iter().find(|launch| launch.pods.contains(&pod));
    (0..pods.len()).filter_map(launch).map(|launch: &Launch| launch.offering.zone.as_str()).collect()
}

#[test]
fn the_pods_of_a_spread_are_bound_in_the_order_of_their_age() {
    let pods: Vec<Pod> = (0..9).map(web).collect();
    let pools = [node_pool("default")];
    let problem = problem(&pods, &pools);
    let mut solution = solve_checked(&problem);
    // The first pods in one zone, as a plan may have them.
    solution.launches.sort_by(|a, b| a.offering.zone.cmp(&b.offering.zone));
    let mut pod = 0..pods.len();
    for launch in &mut solution.launches {
        launch.pods = pod.by_ref().take(launch.pods.len()).collect();
    }
    let before = zones(&solution, &pods);
    assert_eq!(before[..3], [ZONES[0]; 3]);
    let counts: Vec<usize> = solution.launches.iter().map(|launch| launch.pods.len()).collect();
    exchange_equal_pods(&problem, &mut solution);
    let after = zones(&solution, &pods);
    for round in after.chunks(ZONES.len()) {
        let mut round = round.to_vec();
        round.sort_unstable();
        assert_eq!(round, ZONES, "{after:?}");
    }
    assert_eq!(solution.launches.iter().map(|launch| launch.pods.len()).collect::<Vec<_>>(), counts);
}

#[test]
fn within_a_second_the_resource_version_is_the_age() {
    let mut pods: Vec<Pod> = (0..9).map(web).collect();
    for (pod, version) in pods.iter_mut().zip([1, 10, 5, 4, 20, 3, 9, 8, 7]) {
        pod.resource_version = Some(version);
    }
    let pools = [node_pool("default")];
    let problem = problem(&pods, &pools);
    let mut solution = solve_checked(&problem);
    exchange_equal_pods(&problem, &mut solution);
    let found = zones(&solution, &pods);
    let mut by_version: Vec<usize> = (0..pods.len()).collect();
    by_version.sort_by_key(|pod| pods[*pod].resource_version);
    for round in by_version.chunks(ZONES.len()) {
        let mut round: Vec<&str> = round.iter().map(|pod| found[*pod]).collect();
        round.sort_unstable();
        assert_eq!(round, ZONES, "{found:?}");
    }
}

fn existing(name: &str, zone: &str, nominated: &[&str]) -> ExistingNode {
    let mut requirements = Requirements::new();
    requirements.add(labels::ZONE, Requirement::one_of([zone]));
    let nominated = nominated.iter().map(|pod| (*pod).to_owned()).collect();
    ExistingNode { name: name.into(), requirements, nominated, ..ExistingNode::default() }
}

#[test]
fn pods_stay_on_the_nodes_that_were_launched_for_them() {
    let pods: Vec<Pod> = (0..3).map(web).collect();
    let nodes = vec![
        existing("a", ZONES[0], &["default/web-2"]),
        existing("b", ZONES[1], &["default/web-0", "default/gone"]),
        existing("c", ZONES[2], &[]),
    ];
    let problem = Problem { pods: pods.iter().collect(), nodes, ..Problem::default() };
    let placement = |pod, node| Placement { pod, node };
    let mut solution =
        Solution { placements: (0..3).map(|index| placement(index, index)).collect(), ..Solution::default() };
    exchange_equal_pods(&problem, &mut solution);
    assert_eq!(solution.placements, [placement(0, 1), placement(1, 2), placement(2, 0)]);
}

#[test]
fn pods_that_differ_do_not_change_places() {
    let mut pods: Vec<Pod> = (0..2).map(web).collect();
    pods[1].template_mut().requests.set("cpu", Quantity::from_units(2));
    let nodes = vec![existing("a", ZONES[0], &["default/web-1"]), existing("b", ZONES[1], &["default/web-0"])];
    let problem = Problem { pods: pods.iter().collect(), nodes, ..Problem::default() };
    let placements: Vec<Placement> = (0..2).map(|index| Placement { pod: index, node: index }).collect();
    let mut solution = Solution { placements: placements.clone(), ..Solution::default() };
    exchange_equal_pods(&problem, &mut solution);
    assert_eq!(solution.placements, placements);
}
