//! Objects that the API server returned recently, so that a change to one of them does not read it first.
//!
//! A patch contains the uid, and the resourceVersion if it replaces lists. The API server rejects it if the object has changed
//! since; the change then reads the object.

use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long an object is used: one run of the operations reads it and changes it within seconds.
const FRESH: Duration = Duration::from_secs(10);

/// Recent objects by path.
#[derive(Default)]
pub(crate) struct Recent {
    objects: Mutex<HashMap<String, (Instant, Value)>>,
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
        let mut objects = self.lock();
        objects.retain(|_, (kept, _)| now.duration_since(*kept) < FRESH);
        objects.insert(path.to_owned(), (now, object));
    }

    /// The object, if it is recent enough.
    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.get_at(path, Instant::now())
    }

    fn get_at(&self, path: &str, now: Instant) -> Option<Value> {
        let objects = self.lock();
        objects.get(path).filter(|(kept, _)| now.duration_since(*kept) < FRESH).map(|(_, object)| object.clone())
    }

    /// Removes an object that has changed.
    pub(crate) fn forget(&self, path: &str) {
        self.lock().remove(path);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (Instant, Value)>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
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
}
