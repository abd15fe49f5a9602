//! The objects of one kind, cached between the invocations of an execution environment.
//!
//! A kind with few objects is listed each time: one call, and exact. A kind with many objects is updated by a watch that
//! resumes where the last one ended, so the cost of an idle cluster does not grow with its size. In both cases an object is
//! decoded again only when its resourceVersion changed.
//!
//! A store is proved to have every change that was made before an update began, or is listed. A list has them because it is a
//! consistent read. A watch sends them in the order of their resourceVersions, at any later time, so the store has them when it has
//! a change or a bookmark of at least the current resourceVersion, which a consistent read returns. That bookmark takes one to two
//! seconds, and comes from every watch of a kind that does not change. [`Store::refresh`] waits for it. [`Store::latest`] returns
//! with the changes that the API server sends at once, and leaves the watch open, so that [`Store::confirm`] can prove later that
//! these were all: a plan that decides nothing needs no proof.

use crate::connection::Connection;
use crate::log_lines::WatchNotResumed;
use crate::watch::{self, Change, Changes, Identity, WatchError};
use kube::core::params::ListParams;
use nodeless_cluster::kinds::Kind;
use nodeless_cluster::{CallError, Encoded, decoded};
use nodeless_model::SharedTemplates;
use nodeless_ports::PortError;
use nodeless_ports::cluster::InvalidObject;
use nodeless_telemetry::Context;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// Up to this number of objects, a list is one page and cheaper than a watch.
const FEW: usize = 250;
/// How long a watch lasts that updates a store, in seconds. The API server sends a bookmark two seconds before the end of a watch, and
/// looks for such watches about once per second (kube-apiserver, `cacheWatcher.nextBookmarkTime` and `Cacher.dispatchEvents`), so
/// this is the shortest watch that gets one.
const WATCH_SECONDS: u32 = 3;
/// A watch that sends nothing for this time, in which it should have ended, is not waited for.
const SILENCE: Duration = Duration::from_secs(4);
/// The API server sends the changes that it knows as soon as a watch begins, so after a pause of this length there are probably no
/// more. That is no proof.
const AT_ONCE: Duration = Duration::from_millis(100);
/// After this time, a list is faster than reading the changes.
const CATCH_UP_LIMIT: Duration = Duration::from_secs(10);

/// Why nothing is known of a watch that sends nothing.
const SILENT: &str = "its watch is silent";

/// An object in its reduced form, or what is known of one that cannot be decoded.
type Kept<M> = Result<M, InvalidObject>;

#[derive(Debug)]
struct Entry<M> {
    version: String,
    kept: Kept<M>,
}

/// Whether the objects that the last call of [`Store::latest`] left had every change that was made before it.
enum Proof {
    /// They had.
    Given,
    /// The watch that was read has to reach this resourceVersion without a change until then. The mutex makes the store `Sync`.
    Open(Mutex<Changes>, u64),
    /// They had not, or that cannot be known. Contains the reason.
    Failed(String),
}

/// Whether to wait for the proof while changes are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    ForProof,
    ForChanges,
}

/// The objects of one kind.
pub(crate) struct Store<K: Kind> {
    objects: BTreeMap<(String, String), Entry<K::Model>>,
    /// The resourceVersion from which a watch resumes; `None` before the first list.
    version: Option<String>,
    few: usize,
    proof: Proof,
    templates: SharedTemplates,
}

/// The effect of a change on an object that can be decoded.
pub(crate) struct Update<M> {
    /// The object before the change, if it existed and was decoded.
    pub(crate) before: Option<M>,
    /// The object after the change, if it exists and was decoded.
    pub(crate) after: Option<M>,
}

