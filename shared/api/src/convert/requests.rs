//! The resource requests and limits of a pod, computed as in kube-scheduler.

use super::{ConvertError, FieldError, resource_list};
use crate::slim::{Container, ContainerStatus, Pod, PodCondition, PodResources, PodSpec, PodStatus};
use nodeless_model::{Quantity, ResourceList};

/// The larger of the sum of its containers and the maximum of its init containers, each together with the sidecars that already
/// run, or the pod-level requests; plus the pod overhead and `pods: 1`.
pub(super) fn of_pod(spec: &PodSpec, status: &PodStatus) -> Result<ResourceList, FieldError> {
    let infeasible = is_infeasible(status);
    let requests = of_containers(spec, |container, role, field| {
        let statuses = match role {
            Role::Main => &status.container_statuses,
            Role::Init => &status.init_container_statuses,
        };
        of_container(container, statuses, infeasible, field)
    })?;
    let whole = of_whole_pod(spec, &requests)?;
    total(spec, requests, &whole)
}

/// The requests of a new pod of a template, in which these defaults replace the requests that a container has none for.
pub(crate) fn of_template(spec: &PodSpec, defaults: &ResourceList) -> Result<ResourceList, FieldError> {
    of_admitted(
        spec,
        |container, _, field| of_manifest(container, field),
        |container, _, field| Ok(filled(of_manifest(container, field)?, defaults)),
    )
}

/// The requests of a container of a manifest, before admission.
pub(crate) fn of_manifest(container: &Container, field: &str) -> Result<ResourceList, FieldError> {
    with_defaults(&container.resources, &ResourceList::new(), field)
}

/// The requests of a new pod, from those of its containers before and after admission.
pub(crate) fn of_admitted(
    spec: &PodSpec,
    before: impl Fn(&Container, Role, &str) -> Result<ResourceList, FieldError>,
    after: impl Fn(&Container, Role, &str) -> Result<ResourceList, FieldError>,
) -> Result<ResourceList, FieldError> {
    // The API server sets the requests of the whole pod before the admission plugin LimitRanger changes those of containers.
    let whole = of_whole_pod(spec, &of_containers(spec, before)?)?;
    total(spec, of_containers(spec, after)?, &whole)
}

/// The list with these defaults where it has nothing.
pub(crate) fn filled(mut list: ResourceList, defaults: &ResourceList) -> ResourceList {
    for (name, quantity) in defaults.iter() {
        if !list.contains(name) {
            list.set(name, quantity);
        }
    }
    list
}

/// The pod-level requests of a pod whose containers request this.
fn of_whole_pod(spec: &PodSpec, containers: &ResourceList) -> Result<ResourceList, FieldError> {
    let resources = spec.resources.as_ref();
    resources.map_or_else(|| Ok(ResourceList::new()), |whole| with_defaults(whole, containers, "spec.resources"))
}

/// The requests of containers, or those of the whole pod, with the overhead.
fn total(spec: &PodSpec, mut requests: ResourceList, whole: &ResourceList) -> Result<ResourceList, FieldError> {
    for (name, quantity) in whole.iter() {
        requests.set(name, quantity);
    }
    requests.add(&resource_list(&spec.overhead, "spec.overhead")?);
    requests.set("pods", Quantity::from_units(1));
    Ok(requests)
}

/// The limits of a pod, computed as in kube-scheduler: like its requests, but the pod overhead counts only for resources with a limit.
///
/// # Errors
/// When a quantity is invalid.
pub fn limits(pod: &Pod) -> Result<ResourceList, ConvertError> {
    limits_of_template(&pod.spec, &ResourceList::new()).map_err(|error| error.for_object("Pod"))
}

/// The limits of a new pod of a template, in which these defaults replace the limits that a container has none for.
pub(crate) fn limits_of_template(spec: &PodSpec, defaults: &ResourceList) -> Result<ResourceList, FieldError> {
    let mut limits = of_containers(spec, |container, _, field| {
        Ok(filled(resource_list(&container.resources.limits, &format!("{field}.limits"))?, defaults))
    })?;
    if let Some(resources) = &spec.resources {
        for (name, quantity) in resource_list(&resources.limits, "spec.resources.limits")?.iter() {
            limits.set(name, quantity);
        }
    }
    let mut overhead = resource_list(&spec.overhead, "spec.overhead")?;
    let unlimited: Vec<String> =
        overhead.iter().filter(|(name, _)| limits.get(name).is_zero()).map(|(name, _)| name.to_owned()).collect();
    unlimited.iter().for_each(|name| overhead.remove(name));
    limits.add(&overhead);
    limits.set("pods", Quantity::from_units(1));
    Ok(limits)
}

