//! Configuration objects: reading one, and writing statuses, hash annotations and finalizers.

use crate::api::{self, PatchKind};
use crate::claims::as_value;
use crate::connection::{Connection, after_conflict};
use crate::error::CallError;
use crate::kinds::Kind;
use crate::merge::{difference, is_deleting, string, strings};
use crate::nodes::remove_finalizer;
use nodeless_api::{EC2NodeClass, EC2NodeClassStatus, hash};
use nodeless_model::labels;
use nodeless_ports::{ErrorKind, PortError};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// How often an EC2NodeClass is read again after a conflict.
const ATTEMPTS: u32 = 3;

/// Reads an EC2NodeClass.
pub(crate) async fn get(connection: &Connection, name: &str) -> Result<Option<EC2NodeClass>, PortError> {
    let operation = "Kubernetes get EC2NodeClass";
    let object = connection.get(operation, &api::object(api::NODE_CLASSES, name)).await?;
    Ok(object.map(|object| decode(operation, name, object)).transpose()?)
}

fn decode(operation: &str, name: &str, object: Value) -> Result<EC2NodeClass, CallError> {
    serde_json::from_value(object).map_err(|error| {
        CallError::other(ErrorKind::Invalid, operation, format!("EC2NodeClass {name} cannot be read: {error}"))
    })
}

/// Writes the status, the hash annotations, that of the certificate authority and the finalizer.
pub(crate) async fn write(
    connection: &Connection,
    name: &str,
    status: &EC2NodeClassStatus,
    certificate_authority: Option<&str>,
) -> Result<(), PortError> {
    let operation = "Kubernetes patch EC2NodeClass";
    let path = api::object(api::NODE_CLASSES, name);
    for attempt in 1.. {
        let Some(object) = connection.get(operation, &path).await? else {
            return Err(PortError::new(ErrorKind::NotFound, operation, format!("there is no EC2NodeClass {name}")));
        };
        let Some(body) = metadata_patch(&object, &decode(operation, name, object.clone())?, certificate_authority)
        else {
            return write_status(connection, operation, &path, &object, as_value(status)?).await;
        };
        match connection.patch(operation, &path, PatchKind::Merge, &body).await {
            Ok(object) => return write_status(connection, operation, &path, &object, as_value(status)?).await,
            Err(failed) if failed.is(409) && attempt < ATTEMPTS => after_conflict(attempt).await,
            Err(failed) => return Err(failed.into()),
        }
    }
    Ok(())
}

/// The missing finalizer and hash annotations of an EC2NodeClass. A deleted EC2NodeClass gets neither.
fn metadata_patch(object: &Value, class: &EC2NodeClass, certificate_authority: Option<&str>) -> Option<Value> {
    if is_deleting(object) {
        return None;
    }
    let mut metadata = Map::new();
    let mut hashes = vec![
        (labels::EC2_NODE_CLASS_HASH, hash::ec2_node_class(class)),
        (labels::EC2_NODE_CLASS_HASH_VERSION, hash::VERSION.to_owned()),
    ];
    hashes.extend(certificate_authority.map(|digest| (labels::CERTIFICATE_AUTHORITY, digest.to_owned())));
    let present =
        |key: &str| object.pointer("/metadata/annotations").and_then(|all| all.get(key)).and_then(Value::as_str);
    let annotations: Map<String, Value> = hashes
        .into_iter()
        .filter(|(key, value)| present(key) != Some(value))
        .map(|(key, value)| (key.to_owned(), Value::String(value)))
        .collect();
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
    }
    let mut finalizers = strings(object, "/metadata/finalizers");
    if !finalizers.iter().any(|finalizer| finalizer == labels::EC2_NODE_CLASS_FINALIZER) {
        finalizers.push(labels::EC2_NODE_CLASS_FINALIZER.to_owned());
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    if metadata.is_empty() {
        return None;
    }
    // The hash depends on the spec of this resourceVersion, and a merge patch replaces the whole list of finalizers.
    metadata.insert("resourceVersion".to_owned(), json!(string(object, "/metadata/resourceVersion")));
    Some(json!({ "metadata": metadata }))
}

