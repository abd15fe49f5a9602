//! The objects of a cluster over its API, with a cache of those that were read.

use crate::connection::Connection;
use crate::store::{Store, list_selected, next};
use crate::watch::WatchError;
use async_trait::async_trait;
use futures::future::join_all;
use kube::core::params::ListParams;
use nodeless_cluster::kinds::{Kind, Pods};
use nodeless_cluster::{CallError, Deletion, Encoded, Listed, ObjectAt, Objects, Part, PatchKind, Selector, within};
use nodeless_ports::cluster::{BatchWindow, InvalidObject, PodBatch, PodRef};
use nodeless_ports::{ErrorKind, PortError};
use nodeless_telemetry::Context;
use serde_json::{Map, Value, json};
use std::any::{Any, TypeId};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

/// The wait before a watch is reopened that the API server closed at once.
const REOPEN: Duration = Duration::from_millis(100);

/// The objects of a Kubernetes cluster: those that were read once are only updated.
pub struct KubeObjects {
    connection: Connection,
    stores: std::sync::Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    /// The stores that the current view was read from. A view reads some kinds only if it needs them.
    view: std::sync::Mutex<HashMap<TypeId, Arc<dyn Confirm>>>,
    /// Above this number of nodes or pods, watches are resumed.
    few: Option<usize>,
}

impl From<Connection> for KubeObjects {
    fn from(connection: Connection) -> Self {
        Self { connection, stores: std::sync::Mutex::default(), view: std::sync::Mutex::default(), few: None }
    }
}

impl KubeObjects {
    /// Resumes watches above this number of nodes or pods; up to it, they are listed each time. At the default of 250 the costs are about
    /// equal.
    #[must_use]
    pub fn watching_above(connection: Connection, few: usize) -> Self {
        Self { few: Some(few), ..Self::from(connection) }
    }

    /// The store of a kind.
    fn store<K: Kind>(&self) -> Arc<Mutex<Store<K>>> {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let known = stores.get(&TypeId::of::<K>()).and_then(|store| store.clone().downcast().ok());
        known.unwrap_or_else(|| {
            let few = self.few.filter(|_| matches!(K::NAME, "Node" | "Pod"));
            let store = Arc::new(Mutex::new(few.map_or_else(Store::new, Store::watching_above)));
            stores.insert(TypeId::of::<K>(), store.clone());
            store
        })
    }
}

/// A store that a view is read from.
#[async_trait]
trait Confirm: Send + Sync {
    /// Waits until it is known whether the view has every change of this kind that was made before it was requested.
    async fn confirm(&self) -> Result<(), String>;
}

#[async_trait]
impl<K: Kind> Confirm for Mutex<Store<K>> {
    async fn confirm(&self) -> Result<(), String> {
        self.lock().await.confirm().await.map_err(|why| format!("{}: {why}", K::NAME))
    }
}

#[async_trait]
impl Objects for KubeObjects {
    async fn get(&self, operation: &str, at: ObjectAt<'_>) -> Result<Arc<Value>, CallError> {
        self.connection.get(operation, &at.url()).await.map(Arc::new)
    }

    async fn create(&self, operation: &str, path: &'static str, object: &Value) -> Result<Arc<Value>, CallError> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        self.connection.post(operation, &within(path, namespace), object).await.map(Arc::new)
    }

    async fn patch(
        &self,
        operation: &str,
        part: Part<'_>,
        kind: PatchKind,
        body: &Value,
    ) -> Result<Arc<Value>, CallError> {
        let path = match part {
            Part::Object(at) => at.url(),
            Part::Status(at) => format!("{}/status", at.url()),
        };
        self.connection.patch(operation, &path, kind, body).await.map(Arc::new)
    }

    async fn delete(&self, operation: &str, at: ObjectAt<'_>, options: Deletion<'_>) -> Result<Arc<Value>, CallError> {
        let mut body = Map::new();
        body.extend(options.uid.map(|uid| ("preconditions".to_owned(), json!({ "uid": uid }))));
        body.extend(options.grace_seconds.map(|seconds| ("gracePeriodSeconds".to_owned(), json!(seconds))));
        self.connection.delete(operation, &at.url(), &Value::Object(body)).await.map(Arc::new)
    }

