//! StopInstances and StartInstances: many instances with one call, and what happens if EC2 refuses one.

use crate::common::{Harness, running_cluster};
use crate::disruption::warm::{add, calls, converge, ids, instances, keep, stopped};
use nodeless_fake_aws::OfferingPattern;
use nodeless_model::{NodeClaim, Phase};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

/// The lines of the log since the last call that contain a text.
fn logged(harness: &Harness, text: &str) -> Vec<String> {
    let lines = harness.sink.take().into_iter().map(|line| line.to_string());
    lines.filter(|line| line.contains(text)).collect()
}

fn zones(claims: &[NodeClaim]) -> BTreeSet<String> {
    claims.iter().filter_map(|claim| claim.status.instance.as_ref()).map(|instance| instance.zone.clone()).collect()
}

#[tokio::test]
async fn instances_of_a_type_and_zone_are_stopped_and_started_with_one_call() {
    let mut harness = running_cluster(1).await;
    keep(&harness, "9");
    converge(&mut harness, (1, 9, 1), "nine are kept").await;
    let zones = u64::try_from(zones(&stopped(&harness).await).len()).unwrap();
    assert!(zones < 9 && calls(&harness, "StopInstances") <= zones, "{zones} zones");
    let kept = ids(&stopped(&harness).await);
    keep(&harness, "0x");
    harness.cloud.ec2.throttle("StartInstances", 1);
    drop(harness.sink.take());
    (0..9).for_each(|number| add(&harness, &format!("more-{number}")));
    harness.queue_wake().await;
    converge(&mut harness, (10, 0, 10), "all were started").await;
    let running: BTreeSet<String> = harness.cloud.running().into_iter().map(|instance| instance.id).collect();
    assert!(kept.is_subset(&running), "a call that is throttled is repeated");
    assert_eq!(calls(&harness, "StartInstances"), 1 + zones);
    assert_eq!(logged(&harness, "launch-failed"), Vec::<String>::new(), "it is no failed launch");
}

#[tokio::test]
async fn as_many_are_started_as_ec2_has_capacity_for_and_the_other_pods_are_planned_anew() {
    let mut harness = running_cluster(1).await;
    keep(&harness, "9");
    converge(&mut harness, (1, 9, 1), "nine are kept").await;
    let kept = stopped(&harness).await;
    let instance = kept[0].status.instance.clone().unwrap();
    let alike = kept.iter().filter_map(|claim| claim.status.instance.as_ref()).filter(|it| it.zone == instance.zone);
    let alike: BTreeSet<String> = alike.map(|instance| instance.id.clone()).collect();
    assert!(alike.len() > 2, "{alike:?}");
    let offering =
        OfferingPattern { instance_type: Some(instance.instance_type), zone: Some(instance.zone), capacity_type: None };
    harness.cloud.ec2.run_short(offering, 1);
    keep(&harness, "0x");
    drop(harness.sink.take());
    (0..9).for_each(|number| add(&harness, &format!("more-{number}")));
    harness.queue_wake().await;
    converge(&mut harness, (10, alike.len() - 1, 10), "all pods run").await;
    let running: BTreeSet<String> = harness.cloud.running().into_iter().map(|instance| instance.id).collect();
    assert_eq!(alike.intersection(&running).count(), 1, "the capacity is used");
    assert_eq!(logged(&harness, "launch-failed"), Vec::<String>::new(), "it is no failed launch");
}

#[tokio::test]
async fn after_a_refused_stop_nothing_is_stopped_until_the_annotation_changes_or_six_hours_have_passed() {
    let mut harness = running_cluster(1).await;
    harness.cloud.ec2.deny("StopInstances");
    keep(&harness, "2");
    harness.until("a stop is refused", |harness| calls(harness, "StopInstances") > 0).await;
    converge(&mut harness, (1, 0, 1), "their nodes served pods, and were empty").await;
    let events = harness.cluster.events_of("StopRefused");
    assert!(events.len() == 1 && events[0].object.kind == "NodePool", "{events:#?}");
    assert!(
        events[0].message.contains("UnauthorizedOperation") || events[0].message.contains("not authorized"),
        "{events:#?}"
    );
    let (tried, launched) = (calls(&harness, "StopInstances"), harness.cloud.launched());
    harness.cluster.advance(Duration::from_hours(5));
    harness.minutes(3).await;
    assert_eq!((calls(&harness, "StopInstances"), harness.cloud.launched()), (tried, launched));
    keep(&harness, "1");
    harness.until("the annotation changed", |harness| calls(harness, "StopInstances") > tried).await;
    converge(&mut harness, (1, 0, 1), "it is refused again").await;

    harness.cloud.ec2.allow("StopInstances");
    harness.minutes(3).await;
    assert_eq!(instances(&harness), (1, 0));
    harness.cluster.advance(Duration::from_hours(6));
    converge(&mut harness, (1, 1, 1), "six hours have passed").await;
}

/// What EC2 refuses to stop may serve pods, which is what its node is opened for.
#[tokio::test]
async fn a_node_that_is_not_stopped_is_opened_again_for_pods() {
    let mut harness = running_cluster(1).await;
    harness.cluster.patch_node_pool(json!({ "spec": { "disruption": { "consolidateAfter": "Never" } } }));
    harness.cloud.ec2.deny("StopInstances");
    keep(&harness, "2");
    harness.until("a stop is refused", |harness| calls(harness, "StopInstances") > 0).await;
    harness.minutes(2).await;
    let records = harness.records().await;
    assert!(records.iter().all(|claim| claim.phase == Phase::Initialized && !claim.is_warm()), "{records:#?}");
    let launched = harness.cloud.launched();
    add(&harness, "more-0");
    add(&harness, "more-1");
    harness.queue_wake().await;
    harness.minutes(2).await;
    assert_eq!((harness.cluster.bound(), harness.cloud.launched()), (3, launched));
}
