//! Changes to Node objects.

use crate::failure::CallError;
use crate::kinds::{Kind as _, Nodes};
use crate::merge::{string, strings};
use crate::object_cluster::ObjectCluster;
use crate::objects::{Deletion, ObjectAt, Objects, Part, PatchKind, read};
use nodeless_api::resources::NODE_CLAIMS;
use nodeless_model::{Node, Taint, TaintEffect};
use nodeless_ports::cluster::NodePatch;
use nodeless_ports::{ErrorKind, PortError};
use serde_json::{Map, Value, json};
use std::sync::Arc;

const OPERATION: &str = "Kubernetes patch Node";
/// How often a node is read again after a conflict. The kubelet and the node controllers write to it frequently.
const ATTEMPTS: u32 = 5;

/// The place of a node.
pub(crate) const fn at(name: &str) -> ObjectAt<'_> {
    ObjectAt::cluster_scoped(Nodes::PATH, name)
}

impl<O: Objects> ObjectCluster<O> {
    /// Patches a node. The patch is based on the cached object if no other process has changed it since, and otherwise on the
    /// current one.
    pub(crate) async fn change_node(&self, name: &str, uid: &str, patch: &NodePatch) -> Result<(), PortError> {
        let (at, path) = (at(name), at(name).url());
        let keep = |patched: Arc<Value>| self.recent.keep_node(&path, patched, self.now());
        if let Some(body) = release(uid, patch) {
            let released = self.objects.patch(OPERATION, Part::Object(at), PatchKind::Strategic, &body).await;
            return released.map(keep).map_err(Into::into);
        }
        let listed = || self.recent.get(&listed_path(name), self.now()).filter(|_| patch.owner.is_none());
        let kept = self.recent.get(&path, self.now()).or_else(listed);
        let kept =
            kept.filter(|node| string(node, "/metadata/uid") == Some(uid) && present_label(node, patch).is_none());
        // Only a read of the current object shows that there is nothing to change.
        if let Some(body) = kept.and_then(|node| merge_patch(&node, patch)) {
            match self.objects.patch(OPERATION, Part::Object(at), PatchKind::Merge, &body).await {
                Ok(patched) => {
                    keep(patched);
                    return Ok(());
                }
                Err(failed) => {
                    self.recent.forget(&path);
                    self.recent.forget(&listed_path(name));
                    if !failed.is(409) {
                        return Err(failed.into());
                    }
                }
            }
        }
        let mut last = None;
        for attempt in 0..ATTEMPTS {
            let node = read(&self.objects, OPERATION, at).await?.ok_or_else(|| gone(name))?;
            check(&node, uid, patch)
                .map_err(|why| PortError::new(ErrorKind::Conflict, OPERATION, format!("node {name} {why}")))?;
            let Some(body) = merge_patch(&node, patch) else { return Ok(()) };
            match self.objects.patch(OPERATION, Part::Object(at), PatchKind::Merge, &body).await {
                Err(failed) if failed.is(409) => last = Some(failed),
                done => return done.map(keep).map_err(Into::into),
            }
            self.after_conflict(attempt).await;
        }
        Err(last.map_or_else(|| gone(name), CallError::into))
    }

    /// Deletes a node if it still has this uid.
    pub(crate) async fn remove_node(&self, name: &str, uid: &str) -> Result<(), PortError> {
        let options = Deletion { uid: Some(uid), ..Deletion::default() };
        self.remove("Kubernetes delete Node", at(name), options).await.map(drop).map_err(Into::into)
    }

