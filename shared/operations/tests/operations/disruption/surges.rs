//! Pods that get their successors before their node is drained.

use crate::common::{Harness, pod};
use nodeless_fake_kubernetes::controllers::object::is_deleting;
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, PODS, REPLICA_SETS};
use nodeless_model::claim::TerminationReason;
use nodeless_model::surge::{DeploymentChange, Raise, SurgeState};
use nodeless_model::{Phase, labels};
use nodeless_ports::{Clock, ErrorKind};
use serde_json::{Value, json};

const WRITE: &str = "cluster change deployment";

/// A Deployment of this strategy whose pods ask for their successors, on a node of its own.
async fn running(mode: &str, replicas: i64, strategy: Value) -> Harness {
    let mut harness = Harness::new().await;
    let mut template = pod("web", 3000);
    template["metadata"] = json!({
        "labels": { "app": "web" }, "annotations": { labels::SURGE_BEFORE_DRAIN: mode },
    });
    let deployment = json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": replicas, "strategy": strategy, "selector": { "matchLabels": { "app": "web" } },
            "template": template,
        },
    });
    harness.cluster.create(&DEPLOYMENTS, deployment);
    harness.cluster.converge();
    harness.queue_wake().await;
    let all = usize::try_from(replicas).unwrap();
    harness.until("the pods are ready", |harness| ready(harness) == all).await;
    harness.minutes(1).await;
    harness
}

fn ready(harness: &Harness) -> usize {
    let is_ready = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array();
        !is_deleting(pod)
            && conditions.is_some_and(|all| all.iter().any(|it| it["type"] == "Ready" && it["status"] == "True"))
    };
    harness.cluster.list(&PODS).iter().filter(|pod| is_ready(pod)).count()
}

fn deployment(harness: &Harness) -> Value {
    harness.cluster.get(&DEPLOYMENTS, "web")
}

fn replicas(harness: &Harness) -> i64 {
    deployment(harness)["spec"]["replicas"].as_i64().unwrap()
}

/// The NodeClaim of the node of the pod that has run the longest is deleted.
async fn drain(harness: &Harness) -> String {
    let claim = harness.records().await.remove(0).name;
    harness.cluster.delete_node_claim(&claim);
    harness.wake_claim(&claim).await;
    claim
}

/// Ticks until the claim is gone. Returns the least number of ready pods meanwhile.
async fn gone(harness: &mut Harness, claim: &str) -> usize {
    let mut least = ready(harness);
    for _ in 0..240 {
        if harness.records().await.iter().all(|one| one.name != claim) {
            return least;
        }
        harness.tick().await;
        least = least.min(ready(harness));
    }
    panic!("{claim} is not gone after twenty minutes: {:#?}", harness.records().await);
}

#[tokio::test]
async fn the_successor_of_a_single_pod_is_ready_before_the_pod_goes() {
    for mode in ["restart", "scale"] {
        let mut harness = running(mode, 1, json!({})).await;
        let before = harness.cluster.pod_of("web").name;
        let claim = drain(&harness).await;
        assert_eq!(gone(&mut harness, &claim).await, 1, "{mode}");
        harness.minutes(2).await;
        assert_eq!((ready(&harness), replicas(&harness), harness.records().await.len()), (1, 1, 1), "{mode}");
        assert_ne!(harness.cluster.pod_of("web").name, before);
        assert_eq!(deployment(&harness)["metadata"]["annotations"].get(labels::SURGE), None);
        assert_eq!(harness.cluster.events_of("SurgeStarted").len(), 1);
        assert_eq!(harness.cluster.events_of("Evicted").len(), 0, "the Deployment deletes it");
        assert_eq!(harness.history.len(), 2, "one node for one successor: {:?}", harness.history);
        let sets = if mode == "restart" { 2 } else { 1 };
        assert_eq!(harness.cluster.list(&REPLICA_SETS).len(), sets, "{mode}: one restart, or none");
    }
}

