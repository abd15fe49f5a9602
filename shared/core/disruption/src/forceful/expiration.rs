//! Expiration: claims that have reached the age at which they are replaced forcefully.

use crate::reasons::drift::{Drift, DriftReason};
use jiff::{SignedDuration, Timestamp};
use nodeless_model::duration::format_go_duration;
use nodeless_model::{NodeClaim, NodePool};

/// A claim that has expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired {
    /// The NodeClaim.
    pub node_claim: String,
    /// The time of expiration.
    pub since: Timestamp,
    /// The message.
    pub message: String,
}

/// The claims that have reached their `expireAfter` and are not terminating yet, the oldest first.
///
/// Expiration is forceful, as in Karpenter: no budget limits it, no replacement is launched first, and do-not-disrupt and
/// PodDisruptionBudgets only delay the drain.
#[must_use]
pub fn expired<'a>(claims: impl IntoIterator<Item = &'a NodeClaim>, now: Timestamp) -> Vec<Expired> {
    let mut expired: Vec<Expired> = claims
        .into_iter()
        .filter(|claim| !claim.phase.is_leaving())
        .filter_map(|claim| {
            let age = claim.spec.expire_after?;
            // An age beyond the maximum time is never reached.
            let since = claim.created.checked_add(SignedDuration::try_from(age).ok()?).ok()?;
            let message = format!("it has reached its expireAfter of {}", format_go_duration(age));
            (since <= now).then(|| Expired { node_claim: claim.name.clone(), since, message })
        })
        .collect();
    expired.sort_by(|a, b| (a.since, &a.node_claim).cmp(&(b.since, &b.node_claim)));
    expired
}

/// Whether a claim is to be replaced gracefully now, because it expires soon.
pub(crate) fn expires_soon(claim: &NodeClaim, pool: &NodePool, now: Timestamp) -> Option<Drift> {
    let before = *pool.options.graceful_expiration.valid()?;
    let age = claim.spec.expire_after?;
    let end = claim.created.checked_add(SignedDuration::try_from(age).ok()?).ok()?;
    let from = end.checked_sub(SignedDuration::try_from(before).ok()?).unwrap_or(Timestamp::MIN);
    (from <= now).then(|| Drift {
        reason: DriftReason::ExpiresSoon,
        message: format!(
            "it reaches its expireAfter of {} at {end:.0}, and is replaced gracefully before",
            format_go_duration(age)
        ),
    })
}
