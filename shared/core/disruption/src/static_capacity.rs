//! The nodes of static NodePools (`spec.replicas`), and others that are launched without pods.

use crate::cluster::{Cluster, ClusterNode, Options};
use nodeless_model::pod::HostPort;
use nodeless_model::taint::TolerationOperator;
use nodeless_model::{DaemonSet, NodePool, Pod, PodTemplate, ResourceList, Toleration};
use nodeless_scheduling::{Launch, PoolOffer, Problem, solve};

/// The nodes and claims of a NodePool that are neither terminating nor being replaced.
pub(crate) fn present<'c, 'a>(
    cluster: &'c Cluster<'a>,
    node_pool: &'c str,
) -> impl Iterator<Item = &'c ClusterNode<'a>> + use<'c, 'a> {
    cluster.nodes.iter().filter(move |node| node.claim.is_some_and(|claim| claim.is_of(node_pool)) && stays(node))
}

/// Whether a node is neither terminating nor being replaced. A node that is only tainted still counts: its command has
/// launched nothing yet, or is being rolled back.
fn stays(node: &ClusterNode<'_>) -> bool {
    node.command.is_none()
        && !node.claim.is_some_and(|claim| claim.phase.is_leaving())
        && node.node.is_none_or(|node| node.deletion_timestamp.is_none())
}

/// Launches of `count` nodes of a static NodePool.
pub(crate) fn launches(
    offer: &PoolOffer<'_>,
    daemon_sets: &[DaemonSet],
    count: usize,
    options: &Options,
) -> (Vec<Launch>, String) {
    launches_of_template(offer, daemon_sets, &ResourceList::new(), count, options)
}

/// Launches of `count` nodes by a NodePool's template, each the cheapest available with these resources beside its DaemonSets; fewer,
/// with the reason, if limits or offerings do not suffice.
#[must_use]
pub fn launches_of_template(
    offer: &PoolOffer<'_>,
    daemon_sets: &[DaemonSet],
    requests: &ResourceList,
    count: usize,
    options: &Options,
) -> (Vec<Launch>, String) {
    if count == 0 {
        return (Vec::new(), String::new());
    }
    // Each node is represented by a pod that has these requests, tolerates everything and uses a host port, so that no two share a
    // node.
    let pool = NodePool { replicas: None, ..offer.pool.clone() };
    let stands: Vec<Pod> = (0..count)
        .map(|index| Pod {
            name: format!("node-{index:06}"),
            template: PodTemplate {
                requests: requests.clone(),
                host_ports: vec![HostPort { ip: String::new(), port: i32::MAX, protocol: "static".to_owned() }],
                tolerations: vec![Toleration { operator: TolerationOperator::Exists, ..Toleration::default() }],
                ..PodTemplate::default()
            }
            .into(),
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
