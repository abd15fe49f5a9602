//! Plans that reach their work limit: each places a part of the pods, and the next continues with the others.

use crate::common::{Harness, pod};
use nodeless_model::NodeClaim;
use nodeless_operations::plan::{PlanReport, PlanSettings};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

/// Workloads of different sizes.
const PODS: usize = 400;

/// Plans in a function that has so little time and memory that the work limit is reached.
async fn plan(harness: &Harness) -> PlanReport {
    let soon = harness.clock.time().checked_add(Duration::from_secs(11)).unwrap();
    harness.planner().run_until(Some(soon), &[]).await.unwrap()
}

fn nominated(claims: &[NodeClaim]) -> Vec<&String> {
    claims.iter().flat_map(|claim| &claim.spec.nominated_pods).collect()
}

#[tokio::test]
async fn pods_beyond_the_work_limit_get_nodes_from_the_next_plan_and_none_gets_two() {
    let mut harness = Harness::new().await;
    harness.cluster.patch_node_pool(json!({ "spec": { "limits": { "cpu": "10000" } } }));
    let size = |number: usize| 1100 + 5 * i64::try_from(number).unwrap();
    harness.cluster.add_pods((0..PODS).map(|number| pod(&format!("web-{number}"), size(number))));
    harness.set(PlanSettings { memory_megabytes: Some(1), ..PlanSettings::default() });

    let first = plan(&harness).await;
    let (claims, left) = (harness.records().await, first.unschedulable.len());
    assert!(!claims.is_empty() && (1..PODS).contains(&left), "{left} left, {} claims", claims.len());
    assert!(first.unschedulable.iter().all(|(_, why)| why.contains("work limit")), "{first:?}");
    let message = format!("{left} pods were left for the next plan, since this one reached its work limit");
    assert!(first.problems.iter().any(|problem| problem.contains(&message)), "{:?}", first.problems);
    assert_eq!(nominated(&claims).len(), PODS - left);
    assert!(harness.queue.take_plan().is_some(), "the next plan is requested at once");

    let mut plans = 1;
    loop {
        let report = plan(&harness).await;
        plans += 1;
        assert!(plans < 20 && !report.created.is_empty(), "{report:?}");
        if report.unschedulable.is_empty() {
            assert_eq!(report.problems.iter().filter(|problem| problem.contains("work limit")).count(), 0);
            break;
        }
    }
    let claims = harness.records().await;
    let (all, different) = (nominated(&claims).len(), nominated(&claims).into_iter().collect::<BTreeSet<_>>().len());
    assert_eq!((all, different), (PODS, PODS), "each pod has one node");
    harness.until("all pods run", |harness| harness.cluster.bound() == PODS).await;
    assert_eq!(harness.records().await.len(), claims.len(), "no node is launched twice");
}
