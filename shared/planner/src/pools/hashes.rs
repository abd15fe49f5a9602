//! The hashes for static drift, where the hashes of a claim were computed by Karpenter or by another version of nodeless.

use crate::pools::EvaluatedPool;
use nodeless_api::hash::VERSION;
use nodeless_model::claim::condition;
use nodeless_model::{Node, NodeClaim, Phase, labels};
use nodeless_operations::node_class;
use nodeless_ports::cluster::ClusterView;
use std::collections::BTreeMap;

/// The current hashes of NodePools and EC2NodeClasses, computed by nodeless, by name.
pub(crate) struct PresentHashes<'a> {
    pools: BTreeMap<&'a str, &'a str>,
    classes: BTreeMap<&'a str, String>,
}

/// The current hashes of NodePools and EC2NodeClasses.
pub(crate) fn present_hashes<'a>(view: &'a ClusterView, evaluated: &'a [EvaluatedPool]) -> PresentHashes<'a> {
    PresentHashes {
        pools: evaluated.iter().map(|one| (one.pool.name.as_str(), one.pool.hash.as_str())).collect(),
        classes: view
            .node_classes
            .iter()
            .filter_map(|(name, class)| Some((name.as_str(), node_class::present_hash(class)?)))
            .collect(),
    }
}

impl PresentHashes<'_> {
    /// The hashes of a claim's NodePool and EC2NodeClass, if they are known; nothing for a terminating claim.
    pub(crate) fn for_claim(&self, claim: &NodeClaim) -> Option<(Option<&str>, Option<&str>)> {
        let pool = claim.node_pool.as_deref().and_then(|name| self.pools.get(name)).copied();
        let class = self.classes.get(claim.node_class.as_str()).map(String::as_str);
        (!claim.phase.is_leaving()).then_some((pool, class))
    }
}

/// The claims whose Nodes show other hashes. Lifecycle writes the hashes of the claim to the Node.
pub(crate) fn behind(claims: &[NodeClaim], view: &ClusterView) -> Vec<String> {
    let nodes: BTreeMap<&str, &Node> = view.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
    let of = |claim: &NodeClaim| claim.status.node_name.as_deref().and_then(|name| nodes.get(name)).copied();
    let stale =
        |claim: &NodeClaim| of(claim).is_some_and(|node| !nodeless_lifecycle::stale_hashes(claim, node).is_empty());
    let behind = claims.iter().filter(|claim| claim.phase == Phase::Initialized && stale(claim));
    behind.map(|claim| claim.name.clone()).collect()
}

/// The claim with hashes that nodeless computed; nothing if it already has them. A drifted claim keeps its old hash, which equals
/// no current one, so it stays drifted. Unknown hashes are added later.
pub(crate) fn rehashed(claim: &NodeClaim, pool: Option<&str>, class: Option<&str>) -> Option<NodeClaim> {
    let drifted = claim.has_condition(condition::DRIFTED);
    let mut next = claim.clone();
    let annotations = &mut next.spec.annotations;
    for (hash, version, present) in [
        (labels::NODE_POOL_HASH, labels::NODE_POOL_HASH_VERSION, pool),
        (labels::EC2_NODE_CLASS_HASH, labels::EC2_NODE_CLASS_HASH_VERSION, class),
    ] {
        let Some(present) = present.filter(|_| annotations.get(version).is_none_or(|made| made != VERSION)) else {
            continue;
        };
        annotations.insert(version.to_owned(), VERSION.to_owned());
        if !drifted {
            annotations.insert(hash.to_owned(), present.to_owned());
        }
    }
    (next != *claim).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use nodeless_model::test_support::node_claim;
    use nodeless_model::{ConditionStatus, NodeClaimSpec, StringMap};

    fn claim(annotations: &[(&str, &str)]) -> NodeClaim {
        let annotations: StringMap =
            annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        NodeClaim {
            spec: NodeClaimSpec { annotations, ..NodeClaimSpec::default() },
            phase: Phase::Initialized,
            ..node_claim("default-1")
        }
    }

    fn hashes(claim: &NodeClaim) -> [Option<&str>; 4] {
        let keys = [
            labels::NODE_POOL_HASH,
            labels::NODE_POOL_HASH_VERSION,
            labels::EC2_NODE_CLASS_HASH,
            labels::EC2_NODE_CLASS_HASH_VERSION,
        ];
        keys.map(|key| claim.spec.annotations.get(key).map(String::as_str))
    }

    #[test]
    fn hashes_made_another_way_become_ours_unless_the_claim_has_drifted() {
        let karpenters = claim(&[
            (labels::NODE_POOL_HASH, "17"),
            (labels::NODE_POOL_HASH_VERSION, "v3"),
            (labels::EC2_NODE_CLASS_HASH, "18"),
            (labels::EC2_NODE_CLASS_HASH_VERSION, "v5"),
        ]);
        let ours = rehashed(&karpenters, Some("1"), Some("2")).unwrap();
        assert_eq!(hashes(&ours), [Some("1"), Some(VERSION), Some("2"), Some(VERSION)]);
        // From then on a difference means drift.
        assert_eq!(rehashed(&ours, Some("3"), Some("4")), None);

        let mut drifted = karpenters.clone();
        drifted.set_condition(condition::DRIFTED, ConditionStatus::True, "AMIDrift", "", Timestamp::UNIX_EPOCH);
        let ours = rehashed(&drifted, Some("1"), Some("2")).unwrap();
        assert_eq!(hashes(&ours), [Some("17"), Some(VERSION), Some("18"), Some(VERSION)]);

        // Hashes that are unknown, or that nodeless has not computed yet, are added later.
        let half = rehashed(&karpenters, Some("1"), None).unwrap();
        assert_eq!(hashes(&half), [Some("1"), Some(VERSION), Some("18"), Some("v5")]);
        assert_eq!(rehashed(&karpenters, None, None), None);
        // A node whose instance has no hashes gets them too.
        assert_eq!(hashes(&rehashed(&claim(&[]), Some("1"), None).unwrap())[0], Some("1"));
    }
}
