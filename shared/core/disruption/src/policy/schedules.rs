//! Schedules: NodePools that are scheduled off, for example at night, and have no nodes then.

use crate::cluster::Cluster;
use crate::output::Candidate;
use crate::policy::pause;
use jiff::Timestamp;
use nodeless_model::{NodePool, labels};

/// Until when a NodePool is scheduled off, if it is now. An invalid schedule has no effect.
#[must_use]
pub fn scheduled_off(pool: &NodePool, now: Timestamp) -> Option<Timestamp> {
    pool.options.sleep.valid()?.until(now)
}

/// The nodes that have to be removed because their NodePool is scheduled off, in the order of names, each with the end of that
/// time. Static NodePools are handled by [`crate::static_changes`].
///
/// The user requests no nodes at this time, so budgets do not apply. The drain honours PodDisruptionBudgets and `do-not-disrupt`
/// as any drain. A node with the annotation `karpenter.sh/do-not-disrupt` stays, and one with a pod that could not be decoded. A pause
/// keeps all nodes.
#[must_use]
pub fn retiring(cluster: &Cluster<'_>, now: Timestamp) -> Vec<(Candidate, Timestamp)> {
    let mut found = Vec::new();
    for offer in cluster.node_pools.iter().filter(|offer| offer.pool.replicas.is_none()) {
        let pool = offer.pool;
        let Some(until) = scheduled_off(pool, now) else { continue };
        if pause::holding(cluster, pool, now).is_some() {
            continue;
        }
        for node in &cluster.nodes {
            let Some(claim) = node.claim.filter(|claim| claim.is_of(&pool.name)) else { continue };
            let protected = node.node.and_then(|node| node.annotations.get(labels::DO_NOT_DISRUPT));
            let protected = protected.is_some_and(|value| value == "true") || !node.undecoded.is_empty();
            if node.is_leaving() || protected {
                continue;
            }
            let candidate = Candidate {
                node: node.name().to_owned(),
                node_claim: claim.name.clone(),
                node_pool: pool.name.clone(),
            };
            found.push((candidate, until));
        }
    }
    found.sort();
    found
}

/// Whether a NodePool may launch nodes now.
pub(crate) fn may_launch(pool: &NodePool, now: Timestamp) -> bool {
    launches(pool) && scheduled_off(pool, now).is_none()
}

/// Whether a NodePool launches nodes at all.
pub(crate) const fn launches(pool: &NodePool) -> bool {
    pool.ready.is_ok() && !pool.deleting && pool.replicas.is_none()
}
