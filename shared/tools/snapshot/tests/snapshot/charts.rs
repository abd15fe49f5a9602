//! The pods of what charts contain besides Kubernetes' own workloads, and what is assumed of the cluster.

use nodeless_model::Pod;
use nodeless_snapshot::{Reader, Snapshot, TemplatePath};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn reader(objects: &[Value]) -> Reader {
    let mut reader = Reader::default().with_pods_of_workloads().with_assumed_objects();
    reader.read("file", json!({ "kind": "List", "items": objects }).to_string().as_bytes());
    reader
}

fn applied(objects: &[Value]) -> Snapshot {
    reader(objects).finish()
}

/// A template whose pods request this much CPU.
fn template(cpu: &str) -> Value {
    json!({ "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }] } })
}

fn object(api_version: &str, kind: &str, name: &str, spec: impl Into<Value>) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name }, "spec": spec.into() })
}

/// The number of pods by their CPU.
fn pods(snapshot: &Snapshot) -> BTreeMap<String, usize> {
    let mut numbers = BTreeMap::new();
    for pod in snapshot.view.pods() {
        *numbers.entry(pod.template.requests.get("cpu").to_string()).or_default() += 1;
    }
    numbers
}

/// A workload of this kind gets these pods: the CPU of each and their number.
fn gets(api_version: &str, kind: &str, spec: Value, expected: &[(&str, usize)]) {
    let snapshot = applied(&[object(api_version, kind, "w", spec)]);
    let expected: BTreeMap<String, usize> = expected.iter().map(|(cpu, pods)| ((*cpu).to_owned(), *pods)).collect();
    assert_eq!(pods(&snapshot), expected, "{kind}: {:?}", snapshot.faults);
    let total: usize = expected.values().sum();
    assert_eq!(snapshot.created.values().sum::<usize>(), total, "{kind}");
}

#[test]
fn well_known_kinds_get_the_pods_that_their_controllers_create() {
    gets("argoproj.io/v1alpha1", "Rollout", json!({ "replicas": 4, "template": template("1") }), &[("1", 4)]);
    gets("apps.kruise.io/v1alpha1", "CloneSet", json!({ "replicas": 3, "template": template("1") }), &[("1", 3)]);
    gets("apps.kruise.io/v1beta1", "StatefulSet", json!({ "replicas": 3, "template": template("1") }), &[("1", 3)]);
    gets("v1", "ReplicationController", json!({ "template": template("1") }), &[("1", 1)]);
    let job = |pods: u32, cpu: &str| json!({ "spec": { "parallelism": pods, "completions": pods, "template": template(cpu) } });
    let jobs = json!([
        { "name": "leader", "template": job(1, "1") },
        { "name": "worker", "replicas": 2, "template": job(4, "2") },
    ]);
    gets("jobset.x-k8s.io/v1alpha2", "JobSet", json!({ "replicatedJobs": jobs }), &[("1", 1), ("2", 8)]);
    gets("jobset.x-k8s.io/v1alpha2", "JobSet", json!({ "replicatedJobs": jobs, "suspend": true }), &[]);
    let group = json!({ "size": 4, "workerTemplate": template("2") });
    let with_leader = json!({ "size": 4, "workerTemplate": template("2"), "leaderTemplate": template("1") });
    let set = |group: &Value| json!({ "replicas": 2, "leaderWorkerTemplate": group });
    gets("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", set(&group), &[("2", 8)]);
    gets("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", set(&with_leader), &[("1", 2), ("2", 6)]);
    let workers = json!([
        { "groupName": "cpu", "replicas": 2, "minReplicas": 1, "maxReplicas": 9, "template": template("2") },
        { "groupName": "gpu", "minReplicas": 1, "numOfHosts": 2, "template": template("3") },
    ]);
    let ray = json!({ "headGroupSpec": { "template": template("1") }, "workerGroupSpecs": workers });
    let expected = [("1", 1), ("2", 2), ("3", 2)];
    gets("ray.io/v1", "RayCluster", ray.clone(), &expected);
    gets("ray.io/v1", "RayJob", json!({ "rayClusterSpec": ray }), &expected);
    gets("ray.io/v1", "RayService", json!({ "rayClusterConfig": ray }), &expected);
}

