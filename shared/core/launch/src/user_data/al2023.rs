//! Amazon Linux 2023: a MIME document whose last part is nodeadm's NodeConfig. nodeadm merges all NodeConfig parts, and
//! the last one wins.

use super::mime::{self, NODE_CONFIG};
use super::{UserDataError, UserDataInput};
use nodeless_api::nodeclass::{AmiFamily, InstanceStorePolicy};
use serde_json::{Map, Value, json};

pub(super) fn user_data(input: &UserDataInput<'_>) -> Result<String, UserDataError> {
    let custom = input.custom.map(str::trim).filter(|text| !text.is_empty());
    let mut parts = custom.map(parts).transpose().map_err(|why| UserDataError::Custom { why })?.unwrap_or_default();
    let config = serde_json::to_string_pretty(&node_config(input)?)
        .map_err(|error| UserDataError::Custom { why: error.to_string() })?;
    parts.push(mime::part(NODE_CONFIG, &config));
    Ok(mime::document(&parts))
}

/// The parts of the user's data, each with its headers.
pub(super) fn parts(text: &str) -> Result<Vec<String>, String> {
    if mime::is_document(text) {
        mime::parts(text)
    } else if is_node_config(text) {
        Ok(vec![mime::part(NODE_CONFIG, text)])
    } else {
        Ok(vec![mime::part("text/x-shellscript; charset=\"us-ascii\"", text)])
    }
}

/// Whether the text is a NodeConfig: YAML or JSON with one of its two names. A script that writes one is not.
fn is_node_config(text: &str) -> bool {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap_or_default();
    let Some(fields) = documents.first().and_then(Value::as_object) else { return false };
    let field = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
    field("kind") == "NodeConfig" || field("apiVersion").starts_with("node.eks.aws/")
}

/// nodeadm reads YAML, which includes JSON.
fn node_config(input: &UserDataInput<'_>) -> Result<Value, UserDataError> {
    let cluster = input.cluster;
    let cidr = cluster.service_cidr.as_deref().ok_or(UserDataError::Cluster {
        what: "serviceIpv4Cidr or serviceIpv6Cidr",
        family: AmiFamily::AL2023.name(),
    })?;
    let labels: Vec<String> = input.kubelet_labels().iter().map(|(key, value)| format!("{key}={value}")).collect();
    let mut spec = json!({
        "cluster": {
            "name": cluster.name,
            "apiServerEndpoint": cluster.endpoint,
            "certificateAuthority": cluster.certificate_authority,
            "cidr": cidr,
        },
        "kubelet": {
            "config": kubelet_config(input),
            "flags": [format!("--node-labels={}", labels.join(","))],
        },
    });
    if input.instance_store == Some(InstanceStorePolicy::Raid0) {
        spec["instance"] = json!({ "localStorage": { "strategy": "RAID0" } });
    }
    Ok(json!({ "apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec }))
}

/// The KubeletConfiguration of the EC2NodeClass, overridden by the values of nodeless. Values that nodeadm computes by the same
/// rules as the catalog (kube-reserved follows from the instance type and the maximum number of pods) are left to nodeadm.
fn kubelet_config(input: &UserDataInput<'_>) -> Value {
    let mut config: Map<String, Value> = input.kubelet_fields.clone().into_iter().collect();
    config.insert("maxPods".to_owned(), json!(input.max_pods));
    config.insert("registerWithTaints".to_owned(), json!(input.taints));
    Value::Object(config)
}
