//! Conditions and events that `kubectl describe` shows for nodes that stay and nodes that are removed, as in Karpenter.

use crate::common::{Harness, drift, pod, running_cluster};
use nodeless_fake_kubernetes::resource::PODS;
use nodeless_model::object::ObjectEvent;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Events of a reason, with kind and name of what they are about.
fn reported(harness: &Harness, reason: &str) -> Vec<ObjectEvent> {
    harness.cluster.events_of(reason)
}

fn kinds(events: &[ObjectEvent]) -> BTreeSet<&str> {
    events.iter().map(|event| event.object.kind.as_str()).collect()
}

/// The machine has just what its instance type promises.
async fn keep_promises(harness: &Harness) {
    let capacity = harness.records().await[0].status.capacity.clone();
    harness.cluster.change_node_statuses(|status| status["capacity"] = json!(capacity));
}

/// Status and reason of a condition of the only NodeClaim object.
fn shown(harness: &Harness, kind: &str) -> Option<(String, String)> {
    harness.cluster.node_claims().values().next().unwrap().conditions.get(kind).cloned()
}

#[tokio::test]
async fn an_unconsolidatable_node_gets_an_event_while_the_api_server_has_none() {
    let mut harness = running_cluster(1).await;
    harness.minutes(50).await;
    let events = reported(&harness, "Unconsolidatable");
    assert_eq!(kinds(&events), BTreeSet::from(["Node", "NodeClaim"]), "{events:?}");
    let per_object = events.iter().filter(|event| event.object.kind == "Node").count();
    assert!((1..=2).contains(&per_object), "{per_object} events on the Node in fifty minutes");
    assert!(events.iter().all(|event| !event.is_warning() && !event.object.uid.is_empty()), "{events:?}");
    assert!(events[0].message.contains('$') || events[0].message.contains("pod"), "{}", events[0].message);
}

#[tokio::test]
async fn a_kept_node_names_its_blocking_pod_and_a_candidate_its_savings() {
    let mut harness = Harness::new().await;
    let disruption = json!({ "consolidateAfter": "30s", "consolidationPolicy": "WhenEmptyOrUnderutilized" });
    harness.cluster.patch_node_pool(json!({ "spec": { "disruption": disruption } }));
    harness.cluster.add_replica_sets([pod("big", 3000), pod("small", 500)]);
    harness.queue_wake().await;
    harness.until("both run", |harness| harness.cluster.bound() == 2).await;
    let big = harness.cluster.pod_of("big").name;
    harness.cluster.patch(
        &PODS,
        &big,
        json!({ "metadata": { "annotations": { "karpenter.sh/do-not-disrupt": "true" } } }),
    );
    harness.minutes(3).await;
    let blocked = reported(&harness, "DisruptionBlocked");
    let named =
        |event: &ObjectEvent| event.message == format!("Pod default/{big} is annotated karpenter.sh/do-not-disrupt");
    assert!(blocked.iter().any(named), "{blocked:?}");
    assert_eq!(kinds(&blocked), BTreeSet::from(["Node", "NodeClaim"]));
    harness.cluster.replace_pod("big", 100);
    harness.minutes(6).await;
    let candidates = reported(&harness, "ConsolidationCandidate");
    assert_eq!(kinds(&candidates), BTreeSet::from(["Node", "NodeClaim"]), "{candidates:?}");
    assert!(candidates[0].message.contains("savings: $"), "{}", candidates[0].message);
}

#[tokio::test]
async fn conditions_of_the_nodeclaim_report_its_disruption() {
    let mut harness = running_cluster(1).await;
    keep_promises(&harness).await;
    // The pods of the node do not change for `consolidateAfter`.
    harness.minutes(3).await;
    let is = |kind: &str, reason: &str| {
        assert_eq!(shown(&harness, kind), Some(("True".into(), reason.into())), "{kind}");
    };
    is("Consolidatable", "Consolidatable");
    is("ConsistentStateFound", "ConsistentStateFound");
    assert_eq!(shown(&harness, "Drifted"), None);

    // A budget of zero nodes forbids replacement, so the node stays drifted.
    harness.cluster.patch_node_pool(json!({ "spec": { "disruption": { "budgets": [{ "nodes": "0" }] } } }));
    drift(&harness);
    harness.minutes(3).await;
    assert_eq!(shown(&harness, "Drifted"), Some(("True".into(), "NodePoolDrifted".into())));
    let since = harness.records().await[0].condition("Drifted").unwrap().last_transition_time;
    let transitions = reported(&harness, "Drifted");
    assert_eq!(transitions.len(), 1, "{transitions:?}");
    assert!(transitions[0].message.contains("Unknown -> True, Reason: NodePoolDrifted"), "{}", transitions[0].message);
    harness.minutes(3).await;
    assert_eq!(harness.records().await[0].condition("Drifted").unwrap().last_transition_time, since);

    // The NodePool is as it was.
    harness.cluster.patch_node_pool(json!({ "spec": { "template": { "metadata": null } } }));
    harness.minutes(3).await;
    assert_eq!(shown(&harness, "Drifted"), None);
}

#[tokio::test]
async fn a_node_with_less_capacity_than_its_instance_type_is_reported() {
    let mut harness = running_cluster(1).await;
    keep_promises(&harness).await;
    harness.minutes(2).await;
    harness.cluster.forget_events();
    harness.cluster.change_node_statuses(|status| status["capacity"]["cpu"] = json!("1"));
    harness.minutes(4).await;
    assert_eq!(shown(&harness, "ConsistentStateFound"), Some(("False".into(), "ConsistencyCheckFailed".into())));
    let failed = reported(&harness, "FailedConsistencyCheck");
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(
        failed[0].is_warning() && failed[0].message.contains("of resource cpu, but found 1"),
        "{}",
        failed[0].message
    );
}

/// CloudWatch charges for each metric in each hour with values: docs/benchmarks/cost.py counts these.
#[tokio::test]
async fn few_metrics_are_published_while_nothing_changes() {
    let mut harness = running_cluster(1).await;
    harness.minutes(20).await;
    harness.claims.put_catalog_refreshed(harness.clock.time()).await.unwrap();
    harness.sink.forget_metrics();
    for _ in 0..6 {
        harness.minutes(10).await;
        harness.claims.put_catalog_refreshed(harness.clock.time()).await.unwrap();
    }
    let document = harness.sink.totals().render("test", harness.clock.time()).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    let metrics = document["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().unwrap();
    let names: BTreeSet<&str> = metrics.iter().map(|metric| metric["Name"].as_str().unwrap()).collect();
    assert_eq!(names, BTreeSet::from(["HourlySpendDollars", "NodeCount", "PendingPods"]));
}
