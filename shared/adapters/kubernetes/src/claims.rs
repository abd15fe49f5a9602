//! The mirror: NodeClaim objects that show the records.

use crate::api::{self, PatchKind, decode};
use crate::connection::Connection;
use crate::error::CallError;
use crate::log_lines::OwnerUnreadable;
use crate::merge::{difference, is_deleting, string};
use crate::nodes::remove_finalizer;
use crate::recent::Recent;
use nodeless_api::resources::NODE_CLAIMS;
use nodeless_api::{convert, managed};
use nodeless_model::{NodeClaim, Phase, labels};
use nodeless_ports::{ErrorKind, PortError};
use nodeless_telemetry::Context;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const OPERATION: &str = "Kubernetes mirror NodeClaim";

/// Makes the object equal to the record, and returns its uid. The object of a claim without a NodePool is only written if it still exists.
pub(crate) async fn mirror(
    connection: &Connection,
    context: &Context,
    recent: &Recent,
    claim: &NodeClaim,
) -> Result<String, PortError> {
    let path = api::object(api::NODE_CLAIMS, &claim.name);
    let kept = recent.get(&path).is_some();
    match mirror_at(connection, context, recent, &path, claim).await {
        // The object has changed or is gone; it is read, and created if it is missing.
        Err(error) if kept && matches!(error.kind, ErrorKind::NotFound | ErrorKind::Conflict) => {
            recent.forget(&path);
            mirror_at(connection, context, recent, &path, claim).await
        }
        done => done,
    }
}

async fn mirror_at(
    connection: &Connection,
    context: &Context,
    recent: &Recent,
    path: &str,
    claim: &NodeClaim,
) -> Result<String, PortError> {
    let desired = as_value(&convert::mirror(claim, None).status)?;
    let object = match recent.get(path) {
        Some(object) if !claim.is_standalone() || is_object_of(&object, &claim.uid) => {
            adopt(connection, path, object, claim).await?
        }
        // The object is the user's: it is never created, and another one of the same name is not written.
        _ if claim.is_standalone() => {
            let object = connection.get(OPERATION, path).await?.filter(|object| is_object_of(object, &claim.uid));
            let Some(object) = object else { return Ok(claim.uid.clone()) };
            adopt(connection, path, object, claim).await?
        }
        Some(object) => adopt(connection, path, object, claim).await?,
        // The object of a claim that was just launched usually does not exist. If it does, it cannot be created.
        None if matches!(claim.phase, Phase::Launched | Phase::WarmLaunched) => {
            create(connection, context, recent, path, claim).await?
        }
        None => match replace_status(connection, path, claim).await {
            Ok(object) => adopt(connection, path, object, claim).await?,
            Err(failed) if failed.is(404) => create(connection, context, recent, path, claim).await?,
            // The object has another class, or a webhook refuses the status.
            Err(failed) if failed.is(422) => adopt_present(connection, path, claim, failed).await?,
            Err(failed) => return Err(failed.into()),
        },
    };
    let present = object.get("status").cloned().unwrap_or_default();
    let uid = string(&object, "/metadata/uid").unwrap_or_default().to_owned();
    let current = match difference(&present, &desired) {
        Some(change) => write_status(connection, path, &uid, &change).await?,
        None => object,
    };
    recent.keep(path, current);
    Ok(uid)
}

/// Whether an object has this uid.
fn is_object_of(object: &Value, uid: &str) -> bool {
    string(object, "/metadata/uid") == Some(uid)
}

/// Merges fields into the status, and returns the object. An object with another uid is a conflict.
async fn write_status(connection: &Connection, path: &str, uid: &str, fields: &Value) -> Result<Value, CallError> {
    let body = json!({ "metadata": { "uid": uid }, "status": fields });
    connection.patch(OPERATION, &format!("{path}/status"), PatchKind::Merge, &body).await
}

/// Replaces the status of an object that was not read, and returns the object. The API server refuses it (422) if the object has a class of
/// another controller.
async fn replace_status(connection: &Connection, path: &str, claim: &NodeClaim) -> Result<Value, CallError> {
    let desired = as_value(&convert::mirror(claim, None))?;
    let class = &desired["spec"]["nodeClassRef"];
    let operations = json!([
        { "op": "test", "path": "/spec/nodeClassRef/group", "value": class["group"] },
        { "op": "test", "path": "/spec/nodeClassRef/kind", "value": class["kind"] },
        { "op": "add", "path": "/status", "value": desired["status"] },
    ]);
    connection.patch(OPERATION, &format!("{path}/status"), PatchKind::Json, &operations).await
}

/// The NodePool that owns a new object. It is read once for many objects.
async fn owner(
    connection: &Connection,
    context: &Context,
    recent: &Recent,
    claim: &NodeClaim,
) -> Result<Option<nodeless_api::NodePool>, CallError> {
    let Some(name) = &claim.node_pool else { return Ok(None) };
    let path = api::object(api::NODE_POOLS, name);
    let read = match recent.get(&path) {
        Some(pool) => Some(pool),
        None => connection.get(OPERATION, &path).await?,
    };
    let Some(pool) = read else { return Ok(None) };
    recent.keep(&path, pool.clone());
    // A NodePool that cannot be decoded still owns its claims; without the reference they would outlive it.
    let decoded = serde_json::from_value::<nodeless_api::NodePool>(pool).inspect_err(|error| {
        let (claim, node_pool) = (claim.name.as_str(), name.as_str());
        context.log(&OwnerUnreadable { claim, node_pool, error: &error.to_string() });
    });
    Ok(decoded.ok())
}

