//! Fields that an API server or a controller would have set.

use crate::kinds::PlannedKind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use nodeless_api::convert::ConvertError;
use nodeless_api::{ConditionStatus, NodePool, labels, slim};
use nodeless_model as model;
use nodeless_model::Unusable;
use serde_json::{Map, Value, json};

/// The annotation of claims that are bound.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// The allowed disruptions of a PodDisruptionBudget, computed as in its controller, and whether it requires all pods.
/// `covered` are the pods that it selects, and `healthy` is the number of those that run. `None` if the budget has neither
/// minAvailable nor maxUnavailable.
pub(crate) fn disruptions_allowed(
    spec: &slim::PodDisruptionBudgetSpec,
    covered: usize,
    healthy: usize,
) -> Option<(i32, bool)> {
    // Both are rounded up, as the controller does.
    let share = |value: &IntOrString| match value {
        IntOrString::Int(number) => Some(i64::from(*number)),
        IntOrString::String(text) => {
            let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
            let covered = i64::try_from(covered).ok()?;
            Some((covered.checked_mul(percent)? + 99) / 100)
        }
    };
    let (covered, healthy) = (i64::try_from(covered).ok()?, i64::try_from(healthy).ok()?);
    let required = match (&spec.min_available, &spec.max_unavailable) {
        (Some(least), _) => share(least)?,
        (None, Some(most)) => covered - share(most)?,
        (None, None) => return None,
    };
    let allowed = i32::try_from((healthy - required.max(0)).max(0)).ok()?;
    Some((allowed, covered > 0 && required >= covered))
}

/// The allocatable resources are the capacity, unless the node's status contains others.
pub(crate) fn node(node: &mut slim::Node) {
    if node.status.allocatable.is_empty() {
        node.status.allocatable.clone_from(&node.status.capacity);
    }
}

/// A claim with a volume is bound, unless its status differs; a claim without a class has the default class.
pub(crate) fn volume_claim(claim: &mut slim::PersistentVolumeClaim, default_class: Option<&str>) {
    let spec = &mut claim.spec;
    if spec.volume_name.as_ref().is_some_and(|volume| !volume.is_empty()) {
        if matches!(claim.status.phase.as_deref(), None | Some("Bound")) {
            let annotations = claim.metadata.annotations.get_or_insert_default();
            annotations.entry(BIND_COMPLETED.to_owned()).or_insert_with(|| "yes".to_owned());
        }
    } else if spec.storage_class_name.is_none() {
        spec.storage_class_name = default_class.map(str::to_owned);
    }
}

/// Fields of conditions that the CRD requires and planning does not use.
fn conditions(of: &mut Value) {
    for condition in of.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(condition) = condition.as_object_mut() else { continue };
        condition.entry("lastTransitionTime").or_insert_with(|| json!("1970-01-01T00:00:00Z"));
    }
}

/// Fields of a NodePool that the CRD requires and that have an obvious default.
pub(crate) fn node_pool(pool: &mut Value) {
    conditions(pool);
    if let Some(disruption) = object(pool, "/spec/disruption") {
        disruption.entry("consolidateAfter").or_insert_with(|| json!("0s"));
    }
    if let Some(spec) = object(pool, "/spec/template/spec") {
        spec.entry("requirements").or_insert_with(|| json!([]));
        node_class_reference(spec);
    }
}

/// The fields of an EC2NodeClass with selector terms.
const SELECTOR_TERMS: [&str; 3] = ["subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms"];

/// Fields of an EC2NodeClass that the CRD requires and planning does not use.
pub(crate) fn node_class(class: &mut Value) {
    conditions(class);
    for subnet in class.pointer_mut("/status/subnets").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(subnet) = subnet.as_object_mut() {
            subnet.entry("id").or_insert_with(|| json!(""));
        }
    }
    if let Some(class) = class.as_object_mut() {
        class.entry("spec").or_insert_with(|| json!({}));
    }
    if let Some(spec) = object(class, "/spec") {
        for terms in SELECTOR_TERMS {
            spec.entry(terms).or_insert_with(|| json!([]));
        }
    }
}

/// Whether an error about a field counts: not if the field is missing, or if the rule is about the whole spec of an EC2NodeClass. Those
/// rules require fields that planning does not use: `role` or `instanceProfile`, and `amiFamily`.
pub(crate) fn is_given(kind: PlannedKind, given: &Value, field: &str) -> bool {
    let own_rules = kind == PlannedKind::NodeClass && field == "spec";
    let terms = SELECTOR_TERMS.iter().find(|terms| field.strip_prefix("spec.") == Some(terms));
    !own_rules && terms.is_none_or(|terms| given.pointer(&format!("/spec/{terms}")).is_some())
}

/// Fields of a NodeClaim that the CRD requires.
pub(crate) fn node_claim(claim: &mut Value) {
    conditions(claim);
    if let Some(spec) = object(claim, "/spec") {
        spec.entry("requirements").or_insert_with(|| json!([]));
        spec.entry("nodeClassRef").or_insert_with(|| json!({ "name": "" }));
        node_class_reference(spec);
    }
}

/// Fields of a NodeOverlay or CapacityBuffer that planning does not use.
pub(crate) fn status(object: &mut Value) {
    conditions(object);
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

/// A NodePool, ready unless its status differs.
pub(crate) fn pool(pool: &NodePool) -> model::NodePool {
    let mut converted = model::NodePool::from(pool);
    let conditions = pool.status.iter().flat_map(|status| &status.conditions);
    let unready = conditions.into_iter().find(|it| it.type_ == "Ready" && it.status == ConditionStatus::False);
    if let (Some(condition), Ok(())) = (unready, &converted.ready) {
        let separator = if condition.message.is_empty() { "" } else { ": " };
        converted.ready = Err(Unusable(format!("{}{separator}{}", condition.reason, condition.message)));
    }
    converted
}

/// A NodeClaim as a record. Properties of the instance that its labels do not contain are taken from its Node, or from
/// requirements that allow only one value; without any of them, it is treated as not yet launched.
pub(crate) fn claim(
    claim: &nodeless_api::NodeClaim,
    node: Option<&model::Node>,
) -> Result<model::NodeClaim, ConvertError> {
    let mut claim = claim.clone();
    let metadata = &mut claim.metadata;
    let name = metadata.name.clone().unwrap_or_default();
    metadata.uid.get_or_insert(name);
    let created = node.and_then(|node| node.created).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    metadata.creation_timestamp.get_or_insert(Time(created));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_without_a_status_are_computed_as_in_their_controller() {
        for (spec, covered, healthy, expected) in [
            (json!({ "maxUnavailable": 1 }), 3, 3, Some((1, false))),
            (json!({ "maxUnavailable": 1 }), 3, 2, Some((0, false))),
            (json!({ "maxUnavailable": "30%" }), 3, 3, Some((1, false))),
            (json!({ "maxUnavailable": 0 }), 3, 3, Some((0, true))),
            (json!({ "minAvailable": "50%" }), 3, 3, Some((1, false))),
            (json!({ "minAvailable": 1 }), 1, 1, Some((0, true))),
            (json!({ "minAvailable": 5 }), 3, 3, Some((0, true))),
            (json!({ "minAvailable": 1 }), 0, 0, Some((0, false))),
            (json!({ "minAvailable": "many" }), 3, 3, None),
            (json!({}), 3, 3, None),
        ] {
            let read: slim::PodDisruptionBudgetSpec = serde_json::from_value(spec.clone()).unwrap();
            assert_eq!(disruptions_allowed(&read, covered, healthy), expected, "{spec}");
        }
    }
}
