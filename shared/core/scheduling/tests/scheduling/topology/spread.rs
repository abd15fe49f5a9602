//! Topology spread over zones, hosts and labels of users.

use super::*;

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
