//! Volumes, namespaces, overlays, buffers and requests: when they are read, and their status.

use super::{World, node, pod};
use nodeless_fake_kubernetes::resource::{
    CSI_NODES, CUSTOM_RESOURCE_DEFINITIONS, DAEMON_SETS, DEPLOYMENTS, DEVICE_CLASSES, LIMIT_RANGES, NODES,
    PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, POD_TEMPLATES, PODS, REPLICA_SETS, RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS, RESOURCE_QUOTAS, RESOURCE_SLICES, SERVICES, STORAGE_CLASSES,
};
use nodeless_fake_kubernetes::{PatchOptions, PatchType};
use nodeless_model::{Node, PriceChange, Quantity, ResourceList, labels};
use nodeless_ports::{ClaimMirror as _, Configuration as _, ErrorKind, NodesAndPods as _, PlanningView as _};
use nodeless_world::resources::{CAPACITY_BUFFERS, NODE_OVERLAYS, NODE_POOLS, PROVISIONING_REQUESTS};
use serde_json::json;
use std::collections::BTreeSet;

/// The collections that were listed, in order.
fn listed(world: &World) -> Vec<String> {
    let path = |request: String| request.trim_start_matches("GET ").split('?').next().unwrap_or_default().to_owned();
    let mut paths: Vec<String> = world.requests().into_iter().map(path).collect();
    paths.sort();
    paths
}

const ALWAYS: [&str; 12] = [
    "/api/v1/namespaces/kube-system",
    "/api/v1/nodes",
    "/api/v1/persistentvolumes",
    "/api/v1/pods",
    "/apis/apps/v1/daemonsets",
    "/apis/autoscaling.x-k8s.io/v1/provisioningrequests",
    "/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers",
    "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
    "/apis/karpenter.sh/v1/nodeclaims",
    "/apis/karpenter.sh/v1/nodepools",
    "/apis/karpenter.sh/v1alpha1/nodeoverlays",
    "/apis/policy/v1/poddisruptionbudgets",
];

#[tokio::test]
async fn volume_claims_are_read_only_when_they_are_needed() {
    let world = World::installed().await;
    let mut of_node = node("n1");
    of_node["metadata"]["labels"][labels::ZONE] = json!("us-east-1a");
    world.create(&NODES, of_node);
    world.create(&PODS, pod("plain", Some("n1")));
    let cluster = world.cluster();
    world.requests();
    assert!(cluster.view().await.unwrap().volumes.is_empty());
    assert_eq!(listed(&world), ALWAYS);

    let mut mounting = pod("db-0", None);
    mounting["spec"]["volumes"] = json!([
        { "name": "data", "persistentVolumeClaim": { "claimName": "data" } },
        { "name": "more", "persistentVolumeClaim": { "claimName": "missing" } },
    ]);
    world.create(&PODS, mounting);
    world.create(
        &STORAGE_CLASSES,
        json!({ "metadata": { "name": "gp3" }, "provisioner": "ebs.csi.aws.com",
            "volumeBindingMode": "WaitForFirstConsumer" }),
    );
    let mut claim = json!({ "metadata": { "name": "data", "namespace": "default" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "gp3", "volumeName": "pv-1",
        "resources": { "requests": { "storage": "1Gi" } } } });
    claim["metadata"]["annotations"] = json!({ "pv.kubernetes.io/bind-completed": "yes" });
    world.create(&PERSISTENT_VOLUME_CLAIMS, claim);
    let zone = json!({ "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1b"] });
    world.create(
        &PERSISTENT_VOLUMES,
        json!({ "metadata": { "name": "pv-1" }, "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
            "csi": { "driver": "ebs.csi.aws.com", "volumeHandle": "vol-1" },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [zone] }] } } } }),
    );
    world.create(
        &CSI_NODES,
        json!({ "metadata": { "name": "n1" }, "spec": { "drivers": [
            { "name": "ebs.csi.aws.com", "nodeID": "i-n1", "allocatable": { "count": 25 } }] } }),
    );
    world.requests();
    let view = cluster.view().await.unwrap();
    let more = listed(&world).len() - ALWAYS.len();
    assert_eq!(more, 3, "claims, classes and CSINodes, once each");
    assert!(view.volumes["default/data"][0].get(labels::ZONE).unwrap().has("us-east-1b"));
    assert_eq!(view.volume_drivers["default/data"], "ebs.csi.aws.com");
    assert_eq!(view.volume_limits["n1"]["ebs.csi.aws.com"], 25);
    assert!(view.volume_faults["default/missing"].contains("does not exist"), "{:?}", view.volume_faults);
}

