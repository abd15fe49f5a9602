//! The annotation `nodeless.sh/surge-before-drain`, computed from the JSON of pods and Deployments, and from the claims.

use crate::Driver;
use crate::invariants::nodes::Nodes;
use crate::invariants::text;
use jiff::{SignedDuration, Timestamp};
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, REPLICA_SETS};
use nodeless_fake_kubernetes::{ApiServer, Change, ChangeKind};
use nodeless_model::claim::TerminationReason;
use nodeless_model::{NodeClaim, Phase};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum wait for a successor by a drain without a deadline. With a deadline, the drain deletes the pods at the deadline.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_mins(10);

/// The observed pods that ask for a successor.
#[derive(Debug, Default)]
pub(in crate::invariants) struct SurgeChecks {
    /// The ready pods that are not being deleted, by Deployment: their uids.
    ready: BTreeMap<String, BTreeSet<String>>,
}

impl SurgeChecks {
    /// Reports a pod that goes from a node that is drained by choice, if it was the last ready one of its Deployment.
    pub(in crate::invariants) fn pod_changed(
        &mut self,
        driver: &Driver,
        change: &Change,
        now: Timestamp,
    ) -> Option<String> {
        let pod = &change.object;
        if pod["metadata"]["annotations"]["nodeless.sh/surge-before-drain"].is_null() {
            return None;
        }
        let api = driver.world().api();
        let name = deployment_of(api, pod)?;
        let key = format!("{}/{name}", text(pod, "/metadata/namespace"));
        let goes = change.kind == ChangeKind::Deleted || pod.pointer("/metadata/deletionTimestamp").is_some();
        let ready = self.ready.entry(key.clone()).or_default();
        let uid = text(pod, "/metadata/uid").to_owned();
        if !goes && crate::invariants::condition(pod, "Ready").is_some_and(|it| it["status"] == "True") {
            ready.insert(uid);
            return None;
        }
        let was_last = ready.remove(&uid) && ready.is_empty();
        if !was_last || !goes {
            return None;
        }
        let node = text(pod, "/spec/nodeName");
        let claims = driver.claims().snapshot();
        let claim = Nodes::read(driver).claim_of(node, &claims)?;
        if !waits(claim, now) || !can_surge(api, text(pod, "/metadata/namespace"), &name) {
            return None;
        }
        let pod = text(pod, "/metadata/name");
        Some(format!(
            "pod {pod} goes with the node of claim {}, and Deployment {key} has no other ready pod",
            claim.name
        ))
    }
}

/// Whether a claim is drained voluntarily, and its drain still has time.
fn waits(claim: &NodeClaim, now: Timestamp) -> bool {
    use TerminationReason::{InstanceMissing, Interrupted, Unhealthy};
    let Some(end) = claim.status.termination.as_ref().filter(|_| claim.phase == Phase::Draining) else { return false };
    let forced = matches!(end.reason, Interrupted | Unhealthy | InstanceMissing) || claim.status.interrupted.is_some();
    let until = claim.status.drain_started.unwrap_or(end.requested) + LONGEST_WAIT;
    !forced && end.deadline.is_none() && now < until
}

/// The name of the Deployment that owns a pod's ReplicaSet.
fn deployment_of(api: &ApiServer, pod: &Value) -> Option<String> {
    let owner = |object: &Value, kind: &str| {
        let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
        Some(owners.iter().find(|owner| owner["kind"] == kind)?["name"].as_str()?.to_owned())
    };
    let set = api.get(&REPLICA_SETS, text(pod, "/metadata/namespace"), &owner(pod, "ReplicaSet")?).ok()?;
    owner(&set, "Deployment")
}

/// Whether a Deployment has replicas, and may run a successor beside its pods.
fn can_surge(api: &ApiServer, namespace: &str, name: &str) -> bool {
    let Ok(deployment) = api.get(&DEPLOYMENTS, namespace, name) else { return false };
    let scales = deployment["spec"]["template"]["metadata"]["annotations"]["nodeless.sh/surge-before-drain"] == "scale";
    deployment["spec"]["replicas"] != 0 && (scales || deployment["spec"]["strategy"]["type"] != "Recreate")
}
