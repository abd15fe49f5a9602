//! The topology spread, pod affinity and anti-affinity that consolidation respects: each node here would be removed or replaced
//! by something cheaper, were it not for one constraint. `docs/scheduling-constraints.md` lists them.

use crate::support::first_node::*;
use crate::support::*;
use nodeless_model::pod::{PodAffinityTerm, TopologySpread};
use nodeless_model::selector::{LabelExpression, LabelOperator};
use nodeless_model::*;

fn near(key: &str, app: &str) -> PodAffinityTerm {
    PodAffinityTerm { selector: Some(selector("app", app)), topology_key: key.into(), ..PodAffinityTerm::default() }
}

fn spread(key: &str) -> TopologySpread {
    topology_spread(key, selector("app", "web"))
}

#[test]
fn pods_stay_near_those_that_they_need() {
    let needs = |key: &str| {
        let mut pod = web("mover");
        pod.template_mut().required_pod_affinity = vec![near(key, "cache")];
        pod
    };
    let decide = |pod: Pod, zone: &str, there: &str| {
        let mut world = world();
        going(&mut world, ZONES[0], vec![pod]);
        staying(&mut world, zone, vec![app("there", there)]);
        full(&mut world, ZONES[0], vec![app("cache", "cache")]);
        goes(&world)
    };
    assert!(decide(web("mover"), ZONES[1], "other"));
    assert!(!decide(needs(labels::ZONE), ZONES[1], "other"), "none in that zone");
    assert!(decide(needs(labels::ZONE), ZONES[0], "other"));
    assert!(!decide(needs(labels::HOSTNAME), ZONES[0], "other"), "none on that node");
    assert!(decide(needs(labels::HOSTNAME), ZONES[1], "cache"));
}

#[test]
fn pods_that_need_each_other_move_together_or_not_at_all() {
    let decide = |needs: bool, nodes: usize| {
        let mut world = world();
        let pods = ["a", "b"].map(|name| {
            let mut pod = web(name);
            pod.template_mut().required_pod_affinity.extend(needs.then(|| near(labels::HOSTNAME, "web")));
            pod
        });
        going(&mut world, ZONES[0], pods.to_vec());
        for _ in 0..nodes {
            staying(&mut world, ZONES[0], Vec::new());
        }
        if nodes == 1 {
            world.places[1].pods.clear();
            world.places[1].pods.push(held(pod("little", 100, 128)));
        }
        goes(&world)
    };
    assert!(decide(false, 2), "each goes to another node");
    assert!(!decide(true, 2), "both fit on no node");
    assert!(decide(true, 1));
}

#[test]
fn pods_keep_apart_in_zones_both_ways() {
    let shy = |name: &str, own: &str, other: &str| {
        let mut pod = app(name, own);
        pod.template_mut().required_pod_anti_affinity = vec![near(labels::ZONE, other)];
        pod
    };
    let decide = |mover: Pod, there: Pod| {
        let mut world = world();
        going(&mut world, ZONES[0], vec![mover]);
        staying(&mut world, ZONES[1], Vec::new());
        full(&mut world, ZONES[1], vec![there]);
        goes(&world)
    };
    assert!(decide(web("mover"), app("db", "db")));
    assert!(!decide(shy("mover", "web", "db"), app("db", "db")), "its own");
    assert!(!decide(web("mover"), shy("db", "db", "web")), "that of a pod that runs");
    assert!(decide(shy("mover", "web", "other"), shy("db", "db", "other")));
}

#[test]
fn a_replacement_lies_in_no_zone_that_pods_keep_away_from() {
    let decide = |anti: bool| {
        let mut pod = web("mover");
        pod.template_mut().required_pod_anti_affinity.extend(anti.then(|| near(labels::ZONE, "db")));
        let mut world = oversized(vec![pod]);
        for zone in &ZONES[..2] {
            full(&mut world, zone, vec![app("db", "db")]);
        }
        replaced(&world).unwrap().1.replacements[0].launch.requirements.get(labels::ZONE).unwrap().clone()
    };
    assert_eq!(decide(false), Requirement::one_of(ZONES));
    assert_eq!(decide(true), Requirement::one_of([ZONES[2]]));
}

