//! The labels, annotations and taints of Nodes, computed from their JSON and the claims.

use super::nodes::Nodes;
use super::text;
use nodeless_model::{NodeClaim, Phase, StringMap, Taint};
use serde_json::Value;

/// Registered Nodes that lack what their claims have: labels of the NodePool's template and of the instance, annotations and taints.
pub(super) fn differences(nodes: &Nodes, claims: &[NodeClaim]) -> Vec<String> {
    let has_joined = |phase| matches!(phase, Phase::Registered | Phase::Preparing | Phase::Initialized);
    let joined = claims.iter().filter(|claim| has_joined(claim.phase));
    joined
        .flat_map(|claim| nodes.of_claim(claim).map(move |node| (claim, node)))
        .filter_map(|(claim, node)| {
            let lacks = lacks(claim, node);
            let name = text(node, "/metadata/name");
            (!lacks.is_empty()).then(|| format!("Node {name} of claim {} lacks {}", claim.name, lacks.join(", ")))
        })
        .collect()
}

fn lacks(claim: &NodeClaim, node: &Value) -> Vec<String> {
    let mut labels_of_claim = claim.status.labels.clone();
    labels_of_claim.extend(claim.spec.labels.clone());
    let mut lacks = missing("label", &labels_of_claim, &node["metadata"]["labels"]);
    lacks.extend(missing("annotation", &claim.spec.annotations, &node["metadata"]["annotations"]));
    let absent = claim.spec.taints.iter().filter(|taint| !has_taint(node, taint));
    lacks.extend(absent.map(|taint| format!("the taint {taint}")));
    lacks
}

fn missing(what: &str, desired: &StringMap, present: &Value) -> Vec<String> {
    let absent = desired.iter().filter(|(key, value)| present[key.as_str()] != value.as_str());
    absent.map(|(key, value)| format!("the {what} {key}={value}")).collect()
}

fn has_taint(node: &Value, taint: &Taint) -> bool {
    let taints = node.pointer("/spec/taints").and_then(Value::as_array);
    taints.into_iter().flatten().any(|it| {
        text(it, "/key") == taint.key
            && text(it, "/value") == taint.value
            && text(it, "/effect") == taint.effect.as_str()
    })
}
