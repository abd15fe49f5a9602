//! Creating and updating objects.

use crate::server::path::{Path as _, text};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::built_in_admission::admit;
use super::conversion;
use super::definition::Definition;
use super::patch::apply::{Writer, track_update};
use super::resource::{CUSTOM_RESOURCE_DEFINITIONS, LEASES, NAMESPACES, Resource, SERVICE_ACCOUNTS};
use super::status::Status;
use super::store::{ChangeKind, ObjectKey, Store};
use super::time::seconds;
use super::{custom, defaults, garbage, limits, quota, schema, validation};

/// The context of every write: the time, and the field manager (`None` leaves field ownership untracked).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) now: Timestamp,
    pub(crate) manager: Option<&'a str>,
    pub(crate) dry_run: bool,
}

/// The part of an object that a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything except for the status, if that is a subresource.
    Object,
    /// The status alone.
    Status,
    /// Everything, for the control plane's own writes (scale, binding, finalize).
    Whole(&'static str),
}

/// The subresource of pods that changes what their containers request. Its rules replace those of other changes.
pub(crate) const RESIZE: &str = "resize";

impl Part {
    fn subresource(self) -> &'static str {
        match self {
            Self::Object => "",
            Self::Status => "status",
            Self::Whole(name) => name,
        }
    }
}

/// Checks that the object is of the resource's kind, and makes its metadata an object.
fn check_kind(definition: &Definition, object: &mut Value) -> Result<(), Status> {
    let resource = &definition.resource;
    // First of all, because defaults and errors take much more memory than the object.
    limits::check(object)?;
    let Some(map) = object.as_object_mut() else {
        return Err(Status::bad_request("the body of the request has to be an object"));
    };
    let required = (resource.api_version(), resource.kind.to_string());
    let given = |map: &Map<String, Value>, field: &str| map.get(field).and_then(Value::as_str).map(str::to_owned);
    let version = given(map, "apiVersion").unwrap_or_else(|| required.0.clone());
    let kind = given(map, "kind").unwrap_or_else(|| required.1.clone());
    if version != required.0 || kind != required.1 {
        let text = format!(
            "{kind} in version {version:?} cannot be handled as a {}: expected apiVersion {:?} and kind {:?}",
            required.1, required.0, required.1
        );
        return Err(Status::bad_request(text));
    }
    map.insert("apiVersion".into(), json!(version));
    map.insert("kind".into(), json!(kind));
    if !map.get("metadata").is_some_and(Value::is_object) {
        map.insert("metadata".into(), json!({}));
    }
    // A null counts as a missing field.
    if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|_, value| !value.is_null());
    }
    Ok(())
}

const NAME_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Generates the name of an object that has only a `generateName`.
pub(crate) fn generate_name(store: &mut Store, object: &mut Value) {
    let prefix = text(object, "/metadata/generateName").to_owned();
    if !text(object, "/metadata/name").is_empty() || prefix.is_empty() {
        return;
    }
    let mut number = store.next_number();
    let mut name: String = prefix.chars().take(58).collect();
    for _ in 0..5 {
        let index = usize::try_from(number % NAME_ALPHABET.len() as u64).unwrap_or_default();
        name.push(char::from(NAME_ALPHABET[index]));
        number /= NAME_ALPHABET.len() as u64;
    }
    object["metadata"]["name"] = json!(name);
}

/// Creates an object.
pub(crate) fn create(
    store: &mut Store,
    definition: &Definition,
    object: Value,
    request: Request<'_>,
) -> Result<Arc<Value>, Status> {
    let (canonical, mut object) = conversion::to_storage(store, definition, object)?;
    let definition = canonical.as_ref();
    check_kind(definition, &mut object)?;
    place(store, definition, &mut object)?;
    if !text(&object, "/metadata/resourceVersion").is_empty() {
        return Err(Status::bad_request("resourceVersion should not be set on objects to be created"));
    }
    generate_name(store, &mut object);
    let uid = store.next_uid();
    let metadata = &mut object["metadata"];
    if let Some(map) = metadata.as_object_mut() {
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink", "resourceVersion"] {
            map.remove(field);
        }
    }
    metadata["uid"] = json!(uid);
    metadata["creationTimestamp"] = json!(seconds(request.now));
    if definition.generation {
        metadata["generation"] = json!(1);
    }
    reset_status(definition, &mut object);
    defaults::apply(definition, &mut object);
    admit(store, definition, &mut object)?;
    let name = text(&object, "/metadata/name").to_owned();
    check(definition, &name, &mut object, None)?;
    let resource = &definition.resource;
    let key = (text(&object, "/metadata/namespace").to_owned(), name.clone());
    if store.get(&resource.storage_key(), &key).is_some() {
        return Err(Status::already_exists(resource, &name));
    }
    quota::admit(store, definition, &object)?;
    if let Some(manager) = request.manager {
        let applied = object.at("/metadata/managedFields").is_some();
        if !applied {
            track_update(definition, None, &mut object, Writer { manager, subresource: "", now: request.now });
        }
    }
    if definition.resource == CUSTOM_RESOURCE_DEFINITIONS {
        custom::established(&mut object, request.now);
    }
    if request.dry_run {
        return Ok(Arc::new(object));
    }
    let created = store.commit(definition, ChangeKind::Added, object);
    after_write(store, definition, &created, request);
    garbage::collect_if_orphaned(store, definition, &created, request.now);
    Ok(created)
}

