//! Which DaemonSets take capacity of new and existing nodes, and what plans report about them.

use crate::support::*;
use nodeless_model::pod::PodAffinityTerm;
use nodeless_model::requirement::Operator;
use nodeless_model::*;
use nodeless_scheduling::{
    BoundPods, Cause, DaemonSetEffect, Effect, Problem, Reason, Solution, daemon_set_effects, existing_node,
    explain_launch,
};

fn daemon_set(name: &str, cpu_milli: i64, memory_mib: i64) -> DaemonSet {
    let template = pod(name, cpu_milli, memory_mib);
    DaemonSet { namespace: "tenant".into(), name: name.into(), template, ..DaemonSet::default() }
}

fn with_resource(name: &str, resource: &str, units: i64) -> DaemonSet {
    let mut set = daemon_set(name, 100, 64);
    set.template.template_mut().requests.set(resource, Quantity::from_units(units));
    set
}

fn with_priority(mut set: DaemonSet, priority: i32) -> DaemonSet {
    set.template.template_mut().priority = priority;
    set
}

fn solved(pods: &[Pod], pools: &[NodePool], sets: &[DaemonSet]) -> (Solution, Vec<DaemonSetEffect>) {
    let problem = Problem { daemon_sets: sets, ..problem(pods, pools) };
    let solution = solve_checked(&problem);
    let effects = daemon_set_effects(&problem, &solution.launches);
    (solution, effects)
}

fn left_out(effects: &[DaemonSetEffect]) -> Vec<&str> {
    effects.iter().filter(|one| one.effect == Effect::LeftOut).map(|one| one.daemon_set.name.as_str()).collect()
}

#[test]
fn a_daemon_set_without_space_on_any_type_is_left_out() {
    let (pods, pools) = (pods(6, 1000, 1024), [node_pool("default")]);
    let (without, none) = solved(&pods, &pools, &[]);
    assert!(none.is_empty());
    for set in
        [daemon_set("large", 1_000_000, 64), daemon_set("large", 0, 1 << 30), with_resource("large", "a.com/b", 1)]
    {
        let (with, effects) = solved(&pods, &pools, &[set]);
        assert_eq!(with.launches, without.launches);
        assert_eq!(left_out(&effects), ["large"]);
        assert_eq!(effects[0].nodes, without.launches.len());
    }
    let (_, effects) = solved(&pods, &pools, &[daemon_set("large", 1_000_000, 64)]);
    assert_eq!(
        effects[0].to_string(),
        "DaemonSet tenant/large needs cpu 1000, for which no instance type of NodePool default that the pods could use has space; \
         1 node is planned without it"
    );
    assert!(effects[0].event_message().starts_with("Its pod needs cpu 1000, for which no instance type"));
}

#[test]
fn a_daemon_set_with_space_on_large_types_counts_and_decides_which_are_used() {
    let (pods, pools) = (pods(6, 1000, 1024), [node_pool("default")]);
    let (solution, effects) = solved(&pods, &pools, &[daemon_set("large", 50_000, 64)]);
    assert_eq!(chosen(&solution), ["c9.16xlarge"]);
    assert_eq!(solution.launches[0].requests.get("cpu"), Quantity::from_units(56));
    let names = solution.launches[0].instance_types.iter().map(|kind| kind.name.as_str());
    assert!(names.clone().all(|name| name.ends_with("16xlarge")), "{:?}", names.collect::<Vec<_>>());
    let Effect::Large(large) = &effects[0].effect else { panic!("{effects:?}") };
    assert!((large.share - 50.0 / 63.92).abs() < 1e-9 && (large.price_per_hour - large.share * 2.56).abs() < 1e-9);
    assert_eq!(
        effects[0].to_string(),
        "DaemonSet tenant/large takes cpu 50 of 63.92 (78%) of a c9.16xlarge of NodePool default, and $2.0025/h of the price of 1 node"
    );
    let json = serde_json::to_value(&effects[0]).unwrap();
    assert_eq!((json["effect"].as_str(), json["requested"].as_str()), (Some("large"), Some("50")));
}

#[test]
fn small_daemon_sets_are_not_reported() {
    let (_, effects) = solved(&pods(6, 1000, 1024), &[node_pool("default")], &[daemon_set("agent", 100, 128)]);
    assert_eq!(effects, []);
}

#[test]
fn a_pod_that_uses_small_types_only_gets_one_without_a_daemon_set_for_large_types() {
    let small = [pod("small", 1000, 1024).with_template(|it| {
        it.required_node_affinity = vec![vec![term(labels::INSTANCE_CPU, Operator::Lt, &["9"])]];
    })];
    let pools = [node_pool("default")];
    let sets = [daemon_set("large", 50_000, 64), daemon_set("agent", 500, 64)];
    let (solution, effects) = solved(&small, &pools, &sets);
    assert_eq!(chosen(&solution), ["c9.large"]);
    assert_eq!(solution.launches[0].requests.get("cpu"), Quantity::from_milli(1500));
    assert_eq!(left_out(&effects), ["large"]);
}

