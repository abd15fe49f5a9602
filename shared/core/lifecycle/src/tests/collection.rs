use super::*;
use crate::daemon_sets::awaited_by;
use crate::{Collection, Effect, World, collect, is_proved_gone, step};
use nodeless_model::claim::Charge;
use nodeless_model::test_support::node_pool;
use nodeless_model::{ClassKind, OtherNodeClaim, TaintEffect};

struct Everything {
    claims: Vec<NodeClaim>,
    instances: Vec<Instance>,
    nodes: Vec<Node>,
    mirrors: Vec<MirroredClaim>,
}

/// A claim with its instance and node, and nothing else.
fn everything() -> Everything {
    Everything {
        claims: vec![claim(Phase::Initialized)],
        instances: vec![instance("i-1", InstanceState::Running)],
        nodes: vec![ready_node()],
        mirrors: vec![mirror()],
    }
}

fn found(everything: &Everything, now: i64) -> Vec<Collection> {
    let Everything { claims, instances, nodes, mirrors } = everything;
    let world = World { claims, instances, nodes, mirrors, other_claims: &[], node_pools: &[] };
    collect(&world, at(now), &settings())
}

fn adopted(found: &[Collection]) -> Vec<&NodeClaim> {
    let mut claims = Vec::new();
    for collection in found {
        if let Collection::Adopt(claim) = collection {
            claims.push(claim.as_ref());
        }
    }
    claims
}

#[test]
fn what_is_looked_after_is_left_alone() {
    assert_eq!(found(&everything(), 100_000), []);
}

#[test]
fn an_unknown_instance_is_terminated_after_half_a_minute() {
    let mut all = everything();
    all.instances.push(instance("i-2", InstanceState::Running));
    assert_eq!(found(&all, 29), []);
    let orphan = found(&all, 30);
    assert!(matches!(&orphan[..], [Collection::TerminateInstance { id, .. }] if id == "i-2"), "{orphan:?}");
    all.instances[1].state = InstanceState::ShuttingDown;
    assert_eq!(found(&all, 30), []);
}

#[test]
fn an_instance_of_a_launch_under_way_waits_for_its_claim() {
    let mut all = everything();
    let mut launched = instance("i-2", InstanceState::Pending);
    launched.tags.insert(labels::LAUNCH_GROUP_TAG.into(), "group".into());
    all.instances.push(launched);
    all.claims.push(NodeClaim { name: "default-ccccc".into(), ..reserved() });
    all.mirrors.push(MirroredClaim { name: "default-ccccc".into(), ..MirroredClaim::default() });
    assert_eq!(found(&all, 10_000), []);
}

#[test]
fn a_node_that_has_joined_before_its_launch_is_recorded_waits_for_its_claim() {
    let mut all = everything();
    let mut launched = instance("i-2", InstanceState::Running);
    launched.tags.insert(labels::LAUNCH_GROUP_TAG.into(), "group".into());
    all.instances.push(launched);
    let provider_id = Some("aws:///us-east-1a/i-2".to_owned());
    all.nodes.push(Node { name: "node-2".into(), provider_id: provider_id.clone(), ..ready_node() });
    // That of an earlier record, which the table no longer has.
    all.mirrors.push(MirroredClaim { name: "default-ddddd".into(), provider_id, ..MirroredClaim::default() });
    all.claims.push(NodeClaim { name: "default-ccccc".into(), ..reserved() });
    assert_eq!(found(&all, 10_000), []);
    all.claims[1].phase = Phase::Gone;
    assert_eq!(adopted(&found(&all, 10_000)).len(), 1, "it gets no instance any more");
    all.claims[1] = NodeClaim { name: "default-ccccc".into(), ..claim(Phase::Launched) };
    assert_eq!(adopted(&found(&all, 10_000)).len(), 1, "it has another one");
}

