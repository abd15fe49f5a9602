//! Reads which DaemonSets are not ready on the nodes that wait for them.

use super::{AT_ONCE, Reconciler};
use futures::stream::{self, StreamExt as _};
use nodeless_lifecycle::Seen;
use nodeless_lifecycle::daemon_sets::{awaited_by, not_ready};
use nodeless_model::{DaemonSet, DaemonSetName, Node, NodeClaim};
use nodeless_ports::PortError;
use std::collections::{BTreeMap, BTreeSet};

/// The DaemonSets that are not ready, by the name of the claim whose node waits for them.
pub(super) type NotReady = BTreeMap<String, Seen<BTreeSet<DaemonSetName>>>;

impl Reconciler {
    /// Reads each DaemonSet once for all claims, and the pods of each node.
    pub(super) async fn daemon_sets_not_ready(&self, waiting: &[(&NodeClaim, Node)]) -> NotReady {
        let names: BTreeSet<DaemonSetName> = waiting.iter().flat_map(|(claim, _)| awaited_by(claim)).collect();
        let sets: Result<Vec<DaemonSet>, PortError> = self.daemon_sets(names).await;
        let sets = match &sets {
            Ok(sets) => sets,
            Err(error) => {
                let unknown = |claim: &NodeClaim| (claim.name.clone(), Seen::Unknown(error.to_string()));
                return waiting.iter().map(|(claim, _)| unknown(claim)).collect();
            }
        };
        let reads = waiting.iter().map(async |(claim, node)| {
            let pods = self.cluster.pods_on(&node.name).await;
            (claim.name.clone(), pods.map(|pods| not_ready(claim, node, sets, &pods)).into())
        });
        let reads: Vec<_> = reads.collect();
        stream::iter(reads).buffer_unordered(AT_ONCE).collect().await
    }

    /// Those of these DaemonSets that exist.
    async fn daemon_sets(&self, names: BTreeSet<DaemonSetName>) -> Result<Vec<DaemonSet>, PortError> {
        let reads = names.iter().map(async |name| self.cluster.daemon_set(name).await);
        let reads: Vec<_> = reads.collect();
        let read: Vec<_> = stream::iter(reads).buffer_unordered(AT_ONCE).collect().await;
        read.into_iter().filter_map(Result::transpose).collect()
    }
}

/// The node of a claim that waits for DaemonSets, if it has joined.
pub(super) fn only(nodes: &Seen<Vec<Node>>) -> Option<&Node> {
    match nodes.known()?.as_slice() {
        [node] => Some(node),
        _ => None,
    }
}
