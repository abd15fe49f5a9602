use crate::daemon_sets::{awaited_by, not_ready};
use crate::opening::{Member, open};
use crate::tests::*;
use crate::{Awaited, Effect, Needs, step};
use nodeless_model::object::NodePatch;
use nodeless_model::requirement::{Operator, RequirementTerm};
use nodeless_model::taint::TolerationOperator;
use nodeless_model::test_support::node_pool;
use nodeless_model::{DaemonSet, TaintEffect, Toleration};

const KEY: &str = labels::WAIT_FOR_DAEMON_SETS;

fn tolerating(key: &str) -> Vec<Toleration> {
    vec![Toleration { key: key.into(), operator: TolerationOperator::Exists, ..Toleration::default() }]
}

/// A DaemonSet that tolerates every taint.
fn set(name: &str) -> DaemonSet {
    let template = pod(name).with_template(|it| it.tolerations = tolerating(""));
    DaemonSet { namespace: "kube-system".into(), name: name.into(), template, ..DaemonSet::default() }
}

fn pod_of(name: &str, ready: bool) -> Pod {
    Pod {
        namespace: "kube-system".into(),
        owner_kind: Some("DaemonSet".into()),
        owner_name: Some(name.into()),
        ready: Some(ready),
        ..pod(&format!("{name}-x"))
    }
}

fn awaited(value: &str, sets: &[DaemonSet]) -> (Vec<String>, Vec<String>) {
    let mut pool = node_pool("default");
    pool.options.set(KEY, Some(value));
    pool.template.taints.push(Taint::new("team", TaintEffect::NoSchedule));
    let Awaited { sets, ignored } = Awaited::new(&pool, sets);
    (sets.iter().map(ToString::to_string).collect(), ignored)
}

/// A claim whose node waits for these DaemonSets.
fn waiting(phase: Phase, names: &[&str]) -> NodeClaim {
    let mut claim = claim(phase);
    let sets = names.iter().map(|name| daemon_set_name(name)).collect();
    Awaited { sets, ignored: Vec::new() }.close(&mut claim);
    claim
}

/// The ready node that waits.
fn closed_node() -> Node {
    let mut node = ready_node();
    node.labels.remove(labels::INITIALIZED);
    node.taints.push(Taint::daemon_sets_not_ready());
    node
}

fn seen(node: Node, not_ready: &[&str], nominations: Nominations) -> Observation {
    let not_ready = not_ready.iter().map(|name| daemon_set_name(name)).collect();
    Observation {
        nodes: Seen::Known(vec![node]),
        daemon_sets_not_ready: Seen::Known(not_ready),
        nominations,
        ..all_is_well()
    }
}

fn patch(effects: &[Effect]) -> Option<&NodePatch> {
    effects.iter().find_map(|effect| match effect {
        Effect::PatchNode { patch, .. } => Some(patch.as_ref()),
        _ => None,
    })
}

#[test]
fn new_nodes_wait_for_the_named_daemon_sets_that_can_run_on_them() {
    let mut strict = set("strict");
    strict.template.template_mut().tolerations = tolerating("team");
    let mut foreign = set("foreign");
    foreign.template.template_mut().tolerations = tolerating(labels::DAEMON_SETS_NOT_READY_TAINT);
    let sets = [set("csi"), strict, foreign];
    let (names, ignored) = awaited("kube-system/csi", &sets);
    assert_eq!((names, ignored), (vec!["kube-system/csi".to_owned()], Vec::new()));
    let (names, ignored) =
        awaited("kube-system/csi, kube-system/strict, kube-system/foreign, kube-system/gone, default/csi", &sets);
    assert_eq!(names, ["kube-system/csi"]);
    let expected = [
        "default/csi, because it does not exist",
        "kube-system/foreign, because it does not tolerate the taint team:NoSchedule; add a toleration",
        "kube-system/gone, because it does not exist",
        "kube-system/strict, because it does not tolerate the taint nodeless.sh/daemonsets-not-ready:NoSchedule",
    ];
    assert_eq!(ignored.len(), expected.len(), "{ignored:?}");
    for (ignored, expected) in ignored.iter().zip(expected) {
        assert!(ignored.contains(expected) && ignored.contains(KEY), "{ignored}");
    }
    let (names, ignored) = awaited("csi", &sets);
    assert!(names.is_empty() && ignored.is_empty(), "{ignored:?}");
}

