//! NodePools and EC2NodeClasses of cases.

use crate::names::{keyed, merge, requirements, taint};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A NodePool: what differs from the default one.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct Pool {
    /// Labels of the nodes.
    labels: Map<String, Value>,
    /// Annotations of the nodes.
    annotations: Map<String, Value>,
    requirements: Vec<Value>,
    taints: Vec<Value>,
    startup_taints: Vec<Value>,
    class: Option<String>,
    weight: Option<Value>,
    replicas: Option<Value>,
    limits: Option<Value>,
    disruption: Value,
    expire_after: Option<String>,
    termination_grace_period: Option<String>,
    /// Merged into the manifest's `metadata`, `spec` and `status`.
    metadata: Value,
    spec: Value,
    status: Value,
}

impl Pool {
    pub(crate) fn manifest(&self, name: &str) -> Value {
        let class = self.class.as_deref().unwrap_or("default");
        let mut made = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": name },
            "spec": { "template": {
                "metadata": { "labels": keyed(&self.labels), "annotations": self.annotations },
                "spec": {
                    "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class },
                    "requirements": requirements(&self.requirements),
                },
            } },
        });
        let spec = &mut made["spec"];
        if self.replicas.is_none() {
            spec["disruption"] = json!({ "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s" });
        }
        for (field, value) in [("weight", &self.weight), ("replicas", &self.replicas), ("limits", &self.limits)] {
            spec[field] = json!(value);
        }
        merge(spec, &json!({ "disruption": self.disruption }));
        let template = &mut spec["template"]["spec"];
        template["expireAfter"] = json!(self.expire_after);
        template["terminationGracePeriod"] = json!(self.termination_grace_period);
        for (field, taints) in [("taints", &self.taints), ("startupTaints", &self.startup_taints)] {
            if !taints.is_empty() {
                template[field] = taints.iter().map(taint).collect();
            }
        }
        for (field, value) in [("metadata", &self.metadata), ("spec", &self.spec), ("status", &self.status)] {
            if !value.is_null() {
                merge(&mut made[field], value);
            }
        }
        without_nulls(&mut made);
        made
    }
}

/// An EC2NodeClass with this spec over the default one; `status` in it is the status.
pub(crate) fn class(name: &str, own: &Value) -> Value {
    let mut spec = json!({
        "role": "node",
        "amiSelectorTerms": [{ "alias": "al2023@latest" }],
        "subnetSelectorTerms": [{ "tags": { "karpenter.sh/discovery": "test" } }],
        "securityGroupSelectorTerms": [{ "tags": { "karpenter.sh/discovery": "test" } }],
    });
    merge(&mut spec, own);
    let status = spec.as_object_mut().and_then(|spec| spec.remove("status"));
    let mut made = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": { "name": name }, "spec": spec, "status": status,
    });
    without_nulls(&mut made);
    made
}

pub(crate) fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}
