//! The kinds of objects that a view is made of: where they are listed, and how each is reduced to what planning looks at.

use crate::api;
use nodeless_api::{CapacityBufferStatus, NodeOverlayStatus, NodePoolStatus, slim};
use nodeless_model::{self as model, NillableDuration};
use nodeless_ports::cluster::MirroredClaim;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A kind of object that is listed, watched and kept.
pub(crate) trait Kind: Send + Sync + 'static {
    /// The fields of it that are decoded.
    type Slim: DeserializeOwned;
    /// What it is kept as.
    type Model: Clone + Send + Sync;
    /// Its name.
    const NAME: &'static str;
    /// The path of all of them.
    const PATH: &'static str;
    /// Which of them are listed.
    const FIELDS: Option<&'static str> = None;

    /// Reduces an object.
    ///
    /// # Errors
    /// In words, naming the field, when it cannot be understood.
    fn reduce(object: Self::Slim) -> Result<Self::Model, String>;
}

macro_rules! converted {
    ($kind:ident, $name:literal, $path:expr, $fields:expr, $slim:ty => $model:ty) => {
        #[doc = concat!("The kind ", $name, ".")]
        pub(crate) struct $kind;

        impl Kind for $kind {
            type Slim = $slim;
            type Model = $model;
            const NAME: &'static str = $name;
            const PATH: &'static str = $path;
            const FIELDS: Option<&'static str> = $fields;

            fn reduce(object: Self::Slim) -> Result<Self::Model, String> {
                // Without the object's name: whoever reports it says that anyway.
                <$model>::try_from(&object).map_err(|error| format!("{}: {}", error.field, error.problem))
            }
        }
    };
}

/// Pods that have ended need no node and hold no resources; in a cluster with many jobs they are most of all pods.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

converted!(Nodes, "Node", api::NODES, None, slim::Node => model::Node);
converted!(Pods, "Pod", "/api/v1/pods", Some(NOT_ENDED), slim::Pod => model::Pod);
converted!(DaemonSets, "DaemonSet", "/apis/apps/v1/daemonsets", None, slim::DaemonSet => model::DaemonSet);
converted!(
    DisruptionBudgets,
    "PodDisruptionBudget",
    "/apis/policy/v1/poddisruptionbudgets",
    None,
    slim::PodDisruptionBudget => model::PodDisruptionBudget
);

/// A kind with a status that we write: kept with what the status says, so that it is written only when it changes.
macro_rules! with_status {
    ($kind:ident, $name:literal, $path:expr, $object:ty => $model:ty, $status:ty) => {
        #[doc = concat!("The kind ", $name, ", with its status.")]
        pub(crate) struct $kind;

        impl Kind for $kind {
            type Slim = $object;
            type Model = ($model, $status);
            const NAME: &'static str = $name;
            const PATH: &'static str = $path;

            fn reduce(object: Self::Slim) -> Result<Self::Model, String> {
                let taken =
                    <$model>::try_from(&object).map_err(|error| format!("{}: {}", error.field, error.problem))?;
                Ok((taken, object.status.unwrap_or_default()))
            }
        }
    };
}

with_status!(NodePools, "NodePool", api::NODE_POOLS, nodeless_api::NodePool => model::NodePool, NodePoolStatus);
with_status!(
    NodeOverlays, "NodeOverlay", api::NODE_OVERLAYS, nodeless_api::NodeOverlay => model::NodeOverlay, NodeOverlayStatus
);
with_status!(
    CapacityBuffers, "CapacityBuffer", api::CAPACITY_BUFFERS,
    nodeless_api::CapacityBuffer => model::CapacityBuffer, CapacityBufferStatus
);

/// A kind that is kept as it is decoded.
macro_rules! whole {
    ($kind:ident, $name:literal, $path:literal, $slim:ty) => {
        #[doc = concat!("The kind ", $name, ".")]
        pub(crate) struct $kind;

        impl Kind for $kind {
            type Slim = $slim;
            type Model = $slim;
            const NAME: &'static str = $name;
            const PATH: &'static str = $path;

            fn reduce(object: Self::Slim) -> Result<Self::Model, String> {
                Ok(object)
            }
        }
    };
}

whole!(Namespaces, "Namespace", "/api/v1/namespaces", slim::Namespace);
whole!(PersistentVolumeClaims, "PersistentVolumeClaim", "/api/v1/persistentvolumeclaims", slim::PersistentVolumeClaim);
whole!(PersistentVolumes, "PersistentVolume", "/api/v1/persistentvolumes", slim::PersistentVolume);
whole!(StorageClasses, "StorageClass", "/apis/storage.k8s.io/v1/storageclasses", slim::StorageClass);
whole!(CsiNodes, "CSINode", "/apis/storage.k8s.io/v1/csinodes", slim::CsiNode);
whole!(VolumeAttachments, "VolumeAttachment", "/apis/storage.k8s.io/v1/volumeattachments", slim::VolumeAttachment);

