//! Evicting, deleting and nominating pods, and the volumes that a terminating node waits for.

use crate::failure::{ApiAnswer, CallError};
use crate::kinds::{self, Kind, PersistentVolumeClaims, VolumeAttachments};
use crate::merge::string;
use crate::object_cluster::ObjectCluster;
use crate::objects::{Deletion, ObjectAt, Objects, Part, PatchKind, Selector, decoded, read, refuse_doubt, separate};
use nodeless_model::{POD_TEMPLATE_HASH, Pod, Workload, labels};
use nodeless_ports::cluster::{Eviction, InvalidObject, PodRef, UnboundPod, VolumeAttachment};
use nodeless_ports::{ErrorKind, PortError};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The pods that the default scheduler has yet to bind.
const UNBOUND: &str =
    "spec.nodeName=,spec.schedulerName=default-scheduler,status.phase!=Succeeded,status.phase!=Failed";

/// The kind Pod, with what nominations need.
struct UnboundPods;

impl Kind for UnboundPods {
    type Slim = Unbound;
    type Model = UnboundPod;
    const NAME: &'static str = "Pod";
    const PATH: &'static str = kinds::PODS;

    fn reduce(Unbound { metadata, spec, status }: Unbound) -> Result<UnboundPod, String> {
        let hash = metadata.labels.get(POD_TEMPLATE_HASH).map(String::as_str);
        let owner = metadata.owner_references.iter().find(|owner| owner.controller == Some(true));
        let workload = owner.map(|owner| Workload::new(&metadata.namespace, &owner.kind, &owner.name, hash));
        Ok(UnboundPod {
            pod: PodRef { namespace: metadata.namespace, name: metadata.name, uid: metadata.uid },
            resource_version: metadata.resource_version,
            nominated_node: status.nominated_node_name.filter(|node| !node.is_empty()),
            is_terminating: metadata.deletion_timestamp.is_some(),
            is_gated: !spec.scheduling_gates.is_empty(),
            workload,
        })
    }
}

#[derive(Deserialize)]
struct Unbound {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    scheduling_gates: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
    deletion_timestamp: Option<IgnoredAny>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    owner_references: Vec<Owner>,
}

#[derive(Deserialize)]
struct Owner {
    kind: String,
    name: String,
    controller: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    nominated_node_name: Option<String>,
}

impl<O: Objects> ObjectCluster<O> {
    /// Evicts a pod through the Eviction API.
    pub(crate) async fn request_eviction(&self, pod: &PodRef) -> Result<Eviction, PortError> {
        match self.objects.evict("Kubernetes evict Pod", pod).await {
            Ok(()) => Ok(Eviction::Accepted),
            Err(failed) => eviction_of(failed),
        }
    }

    /// Deletes a pod without regard to PodDisruptionBudgets.
    pub(crate) async fn remove_pod(&self, pod: &PodRef, grace_seconds: u32) -> Result<(), PortError> {
        let options = Deletion { uid: Some(&pod.uid), grace_seconds: Some(grace_seconds) };
        self.remove("Kubernetes delete Pod", ObjectAt::pod(pod), options).await.map(drop).map_err(Into::into)
    }

    /// Gives a pod the lowest deletion cost, if it still has this uid.
    pub(crate) async fn lower_deletion_cost(&self, pod: &PodRef) -> Result<(), PortError> {
        let annotations = json!({ labels::POD_DELETION_COST: i32::MIN.to_string() });
        let body = json!({ "metadata": { "uid": pod.uid, "annotations": annotations } });
        let part = Part::Object(ObjectAt::pod(pod));
        match self.objects.patch("Kubernetes patch Pod", part, PatchKind::Merge, &body).await {
            Err(failed) if !failed.is(404) && !failed.is_of_another() => Err(failed.into()),
            _ => Ok(()),
        }
    }

    /// The VolumeAttachments of these nodes. The API server can select them neither by label nor by field.
    pub(crate) async fn attachments(&self, nodes: &BTreeSet<String>) -> Result<Vec<VolumeAttachment>, PortError> {
        let listed =
            self.objects.list_selected::<VolumeAttachments, _, _>(Selector::default(), |object| {
                match decoded::<VolumeAttachments>(object) {
                    Ok(attachment) if nodes.contains(&attachment.spec.node_name) => Some(Ok(VolumeAttachment {
                        name: attachment.metadata.name.unwrap_or_default(),
                        node: attachment.spec.node_name,
                        persistent_volume: attachment.spec.source.persistent_volume_name,
                    })),
                    Ok(_) => None,
                    Err(faulty) => Some(Err(faulty)),
                }
            });
        let (attached, invalid) = separate(listed.await?);
        // The volume may be attached to one of these nodes, and terminating its instance too early could lose data.
        refuse_doubt(true, &invalid)?;
        Ok(attached)
    }

    /// The pods that the default scheduler has yet to bind. Of each, only what nominations need is decoded.
    pub(crate) async fn pods_to_bind(&self) -> Result<Vec<UnboundPod>, PortError> {
        let (pods, invalid) = self.objects.list::<UnboundPods>(Selector::fields(UNBOUND)).await?;
        refuse_doubt(true, &invalid)?;
        Ok(pods)
    }

    /// Writes the node that kube-scheduler tries first for a pod.
    pub(crate) async fn write_nomination(&self, unbound: &UnboundPod, node: &str) -> Result<(), PortError> {
        let operation = "Kubernetes nominate Pod";
        let UnboundPod { pod, resource_version, .. } = unbound;
        let body = json!({
            // The API server rejects the patch if the pod has changed since it was read, so neither a pod that was bound meanwhile nor the
            // nomination of a preemption is changed.
            "metadata": { "uid": pod.uid, "resourceVersion": resource_version },
            "status": { "nominatedNodeName": node },
        });
        let part = Part::Status(ObjectAt::pod(pod));
        match self.objects.patch(operation, part, PatchKind::Merge, &body).await {
            Ok(_) => Ok(()),
            Err(failed) if (failed.is(404) || failed.is(422)) && !failed.is_refused_by_admission() => {
                Err(PortError::new(ErrorKind::Conflict, operation, PortError::from(failed).message))
            }
            Err(failed) => Err(failed.into()),
        }
    }