/// Checks the namespace, or removes it from a cluster-scoped object.
fn place(store: &Store, definition: &Definition, object: &mut Value) -> Result<(), Status> {
    let resource = &definition.resource;
    if !resource.namespaced {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("namespace");
        }
        return Ok(());
    }
    if text(object, "/metadata/namespace").is_empty() {
        object["metadata"]["namespace"] = json!("default");
    }
    let name = text(object, "/metadata/namespace");
    let key: ObjectKey = (String::new(), name.to_owned());
    let namespace = store.get(&NAMESPACES.storage_key(), &key).ok_or_else(|| Status::not_found(&NAMESPACES, name))?;
    if namespace.at("/metadata/deletionTimestamp").is_some() {
        let detail = format!("unable to create new content in namespace {name} because it is being terminated");
        return Err(Status::forbidden(resource, text(object, "/metadata/name"), &detail)
            .caused_by("NamespaceTerminating", format!("namespace {name} is being terminated")));
    }
    Ok(())
}

/// A new object has no status; only nodes report theirs when they register.
fn reset_status(definition: &Definition, object: &mut Value) {
    let keeps = !definition.status || definition.resource.kind == "Node" && definition.custom.is_none();
    if let (false, Some(map)) = (keeps, object.as_object_mut()) {
        let status = map.remove("status");
        if status.is_some() && definition.custom.is_none() {
            map.insert("status".into(), json!({}));
        }
    }
}

/// Validates a whole object, after its schema's defaults and pruning for a custom resource.
fn check(definition: &Definition, name: &str, object: &mut Value, old: Option<&Value>) -> Result<(), Status> {
    let mut errors = validation::metadata(definition, object);
    if let Some(custom) = &definition.custom {
        schema::default_and_prune(custom, object);
        limits::check(object)?;
        errors.extend(schema::validate(custom, object, old));
    }
    errors.extend(validation::object(definition, object));
    if let Some(old) = old {
        errors.extend(validation::update(definition, old, object));
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&definition.resource, name, errors)) }
}

