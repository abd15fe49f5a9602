//! The end of a claim that has no instance, as far as its record knows.
//!
//! One may have been launched for it all the same: by a call whose answer never reached the record, or by that of another
//! member of its launch group, which asks for as many instances as the group was written with. To forget such a claim would
//! free what it is charged while its instance runs, with nobody to look after it. So it stays until EC2 can have none for it.

use crate::ending::TERMINATION_POLL;
use crate::observation::{Observation, Seen, SeenGroup};
use crate::settings::Settings;
use crate::time::elapsed;
use crate::{Effect, Step};
use jiff::Timestamp;
use nodeless_model::{Instance, InstanceState, NodeClaim, Phase};
use std::collections::BTreeSet;
use std::time::Duration;

/// Whether EC2 may have, or may yet get, an instance for a claim that has none on record.
pub(crate) fn may_have_an_instance(claim: &NodeClaim) -> bool {
    let shared = claim.spec.launch_group.as_ref().is_some_and(|group| group.size > 1);
    claim.status.instance.is_none() && !claim.status.launch_denied && (claim.status.launch_asked || shared)
}

/// The step of a claim that leaves and has no instance on record.
pub(crate) fn terminating(claim: &NodeClaim, seen: &Observation, now: Timestamp, settings: &Settings) -> Step {
    let mut step = Step::stay(claim);
    if !may_have_an_instance(claim) {
        return gone(step);
    }
    let group = match &seen.launch_group {
        Seen::Known(group) => group,
        Seen::Unknown(why) => return step.wait_for("the instances of its launch group", why, TERMINATION_POLL),
    };
    if let Some(instance) = left_for(claim, group) {
        step.effects.push(Effect::Take { instance: Box::new(instance.clone()) });
        return step.after(TERMINATION_POLL);
    }
    // Another member may make the call at any time, for this one too.
    if group.others.iter().any(|other| other.phase == Phase::Reserved) {
        return step.after(TERMINATION_POLL);
    }
    let asked = claim.status.launch_asked || group.others.iter().any(|other| other.status.launch_asked);
    let since = claim.status.termination.as_ref().map_or(claim.created, |termination| termination.requested);
    let waited = elapsed(since, now);
    match settings.launch_settles.saturating_sub(waited) {
        Duration::ZERO => gone(step),
        left if asked => step.after(left.min(TERMINATION_POLL)),
        _ => gone(step),
    }
}

fn gone(mut step: Step) -> Step {
    step.claim.phase = Phase::Gone;
    step.again()
}

/// The instances of the group that the other members have not on record, other than terminated ones, in the order of their ids.
pub(crate) fn left_over(group: &SeenGroup) -> Vec<&Instance> {
    let taken: BTreeSet<&str> =
        group.others.iter().filter_map(|other| other.status.instance.as_ref()).map(|it| it.id.as_str()).collect();
    let mut left: Vec<&Instance> = group
        .instances
        .iter()
        .filter(|instance| instance.state != InstanceState::Terminated && !taken.contains(instance.id.as_str()))
        .collect();
    left.sort_by(|a, b| a.id.cmp(&b.id));
    left
}

/// The instance of the group that no claim has and that is this one's, when those without one take what is left in turn.
fn left_for<'a>(claim: &NodeClaim, group: &'a SeenGroup) -> Option<&'a Instance> {
    let left = left_over(group);
    let place = |claim: &NodeClaim| claim.spec.launch_group.as_ref().map_or(0, |group| group.index);
    let lacks = |other: &&NodeClaim| {
        other.status.instance.is_none() && other.phase != Phase::Gone && !other.status.launch_denied
    };
    let before = group.others.iter().filter(lacks).filter(|other| place(other) < place(claim)).count();
    left.get(before).copied()
}