#[tokio::test]
async fn volume_claims_are_read_when_a_volume_is_local_and_no_pod_mounts_it() {
    let world = World::installed().await;
    let mut volume = json!({ "metadata": { "name": "pv-1" }, "spec": {
        "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "local": { "path": "/data" },
        "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
            { "key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"] }] }] } } } });
    world.create(&PERSISTENT_VOLUMES, volume.clone());
    let cluster = world.cluster();
    world.requests();
    assert!(cluster.view().await.unwrap().volume_hosts.is_empty());
    assert_eq!(listed(&world), ALWAYS, "it is bound to no claim");

    volume["metadata"]["name"] = json!("pv-2");
    volume["spec"]["claimRef"] = json!({ "namespace": "default", "name": "data" });
    world.create(&PERSISTENT_VOLUMES, volume);
    let mut claim = json!({ "metadata": { "name": "data", "namespace": "default" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "pv-2",
        "resources": { "requests": { "storage": "1Gi" } } } });
    claim["metadata"]["annotations"] = json!({ "pv.kubernetes.io/bind-completed": "yes" });
    world.create(&PERSISTENT_VOLUME_CLAIMS, claim);
    let view = cluster.view().await.unwrap();
    assert!(view.volume_hosts["default/data"].contains("n1"), "{:?}", view.volume_hosts);
    assert!(view.volumes.is_empty(), "no pod mounts it");
}

#[tokio::test]
async fn devices_are_read_only_when_a_pod_claims_some() {
    let world = World::installed().await;
    let mut of_node = node("n1");
    of_node["metadata"]["labels"][labels::INSTANCE_TYPE] = json!("g6.xlarge");
    world.create(&NODES, of_node);
    world.create(&PODS, pod("plain", Some("n1")));
    let cluster = world.cluster();
    world.requests();
    assert!(cluster.view().await.unwrap().devices.is_empty());
    assert_eq!(listed(&world), ALWAYS);

    let mut claiming = pod("train", None);
    claiming["spec"]["resourceClaims"] = json!([{ "name": "gpu", "resourceClaimTemplateName": "one" }]);
    let uid = world.create(&PODS, claiming)["metadata"]["uid"].clone();
    let made =
        json!({ "status": { "resourceClaimStatuses": [{ "name": "gpu", "resourceClaimName": "train-gpu-x" }] } });
    let options = PatchOptions::default();
    world.server.patch(&PODS, "default", "train", Some("status"), PatchType::Merge, &made, &options).unwrap();
    world.answer("GET /apis/resource.k8s.io/v1/", vec![(404, MISSING.to_owned()); 4]);
    let view = cluster.view().await.unwrap();
    assert!(view.devices.is_empty() && view.invalid.is_empty(), "an API server without resource.k8s.io/v1");
    let claim = &view.pods.iter().find(|pod| pod.name == "train").unwrap().template.resource_claims[0];
    assert_eq!((claim.claim.as_deref(), claim.template.as_deref()), (Some("train-gpu-x"), Some("one")));

    world.create(&RESOURCE_SLICES, slice("n1"));
    world.create(&DEVICE_CLASSES, device_class("gpu"));
    let requests = json!({ "requests": [{ "name": "r", "exactly": { "deviceClassName": "gpu" } }] });
    let owner = json!([{ "apiVersion": "v1", "kind": "Pod", "name": "train", "uid": uid, "controller": true }]);
    let metadata = json!({ "name": "train-gpu-x", "namespace": "default", "ownerReferences": owner });
    world.create(&RESOURCE_CLAIMS, json!({ "metadata": metadata, "spec": { "devices": requests } }));
    let given = json!({ "results": [{ "request": "r", "driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0" }] });
    let given = json!({ "status": { "allocation": { "devices": given } } });
    world
        .server
        .patch(&RESOURCE_CLAIMS, "default", "train-gpu-x", Some("status"), PatchType::Merge, &given, &options)
        .unwrap();
    let template =
        json!({ "metadata": { "name": "one", "namespace": "default" }, "spec": { "spec": { "devices": requests } } });
    world.create(&RESOURCE_CLAIM_TEMPLATES, template);
    let view = cluster.view().await.unwrap();
    assert!(view.invalid.is_empty(), "{:?}", view.invalid);
    let devices = &view.devices;
    assert_eq!((devices.slices.len(), devices.classes["gpu"].selectors.len()), (1, 1));
    assert_eq!(devices.published_by_type["g6.xlarge"], devices.slices);
    assert_eq!(devices.templates["default/one"], devices.claims["default/train-gpu-x"].devices);
    assert!(devices.claims["default/train-gpu-x"].is_of_pod);
    assert_eq!(devices.claims["default/train-gpu-x"].allocation.as_ref().unwrap().devices.results.len(), 1);
}