#[test]
fn a_node_that_was_recognised_is_never_terminated_but_adopted() {
    let mut all = everything();
    all.instances.push(instance("i-2", InstanceState::Running));
    let mut node = ready_node();
    node.name = "node-2".into();
    node.provider_id = Some("aws:///us-east-1a/i-2".into());
    node.annotations.insert(labels::NODE_POOL_HASH.into(), "123".into());
    let own = Taint::new("team", nodeless_model::TaintEffect::NoSchedule);
    node.taints = vec![own.clone(), Taint::disrupted()];
    all.nodes.push(node);
    let result = found(&all, 0);
    let [claim] = adopted(&result)[..] else { panic!("{result:?}") };
    assert_eq!((claim.phase, result.len()), (Phase::Initialized, 1));
    assert_eq!((claim.node_pool.as_deref(), claim.node_class.as_str()), (Some("default"), "default"));
    assert_eq!(claim.status.instance.as_ref().unwrap().id, "i-2");
    assert_eq!(claim.spec.annotations[labels::NODE_POOL_HASH], "123", "or it would look drifted");
    assert_eq!(claim.spec.taints, [own], "the taint of a disruption is not copied to the spec");
    assert_eq!(claim.spec.expire_after, None);
    assert!(claim.has_condition(condition::READY));
    assert_eq!(found(&all, 0), result, "the same each time");
    all.claims.push(claim.clone());
    all.mirrors.push(MirroredClaim { name: claim.name.clone(), ..MirroredClaim::default() });
    assert_eq!(found(&all, 0), [], "and once");
}

#[test]
fn karpenters_claims_are_taken_over_under_their_names() {
    let mut tagged = instance("i-1", InstanceState::Running);
    tagged.tags.insert(labels::NODE_CLAIM_TAG.into(), "default-x7k2p".into());
    let karpenters = MirroredClaim {
        name: "default-x7k2p".into(),
        uid: "kept".into(),
        provider_id: Some("aws:///us-east-1a/i-1".into()),
        created: Some(at(-500)),
        expire_after: Some(minutes(720 * 60)),
        termination_grace_period: Some(minutes(10)),
        ..MirroredClaim::default()
    };
    let all = Everything {
        claims: Vec::new(),
        instances: vec![tagged],
        nodes: vec![ready_node()],
        mirrors: vec![karpenters],
    };
    let result = found(&all, 10);
    let [claim] = adopted(&result)[..] else { panic!("{result:?}") };
    assert_eq!((claim.name.as_str(), claim.created, claim.phase), ("default-x7k2p", at(-500), Phase::Initialized));
    assert_eq!(claim.spec.expire_after, Some(minutes(720 * 60)));
    assert_eq!(claim.spec.termination_grace_period, Some(minutes(10)));
    // Once it is ours, nothing about its node is to be changed.
    let seen = Observation { instance: Seen::Known(Some(all.instances[0].clone())), ..all_is_well() };
    let next = crate::step(claim, &seen, at(11), &settings());
    let harmless =
        |effect: &crate::Effect| matches!(effect, crate::Effect::TagInstance { .. } | crate::Effect::MirrorClaim);
    assert!(next.effects.iter().all(harmless) && next.claim.phase == Phase::Initialized, "{:?}", next.effects);
}

#[test]
fn an_instance_that_karpenter_is_just_launching_is_left_to_it() {
    let mut all = everything();
    all.instances.push(instance("i-2", InstanceState::Pending));
    all.mirrors.push(MirroredClaim { name: "default-zzzzz".into(), ..MirroredClaim::default() });
    assert_eq!(found(&all, 10_000), []);
    all.mirrors[1].provider_id = Some("aws:///us-east-1a/i-2".into());
    let result = found(&all, 10_000);
    assert_eq!(adopted(&result).len(), 1);
    assert_eq!((adopted(&result)[0].phase, adopted(&result)[0].name.as_str()), (Phase::Launched, "default-zzzzz"));
}

#[test]
fn a_table_that_was_lost_is_made_again_and_nothing_is_terminated() {
    let all = Everything { claims: Vec::new(), nodes: Vec::new(), mirrors: Vec::new(), ..everything() };
    assert_eq!(found(&all, 29), [], "it may be a launch of a moment ago");
    let result = found(&all, 30);
    assert_eq!((adopted(&result).len(), adopted(&result)[0].phase), (1, Phase::Launched));
    let untagged = Instance { tags: StringMap::new(), ..instance("i-1", InstanceState::Running) };
    let all = Everything { instances: vec![untagged], ..all };
    assert_eq!(found(&all, 10_000), [], "without a NodePool it cannot be adopted");
}