    /// Removes a finalizer from an object, which is read unless it is `known`. Retries after conflicts; succeeds if the object does not
    /// exist.
    pub(crate) async fn remove_finalizer(
        &self,
        operation: &str,
        at: ObjectAt<'_>,
        finalizer: &str,
        known: Option<Arc<Value>>,
    ) -> Result<(), PortError> {
        let (mut last, mut known) = (None, known);
        for attempt in 0..ATTEMPTS {
            let found = match known.take() {
                Some(object) => Some(object),
                None => read(&self.objects, operation, at).await?,
            };
            let Some(object) = found else { return Ok(()) };
            let present = strings(&object, "/metadata/finalizers");
            if !present.iter().any(|name| name == finalizer) {
                return Ok(());
            }
            let left: Vec<String> = present.into_iter().filter(|name| name != finalizer).collect();
            let version = object.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
            let body = json!({ "metadata": { "finalizers": left, "resourceVersion": version } });
            match self.objects.patch(operation, Part::Object(at), PatchKind::Merge, &body).await {
                Ok(_) => return Ok(()),
                Err(failed) if failed.is(404) => return Ok(()),
                Err(failed) if failed.is(409) => last = Some(failed),
                Err(failed) => return Err(failed.into()),
            }
            self.after_conflict(attempt).await;
        }
        let message = format!("other clients changed {} during every attempt to remove a finalizer", at.url());
        Err(last.map_or_else(|| PortError::new(ErrorKind::Conflict, operation, message), CallError::into))
    }
}

/// Whether a node is the object that a patch is for.
fn check(node: &Value, uid: &str, patch: &NodePatch) -> Result<(), String> {
    if string(node, "/metadata/uid") != Some(uid) {
        return Err(format!("no longer has the uid {uid}; another node with that name has joined"));
    }
    match present_label(node, patch) {
        Some(label) => Err(format!("has the label {label}: another process has added it")),
        None => Ok(()),
    }
}

/// The label without which the patch is made, if the node has it.
fn present_label<'p>(node: &Value, patch: &'p NodePatch) -> Option<&'p String> {
    let labels = node.pointer("/metadata/labels");
    patch.unless_labelled.as_ref().filter(|label| labels.is_some_and(|it| it.get(*label).is_some()))
}

/// The key among the recent objects of a node as it was [`listed`].
pub(crate) fn listed_path(name: &str) -> String {
    format!("{}#listed", at(name).url())
}

/// What patches need of a node that is cached in its reduced form, but for its owners, which that form lacks. `None` if a taint has the effect
/// NoExecute: the form also lacks the time at which such a taint was added, and a patch replaces all taints.
pub(crate) fn listed(node: &Node, version: &str) -> Option<Value> {
    if version.is_empty() || node.taints.iter().any(|taint| taint.effect == TaintEffect::NoExecute) {
        return None;
    }
    let metadata = json!({
        "uid": node.uid, "resourceVersion": version,
        "labels": node.labels, "annotations": node.annotations, "finalizers": node.finalizers,
    });
    Some(json!({ "metadata": metadata, "spec": { "taints": node.taints, "unschedulable": node.unschedulable } }))
}

/// The strategic merge patch that removes a finalizer, whatever else the node has; `None` if the patch changes something else too.
fn release(uid: &str, patch: &NodePatch) -> Option<Value> {
    let finalizer = patch.remove_finalizer.as_ref()?;
    let only = NodePatch { remove_finalizer: Some(finalizer.clone()), ..NodePatch::default() };
    (*patch == only).then(|| json!({ "metadata": { "uid": uid, "$deleteFromPrimitiveList/finalizers": [finalizer] } }))
}

fn gone(name: &str) -> PortError {
    PortError::new(ErrorKind::NotFound, OPERATION, format!("there is no node {name}"))
}

/// The merge patch for the current node; `None` when there is nothing to change.
///
/// A merge patch replaces whole lists, so a patch with a list contains the resourceVersion at which the list was read, as one does that
/// depends on a label.
fn merge_patch(node: &Value, patch: &NodePatch) -> Option<Value> {
    let mut metadata = Map::new();
    let labels = map_changes(node, "/metadata/labels", &patch.labels, &patch.remove_labels);
    let annotations = map_changes(node, "/metadata/annotations", &patch.annotations, &[]);
    metadata.extend(labels.map(|labels| ("labels".to_owned(), labels)));
    metadata.extend(annotations.map(|annotations| ("annotations".to_owned(), annotations)));
    let finalizers = finalizers(node, patch).map(|finalizers| ("finalizers".to_owned(), json!(finalizers)));
    let owners = owners(node, patch).map(|owners| ("ownerReferences".to_owned(), owners));
    let taints = taints(node, patch);
    let is_conditional =
        finalizers.is_some() || owners.is_some() || taints.is_some() || patch.unless_labelled.is_some();
    metadata.extend(finalizers);
    metadata.extend(owners);
    let present = node.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or(false);
    let unschedulable = patch.unschedulable.filter(|desired| *desired != present);
    if metadata.is_empty() && taints.is_none() && unschedulable.is_none() {
        return None;
    }
    // The API server rejects a patch with another uid than the object's.
    metadata.insert("uid".to_owned(), node.pointer("/metadata/uid")?.clone());
    if is_conditional {
        metadata.insert("resourceVersion".to_owned(), node.pointer("/metadata/resourceVersion")?.clone());
    }
    let mut body = json!({ "metadata": metadata });
    if let Some(taints) = taints {
        body["spec"]["taints"] = Value::Array(taints);
    }
    if let Some(unschedulable) = unschedulable {
        body["spec"]["unschedulable"] = Value::Bool(unschedulable);
    }
    Some(body)
}

