use crate::tests::*;
use crate::{Effect, Needs, step, unreported_resources};
use nodeless_model::claim::TerminationReason;
use nodeless_model::object::NodePatch;
use nodeless_model::{Requirement, TaintEffect};

fn patch(effects: &[Effect]) -> Option<&NodePatch> {
    effects.iter().find_map(|effect| match effect {
        Effect::PatchNode { patch, .. } => Some(patch.as_ref()),
        _ => None,
    })
}

fn with_nodes(nodes: Vec<Node>) -> Observation {
    Observation { nodes: Seen::Known(nodes), ..all_is_well() }
}

#[test]
fn a_node_is_recognised_before_its_claim_counts_as_registered() {
    let mut claim = claim(Phase::Launched);
    claim.spec.taints = vec![Taint::new("team", TaintEffect::NoSchedule)];
    claim.spec.startup_taints = vec![Taint::new("cni", TaintEffect::NoExecute)];
    claim.spec.annotations.insert(labels::NODE_POOL_HASH.into(), "1".into());
    let next = step(&claim, &with_nodes(vec![joined()]), at(30), &settings());
    assert_eq!((next.claim.phase, next.requeue), (Phase::Launched, Some(Duration::ZERO)));
    let patch = patch(&next.effects).unwrap();
    assert_eq!(patch.labels[labels::REGISTERED], "true");
    assert_eq!(patch.annotations[labels::NODE_POOL_HASH], "1");
    assert_eq!(patch.add_taints.len(), 2);
    assert_eq!(patch.remove_taints, [Taint::unregistered()]);
    assert_eq!(patch.add_finalizer.as_deref(), Some(labels::TERMINATION_FINALIZER));
    assert_eq!(patch.owner, Some(("default-bbbbb".into(), "mirror-uid".into())));
    assert_eq!(patch.unless_labelled.as_deref(), Some(labels::REGISTERED));
    assert!(next.events.is_empty());
    assert!(!patch.labels.contains_key(labels::INITIALIZED), "it has a startup taint");

    let mut registered = ready_node();
    registered.labels.remove(labels::INITIALIZED);
    let next = step(&claim, &with_nodes(vec![registered]), at(31), &settings());
    assert_eq!(next.claim.phase, Phase::Registered);
    assert_eq!(next.claim.status.node_name.as_deref(), Some("node-1"));
    assert!(next.claim.has_condition(condition::REGISTERED));
    let reported: Vec<_> = next.events.iter().map(|event| (event.reason.as_str(), event.message.as_str())).collect();
    let text = "Status condition transitioned, Type: Registered, Status: Unknown -> True, Reason: Registered";
    assert_eq!(reported, [("Registered", text)]);
    assert_eq!(next.events[0].object.kind, "NodeClaim");
}

#[test]
fn a_node_whose_partition_ec2_chose_registers_once_ec2_reports_the_partition() {
    let mut claim = claim(Phase::Launched);
    claim.status.awaits_partition = true;
    assert!(Needs::new(&claim).instance && !Needs::new(&self::claim(Phase::Launched)).instance);
    let seen = |nodes: Vec<Node>, partition| {
        let bare = Instance { partition, ..instance("i-1", InstanceState::Running) };
        Observation { instance: Seen::Known(Some(bare)), ..with_nodes(nodes) }
    };
    // Neither a node without the label nor an instance that is not listed yet registers.
    let waits = step(&claim, &seen(vec![joined()], None), at(30), &settings());
    assert!(patch(&waits.effects).is_none() && waits.requeue.is_some_and(|delay| !delay.is_zero()));
    assert_eq!(waits.claim.condition(condition::REGISTERED).unwrap().reason, "PartitionUnknown");
    let unlisted = Observation { instance: Seen::Known(None), ..with_nodes(vec![joined()]) };
    assert!(patch(&step(&claim, &unlisted, at(30), &settings()).effects).is_none());
    // The partition is written with the claim first, and then to the node.
    let known = step(&waits.claim, &seen(vec![joined()], Some(3)), at(32), &settings());
    assert_eq!(known.claim.status.labels[labels::PLACEMENT_GROUP_PARTITION], "3");
    assert!(!known.claim.status.awaits_partition && known.effects == [Effect::MirrorClaim]);
    let next = step(&known.claim, &with_nodes(vec![joined()]), at(32), &settings());
    assert_eq!(patch(&next.effects).unwrap().labels[labels::PLACEMENT_GROUP_PARTITION], "3");
}

