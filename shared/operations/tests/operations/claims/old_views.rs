//! Views of the cluster that are not proved to be current: nothing is decided from them.

use crate::common::{Harness, drift, pod, running_cluster};
use nodeless_ports::ErrorKind;

/// The call that proves that a view is current, as fault injection names it.
const PROOF: &str = "cluster confirm view";

#[tokio::test]
async fn nothing_is_launched_from_a_view_that_is_not_current() {
    let mut harness = Harness::new().await;
    harness.cluster.add_pods((0..3).map(|number| pod(&format!("web-{number}"), 3000)));
    harness.faults.fail(PROOF, ErrorKind::Conflict);
    let report = harness.planner().run().await.unwrap();
    assert!(report.created.is_empty() && harness.records().await.is_empty(), "{report:#?}");
    assert!(report.problems.iter().any(|problem| problem.contains("a fault was injected")), "{report:#?}");
    assert!(harness.queue.take_plan().is_some(), "the next plan decides anew");
    harness.faults.end_outages();
    harness.until("pods run", |harness| harness.cluster.bound() == 3).await;
    assert_eq!(harness.records().await.len(), 3);
}

#[tokio::test]
async fn nothing_is_disrupted_from_a_view_that_is_not_current() {
    let harness = running_cluster(1).await;
    drift(&harness);
    harness.faults.fail(PROOF, ErrorKind::Unavailable);
    harness.planner().run().await.unwrap();
    assert!(harness.claims.commands().await.unwrap().is_empty());
    harness.faults.end_outages();
    harness.planner().run().await.unwrap();
    assert_eq!(harness.claims.commands().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_plan_that_decides_nothing_waits_for_no_proof() {
    let mut harness = running_cluster(2).await;
    harness.minutes(2).await;
    drop(harness.faults.take_calls());
    harness.planner().run().await.unwrap();
    let calls = harness.faults.take_calls();
    assert!(calls.contains_key("cluster view") && !calls.contains_key(PROOF), "{calls:?}");
}

#[tokio::test]
async fn node_claims_without_records_end_no_plan_whose_view_is_not_current() {
    let harness = running_cluster(1).await;
    let claim = harness.records().await.remove(0);
    harness.claims.delete_ended(&claim, None).await.unwrap();
    harness.faults.fail(PROOF, ErrorKind::Conflict);
    harness.planner().run().await.unwrap();
    assert!(harness.records().await.is_empty(), "it decides nothing");
    harness.faults.end_outages();
    let error = harness.planner().run().await.unwrap_err().to_string();
    assert!(error.contains("the records of 1 NodeClaims"), "{error}");
}