fn map_changes(node: &Value, pointer: &str, set: &nodeless_model::StringMap, remove: &[String]) -> Option<Value> {
    let present = |key: &str| node.pointer(pointer).and_then(|map| map.get(key)).and_then(Value::as_str);
    let mut changes = Map::new();
    for (key, value) in set.iter().filter(|(key, value)| present(key) != Some(value)) {
        changes.insert(key.clone(), Value::String(value.clone()));
    }
    for key in remove.iter().filter(|key| present(key).is_some() && !set.contains_key(*key)) {
        changes.insert(key.clone(), Value::Null);
    }
    (!changes.is_empty()).then_some(Value::Object(changes))
}

fn finalizers(node: &Value, patch: &NodePatch) -> Option<Vec<String>> {
    let present = strings(node, "/metadata/finalizers");
    let mut desired = present.clone();
    desired.retain(|finalizer| Some(finalizer) != patch.remove_finalizer.as_ref());
    // Kubernetes forbids new finalizers on an object that is being deleted.
    let missing = patch.add_finalizer.iter().filter(|finalizer| !present.contains(finalizer));
    desired.extend(missing.filter(|_| !crate::merge::is_deleting(node)).cloned());
    (desired != present).then_some(desired)
}

fn owners(node: &Value, patch: &NodePatch) -> Option<Value> {
    let (name, uid) = patch.owner.as_ref()?;
    let present = node.pointer("/metadata/ownerReferences").and_then(Value::as_array).cloned().unwrap_or_default();
    if present.iter().any(|owner| owner["uid"] == *uid) {
        return None;
    }
    // With an owner reference to an earlier NodeClaim of the same name, the garbage collector would delete the node.
    let stale = |owner: &Value| owner["kind"] == "NodeClaim" && owner["name"] == *name;
    let mut desired: Vec<Value> = present.into_iter().filter(|owner| !stale(owner)).collect();
    desired.push(json!({
        "apiVersion": NODE_CLAIMS.api_version, "kind": NODE_CLAIMS.kind, "name": name, "uid": uid, "blockOwnerDeletion": true
    }));
    Some(Value::Array(desired))
}

