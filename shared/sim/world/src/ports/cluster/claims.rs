//! The mirror: NodeClaim objects that show the records.

use super::FIELD_MANAGER;
use super::objects::{delete, failed, get, only, remove_finalizer, update, write_status};
use crate::resources::{NODE_CLAIMS, NODE_POOLS};
use nodeless_api::{convert, managed};
use nodeless_fake_kubernetes::controllers::object::{is_deleting, uid};
use nodeless_fake_kubernetes::{ApiServer, CreateOptions};
use nodeless_model::{NodeClaim, labels};
use nodeless_ports::{ErrorKind, PortError};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

const OPERATION: &str = "Kubernetes mirror NodeClaim";

/// The JSON of a nodeless type.
pub(super) fn as_value(operation: &str, object: &impl Serialize) -> Result<Value, PortError> {
    serde_json::to_value(object).map_err(|error| PortError::new(ErrorKind::Invalid, operation, error.to_string()))
}

/// Makes the object equal to the record, and returns its uid.
pub(super) fn mirror(api: &ApiServer, claim: &NodeClaim) -> Result<String, PortError> {
    let object = match get(api, OPERATION, &NODE_CLAIMS, "", &claim.name)? {
        Some(object) if !claim.is_standalone() || uid(&object) == claim.uid => adopt(api, object, claim)?,
        // The object is the user's: it is never created, and another one of the same name is not written.
        _ if claim.is_standalone() => return Ok(claim.uid.clone()),
        Some(object) => adopt(api, object, claim)?,
        None => create(api, claim)?,
    };
    let desired = as_value(OPERATION, &convert::mirror(claim, None).status)?;
    write_status(api, OPERATION, &NODE_CLAIMS, &object, desired)?;
    Ok(uid(&object).to_owned())
}

/// Creates the object. Its spec is immutable.
fn create(api: &ApiServer, claim: &NodeClaim) -> Result<Arc<Value>, PortError> {
    let pool = claim.node_pool.as_ref().map(|name| get(api, OPERATION, &NODE_POOLS, "", name)).transpose()?.flatten();
    let pool = pool.and_then(|pool| serde_json::from_value::<nodeless_api::NodePool>(pool.as_ref().clone()).ok());
    let mut object = as_value(OPERATION, &convert::mirror(claim, pool.as_ref()))?;
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
        fields.insert("apiVersion".to_owned(), json!("karpenter.sh/v1"));
        fields.insert("kind".to_owned(), json!("NodeClaim"));
    }
    object["metadata"]["annotations"][labels::RECORD_UID] = json!(claim.uid);
    let options = CreateOptions { field_manager: Some(FIELD_MANAGER.to_owned()), dry_run: false };
    api.create(&NODE_CLAIMS, object, &options).map_err(|error| failed(OPERATION, &error))
}

/// Adopts an existing object.
fn adopt(api: &ApiServer, object: Arc<Value>, claim: &NodeClaim) -> Result<Arc<Value>, PortError> {
    if let Some(other) = managed::other::<nodeless_api::NodeClaim>(&object) {
        return Err(PortError::new(ErrorKind::Conflict, OPERATION, other.to_string()));
    }
    let mirror = convert::mirror(claim, None).metadata;
    let mut changed = object.as_ref().clone();
    let shown = mirror.labels.clone().unwrap_or_default();
    if let Some(present) = changed["metadata"]["labels"].as_object_mut() {
        // The instance may have left the reservation that it was launched into.
        present.retain(|key, _| !labels::OF_A_RESERVATION.contains(&key.as_str()) || shown.contains_key(key));
    }
    for (field, values) in [("annotations", mirror.annotations), ("labels", mirror.labels)] {
        for (key, value) in values.into_iter().flatten() {
            changed["metadata"][field][key] = json!(value);
        }
    }
    changed["metadata"]["annotations"][labels::RECORD_UID] = json!(claim.uid);
    if claim.is_standalone() && !is_deleting(&object) {
        let present = changed["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let others = present.into_iter().filter(|name| *name != labels::TERMINATION_FINALIZER);
        let all: Vec<Value> = others.chain([json!(labels::TERMINATION_FINALIZER)]).collect();
        changed["metadata"]["finalizers"] = json!(all);
    }
    if changed == *object {
        return Ok(object);
    }
    update(api, OPERATION, &NODE_CLAIMS, changed)
}

/// Deletes the object and removes the finalizer of nodeless.
pub(super) fn remove(api: &ApiServer, name: &str, expected: Option<&str>) -> Result<(), PortError> {
    let operation = "Kubernetes delete NodeClaim";
    let object = get(api, operation, &NODE_CLAIMS, "", name)?;
    let Some(object) = object.filter(|object| expected.is_none_or(|own| uid(object) == own)) else { return Ok(()) };
    if !is_deleting(&object) {
        delete(api, operation, &NODE_CLAIMS, "", name, &only(uid(&object)))?;
    }
    remove_finalizer(api, operation, &NODE_CLAIMS, name, labels::TERMINATION_FINALIZER)
}
