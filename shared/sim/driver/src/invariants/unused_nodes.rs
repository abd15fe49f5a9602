//! Nodes that leave empty although the pods for which they were launched are pending.

use super::oracle::Pending;
use nodeless_model::NodeClaim;
use std::collections::{BTreeMap, BTreeSet};

/// How many nodes may leave that a pending pod did not take: the cluster may change while a node joins.
const MOST: usize = 2;

/// By the uid of a pending pod, the claims of such nodes.
#[derive(Debug, Default)]
pub(super) struct UnusedNodes(BTreeMap<String, BTreeSet<String>>);

impl UnusedNodes {
    /// A node leaves because it is empty. `pending` are the pods without a node, by uid.
    pub(super) fn left(&mut self, claim: &NodeClaim, pending: &BTreeMap<String, Pending>) -> Option<String> {
        let is_waiting = |pod: &Pending| pod.created < claim.created && claim.spec.nominated_pods.contains(&pod.key);
        let mut found = None;
        for (uid, pod) in pending.iter().filter(|(_, pod)| is_waiting(pod)) {
            let nodes = self.0.entry(uid.clone()).or_default();
            nodes.insert(claim.name.clone());
            if nodes.len() > MOST {
                found =
                    Some(format!("{} nodes were launched for pod {}, and it took none of them", nodes.len(), pod.key));
            }
        }
        found
    }
}
