//! The nodes for pods of a node that ends for certain: the first plan after the notice has a place for each, and their new node stays
//! until the old one has ended and its pods had time to be bound.

use crate::Driver;
use crate::invariants::text;
use jiff::{SignedDuration, Timestamp};
use nodeless_fake_kubernetes::ListOptions;
use nodeless_fake_kubernetes::resource::PODS;
use nodeless_model::claim::TerminationReason;
use nodeless_model::{NodeClaim, Phase};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// How long after the notice the first plan with the node's end may end: it waits for further pods for ten seconds.
const PLANNED_WITHIN: SignedDuration = SignedDuration::from_secs(30);

/// How long after the old node the new one stays for its pods: the window of nominations.
const STAYS_FOR: SignedDuration = SignedDuration::from_secs(20);

/// The nodes that end for certain, by the name of the claim.
#[derive(Debug, Default)]
pub(in crate::invariants) struct AnnouncedEnds(BTreeMap<String, Ending>);

#[derive(Debug)]
struct Ending {
    noted: Timestamp,
    /// Its pods at the notice that need another node, `namespace/name`.
    pods: BTreeSet<String>,
    /// Whether a plan has been checked.
    is_checked: bool,
    ended: Option<Timestamp>,
}

impl AnnouncedEnds {
    /// Notes the nodes that end, and returns the claims for their pods that leave as empty before them.
    pub(in crate::invariants) fn check(
        &mut self,
        driver: &Driver,
        claims: &[NodeClaim],
        now: Timestamp,
    ) -> Vec<String> {
        self.0.retain(|name, ending| {
            let drains = claims.iter().any(|claim| claim.name == *name && claim.phase == Phase::Draining);
            drains || now.duration_since(*ending.ended.get_or_insert(now)) <= STAYS_FOR
        });
        for claim in claims.iter().filter(|claim| claim.phase == Phase::Draining && claim.status.ends.is_some()) {
            let Some(node) = claim.status.node_name.as_deref().filter(|_| !self.0.contains_key(&claim.name)) else {
                continue;
            };
            let pods = pods_on(driver, node);
            self.0.insert(claim.name.clone(), Ending { noted: now, pods, is_checked: false, ended: None });
        }
        let is_empty = |claim: &&NodeClaim| {
            claim.status.termination.as_ref().is_some_and(|end| end.reason == TerminationReason::Empty)
        };
        let mut wrong = Vec::new();
        for (old, ending) in &mut self.0 {
            let gone = claims.iter().filter(is_empty).find(|claim| {
                claim.created >= ending.noted && claim.spec.nominated_pods.iter().any(|pod| ending.pods.contains(pod))
            });
            if let Some(gone) = gone {
                wrong.push(format!(
                    "claim {} leaves as empty before the pods of the node of {old} had time to come",
                    gone.name
                ));
                ending.pods.clear();
            }
        }
        wrong
    }

    /// Checks a plan that has ended: which pods on nodes that end have no place. `has_place`: whether the plan has one for a pod, or a
    /// reason.
    pub(in crate::invariants) fn planned(
        &mut self,
        driver: &Driver,
        at: Timestamp,
        claims: &[NodeClaim],
        has_place: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        for (name, ending) in &mut self.0 {
            if ending.is_checked || ending.ended.is_some() || at.duration_since(ending.noted) < PLANNED_WITHIN {
                continue;
            }
            ending.is_checked = true;
            let node =
                claims.iter().find(|claim| claim.name == *name).and_then(|claim| claim.status.node_name.as_deref());
            let still = node.map(|node| pods_on(driver, node)).unwrap_or_default();
            let without = ending.pods.iter().filter(|pod| still.contains(*pod) && !has_place(pod));
            wrong.extend(without.map(|pod| {
                format!(
                    "the end of claim {name} is known since {}, and no plan has a node for its pod {pod}",
                    ending.noted
                )
            }));
        }
        wrong
    }
}

/// The running pods of a node that another node has to take, `namespace/name`.
fn pods_on(driver: &Driver, node: &str) -> BTreeSet<String> {
    let fields = format!("spec.nodeName={node}");
    let list = driver.world().api().list(&PODS, &ListOptions { fields, ..ListOptions::default() });
    let moves = |pod: &&std::sync::Arc<Value>| {
        let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let is_kept = owners.into_iter().flatten().any(|owner| owner["kind"] == "DaemonSet" || owner["kind"] == "Node");
        let runs = text(pod, "/status/phase") == "Running" && pod.pointer("/metadata/deletionTimestamp").is_none();
        runs && !is_kept
    };
    let items = list.map(|list| list.items).unwrap_or_default();
    let name =
        |pod: &std::sync::Arc<Value>| format!("{}/{}", text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
    items.iter().filter(moves).map(name).collect()
}
