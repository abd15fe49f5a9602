//! Bookkeeping on claims: when pods last came and went, hashes, and drift.

use crate::nodes::voluntary_disruption::class_facts;
use crate::pools::EvaluatedPool;
use crate::pools::hashes::{present_hashes, rehashed};
use crate::snapshot::Snapshot;
use jiff::Timestamp;
use nodeless_disruption::{Drift, DriftReason, drift};
use nodeless_lifecycle::transitions;
use nodeless_model::claim::{Condition, condition};
use nodeless_model::object::ObjectEvent;
use nodeless_model::{ConditionStatus, NodeClaim, Phase, Pod};
use nodeless_scheduling::PoolOffer;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// An update of a claim.
pub(crate) struct Noted {
    /// The index of the claim in the snapshot.
    pub(crate) place: usize,
    /// The new claim.
    pub(crate) after: NodeClaim,
    /// Whether pods were added or removed. This plan counts the change even if the write fails.
    pub(crate) pods_changed: bool,
    /// The events to publish once it is written.
    pub(crate) events: Vec<ObjectEvent>,
}

/// The claims to update.
///
/// - When pods last came to the node or left it. The record keeps a hash of the pods, so that a stateless planner detects a
///   change.
/// - Hashes that nodeless computed.
/// - Whether and how the node drifted, as the condition `Drifted`, visible to users. The nodes that drifted first are replaced
///   first.
pub(crate) fn noted(snapshot: &Snapshot, evaluated: &[EvaluatedPool]) -> Vec<Noted> {
    let pods = bound(snapshot.view.pods());
    let nodes: BTreeSet<&str> = snapshot.view.nodes.iter().map(|node| node.name.as_str()).collect();
    let hashes = present_hashes(&snapshot.view, evaluated);
    let facts = class_facts(&snapshot.view);
    let offers: Vec<PoolOffer<'_>> = evaluated.iter().map(EvaluatedPool::offer).collect();
    let drifted = |claim: &NodeClaim| {
        if !(Phase::Launched..Phase::Draining).contains(&claim.phase) {
            return None;
        }
        let offer = offers.iter().find(|offer| claim.is_of(&offer.pool.name))?;
        let class = facts.get(&claim.node_class);
        let found = drift(claim, offer, class, nodeless_api::hash::VERSION, snapshot.now);
        with_drift(claim, found.as_ref(), class.is_some(), snapshot.now)
    };
    let mut noted = Vec::new();
    for (place, claim) in snapshot.claims.iter().enumerate() {
        let mut after = claim.clone();
        let of_node = claim.status.node_name.as_deref().filter(|name| nodes.contains(name));
        let joined = (Phase::Registered..Phase::Draining).contains(&claim.phase);
        let pods_changed = match of_node.filter(|_| joined) {
            Some(name) => note_pods(&mut after, pods.get(name).map_or(&[], Vec::as_slice), snapshot.now),
            None => false,
        };
        if let Some(next) = hashes.for_claim(&after).and_then(|(pool, class)| rehashed(&after, pool, class)) {
            after = next;
        }
        let mut events = Vec::new();
        if let Some(next) = drifted(&after) {
            events.extend(transitions(&after, &next, ""));
            after = next;
        }
        if after != *claim {
            noted.push(Noted { place, after, pods_changed, events });
        }
    }
    noted
}

/// The pods whose coming and going counts, by node.
fn bound<'p>(pods: impl Iterator<Item = &'p Pod>) -> BTreeMap<&'p str, Vec<&'p Pod>> {
    let mut bound: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for pod in pods.filter(|pod| pod.is_active() && !pod.is_owned_by_daemon_set()) {
        if let Some(node) = &pod.node_name {
            bound.entry(node).or_default().push(pod);
        }
    }
    bound
}

/// Records the pods of the node, and returns whether they changed.
fn note_pods(claim: &mut NodeClaim, pods: &[&Pod], now: Timestamp) -> bool {
    let present = fingerprint(pods);
    if claim.status.pods_seen == Some(present) {
        return false;
    }
    if claim.status.pods_seen.is_some() || claim.status.last_pod_event.is_none() {
        claim.status.last_pod_event = Some(now);
    }
    claim.status.pods_seen = Some(present);
    true
}

/// The claim with its new drift; nothing if that is already recorded. If its EC2NodeClass is not `known`, a recorded drift is not
/// cleared.
fn with_drift(claim: &NodeClaim, drift: Option<&Drift>, known: bool, now: Timestamp) -> Option<NodeClaim> {
    let present = claim.condition(condition::DRIFTED);
    let mut next = claim.clone();
    match (present, drift) {
        (None, None) => return None,
        (Some(present), None) if !known && of_class(present) => return None,
        (Some(_), None) => next.clear_condition(condition::DRIFTED),
        (present, Some(drift)) => {
            let reason = drift.reason.as_str();
            let same = |present: &Condition| {
                present.status == ConditionStatus::True && present.reason == reason && present.message == drift.message
            };
            if present.is_some_and(same) {
                return None;
            }
            next.set_condition(condition::DRIFTED, ConditionStatus::True, reason, &drift.message, now);
        }
    }
    Some(next)
}

/// Whether a drift was found by comparing with the EC2NodeClass.
fn of_class(present: &Condition) -> bool {
    [DriftReason::NodeClassDrift, DriftReason::AMIDrift].iter().any(|reason| reason.as_str() == present.reason)
}

/// A hash of the names of the pods.
fn fingerprint(pods: &[&Pod]) -> u64 {
    let mut ids: Vec<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
    ids.sort_unstable();
    let digest = Sha256::digest(ids.join("\n"));
    digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::claim::NO_PODS;

    #[test]
    fn a_node_without_pods_has_the_hash_of_nothing() {
        assert_eq!(fingerprint(&[]), NO_PODS);
    }
}
