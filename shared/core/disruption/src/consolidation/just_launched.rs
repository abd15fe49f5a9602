//! Nodes that have just been launched, and whose pods are still those that they were launched for.
//!
//! Every plan is refined before it is carried out, but pods that depend on the placement of others stay where they were
//! planned. So consolidation may find a small saving on nodes that are minutes old. Moving pods that have only just
//! started is worth that only where it saves a tenth of what was launched, as for any group of nodes.

use super::Candidate;
use crate::cluster::ClusterNode;
use crate::reasons::KeptReason;
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, HashSet};

/// For how long nodes count as just launched.
const JUST_LAUNCHED: SignedDuration = SignedDuration::from_hours(1);

/// The least saving, as a share of what all just launched nodes of the NodePool cost.
const MIN_SAVING_SHARE: f64 = 0.1;

/// What the just launched nodes of each NodePool cost together, in dollars per hour.
#[derive(Debug, Default)]
pub(super) struct JustLaunched(BTreeMap<String, f64>);

impl JustLaunched {
    pub(super) fn of<'n, 'a: 'n>(nodes: impl Iterator<Item = (&'n ClusterNode<'a>, f64)>, now: Timestamp) -> Self {
        let mut all = Self::default();
        for (node, price) in nodes.filter(|(node, _)| until(node, now).is_some()) {
            *all.0.entry(node.node_pool().unwrap_or_default().to_owned()).or_default() += price;
        }
        all
    }

    /// Whether these nodes may go for such a saving.
    pub(super) fn approve(
        &self,
        candidates: &[&Candidate<'_, '_>],
        saving: f64,
        now: Timestamp,
    ) -> Result<(), KeptReason> {
        for one in candidates {
            let (Some(until), Some(launched)) = (until(one.one.of, now), self.0.get(&one.one.claim.node_pool)) else {
                continue;
            };
            let least = launched * MIN_SAVING_SHARE;
            if saving < least {
                return Err(KeptReason::JustLaunched { saving, least, until });
            }
        }
        Ok(())
    }
}

/// Until when a node counts as just launched: it is young, and all pods that it was launched for run there.
fn until(node: &ClusterNode<'_>, now: Timestamp) -> Option<Timestamp> {
    let claim = node.claim?;
    let until = claim.created.saturating_add(JUST_LAUNCHED).ok()?;
    if until <= now || claim.spec.nominated_pods.is_empty() {
        return None;
    }
    let here: HashSet<String> = node.pods.iter().filter(|pod| pod.is_active()).map(|pod| pod.key()).collect();
    claim.spec.nominated_pods.iter().all(|pod| here.contains(pod)).then_some(until)
}
