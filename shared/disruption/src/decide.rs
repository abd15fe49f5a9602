//! The whole decision: the methods one after another, and what is left over.

use crate::budgets::Budgets;
use crate::candidates::{self, Eligible};
use crate::cluster::{Cluster, Options};
use crate::decision::{Command, Decision, Kept, KeptReason, Method, Replacement};
use crate::{drifted, emptiness, pods, simulation};
use jiff::Timestamp;
use nodeless_model::DisruptionReason;
use nodeless_model::object::PodRef;
use std::collections::{BTreeMap, BTreeSet};

/// Decides which nodes go by choice, and says why each other node of ours stays.
///
/// Empty nodes go first, all in one command as far as the budgets allow. Only when there is none is a drifted node
/// replaced. As in Karpenter one command comes at a time: the next decision sees what became of it.
#[must_use]
pub fn decide(input: &Cluster<'_>, now: Timestamp, options: &Options) -> Decision {
    let mut budgets = Budgets::of(input, now);
    let mut kept: BTreeMap<String, Vec<KeptReason>> = BTreeMap::new();
    let mut eligible: Vec<Eligible<'_, '_>> = Vec::new();
    let mut events = Vec::new();
    for node in input.nodes.iter().filter(|node| node.node_pool().is_some()) {
        events.extend(pods::annotation_events(&node.pods, now));
        match candidates::eligible(input, node, now) {
            Ok(one) => eligible.push(one),
            Err(why) => kept.entry(node.name().to_owned()).or_default().push(why),
        }
    }

    let wanted = simulation::wanted_nodes(input, options);
    let (emptied, reasons) = emptiness::find(input, &eligible, &wanted, &mut budgets, now);
    add(&mut kept, reasons);
    let drifted = drifted::drifted(input, &eligible, options, now);
    let command = match emptied {
        Some(command) => {
            let waiting =
                drifted.iter().map(|(one, drift)| (one.node.name.clone(), KeptReason::DriftWaits(drift.clone())));
            add(&mut kept, waiting);
            Some(command)
        }
        None => {
            let (command, reasons) = drifted::find(input, &drifted, options, &mut budgets, now);
            add(&mut kept, reasons);
            command
        }
    };

    for candidate in command.iter().flat_map(|command| &command.candidates) {
        kept.remove(&candidate.node);
    }
    events.append(&mut budgets.events);
    events.sort_by(|a, b| {
        let order = |event: &nodeless_model::object::ObjectEvent| {
            (
                event.object.kind.clone(),
                event.object.namespace.clone(),
                event.object.name.clone(),
                event.message.clone(),
            )
        };
        order(a).cmp(&order(b))
    });
    Decision {
        commands: command.into_iter().collect(),
        kept: kept.into_iter().map(|(node, reasons)| Kept { node, reasons }).collect(),
        events,
    }
}

/// What is left of a command on a fresh view of the cluster, at least [`crate::VALIDATION_DELAY`] after it was decided;
/// `None` when nothing is left, and it has to be dropped.
///
/// Of an emptiness command those nodes stay in it that are still empty. A drift command is replaced by what would be
/// decided now for the same nodes.
///
/// The view must not list the command itself as the one that disrupts its nodes.
#[must_use]
pub fn revalidate(command: &Command, input: &Cluster<'_>, now: Timestamp, options: &Options) -> Option<Command> {
    let fresh = decide(input, now, options).commands.into_iter().find(|fresh| fresh.method == command.method)?;
    let still: BTreeSet<&str> = fresh.candidates.iter().map(|candidate| candidate.node_claim.as_str()).collect();
    match command.method {
        Method::Emptiness => {
            let eligible = input.nodes.iter().filter_map(|node| candidates::eligible(input, node, now).ok());
            let mut left: Vec<Eligible<'_, '_>> = eligible
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
        Method::Drift => {
            let same = command.candidates.iter().all(|candidate| still.contains(candidate.node_claim.as_str()));
            same.then(|| Command { id: command.id.clone(), decided: command.decided, ..fresh })
        }
    }
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
    let removed: f64 = nodes.iter().map(Eligible::price).sum();
    let added: f64 = replacements.iter().map(|replacement| replacement.launch.offering.price).sum();
    let first = candidates.first().map_or("", |candidate| candidate.node_claim.as_str());
    let method_name = match method {
        Method::Emptiness => "emptiness",
        Method::Drift => "drift",
    };
    Command {
        // A claim is in one command at a time, so its name and the time tell commands apart.
        id: format!("{method_name}-{first}-{}", now.as_second()),
        method,
        reason,
        candidates,
        replacements,
        savings_per_hour: removed - added,
        evictions,
        decided: now,
    }
}

fn add(kept: &mut BTreeMap<String, Vec<KeptReason>>, reasons: impl IntoIterator<Item = (String, KeptReason)>) {
    for (node, reason) in reasons {
        kept.entry(node).or_default().push(reason);
    }
}
