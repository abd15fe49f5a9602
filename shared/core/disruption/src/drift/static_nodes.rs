//! Replaces drifted and unhealthy nodes of static NodePools one for one, regardless of their pods.

use crate::candidates::{self, Eligible};
use crate::cluster::{Cluster, Options};
use crate::drift::own_place::{ReservedNodes, with_one_more};
use crate::drift::simulation::pools_in_transition;
use crate::output::{Command, Replacement};
use crate::pods::DisruptionBudgetIndex;
use crate::reasons::KeptReason;
use crate::reasons::drift::{Drift, KeepsPlace};
use crate::static_capacity;
use jiff::Timestamp;
use nodeless_scheduling::PoolOffer;
use std::collections::BTreeMap;

/// A command for each of these nodes that the limits allow, if it is admitted, and why each other one stays. A node that is admitted
/// counts against its budget.
pub(crate) fn find(
    cluster: &Cluster<'_>,
    fixed: &[(&Eligible<'_, '_>, Drift)],
    budget_index: &DisruptionBudgetIndex<'_>,
    options: &Options,
    admit: &mut dyn FnMut(&Eligible<'_, '_>, &Drift) -> Result<(), KeptReason>,
    now: Timestamp,
) -> (Vec<Command>, Vec<(String, KeptReason)>) {
    let mut by_pool: BTreeMap<&str, Vec<&(&Eligible<'_, '_>, Drift)>> = BTreeMap::new();
    for one in fixed {
        by_pool.entry(&one.0.offer.pool.name).or_default().push(one);
    }
    let (mut commands, mut kept) = (Vec::new(), Vec::new());
    let reserved = ReservedNodes::new(cluster);
    // The limits of the cluster also count the replacements of the preceding NodePools.
    let mut offers = cluster.node_pools.clone();
    for (name, drifted) in by_pool {
        let Some(offer) = offers.iter().find(|offer| offer.pool.name == name) else { continue };
        let nodes = static_capacity::present(cluster, name).count();
        let replicas = offer.pool.replicas.unwrap_or(0);
        let mut going = Vec::new();
        for (one, drift) in &drifted {
            let surplus = i64::try_from(nodes).unwrap_or(i64::MAX) > replicas;
            let outcome = if surplus {
                Err(KeptReason::StaticSurplus { node_pool: name.to_owned(), nodes, replicas })
            } else {
                admit(one, drift)
            };
            match outcome {
                Ok(()) => going.push((*one, drift)),
                Err(why) => kept.push((one.node.name.clone(), why)),
            }
        }
        let (launches, fewer) = static_capacity::launches(offer, cluster.daemon_sets, going.len(), options);
        let moving = pools_in_transition(cluster);
        let mut in_turn = launches.is_empty() && !moving.contains(name);
        if in_turn && is_limited_by_cluster(offer, cluster, options) {
            // Any other node could use what this one releases.
            in_turn = moving.is_empty() && commands.is_empty();
        }
        launches.iter().for_each(|launch| PoolOffer::charge(&mut offers, name, &launch.charge));
        let mut launches = launches.into_iter();
        for (one, drift) in going {
            let command = |replacements| candidates::replacing(one, drift, replacements, now);
            if let Some(launch) = launches.next() {
                commands.push(command(vec![Replacement { launch, pods: Vec::new() }]));
                continue;
            }
            let place = reserved.place(one, drift, budget_index, now);
            let own = place.as_ref().and_then(|place| place.as_ref().ok());
            if in_turn && fits_once_gone(one, own.copied(), cluster, options) {
                // One node at a time: its replacement is launched when the number of nodes is evaluated next.
                in_turn = false;
                commands.push(Command { drains_first: true, ..command(Vec::new()) });
            } else {
                kept.push((one.node.name.clone(), without_replacement(name, &fewer, place.and_then(Result::err))));
            }
        }
    }
    (commands, kept)
}

fn without_replacement(node_pool: &str, why: &str, place: Option<KeepsPlace>) -> KeptReason {
    KeptReason::NoReplacementNow { node_pool: node_pool.to_owned(), why: why.to_owned(), place: place.map(Box::new) }
}

/// Whether the NodePool can launch another node once this node is gone: within its limits, or in its place in a full capacity
/// reservation, if it may leave that.
fn fits_once_gone(one: &Eligible<'_, '_>, place: Option<&str>, cluster: &Cluster<'_>, options: &Options) -> bool {
    let mut offers = vec![one.offer.clone()];
    PoolOffer::release(&mut offers, &one.offer.pool.name, &one.counted());
    if let Some(id) = place {
        offers = with_one_more(&offers, id);
    }
    offers.iter().any(|offer| launches_one(offer, cluster, options))
}

/// Whether only the limits of the cluster exclude another node of a NodePool.
fn is_limited_by_cluster(offer: &PoolOffer<'_>, cluster: &Cluster<'_>, options: &Options) -> bool {
    offer.cluster.is_some() && launches_one(&PoolOffer { cluster: None, ..offer.clone() }, cluster, options)
}

fn launches_one(offer: &PoolOffer<'_>, cluster: &Cluster<'_>, options: &Options) -> bool {
    !static_capacity::launches(offer, cluster.daemon_sets, 1, options).0.is_empty()
}
