use super::*;
use crate::group::Owners;
use crate::{Awaited, Effect, Needs, Prospect, Step, begin_termination, step};
use jiff::SignedDuration;
use nodeless_model::claim::TerminationReason;
use nodeless_model::object::PodRef;
use nodeless_model::surge::{DeploymentChange, OwningDeployment, Raise, ReadyPod};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Anything that may be read of something, or not.
fn seen<T: std::fmt::Debug + Clone + 'static>(known: impl Strategy<Value = T> + 'static) -> BoxedStrategy<Seen<T>> {
    prop_oneof![3 => known.prop_map(Seen::Known), 1 => Just(Seen::Unknown("no answer".to_owned()))].boxed()
}

fn any_state() -> impl Strategy<Value = InstanceState> {
    use InstanceState::{Pending, Running, ShuttingDown, Stopped, Stopping, Terminated};
    prop::sample::select(vec![Pending, Running, Stopping, Stopped, ShuttingDown, Terminated])
}

fn any_node() -> impl Strategy<Value = Node> {
    (prop::collection::vec(any::<bool>(), 7)).prop_map(|bits| {
        let mut node = if bits[0] { ready_node() } else { joined() };
        if bits[1] {
            node.taints.push(Taint::disrupted());
            node.labels.insert(labels::EXCLUDE_FROM_LOAD_BALANCERS.into(), "karpenter".into());
        }
        if bits[2] {
            node.deletion_timestamp = Some(at(5));
        }
        if bits[3] {
            node.finalizers.clear();
        }
        if bits[4] {
            node.conditions.clear();
        }
        if bits[5] {
            node.labels.remove(labels::INITIALIZED);
        }
        if bits[6] {
            node.taints.push(Taint::daemon_sets_not_ready());
        }
        node
    })
}

fn any_pod() -> impl Strategy<Value = Pod> {
    let mode = prop::option::of(prop::sample::select(vec!["restart", "scale", "soon"]));
    (any::<bool>(), any::<bool>(), any::<bool>(), prop::option::of(-100_i64..1000), mode, any::<bool>()).prop_map(
        |(critical, daemon, held, ends, mode, ready)| {
            let mut one = pod("a");
            one.ready = Some(ready);
            if let Some(mode) = mode {
                one.template_mut().annotations.insert(labels::SURGE_BEFORE_DRAIN.into(), mode.into());
                one.owner_kind = Some("ReplicaSet".into());
                one.owner_name = Some("web-1".into());
            }
            one.template_mut().priority_class_name = critical.then(|| "system-node-critical".into());
            if daemon {
                one.owner_kind = Some("DaemonSet".into());
            }
            if held {
                one.template_mut().annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
            }
            one.deletion_timestamp = ends.map(at);
            one
        },
    )
}

fn any_deployment() -> impl Strategy<Value = OwningDeployment> {
    let raise = prop::option::of(any::<bool>().prop_map(|ours| {
        let claim = if ours { "default-bbbbb" } else { "other" };
        Raise { claim: claim.into(), pod: "uid-a".into(), from: 1, to: 2, at: at(0) }
    }));
    let others = prop::collection::vec(any::<bool>(), 0..3);
    (prop::collection::vec(any::<bool>(), 5), 0_i32..3, others, raise).prop_map(|(bits, replicas, others, raise)| {
        OwningDeployment {
            name: "web".into(),
            observed: bits[0] || bits[1],
            current: bits[2],
            paused: bits[3],
            recreate: bits[4],
            replicas,
            max_surge: 1,
            max_unavailable: 0,
            min_ready: SignedDuration::ZERO,
            ready: std::iter::once("node-1")
                .chain(others.into_iter().map(|near| if near { "node-1" } else { "node-2" }))
                .enumerate()
                .map(|(place, node)| ready_pod(if place == 0 { "uid-a" } else { "uid-z" }, node))
                .collect(),
            raise,
        }
    })
}

fn ready_pod(uid: &str, node: &str) -> ReadyPod {
    let pod = PodRef { namespace: "default".into(), name: uid.into(), uid: uid.into() };
    ReadyPod { pod, node: node.into(), since: Some(at(0)) }
}

fn any_owners() -> impl Strategy<Value = SeenOwners> {
    let deployments = seen(prop::option::weighted(0.9, any_deployment()));
    let prospects = [Prospect::Stays, Prospect::Leaves, Prospect::LeavesUntainted];
    let prospect = seen(prop::sample::select(prospects.to_vec()));
    (deployments, prospect, seen(Just(Vec::new()))).prop_map(|(deployment, prospect, budgets)| SeenOwners {
        deployments: BTreeMap::from([("uid-a".to_owned(), deployment)]),
        nodes: BTreeMap::from([("node-2".to_owned(), prospect)]),
        budgets,
    })
}

