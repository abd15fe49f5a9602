//! The mirror, and the statuses of NodePools and EC2NodeClasses.

use super::{World, node, node_class, node_pool};
use jiff::Timestamp;
use nodeless_api::{EC2NodeClassStatus, NodePoolStatus};
use nodeless_fake_kubernetes::resource::NODES;
use nodeless_fake_kubernetes::{DeleteOptions, PatchOptions, PatchType};
use nodeless_model::claim::{ConditionStatus, condition};
use nodeless_model::{CapacityType, NodeClaim, NodeClaimSpec, NodeClaimStatus, Phase, labels};
use nodeless_ports::cluster::{NodePatch, SoughtNode};
use nodeless_ports::{ClaimMirror as _, Configuration as _, ErrorKind, NodesAndPods as _, PlanningView as _};
use nodeless_world::resources::{NODE_CLAIMS, NODE_CLASSES, NODE_POOLS};
use serde_json::{Value, json};

pub(super) fn claim() -> NodeClaim {
    NodeClaim {
        name: "default-abcde".into(),
        uid: "record".into(),
        node_pool: Some("default".into()),
        node_class: "default".into(),
        created: Timestamp::UNIX_EPOCH,
        version: 1,
        spec: NodeClaimSpec::default(),
        phase: Phase::Reserved,
        status: NodeClaimStatus::default(),
    }
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

#[tokio::test]
async fn a_claim_whose_nodepool_cannot_be_decoded_is_mirrored_without_an_owner() {
    let world = World::installed().await;
    world.create(&NODE_POOLS, node_pool("default"));
    let undecodable = r#"{"metadata":{"name":"default"},"spec":{"weight":"heavy"}}"#;
    world.answer("GET /apis/karpenter.sh/v1/nodepools/default", [(200, undecodable.to_owned())]);
    let (cluster, lines) = world.logging_cluster();
    cluster.mirror_claim(&claim()).await.unwrap();
    let object = world.server.get(&NODE_CLAIMS, "", "default-abcde").unwrap();
    assert!(object["metadata"].get("ownerReferences").is_none(), "{object}");
    let lines = lines.take();
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&line["event"], &line["level"]), (&"owner-unreadable".into(), &"WARN".into()));
    assert_eq!((&line["claim"], &line["nodePool"]), (&"default-abcde".into(), &"default".into()));
}

#[tokio::test]
async fn a_claim_is_mirrored_kept_up_to_date_and_removed() {
    let world = World::installed().await;
    let pool = world.create(&NODE_POOLS, node_pool("default"));
    let cluster = world.cluster();
    let mut claim = claim();
    let uid = cluster.mirror_claim(&claim).await.unwrap();
    let get = || world.server.get(&NODE_CLAIMS, "", "default-abcde").ok();
    let object = get().unwrap();
    assert_eq!(object["metadata"]["uid"], uid.as_str());
    assert_eq!(object["metadata"]["annotations"]["nodeless.sh/record-uid"], "record");
    assert_eq!(object["metadata"]["finalizers"][0], "karpenter.sh/termination");
    assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], pool["metadata"]["uid"]);

    assert_eq!(cluster.mirror_claim(&claim).await.unwrap(), uid);
    assert_eq!(version(&get().unwrap()), version(&object), "an unchanged claim is not written");

    claim.set_condition(condition::LAUNCHED, ConditionStatus::True, "Launched", "", Timestamp::UNIX_EPOCH);
    claim.status.node_name = Some("n1".into());
    cluster.mirror_claim(&claim).await.unwrap();
    assert_eq!(get().unwrap()["status"]["nodeName"], "n1");
    claim.status.node_name = None;
    cluster.mirror_claim(&claim).await.unwrap();
    assert!(get().unwrap()["status"].get("nodeName").is_none(), "a field that the claim no longer has must be removed");

    let mirrored = cluster.mirrored_claims().await.unwrap().mirrors;
    assert_eq!((mirrored.len(), mirrored[0].record_uid.as_deref()), (1, Some("record")));

    world.server.delete(&NODE_CLAIMS, "", "default-abcde", &DeleteOptions::default()).unwrap();
    assert_eq!(
        cluster.mirror_claim(&claim).await.unwrap(),
        uid,
        "an object that is being deleted is not created again"
    );
    assert!(cluster.mirrored_claims().await.unwrap().mirrors[0].deletion_timestamp.is_some());
    cluster.remove_claim("default-abcde", None).await.unwrap();
    assert!(get().is_none());
    cluster.remove_claim("default-abcde", None).await.unwrap();
}

