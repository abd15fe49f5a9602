//! Eviction: deleting a pod only when its PodDisruptionBudget allows it, and the arithmetic of budgets.

use crate::server::path::{Path as _, text};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::garbage::{self, DeleteOptions};
use super::resource::{POD_DISRUPTION_BUDGETS, PODS};
use super::selectors::LabelSelector;
use super::status::Status;
use super::store::{ChangeKind, ObjectKey, Store};
use super::time::seconds;

/// Pods whose eviction was allowed count as deleted for this long, unless they are deleted earlier.
const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);
const VIOLATION: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// Evicts a pod. As in the real server, the budget counts an eviction whose precondition then fails.
pub(crate) fn evict(store: &mut Store, key: &ObjectKey, options: &DeleteOptions, now: Timestamp) -> Result<(), Status> {
    let definition = store.definition_of(&PODS)?;
    let pod = store.get(&PODS.storage_key(), key).cloned().ok_or_else(|| Status::not_found(&PODS, &key.1))?;
    let deleting = pod.at("/metadata/deletionTimestamp").is_some();
    let idle = matches!(text(&pod, "/status/phase"), "Pending" | "Succeeded" | "Failed");
    if !deleting && !idle {
        let budgets = matching_budgets(store, &pod)?;
        match budgets.as_slice() {
            [] => {}
            [budget] => {
                catch_up(store, budget, now)?;
                take_from_budget(store, budget, &pod, now, options.dry_run)?;
            }
            _ => {
                let text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not \
                    support.";
                return Err(Status::new(500, "", text));
            }
        }
    }
    garbage::delete(store, &definition, key, options, now).map(|_| ())
}