#[test]
fn their_pods_in_an_export_are_not_created_again() {
    let pod = |owner: &str, name: &str, labels: Value| {
        let owner = json!({ "apiVersion": "x", "kind": owner, "name": name, "uid": "1", "controller": true });
        json!({
            "apiVersion": "v1", "kind": "Pod", "spec": template("1")["spec"],
            "metadata": { "name": "present", "labels": labels, "ownerReferences": [owner] },
        })
    };
    let jobs = json!({ "replicatedJobs": [{ "name": "a", "template": { "spec": { "template": template("1") } } }] });
    let group = json!({ "leaderWorkerTemplate": { "size": 2, "workerTemplate": template("1") } });
    for (workload, pod) in [
        (
            object("argoproj.io/v1alpha1", "Rollout", "w", json!({ "replicas": 4, "template": template("1") })),
            pod("ReplicaSet", "w-5d9c7", json!({})),
        ),
        (
            object("jobset.x-k8s.io/v1alpha2", "JobSet", "w", jobs),
            pod("Job", "w-a-0", json!({ "jobset.sigs.k8s.io/jobset-name": "w" })),
        ),
        (
            object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "w", group),
            pod("StatefulSet", "w-0", json!({ "leaderworkerset.sigs.k8s.io/name": "w" })),
        ),
    ] {
        let snapshot = applied(&[workload, pod]);
        assert_eq!(snapshot.view.pods().map(Pod::key).collect::<Vec<_>>(), ["default/present"]);
    }
}

#[test]
fn a_rollout_has_the_template_of_its_deployment() {
    let deployment = object("apps/v1", "Deployment", "web", json!({ "replicas": 2, "template": template("1") }));
    let rollout = |scale_down: &str| {
        let of = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "scaleDown": scale_down });
        object("argoproj.io/v1alpha1", "Rollout", "roll", json!({ "replicas": 3, "workloadRef": of }))
    };
    let number = |scale_down: &str| pods(&applied(&[deployment.clone(), rollout(scale_down)]))["1"];
    assert_eq!((number("never"), number("onsuccess")), (5, 3));
    let faults = applied(&[rollout("never")]).faults;
    assert_eq!(
        faults[0].to_string(),
        "file: document 1, items[0]: Rollout default/roll: spec.workloadRef: there is no Deployment web in the input"
    );
}

#[test]
fn autoscalers_set_the_least_and_the_most_pods() {
    let deployment = |replicas: Option<u32>| {
        let mut spec = json!({ "template": template("1") });
        replicas.into_iter().for_each(|replicas| spec["replicas"] = json!(replicas));
        object("apps/v1", "Deployment", "w", spec)
    };
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "w" });
    let hpa = |least: u32, most: u32| {
        let spec = json!({ "scaleTargetRef": target, "minReplicas": least, "maxReplicas": most });
        object("autoscaling/v2", "HorizontalPodAutoscaler", "any", spec)
    };
    let keda = |spec: Value| {
        let mut scaler = object("keda.sh/v1alpha1", "ScaledObject", "any", spec);
        scaler["spec"]["scaleTargetRef"] = json!({ "name": "w" });
        scaler
    };
    let mut paused = keda(json!({ "minReplicaCount": 5 }));
    paused["metadata"]["annotations"] = json!({ "autoscaling.keda.sh/paused-replicas": "2" });
    for (replicas, scaler, least, most) in [
        (None, hpa(6, 30), 6, 30),
        (Some(3), hpa(6, 30), 6, 30),
        (Some(10), hpa(6, 30), 10, 30),
        (Some(50), hpa(6, 30), 30, 30),
        (Some(0), hpa(6, 30), 0, 0),
        (None, keda(json!({ "minReplicaCount": 5, "maxReplicaCount": 50 })), 5, 50),
        (None, keda(json!({})), 0, 100),
        (None, paused, 2, 2),
    ] {
        let reader = reader(&[deployment(replicas), scaler.clone()]);
        assert!(reader.is_scaled());
        let number = |snapshot: &Snapshot| snapshot.view.pods().count();
        let (now, then) = (reader.clone().finish(), reader.at_maximum().finish());
        assert_eq!((number(&now), number(&then)), (least, most), "{replicas:?} {scaler}");
        let expected = (most > least).then_some(("Deployment default/w", most as u64));
        assert_eq!(now.at_most.iter().map(|(name, most)| (name.as_str(), *most)).next(), expected);
    }
    let elsewhere =
        json!({ "scaleTargetRef": { "kind": "StatefulSet", "name": "w" }, "minReplicas": 9, "maxReplicas": 9 });
    let other = object("autoscaling/v2", "HorizontalPodAutoscaler", "any", elsewhere);
    assert_eq!(applied(&[deployment(None), other]).view.pods().count(), 1);
    let group = json!([{ "groupName": "g", "replicas": 1, "maxReplicas": 5, "template": template("1") }]);
    let ray = json!({ "enableInTreeAutoscaling": true, "headGroupSpec": { "template": template("1") }, "workerGroupSpecs": group });
    let ray = applied(&[object("ray.io/v1", "RayCluster", "w", ray)]);
    assert_eq!((ray.view.pods().count(), ray.at_most["RayCluster default/w"]), (2, 6));
}

