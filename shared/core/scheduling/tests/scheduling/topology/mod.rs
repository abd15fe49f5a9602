//! Topology spread, pod affinity and anti-affinity: where pods go, and the words when they cannot.

mod preferred;
mod spread;

use crate::support::*;
use nodeless_model::pod::{PodAffinityTerm, TopologySpread};
use nodeless_model::selector::{LabelExpression, LabelOperator};
use nodeless_model::*;
use nodeless_scheduling::{BoundPods, ExistingNode, Options, Problem, Solution, existing_node};
use std::collections::BTreeMap;

fn app(name: &str, app: &str) -> Pod {
    labelled(pod(name, 1000, 1024), "app", app)
}

fn spread(key: &str, app: &str) -> TopologySpread {
    topology_spread(key, selector("app", app))
}

fn near(key: &str, app: &str) -> PodAffinityTerm {
    PodAffinityTerm { selector: Some(selector("app", app)), topology_key: key.into(), ..PodAffinityTerm::default() }
}

fn many(count: usize, name: &str, change: impl Fn(&mut Pod)) -> Vec<Pod> {
    (0..count)
        .map(|index| {
            let mut pod = app(&format!("{name}-{index:03}"), name);
            change(&mut pod);
            pod
        })
        .collect()
}

fn node(name: &str, zone: &str, cpu: i64) -> Node {
    let mut node = test_support::node(name, cpu * 1000, 64 * 1024);
    node.labels.insert(labels::ZONE.into(), zone.into());
    node
}

/// Nodes with their pods.
fn cluster<'a>(problem: Problem<'a>, nodes: &'a [(Node, Vec<Pod>)]) -> Problem<'a> {
    let place = |(node, pods): &(Node, Vec<Pod>)| -> ExistingNode {
        existing_node(Some(node), None, &pods.iter().collect::<Vec<_>>(), &[]).unwrap()
    };
    Problem {
        nodes: nodes.iter().map(place).collect(),
        bound_pods: nodes.iter().map(|(node, pods)| BoundPods::on(node, pods.iter().collect())).collect(),
        ..problem
    }
}

/// The number of pods in each zone.
fn by_zone(problem: &Problem<'_>, solution: &Solution) -> BTreeMap<String, usize> {
    let mut zones = BTreeMap::new();
    for launch in &solution.launches {
        let zone = launch.requirements.get(labels::ZONE).unwrap();
        *zones.entry(zone.single().unwrap_or("any").to_owned()).or_default() += launch.pods.len();
    }
    for placement in &solution.placements {
        let zone = problem.nodes[placement.node].requirements.get(labels::ZONE).unwrap().single().unwrap();
        *zones.entry(zone.to_owned()).or_default() += 1;
    }
    zones
}

fn zones(counts: [usize; 3]) -> BTreeMap<String, usize> {
    ZONES.iter().zip(counts).filter(|(_, count)| *count > 0).map(|(zone, count)| ((*zone).to_owned(), count)).collect()
}

fn all_placed(problem: &Problem<'_>) -> Solution {
    let solution = solve_checked(problem);
    assert!(solution.unschedulable.is_empty(), "{solution:#?}");
    solution
}

#[test]
fn the_first_of_a_zonally_self_affine_group_fixes_the_zone_for_the_rest() {
    let pods = many(40, "db", |pod| pod.template_mut().required_pod_affinity = vec![near(labels::ZONE, "db")]);
    let pools = [node_pool("default")];
    let problem = problem(&pods, &pools);
    let zones = by_zone(&problem, &all_placed(&problem));
    assert_eq!((zones.len(), zones.values().sum::<usize>()), (1, 40), "{zones:?}");
}

