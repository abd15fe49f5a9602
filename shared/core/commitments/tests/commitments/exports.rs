//! Files of the AWS CLI, whole, incomplete and wrong.

use nodeless_commitments::{Commitments, ExportError, Exports, Share};
use serde_json::{Value, json};

const AT: &str = "2026-06-01T00:00:00Z";
const REGION: &str = "us-east-1";

fn savings_plan(id: &str, more: &Value) -> Value {
    let mut plan = json!({
        "offeringId": "o", "savingsPlanId": id, "savingsPlanArn": format!("arn:aws:savingsplans::1:savingsplan/{id}"),
        "description": "3 year No Upfront Compute Savings Plan",
        "start": "2026-01-01T00:00:00.000Z", "end": "2028-12-31T23:59:59.000Z", "state": "active",
        "savingsPlanType": "Compute", "paymentOption": "No Upfront", "productTypes": ["Fargate", "EC2", "Lambda"],
        "currency": "USD", "commitment": "10.5", "upfrontPaymentAmount": "0.0", "recurringPaymentAmount": "10.5",
        "termDurationInSeconds": 94_608_000, "tags": {}
    });
    let (own, more) = (plan.as_object_mut().unwrap(), more.as_object().unwrap());
    own.extend(more.clone());
    plan
}

fn plans(all: &[Value]) -> Value {
    json!({ "savingsPlans": all })
}

fn rate(instance_type: &str, region: &str, dollars: &str, more: &Value) -> Value {
    let mut rate = json!({
        "rate": dollars, "currency": "USD", "unit": "Hrs", "productType": "EC2", "serviceCode": "AmazonEC2",
        "usageType": format!("BoxUsage:{instance_type}"), "operation": "RunInstances",
        "properties": [
            { "name": "instanceType", "value": instance_type }, { "name": "productDescription", "value": "Linux/UNIX" },
            { "name": "region", "value": region }, { "name": "tenancy", "value": "shared" },
        ]
    });
    rate.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    rate
}

fn rates(id: &str, all: &[Value]) -> Value {
    json!({ "savingsPlanId": id, "searchResults": all })
}

fn reserved(id: &str, more: &Value) -> Value {
    let mut reserved = json!({
        "ReservedInstancesId": id, "InstanceType": "m5.large", "InstanceCount": 2, "ProductDescription": "Linux/UNIX",
        "InstanceTenancy": "default", "CurrencyCode": "USD", "State": "active", "Start": "2026-01-01T00:00:00+00:00",
        "End": "2027-01-01T00:00:00+00:00", "Duration": 31_536_000, "FixedPrice": 876.0, "UsagePrice": 0.0,
        "RecurringCharges": [{ "Amount": 0.02, "Frequency": "Hourly" }], "OfferingClass": "standard",
        "OfferingType": "Partial Upfront", "Scope": "Region"
    });
    reserved.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    reserved
}

fn read(files: &[Value]) -> Result<Exports, ExportError> {
    let mut exports = Exports::default();
    for (place, file) in files.iter().enumerate() {
        exports.read(&format!("{place}.json"), file.to_string().as_bytes())?;
    }
    Ok(exports)
}

fn in_effect(files: &[Value]) -> Result<Commitments, ExportError> {
    read(files)?.in_effect(REGION, AT.parse().unwrap(), Share::ALL)
}

#[track_caller]
fn refused(files: &[Value]) -> String {
    let why = in_effect(files).unwrap_err().to_string();
    assert!(!why.contains('\n'), "{why}");
    why
}

/// Why nothing of the files counts.
#[track_caller]
fn left_out(file: Value) -> String {
    let found = in_effect(&[file]).unwrap();
    assert!(found.is_empty());
    found.notes.join("; ")
}

#[test]
fn plans_have_the_rates_of_nodes_in_the_region() {
    let others = [
        rate("m5.large", "eu-west-1", "0.9", &json!({})),
        rate("m5.large", REGION, "0.8", &json!({ "usageType": "UnusedBox:m5.large" })),
        rate("m5.large", REGION, "0.7", &json!({ "productType": "Fargate" })),
        rate("m5.large", REGION, "0.6", &json!({ "properties": [] })),
    ];
    let own = [rate("m5.large", REGION, "0.0668", &json!({})), rate("c5.large", REGION, "0.06", &json!({}))];
    let found =
        in_effect(&[plans(&[savings_plan("sp", &json!({}))]), rates("sp", &others), rates("sp", &own)]).unwrap();
    let plan = &found.plans[0];
    assert_eq!((plan.id.as_str(), plan.family.as_deref(), plan.dollars_per_hour), ("sp", None, 10.5));
    assert_eq!(plan.rates.len(), 2);
    assert_eq!((plan.rate("m5.large"), plan.rate("r5.large")), (Some(0.0668), None));
    assert_eq!(found.notes, [""; 0]);
}

