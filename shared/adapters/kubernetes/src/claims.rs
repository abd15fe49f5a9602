//! The mirror: NodeClaim objects that show the records.

use crate::api::{self, PatchKind};
use crate::connection::Connection;
use crate::error::CallError;
use crate::log_lines::OwnerUnreadable;
use crate::merge::{difference, is_deleting, string};
use crate::nodes::remove_finalizer;
use crate::recent::Recent;
use nodeless_api::convert;
use nodeless_api::resources::NODE_CLAIMS;
use nodeless_model::{NodeClaim, Phase, labels};
use nodeless_ports::{ErrorKind, PortError};
use nodeless_telemetry::Context;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const OPERATION: &str = "Kubernetes mirror NodeClaim";

/// Makes the object equal to the record, and returns its uid.
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
        Some(object) => adopt(connection, path, object, claim).await?,
        // The object of a claim that was just launched usually does not exist. If it does, it cannot be created.
        None if claim.phase == Phase::Launched => create(connection, context, recent, path, claim).await?,
        // The whole status is written without reading the object first; what the object has beyond it is removed below.
        None => match write_status(connection, path, &desired).await {
            Ok(object) => adopt(connection, path, object, claim).await?,
            Err(failed) if failed.is(404) => create(connection, context, recent, path, claim).await?,
            Err(failed) => return Err(failed.into()),
        },
    };
    let present = object.get("status").cloned().unwrap_or_default();
    let uid = string(&object, "/metadata/uid").unwrap_or_default().to_owned();
    let current = match difference(&present, &desired) {
        Some(change) => write_status(connection, path, &change).await?,
        None => object,
    };
    recent.keep(path, current);
    Ok(uid)
}

/// Merges fields into the status, and returns the object.
async fn write_status(connection: &Connection, path: &str, fields: &Value) -> Result<Value, CallError> {
    let body = json!({ "status": fields });
    connection.patch(OPERATION, &format!("{path}/status"), PatchKind::Merge, &body).await
}

/// The NodePool that owns a new object. It is read once for many objects.
async fn owner(
    connection: &Connection,
    context: &Context,
    recent: &Recent,
    claim: &NodeClaim,
) -> Result<Option<nodeless_api::NodePool>, CallError> {
    let path = api::object(api::NODE_POOLS, &claim.node_pool);
    let read = match recent.get(&path) {
        Some(pool) => Some(pool),
        None => connection.get(OPERATION, &path).await?,
    };
    let Some(pool) = read else { return Ok(None) };
    recent.keep(&path, pool.clone());
    // A NodePool that cannot be decoded still owns its claims; without the reference they would outlive it.
    let decoded = serde_json::from_value::<nodeless_api::NodePool>(pool).inspect_err(|error| {
        let (claim, node_pool) = (claim.name.as_str(), claim.node_pool.as_str());
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
        Err(failed) if failed.is(409) => {
            let object = connection.get(OPERATION, path).await?.ok_or(failed)?;
            adopt(connection, path, object, claim).await
        }
        Err(failed) => Err(failed.into()),
    }
}

/// Adopts an existing object: one of Karpenter's, or of a record that was lost and rebuilt.
async fn adopt(connection: &Connection, path: &str, object: Value, claim: &NodeClaim) -> Result<Value, PortError> {
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
    if desired.is_empty() && labels.is_empty() {
        return Ok(object);
    }
    let body = json!({ "metadata": {
        "uid": object.pointer("/metadata/uid"), "annotations": desired, "labels": labels,
    } });
    match connection.patch(OPERATION, path, PatchKind::Merge, &body).await {
        Ok(patched) => Ok(patched),
        // The object was deleted between the read and the write; its deletion terminates the node.
        Err(failed) if failed.is(404) && is_deleting(&object) => Ok(object),
        Err(failed) => Err(failed.into()),
    }
}

/// Deletes the object and removes the finalizer of nodeless.
pub(crate) async fn remove(connection: &Connection, recent: &Recent, name: &str) -> Result<(), PortError> {
    let operation = "Kubernetes delete NodeClaim";
    let path = api::object(api::NODE_CLAIMS, name);
    recent.forget(&path);
    let Some(object) = connection.get(operation, &path).await? else { return Ok(()) };
    if !is_deleting(&object) {
        let options = json!({ "preconditions": { "uid": object.pointer("/metadata/uid") } });
        connection.delete(operation, &path, &options).await?;
    }
    remove_finalizer(connection, operation, &path, labels::TERMINATION_FINALIZER).await
}

/// The JSON of a nodeless type.
pub(crate) fn as_value(object: &impl Serialize) -> Result<Value, CallError> {
    serde_json::to_value(object).map_err(|error| CallError::other(ErrorKind::Invalid, OPERATION, error.to_string()))
}
