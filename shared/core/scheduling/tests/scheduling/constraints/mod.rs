//! Constraints one by one: the chosen nodes, and the messages for unschedulable pods.

mod daemon_sets;
mod volumes;

use crate::support::*;
use nodeless_model::pod::{HostPort, Weighted};
use nodeless_model::*;
use nodeless_scheduling::{ClusterFacts, MinValuesPolicy, Options, PreferencePolicy, Problem};
use std::sync::Arc;

/// A pod of one cpu with something changed.
fn with(change: impl FnOnce(&mut Pod)) -> Vec<Pod> {
    let mut one = pod("web", 1000, 1024);
    change(&mut one);
    vec![one]
}

fn selector(key: &str, value: &str) -> Vec<Pod> {
    with(|pod| {
        pod.template_mut().node_selector.insert(key.into(), value.into());
    })
}

fn affinity(terms: Vec<Vec<nodeless_model::requirement::RequirementTerm>>) -> Vec<Pod> {
    with(|pod| pod.template_mut().required_node_affinity = terms)
}

#[test]
fn labels_decide_what_is_launched() {
    use Operator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
    for (what, pods, expected) in [
        ("nothing", with(|_| ()), "c9.large"),
        ("architecture", selector(labels::ARCH, "arm64"), "m9g.large"),
        ("old spelling", selector("beta.kubernetes.io/arch", "arm64"), "m9g.large"),
        ("instance type", selector(labels::INSTANCE_TYPE, "r9.xlarge"), "r9.xlarge"),
        ("In", affinity(vec![vec![term(labels::INSTANCE_FAMILY, In, &["m9", "r9"])]]), "m9.large"),
        ("NotIn", affinity(vec![vec![term(labels::INSTANCE_FAMILY, NotIn, &["c9", "m9g"])]]), "m9.large"),
        ("Gt", affinity(vec![vec![term(labels::INSTANCE_CPU, Gt, &["4"])]]), "c9.2xlarge"),
        (
            "Gt and Lt",
            affinity(vec![vec![
                term(labels::INSTANCE_CPU, Gt, &["4"]),
                term(labels::INSTANCE_CPU, Lt, &["32"]),
                term(labels::INSTANCE_FAMILY, In, &["r9"]),
            ]]),
            "r9.2xlarge",
        ),
        ("Exists", affinity(vec![vec![term(labels::INSTANCE_GPU_NAME, Exists, &[])]]), "g9.xlarge"),
        (
            "DoesNotExist",
            affinity(vec![vec![
                term(labels::INSTANCE_GPU_NAME, DoesNotExist, &[]),
                term(labels::INSTANCE_FAMILY, NotIn, &["c9"]),
            ]]),
            "m9g.large",
        ),
        (
            "second term",
            affinity(vec![
                vec![term(labels::INSTANCE_FAMILY, In, &["none"])],
                vec![term(labels::INSTANCE_FAMILY, In, &["r9"])],
            ]),
            "r9.large",
        ),
        (
            "cheapest term",
            affinity(vec![
                vec![term(labels::INSTANCE_FAMILY, In, &["r9"])],
                vec![term(labels::INSTANCE_FAMILY, In, &["m9"])],
            ]),
            "m9.large",
        ),
    ] {
        let pools = [node_pool("default")];
        assert_eq!(chosen(&solve_checked(&problem(&pods, &pools))), [expected], "{what}");
    }
}

