//! The scheduler handles `status.nominatedNodeName` as kube-scheduler 1.33 does in `pkg/scheduler/schedule_one.go` (`findNodesThatFitPod`,
//! `schedulingCycle`) and `pkg/scheduler/framework/runtime/framework.go` (`RunFilterPluginsWithNominatedPods`).

use super::*;
use crate::controllers::Controller as _;
use crate::server::UpdateOptions;
use crate::server::resource::PRIORITY_CLASSES;

/// A cluster of nodes that no pod tolerates yet.
fn closed(nodes: &[&str]) -> Cluster {
    let cluster = Cluster::with_nodes(nodes);
    nodes.iter().for_each(|node| close(&cluster, node));
    cluster
}

fn close(cluster: &Cluster, node: &str) {
    cluster.patch(&NODES, node, &json!({ "spec": { "taints": [{ "key": "closed", "effect": "NoSchedule" }] } }));
}

fn open(cluster: &Cluster, node: &str) {
    cluster.patch(&NODES, node, &json!({ "spec": { "taints": null } }));
}

fn nominate(cluster: &Cluster, pod: &str, node: &str) {
    let mut object = cluster.get(&PODS, pod).as_ref().clone();
    object["status"]["nominatedNodeName"] = json!(node);
    cluster.api.update_status(&PODS, object, &UpdateOptions::default()).unwrap();
}

/// A pod of a PriorityClass that never preempts.
fn never_preempting(cluster: &Cluster, name: &str) -> Value {
    let class = json!({ "metadata": { "name": "never-preempting" }, "value": 0, "preemptionPolicy": "Never" });
    cluster.create(&PRIORITY_CLASSES, class);
    let mut never_preempting = pod(name, "500m");
    never_preempting["spec"]["priorityClassName"] = json!("never-preempting");
    never_preempting
}

/// The nominated nodes of the pods, in the order of the pods' names.
fn nominated(cluster: &Cluster) -> Vec<String> {
    let of = |pod: &Arc<Value>| super::super::object::text(pod, "/status/nominatedNodeName").to_owned();
    cluster.list(&PODS).iter().map(of).collect()
}

#[test]
fn a_pod_goes_to_its_nominated_node_although_another_one_has_more_free_capacity() {
    let mut cluster = closed(&["n1", "n2"]);
    cluster.create(&PODS, pod("a", "500m"));
    cluster.create(&PODS, pod("b", "500m"));
    cluster.run(1);
    assert_eq!(cluster.placed(), ["", ""]);
    nominate(&cluster, "a", "n2");
    nominate(&cluster, "b", "n2");
    ["n1", "n2"].iter().for_each(|node| open(&cluster, node));
    cluster.run(1);
    assert_eq!(cluster.placed(), ["n2", "n2"], "without nominations they are spread");
}

#[test]
fn the_requests_of_nominated_pods_count_for_pods_of_no_higher_priority() {
    let placed_beside = |priority: i64| {
        let mut cluster = closed(&["n1"]);
        for (name, priority, cpu) in [("nominated", 5, "1500m"), ("another", priority, "1")] {
            let class = format!("of-{name}");
            cluster.create(&PRIORITY_CLASSES, json!({ "metadata": { "name": class }, "value": priority }));
            let mut pod = pod(name, cpu);
            pod["spec"]["priorityClassName"] = json!(class);
            cluster.create(&PODS, pod);
        }
        cluster.run(1);
        nominate(&cluster, "nominated", "n1");
        open(&cluster, "n1");
        cluster.run(1);
        cluster.placed()
    };
    // In the order of the names. The other pod is tried first, by its name or by its priority.
    assert_eq!(placed_beside(5), ["", "n1"]);
    assert_eq!(placed_beside(6), ["n1", ""]);
}

#[test]
fn a_failed_attempt_clears_the_nomination_and_setting_one_causes_no_attempt() {
    let mut cluster = closed(&["n1"]);
    cluster.create(&PODS, pod("a", "3"));
    cluster.run(1);
    nominate(&cluster, "a", "n1");
    cluster.start("n2", &[], vec![Taint::unregistered()]);
    cluster.run(5);
    assert_eq!(nominated(&cluster), ["n1"], "nothing has changed for the pod");
    open(&cluster, "n1");
    cluster.run(1);
    assert_eq!((nominated(&cluster), cluster.placed()), (vec![String::new()], vec![String::new()]));
}

#[test]
fn a_pod_that_never_preempts_keeps_its_nomination() {
    let mut cluster = closed(&["n1"]);
    let mut pod = never_preempting(&cluster, "a");
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("3");
    cluster.create(&PODS, pod);
    cluster.run(1);
    nominate(&cluster, "a", "n1");
    open(&cluster, "n1");
    cluster.run(1);
    let message = cluster.get(&PODS, "a")["status"]["conditions"][0]["message"].clone();
    assert_eq!(message, "0/1 nodes are available: 1 Insufficient cpu.");
    assert_eq!(nominated(&cluster), ["n1"]);
}

#[test]
fn without_any_node_every_nomination_is_cleared() {
    let mut cluster = Cluster::new();
    cluster.create(&PODS, never_preempting(&cluster, "a"));
    cluster.run(1);
    nominate(&cluster, "a", "n1");
    // The second attempt is made when the backoff of the first one ends.
    cluster.run(1);
    assert_eq!(nominated(&cluster), [""]);
}

#[test]
fn a_pod_whose_nominated_node_is_full_goes_to_another() {
    let mut cluster = closed(&["n1", "n2"]);
    cluster.create(&PODS, pod("a", "1500m"));
    cluster.create(&PODS, pod("b", "1500m"));
    cluster.run(1);
    nominate(&cluster, "a", "n2");
    nominate(&cluster, "b", "n2");
    ["n1", "n2"].iter().for_each(|node| open(&cluster, node));
    cluster.run(1);
    // Each counts the other on its nominated node, and the first one therefore goes to the other node.
    assert_eq!(cluster.placed(), ["n1", "n2"]);
}

#[test]
fn nominated_pods_count_for_anti_affinity_but_not_for_affinity() {
    let terms = |kind: &str| {
        json!({ "affinity": { kind: { "requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "role": "leader" } } }] } } })
    };
    let placed_beside = |kind: &str| {
        let mut cluster = closed(&["n1"]);
        let mut leader = pod("z-leader", "100m");
        leader["metadata"]["labels"] = json!({ "role": "leader" });
        let mut follower = pod("follower", "100m");
        let extra = terms(kind);
        follower["spec"]["affinity"] = extra["affinity"].clone();
        cluster.create(&PODS, leader);
        cluster.create(&PODS, follower);
        cluster.run(1);
        nominate(&cluster, "z-leader", "n1");
        open(&cluster, "n1");
        cluster.controllers.scheduler.step(&cluster.api, cluster.now()).unwrap();
        cluster.placed()
    };
    // Pods are tried in the order of their names: the follower before the leader, which is only nominated then.
    assert_eq!(placed_beside("podAntiAffinity"), ["", "n1"]);
    assert_eq!(placed_beside("podAffinity"), ["", "n1"]);
}
