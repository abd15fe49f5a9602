//! Nominations that lifecycle wrote: a pod with one waits for the node that was launched for it, and is planned like other pods.

use nodeless_model::NodeClaim;
use nodeless_ports::cluster::ClusterView;
use std::collections::{BTreeMap, BTreeSet};

/// Removes the nominated nodes of pods for which these nodes were launched. Other nominations stay: for those pods, the kube-scheduler
/// preempts others.
pub(super) fn disregard(view: &mut ClusterView, claims: &[NodeClaim]) {
    if view.pods.iter().all(|pod| pod.nominated_node_name.is_none()) {
        return;
    }
    let names: BTreeMap<&str, &str> =
        view.nodes.iter().filter_map(|node| Some((node.provider_id.as_deref()?, node.name.as_str()))).collect();
    let mut planned: BTreeSet<(&str, &str)> = BTreeSet::new();
    for claim in claims {
        let joined = claim.provider_id().and_then(|id| names.get(id.as_str()).copied());
        let Some(node) = claim.status.node_name.as_deref().or(joined) else { continue };
        planned.extend(claim.spec.nominated_pods.iter().map(|pod| (node, pod.as_str())));
    }
    for pod in &mut view.pods {
        if pod.nominated_node_name.as_deref().is_some_and(|node| planned.contains(&(node, pod.key().as_str()))) {
            pod.nominated_node_name = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use nodeless_model::claim::LaunchedInstance;
    use nodeless_model::{CapacityType, Node, NodeClaimSpec, NodeClaimStatus, Phase, Pod};

    fn launched_for(pods: &[&str]) -> NodeClaim {
        let instance = LaunchedInstance {
            id: "i-1".into(),
            instance_type: "m6i.large".into(),
            zone: "us-east-1a".into(),
            capacity_type: CapacityType::OnDemand,
            price: 0.1,
            image_id: "ami-1".into(),
            private_dns_name: None,
            reservation_id: None,
            subnet_id: None,
            security_group_ids: Vec::new(),
            launched: Timestamp::UNIX_EPOCH,
        };
        let nominated_pods = pods.iter().map(|pod| (*pod).to_owned()).collect();
        NodeClaim {
            name: "default-aaaaa".into(),
            uid: "uid".into(),
            node_pool: "default".into(),
            node_class: "default".into(),
            created: Timestamp::UNIX_EPOCH,
            version: 1,
            spec: NodeClaimSpec { nominated_pods, ..NodeClaimSpec::default() },
            phase: Phase::Launched,
            status: NodeClaimStatus { instance: Some(instance), ..NodeClaimStatus::default() },
        }
    }

    #[test]
    fn only_nominations_for_the_node_that_was_launched_for_a_pod_are_disregarded() {
        let pod = |name: &str, node: &str| Pod {
            namespace: "default".into(),
            name: name.into(),
            nominated_node_name: Some(node.into()),
            ..Pod::default()
        };
        let claim = launched_for(&["default/ours", "default/elsewhere"]);
        let node = Node { name: "n1".into(), provider_id: claim.provider_id(), ..Node::default() };
        let pods = vec![pod("ours", "n1"), pod("elsewhere", "n2"), pod("stranger", "n1")];
        let mut view = ClusterView { nodes: vec![node], pods, ..ClusterView::default() };
        disregard(&mut view, std::slice::from_ref(&claim));
        let left = |view: &ClusterView| view.pods.iter().map(|pod| pod.nominated_node_name.clone()).collect::<Vec<_>>();
        assert_eq!(left(&view), [None, Some("n2".to_owned()), Some("n1".to_owned())]);
        view.pods[0].nominated_node_name = Some("n1".into());
        view.nodes.clear();
        disregard(&mut view, std::slice::from_ref(&claim));
        assert_eq!(view.pods[0].nominated_node_name.as_deref(), Some("n1"), "the node has not joined");
        let mut registered = claim;
        registered.status.node_name = Some("n1".into());
        disregard(&mut view, &[registered]);
        assert_eq!(view.pods[0].nominated_node_name, None);
    }
}
