//! What an API server or a controller would have filled in.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use nodeless_api::convert::ConvertError;
use nodeless_api::{ConditionStatus, NodePool, labels, slim};
use nodeless_model as model;
use serde_json::{Map, Value, json};

/// What pods may use is everything, unless the node says otherwise.
pub(crate) fn node(node: &mut slim::Node) {
    if node.status.allocatable.is_empty() {
        node.status.allocatable.clone_from(&node.status.capacity);
    }
}

/// Fields of a NodePool that its definition asks for, where leaving them out can only mean one thing.
pub(crate) fn node_pool(pool: &mut Value) {
    if let Some(disruption) = object(pool, "/spec/disruption") {
        disruption.entry("consolidateAfter").or_insert_with(|| json!("0s"));
    }
    if let Some(spec) = object(pool, "/spec/template/spec") {
        spec.entry("requirements").or_insert_with(|| json!([]));
        node_class_reference(spec);
    }
}

/// Fields of an EC2NodeClass that its definition asks for but planning has no use for.
pub(crate) fn node_class(class: &mut Value) {
    if let Some(class) = class.as_object_mut() {
        class.entry("spec").or_insert_with(|| json!({}));
    }
    if let Some(spec) = object(class, "/spec") {
        for terms in ["subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms"] {
            spec.entry(terms).or_insert_with(|| json!([]));
        }
    }
}

/// Fields of a NodeClaim that its definition asks for.
pub(crate) fn node_claim(claim: &mut Value) {
    if let Some(spec) = object(claim, "/spec") {
        spec.entry("requirements").or_insert_with(|| json!([]));
        spec.entry("nodeClassRef").or_insert_with(|| json!({ "name": "" }));
        node_class_reference(spec);
    }
}

fn node_class_reference(spec: &mut Map<String, Value>) {
    if let Some(reference) = spec.get_mut("nodeClassRef").and_then(Value::as_object_mut) {
        reference.entry("group").or_insert_with(|| json!("karpenter.k8s.aws"));
        reference.entry("kind").or_insert_with(|| json!("EC2NodeClass"));
    }
}

fn object<'a>(value: &'a mut Value, pointer: &str) -> Option<&'a mut Map<String, Value>> {
    value.pointer_mut(pointer).and_then(Value::as_object_mut)
}

/// A NodePool, ready unless its status says that it is not.
pub(crate) fn pool(pool: &NodePool) -> Result<model::NodePool, ConvertError> {
    let mut converted = model::NodePool::try_from(pool)?;
    let conditions = pool.status.iter().flat_map(|status| &status.conditions);
    let unready = conditions.into_iter().find(|it| it.type_ == "Ready" && it.status == ConditionStatus::False);
    if let (Some(condition), Ok(())) = (unready, &converted.ready) {
        let separator = if condition.message.is_empty() { "" } else { ": " };
        converted.ready = Err(format!("{}{separator}{}", condition.reason, condition.message));
    }
    Ok(converted)
}

/// A NodeClaim as a record. What its labels leave out of its instance is taken from its Node, or from requirements that
/// allow one value only; without any of them it counts as one that is not launched yet.
pub(crate) fn claim(
    claim: &nodeless_api::NodeClaim,
    node: Option<&model::Node>,
) -> Result<model::NodeClaim, ConvertError> {
    let mut claim = claim.clone();
    let metadata = &mut claim.metadata;
    let name = metadata.name.clone().unwrap_or_default();
    metadata.uid.get_or_insert(name);
    metadata.creation_timestamp.get_or_insert(Time(jiff::Timestamp::UNIX_EPOCH));
    let own = metadata.labels.get_or_insert_default();
    let instance = [labels::INSTANCE_TYPE, labels::ZONE, labels::CAPACITY_TYPE];
    for key in instance {
        if own.contains_key(key) {
            continue;
        }
        let of_node = node.and_then(|node| node.labels.get(key)).cloned();
        let only = claim.spec.requirements.iter().find(|it| it.key == key).and_then(|it| match it.values.as_slice() {
            [value] if it.operator == nodeless_api::Operator::In => Some(value.clone()),
            _ => None,
        });
        if let Some(value) = of_node.or(only) {
            own.insert(key.to_owned(), value);
        }
    }
    if let Some(status) = &mut claim.status {
        let complete = instance.iter().all(|key| own.contains_key(*key));
        let is_ec2 = status.provider_id.as_deref().is_some_and(|id| model::node::instance_id(id).is_some());
        if !(complete && is_ec2) {
            status.provider_id = None;
        }
        if let (Some(node), None) = (node, &status.node_name) {
            status.node_name = Some(node.name.clone());
        }
    }
    model::NodeClaim::try_from(&claim)
}
