//! Nodes that exist or are on their way.

use crate::support::*;
use nodeless_model::claim::{LaunchedInstance, NodeClaimSpec, NodeClaimStatus};
use nodeless_model::*;
use nodeless_scheduling::{ClusterFacts, Excluded, ExistingNode, Problem, existing_node, failed_to_initialize};
use std::collections::BTreeMap;

fn node(name: &str, cpu: i64) -> Node {
    let mut node = test_support::node(name, cpu * 1000, cpu * 4 * 1024);
    node.labels.insert(labels::ZONE.into(), "us-east-1a".into());
    node
}

fn ours(name: &str, cpu: i64) -> Node {
    let mut node = node(name, cpu);
    node.labels.insert(labels::NODE_POOL.into(), "default".into());
    node.labels.insert(labels::EC2_NODE_CLASS.into(), "default".into());
    node.labels.insert(labels::REGISTERED.into(), "true".into());
    node
}

fn claim(name: &str, phase: Phase) -> NodeClaim {
    NodeClaim {
        name: name.into(),
        uid: format!("uid-{name}"),
        node_pool: Some("default".into()),
        node_class: "default".into(),
        created: jiff::Timestamp::UNIX_EPOCH,
        version: 1,
        spec: NodeClaimSpec::default(),
        phase,
        status: NodeClaimStatus::default(),
    }
}

fn launched() -> LaunchedInstance {
    LaunchedInstance {
        id: "i-1".into(),
        instance_type: "m9.large".into(),
        zone: "us-east-1a".into(),
        capacity_type: CapacityType::OnDemand,
        price: 0.1,
        image_id: "ami-1".into(),
        private_dns_name: None,
        reservation_id: None,
        subnet_id: None,
        security_group_ids: Vec::new(),
        launched: jiff::Timestamp::UNIX_EPOCH,
        certificate_authority: None,
    }
}

fn bare(node: &Node) -> ExistingNode {
    existing_node(Some(node), None, &[], &[]).unwrap()
}

#[test]
fn a_node_that_was_never_ready_fails_after_the_registration_timeout() {
    let at = |seconds| jiff::Timestamp::from_second(seconds).unwrap();
    let ready = |status, since| node::NodeCondition { kind: "Ready".into(), status, since, reason: String::new() };
    let joined = Node { created: Some(at(100)), ..ours("a", 4) };
    let registered = claim("a", Phase::Registered);
    let fails = |conditions: Vec<node::NodeCondition>, claim: Option<&NodeClaim>, now: i64| {
        failed_to_initialize(&Node { conditions, ..joined.clone() }, claim, at(now))
    };
    for status in [Some(false), None] {
        assert!(!fails(vec![ready(status, Some(at(200)))], Some(&registered), 200 + 899));
        assert!(fails(vec![ready(status, Some(at(200)))], Some(&registered), 200 + 900));
        assert!(fails(vec![ready(status, None)], Some(&registered), 1000), "since it was created");
    }
    assert!(!fails(Vec::new(), Some(&registered), 999) && fails(Vec::new(), Some(&registered), 1000));
    assert!(!fails(vec![ready(Some(true), Some(at(200)))], Some(&registered), 9000), "it waits for a startup taint");
    assert!(!fails(Vec::new(), Some(&claim("a", Phase::Initialized)), 9000), "it was ready");
    assert!(!fails(Vec::new(), None, 9000), "nodeless does not manage it");
}

#[test]
fn nodes_that_go_away_take_no_pods() {
    let mut deleting = node("a", 4);
    deleting.deletion_timestamp = Some(jiff::Timestamp::UNIX_EPOCH);
    let mut cordoned = node("a", 4);
    cordoned.unschedulable = true;
    let mut disrupted = node("a", 4);
    disrupted.taints = vec![Taint::disrupted()];
    for (node, expected) in
        [(deleting, Excluded::Deleting), (cordoned, Excluded::Cordoned), (disrupted, Excluded::Disrupted)]
    {
        assert_eq!(existing_node(Some(&node), None, &[], &[]), Err(expected));
    }
    assert_eq!(existing_node(None, Some(&claim("c", Phase::Draining)), &[], &[]), Err(Excluded::Leaving));
    assert_eq!(existing_node(None, None, &[], &[]), Err(Excluded::Nothing));
    let warm = |phase| existing_node(None, Some(&claim("c", phase)), &[], &[]).err();
    let kept = [Phase::WarmReserved, Phase::WarmLaunched, Phase::Preparing, Phase::Stopping, Phase::Stopped].map(warm);
    assert_eq!(kept, [Some(Excluded::Warm); 5], "no pod is planned for it");
    assert_eq!([Phase::Starting, Phase::Launched].map(warm), [None, None]);
}

