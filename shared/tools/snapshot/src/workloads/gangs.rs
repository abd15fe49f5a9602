//! PodGroups: how many of their pods are scheduled together.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

/// A PodGroup of `scheduling.k8s.io` as it is written.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct WrittenPodGroup {
    pub(crate) metadata: ObjectMeta,
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    scheduling_policy: Policy,
}

/// Without `gang`, the pods are scheduled one by one.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Policy {
    gang: Option<Gang>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Gang {
    min_count: u32,
}

impl WrittenPodGroup {
    /// The least number of pods that are scheduled together.
    pub(crate) fn least(&self) -> u32 {
        self.spec.scheduling_policy.gang.as_ref().map_or(0, |gang| gang.min_count)
    }
}
