//! Deletion: grace periods, finalizers, owner references and the deletion of namespaces.

use crate::server::path::{Path as _, text};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::definition::Definition;
use super::resource::{CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS, Resource, StorageKey};
use super::status::Status;
use super::store::{ChangeKind, ObjectKey, Store, owner_uids};
use super::time::seconds;

/// The propagation policy for the objects that an object owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents are deleted after the owner.
    #[default]
    Background,
    /// Dependents are deleted before the owner, which waits for those that block its deletion.
    Foreground,
    /// Dependents stay, without an owner.
    Orphan,
}

/// The preconditions of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// The object's uid.
    pub uid: Option<String>,
    /// The object's resourceVersion.
    pub resource_version: Option<String>,
}

/// Options of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Seconds until the kubelet kills a pod; its `terminationGracePeriodSeconds` if unset; 0 deletes it at once.
    pub grace_period_seconds: Option<i64>,
    /// The propagation policy.
    pub propagation: Propagation,
    /// The preconditions.
    pub preconditions: Preconditions,
    /// Dry run: changes nothing.
    pub dry_run: bool,
}

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
/// Keeps a definition until its objects are deleted.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

fn check_preconditions(
    definition: &Definition,
    name: &str,
    object: &Value,
    preconditions: &Preconditions,
) -> Result<(), Status> {
    let fields = [
        ("UID", &preconditions.uid, "/metadata/uid"),
        ("ResourceVersion", &preconditions.resource_version, "/metadata/resourceVersion"),
    ];
    // These errors name the kind in place of the resource.
    let resource = &definition.resource;
    let by_kind = Resource { plural: resource.kind.clone(), ..resource.clone() };
    for (label, required, pointer) in fields {
        let own = text(object, pointer);
        if let Some(required) = required.as_deref().filter(|required| *required != own) {
            let detail = format!(
                "the {label} in the precondition ({required}) does not match the {label} in record ({own}). The object might \
                 have been deleted and then recreated"
            );
            return Err(Status::conflict(&by_kind, name, &detail));
        }
    }
    Ok(())
}

/// Deletes an object, or marks it as being deleted. Returns its last state, and whether it is gone.
pub(crate) fn delete(
    store: &mut Store,
    definition: &Definition,
    key: &ObjectKey,
    options: &DeleteOptions,
    now: Timestamp,
) -> Result<(Arc<Value>, bool), Status> {
    let resource = &definition.resource;
    let current =
        store.get(&resource.storage_key(), key).cloned().ok_or_else(|| Status::not_found(resource, &key.1))?;
    check_preconditions(definition, &key.1, &current, &options.preconditions)?;
    let protected = ["default", "kube-system", "kube-public"];
    if *resource == NAMESPACES && protected.contains(&key.1.as_str()) {
        return Err(Status::forbidden(resource, &key.1, "this namespace may not be deleted"));
    }
    if options.dry_run {
        return Ok((current, false));
    }
    let mut object = current.as_ref().clone();
    let grace = grace_period(definition, &object, options.grace_period_seconds);
    mark(definition, &mut object, grace, now);
    match options.propagation {
        Propagation::Background => {}
        Propagation::Foreground => add_finalizer(&mut object, FOREGROUND),
        Propagation::Orphan => add_finalizer(&mut object, ORPHAN),
    }
    if definition.resource == CUSTOM_RESOURCE_DEFINITIONS {
        add_finalizer(&mut object, CLEANUP);
    }
    if is_finished(&object) && definition.resource != NAMESPACES {
        return Ok((remove(store, definition, object, now), true));
    }
    let marked = if object == *current { current } else { store.commit(definition, ChangeKind::Modified, object) };
    Ok(complete_deletion(store, definition, key, &marked, now))
}

