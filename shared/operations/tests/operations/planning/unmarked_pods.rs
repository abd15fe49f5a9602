//! Pods that the kube-scheduler has no writes left to report on are planned with the others.

use crate::common::{Harness, pod};
use std::time::Duration;

/// A cluster of these pods that its kube-scheduler marks one after the other, two in a second, three seconds after they were created.
async fn three_seconds_after(pods: usize) -> Harness {
    let harness = Harness::new().await;
    harness.cluster.world().set_scheduler_writes(Some(2));
    harness.cluster.add_pods((0..pods).map(|number| pod(&format!("web-{number:02}"), 1000)));
    harness.cluster.advance(Duration::from_secs(3));
    harness
}

fn marked(harness: &Harness) -> usize {
    harness.cluster.view().pods().filter(|pod| pod.is_provisionable()).count()
}

#[tokio::test]
async fn pods_that_are_not_marked_yet_are_planned_with_the_others() {
    let mut harness = three_seconds_after(20).await;
    assert_eq!(marked(&harness), 6, "two a second");
    let report = harness.planner().run().await.unwrap();
    assert_eq!((report.pods, report.unschedulable.len()), (20, 0), "{report:#?}");
    let launched = harness.records().await.len();
    harness.until("pods run", |harness| harness.cluster.bound() == 20).await;
    harness.minutes(2).await;
    assert_eq!(harness.history.len(), launched, "nothing was launched again: {:#?}", harness.history);
}

#[tokio::test]
async fn a_pod_that_fits_on_a_node_causes_no_launch() {
    let mut harness = Harness::new().await;
    harness.cluster.add_pods([pod("web", 1000)]);
    harness.queue_wake().await;
    harness.until("the pod runs", |harness| harness.cluster.bound() == 1).await;
    // No instance type is large enough for this pod.
    harness.cluster.add_pods([pod("large", 90_000)]);
    harness.cluster.world().set_scheduler_writes(Some(0));
    harness.cluster.add_pods([pod("small", 10)]);
    harness.cluster.advance(Duration::from_secs(3));
    let report = harness.planner().run().await.unwrap();
    assert_eq!((report.pods, report.placed, report.created.len()), (2, 1, 0), "{report:#?}");
}

#[tokio::test]
async fn nothing_is_launched_while_the_scheduler_marks_no_pod() {
    let harness = Harness::new().await;
    harness.cluster.world().set_scheduler_writes(Some(0));
    harness.cluster.add_pods([pod("web", 1000)]);
    for _ in 0..10 {
        harness.cluster.advance(Duration::from_secs(6));
        let report = harness.planner().run().await.unwrap();
        assert_eq!((report.pods, report.created.len()), (0, 0), "{report:#?}");
    }
}