/// The devices of a node whose driver has no device plugin.
#[tokio::test]
async fn the_devices_of_a_node_are_the_resources_that_classes_give() {
    let world = World::installed().await;
    let cluster = world.cluster();
    let node = Node { name: "n1".into(), ..Node::default() };
    let requested = BTreeSet::from(["nvidia.com/gpu"]);
    world.requests();
    assert!(cluster.device_resources(&node, &requested).await.unwrap().is_empty());
    assert_eq!(listed(&world), ["/apis/resource.k8s.io/v1/deviceclasses"], "there is no class");
    world.answer("GET /apis/resource.k8s.io/v1/deviceclasses", [(404, MISSING.to_owned())]);
    assert!(cluster.device_resources(&node, &requested).await.unwrap().is_empty(), "an older API server");

    world.create(&DEVICE_CLASSES, device_class("gpu"));
    assert!(cluster.device_resources(&node, &requested).await.unwrap().is_empty(), "nothing is published");
    world.create(&RESOURCE_SLICES, slice("n1"));
    world.create(&RESOURCE_SLICES, slice("n2"));
    world.requests();
    let found = cluster.device_resources(&node, &requested).await.unwrap();
    assert_eq!(found, ResourceList::from([("nvidia.com/gpu", Quantity::from_units(1))]));
    let slices = "GET /apis/resource.k8s.io/v1/resourceslices?";
    let read = world.requests().into_iter().filter(|request| request.starts_with(slices)).collect::<Vec<_>>();
    assert!(read.len() == 1 && read[0].contains("spec.nodeName"), "only those of the node: {read:?}");
    let denied = r#"{"kind": "Status", "code": 403, "message": "no"}"#;
    world.answer(slices, [(403, denied.to_owned())]);
    assert_eq!(cluster.device_resources(&node, &requested).await.unwrap_err().kind, ErrorKind::Denied);
}

/// The answer of an API server that does not have a kind.
const MISSING: &str = r#"{"kind": "Status", "code": 404, "reason": "NotFound", "message": "the server could not find the requested resource"}"#;

/// One GPU of a node.
fn slice(node: &str) -> serde_json::Value {
    let pool = json!({ "name": node, "generation": 1, "resourceSliceCount": 1 });
    let capacity = json!({ "memory": { "value": "24Gi" } });
    let gpu = json!({ "name": "gpu-0", "attributes": { "type": { "string": "gpu" } }, "capacity": capacity });
    json!({ "metadata": { "name": node }, "spec": { "driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, "devices": [gpu] } })
}

/// A class of GPUs, which pods get by requests for `nvidia.com/gpu` too.
fn device_class(name: &str) -> serde_json::Value {
    let selector = json!({ "cel": { "expression": "device.driver == 'gpu.nvidia.com'" } });
    json!({ "metadata": { "name": name }, "spec": { "selectors": [selector], "extendedResourceName": "nvidia.com/gpu" } })
}

#[tokio::test]
async fn namespaces_are_read_only_when_a_pod_selects_them_by_label() {
    let world = World::installed().await;
    let mut selecting = pod("web", None);
    let term = |namespaces| {
        json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "web" } },
            "namespaceSelector": namespaces }] } })
    };
    selecting["spec"]["affinity"] = term(json!({}));
    world.create(&PODS, selecting.clone());
    let cluster = world.cluster();
    assert!(
        cluster.view().await.unwrap().namespaces.is_empty(),
        "an empty selector selects all namespaces, so their labels are not read"
    );
    selecting["metadata"]["name"] = json!("picky");
    selecting["spec"]["affinity"] = term(json!({ "matchLabels": { "team": "blue" } }));
    world.create(&PODS, selecting);
    let view = cluster.view().await.unwrap();
    assert_eq!(view.namespaces["default"]["kubernetes.io/metadata.name"], "default");
}

