//! Offerings: zones, prices, shortages, placement groups and reservations.

use super::*;
use crate::node_class::{CapacityReservation, ReservationKind};
use crate::unavailable::Unavailable;
use jiff::Timestamp;
use nodeless_model::shortage::Shortage;
use nodeless_model::{CapacityType, ReservedInstances, Reuse};

#[test]
fn ids_of_zones_are_those_of_the_node_class_or_of_the_catalog() {
    let mut catalog = catalog();
    let of_offerings = |kind: &InstanceType| -> Option<String> {
        let there = kind.offerings.iter().find(|offering| offering.zone == "us-east-1a")?;
        there.requirements.get(labels::ZONE_ID)?.single().map(Into::into)
    };
    let mut settings = settings(AmiFamily::Al2023);
    let mut found = |catalog: &Catalog, id: &str| {
        settings.zones = vec![Zone { id: id.into(), ..zone('a') }];
        let kind =
            instance_type(catalog, catalog.get("m5.large").unwrap(), &settings, &UnavailableOfferings::default());
        (label(&kind, labels::ZONE_ID), of_offerings(&kind))
    };
    let both = |id: &str| (Some(id.to_owned()), Some(id.to_owned()));
    assert_eq!(found(&catalog, "use1-az4"), both("use1-az4"));
    assert_eq!(found(&catalog, ""), both("use1-az2"));
    catalog.zones.iter_mut().for_each(|zone| zone.id.clear());
    assert_eq!(found(&catalog, "use1-az4"), both("use1-az4"));
    assert_eq!(found(&catalog, ""), (None, None));
}

#[test]
fn zones_are_those_with_subnets_and_offerings() {
    let mut settings = settings(AmiFamily::Al2023);
    settings.zones = vec![zone('a'), zone('e')];
    let m5 = build("m5.large", &settings);
    assert_eq!(label(&m5, labels::ZONE).as_deref(), Some("us-east-1a"));
    assert_eq!(label(&m5, labels::ZONE_ID).as_deref(), Some("use1-az2"));
    let available: Vec<_> = m5.offerings.iter().filter(|offering| offering.available).collect();
    assert_eq!(available.len(), 2);
    assert!(available.iter().all(|offering| offering.zone == "us-east-1a"));
    // Nodes in zones without a subnet still have a price.
    assert!(m5.offerings.iter().any(|offering| offering.zone == "us-east-1d" && offering.price > 0.0));
}

#[test]
fn spot_is_cheaper_and_each_type_has_the_capacity_types_of_ec2() {
    let m5 = build("m5.large", &settings(AmiFamily::Al2023));
    assert_eq!(m5.cheapest_offering(&Requirements::new()).unwrap().capacity_type, CapacityType::Spot);
    let on_demand = m5.offerings.iter().filter(|offering| offering.capacity_type == CapacityType::OnDemand);
    assert!(on_demand.clone().count() == 5 && on_demand.clone().all(|offering| offering.price == 0.096));
    let metal = build("u-6tb1.56xlarge", &settings(AmiFamily::Al2023));
    assert!(metal.offerings.iter().all(|offering| offering.capacity_type == CapacityType::OnDemand));
    assert_eq!(label(&metal, labels::CAPACITY_TYPE).as_deref(), Some("on-demand"));
}

#[test]
fn an_offering_without_a_price_is_not_available() {
    let mut facts = Facts::embedded().unwrap().clone();
    facts.on_demand_prices.insert("m5.large".into(), 0.0);
    facts.on_demand_prices.remove("m6i.large");
    let catalog = Catalog::synthetic(1, &facts);
    for name in ["m5.large", "m6i.large"] {
        let kind = instance_type(
            &catalog,
            catalog.get(name).unwrap(),
            &settings(AmiFamily::Al2023),
            &UnavailableOfferings::default(),
        );
        let on_demand = kind.offerings.iter().filter(|offering| offering.capacity_type == CapacityType::OnDemand);
        assert!(on_demand.clone().count() == 5 && on_demand.clone().all(|offering| !offering.available), "{name}");
    }
}