#[test]
fn a_node_that_is_ready_when_it_joins_takes_one_patch_between_two_writes() {
    // The claim as written at its launch.
    let claim = step(&claim(Phase::Launched), &with_nodes(Vec::new()), at(29), &settings()).claim;
    let (mut node, mut bare) = (joined(), instance("i-1", InstanceState::Running));
    let seen = |node: &Node, bare: &Instance| Observation {
        instance: Seen::Known(Some(bare.clone())),
        ..with_nodes(vec![node.clone()])
    };
    let next = step(&claim, &seen(&node, &bare), at(30), &settings());
    let mut named = claim;
    named.status.node_name = Some("node-1".to_owned());
    assert_eq!(
        (&next.claim, next.requeue),
        (&named, Some(Duration::ZERO)),
        "only the name is written before the patch"
    );
    let [Effect::PatchNode { patch, .. }, Effect::TagInstance { tags, .. }] = next.effects.as_slice() else {
        panic!("{:?}", next.effects)
    };
    assert_eq!([&patch.labels[labels::REGISTERED], &patch.labels[labels::INITIALIZED]], ["true", "true"]);
    assert_eq!(tags["Name"], "node-1");
    patch.apply(&mut node);
    bare.tags.extend(tags.clone());

    let next = step(&named, &seen(&node, &bare), at(30), &settings());
    assert_eq!(
        (next.claim.phase, next.requeue, &next.effects[..]),
        (Phase::Initialized, None, &[Effect::MirrorClaim][..])
    );
    let reported: Vec<&str> = next.events.iter().map(|event| event.reason.as_str()).collect();
    assert_eq!(reported, ["Registered", "Initialized", "Ready", "ConsistentStateFound"]);
    let rest = step(&next.claim, &seen(&node, &bare), at(31), &settings());
    assert_eq!(rest, crate::Step::stay(&next.claim));

    // While EC2 throttles tags, the node joins all the same.
    bare.tags.remove("Name");
    let untagged = step(&named, &seen(&node, &bare), at(30), &settings());
    assert_eq!(untagged.claim.phase, Phase::Initialized);
    assert!(matches!(untagged.effects.last(), Some(Effect::TagInstance { .. })));
}

#[test]
fn a_claim_has_what_its_node_reported_from_when_it_registered() {
    let resources = |memory: i64| ResourceList::from([("memory", Quantity::from_mebibytes(memory))]);
    let mut claim = claim(Phase::Launched);
    claim.status.allocatable = resources(7_000).with("nvidia.com/gpu", Quantity::from_units(1));
    let node = Node { allocatable: resources(6_800), ..ready_node() };
    let next = step(&claim, &with_nodes(vec![node]), at(30), &settings()).claim;
    assert_eq!(next.status.allocatable.get("memory"), Quantity::from_mebibytes(6_800));
    assert_eq!(next.status.allocatable.get("nvidia.com/gpu"), Quantity::from_units(1), "the node does not state yet");
}

#[test]
fn taints_that_the_kubelet_sets_itself_are_not_set_again() {
    let mut claim = claim(Phase::Launched);
    claim.spec.startup_taints = vec![Taint::new("cni", TaintEffect::NoExecute)];
    let mut node = joined();
    node.labels.insert(labels::DO_NOT_SYNC_TAINTS.into(), "true".into());
    let next = step(&claim, &with_nodes(vec![node]), at(30), &settings());
    assert!(patch(&next.effects).unwrap().add_taints.is_empty());
}

