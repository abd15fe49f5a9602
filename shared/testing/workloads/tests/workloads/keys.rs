//! Every key of docs/reference/labels.md, and every status field that users may write, on every kind that plans read: nothing panics, and
//! nothing changes for other objects.
//!
//! A cluster has the objects of a bystander, whose pods use a NodePool of their own. Keys and statuses are set on these objects only.
//!
//! `NODELESS_SEEDS=FROM..TO` selects the seeds. `make test` runs a few, which change with the commit, and `make nightly` hundreds.

use nodeless_api::test_support::{ec2_node_class_manifest, node_pool_manifest};
use nodeless_catalog::{Catalog, Location};
use nodeless_planner::{DryRun, DryRunInput, PlanSettings};
use nodeless_snapshot::Reader;
use nodeless_workloads::Draw;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

/// The seeds by default.
const FEW: Range<u64> = 0..2;
/// The changed clusters of a seed.
const CHANGED: usize = 100;
/// The name of the bystander's NodePool, namespace and objects.
const BYSTANDER: &str = "bystander";
const LATEST: &str = "2026-01-10T12:00:00Z";

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("NODELESS_SEEDS") else { return FEW };
    let parsed = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    parsed.unwrap_or_else(|| panic!("NODELESS_SEEDS={text} is not a range; write it like 0..200"))
}

/// The keys of the reference.
fn keys() -> Vec<&'static str> {
    let reference = include_str!("../../../../../docs/reference/labels.md");
    let spans = reference.split('`').skip(1).step_by(2);
    let is_key =
        |span: &&str| span.split_once('/').is_some_and(|(domain, _)| domain.contains('.') && !domain.contains(' '));
    let keys: BTreeSet<&str> = spans.filter(is_key).collect();
    assert!(keys.len() > 80, "{keys:?}");
    keys.into_iter().collect()
}

/// Values of keys: those that mean something, names of the bystander's objects, and others.
const VALUES: [&str; 24] = [
    "true",
    "false",
    "",
    "0",
    "1",
    "-1",
    "100",
    "30%",
    "1000%",
    "4h",
    "-4h",
    "replace",
    "avoid",
    "restart",
    "scale",
    BYSTANDER,
    "2099-01-01T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "99999999999999999999",
    "NaN",
    "0 0 * * * for 24h",
    "spot",
    "NoExecute",
    "\u{1b}[31m\u{202e}",
];

