//! The step of a command: from the record and the observation to the next record and effects.

use super::{CommandPhase, CommandRecord, events};
use crate::output::Candidate;
use jiff::Timestamp;
use nodeless_model::object::ObjectEvent;
use nodeless_model::{NodeClaim, Phase};
use std::collections::BTreeMap;

/// When a command may start after its validation, and when a command without replacements may be executed.
const STILL_RIGHT: std::time::Duration = std::time::Duration::from_secs(30);

/// The observation of a step. All of it was read: no step is based on a partial snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// All claims, by name.
    pub claims: &'a BTreeMap<String, NodeClaim>,
    /// All nodes, by name, and whether they have the taint `karpenter.sh/disrupted`.
    pub tainted: &'a BTreeMap<String, bool>,
    /// The NodePools for which voluntary disruption is paused or waits for a maintenance window, each with the reason.
    pub paused: &'a BTreeMap<String, String>,
    /// Why the command waits: an object of the cluster that may forbid it cannot be decoded. It may still be rolled back, and is once
    /// its deadline has passed.
    pub blocked: Option<&'a str>,
}

/// The next actions for a command.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandStep {
    /// The next record, to be written before the effects are executed; `None` if the command has ended and its record is deleted.
    pub record: Option<CommandRecord>,
    /// The effects, in order, up to the first that fails.
    pub effects: Vec<CommandEffect>,
    /// The events to publish.
    pub events: Vec<ObjectEvent>,
    /// The outcome, if the command ended.
    pub outcome: Option<CommandOutcome>,
}

/// An effect of a command. Repeating it has no further effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandEffect {
    /// Write the command's id to a claim, unless the claim changed meanwhile. Lifecycle then taints its node.
    Take {
        /// The claim.
        claim: String,
    },
    /// Write the claim of a replacement, which is then launched. If it is rejected, the command is rolled back.
    Launch {
        /// The index into [`CommandRecord::replacements`].
        replacement: usize,
    },
    /// Terminate a claim.
    Terminate {
        /// The claim.
        claim: String,
    },
    /// Remove the command's id from a claim. Lifecycle then removes the taint from its node.
    Release {
        /// The claim.
        claim: String,
    },
}

/// The outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandOutcome {
    /// The candidates are terminated.
    Done,
    /// The command was rolled back.
    RolledBack,
}

/// The state of a candidate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// No command has taken it.
    Free,
    /// The command has taken it.
    Taken,
    /// The claim is terminating or gone, or another command has taken it.
    Lost,
}

/// The next step of a command. It is pure. A proposal only waits: see [`CommandRecord::confirm`].
///
/// ```
/// use jiff::Timestamp;
/// use nodeless_disruption::command::{CommandEffect, CommandPhase, CommandRecord, Surroundings, step};
/// use nodeless_disruption::{Candidate, Command, Method};
/// use nodeless_model::{DisruptionReason, NodeClaim, Phase};
/// use std::collections::BTreeMap;
///
/// // A command that removes one empty node was validated: without replacements it drains the node next.
/// let candidate =
///     Candidate { node: "ip-10-0-0-1".into(), node_claim: "default-abcde".into(), node_pool: "default".into() };
/// let command = Command {
///     id: "emptiness-1".into(),
///     method: Method::Emptiness,
///     reason: DisruptionReason::Empty,
///     candidates: vec![candidate],
/// #     replacements: Vec::new(),
/// #     savings_per_hour: 0.2,
/// #     evictions: Vec::new(),
/// #     placements: Vec::new(),
/// #     score: None,
/// #     drains_first: false,
/// #     zones: None,
/// #     repair: None,
///     decided: Timestamp::UNIX_EPOCH,
/// };
/// let now = Timestamp::from_second(20).unwrap();
/// let record = CommandRecord::propose(command.clone()).confirm(command, Vec::new(), 1, now);
/// assert_eq!(record.phase, CommandPhase::Draining);
///
/// let claim = NodeClaim {
///     name: "default-abcde".into(),
///     node_pool: Some("default".into()),
///     created: Timestamp::UNIX_EPOCH,
///     phase: Phase::Initialized,
/// #     uid: "uid".into(),
/// #     node_class: "default".into(),
/// #     version: 1,
/// #     spec: Default::default(),
/// #     status: Default::default(),
/// };
/// let claims = BTreeMap::from([(claim.name.clone(), claim)]);
/// let tainted = BTreeMap::from([("ip-10-0-0-1".to_owned(), false)]);
/// let seen = Surroundings { claims: &claims, tainted: &tainted, paused: &BTreeMap::new(), blocked: None };
/// let next = step(&record, seen, now);
/// assert_eq!(next.effects, [CommandEffect::Terminate { claim: "default-abcde".into() }]);
/// ```
#[must_use]
pub fn step(record: &CommandRecord, seen: Surroundings<'_>, now: Timestamp) -> CommandStep {
    if record.phase.may_be_taken_back()
        && let Some(why) = paused(record, seen)
    {
        return to(record.roll_back(why, now));
    }
    match record.phase {
        CommandPhase::Proposed => stay(record),
        CommandPhase::Tainting | CommandPhase::Launching | CommandPhase::Waiting if seen.blocked.is_some() => {
            too_late(record, now).map_or_else(|| stay(record), |why| to(record.roll_back(why, now)))
        }
        CommandPhase::Tainting => tainting(record, seen, now),
        CommandPhase::Launching => launching(record, seen, now),
        CommandPhase::Waiting => waiting(record, seen, now),
        CommandPhase::Draining => draining(record, seen, now),
        CommandPhase::RollingBack => rolling_back(record, seen),
    }
}