#[test]
fn a_node_without_the_unregistered_taint_is_recognised_with_a_warning() {
    let node = Node { taints: Vec::new(), ..joined() };
    let next = step(&claim(Phase::Launched), &with_nodes(vec![node]), at(30), &settings());
    assert_eq!(next.events[0].reason, "UnregisteredTaintMissing");
    assert!(patch(&next.effects).is_some());
}

#[test]
fn a_node_that_does_not_join_in_fifteen_minutes_ends_its_claim() {
    let missing = |seconds| step(&claim(Phase::Launched), &with_nodes(Vec::new()), at(seconds), &settings());
    let next = missing(899);
    assert_eq!(next.claim.condition(condition::REGISTERED).unwrap().reason, "NodeNotFound");
    assert!(next.requeue.unwrap() > Duration::ZERO && !next.claim.phase.is_leaving());
    let next = missing(900);
    assert_eq!(next.claim.status.termination.unwrap().reason, TerminationReason::RegistrationTimeout);
    let unseen = Observation { nodes: Seen::Unknown("no answer".into()), ..all_is_well() };
    let next = step(&claim(Phase::Launched), &unseen, at(10_000), &settings());
    assert!(!next.claim.phase.is_leaving(), "it may well have joined");
    let twice = with_nodes(vec![joined(), Node { name: "node-2".into(), ..joined() }]);
    let next = step(&claim(Phase::Launched), &twice, at(30), &settings());
    assert_eq!(next.claim.condition(condition::REGISTERED).unwrap().reason, "MultipleNodesFound");
    assert!(patch(&next.effects).is_none());
}

#[test]
fn thousands_of_nodes_that_join_are_listed_less_often() {
    let delay = |joining_listed: usize, phase: Phase| {
        let not_ready = Node { conditions: Vec::new(), labels: StringMap::new(), ..ready_node() };
        let nodes = if phase == Phase::Launched { Vec::new() } else { vec![not_ready] };
        let seen = Observation { joining_listed, ..with_nodes(nodes) };
        step(&claim(phase), &seen, at(30), &settings()).requeue.unwrap().as_secs()
    };
    for phase in [Phase::Launched, Phase::Registered] {
        let delays = [0, 100, 1_000, 2_000, 5_000, 10_000].map(|nodes| delay(nodes, phase));
        assert_eq!(delays, [1, 1, 1, 2, 10, 30]);
    }
    for nodes in (0..8_000_usize).step_by(100) {
        let lists = nodes.div_ceil(256);
        let pages_a_second = (lists * nodes.div_ceil(500)) as u64 / delay(nodes, Phase::Launched);
        assert!(pages_a_second <= 20, "{nodes} nodes: {pages_a_second}");
    }
}

#[test]
fn a_node_is_looked_up_every_second_from_when_it_can_join() {
    let delay = |seconds, nodes| step(&claim(Phase::Launched), &with_nodes(nodes), at(seconds), &settings()).requeue;
    let after = |seconds| delay(seconds, Vec::new()).unwrap().as_secs();
    assert_eq!([0, 1, 8, 9, 10, 30, 179].map(after), [10, 9, 2, 1, 1, 1, 1]);
    assert_eq!([240, 480].map(after), [30, 60]);
    // A node that joins sooner is registered in the same run.
    assert_eq!(delay(3, vec![joined()]), Some(Duration::ZERO));
}

#[test]
fn a_node_waits_for_its_nodeclaim_object_which_is_to_own_it() {
    let seen = Observation { mirror: Seen::Known(None), ..with_nodes(vec![joined()]) };
    let next = step(&claim(Phase::Launched), &seen, at(30), &settings());
    assert_eq!(next.effects, [Effect::MirrorClaim]);
}

