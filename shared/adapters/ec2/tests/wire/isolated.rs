//! An isolated VPC, from which IAM and the Price List cannot be called.

use crate::support::{SimulatedAws, class};
use nodeless_api::{ConditionStatus, EC2NodeClassStatus};
use nodeless_catalog::stored::{OnDemandPriceSource, SpotPriceSource};
use nodeless_ec2::AwsCatalogSource;
use nodeless_ports::CatalogSource;
use serde_json::{Value, json};

async fn resolve(source: &AwsCatalogSource, fields: Value) -> EC2NodeClassStatus {
    source.resolve(&class(&fields)).await.unwrap()
}

/// The status and message of a condition.
fn condition<'a>(status: &'a EC2NodeClassStatus, name: &str) -> (ConditionStatus, &'a str) {
    let found = status.conditions.iter().find(|condition| condition.type_ == name).unwrap();
    (found.status, &found.message)
}

/// The calls of IAM and of the Price List.
fn calls(world: &SimulatedAws) -> Vec<String> {
    let called = |name: &String| name.starts_with("iam:") || name.starts_with("pricing:");
    world.ec2.call_counts().into_keys().filter(called).collect()
}

#[tokio::test]
async fn neither_iam_nor_the_price_list_is_called() {
    let world = SimulatedAws::new().await;
    let source = world.isolated_source();
    let catalog = source.catalog(None).await.unwrap();
    assert_eq!(catalog.on_demand_price_source, OnDemandPriceSource::Embedded);
    assert_eq!(catalog.spot_price_source, SpotPriceSource::History, "EC2 has an endpoint in a VPC");
    assert!(catalog.types.iter().all(|entry| entry.on_demand_price.is_some()));

    let of_the_module = resolve(&source, json!({})).await;
    assert_eq!(of_the_module.instance_profile.as_deref(), Some("prod-node"));
    let named = resolve(&source, json!({ "role": null, "instanceProfile": "mine" })).await;
    assert_eq!(named.instance_profile.as_deref(), Some("mine"));
    for status in [&of_the_module, &named] {
        assert_eq!(condition(status, "Ready").0, ConditionStatus::True, "{:?}", status.conditions);
    }
    source.release(&class(&json!({ "role": "another" }))).await.unwrap();
    assert_eq!(calls(&world), Vec::<String>::new());

    // The calls that are left out.
    world.source().catalog(None).await.unwrap();
    resolve(&world.source(), json!({ "role": "another" })).await;
    assert!(
        ["iam:ListInstanceProfiles", "pricing:GetProducts"].iter().all(|call| calls(&world).contains(&(*call).into()))
    );
}

#[tokio::test]
async fn a_role_without_an_instance_profile_is_refused() {
    let world = SimulatedAws::new().await;
    let status = resolve(&world.isolated_source(), json!({ "role": "another" })).await;
    let (ready, message) = condition(&status, "InstanceProfileReady");
    assert_eq!(ready, ConditionStatus::False);
    for part in ["spec.role", "the role another", "isolated VPC", "for the role prod-node", "spec.instanceProfile"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(condition(&status, "Ready").0, ConditionStatus::False);
    assert_eq!((status.instance_profile, calls(&world)), (None, Vec::new()));
}
