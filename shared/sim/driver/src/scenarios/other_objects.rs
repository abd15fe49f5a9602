//! The objects of the second controller ([`super::other_controller`]), and how they are distinguished apart from those of nodeless. The oracle uses
//! this, and none of the code that decides it in the operations.

use jiff::Timestamp;
use nodeless_fake_aws::Instance;
use nodeless_fake_kubernetes::Resource;
use nodeless_model::labels;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const NODE_POOL: &str = "other";
const CLASS_LABEL: &str = "eks.amazonaws.com/nodeclass";
const FINALIZER: &str = "karpenter.sh/termination";
/// The tag of its instances.
const TAG: &str = "eks:kubernetes-node-class-name";

fn class() -> Value {
    json!({ "group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default" })
}

fn taints() -> Value {
    json!([{ "key": "example.com/other", "effect": "NoSchedule" }])
}

fn allocatable() -> Value {
    json!({ "cpu": "1930m", "memory": "3Gi", "pods": "29" })
}

pub(super) fn claim_name(number: u32) -> String {
    format!("{NODE_POOL}-{number:05}")
}

/// The id of an instance, which is also the name of its Node, as in EKS Auto Mode.
pub(super) fn instance_id(number: u32) -> String {
    format!("i-0ff{number:014}")
}

pub(super) fn tags(cluster: &str, claim: &str) -> BTreeMap<String, String> {
    let tags = [
        (labels::CLUSTER_NAME_TAG, cluster),
        (labels::NODE_POOL, NODE_POOL),
        (labels::NODE_CLAIM_TAG, claim),
        (TAG, "default"),
    ];
    tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// Its NodePool. The name of the class is that of the EC2NodeClass of most scenarios.
pub(super) fn node_pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": NODE_POOL },
        "spec": {
            "template": { "spec": {
                "nodeClassRef": class(), "taints": taints(), "expireAfter": "336h",
                "requirements": [{ "key": "eks.amazonaws.com/instance-category", "operator": "In", "values": ["c"] }],
            } },
            "disruption": { "consolidateAfter": "30s", "consolidationPolicy": "WhenEmptyOrUnderutilized" },
        },
    })
}

pub(super) fn node_claim(number: u32) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": claim_name(number), "labels": { labels::NODE_POOL: NODE_POOL }, "finalizers": [FINALIZER],
        },
        "spec": {
            "nodeClassRef": class(), "taints": taints(), "resources": { "requests": { "cpu": "1" } },
            "requirements": [{ "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] }],
        },
    })
}

/// The status of a NodeClaim whose instance is launched.
pub(super) fn launched(zone: &str, id: &str, now: Timestamp) -> Value {
    let condition = json!({
        "type": "Launched", "status": "True", "reason": "Launched", "message": "",
        "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    });
    json!({ "status": {
        "providerID": nodeless_model::node::provider_id(zone, id), "allocatable": allocatable(),
        "conditions": [condition],
    } })
}

/// Its Node, with the labels that Karpenter's lifecycle sets, and the one of its class.
pub(super) fn node(number: u32, zone: &str, instance_type: &str) -> Value {
    let name = instance_id(number);
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "finalizers": [FINALIZER], "labels": {
            labels::NODE_POOL: NODE_POOL, labels::REGISTERED: "true", labels::INITIALIZED: "true",
            CLASS_LABEL: "default", labels::INSTANCE_TYPE: instance_type, labels::ZONE: zone,
            labels::CAPACITY_TYPE: "on-demand", labels::HOSTNAME: name, labels::ARCH: "amd64", labels::OS: "linux",
        } },
        "spec": { "providerID": nodeless_model::node::provider_id(zone, &name), "taints": taints() },
    })
}

pub(super) fn node_status(ready: bool, now: Timestamp) -> Value {
    let at = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let status = if ready { "True" } else { "False" };
    let condition = json!({
        "type": "Ready", "status": status, "reason": "Kubelet", "message": "",
        "lastHeartbeatTime": at, "lastTransitionTime": at,
    });
    json!({ "status": { "capacity": allocatable(), "allocatable": allocatable(), "conditions": [condition] } })
}

/// Whether an object is one of another controller.
pub(crate) fn is_of_other(resource: &Resource, object: &Value) -> bool {
    let of_class = |class: Option<&Value>| {
        class.is_some_and(|class| class["group"] != "karpenter.k8s.aws" || class["kind"] != "EC2NodeClass")
    };
    match resource.kind.as_ref() {
        "NodePool" => of_class(object.pointer("/spec/template/spec/nodeClassRef")),
        "NodeClaim" => of_class(object.pointer("/spec/nodeClassRef")),
        "Node" => !object["metadata"]["labels"][CLASS_LABEL].is_null(),
        _ => false,
    }
}

/// Whether an instance is one of the second controller.
pub(crate) fn is_instance_of_other(instance: &Instance) -> bool {
    instance.tags.contains_key(TAG)
}