#[test]
fn what_keeps_a_node_from_being_initialised_is_named() {
    let startup = Taint::new("cni", TaintEffect::NoExecute);
    let uninitialised = || {
        let mut node = ready_node();
        node.labels.remove(labels::INITIALIZED);
        node
    };
    let not_ready = Node { conditions: Vec::new(), ..uninitialised() };
    let starting = Node { taints: vec![startup.clone()], ..uninitialised() };
    let ephemeral =
        Node { taints: vec![Taint::new(labels::NOT_READY_TAINT, TaintEffect::NoSchedule)], ..uninitialised() };
    let empty = Node { allocatable: ResourceList::new(), ..uninitialised() };
    for (node, reason) in [
        (not_ready, "NodeNotReady"),
        (starting, "StartupTaintsExist"),
        (ephemeral, "KnownEphemeralTaintsExist"),
        (empty, "ResourceNotRegistered"),
    ] {
        let mut claim = claim(Phase::Registered);
        claim.spec.startup_taints = vec![startup.clone()];
        let next = step(&claim, &with_nodes(vec![node]), at(30), &settings());
        assert_eq!(next.claim.condition(condition::INITIALIZED).unwrap().reason, reason);
        assert!(patch(&next.effects).is_none() && next.claim.phase == Phase::Registered);
    }
    let next = step(&claim(Phase::Registered), &with_nodes(vec![uninitialised()]), at(30), &settings());
    assert_eq!(patch(&next.effects).unwrap().labels[labels::INITIALIZED], "true");
    let next = step(&claim(Phase::Registered), &all_is_well(), at(30), &settings());
    assert_eq!((next.claim.phase, next.requeue), (Phase::Initialized, None));
    assert!(next.claim.has_condition(condition::READY));
}

#[test]
fn an_instance_is_tagged_once_it_has_a_node_and_a_name_of_the_users_is_kept() {
    let mut bare = instance("i-1", InstanceState::Running);
    let tags = |instance: &Instance| {
        let seen = Observation { instance: Seen::Known(Some(instance.clone())), ..all_is_well() };
        step(&claim(Phase::Initialized), &seen, at(30), &settings()).effects.into_iter().find_map(|effect| match effect
        {
            Effect::TagInstance { tags, .. } => Some(tags),
            _ => None,
        })
    };
    let given = tags(&bare).unwrap();
    assert_eq!(given[labels::NODE_CLAIM_TAG], "default-bbbbb");
    assert_eq!((given["Name"].as_str(), given[labels::CLUSTER_NAME_TAG].as_str()), ("node-1", "example"));
    bare.tags.insert("Name".into(), "mine".into());
    assert!(!tags(&bare).unwrap().contains_key("Name"));
    bare.tags.extend(given.into_iter().filter(|(key, _)| key != "Name"));
    assert_eq!(tags(&bare), None);
}

#[test]
fn a_ready_node_needs_no_list_of_what_might_have_been_launched() {
    let mut claim = claim(Phase::Registered);
    let types = ["m6i.large", "m5.large", "c6i.large"].map(str::to_owned);
    claim.spec.instance_types = types.to_vec();
    claim.spec.requirements.add(labels::INSTANCE_TYPE, Requirement::one_of(types).with_min_values(Some(3)));
    let next = step(&claim, &all_is_well(), at(30), &settings()).claim;
    let launched = next.status.instance.as_ref().unwrap().instance_type.clone();
    assert_eq!((next.phase, &next.spec.instance_types), (Phase::Initialized, &vec![launched.clone()]));
    assert_eq!(next.spec.requirements.get(labels::INSTANCE_TYPE), Some(&Requirement::one_of([launched])));
}

