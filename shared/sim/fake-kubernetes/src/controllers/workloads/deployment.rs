//! Deployments: a ReplicaSet for each version of the template, and rolling updates between them.

use crate::controllers::Controller;
use crate::controllers::feed::Feed;
use crate::controllers::object::{
    all, controller_reference, controller_uid, delete, int, is_deleting, name, namespace, set_condition, template_hash,
    text, time, uid, update, write_status,
};
use crate::controllers::replica_set::REPLICA_FAILURE;
use crate::controllers::rollout::surge_and_unavailable;
use crate::controllers::workload::{Refusal, create_for};
use crate::server::path::Path as _;
use crate::server::resource::{DEPLOYMENTS, PODS, REPLICA_SETS, RESOURCE_QUOTAS, Resource};
use crate::server::{ApiServer, Status};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

const WATCHED: &[Resource] = &[DEPLOYMENTS, REPLICA_SETS, PODS, RESOURCE_QUOTAS];
const HASH_LABEL: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

/// Rolls out Deployments. A rollout without progress is not marked as failed after `progressDeadlineSeconds`.
#[derive(Debug)]
pub struct DeploymentController {
    feed: Feed,
}

impl Default for DeploymentController {
    fn default() -> Self {
        Self { feed: Feed::new(WATCHED) }
    }
}

impl Controller for DeploymentController {
    fn step(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        if !self.feed.look(api, now)? {
            return Ok(());
        }
        let sets = all(api, &REPLICA_SETS)?;
        for deployment in all(api, &DEPLOYMENTS)? {
            let owned: Vec<Arc<Value>> =
                sets.iter().filter(|set| controller_uid(set) == uid(&deployment)).cloned().collect();
            reconcile(api, &deployment, &owned, now)?;
        }
        Ok(())
    }

    fn next_wakeup(&self) -> Option<Timestamp> {
        self.feed.due()
    }
}

fn reconcile(api: &ApiServer, deployment: &Value, sets: &[Arc<Value>], now: Timestamp) -> Result<(), Status> {
    let current = sets.iter().find(|set| same_template(deployment, set));
    let old: Vec<&Arc<Value>> = sets.iter().filter(|set| current.is_none_or(|new| uid(new) != uid(set))).collect();
    write(api, deployment, current, sets, now)?;
    if is_deleting(deployment) {
        return Ok(());
    }
    let paused = deployment["spec"]["paused"] == true;
    match current {
        None if paused => {}
        None if is_recreate(deployment) && have_pods(api, &old) => scale_all_down(api, &old)?,
        None => create_set(api, deployment, &old, now)?,
        Some(new) => {
            if mark_revision(api, deployment, new, &old)? {
                return Ok(());
            }
            if is_recreate(deployment) && !paused && have_pods(api, &old) {
                return scale_all_down(api, &old);
            }
            roll(api, deployment, new, &old, paused)?;
            forget_old(api, deployment, &old, new)?;
        }
    }
    Ok(())
}

fn is_recreate(deployment: &Value) -> bool {
    text(deployment, "/spec/strategy/type") == "Recreate"
}

fn replicas(set: &Value) -> i64 {
    int(set, "/spec/replicas").unwrap_or(1)
}

fn available(set: &Value) -> i64 {
    int(set, "/status/availableReplicas").unwrap_or(0)
}

fn have_pods(api: &ApiServer, sets: &[&Arc<Value>]) -> bool {
    sets.iter().any(|set| !api.controlled_pods(uid(set)).is_empty())
}

/// Whether a ReplicaSet has the Deployment's template, except for the label that distinguishes ReplicaSets.
fn same_template(deployment: &Value, set: &Value) -> bool {
    let mut template = set["spec"]["template"].clone();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(HASH_LABEL);
    }
    template == deployment["spec"]["template"]
}

