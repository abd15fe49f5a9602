//! The pods of workloads that have none in the export.

use nodeless_snapshot::{Identity, Reader, Snapshot};
use serde_json::{Value, json};
use std::sync::Arc;

fn applied(objects: &[Value]) -> Snapshot {
    let mut reader = Reader::default().with_pods_of_workloads();
    reader.read("file", json!({ "kind": "List", "items": objects }).to_string().as_bytes());
    reader.finish()
}

fn pods(snapshot: &Snapshot) -> Vec<String> {
    snapshot.view.pods().map(nodeless_model::Pod::key).collect()
}

fn created(snapshot: &Snapshot) -> Vec<(&str, usize)> {
    snapshot.created.iter().map(|(workload, pods)| (workload.as_str(), *pods)).collect()
}

fn template() -> Value {
    json!({
        "metadata": { "labels": { "app": "web" }, "annotations": { "nodeless.sh/a": "b" } },
        "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "100m" } } }] },
    })
}

fn workload(kind: &str, name: &str, spec: Value) -> Value {
    let group = if kind.ends_with("Job") { "batch/v1" } else { "apps/v1" };
    let mut spec = spec;
    if kind == "CronJob" {
        spec["jobTemplate"]["spec"]["template"] = template();
    } else {
        spec["template"] = template();
    }
    json!({ "apiVersion": group, "kind": kind, "metadata": { "name": name, "namespace": "shop" }, "spec": spec })
}

#[test]
fn each_kind_has_the_pods_that_its_controller_creates() {
    for (kind, spec, expected) in [
        ("Deployment", json!({ "replicas": 2 }), vec!["shop/w-0", "shop/w-1"]),
        ("Deployment", json!({}), vec!["shop/w-0"]),
        ("Deployment", json!({ "replicas": 0 }), vec![]),
        ("ReplicaSet", json!({ "replicas": 2 }), vec!["shop/w-0", "shop/w-1"]),
        ("StatefulSet", json!({ "replicas": 2, "ordinals": { "start": 5 } }), vec!["shop/w-5", "shop/w-6"]),
        ("Job", json!({}), vec!["shop/w-0"]),
        ("Job", json!({ "parallelism": 3, "completions": 2 }), vec!["shop/w-0", "shop/w-1"]),
        ("Job", json!({ "parallelism": 3, "suspend": true }), vec![]),
        ("CronJob", json!({ "jobTemplate": { "spec": { "parallelism": 2 } } }), vec!["shop/w-0", "shop/w-1"]),
        ("CronJob", json!({ "suspend": true, "jobTemplate": {} }), vec![]),
    ] {
        let snapshot = applied(&[workload(kind, "w", spec.clone())]);
        assert_eq!(pods(&snapshot), expected, "{kind} {spec}: {:?}", snapshot.faults);
        let total = if expected.is_empty() { vec![] } else { vec![expected.len()] };
        assert_eq!(snapshot.created.values().copied().collect::<Vec<_>>(), total);
        for pod in &snapshot.view.pods {
            assert_eq!(
                (pod.template.labels["app"].as_str(), pod.template.annotations["nodeless.sh/a"].as_str()),
                ("web", "b")
            );
            assert_eq!(pod.owner_kind.as_deref(), Some(kind));
            assert_eq!(pod.template.requests.get("cpu").to_string(), "100m");
        }
    }
}

#[test]
fn a_job_that_has_ended_has_no_pods() {
    let mut job = workload("Job", "w", json!({ "completions": 3, "parallelism": 3 }));
    job["status"] = json!({ "succeeded": 2 });
    assert_eq!(pods(&applied(&[job.clone()])), ["shop/w-0"], "one completion is left");
    job["status"] = json!({ "conditions": [{ "type": "Complete", "status": "True" }] });
    assert!(pods(&applied(&[job.clone()])).is_empty());
}

