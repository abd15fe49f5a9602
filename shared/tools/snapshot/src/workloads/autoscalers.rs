//! The objects that scale workloads.

use crate::decode::{Undecoded, decode};
use crate::documents::Body;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The annotation of a paused ScaledObject with the replicas of its workload.
const PAUSED_REPLICAS: &str = "autoscaling.keda.sh/paused-replicas";
/// The default of `maxReplicaCount` of a ScaledObject.
const MAX_OF_KEDA: u32 = 100;

/// The range in which an autoscaler keeps the replicas of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Autoscaler {
    /// The kind of the workload.
    pub(crate) kind: String,
    /// Its name.
    pub(crate) name: String,
    pub(crate) least: u32,
    pub(crate) most: u32,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    annotations: Option<BTreeMap<String, String>>,
}

/// The fields of a HorizontalPodAutoscaler and of KEDA's ScaledObject.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    scale_target_ref: Target,
    min_replicas: Option<u32>,
    max_replicas: Option<u32>,
    min_replica_count: Option<u32>,
    max_replica_count: Option<u32>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Target {
    kind: Option<String>,
    name: String,
}

impl Autoscaler {
    /// Reads an autoscaler of this kind.
    pub(crate) fn read(kind: &str, body: &Body<'_>) -> Result<Self, Undecoded> {
        let Object { metadata, spec } = decode::<Object>(body)?;
        let annotations = metadata.annotations.unwrap_or_default();
        let paused = annotations.get(PAUSED_REPLICAS).and_then(|replicas| replicas.parse().ok());
        let (least, most) = match (kind, paused) {
            ("ScaledObject", Some(replicas)) => (replicas, replicas),
            ("ScaledObject", None) => {
                (spec.min_replica_count.unwrap_or(0), spec.max_replica_count.unwrap_or(MAX_OF_KEDA))
            }
            _ => {
                let least = spec.min_replicas.unwrap_or(1);
                (least, spec.max_replicas.unwrap_or(least))
            }
        };
        Ok(Self {
            kind: spec.scale_target_ref.kind.unwrap_or_else(|| "Deployment".to_owned()),
            name: spec.scale_target_ref.name,
            least,
            most: most.max(least),
        })
    }
}
