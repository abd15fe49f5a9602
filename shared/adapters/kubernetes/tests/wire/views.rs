//! Views: complete, updated from the cache, and with errors for objects that cannot be read.

use super::{World, node, node_class, node_pool, pod};
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, JOBS, NODES, PODS};
use nodeless_fake_kubernetes::{DeleteOptions, PatchOptions, PatchType};
use nodeless_kubernetes::KubeCluster;
use nodeless_ports::cluster::{BatchWindow, ClusterView};
use nodeless_ports::{Configuration as _, ErrorKind, NodesAndPods as _, PlanningView as _};
use nodeless_world::resources::{NODE_CLASSES, NODE_POOLS};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

fn now_deleted() -> DeleteOptions {
    DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() }
}

fn mark_unschedulable(world: &World, name: &str) {
    let patch = json!({ "status": { "phase": "Pending", "conditions": [
        { "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }
    ] } });
    let options = PatchOptions::default();
    world.server.patch(&PODS, "default", name, Some("status"), PatchType::Merge, &patch, &options).unwrap();
}

#[tokio::test]
async fn a_view_has_everything_and_reports_what_cannot_be_read() {
    let world = World::installed().await;
    world.create(&NODES, node("n1"));
    world.create(&PODS, pod("p1", Some("n1")));
    world.create(&NODE_POOLS, node_pool("good"));
    let mut faulty = node_pool("faulty");
    faulty["metadata"]["annotations"] = json!({ "nodeless.sh/dollars-per-hour": "cheap" });
    world.create(&NODE_POOLS, faulty);
    world.create(&NODE_CLASSES, node_class("default"));
    let view = world.cluster().view().await.unwrap();
    assert_eq!(view.nodes[0].provider_id.as_deref(), Some("aws:///us-east-1a/i-n1"));
    assert_eq!((view.pods.len(), view.pods[0].node_name.as_deref()), (1, Some("n1")));
    let pool = |name: &str| view.node_pools.iter().find(|pool| pool.name == name).unwrap();
    assert_eq!((view.node_pools.len(), view.invalid.len()), (2, 0));
    assert_eq!(pool("good").ready, Ok(()));
    // The nodes still belong to the faulty NodePool, and its conditions contain the error.
    let why = pool("faulty").ready.clone().unwrap_err().to_string();
    assert!(why.contains("dollars-per-hour") && why.contains("cheap"), "{why}");
    assert!(view.node_pool_statuses.contains_key("faulty") && view.node_classes.contains_key("default"));
}

#[tokio::test]
async fn a_list_of_several_pages_is_complete() {
    let world = World::installed().await;
    for index in 0..1_050 {
        world.create(&NODES, node(&format!("n{index:04}")));
    }
    let cluster = world.cluster();
    world.requests();
    assert_eq!(cluster.view().await.unwrap().nodes.len(), 1_050);
    assert_eq!(node_reads(&world), (3, 0), "three pages");
    assert_eq!(cluster.labelled_nodes().await.unwrap().len(), 1_050);
}

/// How often nodes were listed and watched since the last call.
fn node_reads(world: &World) -> (usize, usize) {
    let requests = world.requests();
    let of_nodes = requests.iter().filter(|request| request.starts_with("GET /api/v1/nodes?"));
    let (watches, lists): (Vec<_>, Vec<_>) = of_nodes.partition(|request| request.contains("watch=true"));
    (lists.len(), watches.len())
}

/// A view with every change that was made before.
async fn current_view(cluster: &KubeCluster) -> ClusterView {
    let view = cluster.view().await.unwrap();
    if cluster.confirm_view().await.is_ok() {
        return view;
    }
    let view = cluster.view().await.unwrap();
    cluster.confirm_view().await.unwrap();
    view
}

/// Changes a cluster, and returns how nodes were read for the first, second and third view.
async fn follows_changes(world: &World, cluster: &KubeCluster) -> [(usize, usize); 3] {
    let names =
        |view: ClusterView| view.nodes.into_iter().map(|node| (node.name, node.unschedulable)).collect::<Vec<_>>();
    world.requests();
    world.create(&NODES, node("a"));
    world.create(&NODES, node("b"));
    assert_eq!(names(current_view(cluster).await), [("a".into(), false), ("b".into(), false)]);
    let first = node_reads(world);
    world.create(&NODES, node("c"));
    let cordon = json!({ "spec": { "unschedulable": true } });
    world.server.patch(&NODES, "", "a", None, PatchType::Merge, &cordon, &PatchOptions::default()).unwrap();
    world.server.delete(&NODES, "", "b", &now_deleted()).unwrap();
    assert_eq!(names(current_view(cluster).await), [("a".into(), true), ("c".into(), false)]);
    let second = node_reads(world);
    world.server.delete(&NODES, "", "a", &now_deleted()).unwrap();
    // The events of the watch are compacted: 410.
    world.server.compact();
    world.create(&NODES, node("d"));
    world.server.compact();
    assert_eq!(names(current_view(cluster).await), [("c".into(), false), ("d".into(), false)]);
    [first, second, node_reads(world)]
}

#[tokio::test]
async fn a_cached_view_is_updated_by_a_watch_and_listed_when_the_version_expired() {
    let world = World::installed().await;
    let (cluster, lines) = world.logging_cluster();
    let reads = follows_changes(&world, &cluster).await;
    // The first list of a view with a watch reads the current resourceVersion.
    assert_eq!(reads, [(1, 0), (1, 1), (2, 1)], "(lists, watches) of each view");
    let lines = lines.take();
    let of_nodes = lines.iter().filter(|line| line["event"] == "watch-not-resumed" && line["kind"] == "Node");
    assert_eq!(of_nodes.count(), 1, "{lines:?}");
}

/// The names of the nodes and pods of a view.
fn names(view: ClusterView) -> Vec<String> {
    view.nodes.into_iter().map(|node| node.name).chain(view.pods.into_iter().map(|pod| pod.name.clone())).collect()
}

/// The names of the nodes and pods of the next view, proved or not.
async fn names_of_view(cluster: &KubeCluster) -> Vec<String> {
    names(cluster.view().await.unwrap())
}

/// The error of the proof that the last view is current.
async fn why_not_current(cluster: &KubeCluster) -> String {
    let error = cluster.confirm_view().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
    error.to_string()
}

/// A cluster whose view is cached. Since then, a node was created, and a pod created and another one deleted.
async fn changed_since_the_last_view(world: &World) -> KubeCluster {
    for name in ["p0", "p1"] {
        world.create(&PODS, pod(name, None));
    }
    world.create(&NODES, node("n0"));
    let cluster = world.watching_cluster();
    assert_eq!(names_of_view(&cluster).await, ["n0", "p0", "p1"]);
    world.create(&PODS, pod("p2", None));
    world.server.delete(&PODS, "default", "p1", &now_deleted()).unwrap();
    world.create(&NODES, node("n1"));
    world.requests();
    cluster
}

#[tokio::test]
async fn a_view_whose_watches_are_slow_is_not_current_and_the_next_one_is() {
    let world = World::installed().await;
    let cluster = changed_since_the_last_view(&world).await;
    world.server.hold_watches(true);
    assert_eq!(names_of_view(&cluster).await, ["n0", "p0", "p1"], "a view does not wait for watches");
    assert_eq!(node_reads(&world), (1, 1), "the current resourceVersion, and the changes until it");
    world.server.hold_watches(false);
    let why = why_not_current(&cluster).await;
    assert!(why.contains("Pod: its watch sent the change") && why.contains("Node: its watch sent"), "{why}");
    assert_eq!(why_not_current(&cluster).await, why, "this view stays the same");
    assert_eq!(node_reads(&world), (0, 0));
    assert_eq!(names_of_view(&cluster).await, ["n0", "n1", "p0", "p2"]);
    cluster.confirm_view().await.unwrap();
    assert_eq!(node_reads(&world), (1, 0), "the watch of the last view had reached the current resourceVersion");
}

#[tokio::test]
async fn a_view_after_one_that_is_not_current_waits_for_the_changes() {
    let world = World::installed().await;
    let cluster = changed_since_the_last_view(&world).await;
    world.server.hold_watches(true);
    assert_eq!(names_of_view(&cluster).await, ["n0", "p0", "p1"]);
    world.server.hold_watches(false);
    why_not_current(&cluster).await;
    world.create(&NODES, node("n2"));
    world.requests();
    world.server.hold_watches(true);
    let later = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.server.hold_watches(false);
    };
    let (names, ()) = tokio::join!(names_of_view(&cluster), later);
    assert_eq!(names, ["n0", "n1", "n2", "p0", "p2"]);
    cluster.confirm_view().await.unwrap();
    assert_eq!(node_reads(&world), (1, 1), "the current resourceVersion, and the changes until it");
}

