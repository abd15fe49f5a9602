//! The mirror: NodeClaim objects that show the records.

use crate::failure::CallError;
use crate::kinds::{Kind as _, NodeClaims, NodePools};
use crate::log_lines::OwnerUnreadable;
use crate::merge::{difference, is_deleting, string, strings};
use crate::node_classes::as_value;
use crate::object_cluster::ObjectCluster;
use crate::objects::{Deletion, ObjectAt, Objects, Part, PatchKind, read};
use nodeless_api::resources::NODE_CLAIMS;
use nodeless_api::{convert, managed};
use nodeless_model::{NodeClaim, Phase, labels};
use nodeless_ports::{ErrorKind, PortError};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const OPERATION: &str = "Kubernetes mirror NodeClaim";

/// The place of a NodeClaim object.
const fn at(name: &str) -> ObjectAt<'_> {
    ObjectAt::cluster_scoped(NodeClaims::PATH, name)
}

impl<O: Objects> ObjectCluster<O> {
    /// Makes the object equal to the record, and returns its uid. The object of a claim without a NodePool is only written if it still
    /// exists.
    pub(crate) async fn mirror(&self, claim: &NodeClaim) -> Result<String, PortError> {
        let path = at(&claim.name).url();
        let kept = self.recent.get(&path, self.now());
        let was_kept = kept.is_some();
        match self.mirror_from(kept, claim).await {
            // The object has changed or is gone; it is read, and created if it is missing.
            Err(error) if was_kept && matches!(error.kind, ErrorKind::NotFound | ErrorKind::Conflict) => {
                self.recent.forget(&path);
                self.mirror_from(None, claim).await
            }
            done => done,
        }
    }

    async fn mirror_from(&self, kept: Option<Arc<Value>>, claim: &NodeClaim) -> Result<String, PortError> {
        let desired = as_value(OPERATION, &convert::mirror(claim, None).status)?;
        let is_meant = |object: &Arc<Value>| !claim.is_standalone() || is_object_of(object, &claim.uid);
        let object = match kept.filter(is_meant) {
            Some(object) => self.adopt(object, claim).await?,
            // The object is the user's: it is never created, and another one of the same name is not written.
            None if claim.is_standalone() => {
                let object = read(&self.objects, OPERATION, at(&claim.name)).await?;
                let Some(object) = object.filter(is_meant) else { return Ok(claim.uid.clone()) };
                self.adopt(object, claim).await?
            }
            // The object of a claim that was just launched usually does not exist. If it does, it cannot be created.
            None if matches!(claim.phase, Phase::Launched | Phase::WarmLaunched) => self.create_claim(claim).await?,
            None => match self.replace_status(claim).await {
                Ok(object) => self.adopt(object, claim).await?,
                Err(failed) if failed.is(404) => self.create_claim(claim).await?,
                // The object has another class, or a webhook refuses the status.
                Err(failed) if failed.is(422) => self.adopt_present(claim, failed).await?,
                Err(failed) => return Err(failed.into()),
            },
        };
        let present = object.get("status").cloned().unwrap_or_default();
        let uid = string(&object, "/metadata/uid").unwrap_or_default().to_owned();
        let current = match difference(&present, &desired) {
            Some(change) => {
                // An object with another uid is a conflict.
                let body = json!({ "metadata": { "uid": uid }, "status": change });
                self.objects.patch(OPERATION, Part::Status(at(&claim.name)), PatchKind::Merge, &body).await?
            }
            None => object,
        };
        self.recent.keep(&at(&claim.name).url(), current, self.now());
        Ok(uid)
    }

    /// Replaces the status of an object that was not read, and returns the object. The API server refuses it (422) if the object has a
    /// class of another controller.
    async fn replace_status(&self, claim: &NodeClaim) -> Result<Arc<Value>, CallError> {
        let desired = as_value(OPERATION, &convert::mirror(claim, None))?;
        let class = &desired["spec"]["nodeClassRef"];
        let operations = json!([
            { "op": "test", "path": "/spec/nodeClassRef/group", "value": class["group"] },
            { "op": "test", "path": "/spec/nodeClassRef/kind", "value": class["kind"] },
            { "op": "add", "path": "/status", "value": desired["status"] },
        ]);
        self.objects.patch(OPERATION, Part::Status(at(&claim.name)), PatchKind::Json, &operations).await
    }

