use super::*;
use crate::effect::Effect;
use crate::{demoted, has_left_its_reservation, step};
use nodeless_model::Requirement;
use nodeless_model::claim::Charge;

fn of_reservation() -> StringMap {
    StringMap::from([
        (labels::CAPACITY_TYPE.into(), "reserved".into()),
        (labels::CAPACITY_RESERVATION_ID.into(), "cr-1".into()),
        (labels::CAPACITY_RESERVATION_TYPE.into(), "default".into()),
        (labels::CAPACITY_RESERVATION_INTERRUPTIBLE.into(), "false".into()),
    ])
}

/// A claim whose instance was launched into `cr-1`, for which it asked.
fn reserved_claim(phase: Phase) -> NodeClaim {
    let mut claim = claim(phase);
    let launched = claim.status.instance.as_mut().unwrap();
    (launched.capacity_type, launched.price) = (CapacityType::Reserved, 0.0);
    launched.reservation_id = Some("cr-1".into());
    claim.status.labels = of_reservation();
    claim.status.labels.insert(labels::ZONE.into(), "us-east-1a".into());
    claim.spec.requirements.add(labels::CAPACITY_RESERVATION_ID, Requirement::one_of(["cr-1"]));
    claim.spec.charge =
        Charge { resources: ResourceList::from([("cpu", Quantity::from_units(2))]), dollars_per_hour: 0.0 };
    claim
}

#[test]
fn only_a_running_instance_that_ec2_has_outside_a_reservation_has_left_it() {
    let claim = reserved_claim(Phase::Initialized);
    let out = instance("i-1", InstanceState::Running);
    assert!(has_left_its_reservation(&claim, &out));
    let inside = Instance { capacity_type: CapacityType::Reserved, reservation_id: Some("cr-2".into()), ..out.clone() };
    for other in [
        inside,
        instance("i-1", InstanceState::Pending),
        instance("i-1", InstanceState::ShuttingDown),
        instance("i-2", InstanceState::Running),
        Instance { capacity_type: CapacityType::Spot, ..out.clone() },
    ] {
        assert!(!has_left_its_reservation(&claim, &other), "{other:?}");
    }
    assert!(!has_left_its_reservation(&reserved_claim(Phase::Draining), &out));
    assert!(!has_left_its_reservation(&super::claim(Phase::Initialized), &out), "it never was in one");
}

#[test]
fn what_has_left_its_reservation_is_on_demand_with_its_price_and_without_its_labels() {
    let claim = reserved_claim(Phase::Initialized);
    assert_eq!(claim.node_labels()[labels::CAPACITY_RESERVATION_ID], "cr-1");
    let (next, charge) = demoted(&claim, 0.25);
    let launched = next.status.instance.as_ref().unwrap();
    assert_eq!((launched.capacity_type, launched.reservation_id.as_deref()), (CapacityType::OnDemand, None));
    assert!((launched.price - 0.25).abs() < 1e-9 && (charge.dollars_per_hour - 0.25).abs() < 1e-9);
    assert_eq!(charge.resources, claim.spec.charge.resources);
    let mut sized = claim.clone();
    sized.status.root_volume = Some(nodeless_model::RootVolume { gib: 120, dollars_per_hour: 0.5 });
    assert!((demoted(&sized, 0.25).1.dollars_per_hour - 0.75).abs() < 1e-9);
    let shown = next.node_labels();
    assert_eq!((shown[labels::CAPACITY_TYPE].as_str(), shown[labels::ZONE].as_str()), ("on-demand", "us-east-1a"));
    assert!(labels::OF_A_RESERVATION.iter().all(|key| !shown.contains_key(*key)), "{shown:?}");
    assert_eq!(next.spec, claim.spec, "what it was made as never changes");
}

#[test]
fn node_and_nodeclaim_follow_once_and_a_node_in_its_reservation_is_left_alone() {
    for phase in [Phase::Registered, Phase::Initialized] {
        let mut seen = all_is_well();
        let mut node = ready_node();
        node.labels.extend(of_reservation());
        seen.nodes = Seen::Known(vec![node.clone()]);
        seen.mirror = Seen::Known(Some(MirroredClaim { capacity_type: Some(CapacityType::Reserved), ..mirror() }));
        let patches = |claim: &NodeClaim, seen: &Observation| {
            let effects = step(claim, seen, at(100), &settings()).effects;
            let mirrored = effects.iter().position(|effect| *effect == Effect::MirrorClaim);
            let patched = effects.iter().position(|effect| {
                matches!(effect, Effect::PatchNode { patch, .. } if patch.remove_labels == labels::OF_A_RESERVATION
                    && patch.labels.get(labels::CAPACITY_TYPE).is_some_and(|kind| kind == "on-demand"))
            });
            (mirrored, patched)
        };
        let (on_demand, _) = demoted(&reserved_claim(phase), 0.25);
        // With its condition Ready, of which this is not about.
        let on_demand = step(&on_demand, &seen, at(100), &settings()).claim;
        let (mirrored, patched) = patches(&on_demand, &seen);
        assert!(mirrored.is_some() && mirrored < patched, "{phase:?}: {mirrored:?} {patched:?}");
        assert_eq!(patches(&reserved_claim(phase), &seen).1, None, "{phase:?}: it is in its reservation");
        CapacityType::OnDemand.correct(&mut node.labels);
        seen.nodes = Seen::Known(vec![node]);
        if phase == Phase::Initialized {
            assert_eq!(patches(&on_demand, &seen), (Some(0), None), "only the NodeClaim is left");
            seen.mirror = Seen::Known(Some(MirroredClaim { capacity_type: Some(CapacityType::OnDemand), ..mirror() }));
            assert_eq!(step(&on_demand, &seen, at(100), &settings()).effects, [], "and then nothing");
        }
    }
}
