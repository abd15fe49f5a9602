//! The objects, their history, and their indices. The store does not validate; it only assigns revisions.

use crate::server::path::{Path as _, text};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::definition::{Definition, built_in};
use super::field_selector::FieldSelector;
use super::pairs;
use super::resource::{EVENTS, PODS, Resource, StorageKey};
use super::status::Status;

/// Namespace (empty for cluster-scoped objects) and name.
pub(crate) type ObjectKey = (String, String);

/// The kind of a [`Change`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The object is new.
    Added,
    /// The object was updated.
    Modified,
    /// The object was deleted.
    Deleted,
}

/// One change to one object. Every change has its own revision.
#[derive(Clone, Debug)]
pub struct Change {
    /// The revision that the change made, also the object's `resourceVersion`.
    pub revision: u64,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The resource, in its storage version (events always as core/v1).
    pub resource: Resource,
    /// The object after the change; for a deletion its last state with the revision of the deletion.
    pub object: Arc<Value>,
    /// The object before the change.
    pub previous: Option<Arc<Value>>,
    /// Who requested it: the user of the [`ApiServer`](super::ApiServer), if it has one.
    pub user: Option<&'static str>,
    /// The object as JSON, once a watch has needed it: several watches send the same.
    pub(crate) encoded: Arc<OnceLock<Bytes>>,
}

impl Change {
    /// The object after the change, as JSON.
    pub(crate) fn encoded(&self) -> &Bytes {
        self.encoded.get_or_init(|| self.object.to_string().into())
    }

    /// Namespace of the object; empty for cluster-scoped ones.
    pub fn namespace(&self) -> &str {
        text(&self.object, "/metadata/namespace")
    }

    /// Name of the object.
    pub fn name(&self) -> &str {
        text(&self.object, "/metadata/name")
    }
}

/// The default of `--event-ttl`.
pub(crate) const EVENT_TTL: SignedDuration = SignedDuration::from_hours(1);

pub(crate) struct Store {
    pub(crate) revision: u64,
    /// The time of the request that is being handled.
    pub(crate) now: Timestamp,
    /// The user of the request that is being handled.
    pub(crate) user: Option<&'static str>,
    /// Whether webhooks are called at addresses of other machines too.
    pub(crate) remote_webhooks: bool,
    /// The time for which Events are kept after their last write.
    pub(crate) event_ttl: SignedDuration,
    generated: u64,
    seed: u64,
    objects: HashMap<StorageKey, BTreeMap<ObjectKey, Arc<Value>>>,
    /// The writes of Events, oldest first: the time, the object, and the revision.
    events: VecDeque<(Timestamp, ObjectKey, u64)>,
    history: VecDeque<Change>,
    history_limit: usize,
    by_uid: HashMap<String, (StorageKey, ObjectKey)>,
    dependents: HashMap<String, BTreeSet<(StorageKey, ObjectKey)>>,
    /// The pods that are bound to each node, and those that are bound to none under an empty name.
    pods_by_node: HashMap<String, BTreeSet<ObjectKey>>,
    definitions: BTreeMap<(String, String, String), Arc<Definition>>,
}

impl Store {
    pub(crate) fn new(seed: u64, history_limit: usize) -> Self {
        let mut store = Self {
            revision: 1,
            now: Timestamp::UNIX_EPOCH,
            user: None,
            remote_webhooks: false,
            event_ttl: EVENT_TTL,
            generated: 0,
            seed,
            objects: HashMap::new(),
            events: VecDeque::new(),
            history: VecDeque::new(),
            history_limit: history_limit.max(1),
            by_uid: HashMap::new(),
            dependents: HashMap::new(),
            pods_by_node: HashMap::new(),
            definitions: BTreeMap::new(),
        };
        for definition in built_in() {
            store.register(definition);
        }
        store
    }

    pub(crate) fn register(&mut self, definition: Definition) {
        let resource = &definition.resource;
        let key = (resource.group.to_string(), resource.version.to_string(), resource.plural.to_string());
        self.definitions.insert(key, Arc::new(definition));
    }