#[test]
fn reports_which_label_does_not_match() {
    use Operator::{DoesNotExist, In};
    for (pods, expected) in [
        (
            selector("team", "a"),
            "NodePool default: pod requires team In [a], but the NodePool does not define label team",
        ),
        (
            selector(labels::CAPACITY_TYPE, "spot"),
            "NodePool default: pod requires karpenter.sh/capacity-type In [spot], NodePool allows In [on-demand]",
        ),
        (
            selector(labels::NODE_POOL, "other"),
            "NodePool default: pod requires karpenter.sh/nodepool In [other], NodePool allows In [default]",
        ),
        (
            affinity(vec![vec![term(labels::NODE_POOL, DoesNotExist, &[])]]),
            "NodePool default: pod requires karpenter.sh/nodepool DoesNotExist, NodePool allows In [default]",
        ),
        (
            selector(labels::HOSTNAME, "node-1"),
            "NodePool default: pod requires kubernetes.io/hostname In [node-1], but the NodePool does not define label kubernetes.io/hostname",
        ),
        (
            selector(labels::ZONE, "eu-west-1a"),
            "NodePool default: no instance type matches topology.kubernetes.io/zone In [eu-west-1a]",
        ),
        (
            affinity(vec![vec![term(labels::INSTANCE_FAMILY, In, &["x9"])]]),
            "NodePool default: no instance type matches karpenter.k8s.aws/instance-family In [x9]",
        ),
        (affinity(vec![vec![]]), "its required node affinity has no conditions, so it matches no node"),
        (
            affinity(vec![vec![term(labels::INSTANCE_CPU, Operator::Gt, &["many"])]]),
            "karpenter.k8s.aws/instance-cpu Gt needs exactly one whole number that is not negative, not [\"many\"]",
        ),
        (
            with(|pod| pod.template_mut().has_match_fields = true),
            "node affinity with matchFields is not supported; use matchExpressions",
        ),
    ] {
        let pools = [node_pool("default")];
        assert_eq!(reasons(&solve_checked(&problem(&pods, &pools))), [expected]);
    }
}

#[test]
fn the_pool_fixes_the_value_of_its_own_labels() {
    let mut pool = node_pool("default");
    pool.template.requirements.add("team", Requirement::exists());
    pool.template.labels.insert("tier".into(), "gold".into());
    let pools = [pool];
    let mut pods = vec![pod("any", 1000, 512), pod("a", 1000, 512), pod("b", 1000, 512), pod("gold", 1000, 512)];
    pods[1].template_mut().node_selector.insert("team".into(), "a".into());
    pods[2].template_mut().node_selector.insert("team".into(), "b".into());
    pods[3].template_mut().node_selector.insert("tier".into(), "gold".into());
    let solution = solve_checked(&problem(&pods, &pools));
    assert!(solution.unschedulable.is_empty(), "{solution:#?}");
    let team = |index: usize| {
        let launch = solution.launches.iter().find(|launch| launch.pods.contains(&index)).unwrap();
        launch.requirements.get("team").unwrap().single().unwrap().to_owned()
    };
    assert_eq!((team(1), team(2)), ("a".to_owned(), "b".to_owned()));
}

#[test]
fn resources_decide_what_is_launched() {
    let gpu = |count| with(|pod| pod.template_mut().requests.set("nvidia.com/gpu", Quantity::from_units(count)));
    for (pods, expected) in [
        (vec![pod("cpu", 3000, 512)], "c9.xlarge"),
        (vec![pod("memory", 1000, 10 * 1024)], "r9.large"),
        (gpu(1), "g9.xlarge"),
        (gpu(2), "g9.12xlarge"),
    ] {
        let pools = [node_pool("default")];
        assert_eq!(chosen(&solve_checked(&problem(&pods, &pools))), [expected]);
    }
}

#[test]
fn reports_which_resource_is_missing() {
    for (pods, expected) in [
        (
            with(|pod| pod.template_mut().requests.set("example.com/fpga", Quantity::from_units(1))),
            "NodePool default: no instance type offers example.com/fpga",
        ),
        (
            with(|pod| pod.template_mut().requests.set("nvidia.com/gpu", Quantity::from_units(8))),
            "NodePool default: no instance type has enough nvidia.com/gpu: pod needs 8, the largest leaves 4",
        ),
        (
            vec![pod("huge", 100_000, 1024)],
            "NodePool default: no instance type has enough cpu: pod needs 100, the largest leaves 63.92",
        ),
        (
            vec![pod("odd", 60_000, 1024)]
                .into_iter()
                .map(|mut pod| {
                    pod.template_mut().requests.set("nvidia.com/gpu", Quantity::from_units(1));
                    pod
                })
                .collect(),
            "NodePool default: no instance type has enough of all requested resources at once",
        ),
        (
            with(|pod| pod.template_mut().requests.set("cpu", Quantity::from_milli(-1))),
            "it requests a negative amount of cpu",
        ),
    ] {
        let pools = [node_pool("default")];
        assert_eq!(reasons(&solve_checked(&problem(&pods, &pools))), [expected]);
    }
}

