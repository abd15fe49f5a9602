//! ResourceQuotas: creations that would exceed one are refused, and their status has what is used.
//!
//! The rules and messages are those of the admission plugin `ResourceQuota` (`k8s.io/apiserver/pkg/admission/plugin/resourcequota`) and of
//! the evaluators in `pkg/quota/v1`. What is used is counted when it is needed, so it is never behind.

mod usage;

use super::definition::Definition;
use super::path::text;
use super::pod_resources::{list, of_container, quantities, quantity};
use super::resource::{PODS, RESOURCE_QUOTAS};
use super::status::{FieldError, Status};
use super::store::{ChangeKind, Store};
use nodeless_model::{Quantity, ResourceList};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The resources that every container must state if a quota limits them.
const STATED: [&str; 6] = ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];

/// Refuses an object that would exceed a quota of its namespace.
pub(super) fn admit(store: &Store, definition: &Definition, object: &Value) -> Result<(), Status> {
    let resource = &definition.resource;
    if !resource.namespaced {
        return Ok(());
    }
    let (namespace, name) = (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
    let mut requested: Option<ResourceList> = None;
    for (_, quota) in store.iter(&RESOURCE_QUOTAS.storage_key(), Some(namespace)) {
        let quota_name = text(quota, "/metadata/name");
        let hard = quantities(quota["spec"].get("hard"));
        if *resource == PODS
            && let Some(missing) = unstated(object, &hard)
        {
            return Err(Status::forbidden(
                resource,
                name,
                &format!("failed quota: {quota_name}: must specify {missing}"),
            ));
        }
        let requested = &*requested.get_or_insert_with(|| usage::quota_usage(resource, object));
        let limited = |(name, amount): &(&str, Quantity)| hard.contains(name) && !amount.is_zero();
        let charged: Vec<(&str, Quantity)> = requested.iter().filter(limited).collect();
        if charged.is_empty() {
            continue;
        }
        let used = used(store, namespace, &hard);
        let exceeded: Vec<(&str, Quantity)> =
            charged.into_iter().filter(|(name, amount)| used.get(name) + *amount > hard.get(name)).collect();
        if !exceeded.is_empty() {
            let of = |list: &ResourceList| written(exceeded.iter().map(|(name, _)| (*name, list.get(name))));
            let detail = format!(
                "exceeded quota: {quota_name}, requested: {}, used: {}, limited: {}",
                of(requested),
                of(&used),
                of(&hard)
            );
            return Err(Status::forbidden(resource, name, &detail));
        }
    }
    Ok(())
}

/// What containers of a pod do not state although a quota limits it, as `memory for: main; requests.cpu for: init,main`.
fn unstated(pod: &Value, hard: &ResourceList) -> Option<String> {
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in list(pod, "/spec/containers").iter().chain(list(pod, "/spec/initContainers")) {
        let (requests, limits) = (of_container(container, "requests"), of_container(container, "limits"));
        for name in STATED.into_iter().filter(|name| hard.contains(name)) {
            let stated = match name.split_once('.') {
                Some(("limits", name)) => limits.contains(name),
                Some((_, name)) => requests.contains(name),
                None => requests.contains(name),
            };
            if !stated {
                missing.entry(name).or_default().insert(text(container, "/name"));
            }
        }
    }
    let of = |(name, containers): (&&str, &BTreeSet<&str>)| {
        format!("{name} for: {}", containers.iter().copied().collect::<Vec<_>>().join(","))
    };
    (!missing.is_empty()).then(|| missing.iter().map(of).collect::<Vec<_>>().join("; "))
}

/// What the objects of a namespace use of the limited resources.
fn used(store: &Store, namespace: &str, hard: &ResourceList) -> ResourceList {
    let mut used: ResourceList = hard.iter().map(|(name, _)| (name.to_owned(), Quantity::ZERO)).collect();
    for key in store.storage_keys() {
        let Some(definition) = store.definition_for_storage(&key).filter(|it| usage::concerns(&it.resource, hard))
        else {
            continue;
        };
        for (_, object) in store.iter(&key, Some(namespace)) {
            for (name, amount) in
                usage::quota_usage(&definition.resource, object).iter().filter(|(name, _)| hard.contains(name))
            {
                used.set(name, used.get(name) + amount);
            }
        }
    }
    used
}

fn written<'a>(amounts: impl Iterator<Item = (&'a str, Quantity)>) -> String {
    amounts.map(|(name, amount)| format!("{name}={}", usage::shown(name, amount))).collect::<Vec<_>>().join(",")
}

