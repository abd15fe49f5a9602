//! The step: dispatch by phase, and the reasons for which a claim is terminated.

use crate::begin_termination::leave;
use crate::conditions::set_ready;
use crate::effect::{Effect, Step};
use crate::events::transitions;
use crate::observation::{Observation, Seen};
use crate::settings::Settings;
use crate::time::elapsed;
use crate::{launch, reboot, registration, reservation, termination, warm};
use jiff::Timestamp;
use nodeless_model::claim::TerminationReason;
use nodeless_model::object::MirroredClaim;
use nodeless_model::{InstanceState, Node, NodeClaim, Phase};

/// The next step of a claim. It is pure: the same input results in the same step.
///
/// ```
/// use jiff::Timestamp;
/// use nodeless_lifecycle::{Effect, NodeClassState, Observation, Seen, Settings, prepare, step};
/// use nodeless_model::{NodeClaim, Phase};
///
/// let mut claim = NodeClaim {
///     name: "default-abcde".into(),
///     node_pool: Some("default".into()),
///     created: Timestamp::UNIX_EPOCH,
///     phase: Phase::Reserved,
/// #     uid: "uid".into(),
/// #     node_class: "default".into(),
/// #     version: 1,
/// #     spec: Default::default(),
/// #     status: Default::default(),
/// };
/// prepare(&mut claim);
/// let (now, settings) = (Timestamp::UNIX_EPOCH, Settings::new("production"));
///
/// // Nothing could be read, so the step waits.
/// let next = step(&claim, &Observation::default(), now, &settings);
/// assert!(next.effects.is_empty() && next.requeue.is_some());
///
/// // The EC2NodeClass is ready, so the claim is launched. That EC2 is asked is written first, with the record.
/// let seen = Observation { node_class: Seen::Known(NodeClassState::Ready), ..Observation::default() };
/// let next = step(&claim, &seen, now, &settings);
/// assert!(next.claim.status.launch_asked);
/// assert_eq!(next.effects[0], Effect::Launch);
/// ```
#[must_use]
pub fn step(claim: &NodeClaim, seen: &Observation, now: Timestamp, settings: &Settings) -> Step {
    let mut next = match reason_to_leave(claim, seen, now, settings) {
        Some((reason, message)) => {
            let mut next = leave(claim, seen, reason, &message, now);
            if reason == TerminationReason::Interrupted {
                // The instance is stopping.
                next.claim.status.end_by(now);
            }
            next
        }
        None => registration::registered_again(claim, seen, settings)
            .or_else(|| reboot::step(claim, seen, now, settings))
            .unwrap_or_else(|| match claim.phase {
                Phase::Reserved | Phase::WarmReserved => launch::reserved(claim, seen, now, settings),
                Phase::Launched | Phase::WarmLaunched => registration::launched(claim, seen, now, settings),
                Phase::Stopped => warm::stopped(claim, seen, now, settings),
                Phase::Starting => warm::starting(claim, seen, now, settings),
                Phase::Registered => registration::registered(claim, seen, now),
                Phase::Preparing => warm::preparing(claim, seen, now, settings),
                Phase::Stopping => warm::stopping(claim, seen, now),
                Phase::Initialized => registration::initialized(claim, seen, now),
                Phase::Draining => termination::draining(claim, seen, now, settings),
                Phase::Terminating => termination::terminating(claim, seen, now, settings),
                Phase::Gone => termination::gone(claim, seen),
            }),
    };
    set_ready(&mut next.claim, now);
    let uid = seen.mirror.known().and_then(Option::as_ref).map_or("", |mirror| &mirror.uid);
    next.events.extend(transitions(claim, &next.claim, uid));
    // The NodeClaim object shows the registration together with the initialization, or after a moment.
    let has_registered = matches!(
        (claim.phase, next.claim.phase),
        (Phase::Launched, Phase::Registered) | (Phase::WarmLaunched, Phase::Preparing)
    );
    // It does not show that the name of the node is written before.
    let is_named = claim.phase == next.claim.phase && claim.status.node_name != next.claim.status.node_name;
    let is_shown = next.claim.phase != Phase::Gone && !has_registered && !is_named;
    if next.claim != *claim && is_shown && !next.effects.contains(&Effect::MirrorClaim) {
        next.effects.push(Effect::MirrorClaim);
    }
    if (Phase::Registered..Phase::Draining).contains(&next.claim.phase) {
        reservation::relabel(&mut next, seen);
        // Last, because nothing waits for tags.
        registration::tag(&mut next, seen, settings);
    }
    next
}

