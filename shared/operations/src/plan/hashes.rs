//! The hashes by which static drift is found, where a claim carries some that were made another way than ours: by Karpenter,
//! or by another version of nodeless.

use super::pools::Judged;
use super::{PlanReport, Planner};
use crate::lines::Failed;
use crate::node_class;
use nodeless_api::hash::VERSION;
use nodeless_model::claim::condition;
use nodeless_model::{NodeClaim, Phase, labels};
use nodeless_ports::ErrorKind;
use nodeless_ports::cluster::ClusterView;
use std::collections::BTreeMap;
use std::time::Duration;

impl Planner {
    /// Writes hashes of our own to claims whose hashes were made another way, as Karpenter does when its way changes; and
    /// wakes whoever puts them on the Node and NodeClaim. Gives the claims as they are then.
    pub(super) async fn note_hashes(
        &self,
        mut records: Vec<NodeClaim>,
        view: &ClusterView,
        judged: &[Judged],
        report: &mut PlanReport,
    ) -> Vec<NodeClaim> {
        let pools: BTreeMap<&str, &str> =
            judged.iter().map(|one| (one.pool.name.as_str(), one.pool.hash.as_str())).collect();
        let classes: BTreeMap<&str, String> = view
            .node_classes
            .iter()
            .filter_map(|(name, class)| Some((name.as_str(), node_class::present_hash(class)?)))
            .collect();
        for claim in records.iter_mut().filter(|claim| !claim.phase.is_leaving()) {
            let pool = pools.get(claim.node_pool.as_str()).copied();
            let class = classes.get(claim.node_class.as_str()).map(String::as_str);
            let Some(next) = rehashed(claim, pool, class) else { continue };
            match self.claims.update(&next, None).await {
                Ok(version) => *claim = NodeClaim { version, ..next },
                // Someone else writes it just now; the next plan does it.
                Err(error) if error.kind == ErrorKind::Conflict => {}
                Err(error) => report.problems.push(format!("NodeClaim {}: {error}", claim.name)),
            }
        }
        let behind = records.iter().filter(|claim| claim.phase == Phase::Initialized && is_behind(claim, view));
        let behind: Vec<(String, Duration)> = behind.map(|claim| (claim.name.clone(), Duration::ZERO)).collect();
        if !behind.is_empty()
            && let Err(error) = self.queue.wake_claims(&behind).await
        {
            // The next plan sees it again.
            self.context.log(&Failed { what: "wake claims", why: &error.to_string() });
        }
        records
    }
}

/// The claim with hashes made our way; nothing if it has them. One that has drifted keeps the old hash, which no present one
/// equals, so it stays drifted. What is not known now is left for later.
fn rehashed(claim: &NodeClaim, pool: Option<&str>, class: Option<&str>) -> Option<NodeClaim> {
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

/// Whether the node of a claim shows other hashes.
fn is_behind(claim: &NodeClaim, view: &ClusterView) -> bool {
    let node = view.nodes.iter().find(|node| Some(&node.name) == claim.status.node_name.as_ref());
    node.is_some_and(|node| !nodeless_lifecycle::stale_hashes(claim, node).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use nodeless_model::{ConditionStatus, NodeClaimSpec, NodeClaimStatus, StringMap};

    fn claim(annotations: &[(&str, &str)]) -> NodeClaim {
        let annotations: StringMap =
            annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        NodeClaim {
            name: "default-1".into(),
            uid: "1".into(),
            node_pool: "default".into(),
            node_class: "default".into(),
            created: Timestamp::UNIX_EPOCH,
            version: 1,
            spec: NodeClaimSpec { annotations, ..NodeClaimSpec::default() },
            phase: Phase::Initialized,
            status: NodeClaimStatus::default(),
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
        // From then on a difference means something.
        assert_eq!(rehashed(&ours, Some("3"), Some("4")), None);

        let mut drifted = karpenters.clone();
        drifted.set_condition(condition::DRIFTED, ConditionStatus::True, "AMIDrift", "", Timestamp::UNIX_EPOCH);
        let ours = rehashed(&drifted, Some("1"), Some("2")).unwrap();
        assert_eq!(hashes(&ours), [Some("17"), Some(VERSION), Some("18"), Some(VERSION)]);

        // What is not known now, or was not resolved our way yet, is left for later.
        let half = rehashed(&karpenters, Some("1"), None).unwrap();
        assert_eq!(hashes(&half), [Some("1"), Some(VERSION), Some("18"), Some("v5")]);
        assert_eq!(rehashed(&karpenters, None, None), None);
        // A node of an instance that says nothing of hashes gets them too.
        assert_eq!(hashes(&rehashed(&claim(&[]), Some("1"), None).unwrap())[0], Some("1"));
    }
}