impl<K: Kind> Store<K> {
    /// An empty store.
    pub(crate) fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            version: None,
            few: FEW,
            proof: Proof::Given,
            templates: SharedTemplates::default(),
        }
    }

    /// Lists each time up to this number of objects, and watches above it.
    pub(crate) fn watching_above(few: usize) -> Self {
        Self { few, ..Self::new() }
    }

    /// Updates the store. It then has every change that was made before this call.
    ///
    /// # Errors
    /// When the list cannot be read; the cached objects are then kept.
    pub(crate) async fn refresh(&mut self, connection: &Connection, context: &Context) -> Result<(), PortError> {
        // Changes that are read here would otherwise hide that an earlier result of `latest` lacked them.
        self.finish_proof().await;
        self.read(connection, context, Wait::ForProof).await.map(drop)
    }

    /// Updates the store with the changes that the API server sends at once. Whether these were all that were made before this call
    /// is known after [`Self::confirm`]. If an earlier result was not confirmed, this one needs no confirmation.
    ///
    /// # Errors
    /// When the list cannot be read; the cached objects are then kept.
    pub(crate) async fn latest(&mut self, connection: &Connection, context: &Context) -> Result<(), PortError> {
        let wait = if matches!(self.proof, Proof::Failed(_)) { Wait::ForProof } else { Wait::ForChanges };
        self.proof = self.read(connection, context, wait).await?;
        Ok(())
    }

    /// Waits until it is known whether the last result of [`Self::latest`] had every change that was made before that call.
    ///
    /// # Errors
    /// When it had not, or when that cannot be known any more. The next one has them.
    pub(crate) async fn confirm(&mut self) -> Result<(), String> {
        self.finish_proof().await;
        match &self.proof {
            Proof::Failed(why) => Err(why.clone()),
            Proof::Given | Proof::Open(..) => Ok(()),
        }
    }

    /// Reads the open watch of the last result to the end of its proof.
    async fn finish_proof(&mut self) {
        let interrupted = Proof::Failed("its proof was interrupted".to_owned());
        self.proof = match std::mem::replace(&mut self.proof, interrupted) {
            Proof::Open(changes, current) => match self.reach_unchanged(changes.into_inner(), current).await {
                Ok(()) => Proof::Given,
                Err(why) => Proof::Failed(why),
            },
            known => known,
        };
    }

    /// Reads until the current resourceVersion. Fails if there is a change of an earlier one, or of that one.
    async fn reach_unchanged(&mut self, mut changes: Changes, current: u64) -> Result<(), String> {
        loop {
            let change = timeout(SILENCE, next(&mut changes)).await.map_err(|_| SILENT)?;
            let change = change.ok_or_else(|| self.ended_before(current))?.map_err(explain)?;
            self.apply(&change);
            let reached = self.reached()?;
            match change {
                Change::Bookmark(_) if reached < current => {}
                Change::Present(_) | Change::Absent(_) if reached <= current => {
                    return Err(format!("its watch sent the change of resourceVersion {reached} late"));
                }
                _ => return Ok(()),
            }
        }
    }

    async fn read(&mut self, connection: &Connection, context: &Context, wait: Wait) -> Result<Proof, PortError> {
        if self.version.is_some() && self.objects.len() > self.few {
            let caught_up = timeout(CATCH_UP_LIMIT, self.catch_up(connection, wait)).await;
            let too_long = || Err(format!("its changes took more than {} s", CATCH_UP_LIMIT.as_secs()));
            match caught_up.unwrap_or_else(|_| too_long()) {
                Ok(proof) => return Ok(proof),
                Err(why) => context.log(&WatchNotResumed { kind: K::NAME, why: &why }),
            }
        }
        self.relist(connection).await.map(|()| Proof::Given)
    }

    /// Reads the complete list.
    pub(crate) async fn relist(&mut self, connection: &Connection) -> Result<(), PortError> {
        match self.list(connection).await {
            // The continue token expired during the list. A second list starts at the current resourceVersion.
            Err(failed) if failed.is(410) => self.list(connection).await.map_err(Into::into),
            done => done.map_err(Into::into),
        }
    }

    async fn list(&mut self, connection: &Connection) -> Result<(), CallError> {
        let operation = format!("Kubernetes list {}", K::NAME);
        let params = ListParams { field_selector: K::FIELDS.map(str::to_owned), ..ListParams::default() };
        let mut present = BTreeMap::new();
        let mut old = std::mem::take(&mut self.objects);
        let templates = &mut self.templates;
        let listed = watch::list(connection, &operation, K::PATH, &params, |object| {
            let (key, version) = split(watch::identity(object));
            let entry = match old.remove(&key) {
                Some(same) if !version.is_empty() && same.version == version => same,
                _ => Entry { kept: shared::<K>(object, templates), version },
            };
            present.insert(key, entry);
        })
        .await;
        match listed {
            Ok(version) => {
                self.objects = present;
                self.version = Some(version);
                Ok(())
            }
            Err(failed) => {
                // Objects that moved into the incomplete list are moved back: the cached objects are still the best available.
                old.extend(present);
                self.objects = old;
                self.version = None;
                Err(explain_missing::<K>(failed))
            }
        }
    }

    /// Reads the changes until the current resourceVersion, or those that the API server sends at once. If that fails, returns why.
    async fn catch_up(&mut self, connection: &Connection, wait: Wait) -> Result<Proof, String> {
        let operation = format!("Kubernetes list {}", K::NAME);
        let current = watch::current_version(connection, &operation, K::PATH).await;
        let current = number(&current.map_err(|failed| failed.error.to_string())?)?;
        let mut reached = self.reached()?;
        if reached > current {
            return Err("its resourceVersion is not one of this API server".to_owned());
        }
        while reached < current {
            let before = reached;
            let mut changes = self.follow(connection, WATCH_SECONDS).await.map_err(explain)?;
            while reached < current {
                let pause = if wait == Wait::ForProof { SILENCE } else { AT_ONCE };
                let change = match timeout(pause, next(&mut changes)).await {
                    Ok(Some(change)) => change,
                    Ok(None) => break,
                    Err(_) if wait == Wait::ForChanges => return Ok(Proof::Open(Mutex::new(changes), current)),
                    Err(_) => return Err(SILENT.to_owned()),
                };
                self.apply(&change.map_err(explain)?);
                reached = self.reached()?;
            }
            if reached <= before {
                return Err(self.ended_before(current));
            }
        }
        Ok(Proof::Given)
    }

    /// The resourceVersion of this store as a number.
    fn reached(&self) -> Result<u64, String> {
        self.version.as_deref().map_or(Ok(0), number)
    }

    fn ended_before(&self, current: u64) -> String {
        let reached = self.version.as_deref().unwrap_or_default();
        format!("its watch ended at resourceVersion {reached}, the current one is {current}")
    }

    /// Starts a watch at the resourceVersion of this store.
    pub(crate) async fn follow(&self, connection: &Connection, seconds: u32) -> Result<Changes, WatchError> {
        let version = self.version.clone().ok_or(WatchError::Expired)?;
        open::<K>(connection, &version, seconds).await
    }

    /// Applies a change.
    pub(crate) fn apply(&mut self, change: &Change) -> Update<K::Model> {
        let (Change::Present(object) | Change::Absent(object) | Change::Bookmark(object)) = change;
        let (key, version) = split(watch::identity(object));
        if !version.is_empty() {
            self.version = Some(version.clone());
        }
        let understood = |entry: Option<Entry<K::Model>>| entry.and_then(|entry| entry.kept.ok());
        match change {
            Change::Bookmark(_) => Update { before: None, after: None },
            Change::Absent(_) => Update { before: understood(self.objects.remove(&key)), after: None },
            Change::Present(object) => {
                let kept = shared::<K>(object, &mut self.templates);
                let after = kept.clone().ok();
                Update { before: understood(self.objects.insert(key, Entry { version, kept })), after }
            }
        }
    }

    /// The decoded objects by namespace and name.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &K::Model> {
        self.objects.values().filter_map(|entry| entry.kept.as_ref().ok())
    }

    /// The decoded objects, each with its resourceVersion.
    pub(crate) fn versioned(&self) -> impl Iterator<Item = (&str, &K::Model)> {
        self.objects.values().filter_map(|entry| Some((entry.version.as_str(), entry.kept.as_ref().ok()?)))
    }

    /// The objects that cannot be decoded.
    pub(crate) fn invalid(&self) -> impl Iterator<Item = InvalidObject> + '_ {
        self.objects.values().filter_map(|entry| entry.kept.as_ref().err().cloned())
    }
}

