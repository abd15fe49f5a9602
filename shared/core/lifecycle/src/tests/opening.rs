use super::*;
use crate::opening::{JoinedNode, Member, Nomination, is_held, nominations, open};
use crate::{Effect, step};
use nodeless_model::TaintEffect;
use nodeless_model::object::{NodePatch, PodRef, UnboundPod};
use proptest::prelude::*;

/// A claim that a plan made at `created` for these pods.
fn planned(name: &str, created: i64, phase: Phase, pods: &[&str]) -> NodeClaim {
    let mut claim = claim(phase);
    (claim.name, claim.created) = (name.into(), at(created));
    claim.spec.nominated_pods = pods.iter().map(|pod| format!("default/{pod}")).collect();
    claim
}

fn node_of(claim: &NodeClaim, is_ready: bool) -> Node {
    let mut node = Node { name: format!("node-{}", claim.name), ..joined() };
    if !is_ready {
        node.taints.push(Taint::new(labels::NOT_READY_TAINT, TaintEffect::NoSchedule));
        node.conditions.clear();
    }
    node
}

fn unbound(name: &str, nominated: Option<&str>) -> UnboundPod {
    UnboundPod {
        pod: PodRef { namespace: "default".into(), name: name.into(), uid: format!("uid-{name}") },
        resource_version: "1".into(),
        nominated_node: nominated.map(str::to_owned),
        is_terminating: false,
        is_gated: false,
        workload: None,
    }
}

fn member<'a>(claim: &'a NodeClaim, node: Option<&'a Node>) -> Member<'a> {
    Member { claim, node, daemon_sets_ready: true }
}

