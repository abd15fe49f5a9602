//! The explanations of launches, and the suggestions that would make pods fit.

use crate::support::*;
use nodeless_model::pod::HostPort;
use nodeless_model::*;
use nodeless_scheduling::{Advice, Advised, LaunchExplanation, Options, Problem, advise, explain_launch};

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
                "c9.large: it leaves cpu 1.92 for pods, and these need 3",
                "m9g.large: it leaves cpu 1.92 for pods, and these need 3",
                "m9.large: it leaves cpu 1.92 for pods, and these need 3",
                "r9.large: it leaves cpu 1.92 for pods, and these need 3",
            ],
        ),
        (
            "a node selector",
            one(|pod| drop(pod.template_mut().node_selector.insert(labels::INSTANCE_FAMILY.into(), "m9".into()))),
            vec![
                "c9.large: pod default/web requires karpenter.k8s.aws/instance-family In [m9]",
                "m9g.large: pod default/web requires karpenter.k8s.aws/instance-family In [m9]",
            ],
        ),
        (
            "a preference",
            one(|pod| {
                let preference = vec![term(labels::INSTANCE_FAMILY, Operator::In, &["m9"])];
                pod.template_mut().preferred_node_affinity = vec![pod::Weighted { weight: 1, preference }];
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
    // Without a price it is not known to be cheaper.
    let mut types = limited.node_pools[0].instance_types.to_vec();
    for kind in types.iter_mut().filter(|kind| kind.name == "m9g.large") {
        kind.offerings.iter_mut().for_each(|offering| (offering.price, offering.lacks_price) = (0.0, true));
    }
    limited.node_pools[0].instance_types = types.into();
    assert_eq!(ruled_out(&explained(&limited)).len(), 1);

    let port = HostPort { ip: String::new(), port: 80, protocol: "TCP".into() };
    let mut template = pod("agent", 10, 10);
    template.template_mut().host_ports = vec![port.clone()];
    template.template_mut().required_node_affinity =
        vec![vec![term(labels::INSTANCE_FAMILY, Operator::In, &["c9", "m9g"])]];
    let daemons = [DaemonSet { namespace: "d".into(), name: "agent".into(), template, ..DaemonSet::default() }];
    let mut taking = pods.clone();
    taking[0].template_mut().host_ports = vec![port];
    let pools = [node_pool("default")];
    let with_port = Problem { daemon_sets: &daemons, ..problem(&taking, &pools) };
    assert_eq!(
        ruled_out(&explained(&with_port)),
        [
            "c9.large: DaemonSet d/agent takes host port 80 there",
            "m9g.large: DaemonSet d/agent takes host port 80 there"
        ]
    );
}

const SIZE: &str = "widen or remove the requirement karpenter.k8s.aws/instance-cpu In [16, 4] of NodePool default";

/// At most 16 cpus, on demand.
fn small() -> NodePool {
    let mut pool = node_pool("default");
    pool.template.requirements.add(labels::INSTANCE_CPU, Requirement::one_of(["4", "16"]));
    pool
}

#[test]
fn every_remedy_makes_the_pod_fit() {
    let pools = [small()];
    let with = |change: fn(&mut Pod)| {
        let mut pod = pod("web", 1000, 1024);
        change(&mut pod);
        pod
    };
    for (pod, remedies) in [
        (
            with(|pod| pod.template_mut().requests.set("example.com/fpga", Quantity::from_units(1))),
            &["do not request example.com/fpga"][..],
        ),
        (
            with(|pod| pod.template_mut().requests.set("hugepages-2Mi", gib(1))),
            &[
                "do not request hugepages-2Mi, or let the user data of nodes reserve huge pages and add them to spec.capacity of a NodeOverlay",
            ],
        ),
        (
            with(|pod| pod.template_mut().requests.set("cpu", Quantity::from_units(50))),
            &["request at most 15.92 of cpu", SIZE],
        ),
        (with(|pod| pod.template_mut().requests.set("memory", gib(500))), &["request at most 127Gi of memory", SIZE]),
        (
            with(|pod| drop(pod.template_mut().node_selector.insert("team".into(), "a".into()))),
            &[
                "do not require label team of the pod's node",
                "define label team in the template of NodePool default, so that it meets In [a]",
            ],
        ),
        (
            with(|pod| drop(pod.template_mut().node_selector.insert(labels::CAPACITY_TYPE.into(), "spot".into()))),
            &[
                "do not require label karpenter.sh/capacity-type of the pod's node",
                "let NodePool default allow karpenter.sh/capacity-type In [spot]",
            ],
        ),
        (
            with(|pod| drop(pod.template_mut().node_selector.insert(labels::ZONE.into(), "mars-1a".into()))),
            &["do not require label topology.kubernetes.io/zone of the pod's node"],
        ),
        (
            with(|pod| {
                pod.template_mut().resource_claims =
                    vec![pod::ResourceClaim { name: "gpu".into(), ..Default::default() }];
            }),
            &["change the pod's resource claims, or ask for the device as an extended resource of its containers"],
        ),
    ] {
        let pods = [pod];
        let found = advice(&problem(&pods, &pools));
        assert_eq!(found.remedies, remedies, "{found:#?}");
    }
}

#[test]
fn a_spread_over_a_label_of_a_node_pool_that_is_not_ready_names_why_it_is_not() {
    let mut racks = node_pool("racks");
    racks.template.requirements.add("example.com/rack", Requirement::one_of(["r1", "r2"]));
    racks.ready = Err("EC2NodeClass default is missing".into());
    let pools = [small(), racks];
    let mut spread = pod("web", 1000, 1024);
    let mut constraint = topology_spread("example.com/rack", selector("app", "web"));
    constraint.hard = true;
    spread.template_mut().topology_spread = vec![constraint];
    let pods = [spread];
    let solution = solve_checked(&problem(&pods, &pools));
    let reasons: Vec<String> = solution.unschedulable[0].reasons.iter().map(ToString::to_string).collect();
    assert!(reasons[0].contains("example.com/rack"), "{reasons:?}");
    assert_eq!(reasons[1..], ["NodePool racks: not ready: EC2NodeClass default is missing"]);
}

#[test]
fn a_change_that_does_not_suffice_is_not_advised() {
    let mut dedicated = node_pool("gpu");
    dedicated.template.taints = vec![Taint::new("dedicated", TaintEffect::NoSchedule)];
    let pools = [small(), dedicated];
    let tolerate = "add a toleration for dedicated:NoSchedule to the pod";
    // The largest type of the tainted NodePool has 64 cpus.
    let pods = [pod("web", 50_000, 1024)];
    let found = advice(&problem(&pods, &pools));
    assert_eq!(
        (&*found.remedies, found.obstacle),
        (&[tolerate, "request at most 15.92 of cpu", SIZE].map(str::to_owned)[..], None)
    );
    let pods = [pod("web", 900_000, 1024)];
    let found = advice(&problem(&pods, &pools));
    assert_eq!(found.remedies, ["request at most 15.92 of cpu"]);
    let obstacle = "the pod needs 900 of cpu, and the largest instance type that the NodePools allow leaves 63.92";
    assert_eq!(found.obstacle.as_deref(), Some(obstacle));
}

#[test]
fn two_changes_are_combined_where_one_does_not_suffice() {
    let mut dedicated = node_pool("default");
    dedicated.template.taints = ["dedicated", "batch"].map(|key| Taint::new(key, TaintEffect::NoSchedule)).to_vec();
    let pools = [dedicated];
    let pods = [pod("web", 1000, 1024)];
    let both =
        "add a toleration for dedicated:NoSchedule to the pod, and add a toleration for batch:NoSchedule to the pod";
    assert_eq!(advice(&problem(&pods, &pools)).remedies, [both]);

    let mut three = pools[0].clone();
    three.template.taints.push(Taint::new("night", TaintEffect::NoSchedule));
    let pools = [three];
    let found = advice(&problem(&pods, &pools));
    let obstacle =
        "no change of the pod, of a NodePool or of a limit that was tried helps, and no two of them together";
    assert_eq!((found.remedies, found.obstacle.as_deref()), (Vec::new(), Some(obstacle)));
}

#[test]
fn changes_are_tried_after_the_plan_and_within_its_work() {
    let mut pool = node_pool("default");
    pool.limits = ResourceList::new().with("cpu", Quantity::from_units(2));
    let pools = [pool];
    // The first takes the whole limit.
    let pods = ["a", "b"].map(|name| pod(name, 1500, 1024));
    let problem = problem(&pods, &pools);
    assert_eq!(advice(&problem).remedies, ["raise limit cpu of NodePool default to 4 or more"]);
    let solution = solve_checked(&problem);
    let none = Options { max_work: Some(0), ..Options::default() };
    let not_tried = "no change was tried, because that takes too much work".to_owned();
    let expected = Advice { remedies: Vec::new(), obstacle: Some(not_tried) };
    assert_eq!(advise(&problem, &solution, &solution.unschedulable, &none).advice, [expected]);
}

/// Fifty pods with many constraints each, of which none can be scheduled.
#[test]
fn the_work_of_trials_is_bounded_and_what_is_not_tried_is_stated() {
    let pools: Vec<NodePool> = (0..20)
        .map(|index| {
            let mut pool = node_pool(&format!("pool-{index}"));
            pool.template.taints = ["a", "b", "c"].map(|key| Taint::new(key, TaintEffect::NoSchedule)).to_vec();
            pool
        })
        .collect();
    let pods: Vec<Pod> = (0..50)
        .map(|index| {
            pod(format!("pod-{index:02}"), 1000 + index, 1024).with_template(|it| {
                for key in 0..10 {
                    it.node_selector.insert(format!("label-{key}"), "x".into());
                }
            })
        })
        .collect();
    let problem = problem(&pods, &pools);
    let solution = solve_checked(&problem);
    assert_eq!(solution.unschedulable.len(), 50);
    let advised = |max_work| {
        let options = Options { max_work, ..Options::default() };
        let Advised { advice, work } = advise(&problem, &solution, &solution.unschedulable, &options);
        assert!(advice.iter().all(|advice| advice.remedies.is_empty() && advice.obstacle.is_some()), "{advice:#?}");
        let with = |text: &str| advice.iter().filter(|advice| advice.obstacle.as_deref() == Some(text)).count();
        let not_all = with("not all changes were tried, because that takes too much work");
        (not_all + with("no change was tried, because that takes too much work"), work)
    };
    let (not_tried, work) = advised(None);
    assert!(work < 10_500_000, "{work}");
    let (more, less_work) = advised(Some(work / 4));
    // A trial is not interrupted while it prepares NodePools.
    assert!(less_work < work / 4 + 500_000, "{less_work} of {work}");
    assert!(more > not_tried, "{more} and {not_tried}");
}

#[test]
fn spreads_and_anti_affinity_are_changed_only_if_that_helps() {
    let mut pods = pods(4, 1000, 1024);
    for pod in &mut pods {
        pod.template_mut().labels.insert("app".into(), "web".into());
        pod.template_mut().required_pod_anti_affinity = vec![pod::PodAffinityTerm {
            selector: Some(selector("app", "web")),
            topology_key: labels::ZONE.into(),
            ..pod::PodAffinityTerm::default()
        }];
    }
    let pools = [node_pool("default")];
    let expected = "make the anti-affinity over topology.kubernetes.io/zone preferred, add a domain of \
                    topology.kubernetes.io/zone, or run fewer of these pods";
    assert_eq!(advice(&problem(&pods, &pools)).remedies[0], expected);
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
