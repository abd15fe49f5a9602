//! Where a plan is better than Karpenter's, case by case; `docs/scheduling-constraints.md` lists them.

use crate::support::*;
use nodeless_model::pod::{PodAffinityTerm, TopologySpread};
use nodeless_model::*;
use nodeless_scheduling::{BoundPods, Solution};
use std::collections::BTreeSet;

fn app(name: &str, cpu_milli: i64) -> Pod {
    labelled(pod(name, cpu_milli, 1024), "app", "db")
}

fn near(key: &str) -> PodAffinityTerm {
    let selector = selector("app", "db");
    PodAffinityTerm { selector: Some(selector), topology_key: key.into(), ..PodAffinityTerm::default() }
}

/// The zones that launches are bound to.
fn zones(solution: &Solution) -> BTreeSet<Option<&str>> {
    solution.launches.iter().map(|launch| launch.requirements.get(labels::ZONE).unwrap().single()).collect()
}

fn tolerant(pods: &mut [Pod]) {
    for pod in pods {
        pod.template_mut().tolerations =
            vec![Toleration { operator: taint::TolerationOperator::Exists, ..Toleration::default() }];
    }
}

#[test]
fn the_first_pod_of_a_zonally_self_affine_group_fixes_the_zone_for_the_rest() {
    // Sizes that differ, so that they are several classes on several nodes.
    let mut pods: Vec<Pod> = (0..30).map(|index| app(&format!("db-{index:02}"), 500 + 100 * (index % 7))).collect();
    pods.iter_mut().for_each(|pod| pod.template_mut().required_pod_affinity = vec![near(labels::ZONE)]);
    let pools = [node_pool("default")];
    let solution = solve_checked(&problem(&pods, &pools));
    assert!(solution.unschedulable.is_empty());
    let zones = zones(&solution);
    assert!(zones.len() == 1 && !zones.contains(&None), "{zones:?}");
}

#[test]
fn zonally_anti_affine_pods_are_all_placed_in_one_round_each_in_its_own_zone() {
    let mut pods: Vec<Pod> = (0..3).map(|index| app(&format!("db-{index}"), 500 + 100 * index)).collect();
    pods.iter_mut().for_each(|pod| pod.template_mut().required_pod_anti_affinity = vec![near(labels::ZONE)]);
    let pools = [node_pool("default")];
    let solution = solve_checked(&problem(&pods, &pools));
    assert!(solution.unschedulable.is_empty());
    let zones = zones(&solution);
    assert!(zones.len() == 3 && !zones.contains(&None), "{zones:?}");
}

#[test]
fn a_limit_on_nodes_counts_what_the_plan_launches() {
    let mut pool = node_pool("default");
    pool.limits = ResourceList::new().with("nodes", Quantity::from_units(3));
    let pools = [pool];
    let pods = pods(5, 60_000, 1024);
    let mut problem = problem(&pods, &pools);
    problem.node_pools[0].usage.resources = ResourceList::new().with("nodes", Quantity::from_units(1));
    let solution = solve_checked(&problem);
    assert_eq!((solution.launches.len(), solution.unschedulable.len()), (2, 3));
    assert_eq!(solution.unschedulable[0].reasons[0].to_string(), "NodePool default: limit nodes 3 reached: 3 used");
}

#[test]
fn a_limit_is_charged_with_what_is_launched_and_not_with_the_largest_type() {
    // Four nodes of two cpus are within the limit, though any type of up to 64 would hold the pods.
    let mut pool = node_pool("default");
    pool.limits = ResourceList::new().with("cpu", Quantity::from_units(8));
    let pools = [pool];
    let mut pods = pods(4, 1500, 512);
    pods.iter_mut().for_each(|pod| {
        pod.template_mut().labels.insert("app".into(), "db".into());
        pod.template_mut().required_pod_anti_affinity = vec![near(labels::HOSTNAME)];
    });
    let solution = solve_checked(&problem(&pods, &pools));
    assert_eq!((solution.launches.len(), solution.unschedulable.len()), (4, 0));
    for launch in &solution.launches {
        assert_eq!(launch.charge.resources.get("cpu"), Quantity::from_units(2));
        assert!(launch.instance_types.iter().all(|kind| kind.name.ends_with(".large")), "{launch:#?}");
    }
}

#[test]
fn a_tolerant_pod_does_not_drift_to_a_lower_weight_because_a_node_there_was_opened_first() {
    let mut heavy = node_pool("heavy");
    heavy.weight = 10;
    let mut light = node_pool("light");
    light.template.taints = vec![Taint::new("light", TaintEffect::NoSchedule)];
    light.template.labels.insert("light".into(), "yes".into());
    let pools = [heavy, light];
    for related in [false, true] {
        // The large pod opens a node of the lighter pool, with much free capacity; it comes first by its size.
        let mut pods = vec![app("bound", 5000), app("free-0", 100), app("free-1", 100)];
        tolerant(&mut pods);
        pods[0].template_mut().node_selector.insert("light".into(), "yes".into());
        if related {
            for pod in &mut pods[1..] {
                let spread = topology_spread(labels::ZONE, selector("app", "db"));
                pod.template_mut().topology_spread = vec![TopologySpread { max_skew: 3, ..spread }];
            }
        }
        let solution = solve_checked(&problem(&pods, &pools));
        assert!(solution.unschedulable.is_empty());
        for launch in &solution.launches {
            let expected: &[usize] = if launch.node_pool == "light" { &[0] } else { &[1, 2] };
            assert!(launch.pods.iter().all(|pod| expected.contains(pod)), "related {related}: {solution:#?}");
        }
    }
}