#[test]
fn what_is_left_of_a_lost_record_is_let_go() {
    let mut all = Everything { claims: Vec::new(), instances: Vec::new(), ..everything() };
    assert!(
        matches!(&found(&all, 10_000)[..], [Collection::RemoveMirror { name, .. }] if name == "default-bbbbb"),
        "a node that is ready is no ruin"
    );
    all.nodes[0].conditions.clear();
    assert!(matches!(&found(&all, 10_000)[..], [Collection::RemoveMirror { .. }]), "the node after its NodeClaim");
    all.mirrors[0].record_uid = None;
    assert_eq!(found(&all, 10_000), [], "Karpenter's NodeClaims are its own, and so are their nodes");
    all.mirrors.clear();
    let released = found(&all, 10_000);
    assert!(matches!(&released[..], [Collection::ReleaseNode { instance, .. }] if instance == "i-1"), "{released:?}");
    all.nodes[0].finalizers.clear();
    assert_eq!(found(&all, 10_000), [], "it ends without help");
}

#[test]
fn a_node_of_another_controller_is_not_let_go() {
    let mut node = ready_node();
    node.conditions.clear();
    let nodes = vec![node];
    let collected = |nodes: &[Node], other_claims: &[OtherNodeClaim]| {
        let world = World { claims: &[], instances: &[], nodes, mirrors: &[], other_claims, node_pools: &[] };
        collect(&world, at(10_000), &settings())
    };
    assert_eq!(collected(&nodes, &[]).len(), 1);
    let other = OtherNodeClaim {
        name: "general-purpose-abcde".into(),
        class: ClassKind { group: "eks.amazonaws.com".into(), kind: "NodeClass".into() },
        provider_id: nodes[0].provider_id.clone(),
        capacity: None,
    };
    assert_eq!(collected(&nodes, &[other]), [], "its NodeClaim exists");
    let mut auto_mode = nodes[0].clone();
    auto_mode.labels.remove(labels::EC2_NODE_CLASS);
    auto_mode.labels.insert("eks.amazonaws.com/nodeclass".into(), "default".into());
    assert_eq!(collected(&[auto_mode], &[]), [], "it has the label of another class");
}

#[test]
fn a_node_is_let_go_only_if_its_instance_is_proved_to_be_gone_and_was_ours() {
    let tagged = |state| {
        let mut instance = instance("i-1", state);
        instance.tags.insert(labels::CLUSTER_NAME_TAG.into(), "demo".into());
        instance
    };
    let untagged = |state| Instance { tags: StringMap::new(), ..instance("i-1", state) };
    let (running, terminated) = (InstanceState::Running, InstanceState::Terminated);
    let gone = |described: Option<&Instance>, recorded| is_proved_gone(described, recorded, "demo");
    assert!(gone(None, true) && !gone(None, false), "nothing shows that an unknown instance was ours");
    assert!(gone(Some(&tagged(terminated)), false) && gone(Some(&untagged(terminated)), true));
    assert!(!gone(Some(&untagged(terminated)), false), "it was of others");
    assert!(!gone(Some(&tagged(running)), true) && !gone(Some(&tagged(InstanceState::ShuttingDown)), true));
    assert!(!is_proved_gone(Some(&tagged(terminated)), false, "other"), "it was of another cluster");
}

/// A NodeClaim object of nodeless with a condition that is not true, for this reason.
fn waiting(kind: &str, reason: &str) -> MirroredClaim {
    let conditions = BTreeMap::from([(kind.to_owned(), ("Unknown".to_owned(), reason.to_owned()))]);
    let hashes = StringMap::from([(labels::NODE_POOL_HASH.to_owned(), "17".to_owned())]);
    MirroredClaim { conditions, hashes, ..mirror() }
}

