//! The objects of the tenant.

use super::Numbers;
use crate::common::{Harness, node_pool, pod};
use nodeless_fake_kubernetes::resource::{
    DAEMON_SETS, EVENTS, LIMIT_RANGES, PERSISTENT_VOLUME_CLAIMS, POD_DISRUPTION_BUDGETS, POD_TEMPLATES, PODS,
    REPLICA_SETS, RESOURCE_QUOTAS, Resource,
};
use nodeless_fake_kubernetes::{PatchOptions, PatchType};
use nodeless_world::resources::{CAPACITY_BUFFERS, PROVISIONING_REQUESTS};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// It sorts between the namespaces of others.
pub(super) const NAMESPACE: &str = "tenant";
/// The NodePool of the tenant's pods.
pub(super) const POOL: &str = "tenant";
/// The label and the taint of its nodes.
const TEAM: &str = "team";

/// What a tenant creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Pods with keys of nodeless and Karpenter.
    Pods,
    /// Pods that name objects of others as their owners.
    OwnedPods,
    /// ReplicaSets with these keys in their template.
    ReplicaSets,
    /// DaemonSets for the tenant's nodes.
    DaemonSets,
    /// DaemonSets for all nodes that fit on none.
    ImpossibleDaemonSets,
    Requests,
    Buffers,
    DisruptionBudgets,
    Events,
    Claims,
    Limits,
}

impl Kind {
    pub(super) const ALL: [Self; 11] = [
        Self::Pods,
        Self::OwnedPods,
        Self::ReplicaSets,
        Self::DaemonSets,
        Self::ImpossibleDaemonSets,
        Self::Requests,
        Self::Buffers,
        Self::DisruptionBudgets,
        Self::Events,
        Self::Claims,
        Self::Limits,
    ];
}

/// An object that was created.
pub(super) struct Written(Resource, String);

/// The NodePool on whose nodes the tenant's pods run, and nobody else's.
pub(super) fn node_pool_of_tenant() -> Value {
    let mut pool = node_pool(POOL);
    let template = &mut pool["spec"]["template"];
    template["metadata"] = json!({ "labels": { TEAM: POOL } });
    template["spec"]["taints"] = json!([{ "key": TEAM, "value": POOL, "effect": "NoSchedule" }]);
    pool
}

/// All keys that nodeless reads or writes.
fn keys() -> Vec<&'static str> {
    let reference = include_str!("../../../../../docs/reference/labels.md");
    let rows = reference.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    rows.filter(|key| key.contains('/')).collect()
}

/// Values of keys: those that mean something, names of objects of others, and none of these.
const VALUES: [&str; 16] = [
    "true",
    "false",
    "0",
    "-1",
    "100%",
    "4h",
    "restart",
    "scale",
    "train",
    "spare",
    "default",
    "cheap",
    "web",
    "first-0",
    "2099-01-01T00:00:00Z",
    "999999999999999999999",
];

/// Metadata with random keys as annotations, labels and finalizers.
fn metadata(numbers: &mut Numbers, name: &str) -> Value {
    let keys = keys();
    let mut annotations = Map::new();
    let mut labels = Map::from_iter([("app".to_owned(), json!(name))]);
    for _ in 0..1 + numbers.below(8) {
        annotations.insert(numbers.pick(&keys).to_owned(), json!(numbers.pick(&VALUES)));
    }
    for _ in 0..numbers.below(4) {
        let value = numbers.pick(&VALUES).replace([':', '%'], "");
        labels.insert(numbers.pick(&keys).to_owned(), json!(value.trim_start_matches('-')));
    }
    json!({ "name": name, "namespace": NAMESPACE, "annotations": annotations, "labels": labels })
}

/// The spec of a pod for the tenant's nodes.
fn spec(milli_cpu: i64) -> Value {
    let mut spec = pod("of-tenant", milli_cpu)["spec"].clone();
    spec["nodeSelector"] = json!({ TEAM: POOL });
    spec["tolerations"] = json!([{ "key": TEAM, "operator": "Exists" }]);
    spec
}

/// A pod that may run on any node.
pub(super) fn anywhere(number: usize) -> Value {
    let mut pod = pod(&format!("anywhere-{number}"), 1300);
    pod["metadata"]["namespace"] = json!(NAMESPACE);
    pod
}