#[tokio::test]
async fn a_new_claim_is_mirrored_without_being_read() {
    let world = World::installed().await;
    world.create(&NODE_POOLS, node_pool("default"));
    let cluster = world.cluster();
    let methods = || -> Vec<String> {
        let made = world.requests();
        made.iter().map(|request| request.split(' ').next().unwrap().to_owned()).collect()
    };
    methods();
    let mut claims: Vec<NodeClaim> =
        ["a", "b"].map(|name| NodeClaim { name: name.into(), phase: Phase::Launched, ..claim() }).into();
    for claim in &mut claims {
        claim.set_condition(condition::LAUNCHED, ConditionStatus::True, "Launched", "", Timestamp::UNIX_EPOCH);
        cluster.mirror_claim(claim).await.unwrap();
    }
    assert_eq!(methods(), ["GET", "POST", "PATCH", "POST", "PATCH"], "the NodePool is read once");
    claims[0].status.node_name = Some("n1".into());
    cluster.mirror_claim(&claims[0]).await.unwrap();
    assert_eq!(methods(), ["PATCH"]);
    // Another process has not cached it, and writes its status without reading it.
    claims[0].phase = Phase::Registered;
    claims[0].status.node_name = Some("n2".into());
    world.cluster().mirror_claim(&claims[0]).await.unwrap();
    assert_eq!(methods(), ["PATCH"]);
    assert_eq!(world.server.get(&NODE_CLAIMS, "", "a").unwrap()["status"]["nodeName"], "n2");
    // A field that the claim no longer has is removed, also from a list.
    claims[0].status.node_name = None;
    claims[0].status.conditions.clear();
    world.cluster().mirror_claim(&claims[0]).await.unwrap();
    assert_eq!(methods(), ["PATCH"]);
    let status = &world.server.get(&NODE_CLAIMS, "", "a").unwrap()["status"];
    assert!(status.get("nodeName").is_none(), "{status}");
    let conditions = status["conditions"].as_array().unwrap();
    assert!(conditions.iter().all(|condition| condition["type"] == "Ready"), "{status}");
    // An object that was deleted in the meantime is created again.
    let release = json!({ "metadata": { "finalizers": [] } });
    let options = PatchOptions::default();
    world.server.patch(&NODE_CLAIMS, "", "b", None, PatchType::Merge, &release, &options).unwrap();
    world.server.delete(&NODE_CLAIMS, "", "b", &DeleteOptions::default()).unwrap();
    claims[1].status.node_name = Some("n3".into());
    cluster.mirror_claim(&claims[1]).await.unwrap();
    assert_eq!(world.server.get(&NODE_CLAIMS, "", "b").unwrap()["status"]["nodeName"], "n3");
}

#[tokio::test]
async fn a_claim_whose_node_joins_ready_takes_five_writes() {
    let world = World::installed().await;
    world.create(&NODE_POOLS, node_pool("default"));
    world.create(&NODES, node("n1"));
    let cluster = world.cluster();
    world.requests();
    let mut claim = NodeClaim { phase: Phase::Launched, ..claim() };
    claim.set_condition(condition::LAUNCHED, ConditionStatus::True, "Launched", "", Timestamp::UNIX_EPOCH);
    cluster.mirror_claim(&claim).await.unwrap();
    let sought = SoughtNode { provider_id: "aws:///us-east-1a/i-n1".into(), name: None, joining: true };
    let found = cluster.nodes_of_all(&[sought]).await.unwrap().nodes.remove(0);
    let joined = [labels::REGISTERED, labels::INITIALIZED].map(|key| (key.to_owned(), "true".to_owned()));
    let patch = NodePatch {
        labels: joined.into(),
        add_finalizer: Some(labels::TERMINATION_FINALIZER.into()),
        ..NodePatch::default()
    };
    cluster.patch_node("n1", &found.uid, &patch).await.unwrap();
    claim.phase = Phase::Initialized;
    claim.status.node_name = Some("n1".into());
    for kind in [condition::REGISTERED, condition::INITIALIZED] {
        claim.set_condition(kind, ConditionStatus::True, kind, "", Timestamp::UNIX_EPOCH);
    }
    cluster.mirror_claim(&claim).await.unwrap();
    let writes: Vec<String> = world.requests().into_iter().filter(|request| !request.starts_with("GET")).collect();
    let claims = "/apis/karpenter.sh/v1/nodeclaims";
    let expected = [
        format!("POST {claims}"),
        format!("PATCH {claims}/default-abcde/status"),
        "PATCH /api/v1/nodes/n1".to_owned(),
        format!("PATCH {claims}/default-abcde/status"),
    ];
    assert!(writes.iter().zip(&expected).all(|(write, path)| write.starts_with(path)), "{writes:?}");
    assert_eq!(writes.len(), expected.len(), "{writes:?}");
}

