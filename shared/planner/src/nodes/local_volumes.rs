//! Pods with local volumes. A pending pod waits for the node that has the data, unless that is being removed.

use super::cluster_state::ClusterState;
use jiff::Timestamp;
use nodeless_model::events::local_volume_lost;
use nodeless_model::object::ObjectEvent;
use nodeless_model::{Node, NodeClaim, Taint, labels};
use nodeless_ports::cluster::ClusterView;
use std::collections::BTreeMap;

fn host(node: &Node) -> &str {
    node.labels.get(labels::HOSTNAME).unwrap_or(&node.name)
}

/// Notes which claims cannot be used now: their local volume is on a node that stays and takes no pods.
pub(crate) fn note_closed(view: &mut ClusterView, records: &[NodeClaim], now: Timestamp) {
    if !view.volume_hosts.is_empty() {
        let closed = closed(&ClusterState::new(view, records), now);
        view.volume_faults.extend(closed);
    }
}

/// These claims, `namespace/name`, each with the reason.
fn closed(state: &ClusterState<'_>, now: Timestamp) -> BTreeMap<String, String> {
    let open = state.existing_nodes(now);
    let staying = state.places.iter().filter(|place| !state.moves(place)).filter_map(|place| place.node);
    let staying: Vec<&Node> = staying.filter(|node| !node.has_taint(&Taint::disrupted())).collect();
    let mut closed = BTreeMap::new();
    for (claim, hosts) in &state.view.volume_hosts {
        let nodes: Vec<&Node> = staying.iter().copied().filter(|node| hosts.contains(host(node))).collect();
        let is_open = nodes.iter().any(|node| open.iter().any(|open| open.name == node.name));
        if let Some(first) = nodes.first().filter(|_| !is_open) {
            let name = claim.split_once('/').map_or(claim.as_str(), |(_, name)| name);
            let node = &first.name;
            let why = format!("PersistentVolumeClaim {name} is a local volume of node {node}, which takes no pods now");
            closed.insert(claim.clone(), why);
        }
    }
    closed
}

/// An Event for each pod that loses its local volume with its node.
pub(crate) fn lost(state: &ClusterState<'_>) -> Vec<ObjectEvent> {
    let hosts = &state.view.volume_hosts;
    let leaving = state.places.iter().filter(|place| !hosts.is_empty() && state.moves(place));
    let mut events = Vec::new();
    for (place, node) in leaving.filter_map(|place| Some((place, place.node?))) {
        for pod in place.pods.iter().filter(|pod| pod.is_reschedulable()) {
            let claims = pod.template.volume_claims.iter().map(|claim| &claim.claim_name);
            let is_local = |claim: &&String| {
                hosts.get(&format!("{}/{claim}", pod.namespace)).is_some_and(|hosts| hosts.contains(host(node)))
            };
            events.extend(claims.filter(is_local).map(|claim| local_volume_lost(*pod, claim, &node.name)));
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::pod::VolumeClaim;
    use nodeless_model::{Pod, PodTemplate};
    use std::collections::BTreeSet;

    /// A pod of this node with a claim.
    fn pod(name: &str, claim: &str) -> Pod {
        let volume_claims = vec![VolumeClaim { claim_name: claim.into(), ephemeral: false }];
        Pod {
            namespace: "shop".into(),
            name: name.into(),
            node_name: Some("n1".into()),
            template: PodTemplate { volume_claims, ..PodTemplate::default() }.into(),
            ..Pod::default()
        }
    }

    #[test]
    fn pods_that_lose_their_local_volume_with_their_node_have_a_reason() {
        let hosts = |host: &str| BTreeSet::from([host.to_owned()]);
        let mut view = ClusterView {
            nodes: vec![Node { name: "n1".into(), ..Node::default() }],
            pods: [pod("db-0", "local"), pod("cache-0", "elsewhere"), pod("web-0", "network")].map(Into::into).to_vec(),
            ..ClusterView::default()
        };
        view.volume_hosts =
            [("shop/local".to_owned(), hosts("host-1")), ("shop/elsewhere".to_owned(), hosts("host-2"))].into();
        view.nodes[0].labels.insert(labels::HOSTNAME.into(), "host-1".into());
        assert!(lost(&ClusterState::new(&view, &[])).is_empty(), "the node stays");

        view.nodes[0].deletion_timestamp = Some(Timestamp::UNIX_EPOCH);
        let events = lost(&ClusterState::new(&view, &[]));
        let [event] = &events[..] else { panic!("{events:?}") };
        assert_eq!((event.reason.as_str(), event.object.name.as_str()), ("LocalVolumeLost", "db-0"));
        assert!(
            event.message.contains("Node n1 is being removed") && event.message.contains("PersistentVolumeClaim local")
        );
    }
}