    async fn evict(&self, operation: &str, pod: &PodRef) -> Result<(), CallError> {
        let body = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": { "name": pod.name, "namespace": pod.namespace },
            "deleteOptions": { "preconditions": { "uid": pod.uid } },
        });
        self.connection.post(operation, &format!("{}/eviction", ObjectAt::pod(pod).url()), &body).await.map(drop)
    }

    async fn list_selected<K: Kind, T: Send, F>(
        &self,
        selector: Selector<'_>,
        mut select: F,
    ) -> Result<Vec<T>, PortError>
    where
        F: FnMut(Encoded<'_>) -> Option<T> + Send,
    {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let params = ListParams {
            label_selector: given(selector.labels),
            field_selector: given(selector.fields),
            ..ListParams::default()
        };
        let path = within(K::PATH, selector.namespace);
        list_selected::<K, T>(&self.connection, &path, &params, |object| select(Encoded::Text(object))).await
    }

    async fn current_selected<K: Kind, T: Send, F>(
        &self,
        context: &Context,
        mut select: F,
    ) -> Result<(Vec<T>, Vec<InvalidObject>), PortError>
    where
        F: FnMut(&str, &K::Model) -> Option<T> + Send,
    {
        let store = self.store::<K>();
        let mut store = store.lock().await;
        store.refresh(&self.connection, context).await?;
        let selected = store.versioned().filter_map(|(version, object)| select(version, object)).collect();
        Ok((selected, store.invalid().collect()))
    }

    fn begin_view(&self) {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    async fn latest<K: Kind>(&self, context: &Context) -> Result<Listed<K>, PortError> {
        let store = self.store::<K>();
        let mut store = store.lock().await;
        store.latest(&self.connection, context).await?;
        self.view.lock().unwrap_or_else(PoisonError::into_inner).insert(TypeId::of::<K>(), self.store::<K>());
        Ok((store.objects().cloned().collect(), store.invalid().collect()))
    }

    fn leave_out<K: Kind>(&self) {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).remove(&TypeId::of::<K>());
    }

    async fn confirm(&self) -> Result<(), PortError> {
        let stores: Vec<Arc<dyn Confirm>> = {
            let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
            view.values().cloned().collect()
        };
        let proofs = join_all(stores.iter().map(|store| store.confirm())).await;
        let mut lacking: Vec<String> = proofs.into_iter().filter_map(Result::err).collect();
        if lacking.is_empty() {
            return Ok(());
        }
        lacking.sort();
        let message = format!("the API server sent changes too late for this view: {}", lacking.join("; "));
        Err(PortError::new(ErrorKind::Conflict, "Kubernetes view", message))
    }

    async fn wait_for_batch(&self, context: &Context, window: BatchWindow) -> Result<BTreeSet<String>, PortError> {
        let start = Instant::now();
        let store = self.store::<Pods>();
        let mut store = store.lock().await;
        store.latest(&self.connection, context).await?;
        let pending = store.objects().map(Arc::as_ref).filter(|pod| pod.is_provisionable());
        let seconds = window.max.max(window.burst).max(window.min).as_secs();
        let seconds = u32::try_from(seconds).unwrap_or(u32::MAX).saturating_add(1);
        let mut batch = PodBatch::new(window, pending);
        while start.elapsed() < batch.end() {
            let mut changes = match store.follow(&self.connection, seconds).await {
                Ok(changes) => changes,
                Err(WatchError::Expired) => {
                    store.relist(&self.connection).await?;
                    continue;
                }
                Err(WatchError::Call(failed)) => return Err(failed.into()),
            };
            loop {
                let change = match timeout_at(start + batch.end(), next(&mut changes)).await {
                    Err(_) => break,
                    Ok(None | Some(Err(_))) => {
                        // The watch was closed or interrupted: the next one resumes where this one ended, or fails.
                        tokio::time::sleep(REOPEN).await;
                        break;
                    }
                    Ok(Some(Ok(change))) => change,
                };
                let update = store.apply(&change);
                let is_new =
                    |before: Option<Arc<nodeless_model::Pod>>| before.is_none_or(|pod| !pod.is_provisionable());
                if let Some(pod) = update.after.filter(|pod| pod.is_provisionable())
                    && is_new(update.before)
                {
                    batch.note(start.elapsed(), &pod);
                }
            }
        }
        Ok(store.objects().filter(|pod| pod.is_provisionable()).map(|pod| pod.uid.clone()).collect())
    }
}
