//! `nodeless plan --snapshot`: a plan of the planner, made again.
#![allow(clippy::unwrap_used)]

mod support;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use nodeless_catalog::{Catalog, Facts};
use nodeless_model::Pod;
use nodeless_operations::plan::{Answers, Snapshot};
use serde_json::{Value, json};
use std::sync::Arc;
use support::{Folder, nodeless, run};

/// A cluster without NodePools, in which a pod of this name waits.
fn kept(name: &str) -> Vec<u8> {
    let catalog = Catalog::synthetic(1, Facts::embedded().unwrap());
    let mut snapshot = Snapshot::bare(Timestamp::from_second(1_800_000_000).unwrap(), Arc::new(catalog));
    snapshot.cluster_name = "prod".to_owned();
    let pod = Pod { namespace: "shop".to_owned(), name: name.to_owned(), marked_unschedulable: true, ..Pod::default() };
    snapshot.view.pods.push(pod);
    snapshot.save().unwrap()
}

/// A snapshot as the table gives it, in chunks.
fn items(id: &str, kept: &[u8]) -> Vec<Value> {
    let chunks = kept.chunks(10_000).enumerate();
    let item = |(number, chunk): (usize, &[u8])| {
        let key = format!("snapshot#{id}#{number:03}");
        json!({ "pk": { "S": "prod" }, "sk": { "S": key }, "chunk": { "B": STANDARD.encode(chunk) } })
    };
    let mut items: Vec<Value> = chunks.map(item).collect();
    // In whatever order: each says which it is.
    items.reverse();
    items
}

#[test]
fn the_latest_snapshot_of_the_table_is_planned_for_again_to_the_byte() {
    let folder = Folder::new();
    let path = folder.path().join("items.json");
    let mut all = items("2027-01-15T08:00:00.000Z", &kept("early"));
    all.extend(items("2027-01-15T08:01:00.000Z", &kept("late")));
    all.extend(items("2027-01-15T08:01:00.000Z.answers", &Answers::default().save().unwrap()));
    assert!(all.len() > 2, "more chunks than snapshots");
    std::fs::write(&path, json!({ "Items": all }).to_string()).unwrap();
    let plan = || run(nodeless().arg("plan").arg("--snapshot").arg(&path).args(["-o", "json"]));
    let (first, second) = (plan(), plan());
    assert_eq!(first.code, Some(2), "a pod fits nowhere: {}", first.stderr);
    assert_eq!(first.stdout, second.stdout);
    assert_eq!(first.stderr, "note: of 2 snapshots this is the latest, 2027-01-15T08:01:00.000Z\n");
    let told: Value = serde_json::from_str(&first.stdout).unwrap();
    assert_eq!(told["outcome"]["report"]["unschedulable"][0][0], "shop/late");
    let kinds: Vec<&str> = told["batches"].as_array().unwrap().iter().map(|it| it["stage"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["provisioning", "disruption"], "what is recorded, and how much work is left");

    let file = folder.path().join("snapshot");
    std::fs::write(&file, kept("alone")).unwrap();
    let told = run(nodeless().arg("plan").arg("--snapshot").arg(&file));
    assert_eq!((told.code, told.stderr.as_str()), (Some(2), ""));
    let expected = "\
Cluster prod at 2027-01-15T08:00:00Z: 0 nodes, 0 NodeClaims, 1 pods
1 pods wait for a node: 0 fit on nodes that exist or are on their way, 0 nodes are launched, 1 pods fit nowhere

Pods that fit nowhere
  shop/alone  there is no NodePool";
    assert!(told.stdout.starts_with(expected), "{}", told.stdout);
}

#[test]
fn what_is_no_snapshot_is_refused_in_words() {
    let folder = Folder::new();
    for (text, expected) in [
        ("{\"Items\": []}", "none of the items is a snapshot#; give what `aws dynamodb query"),
        ("hello", "it is no snapshot of a plan"),
        ("{\"format\": 7, \"snapshot\": {}}", "it has the form 7, and this version of nodeless reads the form 2"),
    ] {
        let path = folder.path().join("file");
        std::fs::write(&path, text).unwrap();
        let told = run(nodeless().arg("plan").arg("--snapshot").arg(&path));
        assert_eq!((told.code, told.stdout.as_str()), (Some(1), ""));
        assert!(told.stderr.contains(expected), "{}", told.stderr);
    }
    let told = run(nodeless().args(["plan", "--snapshot", "file", "--disruption"]));
    assert!(told.stderr.contains("cannot be used with"), "{}", told.stderr);
}
