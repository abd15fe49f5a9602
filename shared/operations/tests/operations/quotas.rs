//! Quotas of vCPUs: what exceeds one is launched as another capacity type, or later, and is not refused for good.

use crate::common::{Harness, pod};
use nodeless_fake_aws::CapacityType as Kind;
use nodeless_model::{CapacityType, Phase};
use serde_json::json;

/// The number of instances of a capacity type that are alive.
fn alive(harness: &Harness, capacity_type: CapacityType) -> usize {
    harness.cloud.alive().iter().filter(|instance| instance.capacity_type == capacity_type).count()
}

/// A cluster whose pods need so many nodes of 4 vCPUs each, which the NodePool launches as spot or on-demand.
async fn cluster(pods: usize) -> Harness {
    let harness = Harness::new().await;
    harness.cluster.patch_node_pool(json!({ "spec": { "template": { "spec": { "requirements": [
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"] },
        { "key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["4"] },
    ] } } } }));
    harness.cluster.add_pods((0..pods).map(|number| pod(&format!("web-{number}"), 3000)));
    harness
}

fn insufficient_capacity(harness: &Harness) -> Vec<String> {
    harness.cluster.events_of("InsufficientCapacityError").into_iter().map(|event| event.message).collect()
}

#[tokio::test]
async fn what_the_spot_quota_does_not_allow_is_launched_on_demand() {
    let mut harness = cluster(4).await;
    harness.cloud.set_quota(Kind::Spot, Some(8));
    harness.queue_wake().await;
    harness.until("all pods run", |harness| harness.cluster.bound() == 4).await;
    harness.minutes(1).await;
    let launched = [CapacityType::Spot, CapacityType::OnDemand].map(|kind| alive(&harness, kind));
    assert_eq!(launched, [2, 2], "{:?}", harness.cloud.alive());
    let reported = insufficient_capacity(&harness);
    assert!(reported.iter().any(|message| message.contains("Max spot instance count exceeded")), "{reported:?}");
    assert!(harness.cluster.events_of("LaunchRefused").is_empty(), "the EC2NodeClass is not at fault");
    assert!(harness.records().await.iter().all(|claim| claim.phase == Phase::Initialized));
}

#[tokio::test]
async fn pods_beyond_all_quotas_wait_and_run_when_a_quota_is_raised() {
    let mut harness = cluster(5).await;
    harness.cloud.set_quota(Kind::Spot, Some(8));
    harness.cloud.set_quota(Kind::OnDemand, Some(8));
    harness.queue_wake().await;
    harness.until("four pods run", |harness| harness.cluster.bound() == 4).await;
    harness.minutes(6).await;
    assert_eq!((harness.cluster.bound(), harness.cloud.alive().len()), (4, 4));
    let reported = insufficient_capacity(&harness);
    assert!(reported.iter().any(|message| message.contains("vCPU limit of 8")), "{reported:?}");
    harness.cloud.set_quota(Kind::OnDemand, Some(16));
    harness.until("the fifth runs", |harness| harness.cluster.bound() == 5).await;
    harness.minutes(2).await;
    assert_eq!((harness.cloud.alive().len(), harness.records().await.len()), (5, 5));
}
