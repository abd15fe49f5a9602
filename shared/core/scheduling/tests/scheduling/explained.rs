//! The explanations of launches, and the suggestions that would make pods fit.

use crate::support::*;
use nodeless_model::pod::HostPort;
use nodeless_model::*;
use nodeless_scheduling::{LaunchExplanation, Problem, explain_launch};

fn explained(problem: &Problem<'_>) -> LaunchExplanation {
    let solution = solve_checked(problem);
    assert_eq!(solution.launches.len(), 1, "{solution:#?}");
    explain_launch(problem, &solution.launches[0]).unwrap()
}

fn ruled_out(explained: &LaunchExplanation) -> Vec<String> {
    explained.ruled_out.iter().map(|out| format!("{}: {}", out.name, out.cause)).collect()
}

#[test]
fn nothing_is_cheaper_than_the_cheapest() {
    let pods = [pod("web", 1000, 1024)];
    let pools = [node_pool("default")];
    let explained = explained(&problem(&pods, &pools));
    assert_eq!(explained.instance_types[0].name, "c9.large");
    assert!(explained.instance_types.is_sorted_by(|a, b| a.price <= b.price));
    assert!(explained.ruled_out.is_empty(), "{explained:#?}");
    assert_eq!((explained.node_pool.as_str(), &explained.pods[..]), ("default", &["default/web".to_owned()][..]));
}

#[test]
fn reports_what_ruled_the_cheaper_ones_out() {
    let pools = [node_pool("default")];
    let one = |change: fn(&mut Pod)| {
        let mut pod = pod("web", 1000, 1024);
        change(&mut pod);
        vec![pod]
    };
    for (what, pods, expected) in [
        (
            "insufficient capacity",
            vec![pod("web", 3000, 1024)],
            vec![
                "c9.large: it leaves cpu 1920m for pods, and these need 3",
                "m9g.large: it leaves cpu 1920m for pods, and these need 3",
                "m9.large: it leaves cpu 1920m for pods, and these need 3",
                "r9.large: it leaves cpu 1920m for pods, and these need 3",
            ],
        ),
        (
            "a node selector",
            one(|pod| drop(pod.node_selector.insert(labels::INSTANCE_FAMILY.into(), "m9".into()))),
            vec![
                "c9.large: pod default/web requires karpenter.k8s.aws/instance-family In [m9]",
                "m9g.large: pod default/web requires karpenter.k8s.aws/instance-family In [m9]",
            ],
        ),
        (
            "a preference",
            one(|pod| {
                let preference = vec![term(labels::INSTANCE_FAMILY, Operator::In, &["m9"])];
                pod.preferred_node_affinity = vec![pod::Weighted { weight: 1, preference }];
            }),
            vec![
                "c9.large: the pods together need karpenter.k8s.aws/instance-family In [m9]",
                "m9g.large: the pods together need karpenter.k8s.aws/instance-family In [m9]",
            ],
        ),
    ] {
        assert_eq!(ruled_out(&explained(&problem(&pods, &pools))), expected, "{what}");
    }
}

#[test]
fn node_pools_daemons_and_offerings_rule_out_too() {
    let pods = [pod("web", 1000, 1024)];
    let mut pool = node_pool("default");
    pool.template.requirements.add(labels::INSTANCE_FAMILY, Requirement::one_of(["m9", "m9g"]));
    let pools = [pool];
    let mut limited = problem(&pods, &pools);
    let mut types = catalog().to_vec();
    for kind in types.iter_mut().filter(|kind| kind.name == "m9g.large") {
        kind.offerings.iter_mut().for_each(|offering| offering.available = false);
    }
    limited.node_pools[0].instance_types = types.into();
    assert_eq!(
        ruled_out(&explained(&limited)),
        [
            "c9.large: the NodePool requires karpenter.k8s.aws/instance-family In [m9, m9g]",
            "m9g.large: it is unavailable now: on-demand in us-east-1a, on-demand in us-east-1b, on-demand in us-east-1c",
        ]
    );

    let port = HostPort { ip: String::new(), port: 80, protocol: "TCP".into() };
    let mut template = pod("agent", 10, 10);
    template.host_ports = vec![port.clone()];
    template.required_node_affinity = vec![vec![term(labels::INSTANCE_FAMILY, Operator::In, &["c9", "m9g"])]];
    let daemons = [DaemonSet { namespace: "d".into(), name: "agent".into(), template }];
    let mut taking = pods.clone();
    taking[0].host_ports = vec![port];
    let pools = [node_pool("default")];
    let with_port = Problem { daemon_sets: &daemons, ..problem(&taking, &pools) };
    assert_eq!(
        ruled_out(&explained(&with_port)),
        ["c9.large: a DaemonSet takes host port 80 there", "m9g.large: a DaemonSet takes host port 80 there"]
    );
}

#[test]
fn every_reason_suggests_a_fix() {
    let pools = [node_pool("default")];
    let with = |change: fn(&mut Pod)| {
        let mut pod = pod("web", 1000, 1024);
        change(&mut pod);
        pod
    };
    for (pod, expected) in [
        (
            with(|pod| pod.requests.set("example.com/fpga", Quantity::from_units(1))),
            "allow instance types with example.com/fpga in NodePool default, or do not request it",
        ),
        (
            with(|pod| pod.requests.set("cpu", Quantity::from_units(100))),
            "request at most 63920m of cpu, or allow larger instance types in NodePool default",
        ),
        (
            with(|pod| drop(pod.node_selector.insert("team".into(), "a".into()))),
            "define label team in the template of NodePool default, or do not require it",
        ),
        (
            with(|pod| drop(pod.node_selector.insert(labels::CAPACITY_TYPE.into(), "spot".into()))),
            "let NodePool default allow karpenter.sh/capacity-type In [spot], or do not require it of the pod",
        ),
        (
            with(|pod| pod.resource_claims = vec!["gpu".into()]),
            "ask for the device as an extended resource of the pod's containers",
        ),
    ] {
        let pods = [pod];
        let solution = solve_checked(&problem(&pods, &pools));
        assert_eq!(solution.unschedulable[0].reasons[0].remedy().as_deref(), Some(expected));
    }
    let mut limited = node_pool("default");
    limited.limits = ResourceList::new().with("cpu", Quantity::from_units(100));
    let pools = [limited];
    let pods = [pod("web", 8000, 1024)];
    let mut problem = problem(&pods, &pools);
    problem.node_pools[0].usage.resources = ResourceList::new().with("cpu", Quantity::from_units(96));
    let solution = solve_checked(&problem);
    assert_eq!(
        solution.unschedulable[0].reasons[0].remedy().as_deref(),
        Some("raise limit cpu of NodePool default to 112 or more")
    );
}

#[test]
fn raising_a_limit_as_advised_makes_the_pod_fit() {
    let pods = [pod("web", 8000, 1024)];
    for limit in [111, 112] {
        let mut pool = node_pool("default");
        pool.limits = ResourceList::new().with("cpu", Quantity::from_units(limit));
        let pools = [pool];
        let mut problem = problem(&pods, &pools);
        problem.node_pools[0].usage.resources = ResourceList::new().with("cpu", Quantity::from_units(96));
        assert_eq!(solve_checked(&problem).launches.len(), usize::from(limit == 112));
    }
}
