//! The termination of a claim without a recorded instance.
//!
//! An instance may have been launched for it: by a call whose answer was never recorded, or by the call of another member of its
//! launch group, which requests as many instances as the group has members. Deleting such a claim would release its charge while
//! its instance runs without a claim. So the claim stays until EC2 can have no instance for it.

use crate::group::{may_take, owned_by};
use crate::observation::{Observation, Seen, SeenGroup};
use crate::settings::Settings;
use crate::time::{TERMINATION_POLL, elapsed};
use crate::{Effect, Step};
use jiff::Timestamp;
use nodeless_model::{Instance, InstanceState, NodeClaim, Phase};
use std::time::Duration;

/// Whether EC2 may have, or may still launch, an instance for a claim without a recorded one.
pub(crate) fn may_have_an_instance(claim: &NodeClaim) -> bool {
    let shared = claim.spec.launch_group.as_ref().is_some_and(|group| group.size > 1);
    claim.status.instance.is_none() && !claim.status.launch_denied && (claim.status.launch_asked || shared)
}

/// The step of a terminating claim without a recorded instance.
pub(crate) fn terminating(claim: &NodeClaim, seen: &Observation, now: Timestamp, settings: &Settings) -> Step {
    let mut step = Step::stay(claim);
    if !may_have_an_instance(claim) {
        return gone(step);
    }
    let group = match &seen.launch_group {
        Seen::Known(group) => group,
        Seen::Unknown(why) => return step.wait_for("the instances of its launch group", why, TERMINATION_POLL),
    };
    let left = left_over(claim, group);
    if !left.is_empty() {
        step.effects.push(Effect::Recover { instances: left });
        return step.after(TERMINATION_POLL);
    }
    // Another member may make the call at any time, also for this claim.
    if group.others.iter().any(|other| other.phase < Phase::Launched) {
        return step.after(TERMINATION_POLL);
    }
    let asked = claim.status.launch_asked || group.others.iter().any(|other| other.status.launch_asked);
    let delay = match own(claim, group) {
        Own::Unlisted => settings.visible_after,
        Own::Listed | Own::None if asked => settings.launch_listing_delay,
        Own::Listed | Own::None | Own::Ended => return gone(step),
    };
    let since = claim.status.termination.as_ref().map_or(claim.created, |termination| termination.requested);
    match delay.saturating_sub(elapsed(since, now)) {
        Duration::ZERO => gone(step),
        left => step.after(left.min(TERMINATION_POLL)),
    }
}

fn gone(mut step: Step) -> Step {
    step.claim.phase = Phase::Gone;
    step.again()
}

/// The instance that the group's record assigns to a claim whose own record does not have it yet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    /// No instance is assigned.
    None,
    /// EC2 lists the instance.
    Listed,
    /// EC2 does not list the instance, or not yet.
    Unlisted,
    /// The instance is gone.
    Ended,
}

/// The assigned instance of a claim.
pub(crate) fn own(claim: &NodeClaim, group: &SeenGroup) -> Own {
    let Some(id) = owned_by(&group.owners, &claim.name) else { return Own::None };
    match group.instances.iter().find(|instance| instance.id == id) {
        None => Own::Unlisted,
        Some(instance) if instance.state == InstanceState::Terminated => Own::Ended,
        Some(_) => Own::Listed,
    }
}

/// The instances of the group that no other member has or gets, except for terminated ones, in the order of their ids.
pub(crate) fn left_over(claim: &NodeClaim, group: &SeenGroup) -> Vec<Instance> {
    let is_anothers = |instance: &Instance| {
        let owner = group.owners.get(&instance.id).filter(|owner| **owner != claim.name);
        group.others.iter().any(|other| match &other.status.instance {
            Some(own) => own.id == instance.id,
            None => owner == Some(&other.name) && may_take(other, &instance.id),
        })
    };
    let there = group.instances.iter().filter(|instance| instance.state != InstanceState::Terminated);
    let mut left: Vec<Instance> = there.filter(|instance| !is_anothers(instance)).cloned().collect();
    left.sort_by(|a, b| a.id.cmp(&b.id));
    left
}
