//! Pods that only some nodes can run: those with affinity to each other, with local volumes, and those that no new node can run.

use crate::support::*;
use nodeless_model::pod::{PodAffinityTerm, VolumeClaim};
use nodeless_model::*;
use nodeless_scheduling::{ClusterFacts, ExistingNode, Problem, Solution, existing_node};
use std::collections::{BTreeMap, BTreeSet};

fn node(name: &str, zone: &str, cpu: i64) -> ExistingNode {
    let mut node = test_support::node(name, cpu * 1000, cpu * 4 * 1024);
    node.labels.insert(labels::ZONE.into(), zone.into());
    node.labels.insert(labels::ARCH.into(), "amd64".into());
    existing_node(Some(&node), None, &[], &[]).unwrap()
}

/// A pod of a group with affinity to each other.
fn member(name: &str, cpu: i64, key: &str) -> Pod {
    let mut pod = labelled(pod(name, cpu, 512), "app", "group");
    pod.template_mut().required_pod_affinity = vec![PodAffinityTerm {
        topology_key: key.into(),
        selector: Some(selector("app", "group")),
        ..PodAffinityTerm::default()
    }];
    pod
}

fn in_zone(mut pod: Pod, zone: &str) -> Pod {
    pod.template_mut().node_selector.insert(labels::ZONE.into(), zone.into());
    pod
}

/// A NodePool with nodes of this size only.
fn pool_of(kind: &str) -> NodePool {
    let mut pool = node_pool("default");
    pool.template.requirements.add(labels::INSTANCE_TYPE, Requirement::one_of([kind]));
    pool
}

fn with_nodes<'a>(pods: &'a [Pod], pools: &'a [NodePool], nodes: &[ExistingNode]) -> Problem<'a> {
    Problem { nodes: nodes.to_vec(), ..problem(pods, pools) }
}

/// The numbers of pods on existing nodes and on each new node.
fn places(solution: &Solution) -> (usize, Vec<usize>) {
    (solution.placements.len(), solution.launches.iter().map(|launch| launch.pods.len()).collect())
}

#[test]
fn pods_that_share_a_node_go_to_the_one_that_takes_all() {
    let pools = [pool_of("m9.2xlarge")];
    let both = [member("x", 3000, labels::HOSTNAME), member("y", 3000, labels::HOSTNAME)];
    let different = [member("x", 3000, labels::HOSTNAME), member("y", 2500, labels::HOSTNAME)];
    for pods in [&both, &different] {
        let small = [node("a", ZONES[0], 4), node("b", ZONES[1], 4)];
        assert_eq!(places(&solve_checked(&with_nodes(pods, &pools, &small))), (0, vec![2]));
        let large = [node("a", ZONES[0], 4), node("b", ZONES[1], 8)];
        let solution = solve_checked(&with_nodes(pods, &pools, &large));
        assert_eq!(places(&solution), (2, Vec::new()));
        assert!(solution.placements.iter().all(|to| to.node == 1));
    }
}

#[test]
fn where_no_node_takes_all_that_share_one_the_node_that_takes_most_is_used() {
    let pods: Vec<Pod> = (0..4).map(|index| member(&format!("x-{index}"), 3000, labels::HOSTNAME)).collect();
    let nodes = [node("a", ZONES[0], 4), node("b", ZONES[1], 7)];
    let solve = |pool: NodePool| places(&solve_checked(&with_nodes(&pods, &[pool], &nodes)));
    assert_eq!(solve(pool_of("m9.xlarge")), (2, Vec::new()));
    assert_eq!(solve(pool_of("m9.4xlarge")), (0, vec![4]));
    let mut limited = pool_of("m9.4xlarge");
    limited.limits = ResourceList::from([("cpu", Quantity::from_units(8))]);
    assert_eq!(solve(limited), (2, Vec::new()));
}