#[test]
fn a_pod_that_may_use_spot_does_not_ride_on_an_on_demand_node_unless_that_is_cheaper() {
    let mut pool = node_pool("default");
    pool.template.requirements = Requirements::new();
    let pools = [pool];
    let mut all = vec![pod("on-demand", 1500, 1024)];
    all[0].template_mut().node_selector.insert(labels::CAPACITY_TYPE.into(), "on-demand".into());
    all.extend(pods(24, 1000, 1024));
    let together = solve_checked(&problem(&all, &pools));
    let apart: f64 =
        [&all[..1], &all[1..]].map(|pods| solve_checked(&problem(pods, &pools)).price_per_hour()).iter().sum();
    assert!(together.price_per_hour() <= apart + 1e-9, "{} > {apart}", together.price_per_hour());
    let riding = together.launches.iter().filter(|launch| launch.offering.capacity_type == CapacityType::OnDemand);
    assert_eq!(riding.map(|launch| launch.offering.instance_type.as_str()).collect::<Vec<_>>(), ["c9.large"]);
    // The remaining capacity of a required node costs nothing.
    let filler = [all[0].clone(), pod("small", 200, 256)];
    assert_eq!(solve_checked(&problem(&filler, &pools)).launches.len(), 1);
}

#[test]
fn alternatives_of_required_affinity_are_compared_and_not_dropped() {
    // Karpenter takes the first term that works; the second is cheaper.
    let mut pod = pod("web", 1000, 1024);
    let family = |name: &str| vec![term(labels::INSTANCE_FAMILY, Operator::In, &[name])];
    pod.template_mut().required_node_affinity = vec![family("r9"), family("c9")];
    let pods = [pod];
    assert_eq!(chosen(&solve_checked(&problem(&pods, &[node_pool("default")]))), ["c9.large"]);
}

/// Pods of one label that spread over zones.
fn spreading(count: usize, change: impl Fn(&mut Pod, &mut TopologySpread)) -> Vec<Pod> {
    let mut pods: Vec<Pod> = (0..count).map(|index| app(&format!("db-{index}"), 500)).collect();
    for pod in &mut pods {
        let mut spread = topology_spread(labels::ZONE, selector("app", "db"));
        change(pod, &mut spread);
        pod.template_mut().topology_spread = vec![spread];
    }
    pods
}

#[test]
fn a_node_pool_whose_nodes_the_pod_rules_out_adds_no_domains() {
    // No node of the other team will ever count for this spread, whichever zone it is in.
    let [mut own, mut other] = ["a", "b"].map(|team| {
        let mut pool = node_pool(team);
        pool.template.labels.insert("team".into(), team.into());
        pool
    });
    own.template.requirements.add(labels::ZONE, Requirement::one_of([ZONES[0], ZONES[1]]));
    other.template.requirements.add(labels::ZONE, Requirement::one_of([ZONES[2]]));
    let pools = [own, other];
    for (honor, placed) in [(true, 4), (false, 2)] {
        let pods = spreading(4, |pod, spread| {
            pod.template_mut().node_selector.insert("team".into(), "a".into());
            spread.honor_node_affinity = honor;
        });
        let solution = solve_checked(&problem(&pods, &pools));
        assert_eq!(solution.launches.iter().map(|launch| launch.pods.len()).sum::<usize>(), placed, "{honor}");
    }
}

#[test]
fn nodes_in_a_zone_that_the_pod_rules_out_count_where_node_affinity_is_ignored() {
    // The kube-scheduler counts them; a zone without a node it does not count, and nor does Karpenter.
    let pools = [node_pool("default")];
    for (honor, there, placed) in [(true, true, 4), (false, true, 2), (false, false, 4)] {
        let pods = spreading(4, |pod, spread| {
            pod.template_mut().required_node_affinity = vec![vec![term(labels::ZONE, Operator::In, &ZONES[..2])]];
            spread.honor_node_affinity = honor;
        });
        let node_labels = StringMap::from([(labels::ZONE.to_owned(), ZONES[2].to_owned())]);
        let node = BoundPods { name: "node", labels: &node_labels, taints: &[], pods: Vec::new() };
        let mut problem = problem(&pods, &pools);
        problem.bound_pods.extend(there.then_some(node));
        let solution = solve_checked(&problem);
        assert_eq!(solution.launches.iter().map(|launch| launch.pods.len()).sum::<usize>(), placed, "{honor} {there}");
    }
}
