//! The volumes that drains wait for. The API server lists VolumeAttachments of the whole cluster only, so one list serves all claims
//! of a run.

use super::Reconciler;
use futures::lock::Mutex;
use nodeless_lifecycle::{Observation, Seen};
use nodeless_model::object::VolumeAttachment;
use nodeless_model::{Node, Pod};
use nodeless_ports::PortError;
use std::collections::BTreeSet;

/// The VolumeAttachments of the nodes whose claims drained when a run began, read when the first of them needs it.
#[derive(Default)]
pub(super) struct Attachments {
    nodes: BTreeSet<String>,
    read: Mutex<Option<Seen<Vec<VolumeAttachment>>>>,
}

impl Attachments {
    pub(super) fn new(nodes: BTreeSet<String>) -> Self {
        Self { nodes, read: Mutex::default() }
    }

    async fn get(&self, reconciler: &Reconciler) -> Seen<Vec<VolumeAttachment>> {
        let mut read = self.read.lock().await;
        match read.as_ref() {
            Some(seen) => seen.clone(),
            None => read.insert(reconciler.cluster.volume_attachments(&self.nodes).await.into()).clone(),
        }
    }
}

impl Reconciler {
    /// The volumes attached to the nodes of one claim, without those of pods that stay until the instance is terminated, which are
    /// never detached. A volume stays attached for some time after its pod is deleted, so volumes without a pod are included.
    ///
    /// Volumes are read after the pods: a volume of a pod that was still there is then attached or detached, and not about to be
    /// attached. The shared volumes may only be used if the pods were read before the first step of any claim of the run.
    pub(super) async fn volumes(
        &self,
        seen: &Observation,
        shared: Option<&Attachments>,
    ) -> Seen<Vec<VolumeAttachment>> {
        let (Some(nodes), Some(pods)) = (seen.nodes.known(), seen.pods.known()) else { return Seen::default() };
        let nodes: BTreeSet<String> = nodes.iter().map(|node: &Node| node.name.clone()).collect();
        let read = match shared {
            Some(attachments) => attachments.get(self).await,
            None => self.cluster.volume_attachments(&nodes).await.into(),
        };
        let mut attached = match read {
            Seen::Known(attached) => attached,
            unknown => return unknown,
        };
        attached.retain(|attachment| nodes.contains(&attachment.node));
        if attached.is_empty() {
            return Seen::Known(attached);
        }
        self.without_staying(attached, pods).await.into()
    }

    async fn without_staying(
        &self,
        mut attached: Vec<VolumeAttachment>,
        pods: &[Pod],
    ) -> Result<Vec<VolumeAttachment>, PortError> {
        let now = self.context.now();
        let mut staying = BTreeSet::new();
        for pod in pods.iter().filter(|pod| !pod.holds_drain(now)) {
            staying.extend(self.cluster.volumes_of(pod).await?);
        }
        let stays = |volume: &String| staying.contains(volume);
        attached.retain(|attachment| !attachment.persistent_volume.as_ref().is_some_and(stays));
        Ok(attached)
    }
}
