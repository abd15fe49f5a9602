//! Changes, evictions and deletions of nodes and pods.

use super::{Stopped, World, node, pod};
use nodeless_fake_kubernetes::resource::{
    EVENTS, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, POD_DISRUPTION_BUDGETS, PODS, VOLUME_ATTACHMENTS,
};
use nodeless_fake_kubernetes::{DeleteOptions, ListOptions, PatchOptions, PatchType};
use nodeless_model::events::{failed_draining, nominated};
use nodeless_model::pod::VolumeClaim;
use nodeless_model::{Pod, PodTemplate, StringMap, Taint};
use nodeless_ports::cluster::{Eviction, NodePatch, ObjectEvent, ObjectRef, PodRef};
use nodeless_ports::{ErrorKind, Events as _, NodesAndPods as _};
use serde_json::{Value, json};

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

fn pod_ref(object: &Value) -> PodRef {
    PodRef { namespace: "default".into(), name: object["metadata"]["name"].as_str().unwrap().into(), uid: uid(object) }
}

fn run(world: &World, name: &str) {
    let running = json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
    let options = PatchOptions::default();
    world.server.patch(&PODS, "default", name, Some("status"), PatchType::Merge, &running, &options).unwrap();
}

#[tokio::test]
async fn an_eviction_honours_the_budget() {
    let world = World::installed().await;
    world.create(&NODES, node("n1"));
    let p1 = world.create(&PODS, pod("p1", Some("n1")));
    run(&world, "p1");
    let cluster = world.cluster();
    // The API server compares the uid after it has asked the budgets.
    let stranger = PodRef { uid: "another".into(), ..pod_ref(&p1) };
    assert_eq!(cluster.evict(&stranger).await.unwrap(), Eviction::AlreadyGone);
    world.create(
        &POD_DISRUPTION_BUDGETS,
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": "web", "namespace": "default" },
            "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } }
        }),
    );
    world.server.refresh_disruption_budgets().unwrap();
    let blocked = cluster.evict(&pod_ref(&p1)).await.unwrap();
    assert!(matches!(&blocked, Eviction::Blocked { message } if message.contains("disruption budget")), "{blocked:?}");
    world.create(&PODS, pod("p2", Some("n1")));
    run(&world, "p2");
    world.server.refresh_disruption_budgets().unwrap();
    assert_eq!(cluster.evict(&pod_ref(&p1)).await.unwrap(), Eviction::Accepted);
    let missing = PodRef { name: "missing".into(), ..pod_ref(&p1) };
    assert_eq!(cluster.evict(&missing).await.unwrap(), Eviction::AlreadyGone);
    cluster.delete_pod(&missing, 0).await.unwrap();
}

#[tokio::test]
async fn a_pod_with_another_uid_is_not_deleted() {
    let world = World::installed().await;
    let p1 = world.create(&PODS, pod("p1", None));
    let cluster = world.cluster();
    cluster.delete_pod(&PodRef { uid: "another".into(), ..pod_ref(&p1) }, 0).await.unwrap();
    assert!(world.server.get(&PODS, "default", "p1").is_ok());
    cluster.delete_pod(&pod_ref(&p1), 0).await.unwrap();
    assert!(world.server.get(&PODS, "default", "p1").is_err());
}

#[tokio::test]
async fn a_pod_is_nominated_as_long_as_it_is_as_it_was_read() {
    let world = World::installed().await;
    for (name, scheduler, node) in [("p1", None, None), ("other", Some("volcano"), None), ("bound", None, Some("n1"))] {
        let mut object = pod(name, node);
        object["spec"]["schedulerName"] = json!(scheduler);
        world.create(&PODS, object);
    }
    let cluster = world.cluster();
    let unbound = async || cluster.unbound_pods().await.unwrap();
    let read = unbound().await;
    assert_eq!(read.iter().map(|pod| pod.pod.name.as_str()).collect::<Vec<_>>(), ["p1"]);
    assert_eq!((&read[0].nominated_node, read[0].is_terminating), (&None, false));

    world.requests();
    cluster.nominate(&read[0], "n1").await.unwrap();
    assert_eq!(world.requests(), ["PATCH /api/v1/namespaces/default/pods/p1/status?fieldManager=nodeless"]);
    let nominated = |world: &World| world.server.get(&PODS, "default", "p1").unwrap()["status"].clone();
    assert_eq!(nominated(&world)["nominatedNodeName"], "n1");
    assert_eq!(nominated(&world)["phase"], "Pending", "nothing else changes");
    assert_eq!(cluster.nominate(&read[0], "n2").await.unwrap_err().kind, ErrorKind::Conflict, "it has changed");
    let read = unbound().await;
    assert_eq!(read[0].nominated_node.as_deref(), Some("n1"));

    world.server.bind("default", "p1", "n1").unwrap();
    assert_eq!(cluster.nominate(&read[0], "n2").await.unwrap_err().kind, ErrorKind::Conflict, "it is bound");
    assert!(unbound().await.is_empty());
    world.server.delete(&PODS, "default", "p1", &DeleteOptions::default()).unwrap();
    let mut gone = read[0].clone();
    gone.pod.name = "gone".into();
    assert_eq!(cluster.nominate(&gone, "n2").await.unwrap_err().kind, ErrorKind::Conflict);
    let another = world.create(&PODS, pod("p2", None));
    let mut stranger = unbound().await[0].clone();
    assert_eq!(stranger.pod, pod_ref(&another));
    stranger.pod.uid = "another".into();
    assert_eq!(cluster.nominate(&stranger, "n2").await.unwrap_err().kind, ErrorKind::Conflict);
}