/// The kind EC2NodeClass, which is kept whole: launches need all of it.
pub(crate) struct NodeClasses;

impl Kind for NodeClasses {
    type Slim = nodeless_api::EC2NodeClass;
    type Model = nodeless_api::EC2NodeClass;
    const NAME: &'static str = "EC2NodeClass";
    const PATH: &'static str = api::NODE_CLASSES;

    fn reduce(object: Self::Slim) -> Result<Self::Model, String> {
        Ok(object)
    }
}

/// The kind NodeClaim, of which only the mirror's own marks are read: the record says the rest.
pub(crate) struct NodeClaims;

/// A NodeClaim object, as far as we look at it.
#[derive(Deserialize)]
pub(crate) struct SlimClaim {
    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    #[serde(default)]
    spec: SlimClaimSpec,
    #[serde(default)]
    status: SlimClaimStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SlimClaimSpec {
    expire_after: Option<String>,
    termination_grace_period: Option<String>,
}

#[derive(Default, Deserialize)]
struct SlimClaimStatus {
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
    #[serde(default)]
    conditions: Vec<SlimCondition>,
}

#[derive(Deserialize)]
struct SlimCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(default)]
    reason: String,
}

impl Kind for NodeClaims {
    type Slim = SlimClaim;
    type Model = MirroredClaim;
    const NAME: &'static str = "NodeClaim";
    const PATH: &'static str = api::NODE_CLAIMS;

    fn reduce(object: Self::Slim) -> Result<Self::Model, String> {
        let SlimClaim { metadata, spec, status } = object;
        let duration = |field: &str, text: Option<String>| match text.map(|text| text.parse::<NillableDuration>()) {
            Some(Ok(duration)) => Ok(duration.duration()),
            Some(Err(error)) => Err(format!("spec.{field}: {error}")),
            None => Ok(None),
        };
        let record_uid = metadata.annotations.and_then(|mut annotations| annotations.remove(model::labels::RECORD_UID));
        let owners = metadata.owner_references.unwrap_or_default();
        Ok(MirroredClaim {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            deletion_timestamp: metadata.deletion_timestamp.map(|time| time.0),
            finalizers: metadata.finalizers.unwrap_or_default(),
            provider_id: status.provider_id.filter(|id| !id.is_empty()),
            record_uid,
            node_pool: metadata.labels.and_then(|mut labels| labels.remove(model::labels::NODE_POOL)),
            owner: owners.into_iter().find(|owner| owner.kind == "NodePool").map(|owner| owner.uid),
            created: metadata.creation_timestamp.map(|time| time.0),
            expire_after: duration("expireAfter", spec.expire_after)?,
            termination_grace_period: duration("terminationGracePeriod", spec.termination_grace_period)?,
            conditions: status.conditions.into_iter().map(|one| (one.kind, (one.status, one.reason))).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn reads_the_marks_of_a_mirror() {
        let object = serde_json::json!({
            "metadata": {
                "name": "default-abcde", "uid": "u", "finalizers": ["karpenter.sh/termination"],
                "labels": { "karpenter.sh/nodepool": "default" },
                "ownerReferences": [{ "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "default", "uid": "p" }],
                "deletionTimestamp": "2026-01-02T03:04:05Z",
                "annotations": { "nodeless.sh/record-uid": "r" }
            },
            "spec": { "expireAfter": "Never", "terminationGracePeriod": "1h" },
            "status": { "providerID": "aws:///us-east-1a/i-1" }
        });
        let claim = NodeClaims::reduce(serde_json::from_value(object).unwrap()).unwrap();
        assert_eq!((claim.name.as_str(), claim.record_uid.as_deref()), ("default-abcde", Some("r")));
        assert_eq!((claim.node_pool.as_deref(), claim.owner.as_deref()), (Some("default"), Some("p")));
        assert_eq!(claim.provider_id.as_deref(), Some("aws:///us-east-1a/i-1"));
        assert!(claim.deletion_timestamp.is_some());
        assert_eq!((claim.expire_after, claim.termination_grace_period), (None, Some(Duration::from_secs(3600))));
        let faulty = serde_json::json!({ "metadata": { "name": "a" }, "spec": { "expireAfter": "soon" } });
        assert!(NodeClaims::reduce(serde_json::from_value(faulty).unwrap()).unwrap_err().contains("spec.expireAfter"));
        let fresh = serde_json::json!({ "metadata": { "name": "a", "uid": "u" }, "spec": {} });
        assert_eq!(NodeClaims::reduce(serde_json::from_value(fresh).unwrap()).unwrap().record_uid, None);
    }
}
