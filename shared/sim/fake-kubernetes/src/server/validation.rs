//! Validation of built-in objects, with the messages of Kubernetes.

use crate::server::path::{Path as _, text};
use serde_json::{Value, json};
use std::collections::HashSet;

mod pod_groups;
pub(crate) mod pods;
mod resources;

use super::definition::Definition;
use super::quota;
use super::selectors::LabelSelector;
use super::status::FieldError;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
    with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

fn is_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.len() <= 63 && name.bytes().all(inner) && !name.starts_with('-') && !name.ends_with('-')
}

fn is_subdomain(name: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(part)
}

fn is_name_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    !bytes.is_empty()
        && bytes.len() <= 63
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
        && bytes[0].is_ascii_alphanumeric()
        && bytes[bytes.len() - 1].is_ascii_alphanumeric()
}

/// Errors of the metadata.
pub(crate) fn metadata(definition: &Definition, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = text(object, "/metadata/name");
    let resource = &definition.resource;
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        let (valid, detail) = match resource.group.as_ref() {
            "rbac.authorization.k8s.io" => {
                (!name.contains(['/', '%']) && name != "." && name != "..", "may not contain '/' or '%'")
            }
            _ if resource.plural == "namespaces" || resource.plural == "services" => (is_label(name), LABEL),
            _ => (is_subdomain(name), SUBDOMAIN),
        };
        if !valid {
            errors.push(FieldError::invalid("metadata.name", &json!(name), detail));
        }
    }
    labels(object.at("/metadata/labels"), "metadata.labels", &mut errors);
    let annotations = object.at("/metadata/annotations");
    for (key, value) in annotations.and_then(Value::as_object).into_iter().flatten() {
        qualified_name(key, "metadata.annotations", &mut errors);
        if !value.is_string() {
            errors.push(FieldError::invalid(format!("metadata.annotations.{key}"), value, "must be a string"));
        }
    }
    for (index, owner) in list(object, "/metadata/ownerReferences").iter().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, &format!("/{field}")).is_empty() {
                let path = format!("metadata.ownerReferences[{index}].{field}");
                errors.push(FieldError::required(path, "must not be empty"));
            }
        }
    }
    for finalizer in list(object, "/metadata/finalizers") {
        qualified_name(finalizer.as_str().unwrap_or_default(), "metadata.finalizers", &mut errors);
    }
    errors
}

fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.at(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn labels(labels: Option<&Value>, field: &str, errors: &mut Vec<FieldError>) {
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        qualified_name(key, field, errors);
        match value.as_str() {
            Some("") => {}
            Some(text) if text.len() > 63 => {
                errors.push(FieldError::invalid(field, value, "must be no more than 63 characters"));
            }
            Some(text) if is_name_part(text) => {}
            _ => errors.push(FieldError::invalid(field, value, LABEL_VALUE)),
        }
    }
}

fn qualified_name(key: &str, field: &str, errors: &mut Vec<FieldError>) {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if !is_name_part(name) || prefix.is_some_and(|prefix| !is_subdomain(prefix)) {
        errors.push(FieldError::invalid(field, &json!(key), QUALIFIED));
    }
}

