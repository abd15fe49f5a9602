//! Pods of a PodGroup are bound together.

use super::{Cluster, pod};
use crate::controllers::object::{condition, list, text};
use crate::server::CreateOptions;
use crate::server::resource::{EVENTS, POD_GROUPS, PODS, Resource, WORKLOADS};
use serde_json::{Value, json};

fn group(policy: &Value) -> Value {
    json!({ "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": { "name": "train" },
        "spec": { "schedulingPolicy": policy } })
}

fn gang(least: i64) -> Value {
    group(&json!({ "gang": { "minCount": least } }))
}

fn member(name: &str, cpu: &str) -> Value {
    let mut pod = pod(name, cpu);
    pod["spec"]["schedulingGroup"] = json!({ "podGroupName": "train" });
    pod
}

fn refused(cluster: &Cluster, resource: &Resource, object: Value) -> String {
    cluster.api.create(resource, object, &CreateOptions::default()).unwrap_err().message
}

/// The status of the group's condition.
fn state(cluster: &Cluster) -> String {
    let group = cluster.get(&POD_GROUPS, "train");
    condition(&group, "PodGroupScheduled").map_or_else(String::new, |it| text(it, "/status").to_owned())
}

/// The message of the condition of a pod.
fn message(cluster: &Cluster, name: &str) -> String {
    let pod = cluster.get(&PODS, name);
    condition(&pod, "PodScheduled").map_or_else(String::new, |it| text(it, "/message").to_owned())
}

#[test]
fn pods_are_attempted_when_their_group_is_there_with_the_least_number_of_pods() {
    let mut cluster = Cluster::with_nodes(&["n1"]);
    cluster.create(&PODS, member("a", "100m"));
    cluster.create(&PODS, member("b", "100m"));
    cluster.run(30);
    cluster.create(&POD_GROUPS, gang(3));
    cluster.run(30);
    assert_eq!(
        (cluster.placed(), message(&cluster, "a"), state(&cluster)),
        (vec![String::new(); 2], String::new(), String::new())
    );
    assert!(cluster.list(&EVENTS).iter().all(|event| event["reason"] != "FailedScheduling"));
    cluster.create(&PODS, member("c", "100m"));
    cluster.run(5);
    assert_eq!((cluster.placed(), cluster.running()), (vec!["n1".to_owned(); 3], 3));
    assert_eq!(state(&cluster), "True");
}

#[test]
fn pods_of_a_group_wait_until_enough_of_them_fit() {
    let mut cluster = Cluster::with_nodes(&["n1"]);
    cluster.create(&POD_GROUPS, gang(3));
    for name in ["a", "b", "c"] {
        cluster.create(&PODS, member(name, "900m"));
    }
    cluster.run(5);
    assert_eq!((cluster.placed(), state(&cluster)), (vec![String::new(); 3], "False".to_owned()));
    assert_eq!(message(&cluster, "a"), "waiting for minCount pods from a gang to be scheduled");
    assert!(message(&cluster, "c").contains("Insufficient cpu"), "{}", message(&cluster, "c"));
    // What they do not take is free for others.
    cluster.create(&PODS, pod("other", "1500m"));
    cluster.run(5);
    assert_eq!(cluster.placed(), ["", "", "", "n1"]);
    for name in ["n2", "n3"] {
        cluster.start(name, &[], Vec::new());
    }
    cluster.run(20);
    assert!(cluster.placed().iter().all(|node| !node.is_empty()), "{:?}", cluster.placed());
    assert_eq!(state(&cluster), "True");
    // Pods beyond the least number fit or not by themselves, and the group stays scheduled.
    cluster.create(&PODS, member("large", "8"));
    cluster.create(&PODS, member("small", "100m"));
    cluster.run(5);
    assert!(message(&cluster, "large").contains("Insufficient cpu") && state(&cluster) == "True");
    assert!(!text(&cluster.get(&PODS, "small"), "/spec/nodeName").is_empty());
}

#[test]
fn pods_of_a_group_without_a_gang_are_bound_one_by_one() {
    let mut cluster = Cluster::with_nodes(&["n1"]);
    cluster.create(&POD_GROUPS, group(&json!({ "basic": {} })));
    cluster.create(&PODS, member("a", "1500m"));
    cluster.create(&PODS, member("b", "1500m"));
    cluster.run(5);
    assert_eq!((cluster.placed(), state(&cluster)), (vec!["n1".to_owned(), String::new()], "True".to_owned()));
}

#[test]
fn groups_are_validated_and_their_specs_do_not_change() {
    let cluster = Cluster::new();
    let none = refused(&cluster, &POD_GROUPS, group(&json!({})));
    assert!(none.contains("spec.schedulingPolicy") && none.contains("exactly one of"), "{none}");
    assert!(refused(&cluster, &POD_GROUPS, gang(0)).contains("spec.schedulingPolicy.gang.minCount"));
    cluster.create(&POD_GROUPS, gang(2));
    let mut changed = cluster.get(&POD_GROUPS, "train").as_ref().clone();
    changed["spec"]["schedulingPolicy"]["gang"]["minCount"] = json!(3);
    let error = cluster.api.update(&POD_GROUPS, changed, &crate::server::UpdateOptions::default()).unwrap_err();
    assert!(error.message.contains("field is immutable"), "{error}");
    let workload = |policy: Value| {
        json!({ "metadata": { "name": "training" },
            "spec": { "podGroupTemplates": [{ "name": "workers", "schedulingPolicy": policy }] } })
    };
    assert!(refused(&cluster, &WORKLOADS, workload(json!({}))).contains("spec.podGroupTemplates[0].schedulingPolicy"));
    cluster.create(&WORKLOADS, workload(json!({ "gang": { "minCount": 4 } })));
    let workload = cluster.get(&WORKLOADS, "training");
    assert_eq!(list(&workload, "/spec/podGroupTemplates").len(), 1);
    assert_eq!(workload["apiVersion"], "scheduling.k8s.io/v1alpha2");
}
