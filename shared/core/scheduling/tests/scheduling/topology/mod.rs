//! Topology spread, pod affinity and anti-affinity: where pods go, and the words when they cannot.

use crate::support::*;
use nodeless_model::pod::{PodAffinityTerm, TopologySpread, Weighted};
use nodeless_model::selector::{LabelExpression, LabelOperator};
use nodeless_model::*;
use nodeless_scheduling::{BoundPods, ExistingNode, Options, PreferencePolicy, Problem, Solution, existing_node};
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
fn zones_are_filled_evenly() {
    let running = |count| many(count, "web", |pod| pod.name = format!("running-{}", pod.name));
    for (what, count, skew, before, expected) in [
        ("fresh", 9, 1, [0, 0, 0], [3, 3, 3]),
        ("remainder", 7, 1, [0, 0, 0], [3, 2, 2]),
        ("running pods count", 4, 1, [2, 1, 0], [1, 1, 2]),
        ("what exists comes first within the skew", 3, 3, [0, 0, 0], [3, 0, 0]),
    ] {
        let pods = many(count, "web", |pod| {
            pod.template_mut().topology_spread = vec![TopologySpread { max_skew: skew, ..spread(labels::ZONE, "web") }];
        });
        let pools = [node_pool("default")];
        let nodes: Vec<(Node, Vec<Pod>)> = ZONES
            .iter()
            .zip(before)
            .map(|(zone, running_here)| {
                let cpu = if skew > 1 && *zone == ZONES[0] { 8 } else { running_here as i64 };
                (node(&format!("node-{zone}"), zone, cpu), running(running_here))
            })
            .collect();
        let problem = cluster(problem(&pods, &pools), &nodes);
        assert_eq!(by_zone(&problem, &all_placed(&problem)), zones(expected), "{what}");
    }
}

/// The kube-scheduler counts the other pods that are nominated for a node when it checks `maxSkew` there.
#[test]
fn new_nodes_take_as_many_pods_of_a_zone_spread_as_are_bound_together_while_others_fill_them() {
    let mut pool = node_pool("default");
    pool.template.requirements.add(labels::INSTANCE_SIZE, Requirement::one_of(["2xlarge"]));
    let pools = [pool];
    for (max_skew, others, most) in [(1, 200, 1), (2, 200, 2), (1, 0, 4)] {
        let mut pods = many(12, "web", |pod| {
            pod.template_mut().topology_spread = vec![TopologySpread { max_skew, ..spread(labels::ZONE, "web") }];
            pod.template_mut().requests.set("cpu", Quantity::from_milli(200));
            pod.template_mut().requests.set("memory", Quantity::from_mebibytes(200));
        });
        pods.extend(many(others, "other", |_| {}));
        let solution = all_placed(&problem(&pods, &pools));
        let web = solution.launches.iter().map(|launch| launch.pods.iter().filter(|pod| **pod < 12).count());
        assert_eq!(
            web.max(),
            Some(most),
            "with a skew of {max_skew} and {others} others {:?}",
            solution
                .launches
                .iter()
                .map(|launch| launch.pods.iter().filter(|pod| **pod < 12).count())
                .collect::<Vec<_>>()
        );
    }
}

#[test]
fn pods_that_a_spread_only_counts_come_last_and_go_where_they_cost_least() {
    let pools = [node_pool("default")];
    for (priority, expected) in [(0, 1), (1, 3)] {
        let mut pods = many(6, "web", |pod| pod.template_mut().priority = priority);
        pods.extend(many(3, "front", |pod| pod.template_mut().topology_spread = vec![spread(labels::ZONE, "web")]));
        let problem = problem(&pods, &pools);
        let found = by_zone(&problem, &all_placed(&problem));
        // Pods that are placed before those with the spread have to be spread themselves.
        assert_eq!(found.len(), expected, "{priority}: {found:?}");
    }
}

