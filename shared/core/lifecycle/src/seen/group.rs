//! The owners of the instances of a launch group.
//!
//! One call launches the instances of all members, and EC2 does not report which instance is for which claim. So the owner is
//! decided here, once for each instance, and recorded on the group before any claim takes its instance. Entries are only added,
//! and each write is conditional on the previous one: so every process, with any part of the answer or of a list, finds the same
//! owners.

use nodeless_model::{Instance, InstanceState, NodeClaim, Phase, labels};
use std::collections::{BTreeMap, BTreeSet};

/// The owner of each instance of a group, by name.
pub type Owners = BTreeMap<String, String>;

/// The owners after these instances were found too, or `None` if that changes nothing. `members` are the existing claims of the
/// group, in the order of their places, and `owners` the recorded ones.
///
/// 1. An instance on the record of a claim belongs to that claim.
/// 2. An instance that has an owner keeps it for as long as the owner's record exists.
/// 3. An instance with the tag of a claim, which it gets when its node registers, belongs to that claim. The record of its owner is lost
///    if the table was restored to a time before.
/// 4. Every other instance, in the order of their ids, is assigned to the first claim that has none and may get one: claims that
///    need a node come before claims that terminate, because the instance of a terminating claim is terminated with it.
///
/// A terminated instance is not assigned to a claim that needs a node.
#[must_use]
pub fn assign(owners: &Owners, members: &[NodeClaim], found: &[Instance]) -> Option<Owners> {
    let mut next: Owners = owners.clone();
    for (name, id) in members.iter().filter_map(|member| Some((&member.name, &member.status.instance.as_ref()?.id))) {
        next.insert(id.clone(), name.clone());
    }
    let there: BTreeMap<&str, &NodeClaim> = members.iter().map(|it| (it.name.as_str(), it)).collect();
    let owned = |owners: &Owners, id: &str| {
        let owner = owners.get(id).and_then(|owner| there.get(owner.as_str()));
        owner.is_some_and(|owner| may_take(owner, id))
    };
    let has_one = |owners: &Owners, name: &str| owners.iter().any(|(id, owner)| owner == name && owned(owners, id));
    let present = || found.iter().filter(|it| it.state != InstanceState::Terminated);
    for instance in present() {
        let Some(name) = instance.tags.get(labels::NODE_CLAIM_TAG) else { continue };
        let may_get = there.get(name.as_str()).is_some_and(|member| lacks_instance(member));
        if may_get && !owned(&next, &instance.id) && !has_one(&next, name) {
            next.insert(instance.id.clone(), name.clone());
        }
    }
    let mut free: Vec<&Instance> = present().filter(|it| !owned(&next, &it.id)).collect();
    let served: BTreeSet<String> =
        next.iter().filter(|(id, _)| owned(&next, id)).map(|(_, owner)| owner.clone()).collect();
    free.sort_by(|a, b| a.id.cmp(&b.id));
    let waits = |it: &&NodeClaim| may_get_one(it) && !served.contains(&it.name);
    let (wanting, leaving): (Vec<_>, Vec<_>) = members.iter().filter(waits).partition(|it| it.phase < Phase::Launched);
    let (alive, ending): (Vec<&Instance>, Vec<&Instance>) = free.into_iter().partition(|it| it.is_alive());
    let mut alive = alive.into_iter();
    let given: Vec<(&NodeClaim, &Instance)> = wanting.into_iter().zip(alive.by_ref()).collect();
    let rest: Vec<(&NodeClaim, &Instance)> = leaving.into_iter().zip(alive.chain(ending)).collect();
    for (claim, instance) in given.into_iter().chain(rest) {
        next.insert(instance.id.clone(), claim.name.clone());
    }
    (next != *owners).then_some(next)
}

/// The instance of a claim.
#[must_use]
pub fn owned_by<'a>(owners: &'a Owners, claim: &str) -> Option<&'a str> {
    owners.iter().find(|(_, owner)| *owner == claim).map(|(id, _)| id.as_str())
}

/// Whether a claim has this instance, or has none yet and can still take it.
pub(crate) fn may_take(claim: &NodeClaim, id: &str) -> bool {
    match &claim.status.instance {
        Some(own) => own.id == id,
        None => claim.phase != Phase::Gone,
    }
}

/// Whether a claim has no instance and may still get one.
#[must_use]
pub fn lacks_instance(claim: &NodeClaim) -> bool {
    claim.status.instance.is_none() && claim.phase != Phase::Gone
}

fn may_get_one(claim: &NodeClaim) -> bool {
    lacks_instance(claim) && !claim.status.launch_denied
}