#[test]
fn an_adopted_warm_node_is_in_the_state_that_its_node_claim_shows() {
    let cordoned = super::warm::cordoned();
    let of = |state, nodes: Vec<Node>, mirror| {
        let all =
            Everything { claims: Vec::new(), instances: vec![instance("i-1", state)], nodes, mirrors: vec![mirror] };
        adopted(&found(&all, 100))[0].clone()
    };
    let stopped = || waiting(condition::REGISTERED, reason::STOPPED);
    let warming = || waiting(condition::INITIALIZED, reason::WARMING);
    let claim = of(InstanceState::Stopped, Vec::new(), stopped());
    assert!(claim.phase == Phase::Stopped && !claim.has_condition(condition::REGISTERED));
    assert_eq!(
        (claim.spec.charge.clone(), &*claim.spec.annotations[labels::NODE_POOL_HASH]),
        (Charge::default(), "17")
    );
    let seen = Observation {
        instance: Seen::Known(Some(instance("i-1", InstanceState::Stopped))),
        nodes: Seen::Known(Vec::new()),
        ..all_is_well()
    };
    let next = crate::step(&claim, &seen, at(90_000), &settings());
    assert!(next.claim.is_stopped(), "it stays: {:?}", next.claim.status.termination);
    let states = [InstanceState::Running, InstanceState::Stopping]
        .map(|state| of(state, vec![cordoned.clone()], warming()).phase);
    assert_eq!(states, [Phase::Preparing, Phase::Stopping]);
    assert_eq!(of(InstanceState::Running, Vec::new(), stopped()).phase, Phase::Launched, "it was started a moment ago");
    assert_eq!(of(InstanceState::Stopped, vec![cordoned], mirror()).phase, Phase::Registered, "of another program");
}

#[test]
fn an_adopted_launch_has_what_its_node_will_have() {
    let all = Everything {
        claims: Vec::new(),
        instances: vec![instance("i-1", InstanceState::Running)],
        nodes: Vec::new(),
        mirrors: vec![waiting(condition::REGISTERED, "NodeNotFound")],
    };
    let mut claim = adopted(&found(&all, 100))[0].clone();
    assert_eq!((claim.phase, &*claim.spec.annotations[labels::NODE_POOL_HASH]), (Phase::Launched, "17"));
    crate::adopt::complete(&mut claim, &learned());
    assert_eq!((claim.status.capacity, claim.status.allocatable), (learned().capacity, learned().allocatable));
    let expected = learned().capacity.with("nodes", Quantity::from_units(1));
    assert_eq!(claim.spec.charge, Charge { resources: expected, dollars_per_hour: 0.1 });
}

#[test]
fn an_adopted_node_that_waits_for_daemon_sets_opens_once_they_are_ready() {
    let mut all = everything();
    all.claims.clear();
    let node = &mut all.nodes[0];
    node.labels.remove(labels::INITIALIZED);
    node.taints = vec![Taint::daemon_sets_not_ready(), Taint::new("team", TaintEffect::NoSchedule)];
    node.annotations.insert(labels::WAIT_FOR_DAEMON_SETS.into(), "kube-system/csi".into());
    let result = found(&all, 100);
    let [claim] = adopted(&result)[..] else { panic!("{result:?}") };
    assert_eq!(claim.spec.taints, [Taint::new("team", TaintEffect::NoSchedule)]);
    assert_eq!(claim.spec.startup_taints, [Taint::daemon_sets_not_ready()]);
    assert_eq!(awaited_by(claim), BTreeSet::from([daemon_set_name("csi")]));
    let opens = |not_ready: BTreeSet<DaemonSetName>| {
        let seen = Observation {
            nodes: Seen::Known(all.nodes.clone()),
            daemon_sets_not_ready: Seen::Known(not_ready),
            ..all_is_well()
        };
        let removed = |effect: &Effect| match effect {
            Effect::PatchNode { patch, .. } => patch.remove_taints.clone(),
            _ => Vec::new(),
        };
        let effects = step(claim, &seen, at(101), &settings()).effects;
        effects.iter().flat_map(removed).any(|taint| taint == Taint::daemon_sets_not_ready())
    };
    assert!(!opens(BTreeSet::from([daemon_set_name("csi")])) && opens(BTreeSet::new()));
}

#[test]
fn startup_taints_of_an_adopted_node_do_not_last() {
    let (agent, team) = (Taint::new("cni", TaintEffect::NoExecute), Taint::new("team", TaintEffect::NoSchedule));
    let mut pool = node_pool("default");
    pool.template.startup_taints = vec![agent.clone(), Taint::new("gone", TaintEffect::NoSchedule)];
    let node = Node { taints: vec![agent.clone(), team.clone()], ..ready_node() };
    let (launched, taken) = (instance("i-1", InstanceState::Running), BTreeSet::new());
    let claim = crate::adopt::adopted(&launched, Some(&node), None, &[pool], &taken, at(100)).unwrap();
    assert_eq!((claim.spec.taints, claim.spec.startup_taints), (vec![team], vec![agent]));
}