#[test]
fn affinity_goes_where_others_are_running_or_planned() {
    let pools = [node_pool("default")];
    // Running.
    let pods = many(5, "web", |pod| pod.template_mut().required_pod_affinity = vec![near(labels::ZONE, "db")]);
    let nodes = [(node("node-b", ZONES[1], 1), vec![app("db-0", "db")]), (node("node-a", ZONES[0], 0), Vec::new())];
    let there = cluster(problem(&pods, &pools), &nodes);
    assert_eq!(by_zone(&there, &all_placed(&there)), zones([0, 5, 0]));
    // Planned with them, in whatever order.
    for size in [100, 4000] {
        let mut both = pods.clone();
        both.push(app("db-0", "db"));
        both[5].template_mut().requests.set("cpu", Quantity::from_milli(size));
        let planned = problem(&both, &pools);
        assert_eq!(by_zone(&planned, &all_placed(&planned)).len(), 1);
    }
    // On no node.
    let unsatisfiable = problem(&pods[..1], &pools);
    assert_eq!(
        reasons(&solve_checked(&unsatisfiable)),
        [
            "pod affinity over topology.kubernetes.io/zone: no pod that it selects is in us-east-1a, us-east-1b, us-east-1c"
        ]
    );
}

#[test]
fn affinity_over_hosts_opens_a_node_that_fits_all() {
    let pools = [node_pool("default")];
    // Itself: all on one node.
    let pods = many(12, "db", |pod| pod.template_mut().required_pod_affinity = vec![near(labels::HOSTNAME, "db")]);
    assert_eq!(all_placed(&problem(&pods, &pools)).launches.len(), 1);
    // To others, larger or smaller.
    for size in [250, 4000] {
        let mut both =
            many(6, "web", |pod| pod.template_mut().required_pod_affinity = vec![near(labels::HOSTNAME, "db")]);
        both.push(app("db-0", "db"));
        both[6].template_mut().requests.set("cpu", Quantity::from_milli(size));
        assert_eq!(all_placed(&problem(&both, &pools)).launches.len(), 1);
    }
    let alone = many(1, "web", |pod| pod.template_mut().required_pod_affinity = vec![near(labels::HOSTNAME, "db")]);
    assert_eq!(
        reasons(&solve_checked(&problem(&alone, &pools))),
        ["pod affinity over kubernetes.io/hostname: no node with free capacity runs a pod that it selects"]
    );
}

#[test]
fn zonally_anti_affine_pods_get_a_zone_each_in_one_round() {
    let pods = many(4, "db", |pod| pod.template_mut().required_pod_anti_affinity = vec![near(labels::ZONE, "db")]);
    let pools = [node_pool("default")];
    let three = problem(&pods[..3], &pools);
    assert_eq!(by_zone(&three, &all_placed(&three)), zones([1, 1, 1]));
    let four = problem(&pods, &pools);
    let solution = solve_checked(&four);
    assert_eq!(by_zone(&four, &solution), zones([1, 1, 1]));
    assert_eq!(
        reasons(&solution),
        [
            "pod anti-affinity over topology.kubernetes.io/zone: pods that it selects are in us-east-1a, us-east-1b, us-east-1c"
        ]
    );
}

#[test]
fn anti_affinity_over_hosts_puts_one_on_each() {
    let pods = many(5, "db", |pod| pod.template_mut().required_pod_anti_affinity = vec![near(labels::HOSTNAME, "db")]);
    let nodes =
        [(node("node-a", ZONES[0], 64), vec![app("running", "db")]), (node("node-b", ZONES[0], 64), Vec::new())];
    let pools = [node_pool("default")];
    let problem = cluster(problem(&pods, &pools), &nodes);
    let solution = all_placed(&problem);
    assert_eq!((solution.placements.len(), solution.launches.len()), (1, 4));
    assert_eq!(solution.placements[0].node, 1);
}

