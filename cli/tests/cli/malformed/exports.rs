//! Changed exports, manifests and items of the claims table.

use super::mutation::{Numbers, change, spoil};
use super::{ended, seeds};
use crate::support::objects::{LATEST, Objects};
use nodeless_catalog::{Catalog, Location};
use nodeless_convert::SourceFile;
use nodeless_fake_kubernetes::schema::Schema;
use nodeless_planner::{DryRun, DryRunInput, PlanSettings};
use nodeless_snapshot::Reader;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// The changed inputs of each seed that are handled in this process. One more is given to each command.
const CHANGED: u64 = 5;
/// The bytes of the stack of a command's main thread on Linux. Threads of tests have a quarter of that, and frames without optimisation
/// are several times as large.
const STACK_OF_A_COMMAND: usize = 8 << 20;
/// The most changes of an input.
const CHANGES: usize = 4;

/// A pod that uses most fields of which planning depends.
fn demanding() -> Value {
    let terms = json!([{ "matchExpressions": [{ "key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": ["us-east-1b"] }] }]);
    let near = json!({ "labelSelector": { "matchLabels": { "app": "web" } }, "topologyKey": "kubernetes.io/hostname" });
    json!({
        "metadata": { "labels": { "app": "web" }, "annotations": { "karpenter.sh/do-not-disrupt": "5m" } },
        "spec": {
            "priorityClassName": "high", "schedulerName": "default-scheduler", "overhead": { "memory": "10Mi" },
            "initContainers": [{ "name": "i", "restartPolicy": "Always", "resources": { "requests": { "cpu": "50m" } } }],
            "containers": [{ "name": "c", "ports": [{ "hostPort": 80, "containerPort": 80, "protocol": "TCP" }],
                "resources": { "requests": { "cpu": "500m", "memory": "1Gi" }, "limits": { "memory": "1Gi" } } }],
            "nodeSelector": { "kubernetes.io/arch": "amd64" },
            "tolerations": [{ "key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 60 }],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms },
                    "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 10, "preference": terms[0] }],
                },
                "podAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "podAffinityTerm": near }] },
                "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [near] },
            },
            "topologySpreadConstraints": [{ "maxSkew": 1, "minDomains": 2, "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": { "matchExpressions":
                    [{ "key": "app", "operator": "In", "values": ["web"] }] } }],
            "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } },
                { "name": "e", "ephemeral": { "volumeClaimTemplate": { "spec": { "storageClassName": "zonal" } } } }],
            "terminationGracePeriodSeconds": 30,
        },
    })
}

/// A cluster with every kind that is read.
fn cluster() -> Vec<Value> {
    let mut objects = Objects::new();
    objects.pool()["spec"]["limits"] = json!({ "cpu": "100", "memory": "1Ti" });
    objects.pool()["spec"]["weight"] = json!(10);
    objects.pool()["spec"]["disruption"]["budgets"] =
        json!([{ "nodes": "10%", "schedule": "0 9 * * 1-5", "duration": "8h", "reasons": ["Drifted"] }]);
    objects.node("n1", "m5.large", "spot")["status"]["allocatable"] =
        json!({ "cpu": "2", "memory": "7Gi", "pods": "29" });
    objects.node("n2", "m5.xlarge", "on-demand")["spec"] =
        json!({ "taints": [{ "key": "a", "effect": "NoSchedule" }] });
    objects.pod("running", Some("n1"), "100m")["status"] = json!({ "phase": "Running" });
    objects.budget("budget", "running", 1);
    let mut pending = demanding();
    pending["apiVersion"] = json!("v1");
    pending["kind"] = json!("Pod");
    pending["metadata"]["name"] = json!("pending");
    pending["metadata"]["creationTimestamp"] = json!(LATEST);
    objects.0.push(pending);
    for (kind, group, spec) in specs() {
        objects.0.push(json!({ "apiVersion": group, "kind": kind, "metadata": { "name": "object" }, "spec": spec }));
    }
    objects.0.push(json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "high" }, "value": 1000 }));
    objects.0.push(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "zonal" }, "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{ "matchLabelExpressions": [{ "key": "topology.kubernetes.io/zone", "values": ["us-east-1b"] }] }],
    }));
    objects.0
}