/// Reads an object of a cluster-scoped kind.
pub(crate) async fn get_one<K: Kind>(connection: &Connection, name: &str) -> Result<Option<K::Model>, PortError> {
    get_in::<K>(connection, "", name).await
}

/// One object; the namespace is empty for cluster-scoped ones.
pub(crate) async fn get_in<K: Kind>(
    connection: &Connection,
    namespace: &str,
    name: &str,
) -> Result<Option<K::Model>, PortError> {
    let operation = format!("Kubernetes get {}", K::NAME);
    let path = api::object(&api::within(K::PATH, namespace), name);
    let Some(object) = connection.get(&operation, &path).await? else { return Ok(None) };
    let slim = serde_json::from_value::<K::Slim>(object).map_err(|error| error.to_string());
    let reduced = slim.and_then(K::reduce).map_err(|error| {
        PortError::new(ErrorKind::Invalid, &operation, format!("{} {name} cannot be read: {error}", K::NAME))
    });
    reduced.map(Some)
}

/// Writes the status of an object; the namespace is empty for cluster-scoped ones.
pub(crate) async fn write_status_of<K: Kind>(
    connection: &Connection,
    namespace: &str,
    name: &str,
    status: &impl Serialize,
) -> Result<(), PortError> {
    let operation = format!("Kubernetes patch {} status", K::NAME);
    let path = api::object(&api::within(K::PATH, namespace), name);
    let Some(object) = connection.get(&operation, &path).await? else {
        return Err(PortError::new(ErrorKind::NotFound, &operation, format!("there is no {} {name}", K::NAME)));
    };
    K::check_owner(&object).map_err(|why| PortError::new(ErrorKind::Conflict, &operation, why))?;
    write_status(connection, &operation, &path, &object, as_value(status)?).await
}

/// Writes the desired status if it differs. Only nodeless writes this status.
async fn write_status(
    connection: &Connection,
    operation: &str,
    path: &str,
    object: &Value,
    desired: Value,
) -> Result<(), PortError> {
    let present = object.get("status").cloned().unwrap_or_default();
    let Some(change) = difference(&present, &desired) else { return Ok(()) };
    let body = json!({ "metadata": { "uid": object.pointer("/metadata/uid") }, "status": change });
    connection.patch(operation, &format!("{path}/status"), PatchKind::Merge, &body).await.map(drop).map_err(Into::into)
}

/// Removes the finalizer.
pub(crate) async fn release(connection: &Connection, name: &str) -> Result<(), PortError> {
    let path = api::object(api::NODE_CLASSES, name);
    remove_finalizer(connection, "Kubernetes release EC2NodeClass", &path, labels::EC2_NODE_CLASS_FINALIZER, None).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_api::test_support::ec2_node_class_manifest;

    fn class() -> Value {
        let mut object = ec2_node_class_manifest("default", "example", &json!({}));
        object["metadata"]["uid"] = json!("u");
        object["metadata"]["resourceVersion"] = json!("3");
        object
    }

    fn patch(object: &Value) -> Option<Value> {
        metadata_patch(object, &decode("test", "default", object.clone()).unwrap(), None)
    }

    #[test]
    fn finalizer_and_hash_annotations_are_added_once() {
        let mut object = class();
        let body = patch(&object).unwrap();
        assert_eq!(body["metadata"]["finalizers"], json!(["karpenter.k8s.aws/termination"]));
        assert_eq!(body["metadata"]["annotations"][labels::EC2_NODE_CLASS_HASH_VERSION], hash::VERSION);
        assert_eq!(body["metadata"]["resourceVersion"], "3");
        object["metadata"]["finalizers"] = body["metadata"]["finalizers"].clone();
        object["metadata"]["annotations"] = body["metadata"]["annotations"].clone();
        assert_eq!(patch(&object), None);
        object["spec"]["role"] = json!("other");
        assert!(patch(&object).unwrap()["metadata"]["annotations"][labels::EC2_NODE_CLASS_HASH].is_string());
    }

    #[test]
    fn a_class_that_is_being_deleted_gets_no_finalizer() {
        let mut object = class();
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(patch(&object), None);
    }
}
