//! Commitments as the API lists them, and many instances together.

use crate::support::{close, commitments, plan, reserved};
use nodeless_commitments::{
    Instance, Instances, Rate, RateProperty, bill, check_plan, check_reserved, may_apply, of_account, rates_by_type,
};
use nodeless_model::CapacityType;
use nodeless_model::listed_commitments::{
    AccountCommitments, ListedReservedInstances, ListedSavingsPlan, RecurringCharge,
};
use std::borrow::Cow;
use std::collections::BTreeMap;

const REGION: &str = "us-east-1";

fn listed_plan(id: &str, family: Option<&str>) -> ListedSavingsPlan {
    ListedSavingsPlan {
        id: id.to_owned(),
        savings_plan_type: if family.is_some() { "EC2Instance" } else { "Compute" }.to_owned(),
        commitment: "1.5".to_owned(),
        currency: "USD".to_owned(),
        state: "active".to_owned(),
        start: "2026-01-01T00:00:00Z".parse().unwrap(),
        end: "2027-01-01T00:00:00Z".parse().unwrap(),
        family: family.map(str::to_owned),
        region: family.map(|_| REGION.to_owned()),
    }
}

fn listed_reserved(id: &str) -> ListedReservedInstances {
    ListedReservedInstances {
        id: id.to_owned(),
        instance_type: "m5.large".to_owned(),
        instance_count: 2,
        availability_zone: None,
        product_description: "Linux/UNIX".to_owned(),
        instance_tenancy: "default".to_owned(),
        currency_code: "USD".to_owned(),
        state: "active".to_owned(),
        start: "2026-01-01T00:00:00Z".parse().unwrap(),
        end: "2026-07-01T00:00:00Z".parse().unwrap(),
        duration: 3600.0 * 100.0,
        fixed_price: 10.0,
        usage_price: 0.0,
        recurring_charges: vec![RecurringCharge { amount: 0.02, frequency: "Hourly".to_owned() }],
    }
}

fn rate<'a>(instance_type: &'a str, region: &'a str, dollars: &'a str) -> Rate<'a> {
    let property =
        |name: &'a str, value: &'a str| RateProperty { name: Cow::Borrowed(name), value: Cow::Borrowed(value) };
    Rate {
        rate: Cow::Borrowed(dollars),
        unit: Cow::Borrowed("Hrs"),
        product_type: Cow::Borrowed("EC2"),
        usage_type: Cow::Borrowed("BoxUsage:x"),
        currency: Cow::Borrowed("USD"),
        properties: vec![
            property("instanceType", instance_type),
            property("region", region),
            property("productDescription", "Linux/UNIX"),
            property("tenancy", "shared"),
        ],
    }
}

#[test]
fn commitments_end_when_their_term_ends_whenever_they_were_listed() {
    let mut account = AccountCommitments { reserved: vec![listed_reserved("ri")], ..AccountCommitments::default() };
    account.add_plan(listed_plan("compute", None), BTreeMap::from([("m5.large".to_owned(), 0.06)]));
    let at = |time: &str| of_account(&account, REGION, time.parse().unwrap());
    let both = at("2026-06-30T23:59:59Z");
    assert_eq!((both.reserved.len(), both.plans.len()), (1, 1));
    close(both.reserved[0].dollars_per_hour, 2.0 * (10.0 / 100.0 + 0.02));
    close(both.plans[0].dollars_per_hour, 1.5);
    assert_eq!(both.plans[0].rate("m5.large"), Some(0.06));
    let one = at("2026-07-01T00:00:00Z");
    assert_eq!((one.reserved.len(), one.plans.len()), (0, 1));
    assert!(at("2027-01-01T00:00:00Z").is_empty() && at("2025-12-31T00:00:00Z").is_empty());
}

#[test]
fn a_listed_plan_covers_its_family_in_its_region() {
    let own = listed_plan("m5", Some("m5"));
    let all =
        [rate("m5.large", REGION, "0.05"), rate("c5.large", REGION, "0.04"), rate("m5.large", "eu-west-1", "0.06")];
    assert_eq!(rates_by_type(&own, &all, REGION), Ok(BTreeMap::from([("m5.large".to_owned(), 0.05)])));
    let compute = rates_by_type(&listed_plan("any", None), &all, REGION).unwrap();
    assert_eq!(compute.keys().collect::<Vec<_>>(), ["c5.large", "m5.large"]);
    assert!(may_apply(&own, REGION) && !may_apply(&own, "eu-west-1"));
    let sage_maker = ListedSavingsPlan { savings_plan_type: "SageMaker".to_owned(), ..listed_plan("s", None) };
    let yuan = ListedSavingsPlan { currency: "CNY".to_owned(), ..listed_plan("y", None) };
    assert!(!may_apply(&sage_maker, REGION) && !may_apply(&yuan, REGION));
}

#[test]
fn values_that_cannot_be_used_are_named() {
    let plan = ListedSavingsPlan { commitment: "much".to_owned(), ..listed_plan("p", None) };
    assert_eq!(check_plan(&plan).unwrap_err().to_string(), "p: its commitment \"much\" is no number of dollars");
    let reserved = ListedReservedInstances { duration: 0.0, ..listed_reserved("r") };
    assert!(check_reserved(&reserved).unwrap_err().to_string().starts_with("r: its duration"));
    let wrong = rates_by_type(&listed_plan("p", None), &[rate("m5.large", REGION, "free")], REGION).unwrap_err();
    assert!(wrong.to_string().starts_with("p: the rate \"free\" of m5.large"), "{wrong}");
    assert!(check_plan(&listed_plan("p", None)).is_ok() && check_reserved(&listed_reserved("r")).is_ok());
}

fn instance(instance_type: &str, capacity_type: CapacityType, price: f64) -> Instance {
    let (instance_type, zone) = (instance_type.to_owned(), "us-east-1a".to_owned());
    Instance { instance_type, zone, capacity_type, linux: true, price: Some(price) }
}

#[test]
fn instances_that_are_counted_together_cost_what_they_cost_one_by_one() {
    let all = commitments(
        vec![reserved("m5.large", 3, None)],
        vec![plan(None, 0.1, &[("m5.large", 0.06), ("c5.large", 0.05)])],
    );
    let one_by_one: Vec<Instance> = [
        ("m5.large", CapacityType::OnDemand, 0.096),
        ("m5.large", CapacityType::OnDemand, 0.096),
        ("m5.xlarge", CapacityType::OnDemand, 0.192),
        ("c5.large", CapacityType::OnDemand, 0.085),
        ("c5.large", CapacityType::Spot, 0.03),
    ]
    .map(|(name, kind, price)| instance(name, kind, price))
    .into();
    let mut together: Instances = one_by_one.iter().cloned().collect();
    assert_eq!(together.kinds(), 4);
    close(together.paid(&all), bill(&one_by_one, &all).paid());
    together.remove(&one_by_one[0]);
    close(together.paid(&all), bill(&one_by_one[1..], &all).paid());
    together.remove(&instance("r5.large", CapacityType::OnDemand, 0.1));
    close(together.paid(&all), bill(&one_by_one[1..], &all).paid());
}
