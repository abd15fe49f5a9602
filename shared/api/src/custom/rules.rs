//! Building blocks of the schemas: CEL rules, patterns and shared subschemas.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// `x-kubernetes-validations` of (message, rule) pairs.
pub(crate) fn rules(pairs: &[(&str, &str)]) -> Value {
    pairs.iter().map(|(message, rule)| json!({ "message": message, "rule": rule })).collect()
}

/// A label key or qualified name, with an optional DNS prefix.
pub(crate) const QUALIFIED_NAME: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
/// The value of a label.
pub(crate) const LABEL_VALUE: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// A duration of seconds, minutes and hours.
pub(crate) const DURATION: &str = r"^([0-9]+(s|m|h))+$";
/// A duration of seconds, minutes and hours, or `Never`.
pub(crate) const NILLABLE_DURATION: &str = r"^(([0-9]+(s|m|h))+|Never)$";
/// A resource quantity.
pub(crate) const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Keys under `karpenter.k8s.aws` that a NodeOverlay may not match, although NodePools may require them.
const NOT_IN_OVERLAYS: [&str; 6] = [
    "capacity-reservation-id",
    "capacity-reservation-interruptible",
    "capacity-reservation-type",
    "instance-tenancy",
    "placement-group-id",
    "placement-group-partition",
];

/// Keys under `karpenter.k8s.aws` that users may write, all others of that domain being refused.
const AWS_KEYS: [&str; 28] = [
    "capacity-reservation-id",
    "capacity-reservation-interruptible",
    "capacity-reservation-type",
    "ec2nodeclass",
    "instance-accelerator-count",
    "instance-accelerator-manufacturer",
    "instance-accelerator-name",
    "instance-capability-flex",
    "instance-category",
    "instance-cpu",
    "instance-cpu-manufacturer",
    "instance-cpu-sustained-clock-speed-mhz",
    "instance-ebs-bandwidth",
    "instance-encryption-in-transit-supported",
    "instance-family",
    "instance-generation",
    "instance-gpu-count",
    "instance-gpu-manufacturer",
    "instance-gpu-memory",
    "instance-gpu-name",
    "instance-hypervisor",
    "instance-local-nvme",
    "instance-memory",
    "instance-network-bandwidth",
    "instance-size",
    "instance-tenancy",
    "placement-group-id",
    "placement-group-partition",
];

/// Where a label key is written, which decides which keys are refused.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Pool,
    Claim,
    Overlay,
}

/// The rules about label keys. `key` is how the expression names one key; `wrap` puts it into its context.
fn key_rules(key: &str, place: Place, wrap: impl Fn(String) -> String) -> Value {
    let taken = AWS_KEYS.iter().filter(|name| place != Place::Overlay || !NOT_IN_OVERLAYS.contains(name));
    let aws_keys: Vec<String> = taken.map(|name| format!("\"karpenter.k8s.aws/{name}\"")).collect();
    let domain = |domain: &str, allowed: &str| {
        let rule = format!(r#"{key} in [{allowed}] || !{key}.find("^([^/]+)").endsWith("{domain}")"#);
        json!({ "message": format!("label domain \"{domain}\" is restricted"), "rule": wrap(rule) })
    };
    let exact = |label: &str| json!({ "message": format!("label \"{label}\" is restricted"), "rule": wrap(format!("{key} != \"{label}\"")) });
    let mut list = vec![domain("karpenter.sh", r#""karpenter.sh/capacity-type", "karpenter.sh/nodepool""#)];
    if place == Place::Pool {
        list.push(exact("karpenter.sh/nodepool"));
    }
    list.push(exact("kubernetes.io/hostname"));
    list.push(domain("karpenter.k8s.aws", &aws_keys.join(", ")));
    Value::Array(list)
}

/// The rules for the key of a requirement of a NodePool, where the label of the pool itself is refused.
pub(crate) fn node_pool_requirement_key() -> Value {
    key_rules("self", Place::Pool, |rule| rule)
}

/// The rules for the key of a requirement of a NodeClaim.
pub(crate) fn node_claim_requirement_key() -> Value {
    key_rules("self", Place::Claim, |rule| rule)
}

/// The rules for the key of a requirement of a NodeOverlay.
pub(crate) fn node_overlay_requirement_key() -> Value {
    key_rules("self", Place::Overlay, |rule| rule)
}

/// Extended resources of a NodeOverlay.
pub(crate) fn overlay_capacity(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = resource_list(generator);
    let rule = "self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))";
    schema.insert("x-kubernetes-validations".to_owned(), rules(&[("invalid resource restricted", rule)]));
    schema
}

/// Tags that select AWS resources: `*` as the value asks only for the key.
pub(crate) fn selector_tags(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": { "type": "string" },
        "maxProperties": 20,
        "x-kubernetes-validations": rules(&[
            ("empty tag keys or values aren't supported", "self.all(k, k != '' && self[k] != '')"),
        ]),
    })
}

/// Labels of the nodes of a NodePool.
pub(crate) fn template_labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": { "type": "string", "maxLength": 63, "pattern": LABEL_VALUE },
        "maxProperties": 100,
        "x-kubernetes-map-type": "atomic",
        "x-kubernetes-validations": key_rules("x", Place::Pool, |rule| format!("self.all(x, {rule})")),
    })
}

/// Resource quantities by name; whole numbers are as good as strings.
pub(crate) fn resource_list(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "pattern": QUANTITY,
            "x-kubernetes-int-or-string": true,
        },
    })
}

/// Conditions of a NodePool or EC2NodeClass, in which a reason is required.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    let reason = json!({
        "description": "Why the condition has this status: one word in CamelCase.",
        "type": "string",
        "minLength": 1,
        "maxLength": 1024,
        "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
    });
    condition_list(&reason, &json!(["lastTransitionTime", "message", "reason", "status", "type"]))
}

/// Conditions of a NodeClaim, in which reason and message may be missing.
pub(crate) fn relaxed_conditions(_: &mut SchemaGenerator) -> Schema {
    let reason = json!({
        "description": "Why the condition has this status: one word in CamelCase, or nothing.",
        "type": "string",
        "maxLength": 1024,
        "pattern": "^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$",
    });
    condition_list(&reason, &json!(["lastTransitionTime", "status", "type"]))
}

fn condition_list(reason: &Value, required: &Value) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "description": "One aspect of the object's health.",
            "type": "object",
            "required": required,
            "properties": {
                "lastTransitionTime": {
                    "description": "When the status last changed.",
                    "type": "string",
                    "format": "date-time",
                },
                "message": { "description": "Details for a person.", "type": "string", "maxLength": 32768 },
                "observedGeneration": {
                    "description": "The generation of the object that the status is about.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
                "reason": reason,
                "status": { "description": "True, False or Unknown.", "type": "string", "enum": ["True", "False", "Unknown"] },
                "type": {
                    "description": "Which aspect this is.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
            },
        },
    })
}
