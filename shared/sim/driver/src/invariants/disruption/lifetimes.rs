//! Nodes end after their `expireAfter`, and drain before EC2 ends their spot instance.

use jiff::{SignedDuration, Timestamp};
use nodeless_fake_aws::Instance;
use nodeless_model::{NodeClaim, Phase};
use std::collections::BTreeSet;

/// The maximum delay of a claim's termination after its `expireAfter`: the sweep of each minute notices it, and an outage of a service that
/// the sweep needs lasts three minutes.
const EXPIRES_WITHIN: SignedDuration = SignedDuration::from_mins(10);
/// The maximum delay of the end of a drain after its `terminationGracePeriod`, for the same reasons.
const ENDS_WITHIN: SignedDuration = SignedDuration::from_mins(10);
/// From the warning of EC2 to the end of a spot instance.
const WARNING: SignedDuration = SignedDuration::from_mins(2);
/// The maximum time from the warning to the start of the drain, and the minimum age of an instance at the warning for its claim to be
/// known.
const HANDLED_WITHIN: SignedDuration = SignedDuration::from_secs(30);
/// EC2's code for the state of a spot instance that it interrupted.
const INTERRUPTED: &str = "Server.SpotInstanceTermination";

/// Claims that are older than their `expireAfter` allows.
pub(in crate::invariants) fn expired(claims: &[NodeClaim], now: Timestamp) -> Vec<String> {
    let overdue = |claim: &&NodeClaim| {
        let limit = claim.spec.expire_after.and_then(|limit| SignedDuration::try_from(limit).ok());
        let age = now.duration_since(claim.created);
        claim.phase < Phase::Draining && limit.is_some_and(|limit| age > limit.saturating_add(EXPIRES_WITHIN))
    };
    let detail = |claim: &NodeClaim| {
        let age = now.duration_since(claim.created);
        format!("claim {} is {age:#} old, and its expireAfter is {:?}", claim.name, claim.spec.expire_after)
    };
    claims.iter().filter(overdue).map(detail).collect()
}

/// Claims that drain longer than their `terminationGracePeriod` allows.
pub(in crate::invariants) fn drain_too_long(claims: &[NodeClaim], now: Timestamp) -> Vec<String> {
    let draining = claims.iter().filter(|claim| claim.phase == Phase::Draining);
    let overdue = draining.filter_map(|claim| {
        let deadline = claim.status.termination.as_ref()?.deadline?;
        let late = now.duration_since(deadline) > ENDS_WITHIN;
        late.then(|| format!("claim {} still drains, and was to end its drain at {deadline}", claim.name))
    });
    overdue.collect()
}

/// The spot instances whose interruption was observed.
#[derive(Debug, Default)]
pub(in crate::invariants) struct InterruptionChecks {
    ended: BTreeSet<String>,
}

impl InterruptionChecks {
    /// Spot instances that EC2 has ended since the last call, and whose nodes were not drained soon after the warning.
    pub(in crate::invariants) fn check(&mut self, claims: &[NodeClaim], instances: &[Instance]) -> Vec<String> {
        let mut wrong = Vec::new();
        for instance in instances {
            let interrupted = instance.state_reason.as_ref().is_some_and(|(code, _)| code == INTERRUPTED);
            let Some(stopped) = instance.stopped.filter(|_| interrupted) else { continue };
            if !self.ended.insert(instance.id.clone()) {
                continue;
            }
            let warned = stopped - WARNING;
            let own = |claim: &&NodeClaim| claim.status.instance.as_ref().is_some_and(|own| own.id == instance.id);
            let Some(claim) = claims.iter().find(own) else { continue };
            let known = warned.duration_since(instance.launched) > HANDLED_WITHIN;
            if known && !drained_by(claim, warned + HANDLED_WITHIN) {
                wrong.push(format!(
                    "EC2 announced at {warned} that it interrupts instance {}, and claim {} was not drained",
                    instance.id, claim.name
                ));
            }
        }
        wrong
    }
}

/// Whether the drain of a claim had begun at a time. A claim without a node has nothing to drain.
fn drained_by(claim: &NodeClaim, at: Timestamp) -> bool {
    let requested = claim.status.termination.as_ref().is_some_and(|end| end.requested <= at);
    let began = claim.status.drain_started.is_some_and(|started| started <= at);
    requested && (began || claim.status.node_name.is_none())
}