#[test]
fn namespaces_determine_whose_pods_matter() {
    let decide = |namespaces: &[&str], selected: bool, there: &str| {
        let mut mover = web("mover");
        mover.template_mut().required_pod_anti_affinity = vec![PodAffinityTerm {
            namespaces: namespaces.iter().map(|&name| name.to_owned()).collect(),
            namespace_selector: selected.then(|| selector("team", "a")),
            ..near(labels::HOSTNAME, "web")
        }];
        let mut world = world();
        going(&mut world, ZONES[0], vec![mover]);
        staying(&mut world, ZONES[0], vec![Pod { namespace: there.into(), ..web("there") }]);
        world.namespaces.insert("of-team-a".into(), StringMap::from([("team".into(), "a".into())]));
        world.namespaces.insert("of-team-b".into(), StringMap::from([("team".into(), "b".into())]));
        goes(&world)
    };
    for (what, namespaces, selected, there, expected) in [
        ("its own", &[][..], false, "default", false),
        ("another", &[], false, "of-team-a", true),
        ("named", &["of-team-b"], false, "of-team-b", false),
        ("not named", &["of-team-b"], false, "of-team-a", true),
        ("selected", &[], true, "of-team-a", false),
        ("not selected", &[], true, "of-team-b", true),
        ("named beside those selected", &["of-team-b"], true, "of-team-b", false),
    ] {
        assert_eq!(decide(namespaces, selected, there), expected, "{what}");
    }
}

#[test]
fn label_keys_distinguish_revisions_and_tenants() {
    let decide = |keys: &[&str], unlike: &[&str], there: &str| {
        let own = |keys: &[&str]| keys.iter().map(|&key| key.to_owned()).collect();
        let mut mover = labelled(web("mover"), "revision", "2");
        mover.template_mut().required_pod_anti_affinity = vec![PodAffinityTerm {
            match_label_keys: own(keys),
            mismatch_label_keys: own(unlike),
            ..near(labels::HOSTNAME, "web")
        }];
        let mut world = world();
        going(&mut world, ZONES[0], vec![mover]);
        staying(&mut world, ZONES[0], vec![labelled(web("there"), "revision", there)]);
        goes(&world)
    };
    assert!(!decide(&[], &[], "1"));
    assert!(decide(&["revision"], &[], "1"), "another revision");
    assert!(!decide(&["revision"], &[], "2"));
    assert!(decide(&[], &["revision"], "2"), "the same tenant");
    assert!(!decide(&[], &["revision"], "1"));
}

/// A pod of a spread on a node that is to go in the second zone; it fits in the first zone only. `counts` is how many
/// pods of the spread run beside it in each zone.
fn spreading(spread: &[TopologySpread], counts: [usize; 3]) -> TestCluster {
    spreading_by(|pod| pod.template_mut().topology_spread = spread.to_vec(), counts)
}

fn spreading_by(change: impl Fn(&mut Pod), counts: [usize; 3]) -> TestCluster {
    let member = |name: String| {
        let mut pod = web(&name);
        change(&mut pod);
        pod
    };
    let mut world = world();
    going(&mut world, ZONES[1], vec![member("mover".into())]);
    staying(&mut world, ZONES[0], Vec::new());
    for (zone, count) in ZONES.iter().zip(counts) {
        for index in 0..count {
            full(&mut world, zone, vec![member(format!("{zone}-{index}"))]);
        }
    }
    world
}

#[test]
fn a_spread_over_zones_holds_after_a_move() {
    let zonal = [spread(labels::ZONE)];
    assert!(goes(&spreading(&[], [1, 0, 1])));
    assert!(!goes(&spreading(&zonal, [1, 0, 1])), "two in the first and none in the second");
    assert!(goes(&spreading(&zonal, [1, 1, 1])));
    assert!(goes(&spreading(&[TopologySpread { max_skew: 2, ..spread(labels::ZONE) }], [1, 0, 1])));
    let of_revision = TopologySpread { match_label_keys: vec!["revision".into()], ..spread(labels::ZONE) };
    let mut world = spreading(&[of_revision], [1, 0, 1]);
    for place in &mut world.places {
        for pod in &mut place.pods {
            let revision = if pod.name == "mover" { "2" } else { "1" };
            pod.template_mut().labels.insert("revision".into(), revision.into());
        }
    }
    assert!(goes(&world), "those of another revision do not count");
}

#[test]
fn a_zone_without_a_node_counts_only_where_something_is_launched() {
    // The NodePool offers the third zone. The kube-scheduler, which places pods that fit, counts it once a node is there.
    let mut world = spreading(&[spread(labels::ZONE)], [1, 1, 0]);
    assert!(goes(&world));
    full(&mut world, ZONES[2], Vec::new());
    assert!(!goes(&world));
}