/// The next change, or the end of the watch.
pub(crate) async fn next(changes: &mut Changes) -> Option<Result<Change, WatchError>> {
    futures::StreamExt::next(changes).await
}

/// A resourceVersion as a number, for comparisons with others of the same kind. Kubernetes documents that they are such numbers since
/// version 1.35 (KEP-5504); those of API servers with etcd have always been revisions of etcd.
fn number(version: &str) -> Result<u64, String> {
    version.parse().map_err(|_| format!("the resourceVersion {version:?} is not a number"))
}

/// Why a watch cannot continue.
fn explain(error: WatchError) -> String {
    match error {
        WatchError::Expired => "its resourceVersion has expired".to_owned(),
        WatchError::Call(failed) => failed.error.to_string(),
    }
}

async fn open<K: Kind>(connection: &Connection, version: &str, seconds: u32) -> Result<Changes, WatchError> {
    watch::watch(connection, &format!("Kubernetes watch {}", K::NAME), K::PATH, K::FIELDS, version, seconds).await
}

fn split(identity: Identity) -> ((String, String), String) {
    ((identity.namespace, identity.name), identity.resource_version)
}

/// Decodes an object that is kept with others.
fn shared<K: Kind>(object: &RawValue, templates: &mut SharedTemplates) -> Kept<K::Model> {
    let mut kept = decoded::<K>(Encoded::Text(object));
    if let Ok(model) = &mut kept {
        K::share(model, templates);
    }
    kept
}