#[test]
fn a_claim_records_what_its_node_waits_for() {
    let mut plain = claim(Phase::Reserved);
    let before = plain.clone();
    Awaited::default().close(&mut plain);
    assert_eq!(plain, before);
    assert!(!Needs::new(&claim(Phase::Registered)).daemon_sets);
    let mut claim = waiting(Phase::Launched, &["csi", "mesh"]);
    assert_eq!(claim.spec.startup_taints, [Taint::daemon_sets_not_ready()]);
    assert_eq!(claim.spec.annotations[KEY], "kube-system/csi, kube-system/mesh");
    assert_eq!(awaited_by(&claim).len(), 2);
    assert!(Needs::new(&claim).daemon_sets);
    claim.phase = Phase::Initialized;
    assert!(!Needs::new(&claim).daemon_sets);
}

#[test]
fn a_daemon_set_is_awaited_until_its_pod_on_the_node_is_ready() {
    let mut claim = waiting(Phase::Registered, &["csi", "mesh"]);
    claim.spec.taints = vec![Taint::new("team", TaintEffect::NoSchedule)];
    let left = |sets: &[DaemonSet], pods: &[Pod]| -> Vec<String> {
        not_ready(&claim, &ready_node(), sets, pods).into_iter().map(|set| set.name).collect()
    };
    let sets = [set("csi"), set("mesh"), set("other")];
    assert_eq!(left(&sets, &[]), ["csi", "mesh"]);
    assert_eq!(left(&sets, &[pod_of("csi", true), pod_of("mesh", false)]), ["mesh"]);
    assert!(left(&sets, &[pod_of("csi", true), pod_of("mesh", true)]).is_empty());
    let elsewhere = Pod { namespace: "default".into(), ..pod_of("csi", true) };
    let no_daemon = Pod { owner_kind: Some("ReplicaSet".into()), ..pod_of("csi", true) };
    let leaving = Pod { deletion_timestamp: Some(at(60)), ..pod_of("csi", true) };
    for other in [elsewhere, no_daemon, leaving, pod_of("other", true)] {
        assert_eq!(left(&sets[..1], &[other]), ["csi"]);
    }
    assert_eq!(left(&sets[..1], &[]), ["csi"], "mesh does not exist");
    let select = |value: &str| {
        let mut one = set("csi");
        one.template.template_mut().node_selector.insert(labels::NODE_POOL.into(), value.into());
        one
    };
    assert_eq!(left(&[select("default")], &[]), ["csi"]);
    assert!(left(&[select("gpu")], &[]).is_empty(), "its pods do not run on this node");
    let mut affine = set("csi");
    let gpu = RequirementTerm { key: "gpu".into(), operator: Operator::Exists, values: Vec::new(), min_values: None };
    affine.template.template_mut().required_node_affinity = vec![vec![gpu]];
    assert!(left(&[affine], &[]).is_empty());
    let mut strict = set("csi");
    strict.template.template_mut().tolerations = tolerating("team");
    assert!(left(&[strict.clone()], &[]).is_empty(), "it tolerates the taint no more");
    strict.template.template_mut().tolerations = tolerating(labels::DAEMON_SETS_NOT_READY_TAINT);
    assert!(left(&[strict], &[]).is_empty(), "it does not tolerate the taints of the node");
}