#[tokio::test]
async fn a_view_whose_watches_are_silent_is_not_current_and_the_next_one_is_listed() {
    let world = World::installed().await;
    let cluster = changed_since_the_last_view(&world).await;
    world.server.hold_watches(true);
    assert_eq!(names_of_view(&cluster).await, ["n0", "p0", "p1"]);
    let why = why_not_current(&cluster).await;
    assert!(why.contains("Node: its watch is silent"), "{why}");
    node_reads(&world);
    assert_eq!(names_of_view(&cluster).await, ["n0", "n1", "p0", "p2"]);
    cluster.confirm_view().await.unwrap();
    assert_eq!(node_reads(&world), (2, 1), "the current resourceVersion, no change, and a list");
}

/// A cluster whose next view reads a change of Deployments from a watch that sends nothing.
async fn with_silent_deployments(world: &World) -> KubeCluster {
    let template = json!({ "metadata": { "labels": { "app": "web" } },
        "spec": { "restartPolicy": "Always", "containers": [{ "name": "c", "image": "c" }] } });
    let deployment = |number: usize| {
        json!({ "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": format!("web-{number}"), "namespace": "default" },
            "spec": { "replicas": 1, "selector": { "matchLabels": { "app": "web" } }, "template": template.clone() } })
    };
    // More than are listed each time.
    for number in 0..251 {
        world.create(&DEPLOYMENTS, deployment(number));
    }
    let cluster = world.cluster();
    let mut view = cluster.view().await.unwrap();
    cluster.read_pod_controllers(&mut view).await.unwrap();
    world.create(&DEPLOYMENTS, deployment(251));
    world.server.hold_watches(true);
    cluster
}