/// A pod on a node of the tenant that keeps pods of all namespaces with a label `app` out of its zone.
pub(super) fn alone(app: &str) -> Value {
    let mut spec = spec(100);
    let term = json!({ "topologyKey": "topology.kubernetes.io/zone", "namespaceSelector": {},
        "labelSelector": { "matchLabels": { "app": app } } });
    spec["affinity"] = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } });
    json!({ "metadata": { "name": "alone", "namespace": NAMESPACE }, "spec": spec })
}

/// Creates objects of these kinds.
pub(super) fn create(harness: &Harness, seed: u64, kinds: &[Kind]) -> Vec<Written> {
    let mut numbers = Numbers::new(seed ^ 0x7e4a);
    let mut written = Vec::new();
    for kind in kinds {
        for number in 0..1 + numbers.below(4) {
            let name = format!("{}-{number}", format!("{kind:?}").to_lowercase());
            for (resource, object) in objects(harness, &mut numbers, *kind, &name) {
                harness.cluster.create(&resource, object);
                written.push(Written(resource, name.clone()));
            }
        }
    }
    harness.cluster.converge();
    written
}

fn objects(harness: &Harness, numbers: &mut Numbers, kind: Kind, name: &str) -> Vec<(Resource, Value)> {
    let metadata = metadata(numbers, name);
    let cpu = i64::try_from(100 + numbers.below(2000)).unwrap();
    match kind {
        Kind::Pods => vec![(PODS, json!({ "metadata": metadata, "spec": spec(cpu) }))],
        Kind::OwnedPods => {
            let mut object = json!({ "metadata": metadata, "spec": spec(cpu) });
            object["metadata"]["ownerReferences"] = json!([owner(harness, numbers)]);
            vec![(PODS, object)]
        }
        Kind::ReplicaSets | Kind::DaemonSets => {
            let resource = if kind == Kind::DaemonSets { DAEMON_SETS } else { REPLICA_SETS };
            vec![(resource, workload(&metadata, &spec(cpu)))]
        }
        Kind::ImpossibleDaemonSets => {
            let mut spec = pod(name, 1_000_000)["spec"].clone();
            if numbers.percent(50) {
                spec["containers"][0]["resources"]["requests"] = json!({ "example.com/unknown": "1" });
                spec["containers"][0]["resources"]["limits"] = json!({ "example.com/unknown": "1" });
            }
            vec![(DAEMON_SETS, workload(&metadata, &spec))]
        }
        Kind::Requests => {
            let template = json!({ "metadata": metadata, "template": { "metadata": metadata, "spec": spec(cpu) } });
            let class = ["check-capacity.autoscaling.x-k8s.io", "best-effort-atomic-scale-up.autoscaling.x-k8s.io"];
            let sets = json!([{ "count": 1 + numbers.below(3), "podTemplateRef": { "name": name } }]);
            let spec = json!({ "provisioningClassName": numbers.pick(&class), "podSets": sets });
            vec![(POD_TEMPLATES, template), (PROVISIONING_REQUESTS, json!({ "metadata": metadata, "spec": spec }))]
        }
        Kind::Buffers => {
            let template = json!({ "metadata": metadata, "template": { "metadata": metadata, "spec": spec(cpu) } });
            let spec = json!({ "replicas": 1 + numbers.below(3), "podTemplateRef": { "name": name } });
            vec![(POD_TEMPLATES, template), (CAPACITY_BUFFERS, json!({ "metadata": metadata, "spec": spec }))]
        }
        Kind::DisruptionBudgets => {
            let selector = numbers.pick(&[json!({}), json!({ "matchLabels": { "app": "first-0" } })]);
            let spec = json!({ "maxUnavailable": 0, "selector": selector });
            vec![(POD_DISRUPTION_BUDGETS, json!({ "metadata": metadata, "spec": spec }))]
        }
        Kind::Events => vec![event(numbers, name)],
        Kind::Claims => {
            let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
                "storageClassName": numbers.pick(&["gp3", "missing"]) });
            vec![(PERSISTENT_VOLUME_CLAIMS, json!({ "metadata": metadata, "spec": spec }))]
        }
        Kind::Limits => {
            let range = json!({ "limits": [{ "type": "Container", "defaultRequest": { "cpu": format!("{cpu}m") } }] });
            let quota = json!({ "hard": { "requests.cpu": "100" } });
            vec![
                (LIMIT_RANGES, json!({ "metadata": metadata, "spec": range })),
                (RESOURCE_QUOTAS, json!({ "metadata": metadata, "spec": quota })),
            ]
        }
    }
}