#[test]
fn a_node_is_opened_once_its_daemon_sets_are_ready() {
    let claim = waiting(Phase::Registered, &["csi", "mesh"]);
    let waits = |not_ready: &[&str]| {
        let next = step(&claim, &seen(closed_node(), not_ready, Nominations::None), at(30), &settings());
        assert!(patch(&next.effects).is_none() && next.claim.phase == Phase::Registered);
        assert_eq!(next.requeue, Some(Duration::from_secs(2)));
        let condition = next.claim.condition(condition::INITIALIZED).unwrap().clone();
        assert_eq!((condition.reason.as_str(), condition.status), ("StartupTaintsExist", ConditionStatus::Unknown));
        condition.message
    };
    let taint = "Startup taint nodeless.sh/daemonsets-not-ready:NoSchedule still exists";
    assert_eq!(
        waits(&["csi", "mesh"]),
        format!("{taint}: DaemonSets kube-system/csi, kube-system/mesh are not ready on the node")
    );
    assert_eq!(waits(&["mesh"]), format!("{taint}: DaemonSet kube-system/mesh is not ready on the node"));
    let next = step(&claim, &seen(closed_node(), &[], Nominations::None), at(30), &settings());
    let opening = patch(&next.effects).unwrap();
    assert_eq!(opening.remove_taints, [Taint::daemon_sets_not_ready()]);
    assert_eq!(opening.labels[labels::INITIALIZED], "true");
    let unknown = Observation {
        daemon_sets_not_ready: Seen::Unknown("no answer".into()),
        ..seen(closed_node(), &[], Nominations::None)
    };
    let next = step(&claim, &unknown, at(30), &settings());
    assert!(patch(&next.effects).is_none());
    assert!(next.requeue.is_some() && next.blocked[0].contains("its DaemonSets could not be read: no answer"));
}

#[test]
fn a_node_that_waits_for_others_of_its_plan_is_not_opened_before() {
    let claim = waiting(Phase::Registered, &["csi"]);
    let next = step(&claim, &seen(closed_node(), &[], Nominations::Awaited), at(30), &settings());
    assert!(patch(&next.effects).is_none());
    let next = step(&claim, &seen(closed_node(), &[], Nominations::Written), at(30), &settings());
    assert_eq!(patch(&next.effects).unwrap().remove_taints, [Taint::daemon_sets_not_ready()]);
}

#[test]
fn another_startup_taint_and_one_of_a_user_stay() {
    let mut claim = waiting(Phase::Registered, &["csi"]);
    let agent = Taint::new("agent", TaintEffect::NoExecute);
    claim.spec.startup_taints.push(agent.clone());
    let mut node = closed_node();
    node.taints.push(agent);
    let next = step(&claim, &seen(node, &[], Nominations::None), at(30), &settings());
    let opening = patch(&next.effects).unwrap();
    assert_eq!(opening.remove_taints, [Taint::daemon_sets_not_ready()]);
    assert!(opening.labels.is_empty(), "the agent has not removed its taint");
    let plain = crate::tests::claim(Phase::Registered);
    let next = step(&plain, &seen(closed_node(), &[], Nominations::None), at(30), &settings());
    assert!(patch(&next.effects).is_none_or(|patch| patch.remove_taints.is_empty()), "somebody else set it");
}

#[test]
fn the_kubelet_or_the_registration_closes_the_node_once() {
    let mut claim = waiting(Phase::Launched, &["csi"]);
    claim.spec.nominated_pods = vec!["default/p".into()];
    let next = step(&claim, &seen(joined(), &["csi"], Nominations::Awaited), at(30), &settings());
    let registers = patch(&next.effects).unwrap();
    assert_eq!(registers.add_taints, [Taint::daemon_sets_not_ready()], "which closes it for nominations, too");
    assert_eq!(registers.remove_taints, [Taint::unregistered()]);
    assert!(!registers.labels.contains_key(labels::INITIALIZED));
}

#[test]
fn nominations_are_written_when_the_daemon_sets_are_ready() {
    let mut claim = waiting(Phase::Registered, &["csi"]);
    claim.spec.nominated_pods = vec!["default/p".into()];
    let node = closed_node();
    let state = |daemon_sets_ready| {
        let member = Member { claim: &claim, node: Some(&node), daemon_sets_ready };
        open(&[member], at(300))[claim.name.as_str()]
    };
    assert_eq!((state(false), state(true)), (Nominations::Awaited, Nominations::Written));
}

#[test]
fn the_pods_of_thousands_of_nodes_are_listed_less_often() {
    let claim = waiting(Phase::Registered, &["csi"]);
    let delay = |joining_listed, now| {
        let seen = Observation { joining_listed, ..seen(closed_node(), &["csi"], Nominations::None) };
        step(&claim, &seen, at(now), &settings()).requeue.unwrap().as_secs()
    };
    assert_eq!([1, 200, 500, 2_000, 10_000].map(|nodes| delay(nodes, 30)), [2, 2, 5, 20, 30]);
    assert_eq!([179, 180, 600, 899, 900].map(|now| delay(1, now)), [2, 10, 10, 10, 60], "it is opened within seconds");
}
