//! Evicts, deletes and nominates pods, and finds the volumes that a node waits for.

use super::objects::{self, failed, get, patch};
use nodeless_api::slim;
use nodeless_fake_kubernetes::resource::{PERSISTENT_VOLUME_CLAIMS, PODS};
use nodeless_fake_kubernetes::{ApiServer, DeleteOptions};
use nodeless_model::{Pod, labels};
use nodeless_ports::cluster::{Eviction, PodRef, UnboundPod, VolumeAttachment};
use nodeless_ports::{ErrorKind, PortError};
use serde_json::json;
use std::collections::BTreeSet;

/// Requests an eviction.
pub(super) fn evict(api: &ApiServer, pod: &PodRef) -> Result<Eviction, PortError> {
    match api.evict(&pod.namespace, &pod.name, &objects::only(&pod.uid)) {
        Ok(()) => Ok(Eviction::Accepted),
        // 409: another pod has this name now.
        Err(error) if matches!(error.code, 404 | 409) => Ok(Eviction::AlreadyGone),
        Err(error) if error.code == 429 => Ok(Eviction::Blocked { message: error.message }),
        Err(error) if error.code == 500 && error.message.contains("more than one PodDisruptionBudget") => {
            Ok(Eviction::Blocked { message: error.message })
        }
        Err(error) => Err(failed("Kubernetes evict Pod", &error)),
    }
}

/// Deletes a pod, bypassing PodDisruptionBudgets.
pub(super) fn delete(api: &ApiServer, pod: &PodRef, grace_seconds: u32) -> Result<(), PortError> {
    let options = DeleteOptions { grace_period_seconds: Some(i64::from(grace_seconds)), ..objects::only(&pod.uid) };
    objects::delete(api, "Kubernetes delete Pod", &PODS, &pod.namespace, &pod.name, &options)
}

/// Writes the node that the scheduler tries first for a pod, if the pod is as it was read.
pub(super) fn nominate(api: &ApiServer, unbound: &UnboundPod, node: &str) -> Result<(), PortError> {
    let operation = "Kubernetes nominate Pod";
    let UnboundPod { pod, resource_version, .. } = unbound;
    let body = json!({
        "metadata": { "uid": pod.uid, "resourceVersion": resource_version }, "status": { "nominatedNodeName": node },
    });
    let patched = objects::patch_status(api, operation, &PODS, &pod.namespace, &pod.name, &body);
    patched.map_err(|error| match error.kind {
        ErrorKind::NotFound | ErrorKind::Invalid => PortError::new(ErrorKind::Conflict, operation, error.message),
        _ => error,
    })
}

/// Gives a pod the lowest deletion cost.
pub(super) fn delete_first(api: &ApiServer, pod: &PodRef) -> Result<(), PortError> {
    let annotations = json!({ labels::POD_DELETION_COST: i32::MIN.to_string() });
    let body = json!({ "metadata": { "uid": pod.uid, "annotations": annotations } });
    match patch(api, "Kubernetes patch Pod", &PODS, &pod.namespace, &pod.name, &body) {
        // A conflict: another pod has this name now.
        Err(error) if !matches!(error.kind, ErrorKind::NotFound | ErrorKind::Conflict) => Err(error),
        _ => Ok(()),
    }
}

/// The VolumeAttachments of these nodes.
pub(super) fn attached_to(all: Vec<slim::VolumeAttachment>, nodes: &BTreeSet<String>) -> Vec<VolumeAttachment> {
    let attached = all.into_iter().map(|attachment| VolumeAttachment {
        name: attachment.metadata.name.unwrap_or_default(),
        node: attachment.spec.node_name,
        persistent_volume: attachment.spec.source.persistent_volume_name,
    });
    attached.filter(|attachment| nodes.contains(&attachment.node)).collect()
}

/// The PersistentVolumes that a pod mounts.
pub(super) fn volumes_of(api: &ApiServer, pod: &Pod) -> Result<Vec<String>, PortError> {
    let mut volumes = Vec::new();
    for claim in &pod.template.volume_claims {
        let operation = "Kubernetes get PersistentVolumeClaim";
        let object = get(api, operation, &PERSISTENT_VOLUME_CLAIMS, &pod.namespace, &claim.claim_name)?;
        volumes.extend(object.and_then(|claim| claim["spec"]["volumeName"].as_str().map(str::to_owned)));
    }
    Ok(volumes)
}
