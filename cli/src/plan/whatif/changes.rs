//! The clusters that today's is compared with.

use nodeless_api::view::ClusterView;
use nodeless_model::{NodeClaim, Pod, Requirement, labels};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A requirement of NodePools that an alternative widens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Widening {
    /// Also instance types of arm64.
    Arm64,
    /// Also spot.
    Spot,
}

impl Widening {
    const fn key(self) -> &'static str {
        match self {
            Self::Arm64 => labels::ARCH,
            Self::Spot => labels::CAPACITY_TYPE,
        }
    }

    /// The value that is added.
    const fn value(self) -> &'static str {
        match self {
            Self::Arm64 => "arm64",
            Self::Spot => "spot",
        }
    }

    /// All values of the label.
    const fn values(self) -> &'static [&'static str] {
        match self {
            Self::Arm64 => &["amd64", "arm64"],
            Self::Spot => &["on-demand", "reserved", "spot"],
        }
    }

    /// Widens the requirement in all NodePools, and returns the names of those that it changes.
    pub(super) fn apply(self, view: &mut ClusterView) -> Vec<String> {
        let mut changed = Vec::new();
        for pool in &mut view.node_pools {
            let requirements = &mut pool.template.requirements;
            // A NodePool without the requirement allows every value.
            let Some(before) = requirements.get(self.key()).filter(|one| !one.has(self.value())).cloned() else {
                continue;
            };
            let allowed = self.values().iter().filter(|value| **value == self.value() || before.has(value));
            let after = Requirement::one_of(allowed.copied()).with_min_values(before.min_values());
            requirements.remove(self.key());
            requirements.add(self.key(), after);
            changed.push(pool.name.clone());
        }
        changed
    }
}

/// The cluster without the nodes that do not stay. Their pods that need another node are pending, and the others are removed with
/// them. `nodes` are the names of all nodes and `stays` of those that stay.
pub(in crate::plan) fn repacked(view: &ClusterView, nodes: &BTreeSet<&str>, stays: &BTreeSet<&str>) -> ClusterView {
    let leaves = |node: &str| nodes.contains(node) && !stays.contains(node);
    let mut view = view.clone();
    view.nodes.retain(|node| !leaves(&node.name));
    let pods = std::mem::take(&mut view.pods);
    view.pods = pods
        .into_iter()
        .filter_map(|pod| match &pod.node_name {
            Some(node) if leaves(node) => pod.is_reschedulable().then(|| Arc::new(pending(Arc::unwrap_or_clone(pod)))),
            _ => Some(pod),
        })
        .collect();
    view
}

/// The claims of the nodes that stay.
pub(super) fn claims_of(claims: &[NodeClaim], stays: &BTreeSet<&str>) -> Vec<NodeClaim> {
    claims.iter().filter(|claim| stays.contains(claim.name.as_str())).cloned().collect()
}

/// The pod, or its successor, before it is bound.
fn pending(pod: Pod) -> Pod {
    Pod {
        node_name: None,
        nominated_node_name: None,
        deletion_timestamp: None,
        start_time: None,
        ready: None,
        phase: nodeless_model::pod::PodPhase::Pending,
        ..pod
    }
}