/// Adds a hint to the error of a list that is not found: the CRD is not installed.
pub(crate) fn explain_missing<K: Kind>(mut failed: CallError) -> CallError {
    if failed.is(404) {
        let hint = format!("the API server does not serve {}; install the CRDs with `nodeless install`", K::NAME);
        failed.error.message = format!("{} ({})", hint, failed.error.message);
    }
    failed
}

/// Lists objects of a kind without caching them, and returns the results of `select`, which decodes the objects that it needs.
/// `select` is called again for objects that are listed twice.
pub(crate) async fn list_selected<K: Kind, T: Send>(
    connection: &Connection,
    path: &str,
    params: &ListParams,
    mut select: impl FnMut(&RawValue) -> Option<T> + Send,
) -> Result<Vec<T>, PortError> {
    let operation = format!("Kubernetes list {}", K::NAME);
    let mut selected = Vec::new();
    let mut once = async || {
        selected.clear();
        watch::list(connection, &operation, path, params, |object| selected.extend(select(object))).await
    };
    let listed = match once().await {
        // The continue token expired during the list. A second list starts at the current resourceVersion.
        Err(failed) if failed.is(410) => once().await,
        listed => listed,
    };
    listed.map_err(explain_missing::<K>)?;
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_cluster::kinds::Pods;
    use serde_json::json;

    fn raw(value: &serde_json::Value) -> Box<RawValue> {
        RawValue::from_string(value.to_string()).unwrap()
    }

    fn pod(name: &str, version: &str, cpu: &str) -> Box<RawValue> {
        raw(&json!({
            "metadata": { "namespace": "web", "name": name, "uid": name, "resourceVersion": version },
            "spec": { "nodeName": "n", "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }] },
            "status": { "phase": "Pending" }
        }))
    }

    #[test]
    fn changes_update_the_objects_and_the_version() {
        let mut store = Store::<Pods>::new();
        let update = store.apply(&Change::Present(pod("a", "5", "1")));
        assert!(update.before.is_none() && update.after.is_some());
        let update = store.apply(&Change::Present(pod("a", "6", "2")));
        assert!(update.before.is_some() && update.after.is_some());
        assert_eq!((store.version.as_deref(), store.objects().count()), (Some("6"), 1));
        store.apply(&Change::Bookmark(raw(&json!({ "metadata": { "resourceVersion": "9" } }))));
        assert_eq!((store.version.as_deref(), store.objects().count()), (Some("9"), 1));
        assert!(store.apply(&Change::Absent(pod("a", "10", "2"))).before.is_some());
        assert_eq!((store.version.as_deref(), store.objects().count()), (Some("10"), 0));
    }

    #[test]
    fn a_faulty_object_is_reported_and_the_others_are_kept() {
        let mut store = Store::<Pods>::new();
        store.apply(&Change::Present(pod("good", "1", "1")));
        store.apply(&Change::Present(pod("bad", "2", "many")));
        assert_eq!(store.objects().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), ["good"]);
        let invalid: Vec<_> = store.invalid().collect();
        assert_eq!((invalid.len(), invalid[0].name.as_str()), (1, "web/bad"));
        assert!(invalid[0].message.contains("cpu"), "{}", invalid[0].message);
        assert_eq!((invalid[0].node_of_pod(), invalid[0].outline.uid.as_str()), (Some("n"), "bad"));
        store.apply(&Change::Present(pod("bad", "3", "2")));
        assert_eq!(store.invalid().count(), 0);
    }
}