fn places<'a>(claims: &'a [NodeClaim], nodes: &[&'a str]) -> Vec<JoinedNode<'a>> {
    claims.iter().zip(nodes).map(|(claim, node)| JoinedNode { claim, node }).collect()
}

/// The states of claims whose nodes are absent, not ready or ready.
fn states(claims: &[(NodeClaim, Option<bool>)], now: i64) -> Vec<Nominations> {
    let nodes: Vec<Option<Node>> =
        claims.iter().map(|(claim, ready)| ready.map(|is_ready| node_of(claim, is_ready))).collect();
    let members: Vec<Member<'_>> =
        claims.iter().zip(&nodes).map(|((claim, _), node)| member(claim, node.as_ref())).collect();
    let states = open(&members, at(now));
    claims.iter().map(|(claim, _)| states.get(claim.name.as_str()).copied().unwrap_or_default()).collect()
}

#[test]
fn the_nodes_of_a_plan_open_together() {
    use Nominations::{Awaited, None as Nothing, Written};
    let one = |name: &str, phase, ready| (planned(name, 0, phase, &["p"]), ready);
    let of = |second: (NodeClaim, Option<bool>), now| states(&[one("a", Phase::Registered, Some(true)), second], now);
    assert_eq!(of(one("b", Phase::Reserved, None), 19), [Awaited, Awaited], "it is not launched yet");
    assert_eq!(of(one("b", Phase::Launched, None), 19), [Awaited, Awaited], "it has not joined yet");
    assert_eq!(of(one("b", Phase::Registered, Some(false)), 19), [Awaited, Awaited], "it is not ready yet");
    assert_eq!(of(one("b", Phase::Launched, Some(true)), 0), [Written, Written]);
    assert_eq!(of(one("b", Phase::Draining, None), 0), [Written, Nothing], "nobody waits for a claim that failed");
    assert_eq!(of((planned("b", 0, Phase::Launched, &[]), None), 0), [Written, Nothing], "for no pod");
    assert_eq!(of(one("b", Phase::Launched, None), 20), [Written, Awaited], "none registered for 20 seconds");
    assert_eq!(of(one("b", Phase::Launched, Some(false)), 59), [Awaited, Awaited], "it joined a moment ago");
    assert_eq!(of(one("b", Phase::Launched, Some(false)), 60), [Written, Awaited], "60 seconds are over");
    assert_eq!(of(one("b", Phase::Initialized, Some(true)), 19), [Written, Written], "its nominations are looked at");
    assert_eq!(of(one("b", Phase::Initialized, Some(true)), 20), [Written, Nothing]);
}

#[test]
fn the_nodes_of_a_plan_do_not_wait_for_those_of_another() {
    use Nominations::{Awaited, Written};
    let first = planned("a", 0, Phase::Registered, &["p"]);
    let second = planned("b", 1, Phase::Launched, &["q"]);
    assert_eq!(states(&[(first, Some(true)), (second, None)], 0), [Written, Awaited]);
}

#[test]
fn a_node_is_not_held_where_that_could_prevent_its_initialization() {
    let plain = planned("a", 0, Phase::Launched, &["p"]);
    assert!(is_held(&plain));
    let held = |change: fn(&mut NodeClaim)| {
        let mut claim = plain.clone();
        change(&mut claim);
        is_held(&claim)
    };
    assert!(!held(|claim| claim.spec.nominated_pods.clear()));
    assert!(!held(|claim| claim.spec.replaces.push("old".into())));
    assert!(!held(|claim| claim.spec.startup_taints.push(Taint::new("cni", TaintEffect::NoExecute))));
    assert!(held(|claim| claim.spec.startup_taints.push(Taint::daemon_sets_not_ready())));
    assert!(held(|claim| claim.spec.requests.set("nvidia.com/gpu", Quantity::from_units(1))));
}

#[test]
fn pods_take_the_nodes_of_the_expected_pods_of_their_workload() {
    let expected = ["Deployment-web-+0", "Deployment-web-+1", "Job-web-+0"];
    let claims = [
        planned("a", 0, Phase::Registered, &expected),
        planned("b", 0, Phase::Registered, &["p1", "Deployment-web-+2"]),
        planned("c", 0, Phase::Initialized, &["Deployment-web-+3"]),
    ];
    let of = |kind: &str, pod: UnboundPod| {
        let workload = nodeless_model::Workload::new("default", kind, "web", None);
        UnboundPod { workload: Some(workload), ..pod }
    };
    let mut pods = vec![
        UnboundPod { is_gated: true, ..of("Deployment", unbound("p0", None)) },
        of("Deployment", unbound("p1", None)),
        of("Deployment", unbound("p2", None)),
        of("Deployment", unbound("p3", Some("node-a"))),
        of("Deployment", unbound("p4", Some("elsewhere"))),
        of("Deployment", unbound("p5", None)),
        of("Deployment", unbound("p6", None)),
        of("StatefulSet", unbound("p7", None)),
    ];
    let nodes = ["node-a", "node-b", "node-c"];
    let missing = |pods: &[UnboundPod]| {
        let (missing, waiting) = nominations(places(&claims, &nodes), pods, at(0));
        assert_eq!(waiting.into_iter().collect::<Vec<_>>(), ["a", "b"]);
        let shown = missing.iter().map(|one| format!("{} {}", one.pod.pod.name, one.node));
        shown.collect::<Vec<_>>()
    };
    assert_eq!(missing(&pods), ["p1 node-b", "p2 node-a", "p5 node-b"], "p6 finds no place, and c was open before");
    pods[2].nominated_node = Some("node-a".into());
    assert_eq!(missing(&pods), ["p1 node-b", "p5 node-b"], "once each");
}

#[test]
fn pods_with_another_nomination_and_pods_that_are_deleted_are_left_alone() {
    let claims =
        [planned("a", 0, Phase::Registered, &["p1", "p2", "p3", "p4"]), planned("b", 0, Phase::Registered, &["p1"])];
    let deleted = UnboundPod { is_terminating: true, ..unbound("p4", None) };
    let pods = [
        unbound("p1", None),
        unbound("p2", Some("elsewhere")),
        unbound("p3", Some("node-a")),
        deleted,
        unbound("stranger", None),
    ];
    let open = places(&claims, &["node-a", "node-b"]);
    let (missing, waiting) = nominations(open.clone(), &pods, at(0));
    assert_eq!(missing, [Nomination { pod: &pods[0], node: "node-a" }], "once, although two claims were made for it");
    assert_eq!(waiting.into_iter().collect::<Vec<_>>(), ["a"]);
    let (missing, waiting) = nominations(open.clone(), &pods[1..3], at(0));
    assert_eq!((missing.len(), waiting.len()), (0, 1), "p3 is not bound yet");
    let (missing, waiting) = nominations(open, &pods[4..], at(0));
    assert_eq!((missing.len(), waiting.len()), (0, 0));
}

#[test]
fn the_nomination_of_a_pod_that_is_still_not_bound_is_removed_once() {
    let claims = [planned("a", 0, Phase::Initialized, &["p1", "p2", "p3"])];
    let pods = [unbound("p1", None), unbound("p2", Some("node-a")), unbound("p3", Some("elsewhere"))];
    let written = |now, pods: &[UnboundPod]| {
        let (missing, waiting) = nominations(places(&claims, &["node-a"]), pods, at(now));
        let shown = missing.iter().map(|one| format!("{} {}", one.pod.pod.name, one.node)).collect::<Vec<_>>();
        (shown, waiting.len())
    };
    assert_eq!(written(14, &pods), (vec!["p1 node-a".to_owned()], 1), "cleared nominations are written again");
    assert_eq!(written(15, &pods), (vec!["p2 ".to_owned()], 1), "only ours is removed");
    let removed = [unbound("p1", None), unbound("p2", None), unbound("p3", Some("elsewhere"))];
    assert_eq!(written(16, &removed), (Vec::new(), 0), "nothing is written after that");
}

fn patches(effects: &[Effect]) -> Vec<&NodePatch> {
    let patches = effects.iter().filter_map(|effect| match effect {
        Effect::PatchNode { patch, .. } => Some(patch.as_ref()),
        _ => None,
    });
    patches.collect()
}

#[test]
fn a_node_is_registered_closed_and_then_opened_and_initialized_by_one_patch() {
    let claim = planned("default-bbbbb", 0, Phase::Launched, &["p"]);
    let seen =
        |node: &Node, nominations| Observation { nodes: Seen::Known(vec![node.clone()]), nominations, ..all_is_well() };
    let mut node = joined();
    let next = step(&claim, &seen(&node, Nominations::Awaited), at(30), &settings());
    let registering = patches(&next.effects)[0];
    assert_eq!(
        (&registering.add_taints[..], &registering.remove_taints[..]),
        (&[Taint::joining()][..], &[Taint::unregistered()][..])
    );
    assert!(!registering.labels.contains_key(labels::INITIALIZED));
    registering.apply(&mut node);

    let registered = step(&claim, &seen(&node, Nominations::Awaited), at(30), &settings()).claim;
    assert_eq!(registered.phase, Phase::Registered);
    let waits = step(&registered, &seen(&node, Nominations::Awaited), at(31), &settings());
    assert!(patches(&waits.effects).is_empty());
    assert_eq!(waits.requeue, Some(Duration::from_secs(1)));
    let reason = &waits.claim.condition(condition::INITIALIZED).unwrap().reason;
    assert_eq!(reason, "KnownEphemeralTaintsExist");

    let opens = step(&registered, &seen(&node, Nominations::Written), at(32), &settings());
    let opening = patches(&opens.effects)[0];
    assert_eq!(opening.remove_taints, [Taint::joining()]);
    assert_eq!(opening.labels[labels::INITIALIZED], "true");
    opening.apply(&mut node);
    let initialized = step(&registered, &seen(&node, Nominations::Written), at(32), &settings());
    assert_eq!((initialized.claim.phase, initialized.requeue), (Phase::Initialized, Some(Duration::from_secs(1))));
    let written_again = step(&initialized.claim, &seen(&node, Nominations::Written), at(33), &settings());
    assert_eq!(written_again.requeue, Some(Duration::from_secs(1)));
    let done = step(&initialized.claim, &seen(&node, Nominations::None), at(34), &settings());
    assert_eq!(done.requeue, None);
}

#[test]
fn a_node_whose_devices_are_not_reported_opens_and_is_initialized_later() {
    let mut claim = planned("a", 0, Phase::Registered, &["p"]);
    claim.spec.requests.set("nvidia.com/gpu", Quantity::from_units(1));
    let mut node = Node { taints: vec![Taint::joining()], ..ready_node() };
    node.labels.remove(labels::INITIALIZED);
    let state = |claim: &NodeClaim, node: &Node, now| open(&[member(claim, Some(node))], at(now))["a"];
    assert_eq!(state(&claim, &node, 0), Nominations::Written);
    let seen = |node: &Node| {
        let nominations = Nominations::Written;
        Observation { nodes: Seen::Known(vec![node.clone()]), nominations, ..all_is_well() }
    };
    let opens = step(&claim, &seen(&node), at(0), &settings());
    let opening = patches(&opens.effects)[0];
    assert_eq!((&opening.remove_taints[..], opening.labels.is_empty()), (&[Taint::joining()][..], true));
    opening.apply(&mut node);
    assert_eq!(state(&claim, &node, 1), Nominations::None, "its pods cannot run there yet");
    claim.phase = Phase::Initialized;
    assert_eq!(state(&claim, &node, 1), Nominations::Written);
}

#[test]
fn a_node_that_is_not_ready_when_it_opens_is_initialized_later() {
    let claim = planned("default-bbbbb", 0, Phase::Registered, &["p"]);
    let mut node = Node { taints: vec![Taint::joining()], conditions: Vec::new(), ..ready_node() };
    node.labels.remove(labels::INITIALIZED);
    let seen = Observation { nodes: Seen::Known(vec![node]), ..all_is_well() };
    let next = step(&claim, &seen, at(30), &settings());
    assert_eq!(patches(&next.effects)[0].remove_taints, [Taint::joining()]);
    assert!(patches(&next.effects)[0].labels.is_empty());
    let mut initialized = ready_node();
    initialized.taints.push(Taint::joining());
    let seen = Observation { nodes: Seen::Known(vec![initialized]), ..all_is_well() };
    let next = step(&planned("default-bbbbb", 0, Phase::Initialized, &["p"]), &seen, at(30), &settings());
    assert_eq!(patches(&next.effects)[0].remove_taints, [Taint::joining()], "whoever initialized it");
}

fn any_member() -> impl Strategy<Value = (NodeClaim, Option<bool>)> {
    use Phase::{Draining, Initialized, Launched, Registered, Reserved};
    let phase = prop::sample::select(vec![Reserved, Launched, Registered, Registered, Initialized, Draining]);
    let pods = prop::collection::vec(prop::sample::select(vec!["p1", "p2", "p3", "p4"]), 0..3);
    (phase, 0_i64..2, 0_i64..60, prop::option::of(any::<bool>()), pods).prop_map(|(phase, plan, since, ready, pods)| {
        let mut claim = planned("a", plan, phase, &pods);
        for condition in &mut claim.status.conditions {
            condition.last_transition_time = at(since);
        }
        (claim, ready)
    })
}

fn any_members() -> impl Strategy<Value = Vec<(NodeClaim, Option<bool>)>> {
    prop::collection::vec(any_member(), 1..6).prop_map(|mut members| {
        members.iter_mut().enumerate().for_each(|(index, (claim, _))| claim.name = format!("claim-{index}"));
        members
    })
}

proptest! {
    #[test]
    fn ready_nodes_of_a_plan_wait_together_and_not_for_ever(members in any_members(), now in 0_i64..120) {
        let states = states(&members, now);
        for plan in 0..2 {
            let joining: Vec<_> = members.iter().zip(&states).filter(|((claim, ready), _)| {
                claim.created == at(plan) && is_held(claim) && claim.phase < Phase::Initialized && *ready == Some(true)
            }).collect();
            let opened = joining.iter().filter(|(_, state)| **state == Nominations::Written).count();
            prop_assert!(opened == 0 || opened == joining.len(), "{states:?}");
            let overdue = joining.iter().any(|((claim, _), _)| {
                let registered = claim.condition(condition::REGISTERED).filter(|_| claim.phase == Phase::Registered);
                registered.is_some_and(|since| now - since.last_transition_time.as_second() >= 60)
            });
            prop_assert!(!overdue || opened == joining.len(), "{states:?}");
        }
        for ((claim, ready), state) in members.iter().zip(&states) {
            prop_assert!(*state != Nominations::Awaited || (is_held(claim) && claim.phase < Phase::Initialized));
            prop_assert!(*state != Nominations::Written || claim.phase == Phase::Initialized || *ready == Some(true));
        }
    }

    #[test]
    fn a_written_nomination_is_not_missing_and_no_other_pod_gets_one(
        members in any_members(),
        nominated in prop::collection::vec(prop::option::of(0_usize..6), 6),
        deleted in prop::collection::vec(any::<bool>(), 6),
    ) {
        let nodes: Vec<String> = members.iter().map(|(claim, _)| format!("node-{}", claim.name)).collect();
        let open = || members.iter().zip(&nodes).map(|((claim, _), node)| JoinedNode { claim, node });
        let mut pods: Vec<UnboundPod> = (0..6).map(|index| {
            let node = nominated[index].map(|node| format!("node-claim-{node}"));
            UnboundPod { is_terminating: deleted[index], ..unbound(&format!("p{index}"), node.as_deref()) }
        }).collect();
        let before = pods.clone();
        let written: Vec<(String, String)> = {
            let (missing, _) = nominations(open(), &before, at(0));
            missing.iter().map(|one| (one.pod.pod.name.clone(), one.node.to_owned())).collect()
        };
        for (name, node) in &written {
            let pod = pods.iter_mut().find(|pod| pod.pod.name == *name).unwrap();
            prop_assert!(pod.nominated_node.is_none() && !pod.is_terminating);
            let key = format!("default/{name}");
            prop_assert!(open().any(|place| place.node == node && place.claim.spec.nominated_pods.contains(&key)));
            pod.nominated_node = Some(node.clone());
        }
        let (missing, waiting) = nominations(open(), &pods, at(0));
        prop_assert!(missing.is_empty());
        prop_assert!(written.is_empty() || !waiting.is_empty());
    }
}
