//! The whole decision: the methods one after another, and what is left over.

use crate::budgets::Budgets;
use crate::candidates::{Eligible, Lookup, unsettled};
use crate::cluster::{Cluster, Options};
use crate::decision::{Command, Decision, Kept, Method, Replacement};
use crate::drift::Drift;
use crate::pods::Guards;
use crate::reasons::KeptReason;
use crate::simulation::Expected;
use crate::{consolidation, drifted, emptiness, faults, pods, static_drift};
use jiff::Timestamp;
use nodeless_model::DisruptionReason;
use nodeless_model::object::PodRef;
use std::collections::{BTreeMap, BTreeSet};

/// Decides which nodes go by choice, and says why each other node of ours stays.
///
/// The methods come in Karpenter's order, and the first that finds something to do is the only one: empty nodes, all in
/// one command as far as the budgets allow; drifted nodes of static NodePools; the first drifted node of the others that
/// can be replaced; then consolidation, as many commands as do not get in each other's way.
#[must_use]
pub fn decide(input: &Cluster<'_>, now: Timestamp, options: &Options) -> Decision {
    let mut budgets = Budgets::of(input, now);
    let guards = Guards::of(input.disruption_budgets);
    let lookup = Lookup::of(input);
    let mut kept: BTreeMap<String, Vec<KeptReason>> = BTreeMap::new();
    let mut eligible: Vec<Eligible<'_, '_>> = Vec::new();
    for node in input.nodes.iter().filter(|node| node.node_pool().is_some()) {
        match lookup.eligible(node, now) {
            Ok(one) => eligible.push(one),
            Err(why) => kept.entry(node.name().to_owned()).or_default().push(why),
        }
    }

    let expected = Expected::of(input, options);
    let mut movable = Vec::new();
    for one in &eligible {
        let reasons = unsettled(one, &expected, &guards, options.explain, now);
        if reasons.is_empty() {
            movable.push(*one);
        } else {
            kept.entry(one.node.name.clone()).or_default().extend(reasons);
        }
    }
    let (empty, full): (Vec<_>, Vec<_>) = movable.into_iter().partition(|one| pods::is_empty(&one.of.pods));
    let (emptied, reasons) = emptiness::find(empty, &mut budgets, now);
    add(&mut kept, reasons);
    let mut commands: Vec<Command> = emptied.into_iter().collect();

    let drifted = drifted::drifted(input, &eligible, options, now);
    if commands.is_empty() {
        commands = replace_drifted(input, &drifted, &guards, &mut budgets, options, now, &mut kept);
    } else {
        add(&mut kept, waiting(&drifted));
    }

    if options.explain {
        tell_drift(&drifted, &mut kept);
    }

    let mut not_looked_at = BTreeSet::new();
    if commands.is_empty() {
        let found = consolidation::find(input, &full, &lookup, &expected, &mut budgets, options, now);
        for (node, reasons) in found.kept {
            kept.entry(node).or_default().extend(reasons);
        }
        commands = found.commands;
        not_looked_at = found.not_looked_at;
    } else {
        for one in full {
            let reasons = kept.entry(one.node.name.clone()).or_default();
            if reasons.is_empty() {
                reasons.push(KeptReason::ConsolidationWaits);
            }
        }
    }

    for candidate in commands.iter().flat_map(|command| &command.candidates) {
        kept.remove(&candidate.node);
    }
    Decision {
        commands,
        kept: kept.into_iter().map(|(node, reasons)| Kept { node, reasons }).collect(),
        not_looked_at,
        events: faults::events(input, &budgets, now),
    }
}

fn replace_drifted(
    input: &Cluster<'_>,
    drifted: &[(&Eligible<'_, '_>, Drift)],
    guards: &Guards<'_>,
    budgets: &mut Budgets,
    options: &Options,
    now: Timestamp,
    kept: &mut BTreeMap<String, Vec<KeptReason>>,
) -> Vec<Command> {
    let (fixed, others): (Vec<_>, Vec<_>) = drifted.iter().cloned().partition(|(one, _)| one.is_static());
    let (commands, reasons) = static_drift::find(input, &fixed, guards, options, budgets, now);
    add(kept, reasons);
    if !commands.is_empty() {
        add(kept, waiting(&others));
        return commands;
    }
    let (command, reasons) = drifted::find(input, &others, guards, options, budgets, now);
    add(kept, reasons);
    command.into_iter().collect()
}

