//! [`ApiServer`]: the handle that controllers and the HTTP API share.

mod options;

pub use options::{Clock, CreateOptions, List, ListOptions, Options, PatchOptions, UpdateOptions};

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

use crate::server::admission::{self, Call};
use crate::server::definition::Definition;
use crate::server::field_selector::FieldSelector;
use crate::server::garbage::{self, DeleteOptions};
use crate::server::patch::PatchType;
use crate::server::path::text;
use crate::server::resource::{EVENTS, Resource};
use crate::server::status::Status;
use crate::server::store::{Change, EVENT_TTL, ObjectKey, Store};
use crate::server::time::{Ages, WallClock};
use crate::server::unknown_fields::unknown_fields;
use crate::server::writes::{self, Part, Request};
use crate::server::{bootstrap, conversion, eviction, patching, quota, scale};

/// How many reviews of in-process writes may wait for [`ApiServer::run_reviews`].
const WAITING_REVIEWS: usize = 10_000;

struct Shared {
    store: Mutex<Store>,
    clock: Clock,
    revisions: watch::Sender<u64>,
    watches_held: watch::Sender<bool>,
    reviews: Mutex<VecDeque<Call>>,
    reviews_waiting: Notify,
    token: Option<String>,
}

/// A Kubernetes API server in memory. Clones share one state.
#[derive(Clone)]
pub struct ApiServer {
    shared: Arc<Shared>,
    /// Set after webhooks have allowed the write.
    reviewed: bool,
    user: Option<&'static str>,
    wall: Option<WallClock>,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ApiServer").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

impl ApiServer {
    /// A server with the objects of every new cluster: namespaces, priority classes, the `kubernetes` and `kube-dns` services.
    ///
    /// # Errors
    /// When one of these objects is rejected, which would be a bug of this crate.
    pub fn new(options: Options) -> Result<Self, Status> {
        let Options { clock, seed, history, token } = options;
        let mut store = Store::new(seed, history);
        bootstrap::fill(&mut store, Request { now: clock(), manager: None, dry_run: false })?;
        let (revisions, _) = watch::channel(store.revision);
        let shared = Shared {
            store: Mutex::new(store),
            clock,
            revisions,
            watches_held: watch::Sender::new(false),
            reviews: Mutex::default(),
            reviews_waiting: Notify::new(),
            token,
        };
        Ok(Self { shared: Arc::new(shared), reviewed: false, user: None, wall: None })
    }

    /// Returns the server for this user, who is recorded with each [`Change`].
    #[must_use]
    pub fn as_user(&self, user: &'static str) -> Self {
        Self { user: Some(user), ..self.clone() }
    }

    /// Returns the server with ages in Tables on the wall clock of its clients.
    #[must_use]
    pub fn with_ages_on(&self, wall: WallClock) -> Self {
        Self { wall: Some(wall), ..self.clone() }
    }

    pub(crate) fn ages(&self) -> Ages {
        Ages { now: self.now(), wall: self.wall }
    }

    /// The time of the server's clock.
    pub fn now(&self) -> Timestamp {
        (self.shared.clock)()
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.shared.token.as_deref()
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.shared.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write<T>(&self, change: impl FnOnce(&mut Store, Timestamp) -> T) -> T {
        let now = self.now();
        let mut store = self.store();
        store.user = self.user;
        store.now = now;
        let result = change(&mut store, now);
        let revision = store.revision;
        drop(store);
        self.shared.revisions.send_if_modified(|current| std::mem::replace(current, revision) != revision);
        result
    }

    /// The revision of the latest change. It only increases.
    pub fn revision(&self) -> u64 {
        *self.shared.revisions.borrow()
    }

    /// A receiver of every new revision, to wait on in async code.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.shared.revisions.subscribe()
    }

    /// Holds back everything that watches over HTTP send, or sends it, as an overloaded server does. Lists are not affected.
    pub fn hold_watches(&self, hold: bool) {
        self.shared.watches_held.send_replace(hold);
    }

    /// Whether watches are held back, for async code to wait on.
    pub(crate) fn watches_held(&self) -> watch::Receiver<bool> {
        self.shared.watches_held.subscribe()
    }

