//! Partitions of the table that are read or written more than DynamoDB allows: nothing is lost or made twice.

use crate::common::{Harness, pod};
use nodeless_model::Phase;
use nodeless_world::memory::PartitionLimits;

/// Ten pods that each need a node.
async fn cluster() -> Harness {
    let mut harness = Harness::new().await;
    harness.cluster.add_pods((0..10).map(|number| pod(&format!("web-{number}"), 3000)));
    harness.queue_wake().await;
    harness
}

/// The limits of DynamoDB suffice for an ordinary cluster.
#[tokio::test]
async fn ten_nodes_are_launched_within_the_limits_of_a_partition() {
    let mut harness = cluster().await;
    harness.until("all pods run", |harness| harness.cluster.bound() == 10).await;
    assert_eq!(harness.table.refused(), 0);
}

#[tokio::test]
async fn throttled_reads_and_writes_delay_a_scale_up_and_lose_nothing() {
    let mut harness = cluster().await;
    harness.table.set_limits(PartitionLimits { reads: 1, writes: 1 });
    harness.minutes(3).await;
    assert!(harness.table.refused() > 0);
    harness.table.set_limits(PartitionLimits::default());
    harness.until("all pods run", |harness| harness.cluster.bound() == 10).await;
    harness.minutes(3).await;
    let records = harness.records().await;
    assert!(records.iter().all(|claim| claim.phase == Phase::Initialized), "{records:?}");
    assert_eq!((harness.cloud.launched(), records.len()), (10, 10), "no node is launched twice");
}
