//! ResourceQuotas.

use super::{Cluster, pod, workload};
use crate::controllers::object::{condition, text};
use crate::server::CreateOptions;
use crate::server::resource::{DEPLOYMENTS, EVENTS, JOBS, PODS, REPLICA_SETS, RESOURCE_QUOTAS, STATEFUL_SETS};
use serde_json::{Value, json};

fn quota(hard: &Value) -> Value {
    json!({ "metadata": { "name": "team" }, "spec": { "hard": hard } })
}

fn refused(cluster: &Cluster, pod: Value) -> String {
    let refused = cluster.api.create(&PODS, pod, &CreateOptions::default()).unwrap_err();
    assert_eq!(refused.code, 403, "{refused}");
    refused.message
}

#[test]
fn pods_beyond_a_quota_are_refused() {
    let mut cluster = Cluster::with_nodes(&["n1"]);
    cluster.create(&RESOURCE_QUOTAS, quota(&json!({ "requests.cpu": "1", "memory": "1Gi", "pods": "3" })));
    cluster.create(&PODS, pod("a", "600m"));
    assert_eq!(
        refused(&cluster, pod("b", "500m")),
        "pods \"b\" is forbidden: exceeded quota: team, requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1"
    );
    let mut without = pod("b", "100m");
    without["spec"]["containers"][0]["resources"] = json!({});
    assert_eq!(
        refused(&cluster, without),
        "pods \"b\" is forbidden: failed quota: team: must specify memory for: main; requests.cpu for: main"
    );
    cluster.create(&PODS, pod("b", "100m"));
    cluster.create(&PODS, pod("c", "100m"));
    let message = refused(&cluster, pod("d", "300m"));
    let both = "requested: pods=1,requests.cpu=300m, used: pods=3,requests.cpu=800m, limited: pods=3,requests.cpu=1";
    assert!(message.ends_with(both), "{message}");
    cluster.run(5);
    let used = &cluster.get(&RESOURCE_QUOTAS, "team")["status"];
    assert_eq!(used["used"], json!({ "requests.cpu": "800m", "memory": "384Mi", "pods": "3" }));
    assert_eq!(used["hard"], json!({ "requests.cpu": "1", "memory": "1Gi", "pods": "3" }));
    // A pod of another namespace is not counted.
    let mut other = pod("d", "1");
    other["metadata"]["namespace"] = json!("kube-public");
    cluster.create(&PODS, other);
}

#[test]
fn controllers_report_refused_pods_and_create_them_later() {
    let mut cluster = Cluster::with_nodes(&["n1", "n2"]);
    cluster.create(&RESOURCE_QUOTAS, quota(&json!({ "pods": "2" })));
    cluster.create(&DEPLOYMENTS, workload("web", 4, "100m"));
    cluster.create(&STATEFUL_SETS, workload("db", 1, "100m"));
    let job =
        json!({ "metadata": { "name": "batch" }, "spec": { "template": workload("x", 1, "1m")["spec"]["template"] } });
    let mut job = job;
    job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    cluster.create(&JOBS, job);
    cluster.run(10);
    assert_eq!(cluster.list(&PODS).len(), 2);
    let messages = |cluster: &Cluster| {
        let events = cluster.list(&EVENTS);
        let failed = events.iter().filter(|event| event["reason"] == "FailedCreate");
        failed
            .map(|event| format!("{}: {}", text(event, "/source/component"), text(event, "/message")))
            .collect::<Vec<_>>()
    };
    let found = messages(&cluster);
    for expected in [
        "replicaset-controller: Error creating: pods \"web-",
        "is forbidden: exceeded quota: team, requested: pods=1, used: pods=2, limited: pods=2",
        "statefulset-controller: create Pod db-0 in StatefulSet db failed error: pods \"db-0\" is forbidden",
        "job-controller: Error creating: pods \"batch-",
    ] {
        assert!(found.iter().any(|message| message.contains(expected)), "{expected}: {found:?}");
    }
    let set = cluster.list(&REPLICA_SETS).remove(0);
    assert_eq!(condition(&set, "ReplicaFailure").unwrap()["reason"], "FailedCreate");
    assert_eq!(condition(&cluster.get(&DEPLOYMENTS, "web"), "ReplicaFailure").unwrap()["status"], "True");
    cluster.patch(&RESOURCE_QUOTAS, "team", &json!({ "spec": { "hard": { "pods": "10" } } }));
    cluster.run(10);
    assert!(condition(&cluster.list(&REPLICA_SETS)[0], "ReplicaFailure").is_none());
    assert!(condition(&cluster.get(&DEPLOYMENTS, "web"), "ReplicaFailure").is_none());
    assert_eq!(cluster.running(), 6);
}

#[test]
fn objects_of_any_resource_are_counted() {
    let mut cluster = Cluster::new();
    cluster.create(&RESOURCE_QUOTAS, quota(&json!({ "count/deployments.apps": "1", "count/replicasets.apps": "0" })));
    cluster.create(&DEPLOYMENTS, workload("web", 1, "100m"));
    let second = cluster.api.create(&DEPLOYMENTS, workload("other", 1, "100m"), &CreateOptions::default()).unwrap_err();
    let expected = "deployments.apps \"other\" is forbidden: exceeded quota: team, requested: count/deployments.apps=1, \
                    used: count/deployments.apps=1, limited: count/deployments.apps=1";
    assert_eq!(second.message, expected);
    cluster.run(1);
    let events = cluster.list(&EVENTS);
    let failed = events.iter().find(|event| event["reason"] == "ReplicaSetCreateError").unwrap();
    assert!(text(failed, "/message").starts_with("Failed to create new replica set \"web-"), "{failed}");
}