    /// The changes after a revision, oldest first; of one resource, or of all.
    ///
    /// # Errors
    /// Expired (410), when the history does not reach back that far: list, then watch from the list's revision.
    pub fn watch_since(&self, resource: Option<&Resource>, revision: u64) -> Result<Vec<Change>, Status> {
        let store = self.store();
        let key = resource.map(Resource::storage_key);
        let changes = store.since(revision)?;
        Ok(changes.filter(|it| key.as_ref().is_none_or(|key| it.resource.storage_key() == *key)).cloned().collect())
    }

    /// The latest revision, and the changes to some resources, in their storage versions, after an earlier one, oldest first.
    ///
    /// # Errors
    /// Expired (410), as for [`watch_since`](Self::watch_since).
    pub(crate) fn changes_of(&self, resources: &[Resource], revision: u64) -> Result<(u64, Vec<Change>), Status> {
        let store = self.store();
        let changes = store.since(revision)?.filter(|change| resources.contains(&change.resource));
        Ok((store.revision, changes.cloned().collect()))
    }

    /// The pods that are bound to a node, or to none if the name is empty, in the order of namespace and name.
    pub fn pods_on(&self, node: &str) -> Vec<Arc<Value>> {
        self.store().pods_on(node).map(|(_, pod)| pod.clone()).collect()
    }

    /// The pods that an object controls, by its uid, in the order of namespace and name.
    pub(crate) fn controlled_pods(&self, uid: &str) -> Vec<Arc<Value>> {
        self.store().controlled_pods(uid).cloned().collect()
    }

    /// Deletes the Events that were last written an hour ago, as the API server does (`--event-ttl`). Where clients have another clock, it is
    /// an hour of theirs.
    pub fn expire_events(&self) {
        self.write(|store, now| {
            if let Ok(since) = now.checked_sub(store.event_ttl) {
                store.expire_events(since);
            }
        });
    }

    /// Drops all history, so that watches from older revisions get a 410 and list again.
    pub fn compact(&self) {
        self.store().compact();
    }

    /// Reads an object. The namespace is empty for cluster-scoped resources.
    ///
    /// # Errors
    /// Not found.
    pub fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Result<Arc<Value>, Status> {
        let store = self.store();
        let definition = store.definition_of(resource)?;
        let key = object_key(&definition, namespace, name);
        let object = store.get(&resource.storage_key(), &key).ok_or_else(|| Status::not_found(resource, name))?;
        Ok(conversion::to_version(&definition, object))
    }

    /// Lists objects.
    ///
    /// # Errors
    /// An unknown resource, or an unsupported field selector.
    pub fn list(&self, resource: &Resource, options: &ListOptions) -> Result<List, Status> {
        let store = self.store();
        let definition = store.definition_of(resource)?;
        let fields = FieldSelector::parse(&definition, &options.fields)?;
        let namespace = options.namespace.as_deref().filter(|_| resource.namespaced);
        let items = store
            .candidates(&resource.storage_key(), namespace, &fields)
            .filter(|(_, object)| options.labels.matches(object) && fields.matches(object))
            .map(|(_, object)| conversion::to_version(&definition, object))
            .collect();
        Ok(List { revision: store.revision, items })
    }

    /// Creates an object; its namespace is in its metadata.
    ///
    /// # Errors
    /// The errors of the API server: invalid, already exists, missing namespace.
    pub fn create(&self, resource: &Resource, object: Value, options: &CreateOptions) -> Result<Arc<Value>, Status> {
        let CreateOptions { field_manager, dry_run } = options;
        let (created, calls) = self.write(|store, now| {
            let definition = store.definition_of(resource)?;
            let request = Request { now, manager: field_manager.as_deref(), dry_run: *dry_run };
            let created = writes::create(store, &definition, object, request)?;
            let calls = review_of_event(store, &definition, "CREATE", &created, &Value::Null, *dry_run);
            Ok((conversion::to_version(&definition, &created), calls))
        })?;
        self.enqueue_reviews(calls);
        Ok(created)
    }

    /// The unknown fields of an object, as paths: what `kubectl --validate=strict` rejects.
    ///
    /// # Errors
    /// When there is no such resource.
    pub fn unknown_fields(&self, resource: &Resource, object: &Value) -> Result<Vec<String>, Status> {
        self.store().definition_of(resource).map(|definition| unknown_fields(&definition, object))
    }

    /// Replaces an object, except for its status if that is a subresource. A `resourceVersion` in it has to be current.
    ///
    /// # Errors
    /// The errors of the API server: not found, conflict, invalid.
    pub fn update(&self, resource: &Resource, object: Value, options: &UpdateOptions) -> Result<Arc<Value>, Status> {
        self.update_part(resource, object, Part::Object, options)
    }