#[test]
fn unsatisfiable_preferences_take_little_work() {
    let pools = [node_pool("default")];
    let absent =
        |index: usize| Weighted { weight: 100, preference: near(labels::HOSTNAME, &format!("absent-{index}")) };
    let work = |preferences: usize| {
        let groups = (0..20).map(|group| {
            many(3, &format!("web-{group}"), |pod| {
                pod.template_mut().preferred_pod_affinity = (0..preferences).map(absent).collect();
                pod.template_mut().required_pod_anti_affinity = vec![near(labels::ZONE, &pod.template.labels["app"])];
            })
        });
        let pods: Vec<Pod> = groups.flatten().collect();
        all_placed(&problem(&pods, &pools)).work
    };
    let (none, many) = (work(0), work(20));
    assert!(many < none * 3 / 2, "{many} for what takes {none} without preferences");
}

#[test]
fn domains_that_the_pod_cannot_use_do_not_count_unless_configured() {
    let nodes = [(node("node-c", ZONES[2], 0), Vec::new())];
    for (honor, placed) in [(true, 4), (false, 2)] {
        let pods = many(4, "web", |pod| {
            pod.template_mut().required_node_affinity = vec![vec![term(labels::ZONE, Operator::In, &ZONES[..2])]];
            pod.template_mut().topology_spread =
                vec![TopologySpread { honor_node_affinity: honor, ..spread(labels::ZONE, "web") }];
        });
        let pools = [node_pool("default")];
        let problem = cluster(problem(&pods, &pools), &nodes);
        let solution = solve_checked(&problem);
        assert_eq!(solution.launches.iter().map(|launch| launch.pods.len()).sum::<usize>(), placed);
        if !honor {
            assert_eq!(
                solution.unschedulable[0].reasons[0].to_string(),
                "topology spread over topology.kubernetes.io/zone allows a skew of 1: us-east-1a has 1, us-east-1b has \
                 1, the domain with the fewest pods has 0"
            );
        }
    }
}

#[test]
fn tainted_nodes_count_unless_the_pod_honours_taints() {
    let mut tainted = node("node-d", "us-east-1d", 8);
    tainted.taints = vec![Taint::new("team", TaintEffect::NoSchedule)];
    let nodes = [(tainted, Vec::new())];
    for (honor, placed) in [(true, 6), (false, 3)] {
        let pods = many(6, "web", |pod| {
            pod.template_mut().topology_spread =
                vec![TopologySpread { honor_node_taints: honor, ..spread(labels::ZONE, "web") }];
        });
        let pools = [node_pool("default")];
        let problem = cluster(problem(&pods, &pools), &nodes);
        let solution = solve_checked(&problem);
        assert_eq!(solution.launches.iter().map(|launch| launch.pods.len()).sum::<usize>(), placed);
    }
}

/// A pool of two zones for everybody, and one with a taint that has the third as well.
fn two_zones_and_a_tainted_third() -> [NodePool; 2] {
    let mut plain = node_pool("plain");
    plain.template.labels.insert("team".into(), "a".into());
    plain.template.requirements.add(labels::ZONE, Requirement::one_of([ZONES[0], ZONES[1]]));
    let mut tainted = node_pool("tainted");
    tainted.template.labels.insert("team".into(), "b".into());
    tainted.template.taints = vec![Taint::new("team", TaintEffect::NoSchedule)];
    [plain, tainted]
}

#[test]
fn zones_that_only_a_tainted_pool_offers_count_unless_the_pod_honours_taints() {
    let pools = two_zones_and_a_tainted_third();
    let tolerant = |pod: &mut Pod| {
        pod.template_mut().tolerations =
            vec![Toleration { operator: taint::TolerationOperator::Exists, ..Toleration::default() }];
    };
    for (what, honor, tolerates, expected) in [
        ("the default", false, false, [1, 1, 0]),
        ("taints honoured", true, false, [2, 2, 0]),
        ("tolerated", false, true, [2, 1, 1]),
        ("honoured and tolerated", true, true, [2, 1, 1]),
    ] {
        let pods = many(4, "web", |pod| {
            pod.template_mut().topology_spread =
                vec![TopologySpread { honor_node_taints: honor, ..spread(labels::ZONE, "web") }];
            if tolerates {
                tolerant(pod);
            }
        });
        let problem = problem(&pods, &pools);
        let solution = solve_checked(&problem);
        assert_eq!(by_zone(&problem, &solution), zones(expected), "{what}");
        for left in &solution.unschedulable {
            assert_eq!(
                left.reasons[0].to_string(),
                "topology spread over topology.kubernetes.io/zone allows a skew of 1: us-east-1a has 1, us-east-1b has \
                 1, the domain with the fewest pods has 0",
                "{what}"
            );
        }
    }
}