#[tokio::test]
async fn limit_ranges_are_read_only_while_a_daemon_set_has_no_pod() {
    let world = World::installed().await;
    let template = json!({ "metadata": { "labels": { "app": "agent" } }, "spec": { "containers": [{ "name": "c", "image": "c" }] } });
    let spec = json!({ "selector": { "matchLabels": { "app": "agent" } }, "template": template });
    let set = world.create(&DAEMON_SETS, json!({ "metadata": { "name": "agent" }, "spec": spec }));
    let item = json!({ "type": "Container", "default": { "cpu": "300m" } });
    world.create(&LIMIT_RANGES, json!({ "metadata": { "name": "all" }, "spec": { "limits": [item] } }));
    let cluster = world.cluster();
    world.requests();
    let view = cluster.view().await.unwrap();
    assert_eq!(view.daemon_sets[0].template.template.requests.get("cpu").milli(), 300);
    let more: Vec<String> = listed(&world).into_iter().filter(|path| !ALWAYS.contains(&path.as_str())).collect();
    assert_eq!(more, ["/api/v1/limitranges", "/api/v1/resourcequotas"]);

    let mut first = pod("agent-x", None);
    first["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "100m" } });
    first["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": set["metadata"]["uid"], "controller": true }]);
    world.create(&PODS, first);
    world.requests();
    let view = cluster.view().await.unwrap();
    assert_eq!(view.daemon_sets[0].template.template.requests.get("cpu").milli(), 100);
    assert_eq!(listed(&world), ALWAYS);
}