#[tokio::test]
async fn a_nomination_without_the_right_is_denied() {
    let world = World::installed().await;
    world.create(&PODS, pod("p1", None));
    let cluster = world.cluster();
    let read = cluster.unbound_pods().await.unwrap();
    let message = "pods \"p1\" is forbidden: User \"lifecycle\" cannot patch resource \"pods/status\" in API group \"\" in the namespace \"default\"";
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "message": message, "code": 403,
    });
    world.answer("PATCH /api/v1/namespaces/default/pods/p1/status", [(403, status.to_string())]);
    let denied = cluster.nominate(&read[0], "n1").await.unwrap_err();
    assert!(denied.kind == ErrorKind::Denied && denied.message.contains("lacks this right"), "{denied}");
}

#[tokio::test]
async fn a_patch_keeps_foreign_fields_of_a_node_and_a_node_is_deleted_by_uid() {
    let world = World::installed().await;
    let mut fresh = node("n1");
    fresh["spec"]["taints"] = json!([{ "key": "team", "value": "a", "effect": "NoSchedule" }]);
    let uid = uid(&world.create(&NODES, fresh));
    let cluster = world.cluster();
    let patch = NodePatch {
        labels: StringMap::from([("karpenter.sh/registered".into(), "true".into())]),
        add_taints: vec![Taint::disrupted()],
        add_finalizer: Some("karpenter.sh/termination".into()),
        owner: Some(("default-abcde".into(), "claim-uid".into())),
        ..NodePatch::default()
    };
    cluster.patch_node("n1", &uid, &patch).await.unwrap();
    let patched = world.server.get(&NODES, "", "n1").unwrap();
    assert_eq!(patched["metadata"]["labels"]["karpenter.sh/registered"], "true");
    assert_eq!(patched["metadata"]["labels"]["karpenter.sh/nodepool"], "default");
    assert_eq!(patched["spec"]["taints"].as_array().unwrap().len(), 2);
    assert_eq!(patched["metadata"]["ownerReferences"][0]["uid"], "claim-uid");
    cluster.patch_node("n1", &uid, &patch).await.unwrap();
    let again = world.server.get(&NODES, "", "n1").unwrap();
    assert_eq!(again["metadata"]["resourceVersion"], patched["metadata"]["resourceVersion"], "nothing changed");

    assert_eq!(cluster.patch_node("n1", "another", &patch).await.unwrap_err().kind, ErrorKind::Conflict);
    assert_eq!(cluster.patch_node("n2", &uid, &patch).await.unwrap_err().kind, ErrorKind::NotFound);
    cluster.delete_node("n1", "another").await.unwrap();
    assert!(world.server.get(&NODES, "", "n1").unwrap()["metadata"].get("deletionTimestamp").is_none());
    cluster.delete_node("n1", &uid).await.unwrap();
    assert!(world.server.get(&NODES, "", "n1").unwrap()["metadata"]["deletionTimestamp"].is_string());
    let release = NodePatch { remove_finalizer: Some("karpenter.sh/termination".into()), ..NodePatch::default() };
    assert_eq!(cluster.patch_node("n1", "another", &release).await.unwrap_err().kind, ErrorKind::Conflict);
    world.requests();
    // Another client changes the node: the patch is about no version of it.
    let change = json!({ "metadata": { "labels": { "changed": "yes" } } });
    world.server.patch(&NODES, "", "n1", None, PatchType::Merge, &change, &PatchOptions::default()).unwrap();
    cluster.patch_node("n1", &uid, &release).await.unwrap();
    assert_eq!(world.requests().len(), 1, "a finalizer is removed without reading the node");
    assert!(world.server.get(&NODES, "", "n1").is_err());
    cluster.delete_node("n1", &uid).await.unwrap();
}

