//! Launches for the pods of an owner that take none of the nodes.

use crate::invariants::{condition, text};
use jiff::{SignedDuration, Timestamp};
use nodeless_model::claim::{TerminationReason, condition as kind};
use nodeless_model::{ConditionStatus, NodeClaim};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// In this time, launches of so many plans at most may be for an owner whose pods take none of the nodes.
const TIME: SignedDuration = SignedDuration::from_hours(1);
const MAX_PLANS: usize = 5;
/// How long a node is ready before it counts as not taken: the kube-scheduler attempts a pod again after ten seconds at most.
const TAKEN_WITHIN: SignedDuration = SignedDuration::from_mins(1);

/// The pods, and by the owner of pods the launches that none of them took since one of them last took a node.
#[derive(Debug, Default)]
pub(in crate::invariants) struct UnusedLaunches {
    /// The owner of each pod, by `namespace/name`. Those of deleted pods stay.
    owners: BTreeMap<String, String>,
    /// The nodes that have or had a pod of an owner.
    taken: BTreeMap<String, BTreeSet<String>>,
    pending: BTreeSet<String>,
    unused: BTreeMap<String, Vec<Unused>>,
    counted: BTreeSet<(String, String)>,
}

#[derive(Debug)]
struct Unused {
    launched: Timestamp,
    claim: String,
}

/// The uid of the controlling owner of a pod, or of the pod.
fn owner(pod: &Value) -> &str {
    let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let controls = owners.into_iter().flatten().find(|owner| owner["controller"] == true);
    controls.map_or_else(|| text(pod, "/metadata/uid"), |owner| text(owner, "/uid"))
}

impl UnusedLaunches {
    /// A pod changed, or was deleted.
    pub(in crate::invariants) fn pod_changed(&mut self, pod: &Value, is_deleted: bool) {
        let key = format!("{}/{}", text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
        let (owner, node) = (owner(pod), text(pod, "/spec/nodeName"));
        if is_deleted || !node.is_empty() {
            self.pending.remove(&key);
        } else if condition(pod, "PodScheduled").is_some_and(|scheduled| scheduled["reason"] == "Unschedulable") {
            self.pending.insert(key.clone());
        }
        if !node.is_empty() {
            self.taken.entry(owner.to_owned()).or_default().insert(node.to_owned());
        }
        self.owners.insert(key, owner.to_owned());
    }

    /// Checks the claims.
    pub(in crate::invariants) fn check(&mut self, claims: &[NodeClaim], now: Timestamp) -> Vec<String> {
        for claim in claims.iter().filter(|claim| claim.has_condition(kind::INITIALIZED)) {
            let pods = claim.spec.nominated_pods.iter();
            let owners: BTreeSet<&String> = pods.filter_map(|pod| self.owners.get(pod)).collect();
            for owner in owners {
                let node = claim.status.node_name.as_deref().unwrap_or_default();
                if self.taken.get(owner).is_some_and(|nodes| nodes.contains(node)) {
                    if let Some(unused) = self.unused.get_mut(owner) {
                        unused.retain(|one| one.launched > claim.created);
                    }
                } else if self.is_unused(claim, owner, now) && self.counted.insert((owner.clone(), claim.name.clone()))
                {
                    let unused = Unused { launched: claim.created, claim: claim.name.clone() };
                    self.unused.entry(owner.clone()).or_default().push(unused);
                }
            }
        }
        let too_many = |unused: &mut Vec<Unused>| {
            unused.retain(|one| now.duration_since(one.launched) < TIME);
            let plans: BTreeSet<Timestamp> = unused.iter().map(|one| one.launched).collect();
            (plans.len() > MAX_PLANS).then(|| {
                let names: Vec<String> = unused.drain(..).map(|one| one.claim).collect();
                format!("within an hour, pods of one owner took none of {}", names.join(", "))
            })
        };
        self.unused.values_mut().filter_map(too_many).collect()
    }

    /// Whether a pod that a claim was launched for waits, although the node is or was ready for long enough.
    fn is_unused(&self, claim: &NodeClaim, owner: &String, now: Timestamp) -> bool {
        let is_own = |pod: &&String| self.owners.get(*pod) == Some(owner) && self.pending.contains(*pod);
        let is_removed = claim.status.termination.as_ref().is_some_and(|end| end.reason == TerminationReason::Empty);
        let ready = claim.condition(kind::INITIALIZED).filter(|ready| ready.status == ConditionStatus::True);
        let is_long = ready.is_some_and(|ready| now.duration_since(ready.last_transition_time) >= TAKEN_WITHIN);
        (is_removed || (is_long && !claim.phase.is_leaving()))
            && claim.spec.nominated_pods.iter().any(|pod| is_own(&pod))
    }

    /// The claims table was replaced, and with it what nodeless knew.
    pub(in crate::invariants) fn forget(&mut self) {
        self.unused.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::test_support::node_claim;
    use nodeless_model::{NodeClaimSpec, NodeClaimStatus, Phase};
    use serde_json::json;

    fn minute(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    /// A pod of the owner `set`, pending or on a node.
    fn pod(name: &str, node: Option<&str>) -> Value {
        let reason = if node.is_some() { "" } else { "Unschedulable" };
        json!({
            "metadata": { "namespace": "shop", "name": name, "ownerReferences": [{ "uid": "set", "controller": true }] },
            "spec": { "nodeName": node },
            "status": { "conditions": [{ "type": "PodScheduled", "reason": reason }] },
        })
    }

    /// A claim whose node is ready a minute after this one.
    fn launch(at: i64) -> NodeClaim {
        let name = format!("n{at}");
        let mut claim = NodeClaim {
            node_pool: None,
            created: minute(at),
            spec: NodeClaimSpec { nominated_pods: vec!["shop/web-a".into()], ..NodeClaimSpec::default() },
            phase: Phase::Initialized,
            status: NodeClaimStatus { node_name: Some(name.clone()), ..NodeClaimStatus::default() },
            ..node_claim(&name)
        };
        claim.set_condition(kind::INITIALIZED, ConditionStatus::True, "Initialized", "", minute(at + 1));
        claim
    }

    /// How many launches, one after so many minutes each, are allowed until there are too many; `None` if there never are.
    fn allowed(every: i64, pods: &[Value]) -> Option<i64> {
        let mut checks = UnusedLaunches::default();
        pods.iter().for_each(|pod| checks.pod_changed(pod, false));
        let claims: Vec<NodeClaim> = (0..40).map(|number| launch(number * every)).collect();
        (0..40).find(|number| {
            let until = usize::try_from(*number).unwrap();
            !checks.check(&claims[..=until], minute(number * every + 2)).is_empty()
        })
    }

    #[test]
    fn more_than_five_launches_in_an_hour_that_no_pod_of_the_owner_takes_are_too_many() {
        let waiting = pod("web-a", None);
        assert_eq!(allowed(2, std::slice::from_ref(&waiting)), Some(5));
        assert_eq!(allowed(13, std::slice::from_ref(&waiting)), None, "they become rare");
        let elsewhere = pod("web-b", Some("other"));
        assert_eq!(allowed(2, &[waiting.clone(), elsewhere]), Some(5), "it is on a node that was not launched for it");
        assert_eq!(allowed(2, &[pod("web-a", Some("other"))]), None, "it does not wait");
        let taken: Vec<Value> =
            (0..8).map(|number| pod(&format!("web-{number}"), Some(&format!("n{}", number * 10)))).collect();
        assert_eq!(allowed(2, &[vec![waiting], taken].concat()), None, "each fifth is taken");
    }
}
