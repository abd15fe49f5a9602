//! VolumeAttachments: the CSI volumes of the pods on a node are attached to it, and stay so for some seconds after their last pod.
//!
//! Pods start without waiting for the volume, also while it is attached to another node.

use super::Controller;
use super::feed::Feed;
use super::object::{after, all, create, delete, has_ended, list, name, namespace, text, uid, write_status};
use crate::server::path::Path as _;
use crate::server::resource::{
    NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, Resource, VOLUME_ATTACHMENTS,
};
use crate::server::{ApiServer, Status};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const WATCHED: &[Resource] = &[NODES, PODS, PERSISTENT_VOLUME_CLAIMS, VOLUME_ATTACHMENTS];
/// How many seconds a volume stays attached after its last pod. EC2 detaches an EBS volume in about this time.
const DETACHES_AFTER: i64 = 8;

/// A volume and the node that it is attached to.
type Attached = (String, String);

/// Creates and deletes VolumeAttachments.
#[derive(Debug)]
pub struct AttachDetachController {
    feed: Feed,
    /// When the last pod on the node stopped using the volume, by the uid of the VolumeAttachment.
    unused: BTreeMap<String, Timestamp>,
    /// How many seconds a volume stays attached after its last pod.
    detaches_after: i64,
}

impl Default for AttachDetachController {
    fn default() -> Self {
        Self { feed: Feed::new(WATCHED), unused: BTreeMap::new(), detaches_after: DETACHES_AFTER }
    }
}

impl AttachDetachController {
    /// From now on volumes stay attached for this many seconds after their last pod; `None` for the default of eight.
    pub fn set_detaches_after(&mut self, seconds: Option<i64>, now: Timestamp) {
        self.detaches_after = seconds.unwrap_or(DETACHES_AFTER);
        self.feed.wake_at(now);
    }
}

impl Controller for AttachDetachController {
    fn step(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        if !self.feed.look(api, now)? {
            return Ok(());
        }
        let volumes = all(api, &PERSISTENT_VOLUMES)?;
        let present = all(api, &VOLUME_ATTACHMENTS)?;
        if volumes.is_empty() && present.is_empty() {
            return Ok(());
        }
        let mut used = used(api)?;
        let mut unused = BTreeMap::new();
        for attachment in &present {
            let volume = text(attachment, "/spec/source/persistentVolumeName").to_owned();
            if used.remove(&(volume, text(attachment, "/spec/nodeName").to_owned())) {
                continue;
            }
            let since = self.unused.get(uid(attachment)).copied().unwrap_or(now);
            let due = after(since, self.detaches_after);
            if due <= now {
                delete(api, &VOLUME_ATTACHMENTS, attachment, None)?;
            } else {
                unused.insert(uid(attachment).to_owned(), since);
                self.feed.wake_at(due);
            }
        }
        self.unused = unused;
        for volume in volumes {
            let driver = text(&volume, "/spec/csi/driver");
            let nodes = used.iter().filter(|(used, _)| used == name(&volume) && !driver.is_empty());
            for (_, node) in nodes {
                attach(api, driver, name(&volume), node)?;
            }
        }
        Ok(())
    }

    fn next_wakeup(&self) -> Option<Timestamp> {
        self.feed.due()
    }
}

/// The volumes of pods that have not ended, with the nodes of these pods.
fn used(api: &ApiServer) -> Result<BTreeSet<Attached>, Status> {
    let nodes: BTreeSet<String> = all(api, &NODES)?.iter().map(|node| name(node).to_owned()).collect();
    let mut bound: BTreeMap<(String, String), String> = BTreeMap::new();
    for claim in all(api, &PERSISTENT_VOLUME_CLAIMS)? {
        let key = (namespace(&claim).to_owned(), name(&claim).to_owned());
        bound.insert(key, text(&claim, "/spec/volumeName").to_owned());
    }
    let mut used = BTreeSet::new();
    for pod in all(api, &PODS)? {
        let node = text(&pod, "/spec/nodeName");
        if has_ended(&pod) || !nodes.contains(node) {
            continue;
        }
        let claims =
            list(&pod, "/spec/volumes").iter().filter_map(|volume| volume.at("/persistentVolumeClaim/claimName"));
        for claim in claims.filter_map(Value::as_str) {
            if let Some(volume) = bound.get(&(namespace(&pod).to_owned(), claim.to_owned())) {
                used.insert((volume.clone(), node.to_owned()));
            }
        }
    }
    Ok(used)
}

fn attach(api: &ApiServer, driver: &str, volume: &str, node: &str) -> Result<(), Status> {
    let attachment = format!("csi-{volume}-{node}");
    let source = json!({ "persistentVolumeName": volume });
    let spec = json!({ "attacher": driver, "nodeName": node, "source": source });
    create(api, &VOLUME_ATTACHMENTS, json!({ "metadata": { "name": attachment }, "spec": spec }))?;
    match api.get(&VOLUME_ATTACHMENTS, "", &attachment) {
        Ok(made) => write_status(api, &VOLUME_ATTACHMENTS, &made, json!({ "attached": true })),
        Err(_) => Ok(()),
    }
}
