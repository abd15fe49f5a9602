//! Claims of a cluster that was deleted, and whose name another cluster has now.

use jiff::Timestamp;
use nodeless_model::{Node, NodeClaim};

/// The claims that were launched for an earlier cluster of the same name, and do not terminate yet: the claim and its instance are older
/// than the cluster, and no node of the cluster has the instance. Their nodes cannot join this cluster, whose endpoint and certificate
/// authority are others.
#[must_use]
pub fn of_earlier_cluster<'a>(
    claims: &'a [NodeClaim],
    nodes: &[Node],
    cluster_created: Timestamp,
) -> Vec<&'a NodeClaim> {
    let is_earlier = |claim: &&NodeClaim| {
        let launched = claim.status.instance.as_ref();
        // Last, because it compares with all nodes.
        let has_node = || {
            launched.is_some_and(|launched| nodes.iter().any(|node| node.instance_id() == Some(launched.id.as_str())))
        };
        !claim.phase.is_leaving()
            && claim.created < cluster_created
            && launched.is_none_or(|launched| launched.launched < cluster_created)
            && !has_node()
    };
    claims.iter().filter(is_earlier).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{at, claim, ready_node};
    use nodeless_model::Phase;

    #[test]
    fn only_claims_without_a_node_that_are_older_than_the_cluster_are_of_an_earlier_one() {
        let mut old = claim(Phase::Initialized);
        (old.name, old.created) = ("old".to_owned(), at(100));
        let launched = old.status.instance.as_mut().unwrap();
        (launched.id, launched.launched) = ("i-old".to_owned(), at(101));
        let found = |claim: &NodeClaim, nodes: &[Node], created: i64| {
            !of_earlier_cluster(std::slice::from_ref(claim), nodes, at(created)).is_empty()
        };
        assert!(found(&old, &[ready_node()], 200));
        assert!(!found(&old, &[], 100) && !found(&old, &[], 101), "it may be of this cluster");
        let mut node = ready_node();
        node.provider_id = Some("aws:///us-east-1a/i-old".to_owned());
        assert!(!found(&old, &[node], 200), "a node that has joined is of this cluster");
        assert!(!found(&NodeClaim { phase: Phase::Draining, ..old.clone() }, &[], 200), "it terminates already");
        old.status.instance = None;
        assert!(found(&old, &[], 200), "it would be launched for this cluster");
    }
}