fn any_group() -> impl Strategy<Value = SeenGroup> {
    let instances = prop::collection::vec(any_state(), 0..3).prop_map(|states| {
        states.into_iter().enumerate().map(|(number, state)| instance(&format!("i-{}", number + 1), state)).collect()
    });
    (instances, any::<bool>(), any::<bool>()).prop_map(|(instances, alone, waits)| {
        let mut other = claim(if waits { Phase::Reserved } else { Phase::Launched });
        other.spec.launch_group.as_mut().unwrap().index = 0;
        SeenGroup { instances, others: if alone { Vec::new() } else { vec![other] }, owners: Owners::new() }
    })
}

pub(super) fn any_observation() -> impl Strategy<Value = Observation> {
    let class = prop::sample::select(vec![
        NodeClassState::Ready,
        NodeClassState::NotYetKnown,
        NodeClassState::Missing,
        NodeClassState::NotReady { message: "no".into() },
    ]);
    let mirror = prop::option::of(prop::option::of(Just(at(5))))
        .prop_map(|deleted| deleted.map(|deletion_timestamp| MirroredClaim { deletion_timestamp, ..mirror() }));
    (
        seen(class),
        seen(any::<bool>()),
        seen(prop::option::of(any_state()).prop_map(|state| state.map(|state| instance("i-1", state)))),
        seen(any_group()),
        seen(prop::collection::vec(any_node(), 0..3)),
        seen(prop::collection::vec(any_pod(), 0..4)),
        seen(mirror),
        prop::option::weighted(0.1, Just("a zonal shift".to_owned())),
        (
            any_owners(),
            prop::sample::select(vec![Nominations::None, Nominations::Awaited, Nominations::Written]),
            seen(prop::sample::select(vec![BTreeSet::new(), BTreeSet::from([daemon_set_name("csi")])])),
            seen(Just(ResourceList::from([("nvidia.com/gpu", Quantity::from_units(1))]))),
        ),
    )
        .prop_map(
            |(
                node_class,
                node_pool_exists,
                instance,
                launch_group,
                nodes,
                pods,
                mirror,
                zonal_shift,
                (owners, nominations, daemon_sets_not_ready, device_resources),
            )| {
                Observation {
                    node_class,
                    node_pool_exists,
                    instance,
                    launch_group,
                    nodes,
                    joining_listed: 0,
                    nominations,
                    daemon_sets_not_ready,
                    device_resources,
                    pods,
                    volume_attachments: Seen::Known(Vec::new()),
                    owners,
                    mirror,
                    zonal_shift,
                }
            },
        )
}

pub(super) fn any_claim() -> impl Strategy<Value = NodeClaim> {
    use Phase::{Draining, Gone, Initialized, Launched, Registered, Reserved, Terminating};
    let phase = prop::sample::select(vec![Reserved, Launched, Registered, Initialized, Draining, Terminating, Gone]);
    (phase, any::<bool>(), any::<bool>(), prop::option::of(0_u64..30)).prop_map(|(phase, launched, waits, grace)| {
        let mut one = claim(if phase.is_leaving() { Initialized } else { phase });
        one.spec.termination_grace_period = grace.map(minutes);
        if waits {
            let sets = BTreeSet::from([daemon_set_name("csi")]);
            Awaited { sets, ignored: Vec::new() }.close(&mut one);
        }
        if phase.is_leaving() {
            begin_termination(&mut one, TerminationReason::Deleted, "", at(0));
            one.phase = phase;
            if !launched {
                one.status.instance = None;
            }
        }
        one
    })
}

fn destroys(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::TerminateInstance { .. }
            | Effect::DeleteNode { .. }
            | Effect::Evict { .. }
            | Effect::DeletePod { .. }
            | Effect::DeleteRecord
            | Effect::RemoveMirror
    )
}