    /// The NodePool that owns a new object. It is read once for many objects.
    async fn owner(&self, claim: &NodeClaim) -> Result<Option<nodeless_api::NodePool>, CallError> {
        let Some(name) = &claim.node_pool else { return Ok(None) };
        let at = ObjectAt::cluster_scoped(NodePools::PATH, name);
        let found = match self.recent.get(&at.url(), self.now()) {
            Some(pool) => Some(pool),
            None => read(&self.objects, OPERATION, at).await?,
        };
        let Some(pool) = found else { return Ok(None) };
        // A NodePool that cannot be decoded still owns its claims; without the reference they would outlive it.
        let decoded = <nodeless_api::NodePool as serde::Deserialize>::deserialize(pool.as_ref()).inspect_err(|error| {
            let (claim, node_pool) = (claim.name.as_str(), name.as_str());
            self.context.log(&OwnerUnreadable { claim, node_pool, error: &error.to_string() });
        });
        self.recent.keep(&at.url(), pool, self.now());
        Ok(decoded.ok())
    }

    /// Creates the object. Its spec is immutable, so only this function writes it.
    async fn create_claim(&self, claim: &NodeClaim) -> Result<Arc<Value>, PortError> {
        let pool = self.owner(claim).await?;
        let mut object = as_value(OPERATION, &convert::mirror(claim, pool.as_ref()))?;
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
            fields.insert("apiVersion".to_owned(), json!(NODE_CLAIMS.api_version));
            fields.insert("kind".to_owned(), json!(NODE_CLAIMS.kind));
        }
        object["metadata"]["annotations"][labels::RECORD_UID] = json!(claim.uid);
        match self.objects.create(OPERATION, NodeClaims::PATH, &object).await {
            Ok(created) => Ok(created),
            // The object exists already, or another process created it first.
            Err(failed) if failed.is(409) => self.adopt_present(claim, failed).await,
            Err(failed) => Err(failed.into()),
        }
    }

    /// Reads the object because of which a call failed, and adopts it.
    async fn adopt_present(&self, claim: &NodeClaim, failed: CallError) -> Result<Arc<Value>, PortError> {
        let object = read(&self.objects, OPERATION, at(&claim.name)).await?.ok_or(failed)?;
        self.adopt(object, claim).await
    }

    /// Adopts an existing object: one of Karpenter's, or of a record that was lost and rebuilt.
    async fn adopt(&self, object: Arc<Value>, claim: &NodeClaim) -> Result<Arc<Value>, PortError> {
        if let Some(other) = managed::other::<nodeless_api::NodeClaim>(&object) {
            return Err(PortError::new(ErrorKind::Conflict, OPERATION, other.to_string()));
        }
        let Some(body) = adoption(&object, claim) else { return Ok(object) };
        match self.objects.patch(OPERATION, Part::Object(at(&claim.name)), PatchKind::Merge, &body).await {
            Ok(patched) => Ok(patched),
            // The object was deleted between the read and the write; its deletion terminates the node.
            Err(failed) if failed.is(404) && is_deleting(&object) => Ok(object),
            Err(failed) => Err(failed.into()),
        }
    }

    /// Deletes the object and removes the finalizer of nodeless. With a uid, another object of the same name stays.
    pub(crate) async fn remove_mirror(&self, name: &str, expected: Option<&str>) -> Result<(), PortError> {
        let operation = "Kubernetes delete NodeClaim";
        self.recent.forget(&at(name).url());
        let options = Deletion { uid: expected, ..Deletion::default() };
        // The object may be deleted already: the API server deletes it only once, and returns it each time.
        match self.remove(operation, at(name), options).await? {
            Some(object) => {
                self.remove_finalizer(operation, at(name), labels::TERMINATION_FINALIZER, Some(object)).await
            }
            None => Ok(()),
        }
    }
}

/// Whether an object has this uid.
fn is_object_of(object: &Value, uid: &str) -> bool {
    string(object, "/metadata/uid") == Some(uid)
}

/// The patch of the metadata of an existing object; `None` if it is as the record states.
fn adoption(object: &Value, claim: &NodeClaim) -> Option<Value> {
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
    let finalizers = finalizers_with_own(object).filter(|_| claim.is_standalone());
    if desired.is_empty() && labels.is_empty() && finalizers.is_none() {
        return None;
    }
    let mut body = json!({ "metadata": {
        "uid": object.pointer("/metadata/uid"), "annotations": desired, "labels": labels,
    } });
    if let Some(finalizers) = finalizers {
        // The list replaces the one that was read.
        body["metadata"]["finalizers"] = json!(finalizers);
        body["metadata"]["resourceVersion"] = object.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
    }
    Some(body)
}

/// The finalizers of an object with that of nodeless; `None` if it has it. Kubernetes allows no new ones on an object that is being
/// deleted.
fn finalizers_with_own(object: &Value) -> Option<Vec<String>> {
    let mut names = strings(object, "/metadata/finalizers");
    if is_deleting(object) || names.iter().any(|name| name == labels::TERMINATION_FINALIZER) {
        return None;
    }
    names.push(labels::TERMINATION_FINALIZER.to_owned());
    Some(names)
}