#[tokio::test]
async fn a_view_is_current_although_an_earlier_one_had_a_kind_that_was_not() {
    let world = World::installed().await;
    let cluster = with_silent_deployments(&world).await;
    let mut view = cluster.view().await.unwrap();
    cluster.read_pod_controllers(&mut view).await.unwrap();
    let why = why_not_current(&cluster).await;
    assert!(why.contains("Deployment: its watch is silent"), "{why}");
    cluster.view().await.unwrap();
    cluster.confirm_view().await.unwrap();
}

#[tokio::test]
async fn a_view_is_current_although_workloads_that_it_could_not_use_were_not() {
    let world = World::installed().await;
    let cluster = with_silent_deployments(&world).await;
    let mut view = cluster.view().await.unwrap();
    // The calls are repeated, and Deployments are read meanwhile.
    let busy = || (503, "busy".to_owned());
    world.answer("GET /apis/batch/v1/jobs?", [busy(), busy(), busy()]);
    cluster.read_pod_controllers(&mut view).await.unwrap_err();
    cluster.confirm_view().await.unwrap();
}

#[tokio::test]
async fn a_lookup_after_a_view_does_not_hide_that_it_is_not_current() {
    let world = World::installed().await;
    let cluster = changed_since_the_last_view(&world).await;
    world.server.hold_watches(true);
    assert_eq!(names_of_view(&cluster).await, ["n0", "p0", "p1"]);
    world.server.hold_watches(false);
    assert_eq!(cluster.nodes_of("aws:///us-east-1a/i-n1", None).await.unwrap().len(), 1, "a lookup is current");
    let why = why_not_current(&cluster).await;
    assert!(why.contains("Node: its watch sent the change"), "{why}");
}