#[tokio::test]
async fn a_repeated_event_increases_the_count() {
    let world = World::installed().await;
    let event = failed_draining(ObjectRef::node("n1", "u"), "a pod stays");
    let other = ObjectEvent { message: "another pod stays".into(), ..event.clone() };
    world.cluster().publish(&[event.clone(), other, event.clone(), event]).await.unwrap();
    let events = world.server.list(&EVENTS, &ListOptions::default()).unwrap().items;
    let mut counts: Vec<_> = events.iter().map(|event| event["count"].as_i64().unwrap()).collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 3]);
    let times: Vec<_> = events.iter().map(|event| event["lastTimestamp"].as_str().unwrap()).collect();
    let time = Stopped::TIME.to_string();
    assert_eq!(times, [time.as_str(); 2], "events have the time of the clock");
}

#[tokio::test]
async fn volumes_are_attached_until_they_are_detached() {
    let world = World::installed().await;
    for (name, node) in [("va-1", "n1"), ("va-2", "n2")] {
        world.create(
            &VOLUME_ATTACHMENTS,
            json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": { "name": name },
                "spec": { "attacher": "ebs.csi.aws.com", "nodeName": node, "source": { "persistentVolumeName": "pv" } }
            }),
        );
    }
    let of = async |nodes: &[&str]| {
        let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
        world.cluster().volume_attachments(&nodes).await.unwrap()
    };
    let attached = of(&["n1"]).await;
    assert_eq!(attached.iter().map(|volume| volume.name.as_str()).collect::<Vec<_>>(), ["va-1"]);
    assert_eq!((attached[0].node.as_str(), attached[0].persistent_volume.as_deref()), ("n1", Some("pv")));
    assert_eq!(of(&["n1", "n2", "n3"]).await.len(), 2);
    assert!(of(&["n3"]).await.is_empty());
}

#[tokio::test]
async fn the_volumes_of_a_pod_are_those_of_its_bound_claims() {
    let world = World::installed().await;
    for (name, spec) in [("bound", json!({ "volumeName": "pv-1" })), ("pending", json!({}))] {
        let metadata = json!({ "name": name, "namespace": "default" });
        let claim = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec });
        world.create(&PERSISTENT_VOLUME_CLAIMS, claim);
    }
    let mount = |claim: &str| VolumeClaim { claim_name: claim.into(), ephemeral: false };
    let pod = Pod {
        namespace: "default".into(),
        template: PodTemplate {
            volume_claims: ["bound", "pending", "gone"].map(mount).to_vec(),
            ..PodTemplate::default()
        }
        .into(),
        ..Pod::default()
    };
    assert_eq!(world.cluster().volumes_of(&pod).await.unwrap(), ["pv-1"]);
}

#[tokio::test]
async fn rejections_in_a_terminating_namespace_are_not_errors() {
    let world = World::installed().await;
    world.create(&NAMESPACES, json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "web" } }));
    let mut held = pod("p1", None);
    held["metadata"]["namespace"] = json!("web");
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    let held = world.create(&PODS, held);
    world.server.delete(&NAMESPACES, "", "web", &Default::default()).unwrap();
    let about = PodRef { namespace: "web".into(), name: "p1".into(), uid: uid(&held) };
    let event = nominated(&about, "nodeclaim/a");
    world.requests();
    world.cluster().publish(&[event]).await.unwrap();
    assert_eq!(world.requests(), ["POST /api/v1/namespaces/web/events?fieldManager=nodeless"]);
    assert!(world.server.list(&EVENTS, &ListOptions::default()).unwrap().items.is_empty());

    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": "unable to create new content in namespace web because it is being terminated",
        "details": { "causes": [{ "reason": "NamespaceTerminating", "message": "namespace web is being terminated" }] },
    });
    world.answer("POST /api/v1/namespaces/web/pods/p1/eviction", [(403, status.to_string())]);
    let eviction = world.cluster().evict(&PodRef { namespace: "web".into(), ..pod_ref(&held) }).await.unwrap();
    assert!(matches!(&eviction, Eviction::Blocked { message } if message.contains("terminated")), "{eviction:?}");
}

#[tokio::test]
async fn a_patch_is_created_again_after_a_conflict() {
    let world = World::installed().await;
    let uid = uid(&world.create(&NODES, node("n1")));
    let conflict = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409, "message": "changed",
    });
    world.answer("PATCH /api/v1/nodes/n1", (0..3).map(|_| (409, conflict.to_string())));
    let patch = NodePatch { add_taints: vec![Taint::disrupted()], ..NodePatch::default() };
    world.requests();
    world.cluster().patch_node("n1", &uid, &patch).await.unwrap();
    let made = world.requests();
    assert_eq!(made.iter().filter(|request| request.starts_with("GET")).count(), 4, "{made:?}");
    world.answer("PATCH /api/v1/nodes/n1", (0..5).map(|_| (409, conflict.to_string())));
    let patch = NodePatch { remove_taints: vec![Taint::disrupted()], ..NodePatch::default() };
    assert_eq!(world.cluster().patch_node("n1", &uid, &patch).await.unwrap_err().kind, ErrorKind::Conflict);
}