#[test]
fn only_offerings_without_a_record_are_available() {
    let record = Unavailable {
        shortage: Shortage::of_offering("m5.large", "us-east-1a", CapacityType::Spot),
        until: Timestamp::from_second(180).unwrap(),
    };
    let available = |second| {
        let short = UnavailableOfferings::new([record.clone()], Timestamp::from_second(second).unwrap());
        let types = catalog().instance_types(&settings(AmiFamily::Al2023), &short);
        types.iter().flat_map(|kind| &kind.offerings).filter(|offering| offering.available).count()
    };
    assert_eq!(available(0) + 1, available(180));
}

/// The settings with a placement group of three partitions.
fn in_partitions() -> NodeClassSettings {
    let mut settings = settings(AmiFamily::Al2023);
    settings.placement_group = Some(PlacementGroup { id: "pg-1".into(), strategy: "partition".into(), partitions: 3 });
    settings
}

#[test]
fn nodes_in_a_placement_group_with_partitions_have_one_of_them() {
    let kind = build("m5.large", &in_partitions());
    let partitions = kind.requirements.get(labels::PLACEMENT_GROUP_PARTITION).unwrap();
    assert_eq!(*partitions, Requirement::one_of(["1", "2", "3"]));
    assert_eq!(label(&kind, labels::PLACEMENT_GROUP_ID).as_deref(), Some("pg-1"));
    // One offering stands for all partitions.
    let plain = build("m5.large", &settings(AmiFamily::Al2023));
    assert_eq!(kind.offerings.len(), plain.offerings.len());
    assert!(plain.offerings.iter().all(|one| one.requirements.get(labels::PLACEMENT_GROUP_PARTITION).is_none()));
    assert!(plain.requirements.get(labels::PLACEMENT_GROUP_PARTITION).unwrap().allows_absence());
}

#[test]
fn a_shortage_in_a_partition_leaves_the_other_partitions() {
    let short = |partition| Shortage {
        placement_group: Some("pg-1".into()),
        partition,
        ..Shortage::of_offering("m5.large", "us-east-1a", CapacityType::OnDemand)
    };
    let (catalog, settings) = (catalog(), in_partitions());
    let partitions = |short: Vec<Shortage>| {
        let until = Timestamp::from_second(180).unwrap();
        let records = short.into_iter().map(|shortage| Unavailable { shortage, until });
        let unavailable = UnavailableOfferings::new(records, Timestamp::UNIX_EPOCH);
        let kind = instance_type(&catalog, catalog.get("m5.large").unwrap(), &settings, &unavailable);
        let own = kind
            .offerings
            .into_iter()
            .filter(|one| one.zone == "us-east-1a" && one.capacity_type == CapacityType::OnDemand);
        own.map(|one| (one.available, one.requirements.get(labels::PLACEMENT_GROUP_PARTITION).unwrap().clone()))
            .collect()
    };
    let one_of = |numbers: &[&str]| Requirement::one_of(numbers.iter().copied());
    let of_two: Vec<(bool, Requirement)> = partitions(vec![short(Some(2))]);
    assert_eq!(of_two, [(true, one_of(&["1", "3"])), (false, one_of(&["2"]))]);
    let of_all: Vec<(bool, Requirement)> = partitions(vec![short(None)]);
    assert_eq!(of_all, [(false, one_of(&["1", "2", "3"]))]);
}

#[test]
fn a_shortage_in_a_placement_group_affects_no_class_outside_it() {
    let shortage = Shortage {
        placement_group: Some("pg-1".into()),
        ..Shortage::of_offering("m5.large", "us-east-1a", CapacityType::Spot)
    };
    let record = Unavailable { shortage, until: Timestamp::from_second(180).unwrap() };
    let short = UnavailableOfferings::new([record], Timestamp::UNIX_EPOCH);
    let available = |group: Option<&str>| {
        let mut settings = settings(AmiFamily::Al2023);
        settings.placement_group =
            group.map(|id| PlacementGroup { id: id.into(), strategy: "spread".into(), partitions: 0 });
        let types = catalog().instance_types_named(["m5.large"], &settings, &short);
        types[0].offerings.iter().filter(|offering| offering.available).count()
    };
    assert_eq!(available(None), available(Some("pg-2")));
    assert_eq!(available(None), available(Some("pg-1")) + 1);
}

