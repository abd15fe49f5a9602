//! NodeClaims that a user creates without a NodePool: they are launched, joined, drained and deleted as any other.

use crate::common::{Harness, check_nodes, pod};
use nodeless_model::{NodeClaim, Phase};
use nodeless_ports::ErrorKind;
use nodeless_world::resources::{NODE_CLAIMS, NODE_CLASSES, NODE_POOLS};
use serde_json::{Value, json};

/// A NodeClaim of an on-demand node with so much CPU, as a user writes it.
pub(crate) fn node_claim(name: &str, cpu: &str) -> Value {
    json!({
        "metadata": {
            "name": name,
            "labels": { "team": "a", "app.kubernetes.io/instance": "single" },
            "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}", "owner": "someone" },
        },
        "spec": {
            "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
            "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] }],
            "resources": { "requests": { "cpu": cpu } },
            "taints": [{ "key": "single", "value": "yes", "effect": "NoSchedule" }],
            "expireAfter": "Never",
        },
    })
}

async fn with(objects: impl IntoIterator<Item = Value>) -> Harness {
    let mut harness = Harness::new().await;
    objects.into_iter().for_each(|object| harness.cluster.create(&NODE_CLAIMS, object));
    harness.queue_wake().await;
    harness
}

/// A cluster with the initialized node of the NodeClaim `single`.
async fn running() -> Harness {
    let mut harness = with([node_claim("single", "1")]).await;
    harness.until("the node is initialized", |harness| harness.cluster.node_claims()["single"].has_joined()).await;
    harness.minutes(2).await;
    harness
}

trait HasJoined {
    fn has_joined(&self) -> bool;
}

impl HasJoined for nodeless_model::object::MirroredClaim {
    fn has_joined(&self) -> bool {
        self.conditions.get("Initialized").is_some_and(|(status, _)| status == "True")
    }
}

/// One claim with one instance, however many there were of its name.
async fn check_running(harness: &Harness) {
    let (records, alive) = (harness.records().await, harness.cloud.alive());
    assert_eq!((records.len(), alive.len(), records[0].phase), (1, 1, Phase::Initialized), "{records:#?}");
    assert_eq!(records[0].status.instance.as_ref().unwrap().id, alive[0].id);
}

async fn record(harness: &Harness) -> NodeClaim {
    harness.claims.get("single").await.unwrap().unwrap()
}