#[tokio::test]
async fn a_view_is_current_although_a_watch_ends_without_the_changes() {
    let world = World::installed().await;
    let cluster = changed_since_the_last_view(&world).await;
    // The watch of pods ends without a change, and that of nodes with the bookmark of a server that is behind.
    let behind = json!({ "type": "BOOKMARK", "object": { "metadata": { "resourceVersion": "1" } } });
    world.answer("GET /api/v1/pods?&watch=true", [(200, String::new())]);
    world.answer("GET /api/v1/nodes?&watch=true", [(200, format!("{behind}\n"))]);
    assert_eq!(names_of_view(&cluster).await, ["n0", "n1", "p0", "p2"]);
    cluster.confirm_view().await.unwrap();
    assert_eq!(node_reads(&world), (2, 1), "the current resourceVersion, no change, and a list");
}

#[tokio::test]
async fn a_view_is_listed_when_the_current_version_cannot_be_compared() {
    let world = World::installed().await;
    let cluster = changed_since_the_last_view(&world).await;
    let at = |version: &str| (200, json!({ "metadata": { "resourceVersion": version }, "items": [] }).to_string());
    // The API server was restored from a backup, or its resourceVersions are not numbers.
    world.answer("GET /api/v1/nodes?&limit=1", [at("1")]);
    world.answer("GET /api/v1/pods?&limit=1", [at("a")]);
    assert_eq!(names_of_view(&cluster).await, ["n0", "n1", "p0", "p2"]);
    assert_eq!(node_reads(&world), (2, 0), "the current resourceVersion, and a list");
}

#[tokio::test]
async fn a_kind_without_changes_is_current_with_a_bookmark() {
    let world = World::installed().await;
    let cluster = changed_since_the_last_view(&world).await;
    assert_eq!(names(current_view(&cluster).await), ["n0", "n1", "p0", "p2"]);
    node_reads(&world);
    world.create(&PODS, pod("p3", None));
    assert_eq!(names(current_view(&cluster).await), ["n0", "n1", "p0", "p2", "p3"]);
    assert_eq!(node_reads(&world), (1, 1), "the current resourceVersion, and a bookmark of it");
}

#[tokio::test]
async fn a_cached_view_of_few_objects_is_listed() {
    let world = World::installed().await;
    let reads = follows_changes(&world, &world.cluster()).await;
    assert_eq!(reads, [(1, 0), (1, 0), (1, 0)], "(lists, watches) of each view");
}

#[tokio::test]
async fn terminated_pods_are_not_in_the_view_and_are_among_the_pods_of_their_node() {
    let world = World::installed().await;
    world.create(&PODS, pod("p1", Some("n1")));
    let cluster = world.watching_cluster();
    assert_eq!(cluster.view().await.unwrap().pods.len(), 1);
    let ended = json!({ "status": { "phase": "Succeeded" } });
    let options = PatchOptions::default();
    world.server.patch(&PODS, "default", "p1", Some("status"), PatchType::Merge, &ended, &options).unwrap();
    assert_eq!(current_view(&cluster).await.pods.len(), 0);
    assert_eq!(cluster.pods_on("n1").await.unwrap().len(), 1);
    assert_eq!(cluster.pods_on("n2").await.unwrap().len(), 0);
}

/// The names of the pods of each node.
async fn pods_of(cluster: &KubeCluster, nodes: usize) -> Vec<Vec<String>> {
    let nodes: BTreeSet<String> = (0..nodes).map(|index| format!("n{index:02}")).collect();
    let found = cluster.pods_on_each(&nodes).await;
    assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), nodes);
    found.into_values().map(|pods| pods.unwrap().into_iter().map(|pod| pod.name).collect()).collect()
}