#[tokio::test]
async fn the_nodes_of_all_pods_may_be_drained_together() {
    for mode in ["restart", "scale"] {
        let mut harness = running(mode, 2, json!({ "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } })).await;
        let claims: Vec<String> = harness.records().await.into_iter().map(|claim| claim.name).collect();
        assert_eq!(claims.len(), 2, "a node for each pod");
        for claim in &claims {
            harness.cluster.delete_node_claim(claim);
            harness.wake_claim(claim).await;
        }
        let mut least = usize::MAX;
        for claim in &claims {
            least = least.min(gone(&mut harness, claim).await);
        }
        assert!(least >= 1, "{mode}: the service is interrupted");
        harness.minutes(2).await;
        assert_eq!((ready(&harness), replicas(&harness), harness.records().await.len()), (2, 2, 2), "{mode}");
    }
}

#[tokio::test]
async fn a_budget_that_allows_no_eviction_does_not_hold_up_a_drain() {
    for mode in ["restart", "scale"] {
        let mut harness = running(mode, 1, json!({})).await;
        harness.cluster.protect("web");
        let claim = drain(&harness).await;
        assert_eq!(gone(&mut harness, &claim).await, 1, "{mode}");
        assert_eq!(replicas(&harness), 1);
    }
}

#[tokio::test]
async fn the_node_of_such_a_pod_may_be_replaced() {
    // Otherwise no node whose pods may not be evicted is disrupted voluntarily. A restart moves other pods too.
    let mut harness = running("restart", 1, json!({})).await;
    harness.cluster.protect("web");
    crate::common::drift(&harness);
    harness.minutes(5).await;
    assert_eq!((harness.history.len(), harness.cluster.events_of("SurgeStarted").len()), (1, 0));

    let mut harness = running("scale", 1, json!({})).await;
    harness.cluster.protect("web");
    crate::common::drift(&harness);
    let claim = harness.records().await.remove(0).name;
    assert_eq!(gone(&mut harness, &claim).await, 1);
    harness.minutes(2).await;
    let records = harness.records().await;
    assert_eq!((records.len(), ready(&harness)), (1, 1), "the successor runs on the replacement: {records:#?}");
    assert_eq!(harness.history.len(), 2);
}

#[tokio::test]
async fn a_deployment_that_deletes_first_is_refused_and_drained_as_ever() {
    let mut harness = running("restart", 1, json!({ "type": "Recreate" })).await;
    let claim = drain(&harness).await;
    gone(&mut harness, &claim).await;
    let refused = harness.cluster.events_of("SurgeRefused");
    assert!(refused[0].message.contains("Recreate") && refused[0].object.kind == "Pod", "{refused:?}");
    assert_eq!(harness.cluster.events_of("Evicted").len(), 1);
}

#[tokio::test]
async fn without_the_right_the_pod_is_evicted_and_the_reason_is_reported() {
    for mode in ["restart", "scale"] {
        let mut harness = running(mode, 1, json!({})).await;
        harness.faults.fail(WRITE, ErrorKind::Denied);
        let claim = drain(&harness).await;
        gone(&mut harness, &claim).await;
        let refused = harness.cluster.events_of("SurgeRefused");
        assert!(refused[0].message.contains("was denied"), "{refused:?}");
        assert_eq!((harness.cluster.events_of("Evicted").len(), replicas(&harness)), (1, 1));
    }
}

#[tokio::test]
async fn replicas_are_lowered_before_the_record_goes() {
    let mut harness = running("scale", 1, json!({})).await;
    let claim = drain(&harness).await;
    harness.until("it is raised", |harness| replicas(harness) == 2).await;
    // The machine fails, and nothing can be written to the Deployment for some minutes.
    harness.faults.fail(WRITE, ErrorKind::Unavailable);
    let instance = harness.records().await.remove(0).status.instance.unwrap().id;
    harness.cloud.end(&instance);
    harness.minutes(5).await;
    assert!(harness.records().await.iter().any(|one| one.name == claim && one.phase == Phase::Gone));
    harness.faults.end_outages();
    gone(&mut harness, &claim).await;
    assert_eq!(replicas(&harness), 1);
}

#[tokio::test]
async fn replicas_that_cannot_be_lowered_hold_up_no_eviction() {
    let mut harness = running("scale", 1, json!({})).await;
    harness.cluster.add_pods([pod("other", 100)]);
    harness.until("the other pod runs", |harness| ready(harness) == 2).await;
    harness.cluster.protect("other");
    let claim = drain(&harness).await;
    harness.until("it is raised", |harness| replicas(harness) == 2).await;
    // The pod that was raised for is gone, so the replicas are to be lowered, and nothing can be written to the Deployment.
    let old = harness.records().await.into_iter().find(|one| one.name == claim).unwrap().status.surges.remove(0).pod;
    harness.faults.fail(WRITE, ErrorKind::Unavailable);
    harness.cluster.remove_pod(&old);
    harness.cluster.end_protection();
    harness.minutes(2).await;
    let evicted = harness.cluster.events_of("Evicted");
    assert!(evicted.iter().any(|event| event.object.name == "other"), "{evicted:?}");
    assert_eq!(replicas(&harness), 2);
    harness.faults.end_outages();
    gone(&mut harness, &claim).await;
    assert_eq!(replicas(&harness), 1);
}

#[tokio::test]
async fn only_the_pod_of_the_raise_gets_the_lowest_deletion_cost() {
    let mut harness = running("scale", 2, json!({})).await;
    for claim in harness.records().await {
        harness.cluster.delete_node_claim(&claim.name);
        harness.wake_claim(&claim.name).await;
    }
    harness.until("it is raised", |harness| replicas(harness) == 3).await;
    let cost = |pod: &Value| pod["metadata"]["annotations"].get("controller.kubernetes.io/pod-deletion-cost").is_some();
    assert_eq!(harness.cluster.list(&PODS).iter().filter(|pod| cost(pod)).count(), 1);
}

#[tokio::test]
async fn replicas_that_an_autoscaler_sets_stay() {
    let mut harness = running("scale", 1, json!({})).await;
    let claim = drain(&harness).await;
    harness.until("it is raised", |harness| replicas(harness) == 2).await;
    harness.cluster.patch(&DEPLOYMENTS, "web", json!({ "spec": { "replicas": 3 } }));
    harness.cluster.converge();
    gone(&mut harness, &claim).await;
    harness.minutes(1).await;
    assert_eq!((replicas(&harness), ready(&harness)), (3, 3));
    assert_eq!(deployment(&harness)["metadata"]["annotations"].get(labels::SURGE), None);
}

#[tokio::test]
async fn an_interruption_during_the_drain_ends_the_wait() {
    let mut harness = running("restart", 1, json!({})).await;
    // No node is launched for the successor.
    harness.cluster.patch_node_pool(json!({ "spec": { "limits": { "cpu": "1" } } }));
    let name = drain(&harness).await;
    harness.until("it is restarted", |harness| harness.cluster.list(&REPLICA_SETS).len() == 2).await;
    harness.minutes(1).await;
    assert_eq!(ready(&harness), 1);
    let claim = harness.records().await.into_iter().find(|one| one.name == name).unwrap();
    let surge = &claim.status.surges[0];
    assert_eq!((&surge.state, claim.phase), (&SurgeState::Underway, Phase::Draining));
    let instance = claim.status.instance.unwrap().id;
    let warning = format!(
        r#"{{"source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","detail":{{"instance-id":"{instance}"}}}}"#
    );
    harness.interrupter().run(&warning).await.unwrap();
    harness.tick().await;
    harness.tick().await;
    assert_eq!(harness.cluster.events_of("Evicted").len(), 1);
    let end = harness.claims.get(&name).await.unwrap().and_then(|claim| claim.status.termination);
    assert!(end.is_none_or(|end| end.reason == TerminationReason::Deleted), "the first reason stands");
}

#[tokio::test]
async fn the_wait_for_a_successor_ends_after_ten_minutes() {
    let mut harness = running("restart", 1, json!({})).await;
    harness.cluster.patch_node_pool(json!({ "spec": { "limits": { "cpu": "1" } } }));
    let claim = drain(&harness).await;
    let start = harness.clock.now();
    gone(&mut harness, &claim).await;
    assert!(harness.clock.now().duration_since(start).as_mins() >= 10);
    assert_eq!(harness.cluster.events_of("SurgeTimedOut").len(), 1);
}

#[tokio::test]
async fn a_right_that_is_granted_during_the_drain_is_used() {
    // Before the longest wait for a successor has passed, and after it.
    for minutes in [2, 14] {
        for mode in ["restart", "scale"] {
            let mut harness = running(mode, 1, json!({})).await;
            harness.cluster.protect("web");
            harness.faults.fail(WRITE, ErrorKind::Denied);
            let claim = drain(&harness).await;
            harness.minutes(minutes).await;
            assert!(harness.records().await.iter().any(|one| one.name == claim), "no eviction is allowed");
            let denied = harness.cluster.events_of("SurgeRefused");
            assert!(denied[0].message.contains("was denied"), "{denied:?}");
            harness.faults.end_outages();
            assert_eq!(gone(&mut harness, &claim).await, 1, "{mode} after {minutes} minutes");
            harness.minutes(1).await;
            assert_eq!((ready(&harness), replicas(&harness)), (1, 1));
        }
    }
}

#[tokio::test]
async fn without_the_right_for_pods_the_pod_is_evicted_at_once_and_the_reason_is_reported() {
    let mut harness = running("scale", 1, json!({})).await;
    harness.faults.fail("cluster delete first", ErrorKind::Denied);
    let claim = drain(&harness).await;
    let start = harness.clock.now();
    assert_eq!(gone(&mut harness, &claim).await, 1, "the successor is there already");
    assert!(
        harness.clock.now().duration_since(start).as_mins() < 10,
        "it does not wait for the end of the drain's limit"
    );
    let denied = harness.cluster.events_of("SurgeRefused");
    assert!(denied[0].message.contains("was denied"), "{denied:?}");
    assert_eq!(harness.cluster.events_of("SurgeTimedOut").len(), 0);
    assert_eq!(harness.cluster.events_of("Evicted").len(), 1);
    harness.minutes(2).await;
    assert_eq!((ready(&harness), replicas(&harness)), (1, 1), "the replicas are lowered when the pod is gone");
    assert_eq!(deployment(&harness)["metadata"]["annotations"].get(labels::SURGE), None);
}

/// A Deployment that was raised for the node of the only claim, whose record knows nothing of it: the table was restored to a time before.
async fn raised_before_a_restore() -> Harness {
    let harness = running("scale", 1, json!({})).await;
    let (claim, pod) = (harness.records().await.remove(0).name, harness.cluster.pod_of("web").uid);
    let raise = Raise { claim, pod, from: 1, to: 2, at: harness.clock.now() };
    let change = DeploymentChange::Raise(raise);
    assert!(harness.sweeper().cluster.change_deployment("default", "web", &change).await.unwrap());
    harness
}

#[tokio::test]
async fn a_sweep_lowers_what_no_claim_holds() {
    let mut harness = raised_before_a_restore().await;
    assert_eq!(harness.sweeper().run().await.unwrap().problems, Vec::<String>::new());
    let lowered = deployment(&harness);
    assert_eq!(lowered["spec"]["replicas"], 1);
    assert_eq!(
        (&lowered["metadata"]["annotations"][labels::SURGE], lowered["metadata"]["labels"].get(labels::SURGE)),
        (&Value::Null, None)
    );
    let collected = harness.sink.take().into_iter().find(|line| line["event"] == "collected").unwrap();
    assert_eq!((&collected["what"], &collected["name"]), (&json!("Deployment lowered"), &json!("default/web")));
    harness.minutes(2).await;
    assert_eq!((ready(&harness), harness.records().await.len()), (1, 1));
}

#[tokio::test]
async fn a_sweep_lowers_nothing_that_another_party_has_changed_since() {
    let theirs = r#"{"claim":"a","pod":"p","from":0,"to":2,"at":"2026-01-01T00:00:00Z"}"#;
    for change in [
        json!({ "spec": { "replicas": 3 } }),
        json!({ "spec": { "minReadySeconds": 1 } }),
        json!({ "metadata": { "annotations": { labels::SURGE: theirs } } }),
    ] {
        let mut harness = raised_before_a_restore().await;
        harness.cluster.patch(&DEPLOYMENTS, "web", change.clone());
        let before = replicas(&harness);
        harness.minutes(3).await;
        assert_eq!(replicas(&harness), before, "{change}");
    }
}

#[tokio::test]
async fn a_sweep_leaves_a_raise_to_the_drain_that_holds_it() {
    let mut harness = running("scale", 1, json!({})).await;
    let claim = drain(&harness).await;
    harness.until("it is raised", |harness| replicas(harness) == 2).await;
    harness.sweeper().run().await.unwrap();
    assert_eq!(replicas(&harness), 2);
    assert_eq!(gone(&mut harness, &claim).await, 1);
    assert_eq!(replicas(&harness), 1);
}

#[tokio::test]
async fn a_sweep_that_may_not_list_deployments_does_everything_else() {
    let mut harness = running("scale", 1, json!({})).await;
    harness.faults.fail("cluster raised deployments", ErrorKind::Denied);
    let stray = harness.cloud.launch_orphan();
    harness.minutes(10).await;
    assert!(harness.cloud.running().iter().all(|instance| instance.id != stray));
    let problems = harness.sweeper().run().await.unwrap().problems;
    assert!(problems.iter().any(|why| why.starts_with("Deployments whose replicas are raised")), "{problems:?}");
}
