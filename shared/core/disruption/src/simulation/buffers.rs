//! The capacity for virtual pods: those of CapacityBuffers and ProvisioningRequests.

use crate::cluster::{Cluster, Options};
use crate::simulation::{Expected, Home, Known, problem};
use jiff::Timestamp;
use nodeless_model::Pod;
use nodeless_model::hashed::HashMap;
use nodeless_scheduling::solve;

/// The cluster with the virtual pods on the nodes that have capacity for them: where a command in progress
/// moves them, or else where they fit after all other pods. Virtual pods that fit on no node, or for which a command launches
/// nodes, are on none. `None` without virtual pods.
///
/// Virtual pods then have to move with their node like other pods, so consolidation keeps their capacity. They block no
/// disruption, and moving them costs nothing; but a node with virtual pods of a ProvisioningRequest is not consolidated, because
/// the pods of the request may be bound to it at any moment.
pub(crate) fn hold<'a>(cluster: &Cluster<'a>, options: &Options, now: Timestamp) -> Option<Cluster<'a>> {
    if cluster.virtual_pods.is_empty() {
        return None;
    }
    let mut held = cluster.clone();
    let known = Known::new(cluster);
    let mut open = Vec::new();
    let mut sent: HashMap<String, Vec<&'a Pod>> = HashMap::default();
    for pod in std::mem::take(&mut held.virtual_pods) {
        match known.home(pod) {
            Some(Home::Node(node)) => sent.entry(node.to_owned()).or_default().push(pod),
            Some(Home::New) => {}
            None => open.push(pod),
        }
    }
    put(&mut held, sent);
    if !open.is_empty() {
        let found = places(&held, open, options, now);
        put(&mut held, found);
    }
    Some(held)
}

/// Where these pods fit after all others, by node.
fn places<'a>(
    cluster: &Cluster<'a>,
    pods: Vec<&'a Pod>,
    options: &Options,
    now: Timestamp,
) -> HashMap<String, Vec<&'a Pod>> {
    let mut problem = problem(cluster, |_| true);
    Expected::new(cluster, options, now).subtract_expected(&mut problem);
    problem.node_pools.clear();
    problem.pods = pods;
    let mut found: HashMap<String, Vec<&'a Pod>> = HashMap::default();
    for placement in solve(&problem, &options.scheduling).placements {
        let node = problem.nodes[placement.node].name.clone();
        found.entry(node).or_default().push(problem.pods[placement.pod]);
    }
    found
}

fn put<'a>(cluster: &mut Cluster<'a>, mut pods: HashMap<String, Vec<&'a Pod>>) {
    for node in &mut cluster.nodes {
        if let Some(mut coming) = pods.remove(node.name()) {
            node.pods.append(&mut coming);
        }
    }
}
