//! Reads which DaemonSets are not ready on the nodes that wait for them.

use super::{AT_ONCE, Reconciler};
use futures::stream::{self, StreamExt as _};
use nodeless_lifecycle::Seen;
use nodeless_lifecycle::daemon_sets::{awaited_by, not_ready};
use nodeless_model::{DaemonSet, DaemonSetName, Node, NodeClaim};
use std::collections::{BTreeMap, BTreeSet};

/// The DaemonSets that are not ready, by the name of the claim whose node waits for them.
pub(super) type NotReady = BTreeMap<String, Seen<BTreeSet<DaemonSetName>>>;

impl Reconciler {
    /// Reads each DaemonSet once for all claims, and the pods of each node.
    pub(super) async fn daemon_sets_not_ready(&self, waiting: &[(&NodeClaim, Node)]) -> NotReady {
        let names: BTreeSet<DaemonSetName> = waiting.iter().flat_map(|(claim, _)| awaited_by(claim)).collect();
        let (sets, unread) = &self.daemon_sets(names).await;
        let reads = waiting.iter().map(async |(claim, node)| {
            // A DaemonSet that cannot be read concerns only the nodes that wait for it.
            if let Some(why) = awaited_by(claim).iter().find_map(|name| unread.get(name)) {
                return (claim.name.clone(), Seen::Unknown(why.clone()));
            }
            let pods = self.cluster.pods_on(&node.name).await;
            (claim.name.clone(), pods.map(|pods| not_ready(claim, node, sets, &pods)).into())
        });
        let reads: Vec<_> = reads.collect();
        stream::iter(reads).buffer_unordered(AT_ONCE).collect().await
    }

    /// Those of these DaemonSets that exist, and why others cannot be read.
    async fn daemon_sets(&self, names: BTreeSet<DaemonSetName>) -> (Vec<DaemonSet>, BTreeMap<DaemonSetName, String>) {
        let reads = names.into_iter().map(async |name| {
            let read = self.cluster.daemon_set(&name).await;
            (name, read)
        });
        let reads: Vec<_> = reads.collect();
        let (mut sets, mut unread) = (Vec::new(), BTreeMap::new());
        let mut read = stream::iter(reads).buffer_unordered(AT_ONCE);
        while let Some((name, read)) = read.next().await {
            match read {
                Ok(set) => sets.extend(set),
                Err(error) => drop(unread.insert(name, error.to_string())),
            }
        }
        (sets, unread)
    }
}

/// The node of a claim that waits for DaemonSets, if it has joined.
pub(super) fn only(nodes: &Seen<Vec<Node>>) -> Option<&Node> {
    match nodes.known()?.as_slice() {
        [node] => Some(node),
        _ => None,
    }
}