#[test]
fn a_pod_whose_resources_few_types_have_gets_one_without_a_daemon_set_for_others() {
    let gpu = pod("gpu", 46_000, 1024).with_template(|it| it.requests.set("nvidia.com/gpu", Quantity::from_units(4)));
    let pools = [node_pool("default")];
    let (solution, effects) = solved(std::slice::from_ref(&gpu), &pools, &[daemon_set("large", 60_000, 64)]);
    assert_eq!(chosen(&solution), ["g9.12xlarge"]);
    assert_eq!(left_out(&effects), ["large"]);
    // With other pods, each goes where its DaemonSets have space.
    let both = [gpu, pod("web", 3000, 1024)];
    let (solution, effects) = solved(&both, &pools, &[daemon_set("large", 60_000, 64)]);
    let mut types = chosen(&solution);
    types.sort_unstable();
    assert_eq!(types, ["c9.16xlarge", "g9.12xlarge"]);
    assert_eq!(effects.len(), 2);
}

#[test]
fn of_daemon_sets_that_have_no_space_together_those_of_low_priority_and_then_the_largest_are_left_out() {
    let (pods, pools) = (pods(1, 1000, 1024), [node_pool("default")]);
    let mut sets: Vec<DaemonSet> = (0..3).map(|number| daemon_set(&format!("large-{number}"), 31_000, 64)).collect();
    sets.push(daemon_set("agent", 400, 64));
    let (solution, effects) = solved(&pods, &pools, &sets);
    assert_eq!(left_out(&effects), ["large-2"]);
    assert_eq!(solution.launches[0].requests.get("cpu"), Quantity::from_milli(63_400));
    sets[2] = with_priority(sets[2].clone(), 10);
    let (_, effects) = solved(&pods, &pools, &sets);
    assert_eq!(left_out(&effects), ["large-1"]);
}

#[test]
fn reasons_name_the_daemon_set_and_what_it_takes() {
    let pools = [node_pool("default")];
    let large = [daemon_set("large", 60_000, 64), daemon_set("agent", 100, 64)];
    let (solution, _) = solved(&[pod("web", 10_000, 1024)], &pools, &large);
    assert_eq!(
        reasons(&solution),
        [
            "NodePool default: no instance type has enough cpu: pod needs 10, the largest leaves 3.82, because DaemonSet tenant/large \
          takes cpu 60 of each node"
        ]
    );
    // A pod that no node holds without DaemonSets waits for another reason.
    let (solution, _) = solved(&[pod("web", 100_000, 1024)], &pools, &large);
    let Reason::NodePool { cause: Cause::TooLarge { daemon_set: None, .. }, .. } =
        &solution.unschedulable[0].reasons[0]
    else {
        panic!("{solution:#?}")
    };
    // Of each resource there is enough, but not of both on one type.
    let both = [daemon_set("cpu", 50_000, 64)];
    let (solution, _) = solved(&[pod("web", 13_000, 200 * 1024)], &pools, &both);
    assert_eq!(chosen(&solution), ["m9g.16xlarge"]);
}

#[test]
fn cheaper_types_without_space_for_a_daemon_set_are_ruled_out_by_it() {
    let (pods, pools) = (pods(1, 1000, 1024), [node_pool("default")]);
    let sets = [daemon_set("large", 50_000, 64)];
    let problem = Problem { daemon_sets: &sets, ..problem(&pods, &pools) };
    let solution = solve_checked(&problem);
    let explanation = explain_launch(&problem, &solution.launches[0]).unwrap();
    let large = explanation.ruled_out.iter().find(|one| one.name == "m9g.large").unwrap();
    assert_eq!(large.cause.to_string(), "it leaves cpu 1.92 for DaemonSet tenant/large, which needs 50");
}

#[test]
fn an_existing_node_without_space_for_a_daemon_set_takes_pods() {
    let node = nodeless_model::test_support::node("a", 4000, 16 * 1024);
    let free = |sets: &[DaemonSet], pods: &[&Pod]| {
        existing_node(Some(&node), None, pods, sets).unwrap().available.get("cpu").milli()
    };
    assert_eq!(free(&[daemon_set("agent", 500, 64)], &[]), 3500);
    for large in [daemon_set("large", 5000, 64), with_resource("large", "a.com/b", 1)] {
        assert_eq!(free(&[large, daemon_set("agent", 500, 64)], &[]), 3500);
    }
    // A pod that was created when the DaemonSet requested less takes what it takes, and nothing for another one.
    let mut running = pod("large-x", 300, 64);
    running.namespace = "tenant".into();
    (running.owner_kind, running.owner_name) = (Some("DaemonSet".into()), Some("large".into()));
    assert_eq!(free(&[daemon_set("large", 5000, 64), daemon_set("agent", 500, 64)], &[&running]), 3200);
    // One that has space only if pods leave still counts.
    let web = pod("web", 3000, 64);
    assert_eq!(free(&[daemon_set("large", 2000, 64)], &[&web]), -1000);
}

