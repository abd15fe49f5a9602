//! Nodes that have just been launched, and whose pods are still those that they were launched for.
//!
//! Every plan is refined before it is executed, but pods that depend on the placement of others stay as planned. So consolidation
//! may find small savings on nodes that are minutes old. Moving pods that have just started is only justified if it saves a tenth
//! of the price of the launches, as for any group of nodes.

use super::Candidate;
use crate::cluster::ClusterNode;
use crate::reasons::KeptReason;
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, HashSet};

/// The time for which nodes count as just launched.
const JUST_LAUNCHED: SignedDuration = SignedDuration::from_hours(1);

/// The minimum savings, as a fraction of the price of all just launched nodes of the NodePool.
const MIN_SAVING_SHARE: f64 = 0.1;

/// The total hourly price of the just launched nodes of each NodePool, in dollars.
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

    /// Whether the savings justify the removal of these nodes.
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
            let min_saving = launched * MIN_SAVING_SHARE;
            if saving < min_saving {
                return Err(KeptReason::JustLaunched { saving, min_saving, until });
            }
        }
        Ok(())
    }
}

/// Until when a node counts as just launched: it is young, and all pods that it was launched for run on it.
fn until(node: &ClusterNode<'_>, now: Timestamp) -> Option<Timestamp> {
    let claim = node.claim?;
    let until = claim.created.saturating_add(JUST_LAUNCHED).ok()?;
    if until <= now || claim.spec.nominated_pods.is_empty() {
        return None;
    }
    let here: HashSet<String> = node.pods.iter().filter(|pod| pod.is_active()).map(|pod| pod.key()).collect();
    claim.spec.nominated_pods.iter().all(|pod| here.contains(pod)).then_some(until)
}