#[test]
fn a_part_of_the_commitments_may_count() {
    let files = [
        plans(&[savings_plan("sp", &json!({}))]),
        rates("sp", &[rate("m5.large", REGION, "0.06", &json!({}))]),
        json!({ "ReservedInstances": [reserved("ri", &json!({ "AvailabilityZone": "us-east-1a", "Scope": "Availability Zone" }))] }),
    ];
    let all = read(&files).unwrap().in_effect(REGION, AT.parse().unwrap(), "0.25".parse().unwrap()).unwrap();
    assert_eq!((all.plans[0].dollars_per_hour, all.reserved[0].count), (2.625, 0.5));
    // 876 dollars for 8760 hours, and 2 cents for each.
    assert!((all.reserved[0].dollars_per_hour - 0.5 * 0.12).abs() < 1e-12);
}

#[test]
fn regional_reserved_instances_are_those_of_the_region_of_their_file() {
    let regional = || reserved("regional", &json!({}));
    let assumed = in_effect(&[json!({ "ReservedInstances": [regional()] })]).unwrap();
    assert_eq!(assumed.reserved[0].zone, None);
    assert!(assumed.notes[0].contains("assumed to be those of us-east-1"), "{:?}", assumed.notes);
    let elsewhere = reserved("zonal", &json!({ "AvailabilityZone": "eu-west-1a" }));
    let found = in_effect(&[json!({ "ReservedInstances": [regional(), elsewhere] })]).unwrap();
    assert!(found.is_empty() && found.notes.len() == 2, "{found:?}");
    let here = reserved("zonal", &json!({ "AvailabilityZone": "us-east-1-bos-1a" }));
    let found = in_effect(&[json!({ "ReservedInstances": [regional(), here] })]).unwrap();
    assert!(found.reserved.len() == 2 && found.notes.is_empty(), "{found:?}");
}

#[test]
fn commitments_that_do_not_count_are_reported() {
    let plan = |more: Value| plans(&[savings_plan("sp", &more)]);
    for (more, why) in [
        (json!({ "end": "2026-06-01T00:00:00Z" }), "it ended at 2026-06-01T00:00:00Z"),
        (json!({ "start": "2026-07-01T00:00:00Z", "state": "queued" }), "it starts at 2026-07-01T00:00:00Z"),
        (json!({ "state": "payment-failed" }), "its state is payment-failed"),
        (json!({ "savingsPlanType": "SageMaker" }), "it is a SageMaker Savings Plan"),
        (json!({ "currency": "CNY" }), "its currency is CNY"),
        (
            json!({ "savingsPlanType": "EC2Instance", "ec2InstanceFamily": "m5", "region": "eu-west-1" }),
            "it is of region eu-west-1",
        ),
    ] {
        let found = left_out(plan(more));
        assert!(found.starts_with("Savings Plan sp does not count: ") && found.contains(why), "{found}");
    }
    let one = |more: Value| json!({ "ReservedInstances": [reserved("ri", &more)] });
    for (more, why) in [
        (json!({ "End": "2026-05-01T00:00:00Z", "State": "retired" }), "their term ended at 2026-05-01T00:00:00Z"),
        (json!({ "State": "payment-pending" }), "their state is payment-pending"),
        (json!({ "ProductDescription": "Windows" }), "they are for Windows"),
        (json!({ "InstanceTenancy": "dedicated" }), "their tenancy is dedicated"),
        (json!({ "AvailabilityZone": "us-east-2a" }), "they are of zone us-east-2a"),
        (json!({ "UsagePrice": 0.1 }), "a price for each hour of use"),
    ] {
        let found = left_out(one(more));
        assert!(found.starts_with("Reserved Instances ri do not count: ") && found.contains(why), "{found}");
    }
}

