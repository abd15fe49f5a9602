//! Nodes follow a rotation of the cluster's certificate authority: EKS returns a bundle with the successor before it is activated.

use crate::common::{CLUSTER, Harness, pod};
use nodeless_catalog::stored::CapacitySettings;
use nodeless_launch::authority_digests;
use nodeless_model::labels::CERTIFICATE_AUTHORITY;
use nodeless_operations::CatalogCache;
use nodeless_refresher::Refresher;
use std::collections::BTreeSet;
use std::sync::Arc;

/// EKS returns this bundle from now on.
fn rotate(harness: &Harness, bundle: &str) {
    let now = harness.clock.time();
    let change = |account: &mut nodeless_fake_aws::Account| {
        account.add_cluster(CLUSTER, "https://kubernetes.invalid", bundle, "1.36", now);
    };
    harness.cloud.ec2.change_account(change);
}

/// Runs the catalog function once.
async fn refresh(harness: &Harness) {
    let refresher = Refresher {
        context: harness.context(),
        claims: harness.ports.claims.clone(),
        queue: harness.ports.queue.clone(),
        cluster: harness.ports.cluster.clone(),
        source: Arc::new(harness.cloud.source()),
        catalog: CatalogCache::default(),
        capacity: CapacitySettings::default(),
        dry_runs: false,
    };
    refresher.run().await.unwrap();
}

/// The digests of what the user data of running instances trusts.
fn trusted(harness: &Harness) -> BTreeSet<Option<String>> {
    harness.cloud.alive().into_iter().map(|instance| instance.tags.get(CERTIFICATE_AUTHORITY).cloned()).collect()
}

fn only(bundle: &str) -> BTreeSet<Option<String>> {
    BTreeSet::from([Some(authority_digests(bundle))])
}

#[tokio::test]
async fn nodes_are_replaced_for_a_successor_and_those_of_an_older_process_too() {
    let mut harness = Harness::new().await;
    refresh(&harness).await;
    harness.cluster.add_replica_sets([pod("first", 1000)]);
    harness.cluster.converge();
    harness.queue_wake().await;
    harness.until("the pod runs", |harness| harness.cluster.bound() == 1).await;
    let first = trusted(&harness);
    assert!(first.len() == 1 && !first.contains(&None), "{first:?}");

    // The process of the launch described the cluster less than a minute ago, and launches with what it has.
    rotate(&harness, "b25l");
    refresh(&harness).await;
    harness.cluster.add_replica_sets([pod("second", 1000)]);
    harness.cluster.converge();
    harness.queue_wake().await;
    harness.until("another instance is launched", |harness| harness.cloud.launched() == 2).await;
    assert_eq!(trusted(&harness), first, "the tag is what the user data has, not what the class states");
    harness
        .until("the nodes have successors", |harness| trusted(harness) == only("b25l") && harness.cluster.bound() == 2)
        .await;

    harness.minutes(20).await;
    let launched = harness.cloud.launched();
    harness.minutes(10).await;
    assert_eq!(harness.cloud.launched(), launched, "nodes that trust the present authority stay");
    rotate(&harness, "dHdv");
    refresh(&harness).await;
    harness
        .until("the nodes have successors", |harness| trusted(harness) == only("dHdv") && harness.cluster.bound() == 2)
        .await;
}