/// Says of drifted nodes that a budget keeps how they drifted.
fn tell_drift(drifted: &[(&Eligible<'_, '_>, Drift)], kept: &mut BTreeMap<String, Vec<KeptReason>>) {
    let of_drift = |why: &KeptReason| matches!(why, KeptReason::Budget { reason: DisruptionReason::Drifted, .. });
    for (one, drift) in drifted {
        if let Some(reasons) = kept.get_mut(&one.node.name)
            && let Some(place) = reasons.iter().position(of_drift)
        {
            reasons.insert(place, KeptReason::Drifted(drift.clone()));
        }
    }
}

fn waiting(drifted: &[(&Eligible<'_, '_>, Drift)]) -> Vec<(String, KeptReason)> {
    drifted.iter().map(|(one, drift)| (one.node.name.clone(), KeptReason::DriftWaits(drift.clone()))).collect()
}

/// What is left of a command on a fresh view of the cluster, at least [`crate::VALIDATION_DELAY`] after it was decided;
/// `None` when nothing is left, and it has to be dropped.
///
/// Of an emptiness command those nodes stay in it that are still empty. A drift command is replaced by what would be
/// decided now for the same nodes. A consolidation command stands if all its nodes may still go, within the budgets, and
/// their pods still need just the new nodes that it launches, for less; where its pods go is said afresh.
///
/// The view must not list the command itself as the one that disrupts its nodes.
#[must_use]
pub fn revalidate(command: &Command, input: &Cluster<'_>, now: Timestamp, options: &Options) -> Option<Command> {
    if command.method.is_consolidation() {
        return consolidation::still_right(command, input, now, options);
    }
    let fresh = decide(input, now, options).commands;
    let fresh: Vec<Command> = fresh.into_iter().filter(|fresh| fresh.method == command.method).collect();
    if command.method == Method::Emptiness {
        return emptied_still(command, &fresh, input, now);
    }
    let wanted: BTreeSet<&str> = command.candidates.iter().map(|one| one.node_claim.as_str()).collect();
    let covers = |fresh: &Command| {
        let still: BTreeSet<&str> = fresh.candidates.iter().map(|one| one.node_claim.as_str()).collect();
        wanted.is_subset(&still)
    };
    let fresh = fresh.into_iter().find(covers)?;
    Some(Command { id: command.id.clone(), decided: command.decided, ..fresh })
}

fn emptied_still(command: &Command, fresh: &[Command], input: &Cluster<'_>, now: Timestamp) -> Option<Command> {
    let still: BTreeSet<&str> =
        fresh.iter().flat_map(|fresh| &fresh.candidates).map(|candidate| candidate.node_claim.as_str()).collect();
    let lookup = Lookup::of(input);
    let mut left: Vec<Eligible<'_, '_>> = input
        .nodes
        .iter()
        .filter_map(|node| lookup.eligible(node, now).ok())
        .filter(|one| {
            let name = one.claim.name.as_str();
            still.contains(name) && command.candidates.iter().any(|candidate| candidate.node_claim == name)
        })
        .collect();
    left.sort_by(|a, b| a.node.name.cmp(&b.node.name));
    let again = (!left.is_empty())
        .then(|| self::command(command.method, command.reason, &left, Vec::new(), command.decided))?;
    Some(Command { id: command.id.clone(), ..again })
}

/// A command that removes these nodes.
pub(crate) fn command(
    method: Method,
    reason: DisruptionReason,
    nodes: &[Eligible<'_, '_>],
    replacements: Vec<Replacement>,
    now: Timestamp,
) -> Command {
    let mut candidates: Vec<_> = nodes.iter().map(Eligible::candidate).collect();
    candidates.sort();
    let mut evictions: Vec<PodRef> =
        nodes.iter().flat_map(|one| pods::reschedulable(&one.of.pods)).map(PodRef::from).collect();
    evictions.sort();
    let removed: f64 = nodes.iter().map(|one| one.price).sum();
    let added: f64 = replacements.iter().map(|replacement| replacement.launch.offering.price).sum();
    let first = candidates.first().map_or("", |candidate| candidate.node_claim.as_str());
    Command {
        // A claim is in one command at a time, so its name and the time tell commands apart.
        id: format!("{}-{first}-{}", method.as_str(), now.as_second()),
        method,
        reason,
        candidates,
        replacements,
        savings_per_hour: removed - added,
        evictions,
        placements: Vec::new(),
        score: None,
        decided: now,
    }
}

fn add(kept: &mut BTreeMap<String, Vec<KeptReason>>, reasons: impl IntoIterator<Item = (String, KeptReason)>) {
    for (node, reason) in reasons {
        kept.entry(node).or_default().push(reason);
    }
}