/// The effective grace period: only running pods have one.
fn grace_period(definition: &Definition, object: &Value, asked: Option<i64>) -> i64 {
    let done = matches!(text(object, "/status/phase"), "Succeeded" | "Failed");
    if definition.resource != PODS || text(object, "/spec/nodeName").is_empty() || done {
        return 0;
    }
    let own = object.at("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(30);
    asked.unwrap_or(own).max(0)
}

/// Sets the deletion fields. A grace period in force can be shortened, not lengthened.
fn mark(definition: &Definition, object: &mut Value, grace: i64, now: Timestamp) {
    let current = object.at("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
    if current.is_some_and(|current| grace >= current) {
        return;
    }
    let at = now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
    let generation = object.at("/metadata/generation").and_then(Value::as_i64);
    let metadata = &mut object["metadata"];
    metadata["deletionTimestamp"] = json!(seconds(at));
    metadata["deletionGracePeriodSeconds"] = json!(grace);
    if let Some(generation) = generation {
        metadata["generation"] = json!(generation + 1);
    }
    if definition.resource == NAMESPACES {
        object["status"]["phase"] = json!("Terminating");
    }
}

fn finalizers(object: &Value) -> Vec<&str> {
    let list = object.at("/metadata/finalizers").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn add_finalizer(object: &mut Value, finalizer: &str) {
    let mut all: Vec<String> = finalizers(object).into_iter().map(str::to_owned).collect();
    if !all.iter().any(|other| other == finalizer) {
        all.push(finalizer.to_owned());
        object["metadata"]["finalizers"] = json!(all);
    }
}

fn without_finalizer(object: &Value, finalizer: &str) -> Value {
    let rest: Vec<&str> = finalizers(object).into_iter().filter(|other| *other != finalizer).collect();
    let mut object = object.clone();
    if rest.is_empty() {
        object["metadata"].as_object_mut().and_then(|metadata| metadata.remove("finalizers"));
    } else {
        object["metadata"]["finalizers"] = json!(rest);
    }
    object
}

/// Whether an object is being deleted and nothing blocks its removal.
pub(crate) fn is_finished(object: &Value) -> bool {
    let metadata = &object["metadata"];
    metadata.get("deletionTimestamp").is_some()
        && finalizers(object).is_empty()
        && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or_default() == 0
        && object.at("/spec/finalizers").and_then(Value::as_array).is_none_or(Vec::is_empty)
}

/// Removes an object, then handles its dependents.
pub(crate) fn remove(store: &mut Store, definition: &Definition, object: Value, now: Timestamp) -> Arc<Value> {
    let gone = store.commit(definition, ChangeKind::Deleted, object);
    if definition.resource == CUSTOM_RESOURCE_DEFINITIONS {
        store.unregister_custom(text(&gone, "/spec/group"), text(&gone, "/spec/names/plural"));
    }
    for (storage, key) in store.dependents(text(&gone, "/metadata/uid")) {
        collect(store, &storage, &key, now);
    }
    for owner in owner_uids(&gone) {
        if let Some((storage, key)) = store.by_uid(owner).cloned() {
            complete_deletion_at(store, &storage, &key, now);
        }
    }
    let namespace = text(&gone, "/metadata/namespace");
    if !namespace.is_empty() {
        complete_deletion_at(store, &NAMESPACES.storage_key(), &(String::new(), namespace.to_owned()), now);
    }
    if definition.custom.is_some() {
        let name = definition.resource.qualified_plural();
        complete_deletion_at(store, &CUSTOM_RESOURCE_DEFINITIONS.storage_key(), &(String::new(), name), now);
    }
    gone
}

/// Deletes a dependent without a remaining owner; otherwise removes the references to deleted owners.
fn collect(store: &mut Store, storage: &StorageKey, key: &ObjectKey, now: Timestamp) {
    let Some(definition) = store.definition_for_storage(storage) else { return };
    let Some(object) = store.get(storage, key).cloned() else { return };
    if owner_uids(&object).any(|owner| store.by_uid(owner).is_some()) {
        let mut kept = object.as_ref().clone();
        let owners = object.at("/metadata/ownerReferences").and_then(Value::as_array);
        let rest: Vec<Value> =
            owners.into_iter().flatten().filter(|owner| store.by_uid(text(owner, "/uid")).is_some()).cloned().collect();
        kept["metadata"]["ownerReferences"] = Value::Array(rest);
        store.commit(&definition, ChangeKind::Modified, kept);
    } else {
        delete_quietly(store, &definition, key, Propagation::Background, now);
    }
}

fn delete_quietly(
    store: &mut Store,
    definition: &Definition,
    key: &ObjectKey,
    propagation: Propagation,
    now: Timestamp,
) {
    let options = DeleteOptions { propagation, ..DeleteOptions::default() };
    if let Err(error) = delete(store, definition, key, &options, now) {
        tracing::debug!(%error, "an object was gone before it could be collected");
    }
}

/// Collects a new object whose owners do not exist (any more), as the garbage collector would.
pub(crate) fn collect_if_orphaned(store: &mut Store, definition: &Definition, object: &Value, now: Timestamp) {
    let mut owners = owner_uids(object).peekable();
    if owners.peek().is_some() && !owners.any(|owner| store.by_uid(owner).is_some()) {
        let key = (text(object, "/metadata/namespace").to_owned(), text(object, "/metadata/name").to_owned());
        delete_quietly(store, definition, &key, Propagation::Background, now);
    }
}

fn complete_deletion_at(store: &mut Store, storage: &StorageKey, key: &ObjectKey, now: Timestamp) {
    let Some(object) = store.get(storage, key).cloned() else { return };
    if object.at("/metadata/deletionTimestamp").is_none() {
        return;
    }
    if let Some(definition) = store.definition_for_storage(storage) {
        complete_deletion(store, &definition, key, &object, now);
    }
}

/// Performs the control plane's part in a deletion that waits: its finalizers, and the contents of a namespace or of a custom
/// resource definition. Returns the last state, and whether the object is gone.
fn complete_deletion(
    store: &mut Store,
    definition: &Definition,
    key: &ObjectKey,
    object: &Arc<Value>,
    now: Timestamp,
) -> (Arc<Value>, bool) {
    let uid = text(object, "/metadata/uid").to_owned();
    let dependents = store.dependents(&uid);
    let mut waiting = false;
    if finalizers(object).contains(&ORPHAN) {
        for (storage, dependent) in &dependents {
            disown(store, storage, dependent, &uid);
        }
    } else if finalizers(object).contains(&FOREGROUND) {
        for (storage, dependent) in &dependents {
            waiting |= blocks(store, storage, dependent, &uid, now);
        }
    }
    if definition.resource == NAMESPACES {
        waiting |= empty_out(store, |store| contents_of_namespace(store, &key.1), now);
    }
    if definition.resource == CUSTOM_RESOURCE_DEFINITIONS {
        let storage = StorageKey {
            group: text(object, "/spec/group").to_owned().into(),
            plural: text(object, "/spec/names/plural").to_owned().into(),
        };
        let contents =
            |store: &Store| store.iter(&storage, None).map(|(key, _)| (storage.clone(), key.clone())).collect();
        waiting |= empty_out(store, contents, now);
    }
    let Some(object) = store.get(&definition.resource.storage_key(), key).cloned() else {
        return (object.clone(), true);
    };
    if waiting {
        return (object, false);
    }
    let own = [ORPHAN, FOREGROUND, CLEANUP];
    // Most objects have none of these, and nothing is copied.
    if definition.resource != NAMESPACES && !finalizers(&object).iter().any(|finalizer| own.contains(finalizer)) {
        if is_finished(&object) {
            return (remove(store, definition, object.as_ref().clone(), now), true);
        }
        return (object, false);
    }
    let mut rest = own.iter().fold(object.as_ref().clone(), |object, own| without_finalizer(&object, own));
    if definition.resource == NAMESPACES
        && let Some(spec) = rest["spec"].as_object_mut()
    {
        let own = spec.get("finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
        let left: Vec<Value> = own.into_iter().filter(|finalizer| finalizer != "kubernetes").collect();
        spec.insert("finalizers".into(), Value::Array(left));
    }
    if is_finished(&rest) {
        return (remove(store, definition, rest, now), true);
    }
    if rest == *object { (object, false) } else { (store.commit(definition, ChangeKind::Modified, rest), false) }
}

fn disown(store: &mut Store, storage: &StorageKey, key: &ObjectKey, uid: &str) {
    let Some(definition) = store.definition_for_storage(storage) else { return };
    let Some(object) = store.get(storage, key).cloned() else { return };
    let mut free = object.as_ref().clone();
    let owners = object.at("/metadata/ownerReferences").and_then(Value::as_array);
    let rest: Vec<Value> = owners.into_iter().flatten().filter(|owner| owner["uid"] != uid).cloned().collect();
    if rest.is_empty() {
        free["metadata"].as_object_mut().and_then(|metadata| metadata.remove("ownerReferences"));
    } else {
        free["metadata"]["ownerReferences"] = Value::Array(rest);
    }
    store.commit(&definition, ChangeKind::Modified, free);
}

/// Deletes a dependent in the foreground. Returns whether its owner has to wait for it.
fn blocks(store: &mut Store, storage: &StorageKey, key: &ObjectKey, uid: &str, now: Timestamp) -> bool {
    let Some(definition) = store.definition_for_storage(storage) else { return false };
    let Some(object) = store.get(storage, key).cloned() else { return false };
    if object.at("/metadata/deletionTimestamp").is_none() {
        delete_quietly(store, &definition, key, Propagation::Foreground, now);
    }
    let owners = object.at("/metadata/ownerReferences").and_then(Value::as_array);
    let blocking = owners.into_iter().flatten().any(|owner| owner["uid"] == uid && owner["blockOwnerDeletion"] == true);
    blocking && store.get(storage, key).is_some()
}

fn contents_of_namespace(store: &Store, namespace: &str) -> Vec<(StorageKey, ObjectKey)> {
    let keys = store.storage_keys();
    keys.iter()
        .flat_map(|storage| store.iter(storage, Some(namespace)).map(|(key, _)| (storage.clone(), key.clone())))
        .filter(|_| !namespace.is_empty())
        .collect()
}

/// Deletes the remaining contents. Returns whether some still exist.
fn empty_out(store: &mut Store, contents: impl Fn(&Store) -> Vec<(StorageKey, ObjectKey)>, now: Timestamp) -> bool {
    for (storage, key) in contents(store) {
        let Some(definition) = store.definition_for_storage(&storage) else { continue };
        let deleting =
            store.get(&storage, &key).is_none_or(|object| object.at("/metadata/deletionTimestamp").is_some());
        if !deleting {
            delete_quietly(store, &definition, &key, Propagation::Background, now);
        }
    }
    !contents(store).is_empty()
}
