//! Objects that the API server returned recently, so that a change to one of them does not read it first.
//!
//! A patch contains the uid, and the resourceVersion if it replaces lists. The API server rejects it if the object has changed
//! since; the change then reads the object.

use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long an object is used: one run of the operations reads it and changes it within seconds.
const FRESH: Duration = Duration::from_secs(10);

/// Recent objects by path.
#[derive(Default)]
pub(crate) struct Recent {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    objects: HashMap<String, (Instant, Value)>,
    /// The paths in the order in which they expire, so that an insertion does not search all objects. An object that was kept
    /// again, or removed, has an outdated entry until that entry expires.
    expiring: VecDeque<(Instant, String)>,
}

impl Kept {
    fn remove_expired(&mut self, now: Instant) {
        while let Some((at, path)) = self.expiring.pop_front_if(|(at, _)| now.duration_since(*at) >= FRESH) {
            if self.objects.get(&path).is_some_and(|(kept, _)| *kept == at) {
                self.objects.remove(&path);
            }
        }
    }
}

impl Recent {
    /// Keeps an object. A Node is kept without its status, which is large.
    pub(crate) fn keep(&self, path: &str, object: Value) {
        self.keep_at(path, object, Instant::now());
    }

    fn keep_at(&self, path: &str, mut object: Value, now: Instant) {
        if object["kind"] == "Node" || path.contains("/nodes/") {
            object["status"] = Value::Null;
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        let mut kept = self.lock();
        kept.remove_expired(now);
        kept.expiring.push_back((now, path.to_owned()));
        kept.objects.insert(path.to_owned(), (now, object));
    }

    /// The object, if it is recent enough.
    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.get_at(path, Instant::now())
    }

    fn get_at(&self, path: &str, now: Instant) -> Option<Value> {
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
        let recent = Recent::default();
        let node = json!({ "metadata": { "uid": "u", "managedFields": [] }, "spec": {}, "status": { "images": [] } });
        recent.keep("/api/v1/nodes/a", node);
        let kept = recent.get("/api/v1/nodes/a").unwrap();
        assert_eq!(kept, json!({ "metadata": { "uid": "u" }, "spec": {}, "status": null }));
        recent.keep("/claims/a", json!({ "status": { "nodeName": "a" } }));
        assert_eq!(recent.get("/claims/a").unwrap()["status"]["nodeName"], "a");
        recent.forget("/claims/a");
        assert_eq!(recent.get("/claims/a"), None);
        let now = Instant::now();
        recent.keep_at("/claims/b", json!({ "status": {} }), now);
        assert!(recent.get_at("/claims/b", now + FRESH / 2).is_some());
        assert_eq!(recent.get_at("/claims/b", now + FRESH), None);
    }
    #[test]
    fn expired_objects_are_removed_unless_they_were_kept_again() {
        let (recent, now) = (Recent::default(), Instant::now());
        for (path, seconds) in [("/claims/a", 0), ("/claims/b", 1), ("/claims/a", 6), ("/claims/c", 11)] {
            recent.keep_at(path, json!({}), now + Duration::from_secs(seconds));
        }
        let mut paths: Vec<String> = recent.lock().objects.keys().cloned().collect();
        paths.sort();
        assert_eq!(paths, ["/claims/a", "/claims/c"]);
        assert_eq!(recent.lock().expiring.len(), 2);
    }
}