fn matching_budgets(store: &Store, pod: &Value) -> Result<Vec<ObjectKey>, Status> {
    let namespace = text(pod, "/metadata/namespace");
    let mut found = Vec::new();
    for (key, budget) in store.iter(&POD_DISRUPTION_BUDGETS.storage_key(), Some(namespace)) {
        if LabelSelector::from_object(&budget["spec"]["selector"])?.is_some_and(|it| it.matches(pod)) {
            found.push(key.clone());
        }
    }
    Ok(found)
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.at("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|it| it["type"] == "Ready" && it["status"] == "True")
}

fn take_from_budget(
    store: &mut Store,
    key: &ObjectKey,
    pod: &Value,
    now: Timestamp,
    dry_run: bool,
) -> Result<(), Status> {
    let storage = POD_DISRUPTION_BUDGETS.storage_key();
    let not_found = || Status::not_found(&POD_DISRUPTION_BUDGETS, &key.1);
    let mut budget = store.get(&storage, key).ok_or_else(not_found)?.as_ref().clone();
    let count = |field: &str| budget.at(&format!("/status/{field}")).and_then(Value::as_i64).unwrap_or_default();
    let (allowed, healthy, desired) = (count("disruptionsAllowed"), count("currentHealthy"), count("desiredHealthy"));
    if !is_ready(pod) {
        if budget.at("/spec/unhealthyPodEvictionPolicy").is_some_and(|policy| policy == "AlwaysAllow") {
            return Ok(());
        }
        // A pod that is not ready does not count as healthy, so evicting it does not use the budget.
        if healthy >= desired && desired > 0 {
            return Ok(());
        }
    }
    let generation = budget.at("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
    let refuse = |detail: String| Status::new(429, "TooManyRequests", VIOLATION).caused_by("DisruptionBudget", detail);
    if count("observedGeneration") < generation {
        let detail = format!("The disruption budget {} is still being processed by the server.", key.1);
        return Err(refuse(detail).retry_after(10));
    }
    if allowed <= 0 {
        let detail =
            format!("The disruption budget {} needs {desired} healthy pods and has {healthy} currently", key.1);
        return Err(refuse(detail));
    }
    if dry_run {
        return Ok(());
    }
    budget["status"]["disruptionsAllowed"] = json!(allowed - 1);
    budget["status"]["disruptedPods"][text(pod, "/metadata/name")] = json!(seconds(now));
    if allowed == 1 {
        set_condition(&mut budget, false, now);
    }
    let definition = store.definition_of(&POD_DISRUPTION_BUDGETS)?;
    store.commit(&definition, ChangeKind::Modified, budget);
    Ok(())
}

fn set_condition(budget: &mut Value, allowed: bool, now: Timestamp) {
    let (status, reason) = if allowed { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let generation = budget.at("/metadata/generation").cloned().unwrap_or_default();
    let old = budget.at("/status/conditions/0").cloned().unwrap_or_default();
    let since = if old["status"] == status { old["lastTransitionTime"].clone() } else { json!(seconds(now)) };
    budget["status"]["conditions"] = json!([{"type": "DisruptionAllowed", "status": status, "reason": reason,
        "message": "", "lastTransitionTime": since, "observedGeneration": generation}]);
}

/// Updates the status of every budget from the pods: the work of the disruption controller.
pub(crate) fn refresh_budgets(store: &mut Store, now: Timestamp) -> Result<(), Status> {
    let definition = store.definition_of(&POD_DISRUPTION_BUDGETS)?;
    let budgets: Vec<_> =
        store.iter(&POD_DISRUPTION_BUDGETS.storage_key(), None).map(|(_, budget)| budget.clone()).collect();
    for budget in budgets {
        let refreshed = refreshed(store, &budget, now)?;
        if refreshed != *budget {
            store.commit(&definition, ChangeKind::Modified, refreshed);
        }
    }
    Ok(())
}

/// Updates the status of one budget from the pods. In a cluster the disruption controller does so within milliseconds of each
/// change; here many calls are made at one time, and it runs only after them. A budget that it has not processed in its current
/// generation stays unchanged, and blocks.
fn catch_up(store: &mut Store, key: &ObjectKey, now: Timestamp) -> Result<(), Status> {
    let Some(budget) = store.get(&POD_DISRUPTION_BUDGETS.storage_key(), key).cloned() else { return Ok(()) };
    if budget.at("/status/observedGeneration") != budget.at("/metadata/generation") {
        return Ok(());
    }
    let refreshed = refreshed(store, &budget, now)?;
    if refreshed != *budget {
        let definition = store.definition_of(&POD_DISRUPTION_BUDGETS)?;
        store.commit(&definition, ChangeKind::Modified, refreshed);
    }
    Ok(())
}

fn refreshed(store: &Store, budget: &Value, now: Timestamp) -> Result<Value, Status> {
    let namespace = text(budget, "/metadata/namespace");
    let selector = LabelSelector::from_object(&budget["spec"]["selector"])?;
    let pods: Vec<_> = store
        .iter(&PODS.storage_key(), Some(namespace))
        .map(|(_, pod)| pod)
        .filter(|pod| selector.as_ref().is_some_and(|selector| selector.matches(pod)))
        .filter(|pod| !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed"))
        .collect();
    let listed = budget.at("/status/disruptedPods").and_then(Value::as_object).cloned().unwrap_or_default();
    let disrupted: serde_json::Map<String, Value> = listed
        .into_iter()
        .filter(|(name, since)| {
            let recent = since
                .as_str()
                .and_then(|since| since.parse::<Timestamp>().ok())
                .is_some_and(|since| now.duration_since(since) < DELETION_TIMEOUT);
            let alive = |pod: &Value| pod.at("/metadata/deletionTimestamp").is_none();
            recent && pods.iter().any(|pod| text(pod, "/metadata/name") == name && alive(pod))
        })
        .collect();
    let healthy = pods
        .iter()
        .filter(|pod| pod.at("/metadata/deletionTimestamp").is_none() && is_ready(pod))
        .filter(|pod| !disrupted.contains_key(text(pod, "/metadata/name")))
        .count();
    let healthy = i64::try_from(healthy).unwrap_or(i64::MAX);
    let (expected, desired) = expected_and_desired(store, budget, &pods);
    let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
    let mut next = budget.clone();
    let conditions = next.at("/status/conditions").cloned().unwrap_or_else(|| json!([]));
    next["status"] = json!({"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired,
        "expectedPods": expected, "observedGeneration": budget["metadata"]["generation"], "conditions": conditions});
    if !disrupted.is_empty() {
        next["status"]["disruptedPods"] = Value::Object(disrupted);
    }
    set_condition(&mut next, allowed > 0, now);
    Ok(next)
}

/// The number of expected pods, and the number of them that have to be healthy.
fn expected_and_desired(store: &Store, budget: &Value, pods: &[&std::sync::Arc<Value>]) -> (i64, i64) {
    let spec = &budget["spec"];
    let present = i64::try_from(pods.len()).unwrap_or(i64::MAX);
    if let Some(maximum) = spec.get("maxUnavailable").filter(|value| !value.is_null()) {
        let expected = expected_by_controllers(store, pods);
        return (expected, (expected - scaled(maximum, expected)).max(0));
    }
    match spec.get("minAvailable") {
        Some(minimum) if minimum.is_string() => {
            let expected = expected_by_controllers(store, pods);
            (expected, scaled(minimum, expected))
        }
        Some(minimum) => (present, minimum.as_i64().unwrap_or_default()),
        None => (present, 0),
    }
}

/// A number, or a percentage of the expected pods, rounded up.
fn scaled(value: &Value, of: i64) -> i64 {
    let percentage = value.as_str().and_then(|text| text.strip_suffix('%')).and_then(|text| text.parse::<i64>().ok());
    match percentage {
        Some(percentage) => (percentage * of + 99) / 100,
        None => value.as_i64().unwrap_or_default(),
    }
}

/// The replicas of the topmost scalable owners of the pods; pods without one count as one each.
fn expected_by_controllers(store: &Store, pods: &[&std::sync::Arc<Value>]) -> i64 {
    let mut owners = std::collections::BTreeMap::new();
    let mut bare = 0;
    for pod in pods {
        let mut current = (*pod).clone();
        let mut replicas = None;
        while let Some(owner) = controller(store, &current) {
            replicas = owner.at("/spec/replicas").and_then(Value::as_i64).or(replicas);
            current = owner;
        }
        match replicas {
            Some(replicas) => {
                owners.insert(text(&current, "/metadata/uid").to_owned(), replicas);
            }
            None => bare += 1,
        }
    }
    owners.values().sum::<i64>() + bare
}

fn controller(store: &Store, object: &Value) -> Option<std::sync::Arc<Value>> {
    let owners = object.at("/metadata/ownerReferences").and_then(Value::as_array)?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    let (storage, key) = store.by_uid(text(owner, "/uid"))?;
    store.get(storage, key).cloned()
}
