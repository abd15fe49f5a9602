//! Preferences, which are given up where they cannot hold.

use super::*;
use nodeless_model::pod::Weighted;
use nodeless_scheduling::PreferencePolicy;

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

fn weighted(weight: i32, app: &str) -> Weighted<PodAffinityTerm> {
    Weighted { weight, preference: near(labels::ZONE, app) }
}

fn soft_spread(app: &str) -> Vec<TopologySpread> {
    vec![TopologySpread { hard: false, ..spread(labels::ZONE, app) }]
}

type Change = fn(&mut PodTemplate);

/// Changes of a pod, and the zone where it then goes: a pod of db runs in the first zone, and a pod of cache in the second.
const PREFERRED: [(&str, Change, &str); 6] = [
    (
        "pod affinity, the heaviest",
        |template| template.preferred_pod_affinity = vec![weighted(1, "cache"), weighted(100, "db")],
        ZONES[1],
    ),
    (
        "pod anti-affinity, the heaviest",
        |template| template.preferred_pod_anti_affinity = vec![weighted(1, "cache"), weighted(100, "db")],
        ZONES[0],
    ),
    (
        "pod affinity before anti-affinity",
        |template| {
            template.preferred_pod_affinity = vec![weighted(1, "db")];
            template.preferred_pod_anti_affinity = vec![weighted(1, "db")];
        },
        ZONES[1],
    ),
    (
        "pod anti-affinity before node affinity",
        |template| {
            template.preferred_pod_anti_affinity = vec![weighted(100, "db")];
            let preference = vec![term(labels::ZONE, Operator::In, &[ZONES[0]])];
            template.preferred_node_affinity = vec![Weighted { weight: 1, preference }];
        },
        ZONES[0],
    ),
    (
        "node affinity before spread",
        |template| {
            template.labels.insert("app".into(), "db".into());
            let preference = vec![term(labels::ZONE, Operator::In, &[ZONES[0]])];
            template.preferred_node_affinity = vec![Weighted { weight: 100, preference }];
            template.topology_spread = soft_spread("db");
        },
        ZONES[1],
    ),
    (
        "spread before a taint that only prefers",
        |template| {
            template.labels.insert("app".into(), "cache".into());
            template.topology_spread = soft_spread("cache");
        },
        ZONES[1],
    ),
];

/// As in Karpenter, the first in this order of two preferences that exclude each other is relaxed.
#[test]
fn preferences_are_given_up_in_the_order_of_karpenter() {
    let [first, second, _] = ZONES;
    let nodes = [
        (node("node-a", first, 1), vec![app("running-db", "db")]),
        (node("node-b", second, 1), vec![app("running-cache", "cache")]),
    ];
    for (what, change, expected) in PREFERRED {
        let pods = many(1, "web", |pod| {
            // The third zone is excluded.
            pod.template_mut().required_node_affinity = vec![vec![term(labels::ZONE, Operator::In, &[first, second])]];
            change(pod.template_mut());
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
