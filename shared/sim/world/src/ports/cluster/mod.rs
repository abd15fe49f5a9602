//! The objects of the API server in memory, and the Cluster port over them.

mod decoded;

use async_trait::async_trait;
use decoded::Decoded;
use nodeless_cluster::kinds::{Kind, Pods};
use nodeless_cluster::{
    ApiAnswer, CallError, Cause, Deletion, Encoded, FIELD_MANAGER, Listed, ObjectAt, ObjectCluster, Objects, Part,
    PatchKind, Selector, separate,
};
use nodeless_fake_kubernetes::server::LabelSelector;
use nodeless_fake_kubernetes::{
    ApiServer, CreateOptions, DeleteOptions, ListOptions, PatchOptions, PatchType, Preconditions, Resource, Status,
};
use nodeless_model::Pod;
use nodeless_ports::PortError;
use nodeless_ports::cluster::{BatchWindow, InvalidObject, PodBatch, PodRef};
use nodeless_telemetry::{Context, Null};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The interval at which `wait_for_batch` looks for newly pending pods.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Pods that have no node.
const UNBOUND: &str = "spec.nodeName=,status.phase!=Succeeded,status.phase!=Failed";

/// The Cluster port over the API server in memory.
pub type MemoryCluster = ObjectCluster<MemoryObjects>;

/// The port of one process with this clock. It keeps what it has read recently.
#[must_use]
pub fn memory_cluster(objects: impl Into<MemoryObjects>, clock: crate::world::WorldClock) -> MemoryCluster {
    let context = Context { cluster_name: String::new(), clock: Arc::new(clock), sink: Arc::new(Null) };
    MemoryCluster::new(objects, context)
}

/// The objects of an API server in memory. Clones share what they have decoded.
#[derive(Clone, Debug)]
pub struct MemoryObjects {
    api: ApiServer,
    decoded: Decoded,
}

impl From<&ApiServer> for MemoryObjects {
    fn from(api: &ApiServer) -> Self {
        Self { api: api.as_user(FIELD_MANAGER), decoded: Decoded::default() }
    }
}

/// The resource of a path such as `/apis/apps/v1/deployments`.
fn resource(path: &'static str) -> Resource {
    let parts: Vec<&'static str> = path.split('/').collect();
    match parts[..] {
        ["", "api", version, plural] => Resource::new("", version, plural, "", true),
        ["", "apis", group, version, plural] => Resource::new(group, version, plural, "", true),
        _ => Resource::new("", "", path, "", true),
    }
}

/// The response of the API server as a failed call.
fn failed(operation: &str, status: Status) -> CallError {
    let causes = status.causes.into_iter();
    let answer = ApiAnswer {
        code: status.code,
        reason: status.reason.to_owned(),
        message: status.message,
        name: status.name.map(String::from).unwrap_or_default(),
        causes: causes.map(|cause| Cause { reason: cause.reason, field: cause.field.unwrap_or_default() }).collect(),
    };
    CallError::answered(operation, answer)
}

impl MemoryObjects {
    fn listed<K: Kind>(&self, selector: Selector<'_>) -> Result<Vec<Arc<Value>>, PortError> {
        let list = || {
            let namespace = (!selector.namespace.is_empty()).then(|| selector.namespace.to_owned());
            let labels = LabelSelector::parse(selector.labels)?;
            let options = ListOptions { namespace, labels, fields: selector.fields.to_owned() };
            Ok(self.api.list(&resource(K::PATH), &options)?.items)
        };
        list().map_err(|status| failed(&format!("Kubernetes list {}", K::NAME), status).into())
    }

    /// The pending pods.
    async fn pending(&self) -> Result<Vec<Arc<Pod>>, PortError> {
        let (pods, _) = self.list::<Pods>(Selector::fields(UNBOUND)).await?;
        Ok(pods.into_iter().filter(|pod| pod.is_provisionable()).collect())
    }
}

#[async_trait]
impl Objects for MemoryObjects {
    async fn get(&self, operation: &str, at: ObjectAt<'_>) -> Result<Arc<Value>, CallError> {
        self.api.get(&resource(at.path), at.namespace, at.name).map_err(|status| failed(operation, status))
    }

    async fn create(&self, operation: &str, path: &'static str, object: &Value) -> Result<Arc<Value>, CallError> {
        let options = CreateOptions { field_manager: Some(FIELD_MANAGER.to_owned()), dry_run: false };
        let created = self.api.create(&resource(path), object.clone(), &options);
        created.map_err(|status| failed(operation, status))
    }

