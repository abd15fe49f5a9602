//! Whose instance is whose in a launch group.
//!
//! One call launches the instances of all members, and EC2 does not report which instance is for which claim. So that
//! is decided here, once for each instance, and written to the record of the group before any claim takes its instance.
//! Entries are only added, and each write is conditional on the one before it: so every process, with any part of the
//! answer or of a list, finds the same owners.

use nodeless_model::{Instance, InstanceState, NodeClaim, Phase};
use std::collections::{BTreeMap, BTreeSet};

/// The claim of each instance of a group, by their names.
pub type Owners = BTreeMap<String, String>;

/// The owners when these instances were found too, or `None` if that changes nothing. `members` are the claims of the group that
/// there are, in the order of their places, and `owners` what was written until now.
///
/// 1. An instance that is on record of a claim is that claim's.
/// 2. An instance that has an owner keeps it for as long as there is a record of that claim.
/// 3. Every other instance, in the order of their ids, goes to the first claim that has none and may get one: those that want a
///    node come before those that leave, because an instance of a claim that leaves is terminated with it.
///
/// An instance that terminated is given to no claim that needs a node.
#[must_use]
pub fn assign(owners: &Owners, members: &[NodeClaim], found: &[Instance]) -> Option<Owners> {
    let mut next: Owners = owners.clone();
    for (name, id) in members.iter().filter_map(|member| Some((&member.name, &member.status.instance.as_ref()?.id))) {
        next.insert(id.clone(), name.clone());
    }
    let there: BTreeMap<&str, &NodeClaim> = members.iter().map(|it| (it.name.as_str(), it)).collect();
    let owned = |id: &str| {
        let owner = next.get(id).and_then(|owner| there.get(owner.as_str()));
        owner.is_some_and(|owner| may_take(owner, id))
    };
    let (mut free, served): (Vec<&Instance>, BTreeSet<String>) = (
        found.iter().filter(|it| it.state != InstanceState::Terminated && !owned(&it.id)).collect(),
        next.iter().filter(|(id, _)| owned(id)).map(|(_, owner)| owner.clone()).collect(),
    );
    free.sort_by(|a, b| a.id.cmp(&b.id));
    let waits = |it: &&NodeClaim| may_get_one(it) && !served.contains(&it.name);
    let (wanting, leaving): (Vec<_>, Vec<_>) = members.iter().filter(waits).partition(|it| it.phase == Phase::Reserved);
    let (alive, ending): (Vec<&Instance>, Vec<&Instance>) = free.into_iter().partition(|it| it.is_alive());
    let mut alive = alive.into_iter();
    let given: Vec<(&NodeClaim, &Instance)> = wanting.into_iter().zip(alive.by_ref()).collect();
    let rest: Vec<(&NodeClaim, &Instance)> = leaving.into_iter().zip(alive.chain(ending)).collect();
    for (claim, instance) in given.into_iter().chain(rest) {
        next.insert(instance.id.clone(), claim.name.clone());
    }
    (next != *owners).then_some(next)
}

/// The instance that is a claim's.
#[must_use]
pub fn owned_by<'a>(owners: &'a Owners, claim: &str) -> Option<&'a str> {
    owners.iter().find(|(_, owner)| *owner == claim).map(|(id, _)| id.as_str())
}

/// Whether a claim has this instance, or none yet and can still take it.
pub(crate) fn may_take(claim: &NodeClaim, id: &str) -> bool {
    match &claim.status.instance {
        Some(own) => own.id == id,
        None => claim.phase != Phase::Gone,
    }
}

fn may_get_one(claim: &NodeClaim) -> bool {
    claim.status.instance.is_none() && claim.phase != Phase::Gone && !claim.status.launch_denied
}
