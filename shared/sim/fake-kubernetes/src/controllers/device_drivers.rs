//! Drivers of Dynamic Resource Allocation: on a node where a pod with the image of a driver runs, the ResourceSlices that it publishes for
//! an instance type.

use super::Controller;
use super::feed::{Feed, Work};
use super::object::{all, create, delete, is_deleting, list, name, text, uid};
use crate::server::path::Path as _;
use crate::server::resource::{NODES, PODS, RESOURCE_SLICES, Resource};
use crate::server::{ApiServer, Status};
use jiff::Timestamp;
use nodeless_devices::{ClusterDevices, Slice};
use nodeless_model::{InstanceType, Overhead, Requirements, StringMap, labels};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

const WATCHED: &[Resource] = &[PODS];
/// The drivers, and a part of the name of their image.
const DRIVERS: [(&str, &str); 4] = [
    ("gpu.nvidia.com", "k8s-dra-driver-gpu"),
    ("gpu.nvidia.com", "dra-driver-nvidia-gpu"),
    ("neuron.aws.com", "neuron-dra-driver"),
    ("dra.net", "dranet"),
];

/// Publishes the devices of nodes.
#[derive(Debug)]
pub struct DeviceDrivers {
    feed: Feed,
}

impl Default for DeviceDrivers {
    fn default() -> Self {
        Self { feed: Feed::new(WATCHED) }
    }
}

impl Controller for DeviceDrivers {
    fn step(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        let pods: Vec<Arc<Value>> = match self.feed.work(api, now)? {
            Work::Nothing => return Ok(()),
            Work::Changes(changes) => changes.into_iter().map(|change| change.object).collect(),
            Work::Everything => all(api, &PODS)?,
        };
        let of_drivers = pods.iter().filter(|pod| drivers_of(pod).next().is_some());
        let nodes: BTreeSet<&str> = of_drivers.map(|pod| text(pod, "/spec/nodeName")).collect();
        for node in nodes {
            if let Ok(node) = api.get(&NODES, "", node) {
                publish(api, &node)?;
            }
        }
        Ok(())
    }

    fn next_wakeup(&self) -> Option<Timestamp> {
        None
    }
}

/// The drivers in a pod, by its images.
fn drivers_of(pod: &Value) -> impl Iterator<Item = &'static str> {
    let images = list(pod, "/spec/containers").iter().map(|container| text(container, "/image"));
    images.flat_map(|image| DRIVERS.into_iter().filter(move |(_, part)| image.contains(part)).map(|(driver, _)| driver))
}

/// Publishes the devices of the drivers that run on a node, and withdraws those of others.
fn publish(api: &ApiServer, node: &Value) -> Result<(), Status> {
    let pods = api.pods_on(name(node));
    let running = pods.iter().filter(|pod| text(pod, "/status/phase") == "Running" && !is_deleting(pod));
    let running: BTreeSet<&str> = running.flat_map(|pod| drivers_of(pod)).collect();
    for slice in ClusterDevices::NONE.predicted(&instance_type(node), name(node)) {
        let present = api.get(&RESOURCE_SLICES, "", &slice.name).ok();
        match (running.contains(slice.spec.driver.as_str()), present) {
            (true, None) => create(api, &RESOURCE_SLICES, object(node, &slice))?,
            (false, Some(present)) => delete(api, &RESOURCE_SLICES, &present, None)?,
            (true, Some(_)) | (false, None) => {}
        }
    }
    Ok(())
}

fn object(node: &Value, slice: &Slice) -> Value {
    let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": name(node), "uid": uid(node), "controller": true });
    json!({ "metadata": { "name": slice.name, "ownerReferences": [owner] }, "spec": slice.spec })
}

/// What a node shows of its instance type.
fn instance_type(node: &Value) -> InstanceType {
    let labels: StringMap = read(node, "/metadata/labels");
    InstanceType {
        name: labels.get(labels::INSTANCE_TYPE).cloned().unwrap_or_default(),
        requirements: Requirements::from_labels(&labels),
        capacity: read(node, "/status/capacity"),
        ebs_volumes: None,
        overhead: Overhead::default(),
        root_volume: None,
        offerings: Vec::new(),
    }
}

fn read<T: DeserializeOwned + Default>(object: &Value, path: &str) -> T {
    object.at(path).and_then(|part| serde_json::from_value(part.clone()).ok()).unwrap_or_default()
}
