//! The DaemonSets that run on a node.

use crate::constraints::{covers, first_repelling, required_alternatives};
use nodeless_model::{Pod, Requirement, Requirements, Taint, labels};

/// Whether a DaemonSet's pod runs on a node with these labels and taints, and counts there.
///
/// As in Karpenter, one with resource claims does not count: where the devices are is unknown, so it may not run. The DaemonSet controller adds tolerations for the taints with which Kubernetes reports the state of nodes.
pub(crate) fn runs_on_node(template: &Pod, node: &Requirements, taints: &[Taint]) -> bool {
    runs_with(template, &alternatives(template), node, taints)
}

/// [`runs_on_node`] for a template whose [`alternatives`] are known.
pub(crate) fn runs_with(template: &Pod, alternatives: &[Requirements], node: &Requirements, taints: &[Taint]) -> bool {
    template.template.resource_claims.is_empty()
        && tolerates(template, taints)
        && alternatives.iter().any(|required| covers(node, required))
}

/// Whether a DaemonSet's pod would run on some node that a NodePool launches with these requirements and taints, and
/// counts there. Labels that every launch defines may be missing.
pub(crate) fn runs_on_template(template: &Pod, node_pool: &Requirements, taints: &[Taint]) -> bool {
    let mut launched = node_pool.clone();
    for state in [labels::REGISTERED, labels::INITIALIZED] {
        launched.add(state, Requirement::one_of(["true"]));
    }
    template.template.resource_claims.is_empty()
        && tolerates(template, taints)
        && required_alternatives(template).is_ok_and(|terms| {
            terms.iter().any(|required| launched.first_incompatible(required, labels::is_well_known).is_none())
        })
}

/// The required labels of a DaemonSet pod's node: any of these alternatives. If there are none, it runs on no node.
pub(crate) fn alternatives(template: &Pod) -> Vec<Requirements> {
    required_alternatives(template).unwrap_or_default()
}

/// Whether a DaemonSet's pod tolerates these taints.
pub(crate) fn tolerates(template: &Pod, taints: &[Taint]) -> bool {
    taints
        .iter()
        .filter(|taint| !taint.key.starts_with("node.kubernetes.io/"))
        .all(|taint| first_repelling(std::slice::from_ref(taint), &template.template.tolerations, false).is_none())
}