fn workload(metadata: &Value, spec: &Value) -> Value {
    let selector = json!({ "matchLabels": { "app": metadata["labels"]["app"] } });
    let template =
        json!({ "metadata": { "labels": metadata["labels"], "annotations": metadata["annotations"] }, "spec": spec });
    json!({ "metadata": metadata, "spec": { "selector": selector, "template": template } })
}

/// A reference to an object of others.
fn owner(harness: &Harness, numbers: &mut Numbers) -> Value {
    let nodes = harness.cluster.nodes();
    let (node, uid) = nodes.values().next().map_or(("none", "none"), |node| (&*node.name, &*node.uid));
    let claims = harness.cluster.node_claims();
    let (claim, of_claim) = claims.values().next().map_or(("none", "none"), |claim| (&*claim.name, &*claim.uid));
    let reference = |version: &str, kind: &str, name: &str, uid: &str| json!({ "apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": true });
    numbers.pick(&[
        reference("v1", "Node", node, uid),
        reference("karpenter.sh/v1", "NodeClaim", claim, of_claim),
        reference("karpenter.sh/v1", "NodePool", "default", "00000000-0000-0000-0000-000000000001"),
        reference("apps/v1", "DaemonSet", "agent", "00000000-0000-0000-0000-000000000002"),
        reference("apps/v1", "ReplicaSet", "first-0", "00000000-0000-0000-0000-000000000003"),
        reference("batch/v1", "Job", "first-0", "00000000-0000-0000-0000-000000000004"),
    ])
}

/// An Event in the tenant's namespace, or in that of Events about cluster-scoped objects.
fn event(numbers: &mut Numbers, name: &str) -> (Resource, Value) {
    let about = numbers.pick(&[
        json!({ "apiVersion": "v1", "kind": "Pod", "namespace": NAMESPACE, "name": "victim", "uid": "u" }),
        json!({ "apiVersion": "v1", "kind": "Namespace", "name": "kube-system" }),
        json!({ "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "default" }),
    ]);
    let namespace = about["namespace"].as_str().unwrap_or("default");
    let reasons = ["FailedScheduling", "OtherDeployment", "BudgetExceeded", "DisruptionBlocked", "Nominated"];
    let component = numbers.pick(&["karpenter", "default-scheduler"]);
    let event = json!({
        "metadata": { "name": name, "namespace": namespace }, "involvedObject": about, "type": "Warning",
        "reason": numbers.pick(&reasons), "message": "written by the tenant", "count": 1,
        "source": { "component": component }, "reportingComponent": component, "reportingInstance": component,
        "firstTimestamp": "2027-01-15T08:00:00Z", "lastTimestamp": "2099-01-01T00:00:00Z",
    });
    (EVENTS, event)
}

/// Patches the statuses of ProvisioningRequests and CapacityBuffers.
pub(super) fn forge_statuses(harness: &Harness, seed: u64, written: &[Written]) {
    let mut numbers = Numbers::new(seed ^ 0xf0f0);
    for Written(resource, name) in written {
        if ![PROVISIONING_REQUESTS, CAPACITY_BUFFERS].contains(resource) {
            continue;
        }
        let kinds = [
            "Accepted",
            "Provisioned",
            "Failed",
            "BookingExpired",
            "CapacityRevoked",
            "ReadyForProvisioning",
            "Provisioning",
        ];
        let condition = |kind: &str, status: &str| {
            json!({ "type": kind, "status": status, "reason": "Forged",
            "message": "forged", "lastTransitionTime": "2099-01-01T00:00:00Z", "observedGeneration": 1 })
        };
        // The API server refuses two conditions of one type.
        let chosen: BTreeSet<&str> = (0..2).map(|_| numbers.pick(&kinds)).collect();
        let conditions: Vec<Value> =
            chosen.into_iter().map(|kind| condition(kind, numbers.pick(&["True", "False"]))).collect();
        let mut status = json!({ "conditions": conditions });
        if *resource == CAPACITY_BUFFERS {
            status["replicas"] = json!(numbers.pick(&[0, 1, 1000]));
            status["podTemplateRef"] = json!({ "name": "worker" });
        }
        let options = PatchOptions::default();
        let patch = json!({ "status": status });
        harness
            .cluster
            .api
            .patch(resource, NAMESPACE, name, Some("status"), PatchType::Merge, &patch, &options)
            .unwrap();
    }
}