#[test]
fn offered_zones_outside_of_the_node_affinity_count_only_where_that_is_ignored() {
    let pools = two_zones_and_a_tainted_third();
    let of_team_a: fn(&mut Pod) = |pod| drop(pod.template_mut().node_selector.insert("team".into(), "a".into()));
    let of_two_zones: fn(&mut Pod) =
        |pod| pod.template_mut().required_node_affinity = vec![vec![term(labels::ZONE, Operator::In, &ZONES[..2])]];
    for (what, asks, honor, expected) in [
        ("another label, honoured", of_team_a, true, [2, 2, 0]),
        ("another label, ignored", of_team_a, false, [1, 1, 0]),
        ("the zone itself, honoured", of_two_zones, true, [2, 2, 0]),
        ("the zone itself, ignored: no node is there yet", of_two_zones, false, [2, 2, 0]),
    ] {
        let pods = many(4, "web", |pod| {
            asks(pod);
            pod.template_mut().topology_spread =
                vec![TopologySpread { honor_node_affinity: honor, ..spread(labels::ZONE, "web") }];
        });
        let problem = problem(&pods, &pools);
        assert_eq!(by_zone(&problem, &solve_checked(&problem)), zones(expected), "{what}");
    }
}

#[test]
fn domains_of_a_label_of_the_users_own_count_as_those_of_zones_do() {
    // As in Karpenter's own tests: the pools share the domain foo, and each has another for itself.
    let shared = [("first", "bar"), ("second", "baz")].map(|(name, own)| {
        let mut pool = node_pool(name);
        pool.template.requirements.add("rack", Requirement::one_of(["foo", own]));
        pool.template.taints = vec![Taint { value: name.into(), ..Taint::new("pool", TaintEffect::NoSchedule) }];
        pool
    });
    for (honor, placed) in [(true, [2, 4]), (false, [2, 2])] {
        for ((pool, placed), count) in ["first", "second"].iter().zip(placed).zip([2, 4]) {
            let pods = many(count, "web", |pod| {
                pod.template_mut().topology_spread =
                    vec![TopologySpread { honor_node_taints: honor, ..spread("rack", "web") }];
                pod.template_mut().tolerations =
                    vec![Toleration { key: "pool".into(), value: (*pool).into(), ..Toleration::default() }];
            });
            let problem = problem(&pods, &shared);
            let solution = solve_checked(&problem);
            let found: usize = solution.launches.iter().map(|launch| launch.pods.len()).sum();
            assert_eq!(found, placed, "{pool} {honor}");
        }
    }
}

#[test]
fn zones_whose_instance_types_are_too_small_for_the_pod_count() {
    // Whatever else is launched in the third zone counts for the kube-scheduler.
    let mut pools = [node_pool("large"), node_pool("small")];
    pools[0].template.requirements.add(labels::ZONE, Requirement::one_of([ZONES[0], ZONES[1]]));
    pools[1].template.requirements.add(labels::INSTANCE_SIZE, Requirement::one_of(["large"]));
    let pods = many(4, "web", |pod| {
        pod.template_mut().requests.set("cpu", Quantity::from_units(3));
        pod.template_mut().topology_spread = vec![spread(labels::ZONE, "web")];
    });
    let problem = problem(&pods, &pools);
    assert_eq!(by_zone(&problem, &solve_checked(&problem)), zones([1, 1, 0]));
}

#[test]
fn too_few_domains_count_as_an_empty_one() {
    let pods = many(6, "web", |pod| {
        pod.template_mut().topology_spread =
            vec![TopologySpread { min_domains: Some(4), ..spread(labels::ZONE, "web") }];
    });
    let pools = [node_pool("default")];
    let problem = problem(&pods, &pools);
    let solution = solve_checked(&problem);
    assert_eq!((by_zone(&problem, &solution), solution.unschedulable.len()), (zones([1, 1, 1]), 3));
    assert_eq!(
        solution.unschedulable[0].reasons[0].to_string(),
        "topology spread over topology.kubernetes.io/zone allows a skew of 1: us-east-1a has 1, us-east-1b has 1, \
         us-east-1c has 1, the domain with the fewest pods has 0"
    );
}

