//! The record of the memory that nodes reported, in the claims table.

use crate::common::{Harness, pod, running_cluster, small_catalog};
use nodeless_catalog::ReportedMemory;
use nodeless_fake_kubernetes::resource::NODES;
use nodeless_model::claim::condition;
use nodeless_model::{NodeClaim, Quantity};
use nodeless_planner::{DryRun, DryRunInput, PlanSettings};
use nodeless_ports::ErrorKind;
use nodeless_ports::cluster::ClusterView;
use nodeless_scheduling::Launch;
use nodeless_state::{RecordKind, StoredRecord};
use serde_json::json;

/// A node reports so much memory, in MiB.
fn set_memory(harness: &Harness, node: &str, mebibytes: i64) {
    harness.cluster.patch_status(&NODES, node, json!({ "capacity": { "memory": format!("{mebibytes}Mi") } }));
}

fn read(stored: &StoredRecord) -> ReportedMemory {
    serde_json::from_str(&stored.encoded).unwrap()
}

#[tokio::test]
async fn what_nodes_report_is_written_once_until_it_changes() {
    let mut harness = running_cluster(3).await;
    let memory = harness.cluster.nodes().values().next().unwrap().capacity.get("memory");
    harness.minutes(10).await;
    let stored = harness.claims.record(RecordKind::ReportedMemory, "").await.unwrap().unwrap_or_default();
    assert_eq!(stored.version, 1, "one write for three nodes, and none while nothing changes");
    let now = harness.clock.time();
    let image = harness.records().await[0].status.instance.clone().unwrap().image_id;
    let types: Vec<_> = read(&stored).of_images([image.as_str()], now).into_iter().collect();
    let own = harness.records().await[0].status.instance.clone().unwrap().instance_type;
    assert_eq!(types, [(own.clone(), memory)]);
    assert!(stored.expires > Some(now));

    // A node that has less changes it; one that has more does not.
    let mebibytes = memory.units() / (1 << 20);
    for (reported, version) in [(mebibytes - 100, 2), (mebibytes + 100, 2)] {
        set_memory(&harness, harness.cluster.nodes().keys().next().unwrap(), reported);
        harness.minutes(3).await;
        let stored = harness.claims.record(RecordKind::ReportedMemory, "").await.unwrap().unwrap_or_default();
        assert_eq!(stored.version, version, "{reported}");
        assert_eq!(read(&stored).of_images([image.as_str()], now)[&own], Quantity::from_mebibytes(mebibytes - 100));
    }
}

#[tokio::test]
async fn a_node_teaches_as_soon_as_it_has_reported_and_has_a_claim() {
    let mut harness = Harness::new().await;
    harness.cluster.add_pods([pod("web", 3000)]);
    harness.queue_wake().await;
    harness.until("a node is there", |harness| !harness.cluster.nodes().is_empty()).await;
    assert!(!harness.records().await[0].has_condition(condition::REGISTERED));
    let node = harness.cluster.nodes().into_keys().next().unwrap();
    let capacity = harness.cluster.get(&NODES, &node)["status"]["capacity"].clone();
    harness.cluster.patch_status(&NODES, &node, json!({ "capacity": null }));
    harness.planner().run().await.unwrap();
    assert_eq!(
        harness.claims.record(RecordKind::ReportedMemory, "").await.unwrap().unwrap_or_default(),
        StoredRecord::default(),
        "nothing is reported"
    );
    let mut foreign = harness.cluster.get(&NODES, &node);
    let metadata = json!({ "name": "foreign", "labels": foreign["metadata"]["labels"] });
    foreign["metadata"] = metadata;
    foreign["spec"]["providerID"] = json!("aws:///us-east-1a/i-foreign");
    foreign["status"]["capacity"] = capacity.clone();
    harness.cluster.create(&NODES, foreign);
    harness.planner().run().await.unwrap();
    assert_eq!(
        harness.claims.record(RecordKind::ReportedMemory, "").await.unwrap().unwrap_or_default(),
        StoredRecord::default(),
        "its image is unknown"
    );
    harness.cluster.patch_status(&NODES, &node, json!({ "capacity": capacity }));
    harness.planner().run().await.unwrap();
    assert_eq!(harness.claims.record(RecordKind::ReportedMemory, "").await.unwrap().unwrap_or_default().version, 1);
}

