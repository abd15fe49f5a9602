//! Reads configuration objects, and writes their status.

use super::claims::as_value;
use super::objects::{self, remove_finalizer, strings, update, write_status};
use crate::resources::{NODE_CLASSES, NODE_POOLS};
use nodeless_api::{EC2NodeClass, EC2NodeClassStatus, NodePool, hash, managed};
use nodeless_fake_kubernetes::controllers::object::is_deleting;
use nodeless_fake_kubernetes::{ApiServer, Resource};
use nodeless_model::labels;
use nodeless_ports::{ErrorKind, PortError};
use serde::{Deserialize as _, Serialize};
use serde_json::{Value, json};

/// One EC2NodeClass.
pub(super) fn get(api: &ApiServer, name: &str) -> Result<Option<EC2NodeClass>, PortError> {
    let operation = "Kubernetes get EC2NodeClass";
    let object = objects::get(api, operation, &NODE_CLASSES, "", name)?;
    object.map(|object| decode(operation, name, &object)).transpose()
}

fn decode(operation: &str, name: &str, object: &Value) -> Result<EC2NodeClass, PortError> {
    EC2NodeClass::deserialize(object).map_err(|error| {
        PortError::new(ErrorKind::Invalid, operation, format!("EC2NodeClass {name} cannot be read: {error}"))
    })
}

/// Writes the status, the hash annotations, that of the certificate authority, and the finalizer of nodeless. A class that is being deleted gets neither annotations
/// nor finalizer.
pub(super) fn write(
    api: &ApiServer,
    name: &str,
    status: &EC2NodeClassStatus,
    certificate_authority: Option<&str>,
) -> Result<(), PortError> {
    let operation = "Kubernetes patch EC2NodeClass";
    let Some(mut object) = objects::get(api, operation, &NODE_CLASSES, "", name)? else {
        return Err(PortError::new(ErrorKind::NotFound, operation, format!("there is no EC2NodeClass {name}")));
    };
    if !is_deleting(&object) {
        let class = decode(operation, name, &object)?;
        let mut changed = object.as_ref().clone();
        let annotations = &mut changed["metadata"]["annotations"];
        annotations[labels::EC2_NODE_CLASS_HASH] = json!(hash::ec2_node_class(&class));
        annotations[labels::EC2_NODE_CLASS_HASH_VERSION] = json!(hash::VERSION);
        if let Some(digest) = certificate_authority {
            annotations[labels::CERTIFICATE_AUTHORITY] = json!(digest);
        }
        let mut finalizers = strings(&object, "/metadata/finalizers");
        if !finalizers.iter().any(|finalizer| finalizer == labels::EC2_NODE_CLASS_FINALIZER) {
            finalizers.push(labels::EC2_NODE_CLASS_FINALIZER.to_owned());
            changed["metadata"]["finalizers"] = json!(finalizers);
        }
        if changed != *object {
            object = update(api, operation, &NODE_CLASSES, changed)?;
        }
    }
    write_status(api, operation, &NODE_CLASSES, &object, as_value(operation, status)?)
}

/// Writes the status of an object; the namespace is empty for cluster-scoped ones.
pub(super) fn write_status_of(
    api: &ApiServer,
    resource: &Resource,
    namespace: &str,
    name: &str,
    status: &impl Serialize,
) -> Result<(), PortError> {
    let operation = format!("Kubernetes patch {} status", resource.kind);
    let Some(object) = objects::get(api, &operation, resource, namespace, name)? else {
        return Err(PortError::new(ErrorKind::NotFound, &operation, format!("there is no {} {name}", resource.kind)));
    };
    if let Some(other) = managed::other::<NodePool>(&object).filter(|_| *resource == NODE_POOLS) {
        return Err(PortError::new(ErrorKind::Conflict, &operation, other.to_string()));
    }
    write_status(api, &operation, resource, &object, as_value(&operation, status)?)
}

/// Removes the finalizer of nodeless.
pub(super) fn release(api: &ApiServer, name: &str) -> Result<(), PortError> {
    remove_finalizer(api, "Kubernetes release EC2NodeClass", &NODE_CLASSES, name, labels::EC2_NODE_CLASS_FINALIZER)
}
