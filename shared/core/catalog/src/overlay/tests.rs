use super::*;
use nodeless_model::{CapacityType, Overhead, PriceChange, ResourceList, StringMap, test_support};

fn offering(zone: &str, capacity_type: CapacityType, price: f64) -> Offering {
    Offering {
        zone: zone.into(),
        capacity_type,
        price,
        available: true,
        lacks_price: false,
        reservation: None,
        requirements: Requirements::from([(labels::ZONE_ID, Requirement::one_of([format!("use1-{zone}")]))]),
    }
}

fn kind(name: &str, family: &str) -> InstanceType {
    InstanceType {
        name: name.into(),
        requirements: Requirements::from([
            (labels::INSTANCE_TYPE, Requirement::one_of([name])),
            (labels::INSTANCE_FAMILY, Requirement::one_of([family])),
            (labels::ZONE, Requirement::one_of(["a", "b"])),
        ]),
        capacity: ResourceList::from([("cpu", Quantity::from_units(2))]),
        ebs_volumes: None,
        root_volume: None,
        overhead: Overhead::default(),
        offerings: vec![
            offering("a", CapacityType::OnDemand, 0.40),
            offering("b", CapacityType::OnDemand, 0.40),
            offering("a", CapacityType::Spot, 0.10),
        ],
    }
}

fn pool(name: &str, labels: &[(&str, &str)]) -> NodePool {
    let labels: StringMap = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let mut pool = test_support::node_pool(name);
    pool.template.labels = labels;
    pool
}

fn overlay(name: &str, weight: i32, requirements: &[(&str, &str)]) -> NodeOverlay {
    let one = |(key, value): &(&str, &str)| ((*key).to_owned(), Requirement::one_of([*value]));
    NodeOverlay {
        name: name.into(),
        weight,
        requirements: requirements.iter().map(one).collect(),
        price: None,
        capacity: ResourceList::new(),
        valid: Ok(()),
    }
}

fn priced(name: &str, weight: i32, requirements: &[(&str, &str)], price: PriceChange) -> NodeOverlay {
    NodeOverlay { price: Some(price), ..overlay(name, weight, requirements) }
}

fn types() -> InstanceTypes {
    InstanceTypes::from(vec![kind("m5.large", "m5"), kind("m6.large", "m6")])
}

fn prices(overlaid: &Overlaid, pool: &str) -> Vec<f64> {
    let types = &overlaid.pools[pool].instance_types;
    types.iter().flat_map(|kind| &kind.offerings).map(|offering| offering.price).collect()
}

fn apply_to(overlays: &[NodeOverlay], pools: &[&NodePool]) -> Overlaid {
    let plain: Vec<Plain<'_>> = pools.iter().map(|pool| Plain { pool, instance_types: types() }).collect();
    apply(overlays, &plain)
}

#[test]
fn without_overlays_the_types_are_unchanged() {
    let (pool, types) = (pool("default", &[]), types());
    let overlaid = apply(
        &[overlay("none", 0, &[(labels::INSTANCE_FAMILY, "x9")])],
        &[Plain { pool: &pool, instance_types: types.clone() }],
    );
    assert!(std::sync::Arc::ptr_eq(&overlaid.pools["default"].instance_types, &types));
}

#[test]
fn a_price_changes_where_type_zone_and_capacity_type_match() {
    let pool = pool("default", &[]);
    let spot =
        priced("spot", 0, &[(labels::CAPACITY_TYPE, "spot"), (labels::INSTANCE_FAMILY, "m6")], PriceChange::Add(0.5));
    let zone = priced("zone", 0, &[(labels::ZONE_ID, "use1-b")], PriceChange::Absolute(1.0));
    let overlaid = apply_to(&[spot, zone], &[&pool]);
    assert_eq!(prices(&overlaid, "default"), [0.40, 1.0, 0.10, 0.40, 1.0, 0.60]);
    assert!(overlaid.conflicts.is_empty());
    assert_eq!(overlaid.pools["default"].priced.len(), 2);
}

