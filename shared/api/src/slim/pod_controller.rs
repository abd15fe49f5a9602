//! Deployments, StatefulSets and Jobs, as far as the number of the pods that they create follows from them.

use super::meta;
use super::workload::PodTemplate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

/// A Deployment, StatefulSet or Job.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodController {
    /// Name, generation and so on.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// The spec.
    pub spec: PodControllerSpec,
    /// The status.
    pub status: PodControllerStatus,
}

/// The spec of a [`PodController`]. Each kind has some of these fields.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodControllerSpec {
    /// The number of pods; one when absent.
    pub replicas: Option<i32>,
    /// Whether changes of a Deployment's template create no pods.
    pub paused: bool,
    /// How the pods of a Deployment are replaced.
    pub strategy: UpdateStrategy,
    /// `Parallel`, or `OrderedReady`, which is the default of StatefulSets.
    pub pod_management_policy: Option<String>,
    /// The numbers of the pods of a StatefulSet.
    pub ordinals: Ordinals,
    /// How many pods of a Job run at once; one when absent.
    pub parallelism: Option<i32>,
    /// How many pods of a Job have to succeed; when absent, one that succeeds is the end of a queue.
    pub completions: Option<i32>,
    /// Whether a Job creates no pods.
    pub suspend: Option<bool>,
    /// `Failed` if a Job replaces pods that are being deleted only once they have ended.
    pub pod_replacement_policy: Option<String>,
    /// The controller that handles a Job, if it is not that of Kubernetes.
    pub managed_by: Option<String>,
    /// The pod.
    pub template: PodTemplate,
}

/// How the pods of a Deployment are replaced.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateStrategy {
    /// `Recreate`, or `RollingUpdate`, which is the default.
    #[serde(rename = "type")]
    pub type_: Option<String>,
    /// `maxSurge` and `maxUnavailable`.
    pub rolling_update: Value,
}

/// The numbers of the pods of a StatefulSet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Ordinals {
    /// The first one.
    pub start: i32,
}

/// The status of a [`PodController`]. Each kind has some of these fields.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodControllerStatus {
    /// The generation that it describes.
    pub observed_generation: Option<i64>,
    /// The conditions.
    pub conditions: Vec<PodControllerCondition>,
    /// The revision of the pods of a StatefulSet that are not updated yet.
    pub current_revision: Option<String>,
    /// The revision of those that are.
    pub update_revision: Option<String>,
    /// How many pods of a Job have succeeded.
    pub succeeded: i32,
    /// How many pods of a Job have failed.
    pub failed: i32,
    /// The pods of a Job that have ended and are not among these numbers yet.
    pub uncounted_terminated_pods: UncountedPods,
}

/// The pods of a Job that have ended and are not counted yet, by uid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct UncountedPods {
    /// Those that have succeeded.
    pub succeeded: Vec<String>,
    /// Those that have failed.
    pub failed: Vec<String>,
}

/// A condition of a [`PodController`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodControllerCondition {
    /// The type.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
}