#[test]
fn missing_rates_are_refused_with_the_command_that_exports_them() {
    let plan = || plans(&[savings_plan("sp-1", &json!({}))]);
    let command = "`aws savingsplans describe-savings-plan-rates --savings-plan-id sp-1 --max-results 1000 --filters \
                   name=region,values=us-east-1 name=productType,values=EC2 name=productDescription,values=Linux/UNIX \
                   name=tenancy,values=shared > rates-sp-1.json`";
    let why = refused(&[plan()]);
    assert!(
        why.starts_with("the rates of Savings Plan sp-1 are missing; export them with") && why.contains(command),
        "{why}"
    );
    let why = refused(&[plan(), rates("sp-1", &[rate("m5.large", "eu-west-1", "0.1", &json!({}))])]);
    assert!(why.contains("contain none of Linux instances of shared tenancy in us-east-1"), "{why}");
    let mut page = rates("sp-1", &[rate("m5.large", REGION, "0.1", &json!({}))]);
    page["nextToken"] = json!("more");
    let why = refused(&[plan(), page.clone()]);
    assert!(why.contains("further pages are missing") && why.contains(command), "{why}");
    // With the last page it is complete, whatever the order.
    assert!(in_effect(&[rates("sp-1", &[]), plan(), page]).is_ok());
    // Rates of a plan that is not listed have no effect.
    let found = in_effect(&[rates("sp-9", &[])]).unwrap();
    assert!(found.is_empty() && found.notes[0].contains("sp-9"), "{found:?}");
}

#[test]
fn files_of_other_tools_and_incomplete_files_are_refused_in_one_line() {
    let read = |text: &str| {
        let why = Exports::default().read("x.json", text.as_bytes()).unwrap_err().to_string();
        assert!(why.starts_with("x.json") && !why.contains('\n'), "{why}");
        why
    };
    let whole = plans(&[savings_plan("sp", &json!({}))]).to_string();
    for text in ["", "{{ .Values.plans }}", "savingsPlans: []", "7", &whole[..whole.len() / 2], "\u{0}\u{1}"] {
        assert!(read(text).contains("is no complete JSON output of the AWS CLI"), "{text}");
    }
    assert!(read("[]").contains("has no savingsPlans"));
    assert!(read("{}").contains("has no savingsPlans, searchResults or ReservedInstances"));
    assert!(read(r#"{"Reservations": []}"#).contains("describe-reserved-instances"));
    assert!(read(r#"{"searchResults": [{"rate": "1"}]}"#).contains("without savingsPlanId"));
    for (field, value) in [("commitment", json!("ten")), ("commitment", json!("-1")), ("commitment", json!("NaN"))] {
        let text = plans(&[savings_plan("sp", &json!({ field: value }))]).to_string();
        assert!(read(&text).contains("x.json: sp: its commitment"), "{text}");
    }
    let family = plans(&[savings_plan("sp", &json!({ "savingsPlanType": "EC2Instance" }))]).to_string();
    assert!(read(&family).contains("without ec2InstanceFamily and region"));
    let text = rates("sp", &[rate("m5.large", REGION, "cheap", &json!({}))]).to_string();
    assert!(read(&text).contains("the rate \"cheap\" of m5.large in us-east-1"));
    let text = json!({ "ReservedInstances": [reserved("ri", &json!({ "Duration": 0 }))] }).to_string();
    assert!(read(&text).contains("x.json: ri: its duration and prices"));
}

#[test]
fn a_commitment_may_be_exported_twice_if_it_is_the_same() {
    let plan = |commitment: &str| plans(&[savings_plan("sp", &json!({ "commitment": commitment }))]);
    let own = rates("sp", &[rate("m5.large", REGION, "0.1", &json!({}))]);
    assert_eq!(in_effect(&[plan("1"), plan("1"), own.clone()]).unwrap().plans.len(), 1);
    assert!(refused(&[plan("1"), plan("2"), own]).contains("1.json: sp is described differently in another file"));
}

#[test]
fn a_list_of_plans_with_a_further_page_is_refused() {
    let mut page = plans(&[]);
    page["nextToken"] = json!("more");
    assert!(refused(&[page.clone()]).contains("0.json has a nextToken"));
    assert!(in_effect(&[page, plans(&[])]).is_ok());
}
