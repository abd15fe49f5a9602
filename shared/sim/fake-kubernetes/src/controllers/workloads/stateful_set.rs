//! StatefulSets: pods with stable names and an order.

use crate::controllers::Controller;
use crate::controllers::creations::Creations;
use crate::controllers::feed::Feed;
use crate::controllers::object::{
    all, delete, has_ended, int, is_deleting, list, name, namespace, template_hash, text, uid, write_status,
};
use crate::controllers::workload::{Counts, Refusal, create_for, is_ready, pod_of};
use crate::server::path::Path as _;
use crate::server::resource::{PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_QUOTAS, Resource, STATEFUL_SETS};
use crate::server::{ApiServer, Status};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const WATCHED: &[Resource] = &[STATEFUL_SETS, PODS, RESOURCE_QUOTAS];
const COMPONENT: &str = "statefulset-controller";
const REVISION_LABEL: &str = "controller-revision-hash";

/// Maintains StatefulSets in order. Claims from volumeClaimTemplates are created, and the scheduler provisions their volumes.
#[derive(Debug)]
pub struct StatefulSetController {
    feed: Feed,
    pub(in crate::controllers) creations: Creations,
}

impl Default for StatefulSetController {
    fn default() -> Self {
        Self { feed: Feed::new(WATCHED), creations: Creations::default() }
    }
}

impl Controller for StatefulSetController {
    fn step(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        if !self.feed.look(api, now)? {
            return Ok(());
        }
        let sets = all(api, &STATEFUL_SETS)?;
        self.creations.retain(sets.iter().filter(|set| !is_deleting(set)).map(|set| uid(set).to_owned()));
        for set in sets {
            let next = reconcile(api, &set, &mut self.creations, now)?;
            next.into_iter().for_each(|at| self.feed.wake_at(at));
        }
        self.creations.next().into_iter().for_each(|at| self.feed.wake_at(at));
        Ok(())
    }

    fn next_wakeup(&self) -> Option<Timestamp> {
        self.feed.due()
    }
}

/// The number at the end of a pod's name.
fn ordinal(pod: &Value) -> Option<i64> {
    name(pod).rsplit_once('-').and_then(|(_, number)| number.parse().ok())
}

fn revision(pod: &Value) -> &str {
    pod.at("/metadata/labels").and_then(|labels| labels.get(REVISION_LABEL)).and_then(Value::as_str).unwrap_or("")
}

fn reconcile(
    api: &ApiServer,
    set: &Value,
    creations: &mut Creations,
    now: Timestamp,
) -> Result<Option<Timestamp>, Status> {
    let pods = &api.controlled_pods(uid(set));
    let hash = format!("{}-{}", name(set), template_hash(&set["spec"]["template"]));
    let minimum = int(set, "/spec/minReadySeconds").unwrap_or(0);
    let counts = Counts::new(pods, minimum, now);
    write(api, set, pods, &counts, &hash)?;
    if !is_deleting(set) {
        let by_ordinal: BTreeMap<i64, &Arc<Value>> = pods.iter().filter_map(|pod| Some((ordinal(pod)?, pod))).collect();
        act(api, set, &by_ordinal, &hash, creations, now)?;
    }
    Ok(counts.next_available)
}

/// Performs the next step: one change at a time in order, or all changes in parallel.
fn act(
    api: &ApiServer,
    set: &Value,
    pods: &BTreeMap<i64, &Arc<Value>>,
    hash: &str,
    creations: &mut Creations,
    now: Timestamp,
) -> Result<(), Status> {
    let first = int(set, "/spec/ordinals/start").unwrap_or(0);
    let end = first + int(set, "/spec/replicas").unwrap_or(1);
    let parallel = text(set, "/spec/podManagementPolicy") == "Parallel";
    let lacking = (first..end).filter(|number| !pods.contains_key(number)).count();
    let mut left = if parallel { creations.take(uid(set), lacking, now) } else { 1 };
    for number in first..end {
        match pods.get(&number) {
            None => {
                if left > 0 {
                    left -= 1;
                    if create_pod(api, set, number, hash, now)?.is_some() {
                        creations.refused(uid(set));
                    }
                }
                if !parallel {
                    return Ok(());
                }
            }
            Some(pod) if has_ended(pod) => {
                delete(api, &PODS, pod, Some(0))?;
                if !parallel {
                    return Ok(());
                }
            }
            // The next pod waits until this one is running, or deleted.
            Some(pod) if !parallel && (is_deleting(pod) || !is_ready(pod)) => return Ok(()),
            Some(_) => {}
        }
    }
    for (_, pod) in pods.iter().rev().filter(|(number, _)| **number >= end || **number < first) {
        if !is_deleting(pod) {
            delete(api, &PODS, pod, None)?;
        }
        if !parallel {
            return Ok(());
        }
    }
    update_one(api, set, pods, first..end, hash)
}