/// Statuses by kind: of each, the values of one field.
fn statuses(kind: &str) -> Value {
    let condition = |kind: &str, status: &str| {
        json!({ "type": kind, "status": status, "reason": "Forged", "message": "",
        "lastTransitionTime": "2099-01-01T00:00:00Z", "observedGeneration": 1 })
    };
    let conditions = |kinds: &[&str]| -> Value {
        kinds
            .iter()
            .flat_map(|kind| [json!([condition(kind, "True")]), json!([condition(kind, "False")]), json!([])])
            .collect()
    };
    match kind {
        "NodePool" => json!({ "conditions": conditions(&["Ready", "NodeClassReady", "NodeRegistrationHealthy"]),
            "nodes": [-1, 0, 1_000_000], "resources": [{ "cpu": "1M" }, { "cpu": "-1" }, { "nodeless.sh/dollars-per-hour": "1M" }] }),
        "NodeClaim" => {
            json!({ "conditions": conditions(&["Launched", "Registered", "Initialized", "Drifted", "Empty", "Consolidatable"]),
            "capacity": [{ "cpu": "0" }, { "cpu": "1M" }], "allocatable": [{ "cpu": "0" }, {}],
            "imageID": ["ami-1", ""], "nodeName": ["", "none"], "lastPodEventTime": ["2099-01-01T00:00:00Z", "0001-01-01T00:00:00Z"] })
        }
        "EC2NodeClass" => {
            json!({ "conditions": conditions(&["Ready", "SubnetsReady", "AMIsReady", "ValidationSucceeded"]),
            "subnets": [[], [{ "id": "subnet-1", "zone": "mars-1a", "zoneID": "mars1-az1" }]], "amis": [[]],
            "securityGroups": [[], [{ "id": "sg-1" }]], "instanceProfile": ["none"] })
        }
        "CapacityBuffer" => {
            json!({ "conditions": conditions(&["ReadyForProvisioning", "Provisioning"]), "replicas": [-1, 0, 1000],
            "podTemplateRef": [{ "name": "none" }], "podTemplateGeneration": [-1], "provisioningStrategy": ["none"] })
        }
        "NodeOverlay" => json!({ "conditions": conditions(&["Ready", "ValidationSucceeded"]) }),
        "PodDisruptionBudget" => {
            json!({ "disruptionsAllowed": [0, 1000], "currentHealthy": [0, 1000], "desiredHealthy": [0, 1000],
            "expectedPods": [0], "observedGeneration": [99], "disruptedPods": [{ "web-0": "2099-01-01T00:00:00Z" }] })
        }
        "Pod" => json!({ "conditions": conditions(&["PodScheduled", "Ready", "Initialized", "DisruptionTarget"]),
            "phase": ["Pending", "Running", "Succeeded", "Failed", "Unknown"], "nominatedNodeName": ["none", BYSTANDER],
            "startTime": ["2099-01-01T00:00:00Z", "0001-01-01T00:00:00Z"] }),
        "Node" => json!({ "conditions": conditions(&["Ready", "MemoryPressure", "NetworkUnavailable"]),
            "capacity": [{}, { "cpu": "0" }, { "cpu": "1M", "memory": "1Ei" }], "allocatable": [{}, { "cpu": "0" }] }),
        "DaemonSet" => json!({ "desiredNumberScheduled": [-1, 1000], "numberReady": [-1, 1000] }),
        "Deployment" | "ReplicaSet" | "StatefulSet" => json!({ "replicas": [-1, 0, 1000], "readyReplicas": [1000] }),
        "ResourceClaim" => {
            json!({ "allocation": [{}], "reservedFor": [[{ "resource": "pods", "name": "none", "uid": "u" }]] })
        }
        "PersistentVolumeClaim" => json!({ "phase": ["Bound", "Lost", "Pending"] }),
        "Namespace" => json!({ "phase": ["Active", "Terminating"] }),
        _ => json!({}),
    }
}

fn pool(name: &str) -> Value {
    let requirements = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
        { "key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5", "c5"] },
    ]);
    let disruption = json!({ "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m", "budgets": [{ "nodes": "100%" }] });
    let mut pool =
        node_pool_manifest(name, &requirements, &json!({ "disruption": disruption, "limits": { "cpu": "64" } }));
    pool["metadata"]["uid"] = json!(format!("uid-{name}"));
    pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!(name);
    pool
}

/// A Node and its NodeClaim.
fn node(name: &str, pool: &str, taints: &Value) -> [Value; 2] {
    let provider = format!("aws:///us-east-1a/i-{name}");
    let mut labels = json!({
        "node.kubernetes.io/instance-type": "m5.xlarge", "karpenter.sh/capacity-type": "on-demand", "karpenter.sh/nodepool": pool,
        "topology.kubernetes.io/zone": "us-east-1a", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
    });
    let claim = json!({ "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": { "name": format!("{pool}-{name}"), "labels": labels, "uid": format!("claim-{name}"), "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": pool }, "requirements": [], "taints": taints },
        "status": { "providerID": provider, "nodeName": name } });
    for (key, value) in
        [("karpenter.sh/registered", "true"), ("karpenter.sh/initialized", "true"), ("kubernetes.io/hostname", name)]
    {
        labels[key] = json!(value);
    }
    let node = json!({ "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "uid": format!("uid-{name}"), "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "providerID": provider, "taints": taints },
        "status": { "allocatable": { "cpu": "3900m", "memory": "14Gi", "pods": "58" }, "conditions": [{ "type": "Ready", "status": "True",
            "lastTransitionTime": "2026-01-01T00:01:00Z", "lastHeartbeatTime": LATEST }] } });
    [node, claim]
}

