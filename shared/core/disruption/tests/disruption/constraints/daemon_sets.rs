//! DaemonSets on nodes that pods move to, and on replacements.

use super::*;
use nodeless_model::pod::PodAffinityTerm;

#[test]
fn a_replacement_has_the_ports_of_its_daemon_sets_taken() {
    let port = |port| vec![HostPort { ip: String::new(), port, protocol: "TCP".into() }];
    let decide = |of_daemon_set: i32| {
        // The DaemonSet does not run on the existing node.
        let mut template = pod("agent", 10, 10).with_template(|it| it.host_ports = port(of_daemon_set));
        template.template_mut().required_node_affinity =
            vec![vec![term(labels::INSTANCE_SIZE, Operator::NotIn, &["old"])]];
        let mut world = oversized(vec![web("a").with_template(|it| it.host_ports = port(80))]);
        world.places[0].node.labels.insert(labels::INSTANCE_SIZE.into(), "old".into());
        world.daemon_sets =
            vec![DaemonSet { namespace: "default".into(), name: "agent".into(), template, ..DaemonSet::default() }];
        goes(&world)
    };
    assert!(decide(81));
    assert!(!decide(80));
}

#[test]
fn daemon_sets_have_their_capacity_on_other_nodes_and_on_replacements() {
    let daemon_set = |cpu_milli: i64| {
        vec![DaemonSet {
            namespace: "default".into(),
            name: "agent".into(),
            template: pod("agent", cpu_milli, 10),
            ..DaemonSet::default()
        }]
    };
    let decide = |cpu_milli: i64| {
        let mut world = pair(web("mover"));
        world.daemon_sets = daemon_set(cpu_milli);
        goes(&world)
    };
    assert!(decide(100), "500 of 600 thousandths are left for the pod");
    assert!(!decide(200));
    for (cpu_milli, expected) in [(1500, "c9.large"), (1600, "c9.xlarge")] {
        let mut world = oversized(vec![web("a")]);
        world.daemon_sets = daemon_set(cpu_milli);
        assert_eq!(replaced(&world).unwrap().0, [expected]);
    }
}

#[test]
fn daemon_sets_without_space_take_nothing_on_other_nodes_and_on_replacements() {
    let daemon_sets = |units: i64| {
        let mut template = pod("large", 10, 10);
        template.template_mut().requests.set("example.com/thing", Quantity::from_units(units));
        let with_cpu = pod("huge", units * 1_000_000, 10);
        let set = |template: Pod| DaemonSet {
            namespace: "default".into(),
            name: template.name.clone(),
            template,
            ..DaemonSet::default()
        };
        vec![set(template), set(with_cpu)]
    };
    let mut world = pair(web("mover"));
    world.daemon_sets = daemon_sets(1);
    assert!(goes(&world));
    let expected = replaced(&oversized(vec![web("a")])).unwrap();
    let mut world = oversized(vec![web("a")]);
    world.daemon_sets = daemon_sets(1);
    assert_eq!(replaced(&world).unwrap(), expected);
}

#[test]
fn pods_keep_apart_from_the_daemon_sets_of_other_nodes_and_of_replacements() {
    let apart = PodAffinityTerm {
        selector: Some(selector("app", "cache")),
        topology_key: labels::HOSTNAME.into(),
        ..PodAffinityTerm::default()
    };
    let lonely = |name: &str| web(name).with_template(|it| it.required_pod_anti_affinity = vec![apart.clone()]);
    // The DaemonSet does not run on the node of the pod.
    let cache = |world: &mut TestCluster| {
        let mut template = labelled(pod("cache", 10, 10), "app", "cache");
        template.template_mut().required_node_affinity =
            vec![vec![term(labels::INSTANCE_SIZE, Operator::NotIn, &["old"])]];
        world.places[0].node.labels.insert(labels::INSTANCE_SIZE.into(), "old".into());
        world.daemon_sets =
            vec![DaemonSet { namespace: "default".into(), name: "cache".into(), template, ..DaemonSet::default() }];
    };
    for mut world in [pair(lonely("mover")), oversized(vec![lonely("a")])] {
        assert!(goes(&world));
        cache(&mut world);
        assert!(!goes(&world));
    }
}

#[test]
fn daemon_sets_that_do_not_run_on_a_node_take_nothing_there() {
    let decide = |selected: bool| {
        let mut template = pod("agent", 200, 10);
        if selected {
            template.template_mut().node_selector.insert(labels::INSTANCE_FAMILY.into(), "m9".into());
        }
        let mut world = pair(web("mover"));
        world.daemon_sets =
            vec![DaemonSet { namespace: "default".into(), name: "agent".into(), template, ..DaemonSet::default() }];
        goes(&world)
    };
    assert!(!decide(false));
    assert!(decide(true));
}