/// Writes the status of all quotas, as the quota controller does.
pub(super) fn refresh(store: &mut Store) -> Result<(), Status> {
    let definition = store.definition_of(&RESOURCE_QUOTAS)?;
    let quotas: Vec<_> = store.iter(&RESOURCE_QUOTAS.storage_key(), None).map(|(_, quota)| quota.clone()).collect();
    for quota in quotas {
        let hard = quantities(quota["spec"].get("hard"));
        let used = used(store, text(&quota, "/metadata/namespace"), &hard);
        let used: BTreeMap<&str, String> =
            used.iter().map(|(name, amount)| (name, usage::shown(name, amount))).collect();
        let status = json!({ "hard": quota["spec"].get("hard").cloned().unwrap_or_else(|| json!({})), "used": used });
        if quota["status"] != status {
            let mut changed = quota.as_ref().clone();
            changed["status"] = status;
            store.commit(&definition, ChangeKind::Modified, changed);
        }
    }
    Ok(())
}

/// Errors of a quota: those of Kubernetes, and what is not simulated.
pub(super) fn validate(quota: &Value, errors: &mut Vec<FieldError>) {
    for field in ["scopes", "scopeSelector"] {
        if quota["spec"].get(field).is_some_and(|value| !value.is_null()) {
            let detail = "scopes of quotas are not simulated; leave them out";
            errors.push(FieldError::forbidden(format!("spec.{field}"), detail));
        }
    }
    for (name, value) in quota["spec"]["hard"].as_object().into_iter().flatten() {
        let field = format!("spec.hard[{name}]");
        match quantity(value) {
            None => errors.push(FieldError::invalid(&field, value, "must be a quantity")),
            Some(amount) if amount < Quantity::ZERO => {
                errors.push(FieldError::invalid(&field, value, "must be greater than or equal to 0"));
            }
            Some(_) => {}
        }
        if !usage::is_known(name) {
            let detail = if name.contains('/') {
                "this resource of quotas is not simulated; leave it out"
            } else {
                "must be a standard resource for quotas"
            };
            errors.push(FieldError::invalid(&field, &json!(name), detail));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_state_what_is_limited() {
        let hard = quantities(Some(&json!({ "cpu": "1", "limits.memory": "1Gi", "pods": "4" })));
        let container = |name: &str, resources: Value| json!({ "name": name, "resources": resources });
        let complete = json!({ "requests": { "cpu": "1" }, "limits": { "memory": "1Gi" } });
        let pod = |first: Value| json!({ "spec": { "containers": [first, container("b", json!({}))] } });
        assert_eq!(
            unstated(&pod(container("a", complete.clone())), &hard).unwrap(),
            "cpu for: b; limits.memory for: b"
        );
        assert_eq!(unstated(&pod(container("a", json!({}))), &hard).unwrap(), "cpu for: a,b; limits.memory for: a,b");
        let whole = json!({ "spec": { "containers": [container("a", complete)] } });
        assert_eq!(unstated(&whole, &hard), None);
    }

    #[test]
    fn what_is_not_simulated_is_refused() {
        let errors = |spec: Value| {
            let mut errors = Vec::new();
            validate(&json!({ "spec": spec }), &mut errors);
            errors.into_iter().map(|error| format!("{}: {}", error.field, error.message)).collect::<Vec<_>>()
        };
        let known = json!({ "hard": { "pods": "4", "requests.nvidia.com/gpu": 1, "count/jobs.batch": "1", "requests.storage": "1Ti" } });
        assert!(errors(known).is_empty());
        let unknown = json!({ "scopes": ["BestEffort"], "hard": { "pod": "1", "cpu": "much", "memory": "-1",
            "gold.storageclass.storage.k8s.io/requests.storage": "1" } });
        let found = errors(unknown);
        for part in [
            "spec.scopes: Forbidden: scopes of quotas are not simulated",
            "spec.hard[pod]: Invalid value: \"pod\": must be a standard resource for quotas",
            "spec.hard[cpu]: Invalid value: \"much\"",
            "spec.hard[memory]: Invalid value: \"-1\"",
            "not simulated; leave it out",
        ] {
            assert!(found.iter().any(|error| error.contains(part)), "{part}: {found:?}");
        }
        assert_eq!(found.len(), 5, "{found:?}");
    }
}
