//! Rebalance recommendations: spot instances at an elevated risk of interruption.

use crate::reasons::drift::{Drift, DriftReason};
use nodeless_model::claim::condition;
use nodeless_model::{InvalidAnnotation, NodeClaim, NodePool, StringMap};

/// The annotation of a NodePool: `replace` replaces nodes for whose instances EC2 recommends a rebalance, one after
/// another, within the budgets for `Drifted` and with a replacement first. Without it a recommendation is only
/// reported, as in Karpenter.
pub const RECOMMENDATIONS: &str = "nodeless.sh/rebalance-recommendations";

/// Whether a NodePool is configured to replace nodes for which a rebalance is recommended.
///
/// # Errors
/// When the annotation is neither `replace` nor `ignore`; nothing is replaced then.
pub fn replaces(annotations: &StringMap) -> Result<bool, InvalidAnnotation> {
    match annotations.get(RECOMMENDATIONS).map(String::as_str) {
        None | Some("ignore") => Ok(false),
        Some("replace") => Ok(true),
        Some(other) => Err(InvalidAnnotation::Value {
            key: RECOMMENDATIONS,
            value: other.to_owned(),
            effect: "and nothing is replaced for it",
            valid: "replace or ignore",
        }),
    }
}

/// Whether a claim has to be replaced because of a rebalance recommendation.
pub(crate) fn recommended(claim: &NodeClaim, pool: &NodePool) -> Option<Drift> {
    let enabled = replaces(&pool.disruption.annotations).unwrap_or(false);
    let since = claim.condition(condition::REBALANCE_RECOMMENDED)?.last_transition_time;
    enabled.then(|| Drift {
        reason: DriftReason::RebalanceRecommended,
        message: format!("EC2 has recommended to rebalance the spot instance since {since:.0}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_replace_replaces() {
        let stated = |value: &str| replaces(&StringMap::from([(RECOMMENDATIONS.to_owned(), value.to_owned())]));
        assert_eq!(replaces(&StringMap::new()), Ok(false));
        assert_eq!((stated("ignore"), stated("replace")), (Ok(false), Ok(true)));
        assert!(stated("Replace").unwrap_err().to_string().contains("\"Replace\""));
    }
}
