//! Quotas of vCPUs: what exceeds one is launched as another capacity type, or later, and is not refused for good.

use crate::common::{Harness, pod};
use nodeless_fake_aws::{CapacityType as Kind, Ec2Error, Offering, OfferingPattern};
use nodeless_model::{CapacityType, Phase};
use nodeless_world::resources::NODE_CLASSES;
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

/// EC2 rejects the next CreateFleet as a whole. Returns the messages of InsufficientCapacityError when all pods run.
async fn rejected_once(harness: &mut Harness, error: &Ec2Error, pods: usize) -> Vec<String> {
    harness.cloud.ec2.fail_next("CreateFleet", error, 1);
    harness.queue_wake().await;
    harness.until("all pods run", |harness| harness.cluster.bound() == pods).await;
    harness.minutes(1).await;
    assert!(harness.cluster.events_of("LaunchRefused").is_empty(), "the EC2NodeClass is not at fault");
    assert!(harness.records().await.iter().all(|claim| claim.phase == Phase::Initialized));
    assert_eq!(
        (harness.cloud.alive().len(), harness.records().await.len()),
        (pods, pods),
        "nothing is lost or left over"
    );
    insufficient_capacity(harness)
}

#[tokio::test]
async fn a_fleet_that_the_spot_quota_rejects_as_a_whole_is_launched_on_demand() {
    let mut harness = cluster(3).await;
    let error = Ec2Error::new("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded");
    let reported = rejected_once(&mut harness, &error, 3).await;
    assert_eq!([CapacityType::Spot, CapacityType::OnDemand].map(|kind| alive(&harness, kind)), [0, 3]);
    assert!(reported.iter().any(|message| message.contains("quota of spot vCPUs")), "{reported:?}");
    let short = harness.claims.unavailable(harness.clock.time()).await.unwrap();
    assert!(
        !short.is_empty() && short.iter().all(|one| one.shortage.capacity_type == Some(CapacityType::Spot)),
        "{short:?}"
    );
}

#[tokio::test]
async fn a_fleet_that_the_quota_of_fleets_rejects_is_launched_from_other_offerings() {
    let mut harness = cluster(2).await;
    let message = "You've reached your quota for maximum Fleet Requests for this account.";
    let reported = rejected_once(&mut harness, &Ec2Error::new("MaxFleetCountExceeded", message), 2).await;
    assert!(reported.iter().any(|message| message.contains("quota of fleets")), "{reported:?}");
}

#[tokio::test]
async fn a_fleet_that_a_full_subnet_rejects_is_launched_in_another_zone() {
    let mut harness = cluster(2).await;
    let subnets = ["us-east-1a", "us-east-1b"].map(|zone| json!({ "id": harness.cloud.subnet(zone), "zone": zone }));
    let full = harness.cloud.subnet("us-east-1a");
    harness.cluster.patch_status(&NODE_CLASSES, "default", json!({ "subnets": subnets }));
    let message =
        format!("There are not enough free addresses in subnet '{full}' to satisfy the requested number of instances.");
    let reported = rejected_once(&mut harness, &Ec2Error::new("InsufficientFreeAddressesInSubnet", message), 2).await;
    assert!(reported.iter().any(|message| message.contains("add a subnet")), "{reported:?}");
    let short = harness.claims.unavailable(harness.clock.time()).await.unwrap();
    assert!(short.iter().all(|one| one.shortage.zone.as_deref() == Some("us-east-1a")), "{short:?}");
    assert!(short.iter().all(|one| one.shortage.capacity_type.is_none()), "none has an address: {short:?}");
    let zones: Vec<String> = harness.cloud.alive().into_iter().map(|instance| instance.zone).collect();
    assert_eq!(zones, ["us-east-1b"; 2]);
}

#[tokio::test]
async fn a_fleet_that_the_vcpu_quota_rejects_waits_until_the_offerings_are_tried_again() {
    let mut harness = cluster(2).await;
    harness.cluster.patch_node_pool(json!({ "spec": { "template": { "spec": { "requirements": [
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
        { "key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["4"] },
    ] } } } }));
    let error =
        Ec2Error::new("VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit.");
    let begun = harness.clock.time();
    let reported = rejected_once(&mut harness, &error, 2).await;
    assert!(reported.iter().any(|message| message.contains("quota of on-demand vCPUs")), "{reported:?}");
    assert!(
        harness.clock.time().duration_since(begun).as_secs() >= 180,
        "its offerings are not requested for three minutes"
    );
}

#[tokio::test]
async fn a_fleet_that_reaches_the_rate_of_launched_instances_is_launched_when_it_allows() {
    let mut harness = cluster(6).await;
    harness.cloud.ec2.change_account(|account| account.launches_at_once = 3);
    harness.queue_wake().await;
    // Six are more than the bucket ever holds, so the group never gets through as a whole; AWS raises the bucket.
    harness.minutes(1).await;
    assert!(harness.cloud.alive().is_empty());
    harness.cloud.ec2.change_account(|account| account.launches_at_once = 1000);
    harness.until("all pods run", |harness| harness.cluster.bound() == 6).await;
    harness.minutes(1).await;
    assert_eq!((harness.cloud.alive().len(), harness.records().await.len()), (6, 6));
    assert!(insufficient_capacity(&harness).is_empty(), "throttling is no lack of capacity");
    assert!(harness.claims.unavailable(harness.clock.time()).await.unwrap().is_empty());
    assert!(harness.cluster.events_of("LaunchRefused").is_empty());
}

#[tokio::test]
async fn members_of_a_fleet_that_was_throttled_after_a_part_are_launched_again() {
    let mut harness = cluster(4).await;
    harness.cluster.patch_node_pool(json!({ "spec": { "template": { "spec": { "requirements": [
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"] },
        { "key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["4"] },
    ] } } } }));
    let spot = |name: &str| Offering::new(name, "us-east-1a", Kind::Spot);
    harness.cloud.ec2.run_short(spot("m6i.xlarge"), 2);
    harness.cloud.ec2.refuse(spot("c6i.xlarge"), Ec2Error::new("RequestLimitExceeded", "Request limit exceeded."));
    harness.queue_wake().await;
    harness.until("two pods run", |harness| harness.cluster.bound() == 2).await;
    harness.minutes(1).await;
    assert_eq!(harness.cloud.alive().len(), 2);
    harness.cloud.ec2.restore(OfferingPattern::from(spot("c6i.xlarge")));
    harness.until("all pods run", |harness| harness.cluster.bound() == 4).await;
    harness.minutes(1).await;
    assert_eq!((harness.cloud.alive().len(), harness.records().await.len()), (4, 4));
    assert!(harness.cluster.events_of("LaunchRefused").is_empty());
    let throttled = harness.claims.unavailable(harness.clock.time()).await.unwrap();
    assert!(throttled.iter().all(|one| one.shortage.instance_type.as_deref() == Some("m6i.xlarge")), "{throttled:?}");
}
