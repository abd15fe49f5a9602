//! `spec.kubelet` in the definition: the settings that Karpenter 1.14 knows have its types, limits and rules, so that what
//! is wrong with them is refused at once. All others pass, so that no client loses them, and are checked by
//! [`parse`](super::parse) when the EC2NodeClass is looked at.

use super::{RESERVED, SIGNALS};
use crate::custom::rules::{QUANTITY, rules};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

pub(crate) fn schema(_: &mut SchemaGenerator) -> Schema {
    let reserved = |what: &str, field: &str| {
        let keys = format!("valid keys for {field} are {}", list(&RESERVED));
        let negative = format!("{field} value cannot be a negative resource quantity");
        let mut schema = by_name(what, "", &keys, &RESERVED);
        if let Some(rules) = schema["x-kubernetes-validations"].as_array_mut() {
            rules.push(json!({ "message": negative, "rule": "self.all(x, !self[x].startsWith('-'))" }));
        }
        schema
    };
    let signals = |what: &str, field: &str, pattern: &str| {
        by_name(what, pattern, &format!("valid keys for {field} are {}", list(&SIGNALS)), &SIGNALS)
    };
    let threshold = format!("^([0-9]{{1,2}}(\\.[0-9]+)?%|100(\\.0+)?%|{})$", QUANTITY.trim_matches(['^', '$']));
    let properties: Map<String, Value> = [
        ("clusterDNS", json!({
            "description": "Addresses of the cluster's DNS servers.", "type": "array", "items": { "type": "string" },
        })),
        ("cpuCFSQuota", json!({ "description": "Whether cpu limits are enforced.", "type": "boolean" })),
        ("evictionHard", signals("By signal, when pods are evicted at once.", "evictionHard", &threshold)),
        ("evictionMaxPodGracePeriod", integer("The longest grace period, in seconds, that an evicted pod gets.", None)),
        ("evictionSoft", signals("By signal, when pods are evicted after the grace period.", "evictionSoft", &threshold)),
        ("evictionSoftGracePeriod", signals(
            "The grace period of every signal in evictionSoft, such as 1m30s.", "evictionSoftGracePeriod", "",
        )),
        ("imageGCHighThresholdPercent", integer(
            "The disk use in percent above which images are collected.", Some((0, Some(100))),
        )),
        ("imageGCLowThresholdPercent", integer(
            "The disk use in percent down to which images are collected.", Some((0, Some(100))),
        )),
        ("kubeReserved", reserved(
            "What the kubelet and the container runtime keep for themselves: quantities, or CEL expressions.",
            "kubeReserved",
        )),
        ("maxPods", json!({
            "description": "How many pods a node may run: a number, or a text with a CEL expression.",
            "x-kubernetes-int-or-string": true,
        })),
        ("podsPerCore", integer("How many pods a node may run for each of its processors.", Some((0, None)))),
        ("systemReserved", reserved(
            "What the operating system keeps for itself: quantities, or CEL expressions.", "systemReserved",
        )),
    ]
    .into_iter()
    .map(|(name, schema)| (name.to_owned(), schema))
    .collect();
    json_schema!({
        "type": "object",
        "properties": properties,
        "x-kubernetes-preserve-unknown-fields": true,
        "x-kubernetes-validations": rules(&[
            (
                "imageGCHighThresholdPercent must be greater than imageGCLowThresholdPercent",
                "!has(self.imageGCHighThresholdPercent) || !has(self.imageGCLowThresholdPercent) || \
                 self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent",
            ),
            (
                "evictionSoft has a signal that evictionSoftGracePeriod lacks",
                "!has(self.evictionSoft) || self.evictionSoft.all(e, has(self.evictionSoftGracePeriod) && e in \
                 self.evictionSoftGracePeriod)",
            ),
            (
                "evictionSoftGracePeriod has a signal that evictionSoft lacks",
                "!has(self.evictionSoftGracePeriod) || self.evictionSoftGracePeriod.all(e, has(self.evictionSoft) && e in \
                 self.evictionSoft)",
            ),
        ]),
    })
}

fn integer(what: &str, range: Option<(i32, Option<i32>)>) -> Value {
    let mut schema = json!({ "description": what, "type": "integer", "format": "int32" });
    if let Some((least, most)) = range {
        schema["minimum"] = json!(least);
        if let Some(most) = most {
            schema["maximum"] = json!(most);
        }
    }
    schema
}

/// Texts by name, where only some names mean anything.
fn by_name(what: &str, pattern: &str, message: &str, names: &[&str]) -> Value {
    let mut value = json!({ "type": "string" });
    if !pattern.is_empty() {
        value["pattern"] = json!(pattern);
    }
    json!({
        "description": what,
        "type": "object",
        "additionalProperties": value,
        "maxProperties": names.len(),
        "x-kubernetes-validations": rules(&[(message, &format!("self.all(x, x in {})", list(names)))]),
    })
}

/// A list of texts, as CEL has it.
fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    format!("[{}]", quoted.join(","))
}
