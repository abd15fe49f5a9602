//! The replicas of static NodePools (`spec.replicas`): which nodes are missing, and which are surplus.

use crate::cluster::{Cluster, ClusterNode, Options};
use crate::drift::detection::drift;
use crate::output::Candidate;
use crate::pods;
use crate::policy::{pause, schedules};
use crate::static_capacity::{launches, present};
use jiff::{SignedDuration, Timestamp};
use nodeless_model::NodeClaim;
use nodeless_model::pod::Protection;
use nodeless_scheduling::{Launch, PoolOffer};

/// The changes that a static NodePool needs to have its replicas.
#[derive(Clone, Debug, PartialEq)]
pub struct StaticChange {
    /// The NodePool.
    pub node_pool: String,
    /// Nodes to launch, without pods.
    pub launches: Vec<Launch>,
    /// Surplus nodes. As in Karpenter, budgets do not apply; PodDisruptionBudgets delay the drain.
    pub surplus: Vec<Candidate>,
    /// Why fewer nodes are launched than are missing, if so.
    pub short: Option<String>,
}

/// The changes of every static NodePool. NodePools with the right number of nodes are left out. One that is scheduled off
/// ([`crate::policy::schedules`]) has zero replicas.
///
/// The cluster must have all claims, including those without a node; of the commands in progress only those whose
/// replacements exist, or a node would be launched in addition to each replacement.
#[must_use]
pub fn static_changes(cluster: &Cluster<'_>, now: Timestamp, options: &Options) -> Vec<StaticChange> {
    let mut changes = Vec::new();
    // The limits of the cluster also count what is launched for the preceding NodePools.
    let mut offers = cluster.node_pools.clone();
    for (place, offer) in cluster.node_pools.iter().enumerate() {
        let pool = offer.pool;
        let Some(replicas) = pool.replicas.filter(|_| !pool.deleting) else { continue };
        let desired =
            if schedules::scheduled_off(pool, now).is_some() { 0 } else { usize::try_from(replicas).unwrap_or(0) };
        // The replacement of a node by a command is among the other nodes, or will be.
        let present: Vec<&ClusterNode<'_>> = present(cluster, &pool.name).collect();
        let change =
            StaticChange { node_pool: pool.name.clone(), launches: Vec::new(), surplus: Vec::new(), short: None };
        if present.len() < desired {
            let missing = desired - present.len();
            let (launches, short) = launches(&offers[place], cluster.daemon_sets, missing, options);
            launches.iter().for_each(|launch| PoolOffer::charge(&mut offers, &pool.name, &launch.charge));
            changes.push(StaticChange { launches, short: Some(short).filter(|why| !why.is_empty()), ..change });
        } else if present.len() > desired && pause::holding(cluster, pool, now).is_none() {
            let drifts = |node: &ClusterNode<'_>| drifts(cluster, node, offer, now, options);
            let surplus = surplus(&present, present.len() - desired, now, &drifts);
            changes.push(StaticChange { surplus, ..change });
        }
    }
    changes
}

/// Whether a node would be replaced because of drift if it stayed.
fn drifts(
    cluster: &Cluster<'_>,
    node: &ClusterNode<'_>,
    offer: &PoolOffer<'_>,
    now: Timestamp,
    options: &Options,
) -> bool {
    let class = |claim: &NodeClaim| cluster.node_classes.get(&claim.node_class);
    node.claim.is_some_and(|claim| drift(claim, offer, class(claim), &options.hash_version, now).is_some())
}

/// The nodes that are removed. A node with a pod that could not be decoded stays. First are those without an instance, then empty
/// nodes, last those with a pod that is annotated `karpenter.sh/do-not-disrupt`; among equals the drifted ones, which would be replaced
/// otherwise, and then those whose pods cost least to move.
fn surplus(
    present: &[&ClusterNode<'_>],
    count: usize,
    now: Timestamp,
    drifts: &dyn Fn(&ClusterNode<'_>) -> bool,
) -> Vec<Candidate> {
    let rank = |node: &ClusterNode<'_>| {
        let launched = node.claim.is_some_and(|claim| claim.status.instance.is_some());
        let protected = node.pods.iter().any(|pod| pod.is_active() && pod.protection(now) == Protection::Active);
        let empty = !protected && pods::reschedulable(&node.pods).next().is_none();
        let cost: f64 = pods::reschedulable(&node.pods).map(pods::eviction_cost).sum::<f64>();
        ((launched, !empty, protected, !drifts(node)), cost * lifetime_left(node, now))
    };
    let known = present.iter().filter(|node| node.undecoded.is_empty());
    let mut ranked: Vec<_> = known.map(|node| (rank(node), node)).collect();
    ranked.sort_by(|(a, first), (b, second)| {
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then_with(|| first.name().cmp(second.name()))
    });
    ranked.into_iter().take(count).filter_map(|(_, node)| candidate(node)).collect()
}

fn candidate(node: &ClusterNode<'_>) -> Option<Candidate> {
    let claim = node.claim?;
    Some(Candidate {
        node: node.name().to_owned(),
        node_claim: claim.name.clone(),
        node_pool: claim.node_pool.clone()?,
    })
}

/// The remaining fraction of a node's lifetime; one without `expireAfter`.
fn lifetime_left(node: &ClusterNode<'_>, now: Timestamp) -> f64 {
    let Some(claim) = node.claim else { return 1.0 };
    let Some(whole) = claim.spec.expire_after.filter(|whole| !whole.is_zero()) else { return 1.0 };
    let age: SignedDuration = now.duration_since(claim.created);
    (1.0 - age.as_secs_f64() / whole.as_secs_f64()).clamp(0.0, 1.0)
}
