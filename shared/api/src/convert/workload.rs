//! DaemonSets, PodDisruptionBudgets and ResourceQuotas.

use super::{ConvertError, resource_list, selector};
use crate::slim;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use nodeless_model as model;

impl TryFrom<&slim::DaemonSet> for model::DaemonSet {
    type Error = ConvertError;

    fn try_from(daemon_set: &slim::DaemonSet) -> Result<Self, ConvertError> {
        let namespace = daemon_set.metadata.namespace.clone().unwrap_or_default();
        let name = daemon_set.metadata.name.clone().unwrap_or_default();
        let template = &daemon_set.spec.template;
        let mut metadata = template.metadata.clone();
        metadata.namespace = Some(namespace.clone());
        let pod = slim::Pod { metadata, spec: template.spec.clone(), status: slim::PodStatus::default() };
        let mut template = model::Pod::try_from(&pod).map_err(|error| ConvertError {
            object: format!("DaemonSet {namespace}/{name}"),
            field: format!("spec.template.{}", error.field),
            problem: error.problem,
        })?;
        template.owner_kind = Some("DaemonSet".to_owned());
        let uid = daemon_set.metadata.uid.clone().unwrap_or_default();
        Ok(Self { namespace, name, uid, template, refused_by: None })
    }
}

impl TryFrom<&slim::PodDisruptionBudget> for model::PodDisruptionBudget {
    type Error = ConvertError;

    fn try_from(budget: &slim::PodDisruptionBudget) -> Result<Self, ConvertError> {
        let namespace = budget.metadata.namespace.clone().unwrap_or_default();
        let name = budget.metadata.name.clone().unwrap_or_default();
        let object = format!("PodDisruptionBudget {namespace}/{name}");
        let spec = &budget.spec;
        let covered = spec.selector.as_ref().map(|from| selector(from, "spec.selector")).transpose();
        let is = |value: &Option<IntOrString>, number: Option<i32>, text: &str| match value {
            Some(IntOrString::Int(value)) => Some(*value) == number,
            Some(IntOrString::String(value)) => value == text,
            None => false,
        };
        Ok(Self {
            namespace,
            name,
            selector: covered.map_err(|error| error.for_object(object))?,
            disruptions_allowed: budget.status.disruptions_allowed,
            blocks_always: is(&spec.max_unavailable, Some(0), "0%") || is(&spec.min_available, None, "100%"),
            wants_all: (1..=budget.status.desired_healthy).contains(&budget.status.expected_pods),
            always_allows_unhealthy: spec.unhealthy_pod_eviction_policy.as_deref() == Some("AlwaysAllow"),
        })
    }
}

impl TryFrom<&slim::ResourceQuota> for model::ResourceQuota {
    type Error = ConvertError;

    /// While the status shows the limits of an earlier spec, the lower ones count.
    fn try_from(quota: &slim::ResourceQuota) -> Result<Self, ConvertError> {
        let namespace = quota.metadata.namespace.clone().unwrap_or_default();
        let name = quota.metadata.name.clone().unwrap_or_default();
        let list = |list, field| {
            resource_list(list, field).map_err(|error| error.for_object(format!("ResourceQuota {namespace}/{name}")))
        };
        let mut hard = list(&quota.spec.hard, "spec.hard")?;
        for (resource, enforced) in list(&quota.status.hard, "status.hard")?.iter() {
            let stated = hard.contains(resource).then(|| hard.get(resource));
            hard.set(resource, stated.map_or(enforced, |stated| stated.min(enforced)));
        }
        let used = list(&quota.status.used, "status.used")?;
        let has_scopes = !quota.spec.scopes.is_empty() || !quota.spec.scope_selector.match_expressions.is_empty();
        Ok(Self { namespace, name, has_scopes, hard, used })
    }
}
