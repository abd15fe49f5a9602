//! Pods with local volumes. A pending pod waits for the node that has the data, unless that is being removed.

use super::cluster_state::ClusterState;
use jiff::Timestamp;
use nodeless_model::{Node, labels};
use std::collections::BTreeMap;

fn host(node: &Node) -> &str {
    node.labels.get(labels::HOSTNAME).unwrap_or(&node.name)
}

/// The pending pods that wait for a node that takes no pods now, by uid, each with the reason.
pub(super) fn waiting<'a>(state: &ClusterState<'a>, now: Timestamp) -> BTreeMap<&'a str, String> {
    let hosts = &state.view.volume_hosts;
    if hosts.is_empty() {
        return BTreeMap::new();
    }
    let open = state.existing_nodes(now);
    let is_open = |node: &Node| open.iter().any(|open| open.name == node.name);
    let mut closed: BTreeMap<&str, &Node> = BTreeMap::new();
    let mut present: Vec<&str> = Vec::new();
    for node in state.places.iter().filter(|place| !state.moves(place)).filter_map(|place| place.node) {
        present.extend(is_open(node).then(|| host(node)));
        closed.extend((!is_open(node)).then(|| (host(node), node)));
    }
    let mut waiting = BTreeMap::new();
    for pod in state.view.pods.iter().filter(|pod| pod.is_provisionable()) {
        for claim in &pod.template.volume_claims {
            let Some(of_claim) = hosts.get(&format!("{}/{}", pod.namespace, claim.claim_name)) else { continue };
            let node = of_claim.iter().find_map(|host| closed.get(host.as_str()));
            if let Some(node) = node.filter(|_| !present.iter().any(|host| of_claim.contains(*host))) {
                let (claim, node) = (&claim.claim_name, &node.name);
                let why =
                    format!("PersistentVolumeClaim {claim} is a local volume of node {node}, which takes no pods now");
                waiting.insert(pod.uid.as_str(), why);
            }
        }
    }
    waiting
}
