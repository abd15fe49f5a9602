//! The properties of resources: what the API server does with their objects.

use std::sync::Arc;

use crate::schema::Schema;
use serde_json::Value;

use crate::server::resource::{ALL, NAMESPACES, PODS, Resource, SERVICE_ACCOUNTS};

/// The properties of a resource.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) resource: Resource,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    /// Has a `status` subresource: other updates leave the status alone.
    pub(crate) status: bool,
    /// Has a `scale` subresource.
    pub(crate) scale: Option<Scale>,
    /// Increments `metadata.generation` when the spec changes.
    pub(crate) generation: bool,
    /// Set for resources from a CustomResourceDefinition.
    pub(crate) custom: Option<Arc<CustomVersion>>,
}

/// The paths of the values of the scale subresource, as JSON pointers.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    /// A label selector, as an object or as text.
    pub(crate) selector: Option<String>,
}

impl Definition {
    /// The subresources with their own URLs.
    pub(crate) fn subresources(&self) -> Vec<&'static str> {
        let mut all = Vec::new();
        if self.status {
            all.push("status");
        }
        if self.scale.is_some() {
            all.push("scale");
        }
        if self.resource == PODS {
            all.extend(["binding", "eviction", "log", "exec", "attach", "portforward", "resize"]);
        }
        if self.resource == NAMESPACES {
            all.push("finalize");
        }
        if self.resource == SERVICE_ACCOUNTS {
            all.push("token");
        }
        all
    }
}

/// One served version of a custom resource.
pub(crate) struct CustomVersion {
    /// The structural schema (`openAPIV3Schema`).
    pub(crate) schema: Value,
    /// Checks objects against the schema.
    pub(crate) validator: Arc<Schema>,
    /// Whether objects are stored in this version.
    pub(crate) storage: bool,
    /// `additionalPrinterColumns`.
    pub(crate) columns: Vec<Value>,
    /// JSON paths of `selectableFields`.
    pub(crate) selectable_fields: Vec<String>,
}

impl std::fmt::Debug for CustomVersion {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CustomVersion").field("storage", &self.storage).finish_non_exhaustive()
    }
}

fn short_names(resource: &Resource) -> &'static [&'static str] {
    match resource.plural.as_ref() {
        "pods" => &["po"],
        "nodes" => &["no"],
        "namespaces" => &["ns"],
        "services" => &["svc"],
        "endpoints" => &["ep"],
        "configmaps" => &["cm"],
        "serviceaccounts" => &["sa"],
        "events" => &["ev"],
        "persistentvolumes" => &["pv"],
        "persistentvolumeclaims" => &["pvc"],
        "replicationcontrollers" => &["rc"],
        "limitranges" => &["limits"],
        "resourcequotas" => &["quota"],
        "deployments" => &["deploy"],
        "replicasets" => &["rs"],
        "statefulsets" => &["sts"],
        "daemonsets" => &["ds"],
        "cronjobs" => &["cj"],
        "poddisruptionbudgets" => &["pdb"],
        "storageclasses" => &["sc"],
        "priorityclasses" => &["pc"],
        "customresourcedefinitions" => &["crd", "crds"],
        "horizontalpodautoscalers" => &["hpa"],
        "ingresses" => &["ing"],
        "networkpolicies" => &["netpol"],
        _ => &[],
    }
}

fn in_category_all(resource: &Resource) -> bool {
    matches!(
        resource.plural.as_ref(),
        "pods"
            | "services"
            | "replicationcontrollers"
            | "deployments"
            | "replicasets"
            | "statefulsets"
            | "daemonsets"
            | "jobs"
            | "cronjobs"
            | "horizontalpodautoscalers"
    )
}

fn has_status(resource: &Resource) -> bool {
    in_category_all(resource)
        || matches!(
            resource.plural.as_ref(),
            "nodes"
                | "namespaces"
                | "persistentvolumes"
                | "persistentvolumeclaims"
                | "resourcequotas"
                | "poddisruptionbudgets"
                | "volumeattachments"
                | "ingresses"
                | "resourceclaims"
                | "podgroups"
                | "customresourcedefinitions"
        )
}

fn has_generation(resource: &Resource) -> bool {
    matches!(
        resource.plural.as_ref(),
        "deployments"
            | "replicasets"
            | "statefulsets"
            | "daemonsets"
            | "replicationcontrollers"
            | "jobs"
            | "cronjobs"
            | "poddisruptionbudgets"
            | "ingresses"
            | "ingressclasses"
            | "networkpolicies"
            | "customresourcedefinitions"
            | "validatingwebhookconfigurations"
            | "endpointslices"
            | "podtemplates"
            | "resourceslices"
            | "deviceclasses"
    )
}

fn scale(resource: &Resource) -> Option<Scale> {
    matches!(resource.plural.as_ref(), "deployments" | "replicasets" | "statefulsets" | "replicationcontrollers").then(
        || Scale {
            spec_replicas: "/spec/replicas".into(),
            status_replicas: "/status/replicas".into(),
            selector: Some("/spec/selector".into()),
        },
    )
}

/// The definitions of all built-in resources.
pub(crate) fn built_in() -> Vec<Definition> {
    ALL.iter()
        .map(|resource| Definition {
            resource: resource.clone(),
            singular: resource.kind.to_lowercase(),
            short_names: short_names(resource).iter().map(|name| (*name).to_owned()).collect(),
            categories: if in_category_all(resource) { vec!["all".into()] } else { Vec::new() },
            status: has_status(resource),
            scale: scale(resource),
            generation: has_generation(resource),
            custom: None,
        })
        .collect()
}
