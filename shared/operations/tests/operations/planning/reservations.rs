//! Instances that leave the capacity reservation that they were launched into.

use crate::common::{Harness, running_cluster};
use nodeless_fake_kubernetes::resource::NODES;
use nodeless_model::claim::Charge;
use nodeless_model::{CapacityType, NodeClaim, labels};
use nodeless_ports::ErrorKind;
use nodeless_world::resources::NODE_CLAIMS;
use serde_json::json;
use std::collections::BTreeMap;

const OF_RESERVATION: [(&str, &str); 4] = [
    (labels::CAPACITY_TYPE, "reserved"),
    (labels::CAPACITY_RESERVATION_ID, "cr-1"),
    (labels::CAPACITY_RESERVATION_TYPE, "default"),
    (labels::CAPACITY_RESERVATION_INTERRUPTIBLE, "false"),
];

async fn only(harness: &Harness) -> NodeClaim {
    harness.records().await.remove(0)
}

/// A cluster with one node, which looks as if it had been launched into a reservation. EC2 reports that it is in none.
async fn cluster_after_the_reservation() -> Harness {
    let mut harness = running_cluster(1).await;
    harness.minutes(2).await;
    let mut claim = only(&harness).await;
    let launched = claim.status.instance.as_mut().unwrap();
    (launched.capacity_type, launched.price) = (CapacityType::Reserved, 0.0);
    launched.reservation_id = Some("cr-1".into());
    claim.status.labels.extend(OF_RESERVATION.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let charge = Charge { dollars_per_hour: 0.0, ..claim.spec.charge.clone() };
    harness.claims.update(&claim, Some(&charge)).await.unwrap();
    let labels = json!({ "metadata": { "labels": BTreeMap::from(OF_RESERVATION) } });
    harness.cluster.patch(&NODES, claim.status.node_name.as_ref().unwrap(), labels.clone());
    harness.cluster.patch(&NODE_CLAIMS, &claim.name, labels);
    harness
}

/// Whether the node and the NodeClaim object are labelled as on-demand, without labels of a reservation.
fn shown(harness: &Harness) -> bool {
    let nodes = harness.cluster.nodes();
    let node = nodes.values().next().unwrap();
    node.labels[labels::CAPACITY_TYPE] == "on-demand"
        && labels::OF_A_RESERVATION.iter().all(|key| !node.labels.contains_key(*key))
        && harness.cluster.node_claims().values().all(|mirror| mirror.capacity_type == Some(CapacityType::OnDemand))
}

#[tokio::test]
async fn an_instance_that_left_its_reservation_is_paid_for_and_labelled_on_demand() {
    let mut harness = Box::pin(cluster_after_the_reservation()).await;
    assert!(!shown(&harness));
    harness.minutes(2).await;
    let claim = only(&harness).await;
    let launched = claim.status.instance.as_ref().unwrap();
    assert_eq!((launched.capacity_type, launched.reservation_id.as_deref()), (CapacityType::OnDemand, None));
    assert!(launched.price > 0.05, "{}", launched.price);
    assert!((claim.spec.charge.dollars_per_hour - launched.price).abs() < 1e-9);
    let usage = harness.claims.usage().await.unwrap();
    assert!((usage["default"].dollars_per_hour - launched.price).abs() < 1e-6, "{usage:?}");
    assert!(shown(&harness));
    let version = claim.version;
    harness.minutes(3).await;
    assert_eq!((only(&harness).await.version, harness.cloud.launched()), (version, 1), "and then it is quiescent");
}

#[tokio::test]
async fn without_a_price_it_waits_and_what_cannot_be_shown_is_shown_later() {
    let mut harness = Box::pin(cluster_after_the_reservation()).await;
    harness.faults.fail("cluster node class", ErrorKind::Unavailable);
    let report = harness.sweeper().run().await.unwrap();
    assert!(report.problems.iter().any(|why| why.contains("what it costs on demand")), "{:?}", report.problems);
    assert_eq!(only(&harness).await.status.instance.unwrap().capacity_type, CapacityType::Reserved);
    harness.faults.end_outages();
    for broken in ["cluster patch node", "cluster mirror claim"] {
        harness.faults.fail(broken, ErrorKind::Unavailable);
        harness.minutes(2).await;
        assert_eq!(only(&harness).await.status.instance.unwrap().capacity_type, CapacityType::OnDemand);
        harness.faults.end_outages();
    }
    harness.minutes(2).await;
    assert!(shown(&harness));
}
