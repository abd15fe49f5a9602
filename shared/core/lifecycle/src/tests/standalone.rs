//! Claims that were made of NodeClaim objects without a NodePool.

use super::*;
use crate::{Collection, Needs, Registration, World, absorb, collect, step};
use nodeless_model::Unusable;
use nodeless_model::claim::TerminationReason;

fn standalone(phase: Phase) -> NodeClaim {
    NodeClaim { node_pool: None, ..claim(phase) }
}

/// The object of the claim: its uid is that of the claim.
fn object() -> MirroredClaim {
    let invalid = Err(Unusable("not relevant here".into()));
    MirroredClaim { uid: "uid".into(), owner: None, standalone: Some(Box::new(invalid)), ..mirror() }
}

#[test]
fn it_ends_with_its_object_and_not_with_another_of_the_same_name() {
    let reason = |mirror: Seen<Option<MirroredClaim>>, phase: Phase| {
        let seen = Observation { mirror, node_pool_exists: Seen::default(), ..all_is_well() };
        let next = step(&standalone(phase), &seen, at(1), &settings());
        next.claim.status.termination.map(|end| end.reason)
    };
    for phase in [Phase::Reserved, Phase::Launched, Phase::Initialized] {
        assert_eq!(reason(Seen::Known(Some(object())), phase), None, "{phase:?}");
        assert_eq!(reason(Seen::default(), phase), None, "{phase:?}: the object is unknown");
        assert_eq!(reason(Seen::Known(None), phase), Some(TerminationReason::Deleted), "{phase:?}");
        let other = MirroredClaim { uid: "other".into(), ..object() };
        assert_eq!(reason(Seen::Known(Some(other)), phase), Some(TerminationReason::Deleted), "{phase:?}");
    }
}

#[test]
fn it_needs_no_node_pool_has_no_charge_and_counts_for_no_registration_health() {
    let before = standalone(Phase::Launched);
    assert!(!Needs::new(&before).node_pool && Needs::new(&claim(Phase::Launched)).node_pool);
    let launched = absorb(&standalone(Phase::Reserved), &launch_result("i-1"), at(1), &settings());
    assert_eq!((launched.claim.phase, launched.charge), (Phase::Launched, None));
    let after = standalone(Phase::Registered);
    assert_eq!(Registration::new(&before, &after), None);
    assert_eq!(Registration::new(&claim(Phase::Launched), &claim(Phase::Registered)), Some(Registration::Joined));
}

#[test]
fn its_instance_is_adopted_with_the_identity_of_its_object() {
    let mut own = instance("i-1", InstanceState::Running);
    own.tags.insert(labels::NODE_POOL.into(), String::new());
    let mut node = ready_node();
    node.labels.remove(labels::NODE_POOL);
    let (instances, nodes, mirrors) = ([own], [node], [object()]);
    let world = World {
        claims: &[],
        instances: &instances,
        nodes: &nodes,
        mirrors: &mirrors,
        other_claims: &[],
        node_pools: &[],
    };
    let found = collect(&world, at(100), &settings());
    let [Collection::Adopt(claim)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&claim.node_pool, claim.uid.as_str(), claim.name.as_str()), (&None, "uid", "default-bbbbb"));
    assert!(claim.spec.charge.resources.is_empty() && !claim.spec.labels.contains_key(labels::NODE_POOL));
}

#[test]
fn its_object_is_removed_without_a_claim_only_if_it_is_being_deleted() {
    let unclaimed = |object: MirroredClaim| {
        let mirrors = [MirroredClaim { provider_id: None, ..object }];
        let world =
            World { claims: &[], instances: &[], nodes: &[], mirrors: &mirrors, other_claims: &[], node_pools: &[] };
        collect(&world, at(100), &settings())
    };
    assert_eq!(unclaimed(object()), []);
    let deleted = MirroredClaim { deletion_timestamp: Some(at(1)), ..object() };
    assert!(matches!(&unclaimed(deleted)[..], [Collection::RemoveMirror { uid, .. }] if uid == "uid"));
}