/// The driver of the devices of a node has no device plugin: its kubelet never reports the resource.
#[test]
fn a_node_is_initialized_once_a_driver_publishes_what_its_kubelet_does_not_report() {
    let mut claim = claim(Phase::Registered);
    claim.spec.requests.set("nvidia.com/gpu", Quantity::from_units(1));
    claim.spec.requests.set("vpc.amazonaws.com/pod-eni", Quantity::from_units(1));
    let mut node = ready_node();
    node.labels.remove(labels::INITIALIZED);
    assert_eq!(unreported_resources(&claim, &node), ["nvidia.com/gpu"].into());
    node.allocatable.set("vpc.amazonaws.com/pod-eni", Quantity::from_units(9));
    let of = |device_resources| {
        let seen = Observation { device_resources, ..with_nodes(vec![node.clone()]) };
        step(&claim, &seen, at(30), &settings())
    };
    let waits = |next: &crate::Step| {
        let why = next.claim.condition(condition::INITIALIZED).unwrap();
        assert_eq!(why.message, "Resource nvidia.com/gpu was requested but not registered");
        patch(&next.effects).is_none() && next.requeue.is_some_and(|delay| !delay.is_zero())
    };
    let none = of(Seen::Known(ResourceList::new()));
    assert!(waits(&none) && none.blocked.is_empty(), "{none:?}");
    let unread = of(Seen::Unknown("no right".into()));
    assert!(waits(&unread));
    assert_eq!(unread.blocked, ["the devices of its node could not be read: no right"]);
    let published = Seen::Known(ResourceList::from([("nvidia.com/gpu", Quantity::from_units(4))]));
    let next = of(published);
    assert_eq!(patch(&next.effects).unwrap().labels[labels::INITIALIZED], "true");

    // Nothing is read of a node that is not ready, is initialized, or leaves.
    let not_ready = Node { conditions: Vec::new(), ..node.clone() };
    assert!(unreported_resources(&claim, &not_ready).is_empty());
    assert!(unreported_resources(&claim, &ready_node()).is_empty());
    claim.phase = Phase::Draining;
    assert!(unreported_resources(&claim, &node).is_empty());
}

/// The NodeClaim object gets the conditions of both by one write, unless the node takes long to become ready.
#[test]
fn the_registration_is_shown_with_the_initialization_or_after_a_moment() {
    let mut node = ready_node();
    node.labels.remove(labels::INITIALIZED);
    node.conditions[0].status = Some(false);
    let joined = with_nodes(vec![node]);
    let next = step(&claim(Phase::Launched), &joined, at(30), &settings());
    assert_eq!((next.claim.phase, next.effects.contains(&Effect::MirrorClaim)), (Phase::Registered, false));
    assert!(next.events.iter().any(|event| event.reason == "Registered"), "{:?}", next.events);
    let registered = next.claim;
    let shown = |seen: &Observation, second| {
        let next = step(&registered, seen, at(second), &settings());
        assert_eq!(next.claim, registered, "nothing is recorded again");
        next.effects.contains(&Effect::MirrorClaim)
    };
    assert!(!shown(&joined, 44));
    assert!(shown(&joined, 45));
    let Seen::Known(Some(mut mirror)) = joined.mirror.clone() else { panic!("{:?}", joined.mirror) };
    let conditions = registered.status.conditions.iter();
    mirror.conditions =
        conditions.map(|one| (one.kind.clone(), (one.status.as_str().to_owned(), one.reason.clone()))).collect();
    assert!(!shown(&Observation { mirror: Seen::Known(Some(mirror)), ..joined }, 60), "it shows it already");
    let next = step(&registered, &all_is_well(), at(35), &settings());
    assert_eq!((next.claim.phase, next.effects.contains(&Effect::MirrorClaim)), (Phase::Initialized, true));
    let since = |kind| next.claim.condition(kind).unwrap().last_transition_time;
    assert_eq!((since(condition::REGISTERED), since(condition::INITIALIZED)), (at(30), at(35)));
}

#[test]
fn a_claim_at_rest_asks_for_nothing() {
    let registered = step(&claim(Phase::Initialized), &all_is_well(), at(30), &settings()).claim;
    let next = step(&registered, &all_is_well(), at(31), &settings());
    assert_eq!(next, crate::Step::stay(&registered));
}