#[test]
fn an_overlay_with_a_lower_weight_sets_only_the_remaining_values() {
    let pool = pool("default", &[]);
    let heavy = priced("heavy", 10, &[(labels::INSTANCE_FAMILY, "m5")], PriceChange::Absolute(1.0));
    let light = priced("light", 1, &[], PriceChange::Absolute(2.0));
    let overlaid = apply_to(&[light, heavy], &[&pool]);
    assert_eq!(prices(&overlaid, "default"), [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
}

#[test]
fn conflicting_overlays_of_equal_weight_are_ordered_by_name() {
    let pools = [pool("one", &[]), pool("two", &[("team", "blue")])];
    let first = priced("zz", 5, &[(labels::INSTANCE_FAMILY, "m5")], PriceChange::Absolute(1.0));
    let second = priced("aa", 5, &[], PriceChange::Absolute(2.0));
    let overlaid = apply_to(&[second, first], &[&pools[0], &pools[1]]);
    assert_eq!(
        overlaid.conflicts.keys().collect::<Vec<_>>(),
        ["aa"],
        "the overlay with the last name is applied first"
    );
    let why = &overlaid.conflicts["aa"];
    assert!(why.contains("NodeOverlay zz") && why.contains("m5.large"), "{why}");
    for pool in ["one", "two"] {
        assert_eq!(prices(&overlaid, pool), [1.0, 1.0, 1.0, 0.40, 0.40, 0.10], "not applied at all in {pool}");
    }
}

#[test]
fn overlays_conflict_even_if_one_with_a_greater_weight_sets_the_value() {
    let pool = pool("default", &[]);
    let heavy = priced("heavy", 10, &[], PriceChange::Absolute(1.0));
    let a = priced("a", 5, &[], PriceChange::Absolute(2.0));
    let b = priced("b", 5, &[], PriceChange::Absolute(3.0));
    assert_eq!(apply_to(&[heavy, a, b], &[&pool]).conflicts.keys().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn capacity_is_added_and_only_different_amounts_conflict() {
    let pool = pool("default", &[]);
    let fuse = |name: &str, weight, amount| NodeOverlay {
        capacity: ResourceList::from([("example.com/fuse", Quantity::from_units(amount))]),
        ..overlay(name, weight, &[(labels::INSTANCE_FAMILY, "m5")])
    };
    let overlaid = apply_to(&[fuse("a", 0, 10), fuse("b", 0, 10)], &[&pool]);
    assert!(overlaid.conflicts.is_empty());
    let types = &overlaid.pools["default"].instance_types;
    assert_eq!(types[0].allocatable().get("example.com/fuse").units(), 10);
    assert!(types[1].capacity.get("example.com/fuse").is_zero());
    assert_eq!(overlaid.pools["default"].resourced.iter().collect::<Vec<_>>(), ["m5.large"]);
    let overlaid = apply_to(&[fuse("a", 0, 10), fuse("b", 0, 20)], &[&pool]);
    assert_eq!(overlaid.conflicts.keys().collect::<Vec<_>>(), ["a"]);
    let overlaid = apply_to(&[fuse("a", 1, 10), fuse("b", 0, 20)], &[&pool]);
    assert_eq!(overlaid.pools["default"].instance_types[0].capacity.get("example.com/fuse").units(), 10);
}

#[test]
fn overlays_match_the_labels_and_the_name_of_the_node_pool() {
    let pools = [pool("blue", &[("team", "blue")]), pool("red", &[])];
    let by_label = priced("label", 0, &[("team", "blue")], PriceChange::Absolute(1.0));
    let overlaid = apply_to(&[by_label], &[&pools[0], &pools[1]]);
    assert_eq!(prices(&overlaid, "blue")[0], 1.0);
    assert_eq!(prices(&overlaid, "red")[0], 0.40, "a label that the pool does not set does not match");
    let by_name = priced("name", 0, &[(labels::NODE_POOL, "red")], PriceChange::Percent(-50.0));
    let overlaid = apply_to(&[by_name], &[&pools[0], &pools[1]]);
    assert_eq!((prices(&overlaid, "blue")[0], prices(&overlaid, "red")[0]), (0.40, 0.20));
}

#[test]
fn an_invalid_overlay_is_not_applied() {
    let pool = pool("default", &[]);
    let faulty = NodeOverlay { valid: Err("no".into()), ..priced("faulty", 0, &[], PriceChange::Absolute(9.0)) };
    let overlaid = apply_to(&[faulty], &[&pool]);
    assert_eq!(prices(&overlaid, "default")[0], 0.40);
    assert!(overlaid.conflicts.is_empty(), "its error is reported elsewhere");
}

#[test]
fn a_price_for_listed_types_makes_those_without_price_available() {
    let pool = pool("default", &[]);
    let preview = |lacks_price| {
        let mut preview = kind("m9.large", "m9");
        for offering in &mut preview.offerings {
            (offering.price, offering.available, offering.lacks_price) = (0.0, false, lacks_price);
        }
        InstanceTypes::from(vec![preview])
    };
    let available = |overlay: NodeOverlay, lacks_price| {
        let overlaid = apply(&[overlay], &[Plain { pool: &pool, instance_types: preview(lacks_price) }]);
        let kinds = overlaid.pools["default"].instance_types.clone();
        kinds[0].offerings.iter().filter(|offering| offering.available && offering.price > 0.0).count()
    };
    let named = [(labels::INSTANCE_TYPE, "m9.large")];
    assert_eq!(available(priced("o", 0, &named, PriceChange::Absolute(0.5)), true), 3);
    // Types without capacity or subnet stay unavailable, and an adjustment of an unknown price makes none available.
    assert_eq!(available(priced("o", 0, &named, PriceChange::Absolute(0.5)), false), 0);
    assert_eq!(available(priced("o", 0, &named, PriceChange::Add(0.5)), true), 0);
    let family = [(labels::INSTANCE_FAMILY, "m9")];
    assert_eq!(available(priced("o", 0, &family, PriceChange::Absolute(0.5)), true), 0);
}