fn tainting(record: &CommandRecord, seen: Surroundings<'_>, now: Timestamp) -> CommandStep {
    let lost = record.candidates().iter().find(|candidate| standing(record, candidate, seen) == Standing::Lost);
    if let Some(lost) = lost {
        let why = format!(
            "NodeClaim {} terminated or was taken by another command before it could be replaced",
            lost.node_claim
        );
        return to(record.roll_back(why, now));
    }
    // Nothing was changed for it yet, and pods may have been scheduled to its nodes since.
    let untouched = record.candidates().iter().all(|candidate| standing(record, candidate, seen) == Standing::Free);
    let left = if untouched { left_too_long(record, now) } else { None };
    if let Some(why) = left.or_else(|| too_late(record, now)) {
        return to(record.roll_back(why, now));
    }
    let free = record.candidates().iter().filter(|candidate| standing(record, candidate, seen) == Standing::Free);
    let effects: Vec<CommandEffect> =
        free.map(|candidate| CommandEffect::Take { claim: candidate.node_claim.clone() }).collect();
    if !effects.is_empty() {
        return act(record, effects);
    }
    if record.candidates().iter().any(|candidate| seen.tainted.get(&candidate.node) != Some(&true)) {
        return stay(record);
    }
    to(CommandRecord { phase: CommandPhase::Launching, since: now, ..record.clone() })
}

fn launching(record: &CommandRecord, seen: Surroundings<'_>, now: Timestamp) -> CommandStep {
    if let Some(why) = failed_replacement(record, seen).or_else(|| too_late(record, now)) {
        return to(record.roll_back(why, now));
    }
    let missing = |(_, claim): &(usize, &NodeClaim)| !seen.claims.contains_key(&claim.name);
    let effects: Vec<CommandEffect> = record
        .replacements
        .iter()
        .enumerate()
        .filter(missing)
        .map(|(replacement, _)| CommandEffect::Launch { replacement })
        .collect();
    if !effects.is_empty() {
        return act(record, effects);
    }
    let mut next = to(CommandRecord { phase: CommandPhase::Waiting, since: now, ..record.clone() });
    next.events = events::launching(record);
    next
}

fn waiting(record: &CommandRecord, seen: Surroundings<'_>, now: Timestamp) -> CommandStep {
    if let Some(why) = missing_replacement(record, seen).or_else(|| failed_replacement(record, seen)) {
        return to(record.roll_back(why, now));
    }
    if unready(record, seen).is_none() {
        return to(CommandRecord { phase: CommandPhase::Draining, since: now, ..record.clone() });
    }
    if let Some(why) = too_late(record, now) {
        return to(record.roll_back(why, now));
    }
    CommandStep { events: events::waiting(record), ..stay(record) }
}

fn draining(record: &CommandRecord, seen: Surroundings<'_>, now: Timestamp) -> CommandStep {
    let left: Vec<&Candidate> =
        record.candidates().iter().filter(|candidate| standing(record, candidate, seen) != Standing::Lost).collect();
    if left.is_empty() {
        let released = releases(record, seen);
        if !released.is_empty() {
            return act(record, released);
        }
        return CommandStep { record: None, outcome: Some(CommandOutcome::Done), ..stay(record) };
    }
    // A record in this phase may be old: its basis is checked again before each node.
    let wrong = missing_replacement(record, seen).or_else(|| unready(record, seen)).or_else(|| outdated(record, now));
    let wrong = wrong.or_else(|| seen.blocked.and_then(|_| too_late(record, now)));
    if let Some(why) = wrong {
        return to(record.roll_back(why, now));
    }
    if seen.blocked.is_some() {
        return stay(record);
    }
    let effects =
        left.iter().map(|candidate| CommandEffect::Terminate { claim: candidate.node_claim.clone() }).collect();
    let reported = left.iter().flat_map(|candidate| events::terminating(record, candidate)).collect();
    CommandStep { events: reported, ..act(record, effects) }
}