#[test]
fn others_keep_away_from_pods_that_want_to_be_alone() {
    let pools = [node_pool("default")];
    let lonely = |name: &str, key: &str| {
        let mut pod = app(name, "lonely");
        pod.template_mut().required_pod_anti_affinity = vec![near(key, "web")];
        pod
    };
    // Running.
    let pods = many(3, "web", |_| ());
    let nodes = [(node("node-a", ZONES[0], 64), vec![lonely("one", labels::HOSTNAME)])];
    let hosts = cluster(problem(&pods, &pools), &nodes);
    assert!(all_placed(&hosts).placements.is_empty());
    let nodes = [(node("node-a", ZONES[0], 64), vec![lonely("one", labels::ZONE)])];
    let zonal = cluster(problem(&pods, &pools), &nodes);
    assert!(!by_zone(&zonal, &all_placed(&zonal)).contains_key(ZONES[0]));
    let of_a_tenant = |name: &str| {
        let mut pod = lonely(name, labels::ZONE);
        pod.namespace = "tenant".into();
        pod.template_mut().required_pod_anti_affinity[0].namespaces = vec!["default".into()];
        pod
    };
    let everywhere: Vec<(Node, Vec<Pod>)> =
        ZONES.iter().map(|zone| (node(zone, zone, 8), vec![of_a_tenant(zone)])).collect();
    let unsatisfiable = cluster(problem(&pods[..1], &pools), &everywhere);
    let named = |example: &str| {
        format!(
            "pod anti-affinity over topology.kubernetes.io/zone of pods such as {example} excludes it from us-east-1a, us-east-1b, \
             us-east-1c"
        )
    };
    assert_eq!(reasons(&solve_checked(&unsatisfiable)), [named("tenant/us-east-1a")]);
    // Planned in the same round, before or after the others.
    for cpu in [100, 4000] {
        for key in [labels::HOSTNAME, labels::ZONE] {
            let mut both = pods.clone();
            both.push(lonely("one", key));
            both[3].template_mut().requests.set("cpu", Quantity::from_milli(cpu));
            all_placed(&problem(&both, &pools));
        }
    }
    // Planned in every zone.
    let mut alone = many(3, "first", |pod| {
        pod.template_mut().priority = 1;
        pod.template_mut().required_pod_anti_affinity = vec![near(labels::ZONE, "first"), near(labels::ZONE, "web")];
    });
    alone.push(app("web", "web"));
    let solution = solve_checked(&problem(&alone, &pools));
    assert_eq!(reasons(&solution), [named("default/first-000")]);
}

#[test]
fn selectors_reach_into_the_namespaces_that_they_name() {
    let pools = [node_pool("default")];
    let mut running = app("db-0", "db");
    running.namespace = "data".into();
    let nodes = [(node("node-b", ZONES[1], 1), vec![running])];
    let team = |operator| {
        let values = if operator == LabelOperator::In { vec!["a".to_owned()] } else { Vec::new() };
        Some(LabelSelector {
            match_expressions: vec![LabelExpression { key: "team".into(), operator, values }],
            ..LabelSelector::default()
        })
    };
    for (what, namespaces, namespace_selector, found) in [
        ("its own", vec![], None, false),
        ("by name", vec!["data".to_owned()], None, true),
        ("another name", vec!["other".to_owned()], None, false),
        ("all", vec![], Some(LabelSelector::default()), true),
        ("by label", vec![], team(LabelOperator::In), true),
        ("by the absence of a label", vec![], team(LabelOperator::DoesNotExist), false),
        ("by the label of its name", vec![], Some(selector("kubernetes.io/metadata.name", "data")), false),
    ] {
        let pods = many(1, "web", |pod| {
            let term = near(labels::ZONE, "db");
            let (namespaces, namespace_selector) = (namespaces.clone(), namespace_selector.clone());
            pod.template_mut().required_pod_affinity = vec![PodAffinityTerm { namespaces, namespace_selector, ..term }];
        });
        let namespaces = BTreeMap::from([("data".to_owned(), StringMap::from([("team".into(), "a".into())]))]);
        let mut problem = cluster(problem(&pods, &pools), &nodes);
        problem.facts.namespaces = &namespaces;
        assert_eq!(solve_checked(&problem).launches.len() == 1, found, "{what}");
    }
}

#[test]
fn pods_that_end_or_move_do_not_count() {
    let pools = [node_pool("default")];
    let mut done = app("done", "db");
    done.phase = pod::PodPhase::Succeeded;
    let mut ending = app("ending", "db");
    ending.deletion_timestamp = Some(jiff::Timestamp::UNIX_EPOCH);
    let mut pods = many(1, "db", |pod| pod.template_mut().required_pod_anti_affinity = vec![near(labels::ZONE, "db")]);
    pods[0].template_mut().node_selector.insert(labels::ZONE.into(), ZONES[0].into());
    let nodes = [(node("node-a", ZONES[0], 3), vec![done, ending, pods[0].clone()])];
    let problem = cluster(problem(&pods, &pools), &nodes);
    all_placed(&problem);
}

