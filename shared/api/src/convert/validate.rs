//! The validation of NodePools that the API server cannot do: the condition ValidationSucceeded.

use crate::custom::common::{Operator, Requirement, Taint, TaintEffect};
use crate::custom::nodeoverlay::NodeOverlay;
use crate::custom::nodepool::NodePool;
use crate::slim::NodeClaimSpec;
use nodeless_model::labels;
use nodeless_model::resources::name;
use std::collections::BTreeSet;

/// All problems of a NodePool that the API server accepted, each with its field. The pool may be used only if the list is empty;
/// joined, it is the message of ValidationSucceeded with the reason `NodePoolValidationFailed`.
#[must_use]
pub fn node_pool(pool: &NodePool) -> Vec<String> {
    let template = &pool.spec.template;
    let mut problems = Vec::new();
    for (key, value) in template.metadata.iter().flat_map(|metadata| &metadata.labels) {
        label(key, value, &mut problems);
    }
    let mut seen = BTreeSet::new();
    taints("spec.template.spec.taints", &template.spec.taints, &mut seen, &mut problems);
    taints("spec.template.spec.startupTaints", &template.spec.startup_taints, &mut seen, &mut problems);
    for (index, requirement) in template.spec.requirements.iter().enumerate() {
        let field = format!("spec.template.spec.requirements[{index}]");
        if requirement.key == labels::NODE_POOL {
            problems.push(format!("{field}: key {:?} is restricted", requirement.key));
        }
        requirement_problems(&field, requirement, &mut problems);
    }
    problems
}

/// All problems of a NodeClaim without a NodePool that the API server accepted, each with its field. A node may be launched only if the
/// list is empty.
#[must_use]
pub(super) fn standalone(spec: &NodeClaimSpec) -> Vec<String> {
    let mut problems = Vec::new();
    if spec.node_class_ref.as_ref().is_none_or(|class| class.name.is_empty()) {
        problems.push("spec.nodeClassRef: it must name an EC2NodeClass".to_owned());
    }
    let mut seen = BTreeSet::new();
    taints("spec.taints", &spec.taints, &mut seen, &mut problems);
    taints("spec.startupTaints", &spec.startup_taints, &mut seen, &mut problems);
    for (index, requirement) in spec.requirements.iter().enumerate() {
        let field = format!("spec.requirements[{index}]");
        if requirement.key == labels::NODE_POOL {
            problems.push(format!("{field}: key {:?} is restricted", requirement.key));
        }
        requirement_problems(&field, requirement, &mut problems);
    }
    problems
}

/// Resources that an overlay cannot add: the kubelet or an AWS device plugin reports their amount. They do not include GPUs,
/// because EC2 does not report fractions of a GPU.
const NOT_OVERLAID: [&str; 10] = [
    name::CPU,
    name::MEMORY,
    name::EPHEMERAL_STORAGE,
    name::PODS,
    "vpc.amazonaws.com/pod-eni",
    "vpc.amazonaws.com/PrivateIPv4Address",
    "vpc.amazonaws.com/efa",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "habana.ai/gaudi",
];

/// All problems of a NodeOverlay that the API server accepted, each with its field. The overlay may be applied only if the
/// list is empty; joined, it is the message of ValidationSucceeded with the reason `RuntimeValidation`.
#[must_use]
pub fn node_overlay(overlay: &NodeOverlay) -> Vec<String> {
    let mut problems = Vec::new();
    for (index, requirement) in overlay.spec.requirements.iter().enumerate() {
        requirement_problems(&format!("spec.requirements[{index}]"), requirement, &mut problems);
    }
    for resource in overlay.spec.capacity.keys().filter(|resource| NOT_OVERLAID.contains(&resource.as_str())) {
        problems
            .push(format!("spec.capacity.{resource}: this resource cannot be overlaid; EC2 or the node reports it"));
    }
    problems
}

fn label(key: &str, value: &str, problems: &mut Vec<String>) {
    let field = format!("spec.template.metadata.labels[{key}]");
    if key == labels::NODE_POOL || labels::is_restricted(key) {
        problems.push(format!("{field}: the label is restricted"));
    }
    if !is_qualified_name(key) {
        problems.push(format!("{field}: {QUALIFIED_NAME_HELP}"));
    }
    if !is_label_value(value) {
        problems.push(format!("{field}: {value:?} is no label value; {LABEL_VALUE_HELP}"));
    }
}

