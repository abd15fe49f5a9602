//! Tests how a surge reads and changes Deployments, and how the DaemonSets that nodes wait for are read.

use super::{World, pod};
use nodeless_fake_kubernetes::resource::{DAEMON_SETS, DEPLOYMENTS, NODES, PODS, REPLICA_SETS};
use nodeless_fake_kubernetes::{PatchOptions, PatchType};
use nodeless_model::surge::{DeploymentChange, Raise};
use nodeless_model::{DaemonSetName, labels};
use nodeless_ports::cluster::PodRef;
use nodeless_ports::{ErrorKind, NodesAndPods as _, Workloads as _};
use serde_json::{Value, json};

const REVISION: &str = "deployment.kubernetes.io/revision";

/// A Deployment and its ReplicaSet, as their controllers would leave them.
fn create(world: &World) {
    let template = json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "web", "image": "pause" }] },
    });
    let selector = json!({ "matchLabels": { "app": "web" } });
    let deployment = world.create(
        &DEPLOYMENTS,
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "web", "namespace": "default", "annotations": { REVISION: "3" } },
            "spec": { "replicas": 1, "selector": selector, "template": template },
        }),
    );
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": true,
        "uid": deployment["metadata"]["uid"],
    });
    world.create(
        &REPLICA_SETS,
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": "web-1", "namespace": "default", "annotations": { REVISION: "3" }, "ownerReferences": [owner],
            },
            "spec": { "replicas": 1, "selector": selector, "template": template },
        }),
    );
}

#[tokio::test]
async fn a_daemon_set_that_nodes_wait_for_is_read() {
    let world = World::installed().await;
    let template = json!({
        "metadata": { "labels": { "app": "csi" } },
        "spec": { "tolerations": [{ "operator": "Exists" }], "containers": [{ "name": "csi", "image": "pause" }] },
    });
    let selector = json!({ "matchLabels": { "app": "csi" } });
    let set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": { "name": "csi", "namespace": "kube-system" },
        "spec": { "selector": selector, "template": template },
    });
    world.create(&DAEMON_SETS, set);
    let name = |namespace: &str| DaemonSetName { namespace: namespace.into(), name: "csi".into() };
    let read = world.cluster().daemon_set(&name("kube-system")).await.unwrap().unwrap();
    assert!(name("kube-system").is_of(&read) && read.template.template.tolerations.len() == 1);
    assert_eq!(world.cluster().daemon_set(&name("default")).await.unwrap(), None);
}

fn deployment(world: &World) -> Value {
    world.server.get(&DEPLOYMENTS, "default", "web").unwrap().as_ref().clone()
}

#[tokio::test]
async fn the_deployment_of_a_replica_set_is_read_and_changed() {
    let world = World::installed().await;
    create(&world);
    let cluster = world.cluster();
    let read = cluster.owning_deployment("default", "web-1").await.unwrap().unwrap();
    assert_eq!((read.name.as_str(), read.current, read.replicas, read.max_surge), ("web", true, 1, 1));
    assert_eq!(cluster.owning_deployment("default", "gone").await.unwrap(), None);
    assert_eq!(cluster.disruption_budgets().await.unwrap(), []);

    let at = jiff::Timestamp::from_second(1_800_000_000).unwrap();
    let restart = DeploymentChange::Restart { at };
    for _ in 0..2 {
        cluster.change_deployment("default", "web", &restart).await.unwrap();
        let annotations = &deployment(&world)["spec"]["template"]["metadata"]["annotations"];
        assert_eq!(annotations[labels::RESTARTED_AT], "2027-01-15T08:00:00Z");
    }
    let raise = Raise { claim: "a".into(), pod: "p".into(), from: 1, to: 2, at };
    cluster.change_deployment("default", "web", &DeploymentChange::Raise(raise.clone())).await.unwrap();
    let read = cluster.owning_deployment("default", "web-1").await.unwrap().unwrap();
    assert_eq!((read.replicas, read.raise.as_ref()), (2, Some(&raise)));
    let other = DeploymentChange::Raise(Raise { claim: "b".into(), ..raise });
    let refused = cluster.change_deployment("default", "web", &other).await.unwrap_err();
    assert!(refused.kind == ErrorKind::Conflict && refused.message.contains("NodeClaim a"), "{refused}");
    let found = cluster.raised_deployments().await.unwrap();
    let [raised] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((raised.namespace.as_str(), raised.name.as_str(), raised.is_as_raised), ("default", "web", true));
    let lower = DeploymentChange::Lower { claim: "a".into(), pod: "p".into() };
    for _ in 0..2 {
        cluster.change_deployment("default", "web", &lower).await.unwrap();
        assert_eq!(deployment(&world)["spec"]["replicas"], 1);
    }
    assert_eq!(cluster.raised_deployments().await.unwrap(), []);
    cluster.change_deployment("default", "gone", &lower).await.unwrap();
}

