//! The printer columns of built-in resources.

use crate::server::resource::Resource;

/// A column: name, OpenAPI type, priority (0 is always shown, 1 with `-o wide`).
pub(crate) type Column = (&'static str, &'static str, u8);

const NAME: Column = ("Name", "string", 0);
const AGE: Column = ("Age", "string", 0);

const fn shown(name: &'static str) -> Column {
    (name, "string", 0)
}

const fn number(name: &'static str) -> Column {
    (name, "integer", 0)
}

const fn wide(name: &'static str) -> Column {
    (name, "string", 1)
}

/// The columns of a resource; the cells are in the same order.
pub(crate) fn columns(resource: &Resource) -> Vec<Column> {
    let plural: &str = resource.plural.as_ref();
    workload_columns(plural).unwrap_or_else(|| other_columns(plural))
}

/// The columns of nodes, pods, and what creates pods or scales that.
fn workload_columns(plural: &str) -> Option<Vec<Column>> {
    Some(match plural {
        "pods" => vec![
            NAME,
            shown("Ready"),
            shown("Status"),
            shown("Restarts"),
            AGE,
            wide("IP"),
            wide("Node"),
            wide("Nominated Node"),
            wide("Readiness Gates"),
        ],
        "nodes" => vec![
            NAME,
            shown("Status"),
            shown("Roles"),
            AGE,
            shown("Version"),
            wide("Internal-IP"),
            wide("External-IP"),
            wide("OS-Image"),
            wide("Kernel-Version"),
            wide("Container-Runtime"),
        ],
        "deployments" => vec![
            NAME,
            shown("Ready"),
            number("Up-to-date"),
            number("Available"),
            AGE,
            wide("Containers"),
            wide("Images"),
            wide("Selector"),
        ],
        "replicasets" | "replicationcontrollers" => vec![
            NAME,
            number("Desired"),
            number("Current"),
            number("Ready"),
            AGE,
            wide("Containers"),
            wide("Images"),
            wide("Selector"),
        ],
        "daemonsets" => vec![
            NAME,
            number("Desired"),
            number("Current"),
            number("Ready"),
            number("Up-to-date"),
            number("Available"),
            shown("Node Selector"),
            AGE,
            wide("Containers"),
            wide("Images"),
            wide("Selector"),
        ],
        "statefulsets" => vec![NAME, shown("Ready"), AGE, wide("Containers"), wide("Images")],
        "jobs" => vec![NAME, shown("Status"), shown("Completions"), shown("Duration"), AGE],
        "cronjobs" => vec![NAME, shown("Schedule"), shown("Suspend"), number("Active"), shown("Last Schedule"), AGE],
        "horizontalpodautoscalers" => {
            vec![NAME, shown("Reference"), shown("Targets"), shown("MinPods"), shown("MaxPods"), shown("Replicas"), AGE]
        }
        _ => return None,
    })
}

fn other_columns(plural: &str) -> Vec<Column> {
    match plural {
        "ingresses" => vec![NAME, shown("Class"), shown("Hosts"), shown("Address"), shown("Ports"), AGE],
        "ingressclasses" => vec![NAME, shown("Controller"), shown("Parameters"), AGE],
        "networkpolicies" => vec![NAME, shown("Pod-Selector"), AGE],
        "runtimeclasses" => vec![NAME, shown("Handler"), AGE],
        "resourceclaims" => vec![NAME, shown("State"), AGE],
        "resourceslices" => vec![NAME, shown("Node"), shown("Driver"), shown("Pool"), AGE],
        "poddisruptionbudgets" => {
            vec![NAME, shown("Min Available"), shown("Max Unavailable"), number("Allowed Disruptions"), AGE]
        }
        // The name of an event is not meaningful to users: kubectl shows it with -o wide only.
        "events" => vec![
            ("Last Seen", "string", 0),
            shown("Type"),
            shown("Reason"),
            shown("Object"),
            wide("Subobject"),
            wide("Source"),
            shown("Message"),
            wide("First Seen"),
            wide("Count"),
            wide("Name"),
        ],
        "namespaces" => vec![NAME, shown("Status"), AGE],
        "customresourcedefinitions" => vec![NAME, shown("Created At")],
        "services" => vec![
            NAME,
            shown("Type"),
            shown("Cluster-IP"),
            shown("External-IP"),
            shown("Port(s)"),
            AGE,
            wide("Selector"),
        ],
        "configmaps" => vec![NAME, number("Data"), AGE],
        "secrets" => vec![NAME, shown("Type"), number("Data"), AGE],
        "leases" => vec![NAME, shown("Holder"), AGE],
        "resourcequotas" => vec![NAME, shown("Request"), shown("Limit"), AGE],
        "priorityclasses" => vec![NAME, number("Value"), shown("Global-Default"), AGE],
        "persistentvolumeclaims" => {
            vec![NAME, shown("Status"), shown("Volume"), shown("Capacity"), shown("StorageClass"), AGE]
        }
        "persistentvolumes" => {
            vec![NAME, shown("Capacity"), shown("Reclaim Policy"), shown("Status"), shown("StorageClass"), AGE]
        }
        "storageclasses" => {
            vec![NAME, shown("Provisioner"), shown("ReclaimPolicy"), shown("VolumeBindingMode"), AGE]
        }
        "csinodes" => vec![NAME, number("Drivers"), AGE],
        "volumeattachments" => vec![NAME, shown("Attacher"), shown("PV"), shown("Node"), shown("Attached"), AGE],
        "validatingwebhookconfigurations" => vec![NAME, number("Webhooks"), AGE],
        _ => vec![NAME, AGE],
    }
}
