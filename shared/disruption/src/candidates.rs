//! Which nodes may be disrupted by choice at all.

use crate::NOMINATION_WINDOW;
use crate::cluster::{Cluster, ClusterNode};
use crate::decision::{Candidate, KeptReason};
use jiff::{SignedDuration, Timestamp};
use nodeless_model::claim::condition;
use nodeless_model::{Node, NodeClaim, labels};
use nodeless_scheduling::PoolOffer;

/// A node that may be disrupted by choice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Eligible<'c, 'a> {
    pub(crate) of: &'c ClusterNode<'a>,
    pub(crate) node: &'a Node,
    pub(crate) claim: &'a NodeClaim,
    pub(crate) offer: &'c PoolOffer<'a>,
}

impl Eligible<'_, '_> {
    pub(crate) fn candidate(&self) -> Candidate {
        Candidate {
            node: self.node.name.clone(),
            node_claim: self.claim.name.clone(),
            node_pool: self.claim.node_pool.clone(),
        }
    }

    /// What it costs in dollars per hour; zero when that is not known.
    pub(crate) fn price(&self) -> f64 {
        let Some(instance) = &self.claim.status.instance else { return 0.0 };
        let kind = self.offer.instance_types.iter().find(|kind| kind.name == instance.instance_type);
        let offerings = kind.into_iter().flat_map(|kind| &kind.offerings);
        let mut present = offerings
            .filter(|offering| offering.zone == instance.zone && offering.capacity_type == instance.capacity_type);
        present.next().map_or(instance.price, |offering| offering.price)
    }
}

/// The node as a candidate, or why it is none.
pub(crate) fn eligible<'c, 'a>(
    cluster: &'c Cluster<'a>,
    of: &'c ClusterNode<'a>,
    now: Timestamp,
) -> Result<Eligible<'c, 'a>, KeptReason> {
    if let Some(id) = of.command {
        return Err(KeptReason::InCommand(id.to_owned()));
    }
    if of.is_leaving() {
        return Err(KeptReason::Leaving);
    }
    let (Some(node), Some(claim)) = (of.node, of.claim) else { return Err(KeptReason::NotInitialized) };
    if !of.is_initialized() {
        return Err(KeptReason::NotInitialized);
    }
    if node.annotations.get(labels::DO_NOT_DISRUPT).is_some_and(|value| value == "true") {
        return Err(KeptReason::DoNotDisruptNode);
    }
    let offer = cluster.node_pools.iter().find(|offer| offer.pool.name == claim.node_pool);
    let Some(offer) = offer else { return Err(KeptReason::NoNodePool(claim.node_pool.clone())) };
    if offer.pool.replicas.is_some() {
        return Err(KeptReason::Static(offer.pool.name.clone()));
    }
    if let Some(until) = nominated_until(claim).filter(|until| *until > now) {
        return Err(KeptReason::Nominated { until });
    }
    Ok(Eligible { of, node, claim, offer })
}

/// Until when the pods that a claim was made for may still be on their way.
fn nominated_until(claim: &NodeClaim) -> Option<Timestamp> {
    if claim.spec.nominated_pods.is_empty() {
        return None;
    }
    initialized_since(claim).checked_add(SignedDuration::try_from(NOMINATION_WINDOW).ok()?).ok()
}

/// Since when the node of a claim has been ready for pods.
pub(crate) fn initialized_since(claim: &NodeClaim) -> Timestamp {
    claim.condition(condition::INITIALIZED).map_or(claim.created, |condition| condition.last_transition_time)
}
