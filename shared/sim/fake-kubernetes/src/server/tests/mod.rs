//! Tests of the store through [`ApiServer`]'s methods.

mod autoscaling;
mod deletion;
mod fields;
mod indices;
mod objects;
mod patches;
mod pod_changes;
mod reading;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{ApiServer, CreateOptions, DeleteOptions, Options, Resource, Status};

/// A server, and the seconds of its clock.
struct World {
    server: ApiServer,
    clock: Arc<AtomicI64>,
}

fn world() -> World {
    world_with(|_| ())
}

fn world_with(change: impl Fn(&mut Options)) -> World {
    let clock = Arc::new(AtomicI64::new(1_800_000_000));
    let reading = clock.clone();
    let mut options =
        Options::with_clock(Arc::new(move || Timestamp::from_second(reading.load(Ordering::SeqCst)).unwrap()));
    change(&mut options);
    World { server: ApiServer::new(options).unwrap(), clock }
}

impl World {
    fn create(&self, resource: &Resource, object: Value) -> Result<Arc<Value>, Status> {
        self.server.create(resource, object, &CreateOptions::default())
    }

    fn advance(&self, seconds: i64) {
        self.clock.fetch_add(seconds, Ordering::SeqCst);
    }

    fn get(&self, resource: &Resource, name: &str) -> Arc<Value> {
        self.server.get(resource, "default", name).unwrap()
    }

    fn exists(&self, resource: &Resource, name: &str) -> bool {
        self.server.get(resource, "default", name).is_ok()
    }

    fn delete(&self, resource: &Resource, name: &str) -> Result<Arc<Value>, Status> {
        self.server.delete(resource, "default", name, &DeleteOptions::default())
    }
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "pause:3"}]},
    })
}

fn running_pod(name: &str, node: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["nodeName"] = json!(node);
    pod
}

fn deployment(replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "pause:3"}]},
            },
        },
    })
}
