//! The nodes that may be disrupted voluntarily.

use crate::cluster::{Cluster, ClusterNode};
use crate::output::{Candidate, Command, Method, Replacement};
use crate::pods::DisruptionBudgetIndex;
use crate::policy::{maintenance, pause};
use crate::reasons::KeptReason;
use crate::reasons::drift::{Drift, DriftReason};
use crate::simulation::Expected;
use crate::{NOMINATION_WINDOW, pods};
use jiff::{SignedDuration, Timestamp};
use nodeless_model::claim::{Charge, condition};
use nodeless_model::hashed::HashMap;
use nodeless_model::provisioning_request::request_of;
use nodeless_model::{
    ConsolidationPolicy, DisruptionReason, InstanceType, NillableDuration, Node, NodeClaim, NodePool, Phase, Pod,
    Quantity, labels, resources,
};
use nodeless_scheduling::PoolOffer;

/// A node that may be disrupted voluntarily.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Eligible<'c, 'a> {
    pub(crate) of: &'c ClusterNode<'a>,
    pub(crate) node: &'a Node,
    pub(crate) claim: &'a NodeClaim,
    pub(crate) offer: &'c PoolOffer<'a>,
    /// The price in dollars per hour; zero if unknown.
    pub(crate) price: f64,
}

impl Eligible<'_, '_> {
    pub(crate) fn candidate(&self) -> Candidate {
        Candidate {
            node: self.node.name.clone(),
            node_claim: self.claim.name.clone(),
            node_pool: self.offer.pool.name.clone(),
        }
    }

    /// The part of its NodePool's limits that its deletion releases. Exports do not contain the charge of a claim; then it is the
    /// capacity and price of the node.
    pub(crate) fn counted(&self) -> Charge {
        let Charge { resources, dollars_per_hour } = &self.claim.spec.charge;
        let node = || self.node.capacity.clone().with(resources::name::NODES, Quantity::from_units(1));
        Charge {
            resources: if resources.is_empty() { node() } else { resources.clone() },
            dollars_per_hour: if *dollars_per_hour > 0.0 { *dollars_per_hour } else { self.price },
        }
    }

    pub(crate) fn is_static(&self) -> bool {
        self.offer.pool.replicas.is_some()
    }
}

/// The NodePools by name and their instance types by name, to look up many nodes.
pub(crate) struct Lookup<'c, 'a> {
    cluster: &'c Cluster<'a>,
    offers: HashMap<&'c str, usize>,
    kinds: Vec<HashMap<&'c str, &'c InstanceType>>,
}

impl<'c, 'a> Lookup<'c, 'a> {
    pub(crate) fn new(cluster: &'c Cluster<'a>) -> Self {
        let pools = cluster.node_pools.iter();
        let kinds =
            |offer: &'c PoolOffer<'a>| offer.instance_types.iter().map(|kind| (kind.name.as_str(), kind)).collect();
        Self {
            cluster,
            offers: pools.clone().enumerate().map(|(place, offer)| (offer.pool.name.as_str(), place)).collect(),
            kinds: pools.map(kinds).collect(),
        }
    }

    /// The price of a claim in dollars per hour: from the catalog, otherwise the price at its launch; zero if that is unknown
    /// too.
    pub(crate) fn price(&self, claim: &NodeClaim) -> f64 {
        let Some(instance) = &claim.status.instance else { return 0.0 };
        let pool = claim.node_pool.as_deref().and_then(|name| self.offers.get(name));
        let kind = pool.and_then(|place| self.kinds[*place].get(instance.instance_type.as_str()));
        let mut present = kind.into_iter().flat_map(|kind| &kind.offerings).filter(|offering| {
            let reservation = offering.reservation.as_ref().map(|held| held.id.as_str());
            offering.zone == instance.zone
                && offering.capacity_type == instance.capacity_type
                && (reservation.is_none() || reservation == instance.reservation_id.as_deref())
        });
        present.next().map_or(instance.price, |offering| offering.price).max(0.0)
    }

    pub(crate) const fn cluster(&self) -> &'c Cluster<'a> {
        self.cluster
    }

    fn offer(&self, name: &str) -> Option<&'c PoolOffer<'a>> {
        self.offers.get(name).map(|place| &self.cluster.node_pools[*place])
    }

