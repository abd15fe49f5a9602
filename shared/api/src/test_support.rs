//! Complete objects for tests, which change the fields that they are about. Compiled only with the feature `test-support`,
//! which nothing that ships enables.

use crate::EC2NodeClass;
use serde_json::{Value, json};

/// The manifest of an EC2NodeClass for nodes of AL2023 with the role `CLUSTER-node`, in the subnets and security groups with
/// the tag `karpenter.sh/discovery: CLUSTER`.
///
/// The members of `fields` replace fields of its spec, and a null removes one.
///
/// # Panics
/// If `fields` is not an object.
#[must_use]
pub fn ec2_node_class_manifest(name: &str, cluster: &str, fields: &Value) -> Value {
    let discovery = json!([{ "tags": { "karpenter.sh/discovery": cluster } }]);
    let mut manifest = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": { "name": name },
        "spec": {
            "role": format!("{cluster}-node"), "amiSelectorTerms": [{ "alias": "al2023@latest" }],
            "subnetSelectorTerms": discovery, "securityGroupSelectorTerms": discovery,
        },
    });
    replace(&mut manifest["spec"], fields);
    manifest
}

/// The manifest of a NodePool that launches from the EC2NodeClass `default`, with these requirements of its template.
///
/// The members of `fields` replace fields of its spec, and a null removes one.
///
/// # Panics
/// If `fields` is not an object.
#[must_use]
pub fn node_pool_manifest(name: &str, requirements: &Value, fields: &Value) -> Value {
    let mut manifest = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": name },
        "spec": { "template": { "spec": {
            "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
            "requirements": requirements,
        } } },
    });
    replace(&mut manifest["spec"], fields);
    manifest
}

/// Replaces fields of a spec; a null removes one.
fn replace(spec: &mut Value, fields: &Value) {
    let Value::Object(fields) = fields else { panic!("the fields of a spec are an object, not {fields}") };
    if let Some(spec) = spec.as_object_mut() {
        spec.extend(fields.clone());
        spec.retain(|_, value| !value.is_null());
    }
}

/// [`ec2_node_class_manifest`] as an object of the API.
///
/// # Panics
/// If `fields` is not an object, or has a value that the API does not accept.
#[must_use]
pub fn ec2_node_class(name: &str, cluster: &str, fields: &Value) -> EC2NodeClass {
    let manifest = ec2_node_class_manifest(name, cluster, fields);
    serde_json::from_value(manifest).unwrap_or_else(|error| panic!("the EC2NodeClass {name}: {error}"))
}

/// The manifest of the NodePool `general-purpose` of EKS Auto Mode. Its class has the name of the example's EC2NodeClass.
#[must_use]
pub fn auto_mode_node_pool() -> Value {
    let requirement =
        |key: &str, operator: &str, values: &[&str]| json!({ "key": key, "operator": operator, "values": values });
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": { "name": "general-purpose", "labels": { "app.kubernetes.io/managed-by": "eks" } },
        "spec": {
            "template": { "spec": {
                "nodeClassRef": { "group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default" },
                "expireAfter": "336h", "terminationGracePeriod": "24h",
                "requirements": [
                    requirement("karpenter.sh/capacity-type", "In", &["on-demand"]),
                    requirement("eks.amazonaws.com/instance-category", "In", &["c", "m", "r"]),
                    requirement("eks.amazonaws.com/instance-generation", "Gt", &["4"]),
                    requirement("kubernetes.io/arch", "In", &["amd64"]),
                    requirement("kubernetes.io/os", "In", &["linux"]),
                ],
            } },
            "disruption": {
                "budgets": [{ "nodes": "10%" }], "consolidateAfter": "30s",
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
            },
        },
    })
}

/// The manifest of a NodeClaim of EKS Auto Mode, for the node of [`auto_mode_node`].
#[must_use]
pub fn auto_mode_node_claim() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": "general-purpose-abcde",
            "labels": {
                "karpenter.sh/nodepool": "general-purpose", "eks.amazonaws.com/compute-type": "auto",
                "node.kubernetes.io/instance-type": "c6a.large", "topology.kubernetes.io/zone": "us-east-1a",
                "karpenter.sh/capacity-type": "on-demand",
            },
            "finalizers": ["karpenter.sh/termination"],
        },
        "spec": {
            "nodeClassRef": { "group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default" },
            "requirements": [{ "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] }],
        },
    })
}

/// The manifest of a Node of EKS Auto Mode that is not ready yet.
#[must_use]
pub fn auto_mode_node() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": "i-0123456789abcdef0", "finalizers": ["karpenter.sh/termination"],
            "labels": {
                "karpenter.sh/nodepool": "general-purpose", "karpenter.sh/registered": "true",
                "karpenter.sh/initialized": "true", "eks.amazonaws.com/compute-type": "auto",
                "eks.amazonaws.com/nodeclass": "default", "node.kubernetes.io/instance-type": "c6a.large",
                "topology.kubernetes.io/zone": "us-east-1a", "topology.kubernetes.io/region": "us-east-1",
                "karpenter.sh/capacity-type": "on-demand", "kubernetes.io/hostname": "i-0123456789abcdef0",
                "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
            },
        },
        "spec": { "providerID": "aws:///us-east-1a/i-0123456789abcdef0" },
    })
}
