//! Nodes.

use super::{ConvertError, FieldError, resource_list, status};
use crate::slim;
use nodeless_model as model;

impl TryFrom<&slim::Node> for model::Node {
    type Error = ConvertError;

    fn try_from(node: &slim::Node) -> Result<Self, ConvertError> {
        let name = node.metadata.name.clone().unwrap_or_default();
        convert(node).map_err(|error| error.for_object(format!("Node {name}")))
    }
}

fn convert(node: &slim::Node) -> Result<model::Node, FieldError> {
    let metadata = &node.metadata;
    let conditions = node.status.conditions.iter().map(|condition| model::node::NodeCondition {
        kind: condition.type_.clone(),
        status: status(&condition.status),
        since: condition.last_transition_time.as_ref().map(|time| time.0),
        reason: condition.reason.clone().unwrap_or_default(),
    });
    Ok(model::Node {
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        provider_id: node.spec.provider_id.clone(),
        labels: metadata.labels.clone().unwrap_or_default(),
        annotations: metadata.annotations.clone().unwrap_or_default(),
        finalizers: metadata.finalizers.clone().unwrap_or_default(),
        taints: node.spec.taints.iter().enumerate().map(|(index, it)| taint(index, it)).collect::<Result<_, _>>()?,
        unschedulable: node.spec.unschedulable,
        capacity: resource_list(&node.status.capacity, "status.capacity")?,
        allocatable: resource_list(&node.status.allocatable, "status.allocatable")?,
        conditions: conditions.collect(),
        boot_id: node.status.node_info.boot_id.clone(),
        created: metadata.creation_timestamp.as_ref().map(|time| time.0),
        deletion_timestamp: metadata.deletion_timestamp.as_ref().map(|time| time.0),
    })
}

fn taint(index: usize, taint: &slim::NodeTaint) -> Result<model::Taint, FieldError> {
    let effect = effect(&taint.effect).ok_or_else(|| {
        FieldError::new(format!("spec.taints[{index}].effect"), format!("{:?} is unknown", taint.effect))
    })?;
    Ok(model::Taint { key: taint.key.clone(), value: taint.value.clone(), effect })
}

pub(super) fn effect(text: &str) -> Option<model::TaintEffect> {
    use model::TaintEffect::{NoExecute, NoSchedule, PreferNoSchedule};
    [NoSchedule, PreferNoSchedule, NoExecute].into_iter().find(|effect| effect.as_str() == text)
}
