//! Nodes of cases, with their NodeClaims.

use crate::names::{key, merge, taint};
use crate::pools::without_nulls;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A node.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct GivenNode {
    name: String,
    /// The number of such nodes, named `NAME-0` and so on.
    count: Option<usize>,
    #[serde(rename = "type", default = "default_type")]
    instance_type: String,
    #[serde(default = "default_zone")]
    zone: String,
    #[serde(default = "default_capacity_type")]
    capacity_type: String,
    /// Its NodePool; `none` for a node that no NodePool manages.
    #[serde(default = "default_pool")]
    pool: String,
    /// How long it has existed.
    age: Option<SignedDuration>,
    /// Whether it is `Ready`.
    #[serde(default = "yes")]
    ready: bool,
    #[serde(default)]
    labels: Map<String, Value>,
    #[serde(default)]
    annotations: Map<String, Value>,
    #[serde(default)]
    taints: Vec<Value>,
    /// Merged into the manifest.
    #[serde(default)]
    metadata: Value,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: Value,
    /// Whether it has a NodeClaim in the input: what is merged into its manifest.
    claim: Option<Value>,
    /// Whether only the NodeClaim exists.
    #[serde(default)]
    in_flight: bool,
}

fn default_type() -> String {
    "m5.large".to_owned()
}

fn default_zone() -> String {
    "us-east-1a".to_owned()
}

fn default_capacity_type() -> String {
    "on-demand".to_owned()
}

fn default_pool() -> String {
    "default".to_owned()
}

const fn yes() -> bool {
    true
}

impl GivenNode {
    /// The manifests of the Nodes, and of their NodeClaims.
    pub(crate) fn manifests(&self, at: Timestamp) -> Vec<Value> {
        let names: Vec<String> = match self.count {
            None => vec![self.name.clone()],
            Some(count) => (0..count).map(|number| format!("{}-{number}", self.name)).collect(),
        };
        names.iter().flat_map(|name| self.manifests_of(name, at)).collect()
    }

    fn manifests_of(&self, name: &str, at: Timestamp) -> Vec<Value> {
        let node = (!self.in_flight).then(|| self.node(name, at));
        let claim = self.claim.as_ref().map(|own| self.node_claim(name, own, at));
        let mut made: Vec<Value> = node.into_iter().chain(claim).collect();
        made.iter_mut().for_each(without_nulls);
        made
    }

    fn labels(&self, name: &str) -> Value {
        let (family, size) = self.instance_type.split_once('.').unwrap_or((&self.instance_type, ""));
        let generation_at = family.find(|letter: char| letter.is_ascii_digit()).unwrap_or(family.len());
        let (category, rest) = family.split_at(generation_at);
        let generation: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let arm = rest.trim_start_matches(|letter: char| letter.is_ascii_digit()).starts_with('g');
        let mut made = json!({
            key("hostname"): name, key("os"): "linux", key("arch"): if arm { "arm64" } else { "amd64" },
            key("type"): self.instance_type, key("zone"): self.zone, key("region"): "us-east-1",
            key("capacity-type"): self.capacity_type, key("family"): family, key("size"): size,
            key("category"): category, key("generation"): generation,
        });
        if self.pool != "none" {
            let own = json!({ key("nodepool"): self.pool, "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true" });
            merge(&mut made, &own);
        }
        let own: Value = self.labels.iter().map(|(short, value)| (key(short), value.clone())).collect();
        merge(&mut made, &own);
        made
    }

    fn created(&self, at: Timestamp) -> String {
        (at - self.age.unwrap_or(SignedDuration::from_hours(2))).to_string()
    }

    /// The ID of an instance, the same for the same name.
    fn provider_id(&self, name: &str) -> String {
        let digits: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
        format!("aws:///{}/i-{digits:0>17}", self.zone)
    }

    fn node(&self, name: &str, at: Timestamp) -> Value {
        let created = self.created(at);
        let ready = if self.ready { "True" } else { "False" };
        let mut made = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": name, "creationTimestamp": created, "labels": self.labels(name), "annotations": self.annotations,
            },
            "spec": { "providerID": self.provider_id(name), "taints": self.taints.iter().map(taint).collect::<Vec<_>>() },
            "status": { "conditions": [{ "type": "Ready", "status": ready, "lastTransitionTime": created }] },
        });
        for (field, value) in [("metadata", &self.metadata), ("spec", &self.spec), ("status", &self.status)] {
            if !value.is_null() {
                merge(&mut made[field], value);
            }
        }
        made
    }

    fn node_claim(&self, name: &str, own: &Value, at: Timestamp) -> Value {
        let created = self.created(at);
        let kinds = if self.in_flight { &["Launched"][..] } else { &["Launched", "Registered", "Initialized"] };
        let condition = |kind: &&str| json!({ "type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": created });
        let mut labels = self.labels(name);
        merge(&mut labels, &json!({ key("hostname"): null }));
        let mut made = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": { "name": name, "uid": name, "creationTimestamp": created, "labels": labels, "annotations": self.annotations },
            "spec": {
                "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
                "requirements": [], "taints": self.taints.iter().map(taint).collect::<Vec<_>>(),
            },
            "status": {
                "providerID": self.provider_id(name), "nodeName": if self.in_flight { Value::Null } else { json!(name) },
                "conditions": kinds.iter().map(condition).collect::<Vec<_>>(),
            },
        });
        merge(&mut made, own);
        made
    }
}
