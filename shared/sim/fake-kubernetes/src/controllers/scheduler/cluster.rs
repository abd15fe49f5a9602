//! The nodes, namespaces and volumes that the scheduler reads.

use super::devices::Devices;
use super::info::{NodeInfo, PodInfo};
use super::volumes::Storage;
use crate::server::{ApiServer, Status};
use nodeless_model::StringMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The cluster during one round of scheduling.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) nodes: Vec<NodeInfo>,
    /// Labels of the namespaces.
    pub(super) namespaces: BTreeMap<String, StringMap>,
    /// The volumes that pending pods may need.
    pub(super) storage: Storage,
    /// The devices that pending pods may need.
    pub(super) devices: Devices,
    /// The pods that get no node, by a label and its value.
    pub(super) refused: BTreeSet<(String, String)>,
}

impl Cluster {
    /// Creates the volumes of a pod that wait for its node.
    pub(super) fn provision(&mut self, api: &ApiServer, pod: &PodInfo, index: usize) -> Result<(), Status> {
        for mount in self.storage.mounts(pod).unwrap_or_default() {
            mount.provision(api, &self.nodes[index])?;
        }
        self.storage = Storage::read(api)?;
        Ok(())
    }

    /// Assigns a pod to a node.
    pub(super) fn add(&mut self, index: usize, pod: Arc<PodInfo>) {
        self.forget_nomination(&pod);
        self.devices.assume(&pod, &self.nodes[index]);
        self.nodes[index].add(pod);
    }

    /// Takes the pod that was assigned to a node last from it again.
    pub(super) fn withdraw(&mut self, index: usize, pod: &Arc<PodInfo>) {
        self.nodes[index].remove_last(std::slice::from_ref(pod));
        self.devices.forget(pod);
    }

    /// The pod is no longer nominated for a node.
    pub(super) fn forget_nomination(&mut self, pod: &PodInfo) {
        let node = self.nodes.iter_mut().find(|node| pod.nominated_node.as_ref() == Some(&node.name));
        node.into_iter().for_each(|node| node.nominated.retain(|other| !other.is(pod)));
    }
}
