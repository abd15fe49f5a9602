//! The annotation `nodeless.sh/ami-canary`, computed from the JSON of a NodePool and the claims.

use crate::scenarios::durations;
use jiff::{SignedDuration, Timestamp};
use nodeless_model::claim::condition;
use nodeless_model::{NodeClaim, Phase};
use serde_json::Value;

/// A plan may not have seen claims that were created within this time before its decision.
const UNSEEN: SignedDuration = SignedDuration::from_mins(1);

/// Why a node should not leave because of its AMI: another node of the NodePool has another AMI, and none of these has been
/// initialized for the time of the annotation. `decided` is when that was decided.
pub(in crate::invariants) fn violation(
    pool: &Value,
    claims: &[NodeClaim],
    leaving: &NodeClaim,
    decided: Timestamp,
    now: Timestamp,
) -> Option<String> {
    let period = durations::parse(pool["metadata"]["annotations"]["nodeless.sh/ami-canary"].as_str()?).ok()?;
    let drifted = leaving.condition(condition::DRIFTED).is_some_and(|drifted| drifted.reason == "AMIDrift");
    let image = |claim: &NodeClaim| claim.status.instance.as_ref().map(|instance| instance.image_id.clone());
    let own = image(leaving).filter(|_| drifted)?;
    let known = decided.checked_sub(UNSEEN).unwrap_or(Timestamp::MIN);
    let others: Vec<&NodeClaim> = claims
        .iter()
        .filter(|claim| claim.node_pool == leaving.node_pool && claim.phase < Phase::Draining && claim.created < known)
        .filter(|claim| !claim.spec.replaces.contains(&leaving.name))
        .filter(|claim| image(claim).is_some_and(|image| image != own))
        .collect();
    let has_run = |claim: &&NodeClaim| {
        let initialized = claim.condition(condition::INITIALIZED).filter(|_| claim.phase >= Phase::Initialized);
        initialized.is_some_and(|initialized| now.duration_since(initialized.last_transition_time) >= period)
    };
    (!others.is_empty() && !others.iter().any(has_run)).then(|| {
        let others: Vec<&str> = others.iter().map(|claim| claim.name.as_str()).collect();
        format!(
            "claim {} with AMI {own} leaves, and {others:?} with other AMIs have not run for {period:#}",
            leaving.name
        )
    })
}