fn pod(namespace: &str, name: &str, node: Option<&str>, cpu: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": namespace, "uid": format!("uid-{name}"), "labels": { "app": name },
            "creationTimestamp": "2026-01-02T00:00:00Z" },
        "spec": { "nodeName": node, "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu, "memory": "1Gi" } } }] },
        "status": { "phase": if node.is_some() { "Running" } else { "Pending" } } })
}

/// The objects of everybody else: nodes that are consolidated and one that stays, pods that get a new node and one that cannot.
fn others() -> Vec<Value> {
    let mut objects = vec![pool("default"), ec2_node_class_manifest("default", "example", &json!({}))];
    for (name, app) in [("n1", "web-0"), ("n2", "web-1"), ("n3", "db-0")] {
        objects.extend(node(name, "default", &json!([])));
        objects.push(pod("shop", app, Some(name), "1"));
    }
    objects.push(json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "db", "namespace": "shop" },
        "spec": { "maxUnavailable": 0, "selector": { "matchLabels": { "app": "db-0" } } } }));
    objects.extend([pool("fresh"), ec2_node_class_manifest("fresh", "example", &json!({}))]);
    for (number, cpu) in ["1", "2500m", "3", "3500m", "900"].into_iter().enumerate() {
        let mut new = pod("shop", &format!("new-{number}"), None, cpu);
        new["spec"]["nodeSelector"] = json!({ "karpenter.sh/nodepool": "fresh" });
        objects.push(new);
    }
    objects.push(json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "agent", "namespace": "shop" },
        "spec": { "template": { "spec": { "tolerations": [], "containers": [{ "name": "c", "resources": { "requests": { "cpu": "100m" } } }] } } } }));
    objects
}

/// The objects of the bystander, one of each kind that plans read.
fn bystander() -> Vec<Value> {
    let taints = json!([{ "key": BYSTANDER, "value": "yes", "effect": "NoSchedule" }]);
    let mut own_pool = pool(BYSTANDER);
    own_pool["spec"]["template"]["spec"]["taints"] = taints.clone();
    own_pool["spec"]["template"]["metadata"] = json!({ "labels": { BYSTANDER: "yes" } });
    let mut objects = vec![own_pool, ec2_node_class_manifest(BYSTANDER, "example", &json!({}))];
    let [mut own_node, claim] = node(BYSTANDER, BYSTANDER, &taints);
    own_node["metadata"]["labels"][BYSTANDER] = json!("yes");
    objects.extend([own_node, claim]);
    let confined = |mut pod: Value| {
        pod["spec"]["nodeSelector"] = json!({ BYSTANDER: "yes" });
        pod["spec"]["tolerations"] = json!([{ "key": BYSTANDER, "operator": "Exists" }]);
        pod["spec"]["priorityClassName"] = json!(BYSTANDER);
        pod
    };
    let mut pending = confined(pod(BYSTANDER, "pending", None, "500m"));
    pending["spec"]["volumes"] = json!([{ "name": "v", "persistentVolumeClaim": { "claimName": BYSTANDER } }]);
    let running = confined(pod(BYSTANDER, "running", Some(BYSTANDER), "500m"));
    let mut template = json!({ "metadata": { "labels": { "app": BYSTANDER } }, "spec": running["spec"] });
    template["spec"].as_object_mut().unwrap().remove("nodeName");
    objects.extend([pending, running]);
    for (version, kind, fields) in kinds(&template) {
        let mut object =
            json!({ "apiVersion": version, "kind": kind, "metadata": { "name": BYSTANDER, "namespace": BYSTANDER } });
        object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        objects.push(object);
    }
    objects
}