    /// Replaces the status of an object.
    ///
    /// # Errors
    /// The errors of the API server: not found, conflict, invalid.
    pub fn update_status(
        &self,
        resource: &Resource,
        object: Value,
        options: &UpdateOptions,
    ) -> Result<Arc<Value>, Status> {
        if !self.store().definition_of(resource)?.status {
            return Err(Status::no_such_resource());
        }
        self.update_part(resource, object, Part::Status, options)
    }

    pub(crate) fn update_part(
        &self,
        resource: &Resource,
        object: Value,
        part: Part,
        options: &UpdateOptions,
    ) -> Result<Arc<Value>, Status> {
        let UpdateOptions { field_manager, dry_run } = options;
        let (updated, calls) = self.write(|store, now| {
            let definition = store.definition_of(resource)?;
            let key = object_key(&definition, text(&object, "/metadata/namespace"), text(&object, "/metadata/name"));
            let old = store.get(&resource.storage_key(), &key).cloned();
            let request = Request { now, manager: field_manager.as_deref(), dry_run: *dry_run };
            let updated = writes::update(store, &definition, &key, object, part, request)?;
            let calls = match old.filter(|old| old != &updated) {
                Some(old) => review_of_event(store, &definition, "UPDATE", &updated, &old, *dry_run),
                None => Vec::new(),
            };
            Ok((conversion::to_version(&definition, &updated), calls))
        })?;
        self.enqueue_reviews(calls);
        Ok(updated)
    }

    /// Patches an object or its subresource `status` or `scale`, and returns what it patched.
    ///
    /// # Errors
    /// The errors of the API server: not found, conflict, invalid, a patch that does not apply.
    #[allow(clippy::too_many_arguments)]
    pub fn patch(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        subresource: Option<&str>,
        kind: PatchType,
        patch: &Value,
        options: &PatchOptions,
    ) -> Result<Arc<Value>, Status> {
        let (patched, calls) = self.write(|store, now| {
            let definition = store.definition_of(resource)?;
            let key = object_key(&definition, namespace, name);
            let old = store.get(&resource.storage_key(), &key).cloned();
            let request = Request { now, manager: options.field_manager.as_deref(), dry_run: options.dry_run };
            let patched = patching::patch(store, &definition, &key, subresource, kind, patch, options.force, request)?;
            let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
            let before = old.as_deref().cloned().unwrap_or_default();
            let calls = if old.as_ref() == Some(&patched) {
                Vec::new()
            } else {
                review_of_event(store, &definition, operation, &patched, &before, options.dry_run)
            };
            let shown = match subresource {
                Some("scale") => Arc::new(scale::read(&definition, &patched)?),
                _ => conversion::to_version(&definition, &patched),
            };
            Ok((shown, calls))
        })?;
        self.enqueue_reviews(calls);
        Ok(patched)
    }

    /// Deletes an object, or marks it as being deleted when it has a grace period or finalizers. Returns its last state.
    ///
    /// # Errors
    /// Not found, or a precondition that fails.
    pub fn delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Arc<Value>, Status> {
        self.delete_or_mark(resource, namespace, name, options).map(|(object, _)| object)
    }