#[test]
fn workloads_with_pods_and_controlled_workloads_get_none() {
    let pod = |owner: &str, name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "spec": template()["spec"],
            "metadata": {
                "name": "present", "namespace": "shop",
                "ownerReferences": [{ "apiVersion": "x", "kind": owner, "name": name, "uid": "1", "controller": true }],
            },
        })
    };
    for (kind, owner, name) in [
        ("Deployment", "ReplicaSet", "w-5d9c7"),
        ("StatefulSet", "StatefulSet", "w"),
        ("ReplicaSet", "ReplicaSet", "w"),
        ("Job", "Job", "w"),
        ("CronJob", "Job", "w-2938470"),
    ] {
        let spec = if kind == "CronJob" { json!({ "jobTemplate": {} }) } else { json!({}) };
        let snapshot = applied(&[workload(kind, "w", spec), pod(owner, name)]);
        assert_eq!(pods(&snapshot), ["shop/present"], "{kind}");
    }
    let mut set = workload("ReplicaSet", "w-5d9c7", json!({ "replicas": 2 }));
    set["metadata"]["ownerReferences"] = json!([{ "kind": "Deployment", "name": "w", "controller": true }]);
    let both = applied(&[workload("Deployment", "w", json!({ "replicas": 2 })), set.clone()]);
    assert_eq!(created(&both), [("Deployment shop/w", 2)]);
    assert_eq!(created(&applied(&[set])), [("ReplicaSet shop/w-5d9c7", 2)], "its Deployment is not in the export");
}

#[test]
fn the_volumes_of_a_stateful_set_are_claimed_by_each_pod() {
    let mut set = workload("StatefulSet", "db", json!({ "replicas": 2 }));
    set["spec"]["volumeClaimTemplates"] =
        json!([{ "metadata": { "name": "data" }, "spec": { "storageClassName": "zonal" } }]);
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "zonal" },
        "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{ "matchLabelExpressions": [
            { "key": "topology.kubernetes.io/zone", "values": ["us-east-1b"] }
        ] }],
    });
    let snapshot = applied(&[set, class]);
    let claims: Vec<&str> = snapshot
        .view
        .pods
        .iter()
        .flat_map(|pod| &pod.template.volume_claims)
        .map(|claim| claim.claim_name.as_str())
        .collect();
    assert_eq!(claims, ["data-db-0", "data-db-1"]);
    assert_eq!(snapshot.view.volumes.keys().collect::<Vec<_>>(), ["shop/data-db-0", "shop/data-db-1"]);
    assert!(snapshot.view.volumes["shop/data-db-0"][0].get("topology.kubernetes.io/zone").unwrap().has("us-east-1b"));
}

#[test]
fn an_invalid_workload_is_a_fault_and_others_are_planned() {
    let mut deployment = workload("Deployment", "wrong", json!({}));
    deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("a lot");
    let many = workload("Deployment", "many", json!({ "replicas": 100_001 }));
    let negative = workload("StatefulSet", "negative", json!({ "replicas": -1 }));
    let snapshot = applied(&[deployment, many, negative, workload("Deployment", "right", json!({}))]);
    assert_eq!(pods(&snapshot), ["shop/right-0"]);
    let faults: Vec<String> = snapshot.faults.iter().map(ToString::to_string).collect();
    assert_eq!(faults.len(), 3, "{faults:?}");
    for expected in [
        "Deployment shop/many: spec.replicas: 100001 pods are more than the 100000 that can be planned for",
        "StatefulSet shop/negative: spec.replicas: ",
        "Deployment shop/wrong: spec.template.spec.containers[0].resources.requests.cpu: ",
    ] {
        assert!(faults.iter().any(|fault| fault.contains(expected)), "{expected}: {faults:?}");
    }
}