/// API version, kind and fields of the objects that are not nodes, pods, or what launches nodes.
fn kinds(template: &Value) -> Vec<(&'static str, &'static str, Value)> {
    let device = json!({ "devices": { "requests": [{ "name": "r", "exactly": { "deviceClassName": BYSTANDER } }] } });
    vec![
        ("v1", "Namespace", json!({})),
        ("v1", "PersistentVolume", json!({ "spec": { "csi": { "driver": "ebs.csi.aws.com" } } })),
        ("v1", "PersistentVolumeClaim", json!({ "spec": { "volumeName": BYSTANDER, "storageClassName": BYSTANDER } })),
        (
            "storage.k8s.io/v1",
            "StorageClass",
            json!({ "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer" }),
        ),
        (
            "storage.k8s.io/v1",
            "CSINode",
            json!({ "spec": { "drivers": [{ "name": "ebs.csi.aws.com", "nodeID": "i", "allocatable": { "count": 25 } }] } }),
        ),
        ("resource.k8s.io/v1", "DeviceClass", json!({ "spec": {} })),
        ("resource.k8s.io/v1", "ResourceClaim", json!({ "spec": device })),
        ("resource.k8s.io/v1", "ResourceClaimTemplate", json!({ "spec": { "spec": device } })),
        ("apps/v1", "DaemonSet", json!({ "spec": { "template": template } })),
        ("policy/v1", "PodDisruptionBudget", json!({ "spec": { "maxUnavailable": 0, "selector": {} } })),
        ("scheduling.k8s.io/v1", "PriorityClass", json!({ "value": 0 })),
        (
            "v1",
            "LimitRange",
            json!({ "spec": { "limits": [{ "type": "Container", "defaultRequest": { "cpu": "200m" } }] } }),
        ),
        (
            "karpenter.sh/v1alpha1",
            "NodeOverlay",
            json!({ "spec": { "requirements": [{ "key": "karpenter.sh/nodepool", "operator": "In",
            "values": [BYSTANDER] }], "priceAdjustment": "+10%" } }),
        ),
        (
            "autoscaling.x-k8s.io/v1beta1",
            "CapacityBuffer",
            json!({ "spec": { "replicas": 1, "podTemplateRef": { "name": BYSTANDER } } }),
        ),
        ("v1", "PodTemplate", json!({ "template": template })),
        ("apps/v1", "Deployment", json!({ "spec": { "replicas": 1, "template": template } })),
        ("apps/v1", "ReplicaSet", json!({ "spec": { "replicas": 1, "template": template } })),
        ("apps/v1", "StatefulSet", json!({ "spec": { "replicas": 1, "template": template } })),
        ("batch/v1", "Job", json!({ "spec": { "template": template } })),
        ("batch/v1", "CronJob", json!({ "spec": { "jobTemplate": { "spec": { "template": template } } } })),
        ("v1", "Service", json!({ "spec": { "selector": { "app": BYSTANDER } } })),
        ("v1", "ReplicationController", json!({ "spec": { "selector": { "app": BYSTANDER } } })),
    ]
}