#[test]
fn what_pods_and_missing_daemons_take_is_not_available() {
    let node = node("a", 4);
    let mut daemon_pod = pod("agent-1", 300, 64);
    daemon_pod.owner_kind = Some("DaemonSet".into());
    let mut done = pod("job", 1000, 64);
    done.phase = pod::PodPhase::Succeeded;
    let web = pod("web", 1000, 64);
    let daemons = [
        DaemonSet {
            namespace: "s".into(),
            name: "agent".into(),
            template: pod("agent", 300, 64),
            ..DaemonSet::default()
        },
        DaemonSet {
            namespace: "s".into(),
            name: "proxy".into(),
            template: pod("proxy", 200, 64),
            ..DaemonSet::default()
        },
    ];
    let existing = existing_node(Some(&node), None, &[&daemon_pod, &done, &web], &daemons).unwrap();
    // 4000 - 300 for the daemon that is there - 1000 for the pod - 200 for the daemon that is to come.
    assert_eq!(existing.available.get("cpu"), Quantity::from_milli(2500));
    assert_eq!(existing.available.get("pods"), Quantity::from_units(107));
}

#[test]
fn until_a_node_of_ours_is_initialised_passing_taints_do_not_count() {
    let startup = Taint::new("cilium.io/agent-not-ready", TaintEffect::NoExecute);
    let lasting = Taint::new("team", TaintEffect::NoSchedule);
    let mut node = ours("a", 4);
    node.taints = vec![Taint::new(labels::NOT_READY_TAINT, TaintEffect::NoSchedule), startup.clone(), lasting.clone()];
    let mut claim = claim("c", Phase::Registered);
    claim.spec.startup_taints = vec![startup];
    let existing = existing_node(Some(&node), Some(&claim), &[], &[]).unwrap();
    assert_eq!((existing.taints, existing.initialized), (vec![lasting], false));
    claim.phase = Phase::Initialized;
    let existing = existing_node(Some(&node), Some(&claim), &[], &[]).unwrap();
    assert_eq!((existing.taints.len(), existing.initialized), (3, true));
    // A node that is not ours and not ready takes nothing.
    let mut foreign = node;
    foreign.labels.remove(labels::NODE_POOL);
    assert_eq!(bare(&foreign).taints.len(), 3);
}

#[test]
fn a_claim_stands_in_until_its_node_has_reported() {
    let mut claim = claim("c", Phase::Launched);
    claim.status.instance = Some(launched());
    claim.status.labels.insert(labels::ZONE.into(), "us-east-1a".into());
    claim.status.allocatable =
        ResourceList::new().with("cpu", Quantity::from_units(2)).with("nvidia.com/gpu", Quantity::from_units(1));
    let existing = existing_node(None, Some(&claim), &[], &[]).unwrap();
    assert_eq!(existing.available.get("nvidia.com/gpu"), Quantity::from_units(1));
    assert_eq!(existing.requirements.get(labels::ZONE).unwrap().single(), Some("us-east-1a"));
    // The device plugin has not reported yet, and the kubelet has.
    let node = ours("a", 4);
    let existing = existing_node(Some(&node), Some(&claim), &[], &[]).unwrap();
    assert_eq!(existing.available.get("nvidia.com/gpu"), Quantity::from_units(1));
    assert_eq!(existing.available.get("cpu"), Quantity::from_units(4));
}

#[test]
fn existing_nodes_come_first_and_ready_ones_before_others() {
    let (late, early) = (ours("a-late", 4), node("b-early", 4));
    let pods = pods(5, 1000, 512);
    let pools = [node_pool("default")];
    let problem = Problem { nodes: vec![bare(&late), bare(&early)], ..problem(&pods, &pools) };
    let solution = solve_checked(&problem);
    assert!(solution.launches.is_empty());
    let on = |node| solution.placements.iter().filter(|placement| placement.node == node).count();
    assert_eq!((on(0), on(1)), (1, 4));
}

#[test]
fn labels_of_existing_nodes_have_to_be_there() {
    let existing = [bare(&node("a", 4))];
    for (key, value, fits) in [
        (labels::ZONE, "us-east-1a", true),
        (labels::ZONE, "us-east-1b", false),
        (labels::ARCH, "amd64", false),
        (labels::HOSTNAME, "a", true),
    ] {
        let mut web = pod("web", 100, 128);
        web.template_mut().node_selector.insert(key.into(), value.into());
        let pods = [web];
        let solution = solve_checked(&Problem { nodes: existing.to_vec(), ..problem(&pods, &[]) });
        assert_eq!(solution.placements.len() == 1, fits, "{key} {value}");
    }
}

/// The claim that operations writes for a launch, as far as scheduling uses it.
fn reserve(launch: &nodeless_scheduling::Launch, pods: &[Pod], index: usize) -> NodeClaim {
    let mut claim = claim(&format!("default-{index:04}"), Phase::Reserved);
    claim.node_pool = Some(launch.node_pool.clone());
    claim.spec.requirements = launch.requirements.clone();
    claim.spec.requests = launch.requests.clone();
    claim.spec.nominated_pods = launch.pods.iter().map(|pod| pods[*pod].key()).collect();
    claim
}

