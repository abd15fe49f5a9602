//! Rebalance recommendations: spot instances at an elevated risk of interruption.

use crate::reasons::drift::{Drift, DriftReason};
use nodeless_model::claim::condition;
use nodeless_model::{NodeClaim, NodePool, Setting};

/// Whether a claim has to be replaced because of a rebalance recommendation.
pub(crate) fn recommended(claim: &NodeClaim, pool: &NodePool) -> Option<Drift> {
    let enabled = pool.options.rebalance == Setting::Valid(true);
    let since = claim.condition(condition::REBALANCE_RECOMMENDED)?.last_transition_time;
    enabled.then(|| Drift {
        reason: DriftReason::RebalanceRecommended,
        message: format!("EC2 has recommended to rebalance the spot instance since {since:.0}"),
    })
}
