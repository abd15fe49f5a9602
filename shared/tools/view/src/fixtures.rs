//! Objects for tests.

use crate::objects::cluster::{Cluster, Update};
use crate::objects::decode::{DecodeError, Object, ShownKind};
use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) fn at(minute: i64) -> Timestamp {
    "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + jiff::SignedDuration::from_mins(minute)
}

/// A Ready node of the NodePool default: 4 CPUs, 16 GiB.
pub(crate) fn node(name: &str, instance_type: &str) -> String {
    node_value(name, instance_type).to_string()
}

pub(crate) fn node_value(name: &str, instance_type: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": "default",
                "node.kubernetes.io/instance-type": instance_type,
                "karpenter.sh/capacity-type": "spot", "topology.kubernetes.io/zone": "us-east-1a",
                "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"
            }
        },
        "spec": { "providerID": format!("aws:///us-east-1a/i-{name}") },
        "status": {
            "allocatable": { "cpu": "4", "memory": "16Gi", "pods": "58" },
            "capacity": { "cpu": "4", "memory": "16Gi", "pods": "58" },
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z" }]
        }
    })
}

/// A pod of the namespace shop with 1 CPU and 2 GiB.
pub(crate) fn pod(name: &str, node: Option<&str>) -> String {
    pod_value(name, node).to_string()
}

pub(crate) fn pod_value(name: &str, node: Option<&str>) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "shop", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "app": name }
        },
        "spec": {
            "nodeName": node,
            "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1", "memory": "2Gi" } } }]
        },
        "status": { "phase": if node.is_some() { "Running" } else { "Pending" } }
    })
}

pub(crate) fn pool_value(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "uid": name },
        "spec": {
            "limits": { "cpu": "16", "nodeless.sh/dollars-per-hour": "1" },
            "template": { "spec": {
                "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
                "requirements": []
            } }
        },
        "status": { "nodes": 2, "resources": { "cpu": "8" } }
    })
}

/// The NodeClaim of a node, or of none, with these conditions that are true.
pub(crate) fn claim_value(name: &str, node: Option<&str>, conditions: &[&str]) -> Value {
    let condition = |kind: &&str| json!({ "type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": "2026-01-01T00:01:00Z" });
    let class = json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" });
    json!({
        "metadata": {
            "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": "default" }
        },
        "spec": { "expireAfter": "720h", "requirements": [], "nodeClassRef": class },
        "status": { "nodeName": node.unwrap_or_default(), "conditions": conditions.iter().map(condition).collect::<Vec<_>>() }
    })
}

pub(crate) fn event_value(kind: &str, name: &str, reason: &str, message: &str) -> Value {
    let namespace = if kind == "Pod" { "shop" } else { "" };
    json!({
        "metadata": { "name": format!("{name}.{reason}"), "namespace": "default" },
        "involvedObject": { "kind": kind, "namespace": namespace, "name": name },
        "type": "Normal", "reason": reason, "message": message, "count": 2,
        "firstTimestamp": "2026-01-01T00:02:00Z", "lastTimestamp": "2026-01-01T00:03:00Z",
        "source": { "component": "nodeless" }, "reportingComponent": "nodeless"
    })
}

pub(crate) fn decoded(kind: ShownKind, object: &str) -> (String, String, Result<Object, DecodeError>) {
    let value: Value = serde_json::from_str(object).unwrap();
    let text = |key: &str| value["metadata"][key].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"), Object::decode(kind, object))
}

/// A cluster with these objects, all of which can be decoded.
pub(crate) fn cluster(objects: &[(ShownKind, Value)]) -> Cluster {
    let mut cluster = Cluster::default();
    for (kind, object) in objects {
        let (namespace, name, object) = decoded(*kind, &object.to_string());
        assert!(object.is_ok(), "{object:?}");
        cluster.apply(Update::Present { kind: *kind, namespace, name, object });
    }
    cluster
}
