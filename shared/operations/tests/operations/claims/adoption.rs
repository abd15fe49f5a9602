//! Nodes and instances without a record: Karpenter's are adopted, orphans are terminated.

use crate::common::Harness;
use crate::scenarios::running_cluster;
use nodeless_lifecycle::Collection;
use nodeless_model::{Instance, Node, Phase, Pod};
use nodeless_ports::ErrorKind;
use std::collections::BTreeMap;

type Inventory = (Vec<Instance>, BTreeMap<String, Node>, BTreeMap<String, Pod>);

fn inventory(harness: &Harness) -> Inventory {
    let instances = harness.cloud.running();
    (instances, harness.cluster.nodes(), harness.cluster.pods())
}

/// An instance, node and NodeClaim as Karpenter left them.
async fn karpenters_cluster() -> Harness {
    let mut harness = running_cluster(1).await;
    let records = harness.records().await;
    for claim in &records {
        harness.claims.delete(claim).await.unwrap();
        harness.cluster.give_to_karpenter(&claim.name);
    }
    harness.queue.clear();
    harness.history.clear();
    harness
}

#[tokio::test]
async fn karpenters_nodes_are_adopted_unharmed() {
    let mut harness = karpenters_cluster().await;
    let before = inventory(&harness);
    let report = harness.sweeper().run().await.unwrap();
    assert!(matches!(&report.collected[..], [Collection::Adopt(_)]), "{report:?}");
    let claim = harness.records().await[0].clone();
    assert_eq!((claim.phase, claim.version), (Phase::Initialized, 1));
    assert!(claim.status.instance.as_ref().unwrap().price > 0.0, "the catalog has its price");
    assert!(harness.sweeper().run().await.unwrap().collected.is_empty());
    harness.minutes(5).await;
    let after = inventory(&harness);
    assert_eq!(before.2, after.2);
    let ids = |instances: &[Instance]| instances.iter().map(|instance| instance.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&before.0), ids(&after.0));
    assert_eq!(before.1.keys().collect::<Vec<_>>(), after.1.keys().collect::<Vec<_>>());
    assert!(after.1.values().all(|node| node.deletion_timestamp.is_none() && node.taints.is_empty()));
    assert_eq!(harness.cloud.launched(), 1);
    harness.cluster.remove_all_pods();
    harness.until("it is consolidated as our own", |harness| harness.cloud.alive().is_empty()).await;
}

#[tokio::test]
async fn an_orphan_is_collected_and_nothing_while_anything_cannot_be_read() {
    let harness = running_cluster(1).await;
    let orphan = harness.cloud.launch_orphan();
    for operation in ["cloud", "cluster labelled nodes", "cluster mirrored claims", "claims list", "claims usage"] {
        harness.faults.fail(operation, ErrorKind::Unavailable);
        harness.sweeper().run().await.unwrap_err();
        harness.faults.end_outages();
        assert_eq!(harness.cloud.alive().len(), 2, "{operation}");
    }
    let report = harness.sweeper().run().await.unwrap();
    assert!(matches!(&report.collected[..], [Collection::TerminateInstance { id, .. }] if *id == orphan), "{report:?}");
    assert_eq!(harness.cloud.alive().len(), 1);
}
