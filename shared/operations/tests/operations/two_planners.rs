//! Two planners that work at the same time: SQS delivers a message again while the first planner is still at work.

use crate::common::{Harness, check_quiescent, drift, fixed_cluster, pod, running_cluster};
use nodeless_model::Quantity;
use nodeless_model::cluster_limits::MAX_NODES;
use nodeless_model::node_pool::PoolUsage;
use nodeless_operations::plan::PlanReport;
use nodeless_ports::{Claims, Plans};
use serde_json::json;
use std::time::Duration;

/// Two plans of which each has read everything before the other writes anything. The second begins a second later.
async fn both(harness: &Harness) -> [PlanReport; 2] {
    both_with(harness, async {}).await
}

/// The same with something that happens after the first plan has read the claims and before the second reads them.
async fn both_with(harness: &Harness, between: impl Future<Output = ()>) -> [PlanReport; 2] {
    harness.faults.meet_at("cluster view", 2);
    let second = harness.cold_planner();
    let later = async {
        between.await;
        harness.clock.advance_to(harness.clock.time().checked_add(Duration::from_secs(1)).unwrap());
        second.run().await
    };
    let (one, other) = futures::join!(Box::pin(harness.planner().run()), Box::pin(later));
    harness.faults.end_meeting();
    [one.unwrap(), other.unwrap()]
}

#[tokio::test]
async fn of_two_plans_at_once_one_launches() {
    let mut harness = Harness::new().await;
    harness.cluster.add_pods((0..3).map(|number| pod(&format!("web-{number}"), 3000)));
    let reports = both(&harness).await;
    let created = harness.records().await.len();
    let [first, second] = reports.each_ref().map(|report| report.created.len());
    assert_eq!((created, first + second), (3, 3), "{reports:#?}");
    assert!(first == 0 || second == 0, "{reports:#?}");
    let refused = reports.iter().find(|report| report.created.is_empty()).unwrap();
    assert!(refused.problems.iter().any(|problem| problem.contains("another plan has decided")), "{refused:#?}");
    assert!(harness.queue.take_plan().is_some(), "the next plan decides anew");
    harness.until("pods run", |harness| harness.cluster.bound() == 3).await;
    harness.minutes(2).await;
    check_quiescent(&harness, 3, 3, "after two plans at once").await;
}

#[tokio::test]
async fn of_two_plans_at_once_one_proposes_and_confirms() {
    let mut harness = running_cluster(2).await;
    harness.cluster.patch_node_pool(json!({ "spec": { "disruption": { "budgets": [{ "nodes": "1" }] } } }));
    drift(&harness);
    let reports = both(&harness).await;
    let proposed = harness.claims.commands().await.unwrap();
    assert_eq!(reports.iter().filter(|report| !report.proposed.is_empty()).count(), 1, "{reports:#?}");
    harness.clock.advance_to(harness.clock.time().checked_add(Duration::from_secs(20)).unwrap());
    both(&harness).await;
    let confirmed = harness.claims.commands().await.unwrap();
    assert_eq!(confirmed.len(), proposed.len(), "{confirmed:#?}");
    assert_eq!(harness.records().await.iter().filter(|claim| claim.status.command.is_some()).count(), 1, "the budget");
    harness.minutes(20).await;
    check_quiescent(&harness, 2, 2, "after two plans at once").await;
}

/// The two plans choose other claims, so no version of a claim keeps the later plan from writing what it decided.
#[tokio::test]
async fn surplus_claims_of_static_capacity_leave_by_one_of_two_plans() {
    let mut harness = fixed_cluster(4).await;
    harness.until("nodes are there", |harness| harness.cluster.nodes().len() == 4).await;
    harness.minutes(2).await;
    harness.cluster.patch_node_pool(json!({ "spec": { "replicas": 2 } }));
    // The claims rank alike but for the names of their nodes, and those without an instance leave before the others.
    let mut others = harness.records().await;
    others.sort_by(|a, b| a.status.node_name.cmp(&b.status.node_name));
    let others = others.split_off(2);
    let reports = both_with(&harness, async {
        for mut claim in others {
            claim.status.instance = None;
            harness.claims.update(&claim, None).await.unwrap();
        }
    })
    .await;
    let leaving = harness.records().await.iter().filter(|claim| claim.status.termination.is_some()).count();
    assert_eq!(leaving, 2, "{reports:#?}");
    assert_eq!(reports.iter().filter(|report| !report.leaving.is_empty()).count(), 1, "{reports:#?}");
}

#[tokio::test]
async fn of_two_plans_at_once_launches_stay_within_the_limits_of_the_cluster() {
    let harness = running_cluster(1).await;
    harness.cluster.annotate_cluster(MAX_NODES, Some("2"));
    drift(&harness);
    both(&harness).await;
    assert_eq!(harness.claims.commands().await.unwrap().len(), 1, "a replacement fits");
    // While one plan launches the replacement, the other finds a pod that needs the same node.
    harness.clock.advance_to(harness.clock.time().checked_add(Duration::from_secs(20)).unwrap());
    let more = async { harness.cluster.add_replica_sets([pod("more", 3000)]) };
    both_with(&harness, more).await;
    for _ in 0..10 {
        let usage = harness.claims.usage().await.unwrap();
        let nodes = PoolUsage::sum(usage.values()).resources.get("nodes");
        assert!(nodes <= Quantity::from_units(2), "{usage:#?}");
        harness.clock.advance_to(harness.clock.time().checked_add(Duration::from_secs(5)).unwrap());
        both(&harness).await;
    }
}
