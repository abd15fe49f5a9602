//! The objects of a scenario: which kinds there may be, and how they are checked and applied.

use super::{Action, Scenario, ScenarioError};
use crate::Driver;
use nodeless_fake_kubernetes::resource as known;
use nodeless_fake_kubernetes::{CreateOptions, PatchOptions, PatchType, Resource, Status};
use nodeless_world::resources;
use serde_json::{Value, json};

/// The resource of a kind.
pub(super) fn resource(kind: &str) -> Result<Resource, ScenarioError> {
    if let Some(custom) = resources::ALL.into_iter().find(|resource| resource.kind == kind) {
        return Ok(custom);
    }
    Ok(match kind {
        "Deployment" => known::DEPLOYMENTS,
        "StatefulSet" => known::STATEFUL_SETS,
        "DaemonSet" => known::DAEMON_SETS,
        "ReplicaSet" => known::REPLICA_SETS,
        "Job" => known::JOBS,
        "Pod" => known::PODS,
        "PodDisruptionBudget" => known::POD_DISRUPTION_BUDGETS,
        "PriorityClass" => known::PRIORITY_CLASSES,
        "LimitRange" => known::LIMIT_RANGES,
        "ResourceQuota" => known::RESOURCE_QUOTAS,
        "Namespace" => known::NAMESPACES,
        "PodTemplate" => known::POD_TEMPLATES,
        "StorageClass" => known::STORAGE_CLASSES,
        "PersistentVolumeClaim" => known::PERSISTENT_VOLUME_CLAIMS,
        "PersistentVolume" => known::PERSISTENT_VOLUMES,
        "HorizontalPodAutoscaler" => known::HORIZONTAL_POD_AUTOSCALERS,
        "Event" => known::EVENTS,
        "Node" => known::NODES,
        other => {
            return Err(ScenarioError::Value {
                field: "kind".to_owned(),
                why: format!(
                    "{other} is not simulated; use NodePool, EC2NodeClass, NodeOverlay, CapacityBuffer, ProvisioningRequest, \
                     Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, Pod, PodTemplate, PodDisruptionBudget, PersistentVolume, \
                     PersistentVolumeClaim, StorageClass, PriorityClass, LimitRange, ResourceQuota, HorizontalPodAutoscaler, Event \
                     or Namespace"
                ),
            });
        }
    })
}

pub(super) fn refused(what: &str, status: &Status) -> ScenarioError {
    ScenarioError::Value { field: what.to_owned(), why: format!("the API server refused it: {status}") }
}

/// Checks every object of a scenario before the run: its kind, and that it has no unknown field, as `kubectl apply
/// --validate=strict` does.
pub(crate) fn check(driver: &Driver, scenario: &Scenario) -> Result<(), ScenarioError> {
    for (index, object) in scenario.objects.iter().enumerate() {
        check_object(driver, &format!("objects[{index}]"), object)?;
    }
    for (index, action) in scenario.actions.iter().enumerate() {
        match &action.action {
            Action::Apply(object) => check_object(driver, &format!("actions[{index}].apply"), object)?,
            Action::ApplyStatus(object) => check_object(driver, &format!("actions[{index}].applyStatus"), object)?,
            Action::Delete(named) => resource(&named.kind).map(drop)?,
            _ => {}
        }
    }
    for (index, jobs) in scenario.jobs.iter().enumerate() {
        check_object(driver, &format!("jobs[{index}]"), &jobs.object(0))?;
    }
    Ok(())
}

fn check_object(driver: &Driver, place: &str, object: &Value) -> Result<(), ScenarioError> {
    let named = |field: &str| object.pointer(field).and_then(Value::as_str).unwrap_or_default();
    let field = format!("{place}, {} {}", named("/kind"), named("/metadata/name"));
    let wrong = |why: String| Err(ScenarioError::Value { field: field.clone(), why });
    let known = resource(named("/kind"))?;
    if named("/metadata/name").is_empty() {
        return wrong("it has no metadata.name".to_owned());
    }
    if named("/apiVersion") != known.api_version() {
        return wrong(format!("apiVersion is {:?}; write {}", named("/apiVersion"), known.api_version()));
    }
    let unknown = driver.world().api().unknown_fields(&known, object).map_err(|status| refused(&field, &status))?;
    if unknown.is_empty() {
        return Ok(());
    }
    let listed: Vec<String> = unknown.iter().map(|field| format!("{field:?}")).collect();
    wrong(format!("there is no field {} in a {} of {}", listed.join(", "), known.kind, known.api_version()))
}

/// Changes the status of an object.
pub(super) fn apply_status(driver: &Driver, object: &Value) -> Result<(), ScenarioError> {
    let text = |at: &str| object.pointer(at).and_then(Value::as_str);
    let (kind, name) = (text("/kind").unwrap_or_default(), text("/metadata/name").unwrap_or_default());
    let resource = resource(kind)?;
    let namespace = if resource.namespaced { text("/metadata/namespace").unwrap_or("default") } else { "" };
    let patch = json!({ "status": object["status"] });
    let (api, options) = (driver.world().api(), PatchOptions::default());
    let patched = api.patch(&resource, namespace, name, Some("status"), PatchType::Merge, &patch, &options);
    patched.map(drop).map_err(|status| refused(&format!("change the status of {kind} {name}"), &status))
}

/// Creates or replaces an object.
pub(crate) fn apply(driver: &Driver, object: &Value) -> Result<(), ScenarioError> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    let resource = resource(kind)?;
    let api = driver.world().api();
    let what = format!("{kind} {name}");
    let namespace = if resource.namespaced { namespace } else { "" };
    if api.get(&resource, namespace, name).is_ok() {
        let options = PatchOptions::default();
        let patched = api.patch(&resource, namespace, name, None, PatchType::Merge, object, &options);
        return patched.map(drop).map_err(|status| refused(&what, &status));
    }
    let created = api.create(&resource, object.clone(), &CreateOptions::default());
    created.map(drop).map_err(|status| refused(&what, &status))
}