/// Kinds with their API version and a spec.
fn specs() -> Vec<(&'static str, &'static str, Value)> {
    let template = demanding();
    vec![
        ("Deployment", "apps/v1", json!({ "replicas": 2, "template": template })),
        ("DaemonSet", "apps/v1", json!({ "template": { "spec": { "containers": [{ "name": "d" }] } } })),
        (
            "StatefulSet",
            "apps/v1",
            json!({ "replicas": 2, "ordinals": { "start": 1 }, "template": template,
            "volumeClaimTemplates": [{ "metadata": { "name": "disk" }, "spec": { "storageClassName": "zonal" } }] }),
        ),
        (
            "CronJob",
            "batch/v1",
            json!({ "schedule": "0 * * * *", "jobTemplate": { "spec": { "parallelism": 2, "template": template } } }),
        ),
        ("PersistentVolumeClaim", "v1", json!({ "volumeName": "disk", "storageClassName": "zonal" })),
        (
            "PersistentVolume",
            "v1",
            json!({ "csi": { "driver": "ebs.csi.aws.com" }, "nodeAffinity": { "required": { "nodeSelectorTerms":
            [{ "matchExpressions": [{ "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1a"] }] }] } } }),
        ),
        (
            "CSINode",
            "storage.k8s.io/v1",
            json!({ "drivers": [{ "name": "ebs.csi.aws.com", "nodeID": "i", "allocatable": { "count": 25 } }] }),
        ),
        (
            "NodeOverlay",
            "karpenter.sh/v1alpha1",
            json!({ "weight": 1, "priceAdjustment": "-10%", "capacity": { "example.com/a": "1" },
            "requirements": [{ "key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5"] }] }),
        ),
        (
            "CapacityBuffer",
            "autoscaling.x-k8s.io/v1beta1",
            json!({ "replicas": 2, "percentage": 10,
            "scalableRef": { "apiGroup": "apps", "kind": "Deployment", "name": "object" } }),
        ),
        (
            "NodeClaim",
            "karpenter.sh/v1",
            json!({ "requirements": [{ "key": "a", "operator": "In", "values": ["b"] }],
            "resources": { "requests": { "cpu": "1" } } }),
        ),
        ("Namespace", "v1", json!({})),
    ]
}