#[tokio::test]
async fn a_node_claim_of_karpenter_is_adopted() {
    let world = World::installed().await;
    let cluster = world.cluster();
    cluster.mirror_claim(&NodeClaim { uid: "lost".into(), ..claim() }).await.unwrap();
    cluster.mirror_claim(&claim()).await.unwrap();
    assert_eq!(cluster.mirrored_claims().await.unwrap().mirrors[0].record_uid.as_deref(), Some("record"));
}

#[tokio::test]
async fn a_claim_loses_its_reservation_labels_when_its_instance_leaves_the_reservation() {
    let world = World::installed().await;
    let cluster = world.cluster();
    let mut claim = claim();
    claim.status.labels = [(labels::CAPACITY_TYPE, "reserved"), ("team", "a")]
        .into_iter()
        .chain(labels::OF_A_RESERVATION.map(|key| (key, "some")))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    cluster.mirror_claim(&claim).await.unwrap();
    assert_eq!(cluster.mirrored_claims().await.unwrap().mirrors[0].capacity_type, Some(CapacityType::Reserved));
    CapacityType::OnDemand.correct(&mut claim.status.labels);
    for _ in 0..2 {
        cluster.mirror_claim(&claim).await.unwrap();
        let object = world.server.get(&NODE_CLAIMS, "", "default-abcde").unwrap();
        let shown = &object["metadata"]["labels"];
        assert_eq!((&shown[labels::CAPACITY_TYPE], &shown["team"]), (&"on-demand".into(), &"a".into()));
        assert!(labels::OF_A_RESERVATION.iter().all(|key| shown.get(*key).is_none()), "{shown}");
    }
}

