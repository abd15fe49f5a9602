//! The limits and the charges of DynamoDB, against DynamoDB Local: sizes of items and transactions, capacity units, expiry.
//! docs/benchmarks/cost.md is computed from these units. For a transaction, DynamoDB Local reports the units of one item only, so the units
//! of a transaction are computed from its items (`nodeless_tests::proxy`).

use crate::common::{TABLE, claim, config, instance, table};
use aws_sdk_dynamodb::types::TimeToLiveSpecification;
use jiff::{SignedDuration, Timestamp};
use nodeless_model::shortage::Shortage;
use nodeless_model::{CapacityType, NodeClaim};
use nodeless_ports::ErrorKind;
use nodeless_state::State;
use nodeless_state::capacity::UnavailableOffering;
use nodeless_state::claims::{ChangedClaim, Created, MAX_TOGETHER};
use nodeless_tests::Server;
use nodeless_tests::proxy::{CONSUMED_READ_HALVES, CONSUMED_WRITES, Proxy, READ_UNITS, WRITE_UNITS};
use std::sync::Arc;

/// A claim of a NodePool without restrictions: hundreds of instance types, labels, pods.
fn wide_claim(name: &str, types: usize, pods: usize) -> NodeClaim {
    let mut claim = claim(name, 4, 0.2);
    claim.spec.instance_types = (0..types).map(|index| format!("m{}i-flex.{}xlarge", index % 9, index)).collect();
    claim.spec.labels = [("team", "search"), ("example.com/tier", "web")].map(|(k, v)| (k.into(), v.into())).into();
    claim.spec.nominated_pods =
        (0..pods).map(|index| format!("production-{}/web-frontend-{:x}", index % 7, index * 7_919)).collect();
    claim
}

async fn measured() -> Option<(State, Proxy, Arc<Server>)> {
    let dynamodb = nodeless_tests::dynamodb_local()?;
    let proxy = Proxy::measuring(&dynamodb.url).await;
    let claims = table(&config(&proxy.url).await).await;
    let _setting_up = proxy.take();
    Some((claims, proxy, dynamodb))
}

/// The units that the calls since the last check consumed: halves of read units, and write units. The estimate that docs/benchmarks/cost.md
/// is computed from is never below them.
fn consumed(proxy: &Proxy) -> (u64, u64) {
    let counts = proxy.take();
    let count = |name| counts.get(name).copied().unwrap_or_default();
    assert!(2 * count(READ_UNITS) >= count(CONSUMED_READ_HALVES), "the estimate is too low: {counts:?}");
    assert!(count(WRITE_UNITS) >= count(CONSUMED_WRITES), "the estimate is too low: {counts:?}");
    (count(CONSUMED_READ_HALVES), count(CONSUMED_WRITES))
}

#[tokio::test]
async fn one_claim_consumes_few_units() {
    let Some((claims, proxy, _dynamodb)) = measured().await else { return };
    let mut written = claim("a", 4, 0.2);
    claims.create(&written, None).await.unwrap();
    assert_eq!(consumed(&proxy), (0, 4), "the claim and the usage of its NodePool, in a transaction");
    written.version = 1;
    written.version = claims.update(&written, None).await.unwrap();
    assert_eq!(consumed(&proxy), (0, 1), "an update is one write");
    written.status.instance = Some(instance("i-1"));
    written.version = claims.update(&written, None).await.unwrap();
    assert_eq!(consumed(&proxy), (0, 2), "the instance is written to the index as well");
    written.version = claims.update(&written, None).await.unwrap();
    assert_eq!(consumed(&proxy), (0, 1), "and only once");
    claims.get("a").await.unwrap().unwrap();
    assert_eq!(consumed(&proxy), (2, 0), "a consistent read of up to 4 kB");
    claims.find_by_instance("i-1").await.unwrap().unwrap();
    assert_eq!(
        consumed(&proxy),
        (3, 0),
        "half a unit for the index, which has no consistent reads, and one for the claim"
    );
    claims.list().await.unwrap();
    // AWS charges the minimum for the seven queries without results; DynamoDB Local reports nothing for them.
    assert_eq!(consumed(&proxy), (2, 0), "the claims of one partition key");
    claims.usage().await.unwrap();
    assert_eq!(consumed(&proxy), (2, 0));
}