    /// The PersistentVolumes that a pod mounts.
    pub(crate) async fn mounted_volumes(&self, pod: &Pod) -> Result<Vec<String>, PortError> {
        let mut volumes = Vec::new();
        for claim in &pod.template.volume_claims {
            let path = PersistentVolumeClaims::PATH;
            let at = ObjectAt { path, namespace: &pod.namespace, name: &claim.claim_name };
            let object = read(&self.objects, "Kubernetes get PersistentVolumeClaim", at).await?;
            volumes.extend(object.as_ref().and_then(|claim| string(claim, "/spec/volumeName")).map(str::to_owned));
        }
        Ok(volumes)
    }
}

/// The result of a rejected eviction.
fn eviction_of(failed: CallError) -> Result<Eviction, PortError> {
    let blocked = |status: &ApiAnswer| Ok(Eviction::Blocked { message: status.message.clone() });
    match &failed.answer {
        // With any status code. The pod stays until the webhook or policy allows its eviction, as with a budget.
        Some(_) if failed.is_refused_by_admission() => Ok(Eviction::Blocked { message: failed.error.message }),
        // 409: another pod has this name. 404: no pod has it.
        Some(status) if matches!(status.code, 404 | 409) => Ok(Eviction::AlreadyGone),
        Some(status) if status.code == 429 && is_budget(status) => blocked(status),
        // The Eviction is created in the pod's namespace, which is terminating: the namespace controller deletes the pod.
        Some(status) if failed.is_terminating_namespace() => blocked(status),
        // The eviction is rejected until a user deletes one of the budgets.
        Some(status) if status.code == 500 && status.message.contains("more than one PodDisruptionBudget") => {
            blocked(status)
        }
        _ => Err(failed.into()),
    }
}

/// Whether a 429 has a PodDisruptionBudget as its cause. Otherwise the API server throttles requests.
fn is_budget(status: &ApiAnswer) -> bool {
    let mut causes = status.causes.iter();
    causes.any(|cause| cause.reason == "DisruptionBudget") || status.message.contains("disruption budget")
}

/// The pods of each of these nodes. The pods of a node to which an undecodable pod may be bound are unknown: it would look empty.
pub(crate) fn by_node(
    nodes: &BTreeSet<String>,
    pods: Vec<Arc<Pod>>,
    invalid: &[InvalidObject],
) -> BTreeMap<String, Result<Vec<Pod>, PortError>> {
    let mut found: BTreeMap<String, Result<Vec<Pod>, PortError>> =
        nodes.iter().map(|node| (node.clone(), Ok(Vec::new()))).collect();
    for pod in pods {
        if let Some(Ok(of_node)) = pod.node_name.as_ref().and_then(|node| found.get_mut(node)) {
            of_node.push(Arc::unwrap_or_clone(pod));
        }
    }
    for faulty in invalid {
        let may_be_of = |node: &str| faulty.node_of_pod().is_none_or(|of| of == node);
        for (_, pods) in found.iter_mut().filter(|(node, _)| may_be_of(node)) {
            if let Err(error) = refuse_doubt(true, std::slice::from_ref(faulty)) {
                *pods = Err(error);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, message: &str) -> CallError {
        CallError::answered(
            "Kubernetes evict Pod",
            ApiAnswer { code, message: message.to_owned(), ..ApiAnswer::default() },
        )
    }

    #[test]
    fn a_pod_with_scheduling_gates_is_read_as_gated() {
        let is_gated = |spec: serde_json::Value| {
            let metadata = json!({ "namespace": "shop", "name": "web", "uid": "u", "resourceVersion": "1" });
            let read: Unbound = serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap();
            UnboundPods::reduce(read).unwrap().is_gated
        };
        assert!(is_gated(json!({ "schedulingGates": [{ "name": "queue" }] })) && !is_gated(json!({})));
    }

    #[test]
    fn a_rejected_eviction_is_blocked_gone_or_an_error() {
        assert_eq!(eviction_of(refused(404, "pods \"a\" not found")).unwrap(), Eviction::AlreadyGone);
        assert_eq!(
            eviction_of(refused(409, "the UID in the precondition does not match")).unwrap(),
            Eviction::AlreadyGone
        );
        let budget = "Cannot evict pod as it would violate the pod's disruption budget.";
        assert_eq!(eviction_of(refused(429, budget)).unwrap(), Eviction::Blocked { message: budget.into() });
        let two = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        assert_eq!(eviction_of(refused(500, two)).unwrap(), Eviction::Blocked { message: two.into() });
        for code in [400, 403, 404, 409, 429] {
            let denied = r#"admission webhook "pods.example.com" denied the request: not now"#;
            let Eviction::Blocked { message } = eviction_of(refused(code, denied)).unwrap() else { panic!("{code}") };
            assert!(message.contains(denied) && message.contains("has to let it through"), "{message}");
        }
        assert_eq!(
            eviction_of(refused(429, "Too many requests, please try again later.")).unwrap_err().kind,
            ErrorKind::Throttled
        );
        assert_eq!(eviction_of(refused(500, "etcd is down")).unwrap_err().kind, ErrorKind::Unavailable);
        assert_eq!(eviction_of(refused(403, "no")).unwrap_err().kind, ErrorKind::Denied);
    }
}
