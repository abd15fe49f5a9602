//! Drifted and unhealthy nodes whose replacement fits only in the node's own place in a full capacity reservation: the annotation
//! `nodeless.sh/terminate-first`. Karpenter's gates `TerminateFirstDrift` and `TerminateFirstRepair` are for all NodePools.

use crate::candidates::Eligible;
use crate::cluster::Cluster;
use crate::pods::DisruptionBudgetIndex;
use crate::reasons::drift::{Drift, DriftReason, KeepsPlace};
use jiff::Timestamp;
use nodeless_model::claim::LaunchedInstance;
use nodeless_model::{CapacityType, Reservation, Reuse};
use nodeless_scheduling::PoolOffer;
use std::collections::BTreeMap;

/// The number of NodeClaims in each capacity reservation, by its id. Those that are terminating still use it.
#[derive(Debug, Default)]
pub(crate) struct ReservedNodes<'a>(BTreeMap<&'a str, u32>);

impl<'a> ReservedNodes<'a> {
    pub(crate) fn new(cluster: &Cluster<'a>) -> Self {
        let mut counts = BTreeMap::new();
        let instances =
            cluster.nodes.iter().filter_map(|node| node.claim).filter_map(|claim| claim.status.instance.as_ref());
        for id in instances.filter_map(reservation_of) {
            *counts.entry(id).or_default() += 1;
        }
        Self(counts)
    }

    /// The id of the full reservation that a node is in, if the node may be terminated before its replacement is launched there; or why
    /// it may not. `None` if it is in no full reservation that instances can be launched into again.
    pub(crate) fn place(
        &self,
        one: &Eligible<'_, 'a>,
        drift: &Drift,
        budget_index: &DisruptionBudgetIndex<'_>,
        now: Timestamp,
    ) -> Option<Result<&'a str, KeepsPlace>> {
        let id = one.claim.status.instance.as_ref().and_then(reservation_of)?;
        let reuse = full(one.offer, id)?;
        Some(self.check(one, drift, id, reuse).and_then(|()| {
            // Also where the drain ends by force: the pods would not run until the next node is ready.
            budget_index
                .first_blocking(&one.of.pods, now)
                .map_or(Ok(id), |why| Err(KeepsPlace::Protected(Box::new(why))))
        }))
    }

    fn check(&self, one: &Eligible<'_, 'a>, drift: &Drift, id: &str, reuse: Reuse) -> Result<(), KeepsPlace> {
        let own = self.0.get(id).copied().unwrap_or(0);
        let reservation = id.to_owned();
        match reuse {
            Reuse::Owned { used } if used <= own => {}
            _ => return Err(KeepsPlace::Shared { reservation }),
        }
        let asked = one.offer.pool.options.terminate_first.valid().copied().unwrap_or_default();
        let (asks, method) = match drift.reason {
            DriftReason::Unhealthy => (asked.repair, "repair"),
            _ => (asked.drift, "drift"),
        };
        if asks {
            Ok(())
        } else {
            Err(KeepsPlace::NotAsked { reservation, node_pool: one.offer.pool.name.clone(), method })
        }
    }
}

/// The offers with one more available instance of a full reservation: that of a node that is gone.
pub(crate) fn with_one_more<'a>(offers: &[PoolOffer<'a>], id: &str) -> Vec<PoolOffer<'a>> {
    let add = |offer: &PoolOffer<'a>| {
        if full(offer, id).is_none() {
            return offer.clone();
        }
        let mut types = offer.instance_types.to_vec();
        for offering in types.iter_mut().flat_map(|kind| &mut kind.offerings) {
            if let Some(held) = offering.reservation.as_mut().filter(|held| is_full(held, id)) {
                held.remaining = held.each;
                offering.available = true;
            }
        }
        PoolOffer { instance_types: types.into(), ..offer.clone() }
    };
    offers.iter().map(add).collect()
}

fn reservation_of(instance: &LaunchedInstance) -> Option<&str> {
    instance.reservation_id.as_deref().filter(|_| instance.capacity_type == CapacityType::Reserved)
}

/// Whether a reservation of a NodePool may be used again, if it is full and may be.
fn full(offer: &PoolOffer<'_>, id: &str) -> Option<Reuse> {
    let offerings = offer.instance_types.iter().flat_map(|kind| &kind.offerings);
    let mut held = offerings.filter_map(|offering| offering.reservation.as_ref());
    held.find(|held| is_full(held, id)).map(|held| held.reuse)
}

fn is_full(held: &Reservation, id: &str) -> bool {
    held.id == id && held.remaining == 0 && held.reuse != Reuse::No
}