/// Errors of everything except for the metadata.
pub(crate) fn object(definition: &Definition, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match definition.resource.kind.as_ref() {
        _ if definition.custom.is_some() => {}
        "Pod" => pod_spec(&object["spec"], "spec", &mut errors),
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => workload(object, &mut errors),
        "Job" => template(object, "spec", &mut errors),
        "CronJob" => template(object, "spec.jobTemplate.spec", &mut errors),
        "Node" => {
            for (index, taint) in list(object, "/spec/taints").iter().enumerate() {
                let path = format!("spec.taints[{index}]");
                qualified_name(text(taint, "/key"), &format!("{path}.key"), &mut errors);
                supported(taint, "effect", &path, &["NoSchedule", "PreferNoSchedule", "NoExecute"], &mut errors);
            }
            for field in ["capacity", "allocatable"] {
                resources::amounts(object.at(&format!("/status/{field}")), &format!("status.{field}"), &mut errors);
            }
        }
        "PodDisruptionBudget" => {
            let spec = &object["spec"];
            if spec.get("minAvailable").is_some() && spec.get("maxUnavailable").is_some() {
                let detail = "minAvailable and maxUnavailable cannot be both set";
                errors.push(FieldError::invalid("spec", &spec.clone(), detail));
            }
        }
        "ResourceQuota" => quota::validate(object, &mut errors),
        "PodGroup" => pod_groups::policy(&object["spec"]["schedulingPolicy"], "spec.schedulingPolicy", &mut errors),
        "Workload" => pod_groups::workload(object, &mut errors),
        "CustomResourceDefinition" => custom_resource_definition(object, &mut errors),
        "ValidatingWebhookConfiguration" => webhooks(object, &mut errors),
        "PriorityClass" if !object["value"].is_i64() && !object["value"].is_null() => {
            errors.push(FieldError::invalid("value", &object["value"], "must be an integer"));
        }
        "Lease" => {
            let duration = &object["spec"]["leaseDurationSeconds"];
            if duration.as_i64().is_some_and(|seconds| seconds <= 0) {
                errors.push(FieldError::invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"));
            }
        }
        "Event" => {
            let (namespace, about) = (text(object, "/metadata/namespace"), text(object, "/involvedObject/namespace"));
            let fits = about == namespace || (about.is_empty() && matches!(namespace, "default" | "kube-system"));
            if !fits {
                let detail = "does not match event.namespace";
                errors.push(FieldError::invalid("involvedObject.namespace", &json!(about), detail));
            }
        }
        _ => {}
    }
    errors
}

fn supported(object: &Value, field: &str, path: &str, values: &[&str], errors: &mut Vec<FieldError>) {
    let path = format!("{path}.{field}");
    match text(object, &format!("/{field}")) {
        "" => errors.push(FieldError::required(path, "")),
        value if !values.contains(&value) => errors.push(FieldError::not_supported(path, &json!(value), values)),
        _ => {}
    }
}

fn workload(object: &Value, errors: &mut Vec<FieldError>) {
    let replicas = &object["spec"]["replicas"];
    if replicas.as_i64().is_some_and(|count| count < 0) {
        errors.push(FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0"));
    } else if !replicas.is_null() && !replicas.is_i64() {
        errors.push(FieldError::invalid("spec.replicas", replicas, "must be an integer"));
    }
    let template_labels = object.at("/spec/template/metadata/labels").cloned().unwrap_or_default();
    match LabelSelector::from_object(&object["spec"]["selector"]) {
        Ok(None) => errors.push(FieldError::required("spec.selector", "")),
        Ok(Some(selector)) if selector.is_empty() => {
            let detail = "empty selector is invalid for deployment";
            errors.push(FieldError::invalid("spec.selector", &object["spec"]["selector"], detail));
        }
        Ok(Some(selector)) if !selector.matches_labels(&template_labels) => {
            let detail = "`selector` does not match template `labels`";
            errors.push(FieldError::invalid("spec.template.metadata.labels", &template_labels, detail));
        }
        Ok(Some(_)) => {}
        Err(error) => {
            errors.push(FieldError::invalid("spec.selector", &object["spec"]["selector"], &error.message));
        }
    }
    template(object, "spec", errors);
}

/// The pod template below a path.
fn template(object: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let at = |field: &str| object.at(&format!("/{}/template/{field}", path.replace('.', "/")));
    labels(at("metadata/labels"), &format!("{path}.template.metadata.labels"), errors);
    pod_spec(at("spec").unwrap_or(&Value::Null), &format!("{path}.template.spec"), errors);
}

fn pod_spec(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if list(spec, "/containers").is_empty() {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    let mut names: HashSet<&str> = HashSet::new();
    for field in ["initContainers", "containers"] {
        for (index, container) in list(spec, &format!("/{field}")).iter().enumerate() {
            let path = format!("{path}.{field}[{index}]");
            let name = text(container, "/name");
            if name.is_empty() {
                errors.push(FieldError::required(format!("{path}.name"), ""));
            } else if !is_label(name) {
                errors.push(FieldError::invalid(format!("{path}.name"), &json!(name), LABEL));
            } else if names.contains(name) {
                let message = format!("Duplicate value: {name:?}");
                errors.push(FieldError { field: format!("{path}.name"), reason: "FieldValueDuplicate", message });
            }
            names.insert(name);
            if text(container, "/image").is_empty() {
                errors.push(FieldError::required(format!("{path}.image"), ""));
            }
            resources::of_container(container, &format!("{path}.resources"), errors);
        }
    }
    if let Some(policy) = spec.get("restartPolicy").filter(|policy| !policy.is_null()) {
        let supported = ["Always", "OnFailure", "Never"];
        if !policy.as_str().is_some_and(|policy| supported.contains(&policy)) {
            errors.push(FieldError::not_supported(format!("{path}.restartPolicy"), policy, &supported));
        }
    }
    for (index, toleration) in list(spec, "/tolerations").iter().enumerate() {
        let path = format!("{path}.tolerations[{index}]");
        pods::toleration(toleration, &path, errors);
        if toleration.get("effect").is_some_and(|effect| !effect.is_null() && effect != "") {
            supported(toleration, "effect", &path, &["NoSchedule", "PreferNoSchedule", "NoExecute"], errors);
        }
    }
}

fn custom_resource_definition(object: &Value, errors: &mut Vec<FieldError>) {
    for field in ["group", "scope"] {
        if text(object, &format!("/spec/{field}")).is_empty() {
            errors.push(FieldError::required(format!("spec.{field}"), ""));
        }
    }
    for field in ["plural", "kind"] {
        if text(object, &format!("/spec/names/{field}")).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{field}"), ""));
        }
    }
    let expected = format!("{}.{}", text(object, "/spec/names/plural"), text(object, "/spec/group"));
    if text(object, "/metadata/name") != expected {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", &object["metadata"]["name"], detail));
    }
    let stored = list(object, "/spec/versions").iter().filter(|version| version["storage"] == true).count();
    if stored != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", &object["spec"]["versions"], detail));
    }
    for (index, version) in list(object, "/spec/versions").iter().enumerate() {
        if !version.at("/schema/openAPIV3Schema").is_some_and(Value::is_object) {
            let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
            errors.push(FieldError::required(path, "schemas are required"));
        }
    }
    if errors.is_empty() {
        errors.extend(super::schema::definition_errors(object));
    }
}

fn webhooks(object: &Value, errors: &mut Vec<FieldError>) {
    for (index, webhook) in list(object, "/webhooks").iter().enumerate() {
        let path = format!("webhooks[{index}]");
        if text(webhook, "/name").split('.').count() < 3 {
            let detail = "should be a domain with at least three segments separated by dots";
            errors.push(FieldError::invalid(format!("{path}.name"), &webhook["name"], detail));
        }
        supported(webhook, "failurePolicy", &path, &["Ignore", "Fail"], errors);
        supported(webhook, "sideEffects", &path, &["None", "NoneOnDryRun"], errors);
        let config = webhook.get("clientConfig").cloned().unwrap_or_default();
        if config.get("url").is_some() == config.get("service").is_some() {
            let path = format!("{path}.clientConfig");
            errors.push(FieldError::required(path, "exactly one of url or service is required"));
        }
        if list(webhook, "/admissionReviewVersions").is_empty() {
            let detail = "must specify one of v1, v1beta1";
            errors.push(FieldError::required(format!("{path}.admissionReviewVersions"), detail));
        }
        for (rule, condition) in list(webhook, "/matchConditions").iter().enumerate() {
            let path = format!("{path}.matchConditions[{rule}].expression");
            if let Err(error) = super::admission::compile(text(condition, "/expression")) {
                errors.push(FieldError::invalid(path, &condition["expression"], &error));
            }
        }
    }
}

/// Errors of a change to an existing object.
pub(crate) fn update(definition: &Definition, old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let immutable = "field is immutable";
    let mut unchanged = |pointer: &str| {
        let value = new.at(pointer).unwrap_or(&Value::Null);
        if old.at(pointer).unwrap_or(&Value::Null) != value {
            let path = pointer.trim_start_matches('/').replace('/', ".");
            errors.push(FieldError::invalid(path, value, immutable));
        }
    };
    match definition.resource.kind.as_ref() {
        _ if definition.custom.is_some() => {}
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => unchanged("/spec/selector"),
        "Job" => {
            unchanged("/spec/selector");
            unchanged("/spec/template");
        }
        "PriorityClass" => unchanged("/value"),
        "PodGroup" => pod_groups::SPEC.iter().for_each(|field| unchanged(field)),
        "Workload" => unchanged("/spec/podGroupTemplates"),
        "CustomResourceDefinition" => unchanged("/spec/group"),
        "Pod" if old.get("spec") != new.get("spec") => pods::update(old, new, &mut errors),
        "Node"
            if !text(old, "/spec/providerID").is_empty()
                && old.at("/spec/providerID") != new.at("/spec/providerID") =>
        {
            let detail = "node updates may only change labels, taints, or capacity (or configSource, if the \
                DynamicKubeletConfig feature gate is enabled)";
            errors.push(FieldError::forbidden("spec.providerID", detail));
        }
        _ => {}
    }
    errors
}