#[tokio::test]
async fn selectors_of_pods_are_read_only_with_default_topology_spread_constraints() {
    let world = World::installed().await;
    let labels = json!({ "app": "web" });
    let template = json!({ "metadata": { "labels": labels },
        "spec": { "containers": [{ "name": "c", "image": "c" }] } });
    let spec = json!({ "replicas": 1, "selector": { "matchLabels": labels }, "template": template });
    let set = world.create(&REPLICA_SETS, json!({ "metadata": { "name": "web" }, "spec": spec }));
    world.create(
        &SERVICES,
        json!({ "metadata": { "name": "all" }, "spec": { "selector": { "tier": "front" }, "ports": [{ "port": 80 }] } }),
    );
    let mut owned = pod("owned", None);
    owned["metadata"]["labels"] = labels.clone();
    owned["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": set["metadata"]["uid"], "controller": true }]);
    world.create(&PODS, owned);
    let mut served = pod("served", None);
    served["metadata"]["labels"] = json!({ "tier": "front" });
    world.create(&PODS, served);
    world.create(&PODS, pod("neither", None));
    let cluster = world.cluster();
    world.requests();
    let view = cluster.view().await.unwrap();
    assert!(view.pods.iter().all(|pod| pod.template.topology_spread.is_empty()));
    assert_eq!(listed(&world), ALWAYS);

    let config = r#"{"podTopologySpread": {"defaultConstraints": [
        {"maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}]}}"#;
    let cluster = world.cluster().with_scheduler_config(config.parse().unwrap());
    let view = cluster.view().await.unwrap();
    let more = ["services", "replicationcontrollers"].map(|kind| format!("/api/v1/{kind}"));
    let more = more.into_iter().chain(["replicasets", "statefulsets"].map(|kind| format!("/apis/apps/v1/{kind}")));
    let mut expected: Vec<String> = ALWAYS.map(str::to_owned).into_iter().chain(more).collect();
    expected.sort();
    assert_eq!(listed(&world), expected);
    let selected = |name: &str| {
        let pod = view.pods.iter().find(|pod| pod.name == name).unwrap();
        pod.template.topology_spread.iter().map(|one| one.selector.clone().unwrap().match_labels).collect::<Vec<_>>()
    };
    let only = |key: &str, value: &str| vec![[(key.to_owned(), value.to_owned())].into()];
    assert_eq!(selected("owned"), only("app", "web"));
    assert_eq!(selected("served"), only("tier", "front"));
    assert!(selected("neither").is_empty());

    world.answer("GET /api/v1/services", [(403, r#"{"kind": "Status", "code": 403, "message": "no"}"#.to_owned())]);
    let denied = world.cluster().with_scheduler_config(config.parse().unwrap()).view().await.unwrap_err();
    assert_eq!(
        denied.kind,
        ErrorKind::Denied,
        "a plan without the constraints launches nodes that pods are not scheduled to"
    );
}

#[tokio::test]
async fn overlays_and_buffers_are_read_and_get_a_status() {
    let world = World::installed().await;
    world.create(
        &NODE_OVERLAYS,
        json!({ "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": { "name": "cheap" },
            "spec": { "requirements": [], "priceAdjustment": "-10%" } }),
    );
    let buffer = |name: &str, spec: serde_json::Value| {
        json!({ "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": { "name": name, "namespace": "default" }, "spec": spec })
    };
    let front = json!({ "apiGroup": "apps", "kind": "Deployment", "name": "front" });
    world.create(&CAPACITY_BUFFERS, buffer("spare", json!({ "scalableRef": front, "percentage": 50 })));
    world.create(&CAPACITY_BUFFERS, buffer("lost", json!({ "podTemplateRef": { "name": "none" }, "replicas": 1 })));
    let theirs = json!({ "provisioningStrategy": "example.com/standby", "scalableRef": front, "replicas": 1 });
    world.create(&CAPACITY_BUFFERS, buffer("theirs", theirs));
    let container = json!({ "name": "c", "image": "c", "resources": { "requests": { "cpu": "500m" } } });
    world.create(
        &DEPLOYMENTS,
        json!({ "metadata": { "name": "front" }, "spec": { "replicas": 3,
            "selector": { "matchLabels": { "app": "front" } },
            "template": { "metadata": { "labels": { "app": "front" } }, "spec": { "containers": [container] } } } }),
    );
    let cluster = world.cluster();
    let view = cluster.view().await.unwrap();
    assert_eq!(view.node_overlays[0].0.price, Some(PriceChange::Percent(-10.0)));
    let names: Vec<&str> = view.capacity_buffers.iter().map(|view| view.buffer.name.as_str()).collect();
    assert_eq!(names, ["lost", "spare"], "a buffer with another strategy belongs to another autoscaler");
    assert_eq!(view.capacity_buffers[0].shape.as_ref().unwrap_err().reason(), "PodTemplateNotFound");
    let shape = view.capacity_buffers[1].shape.as_ref().unwrap();
    assert_eq!((shape.replicas, view.capacity_buffers[1].buffer.chunks(shape).unwrap()), (3, 2));

    let mut status = view.capacity_buffers[1].status.clone();
    status.replicas = Some(2);
    cluster.write_capacity_buffer_status("default", "spare", &status).await.unwrap();
    let mut of_overlay = view.node_overlays[0].1.clone();
    of_overlay.conditions = vec![
        serde_json::from_value(json!({ "type": "Ready", "status": "True", "reason": "Ready",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" }))
        .unwrap(),
    ];
    cluster.write_node_overlay_status("cheap", &of_overlay).await.unwrap();
    let view = cluster.view().await.unwrap();
    assert_eq!(view.capacity_buffers[1].status.replicas, Some(2));
    assert_eq!(view.node_overlays[0].1, of_overlay);
    assert!(
        cluster.write_node_overlay_status("none", &of_overlay).await.unwrap_err().message.contains("no NodeOverlay")
    );
}

#[tokio::test]
async fn requests_are_read_with_their_templates_and_get_a_status() {
    let world = World::installed().await;
    let request = |name: &str, class: &str, template: &str| {
        json!({ "apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest",
            "metadata": { "name": name, "namespace": "default" }, "spec": {
                "provisioningClassName": class,
                "podSets": [{ "count": 2, "podTemplateRef": { "name": template } }] } })
    };
    let check = "check-capacity.autoscaling.x-k8s.io";
    world.create(&PROVISIONING_REQUESTS, request("lost", check, "none"));
    world.create(&PROVISIONING_REQUESTS, request("theirs", "queued-provisioning.gke.io", "worker"));
    world.create(&PROVISIONING_REQUESTS, request("train", check, "worker"));
    let container = json!({ "name": "c", "image": "c", "resources": { "requests": { "cpu": "500m" } } });
    world.create(
        &POD_TEMPLATES,
        json!({ "metadata": { "name": "worker" }, "template": { "spec": { "containers": [container] } } }),
    );
    let cluster = world.cluster();
    let requests = cluster.view().await.unwrap().provisioning_requests;
    let names: Vec<&str> = requests.iter().map(|view| view.request.name.as_str()).collect();
    assert_eq!(names, ["lost", "train"], "other classes belong to other autoscalers");
    assert!(requests[0].templates.as_ref().unwrap_err().to_string().contains("PodTemplate none does not exist"));
    assert_eq!(requests[1].templates.as_ref().unwrap()[0].pod.template.requests.get("cpu").milli(), 500);

    let mut status = requests[1].status.clone();
    let failed = json!({ "type": "Failed", "status": "True", "reason": "Expired", "message": "late",
        "lastTransitionTime": "2026-01-01T00:00:00Z" });
    status.conditions = vec![serde_json::from_value(failed).unwrap()];
    cluster.write_provisioning_request_status("default", "train", &status).await.unwrap();
    let left = cluster.view().await.unwrap().provisioning_requests;
    assert_eq!(left.len(), 1, "what has failed is not planned for: {left:?}");
}

#[tokio::test]
async fn without_their_crds_there_are_no_overlays_buffers_and_requests() {
    let world = World::installed().await;
    let names = ["nodeoverlays.karpenter.sh", "capacitybuffers.autoscaling.x-k8s.io"];
    for name in names.into_iter().chain(["provisioningrequests.autoscaling.x-k8s.io"]) {
        world.server.delete(&CUSTOM_RESOURCE_DEFINITIONS, "", name, &Default::default()).unwrap();
    }
    let view = world.cluster().view().await.unwrap();
    assert!(view.node_overlays.is_empty() && view.capacity_buffers.is_empty() && view.invalid.is_empty());
    assert!(view.provisioning_requests.is_empty());
}

#[tokio::test]
async fn an_object_is_read_by_name() {
    let world = World::installed().await;
    world.create(&NODE_POOLS, super::node_pool("default"));
    let cluster = world.cluster();
    world.requests();
    assert_eq!(cluster.node_pool("default").await.unwrap().unwrap().name, "default");
    assert!(cluster.node_pool("none").await.unwrap().is_none());
    assert!(cluster.mirrored_claim("none").await.unwrap().is_none());
    assert_eq!(listed(&world).len(), 3, "no list");
}

#[tokio::test]
async fn objects_of_a_crd_that_is_not_served_are_an_error_and_not_deleted() {
    let cluster = World::bare().await.cluster();
    for error in [
        cluster.node_pool("default").await.unwrap_err(),
        cluster.mirrored_claim("default-a").await.unwrap_err(),
        cluster.node_class("default").await.unwrap_err(),
    ] {
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.message.contains("nodeless install"), "{error}");
    }
}

#[tokio::test]
async fn quotas_are_read_only_with_pods_to_come() {
    let world = World::installed().await;
    let quota = json!({ "metadata": { "name": "team" }, "spec": { "hard": { "requests.cpu": "2", "pods": "5" } } });
    world.create(&RESOURCE_QUOTAS, quota);
    let cluster = world.cluster();
    world.requests();
    assert!(cluster.view().await.unwrap().resource_quotas.is_empty());
    assert_eq!(listed(&world), ALWAYS);

    let container = json!({ "name": "c", "image": "c", "resources": { "limits": { "cpu": "500m" } } });
    let template = json!({ "spec": { "containers": [container] } });
    world.create(&POD_TEMPLATES, json!({ "metadata": { "name": "chunk" }, "template": template }));
    let spec = json!({ "podTemplateRef": { "name": "chunk" }, "replicas": 7 });
    world.create(&CAPACITY_BUFFERS, json!({ "metadata": { "name": "spare" }, "spec": spec }));
    world.requests();
    let view = cluster.view().await.unwrap();
    let more: Vec<String> = listed(&world).into_iter().filter(|path| !ALWAYS.contains(&path.as_str())).collect();
    assert_eq!(
        more,
        ["/api/v1/limitranges", "/api/v1/namespaces/default/podtemplates/chunk", "/api/v1/resourcequotas"]
    );
    let quota = &view.resource_quotas[0];
    assert_eq!((quota.name.as_str(), quota.hard.get("requests.cpu").milli()), ("team", 2000));
    let shape = view.capacity_buffers[0].shape.as_ref().unwrap();
    assert_eq!((shape.limits.get("cpu").milli(), shape.pod.template.requests.get("cpu").milli()), (500, 500));
}