#[test]
fn a_daemon_set_that_a_quota_refuses_takes_nothing_and_is_reported() {
    let refused = |set: DaemonSet| DaemonSet {
        refused_by: Some(RefusingQuota { quota: "small".into(), limit: "requests.cpu".into() }),
        ..set
    };
    let pools = [node_pool("default")];
    let web = [pod("web", 1000, 512)];
    let (without, _) = solved(&web, &pools, &[]);
    let (solution, effects) = solved(&web, &pools, &[refused(daemon_set("agent", 90_000, 64))]);
    assert_eq!(chosen(&solution), chosen(&without));
    let messages: Vec<String> = effects.iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            "ResourceQuota tenant/small allows DaemonSet tenant/agent no pod (requests.cpu); 1 node of NodePool default is planned \
          without it"
        ]
    );
    assert_eq!(
        effects[0].event_message(),
        "ResourceQuota small allows it no pod (requests.cpu), so nodes of NodePool default are launched without it. Raise the quota, \
         or set the requests and limits that it allows"
    );
    // One that does not run there is not reported, and an existing node keeps nothing for it.
    let mut elsewhere = refused(daemon_set("agent", 90_000, 64));
    elsewhere.template.template_mut().node_selector.insert("team".into(), "other".into());
    assert_eq!(solved(&web, &pools, &[elsewhere]).1, []);
    let node = nodeless_model::test_support::node("a", 4000, 16 * 1024);
    let existing = existing_node(Some(&node), None, &[], &[refused(daemon_set("agent", 1000, 64))]).unwrap();
    assert_eq!(existing.available.get("cpu").milli(), 4000);
}

fn near(key: &str, app: &str) -> PodAffinityTerm {
    PodAffinityTerm {
        selector: Some(selector("app", app)),
        topology_key: key.into(),
        namespaces: vec!["tenant".into(), "default".into()],
        ..PodAffinityTerm::default()
    }
}

/// A DaemonSet whose pods have the label `app: cache`.
fn cache() -> DaemonSet {
    let mut set = daemon_set("cache", 100, 64);
    set.template = labelled(set.template, "app", "cache");
    set.template.namespace = "tenant".into();
    set
}

fn with_affinity(key: &str) -> Pod {
    labelled(pod("web", 1000, 1024), "app", "web")
        .with_template(|it| it.required_pod_affinity = vec![near(key, "cache")])
}

fn with_anti_affinity(key: &str) -> Pod {
    labelled(pod("web", 1000, 1024), "app", "web")
        .with_template(|it| it.required_pod_anti_affinity = vec![near(key, "cache")])
}

#[test]
fn the_pod_of_a_daemon_set_on_a_new_node_meets_affinity() {
    let pools = [node_pool("default")];
    for key in [labels::HOSTNAME, labels::ZONE, labels::CAPACITY_TYPE] {
        let (without, _) = solved(&[with_affinity(key)], &pools, &[]);
        assert_eq!(without.unschedulable.len(), 1, "{key}");
        let (with, _) = solved(&[with_affinity(key)], &pools, &[cache()]);
        assert_eq!((with.launches.len(), with.unschedulable.len()), (1, 0), "{key}");
    }
}

#[test]
fn affinity_to_the_pod_of_a_daemon_set_chooses_the_types_and_node_pools_where_it_runs() {
    let mut only_arm = cache();
    only_arm.template.template_mut().node_selector.insert(labels::ARCH.into(), "arm64".into());
    let large = with_affinity(labels::HOSTNAME).with_template(|it| it.requests.set("cpu", Quantity::from_units(5)));
    let (solution, _) = solved(&[large], &[node_pool("default")], std::slice::from_ref(&only_arm));
    assert_eq!(chosen(&solution), ["m9g.2xlarge"]);
    let names = solution.launches[0].instance_types.iter().map(|kind| kind.name.as_str());
    assert!(names.clone().all(|name| name.starts_with("m9g")), "{:?}", names.collect::<Vec<_>>());

    // The DaemonSet does not tolerate the taint of the NodePool that comes first.
    let mut tainted = node_pool("tainted");
    tainted.weight = 10;
    tainted.template.taints = vec![Taint::new("team", TaintEffect::NoSchedule)];
    for key in [labels::HOSTNAME, labels::ZONE] {
        let pod = with_affinity(key).with_template(|it| {
            it.tolerations = vec![Toleration {
                operator: nodeless_model::taint::TolerationOperator::Exists,
                ..Toleration::default()
            }];
        });
        let (solution, _) = solved(&[pod], &[tainted.clone(), node_pool("default")], &[cache()]);
        assert_eq!(solution.launches[0].node_pool, "default", "{key}");
    }
}