fn create_set(api: &ApiServer, deployment: &Value, old: &[&Arc<Value>], now: Timestamp) -> Result<(), Status> {
    let hash = template_hash(&deployment["spec"]["template"]);
    let mut template = deployment["spec"]["template"].clone();
    template["metadata"]["labels"][HASH_LABEL] = json!(hash);
    let mut selector = deployment["spec"]["selector"].clone();
    selector["matchLabels"][HASH_LABEL] = json!(hash);
    let size = if old.iter().all(|set| replicas(set) == 0) || is_recreate(deployment) {
        replicas(deployment)
    } else {
        // Scales up within maxSurge.
        allowed_growth(deployment, old.iter().map(|set| replicas(set)).sum()).min(replicas(deployment))
    };
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", name(deployment)), "namespace": namespace(deployment),
            "labels": template["metadata"]["labels"], "ownerReferences": [controller_reference(deployment)],
            "annotations": annotations(deployment, next_revision(old)),
        },
        "spec": {
            "replicas": size, "selector": selector, "template": template,
            "minReadySeconds": deployment["spec"].get("minReadySeconds").cloned().unwrap_or(json!(0)),
        },
    });
    let before = format!("Failed to create new replica set {:?}: ", name(&set));
    let refusal = Refusal { component: "deployment-controller", reason: "ReplicaSetCreateError", before: &before };
    create_for(api, deployment, &REPLICA_SETS, set, refusal, now).map(drop)
}

fn allowed_growth(deployment: &Value, total: i64) -> i64 {
    let (surge, _) = surge_and_unavailable(&deployment["spec"]["strategy"]["rollingUpdate"], replicas(deployment));
    (replicas(deployment) + surge - total).max(0)
}

fn annotations(deployment: &Value, revision: i64) -> Value {
    let desired = replicas(deployment);
    json!({ REVISION: revision.to_string(), "deployment.kubernetes.io/desired-replicas": desired.to_string() })
}

fn annotation(object: &Value, key: &str) -> Option<i64> {
    object.at("/metadata/annotations")?.get(key)?.as_str()?.parse().ok()
}

fn next_revision(sets: &[&Arc<Value>]) -> i64 {
    sets.iter().filter_map(|set| annotation(set, REVISION)).max().unwrap_or(0) + 1
}

/// Numbers the current ReplicaSet after the older ones, and the Deployment with it. Returns whether something was written.
fn mark_revision(api: &ApiServer, deployment: &Value, new: &Value, old: &[&Arc<Value>]) -> Result<bool, Status> {
    let newest_old = next_revision(old) - 1;
    let revision = annotation(new, REVISION).filter(|own| *own > newest_old).unwrap_or(newest_old + 1);
    let mut wrote = false;
    for (resource, object) in [(&REPLICA_SETS, new), (&DEPLOYMENTS, deployment)] {
        if annotation(object, REVISION) != Some(revision) {
            let mut changed = object.clone();
            changed["metadata"]["annotations"][REVISION] = json!(revision.to_string());
            update(api, resource, changed)?;
            wrote = true;
        }
    }
    Ok(wrote)
}

fn scale(api: &ApiServer, set: &Value, size: i64) -> Result<(), Status> {
    if replicas(set) == size {
        return Ok(());
    }
    let mut changed = set.clone();
    changed["spec"]["replicas"] = json!(size);
    update(api, &REPLICA_SETS, changed)
}

fn scale_all_down(api: &ApiServer, sets: &[&Arc<Value>]) -> Result<(), Status> {
    sets.iter().try_for_each(|set| scale(api, set, 0))
}