    /// The node as a candidate, or why it is not one.
    pub(crate) fn eligible(&self, of: &'c ClusterNode<'a>, now: Timestamp) -> Result<Eligible<'c, 'a>, KeptReason> {
        if let Some(id) = of.command {
            return Err(KeptReason::InCommand(id.to_owned()));
        }
        if of.is_leaving() {
            return Err(KeptReason::Leaving);
        }
        if of.is_rebooting() {
            return Err(KeptReason::Rebooting);
        }
        let (Some(node), Some(claim)) = (of.node, of.claim) else { return Err(KeptReason::NotInitialized) };
        if !of.is_initialized() {
            return Err(KeptReason::NotInitialized);
        }
        if node.annotations.get(labels::DO_NOT_DISRUPT).is_some_and(|value| value == "true") {
            return Err(KeptReason::DoNotDisruptNode);
        }
        if let Some(pod) = of.undecoded.first() {
            return Err(KeptReason::UndecodedPod { pod: pod.name.to_owned(), why: pod.why.to_owned() });
        }
        if let Some((zone, until)) = self.cluster.shifted(of) {
            return Err(KeptReason::ZonalShift { zone: zone.to_owned(), until });
        }
        let one = self.of_node_pool(of, node, claim)?;
        if let Some(why) = pause::holding(self.cluster, one.offer.pool, now) {
            return Err(why);
        }
        if let Some(why) = maintenance::holding(&self.cluster.options, now) {
            return Err(why);
        }
        // The removal of a node without pods evicts none.
        let evicts = pods::reschedulable(&of.pods).next().is_some();
        if let Some(why) = self.cluster.stopped.get(&one.offer.pool.name).filter(|_| evicts) {
            return Err(KeptReason::Churn(why.clone()));
        }
        if let Some(until) = nominated_until(claim).filter(|until| *until > now) {
            return Err(KeptReason::Nominated { until });
        }
        Ok(one)
    }

    /// An unhealthy node as a candidate, or why it is not one. What keeps nodes from other disruption is not meant to keep a broken one.
    pub(crate) fn repairable(&self, of: &'c ClusterNode<'a>) -> Result<Eligible<'c, 'a>, KeptReason> {
        let (Some(node), Some(claim)) = (of.node, of.claim) else { return Err(KeptReason::NotInitialized) };
        if let Some(pod) = of.undecoded.first() {
            return Err(KeptReason::UndecodedPod { pod: pod.name.to_owned(), why: pod.why.to_owned() });
        }
        self.of_node_pool(of, node, claim)
    }

    fn of_node_pool(
        &self,
        of: &'c ClusterNode<'a>,
        node: &'a Node,
        claim: &'a NodeClaim,
    ) -> Result<Eligible<'c, 'a>, KeptReason> {
        let Some(name) = &claim.node_pool else { return Err(KeptReason::Unmanaged) };
        let Some(offer) = self.offer(name) else { return Err(KeptReason::NoNodePool(name.clone())) };
        Ok(Eligible { of, node, claim, offer, price: self.price(claim) })
    }
}

/// Why a node may be neither removed as empty nor consolidated; empty if it may. Without `all` only the first reason is
/// returned.
pub(crate) fn reasons_to_stay(
    one: &Eligible<'_, '_>,
    expected: &Expected<'_>,
    budget_index: &DisruptionBudgetIndex<'_>,
    all: bool,
    now: Timestamp,
) -> Vec<KeptReason> {
    let disruption = &one.offer.pool.disruption;
    let of_pool = || {
        if one.is_static() {
            Some(KeptReason::Static(one.offer.pool.name.clone()))
        } else if disruption.consolidate_after == NillableDuration::Never {
            Some(KeptReason::ConsolidationNever)
        } else if disruption.consolidation_policy == ConsolidationPolicy::WhenEmpty && !pods::is_empty(&one.of.pods) {
            let real = pods::reschedulable(&one.of.pods).filter(|pod| !pod.is_virtual()).count();
            let buffer = pods::reschedulable(&one.of.pods).filter(|pod| pod.is_virtual()).map(Pod::key).min();
            match buffer.filter(|_| real == 0) {
                Some(pod) => Some(KeptReason::PendingPod(pod)),
                None => Some(KeptReason::NotEmptyPolicy { pods: real }),
            }
        } else {
            None
        }
    };
    let recent = || match consolidatable_from(one.claim, disruption.consolidate_after) {
        Some((consolidate_after, until)) if until > now => Some(KeptReason::TooRecent { consolidate_after, until }),
        _ => None,
    };
    let needed = || expected.reason_to_keep(&one.node.name).or_else(|| requested(&one.of.pods));
    let blocked = || budget_index.first_blocking(&one.of.pods, now);
    let local = || expected.local_volume(one.node);
    let looks: [&dyn Fn() -> Option<KeptReason>; 5] = [&of_pool, &needed, &local, &blocked, &recent];
    let reasons = looks.iter().filter_map(|look| look());
    reasons.take(if all { looks.len() } else { 1 }).collect()
}

