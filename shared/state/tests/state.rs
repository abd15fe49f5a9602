//! The stored state over a table in memory, whose semantics `nodeless-storage` compares with DynamoDB Local.
#![allow(clippy::unwrap_used)]

use nodeless_model::claim::Charge;
use nodeless_model::{Quantity, ResourceList};
use nodeless_state::claims::Created;
use nodeless_state::limits::{LaunchLimits, PoolLimits};
use nodeless_state::plans::{Commit, Committed, Leaving};
use nodeless_state::{ErrorKind, RecordKind, StoredRecord};
use nodeless_world::memory::MemoryState;

#[path = "../contracts/mod.rs"]
mod contracts;

use contracts::claim;

#[tokio::test]
async fn the_table_promises_what_the_one_in_dynamodb_does() {
    contracts::a_shard_is_written_only_over_the_version_that_was_read(&MemoryState::default()).await;
    contracts::claims_are_updated_all_or_none(&MemoryState::default()).await;
    contracts::a_claim_without_a_node_pool_is_charged_to_none(&MemoryState::default()).await;
    contracts::interruptions_are_remembered_until_their_time(&MemoryState::default()).await;
    contracts::launches_stay_within_the_limits_of_the_cluster(&MemoryState::default()).await;
    contracts::a_stopped_claim_is_charged_when_it_is_started(&MemoryState::default()).await;
    contracts::costs_are_written_only_over_the_version_that_was_read(&MemoryState::default()).await;
    contracts::an_instance_that_ends_is_kept_with_the_deletion_of_its_claim(&MemoryState::default()).await;
}

fn charge(cpus: i64, dollars: f64) -> Charge {
    Charge { resources: ResourceList::from([("cpu", Quantity::from_units(cpus))]), dollars_per_hour: dollars }
}

#[tokio::test]
async fn limits_hold_and_charges_are_given_back() {
    let claims = MemoryState::default();
    let limits = PoolLimits { resources: charge(5, 0.0).resources, dollars_per_hour: None };
    assert_eq!(claims.create(&claim("a", 4), Some(&limits)).await, Ok(Created::Written));
    assert_eq!(claims.create(&claim("a", 4), Some(&limits)).await, Ok(Created::AlreadyThere));
    let refused = claims.create(&claim("b", 2), Some(&limits)).await;
    assert_eq!(refused, Ok(Created::LimitReached { resource: "cpu".into() }));
    let dear = PoolLimits { dollars_per_hour: Some(0.15), ..PoolLimits::default() };
    let refused = claims.create(&claim("b", 1), Some(&dear)).await;
    assert_eq!(refused, Ok(Created::LimitReached { resource: "dollars-per-hour".into() }));

    let first = claims.get("a").await.unwrap().unwrap();
    assert_eq!(claims.update(&first, Some(&charge(2, 0.05))).await, Ok(2));
    assert_eq!(claims.update(&first, None).await.unwrap_err().kind, ErrorKind::Conflict);
    assert_eq!(claims.usage().await.unwrap()["default"].resources, charge(2, 0.0).resources);
    assert_eq!(claims.delete(&first).await.unwrap_err().kind, ErrorKind::Conflict);
    claims.delete(&claims.get("a").await.unwrap().unwrap()).await.unwrap();
    claims.delete(&first).await.unwrap();
    let usage = &claims.usage().await.unwrap()["default"];
    assert!(usage.resources.iter().all(|(_, left)| left.is_zero()) && usage.dollars_per_hour == 0.0, "{usage:?}");
}

#[tokio::test]
async fn what_a_plan_decides_is_written_while_no_other_plan_decides_anything() {
    let claims = MemoryState::default();
    let node_pool = PoolLimits { resources: charge(5, 0.0).resources, dollars_per_hour: None };
    let limits = LaunchLimits { node_pool, ..LaunchLimits::default() };
    let (a, b) = ([claim("a", 4)], [claim("b", 1)]);
    let read = claims.plan_revision().await.unwrap();
    assert_eq!(claims.commit(Commit::Launch(&a, &limits), read).await, Ok(Committed::Written));
    assert_eq!(claims.commit(Commit::Launch(&b, &limits), read).await, Ok(Committed::Overtaken));
    assert_eq!(claims.commit(Commit::Launch(&a, &limits), read).await, Ok(Committed::AlreadyThere), "an earlier try");
    let current = claims.plan_revision().await.unwrap();
    assert_eq!(current, read + 1);
    let refused = claims.commit(Commit::Launch(&[claim("c", 2)], &limits), current).await;
    assert_eq!(refused, Ok(Committed::LimitReached { resource: "cpu".into() }));
    let written = claims.list().await.unwrap();
    let leaving: Vec<Leaving> =
        written.iter().map(|claim| Leaving { claim: claim.clone(), charge: Some(charge(3, 0.1)) }).collect();
    assert_eq!(claims.commit(Commit::Leave(&leaving), read).await, Ok(Committed::Overtaken));
    assert_eq!(claims.commit(Commit::Leave(&leaving), current).await, Ok(Committed::Written));
    let conflict = claims.commit(Commit::Leave(&leaving), current + 1).await.unwrap_err();
    assert_eq!(conflict.kind, ErrorKind::Conflict);
    assert_eq!((written.len(), claims.plan_revision().await), (1, Ok(current + 1)));
    assert_eq!(claims.usage().await.unwrap()["default"].resources, charge(3, 0.0).resources);
}

#[tokio::test]
async fn limits_of_dynamodb_are_those_of_the_table() {
    let claims = MemoryState::default();
    let many = |count: usize| (0..count).map(|number| claim(&format!("a-{number}"), 1)).collect::<Vec<_>>();
    let refused = claims.create_together(&many(98), None).await.unwrap_err();
    assert!(refused.kind == ErrorKind::Invalid && refused.message.contains("but 1 to 97"), "{refused}");
    assert_eq!(claims.create_together(&many(97), None).await, Ok(Created::Written));
    let record = |bytes: usize| StoredRecord { encoded: "x".repeat(bytes), ..StoredRecord::default() };
    let refused = claims.put_record(RecordKind::ReportedMemory, &record(409_600)).await.unwrap_err();
    assert!(refused.kind == ErrorKind::Invalid && refused.message.contains("409600"), "{refused}");
    assert_eq!(claims.put_record(RecordKind::ReportedMemory, &record(409_000)).await, Ok(1));
}
