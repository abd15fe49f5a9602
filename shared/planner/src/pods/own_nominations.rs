//! Nominations that prevent no launch: those of lifecycle, of which a pod waits for the node that was launched for it, and those of
//! nodes that do not exist any more. Pods with them are planned like other pods.

use nodeless_model::NodeClaim;
use nodeless_ports::cluster::ClusterView;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Removes the nominated nodes of pods for which these nodes were launched, and nominated nodes that do not exist: the kube-scheduler
/// keeps those until its next attempt at the pod, and the deletion of a node may cause none. Other nominations stay: for those pods, the
/// kube-scheduler preempts others.
pub(crate) fn disregard(view: &mut ClusterView, claims: &[NodeClaim]) {
    if view.pods.iter().all(|pod| pod.nominated_node_name.is_none()) {
        return;
    }
    let nodes: BTreeSet<&str> = view.nodes.iter().map(|node| node.name.as_str()).collect();
    let names: BTreeMap<&str, &str> =
        view.nodes.iter().filter_map(|node| Some((node.provider_id.as_deref()?, node.name.as_str()))).collect();
    let mut planned: BTreeSet<(&str, &str)> = BTreeSet::new();
    for claim in claims {
        let joined = claim.provider_id().and_then(|id| names.get(id.as_str()).copied());
        let Some(node) = claim.status.node_name.as_deref().or(joined) else { continue };
        planned.extend(claim.spec.nominated_pods.iter().map(|pod| (node, pod.as_str())));
    }
    for pod in &mut view.pods {
        let key = pod.key();
        let preempts = |node: &str| nodes.contains(node) && !planned.contains(&(node, key.as_str()));
        if pod.nominated_node_name.as_deref().is_some_and(|node| !preempts(node)) {
            Arc::make_mut(pod).nominated_node_name = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::test_support::{launched_instance, node_claim};
    use nodeless_model::{Node, NodeClaimSpec, NodeClaimStatus, Phase, Pod};

    fn launched_for(pods: &[&str]) -> NodeClaim {
        let nominated_pods = pods.iter().map(|pod| (*pod).to_owned()).collect();
        NodeClaim {
            spec: NodeClaimSpec { nominated_pods, ..NodeClaimSpec::default() },
            phase: Phase::Launched,
            status: NodeClaimStatus { instance: Some(launched_instance("i-1")), ..NodeClaimStatus::default() },
            ..node_claim("default-aaaaa")
        }
    }

    #[test]
    fn nominations_of_missing_nodes_and_of_those_that_were_launched_for_a_pod_are_disregarded() {
        let pod = |name: &str, node: &str| Pod {
            namespace: "default".into(),
            name: name.into(),
            nominated_node_name: Some(node.into()),
            ..Pod::default()
        };
        let claim = launched_for(&["default/ours", "default/elsewhere"]);
        let node = Node { name: "n1".into(), provider_id: claim.provider_id(), ..Node::default() };
        let pods = [("ours", "n1"), ("elsewhere", "n2"), ("stranger", "n1")];
        let pods = pods.map(|(name, node)| pod(name, node).into()).into();
        let mut view = ClusterView { nodes: vec![node], pods, ..ClusterView::default() };
        disregard(&mut view, std::slice::from_ref(&claim));
        let left = |view: &ClusterView| view.pods.iter().map(|pod| pod.nominated_node_name.clone()).collect::<Vec<_>>();
        assert_eq!(left(&view), [None, None, Some("n1".to_owned())], "n2 does not exist");
        view.nodes[0].provider_id = None;
        Arc::make_mut(&mut view.pods[0]).nominated_node_name = Some("n1".into());
        disregard(&mut view, std::slice::from_ref(&claim));
        assert_eq!(left(&view)[0].as_deref(), Some("n1"), "no claim is known to be that of n1");
        let mut registered = claim;
        registered.status.node_name = Some("n1".into());
        disregard(&mut view, &[registered]);
        assert_eq!(left(&view)[0], None);
    }
}
