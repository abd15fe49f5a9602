//! The kinds of objects in a view: where they are listed, and how each is reduced to the fields that planning reads.

use nodeless_api::daemon_sets::ReadDaemonSet;
use nodeless_api::default_spread::ObjectSelector;
use nodeless_api::limit_ranges::LimitRange;
use nodeless_api::managed::{self, Owned};
use nodeless_api::pod_controllers::ReadController;
use nodeless_api::resources;
use nodeless_api::{CapacityBufferStatus, NodeOverlayStatus, NodePoolStatus, ProvisioningRequestStatus, slim};
use nodeless_model as model;
use nodeless_model::SharedTemplates;
use nodeless_ports::cluster::{MirroredClaim, OtherNodeClaim, OtherNodePool};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;

/// A kind of object that is listed, watched and kept.
pub trait Kind: Send + Sync + 'static {
    /// The fields that are decoded.
    type Slim: DeserializeOwned + 'static;
    /// The form in which it is kept.
    type Model: Clone + Send + Sync + 'static;
    /// The name of the kind.
    const NAME: &'static str;
    /// The path of the collection.
    const PATH: &'static str;
    /// The field selector of those that are kept.
    const FIELDS: Option<&'static str> = None;

    /// Reduces an object.
    ///
    /// # Errors
    /// When the object cannot be converted; the text contains the field.
    fn reduce(object: Self::Slim) -> Result<Self::Model, String>;

    /// Why nodeless may not change an object.
    ///
    /// # Errors
    /// When it is of another controller; the text states so.
    fn check_owner(_object: &Value) -> Result<(), String> {
        Ok(())
    }

    /// Lets a kept object share what it has in common with others.
    fn share(_object: &mut Self::Model, _templates: &mut SharedTemplates) {}
}

macro_rules! converted {
    ($kind:ident, $name:literal, $path:expr, $fields:expr, $slim:ty => $model:ty) => {
        #[doc = concat!("The kind ", $name, ".")]
        pub struct $kind;

        impl Kind for $kind {
            type Slim = $slim;
            type Model = $model;
            const NAME: &'static str = $name;
            const PATH: &'static str = $path;
            const FIELDS: Option<&'static str> = $fields;

            fn reduce(object: Self::Slim) -> Result<Self::Model, String> {
                // Without the object's name, because the report contains it.
                <$model>::try_from(&object).map_err(|error| format!("{}: {}", error.field, error.problem))
            }
        }
    };
}

/// The path of pods.
pub const PODS: &str = "/api/v1/pods";
/// Pods that have ended need no node and hold no resources; in a cluster with many jobs they are most of all pods.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

converted!(Nodes, "Node", "/api/v1/nodes", None, slim::Node => model::Node);
converted!(DaemonSets, "DaemonSet", "/apis/apps/v1/daemonsets", None, slim::DaemonSet => ReadDaemonSet);
converted!(LimitRanges, "LimitRange", "/api/v1/limitranges", None, slim::LimitRange => LimitRange);
converted!(
    ResourceQuotas,
    "ResourceQuota",
    "/api/v1/resourcequotas",
    None,
    slim::ResourceQuota => model::ResourceQuota
);
converted!(
    DisruptionBudgets,
    "PodDisruptionBudget",
    "/apis/policy/v1/poddisruptionbudgets",
    None,
    slim::PodDisruptionBudget => model::PodDisruptionBudget
);
converted!(
    ReplicaSets,
    "ReplicaSet",
    "/apis/apps/v1/replicasets",
    None,
    slim::Controller => ObjectSelector
);
converted!(StatefulSets, "StatefulSet", "/apis/apps/v1/statefulsets", None, slim::Controller => ObjectSelector);

/// A kind whose objects create pods, kept with the number of these.
macro_rules! pod_controllers {
    ($kind:ident, $name:literal, $path:literal, $read:path) => {
        #[doc = concat!("The kind ", $name, ", as far as the number of its pods follows from it.")]
        pub(crate) struct $kind;

        impl Kind for $kind {
            type Slim = slim::PodController;
            type Model = ReadController;
            const NAME: &'static str = $name;
            const PATH: &'static str = $path;

            fn reduce(object: Self::Slim) -> Result<Self::Model, String> {
                Ok($read(&object))
            }
        }
    };
}

pod_controllers!(CreatingDeployments, "Deployment", "/apis/apps/v1/deployments", ReadController::deployment);
pod_controllers!(CreatingStatefulSets, "StatefulSet", "/apis/apps/v1/statefulsets", ReadController::stateful_set);
pod_controllers!(CreatingJobs, "Job", "/apis/batch/v1/jobs", ReadController::job);

/// The kind NodeClaim. Of those of nodeless, the record contains what is not read.
pub struct NodeClaims;

impl Kind for NodeClaims {
    type Slim = Owned<slim::NodeClaim, OtherNodeClaim>;
    type Model = Owned<MirroredClaim, OtherNodeClaim>;
    const NAME: &'static str = "NodeClaim";
    const PATH: &'static str = resources::NODE_CLAIMS.path;

    fn reduce(object: Self::Slim) -> Result<Self::Model, String> {
        let mirrored = |object| MirroredClaim::try_from(&object);
        object.convert(mirrored).map_err(|error| format!("{}: {}", error.field, error.problem))
    }
}