/// Why a node stays that holds capacity for a ProvisioningRequest.
fn requested(pods: &[&Pod]) -> Option<KeptReason> {
    pods.iter().filter(|pod| request_of(pod).is_some()).map(|pod| pod.key()).min().map(KeptReason::PendingPod)
}

/// When `consolidateAfter` has passed since the pods of a node changed; `None` for `Never`.
pub(crate) fn consolidatable_from(
    claim: &NodeClaim,
    consolidate_after: NillableDuration,
) -> Option<(std::time::Duration, Timestamp)> {
    let consolidate_after = consolidate_after.duration()?;
    let initialized = initialized_since(claim);
    let since = claim.status.last_pod_event.map_or(initialized, |event| event.max(initialized));
    // A time that overflows is never reached.
    let until = SignedDuration::try_from(consolidate_after).ok().and_then(|duration| since.checked_add(duration).ok());
    Some((consolidate_after, until.unwrap_or(Timestamp::MAX)))
}

/// Since when a claim is `Consolidatable`, if it is: since its pods have not changed for `consolidateAfter`. Claims of static
/// NodePools, or with `consolidateAfter: Never`, never are.
#[must_use]
pub fn consolidatable_since(claim: &NodeClaim, pool: &NodePool, now: Timestamp) -> Option<Timestamp> {
    if claim.phase != Phase::Initialized || pool.replicas.is_some() {
        return None;
    }
    let (_, since) = consolidatable_from(claim, pool.disruption.consolidate_after)?;
    (since <= now).then_some(since)
}

/// Until when the pods that a claim was launched for may not be bound yet.
fn nominated_until(claim: &NodeClaim) -> Option<Timestamp> {
    if claim.spec.nominated_pods.is_empty() {
        return None;
    }
    initialized_since(claim).checked_add(SignedDuration::try_from(NOMINATION_WINDOW).ok()?).ok()
}

/// Since when the node of a claim is initialized.
pub(crate) fn initialized_since(claim: &NodeClaim) -> Timestamp {
    claim.condition(condition::INITIALIZED).map_or(claim.created, |condition| condition.last_transition_time)
}

/// A command that replaces a drifted or unhealthy node.
pub(crate) fn replacing(
    one: &Eligible<'_, '_>,
    drift: &Drift,
    replacements: Vec<Replacement>,
    now: Timestamp,
) -> Command {
    let (method, reason) = match drift.reason {
        DriftReason::Unhealthy => (Method::Repair, DisruptionReason::Unhealthy),
        _ if one.is_static() => (Method::StaticDrift, DisruptionReason::Drifted),
        _ => (Method::Drift, DisruptionReason::Drifted),
    };
    command(method, reason, &[*one], replacements, now)
}

/// A command that removes these nodes.
pub(crate) fn command(
    method: Method,
    reason: DisruptionReason,
    nodes: &[Eligible<'_, '_>],
    replacements: Vec<Replacement>,
    now: Timestamp,
) -> Command {
    let mut candidates: Vec<_> = nodes.iter().map(Eligible::candidate).collect();
    candidates.sort();
    let evictions = pods::evicted(nodes.iter().flat_map(|one| pods::reschedulable(&one.of.pods)));
    let removed: f64 = nodes.iter().map(|one| one.price).sum();
    let added: f64 = replacements.iter().map(|replacement| replacement.launch.offering.price).sum();
    let first = candidates.first().map_or("", |candidate| candidate.node_claim.as_str());
    Command {
        // A claim is in one command at a time, so its name and the time identify the command.
        id: format!("{}-{first}-{}", method.as_str(), now.as_second()),
        method,
        reason,
        candidates,
        replacements,
        savings_per_hour: removed - added,
        evictions,
        placements: Vec::new(),
        score: None,
        drains_first: false,
        zones: None,
        repair: None,
        decided: now,
    }
}