#[tokio::test]
async fn a_transaction_consumes_two_units_for_each_item() {
    let Some((claims, proxy, _dynamodb)) = measured().await else { return };
    let group: Vec<NodeClaim> = (0..50).map(|index| wide_claim(&format!("g-{index:02}"), 60, 10)).collect();
    claims.create_together(&group, None).await.unwrap();
    assert_eq!(consumed(&proxy), (0, 2 * 50 + 2), "claims of up to a kilobyte each, and the usage of their NodePool");
    let mut changes: Vec<ChangedClaim> =
        claims.list().await.unwrap().into_iter().map(|claim| ChangedClaim { claim, charge: None }).collect();
    let _read = proxy.take();
    for (index, change) in changes.iter_mut().enumerate() {
        change.claim.status.instance = Some(instance(&format!("i-{index}")));
    }
    claims.update_together(&changes).await.unwrap();
    assert_eq!(consumed(&proxy), (0, 3 * 50), "and one for each instance in the index");
}

#[tokio::test]
async fn many_claims_are_read_by_the_size_of_their_records() {
    let Some((claims, proxy, _dynamodb)) = measured().await else { return };
    for batch in 0..5 {
        let group: Vec<NodeClaim> = (0..40).map(|index| wide_claim(&format!("n-{batch}-{index}"), 60, 10)).collect();
        claims.create_together(&group, None).await.unwrap();
    }
    let _written = proxy.take();
    assert_eq!(claims.list().await.unwrap().len(), 200);
    let (halves, _) = consumed(&proxy);
    println!("200 claims with 60 instance types and 10 pods each: {} units for one list", halves / 2);
    assert!(halves <= 2 * 50, "200 claims of at most a kilobyte: {halves}");
    assert_eq!(claims.list_eventually().await.unwrap().len(), 200);
    let (eventually, _) = consumed(&proxy);
    assert!(eventually * 2 <= halves + 16, "{eventually} and {halves}");
}

#[tokio::test]
async fn the_most_and_widest_claims_fit_into_one_transaction() {
    let Some((claims, proxy, _dynamodb)) = measured().await else { return };
    let group: Vec<NodeClaim> = (0..MAX_TOGETHER).map(|index| wide_claim(&format!("g-{index:02}"), 900, 250)).collect();
    assert_eq!(claims.create_together(&group, None).await.unwrap(), Created::Written);
    let _written = proxy.take();
    assert_eq!(claims.list().await.unwrap().len(), MAX_TOGETHER);
    let (halves, _) = consumed(&proxy);
    // A read unit is 4 kB, and a transaction may have 4 MB.
    assert!(
        halves / 2 <= 1024 / 2,
        "the widest claims come near the limit of a transaction: {halves} halves of read units"
    );
}

#[tokio::test]
async fn a_claim_that_no_item_can_hold_is_refused_with_the_reason() {
    let Some((claims, _proxy, _dynamodb)) = measured().await else { return };
    let mut huge = claim("huge", 4, 0.2);
    huge.spec.nominated_pods =
        (0..40_000_u64).map(|index| format!("{:x}", index.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    let refused = claims.create(&huge, None).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Invalid);
    assert!(refused.to_string().contains("size"), "{refused}");
    assert!(claims.list().await.unwrap().is_empty());
}

/// The attribute of the module's table (terraform/table.tf) by which DynamoDB expires items, in seconds since 1970.
#[tokio::test]
async fn expiring_items_have_a_time_in_seconds_and_a_claim_has_none() {
    let Some(dynamodb) = nodeless_tests::dynamodb_local() else { return };
    let config = config(&dynamodb.url).await;
    let claims = table(&config).await;
    let client = aws_sdk_dynamodb::Client::new(&config);
    let expiry = TimeToLiveSpecification::builder().attribute_name("expires").enabled(true).build().unwrap();
    client.update_time_to_live().table_name(TABLE).time_to_live_specification(expiry).send().await.unwrap();
    let until = Timestamp::from_second(4_102_444_800).unwrap() + SignedDuration::from_millis(500);
    let mark = UnavailableOffering {
        shortage: Shortage::of_offering("m6i.large", "us-east-1a", CapacityType::Spot),
        until,
        reason: "InsufficientInstanceCapacity".into(),
    };
    claims.create(&claim("a", 4, 0.2), None).await.unwrap();
    claims.mark_unavailable(&[mark]).await.unwrap();
    let stored = client.scan().table_name(TABLE).consistent_read(true).send().await.unwrap();
    let expires = |prefix: &str| {
        let item = stored.items().iter().find(|item| item["sk"].as_s().unwrap().starts_with(prefix)).unwrap();
        item.get("expires").map(|expires| expires.as_n().unwrap().clone())
    };
    assert_eq!(expires("unavailable#").as_deref(), Some("4102444801"), "rounded up, so that nothing is deleted early");
    assert_eq!(expires("nodeclaim#"), None);
    assert_eq!(expires("nodepool#"), None);
}