/// Pods, which views share with the store.
macro_rules! pods {
    ($kind:ident, $doc:literal, $fields:expr) => {
        #[doc = $doc]
        pub struct $kind;

        impl Kind for $kind {
            type Slim = slim::Pod;
            type Model = Arc<model::Pod>;
            const NAME: &'static str = "Pod";
            const PATH: &'static str = PODS;
            const FIELDS: Option<&'static str> = Some($fields);

            fn reduce(object: Self::Slim) -> Result<Self::Model, String> {
                let pod =
                    model::Pod::try_from(&object).map_err(|error| format!("{}: {}", error.field, error.problem))?;
                Ok(Arc::new(pod))
            }

            fn share(pod: &mut Self::Model, templates: &mut SharedTemplates) {
                templates.share(&mut Arc::make_mut(pod).template);
            }
        }
    };
}

pods!(Pods, "The kind Pod, without those that have ended.", NOT_ENDED);
pods!(BoundPods, "The kind Pod, with a node. Terminated pods are among them.", "spec.nodeName!=");

/// A kind whose status nodeless writes: kept with the status, so that it is written only when it changes.
macro_rules! with_status {
    ($kind:ident, $name:literal, $path:expr, $object:ty => $model:ty, $status:ty) => {
        #[doc = concat!("The kind ", $name, ", with its status.")]
        pub struct $kind;

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

/// The kind NodePool, with its status. A NodePool with an invalid field is kept too: its readiness contains the error, and its
/// nodes still belong to it.
pub struct NodePools;

impl Kind for NodePools {
    type Slim = Owned<nodeless_api::NodePool, OtherNodePool>;
    type Model = Owned<(model::NodePool, NodePoolStatus), OtherNodePool>;
    const NAME: &'static str = "NodePool";
    const PATH: &'static str = resources::NODE_POOLS.path;

    fn reduce(object: Self::Slim) -> Result<Self::Model, String> {
        object.convert(|pool| Ok((model::NodePool::from(&pool), pool.status.unwrap_or_default())))
    }

    fn check_owner(object: &Value) -> Result<(), String> {
        managed::other::<nodeless_api::NodePool>(object).map_or(Ok(()), |other| Err(other.to_string()))
    }
}

with_status!(
    NodeOverlays, "NodeOverlay", resources::NODE_OVERLAYS.path, nodeless_api::NodeOverlay => model::NodeOverlay, NodeOverlayStatus
);
with_status!(
    CapacityBuffers, "CapacityBuffer", resources::CAPACITY_BUFFERS.path,
    nodeless_api::CapacityBuffer => model::CapacityBuffer, CapacityBufferStatus
);
with_status!(
    ProvisioningRequests, "ProvisioningRequest", resources::PROVISIONING_REQUESTS.path,
    nodeless_api::ProvisioningRequest => model::ProvisioningRequest, ProvisioningRequestStatus
);

/// A kind that selects pods by labels.
macro_rules! selecting {
    ($kind:ident, $name:literal, $path:literal) => {
        #[doc = concat!("The kind ", $name, ".")]
        pub struct $kind;

        impl Kind for $kind {
            type Slim = slim::SelectingByLabels;
            type Model = ObjectSelector;
            const NAME: &'static str = $name;
            const PATH: &'static str = $path;

            fn reduce(object: Self::Slim) -> Result<Self::Model, String> {
                Ok(object.into())
            }
        }
    };
}

selecting!(Services, "Service", "/api/v1/services");
selecting!(ReplicationControllers, "ReplicationController", "/api/v1/replicationcontrollers");

/// A kind that is kept as it is decoded.
macro_rules! whole {
    ($kind:ident, $name:literal, $path:expr, $slim:ty) => {
        #[doc = concat!("The kind ", $name, ".")]
        pub struct $kind;

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
whole!(ResourceSlices, "ResourceSlice", "/apis/resource.k8s.io/v1/resourceslices", slim::ResourceSlice);
whole!(DeviceClasses, "DeviceClass", "/apis/resource.k8s.io/v1/deviceclasses", slim::DeviceClass);
whole!(ResourceClaims, "ResourceClaim", "/apis/resource.k8s.io/v1/resourceclaims", slim::ResourceClaim);
whole!(
    ResourceClaimTemplates,
    "ResourceClaimTemplate",
    "/apis/resource.k8s.io/v1/resourceclaimtemplates",
    slim::ResourceClaimTemplate
);
whole!(VolumeAttachments, "VolumeAttachment", "/apis/storage.k8s.io/v1/volumeattachments", slim::VolumeAttachment);

whole!(StoredDeployments, "Deployment", "/apis/apps/v1/deployments", Value);
whole!(PodTemplates, "PodTemplate", "/api/v1/podtemplates", slim::StoredPodTemplate);
whole!(StoredPods, "Pod", PODS, Value);

/// The kind EC2NodeClass, which is kept completely: launches need all of it.
pub struct NodeClasses;

impl Kind for NodeClasses {
    type Slim = nodeless_api::EC2NodeClass;
    type Model = nodeless_api::EC2NodeClass;
    const NAME: &'static str = "EC2NodeClass";
    const PATH: &'static str = resources::NODE_CLASSES.path;

    fn reduce(object: Self::Slim) -> Result<Self::Model, String> {
        Ok(object)
    }
}