/// Manifests of Karpenter's earlier APIs.
fn earlier() -> Vec<Value> {
    let requirements = json!([{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"] }]);
    let kubelet =
        json!({ "maxPods": 20, "kubeReserved": { "cpu": "100m" }, "evictionHard": { "memory.available": "5%" } });
    vec![
        json!({ "apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": { "name": "a" }, "spec": {
            "providerRef": { "name": "a" }, "kubeletConfiguration": kubelet, "limits": { "resources": { "cpu": 100 } }, "weight": 1,
            "requirements": requirements, "taints": [{ "key": "a", "effect": "NoSchedule" }], "ttlSecondsAfterEmpty": 30 } }),
        json!({ "apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate", "metadata": { "name": "a" }, "spec": {
            "amiFamily": "AL2", "amiSelector": { "aws-ids": "ami-1,ami-2" }, "subnetSelector": { "karpenter.sh/discovery": "demo" },
            "securityGroupSelector": { "Name": "a*,b" }, "instanceProfile": "p", "tags": { "a": "b" }, "userData": "#!/bin/sh\n",
            "blockDeviceMappings": [{ "deviceName": "/dev/xvda", "ebs": { "volumeSize": "20Gi", "volumeType": "gp3" } }] } }),
        json!({ "apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "metadata": { "name": "b" }, "spec": {
            "template": { "spec": { "nodeClassRef": { "name": "b" }, "requirements": requirements, "kubelet": kubelet } },
            "disruption": { "consolidationPolicy": "WhenUnderutilized", "expireAfter": "720h", "budgets": [{ "nodes": "10%" }] } } }),
        json!({ "apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "metadata": { "name": "b" }, "spec": {
            "amiFamily": "Custom", "role": "r", "amiSelectorTerms": [{ "id": "ami-1" }], "subnetSelectorTerms": [{ "tags": { "a": "b" } }],
            "securityGroupSelectorTerms": [{ "name": "a" }] } }),
    ]
}

/// The text of an input: JSON, or every other time YAML.
fn text(numbers: &mut Numbers, value: &Value) -> Vec<u8> {
    match (numbers.below(2), serde_saphyr::to_string(value)) {
        (1, Ok(yaml)) => yaml.into_bytes(),
        _ => value.to_string().into_bytes(),
    }
}

/// The input of a seed: objects in a List with a few changes.
fn changed(numbers: &mut Numbers, mut value: Value) -> Vec<u8> {
    (0..numbers.below(CHANGES)).for_each(|_| change(numbers, &mut value));
    let mut bytes = text(numbers, &value);
    if numbers.below(3) == 0 {
        spoil(numbers, &mut bytes);
    }
    bytes
}

fn list(objects: &[Value]) -> Value {
    json!({ "apiVersion": "v1", "kind": "List", "items": objects })
}

/// Reads, plans, decides and converts, as the commands do.
fn handle(bytes: &[u8]) {
    static CATALOG: LazyLock<Catalog> =
        LazyLock::new(|| Catalog::synthetic(1, &Location::default().facts(None).unwrap()));
    let mut reader = Reader::default().with_pods_of_workloads();
    reader.read("file", bytes);
    let snapshot = reader.finish();
    assert!(snapshot.faults.iter().all(|fault| !fault.problem.is_empty()));
    let dry_run = DryRun::new(DryRunInput {
        view: snapshot.view,
        claims: snapshot.claims,
        catalog: CATALOG.clone(),
        now: snapshot.latest,
        shifted: Vec::new(),
        settings: PlanSettings::default(),
        commitments: None,
        disruption: Some(Vec::new()),
    });
    let (_, solution) = dry_run.place();
    let found = dry_run.disruption(&solution, 3);
    for node in dry_run.node_names().keys() {
        let _ = dry_run.node_details(node, &found.commands, &solution);
    }
    let _ = dry_run.current();
    let source = SourceFile { name: "file".to_owned(), text: String::from_utf8_lossy(bytes).into_owned() };
    let conversion = nodeless_convert::convert(&[source], &nodeless_convert::Options::default());
    assert!(conversion.problems.iter().all(|problem| !problem.to_string().is_empty()));
}

#[test]
fn changed_exports_are_handled_without_a_panic() {
    for seed in seeds() {
        for number in 0..CHANGED {
            let mut numbers = Numbers::new(seed.wrapping_mul(CHANGED).wrapping_add(number));
            let objects = if number % 3 == 2 { earlier() } else { cluster() };
            let bytes = changed(&mut numbers, list(&objects));
            let handled = std::thread::scope(|scope| {
                let thread = std::thread::Builder::new().stack_size(STACK_OF_A_COMMAND);
                thread.spawn_scoped(scope, || handle(&bytes)).unwrap().join()
            });
            assert!(handled.is_ok(), "NODELESS_SEEDS={seed}..{} panics for input {number}", seed.saturating_add(1));
        }
    }
}

#[test]
fn commands_end_with_a_message_for_changed_exports() {
    for seed in seeds() {
        let what = format!("NODELESS_SEEDS={seed}..{}", seed.saturating_add(1));
        let mut numbers = Numbers::new(seed);
        let export = changed(&mut numbers, list(&cluster()));
        let planned = ended(&["plan", "--cluster", "-", "--disruption", "-o", "json"], &export, &what);
        assert!(
            planned.stdout.is_empty() || serde_json::from_str::<Value>(&planned.stdout).is_ok(),
            "{what}: {planned:?}"
        );
        ended(&["plan", "--cluster", "-"], &export, &what);
        ended(&["convert", "-f", "-"], &changed(&mut numbers, list(&earlier())), &what);
    }
}

#[test]
fn commands_end_with_a_message_for_changed_items() {
    let decision = json!({
        "id": "2", "at": LATEST, "kind": "disruption-proposed", "subjects": ["default-1"], "summary": "1 node may go, 2 stay",
        "detail": json!({ "commands": [{ "id": "a", "method": "SingleNodeConsolidation", "reason": "Underutilized", "nodes": ["ip-1"],
            "replacements": [], "savingsPerHour": 0.25, "evictions": 2, "score": 0.75, "placements": [{ "pod": "a/b", "node": "ip-2" }] }],
            "kept": [{ "node": "ip-2", "reasons": ["it is not initialized yet"] }], "notLookedAt": [] }).to_string(),
    });
    for seed in seeds() {
        let what = format!("NODELESS_SEEDS={seed}..{}", seed.saturating_add(1));
        let mut numbers = Numbers::new(seed);
        let mut record = crate::report::record();
        let mut kept = decision.clone();
        if numbers.below(2) == 0 {
            change(&mut numbers, &mut record);
            change(&mut numbers, &mut kept);
        }
        let items = json!({ "Items": [crate::report::item("2026-11-23T12", 1, &record)] });
        ended(&["report", "-"], &changed(&mut numbers, items), &what);
        let stored = json!({ "pk": { "S": "prod" }, "sk": { "S": "decision#2" }, "record": { "S": kept.to_string() } });
        ended(&["decisions", "-"], &changed(&mut numbers, json!({ "Items": [stored] })), &what);
    }
}

/// The errors of an API server, as the command checks them.
fn definition_errors(kind: &str, object: &Value) -> Vec<(String, String)> {
    let definitions = nodeless_api::crds().unwrap();
    let definition = definitions.iter().find(|crd| crd.spec.names.kind == kind).unwrap();
    let schema = Schema::from_crd(definition, "v1").unwrap();
    schema.validate(object, None).into_iter().map(|error| (error.path, error.message)).collect()
}

/// A value of 2,000 characters: `000x001x…`.
fn long_value() -> String {
    (0..500).map(|number| format!("{number:03}x")).collect()
}

/// The number of characters of the long value that a message contains.
fn quoted(message: &str) -> usize {
    (0..500).filter(|number| message.contains(&format!("{number:03}x"))).count() * 4
}

/// The errors about a text, and the reasons of a plan why it uses no object of it.
fn messages(bytes: &[u8]) -> Vec<String> {
    let mut reader = Reader::default().with_pods_of_workloads().with_check(definition_errors);
    reader.read("file", bytes);
    let snapshot = reader.finish();
    let source = SourceFile { name: "file".to_owned(), text: String::from_utf8_lossy(bytes).into_owned() };
    let conversion = nodeless_convert::convert(&[source], &nodeless_convert::Options::default());
    let faults = snapshot.faults.iter().map(ToString::to_string);
    let unusable = snapshot.view.invalid.into_iter().map(|object| object.message);
    let shapes = snapshot.view.capacity_buffers.into_iter().filter_map(|buffer| Some(buffer.shape.err()?.to_string()));
    let problems = conversion.problems.iter().map(ToString::to_string);
    let skipped = snapshot.skipped.into_keys();
    faults.chain(unusable).chain(shapes).chain(problems).chain(skipped).chain(snapshot.warnings).collect()
}

/// Whoever opens a pull request chooses which files are read, and sees the errors about them.
#[test]
fn errors_quote_at_most_60_characters_of_a_value() {
    let mut found = 0;
    for object in cluster().into_iter().chain(earlier()) {
        let mut pointers = Vec::new();
        super::mutation::pointers(&object, "", &mut pointers);
        for pointer in pointers {
            let mut with_value = object.clone();
            *with_value.pointer_mut(&pointer).unwrap() = json!(long_value());
            let mut with_key = object.clone();
            if let Some(fields) = with_key.pointer_mut(&pointer).unwrap().as_object_mut() {
                fields.insert(long_value(), json!([]));
            }
            let mut with_text = object.clone();
            *with_text.pointer_mut(&pointer).unwrap() = json!(format!("a: \"{0}\"\n`{0}` '{0}'", long_value()));
            for changed in [with_value, with_key, with_text] {
                for text in [changed.to_string(), serde_saphyr::to_string(&changed).unwrap()] {
                    for message in messages(text.as_bytes()) {
                        assert!(quoted(&message) <= 60, "{pointer}: {message}");
                        found += 1;
                    }
                }
            }
        }
    }
    assert!(found > 1_000, "{found} errors");
}

#[test]
fn errors_about_text_quote_at_most_60_characters_of_it() {
    let long = long_value();
    for text in [
        long.clone(),
        format!("- {long}"),
        format!("[{long}"),
        format!("{long}: 1\n{long}: 2"),
        format!("a: *{long}"),
        format!("a: !{long} 1"),
        format!("%{long}\n---\na: [1"),
        format!("kind: {long}\napiVersion: v1\nmetadata: {{name: a}}"),
        format!("kind: {long}\napiVersion: karpenter.sh/{long}"),
        format!("kind: NodePool\napiVersion: karpenter.sh/{long}"),
        format!("kind: List\nitems:\n- {long}\n- kind: Pod\n  metadata: {long}\n- {{{{ .Values.{long} }}}}\n"),
        format!("kind: Pod\nmetadata: {{name: '{{{{ .{long} }}}}'}}"),
        format!("{{\"kind\": \"{long}"),
        format!("{{\"{long}\": }}"),
        format!("\"{long}\""),
    ] {
        for message in messages(text.as_bytes()) {
            assert!(quoted(&message) <= 60, "{message}");
        }
    }
}
