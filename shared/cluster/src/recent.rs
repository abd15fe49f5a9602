//! Objects that the API server returned recently, so that a change to one of them does not read it first.
//!
//! A patch contains the uid, and the resourceVersion if it replaces lists. The API server rejects it if the object has changed
//! since; the change then reads the object.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How long an object is used: one run of the operations reads it and changes it within seconds.
const FRESH: SignedDuration = SignedDuration::from_secs(10);

/// Recent objects by path.
#[derive(Default)]
pub(crate) struct Recent {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    objects: HashMap<String, (Timestamp, Arc<Value>)>,
    /// The paths in the order in which they expire, so that an insertion does not search all objects. An object that was kept
    /// again, or removed, has an outdated entry until that entry expires.
    expiring: VecDeque<(Timestamp, String)>,
}

impl Kept {
    fn remove_expired(&mut self, now: Timestamp) {
        while let Some((at, path)) = self.expiring.pop_front_if(|(at, _)| now.duration_since(*at) >= FRESH) {
            if self.objects.get(&path).is_some_and(|(kept, _)| *kept == at) {
                self.objects.remove(&path);
            }
        }
    }
}

impl Recent {
    /// Keeps an object.
    pub(crate) fn keep(&self, path: &str, object: Arc<Value>, now: Timestamp) {
        let mut kept = self.lock();
        kept.remove_expired(now);
        kept.expiring.push_back((now, path.to_owned()));
        kept.objects.insert(path.to_owned(), (now, object));
    }

    /// Keeps a node without its status, which is large.
    pub(crate) fn keep_node(&self, path: &str, mut node: Arc<Value>, now: Timestamp) {
        let reduced = Arc::make_mut(&mut node);
        reduced["status"] = Value::Null;
        if let Some(metadata) = reduced["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        self.keep(path, node, now);
    }

    /// The object, if it is recent enough.
    pub(crate) fn get(&self, path: &str, now: Timestamp) -> Option<Arc<Value>> {
        let kept = self.lock();
        kept.objects.get(path).filter(|(kept, _)| now.duration_since(*kept) < FRESH).map(|(_, object)| object.clone())
    }

    /// Removes an object that has changed.
    pub(crate) fn forget(&self, path: &str) {
        self.lock().objects.remove(path);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_expire_and_nodes_are_kept_without_their_status() {
        let (recent, now) = (Recent::default(), Timestamp::UNIX_EPOCH);
        let node = json!({ "metadata": { "uid": "u", "managedFields": [] }, "spec": {}, "status": { "images": [] } });
        recent.keep_node("/api/v1/nodes/a", Arc::new(node), now);
        let kept = recent.get("/api/v1/nodes/a", now).unwrap();
        assert_eq!(*kept, json!({ "metadata": { "uid": "u" }, "spec": {}, "status": null }));
        recent.keep("/claims/a", Arc::new(json!({ "status": { "nodeName": "a" } })), now);
        assert_eq!(recent.get("/claims/a", now + FRESH / 2).unwrap()["status"]["nodeName"], "a");
        assert_eq!(recent.get("/claims/a", now + FRESH), None);
        recent.forget("/claims/a");
        assert_eq!(recent.get("/claims/a", now), None);
    }

    #[test]
    fn expired_objects_are_removed_unless_they_were_kept_again() {
        let (recent, now) = (Recent::default(), Timestamp::UNIX_EPOCH);
        for (path, seconds) in [("/claims/a", 0), ("/claims/b", 1), ("/claims/a", 6), ("/claims/c", 11)] {
            recent.keep(path, Arc::default(), now + SignedDuration::from_secs(seconds));
        }
        let mut paths: Vec<String> = recent.lock().objects.keys().cloned().collect();
        paths.sort();
        assert_eq!(paths, ["/claims/a", "/claims/c"]);
        assert_eq!(recent.lock().expiring.len(), 2);
    }
}