#[test]
fn taints_have_to_be_tolerated_but_startup_taints_do_not() {
    let taint = Taint { key: "team".into(), value: "a".into(), effect: TaintEffect::NoSchedule };
    let mut pool = node_pool("gpu");
    pool.template.taints = vec![taint];
    pool.template.startup_taints = vec![Taint::new("cilium.io/agent-not-ready", TaintEffect::NoExecute)];
    let pools = [pool];
    let stranger = with(|_| ());
    assert_eq!(
        reasons(&solve_checked(&problem(&stranger, &pools))),
        ["NodePool gpu: does not tolerate taint team=a:NoSchedule"]
    );
    let friend = with(|pod| {
        pod.template_mut().tolerations =
            vec![Toleration { key: "team".into(), value: "a".into(), ..Toleration::default() }];
    });
    assert_eq!(solve_checked(&problem(&friend, &pools)).launches.len(), 1);
}

#[test]
fn taints_that_only_prefer_are_avoided_while_possible() {
    let mut discouraged = node_pool("discouraged");
    discouraged.weight = 10;
    discouraged.template.taints = vec![Taint::new("slow", TaintEffect::PreferNoSchedule)];
    let pools = [discouraged, node_pool("plain")];
    let pods = with(|_| ());
    assert_eq!(solve_checked(&problem(&pods, &pools)).launches[0].node_pool, "plain");
    assert_eq!(solve_checked(&problem(&pods, &pools[..1])).launches[0].node_pool, "discouraged");
}

#[test]
fn the_heaviest_preference_that_works_is_kept() {
    let prefer = |weight, family: &str| Weighted {
        weight,
        preference: vec![term(labels::INSTANCE_FAMILY, Operator::In, &[family])],
    };
    let pods = with(|pod| {
        pod.template_mut().preferred_node_affinity = vec![prefer(1, "m9"), prefer(90, "x9"), prefer(50, "r9")];
    });
    let pools = [node_pool("default")];
    assert_eq!(chosen(&solve_checked(&problem(&pods, &pools))), ["r9.large"]);
    let ignoring = Options { preferences: PreferencePolicy::Ignore, ..Options::default() };
    assert_eq!(chosen(&solve_with(&problem(&pods, &pools), &ignoring)), ["c9.large"]);
}

#[test]
fn host_ports_are_taken_once_a_node() {
    let web = |name: &str, port| {
        let mut pod = pod(name, 100, 128);
        pod.template_mut().host_ports = vec![HostPort { ip: String::new(), port, protocol: "TCP".into() }];
        pod
    };
    let pods = [web("a", 80), web("b", 80), web("c", 81)];
    let pools = [node_pool("default")];
    assert_eq!(solve_checked(&problem(&pods, &pools)).launches.len(), 2);

    let mut template = web("agent", 80);
    template.owner_kind = Some("DaemonSet".into());
    let daemons = [DaemonSet { namespace: "default".into(), name: "agent".into(), template, ..DaemonSet::default() }];
    let only = [web("a", 80)];
    let with_daemon = Problem { daemon_sets: &daemons, ..problem(&only, &pools) };
    assert_eq!(
        reasons(&solve_checked(&with_daemon)),
        ["NodePool default: DaemonSet default/agent takes host port 80 on every node that would fit"]
    );
}