/// Replaces an object, or a part of it.
pub(crate) fn update(
    store: &mut Store,
    definition: &Definition,
    key: &ObjectKey,
    object: Value,
    part: Part,
    request: Request<'_>,
) -> Result<Arc<Value>, Status> {
    let (canonical, mut object) = conversion::to_storage(store, definition, object)?;
    let definition = canonical.as_ref();
    check_kind(definition, &mut object)?;
    let resource = &definition.resource;
    let (namespace, name) = key;
    let old = store.get(&resource.storage_key(), key).cloned().ok_or_else(|| Status::not_found(resource, name))?;
    check_identity(definition, namespace, name, &old, &object)?;
    let old_comparable = in_version(definition, &old);
    carry_over(definition, &old_comparable, &mut object, part);
    if part != Part::Status {
        defaults::apply(definition, &mut object);
    }
    // Unchanged parts were checked before.
    if object != *old_comparable {
        let before = Some(old_comparable.as_ref()).filter(|_| part != Part::Whole(RESIZE));
        check(definition, name, &mut object, before)?;
    }
    check_finalizers(definition, name, &old, &object)?;
    if definition.resource == CUSTOM_RESOURCE_DEFINITIONS && part == Part::Object {
        custom::established(&mut object, request.now);
    }
    if definition.generation && specification_changed(definition, &old_comparable, &object) {
        let generation = old.at("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
        object["metadata"]["generation"] = json!(generation + 1);
    }
    let tracked = old.at("/metadata/managedFields").is_some() || request.manager.is_some();
    if tracked && part != Part::Whole("apply") {
        let manager = request.manager.unwrap_or("kube-controller-manager");
        let writer = Writer { manager, subresource: part.subresource(), now: request.now };
        track_update(definition, Some(&old_comparable), &mut object, writer);
    }
    if request.dry_run {
        return Ok(Arc::new(object));
    }
    if object == *old_comparable {
        return Ok(old);
    }
    if garbage::is_finished(&object) {
        return Ok(garbage::remove(store, definition, object, request.now));
    }
    let updated = store.commit(definition, ChangeKind::Modified, object);
    after_write(store, definition, &updated, request);
    Ok(updated)
}

/// An object with the API version of a definition.
fn in_version(definition: &Definition, object: &Arc<Value>) -> Arc<Value> {
    let version = definition.resource.api_version();
    if object.get("apiVersion").is_some_and(|own| *own == version) {
        return object.clone();
    }
    let mut object = object.as_ref().clone();
    object["apiVersion"] = json!(version);
    Arc::new(object)
}

fn check_identity(
    definition: &Definition,
    namespace: &str,
    name: &str,
    old: &Value,
    new: &Value,
) -> Result<(), Status> {
    let resource = &definition.resource;
    let given = text(new, "/metadata/name");
    if !given.is_empty() && given != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    let given = text(new, "/metadata/namespace");
    if resource.namespaced && !given.is_empty() && given != namespace {
        return Err(Status::bad_request(format!(
            "the namespace of the object ({given}) does not match the namespace on the request ({namespace})"
        )));
    }
    let (given, own) = (text(new, "/metadata/uid"), text(old, "/metadata/uid"));
    if !given.is_empty() && given != own {
        let detail = format!("Precondition failed: UID in precondition: {given}, UID in object meta: {own}");
        return Err(Status::conflict(resource, name, &detail));
    }
    let given = text(new, "/metadata/resourceVersion");
    if !given.is_empty() && given != text(old, "/metadata/resourceVersion") {
        return Err(Status::stale(resource, name));
    }
    if given.is_empty() && (definition.custom.is_some() || *resource == LEASES) {
        // This error names the resource in place of the kind.
        let resource = &Resource { kind: resource.plural.clone(), ..resource.clone() };
        let error = super::status::FieldError::invalid(
            "metadata.resourceVersion",
            &json!(0),
            "must be specified for an update",
        );
        return Err(Status::invalid(resource, name, vec![error]));
    }
    Ok(())
}

/// Restores the fields that this write may not change.
fn carry_over(definition: &Definition, old: &Value, new: &mut Value, part: Part) {
    let own = [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "generateName",
        "resourceVersion",
    ];
    for field in own {
        copy_field(&old["metadata"], &mut new["metadata"], field);
    }
    if new["metadata"].get("managedFields").is_none() {
        copy_field(&old["metadata"], &mut new["metadata"], "managedFields");
    }
    match part {
        Part::Object if definition.status => copy_field(old, new, "status"),
        Part::Object | Part::Whole(_) => {}
        Part::Status => {
            let status = new.get("status").cloned();
            let metadata = new["metadata"].take();
            *new = old.clone();
            match status {
                Some(status) => new["status"] = status,
                None => {
                    new.as_object_mut().and_then(|map| map.remove("status"));
                }
            }
            // Status updates of built-in kinds may also change labels and annotations, which kubelets do.
            if definition.custom.is_none() {
                for field in ["labels", "annotations"] {
                    copy_field(&metadata, &mut new["metadata"], field);
                }
            }
            copy_field(&metadata, &mut new["metadata"], "managedFields");
        }
    }
}

fn copy_field(from: &Value, to: &mut Value, field: &str) {
    match (from.get(field), to.as_object_mut()) {
        (Some(value), Some(map)) => {
            map.insert(field.to_owned(), value.clone());
        }
        (None, Some(map)) => {
            map.remove(field);
        }
        (_, None) => {}
    }
}

fn check_finalizers(definition: &Definition, name: &str, old: &Value, new: &Value) -> Result<(), Status> {
    if old.at("/metadata/deletionTimestamp").is_none() {
        return Ok(());
    }
    let list =
        |object: &Value| object.at("/metadata/finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
    let before = list(old);
    let added: Vec<Value> = list(new).into_iter().filter(|finalizer| !before.contains(finalizer)).collect();
    if added.is_empty() {
        return Ok(());
    }
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers {}",
        Value::Array(added)
    );
    let error = super::status::FieldError::forbidden("metadata.finalizers", &detail);
    Err(Status::invalid(&definition.resource, name, vec![error]))
}

fn specification_changed(definition: &Definition, old: &Value, new: &Value) -> bool {
    let ignored = |field: &str| match field {
        "metadata" | "apiVersion" | "kind" => true,
        "status" => definition.status,
        _ => false,
    };
    let has_others = |a: &Value, b: &Value| {
        let mut fields = a.as_object().into_iter().flatten().filter(|(field, _)| !ignored(field));
        fields.any(|(field, value)| b.get(field) != Some(value))
    };
    has_others(old, new) || has_others(new, old)
}

/// The effects of a stored object: resources of a definition, contents of a new namespace.
fn after_write(store: &mut Store, definition: &Definition, object: &Value, request: Request<'_>) {
    if definition.resource == CUSTOM_RESOURCE_DEFINITIONS {
        store.unregister_custom(text(object, "/spec/group"), text(object, "/spec/names/plural"));
        for definition in custom::definitions(object) {
            store.register(definition);
        }
    }
    if definition.resource == NAMESPACES && object.at("/metadata/deletionTimestamp").is_none() {
        let name = text(object, "/metadata/name").to_owned();
        let key = (name.clone(), "default".to_owned());
        if store.get(&SERVICE_ACCOUNTS.storage_key(), &key).is_none() {
            let account = json!({"metadata": {"name": "default", "namespace": name}});
            if let Ok(definition) = store.definition_of(&SERVICE_ACCOUNTS)
                && let Err(error) = create(store, &definition, account, request)
            {
                tracing::warn!(%error, "the default service account of a namespace could not be made");
            }
        }
    }
}