#[tokio::test]
async fn a_node_is_launched_for_a_node_claim_that_a_user_creates() {
    let harness = running().await;
    check_nodes(&harness, 1, "a standalone NodeClaim").await;
    let claim = record(&harness).await;
    let object = harness.cluster.get(&NODE_CLAIMS, "single");
    assert_eq!((claim.node_pool.clone(), claim.phase), (None, Phase::Initialized));
    assert_eq!(object["metadata"]["uid"], claim.uid.as_str());
    assert_eq!(claim.status.instance.as_ref().unwrap().instance_type, "m6i.large");
    // The object keeps what its user wrote, and gets the status, the finalizer and the labels of the launch.
    assert_eq!(object["metadata"]["annotations"]["owner"], "someone");
    assert_eq!(object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"], "{}");
    assert_eq!(object["metadata"]["labels"]["app.kubernetes.io/instance"], "single");
    assert_eq!(object["metadata"]["labels"]["node.kubernetes.io/instance-type"], "m6i.large");
    assert_eq!(object["metadata"]["finalizers"], json!(["karpenter.sh/termination"]));
    assert!(object["metadata"]["labels"].get("karpenter.sh/nodepool").is_none(), "{object}");
    assert!(object["metadata"].get("ownerReferences").is_none(), "{object}");
    assert_eq!(object["status"]["providerID"].as_str(), claim.provider_id().as_deref());
    // So does its node.
    let nodes = harness.cluster.nodes();
    let node = nodes.values().next().unwrap();
    assert!(node.node_pool().is_none() && node.is_initialized(), "{node:#?}");
    assert_eq!(node.labels["team"], "a");
    assert_eq!(node.labels["karpenter.k8s.aws/ec2nodeclass"], "default");
    assert!(node.taints.iter().any(|taint| taint.key == "single"), "{:?}", node.taints);
    assert!(!node.annotations.contains_key("kubectl.kubernetes.io/last-applied-configuration"));
    // It counts against no limits, and its instance has the tag by which instances are listed.
    assert!(harness.claims.usage().await.unwrap().values().all(|usage| usage.resources.is_empty()));
    assert_eq!(harness.cloud.alive()[0].tags["karpenter.sh/nodepool"], "");
    let decisions = harness.claims.decisions(10).await.unwrap();
    assert!(decisions.iter().any(|one| one.subjects == ["single"]), "{decisions:#?}");
}

#[tokio::test]
async fn pods_use_the_node_and_consolidation_leaves_it_alone() {
    let mut harness = running().await;
    let mut tolerant = pod("web", 500);
    tolerant["spec"]["tolerations"] = json!([{ "key": "single", "operator": "Exists" }]);
    harness.cluster.add_replica_sets([tolerant]);
    harness.queue_wake().await;
    harness.minutes(2).await;
    assert_eq!((harness.cluster.bound(), harness.cloud.launched()), (1, 1), "the pod runs on the node");
    harness.cluster.remove_all_pods();
    harness.minutes(30).await;
    check_nodes(&harness, 1, "an empty node without a NodePool").await;
    assert_eq!(harness.cloud.launched(), 1);
}

#[tokio::test]
async fn a_pod_that_waits_is_planned_for_the_node_of_the_same_plan() {
    let harness = with([node_claim("single", "1")]).await;
    let mut tolerant = pod("web", 500);
    tolerant["spec"]["tolerations"] = json!([{ "key": "single", "operator": "Exists" }]);
    harness.cluster.add_pods([tolerant]);
    let report = harness.planner().run().await.unwrap();
    assert_eq!((report.created, report.placed), (vec!["single".to_owned()], 1));
}

#[tokio::test]
async fn a_deleted_node_claim_is_drained_and_terminated() {
    let mut harness = running().await;
    harness.cluster.delete_node_claim("single");
    harness.queue_wake().await;
    harness.minutes(5).await;
    check_nodes(&harness, 0, "after kubectl delete nodeclaim").await;
    assert!(harness.cluster.node_claims().is_empty());
    harness.minutes(10).await;
    assert_eq!(harness.cloud.launched(), 1, "it is not launched again");
}

/// An object that was created again under the same name is another claim, whether or not the first had its finalizer.
#[tokio::test]
async fn a_node_claim_that_is_created_again_gets_another_node() {
    let mut harness = with([node_claim("single", "1")]).await;
    harness.planner().run().await.unwrap();
    let first = record(&harness).await;
    harness.cluster.delete_node_claim("single");
    assert!(harness.cluster.node_claims().is_empty(), "no finalizer holds it yet");
    harness.cluster.create(&NODE_CLAIMS, node_claim("single", "1"));
    harness.minutes(6).await;
    check_running(&harness).await;
    let second = record(&harness).await;
    assert_ne!(first.uid, second.uid);
    assert_eq!(harness.cluster.get(&NODE_CLAIMS, "single")["metadata"]["uid"], second.uid.as_str());

    harness.cluster.delete_node_claim("single");
    harness.minutes(6).await;
    harness.cluster.create(&NODE_CLAIMS, node_claim("single", "1"));
    harness.minutes(6).await;
    check_running(&harness).await;
    assert_ne!(record(&harness).await.uid, second.uid);
}

#[tokio::test]
async fn an_expired_node_claim_ends_and_is_not_launched_again() {
    let mut object = node_claim("single", "1");
    object["spec"]["expireAfter"] = json!("20m");
    let mut harness = with([object]).await;
    harness.minutes(10).await;
    check_nodes(&harness, 1, "before it expires").await;
    harness.minutes(20).await;
    check_nodes(&harness, 0, "after it expired").await;
    assert_eq!(harness.cloud.launched(), 1);
    assert!(harness.cluster.node_claims().is_empty());
}

#[tokio::test]
async fn a_node_claim_without_capacity_is_deleted_as_in_karpenter() {
    let mut harness = Harness::new().await;
    harness.cloud.set_capacity(Some(0));
    harness.cluster.create(&NODE_CLAIMS, node_claim("single", "1"));
    harness.queue_wake().await;
    harness.minutes(4).await;
    check_nodes(&harness, 0, "without capacity").await;
    assert!(harness.cluster.node_claims().is_empty());
    assert_eq!(harness.cluster.events_of("InsufficientCapacityError").len(), 1);
}

#[tokio::test]
async fn nothing_is_launched_for_an_invalid_node_claim_and_an_event_has_the_reason() {
    let of = |name: &str, change: fn(&mut Value)| {
        let mut object = node_claim(name, "1");
        change(&mut object["spec"]);
        object
    };
    let mut harness = with([
        of("class", |spec| spec["nodeClassRef"]["name"] = json!("missing")),
        of("kind", |spec| spec["nodeClassRef"]["kind"] = json!("OtherNodeClass")),
        of("large", |spec| spec["resources"]["requests"]["cpu"] = json!("1000")),
        of("taints", |spec| {
            spec["taints"] = json!([{ "key": "a", "effect": "NoSchedule" }, { "key": "a", "effect": "NoSchedule" }]);
        }),
    ])
    .await;
    harness.minutes(20).await;
    check_nodes_of_none(&harness).await;
    let events = harness.cluster.events_of("NotLaunched");
    let why = |name: &str| -> String {
        let of: Vec<_> = events.iter().filter(|event| event.object.name == name).collect();
        assert!(!of.is_empty(), "{name}: {events:#?}");
        of[0].message.clone()
    };
    assert!(why("class").contains("EC2NodeClass missing does not exist"), "{}", why("class"));
    assert!(why("large").contains("cpu") && !why("large").contains("NodePool"), "{}", why("large"));
    assert!(why("taints").contains("spec.taints[1]: duplicate taint"), "{}", why("taints"));
    assert!(events.iter().all(|event| event.object.name != "kind"), "it is of another controller: {events:#?}");
}

async fn check_nodes_of_none(harness: &Harness) {
    assert_eq!((harness.records().await.len(), harness.cloud.launched()), (0, 0));
}

/// A controller of Karpenter that still runs has the finalizer on its NodeClaims before it launches them, and they have the label of
/// a NodePool or a provider id after that.
#[tokio::test]
async fn node_claims_of_another_controller_are_left_alone() {
    let held = |mut object: Value| {
        object["metadata"]["finalizers"] = json!(["karpenter.sh/termination"]);
        object
    };
    let mut of_pool = node_claim("default-abcde", "1");
    of_pool["metadata"]["labels"]["karpenter.sh/nodepool"] = json!("default");
    let mut harness = Harness::new().await;
    let uid = harness.cluster.get(&NODE_POOLS, "default")["metadata"]["uid"].clone();
    let mut owned = node_claim("owned", "1");
    owned["metadata"]["ownerReferences"] =
        json!([{ "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "default", "uid": uid }]);
    for object in [held(node_claim("launching", "1")), node_claim("launched", "1"), of_pool, owned] {
        harness.cluster.create(&NODE_CLAIMS, object);
    }
    harness.cluster.patch_status(
        &NODE_CLAIMS,
        "launched",
        json!({ "providerID": "aws:///us-east-1a/i-0123456789abcdef0" }),
    );
    harness.minutes(10).await;
    check_nodes_of_none(&harness).await;
    assert_eq!(harness.cluster.node_claims().len(), 4, "none is removed");
    let reported = harness.cluster.events_of("NotLaunched");
    assert!(!reported.is_empty() && reported.iter().all(|event| event.object.name == "launching"), "{reported:#?}");
}

/// A lost table: the node is adopted, and an object whose claim had no instance yet becomes a claim again.
#[tokio::test]
async fn a_lost_table_loses_no_standalone_node_claim() {
    let mut harness = running().await;
    let before = record(&harness).await;
    harness.claims.delete(&before).await.unwrap();
    harness.minutes(5).await;
    check_nodes(&harness, 1, "after the record was lost").await;
    let after = record(&harness).await;
    assert_eq!((&after.node_pool, &after.uid), (&None, &before.uid));
    assert_eq!(harness.cloud.launched(), 1);

    let mut harness = with([node_claim("single", "1")]).await;
    harness.planner().run().await.unwrap();
    let claim = record(&harness).await;
    harness.ports.cluster.mirror_claim(&claim).await.unwrap();
    harness.claims.delete(&claim).await.unwrap();
    harness.minutes(5).await;
    check_nodes(&harness, 1, "the object has the finalizer, and its claim was lost").await;
    assert_eq!(harness.cloud.launched(), 1);
}

#[tokio::test]
async fn nothing_happens_to_the_node_while_the_cluster_cannot_be_read() {
    let mut harness = running().await;
    harness.faults.fail("cluster", ErrorKind::Unavailable);
    harness.minutes(15).await;
    assert_eq!((harness.cloud.alive().len(), record(&harness).await.phase), (1, Phase::Initialized));
}

/// An object that is older than the time for a launch has all of that time.
#[tokio::test]
async fn a_node_claim_waits_for_its_node_class() {
    let mut harness = Harness::new().await;
    let status = harness.cluster.get(&NODE_CLASSES, "default")["status"].clone();
    let mut not_ready = status.clone();
    not_ready["conditions"][0]["status"] = json!("False");
    harness.cluster.patch_status(&NODE_CLASSES, "default", not_ready);
    harness.cluster.create(&NODE_CLAIMS, node_claim("single", "1"));
    harness.minutes(10).await;
    check_nodes_of_none(&harness).await;
    harness.cluster.patch_status(&NODE_CLASSES, "default", status);
    harness.minutes(4).await;
    check_nodes(&harness, 1, "after its class is ready").await;
    let claim = record(&harness).await;
    assert!(claim.status.termination.is_none());
    assert!(claim.created < claim.status.instance.unwrap().launched);
}

/// The sweep does not remove the object, because it is the user's, and adopts no instance for it.
#[tokio::test]
async fn a_node_claim_without_its_record_and_instance_ends_no_plan() {
    let mut harness = running().await;
    let claim = record(&harness).await;
    harness.claims.delete_ended(&claim, None).await.unwrap();
    harness.cloud.end(&claim.status.instance.unwrap().id);
    harness.cluster.add_pods([pod("web", 500)]);
    harness.queue_wake().await;
    harness.until("the pod runs", |harness| harness.cluster.bound() == 1).await;
}
