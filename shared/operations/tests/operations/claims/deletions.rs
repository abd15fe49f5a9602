//! Deletions by users are noticed by the next plan, which the webhook requests, and not only by the sweep.

use crate::common::{Harness, running_cluster};
use nodeless_fake_kubernetes::resource::NODES;
use nodeless_model::NodeClaim;
use nodeless_world::resources::NODE_POOLS;

type Delete = fn(&Harness, &NodeClaim);

#[tokio::test]
async fn a_deleted_node_node_claim_or_node_pool_is_noticed_by_the_next_plan() {
    let deletions: [(&str, Delete); 3] = [
        ("Node", |harness, claim| harness.cluster.delete(&NODES, claim.status.node_name.as_deref().unwrap())),
        ("NodeClaim", |harness, claim| harness.cluster.delete_node_claim(&claim.name)),
        ("NodePool", |harness, _| harness.cluster.delete(&NODE_POOLS, "default")),
    ];
    for (kind, delete) in deletions {
        let harness = running_cluster(1).await;
        drop(harness.take_claims().await);
        harness.planner().run().await.unwrap();
        assert_eq!(harness.queue.take_shards(), [], "{kind}: nothing is due before");
        let claim = harness.records().await.remove(0);
        delete(&harness, &claim);
        harness.planner().run().await.unwrap();
        for message in harness.queue.take_shards() {
            harness.reconciler().run_shard(message).await.unwrap();
        }
        let claim = harness.claims.get(&claim.name).await.unwrap().unwrap();
        assert!(claim.phase.is_leaving(), "{kind}: {:?}", claim.phase);
    }
}
