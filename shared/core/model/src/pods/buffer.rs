//! CapacityBuffers: capacity for pods that do not exist yet.
//!
//! A buffer is represented by virtual pods ([`crate::pods::virtual_pod`]).

use crate::pods::virtual_pod::VirtualPods;
use crate::text::quotes::shortened;
use crate::{Pod, PodOrigin, ResourceList};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The strategy that provisions nodes for a buffer. Other strategies belong to other controllers.
pub const ACTIVE_CAPACITY: &str = "buffer.x-k8s.io/active-capacity";
/// The maximum number of chunks of one buffer. A mistake in a limit must not use up the planner's memory.
pub const MAX_CHUNKS: u32 = 10_000;

/// A CapacityBuffer, decoded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBuffer {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The unique id.
    pub uid: String,
    /// The strategy, [`ACTIVE_CAPACITY`] if nodeless handles it.
    pub strategy: String,
    /// The reference to the template of a chunk.
    pub source: Option<BufferSource>,
    /// The number of chunks.
    pub replicas: Option<u32>,
    /// The number of chunks as a percentage of the replicas of the source.
    pub percentage: Option<u32>,
    /// The maximum requests of all chunks together.
    pub limits: Option<ResourceList>,
}

/// The object that defines one chunk of a buffer, in the buffer's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BufferSource {
    /// A PodTemplate.
    PodTemplate {
        /// The name of the PodTemplate.
        name: String,
    },
    /// A workload.
    Workload {
        /// The API group.
        group: String,
        /// The kind.
        kind: String,
        /// The name.
        name: String,
    },
}

impl BufferSource {
    /// The kinds of workloads that a buffer can refer to, all of the group `apps`.
    pub const WORKLOADS: [&str; 3] = ["Deployment", "StatefulSet", "ReplicaSet"];
}

/// What a PodTemplate or a workload makes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodShape {
    /// A pod, not bound to a node.
    pub pod: Pod,
    /// The limits of a pod, by resource.
    #[serde(default)]
    pub limits: ResourceList,
    /// The claims that are made for each pod, each with its StorageClass if the template names one. Their names in
    /// [`PodTemplate::volume_claims`](crate::PodTemplate::volume_claims) stand for those of all pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub made_claims: BTreeMap<String, Option<String>>,
    /// The replicas of a workload; zero for a PodTemplate.
    pub replicas: u32,
    /// The generation of a PodTemplate.
    pub generation: Option<i64>,
}

/// Why nothing can be provisioned for a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum BufferError {
    /// The workload does not exist.
    #[error(
        "{} {} does not exist in namespace {}; create it, or correct spec.scalableRef",
        shortened(.kind), shortened(.name), shortened(.namespace)
    )]
    ScalableRefNotFound {
        /// The kind of the workload.
        kind: String,
        /// The name of the workload.
        name: String,
        /// The buffer's namespace.
        namespace: String,
    },
    /// The PodTemplate does not exist.
    #[error(
        "PodTemplate {} does not exist in namespace {}; create it, or correct spec.podTemplateRef",
        shortened(.name), shortened(.namespace)
    )]
    PodTemplateNotFound {
        /// The name of the PodTemplate.
        name: String,
        /// The buffer's namespace.
        namespace: String,
    },
    /// The buffer, or the object that it refers to, is invalid.
    #[error("{0}")]
    Resolution(String),
}

impl BufferError {
    /// The reason of the condition ReadyForProvisioning.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::ScalableRefNotFound { .. } => "ScalableRefNotFound",
            Self::PodTemplateNotFound { .. } => "PodTemplateNotFound",
            Self::Resolution(_) => "ResolutionFailed",
        }
    }
}

impl CapacityBuffer {
    /// Whether nodes are to be provisioned for the buffer.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.strategy == ACTIVE_CAPACITY
    }

    /// The source, if its kind is supported.
    ///
    /// # Errors
    /// The error.
    pub fn source(&self) -> Result<&BufferSource, BufferError> {
        match &self.source {
            None => Err(BufferError::Resolution("set one of spec.podTemplateRef and spec.scalableRef".to_owned())),
            Some(BufferSource::Workload { group, kind, .. })
                if group != "apps" || !BufferSource::WORKLOADS.contains(&kind.as_str()) =>
            {
                Err(BufferError::Resolution(format!(
                    "spec.scalableRef: {} of the API group {:?} is not supported; name a Deployment, StatefulSet or ReplicaSet of \
                     the group \"apps\", or use spec.podTemplateRef",
                    shortened(kind),
                    shortened(group)
                )))
            }
            Some(source) => Ok(source),
        }
    }

    /// The error for a source that does not exist.
    #[must_use]
    pub fn missing_source(&self, source: &BufferSource) -> BufferError {
        let namespace = self.namespace.clone();
        match source {
            BufferSource::PodTemplate { name } => BufferError::PodTemplateNotFound { name: name.clone(), namespace },
            BufferSource::Workload { kind, name, .. } => {
                BufferError::ScalableRefNotFound { kind: kind.clone(), name: name.clone(), namespace }
            }
        }
    }

    /// The number of chunks: the greater of `replicas` and the percentage, limited by its limits; without either, as many as the
    /// limits allow. Karpenter's documentation states the lesser; its code takes the greater, and so does this function.
    ///
    /// # Errors
    /// When it would be more than [`MAX_CHUNKS`].
    pub fn chunks(&self, shape: &PodShape) -> Result<u32, BufferError> {
        let share = self.percentage.map(|percent| {
            let exact = (u64::from(shape.replicas) * u64::from(percent)).div_ceil(100);
            u32::try_from(exact).unwrap_or(u32::MAX)
        });
        let desired = self.replicas.max(share);
        let allowed = self.limits.as_ref().and_then(|limits| chunks_within(limits, &shape.pod.template.requests));
        let chunks = match (desired, allowed) {
            (Some(desired), Some(allowed)) => desired.min(allowed),
            (Some(desired), None) => desired,
            (None, allowed) => allowed.unwrap_or(0),
        };
        if chunks > MAX_CHUNKS {
            return Err(BufferError::Resolution(format!(
                "it would have {chunks} chunks, and {MAX_CHUNKS} are the most that one buffer may have; lower \
                 spec.replicas, spec.percentage or spec.limits"
            )));
        }
        Ok(chunks)
    }

    /// The virtual pods for a number of chunks, of the lowest priority.
    #[must_use]
    pub fn virtual_pods(&self, shape: &PodShape, chunks: u32) -> Vec<Pod> {
        let pods = VirtualPods {
            origin: PodOrigin::CapacityBuffer(self.name.as_str().into()),
            template: &shape.pod,
            namespace: &self.namespace,
            name: format!("capacity-buffer-{}-", self.name),
            uid: format!("{}-", self.uid),
            created: shape.pod.created,
            priority: i32::MIN,
        };
        pods.pods(0..chunks)
    }
}

