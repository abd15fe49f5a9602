//! Nodes are not consolidated for a time if the removal of such a node led to a launch.

use crate::common::{Harness, pod};
use nodeless_disruption::churn::Churn;
use nodeless_disruption::held_back::HeldBack;
use nodeless_fake_kubernetes::resource::REPLICA_SETS;
use nodeless_planner::unpacked;
use nodeless_ports::ErrorKind;
use nodeless_state::RecordKind;
use nodeless_state::decisions::Decision;
use nodeless_telemetry::Metric;
use serde_json::{Value, json};

/// The requests of a pod in thousandths of a CPU: one that has a node for itself, and one of two that share a node.
const LARGE: i64 = 3000;
const SMALL: i64 = 1100;

/// A cluster that consolidates, with two large pods of one ReplicaSet, each on a node of its own.
async fn two_nodes() -> Harness {
    let mut harness = Harness::new().await;
    let disruption = json!({ "consolidateAfter": "30s", "consolidationPolicy": "WhenEmptyOrUnderutilized" });
    harness.cluster.patch_node_pool(json!({ "spec": { "disruption": disruption } }));
    harness.cluster.add_replica_sets([pod("web", LARGE)]);
    harness.cluster.patch(&REPLICA_SETS, "web", json!({ "spec": { "replicas": 2 } }));
    harness.cluster.converge();
    harness.queue_wake().await;
    harness.until("both pods run", |harness| harness.cluster.bound() == 2).await;
    harness.minutes(2).await;
    assert_eq!(harness.cloud.alive().len(), 2);
    harness
}

/// Both pods are replaced by pods with these CPU requests.
fn replace_both(harness: &Harness, milli_cpu: i64) {
    let names: Vec<String> = harness.cluster.pods().into_values().map(|pod| pod.name).collect();
    let containers = &pod("web", milli_cpu)["spec"]["containers"];
    let template = json!({ "spec": { "containers": containers } });
    harness.cluster.patch(&REPLICA_SETS, "web", json!({ "spec": { "template": template } }));
    names.iter().for_each(|name| harness.cluster.remove_pod(name));
}

/// Makes both pods small, and waits until a command has moved one to the node of the other.
async fn consolidate(harness: &mut Harness) {
    replace_both(harness, SMALL);
    harness.until("one node is left", |harness| harness.cloud.alive().len() == 1 && harness.cluster.bound() == 2).await;
}

/// Makes both pods large again, and waits until there is a node for each.
async fn launch_again(harness: &mut Harness) {
    replace_both(harness, LARGE);
    harness.queue_wake().await;
    harness.until("both pods run", |harness| harness.cloud.alive().len() == 2 && harness.cluster.bound() == 2).await;
}

async fn recorded(harness: &Harness) -> HeldBack {
    let stored = harness.claims.records(RecordKind::Churn).await.unwrap();
    let [stored] = &stored[..] else { panic!("{stored:?}") };
    serde_json::from_str::<Churn>(&stored.encoded).unwrap().held_back
}

async fn decisions(harness: &Harness, kind: &str) -> Vec<(Decision, Value)> {
    let all = harness.claims.decisions(1000).await.unwrap();
    let of_kind = all.into_iter().filter(|decision| decision.kind == kind);
    of_kind.map(|decision| (decision.clone(), unpacked(&decision.detail).unwrap())).collect()
}

fn is_held(message: &str) -> bool {
    message.contains("onsolidation removed such a node, and another was launched for pods of ReplicaSet default/web")
}

#[tokio::test]
async fn a_removal_that_led_to_a_launch_is_not_repeated_until_the_hold_ends() {
    let mut harness = two_nodes().await;
    consolidate(&mut harness).await;
    let noted = recorded(&harness).await;
    let [removal] = &noted.removals[..] else { panic!("{noted:?}") };
    assert!(removal.predicted > 0.0 && removal.launches.is_empty() && noted.holds.is_empty(), "{noted:?}");
    assert!(decisions(&harness, "removal-led-to-launch").await.is_empty());

    launch_again(&mut harness).await;
    let noted = recorded(&harness).await;
    let ([removal], [hold]) = (&noted.removals[..], &noted.holds[..]) else { panic!("{noted:?}") };
    let [launch] = &removal.launches[..] else { panic!("{removal:?}") };
    assert!((removal.realized() - (removal.predicted - launch.price)).abs() < 1e-9 && launch.price > 0.0);
    let [(decision, detail)] = &decisions(&harness, "removal-led-to-launch").await[..] else { panic!("one") };
    assert!(decision.subjects.contains(&launch.node_claim), "{decision:?}");
    assert_eq!(detail["removal"]["command"], removal.command.as_str());
    assert_eq!(detail["removal"]["realizedSavingsPerHour"], json!(removal.realized()));

    // Both nodes could be consolidated again, but stay, also after a restart of the planner.
    harness.restart();
    replace_both(&harness, SMALL);
    harness.cluster.forget_events();
    harness.minutes(5).await;
    assert_eq!(harness.cloud.alive().len(), 2);
    assert!(harness.claims.commands().await.unwrap().is_empty());
    let report = harness.planner().run().await.unwrap();
    let held = report.kept.iter().filter(|kept| kept.reasons.iter().any(|reason| is_held(&reason.to_string())));
    assert_eq!(held.count(), 2, "{:?}", report.kept);
    let left = hold.until.duration_since(harness.clock.time());
    assert!(report.next.is_some_and(|next| next.as_secs() <= left.unsigned_abs().as_secs() + 1), "{:?}", report.next);
    let events = harness.cluster.events_of("Unconsolidatable");
    assert!(events.iter().any(|event| event.object.kind == "Node" && is_held(&event.message)), "{events:?}");
    assert_eq!(harness.sink.totals().get(Metric::NodesHeldBack), [2.0]);

    harness.minutes(15).await;
    assert!(harness.clock.time() > hold.until);
    assert_eq!(harness.cloud.alive().len(), 1, "the hold has ended");
}

#[tokio::test]
async fn a_launch_long_after_the_removed_node_is_gone_has_another_cause() {
    let mut harness = two_nodes().await;
    consolidate(&mut harness).await;
    harness.minutes(8).await;
    launch_again(&mut harness).await;
    let noted = recorded(&harness).await;
    assert!(noted.holds.is_empty() && noted.removals.iter().all(|removal| removal.launches.is_empty()), "{noted:?}");
}

#[tokio::test]
async fn a_launch_whose_cause_cannot_be_read_is_made_and_reported() {
    let mut harness = two_nodes().await;
    consolidate(&mut harness).await;
    harness.faults.fail("claims churn", ErrorKind::Unavailable);
    replace_both(&harness, LARGE);
    let report = harness.planner().run().await.unwrap();
    assert_eq!(report.created.len(), 1, "{report:?}");
    let reported = |problem: &String| problem.starts_with("it could not be recorded whether a removal led to a launch");
    assert!(report.problems.iter().any(reported), "{:?}", report.problems);
}
