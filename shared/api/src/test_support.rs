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