/// The pods of all workloads together are bounded, and the smallest workloads are planned.
#[test]
fn too_many_pods_of_several_workloads_are_faults() {
    let mut all: Vec<Value> = (0..20)
        .map(|index| workload("Deployment", &format!("large-{index:02}"), json!({ "replicas": 99_000 })))
        .collect();
    all.push(workload("StatefulSet", "small", json!({ "replicas": 3 })));
    all.push(workload(
        "CronJob",
        "job",
        json!({ "jobTemplate": { "spec": { "parallelism": 100_001, "template": {} } } }),
    ));
    let snapshot = applied(&all);
    assert_eq!(created(&snapshot), [("Deployment shop/large-00", 99_000), ("StatefulSet shop/small", 3)]);
    let faults: Vec<String> = snapshot.faults.iter().map(ToString::to_string).collect();
    assert_eq!(faults.len(), 20, "{faults:?}");
    for expected in [
        "Deployment shop/large-19: spec.replicas: its 99000 pods are not planned, because with those of smaller workloads they are more \
         than the 100000 that can be planned for",
        "CronJob shop/job: spec.jobTemplate.spec.parallelism: 100001 pods are more than the 100000 that can be planned for",
    ] {
        assert!(faults.iter().any(|fault| fault.contains(expected)), "{expected}: {faults:?}");
    }
    // Each pod with volumes of its own is planned by itself.
    let mut stateful = workload("StatefulSet", "db", json!({ "replicas": 10_001 }));
    stateful["spec"]["volumeClaimTemplates"] = json!([{ "metadata": { "name": "data" }, "spec": {} }]);
    assert_eq!(
        applied(&[stateful]).faults[0].to_string(),
        "file: document 1, items[0]: StatefulSet shop/db: spec.replicas: 10001 pods with volumes of their own are more than the 10000 that \
         can be planned for"
    );
    // The pods of a workload share what they have in common, with the priority of their class.
    let mut urgent = workload("Deployment", "large", json!({ "replicas": 3 }));
    urgent["spec"]["template"]["spec"]["priorityClassName"] = json!("system-node-critical");
    let snapshot = applied(&[urgent]);
    assert_eq!(snapshot.view.pods[2].template.priority, 2_000_001_000);
    let pods: Vec<_> = snapshot.view.pods.iter().filter(|pod| pod.name.starts_with("large")).collect();
    assert!(pods.iter().all(|pod| Arc::ptr_eq(&pod.template, &pods[0].template)));
}

#[test]
fn without_the_option_no_pods_are_created() {
    let mut reader = Reader::default();
    reader.read("file", workload("Deployment", "w", json!({})).to_string().as_bytes());
    assert!(reader.finish().view.pods.is_empty());
}

#[test]
fn a_workload_that_replaces_another_replaces_its_pods() {
    let owned = |name: &str, kind: &str, owner: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": "shop",
                "ownerReferences": [{ "apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "1", "controller": true }],
            },
            "spec": { "nodeName": "node", "containers": [{ "name": "c" }] },
        })
    };
    let before = [
        owned("web-7d9f-a", "ReplicaSet", "web-7d9f"),
        owned("web-7d9f-b", "ReplicaSet", "web-7d9f"),
        owned("api-55-a", "ReplicaSet", "api-55"),
        owned("db-0", "StatefulSet", "db"),
    ];
    let mut reader = Reader::default();
    reader.read("cluster", json!({ "kind": "List", "items": before }).to_string().as_bytes());
    let mut changed = reader.clone();
    let manifests = [
        workload("Deployment", "web", json!({ "replicas": 1 })),
        workload("StatefulSet", "db", json!({ "replicas": 0 })),
    ];
    changed.replace("file", json!({ "kind": "List", "items": manifests }).to_string().as_bytes());
    assert_eq!(pods(&reader.finish()).len(), 4, "the reader that was cloned is as before");
    let changed = changed.finish();
    assert_eq!(pods(&changed), ["shop/api-55-a", "shop/web-0"]);
    assert_eq!(created(&changed), [("Deployment shop/web", 1)]);
    assert!(changed.warnings.is_empty() && changed.faults.is_empty(), "{:?} {:?}", changed.warnings, changed.faults);
}