#[tokio::test]
async fn the_pods_of_many_nodes_are_read_together() {
    let world = World::installed().await;
    for index in 0..9 {
        world.create(&PODS, pod(&format!("p{index}"), Some(&format!("n{index:02}"))));
    }
    world.create(&PODS, pod("pending", None));
    world.create(&PODS, pod("elsewhere", Some("other")));
    let cluster = world.watching_cluster();
    let ended = json!({ "status": { "phase": "Succeeded" } });
    let options = PatchOptions::default();
    world.server.patch(&PODS, "default", "p1", Some("status"), PatchType::Merge, &ended, &options).unwrap();
    world.requests();
    let expected: Vec<Vec<String>> = (0..9).map(|index| vec![format!("p{index}")]).collect();
    assert_eq!(pods_of(&cluster, 9).await, expected, "also the pod that has ended");
    assert_eq!(world.requests().len(), 1, "one list");
    world.server.delete(&PODS, "default", "p0", &now_deleted()).unwrap();
    assert_eq!(pods_of(&cluster, 9).await[..2], [vec![], vec!["p1".to_owned()]]);
    assert_eq!(world.requests().len(), 2, "the current resourceVersion, and the changes until it");
    assert_eq!(pods_of(&cluster, 2).await, [vec![], vec!["p1".to_owned()]]);
    assert_eq!(world.requests().len(), 2, "a list for each of few nodes");
}

#[tokio::test]
async fn the_pods_of_a_node_with_an_undecodable_pod_are_unknown() {
    let world = World::installed().await;
    let mut faulty = pod("faulty", Some("n01"));
    let expression = json!({ "key": "a", "operator": "OfLaterKubernetes", "values": ["b"] });
    let terms = json!({ "nodeSelectorTerms": [{ "matchExpressions": [expression] }] });
    faulty["spec"]["affinity"] = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": terms } });
    world.create(&PODS, faulty);
    world.create(&PODS, pod("good", Some("n02")));
    for nodes in [3, 9] {
        let names: BTreeSet<String> = (0..nodes).map(|index| format!("n{index:02}")).collect();
        let found = world.cluster().pods_on_each(&names).await;
        assert_eq!(found["n01"].as_ref().unwrap_err().kind, ErrorKind::Invalid);
        assert_eq!((found["n00"].as_ref().unwrap().len(), found["n02"].as_ref().unwrap().len()), (0, 1));
    }
}

#[tokio::test]
async fn a_list_starts_again_when_its_continue_token_has_expired() {
    let world = World::installed().await;
    // More pods than a page has.
    for index in 0..700 {
        world.create(&PODS, pod(&format!("p{index}"), Some("n1")));
    }
    let cluster = world.cluster();
    world.requests();
    assert_eq!(cluster.pods_on("n1").await.unwrap().len(), 700);
    let pages = world.requests();
    let [first, second] = &pages[..] else { panic!("{pages:#?}") };
    let (path, _) = second.split_once("&continue=").expect("the second page continues the first");
    assert_eq!(path, first);
    let expired = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}"#;
    let continued: &'static str = format!("{first}&continue=").leak();
    world.answer(continued, [(410, expired.to_owned())]);
    assert_eq!(cluster.pods_on("n1").await.unwrap().len(), 700);
    assert_eq!(world.requests().len(), 4, "two pages, and both again");
    // The list starts again only once.
    world.answer(continued, [(410, expired.to_owned()), (410, expired.to_owned())]);
    assert!(cluster.pods_on("n1").await.is_err());
}

#[tokio::test]
async fn the_batch_window_extends_only_while_pods_arrive() {
    let world = World::installed().await;
    world.create(&PODS, pod("p1", None));
    let cluster = world.cluster();
    let (idle, max, min) = (Duration::from_millis(300), Duration::from_secs(30), Duration::ZERO);
    let window = BatchWindow { idle, max, burst: max, min, ..BatchWindow::default() };
    assert!(cluster.wait_for_batch(window.clone()).await.unwrap().is_empty());
    mark_unschedulable(&world, "p1");
    world.create(&PODS, pod("p2", None));
    let late = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        mark_unschedulable(&world, "p2");
    };
    let (pending, ()) = tokio::join!(cluster.wait_for_batch(window), late);
    assert_eq!(pending.unwrap().len(), 2, "the second pod became pending in the window");
    // Changes during the batch window are read without another list.
    let pending = cluster.view().await.unwrap().pods.iter().filter(|pod| pod.is_provisionable()).count();
    assert_eq!(pending, 2);
}