#[test]
fn a_runtime_class_adds_what_admission_adds() {
    let class = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": "kata" }, "handler": "kata",
        "overhead": { "podFixed": { "cpu": "250m", "memory": "120Mi" } },
        "scheduling": { "nodeSelector": { "runtime": "kata" }, "tolerations": [{ "key": "kata", "operator": "Exists" }] },
    });
    let mut spec = json!({ "replicas": 2, "template": template("1") });
    spec["template"]["spec"]["runtimeClassName"] = json!("kata");
    let deployment = object("apps/v1", "Deployment", "w", spec.clone());
    let snapshot = applied(&[deployment.clone(), class.clone()]);
    assert_eq!(pods(&snapshot), BTreeMap::from([("1250m".to_owned(), 2)]));
    for pod in snapshot.view.pods() {
        assert_eq!(pod.template.requests.get("pods").to_string(), "1");
        assert_eq!((pod.template.node_selector["runtime"].as_str(), pod.template.tolerations.len()), ("kata", 1));
    }
    // Of a pod that an API server has admitted, the overhead is known.
    spec["template"]["spec"]["overhead"] = json!({ "cpu": "100m" });
    assert_eq!(
        pods(&applied(&[object("apps/v1", "Deployment", "w", spec), class])),
        BTreeMap::from([("1100m".to_owned(), 2)])
    );
    assert_eq!(
        applied(&[deployment]).warnings,
        ["RuntimeClass kata of 2 pods is not in the export; its overhead is not planned"]
    );
}

#[test]
fn a_limit_range_gives_its_defaults_to_pods_that_are_not_made_yet() {
    let range = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": "all" },
        "spec": { "limits": [{ "type": "Container", "defaultRequest": { "cpu": "300m" } }] },
    });
    let mut plain = template("1");
    plain["spec"]["containers"][0]["resources"] = json!({});
    let deployment = object("apps/v1", "Deployment", "w", json!({ "replicas": 2, "template": plain }));
    let own = object("apps/v1", "Deployment", "own", json!({ "replicas": 1, "template": template("1") }));
    let snapshot = applied(&[deployment, own, range.clone()]);
    assert_eq!(pods(&snapshot), BTreeMap::from([("300m".to_owned(), 2), ("1".to_owned(), 1)]));
    // The API server has admitted a pod with a priority.
    let pod = |priority: Value| {
        let mut spec = plain["spec"].clone();
        spec["priority"] = priority;
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" }, "spec": spec })
    };
    assert_eq!(pods(&applied(&[pod(json!(0)), range.clone()])), BTreeMap::from([("0".to_owned(), 1)]));
    assert_eq!(pods(&applied(&[pod(Value::Null), range])), BTreeMap::from([("300m".to_owned(), 1)]));
}

/// A pod that mounts this claim.
fn mounting(name: &str, claim: &str) -> Value {
    let mut spec = template("1")["spec"].clone();
    spec["volumes"] = json!([{ "name": "v", "persistentVolumeClaim": { "claimName": claim } }]);
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec })
}

fn claim(name: &str, spec: Value) -> Value {
    object("v1", "PersistentVolumeClaim", name, spec)
}

