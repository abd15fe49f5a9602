//! Static NodePools (`spec.replicas`).

use crate::cluster::{Cluster, ClusterNode, Options};
use crate::output::Candidate;
use crate::pods;
use crate::policy::{pause, schedules};
use jiff::{SignedDuration, Timestamp};
use nodeless_model::pod::HostPort;
use nodeless_model::pod::Protection;
use nodeless_model::taint::TolerationOperator;
use nodeless_model::{DaemonSet, NodePool, Pod, ResourceList, Toleration};
use nodeless_scheduling::{Launch, PoolOffer, Problem, solve};

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
            let surplus = surplus(&present, present.len() - desired, now);
            changes.push(StaticChange { surplus, ..change });
        }
    }
    changes
}

/// The nodes and claims of a NodePool that are neither terminating nor being replaced.
pub(crate) fn present<'c, 'a>(
    cluster: &'c Cluster<'a>,
    node_pool: &'c str,
) -> impl Iterator<Item = &'c ClusterNode<'a>> + use<'c, 'a> {
    cluster.nodes.iter().filter(move |node| node.claim.is_some_and(|claim| claim.node_pool == node_pool) && stays(node))
}

/// Whether a node is neither terminating nor being replaced. A node that is only tainted still counts: its command has
/// launched nothing yet, or is being rolled back.
fn stays(node: &ClusterNode<'_>) -> bool {
    node.command.is_none()
        && !node.claim.is_some_and(|claim| claim.phase.is_leaving())
        && node.node.is_none_or(|node| node.deletion_timestamp.is_none())
}

/// Launches of `count` nodes by a static NodePool's template, each the cheapest available; fewer, with the reason, if limits or
/// offerings do not suffice.
pub(crate) fn launches(
    offer: &PoolOffer<'_>,
    daemon_sets: &[DaemonSet],
    count: usize,
    options: &Options,
) -> (Vec<Launch>, String) {
    if count == 0 {
        return (Vec::new(), String::new());
    }
    // Each node is represented by a pod that has no requests, tolerates everything and uses a host port, so that no two share a
    // node.
    let pool = NodePool { replicas: None, ..offer.pool.clone() };
    let stands: Vec<Pod> = (0..count)
        .map(|index| Pod {
            name: format!("node-{index:06}"),
            requests: ResourceList::new(),
            host_ports: vec![HostPort { ip: String::new(), port: i32::MAX, protocol: "static".to_owned() }],
            tolerations: vec![Toleration { operator: TolerationOperator::Exists, ..Toleration::default() }],
            ..Pod::default()
        })
        .collect();
    let offers = vec![PoolOffer { pool: &pool, ..offer.clone() }];
    let problem = Problem { pods: stands.iter().collect(), node_pools: offers, daemon_sets, ..Problem::default() };
    let solution = solve(&problem, &options.scheduling);
    let why = solution
        .unschedulable
        .first()
        .map(|stuck| stuck.reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
    let launches = solution.launches.into_iter().map(|launch| Launch { pods: Vec::new(), ..launch });
    (launches.collect(), why.unwrap_or_default())
}

/// The nodes that are removed. A node with a pod that could not be decoded stays. First are those without an instance, then empty nodes, then those whose pods cost least to move; last
/// those with a pod that is annotated `karpenter.sh/do-not-disrupt`.
fn surplus(present: &[&ClusterNode<'_>], count: usize, now: Timestamp) -> Vec<Candidate> {
    let rank = |node: &ClusterNode<'_>| {
        let launched = node.claim.is_some_and(|claim| claim.status.instance.is_some());
        let protected = node.pods.iter().any(|pod| pod.is_active() && pod.protection(now) == Protection::Active);
        let empty = !protected && pods::reschedulable(&node.pods).next().is_none();
        let cost: f64 = pods::reschedulable(&node.pods).map(pods::eviction_cost).sum::<f64>();
        (launched, !empty, protected, cost * lifetime_left(node, now))
    };
    let known = present.iter().filter(|node| node.undecoded.is_empty());
    let mut ranked: Vec<_> = known.map(|node| (rank(node), node)).collect();
    ranked.sort_by(|(a, first), (b, second)| {
        (a.0, a.1, a.2).cmp(&(b.0, b.1, b.2)).then(a.3.total_cmp(&b.3)).then_with(|| first.name().cmp(second.name()))
    });
    ranked.into_iter().take(count).filter_map(|(_, node)| candidate(node)).collect()
}

fn candidate(node: &ClusterNode<'_>) -> Option<Candidate> {
    let claim = node.claim?;
    Some(Candidate { node: node.name().to_owned(), node_claim: claim.name.clone(), node_pool: claim.node_pool.clone() })
}

/// The remaining fraction of a node's lifetime; one without `expireAfter`.
fn lifetime_left(node: &ClusterNode<'_>, now: Timestamp) -> f64 {
    let Some(claim) = node.claim else { return 1.0 };
    let Some(whole) = claim.spec.expire_after.filter(|whole| !whole.is_zero()) else { return 1.0 };
    let age: SignedDuration = now.duration_since(claim.created);
    (1.0 - age.as_secs_f64() / whole.as_secs_f64()).clamp(0.0, 1.0)
}