#[test]
fn a_spread_over_hosts_or_racks_holds_after_a_move() {
    for key in [labels::HOSTNAME, "rack"] {
        let decide = |skew: Option<i32>| {
            let pod = |name: &str| {
                let mut pod = web(name);
                pod.template_mut()
                    .topology_spread
                    .extend(skew.map(|max_skew| TopologySpread { max_skew, ..spread(key) }));
                pod
            };
            let mut world = world();
            going(&mut world, ZONES[0], vec![pod("mover")]);
            staying(&mut world, ZONES[0], vec![pod("there")]);
            for (place, rack) in world.places.iter_mut().zip(["r1", "r2"]) {
                place.node.labels.insert("rack".into(), rack.into());
            }
            goes(&world)
        };
        assert!(decide(None), "{key}");
        assert!(!decide(Some(1)), "{key}");
        assert!(decide(Some(2)), "{key}");
    }
}

#[test]
fn too_few_domains_count_as_an_empty_one() {
    let at_least = |min_domains| [TopologySpread { min_domains, ..spread(labels::ZONE) }];
    assert!(goes(&spreading(&at_least(None), [1, 1, 1])));
    assert!(goes(&spreading(&at_least(Some(3)), [1, 1, 1])));
    assert!(!goes(&spreading(&at_least(Some(4)), [1, 1, 1])));
}

#[test]
fn nodes_outside_of_the_node_affinity_count_only_where_it_is_ignored() {
    let decide = |honor| {
        let mut world = spreading_by(
            |pod| {
                pod.template_mut().required_node_affinity = vec![vec![term(labels::ZONE, Operator::In, &ZONES[..2])]];
                pod.template_mut().topology_spread =
                    vec![TopologySpread { honor_node_affinity: honor, ..spread(labels::ZONE) }];
            },
            [1, 1, 0],
        );
        full(&mut world, ZONES[2], Vec::new());
        goes(&world)
    };
    assert!(decide(true));
    assert!(!decide(false), "the third zone has none");
}

#[test]
fn tainted_nodes_count_unless_the_pod_honours_taints() {
    let decide = |honor| {
        let zonal = TopologySpread { honor_node_taints: honor, ..spread(labels::ZONE) };
        let mut world = spreading(&[zonal], [1, 1, 0]);
        full(&mut world, ZONES[2], Vec::new());
        world.places.last_mut().unwrap().node.taints = vec![Taint::new("team", TaintEffect::NoSchedule)];
        goes(&world)
    };
    assert!(decide(true));
    assert!(!decide(false), "the third zone has none");
}

#[test]
fn zones_that_only_a_tainted_pool_offers_count_for_replacements() {
    let decide = |honor| {
        let zonal = TopologySpread { honor_node_taints: honor, ..spread(labels::ZONE) };
        let pods = ["a", "b"].map(|name| web(name).with_template(|it| it.topology_spread = vec![zonal.clone()]));
        let mut world = oversized(pods.to_vec());
        full(&mut world, ZONES[1], vec![web("there").with_template(|it| it.topology_spread = vec![zonal])]);
        let mut tainted = node_pool("tainted");
        tainted.template.taints = vec![Taint::new("team", TaintEffect::NoSchedule)];
        world.pools[0].template.requirements.add(labels::ZONE, Requirement::one_of([ZONES[0], ZONES[1]]));
        world.pools.push(tainted);
        goes(&world)
    };
    assert!(decide(true));
    assert!(!decide(false), "two in the first zone, and none in the third");
}

#[test]
fn expressions_of_selectors_determine_which_pods_matter() {
    let decide = |operator: LabelOperator, values: &[&str]| {
        let mut mover = web("mover");
        let values = values.iter().map(|&value| value.to_owned()).collect();
        let expression = LabelExpression { key: "app".into(), operator, values };
        mover.template_mut().required_pod_anti_affinity = vec![PodAffinityTerm {
            selector: Some(LabelSelector { match_expressions: vec![expression], ..LabelSelector::default() }),
            ..near(labels::HOSTNAME, "")
        }];
        let mut world = world();
        going(&mut world, ZONES[0], vec![mover]);
        staying(&mut world, ZONES[0], vec![app("there", "db")]);
        goes(&world)
    };
    assert!(!decide(LabelOperator::In, &["db", "cache"]));
    assert!(decide(LabelOperator::In, &["cache"]));
    assert!(!decide(LabelOperator::Exists, &[]));
}