/// Creates the object. Its spec is immutable, so only this function writes it.
async fn create(
    connection: &Connection,
    context: &Context,
    recent: &Recent,
    path: &str,
    claim: &NodeClaim,
) -> Result<Value, PortError> {
    let pool = owner(connection, context, recent, claim).await?;
    let mut object = as_value(&convert::mirror(claim, pool.as_ref()))?;
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
        fields.insert("apiVersion".to_owned(), json!(NODE_CLAIMS.api_version));
        fields.insert("kind".to_owned(), json!(NODE_CLAIMS.kind));
    }
    object["metadata"]["annotations"][labels::RECORD_UID] = json!(claim.uid);
    match connection.post(OPERATION, api::NODE_CLAIMS, &object).await {
        Ok(created) => Ok(created),
        // The object exists already, or another process created it first.
        Err(failed) if failed.is(409) => adopt_present(connection, path, claim, failed).await,
        Err(failed) => Err(failed.into()),
    }
}

/// Reads the object because of which a call failed, and adopts it.
async fn adopt_present(
    connection: &Connection,
    path: &str,
    claim: &NodeClaim,
    failed: CallError,
) -> Result<Value, PortError> {
    let object = connection.get(OPERATION, path).await?.ok_or(failed)?;
    adopt(connection, path, object, claim).await
}

/// Adopts an existing object: one of Karpenter's, or of a record that was lost and rebuilt.
async fn adopt(connection: &Connection, path: &str, object: Value, claim: &NodeClaim) -> Result<Value, PortError> {
    if let Some(other) = managed::other::<nodeless_api::NodeClaim>(&object) {
        return Err(PortError::new(ErrorKind::Conflict, OPERATION, other.to_string()));
    }
    let mirror = convert::mirror(claim, None);
    let mut desired = mirror.metadata.annotations.unwrap_or_default();
    desired.insert(labels::RECORD_UID.to_owned(), claim.uid.clone());
    let annotation = |key: &String| object.pointer("/metadata/annotations").and_then(|all| all.get(key));
    let label = |key: &String| object.pointer("/metadata/labels").and_then(|all| all.get(key));
    desired.retain(|key, value| annotation(key).and_then(Value::as_str) != Some(value));
    let shown = mirror.metadata.labels.unwrap_or_default();
    let left = labels::OF_A_RESERVATION.iter().map(|key| (*key).to_owned());
    let gone = left.filter(|key| !shown.contains_key(key) && label(key).is_some()).map(|key| (key, Value::Null));
    let stale = shown.iter().filter(|(key, value)| label(key).and_then(Value::as_str) != Some(value.as_str()));
    let stale = stale.map(|(key, value)| (key.clone(), json!(value)));
    let labels: BTreeMap<String, Value> = stale.chain(gone).collect();
    let finalizers = finalizers_with_own(&object).filter(|_| claim.is_standalone());
    if desired.is_empty() && labels.is_empty() && finalizers.is_none() {
        return Ok(object);
    }
    let mut body = json!({ "metadata": {
        "uid": object.pointer("/metadata/uid"), "annotations": desired, "labels": labels,
    } });
    if let Some(finalizers) = finalizers {
        // The list replaces the one that was read.
        body["metadata"]["finalizers"] = json!(finalizers);
        body["metadata"]["resourceVersion"] = object.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
    }
    match connection.patch(OPERATION, path, PatchKind::Merge, &body).await {
        Ok(patched) => Ok(patched),
        // The object was deleted between the read and the write; its deletion terminates the node.
        Err(failed) if failed.is(404) && is_deleting(&object) => Ok(object),
        Err(failed) => Err(failed.into()),
    }
}

/// The finalizers of an object with that of nodeless; `None` if it has it. Kubernetes allows no new ones on an object that is being
/// deleted.
fn finalizers_with_own(object: &Value) -> Option<Vec<String>> {
    let present = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    let mut names: Vec<String> = present.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    if is_deleting(object) || names.iter().any(|name| name == labels::TERMINATION_FINALIZER) {
        return None;
    }
    names.push(labels::TERMINATION_FINALIZER.to_owned());
    Some(names)
}

/// Deletes the object and removes the finalizer of nodeless. With a uid, another object of the same name stays.
pub(crate) async fn remove(
    connection: &Connection,
    recent: &Recent,
    name: &str,
    expected: Option<&str>,
) -> Result<(), PortError> {
    let operation = "Kubernetes delete NodeClaim";
    let path = api::object(api::NODE_CLAIMS, name);
    recent.forget(&path);
    let options = expected.map_or_else(|| json!({}), |uid| json!({ "preconditions": { "uid": uid } }));
    // The object may be deleted already: the API server deletes it only once, and returns it each time.
    match connection.delete(operation, &path, &options).await? {
        Some(deleted) => {
            let object = decode(operation, &deleted)?;
            remove_finalizer(connection, operation, &path, labels::TERMINATION_FINALIZER, Some(object)).await
        }
        None => Ok(()),
    }
}

/// The JSON of a nodeless type.
pub(crate) fn as_value(object: &impl Serialize) -> Result<Value, CallError> {
    serde_json::to_value(object).map_err(|error| CallError::other(ErrorKind::Invalid, OPERATION, error.to_string()))
}
