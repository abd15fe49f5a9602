//! Short forms of labels, requirements, taints and tolerations.

use serde_json::{Map, Value, json};

/// Short names of labels.
const KEYS: [(&str, &str); 15] = [
    ("zone", "topology.kubernetes.io/zone"),
    ("zone-id", "topology.k8s.aws/zone-id"),
    ("region", "topology.kubernetes.io/region"),
    ("hostname", "kubernetes.io/hostname"),
    ("arch", "kubernetes.io/arch"),
    ("os", "kubernetes.io/os"),
    ("type", "node.kubernetes.io/instance-type"),
    ("capacity-type", "karpenter.sh/capacity-type"),
    ("nodepool", "karpenter.sh/nodepool"),
    ("category", "karpenter.k8s.aws/instance-category"),
    ("family", "karpenter.k8s.aws/instance-family"),
    ("generation", "karpenter.k8s.aws/instance-generation"),
    ("size", "karpenter.k8s.aws/instance-size"),
    ("cpu", "karpenter.k8s.aws/instance-cpu"),
    ("memory", "karpenter.k8s.aws/instance-memory"),
];

/// The label with this short name; other texts are labels themselves.
pub(crate) fn key(short: &str) -> String {
    KEYS.iter().find(|(name, _)| *name == short).map_or(short, |(_, key)| key).to_owned()
}

/// A map with labels in place of short names.
pub(crate) fn keyed(map: &Map<String, Value>) -> Value {
    map.iter().map(|(short, value)| (key(short), value.clone())).collect()
}

/// A requirement: `KEY OPERATOR VALUE...`, with `minValues=N` at the end if it has them, or a map.
pub(crate) fn requirement(value: &Value) -> Value {
    let Some(text) = value.as_str() else { return value.clone() };
    let mut words = text.split([' ', ',']).filter(|word| !word.is_empty());
    let mut made =
        json!({ "key": key(words.next().unwrap_or_default()), "operator": words.next().unwrap_or_default() });
    let (least, values): (Vec<&str>, Vec<&str>) = words.partition(|word| word.starts_with("minValues="));
    if !values.is_empty() {
        made["values"] = json!(values);
    }
    if let Some(number) = least.first().and_then(|word| word.split_once('=')?.1.parse::<u32>().ok()) {
        made["minValues"] = json!(number);
    }
    made
}

pub(crate) fn requirements(all: &[Value]) -> Vec<Value> {
    all.iter().map(requirement).collect()
}

/// A taint: `KEY=VALUE:EFFECT`, `KEY:EFFECT` or a map.
pub(crate) fn taint(value: &Value) -> Value {
    let Some(text) = value.as_str() else { return value.clone() };
    let (name, effect) = text.rsplit_once(':').unwrap_or((text, ""));
    match name.split_once('=') {
        Some((name, value)) => json!({ "key": key(name), "value": value, "effect": effect }),
        None => json!({ "key": key(name), "effect": effect }),
    }
}

/// A toleration: `KEY=VALUE:EFFECT`, `KEY:EFFECT`, `KEY` or a map.
pub(crate) fn toleration(value: &Value) -> Value {
    let Some(text) = value.as_str() else { return value.clone() };
    let (name, effect) = text.rsplit_once(':').map_or((text, None), |(name, effect)| (name, Some(effect)));
    let mut made = match name.split_once('=') {
        Some((name, value)) => json!({ "key": key(name), "operator": "Equal", "value": value }),
        None => json!({ "key": key(name), "operator": "Exists" }),
    };
    if let Some(effect) = effect {
        made["effect"] = json!(effect);
    }
    made
}

/// Merges a value into another, unless it is null: maps by key, with null removing the key, and anything else as a whole.
pub(crate) fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (_, Value::Null) => {}
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                match value {
                    Value::Null => drop(into.remove(key)),
                    _ => merge(into.entry(key.clone()).or_insert(Value::Null), value),
                }
            }
        }
        (into @ Value::Null, Value::Object(_)) => {
            *into = json!({});
            merge(into, from);
        }
        (into, from) => *into = from.clone(),
    }
}