fn taints(node: &Value, patch: &NodePatch) -> Option<Vec<Value>> {
    let present = node.pointer("/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default();
    let same =
        |present: &Value, taint: &Taint| present["key"] == *taint.key && present["effect"] == taint.effect.as_str();
    let value = |present: &Value| present["value"].as_str().unwrap_or_default().to_owned();
    let is_there = |taint: &Taint| present.iter().any(|p| same(p, taint) && value(p) == taint.value);
    let mut desired = present.clone();
    desired.retain(|present| !patch.remove_taints.iter().any(|taint| same(present, taint)));
    for taint in patch.add_taints.iter().filter(|taint| !is_there(taint)) {
        desired.retain(|present| !same(present, taint));
        let mut added = json!({ "key": taint.key, "effect": taint.effect.as_str() });
        if !taint.value.is_empty() {
            added["value"] = Value::String(taint.value.clone());
        }
        desired.push(added);
    }
    (desired != present).then_some(desired)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::{StringMap, TaintEffect};

    fn node() -> Value {
        json!({
            "metadata": {
                "uid": "u", "resourceVersion": "7", "labels": { "a": "1", "b": "2" }, "finalizers": ["other/one"],
                "ownerReferences": [{ "kind": "NodeClaim", "name": "n-1", "uid": "old" }]
            },
            "spec": { "taints": [
                { "key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z" },
                { "key": "karpenter.sh/unregistered", "effect": "NoExecute" }
            ] }
        })
    }

    #[test]
    fn an_unchanged_node_needs_no_patch() {
        let patch = NodePatch {
            labels: StringMap::from([("a".into(), "1".into())]),
            remove_labels: vec!["c".into()],
            add_taints: vec![Taint::unregistered()],
            remove_taints: vec![Taint::new("gone", TaintEffect::NoSchedule)],
            add_finalizer: Some("other/one".into()),
            remove_finalizer: Some("not/there".into()),
            ..NodePatch::default()
        };
        assert_eq!(merge_patch(&node(), &patch), None);
    }

    #[test]
    fn a_patch_of_labels_has_no_resource_version() {
        let patch = NodePatch {
            labels: StringMap::from([("a".into(), "3".into())]),
            remove_labels: vec!["b".into()],
            ..NodePatch::default()
        };
        assert_eq!(
            merge_patch(&node(), &patch),
            Some(json!({ "metadata": { "uid": "u", "labels": { "a": "3", "b": null } } }))
        );
    }

    #[test]
    fn a_patch_that_depends_on_a_label_has_the_resource_version() {
        let labels = StringMap::from([("a".into(), "3".into())]);
        let patch = NodePatch { labels, unless_labelled: Some("c".into()), ..NodePatch::default() };
        assert_eq!(merge_patch(&node(), &patch).unwrap()["metadata"]["resourceVersion"], "7");
        assert_eq!(check(&node(), "u", &patch), Ok(()));
        let patch = NodePatch { unless_labelled: Some("b".into()), ..patch };
        assert!(check(&node(), "u", &patch).unwrap_err().contains("has the label b"));
    }

    #[test]
    fn a_node_is_cordoned_and_uncordoned() {
        let cordon = |unschedulable| NodePatch { unschedulable: Some(unschedulable), ..NodePatch::default() };
        assert_eq!(merge_patch(&node(), &cordon(false)), None);
        let body = json!({ "metadata": { "uid": "u" }, "spec": { "unschedulable": true } });
        assert_eq!(merge_patch(&node(), &cordon(true)), Some(body));
        let mut cordoned = node();
        cordoned["spec"]["unschedulable"] = json!(true);
        assert_eq!(merge_patch(&cordoned, &cordon(true)), None);
        assert_eq!(merge_patch(&cordoned, &cordon(false)).unwrap()["spec"]["unschedulable"], false);
    }

    #[test]
    fn a_patch_of_lists_keeps_foreign_entries_and_has_the_resource_version() {
        let patch = NodePatch {
            remove_taints: vec![Taint::unregistered()],
            add_taints: vec![Taint::disrupted()],
            add_finalizer: Some("karpenter.sh/termination".into()),
            owner: Some(("n-1".into(), "new".into())),
            ..NodePatch::default()
        };
        let body = merge_patch(&node(), &patch).unwrap();
        assert_eq!(body["metadata"]["resourceVersion"], "7");
        assert_eq!(body["metadata"]["finalizers"], json!(["other/one", "karpenter.sh/termination"]));
        let owners = body["metadata"]["ownerReferences"].as_array().unwrap();
        assert_eq!((owners.len(), &owners[0]["uid"]), (1, &json!("new")));
        assert_eq!(
            body["spec"]["taints"],
            json!([
                { "key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z" },
                { "key": "karpenter.sh/disrupted", "effect": "NoSchedule" }
            ])
        );
    }

    #[test]
    fn a_taint_of_another_value_is_replaced() {
        let mut taint = Taint::unregistered();
        taint.value = "soon".into();
        let patch = NodePatch { add_taints: vec![taint], ..NodePatch::default() };
        let taints = merge_patch(&node(), &patch).unwrap()["spec"]["taints"].clone();
        assert_eq!(taints.as_array().unwrap().len(), 2);
        assert_eq!(taints[1]["value"], "soon");
    }

    #[test]
    fn a_node_that_is_being_deleted_gets_no_finalizer() {
        let mut node = node();
        node["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let patch = NodePatch { add_finalizer: Some("karpenter.sh/termination".into()), ..NodePatch::default() };
        assert_eq!(merge_patch(&node, &patch), None);
    }
}
