//! What the claims table keeps of the memory that nodes reported.
#![allow(clippy::unwrap_used)]

mod common;

use common::{pod, running_town};
use nodeless_catalog::ReportedMemory;
use nodeless_model::Quantity;
use nodeless_model::claim::condition;
use nodeless_ports::{ErrorKind, RecordKind, Records, StoredRecord};

fn read(stored: &StoredRecord) -> ReportedMemory {
    serde_json::from_str(&stored.encoded).unwrap()
}

#[tokio::test]
async fn what_nodes_report_is_written_once_until_it_changes() {
    let mut town = running_town(3).await;
    town.minutes(10).await;
    let stored = town.claims.record(RecordKind::ReportedMemory, "").await.unwrap().unwrap_or_default();
    assert_eq!(stored.version, 1, "one write for three nodes, and none while nothing changes");
    let now = town.clock.time();
    let types: Vec<_> = read(&stored).of_images(["ami-1"], now).into_iter().collect();
    let own = town.records().await[0].status.instance.clone().unwrap().instance_type;
    assert_eq!(types, [(own.clone(), Quantity::from_mebibytes(7000))]);
    assert!(stored.expires > Some(now));

    // A node that has less changes it; one that has more does not.
    for (memory, version) in [(6_900, 2), (7_100, 2)] {
        town.cluster.lock().nodes.values_mut().next().unwrap().capacity.set("memory", Quantity::from_mebibytes(memory));
        town.minutes(3).await;
        let stored = town.claims.record(RecordKind::ReportedMemory, "").await.unwrap().unwrap_or_default();
        assert_eq!(stored.version, version, "{memory}");
        assert_eq!(read(&stored).of_images(["ami-1"], now)[&own], Quantity::from_mebibytes(6_900));
    }
}

#[tokio::test]
async fn a_node_teaches_as_soon_as_it_has_reported_and_has_a_claim() {
    let mut town = common::Town::new().await;
    town.cluster.add_pods([pod("web", 3000)]);
    town.queue_wake().await;
    town.until("a node is there", |town| !town.cluster.lock().nodes.is_empty()).await;
    assert!(!town.records().await[0].has_condition(condition::REGISTERED));
    let capacity = std::mem::take(&mut town.cluster.lock().nodes.values_mut().next().unwrap().capacity);
    town.planner().run().await.unwrap();
    assert_eq!(
        town.claims.record(RecordKind::ReportedMemory, "").await.unwrap().unwrap_or_default(),
        StoredRecord::default(),
        "nothing is reported"
    );
    let mut foreign = town.cluster.lock().nodes.values().next().unwrap().clone();
    foreign.name = "foreign".into();
    foreign.provider_id = Some("aws:///us-east-1a/i-foreign".into());
    foreign.capacity = capacity.clone();
    town.cluster.lock().nodes.insert("foreign".into(), foreign);
    town.planner().run().await.unwrap();
    assert_eq!(
        town.claims.record(RecordKind::ReportedMemory, "").await.unwrap().unwrap_or_default(),
        StoredRecord::default(),
        "its image is unknown"
    );
    town.cluster.lock().nodes.values_mut().for_each(|node| node.capacity.clone_from(&capacity));
    town.planner().run().await.unwrap();
    assert_eq!(town.claims.record(RecordKind::ReportedMemory, "").await.unwrap().unwrap_or_default().version, 1);
}

#[tokio::test]
async fn a_plan_without_the_record_goes_by_the_nodes_and_overwrites_nothing() {
    let town = running_town(1).await;
    let before = town.claims.record(RecordKind::ReportedMemory, "").await.unwrap().unwrap_or_default();
    assert_eq!(before.version, 1);
    town.cluster.lock().nodes.values_mut().next().unwrap().capacity.set("memory", Quantity::from_mebibytes(6_900));
    town.faults.fail("claims reported memory", ErrorKind::Unavailable);
    let report = town.planner().run().await.unwrap();
    let named = report.problems.iter().any(|problem| problem.contains("how much memory nodes reported is not known"));
    assert!(named, "{:?}", report.problems);
    town.faults.end_outages();
    assert_eq!(town.claims.record(RecordKind::ReportedMemory, "").await.unwrap().unwrap_or_default(), before);

    // What cannot be understood is stated, and written anew.
    let rubbish = StoredRecord { encoded: "rubbish".into(), ..before };
    town.claims.put_record(RecordKind::ReportedMemory, &rubbish).await.unwrap();
    let report = town.planner().run().await.unwrap();
    let named = report.problems.iter().any(|problem| problem.contains("the item memory of the claims table"));
    assert!(named, "{:?}", report.problems);
    let after = town.claims.record(RecordKind::ReportedMemory, "").await.unwrap().unwrap_or_default();
    assert_eq!((after.version, read(&after).ends().is_some()), (3, true));
}