/// What a plan and its decisions are for everybody but the bystander.
fn outcome(bystander: &[Value]) -> BTreeSet<String> {
    static CATALOG: LazyLock<Catalog> =
        LazyLock::new(|| Catalog::synthetic(1, &Location::default().facts(None).unwrap()));
    let mut reader = Reader::default().with_pods_of_workloads();
    let items: Vec<Value> = others().into_iter().chain(bystander.iter().cloned()).collect();
    reader.read("cluster", json!({ "kind": "List", "apiVersion": "v1", "items": items }).to_string().as_bytes());
    let snapshot = reader.finish();
    let dry_run = DryRun::new(DryRunInput {
        view: snapshot.view,
        claims: snapshot.claims,
        catalog: CATALOG.clone(),
        now: LATEST.parse().unwrap(),
        shifted: Vec::new(),
        settings: PlanSettings::default(),
        commitments: None,
        disruption: Some(Vec::new()),
    });
    let (problem, solution) = dry_run.place();
    let is_others = |pod: usize| problem.pods[pod].namespace != BYSTANDER;
    let name = |pod: usize| problem.pods[pod].key();
    let mut lines = BTreeSet::new();
    for launch in solution.launches.iter().filter(|launch| launch.node_pool != BYSTANDER) {
        let pods: Vec<String> = launch.pods.iter().map(|pod| name(*pod)).collect();
        lines.insert(format!("launch {} {:?} for {pods:?}", launch.node_pool, launch.offering));
    }
    // The index of a node changes with the bystander's.
    let placed = solution.placements.iter().filter(|placed| is_others(placed.pod));
    lines.extend(placed.map(|placed| format!("place {}", name(placed.pod))));
    for refused in solution.unschedulable.iter().filter(|refused| is_others(refused.pod)) {
        let reasons = refused.reasons.iter().map(ToString::to_string);
        let reasons: Vec<String> = reasons.filter(|reason| !reason.contains(BYSTANDER)).collect();
        lines.insert(format!("refuse {}: {reasons:?}", name(refused.pod)));
    }
    let found = dry_run.disruption(&solution, 3);
    lines.extend(found.doubt.iter().map(|doubt| format!("doubt: {doubt}")));
    for command in &found.commands {
        let nodes: Vec<&str> = command.candidates.iter().map(|candidate| candidate.node.as_str()).collect();
        if nodes != [BYSTANDER] {
            lines.insert(format!("disrupt {nodes:?} because of {:?}", command.reason));
        }
    }
    lines.extend(found.kept.iter().map(|kept| format!("keep {kept:?}")).filter(|line| !line.contains(BYSTANDER)));
    lines
}

/// Sets a key or a status on one of the objects. Returns what was set.
fn change(draw: &mut Draw, objects: &mut [Value], keys: &[&str]) -> String {
    let index = draw.below(objects.len());
    let object = &mut objects[index];
    let kind = object["kind"].as_str().unwrap().to_owned();
    let fields = statuses(&kind);
    if draw.percent(40) && fields.as_object().is_some_and(|fields| !fields.is_empty()) {
        let fields = fields.as_object().unwrap();
        let (field, values) = fields.iter().nth(draw.below(fields.len())).unwrap();
        let value = &values[draw.below(values.as_array().unwrap().len())];
        object["status"][field] = value.clone();
        return format!("{kind}: status.{field} = {value}");
    }
    let (key, value) = (draw.one_of(keys), draw.one_of(&VALUES));
    let place = draw.one_of(&["annotations", "labels", "finalizers"]);
    match place {
        "finalizers" => object["metadata"]["finalizers"] = json!([key]),
        _ => object["metadata"][place][key] = json!(value),
    }
    if place != "finalizers"
        && let Some(template) = object.pointer_mut("/spec/template")
    {
        template["metadata"][place][key] = json!(value);
    }
    format!("{kind}: {place} {key} = {value:?}")
}

#[test]
fn keys_and_statuses_of_an_object_change_nothing_for_others() {
    let (keys, objects) = (keys(), bystander());
    let expected = outcome(&objects);
    for start in ["launch fresh", "refuse shop/", "disrupt", "keep"] {
        assert!(expected.iter().any(|line| line.starts_with(start)), "no {start} in {expected:#?}");
    }
    assert_eq!(outcome(&[]), expected, "the bystander changes nothing");
    let mut failed = Vec::new();
    for seed in seeds() {
        let mut draw = Draw::new(seed);
        for _ in 0..CHANGED {
            let mut changed = objects.clone();
            let what: Vec<String> = (0..draw.between(1, 3)).map(|_| change(&mut draw, &mut changed, &keys)).collect();
            match catch_unwind(AssertUnwindSafe(|| outcome(&changed))) {
                Err(_) => failed.push(format!("NODELESS_SEEDS={seed}..{}: {what:?} panics", seed + 1)),
                Ok(found) if found != expected => {
                    let lines: Vec<&String> = found.symmetric_difference(&expected).collect();
                    failed.push(format!("NODELESS_SEEDS={seed}..{}: {what:?} changes {lines:#?}", seed + 1));
                }
                Ok(_) => {}
            }
        }
    }
    assert!(failed.is_empty(), "{} failed, such as {}", failed.len(), failed[..failed.len().min(5)].join("\n"));
}