fn taints(field: &str, taints: &[Taint], seen: &mut BTreeSet<(String, TaintEffect)>, problems: &mut Vec<String>) {
    for (index, taint) in taints.iter().enumerate() {
        let field = format!("{field}[{index}]");
        if !is_qualified_name(&taint.key) {
            problems.push(format!("{field}: key {:?}: {QUALIFIED_NAME_HELP}", taint.key));
        }
        if taint.value.as_deref().is_some_and(|value| !value.is_empty() && !is_qualified_name(value)) {
            problems.push(format!(
                "{field}: value {:?}: {QUALIFIED_NAME_HELP}",
                taint.value.as_deref().unwrap_or_default()
            ));
        }
        if !seen.insert((taint.key.clone(), taint.effect)) {
            problems.push(format!("{field}: duplicate taint, {} with {:?} occurs before", taint.key, taint.effect));
        }
    }
}

fn requirement_problems(field: &str, requirement: &Requirement, problems: &mut Vec<String>) {
    let key = labels::normalize(&requirement.key);
    let values = &requirement.values;
    if labels::is_restricted(key) {
        problems.push(format!("{field}: key {key:?} is restricted"));
    }
    if !is_qualified_name(key) {
        problems.push(format!("{field}: key {key:?}: {QUALIFIED_NAME_HELP}"));
    }
    for value in values.iter().filter(|value| !is_label_value(value)) {
        problems.push(format!("{field}: {value:?} is no label value; {LABEL_VALUE_HELP}"));
    }
    match requirement.operator {
        Operator::In => in_problems(field, key, requirement, problems),
        Operator::NotIn if values.is_empty() => problems.push(format!("{field}: {key} NotIn needs at least one value")),
        Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte => {
            let is_bound = matches!(values.as_slice(), [value] if value.parse::<i64>().is_ok_and(|bound| bound >= 0));
            if !is_bound {
                problems.push(format!("{field}: {key} {:?} needs one whole number", requirement.operator));
            }
        }
        Operator::NotIn | Operator::Exists | Operator::DoesNotExist => {}
    }
}

fn in_problems(field: &str, key: &str, requirement: &Requirement, problems: &mut Vec<String>) {
    let least = requirement.min_values.and_then(|count| usize::try_from(count).ok()).unwrap_or(1);
    if requirement.values.is_empty() {
        problems.push(format!("{field}: {key} In needs at least one value"));
    } else if requirement.values.len() < least {
        problems.push(format!("{field}: {key} In needs at least the {least} values that minValues requires"));
    }
    let known: &[&str] = match key {
        labels::CAPACITY_TYPE => &["on-demand", "reserved", "spot"],
        labels::INSTANCE_TENANCY => &["dedicated", "default"],
        _ => return,
    };
    let valid = requirement.values.iter().filter(|value| known.contains(&value.as_str())).count();
    if valid == 0 {
        problems.push(format!(
            "{field}: none of {:?} is a value of {key}; there are {}",
            requirement.values,
            known.join(", ")
        ));
    } else if valid < least {
        problems.push(format!(
            "{field}: {valid} of {:?} are values of {key}, but minValues requires {least}",
            requirement.values
        ));
    }
}

const QUALIFIED_NAME_HELP: &str = "it must be a name of up to 63 letters, digits, '-', '_' and '.', beginning and ending with a \
     letter or digit, with an optional DNS name and '/' before it";
const LABEL_VALUE_HELP: &str =
    "it must be empty or up to 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit";

/// `[dns-subdomain/]name`, as in Kubernetes' `IsQualifiedName`.
pub(crate) fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    !name.is_empty() && is_label_value(name) && prefix.is_none_or(is_dns_subdomain)
}

fn is_label_value(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.len() <= 63 && text.bytes().all(inner) && has_alphanumeric_ends(text, u8::is_ascii_alphanumeric)
}

fn is_dns_subdomain(text: &str) -> bool {
    let lower = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| lower(&byte) || byte == b'-')
            && has_alphanumeric_ends(label, lower)
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

fn has_alphanumeric_ends(text: &str, is_end: impl Fn(&u8) -> bool) -> bool {
    text.as_bytes().first().is_none_or(&is_end) && text.as_bytes().last().is_none_or(&is_end)
}
