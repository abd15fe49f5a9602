//! What holds for all instances and commitments.

use crate::support::{commitments, plan, reserved};
use nodeless_commitments::{Bill, Commitments, Usage, apply};
use nodeless_model::CapacityType;
use proptest::prelude::*;

const TYPES: [(&str, f64); 6] = [
    ("m5.large", 0.096),
    ("m5.xlarge", 0.192),
    ("m5.4xlarge", 0.768),
    ("c5.large", 0.085),
    ("c5.2xlarge", 0.34),
    ("g5.xlarge", 1.006),
];
const ZONES: [&str; 2] = ["us-east-1a", "us-east-1b"];
const CAPACITY_TYPES: [CapacityType; 4] =
    [CapacityType::OnDemand, CapacityType::OnDemand, CapacityType::Spot, CapacityType::Reserved];

fn usage() -> impl Strategy<Value = Usage<'static>> {
    (0..TYPES.len(), 0..ZONES.len(), prop::sample::select(&CAPACITY_TYPES[..]), 0..20).prop_map(
        |(kind, zone, capacity_type, odd)| {
            let (instance_type, price) = TYPES[kind];
            let price = if capacity_type == CapacityType::Spot { price * 0.3 } else { price };
            let price = (odd > 0).then_some(price);
            Usage {
                instance_type,
                zone: ZONES[zone],
                capacity_type,
                linux: odd != 1,
                hours: f64::from(odd % 3) * 0.5,
                price,
            }
        },
    )
}

fn instances() -> impl Strategy<Value = Vec<Usage<'static>>> {
    prop::collection::vec(usage(), 0..24)
}

fn some() -> impl Strategy<Value = Commitments> {
    let reserved = (0..TYPES.len(), 1..5_u32, 0..3_usize)
        .prop_map(|(kind, count, zone)| reserved(TYPES[kind].0, count, ZONES.get(zone).copied()));
    let plan = (0..4_usize, 0.0..2.0, 0.3..0.9).prop_map(|(kind, dollars, share): (usize, f64, f64)| {
        let family = [Some("m5"), Some("c5"), None, None][kind];
        // Percentages differ by type.
        let rate = |place: usize, price: f64| price * (share - 0.02 * (place % 3) as f64);
        let own = TYPES.iter().enumerate().filter(|(_, (name, _))| family.is_none_or(|own| name.starts_with(own)));
        let rates: Vec<(&str, f64)> = own.map(|(place, (name, price))| (*name, rate(place, *price))).collect();
        plan(family, dollars, &rates)
    });
    (prop::collection::vec(reserved, 0..5), prop::collection::vec(plan, 0..4))
        .prop_map(|(reserved, plans)| commitments(reserved, plans))
}

fn list_price(instances: &[Usage<'_>]) -> f64 {
    let priced = instances.iter().filter(|one| one.capacity_type != CapacityType::Reserved);
    priced.filter_map(|one| Some(one.price? * one.hours)).sum()
}

fn sums(bill: &Bill) -> [f64; 5] {
    [bill.covered(), bill.uncovered(), bill.committed(), bill.unused(), bill.paid()]
}

fn are_close(one: f64, two: f64) -> bool {
    (one - two).abs() < 1e-9
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_paid_is_the_commitments_and_what_they_do_not_cover(instances in instances(), all in some()) {
        let bill = apply(&instances, &all);
        prop_assert!(are_close(bill.committed(), all.dollars_per_hour()));
        prop_assert!(are_close(bill.paid(), bill.committed() + bill.uncovered()));
        for (one, of) in bill.instances.iter().zip(&instances) {
            let price = of.price.unwrap_or(0.0) * of.hours;
            prop_assert!(one.covered >= 0.0 && one.covered <= price + 1e-9);
            let expected = if of.capacity_type == CapacityType::Reserved { 0.0 } else { price - one.covered };
            prop_assert!(are_close(one.uncovered, expected));
            let eligible = of.linux && of.capacity_type != CapacityType::Spot;
            prop_assert!(eligible || one.covered == 0.0);
        }
    }

    #[test]
    fn no_commitment_is_used_more_than_it_has(instances in instances(), all in some()) {
        let bill = apply(&instances, &all);
        for one in &bill.commitments {
            prop_assert!(one.used() >= 0.0 && one.used() <= one.committed + 1e-9 && one.unused() >= -1e-9);
            prop_assert!(are_close(one.used() + one.unused(), one.committed));
        }
        // Of Savings Plans alone: what is used pays for what is covered, at rates of at least a quarter of the price.
        let plans = Commitments { plans: all.plans, ..Commitments::default() };
        let bill = apply(&instances, &plans);
        let used: f64 = bill.commitments.iter().map(|one| one.used()).sum();
        prop_assert!(bill.covered() >= used - 1e-9 && bill.covered() <= used / 0.25 + 1e-9);
    }

    #[test]
    fn the_order_of_instances_changes_no_sum((instances, shuffled) in instances().prop_flat_map(|all| {
        (Just(all.clone()), Just(all).prop_shuffle())
    }), all in some()) {
        let (one, two) = (sums(&apply(&instances, &all)), sums(&apply(&shuffled, &all)));
        prop_assert!(one.iter().zip(two).all(|(one, two)| are_close(*one, two)), "{one:?} {two:?}");
    }

    #[test]
    fn more_commitment_never_leaves_more_uncovered(instances in instances(), all in some(), more in some(), factor in 1.0..3.0) {
        let before = apply(&instances, &all).uncovered();
        let mut larger = all.clone();
        larger.plans.iter_mut().for_each(|plan| plan.dollars_per_hour *= factor);
        larger.reserved.iter_mut().for_each(|reserved| reserved.count *= factor);
        prop_assert!(apply(&instances, &larger).uncovered() <= before + 1e-9);
        let mut longer = all;
        longer.reserved.extend(more.reserved);
        longer.plans.extend(more.plans);
        prop_assert!(apply(&instances, &longer).uncovered() <= before + 1e-9);
    }

    #[test]
    fn commitments_never_raise_what_is_paid_besides_them(instances in instances(), all in some()) {
        let bill = apply(&instances, &all);
        prop_assert!(bill.uncovered() <= list_price(&instances) + 1e-9);
        prop_assert!(are_close(apply(&instances, &Commitments::default()).paid(), list_price(&instances)));
    }

    #[test]
    fn a_further_instance_never_lowers_what_is_paid(instances in instances(), more in usage(), all in some()) {
        let before = apply(&instances, &all);
        let mut longer = instances;
        longer.push(more);
        let after = apply(&longer, &all);
        prop_assert!(after.paid() >= before.paid() - 1e-9);
        prop_assert!(after.unused() <= before.unused() + 1e-9);
    }
}
