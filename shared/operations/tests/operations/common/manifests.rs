//! Objects as people write them.

use super::CLUSTER;
use nodeless_api::test_support::{ec2_node_class_manifest, node_pool_manifest};
use serde_json::{Value, json};

/// A NodePool of on-demand nodes that launches from the EC2NodeClass `default`.
pub fn node_pool(name: &str) -> Value {
    let requirements = json!([{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] }]);
    let fields = json!({
        "disruption": { "consolidateAfter": "30s", "consolidationPolicy": "WhenEmpty", "budgets": [{ "nodes": "100%" }] },
        "limits": { "cpu": "100" },
    });
    let mut pool = node_pool_manifest(name, &requirements, &fields);
    pool["spec"]["template"]["spec"]["expireAfter"] = json!("720h");
    pool
}

/// A NodePool that keeps so many nodes.
pub fn static_pool(name: &str, replicas: i64) -> Value {
    let mut pool = node_pool(name);
    pool["spec"]["replicas"] = json!(replicas);
    pool["spec"].as_object_mut().unwrap().remove("limits");
    pool
}

/// An EC2NodeClass that launches into this subnet.
pub fn node_class(name: &str, subnet: &str) -> Value {
    ec2_node_class_manifest(name, CLUSTER, &json!({ "subnetSelectorTerms": [{ "id": subnet }] }))
}

/// A pod with a label `app`, its name, that needs so much.
pub fn pod(name: &str, milli_cpu: i64) -> Value {
    let requests = json!({ "cpu": format!("{milli_cpu}m"), "memory": "256Mi" });
    json!({
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": { "containers": [{ "name": "main", "image": "pause", "resources": { "requests": requests } }] },
    })
}

/// A pod that this version cannot read, on a node or without one: its affinity has an operator of a later Kubernetes.
pub fn invalid_pod(name: &str, node: Option<&str>) -> Value {
    let mut pod = pod(name, 10);
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(node);
    }
    let expression = json!({ "key": "a", "operator": "OfLaterKubernetes", "values": ["b"] });
    let terms = json!({ "nodeSelectorTerms": [{ "matchExpressions": [expression] }] });
    pod["spec"]["affinity"] = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": terms } });
    pod
}