#[test]
fn each_revision_spreads_by_itself_with_match_label_keys() {
    let mut old = many(3, "web", |pod| drop(pod.template_mut().labels.insert("hash".into(), "old".into())));
    old.iter_mut().for_each(|pod| pod.name = format!("old-{}", pod.name));
    let nodes = [(node("node-a", ZONES[0], 3), old)];
    for (keys, expected) in [(vec!["hash".to_owned()], [1, 1, 1]), (Vec::new(), [0, 2, 1])] {
        let pods = many(3, "web", |pod| {
            pod.template_mut().labels.insert("hash".into(), "new".into());
            pod.template_mut().topology_spread =
                vec![TopologySpread { match_label_keys: keys.clone(), ..spread(labels::ZONE, "web") }];
        });
        let pools = [node_pool("default")];
        let problem = cluster(problem(&pods, &pools), &nodes);
        assert_eq!(by_zone(&problem, &all_placed(&problem)), zones(expected), "{keys:?}");
    }
}

#[test]
fn hosts_are_shared_by_as_many_as_the_skew_allows() {
    for (skew, nodes) in [(1, 6), (2, 3), (3, 2)] {
        let pods = many(6, "web", |pod| {
            pod.template_mut().topology_spread =
                vec![TopologySpread { max_skew: skew, ..spread(labels::HOSTNAME, "web") }];
        });
        let pools = [node_pool("default")];
        assert_eq!(all_placed(&problem(&pods, &pools)).launches.len(), nodes);
    }
}

