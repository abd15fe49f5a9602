//! Patches Node objects.

use super::objects::{get, strings, update};
use nodeless_fake_kubernetes::ApiServer;
use nodeless_fake_kubernetes::controllers::object::{is_deleting, uid as uid_of};
use nodeless_fake_kubernetes::resource::NODES;
use nodeless_model::Taint;
use nodeless_ports::cluster::NodePatch;
use nodeless_ports::{ErrorKind, PortError};
use serde_json::{Value, json};

const OPERATION: &str = "Kubernetes patch Node";

/// Patches the current state of a node.
pub(super) fn patch(api: &ApiServer, name: &str, uid: &str, patch: &NodePatch) -> Result<(), PortError> {
    let gone = || PortError::new(ErrorKind::NotFound, OPERATION, format!("there is no node {name}"));
    let node = get(api, OPERATION, &NODES, "", name)?.ok_or_else(gone)?;
    if uid_of(&node) != uid {
        let message = format!("node {name} is no longer the object {uid}; another of that name has joined");
        return Err(PortError::new(ErrorKind::Conflict, OPERATION, message));
    }
    if let Some(label) = patch.unless_labelled.as_ref().filter(|label| !node["metadata"]["labels"][*label].is_null()) {
        let message = format!("node {name} has the label {label}: another process has added it");
        return Err(PortError::new(ErrorKind::Conflict, OPERATION, message));
    }
    let mut changed = node.as_ref().clone();
    change_labels(&mut changed, patch);
    change_finalizers(&mut changed, patch);
    change_owner(&mut changed, patch);
    change_taints(&mut changed, patch);
    if let Some(unschedulable) = patch.unschedulable {
        changed["spec"]["unschedulable"] = json!(unschedulable);
    }
    if changed == *node { Ok(()) } else { update(api, OPERATION, &NODES, changed).map(drop) }
}

fn change_labels(node: &mut Value, patch: &NodePatch) {
    for key in patch.remove_labels.iter().filter(|key| !patch.labels.contains_key(*key)) {
        if let Some(labels) = node["metadata"]["labels"].as_object_mut() {
            labels.remove(key);
        }
    }
    for (field, values) in [("labels", &patch.labels), ("annotations", &patch.annotations)] {
        for (key, value) in values {
            node["metadata"][field][key] = json!(value);
        }
    }
}

fn change_finalizers(node: &mut Value, patch: &NodePatch) {
    let present = strings(node, "/metadata/finalizers");
    let mut desired = present.clone();
    desired.retain(|finalizer| Some(finalizer) != patch.remove_finalizer.as_ref());
    // Kubernetes does not allow new finalizers on an object that is being deleted.
    let missing = patch.add_finalizer.iter().filter(|finalizer| !present.contains(finalizer));
    desired.extend(missing.filter(|_| !is_deleting(node)).cloned());
    if desired != present {
        node["metadata"]["finalizers"] = json!(desired);
    }
}

fn change_owner(node: &mut Value, patch: &NodePatch) {
    let Some((name, uid)) = &patch.owner else { return };
    let present = node.pointer("/metadata/ownerReferences").and_then(Value::as_array).cloned().unwrap_or_default();
    if present.iter().any(|owner| owner["uid"] == *uid) {
        return;
    }
    // With a reference to an earlier NodeClaim object of the same name, the garbage collector would delete the node.
    let stale = |owner: &Value| owner["kind"] == "NodeClaim" && owner["name"] == *name;
    let mut desired: Vec<Value> = present.into_iter().filter(|owner| !stale(owner)).collect();
    desired.push(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": name, "uid": uid, "blockOwnerDeletion": true
    }));
    node["metadata"]["ownerReferences"] = Value::Array(desired);
}

fn change_taints(node: &mut Value, patch: &NodePatch) {
    let present = node.pointer("/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default();
    let same =
        |present: &Value, taint: &Taint| present["key"] == *taint.key && present["effect"] == taint.effect.as_str();
    let mut desired = present.clone();
    desired.retain(|present| !patch.remove_taints.iter().any(|taint| same(present, taint)));
    for taint in &patch.add_taints {
        let is_there =
            |present: &&Value| same(present, taint) && present["value"].as_str().unwrap_or_default() == taint.value;
        if desired.iter().any(|present| is_there(&present)) {
            continue;
        }
        desired.retain(|present| !same(present, taint));
        let mut added = json!({ "key": taint.key, "effect": taint.effect.as_str() });
        if !taint.value.is_empty() {
            added["value"] = json!(taint.value);
        }
        desired.push(added);
    }
    if desired != present {
        node["spec"]["taints"] = Value::Array(desired);
    }
}
