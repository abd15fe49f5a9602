//! The resource requests of a pod, computed as in kube-scheduler.

use super::{FieldError, resource_list};
use crate::slim::{Container, ContainerStatus, PodCondition, PodResources, PodSpec, PodStatus};
use nodeless_model::{Quantity, ResourceList};

/// The larger of the sum of its containers and the maximum of its init containers, each together with the sidecars that already
/// run, or the pod-level requests; plus the pod overhead and `pods: 1`.
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

/// The requests of a container: during a resize, the maximum of its spec, the allocated resources and the actual resources.
/// If the node can never provide its spec (`infeasible`), the maximum of the latter two.
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
