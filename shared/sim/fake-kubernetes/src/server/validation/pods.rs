//! Tolerations, and changes of pods, as `ValidateTolerations`, `ValidatePodUpdate` and `ValidatePodResize` of Kubernetes 1.36 validate them.

use super::list;
use crate::server::path::{Path as _, text};
use crate::server::status::FieldError;
use serde_json::{Map, Value, json};

const UPDATE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
    tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

/// The operator of a toleration, and its value where a number is compared.
pub(super) fn toleration(toleration: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match text(toleration, "/operator") {
        "" | "Equal" | "Exists" => {}
        "Lt" | "Gt" => {
            let value = text(toleration, "/value");
            if value.parse::<i64>().ok().is_none_or(|number| number.to_string() != value) {
                let detail = "must be a valid decimal integer in canonical form";
                errors.push(FieldError::invalid(format!("{path}.value"), &json!(value), detail));
            }
        }
        other => {
            let path = format!("{path}.operator");
            errors.push(FieldError::not_supported(path, &json!(other), &["Equal", "Exists"]));
        }
    }
}

/// Errors of a change of the spec of a pod.
pub(super) fn update(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let gates = |pod: &Value| -> Vec<String> {
        list(pod, "/spec/schedulingGates").iter().map(|gate| text(gate, "/name").to_owned()).collect()
    };
    let before = gates(old);
    for (index, gate) in gates(new).iter().enumerate().filter(|(_, gate)| !before.contains(gate)) {
        let detail = format!("only deletion is allowed, but found new scheduling gate '{gate}'");
        errors.push(FieldError::forbidden(format!("spec.schedulingGates[{index}].name"), &detail));
    }
    let mut fixed = [unchangeable(old), unchangeable(new)];
    if !before.is_empty() {
        narrowed(old, new, errors);
        fixed.iter_mut().for_each(without_node_selection);
    }
    let kept = list(old, "/spec/tolerations").iter().all(|it| list(new, "/spec/tolerations").contains(it));
    if fixed[0] != fixed[1] || !kept {
        errors.push(FieldError::forbidden("spec", UPDATE));
    }
}

/// The spec of a pod without the fields that may change.
fn unchangeable(pod: &Value) -> Value {
    let mut spec = pod.get("spec").cloned().unwrap_or_default();
    remove(&mut spec, &["activeDeadlineSeconds", "tolerations", "schedulingGates"]);
    for field in CONTAINERS {
        let containers = spec.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten();
        containers.for_each(|container| remove(container, &["image"]));
    }
    spec
}

fn remove(object: &mut Value, fields: &[&str]) {
    if let Some(map) = object.as_object_mut() {
        fields.iter().for_each(|field| drop(map.remove(*field)));
    }
}

/// Removes the node selector and the node affinity of a spec.
fn without_node_selection(spec: &mut Value) {
    remove(spec, &["nodeSelector"]);
    if let Some(affinity) = spec.get_mut("affinity") {
        remove(affinity, &["nodeAffinity"]);
    }
    if spec.get("affinity").and_then(Value::as_object).is_some_and(Map::is_empty) {
        remove(spec, &["affinity"]);
    }
}

/// Errors where the nodes of a gated pod are selected by less than before.
fn narrowed(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let empty = Map::new();
    let [before, after] =
        [old, new].map(|pod| pod.at("/spec/nodeSelector").and_then(Value::as_object).unwrap_or(&empty));
    if before.iter().any(|(key, value)| after.get(key) != Some(value)) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.push(FieldError::invalid("spec.nodeSelector", &json!(after), detail));
    }
    let field = "affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let path = format!("spec.{}", field.replace('/', "."));
    let pointer = format!("/spec/{field}");
    let (before, after) = (list(old, &pointer), list(new, &pointer));
    if before.is_empty() {
        return;
    }
    if before.len() != after.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.push(FieldError::invalid(path, &json!(after), detail));
        return;
    }
    for (index, (before, after)) in before.iter().zip(after).enumerate() {
        let lists = ["/matchExpressions", "/matchFields"].map(|field| (list(before, field), list(after, field)));
        let selects_none = lists.iter().all(|(before, _)| before.is_empty());
        let is_added = lists.iter().all(|(before, after)| after.starts_with(before));
        if !is_added || (selects_none && lists.iter().any(|(_, after)| !after.is_empty())) {
            let detail = "only additions are allowed (no mutations or deletions)";
            errors.push(FieldError::invalid(format!("{path}[{index}]"), after, detail));
        }
    }
}

/// A pod with the resources and resize policies of the containers of another, and why it may not have them.
pub(crate) fn resized(old: &Value, given: &Value) -> (Value, Vec<FieldError>) {
    let (mut pod, mut errors) = (old.clone(), Vec::new());
    for field in CONTAINERS {
        let (before, after) = (list(old, &format!("/spec/{field}")), list(given, &format!("/spec/{field}")));
        if before.len() != after.len() {
            let detail = format!("{field} may not be added or removed on resize");
            errors.push(FieldError::forbidden(format!("spec.{field}"), &detail));
            continue;
        }
        for (index, (before, after)) in before.iter().zip(after).enumerate() {
            let path = format!("spec.{field}[{index}]");
            if before["name"] != after["name"] {
                let detail = format!("{field} may not be renamed or reordered on resize");
                errors.push(FieldError::forbidden(format!("{path}.name"), &detail));
                continue;
            }
            resize_of_container(before, after, field, &path, &mut errors);
            for part in ["resources", "resizePolicy"] {
                if let Some(value) = after.get(part) {
                    pod["spec"][field][index][part] = value.clone();
                }
            }
        }
    }
    (pod, errors)
}

fn resize_of_container(before: &Value, after: &Value, field: &str, path: &str, errors: &mut Vec<FieldError>) {
    let mut others = [before, after].map(|container| container["resources"].clone());
    if field == "initContainers" && text(before, "/restartPolicy") != "Always" && others[0] != others[1] {
        errors.push(FieldError::forbidden("spec", "resources for non-sidecar init containers are immutable"));
        return;
    }
    for kind in ["requests", "limits"] {
        let names = |container: &Value| -> Vec<String> {
            let map = container.at(&format!("/resources/{kind}")).and_then(Value::as_object);
            map.into_iter().flatten().map(|(name, _)| name.clone()).collect()
        };
        let left = names(after);
        if names(before).iter().any(|name| !left.contains(name)) {
            let detail = format!("resource {kind} cannot be removed");
            errors.push(FieldError::forbidden(format!("{path}.resources.{kind}"), &detail));
        }
        for resources in &mut others {
            if let Some(amounts) = resources.get_mut(kind) {
                remove(amounts, &["cpu", "memory"]);
            }
        }
    }
    let empty = |resources: &mut Value| {
        if let Some(map) = resources.as_object_mut() {
            map.retain(|_, value| value.as_object().is_none_or(|amounts| !amounts.is_empty()));
        }
    };
    others.iter_mut().for_each(empty);
    let is_none = |resources: &Value| resources.as_object().is_none_or(Map::is_empty);
    if others[0] != others[1] && !others.iter().all(is_none) {
        errors.push(FieldError::forbidden("spec", "only cpu and memory resources are mutable"));
    }
}