#[test]
fn pools_that_cannot_launch_report_why() {
    let pods = with(|_| ());
    let change = |change: fn(&mut NodePool)| {
        let mut pool = node_pool("default");
        change(&mut pool);
        pool
    };
    for (pool, expected) in [
        (
            change(|pool| pool.ready = Err("EC2NodeClass default is missing".into())),
            "NodePool default: not ready: EC2NodeClass default is missing",
        ),
        (change(|pool| pool.deleting = true), "NodePool default: it is being deleted"),
        (change(|pool| pool.replicas = Some(3)), "NodePool default: it has a fixed number of replicas"),
        (
            change(|pool| pool.template.requirements.add(labels::ARCH, Requirement::one_of(["riscv"]))),
            "NodePool default: no instance type meets its requirements",
        ),
    ] {
        assert_eq!(reasons(&solve_checked(&problem(&pods, std::slice::from_ref(&pool)))), [expected]);
    }
    for (any_invalid_node_pool, expected) in [
        (false, "there is no NodePool that can be used; create one"),
        (true, "there is no NodePool that can be used; create one, or correct one with an error"),
    ] {
        let facts = ClusterFacts { any_invalid_node_pool, ..ClusterFacts::default() };
        assert_eq!(reasons(&solve_checked(&Problem { facts, ..problem(&pods, &[]) })), [expected]);
    }
}

#[test]
fn what_cannot_be_had_now_is_not_launched() {
    let pods = selector(labels::INSTANCE_FAMILY, "c9");
    let pools = [node_pool("default")];
    let mut types = catalog().to_vec();
    for kind in types.iter_mut().filter(|kind| kind.name == "c9.large") {
        kind.offerings.iter_mut().for_each(|offering| offering.available = false);
    }
    let mut problem = problem(&pods, &pools);
    problem.node_pools[0].instance_types = types.clone().into();
    assert_eq!(chosen(&solve_checked(&problem)), ["c9.xlarge"]);
    types.iter_mut().flat_map(|kind| &mut kind.offerings).for_each(|offering| offering.available = false);
    problem.node_pools[0].instance_types = Arc::from(types);
    assert_eq!(
        reasons(&solve_checked(&problem)),
        [
            "NodePool default: no offering is available now of the instance types that would fit (c9.16xlarge, c9.2xlarge, c9.4xlarge and 3 more)"
        ]
    );
}

/// The API server refuses a NodeClaim whose requirement has fewer values than its `minValues`.
#[test]
fn min_values_count_the_values_that_the_pod_allows() {
    let mut pool = node_pool("default");
    pool.template.requirements.add(labels::ZONE, Requirement::one_of(ZONES).with_min_values(Some(2)));
    let pools = [pool];
    let mut pods = with(|pod| drop(pod.template_mut().node_selector.insert(labels::ZONE.into(), ZONES[0].into())));
    pods.push(pod("anywhere", 1000, 1024));
    let problem = problem(&pods, &pools);
    let solution = solve_checked(&problem);
    assert_eq!(solution.unschedulable.iter().map(|one| one.pod).collect::<Vec<_>>(), [0]);
    assert_eq!(
        reasons(&solution),
        [
            "NodePool default: minValues 2 for topology.kubernetes.io/zone cannot be reached: the instance types that fit offer 1"
        ]
    );
    let zones = solution.launches[0].requirements.get(labels::ZONE).unwrap();
    assert_eq!((solution.launches.len(), zones.values().unwrap().len(), zones.min_values()), (1, 3, Some(2)));

    let relaxed = Options { min_values: MinValuesPolicy::BestEffort, ..Options::default() };
    let solution = solve_with(&problem, &relaxed);
    let of_first = solution.launches.iter().find(|launch| launch.pods.contains(&0)).unwrap();
    assert!(of_first.min_values_relaxed);
    let zones = of_first.requirements.get(labels::ZONE).unwrap();
    assert_eq!((zones.single(), zones.min_values()), (Some(ZONES[0]), Some(1)));
}

#[test]
fn min_values_keep_enough_choice() {
    let mut pool = node_pool("default");
    pool.template.requirements.add(labels::INSTANCE_FAMILY, Requirement::exists().with_min_values(Some(3)));
    let pools = [pool];
    let pods = with(|_| ());
    let solution = solve_checked(&problem(&pods, &pools));
    assert!(solution.launches[0].instance_types.len() >= 3);
    // Only two families are left.
    let narrow = affinity(vec![vec![term(labels::INSTANCE_FAMILY, Operator::In, &["c9", "m9"])]]);
    assert_eq!(
        reasons(&solve_checked(&problem(&narrow, &pools))),
        [
            "NodePool default: minValues 3 for karpenter.k8s.aws/instance-family cannot be reached: the instance types that fit offer 2"
        ]
    );
    let relaxed = Options { min_values: MinValuesPolicy::BestEffort, ..Options::default() };
    assert!(solve_with(&problem(&narrow, &pools), &relaxed).launches[0].min_values_relaxed);
}