#[test]
fn anti_affinity_to_the_pod_of_a_daemon_set_excludes_the_nodes_where_it_runs() {
    let pools = [node_pool("default")];
    for key in [labels::HOSTNAME, labels::ZONE] {
        let (solution, _) = solved(&[with_anti_affinity(key)], &pools, &[cache()]);
        let expected = format!(
            "NodePool default: pod anti-affinity over {key}: DaemonSet tenant/cache runs on every node that would fit"
        );
        assert_eq!(reasons(&solution), [expected]);
        let mut only_arm = cache();
        only_arm.template.template_mut().node_selector.insert(labels::ARCH.into(), "arm64".into());
        let (solution, _) = solved(&[with_anti_affinity(key)], &pools, &[only_arm]);
        assert_eq!(chosen(&solution), ["c9.large"]);
        let names = solution.launches[0].instance_types.iter().map(|kind| kind.name.as_str());
        assert!(!names.clone().any(|name| name.starts_with("m9g")), "{:?}", names.collect::<Vec<_>>());
    }
}

#[test]
fn the_anti_affinity_of_a_daemon_set_excludes_pods() {
    let mut set = cache();
    set.template.template_mut().required_pod_anti_affinity = vec![near(labels::HOSTNAME, "web")];
    let web = labelled(pod("web", 1000, 1024), "app", "web");
    let (solution, _) = solved(&[web], &[node_pool("default")], &[set]);
    assert_eq!(
        reasons(&solution),
        [
            "NodePool default: pod anti-affinity over kubernetes.io/hostname of the DaemonSet excludes it: DaemonSet tenant/cache runs \
          on every node that would fit"
        ]
    );
}

#[test]
fn the_pod_of_a_daemon_set_counts_for_a_spread_over_hosts() {
    let web = |number: usize| {
        labelled(pod(format!("web-{number}"), 100, 128), "app", "cache").with_template(|it| {
            it.topology_spread = vec![topology_spread(labels::HOSTNAME, selector("app", "cache"))];
            it.topology_spread[0].max_skew = 2;
        })
    };
    let pods: Vec<Pod> = (0..4).map(web).collect();
    let mut set = cache();
    set.template.namespace = pods[0].namespace.clone();
    let (without, _) = solved(&pods, &[node_pool("default")], &[]);
    assert_eq!(without.launches.len(), 2);
    let (with, _) = solved(&pods, &[node_pool("default")], &[set]);
    assert_eq!(with.launches.len(), 4);
}

#[test]
fn a_daemon_set_that_is_left_out_or_gated_counts_in_no_affinity() {
    let pools = [node_pool("default")];
    let mut huge = cache();
    huge.template.template_mut().requests.set("cpu", Quantity::from_units(1000));
    let gated = DaemonSet {
        template: cache().template.with_template(|it| it.scheduling_gates = vec!["wait".into()]),
        ..cache()
    };
    for set in [huge, gated] {
        let sets = [set];
        let (solution, _) = solved(&[with_affinity(labels::HOSTNAME)], &pools, &sets);
        assert_eq!(solution.unschedulable.len(), 1);
        let (solution, _) = solved(&[with_anti_affinity(labels::HOSTNAME)], &pools, &sets);
        assert_eq!(solution.launches.len(), 1);
    }
}

#[test]
fn the_pods_that_daemon_sets_will_have_on_existing_nodes_count() {
    let pools: [NodePool; 0] = [];
    let mut node = nodeless_model::test_support::node("a", 4000, 16 * 1024);
    node.labels.insert(labels::ZONE.into(), "us-east-1a".into());
    let sets = [cache()];
    let mut running = sets[0].template.clone();
    (running.owner_kind, running.owner_name) = (Some("DaemonSet".into()), Some("cache".into()));
    for bound in [vec![], vec![&running]] {
        let existing = existing_node(Some(&node), None, &bound, &sets).unwrap();
        assert_eq!(existing.daemon_sets.len(), 1 - bound.len());
        let place = |pod: &Pod| {
            let pods = [pod.clone()];
            let bound_pods = vec![BoundPods::on(&node, bound.clone())];
            let problem =
                Problem { nodes: vec![existing.clone()], daemon_sets: &sets, bound_pods, ..problem(&pods, &pools) };
            solve_checked(&problem).placements.len()
        };
        for key in [labels::HOSTNAME, labels::ZONE] {
            assert_eq!(place(&with_affinity(key)), 1, "{key}");
            assert_eq!(place(&with_anti_affinity(key)), 0, "{key}");
        }
    }
}
