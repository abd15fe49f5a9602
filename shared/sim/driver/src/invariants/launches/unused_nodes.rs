//! Nodes that leave empty although the pods for which they were launched are pending.

use nodeless_model::NodeClaim;
use std::collections::{BTreeMap, BTreeSet};

/// How many nodes may leave that a pending pod did not take: the cluster may change while a node joins.
const MAX_UNUSED: usize = 2;

/// By the uid of a pending pod, the claims of such nodes.
#[derive(Debug, Default)]
pub(in crate::invariants) struct UnusedNodes(BTreeMap<String, BTreeSet<String>>);

impl UnusedNodes {
    /// A node leaves because it is empty. `waiting` are the pods that were pending before its claim was made, by uid.
    pub(in crate::invariants) fn left(&mut self, claim: &NodeClaim, waiting: &BTreeMap<&str, &str>) -> Option<String> {
        let mut found = None;
        for (uid, pod) in waiting.iter().filter(|(_, pod)| claim.spec.nominated_pods.iter().any(|own| own == *pod)) {
            let nodes = self.0.entry((*uid).to_owned()).or_default();
            nodes.insert(claim.name.clone());
            if nodes.len() > MAX_UNUSED {
                found = Some(format!("{} nodes were launched for pod {pod}, and it took none of them", nodes.len()));
            }
        }
        found
    }
}