    pub(crate) fn unregister_custom(&mut self, group: &str, plural: &str) {
        self.definitions
            .retain(|_, it| it.custom.is_none() || it.resource.group != group || it.resource.plural != plural);
    }

    pub(crate) fn definition(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Definition>> {
        self.definitions.get(&(group.to_owned(), version.to_owned(), plural.to_owned())).cloned()
    }

    pub(crate) fn definition_of(&self, resource: &Resource) -> Result<Arc<Definition>, Status> {
        self.definition(&resource.group, &resource.version, &resource.plural).ok_or_else(Status::no_such_resource)
    }

    pub(crate) fn definitions(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.definitions.values()
    }

    /// The definition under which objects of this storage key are kept.
    pub(crate) fn definition_for_storage(&self, key: &StorageKey) -> Option<Arc<Definition>> {
        let mut found =
            self.definitions.values().filter(|it| it.resource.group == key.group && it.resource.plural == key.plural);
        let first = found.next()?;
        let stored = |it: &&Arc<Definition>| match &it.custom {
            Some(custom) => custom.storage,
            None => !pairs::is_converted(&it.resource),
        };
        Some(if stored(&first) { first } else { found.find(stored).unwrap_or(first) }.clone())
    }

    /// A pseudo-random number that depends only on the seed and the count of generated numbers (splitmix64).
    pub(crate) fn next_number(&mut self) -> u64 {
        self.generated += 1;
        let mut value = self.seed.wrapping_add(self.generated.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ (value >> 31)
    }

    pub(crate) fn next_uid(&mut self) -> String {
        let (high, low) = (self.next_number(), self.next_number());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | ((low >> 48) & 0x3fff),
            low & 0xffff_ffff_ffff
        )
    }

    pub(crate) fn get(&self, key: &StorageKey, object: &ObjectKey) -> Option<&Arc<Value>> {
        self.objects.get(key)?.get(object)
    }

    pub(crate) fn by_uid(&self, uid: &str) -> Option<&(StorageKey, ObjectKey)> {
        self.by_uid.get(uid)
    }

    pub(crate) fn dependents(&self, uid: &str) -> Vec<(StorageKey, ObjectKey)> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// The pods that are controlled by an object, by its uid, in the order of namespace and name.
    pub(crate) fn controlled_pods<'a>(&'a self, uid: &'a str) -> impl Iterator<Item = &'a Arc<Value>> {
        let key = PODS.storage_key();
        let first = (key.clone(), ObjectKey::default());
        let owned = self.dependents.get(uid).into_iter().flat_map(move |all| all.range(first.clone()..));
        let pods = owned.take_while(move |(storage, _)| *storage == key);
        pods.filter_map(|(storage, pod)| self.get(storage, pod)).filter(move |pod| controller_uid(pod) == uid)
    }

    /// The pods that are bound to a node, or to none if the name is empty, in the order of namespace and name.
    pub(crate) fn pods_on<'a>(&'a self, node: &str) -> impl Iterator<Item = (&'a ObjectKey, &'a Arc<Value>)> + use<'a> {
        let pods = self.objects.get(&PODS.storage_key());
        let here = self.pods_by_node.get(node).into_iter().flatten();
        here.filter_map(move |key| pods?.get_key_value(key))
    }

    /// Objects in the order of namespace and name; of one namespace, or of all.
    pub(crate) fn iter<'a>(
        &'a self,
        key: &StorageKey,
        namespace: Option<&'a str>,
    ) -> Box<dyn Iterator<Item = (&'a ObjectKey, &'a Arc<Value>)> + 'a> {
        let Some(objects) = self.objects.get(key) else { return Box::new(std::iter::empty()) };
        match namespace {
            None => Box::new(objects.iter()),
            Some(namespace) => Box::new(
                objects
                    .range((namespace.to_owned(), String::new())..)
                    .take_while(move |((other, _), _)| other == namespace),
            ),
        }
    }

    /// Objects in the order of namespace and name, of one namespace or of all, that may match a selector: all that do are among them.
    pub(crate) fn candidates<'a>(
        &'a self,
        key: &StorageKey,
        namespace: Option<&'a str>,
        fields: &FieldSelector,
    ) -> Box<dyn Iterator<Item = (&'a ObjectKey, &'a Arc<Value>)> + 'a> {
        match fields.required("/spec/nodeName") {
            Some(node) if *key == PODS.storage_key() => {
                let pods = self.pods_on(node);
                Box::new(pods.filter(move |((own, _), _)| namespace.is_none_or(|namespace| namespace == own)))
            }
            _ => self.iter(key, namespace),
        }
    }

    /// The number of objects of a resource.
    pub(crate) fn count(&self, key: &StorageKey) -> usize {
        self.objects.get(key).map_or(0, BTreeMap::len)
    }

    pub(crate) fn storage_keys(&self) -> Vec<StorageKey> {
        let mut keys: Vec<_> = self.objects.iter().filter(|(_, map)| !map.is_empty()).map(|(key, _)| key).collect();
        keys.sort();
        keys.into_iter().cloned().collect()
    }

    /// The objects of a resource at a revision, in the order of namespace and name, after one of them if it is given.
    ///
    /// Nothing is copied but the keys of what has changed since: a list of 100,000 objects has 200 pages.
    pub(crate) fn at<'a>(
        &'a self,
        key: &StorageKey,
        revision: u64,
        after: Option<&ObjectKey>,
    ) -> Result<impl Iterator<Item = &'a Arc<Value>> + use<'a>, Status> {
        let mut before: BTreeMap<ObjectKey, Option<&Arc<Value>>> = BTreeMap::new();
        for change in self.since(revision)?.rev().filter(|change| change.resource.storage_key() == *key) {
            let object = (change.namespace().to_owned(), change.name().to_owned());
            if after.is_none_or(|after| object > *after) {
                before.insert(object, change.previous.as_ref());
            }
        }
        let start = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.clone()));
        let mut now = self
            .objects
            .get(key)
            .into_iter()
            .flat_map(move |all| all.range((start.clone(), Bound::Unbounded)))
            .peekable();
        let mut before = before.into_iter().peekable();
        Ok(std::iter::from_fn(move || {
            loop {
                let changed = match (now.peek(), before.peek()) {
                    (Some((present, _)), Some((changed, _))) => changed <= *present,
                    (None, changed) => changed.is_some(),
                    (Some(_), None) => false,
                };
                if !changed {
                    return now.next().map(|(_, object)| object);
                }
                let (changed, object) = before.next()?;
                now.next_if(|(present, _)| **present == changed);
                if object.is_some() {
                    return object;
                }
            }
        }))
    }

    /// The changes after a revision, oldest first.
    pub(crate) fn since(&self, revision: u64) -> Result<impl DoubleEndedIterator<Item = &Change>, Status> {
        let oldest = self.revision - self.history.len() as u64;
        if revision < oldest {
            return Err(Status::expired(format!("too old resource version: {revision} ({oldest})")));
        }
        let skip = usize::try_from(revision - oldest).unwrap_or(usize::MAX).min(self.history.len());
        Ok(self.history.range(skip..))
    }

    /// Stores an object, or its removal, as a new revision, and returns the object with its resourceVersion.
    pub(crate) fn commit(&mut self, definition: &Definition, kind: ChangeKind, mut object: Value) -> Arc<Value> {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let storage = definition.resource.storage_key();
        let key = (text(&object, "/metadata/namespace").to_owned(), text(&object, "/metadata/name").to_owned());
        let object = Arc::new(object);
        let map = self.objects.entry(storage.clone()).or_default();
        let previous = match kind {
            ChangeKind::Deleted => map.remove(&key),
            ChangeKind::Added | ChangeKind::Modified => map.insert(key.clone(), object.clone()),
        };
        self.index(&storage, &key, previous.as_deref(), (kind != ChangeKind::Deleted).then_some(object.as_ref()));
        if self.history.len() == self.history_limit {
            self.history.pop_front();
        }
        if definition.resource == EVENTS && kind != ChangeKind::Deleted {
            self.events.push_back((self.now, key, self.revision));
        }
        let (revision, user, resource) = (self.revision, self.user, definition.resource.clone());
        self.history.push_back(Change {
            revision,
            kind,
            resource,
            object: object.clone(),
            previous,
            user,
            encoded: Arc::default(),
        });
        object
    }

    /// Deletes the Events that were not written since a time.
    pub(crate) fn expire_events(&mut self, since: Timestamp) {
        let Some(definition) = self.definition_for_storage(&EVENTS.storage_key()) else { return };
        while let Some((_, key, revision)) = self.events.pop_front_if(|(written, ..)| *written <= since) {
            let object = self.get(&EVENTS.storage_key(), &key);
            let is_last = |object: &&Arc<Value>| text(object, "/metadata/resourceVersion") == revision.to_string();
            if let Some(object) = object.filter(is_last).map(|object| object.as_ref().clone()) {
                self.commit(&definition, ChangeKind::Deleted, object);
            }
        }
    }

    fn index(&mut self, storage: &StorageKey, key: &ObjectKey, old: Option<&Value>, new: Option<&Value>) {
        let uid = |object: Option<&'_ Value>| object.map(|object| text(object, "/metadata/uid").to_owned());
        let (old_uid, new_uid) = (uid(old), uid(new));
        if old_uid != new_uid {
            old_uid.and_then(|uid| self.by_uid.remove(&uid));
            if let Some(uid) = new_uid {
                self.by_uid.insert(uid, (storage.clone(), key.clone()));
            }
        }
        let owners = |object: Option<&'_ Value>| -> Vec<String> {
            object.into_iter().flat_map(owner_uids).map(str::to_owned).collect()
        };
        let (old_owners, new_owners) = (owners(old), owners(new));
        if old_owners != new_owners {
            let entry = (storage.clone(), key.clone());
            old_owners.iter().for_each(|owner| remove_from(&mut self.dependents, owner, &entry));
            for owner in new_owners {
                self.dependents.entry(owner).or_default().insert(entry.clone());
            }
        }
        if *storage == PODS.storage_key() {
            let node = |object: Option<&'_ Value>| object.map(|pod| text(pod, "/spec/nodeName").to_owned());
            let (old_node, new_node) = (node(old), node(new));
            if old_node != new_node {
                old_node.iter().for_each(|node| remove_from(&mut self.pods_by_node, node, key));
                if let Some(node) = new_node {
                    self.pods_by_node.entry(node).or_default().insert(key.clone());
                }
            }
        }
    }

    /// Drops all history, so that every older resourceVersion has expired.
    pub(crate) fn compact(&mut self) {
        self.history.clear();
    }
}

/// Removes an entry of a set, and the set with its last entry.
fn remove_from<T: Ord>(sets: &mut HashMap<String, BTreeSet<T>>, name: &str, entry: &T) {
    if let Some(set) = sets.get_mut(name) {
        set.remove(entry);
        if set.is_empty() {
            sets.remove(name);
        }
    }
}

/// The uid of the object that controls this one; empty if there is none.
pub(crate) fn controller_uid(object: &Value) -> &str {
    let owners = object.at("/metadata/ownerReferences").and_then(Value::as_array);
    let controller = owners.into_iter().flatten().find(|owner| owner["controller"] == true);
    controller.map_or("", |owner| text(owner, "/uid"))
}

pub(crate) fn owner_uids(object: &Value) -> impl Iterator<Item = &str> {
    let owners = object.at("/metadata/ownerReferences").and_then(Value::as_array);
    owners.into_iter().flatten().map(|owner| text(owner, "/uid"))
}