#[tokio::test]
async fn statuses_are_written_once() {
    let world = World::installed().await;
    let cluster = world.cluster();
    world.create(&NODE_POOLS, node_pool("default"));
    let status = NodePoolStatus { nodes: 2, ..NodePoolStatus::default() };
    cluster.write_node_pool_status("default", &status).await.unwrap();
    let pool = world.server.get(&NODE_POOLS, "", "default").unwrap();
    assert_eq!(pool["status"]["nodes"], 2);
    cluster.write_node_pool_status("default", &status).await.unwrap();
    assert_eq!(version(&world.server.get(&NODE_POOLS, "", "default").unwrap()), version(&pool));
    assert_eq!(cluster.write_node_pool_status("none", &status).await.unwrap_err().kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn a_node_class_gets_status_hash_and_finalizer_and_is_released() {
    let world = World::installed().await;
    let cluster = world.cluster();
    world.create(&NODE_CLASSES, node_class("default"));
    let status = EC2NodeClassStatus { instance_profile: Some("profile".into()), ..EC2NodeClassStatus::default() };
    cluster.write_node_class_status("default", &status, None).await.unwrap();
    let get = || world.server.get(&NODE_CLASSES, "", "default").ok();
    let class = get().unwrap();
    assert_eq!(class["status"]["instanceProfile"], "profile");
    assert_eq!(class["metadata"]["finalizers"][0], "karpenter.k8s.aws/termination");
    assert!(class["metadata"]["annotations"]["karpenter.k8s.aws/ec2nodeclass-hash"].is_string());
    cluster.write_node_class_status("default", &status, None).await.unwrap();
    assert_eq!(version(&get().unwrap()), version(&class));
    let authority = |class: &serde_json::Value| class["metadata"]["annotations"][labels::CERTIFICATE_AUTHORITY].clone();
    cluster.write_node_class_status("default", &status, Some("0123456789abcdef")).await.unwrap();
    assert_eq!(authority(&get().unwrap()), "0123456789abcdef");
    cluster.write_node_class_status("default", &status, None).await.unwrap();
    assert_eq!(authority(&get().unwrap()), "0123456789abcdef", "who does not know it changes nothing");
    assert_eq!(cluster.node_class("default").await.unwrap().unwrap().status.unwrap(), status);
    assert_eq!(cluster.node_class("none").await.unwrap(), None);

    // After a change, planning reads the hash of the new spec, and the annotation has that of the previous one.
    let (tags, options) = (json!({ "spec": { "tags": { "team": "search" } } }), PatchOptions::default());
    world.server.patch(&NODE_CLASSES, "", "default", None, PatchType::Merge, &tags, &options).unwrap();
    let read = cluster.view().await.unwrap().node_classes.remove("default").unwrap();
    let hash = read.metadata.annotations.unwrap().remove(labels::EC2_NODE_CLASS_HASH).unwrap();
    assert_ne!(get().unwrap()["metadata"]["annotations"][labels::EC2_NODE_CLASS_HASH], hash);
    cluster.write_node_class_status("default", &status, None).await.unwrap();
    assert_eq!(get().unwrap()["metadata"]["annotations"][labels::EC2_NODE_CLASS_HASH], hash);

    world.server.delete(&NODE_CLASSES, "", "default", &DeleteOptions::default()).unwrap();
    cluster.write_node_class_status("default", &status, None).await.unwrap();
    cluster.release_node_class("default").await.unwrap();
    assert!(get().is_none());
    cluster.release_node_class("default").await.unwrap();
}

/// The object of a claim without a NodePool is its user's: it gets the finalizer, the status and the labels of the launch, and is neither
/// created nor replaced by another one of its name.
#[tokio::test]
async fn the_object_of_a_user_is_written_only_if_it_is_that_of_the_claim() {
    let world = World::installed().await;
    let cluster = world.cluster();
    let object = || {
        json!({
            "metadata": { "name": "single", "labels": { "team": "a" }, "finalizers": ["example.com/own"] },
            "spec": {
                "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
                "requirements": [], "expireAfter": "Never",
            },
        })
    };
    let mut claim = NodeClaim { name: "single".into(), node_pool: None, ..claim() };
    claim.spec.labels.insert("team".into(), "a".into());
    let get = || world.server.get(&NODE_CLAIMS, "", "single").ok();
    cluster.mirror_claim(&claim).await.unwrap();
    assert!(get().is_none(), "it is not created");

    let created = world.create(&NODE_CLAIMS, object());
    cluster.mirror_claim(&claim).await.unwrap();
    cluster.remove_claim("single", Some(&claim.uid)).await.unwrap();
    assert_eq!(version(&get().unwrap()), version(&created), "an object with another uid is not written");

    claim.uid = created["metadata"]["uid"].as_str().unwrap().to_owned();
    claim.set_condition(condition::LAUNCHED, ConditionStatus::True, "Launched", "", Timestamp::UNIX_EPOCH);
    claim.status.labels.insert("topology.kubernetes.io/zone".into(), "us-east-1a".into());
    assert_eq!(cluster.mirror_claim(&claim).await.unwrap(), claim.uid);
    let written = get().unwrap();
    assert_eq!(written["metadata"]["finalizers"], json!(["example.com/own", "karpenter.sh/termination"]));
    assert_eq!(written["metadata"]["annotations"]["nodeless.sh/record-uid"], claim.uid.as_str());
    assert_eq!(written["metadata"]["labels"]["topology.kubernetes.io/zone"], "us-east-1a");
    assert_eq!(written["status"]["conditions"][0]["type"], "Launched");
    cluster.mirror_claim(&claim).await.unwrap();
    assert_eq!(version(&get().unwrap()), version(&written), "an unchanged claim is not written");

    cluster.remove_claim("single", Some(&claim.uid)).await.unwrap();
    let left = get().unwrap();
    assert_eq!(left["metadata"]["finalizers"], json!(["example.com/own"]));
    assert!(!left["metadata"]["deletionTimestamp"].is_null());
}