#[test]
fn what_an_input_lacks_altogether_is_assumed_with_one_warning() {
    let without_claims = applied(&[mounting("a", "x"), mounting("b", "y")]);
    assert_eq!(
        without_claims.warnings,
        [
            "the input has no PersistentVolumeClaims, so 2 pods with volumes are planned without the zones and limits of volumes; export \
             PersistentVolumeClaims, too"
        ]
    );
    assert!(without_claims.view.volume_faults.is_empty(), "{:?}", without_claims.view.volume_faults);

    let bound = claim("x", json!({ "volumeName": "pv" }));
    let without_volumes = applied(&[mounting("a", "x"), bound]);
    assert!(
        without_volumes.warnings[0].starts_with("the input has no PersistentVolumes, so 1 pod with volumes is planned")
    );
    assert!(without_volumes.view.volume_faults.is_empty());

    let class = |name: &str, uid: Option<&str>| {
        let mut class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": name },
            "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer",
        });
        uid.into_iter().for_each(|uid| class["metadata"]["uid"] = json!(uid));
        class
    };
    let (named, unnamed) = (claim("x", json!({ "storageClassName": "gp3" })), claim("y", json!({})));
    let pods = [mounting("a", "x"), mounting("b", "y")];
    let without_classes = applied(&[&pods[..], &[named.clone(), unnamed]].concat());
    assert_eq!(
        without_classes.warnings,
        [
            "the default StorageClass, StorageClass gp3 are not in the input; they are assumed to be of EBS, with volumes in the zone of \
             the first pod"
        ]
    );
    assert!(without_classes.view.volume_faults.is_empty(), "{:?}", without_classes.view.volume_faults);

    // A class of the manifests shows nothing about those of the cluster, and one of a cluster that there are no others.
    let of_manifests = applied(&[pods[0].clone(), named.clone(), class("other", None)]);
    assert_eq!((of_manifests.warnings.len(), of_manifests.view.volume_faults.len()), (1, 0));
    let of_cluster = applied(&[pods[0].clone(), named, class("other", Some("u"))]);
    assert!(of_cluster.view.volume_faults["default/x"].contains("its StorageClass gp3 does not exist"));
    let missing = applied(&[mounting("a", "absent"), claim("other", json!({ "storageClassName": "gp3" }))]);
    assert!(missing.view.volume_faults["default/absent"].contains("does not exist; create it"));
}

#[test]
fn objects_of_other_kinds_with_a_template_are_named() {
    let spark =
        object("sparkoperator.k8s.io/v1beta2", "Custom", "s", json!({ "driver": { "podTemplate": template("1") } }));
    let mut stored = spark.clone();
    stored["metadata"]["uid"] = json!("u");
    let service = object("v1", "Service", "x", json!({ "ports": [] }));
    let snapshot = applied(&[spark, service.clone()]);
    assert_eq!(snapshot.not_planned.iter().collect::<Vec<_>>(), ["Custom default/s"]);
    assert_eq!(snapshot.skipped, BTreeMap::from([("Custom".to_owned(), 1), ("Service".to_owned(), 1)]));
    assert!(applied(&[stored, service]).not_planned.is_empty(), "its pods are in the export");
}

/// The objects, with the templates of other kinds.
fn with_templates(options: &[&str], objects: &[Value]) -> Snapshot {
    let paths = options.iter().map(|option| &*Box::leak(Box::new(option.parse::<TemplatePath>().unwrap())));
    let mut reader = reader(&[]).with_template_paths(paths.collect());
    reader.read("file", json!({ "kind": "List", "items": objects }).to_string().as_bytes());
    reader.finish()
}

#[test]
fn the_option_for_objects_of_other_kinds_plans_their_pods() {
    let replicas = json!({
        "Master": { "replicas": 1, "template": template("1") },
        "Worker": { "replicas": 4, "template": template("2") },
    });
    let training = [object("kubeflow.org/v1", "PyTorchJob", "train", json!({ "pytorchReplicaSpecs": replicas }))];
    let unplanned = applied(&training);
    let options: Vec<&String> = unplanned.template_options.iter().collect();
    assert_eq!(options, ["--pod-template 'PyTorchJob.kubeflow.org=spec.pytorchReplicaSpecs.*.template'"]);
    for option in [
        "PyTorchJob.kubeflow.org=spec.pytorchReplicaSpecs.*.template",
        "PyTorchJob=.spec.pytorchReplicaSpecs[*].template,replicas=.spec.pytorchReplicaSpecs[*].replicas",
    ] {
        let snapshot = with_templates(&[option], &training);
        assert_eq!(pods(&snapshot), BTreeMap::from([("1".to_owned(), 1), ("2".to_owned(), 4)]), "{option}");
        assert!(snapshot.not_planned.is_empty() && snapshot.skipped.is_empty() && snapshot.faults.is_empty());
        assert_eq!(snapshot.created, BTreeMap::from([("PyTorchJob default/train".to_owned(), 5)]));
        let names: Vec<String> = snapshot.view.pods().map(Pod::key).collect();
        assert!(names.contains(&"default/train-worker-3".to_owned()), "{names:?}");
    }
    let other_group = with_templates(&["PyTorchJob.example.com=spec.template"], &training);
    assert_eq!(other_group.created.len(), 0);
}

