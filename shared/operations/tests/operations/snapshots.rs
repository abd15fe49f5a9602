//! Snapshots of plans, kept and replayed.

use crate::common::{Harness, drift, pod, running_cluster};
use flate2::read::ZlibDecoder;
use nodeless_fake_kubernetes::resource::{NODES, PODS};
use nodeless_planner::{ANSWERS, Answers, PlanSettings, Snapshot};
use nodeless_ports::ErrorKind;
use nodeless_world::resources::NODE_CLASSES;
use serde_json::json;
use std::collections::BTreeSet;
use std::io::Read as _;
use std::time::Duration;

fn settings() -> PlanSettings {
    let keep_snapshots = Some(Duration::from_secs(3600));
    PlanSettings { remembered_from: 1, keep_snapshots, ..PlanSettings::default() }
}

/// The snapshot that was kept last, and what came of the plan's writes.
fn latest(harness: &Harness) -> (Vec<u8>, Vec<u8>) {
    let mut kept = harness.claims.snapshots().into_iter();
    let (of, answers) = kept.next_back().unwrap();
    let (id, snapshot) = kept.next_back().unwrap();
    assert_eq!(of, id + ANSWERS);
    (snapshot, answers)
}

/// Plans, and plans again for what was kept of it.
async fn plan_twice(harness: &Harness) -> String {
    let done = harness.planner().run_recorded().await.unwrap();
    let (snapshot, answers) = latest(harness);
    let (snapshot, answers) = (Snapshot::read(&snapshot).unwrap(), Answers::read(&answers).unwrap());
    let again = || serde_json::to_string(&snapshot.replay_with(answers.clone())).unwrap();
    let done = serde_json::to_string(&done).unwrap();
    assert_eq!(done, again());
    assert_eq!(done, again(), "and a third time");
    done
}

#[tokio::test]
async fn a_plan_made_again_from_what_was_kept_is_the_same_to_the_byte() {
    let mut harness = running_cluster(2).await;
    harness.set(settings());
    let policy = "WhenEmptyOrUnderutilized";
    harness.cluster.patch_node_pool(json!({ "spec": { "disruption": { "consolidationPolicy": policy } } }));
    drift(&harness);
    harness.cluster.add_replica_sets([pod("late", 3000), pod("huge", 3_000_000)]);
    for round in 0..120 {
        let done = plan_twice(&harness).await;
        let (snapshot, _) = latest(&harness);
        let taken_for_done = Snapshot::read(&snapshot).unwrap().replay();
        assert_eq!(done, serde_json::to_string(&taken_for_done).unwrap(), "no write was refused");
        if round == 60 {
            harness.cluster.remove_all_pods();
        }
        // Most plans are made by the cluster, so let some of them be made here.
        while harness.queue.take_plan().is_some() {}
        harness.tick().await;
    }
    let mut done = BTreeSet::new();
    let kinds = ["createGroup", "updateClaim", "putCommand", "createReplacement", "changeClaim", "deleteCommand"];
    for (_, kept) in harness.claims.snapshots().into_iter().filter(|(id, _)| !id.ends_with(ANSWERS)) {
        let text = serde_json::to_string(&Snapshot::read(&kept).unwrap().replay()).unwrap();
        done.extend(kinds.into_iter().filter(|kind| text.contains(&format!("\"{kind}\""))));
    }
    assert_eq!(done, BTreeSet::from(kinds), "the plans did all that plans do");
}

#[tokio::test]
async fn a_plan_that_met_refusals_is_the_same_too() {
    let mut harness = running_cluster(2).await;
    harness.set(settings());
    drift(&harness);
    for (number, broken) in [
        "claims create",
        "claims put command",
        "claims update",
        "claims churn",
        "claims delete command",
        "cluster node pool status",
    ]
    .into_iter()
    .cycle()
    .take(24)
    .enumerate()
    {
        harness.cluster.add_pods([pod(&format!("late-{number}"), 3000)]);
        harness.faults.fail(broken, ErrorKind::Unavailable);
        let done = plan_twice(&harness).await;
        harness.faults.end_outages();
        assert!(!done.is_empty());
        for _ in 0..4 {
            harness.tick().await;
        }
    }
}

/// A snapshot is replayed with a very low work limit.
#[tokio::test]
async fn nothing_is_disrupted_while_pods_are_left_for_the_next_plan() {
    let mut harness = running_cluster(2).await;
    harness.set(settings());
    drift(&harness);
    harness.cluster.add_pods([pod("late", 3000), pod("later", 1000)]);
    let done = serde_json::to_string(&harness.planner().run_recorded().await.unwrap()).unwrap();
    assert!(done.contains("\"putCommand\""), "a node that drifted would go");
    let mut snapshot = Snapshot::read(&latest(&harness).0).unwrap();
    snapshot.work.provisioning = Some(1);
    let replay = snapshot.replay();
    let (report, text) = (&replay.outcome.report, serde_json::to_string(&replay).unwrap());
    assert!(report.problems.iter().any(|why| why.contains("left for the next plan")), "{report:?}");
    assert_eq!((report.proposed.len(), report.leaving.len(), report.kept.len()), (0, 0, 0), "{report:?}");
    assert!(report.unschedulable.iter().all(|(_, why)| why.contains("work limit")), "{report:?}");
    let failed = replay.outcome.events.iter().filter(|event| event.reason == "FailedScheduling");
    assert_eq!(failed.count(), 0, "a pod that was not looked at has not failed");
    assert!(!text.contains("\"putCommand\"") && text.contains("\"wakePlanner\""), "{text}");
}

#[tokio::test]
async fn what_is_kept_holds_nothing_that_may_be_secret() {
    const SECRET: &str = "s3cr3t";
    let mut harness = running_cluster(1).await;
    harness.set(settings());
    let applied =
        json!({ "metadata": { "annotations": { "kubectl.kubernetes.io/last-applied-configuration": SECRET } } });
    harness.cluster.patch(&NODE_CLASSES, "default", json!({ "spec": { "userData": SECRET } }));
    harness.cluster.patch(&NODE_CLASSES, "default", applied.clone());
    harness.cluster.patch(&PODS, &harness.cluster.pod_of("web-0").name, applied.clone());
    harness.cluster.patch(&NODES, harness.cluster.nodes().keys().next().unwrap(), applied);
    let mut with_variable = pod("with-variable", 3000);
    let container = &mut with_variable["spec"]["containers"][0];
    container["env"] = json!([{ "name": "PASSWORD", "value": SECRET }]);
    container["args"] = json!([format!("--password={SECRET}")]);
    harness.cluster.add_pods([with_variable]);
    plan_twice(&harness).await;
    let mut text = String::new();
    ZlibDecoder::new(latest(&harness).0.as_slice()).read_to_string(&mut text).unwrap();
    assert!(text.starts_with("{\"format\":5,") && text.contains("with-variable"));
    assert!(!text.contains(SECRET));
    // Inflated by somebody, it is read too.
    assert!(Snapshot::read(text.as_bytes()).is_ok());
}

#[test]
fn what_is_no_snapshot_is_refused_in_words() {
    let why = |bytes: &[u8]| Snapshot::read(bytes).unwrap_err().to_string();
    assert!(why(b"{}").starts_with("it is not a snapshot of a plan"), "{}", why(b"{}"));
    assert!(why(br#"{"format": 6, "snapshot": {}}"#).starts_with("it has the form 6"));
    assert!(why(&[0x78, 1, 2]).starts_with("it is damaged"));
}
