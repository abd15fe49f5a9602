//! Expiration: claims that have reached the age at which they are replaced forcefully.

use crate::reasons::drift::{Drift, DriftReason};
use jiff::{SignedDuration, Timestamp};
use nodeless_model::duration::{format_go_duration, parse_go_duration};
use nodeless_model::{InvalidAnnotation, NodeClaim, NodePool, StringMap};
use std::time::Duration;

/// The annotation of a NodePool: how long before `expireAfter` its nodes are replaced gracefully, one after another,
/// within the budgets for `Drifted` and with a replacement first.
pub const GRACEFUL_BEFORE: &str = "nodeless.sh/graceful-expiration-before";

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

/// How long before `expireAfter` a NodePool's nodes are replaced gracefully, if its annotation is set.
///
/// # Errors
/// When the annotation is not a duration; nodes only expire forcefully then.
pub fn graceful_before(annotations: &StringMap) -> Result<Option<Duration>, InvalidAnnotation> {
    let Some(text) = annotations.get(GRACEFUL_BEFORE) else { return Ok(None) };
    parse_go_duration(text).map(Some).map_err(|why| InvalidAnnotation::Duration {
        key: GRACEFUL_BEFORE,
        why,
        effect: "nodes expire by force only",
    })
}

/// Whether a claim is to be replaced gracefully now, because it expires soon.
pub(crate) fn expires_soon(claim: &NodeClaim, pool: &NodePool, now: Timestamp) -> Option<Drift> {
    let before = graceful_before(&pool.disruption.annotations).ok().flatten()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotation_is_a_duration() {
        let set = |text: &str| graceful_before(&StringMap::from([(GRACEFUL_BEFORE.to_owned(), text.to_owned())]));
        assert_eq!(graceful_before(&StringMap::new()), Ok(None));
        assert_eq!(set("24h"), Ok(Some(Duration::from_hours(24))));
        assert_eq!(set("soon").unwrap_err().key(), GRACEFUL_BEFORE);
    }
}
