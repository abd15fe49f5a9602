//! Configuration objects: reading one, and writing statuses, hash annotations and finalizers.

use crate::failure::CallError;
use crate::kinds::{Kind, NodeClasses};
use crate::merge::{difference, is_deleting, string, strings};
use crate::object_cluster::ObjectCluster;
use crate::objects::{Encoded, ObjectAt, Objects, Part, PatchKind, read, taken};
use nodeless_api::{EC2NodeClass, EC2NodeClassStatus, hash};
use nodeless_model::labels;
use nodeless_ports::{ErrorKind, PortError};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// How often an EC2NodeClass is read again after a conflict.
const ATTEMPTS: u32 = 3;

/// The JSON of a nodeless type.
pub(crate) fn as_value(operation: &str, object: &impl Serialize) -> Result<Value, CallError> {
    serde_json::to_value(object).map_err(|error| CallError::other(ErrorKind::Invalid, operation, error.to_string()))
}

/// Converts an object that was read.
fn converted<K: Kind>(operation: &str, name: &str, object: &Arc<Value>) -> Result<K::Model, PortError> {
    taken::<K>(Encoded::Value(object)).map_err(|error| {
        PortError::new(ErrorKind::Invalid, operation, format!("{} {name} cannot be read: {error}", K::NAME))
    })
}

impl<O: Objects> ObjectCluster<O> {
    /// Reads an object of a cluster-scoped kind.
    pub(crate) async fn get_one<K: Kind>(&self, name: &str) -> Result<Option<K::Model>, PortError> {
        self.get_in::<K>("", name).await
    }

    /// One object; the namespace is empty for cluster-scoped ones.
    pub(crate) async fn get_in<K: Kind>(&self, namespace: &str, name: &str) -> Result<Option<K::Model>, PortError> {
        let operation = format!("Kubernetes get {}", K::NAME);
        let object = read(&self.objects, &operation, ObjectAt { path: K::PATH, namespace, name }).await?;
        object.map(|object| converted::<K>(&operation, name, &object)).transpose()
    }

    /// Writes the status, the hash annotations, that of the certificate authority and the finalizer.
    pub(crate) async fn write_node_class(
        &self,
        name: &str,
        status: &EC2NodeClassStatus,
        certificate_authority: Option<&str>,
    ) -> Result<(), PortError> {
        let operation = "Kubernetes patch EC2NodeClass";
        let at = ObjectAt::cluster_scoped(NodeClasses::PATH, name);
        let desired = as_value(operation, status)?;
        for attempt in 1.. {
            let Some(object) = read(&self.objects, operation, at).await? else {
                return Err(PortError::new(ErrorKind::NotFound, operation, format!("there is no EC2NodeClass {name}")));
            };
            let class = converted::<NodeClasses>(operation, name, &object)?;
            let Some(body) = metadata_patch(&object, &class, certificate_authority) else {
                return self.write_status(operation, at, &object, &desired).await;
            };
            match self.objects.patch(operation, Part::Object(at), PatchKind::Merge, &body).await {
                Ok(object) => return self.write_status(operation, at, &object, &desired).await,
                Err(failed) if failed.is(409) && attempt < ATTEMPTS => self.after_conflict(attempt).await,
                Err(failed) => return Err(failed.into()),
            }
        }
        Ok(())
    }

    /// Writes the status of an object; the namespace is empty for cluster-scoped ones.
    pub(crate) async fn write_status_of<K: Kind>(
        &self,
        namespace: &str,
        name: &str,
        status: &(impl Serialize + Sync),
    ) -> Result<(), PortError> {
        let operation = format!("Kubernetes patch {} status", K::NAME);
        let at = ObjectAt { path: K::PATH, namespace, name };
        let Some(object) = read(&self.objects, &operation, at).await? else {
            return Err(PortError::new(ErrorKind::NotFound, &operation, format!("there is no {} {name}", K::NAME)));
        };
        K::check_owner(&object).map_err(|why| PortError::new(ErrorKind::Conflict, &operation, why))?;
        self.write_status(&operation, at, &object, &as_value(&operation, status)?).await
    }

    /// Writes the desired status if it differs. Only nodeless writes this status.
    async fn write_status(
        &self,
        operation: &str,
        at: ObjectAt<'_>,
        object: &Value,
        desired: &Value,
    ) -> Result<(), PortError> {
        let present = object.get("status").cloned().unwrap_or_default();
        let Some(change) = difference(&present, desired) else { return Ok(()) };
        let body = json!({ "metadata": { "uid": object.pointer("/metadata/uid") }, "status": change });
        self.objects.patch(operation, Part::Status(at), PatchKind::Merge, &body).await?;
        Ok(())
    }
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
        metadata_patch(object, &serde_json::from_value(object.clone()).unwrap(), None)
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