#[test]
fn a_full_reservation_leaves_the_others_of_its_type_and_zone() {
    let shortage = Shortage {
        reservation_id: Some("cr-1".into()),
        ..Shortage::of_offering("m5.large", "us-east-1b", CapacityType::Reserved)
    };
    let record = Unavailable { shortage, until: Timestamp::from_second(180).unwrap() };
    let short = UnavailableOfferings::new([record], Timestamp::UNIX_EPOCH);
    let mut settings = settings(AmiFamily::Al2023);
    settings.capacity_reservations = vec![reservation("cr-1", 1, false), reservation("cr-2", 1, false)];
    let types = catalog().instance_types_named(["m5.large"], &settings, &short);
    let reserved = types[0].offerings.iter().filter(|offering| offering.available);
    let ids: Vec<&str> = reserved.filter_map(|one| Some(one.reservation.as_ref()?.id.as_str())).collect();
    assert_eq!(ids, ["cr-2"]);
}

fn reservation(id: &str, remaining: u32, expiring: bool) -> CapacityReservation {
    CapacityReservation {
        id: id.into(),
        instance_type: "m5.large".into(),
        zone: "us-east-1b".into(),
        kind: ReservationKind::Default,
        interruptible: false,
        instances: ReservedInstances { available: remaining, used: Some(1) },
        expiring,
    }
}

#[test]
fn a_reservation_is_an_offering_with_a_very_low_price() {
    let mut settings = settings(AmiFamily::Al2023);
    settings.capacity_reservations =
        vec![reservation("cr-1", 3, false), reservation("cr-2", 0, false), reservation("cr-3", 2, true)];
    let m5 = build("m5.large", &settings);
    let cheapest = m5.cheapest_offering(&Requirements::new()).unwrap();
    assert_eq!(cheapest.capacity_type, CapacityType::Reserved);
    assert_eq!(cheapest.reservation.as_ref().map(|reservation| reservation.remaining), Some(3));
    assert!(cheapest.price < 1e-7 && cheapest.price > 0.0);
    let reserved = Requirements::from([(labels::CAPACITY_TYPE, Requirement::one_of(["reserved"]))]);
    assert_eq!(m5.available_offerings(&reserved).count(), 1);
    // A requirement for one reservation matches neither another one nor on-demand capacity.
    let other = Requirements::from([(labels::CAPACITY_RESERVATION_ID, Requirement::one_of(["cr-2"]))]);
    assert_eq!(m5.available_offerings(&other).count(), 0);
    assert!(build("m5.xlarge", &settings).offerings.iter().all(|offering| offering.reservation.is_none()));
}

#[test]
fn the_place_of_an_instance_in_a_reservation_may_be_taken_again_if_the_account_owns_it() {
    let of = |change: &dyn Fn(&mut CapacityReservation, &mut NodeClassSettings)| {
        let mut settings = settings(AmiFamily::Al2023);
        let mut full = reservation("cr-1", 0, false);
        change(&mut full, &mut settings);
        settings.capacity_reservations = vec![full];
        let m5 = build("m5.large", &settings);
        let offering = m5.offerings.iter().find(|offering| offering.reservation.is_some()).unwrap();
        assert!(!offering.available);
        offering.reservation.as_ref().unwrap().reuse
    };
    assert_eq!(of(&|_, _| {}), Reuse::Owned { used: 1 });
    assert_eq!(of(&|full, _| full.instances.used = None), Reuse::Shared);
    assert_eq!(of(&|full, _| full.interruptible = true), Reuse::Shared);
    assert_eq!(of(&|full, _| full.expiring = true), Reuse::No);
    assert_eq!(of(&|_, settings| settings.zones.retain(|zone| zone.name != "us-east-1b")), Reuse::No);
}
