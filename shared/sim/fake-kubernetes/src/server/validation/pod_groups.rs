//! PodGroups and Workloads, as `ValidatePodGroup` and `ValidateWorkload` of Kubernetes validate them.

use super::{is_label, list, text};
use crate::server::path::Path as _;
use crate::server::status::FieldError;
use serde_json::{Value, json};

/// The fields of a PodGroup that never change.
pub(super) const SPEC: [&str; 7] = [
    "/spec/podGroupTemplateRef",
    "/spec/schedulingPolicy",
    "/spec/schedulingConstraints",
    "/spec/resourceClaims",
    "/spec/disruptionMode",
    "/spec/priorityClassName",
    "/spec/priority",
];
/// The most templates of a Workload.
const MAX_TEMPLATES: usize = 8;

/// A scheduling policy: `basic` or `gang`.
pub(super) fn policy(policy: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let given = ["basic", "gang"].into_iter().filter(|field| policy.at(&format!("/{field}")).is_some()).count();
    if given != 1 {
        let detail = "must specify exactly one of: `basic`, `gang`";
        errors.push(FieldError::invalid(path, policy, detail));
    }
    let Some(gang) = policy.at("/gang") else { return };
    let path = format!("{path}.gang.minCount");
    match gang["minCount"].as_i64() {
        None => errors.push(FieldError::required(path, "")),
        Some(1..) => {}
        Some(_) => errors.push(FieldError::invalid(path, &gang["minCount"], "must be greater than or equal to 1")),
    }
}

/// The templates of a Workload.
pub(super) fn workload(object: &Value, errors: &mut Vec<FieldError>) {
    let templates = list(object, "/spec/podGroupTemplates");
    if templates.is_empty() {
        errors.push(FieldError::required("spec.podGroupTemplates", ""));
    }
    if templates.len() > MAX_TEMPLATES {
        let detail = format!("must have at most {MAX_TEMPLATES} items");
        errors.push(FieldError::invalid("spec.podGroupTemplates", &json!(templates.len()), &detail));
    }
    for (index, template) in templates.iter().enumerate() {
        let path = format!("spec.podGroupTemplates[{index}]");
        if !is_label(text(template, "/name")) {
            errors.push(FieldError::invalid(format!("{path}.name"), &template["name"], super::LABEL));
        }
        policy(&template["schedulingPolicy"], &format!("{path}.schedulingPolicy"), errors);
    }
}