#[tokio::test]
async fn the_ready_pods_that_the_selector_of_a_deployment_selects_are_read_and_their_nodes() {
    let world = World::installed().await;
    create(&world);
    let set = world.server.get(&REPLICA_SETS, "default", "web-1").unwrap();
    let uid = &set["metadata"]["uid"];
    let owner =
        json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "controller": true, "uid": uid }]);
    let ready = json!([{ "type": "Ready", "status": "True", "lastTransitionTime": "2027-01-15T08:00:00Z" }]);
    for (name, labels) in [("web-1-a", json!({ "app": "web" })), ("other", json!({ "app": "other" }))] {
        let mut ready_pod = pod(name, Some("node-1"));
        ready_pod["metadata"]["labels"] = labels;
        ready_pod["metadata"]["ownerReferences"] = owner.clone();
        world.create(&PODS, ready_pod);
        let status = json!({ "status": { "phase": "Running", "conditions": ready } });
        let options = PatchOptions::default();
        world.server.patch(&PODS, "default", name, Some("status"), PatchType::Merge, &status, &options).unwrap();
    }
    world.create(&NODES, json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "node-1" } }));
    let cluster = world.cluster();
    let read = cluster.owning_deployment("default", "web-1").await.unwrap().unwrap();
    let ready: Vec<(&str, &str)> = read.ready.iter().map(|one| (one.pod.name.as_str(), one.node.as_str())).collect();
    assert_eq!(ready, [("web-1-a", "node-1")]);
    assert_eq!(cluster.node("node-1").await.unwrap().map(|node| node.name), Some("node-1".to_owned()));
    assert_eq!(cluster.node("node-2").await.unwrap(), None);
}

#[tokio::test]
async fn a_denied_change_names_the_optional_role_that_grants_it() {
    let world = World::installed().await;
    create(&world);
    let message = "deployments.apps \"web\" is forbidden: User \"lifecycle\" cannot patch resource \"deployments\" in API group \"apps\" \
                   in the namespace \"default\"";
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "message": message, "code": 403,
    });
    world.answer("PATCH /apis/apps/v1/namespaces/default/deployments/web", vec![(403, status.to_string()); 20]);
    let restart = DeploymentChange::Restart { at: jiff::Timestamp::UNIX_EPOCH };
    let denied = world.cluster().change_deployment("default", "web", &restart).await.unwrap_err();
    assert!(denied.kind == ErrorKind::Denied && denied.message.contains("infra/rbac/optional/surge.yaml"), "{denied}");
    assert!(!denied.message.contains("run the installer"), "{denied}");
}

#[tokio::test]
async fn a_pod_is_marked_by_its_uid() {
    let world = World::installed().await;
    let p1 = world.create(&PODS, pod("p1", None));
    let cluster = world.cluster();
    let uid = p1["metadata"]["uid"].as_str().unwrap().to_owned();
    let of = |name: &str, uid: &str| PodRef { namespace: "default".into(), name: name.into(), uid: uid.into() };
    cluster.delete_first(&of("p1", "another")).await.unwrap();
    cluster.delete_first(&of("missing", &uid)).await.unwrap();
    let cost = |world: &World| {
        world.server.get(&PODS, "default", "p1").unwrap()["metadata"]["annotations"][labels::POD_DELETION_COST].clone()
    };
    assert_eq!(cost(&world), Value::Null);
    cluster.delete_first(&of("p1", &uid)).await.unwrap();
    assert_eq!(cost(&world), "-2147483648");
}
