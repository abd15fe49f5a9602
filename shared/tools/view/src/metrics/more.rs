//! The fields of objects that metrics need and the view does not keep.

use crate::objects::claim::ConditionFacts;
use crate::objects::decode::{DecodeError, Object, ShownKind, json, pod};
use crate::objects::pod::PodFacts;
use jiff::Timestamp;
use nodeless_api::{convert, slim};
use nodeless_model::{Pod, ResourceList};
use serde::Deserialize;
use std::sync::Arc;

/// An object with the fields that only metrics need.
#[derive(Debug)]
pub struct Measurable {
    pub(super) object: Object,
    pub(super) more: More,
}

#[derive(Debug)]
pub(super) enum More {
    None,
    Pod(Box<PodMore>),
    Status(Box<StatusMore>),
}

/// What metrics need of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PodMore {
    /// The path of its first owner.
    pub(super) owner: String,
    /// Whether it is ready.
    pub(super) ready: bool,
    /// Whether its condition PodScheduled is true.
    pub(super) scheduled: bool,
    /// Whether it has resource claims.
    pub(super) dynamic_resources: bool,
    /// Whether it must find another node when its own is removed.
    pub(super) reschedulable: bool,
    pub(super) requests: ResourceList,
    pub(super) limits: ResourceList,
}

/// What metrics need of an object with conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StatusMore {
    pub(super) conditions: Vec<ConditionFacts>,
    /// Its deletionTimestamp.
    pub(super) deleted: Option<Timestamp>,
    /// Whether a NodeClaim has a `terminationGracePeriod`.
    pub(super) has_grace_period: bool,
}

#[derive(Deserialize)]
struct Raw {
    metadata: RawMetadata,
    #[serde(default)]
    spec: RawSpec,
    #[serde(default)]
    status: RawStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMetadata {
    deletion_timestamp: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    termination_grace_period: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawStatus {
    conditions: Vec<ConditionFacts>,
}

pub(super) fn measurable(kind: ShownKind, object: &str) -> Result<Measurable, DecodeError> {
    if kind == ShownKind::Pod {
        let (slim, pod, unscheduled) = pod(object)?;
        let more = More::Pod(Box::new(PodMore::new(&slim, &pod)?));
        return Ok(Measurable { object: Object::Pod(Arc::new(PodFacts::new(pod, unscheduled))), more });
    }
    let decoded = Object::decode(kind, object)?;
    let more = match kind {
        _ if matches!(decoded, Object::OfOther) => More::None,
        ShownKind::Node | ShownKind::NodePool | ShownKind::NodeClaim | ShownKind::NodeClass => {
            let raw: Raw = json(object)?;
            More::Status(Box::new(StatusMore {
                conditions: raw.status.conditions,
                deleted: raw.metadata.deletion_timestamp,
                has_grace_period: raw.spec.termination_grace_period.is_some(),
            }))
        }
        ShownKind::Pod | ShownKind::Event | ShownKind::PodDisruptionBudget | ShownKind::Namespace => More::None,
    };
    Ok(Measurable { object: decoded, more })
}

impl PodMore {
    fn new(slim: &slim::Pod, pod: &Pod) -> Result<Self, DecodeError> {
        let owners = slim.metadata.owner_references.as_deref().unwrap_or_default();
        let owner = owners.first().map(|owner| {
            let kind = owner.kind.to_lowercase();
            format!("/apis/{}/namespaces/{}/{kind}s/{}", owner.api_version, pod.namespace, owner.name)
        });
        let scheduled = |one: &slim::PodCondition| one.type_ == "PodScheduled" && one.status == "True";
        Ok(Self {
            owner: owner.unwrap_or_default(),
            ready: pod.ready == Some(true),
            scheduled: slim.status.conditions.iter().any(scheduled),
            dynamic_resources: !pod.template.resource_claims.is_empty(),
            reschedulable: pod.is_reschedulable(),
            requests: pod.template.requests.clone(),
            limits: convert::limits(slim).map_err(DecodeError::from)?,
        })
    }
}