#[test]
fn a_zone_without_free_capacity_does_not_let_the_others_run_ahead() {
    // Two nodes may be launched, and each holds one pod: two in one zone would break the spread.
    let mut pool = node_pool("default");
    pool.limits = ResourceList::new().with("nodes", Quantity::from_units(2));
    let pools = [pool];
    let pods = many(9, "web", |pod| {
        pod.template_mut().requests.set("cpu", Quantity::from_units(40));
        pod.template_mut().topology_spread = vec![spread(labels::ZONE, "web")];
    });
    let problem = problem(&pods, &pools);
    let solution = solve_checked(&problem);
    assert_eq!((solution.launches.len(), solution.unschedulable.len()), (2, 7), "{solution:#?}");
}

#[test]
fn the_checker_finds_violated_topology_constraints() {
    let pools = [node_pool("default")];
    type Change = Box<dyn Fn(&mut Pod)>;
    let cases: [(&str, Change); 6] = [
        ("the spread of", Box::new(|pod| pod.template_mut().topology_spread = vec![spread(labels::ZONE, "web")])),
        (
            "violate the spread",
            Box::new(|pod| pod.template_mut().topology_spread = vec![spread(labels::HOSTNAME, "web")]),
        ),
        (
            "has anti-affinity",
            Box::new(|pod| pod.template_mut().required_pod_anti_affinity = vec![near(labels::ZONE, "web")]),
        ),
        (
            "has anti-affinity",
            Box::new(|pod| pod.template_mut().required_pod_anti_affinity = vec![near(labels::HOSTNAME, "web")]),
        ),
        ("the affinity of", Box::new(|pod| pod.template_mut().required_pod_affinity = vec![near(labels::ZONE, "web")])),
        (
            "the affinity of",
            Box::new(|pod| pod.template_mut().required_pod_affinity = vec![near(labels::HOSTNAME, "web")]),
        ),
    ];
    for (expected, change) in cases {
        let pods = many(2, "web", &*change);
        let problem = problem(&pods, &pools);
        let good = solve_checked(&problem);
        // Moves pods on different nodes to one node, and pods on one node to different nodes.
        let mut bad = good.clone();
        if bad.launches.len() == 2 {
            bad.launches[1].pods = vec![0, 1];
            bad.launches.remove(0);
        } else {
            bad.launches.push(bad.launches[0].clone());
            bad.launches[0].pods = vec![0];
            bad.launches[1].pods = vec![1];
            bad.launches[1].requirements.remove(labels::ZONE);
            bad.launches[1].requirements.add(labels::ZONE, Requirement::one_of([ZONES[2]]));
        }
        let wrong = nodeless_checker::violations(&problem, &bad, &Options::default()).join("\n");
        assert!(wrong.contains(expected), "{expected}: {wrong}");
    }
}

#[test]
fn mismatch_label_keys_keep_other_tenants_away() {
    let tenant = |name: &str, tenant: &str| {
        let mut pod = app(name, "web");
        pod.template_mut().labels.insert("tenant".into(), tenant.into());
        let term = PodAffinityTerm { mismatch_label_keys: vec!["tenant".into()], ..near(labels::HOSTNAME, "web") };
        pod.template_mut().required_pod_anti_affinity = vec![term];
        pod
    };
    let pods = [tenant("a-1", "a"), tenant("a-2", "a"), tenant("b-1", "b")];
    let pools = [node_pool("default")];
    let problem = problem(&pods, &pools);
    let solution = all_placed(&problem);
    let together: Vec<Vec<usize>> = solution.launches.iter().map(|launch| launch.pods.clone()).collect();
    assert!(together.contains(&vec![0, 1]) && together.contains(&vec![2]), "{together:?}");
}
