//! Launches for pods.

use super::facts::TimelineFacts;
use super::{EntryKind, TimelineEntry};
use crate::line::Target;
use crate::objects::claim::ClaimFacts;
use crate::text::{counted, dollars, span};
use jiff::{SignedDuration, Timestamp};
use nodeless_model::claim::condition;
use nodeless_model::labels;
use std::collections::BTreeSet;

/// NodeClaims of one kind that were created within this time are one launch.
const TOGETHER: SignedDuration = SignedDuration::from_secs(60);

/// The launches of the NodeClaims that exist, but of those that replace nodes.
pub(super) fn launches(facts: &TimelineFacts<'_>) -> Vec<TimelineEntry> {
    let mut claims: Vec<(Timestamp, &ClaimFacts)> = facts
        .claims
        .values()
        .filter(|claim| facts.replaced_by(&claim.name).is_none())
        .filter_map(|claim| Some((claim.created?, *claim)))
        .collect();
    claims.sort_by_key(|(time, claim)| (kind(claim), *time, claim.name.as_str()));
    let mut groups: Vec<Vec<(Timestamp, &ClaimFacts)>> = Vec::new();
    for (time, claim) in claims {
        match groups.last_mut() {
            Some(group)
                if group.first().is_some_and(|(first, one)| {
                    kind(one) == kind(claim) && time.duration_since(*first) <= TOGETHER
                }) =>
            {
                group.push((time, claim));
            }
            _ => groups.push(vec![(time, claim)]),
        }
    }
    groups.iter().filter_map(|group| launch(facts, group)).collect()
}

/// What the NodeClaims of one launch have in common.
fn kind(claim: &ClaimFacts) -> (Option<&str>, Option<&str>, Option<&str>) {
    (claim.node_pool.as_deref(), claim.label(labels::INSTANCE_TYPE), claim.label(labels::CAPACITY_TYPE))
}

fn launch(facts: &TimelineFacts<'_>, group: &[(Timestamp, &ClaimFacts)]) -> Option<TimelineEntry> {
    let (time, first) = group.first()?;
    let claims: Vec<&ClaimFacts> = group.iter().map(|(_, claim)| *claim).collect();
    let what = match (&claims[..], first.node_pool.as_deref()) {
        ([one], Some(pool)) => format!("NodeClaim {} of NodePool {pool}", one.name),
        ([one], None) => format!("NodeClaim {}", one.name),
        (all, pool) => format!("{} of NodePool {}", counted(all.len(), "NodeClaim"), pool.unwrap_or("-")),
    };
    let pods: BTreeSet<_> = claims.iter().filter_map(|claim| facts.pods_of(&claim.name)).flatten().collect();
    // Each was launched for a pod, but not every nomination has an Event.
    let why = match pods.len() {
        0 => String::new(),
        count if count < claims.len() => format!(", for {} or more", counted(claims.len(), "pod")),
        count => format!(", for {}", counted(count, "pod")),
    };
    Some(TimelineEntry {
        time: *time,
        kind: EntryKind::Launch,
        text: format!("{what}: {}{why}", offering(facts, &claims)),
        followed: followed(&claims),
        object: Some(object(facts, first)),
    })
}

/// The node of a NodeClaim, or the NodeClaim while there is none.
pub(super) fn object(facts: &TimelineFacts<'_>, claim: &ClaimFacts) -> Target {
    match facts.node_of(&claim.name) {
        Some(node) => Target::Node(node.name.clone()),
        None => Target::Claim(claim.name.clone()),
    }
}

/// Instance type, capacity type, zones and price: `m5.large spot in us-east-1a, $0.0379/h`.
pub(super) fn offering(facts: &TimelineFacts<'_>, claims: &[&ClaimFacts]) -> String {
    let values = |key: &str| -> String {
        let all: BTreeSet<&str> = claims.iter().filter_map(|claim| claim.label(key)).collect();
        all.into_iter().collect::<Vec<_>>().join(", ")
    };
    let (instance_type, capacity_type) = (values(labels::INSTANCE_TYPE), values(labels::CAPACITY_TYPE));
    if instance_type.is_empty() {
        return "not launched yet".to_owned();
    }
    let price: Option<f64> = claims.iter().map(|claim| facts.price(claim)).sum();
    let price = price.map(|price| format!(", {}", dollars(price))).unwrap_or_default();
    format!("{instance_type} {capacity_type} in {}{price}", values(labels::ZONE))
}

/// How far the NodeClaims are.
pub(super) fn followed(claims: &[&ClaimFacts]) -> Option<String> {
    let took = |claim: &&ClaimFacts| {
        let ready = claim.condition(condition::INITIALIZED).filter(|one| one.status == "True")?;
        Some(ready.last_transition_time?.duration_since(claim.created?).as_secs())
    };
    let took: Vec<i64> = claims.iter().filter_map(took).collect();
    let longest = span(took.iter().copied().max().unwrap_or_default());
    match (took.len(), claims) {
        (0, [one]) => one.missing().map(|(what, _)| format!("it waits for {what}")),
        (0, _) => Some("none is ready yet".to_owned()),
        (1, [_]) => Some(format!("ready after {longest}")),
        (ready, all) if ready == all.len() => Some(format!("all are ready, the last one after {longest}")),
        (ready, all) => Some(format!("{ready} of {} are ready", all.len())),
    }
}