#[test]
fn a_second_look_launches_nothing_more() {
    let daemons = [DaemonSet {
        namespace: "s".into(),
        name: "agent".into(),
        template: pod("agent", 100, 128),
        ..DaemonSet::default()
    }];
    let mut all = pods(23, 1000, 2048);
    all.extend(pods(31, 250, 512));
    for (index, pod) in all.iter_mut().enumerate() {
        if index % 5 == 0 {
            pod.template_mut().node_selector.insert(labels::ZONE.into(), ZONES[index % 3].into());
        }
        if index % 7 == 0 {
            pod.template_mut().required_node_affinity = vec![vec![term(labels::INSTANCE_CPU, Operator::Gt, &["3"])]];
        }
    }
    let pools = [node_pool("default")];
    let first = Problem { daemon_sets: &daemons, ..problem(&all, &pools) };
    let solution = solve_checked(&first);
    assert!(solution.unschedulable.is_empty() && !solution.launches.is_empty());
    let claims: Vec<NodeClaim> =
        solution.launches.iter().enumerate().map(|(index, launch)| reserve(launch, &all, index)).collect();
    let nodes = claims.iter().map(|claim| existing_node(None, Some(claim), &[], &daemons).unwrap()).collect();
    let again = solve_checked(&Problem { nodes, ..first });
    assert!(again.launches.is_empty(), "{again:#?}");
    assert!(again.unschedulable.is_empty());
}

#[test]
fn a_claim_that_may_still_become_several_things_suits_only_pods_that_any_would_do_for() {
    let mut claim = claim("c", Phase::Reserved);
    claim.spec.requirements = Requirements::from([(labels::ZONE, Requirement::one_of(["us-east-1a", "us-east-1b"]))]);
    claim.spec.requests = pod("x", 2000, 2048).template.requests.clone();
    let node = existing_node(None, Some(&claim), &[], &[]).unwrap();
    let mut fixed = pod("fixed", 100, 128);
    fixed.template_mut().node_selector.insert(labels::ZONE.into(), "us-east-1a".into());
    for (pod, fits) in [(pod("any", 100, 128), true), (fixed, false)] {
        let pods = [pod];
        let solution = solve_checked(&Problem { nodes: vec![node.clone()], ..problem(&pods, &[]) });
        assert_eq!(solution.placements.len() == 1, fits);
    }
}

#[test]
fn a_node_attaches_no_more_volumes_than_its_drivers_allow() {
    let mounting = |name: &str, claims: &[&str]| {
        let mut pod = pod(name, 100, 128);
        pod.template_mut().volume_claims =
            claims.iter().map(|claim| pod::VolumeClaim { claim_name: (*claim).to_owned(), ephemeral: false }).collect();
        pod
    };
    let here = node("a", 16);
    let running = mounting("running", &["shared", "own"]);
    let pools = [node_pool("default")];
    for (what, pods, limit, placed) in [
        ("an attachment left for one", vec![mounting("one", &["c-1"]), mounting("two", &["c-2"])], 3, 1),
        ("a shared claim is attached already", vec![mounting("one", &["shared"]), mounting("two", &["shared"])], 2, 2),
        ("two at once do not fit", vec![mounting("one", &["c-1", "c-2"])], 3, 0),
        (
            "other drivers have limits of their own",
            vec![mounting("one", &["files"]), mounting("two", &["files"])],
            2,
            2,
        ),
        ("no volume", vec![pod("plain", 100, 128)], 0, 1),
    ] {
        let bound = [&running];
        let claims = || ["shared", "own", "c-1", "c-2", "files"].into_iter();
        let driver = |claim| if claim == "files" { "efs.csi.aws.com" } else { "ebs.csi.aws.com" };
        let facts = ClusterFacts {
            volumes: &claims().map(|claim| (format!("default/{claim}"), Vec::new())).collect(),
            volume_drivers: &claims().map(|claim| (format!("default/{claim}"), driver(claim).to_owned())).collect(),
            volume_limits: &BTreeMap::from([("a".to_owned(), [("ebs.csi.aws.com".to_owned(), limit)].into())]),
            ..ClusterFacts::default()
        };
        let problem = Problem {
            nodes: vec![existing_node(Some(&here), None, &bound, &[]).unwrap()],
            bound_pods: vec![nodeless_scheduling::BoundPods::on(&here, bound.to_vec())],
            facts,
            ..problem(&pods, &pools)
        };
        let solution = solve_checked(&problem);
        assert_eq!((solution.placements.len(), solution.unschedulable.len()), (placed, 0), "{what}");
    }
}