/// The number of chunks within the limits; `None` when the limits name nothing that a chunk requests.
fn chunks_within(limits: &ResourceList, requests: &ResourceList) -> Option<u32> {
    let common = limits.iter().filter(|(name, _)| requests.get(name).milli() > 0);
    let fits = common.map(|(name, limit)| limit.milli().max(0) / requests.get(name).milli());
    fits.min().map(|chunks| u32::try_from(chunks).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PodTemplate;
    use crate::Quantity;
    use crate::pods::pod::VolumeClaim;

    fn cpu(units: i64) -> ResourceList {
        ResourceList::from([("cpu", Quantity::from_units(units))])
    }

    fn shape(replicas: u32) -> PodShape {
        let volume = VolumeClaim { claim_name: "data".into(), ephemeral: false };
        let pod = Pod {
            template: PodTemplate {
                requests: cpu(1),
                volume_claims: vec![volume],
                priority: 7,
                ..PodTemplate::default()
            }
            .into(),
            ..Pod::default()
        };
        PodShape { pod, replicas, ..PodShape::default() }
    }

    fn buffer(replicas: Option<u32>, percentage: Option<u32>, limits: Option<ResourceList>) -> CapacityBuffer {
        CapacityBuffer {
            namespace: "web".into(),
            name: "spare".into(),
            uid: "u".into(),
            strategy: ACTIVE_CAPACITY.into(),
            replicas,
            percentage,
            limits,
            ..CapacityBuffer::default()
        }
    }

    #[test]
    fn counts_chunks_as_karpenter_does() {
        let gpu = ResourceList::from([("nvidia.com/gpu", Quantity::from_units(1))]);
        for (replicas, percentage, limits, of, expected) in [
            (None, Some(20), None, 7, 2),
            (Some(5), Some(20), None, 7, 5),
            (Some(5), Some(20), Some(cpu(4)), 7, 4),
            (None, Some(1), None, 7, 1),
            (None, Some(20), None, 0, 0),
            (None, Some(0), None, 7, 0),
            (None, None, Some(cpu(3)), 0, 3),
            (None, None, None, 7, 0),
            (Some(2), None, Some(gpu.clone()), 0, 2),
            (None, None, Some(gpu), 0, 0),
        ] {
            let buffer = buffer(replicas, percentage, limits);
            assert_eq!(buffer.chunks(&shape(of)).unwrap(), expected, "{buffer:?} of {of}");
        }
        let huge = buffer(None, None, Some(cpu(1_000_000))).chunks(&shape(0)).unwrap_err();
        assert!(huge.to_string().contains("spec.limits") && huge.reason() == "ResolutionFailed", "{huge}");
    }

    #[test]
    fn virtual_pods_are_the_least_of_all_and_mount_the_volumes_of_their_template() {
        let pods = buffer(Some(2), None, None).virtual_pods(&shape(0), 2);
        let names: Vec<_> = pods.iter().map(|pod| (pod.key(), pod.uid.as_str())).collect();
        assert_eq!(
            names,
            [("web/capacity-buffer-spare-0".to_owned(), "u-0"), ("web/capacity-buffer-spare-1".to_owned(), "u-1")]
        );
        assert!(pods.iter().all(|pod| pod.is_provisionable() && pod.template.priority == i32::MIN));
        assert!(pods.iter().all(|pod| pod.template.volume_claims.len() == 1 && pod.template.requests == cpu(1)));
        assert!(pods.iter().all(|pod| pod.origin == PodOrigin::CapacityBuffer("spare".into()) && pod.is_virtual()));
        assert!(!shape(0).pod.is_virtual(), "not what it is made from");
    }

    #[test]
    fn a_source_that_a_buffer_cannot_have_is_named() {
        let mut buffer = buffer(Some(1), None, None);
        assert_eq!(buffer.source().unwrap_err().reason(), "ResolutionFailed");
        let workload = |group: &str, kind: &str| {
            Some(BufferSource::Workload { group: group.into(), kind: kind.into(), name: "front".into() })
        };
        buffer.source = workload("batch", "Job");
        assert!(buffer.source().unwrap_err().to_string().contains("spec.scalableRef"));
        buffer.source = workload("apps", "Deployment");
        let source = buffer.source().unwrap().clone();
        assert_eq!(buffer.missing_source(&source).reason(), "ScalableRefNotFound");
        buffer.source = Some(BufferSource::PodTemplate { name: "chunk".into() });
        let source = buffer.source().unwrap().clone();
        assert_eq!(buffer.missing_source(&source).reason(), "PodTemplateNotFound");
    }
}