fn rolling_back(record: &CommandRecord, seen: Surroundings<'_>) -> CommandStep {
    let effects = releases(record, seen);
    if effects.is_empty() {
        return CommandStep { record: None, outcome: Some(CommandOutcome::RolledBack), ..stay(record) };
    }
    let why = record.failure.as_deref().unwrap_or("the command failed");
    let reported = record.candidates().iter().filter(|candidate| is_held(record, candidate, seen));
    CommandStep {
        events: reported.flat_map(|candidate| events::failed(candidate, why)).collect(),
        ..act(record, effects)
    }
}

/// Releases the claims that the command has taken and that stay.
fn releases(record: &CommandRecord, seen: Surroundings<'_>) -> Vec<CommandEffect> {
    let held = record.candidates().iter().filter(|candidate| is_held(record, candidate, seen));
    held.map(|candidate| CommandEffect::Release { claim: candidate.node_claim.clone() }).collect()
}

fn is_held(record: &CommandRecord, candidate: &Candidate, seen: Surroundings<'_>) -> bool {
    seen.claims.get(&candidate.node_claim).is_some_and(|claim| {
        !claim.phase.is_leaving() && claim.status.command.as_deref() == Some(record.command.id.as_str())
    })
}

fn standing(record: &CommandRecord, candidate: &Candidate, seen: Surroundings<'_>) -> Standing {
    let Some(claim) = seen.claims.get(&candidate.node_claim) else { return Standing::Lost };
    if claim.phase.is_leaving() || !seen.tainted.contains_key(&candidate.node) {
        return Standing::Lost;
    }
    match &claim.status.command {
        None => Standing::Free,
        Some(id) if *id == record.command.id => Standing::Taken,
        Some(_) => Standing::Lost,
    }
}

fn missing_replacement(record: &CommandRecord, seen: Surroundings<'_>) -> Option<String> {
    let missing = record.replacements.iter().find(|claim| !seen.claims.contains_key(&claim.name))?;
    Some(format!("its replacement, NodeClaim {}, is gone", missing.name))
}

fn failed_replacement(record: &CommandRecord, seen: Surroundings<'_>) -> Option<String> {
    let failed = record.replacements.iter().find_map(|claim| {
        let present = seen.claims.get(&claim.name)?;
        // A claim with the same name that was not created for the command is not a replacement.
        (present.phase.is_leaving() || present.uid != claim.uid).then_some(present)
    })?;
    let why = failed.status.termination.as_ref().map_or("it was deleted", |end| end.message.as_str());
    Some(format!("its replacement, NodeClaim {}, failed: {why}", failed.name))
}

fn unready(record: &CommandRecord, seen: Surroundings<'_>) -> Option<String> {
    let not_ready = record.replacements.iter().find(|claim| {
        seen.claims
            .get(&claim.name)
            .is_none_or(|present| present.phase != Phase::Initialized || present.uid != claim.uid)
    })?;
    Some(format!("its replacement, NodeClaim {}, is not initialized", not_ready.name))
}

/// Nodes without replacements are not tainted before they are terminated, so pods may have been scheduled there since
/// the validation.
fn outdated(record: &CommandRecord, now: Timestamp) -> Option<String> {
    if record.replacements.is_empty() { left_too_long(record, now) } else { None }
}

fn left_too_long(record: &CommandRecord, now: Timestamp) -> Option<String> {
    let age = std::time::Duration::try_from(now.duration_since(record.since)).unwrap_or_default();
    (age > STILL_RIGHT).then(|| format!("it made no progress for {} s and may be outdated", age.as_secs()))
}

/// Why candidates that are not terminating yet have to stay, if disruption is paused. A pause keeps no unhealthy node.
fn paused(record: &CommandRecord, seen: Surroundings<'_>) -> Option<String> {
    if record.command.repair.is_some() {
        return None;
    }
    let staying = record.candidates().iter().filter(|candidate| standing(record, candidate, seen) != Standing::Lost);
    let mut held = staying.filter_map(|candidate| seen.paused.get_key_value(&candidate.node_pool));
    held.next().map(|(pool, why)| format!("disruption of NodePool {pool} stops: {why}"))
}

fn too_late(record: &CommandRecord, now: Timestamp) -> Option<String> {
    let deadline = record.deadline.filter(|deadline| now >= *deadline)?;
    Some(format!("its replacements were not initialized by {deadline:.0}"))
}

fn stay(record: &CommandRecord) -> CommandStep {
    CommandStep { record: Some(record.clone()), effects: Vec::new(), events: Vec::new(), outcome: None }
}

fn to(record: CommandRecord) -> CommandStep {
    CommandStep { record: Some(record), effects: Vec::new(), events: Vec::new(), outcome: None }
}

fn act(record: &CommandRecord, effects: Vec<CommandEffect>) -> CommandStep {
    CommandStep { effects, ..stay(record) }
}
