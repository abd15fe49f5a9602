//! Nodes that are not ready.

use crate::facts::Facts;
use crate::finding::{Check, Finding, Severity};
use jiff::SignedDuration;
use nodeless_model::Node;

/// How long a node may be not ready before it is a finding.
const NOT_READY: SignedDuration = SignedDuration::from_mins(2);

pub(super) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    // A node that joins is not ready either; the check of EC2NodeClasses and the conditions of its NodeClaim are about those.
    let initialized = facts.view.nodes.iter().filter(|node| node.node_pool().is_none() || node.is_initialized());
    findings.extend(initialized.filter_map(|node| finding(node, facts)));
}

fn finding(node: &Node, facts: &Facts) -> Option<Finding> {
    let since = node.ready_changed().filter(|_| !node.is_ready())?;
    let lasts = facts.now.duration_since(since);
    if lasts <= NOT_READY {
        return None;
    }
    let pods = facts.view.pods().filter(|pod| pod.is_active() && pod.node_name.as_deref() == Some(node.name.as_str()));
    let pods: Vec<String> = pods.map(nodeless_model::Pod::key).collect();
    let held = match &pods[..] {
        [] => "no pod is on it".to_owned(),
        [pod] => format!("the pod {pod} is on it"),
        [pod, rest @ ..] => format!("{pod} and {} more of its pods are on it", rest.len()),
    };
    let problem = format!("it has not been ready for {} minutes, and {held}", lasts.as_mins());
    let advice = match node.node_pool() {
        Some(_) => {
            "delete the Node, and nodeless replaces it; with the feature gate NodeRepair it does so by itself, see docs/disruption.md"
        }
        None => "nodeless does not manage it: look at its instance and its kubelet",
    };
    Some(Finding::new(Severity::Warning, Check::Nodes, format!("Node {}", node.name)).problem(problem).advice(advice))
}