    /// Deletes an object as [`ApiServer::delete`] does, and also returns whether it is gone.
    pub(crate) fn delete_or_mark(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(Arc<Value>, bool), Status> {
        self.write(|store, now| {
            let definition = store.definition_of(resource)?;
            let stored = store.definition_for_storage(&resource.storage_key()).unwrap_or(definition.clone());
            let key = object_key(&definition, namespace, name);
            let (object, gone) = garbage::delete(store, &stored, &key, options, now)?;
            Ok((conversion::to_version(&definition, &object), gone))
        })
    }

    /// Evicts a pod, if its PodDisruptionBudget allows it.
    ///
    /// # Errors
    /// 429 when the budget does not allow it, 500 when there are several budgets, not found, a failed precondition.
    pub fn evict(&self, namespace: &str, pod: &str, options: &DeleteOptions) -> Result<(), Status> {
        let key = (namespace.to_owned(), pod.to_owned());
        self.write(|store, now| eviction::evict(store, &key, options, now))
    }

    /// Recomputes the status of every PodDisruptionBudget from the pods: the work of the disruption controller.
    /// Evictions need it; call it whenever pods or budgets have changed.
    ///
    /// # Errors
    /// A budget with an invalid selector.
    pub fn refresh_disruption_budgets(&self) -> Result<(), Status> {
        self.write(eviction::refresh_budgets)
    }

    /// Updates the status of all ResourceQuotas.
    ///
    /// # Errors
    /// None that a user can cause.
    pub fn refresh_quotas(&self) -> Result<(), Status> {
        self.write(|store, _| quota::refresh(store))
    }

    /// Assigns a pod to a node, as a scheduler does.
    ///
    /// # Errors
    /// Not found; a conflict when the pod is already bound or is being deleted.
    pub fn bind(&self, namespace: &str, pod: &str, node: &str) -> Result<(), Status> {
        self.bind_with(namespace, pod, &json!({"metadata": {"name": pod}, "target": {"name": node}}))
    }

    /// Assigns a pod to a node with a `Binding`.
    pub(crate) fn bind_with(&self, namespace: &str, pod: &str, binding: &Value) -> Result<(), Status> {
        let key = (namespace.to_owned(), pod.to_owned());
        self.write(|store, now| patching::bind(store, &key, binding, now))
    }

    /// Returns the server for writes that webhooks have allowed.
    pub(crate) fn reviewed(&self) -> Self {
        Self { reviewed: true, ..self.clone() }
    }

    /// The webhook calls that a write over HTTP has to make first.
    pub(crate) fn calls(
        &self,
        resource: &Resource,
        operation: &str,
        object: &Value,
        old: &Value,
        dry_run: bool,
    ) -> Result<Vec<Call>, Status> {
        let mut store = self.store();
        let definition = store.definition_of(resource)?;
        Ok(admission::calls(&mut store, &definition, operation, object, old, dry_run))
    }

    fn enqueue_reviews(&self, calls: Vec<Call>) {
        if calls.is_empty() || self.reviewed {
            return;
        }
        let mut waiting = self.shared.reviews.lock().unwrap_or_else(PoisonError::into_inner);
        for call in calls {
            if waiting.len() == WAITING_REVIEWS {
                waiting.pop_front();
                tracing::warn!("an admission review was dropped: nothing runs ApiServer::run_reviews");
            }
            waiting.push_back(call);
        }
        self.shared.reviews_waiting.notify_one();
    }

    /// Sends the admission reviews of Events that in-process controllers wrote, indefinitely. Such a write does not wait for the
    /// answer, so a webhook cannot reject it; writes over HTTP do wait.
    pub async fn run_reviews(&self) {
        loop {
            let next = self.shared.reviews.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            match next {
                Some(call) => {
                    // Each on its own: a slow webhook must not delay the others.
                    tokio::spawn(async move {
                        if let Err(error) = admission::send(&call).await {
                            tracing::warn!(webhook = call.webhook, %error, "a refusal came after the write");
                        }
                    });
                }
                None => self.shared.reviews_waiting.notified().await,
            }
        }
    }
}

/// The webhook calls for an Event that was written in-process. Other kinds are reviewed over HTTP only.
fn review_of_event(
    store: &mut Store,
    definition: &Definition,
    operation: &str,
    object: &Value,
    old: &Value,
    dry_run: bool,
) -> Vec<Call> {
    if definition.resource.storage_key() != EVENTS.storage_key() || dry_run {
        return Vec::new();
    }
    admission::calls(store, definition, operation, object, old, dry_run)
}

pub(crate) fn object_key(definition: &Definition, namespace: &str, name: &str) -> ObjectKey {
    let namespace = if definition.resource.namespaced { namespace } else { "" };
    (namespace.to_owned(), name.to_owned())
}

impl ApiServer {
    /// Calls webhooks at any address from now on. By default it calls those with a loopback address alone: who may create objects in a
    /// simulated cluster can otherwise have it send requests into the network of this machine.
    pub fn allow_remote_webhooks(&self) {
        self.store().remote_webhooks = true;
    }

    /// Keeps Events for an hour of clients for which time runs slower by this factor.
    pub fn keep_events_at_speed(&self, speed: f64) {
        let ttl = SignedDuration::try_from_secs_f64(EVENT_TTL.as_secs_f64() * speed);
        self.store().event_ttl = ttl.unwrap_or(SignedDuration::MAX);
    }
}