#[test]
fn pods_that_share_a_zone_go_to_the_one_that_takes_all() {
    let pools = [pool_of("m9.4xlarge")];
    // The selector of one of them decides, whichever is the larger.
    for (free, bound) in [(15_000, 14_000), (14_000, 15_000)] {
        let pods = [member("x", free, labels::ZONE), in_zone(member("y", bound, labels::ZONE), ZONES[2])];
        let solution = solve_checked(&with_nodes(&pods, &pools, &[node("a", ZONES[0], 32)]));
        assert!(solution.unschedulable.is_empty(), "{solution:#?}");
        assert!(solution.launches.iter().all(|launch| launch.offering.zone == ZONES[2]));
    }
    let anywhere = [member("x", 15_000, labels::ZONE), member("y", 14_000, labels::ZONE)];
    let solution = solve_checked(&with_nodes(&anywhere, &pools, &[node("a", ZONES[0], 32)]));
    assert_eq!(places(&solution), (2, Vec::new()));
}

#[test]
fn limits_count_when_pods_that_share_a_zone_choose_it() {
    let mut pools = [pool_of("m9.large")];
    pools[0].limits = ResourceList::from([("nodes", Quantity::from_units(0))]);
    let pods: Vec<Pod> = (0..3).map(|index| member(&format!("x-{index}"), 3000, labels::ZONE)).collect();
    let nodes = [node("a", ZONES[0], 4), node("b-1", ZONES[1], 7), node("b-2", ZONES[1], 4)];
    let solution = solve_checked(&with_nodes(&pods, &pools, &nodes));
    assert_eq!(places(&solution), (3, Vec::new()), "{solution:#?}");
    assert!(solution.placements.iter().all(|to| to.node > 0));
}

#[test]
fn pods_that_no_new_node_can_run_fill_existing_nodes_first() {
    let pools = [pool_of("m9.large")];
    let mut bound = pod("bound", 1000, 512);
    bound.template_mut().node_selector.insert("disk".into(), "ssd".into());
    let mut existing = node("a", ZONES[0], 2);
    existing.requirements.add("disk", Requirement::one_of(["ssd"]));
    let pods = [pod("flexible", 1500, 512), bound];
    let solution = solve_checked(&with_nodes(&pods, &pools, std::slice::from_ref(&existing)));
    assert!(solution.unschedulable.is_empty(), "{solution:#?}");
    assert_eq!(solution.placements[0].pod, 1);
}

fn with_volume(mut pod: Pod) -> Pod {
    pod.template_mut().volume_claims = vec![VolumeClaim { claim_name: "data".into(), ephemeral: false }];
    pod
}

#[test]
fn a_pod_with_a_local_volume_goes_to_the_node_that_has_it_while_it_exists() {
    let pools = [node_pool("default")];
    let pods = [with_volume(pod("db", 500, 512))];
    let volumes = BTreeMap::from([("default/data".to_owned(), Vec::new())]);
    let hosts = BTreeMap::from([("default/data".to_owned(), BTreeSet::from(["b".to_owned()]))]);
    let facts = ClusterFacts { volumes: &volumes, volume_hosts: &hosts, ..ClusterFacts::default() };
    let solve = |nodes: &[ExistingNode]| solve_checked(&Problem { facts, ..with_nodes(&pods, &pools, nodes) });
    let solution = solve(&[node("a", ZONES[0], 4), node("b", ZONES[1], 4)]);
    assert_eq!(solution.placements[0].node, 1);
    let full = solve(&[node("a", ZONES[0], 4), node("b", ZONES[1], 0)]);
    assert_eq!(
        reasons(&full),
        [
            "PersistentVolumeClaim data is a local volume of node b, which has too little capacity, or whose taints, labels or pods \
             exclude the pod"
        ]
    );
    assert_eq!(places(&solve(&[node("a", ZONES[0], 4)])), (1, Vec::new()), "the volume is lost");
    assert_eq!(places(&solve(&[])), (0, vec![1]));
}