#[test]
fn other_keys_are_domains_too() {
    let mut pool = node_pool("default");
    pool.template.requirements.remove(labels::CAPACITY_TYPE);
    let pools = [pool];
    let pods = many(6, "web", |pod| pod.template_mut().topology_spread = vec![spread(labels::CAPACITY_TYPE, "web")]);
    let problem = problem(&pods, &pools);
    let solution = all_placed(&problem);
    let on_demand = |launch: &&nodeless_scheduling::Launch| launch.offering.capacity_type == CapacityType::OnDemand;
    assert_eq!(solution.launches.iter().filter(on_demand).map(|launch| launch.pods.len()).sum::<usize>(), 3);
    let pods = many(1, "web", |pod| pod.template_mut().topology_spread = vec![spread("rack", "web")]);
    let problem = Problem { pods: pods.iter().collect(), ..problem };
    assert_eq!(reasons(&solve_checked(&problem)), ["no node has or can have label rack of its topology constraints"]);
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
fn preferences_are_tried_and_then_given_up() {
    let soft = |key: &str| TopologySpread { hard: false, ..spread(key, "web") };
    let weighted = |term| vec![Weighted { weight: 1, preference: term }];
    let zone_a = |pod: &mut Pod| drop(pod.template_mut().node_selector.insert(labels::ZONE.into(), ZONES[0].into()));
    type Change = Box<dyn Fn(&mut Pod)>;
    let cases: [(&str, Change, usize, usize); 6] = [
        (
            "spread over hosts",
            Box::new(move |pod| pod.template_mut().topology_spread = vec![soft(labels::HOSTNAME)]),
            3,
            1,
        ),
        (
            "spread that cannot be, over a label that no node has",
            Box::new(move |pod| pod.template_mut().topology_spread = vec![soft("rack")]),
            1,
            1,
        ),
        (
            "anti-affinity over hosts",
            Box::new(move |pod| {
                pod.template_mut().preferred_pod_anti_affinity = weighted(near(labels::HOSTNAME, "web"));
            }),
            3,
            1,
        ),
        (
            "anti-affinity over zones that cannot be for all",
            Box::new(move |pod| {
                zone_a(pod);
                pod.template_mut().preferred_pod_anti_affinity = weighted(near(labels::ZONE, "web"));
            }),
            1,
            1,
        ),
        (
            "affinity to nothing",
            Box::new(move |pod| pod.template_mut().preferred_pod_affinity = weighted(near(labels::ZONE, "db"))),
            1,
            1,
        ),
        (
            "affinity to themselves",
            Box::new(move |pod| pod.template_mut().preferred_pod_affinity = weighted(near(labels::HOSTNAME, "web"))),
            1,
            1,
        ),
    ];
    let pools = [node_pool("default")];
    for (what, change, respected, ignored) in cases {
        let pods = many(3, "web", &*change);
        let problem = problem(&pods, &pools);
        assert_eq!(all_placed(&problem).launches.len(), respected, "{what}");
        let options = Options { preferences: PreferencePolicy::Ignore, ..Options::default() };
        let solution = solve_with(&problem, &options);
        assert_eq!((solution.launches.len(), solution.unschedulable.len()), (ignored, 0), "{what}, ignored");
    }
}

#[test]
fn preferences_are_given_up_in_order() {
    // Pod affinity cannot be satisfied and goes first; the preferred family stays, as it comes later in the order.
    let pods = many(1, "web", |pod| {
        pod.template_mut().preferred_pod_affinity =
            vec![Weighted { weight: 100, preference: near(labels::ZONE, "db") }];
        pod.template_mut().preferred_node_affinity =
            vec![Weighted { weight: 1, preference: vec![term(labels::INSTANCE_FAMILY, Operator::In, &["r9"])] }];
    });
    let pools = [node_pool("default")];
    assert_eq!(chosen(&solve_checked(&problem(&pods, &pools))), ["r9.large"]);
    // Node affinity goes before spread: the zone that it prefers is full as far as the spread goes.
    let nodes = [(node("node-a", ZONES[0], 1), vec![app("running", "web")])];
    let pods = many(1, "web", |pod| {
        pod.template_mut().preferred_node_affinity =
            vec![Weighted { weight: 1, preference: vec![term(labels::ZONE, Operator::In, &[ZONES[0]])] }];
        pod.template_mut().topology_spread = vec![TopologySpread { hard: false, ..spread(labels::ZONE, "web") }];
    });
    let problem = cluster(problem(&pods, &pools), &nodes);
    assert!(!by_zone(&problem, &all_placed(&problem)).contains_key(ZONES[0]));
}

/// As in Karpenter, the first in this order of two preferences that exclude each other is relaxed.
#[test]
fn preferences_are_given_up_in_the_order_of_karpenter() {
    let weighted = |weight, app| Weighted { weight, preference: near(labels::ZONE, app) };
    let zone = |weight, zone| Weighted { weight, preference: vec![term(labels::ZONE, Operator::In, &[zone])] };
    let [first, second, _] = ZONES;
    type Change = Box<dyn Fn(&mut Pod)>;
    // A pod of db runs in the first zone, and a pod of cache in the second; the third is excluded.
    let cases: [(&str, Change, &str); 6] = [
        (
            "pod affinity, the heaviest",
            Box::new(move |pod| {
                pod.template_mut().preferred_pod_affinity = vec![weighted(1, "cache"), weighted(100, "db")];
            }),
            second,
        ),
        (
            "pod anti-affinity, the heaviest",
            Box::new(move |pod| {
                pod.template_mut().preferred_pod_anti_affinity = vec![weighted(1, "cache"), weighted(100, "db")];
            }),
            first,
        ),
        (
            "pod affinity before anti-affinity",
            Box::new(move |pod| {
                pod.template_mut().preferred_pod_affinity = vec![weighted(1, "db")];
                pod.template_mut().preferred_pod_anti_affinity = vec![weighted(1, "db")];
            }),
            second,
        ),
        (
            "pod anti-affinity before node affinity",
            Box::new(move |pod| {
                pod.template_mut().preferred_pod_anti_affinity = vec![weighted(100, "db")];
                pod.template_mut().preferred_node_affinity = vec![zone(1, first)];
            }),
            first,
        ),
        (
            "node affinity before spread",
            Box::new(move |pod| {
                pod.template_mut().labels.insert("app".into(), "db".into());
                pod.template_mut().preferred_node_affinity = vec![zone(100, first)];
                pod.template_mut().topology_spread = vec![TopologySpread { hard: false, ..spread(labels::ZONE, "db") }];
            }),
            second,
        ),
        (
            "spread before a taint that only prefers",
            Box::new(move |pod| {
                pod.template_mut().labels.insert("app".into(), "cache".into());
                pod.template_mut().topology_spread =
                    vec![TopologySpread { hard: false, ..spread(labels::ZONE, "cache") }];
            }),
            second,
        ),
    ];
    let nodes = [
        (node("node-a", first, 1), vec![app("running-db", "db")]),
        (node("node-b", second, 1), vec![app("running-cache", "cache")]),
    ];
    for (what, change, expected) in cases {
        let pods = many(1, "web", |pod| {
            pod.template_mut().required_node_affinity = vec![vec![term(labels::ZONE, Operator::In, &[first, second])]];
            change(pod);
        });
        let mut pools = [node_pool("default"), node_pool("tainted")];
        pools[0].template.requirements.add(labels::ZONE, Requirement::one_of([first, second]));
        pools[1].template.requirements.add(labels::ZONE, Requirement::one_of([first]));
        pools[1].template.taints = vec![Taint::new("spare", TaintEffect::PreferNoSchedule)];
        if what.starts_with("spread") {
            // Only the tainted NodePool has the zone in which the spread is even.
            pools[0].template.requirements.add(labels::ZONE, Requirement::one_of([second]));
        }
        let problem = cluster(problem(&pods, &pools), &nodes);
        let found = by_zone(&problem, &all_placed(&problem));
        assert_eq!(found, BTreeMap::from([(expected.to_owned(), 1)]), "{what}");
    }
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
fn nodes_of_this_very_plan_count_only_where_the_spread_lets_them() {
    // Three pods that must be on arm64 in one zone, and others that spread over what they can use themselves: amd64.
    let mut pods = many(3, "web", |pod| {
        pod.template_mut().requests.set("cpu", Quantity::from_units(4));
        pod.template_mut().node_selector = StringMap::from([
            (labels::ARCH.to_owned(), "arm64".to_owned()),
            (labels::ZONE.to_owned(), ZONES[0].to_owned()),
        ]);
    });
    pods.iter_mut().for_each(|pod| pod.name = format!("arm-{}", pod.name));
    let pools = [node_pool("default")];
    for (honor, expected) in [(true, [5, 1, 1]), (false, [3, 3, 3])] {
        let mut all = pods.clone();
        all.extend(many(if honor { 4 } else { 6 }, "web", |pod| {
            pod.template_mut().node_selector.insert(labels::ARCH.into(), "amd64".into());
            pod.template_mut().topology_spread =
                vec![TopologySpread { honor_node_affinity: honor, ..spread(labels::ZONE, "web") }];
        }));
        let problem = problem(&all, &pools);
        let found = by_zone(&problem, &all_placed(&problem));
        assert_eq!(found[ZONES[0]], expected[0], "{honor}: {found:?}");
    }
}

#[test]
fn pods_of_this_plan_on_tainted_nodes_do_not_count_where_the_spread_honours_taints() {
    let mut tainted = node_pool("tainted");
    tainted.template.taints = vec![Taint::new("team", TaintEffect::NoSchedule)];
    tainted.template.labels.insert("team".into(), "a".into());
    let pools = [tainted, node_pool("plain")];
    for (honor, in_first) in [(true, 4), (false, 3)] {
        let mut all = many(2, "web", |pod| {
            pod.template_mut().requests.set("cpu", Quantity::from_units(4));
            pod.template_mut().tolerations =
                vec![Toleration { operator: taint::TolerationOperator::Exists, ..Toleration::default() }];
            pod.template_mut().node_selector =
                StringMap::from([("team".to_owned(), "a".to_owned()), (labels::ZONE.to_owned(), ZONES[0].to_owned())]);
        });
        all.iter_mut().for_each(|pod| pod.name = format!("tainted-{}", pod.name));
        all.extend(many(if honor { 6 } else { 7 }, "web", |pod| {
            pod.template_mut().topology_spread =
                vec![TopologySpread { honor_node_taints: honor, ..spread(labels::ZONE, "web") }];
        }));
        let problem = problem(&all, &pools);
        assert_eq!(by_zone(&problem, &all_placed(&problem))[ZONES[0]], in_first, "{honor}");
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