#[test]
fn host_ports_clash_by_address_and_protocol() {
    let taking = |name: &str, ip: &str, port, protocol: &str| {
        let mut pod = pod(name, 100, 128);
        pod.template_mut().host_ports = vec![HostPort { ip: ip.into(), port, protocol: protocol.into() }];
        pod
    };
    for (what, other, nodes) in [
        ("the same", taking("b", "10.0.0.1", 80, "TCP"), 2),
        ("another address", taking("b", "10.0.0.2", 80, "TCP"), 1),
        ("all addresses", taking("b", "", 80, "TCP"), 2),
        ("all addresses, written out", taking("b", "0.0.0.0", 80, "TCP"), 2),
        ("all addresses of IPv6", taking("b", "::", 80, "TCP"), 2),
        ("another protocol", taking("b", "", 80, "UDP"), 1),
        ("another port", taking("b", "", 81, "TCP"), 1),
    ] {
        let pods = [taking("a", "10.0.0.1", 80, "TCP"), other];
        let pools = [node_pool("default")];
        assert_eq!(solve_checked(&problem(&pods, &pools)).launches.len(), nodes, "{what}");
    }
}

#[test]
fn node_pools_bound_numbers_from_both_sides() {
    use Operator::{Gt, Gte, Lt, Lte};
    for (terms, expected) in [
        (vec![term(labels::INSTANCE_CPU, Gte, &["4"])], "c9.xlarge"),
        (vec![term(labels::INSTANCE_CPU, Gt, &["4"])], "c9.2xlarge"),
        (vec![term(labels::INSTANCE_CPU, Gte, &["8"]), term(labels::INSTANCE_CPU, Lte, &["8"])], "c9.2xlarge"),
        (vec![term(labels::INSTANCE_CPU, Gt, &["4"]), term(labels::INSTANCE_CPU, Lt, &["16"])], "c9.2xlarge"),
    ] {
        let mut pool = node_pool("default");
        pool.template.requirements.add_all(&Requirements::from_terms(&terms).unwrap());
        let pods = with(|_| ());
        let solution = solve_checked(&problem(&pods, &[pool]));
        assert_eq!(chosen(&solution), [expected], "{terms:?}");
    }
    let mut pool = node_pool("default");
    let terms = [term(labels::INSTANCE_CPU, Gt, &["8"]), term(labels::INSTANCE_CPU, Lt, &["9"])];
    pool.template.requirements.add_all(&Requirements::from_terms(&terms).unwrap());
    let pods = with(|_| ());
    assert_eq!(
        reasons(&solve_checked(&problem(&pods, &[pool]))),
        ["NodePool default: no instance type meets its requirements"]
    );
}

#[test]
fn pods_that_rule_out_every_node_pool_are_reported() {
    let pods = affinity(vec![vec![term(labels::NODE_POOL, Operator::DoesNotExist, &[])]]);
    let pools = [node_pool("a"), node_pool("b")];
    assert_eq!(reasons(&solve_checked(&problem(&pods, &pools))).len(), 2);
}

#[test]
fn each_node_pool_reports_its_failures() {
    let mut tainted = node_pool("tainted");
    tainted.template.taints = vec![Taint::new("team", TaintEffect::NoSchedule)];
    let mut small = node_pool("small");
    small.template.requirements.add(labels::INSTANCE_CPU, Requirement::one_of(["2"]));
    let mut broken = node_pool("broken");
    broken.ready = Err("EC2NodeClass default is missing".into());
    let pools = [tainted, small, broken];
    let pods = [pod("web", 3000, 1024)];
    assert_eq!(
        reasons(&solve_checked(&problem(&pods, &pools))),
        [
            "NodePool tainted: does not tolerate taint team:NoSchedule",
            "NodePool small: no instance type has enough cpu: pod needs 3, the largest leaves 1.92",
            "NodePool broken: not ready: EC2NodeClass default is missing",
        ]
    );
}