/// The webhook is called before the API server stores the object.
#[tokio::test]
async fn the_batch_window_of_a_plan_that_was_requested_has_a_minimum_without_pods() {
    let world = World::installed().await;
    let cluster = world.cluster();
    let (idle, max, min) = (Duration::from_millis(50), Duration::from_secs(30), Duration::from_millis(300));
    let window = BatchWindow { idle, max, burst: max, min, ..BatchWindow::default() };
    let late = async {
        tokio::time::sleep(min / 3).await;
        world.create(&PODS, pod("p1", None));
        mark_unschedulable(&world, "p1");
    };
    let (pending, ()) = tokio::join!(cluster.wait_for_batch(window.clone()), late);
    assert_eq!(pending.unwrap().len(), 1);
    assert_eq!(cluster.view().await.unwrap().pods.iter().filter(|pod| pod.is_provisionable()).count(), 1);
    let start = Instant::now();
    cluster.wait_for_batch(BatchWindow { min: Duration::ZERO, ..window }).await.unwrap();
    assert!(start.elapsed() >= idle);
}

#[tokio::test]
async fn workloads_with_fewer_pods_than_they_are_to_have_are_read() {
    let world = World::installed().await;
    let resources = json!({ "requests": { "cpu": "1" }, "limits": { "cpu": "2" } });
    let template = json!({ "metadata": { "labels": { "app": "web" } },
        "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "c", "resources": resources }] } });
    let object = |kind: &str, api_version: &str, spec: serde_json::Value| {
        let mut object = json!({ "apiVersion": api_version, "kind": kind,
            "metadata": { "name": "web", "namespace": "default" }, "spec": spec });
        object["spec"]["template"] = template.clone();
        object
    };
    let mut deployment = object("Deployment", "apps/v1", json!({ "selector": { "matchLabels": { "app": "web" } } }));
    deployment["spec"]["template"]["spec"]["restartPolicy"] = json!("Always");
    deployment["spec"]["replicas"] = json!(3);
    world.create(&DEPLOYMENTS, deployment);
    world.create(&JOBS, object("Job", "batch/v1", json!({ "parallelism": 4 })));
    world.create(&JOBS, {
        let mut suspended = object("Job", "batch/v1", json!({ "suspend": true }));
        suspended["metadata"]["name"] = json!("later");
        suspended
    });
    let cluster = world.cluster();
    let mut view = cluster.view().await.unwrap();
    assert!(view.pod_controllers.is_empty(), "they are read only while pods are expected");
    cluster.read_pod_controllers(&mut view).await.unwrap();
    let read: Vec<_> = view.pod_controllers.iter().map(|it| (it.workload.to_string(), it.desired.most())).collect();
    assert_eq!(read, [("Deployment default/web".to_owned(), 4), ("Job default/web".to_owned(), 4)]);
    let shape = view.pod_controllers[0].shape.as_ref().unwrap();
    assert_eq!(shape.limits.get("cpu").milli(), 2000);
    cluster.confirm_view().await.unwrap();
}

/// A real API server answers in plain text when it is too busy, and with a missing right when it has just started.
#[tokio::test]
async fn a_call_to_a_busy_or_starting_api_server_is_repeated() {
    let world = World::installed().await;
    world.create(&NODE_POOLS, super::node_pool("default"));
    let cluster = world.cluster();
    let path = "GET /apis/karpenter.sh/v1/nodepools/default";
    let busy = || (429, "Too many requests, please try again later.\n".to_owned());
    let message = r#"nodepools.karpenter.sh "default" is forbidden: User "planner" cannot get resource "nodepools""#;
    let status =
        json!({ "kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": message });
    let starting = || (403, status.to_string());
    world.answer(path, [busy(), starting()]);
    assert_eq!(cluster.node_pool("default").await.unwrap().unwrap().name, "default");

    world.answer(path, [busy(), busy(), busy()]);
    let error = cluster.node_pool("default").await.unwrap_err();
    assert_eq!((error.kind, error.code.as_str()), (ErrorKind::Throttled, "TooManyRequests"), "{error}");
    world.answer(path, [starting(), starting(), starting()]);
    let error = cluster.node_pool("default").await.unwrap_err();
    assert!(error.kind == ErrorKind::Denied && error.message.contains("infra/rbac"), "{error}");
}