/// Replaces the highest pod of an older template once all pods above it are running.
fn update_one(
    api: &ApiServer,
    set: &Value,
    pods: &BTreeMap<i64, &Arc<Value>>,
    ordinals: std::ops::Range<i64>,
    hash: &str,
) -> Result<(), Status> {
    if text(set, "/spec/updateStrategy/type") == "OnDelete" {
        return Ok(());
    }
    let partition = int(set, "/spec/updateStrategy/rollingUpdate/partition").unwrap_or(0);
    for (_, pod) in pods.range(ordinals).rev().filter(|(number, _)| **number >= partition) {
        if is_deleting(pod) {
            return Ok(());
        }
        if revision(pod) != hash {
            return delete(api, &PODS, pod, None);
        }
        if !is_ready(pod) {
            return Ok(());
        }
    }
    Ok(())
}

/// Creates a pod and its claims. Returns the error if one is refused.
fn create_pod(api: &ApiServer, set: &Value, number: i64, hash: &str, now: Timestamp) -> Result<Option<String>, Status> {
    let pod_name = format!("{}-{number}", name(set));
    let mut pod = pod_of(set, &set["spec"]["template"]);
    pod["metadata"]["name"] = json!(pod_name);
    let labels = [
        (REVISION_LABEL, hash.to_owned()),
        ("statefulset.kubernetes.io/pod-name", pod_name.clone()),
        ("apps.kubernetes.io/pod-index", number.to_string()),
    ];
    for (key, value) in labels {
        pod["metadata"]["labels"][key] = json!(value);
    }
    pod["spec"]["hostname"] = json!(pod_name);
    if let Some(service) = set["spec"].get("serviceName") {
        pod["spec"]["subdomain"] = service.clone();
    }
    let mut volumes = list(&pod, "/spec/volumes").to_vec();
    for template in list(set, "/spec/volumeClaimTemplates") {
        let volume = name(template);
        let claim_name = format!("{volume}-{pod_name}");
        let mut claim = template.clone();
        claim["apiVersion"] = json!("v1");
        claim["kind"] = json!("PersistentVolumeClaim");
        claim["metadata"]["name"] = json!(claim_name);
        claim["metadata"]["namespace"] = json!(namespace(set));
        let before =
            format!("create Claim {claim_name} for Pod {pod_name} in StatefulSet {} failed error: ", name(set));
        let refusal = Refusal { before: &before, ..Refusal::new(COMPONENT) };
        let refused = create_for(api, set, &PERSISTENT_VOLUME_CLAIMS, claim, refusal, now)?;
        if refused.is_some() {
            return Ok(refused);
        }
        volumes.retain(|present| present["name"] != volume);
        volumes.push(json!({ "name": volume, "persistentVolumeClaim": { "claimName": claim_name } }));
    }
    if !volumes.is_empty() {
        pod["spec"]["volumes"] = Value::Array(volumes);
    }
    let before = format!("create Pod {pod_name} in StatefulSet {} failed error: ", name(set));
    let refusal = Refusal { before: &before, ..Refusal::new(COMPONENT) };
    create_for(api, set, &PODS, pod, refusal, now)
}

fn write(api: &ApiServer, set: &Value, pods: &[Arc<Value>], counts: &Counts, hash: &str) -> Result<(), Status> {
    let present = pods.iter().filter(|pod| !has_ended(pod)).count();
    let updated = pods.iter().filter(|pod| !has_ended(pod) && revision(pod) == hash).count();
    let desired = int(set, "/spec/replicas").unwrap_or(1);
    // The current revision is the one before an update until that is complete.
    let complete = i64::try_from(updated).is_ok_and(|updated| updated == desired) && counts.ready == desired;
    let current = match text(set, "/status/currentRevision") {
        before if !complete && !before.is_empty() => before.to_owned(),
        _ => hash.to_owned(),
    };
    let of_current = pods.iter().filter(|pod| !has_ended(pod) && revision(pod) == current).count();
    let mut status = json!({
        "observedGeneration": set["metadata"]["generation"], "replicas": present,
        "availableReplicas": counts.available, "currentRevision": current, "updateRevision": hash,
        "collisionCount": 0,
    });
    let ready = usize::try_from(counts.ready).unwrap_or_default();
    for (field, count) in [("readyReplicas", ready), ("currentReplicas", of_current), ("updatedReplicas", updated)] {
        if count > 0 {
            status[field] = json!(count);
        }
    }
    write_status(api, &STATEFUL_SETS, set, status)
}