    async fn patch(
        &self,
        operation: &str,
        part: Part<'_>,
        kind: PatchKind,
        body: &Value,
    ) -> Result<Arc<Value>, CallError> {
        let (at, subresource) = match part {
            Part::Object(at) => (at, None),
            Part::Status(at) => (at, Some("status")),
        };
        let (kind, force) = match kind {
            PatchKind::Merge => (PatchType::Merge, false),
            PatchKind::Json => (PatchType::Json, false),
            PatchKind::Strategic => (PatchType::Strategic, false),
            PatchKind::Apply => (PatchType::Apply, true),
        };
        let options = PatchOptions { field_manager: Some(FIELD_MANAGER.to_owned()), force, dry_run: false };
        let patched = self.api.patch(&resource(at.path), at.namespace, at.name, subresource, kind, body, &options);
        patched.map_err(|status| failed(operation, status))
    }

    async fn delete(&self, operation: &str, at: ObjectAt<'_>, options: Deletion<'_>) -> Result<Arc<Value>, CallError> {
        let options = DeleteOptions {
            grace_period_seconds: options.grace_seconds.map(i64::from),
            preconditions: Preconditions { uid: options.uid.map(str::to_owned), ..Preconditions::default() },
            ..DeleteOptions::default()
        };
        let deleted = self.api.delete(&resource(at.path), at.namespace, at.name, &options);
        deleted.map_err(|status| failed(operation, status))
    }

    async fn evict(&self, operation: &str, pod: &PodRef) -> Result<(), CallError> {
        let preconditions = Preconditions { uid: Some(pod.uid.clone()), ..Preconditions::default() };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        self.api.evict(&pod.namespace, &pod.name, &options).map_err(|status| failed(operation, status))
    }

    async fn list_selected<K: Kind, T: Send, F>(
        &self,
        selector: Selector<'_>,
        mut select: F,
    ) -> Result<Vec<T>, PortError>
    where
        F: FnMut(Encoded<'_>) -> Option<T> + Send,
    {
        Ok(self.listed::<K>(selector)?.iter().filter_map(|object| select(Encoded::Value(object))).collect())
    }

    async fn list<K: Kind>(&self, selector: Selector<'_>) -> Result<Listed<K>, PortError> {
        Ok(separate(self.decoded.decode::<K>(&self.listed::<K>(selector)?)))
    }

    async fn current_selected<K: Kind, T: Send, F>(
        &self,
        _context: &Context,
        mut select: F,
    ) -> Result<(Vec<T>, Vec<InvalidObject>), PortError>
    where
        F: FnMut(&str, &K::Model) -> Option<T> + Send,
    {
        let objects = self.listed::<K>(Selector::fields(K::FIELDS.unwrap_or_default()))?;
        let mut selected = Vec::new();
        for (object, decoded) in objects.iter().zip(self.decoded.decode::<K>(&objects)) {
            let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            match decoded {
                Ok(model) => selected.extend(select(version, &model).map(Ok)),
                Err(invalid) => selected.push(Err(invalid)),
            }
        }
        Ok(separate(selected))
    }

    fn begin_view(&self) {}

    async fn latest<K: Kind>(&self, _context: &Context) -> Result<Listed<K>, PortError> {
        self.list::<K>(Selector::fields(K::FIELDS.unwrap_or_default())).await
    }

    fn leave_out<K: Kind>(&self) {}

    /// A view is read from the objects themselves, so it always is current.
    async fn confirm(&self) -> Result<(), PortError> {
        Ok(())
    }

    async fn wait_for_batch(&self, context: &Context, window: BatchWindow) -> Result<BTreeSet<String>, PortError> {
        let start = context.now();
        let waited = || Duration::try_from(context.now().duration_since(start)).unwrap_or_default();
        let mut pending = self.pending().await?;
        let mut known: BTreeSet<String> = pending.iter().map(|pod| pod.uid.clone()).collect();
        let mut batch = PodBatch::new(window, pending.iter().map(Arc::as_ref));
        while waited() < batch.end() {
            context.clock.sleep(POLL_INTERVAL.min(batch.end().saturating_sub(waited()))).await;
            pending = self.pending().await?;
            pending.iter().filter(|pod| known.insert(pod.uid.clone())).for_each(|pod| batch.note(waited(), pod));
        }
        Ok(pending.iter().map(|pod| pod.uid.clone()).collect())
    }
}