/// Whether a container is one of `spec.containers` or of `spec.initContainers`.
#[derive(Clone, Copy)]
pub(crate) enum Role {
    Main,
    Init,
}

impl Role {
    /// The container of this role and name.
    pub(crate) fn find<'s>(self, spec: &'s PodSpec, name: &str) -> Option<&'s Container> {
        let containers = match self {
            Self::Main => &spec.containers,
            Self::Init => &spec.init_containers,
        };
        containers.iter().find(|container| container.name == name)
    }
}

/// The larger of the sum of the containers and the maximum of the init containers, each together with the sidecars that already run.
fn of_containers(
    spec: &PodSpec,
    of: impl Fn(&Container, Role, &str) -> Result<ResourceList, FieldError>,
) -> Result<ResourceList, FieldError> {
    let mut running = ResourceList::new();
    for (index, container) in spec.containers.iter().enumerate() {
        running.add(&of(container, Role::Main, &format!("spec.containers[{index}].resources"))?);
    }
    let mut sidecars = ResourceList::new();
    let mut starting = ResourceList::new();
    for (index, container) in spec.init_containers.iter().enumerate() {
        let mut needed = of(container, Role::Init, &format!("spec.initContainers[{index}].resources"))?;
        if container.restart_policy.as_deref() == Some("Always") {
            running.add(&needed);
            sidecars.add(&needed);
            starting.max_with(&sidecars);
        } else {
            needed.add(&sidecars);
            starting.max_with(&needed);
        }
    }
    running.max_with(&starting);
    Ok(running)
}

/// The requests of a container: during a resize, the maximum of its spec, the allocated resources and the actual resources.
/// If the node can never provide its spec (`infeasible`), the maximum of the latter two.
fn of_container(
    container: &Container,
    statuses: &[ContainerStatus],
    infeasible: bool,
    field: &str,
) -> Result<ResourceList, FieldError> {
    let desired = of_manifest(container, field)?;
    let Some(status) = statuses.iter().find(|status| status.name == container.name) else { return Ok(desired) };
    let mut requests = resource_list(&status.allocated_resources, "status.containerStatuses.allocatedResources")?;
    if let Some(resources) = &status.resources {
        requests.max_with(&resource_list(&resources.requests, "status.containerStatuses.resources.requests")?);
    }
    if !infeasible || requests.is_empty() {
        requests.max_with(&desired);
    }
    Ok(requests)
}

/// Whether the kubelet reported that the node can never provide what a resize requests.
fn is_infeasible(status: &PodStatus) -> bool {
    let infeasible = |condition: &PodCondition| {
        condition.type_ == "PodResizePending" && condition.reason.as_deref() == Some("Infeasible")
    };
    status.conditions.iter().any(infeasible)
}

/// Requests, in which a limit replaces a request that is missing here and in `others`. The API server does this for pods, but not
/// for the templates of DaemonSets.
fn with_defaults(resources: &PodResources, others: &ResourceList, field: &str) -> Result<ResourceList, FieldError> {
    let mut requests = resource_list(&resources.requests, &format!("{field}.requests"))?;
    for (name, limit) in resource_list(&resources.limits, &format!("{field}.limits"))?.iter() {
        if !requests.contains(name) && !others.contains(name) {
            requests.set(name, limit);
        }
    }
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn limits_are_those_of_containers_with_the_overhead_of_what_is_limited() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "a", "namespace": "b" },
            "spec": {
                "overhead": { "cpu": "250m", "memory": "10Mi" },
                "initContainers": [
                    { "name": "side", "restartPolicy": "Always", "resources": { "limits": { "cpu": "1" } } },
                    { "name": "first", "resources": { "limits": { "cpu": "500m", "example.com/gpu": "2" } } }
                ],
                "containers": [
                    { "name": "c", "resources": { "requests": { "memory": "1Gi" }, "limits": { "cpu": "2" } } },
                    { "name": "d" }
                ]
            }
        }))
        .unwrap();
        let limits = limits(&pod).unwrap();
        let all: Vec<_> = limits.iter().map(|(name, quantity)| (name, quantity.milli())).collect();
        assert_eq!(all, [("cpu", 3250), ("example.com/gpu", 2000), ("pods", 1000)]);
    }

    #[test]
    fn limits_that_cannot_be_parsed_name_their_field() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "a" }, "spec": { "containers": [{ "name": "c", "resources": { "limits": { "cpu": "many" } } }] }
        }))
        .unwrap();
        assert_eq!(limits(&pod).unwrap_err().field, "spec.containers[0].resources.limits.cpu");
    }
}
