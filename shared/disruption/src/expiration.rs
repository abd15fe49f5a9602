//! Expiration: claims that have reached the age at which they are replaced by force.

use jiff::{SignedDuration, Timestamp};
use nodeless_model::NodeClaim;
use nodeless_model::duration::format_go_duration;

/// A claim that has reached its age.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired {
    /// The NodeClaim.
    pub node_claim: String,
    /// Since when.
    pub since: Timestamp,
    /// One sentence for people.
    pub message: String,
}

/// The claims that have reached their `expireAfter` and are not going away yet, the oldest first.
///
/// As in Karpenter this is forceful: no budget holds it back, no replacement comes first, and do-not-disrupt and
/// PodDisruptionBudgets only slow the drain.
#[must_use]
pub fn expired<'a>(claims: impl IntoIterator<Item = &'a NodeClaim>, now: Timestamp) -> Vec<Expired> {
    let mut expired: Vec<Expired> = claims
        .into_iter()
        .filter(|claim| !claim.phase.is_leaving())
        .filter_map(|claim| {
            let age = claim.spec.expire_after?;
            // An age beyond the end of time is never reached.
            let since = claim.created.checked_add(SignedDuration::try_from(age).ok()?).ok()?;
            let message = format!("it has reached its expireAfter of {}", format_go_duration(age));
            (since <= now).then(|| Expired { node_claim: claim.name.clone(), since, message })
        })
        .collect();
    expired.sort_by(|a, b| (a.since, &a.node_claim).cmp(&(b.since, &b.node_claim)));
    expired
}