fn any_step() -> impl Strategy<Value = (NodeClaim, Observation, Step)> {
    (any_claim(), any_observation(), 0_i64..4000).prop_map(|(claim, seen, now)| {
        let next = step(&claim, &seen, at(now), &settings());
        (claim, seen, next)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn phases_only_go_forwards((before, _, next) in any_step()) {
        prop_assert!(next.claim.phase >= before.phase);
        // A node that is initialized keeps only the instance type that was launched.
        let (types, requirements) = (next.claim.spec.instance_types.clone(), next.claim.spec.requirements.clone());
        let spec = NodeClaimSpec { instance_types: types, requirements, ..before.spec.clone() };
        let expected = if next.claim.phase == Phase::Initialized { &spec } else { &before.spec };
        prop_assert_eq!(&next.claim.spec, expected);
        prop_assert_eq!((&next.claim.name, &next.claim.uid, next.claim.version), (&before.name, &before.uid, before.version));
        if next.claim.phase > before.phase {
            prop_assert_eq!(next.claim.phase.is_leaving(), next.claim.status.termination.is_some());
        }
    }

    #[test]
    fn nothing_is_destroyed_on_doubt((before, seen, next) in any_step()) {
        let doubtful = before.status.instance.is_some()
            && (seen.nodes.known().is_none()
                || (seen.instance.known().is_none() && seen.zonal_shift.is_none() && before.phase != Phase::Gone));
        if doubtful {
            prop_assert!(!next.effects.iter().any(destroys), "{:?}", next.effects);
        }
    }

    #[test]
    fn only_what_is_leaving_is_destroyed((before, _, next) in any_step()) {
        if next.effects.iter().any(destroys) {
            prop_assert!(before.phase.is_leaving(), "it was written down before");
        }
        for effect in &next.effects {
            match effect {
                Effect::TerminateInstance { .. } => prop_assert_eq!(before.phase, Phase::Terminating),
                Effect::DeleteRecord => prop_assert_eq!(before.phase, Phase::Gone),
                Effect::Evict { .. } => prop_assert_eq!(before.phase, Phase::Draining),
                _ => {}
            }
        }
        let ends = next.effects.iter().any(|effect| matches!(effect, Effect::TerminateInstance { .. }));
        prop_assert!(!(ends && next.effects.contains(&Effect::DeleteRecord)), "an instance outlives no record");
    }

    #[test]
    fn a_deployment_is_changed_only_for_a_surge_that_is_recorded((before, seen, next) in any_step()) {
        for effect in &next.effects {
            let Effect::ChangeDeployment { surge, change, .. } = effect else { continue };
            prop_assert!(next.claim.status.surge_for(&surge.pod_uid).is_some());
            if !matches!(change, DeploymentChange::Lower { .. }) {
                prop_assert!(before.phase == Phase::Draining && next.claim.status.replaces_pod(&surge.pod_uid));
                let evicts = next.effects.iter().any(|other| matches!(other, Effect::Evict { pod, .. } if pod.uid == surge.pod_uid));
                prop_assert!(!evicts, "it is held: {:?}", next.effects);
            }
        }
        // A later step undoes each raise, whatever it sees.
        let end = Observation { nodes: Seen::Known(Vec::new()), ..seen };
        let gone = NodeClaim { phase: Phase::Gone, ..next.claim.clone() };
        let last = step(&gone, &end, at(4000), &settings());
        for surge in next.claim.status.surges.iter().filter(|surge| surge.mode == nodeless_model::surge::SurgeMode::Scale) {
            let lowered = last.effects.iter().any(|effect| {
                matches!(effect, Effect::ChangeDeployment { surge: one, change: DeploymentChange::Lower { .. }, .. } if **one == *surge)
            });
            prop_assert!(lowered, "{:?}", last.effects);
        }
    }

    #[test]
    fn a_record_goes_only_after_its_instance((before, seen, next) in any_step()) {
        if next.claim.phase == Phase::Gone && before.phase < Phase::Gone && before.status.instance.is_some() {
            let state = seen.instance.known().unwrap().as_ref().map(|instance| instance.state);
            prop_assert!(matches!(state, None | Some(InstanceState::Terminated)), "{:?}", state);
        }
    }

    #[test]
    fn nothing_is_done_to_an_instance_in_a_zone_that_is_shifted_away_from((before, seen, next) in any_step()) {
        if seen.zonal_shift.is_some() && before.status.instance.is_some() {
            let touches = |effect: &Effect| {
                matches!(effect, Effect::TerminateInstance { .. } | Effect::TagInstance { .. } | Effect::DeleteRecord)
            };
            let begun = before.phase == Phase::Gone;
            prop_assert!(begun || !next.effects.iter().any(touches), "{:?}", next.effects);
            prop_assert!(begun || next.claim.phase < Phase::Gone, "its record has to outlast the shift");
        }
    }

    #[test]
    fn volumes_that_are_not_needed_change_nothing(
        mut claim in any_claim(), seen in any_observation(), now in 0_i64..4000, begun in any::<bool>(),
    ) {
        claim.status.drain_started = begun.then(|| at(0));
        let unread = Observation { volume_attachments: Seen::default(), ..seen.clone() };
        if !Needs::volume_attachments(&claim, &unread, at(now), &settings()) {
            prop_assert_eq!(step(&claim, &unread, at(now), &settings()), step(&claim, &seen, at(now), &settings()));
        }
    }

    #[test]
    fn a_step_that_waits_returns_when_it_is_due((_, _, next) in any_step()) {
        let at_rest = next.claim.phase == Phase::Initialized || next.effects.contains(&Effect::DeleteRecord);
        prop_assert!(next.requeue.is_some() || at_rest, "{:?}", next);
        prop_assert!(next.blocked.is_empty() || next.requeue.is_some());
    }

    #[test]
    fn repeating_a_step_on_the_same_view_repeats_its_effects((before, seen, next) in any_step()) {
        // A step whose record was written but whose effects were lost is made up for by the next one.
        if next.claim.phase == before.phase {
            let lost = next.effects.iter().filter(|effect| !matches!(effect, Effect::MirrorClaim));
            let again = step(&next.claim, &seen, at(4000), &settings());
            for effect in lost {
                let later = |other: &Effect| std::mem::discriminant(other) == std::mem::discriminant(effect);
                let moved_on = again.claim.phase > next.claim.phase;
                // A pod is deleted instead of evicted then, and evicted without a successor.
                let forced = matches!(effect, Effect::Evict { .. } | Effect::ChangeDeployment { .. });
                prop_assert!(moved_on || forced || again.effects.iter().any(later), "{:?} then {:?}", next, again);
            }
        }
    }
}