/// Scales the old ReplicaSets and the current one by one step of a rolling update.
fn roll(api: &ApiServer, deployment: &Value, new: &Value, old: &[&Arc<Value>], paused: bool) -> Result<(), Status> {
    let desired = replicas(deployment);
    let old_total: i64 = old.iter().map(|set| replicas(set)).sum();
    if is_recreate(deployment) || old_total == 0 {
        return scale(api, new, desired);
    }
    if paused {
        return Ok(());
    }
    let present = replicas(new);
    if present > desired {
        return scale(api, new, desired);
    }
    let grown = present + allowed_growth(deployment, old_total + present).min(desired - present);
    scale(api, new, grown)?;
    // Unavailable pods do not count against the budget, so old pods that never became available are deleted first.
    let (_, unavailable) = surge_and_unavailable(&deployment["spec"]["strategy"]["rollingUpdate"], desired);
    let new_missing = (grown - available(new)).max(0);
    let mut left = (old_total + grown - (desired - unavailable) - new_missing).clamp(0, old_total);
    let mut by_age = old.to_vec();
    by_age.sort_by_key(|set| (time(set, "/metadata/creationTimestamp"), name(set).to_owned()));
    let mut sizes: Vec<i64> = by_age.iter().map(|set| replicas(set)).collect();
    for (set, size) in by_age.iter().zip(&mut sizes) {
        let broken = (*size - available(set)).clamp(0, left);
        *size -= broken;
        left -= broken;
    }
    let still_available: i64 = by_age.iter().map(|set| available(set).min(replicas(set))).sum::<i64>() + available(new);
    let mut spare = (still_available - (desired - unavailable)).clamp(0, left);
    for size in &mut sizes {
        let gone = (*size).min(spare);
        *size -= gone;
        spare -= gone;
    }
    by_age.iter().zip(sizes).try_for_each(|(set, size)| scale(api, set, size))
}

/// Deletes old ReplicaSets beyond the history that is kept.
fn forget_old(api: &ApiServer, deployment: &Value, old: &[&Arc<Value>], new: &Value) -> Result<(), Status> {
    if available(new) < replicas(deployment) {
        return Ok(());
    }
    let kept = usize::try_from(int(deployment, "/spec/revisionHistoryLimit").unwrap_or(10)).unwrap_or_default();
    let mut empty: Vec<_> =
        old.iter().filter(|set| replicas(set) == 0 && int(set, "/status/replicas") == Some(0)).collect();
    empty.sort_by_key(|set| annotation(set, REVISION));
    let surplus = empty.len().saturating_sub(kept);
    empty.into_iter().take(surplus).try_for_each(|set| delete(api, &REPLICA_SETS, set, None))
}

fn write(
    api: &ApiServer,
    deployment: &Value,
    current: Option<&Arc<Value>>,
    sets: &[Arc<Value>],
    now: Timestamp,
) -> Result<(), Status> {
    let sum = |field: &str| -> i64 { sets.iter().filter_map(|set| int(set, &format!("/status/{field}"))).sum() };
    let updated = current.and_then(|set| int(set, "/status/replicas")).unwrap_or(0);
    let (total, ready, available) = (sum("replicas"), sum("readyReplicas"), sum("availableReplicas"));
    let desired = replicas(deployment);
    let mut conditions = crate::controllers::object::list(deployment, "/status/conditions").to_vec();
    let (_, may_miss) = surge_and_unavailable(&deployment["spec"]["strategy"]["rollingUpdate"], desired);
    let may_miss = if is_recreate(deployment) { 0 } else { may_miss };
    let (status, reason, message) = if available >= desired - may_miss {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    set_condition(&mut conditions, "Available", status, reason, message, now);
    let set_name = current.map_or("", |set| name(set));
    let (reason, message) = if updated == desired && total == desired && available == desired {
        ("NewReplicaSetAvailable", format!("ReplicaSet \"{set_name}\" has successfully progressed."))
    } else {
        ("ReplicaSetUpdated", format!("ReplicaSet \"{set_name}\" is progressing."))
    };
    set_condition(&mut conditions, "Progressing", "True", reason, &message, now);
    let mut failing =
        current.into_iter().chain(sets).filter_map(|set| crate::controllers::object::condition(set, REPLICA_FAILURE));
    match failing.next() {
        Some(failure) => {
            let (reason, message) = (text(failure, "/reason"), text(failure, "/message"));
            set_condition(&mut conditions, REPLICA_FAILURE, "True", reason, message, now);
        }
        None => conditions.retain(|it| it["type"] != REPLICA_FAILURE),
    }
    let mut status = json!({
        "observedGeneration": deployment["metadata"]["generation"], "conditions": conditions,
    });
    let counts = [
        ("replicas", total),
        ("updatedReplicas", updated),
        ("readyReplicas", ready),
        ("availableReplicas", available),
        ("unavailableReplicas", (desired.max(total) - available).max(0)),
    ];
    for (field, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        status[field] = json!(count);
    }
    write_status(api, &DEPLOYMENTS, deployment, status)
}
