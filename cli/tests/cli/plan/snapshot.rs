//! `nodeless plan --snapshot`: replay of a plan of the planner.

use crate::support::{Folder, nodeless, run};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use nodeless_catalog::{Catalog, Facts};
use nodeless_model::Pod;
use nodeless_planner::{Answers, Snapshot};
use serde_json::{Value, json};
use std::sync::Arc;

/// The snapshot of a cluster without NodePools and with a pending pod of this name.
fn saved(name: &str) -> Vec<u8> {
    let catalog = Catalog::synthetic(1, Facts::embedded().unwrap());
    let mut snapshot = Snapshot::bare(Timestamp::from_second(1_800_000_000).unwrap(), Arc::new(catalog));
    snapshot.cluster_name = "prod".to_owned();
    let pod = Pod { namespace: "shop".to_owned(), name: name.to_owned(), marked_unschedulable: true, ..Pod::default() };
    snapshot.view.pods.push(pod.into());
    snapshot.save().unwrap()
}

/// The items of a snapshot as the table returns them.
fn items(id: &str, saved: &[u8]) -> Vec<Value> {
    let chunks = saved.chunks(10_000).enumerate();
    let item = |(number, chunk): (usize, &[u8])| {
        let key = format!("snapshot#{id}#{number:03}");
        json!({ "pk": { "S": "prod" }, "sk": { "S": key }, "chunk": { "B": STANDARD.encode(chunk) } })
    };
    let mut items: Vec<Value> = chunks.map(item).collect();
    // The order does not matter, because each item has its number.
    items.reverse();
    items
}

#[test]
fn the_latest_snapshot_is_replayed_byte_for_byte() {
    let folder = Folder::new();
    let path = folder.path().join("items.json");
    let mut all = items("2027-01-15T08:00:00.000Z", &saved("early"));
    all.extend(items("2027-01-15T08:01:00.000Z", &saved("late")));
    all.extend(items("2027-01-15T08:01:00.000Z.answers", &Answers::default().save().unwrap()));
    assert!(all.len() > 2, "more chunks than snapshots");
    std::fs::write(&path, json!({ "Items": all }).to_string()).unwrap();
    let plan = || run(nodeless().arg("plan").arg("--snapshot").arg(&path).args(["-o", "json"]));
    let (first, second) = (plan(), plan());
    assert_eq!(first.code, Some(2), "a pod is unschedulable: {}", first.stderr);
    assert_eq!(first.stdout, second.stdout);
    let replay = Snapshot::read(&saved("late")).unwrap().replay_with(Answers::default());
    assert_eq!(first.stdout, serde_json::to_string_pretty(&replay).unwrap() + "\n", "what the planner's pipeline does");
    assert_eq!(first.stderr, "note: the input contains 2 snapshots; replaying the latest, 2027-01-15T08:01:00.000Z\n");
    let replayed: Value = serde_json::from_str(&first.stdout).unwrap();
    assert_eq!(replayed["outcome"]["report"]["unschedulable"][0][0], "shop/late");
    let kinds: Vec<&str> =
        replayed["batches"].as_array().unwrap().iter().map(|it| it["stage"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["bookkeeping", "provisioning", "disruption", "end"], "all stages are recorded");

    let file = folder.path().join("snapshot");
    std::fs::write(&file, saved("alone")).unwrap();
    let ended = run(nodeless().arg("plan").arg("--snapshot").arg(&file));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(2), ""));
    let expected = "\
Cluster prod at 2027-01-15T08:00:00Z: 0 nodes, 0 NodeClaims, 1 pod
1 pending pod: 0 on existing or in-flight nodes, 0 nodes to launch, 1 unschedulable pod

Unschedulable pods
  shop/alone  there is no NodePool";
    assert!(ended.stdout.starts_with(expected), "{}", ended.stdout);
}

#[test]
fn a_file_that_is_not_a_snapshot_is_refused() {
    let folder = Folder::new();
    for (text, expected) in [
        ("{\"Items\": []}", "the input contains no item snapshot#; give the output of `aws dynamodb query"),
        ("hello", "it is not a snapshot of a plan"),
        ("{\"format\": 7, \"snapshot\": {}}", "it has the form 7, and this version of nodeless reads the form 5"),
    ] {
        let path = folder.path().join("file");
        std::fs::write(&path, text).unwrap();
        let ended = run(nodeless().arg("plan").arg("--snapshot").arg(&path));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
    for other in [&["--disruption"][..], &["--html", "page.html"]] {
        let ended = run(nodeless().args(["plan", "--snapshot", "file"]).args(other));
        assert!(ended.stderr.contains("cannot be used with"), "{other:?}: {}", ended.stderr);
    }
}