#[tokio::test]
async fn a_plan_without_the_record_goes_by_the_nodes_and_overwrites_nothing() {
    let harness = running_cluster(1).await;
    let before = harness.claims.record(RecordKind::ReportedMemory, "").await.unwrap().unwrap_or_default();
    assert_eq!(before.version, 1);
    set_memory(&harness, harness.cluster.nodes().keys().next().unwrap(), 6_900);
    harness.faults.fail("claims reported memory", ErrorKind::Unavailable);
    let report = harness.planner().run().await.unwrap();
    let named = report.problems.iter().any(|problem| problem.contains("the memory that nodes reported is unknown"));
    assert!(named, "{:?}", report.problems);
    harness.faults.end_outages();
    assert_eq!(harness.claims.record(RecordKind::ReportedMemory, "").await.unwrap().unwrap_or_default(), before);

    // A record that cannot be decoded is reported, and written anew.
    let rubbish = StoredRecord { encoded: "rubbish".into(), ..before };
    harness.claims.put_record(RecordKind::ReportedMemory, &rubbish).await.unwrap();
    let report = harness.planner().run().await.unwrap();
    let named = report.problems.iter().any(|problem| problem.contains("the item memory of the claims table"));
    assert!(named, "{:?}", report.problems);
    let after = harness.claims.record(RecordKind::ReportedMemory, "").await.unwrap().unwrap_or_default();
    assert_eq!((after.version, read(&after).ends().is_some()), (3, true));
}

/// The names of the instance types that `nodeless plan` launches for the pods of this cluster.
fn planned(harness: &Harness, view: ClusterView, claims: Vec<NodeClaim>) -> Vec<Vec<String>> {
    let dry_run = DryRun::new(DryRunInput {
        view,
        claims,
        catalog: small_catalog(),
        now: harness.clock.time(),
        shifted: Vec::new(),
        settings: PlanSettings::default(),
        commitments: None,
        disruption: None,
    });
    let (_, solution) = dry_run.place();
    assert!(solution.unschedulable.is_empty(), "{:?}", solution.unschedulable);
    let names = |launch: &Launch| launch.instance_types.iter().map(|one| one.name.to_string()).collect();
    solution.launches.iter().map(names).collect()
}

#[tokio::test]
async fn a_plan_of_an_export_goes_by_what_its_nodes_report() {
    let harness = running_cluster(1).await;
    let node = harness.cluster.nodes().into_values().next().unwrap();
    let own = node.labels["node.kubernetes.io/instance-type"].clone();
    let estimate = node.capacity.get("memory").units() / (1 << 20);
    // The pod fits on a node with the estimated memory, and not on one with the memory that this node reports.
    let mut pod = pod("large", 3000);
    let memory = format!("{}Mi", estimate - 1_400);
    pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = json!(memory);
    harness.cluster.add_pods([pod]);
    let claims = harness.records().await;
    let launches = planned(&harness, harness.cluster.view(), claims.clone());
    assert!(launches.len() == 1 && launches[0].contains(&own), "{launches:?}");

    set_memory(&harness, &node.name, estimate - 700);
    let whole = harness.cluster.view();
    let mut without_images = whole.clone();
    without_images.node_classes.values_mut().for_each(|class| class.status.as_mut().unwrap().amis.clear());
    let exports = [
        ("all objects", whole.clone(), claims.clone()),
        ("no NodeClaims", whole, Vec::new()),
        ("an EC2NodeClass as it was applied", without_images, claims),
    ];
    for (export, view, claims) in exports {
        let launches = planned(&harness, view, claims);
        assert!(launches.len() == 1 && !launches[0].contains(&own), "{export}: {launches:?}");
    }
}
