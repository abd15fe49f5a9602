//! Savings Plans and Reserved Instances of the account, as they are stored with the catalog.

use crate::support::SimulatedAws;
use jiff::{SignedDuration, Timestamp};
use nodeless_catalog::Catalog;
use nodeless_model::listed_commitments::{
    AccountCommitments, ListedReservedInstances, ListedSavingsPlan, RecurringCharge,
};
use nodeless_ports::CatalogSource as _;
use std::collections::BTreeMap;

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

fn plan(id: &str, kind: &str, state: &str, dollars: &str) -> ListedSavingsPlan {
    ListedSavingsPlan {
        id: id.into(),
        savings_plan_type: kind.into(),
        commitment: dollars.into(),
        currency: "USD".into(),
        state: state.into(),
        start: at("2026-01-01T00:00:00Z"),
        end: at("2028-12-31T23:59:59Z"),
        family: None,
        region: None,
    }
}

fn reserved(id: &str, state: &str) -> ListedReservedInstances {
    ListedReservedInstances {
        id: id.into(),
        instance_type: "m5.large".into(),
        instance_count: 3,
        availability_zone: Some("us-east-1a".into()),
        product_description: "Linux/UNIX".into(),
        instance_tenancy: "default".into(),
        currency_code: "USD".into(),
        state: state.into(),
        start: at("2026-01-01T00:00:00Z"),
        end: at("2027-01-01T00:00:00Z"),
        duration: 31_536_000.0,
        fixed_price: 250.5,
        usage_price: 0.0,
        recurring_charges: vec![RecurringCharge { amount: 0.0625, frequency: "Hourly".into() }],
    }
}

fn rates(types: &[(&str, f64)]) -> BTreeMap<String, f64> {
    types.iter().map(|(name, rate)| ((*name).to_owned(), *rate)).collect()
}

/// Rates of types that the region sells, and of one that it does not sell.
const RATES: [(&str, f64); 4] = [("m5.large", 0.0604), ("m5.xlarge", 0.1208), ("m6g.large", 0.0487), ("x9.large", 0.1)];

fn buy(world: &SimulatedAws) -> AccountCommitments {
    let reserved = vec![reserved("ri-1", "active"), reserved("ri-2", "retired")];
    let mut bought = AccountCommitments { reserved, ..AccountCommitments::default() };
    for (id, kind, state, dollars) in [
        ("sp-small", "Compute", "active", "0.5"),
        ("sp-large", "Compute", "active", "7.25"),
        ("sp-ended", "Compute", "retired", "1"),
        ("sp-other", "SageMaker", "active", "1"),
    ] {
        bought.add_plan(plan(id, kind, state, dollars), rates(&RATES));
    }
    world.ec2.change_account(|account| account.commitments = Some(bought.clone()));
    bought
}

fn hours_ago(hours: i64) -> Option<Timestamp> {
    Some(Timestamp::now() - SignedDuration::from_hours(hours))
}

#[tokio::test]
async fn active_commitments_are_stored_with_the_rates_of_types_that_the_region_sells() {
    let world = SimulatedAws::new().await;
    let bought = buy(&world);
    let catalog = world.source_with_commitments().catalog(None).await.unwrap();
    let read = catalog.commitments.clone().unwrap();
    assert_eq!(read.reserved, bought.reserved[..1]);
    let ids: Vec<&str> = read.plans.iter().map(|(plan, _)| plan.id.as_str()).collect();
    assert_eq!(ids, ["sp-large", "sp-small"], "the largest first");
    assert_eq!(read.plans[0].0, bought.plans[1].0);
    assert_eq!(read.rates, [rates(&RATES[..3])], "once for both");
    assert!(world.events().is_empty(), "{:?}", world.events());
    let decoded = Catalog::decode(&catalog.encode().unwrap()).unwrap();
    assert_eq!(decoded.commitments, catalog.commitments);
}

#[tokio::test]
async fn without_the_option_nothing_is_asked() {
    let world = SimulatedAws::new().await;
    buy(&world);
    let catalog = world.source().catalog(None).await.unwrap();
    assert_eq!(catalog.commitments, None);
    let calls = ["ec2:DescribeReservedInstances", "savingsplans:DescribeSavingsPlans"];
    assert_eq!(calls.map(|call| world.calls(call)), [0, 0]);

    // It is switched on and off between two reads of the types.
    let with = world.source_with_commitments().catalog(Some(&catalog)).await.unwrap();
    assert!(with.commitments.is_some());
    let again = world.source_with_commitments().catalog(Some(&with)).await.unwrap();
    assert_eq!(again.commitments, with.commitments);
    assert_eq!(world.calls(calls[0]), 1, "not before the next hour");
    assert_eq!(world.source().catalog(Some(&with)).await.unwrap().commitments, None);
}

#[tokio::test]
async fn commitments_that_cannot_be_read_stay_as_they_were() {
    let world = SimulatedAws::new().await;
    buy(&world);
    let source = world.source_with_commitments();
    let good = source.catalog(None).await.unwrap();
    world.ec2.change_account(|account| account.commitments = None);
    for denied in ["DescribeReservedInstances", "DescribeSavingsPlans"] {
        world.ec2.deny(denied);
        let aged = Catalog { read: hours_ago(2), ..good.clone() };
        let kept = source.catalog(Some(&aged)).await.unwrap();
        assert_eq!(kept.commitments, good.commitments, "{denied}");
        assert_eq!(world.events()["commitments-unread"]["kept"], true);
        world.ec2.allow(denied);
    }
    world.ec2.deny("DescribeSavingsPlans");
    let none = source.catalog(None).await.unwrap();
    assert_eq!(none.commitments, None);
    assert_eq!(world.events()["commitments-unread"]["kept"], false);
}

#[tokio::test]
async fn a_commitment_with_a_value_that_cannot_be_used_is_left_out() {
    let world = SimulatedAws::new().await;
    buy(&world);
    world.ec2.change_account(|account| {
        let all = account.commitments.as_mut().unwrap();
        all.plans[0].0.commitment = "half".into();
        all.reserved[0].duration = 0.0;
    });
    let read = world.source_with_commitments().catalog(None).await.unwrap().commitments.unwrap();
    assert_eq!((read.reserved.len(), read.plans.len()), (0, 1));
    let left_out = world.events()["commitments-left-out"]["leftOut"].to_string();
    assert!(left_out.contains("sp-small: its commitment") && left_out.contains("ri-1: its duration"), "{left_out}");
}