#[test]
fn an_autoscaler_and_an_api_server_count_for_the_pods_of_other_kinds() {
    let fleet = object("example.com/v1", "Fleet", "f", json!({ "size": 2, "worker": { "template": template("1") } }));
    let scaler = object(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "f",
        json!({ "minReplicas": 3, "maxReplicas": 9, "scaleTargetRef": { "kind": "Fleet", "name": "f" } }),
    );
    let option = "Fleet.example.com=spec.worker.template,replicas=spec.size";
    let planned = |objects: &[Value]| pods(&with_templates(&[option], objects));
    assert_eq!(planned(std::slice::from_ref(&fleet)), BTreeMap::from([("1".to_owned(), 2)]));
    assert_eq!(planned(&[fleet.clone(), scaler]), BTreeMap::from([("1".to_owned(), 3)]));
    let mut stored = fleet.clone();
    stored["metadata"]["uid"] = json!("u");
    assert_eq!(planned(&[stored]), BTreeMap::new(), "its pods are in the export");
    let mut reader = reader(&[]).with_template_paths(vec![Box::leak(Box::new(option.parse().unwrap()))]);
    reader.replace("head", fleet.to_string().as_bytes());
    let (identity, _) = reader.clone().replaced().next().map(|(one, other)| (one.clone(), other.clone())).unwrap();
    let manifests = reader.clone().finish().manifests;
    assert_eq!(manifests.values().map(|manifest| manifest.pods).collect::<Vec<_>>(), [Some(2)]);
    reader.remove(&identity);
    assert_eq!(reader.finish().view.pods().count(), 0);
}

#[test]
fn a_template_that_is_not_there_is_an_error() {
    let object = |spec: Value| object("example.com/v1", "Fleet", "f", spec);
    for (spec, expected) in [
        (json!({}), "spec.template: it is missing, though --pod-template names it as the pod template"),
        (json!({ "template": {} }), "spec.template: it has no spec.containers, though --pod-template"),
        (json!({ "template": template("1"), "replicas": "two" }), "spec.replicas: it is not a number of pods"),
        (json!({ "template": template("many") }), "spec.template.spec.containers[0].resources.requests.cpu: "),
        (
            json!({ "template": template("1"), "replicas": 4_000_000_000_u32 }),
            "spec.replicas: 4000000000 pods are more",
        ),
    ] {
        let snapshot = with_templates(&["Fleet=spec.template"], &[object(spec)]);
        let faults: Vec<String> = snapshot.faults.iter().map(ToString::to_string).collect();
        assert!(faults.len() == 1 && faults[0].contains(&format!("Fleet default/f: {expected}")), "{faults:?}");
        assert!(snapshot.view.pods().next().is_none());
    }
    for wrong in [
        "",
        "Fleet",
        "Fleet=",
        "=spec",
        "fleets=spec.template",
        "Fleet.=spec.template",
        "Fleet=spec..template",
        "Fleet=spec.template,size=spec.size",
        "Fleet=spec.template,replicas=",
        "Fleet=spec.$(x).template",
        "F'=a",
    ] {
        let error = wrong.parse::<TemplatePath>().unwrap_err();
        assert!(error.starts_with("write KIND.GROUP=PATH, such as PyTorchJob"), "{wrong}: {error}");
    }
    let known = "Deployment.apps=spec.template".parse::<TemplatePath>().unwrap_err();
    assert_eq!(known, "planning knows the pods of a Deployment without it");
    assert!("Deployment.example.com=spec.template".parse::<TemplatePath>().is_ok());
    let stars = "Fleet=spec.template,replicas=spec.*.replicas".parse::<TemplatePath>().unwrap_err();
    assert_eq!(stars, "the path of replicas has more * than that of the template");
}
