//! What an object uses of the resources of quotas.

use crate::server::path::{Path as _, text};
use crate::server::pod_resources::{list, of_pod, quantity};
use crate::server::resource::{PERSISTENT_VOLUME_CLAIMS, PODS, Resource, SERVICES};
use nodeless_model::resources::format_quantity;
use nodeless_model::{Quantity, ResourceList};
use serde_json::Value;

/// The kinds whose objects are counted by their plural alone.
const COUNTED: [&str; 7] =
    ["configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services"];
/// The resources of pods that are counted by their own names, as requests.
const REQUESTED: [&str; 3] = ["cpu", "ephemeral-storage", "memory"];
const STORAGE: &str = "requests.storage";
const LOAD_BALANCERS: &str = "services.loadbalancers";
const NODE_PORTS: &str = "services.nodeports";

/// Whether usage of a resource of this name is counted.
pub(super) fn is_known(name: &str) -> bool {
    let compute = |name: &str| REQUESTED.contains(&name) || name.starts_with("hugepages-");
    match name.split_once(['/', '.']) {
        _ if COUNTED.contains(&name) || [STORAGE, LOAD_BALANCERS, NODE_PORTS].contains(&name) || compute(name) => true,
        _ if name.starts_with("count/") => name.len() > "count/".len(),
        Some(("requests", extended)) => compute(extended) || (extended.contains('/') && !extended.starts_with('/')),
        Some(("limits", limited)) => REQUESTED.contains(&limited),
        _ => false,
    }
}

/// Whether objects of a resource can use something of what is limited.
pub(super) fn concerns(resource: &Resource, hard: &ResourceList) -> bool {
    let special = [PODS, PERSISTENT_VOLUME_CLAIMS, SERVICES].contains(resource);
    special || hard.contains(&count_of(resource)) || (resource.group.is_empty() && hard.contains(&resource.plural))
}

fn count_of(resource: &Resource) -> String {
    format!("count/{}", resource.qualified_plural())
}

/// What an object uses.
pub(super) fn quota_usage(resource: &Resource, object: &Value) -> ResourceList {
    let mut used = ResourceList::new();
    used.set(&count_of(resource), Quantity::from_units(1));
    // A pod that has ended uses nothing but its place in the store.
    let has_ended = *resource == PODS && matches!(text(object, "/status/phase"), "Succeeded" | "Failed");
    if has_ended {
        return used;
    }
    if resource.group.is_empty() && COUNTED.contains(&resource.plural.as_ref()) {
        used.set(&resource.plural, Quantity::from_units(1));
    }
    if *resource == PODS {
        add_pod(&mut used, object);
    } else if *resource == PERSISTENT_VOLUME_CLAIMS {
        let storage = object.at("/spec/resources/requests/storage").and_then(quantity);
        used.set(STORAGE, storage.unwrap_or(Quantity::ZERO));
    } else if *resource == SERVICES {
        add_service(&mut used, object);
    }
    used
}

fn add_pod(used: &mut ResourceList, pod: &Value) {
    for (name, amount) in of_pod(pod, "requests").iter() {
        used.set(&format!("requests.{name}"), amount);
        if REQUESTED.contains(&name) || name.starts_with("hugepages-") {
            used.set(name, amount);
        }
    }
    for (name, amount) in of_pod(pod, "limits").iter() {
        used.set(&format!("limits.{name}"), amount);
    }
}

fn add_service(used: &mut ResourceList, service: &Value) {
    let kind = text(service, "/spec/type");
    let ports = list(service, "/spec/ports");
    let node_ports = match kind {
        "NodePort" => ports.len(),
        "LoadBalancer" if service["spec"]["allocateLoadBalancerNodePorts"] != false => ports.len(),
        _ => 0,
    };
    used.set(NODE_PORTS, Quantity::from_units(i64::try_from(node_ports).unwrap_or(i64::MAX)));
    used.set(LOAD_BALANCERS, Quantity::from_units(i64::from(kind == "LoadBalancer")));
}

/// An amount in the form of its resource.
pub(super) fn shown(name: &str, amount: Quantity) -> String {
    let of = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name);
    if of == "storage" { amount.to_binary_string() } else { format_quantity(of, amount) }
}
