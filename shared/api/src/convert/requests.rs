//! What a pod asks of its node, as the kube-scheduler adds it up.

use super::{FieldError, resource_list};
use crate::slim::{Container, ContainerStatus, PodCondition, PodResources, PodSpec, PodStatus};
use nodeless_model::{Quantity, ResourceList};

/// The larger of what its containers need together and what its init containers need one after another, with sidecars
/// running beside them, or what is asked for the pod as a whole, and its overhead and `pods: 1` on top.
pub(super) fn of_pod(spec: &PodSpec, status: &PodStatus) -> Result<ResourceList, FieldError> {
    let infeasible = is_infeasible(status);
    let mut running = ResourceList::new();
    for (index, container) in spec.containers.iter().enumerate() {
        let field = format!("spec.containers[{index}].resources");
        running.add(&of_container(container, &status.container_statuses, infeasible, &field)?);
    }
    let mut sidecars = ResourceList::new();
    let mut starting = ResourceList::new();
    for (index, container) in spec.init_containers.iter().enumerate() {
        let field = format!("spec.initContainers[{index}].resources");
        let mut needed = of_container(container, &status.init_container_statuses, infeasible, &field)?;
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
    if let Some(resources) = &spec.resources {
        let whole = with_defaults(resources, &running, "spec.resources")?;
        for (name, quantity) in whole.iter() {
            running.set(name, quantity);
        }
    }
    running.add(&resource_list(&spec.overhead, "spec.overhead")?);
    running.set("pods", Quantity::from_units(1));
    Ok(running)
}

/// What a container requests: the largest of its spec, the resources that the kubelet allocated and those in effect,
/// while it is being resized. Where the node can never provide its spec (`infeasible`), only the latter two count.
fn of_container(
    container: &Container,
    statuses: &[ContainerStatus],
    infeasible: bool,
    field: &str,
) -> Result<ResourceList, FieldError> {
    let desired = with_defaults(&container.resources, &ResourceList::new(), field)?;
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

/// Requests, with a limit standing in for a request that is missing here and in `others`. The API server does so for pods
/// but not for the templates of DaemonSets.
fn with_defaults(resources: &PodResources, others: &ResourceList, field: &str) -> Result<ResourceList, FieldError> {
    let mut requests = resource_list(&resources.requests, &format!("{field}.requests"))?;
    for (name, limit) in resource_list(&resources.limits, &format!("{field}.limits"))?.iter() {
        if !requests.contains(name) && !others.contains(name) {
            requests.set(name, limit);
        }
    }
    Ok(requests)
}