#[test]
fn tags_come_last_so_that_nothing_waits_for_them() {
    let bare = || Seen::Known(Some(instance("i-1", InstanceState::Running)));
    let mut uninitialised = ready_node();
    uninitialised.labels.remove(labels::INITIALIZED);
    let joining = Observation { instance: bare(), ..with_nodes(vec![uninitialised]) };
    let mut taken = claim(Phase::Initialized);
    taken.status.command = Some("command".into());
    for (claim, seen) in [
        (claim(Phase::Registered), joining),
        (claim(Phase::Registered), Observation { instance: bare(), ..all_is_well() }),
        (taken, Observation { instance: bare(), ..all_is_well() }),
    ] {
        let effects = step(&claim, &seen, at(30), &settings()).effects;
        let tags: Vec<usize> =
            (0..effects.len()).filter(|index| matches!(effects[*index], Effect::TagInstance { .. })).collect();
        assert!(effects.len() > 1 && tags == [effects.len() - 1], "{effects:?}");
    }
}

#[test]
fn a_taint_without_a_command_is_removed() {
    let mut node = ready_node();
    node.taints = vec![Taint::disrupted()];
    node.labels.insert(labels::EXCLUDE_FROM_LOAD_BALANCERS.into(), "karpenter".into());
    let next = step(&claim(Phase::Initialized), &with_nodes(vec![node]), at(30), &settings());
    let patch = patch(&next.effects).unwrap();
    assert_eq!(patch.remove_taints, [Taint::disrupted()]);
    assert_eq!(patch.remove_labels, [labels::EXCLUDE_FROM_LOAD_BALANCERS]);
}

#[test]
fn hashes_that_changed_come_to_the_node_claim_and_then_to_the_node() {
    let mut claim = claim(Phase::Initialized);
    let mut node = ready_node();
    node.labels.insert(labels::INITIALIZED.into(), "true".into());
    node.annotations.insert(labels::NODE_POOL_HASH.into(), "17".into());
    node.annotations.insert("team".into(), "a".into());
    claim.spec.annotations.insert(labels::NODE_POOL_HASH.into(), "1".into());
    claim.spec.annotations.insert("team".into(), "b".into());
    let next = step(&claim, &with_nodes(vec![node.clone()]), at(30), &settings());
    let place = |matches: fn(&Effect) -> bool| next.effects.iter().position(matches).unwrap();
    let mirrored = place(|effect| matches!(effect, Effect::MirrorClaim));
    assert!(mirrored < place(|effect| matches!(effect, Effect::PatchNode { .. })), "{:?}", next.effects);
    let expected = StringMap::from([(labels::NODE_POOL_HASH.to_owned(), "1".to_owned())]);
    assert_eq!(patch(&next.effects).unwrap().annotations, expected);
    node.annotations.extend(expected);
    assert!(patch(&step(&claim, &with_nodes(vec![node]), at(31), &settings()).effects).is_none());
}

/// The table was restored to a time before the instance was stopped and started: the Node is another one, as its kubelet created it.
#[test]
fn a_node_that_was_created_again_gets_what_its_claim_has() {
    for phase in [Phase::Registered, Phase::Initialized] {
        let mut not_ready = joined();
        not_ready.conditions.clear();
        let next = step(&claim(phase), &with_nodes(vec![not_ready.clone()]), at(90), &settings());
        let registering = patch(&next.effects).unwrap();
        assert_eq!(registering.labels.get(labels::REGISTERED).map(String::as_str), Some("true"), "{phase:?}");
        assert_eq!(registering.add_finalizer.as_deref(), Some(labels::TERMINATION_FINALIZER));
        assert_eq!((next.claim.phase, next.requeue), (phase, Some(Duration::ZERO)));
        registering.apply(&mut not_ready);
        // Once it is ready, it is initialized.
        not_ready.conditions = joined().conditions;
        let next = step(&claim(phase), &with_nodes(vec![not_ready.clone()]), at(95), &settings());
        patch(&next.effects).unwrap().apply(&mut not_ready);
        assert!(not_ready.is_initialized(), "{phase:?}");
        let next = step(&claim(Phase::Initialized), &with_nodes(vec![not_ready]), at(96), &settings());
        assert_eq!(patch(&next.effects), None);
    }
    let unknown = Observation { mirror: Seen::default(), ..with_nodes(vec![joined()]) };
    let next = step(&claim(Phase::Initialized), &unknown, at(90), &settings());
    assert_eq!(patch(&next.effects), None, "its NodeClaim is to own it");
}