/// Why a claim that is not terminating has to be terminated, if so.
fn reason_to_leave(
    claim: &NodeClaim,
    seen: &Observation,
    now: Timestamp,
    settings: &Settings,
) -> Option<(TerminationReason, String)> {
    use TerminationReason::{Deleted, Expired, InstanceMissing, Interrupted, NodePoolDeleted};
    if claim.phase.is_leaving() {
        return None;
    }
    if seen.mirror.known().and_then(Option::as_ref).is_some_and(|mirror| mirror.deletion_timestamp.is_some()) {
        return Some((Deleted, "the NodeClaim was deleted".to_owned()));
    }
    if claim.is_standalone() && seen.mirror.known().is_some_and(|mirror| !is_object_of(claim, mirror.as_ref())) {
        return Some((Deleted, "its NodeClaim object does not exist any more".to_owned()));
    }
    let deleted = seen.nodes.known().into_iter().flatten().find(|node| node.deletion_timestamp.is_some());
    // Of one whose instance is stopped, the Node is deleted although the claim stays.
    if let Some(node) = deleted.filter(|_| !matches!(claim.phase, Phase::Stopping | Phase::Stopped)) {
        return Some((Deleted, format!("the Node {} was deleted", node.name)));
    }
    if let Some(name) = &claim.node_pool
        && seen.node_pool_exists == Seen::Known(false)
        && goes_with_its_pool(claim, seen)
    {
        return Some((NodePoolDeleted, format!("the NodePool {name} was deleted")));
    }
    if let Some(limit) = claim.spec.expire_after
        && elapsed(claim.created, now) >= limit
    {
        return Some((Expired, "it reached the age of its expireAfter".to_owned()));
    }
    let launched = claim.status.instance.as_ref().filter(|_| seen.zonal_shift.is_none())?;
    match seen.instance.known()? {
        Some(instance) => match instance.state {
            InstanceState::ShuttingDown | InstanceState::Terminated => {
                Some((InstanceMissing, format!("the instance {} was terminated by another party", instance.id)))
            }
            InstanceState::Stopping | InstanceState::Stopped => {
                (!warm::is_stopped_by_us(claim, now, settings.visible_after))
                    .then(|| (Interrupted, format!("the instance {} is stopping", instance.id)))
            }
            InstanceState::Pending | InstanceState::Running => None,
        },
        None => {
            let unseen_too_long = elapsed(launched.launched, now) >= settings.visible_after;
            let joined = claim.phase >= Phase::Registered;
            let no_node_answers = seen.nodes.known().is_some_and(|nodes| !nodes.iter().any(Node::is_ready));
            (unseen_too_long && joined && no_node_answers)
                .then(|| (InstanceMissing, format!("EC2 no longer lists the instance {}", launched.id)))
        }
    }
}

/// Whether a claim without a NodePool was made of this object. One that was created again under the same name is another.
fn is_object_of(claim: &NodeClaim, object: Option<&MirroredClaim>) -> bool {
    object.is_some_and(|object| object.uid == claim.uid)
}

/// Whether the claim is deleted with its NodePool, its owner. After `kubectl delete nodepool --cascade=orphan` the claim stays, unless its
/// node has not joined: the NodeClaim object may have no owner because the NodePool was deleted before the object was created.
fn goes_with_its_pool(claim: &NodeClaim, seen: &Observation) -> bool {
    match &seen.mirror {
        Seen::Known(Some(mirror)) => mirror.owner.is_some() || claim.phase < Phase::Registered,
        Seen::Known(None) => true,
        Seen::Unknown(_) => false,
    }
}