/// A running pod of the ReplicaSet of the Deployment `w`.
fn running(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "spec": template()["spec"],
        "metadata": {
            "name": name, "namespace": "shop",
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w-7d9f", "uid": "1", "controller": true }],
        },
    })
}

/// A Reader of a cluster with the Deployment `w`, its ReplicaSet and two pods.
fn cluster() -> Reader {
    let mut set = workload("ReplicaSet", "w-7d9f", json!({ "replicas": 2 }));
    set["metadata"]["ownerReferences"] =
        json!([{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "w", "uid": "1", "controller": true }]);
    let objects =
        [workload("Deployment", "w", json!({ "replicas": 2 })), set, running("w-7d9f-a"), running("w-7d9f-b")];
    let mut reader = Reader::default().with_pods_of_workloads();
    reader.read("cluster", json!({ "kind": "List", "items": objects }).to_string().as_bytes());
    reader
}

#[test]
fn replicas_that_a_manifest_leaves_out_are_those_that_run() {
    for (spec, expected) in [(json!({}), 2), (json!({ "replicas": 5 }), 5), (json!({ "replicas": 0 }), 0)] {
        let mut reader = cluster();
        reader.replace("file", workload("Deployment", "w", spec).to_string().as_bytes());
        let snapshot = reader.finish();
        assert_eq!(pods(&snapshot).len(), expected, "{:?}", pods(&snapshot));
        assert_eq!(snapshot.manifests.values().map(|manifest| manifest.pods).collect::<Vec<_>>(), [Some(expected)]);
    }
}

#[test]
fn a_workload_is_removed_with_its_pods_and_what_it_controls() {
    let mut reader = cluster();
    let web = Identity { kind: "Deployment", namespace: "shop".to_owned(), name: "w".to_owned() };
    reader.remove(&web);
    assert_eq!(pods(&reader.finish()), Vec::<String>::new());
    let other = Identity { name: "other".to_owned(), ..web };
    let mut reader = cluster();
    reader.remove(&other);
    assert_eq!(pods(&reader.finish()).len(), 2);
}

#[test]
fn manifests_differ_in_what_is_not_set_by_a_server() {
    let of = |object: &Value| {
        let mut reader = Reader::default();
        reader.replace("file", object.to_string().as_bytes());
        reader.finish().manifests.into_values().next().unwrap()
    };
    let mut other = workload("Deployment", "w", json!({ "replicas": 2 }));
    let one = of(&other);
    other["status"] = json!({ "replicas": 1 });
    other["metadata"]["uid"] = json!("1");
    other["spec"]["paused"] = Value::Null;
    assert_eq!(one.differences(&of(&other)), Vec::<String>::new());
    other["spec"]["replicas"] = json!(3);
    other["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1");
    other["spec"]["template"]["spec"]["tolerations"] = json!([{ "key": "a" }]);
    let expected =
        ["spec.replicas", "spec.template.spec.containers[0].resources.requests.cpu", "spec.template.spec.tolerations"];
    assert_eq!(one.differences(&of(&other)), expected);
}

#[test]
fn pod_groups_have_the_least_number_of_pods_that_are_scheduled_together() {
    let group = |name: &str, policy: Value| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": { "name": name },
            "spec": { "schedulingPolicy": policy },
        })
    };
    let mut deployment = workload("Deployment", "w", json!({}));
    deployment["spec"]["template"]["spec"]["schedulingGroup"] = json!({ "podGroupName": "gang" });
    let others = json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": { "name": "other" },
        "spec": { "minMember": 3 },
    });
    let gang = group("gang", json!({ "gang": { "minCount": 3 } }));
    let snapshot = applied(&[deployment, gang, group("basic", json!({ "basic": {} })), others]);
    assert_eq!(snapshot.view.pod_groups.into_iter().collect::<Vec<_>>(), [("default/gang".to_owned(), 3)]);
    assert_eq!(snapshot.view.pods[0].template.pod_group.as_deref(), Some("gang"));
    assert_eq!(snapshot.skipped["PodGroup"], 1);
}
