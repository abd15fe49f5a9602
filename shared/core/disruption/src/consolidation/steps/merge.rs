//! Replaces a node together with the nodes whose pods move to it.
//!
//! `removal` moves the pods of nodes to another node, and the next decision may find that a cheaper node holds all pods of that node. The
//! pods that moved to it would then be evicted twice. One command that removes all of these nodes leads to the same nodes, and evicts
//! each pod once.

use super::single::{accept, worth_asking};
use crate::consolidation::replacement;
use crate::consolidation::round::Round;
use crate::consolidation::trial::Verdict;
use crate::consolidation::{Candidate, State};
use crate::output::Command;
use crate::policy::budgets::Budgets;
use crate::reasons::KeptReason;
use crate::simulation::packed::{Mover, Moves, Scope};
use nodeless_model::hashed::HashMap;
use nodeless_model::{CapacityType, DisruptionReason};
use std::collections::BTreeSet;

/// The maximum number of nodes of a command, as for groups.
const MAX_NODES_PER_COMMAND: usize = 24;

/// Replaces each node to which commands move pods, together with the nodes of these commands, if it can be replaced with all pods.
pub(crate) fn run(round: &mut Round<'_, '_, '_>, budgets: &mut Budgets) {
    // Pods that are only planned are not evicted.
    if round.planned || leaves_some_for_later(round) {
        return;
    }
    let mut arrivals = Arrivals::new(round);
    for into in 0..round.candidates.len() {
        let pool = round.candidates[into].one.offer.pool;
        if budgets.check(&pool.name, DisruptionReason::Underutilized).is_err() {
            continue;
        }
        let Some(members) = arrivals.members(&round.candidates[into]) else { continue };
        if replace(round, into, &members, &arrivals).is_ok() {
            // The budget was checked above, and is unchanged since.
            let _taken = budgets.take(&pool.name, DisruptionReason::Underutilized);
            if let Some(command) = round.commands.last() {
                arrivals.add(command, &members.into_iter().chain([into]).collect());
            }
        }
    }
}

/// The moves of all commands.
#[derive(Default)]
struct Arrivals {
    /// The nodes by name.
    leaves: HashMap<String, usize>,
    /// The target node of each pod.
    to: HashMap<String, usize>,
    /// The candidates of the commands that move pods to a node.
    members: HashMap<usize, BTreeSet<usize>>,
    /// The candidates of commands that launch nodes.
    launching: BTreeSet<usize>,
}

impl Arrivals {
    fn new(round: &Round<'_, '_, '_>) -> Self {
        let nodes = round.packed.problem.nodes.iter().enumerate();
        let leaves = nodes.map(|(leaf, node)| (node.name.clone(), leaf)).collect();
        let mut arrivals = Self { leaves, ..Self::default() };
        let candidates = round.candidates.iter().enumerate();
        let places: HashMap<&str, usize> =
            candidates.map(|(place, candidate)| (candidate.one.node.name.as_str(), place)).collect();
        for command in &round.commands {
            let removed = command.candidates.iter().filter_map(|one| places.get(one.node.as_str()).copied());
            arrivals.add(command, &removed.collect());
        }
        arrivals
    }

    /// Adds a command that removes these candidates.
    fn add(&mut self, command: &Command, removed: &BTreeSet<usize>) {
        for placement in &command.placements {
            let Some(leaf) = self.leaves.get(&placement.node) else { continue };
            self.to.insert(placement.pod.clone(), *leaf);
            self.members.entry(*leaf).or_default().extend(removed);
        }
        if !command.replacements.is_empty() {
            self.launching.extend(removed);
        }
    }

    /// The candidates of the commands that move pods to a candidate; `None` without such commands, or if they launch nodes.
    fn members(&self, candidate: &Candidate<'_, '_>) -> Option<Vec<usize>> {
        let members = self.members.get(&candidate.leaf).filter(|_| candidate.state == State::Stays)?;
        let few = members.len() < MAX_NODES_PER_COMMAND && members.is_disjoint(&self.launching);
        few.then(|| members.iter().copied().collect())
    }

    /// The pods of these candidates, and their moves: indices of pods and of nodes.
    fn moves<'a>(&self, round: &Round<'_, 'a, '_>, members: &[usize]) -> (Vec<Mover<'a>>, Vec<(usize, usize)>) {
        let moving: Vec<Mover<'a>> =
            members.iter().flat_map(|place| &round.candidates[*place].movers).copied().collect();
        let moves = moving.iter().enumerate();
        let moves = moves.filter_map(|(place, mover)| Some((place, *self.to.get(&mover.pod.key())?))).collect();
        (moving, moves)
    }
}

/// Whether budgets or the work limit leave nodes for later decisions. These may move their pods to the same nodes, so it is not known
/// what such a node has to hold.
fn leaves_some_for_later(round: &Round<'_, '_, '_>) -> bool {
    let later = |why: &KeptReason| matches!(why, KeptReason::Budget { .. } | KeptReason::NotEvaluated);
    round.candidates.iter().any(|candidate| candidate.reasons.iter().any(later))
}

fn moves_to(command: &Command, node: &str) -> bool {
    command.placements.iter().any(|placement| placement.node == node)
}

fn replace(
    round: &mut Round<'_, '_, '_>,
    into: usize,
    members: &[usize],
    arrivals: &Arrivals,
) -> Result<(), KeptReason> {
    round.has_work_left()?;
    let leaf = round.candidates[into].leaf;
    let (moving, moved) = arrivals.moves(round, members);
    if all_fit_without(round, into, &moving, &moved)? {
        return Err(KeptReason::NoReplacement);
    }
    let arriving = moved.iter().filter(|(_, to)| *to == leaf).map(|(mover, _)| &moving[*mover]);
    let mut movers: Vec<Mover<'_>> = round.candidates[into].movers.iter().chain(arriving).copied().collect();
    round.largest_first(&mut movers);
    round.close(into);
    let outcome = round.place(&movers, false).and_then(|moves| match decide(round, into, members, &movers, &moves) {
        Ok(verdict) => {
            round.conclude(&[into], &movers, &moves, verdict);
            round.join(members, into);
            Ok(())
        }
        Err(why) => {
            round.packed.undo(&movers, &moves);
            Err(why)
        }
    });
    if outcome.is_err() {
        round.reopen(into);
    }
    outcome
}

/// Whether all pods of the nodes fit elsewhere if they are placed again: a command that launches a node for them would be dropped when it
/// is validated.
fn all_fit_without<'a>(
    round: &mut Round<'_, 'a, '_>,
    into: usize,
    moving: &[Mover<'a>],
    moved: &[(usize, usize)],
) -> Result<bool, KeptReason> {
    let mut all: Vec<Mover<'a>> = round.candidates[into].movers.iter().chain(moving).copied().collect();
    round.largest_first(&mut all);
    let before = Moves { placed: moved.to_vec(), left: Vec::new() };
    round.packed.undo(moving, &before);
    round.close(into);
    let moves = round.place(&all, false);
    if let Ok(moves) = &moves {
        round.packed.undo(&all, moves);
    }
    round.reopen(into);
    round.packed.apply(moving, moved);
    moves.map(|moves| moves.left.is_empty())
}

/// Where all pods of the candidate fit for less, by the rules for one node: the pods that are evicted in addition to those that move
/// anyway are its own.
fn decide<'a>(
    round: &mut Round<'_, 'a, '_>,
    into: usize,
    members: &[usize],
    movers: &[Mover<'a>],
    moves: &Moves,
) -> Result<Verdict, KeptReason> {
    if moves.left.is_empty() {
        // The next decision may remove it.
        return Err(KeptReason::NoReplacement);
    }
    let spot = round.candidates[into].capacity_type == CapacityType::Spot;
    if spot && !round.options.spot_to_spot && !round.node_prices.has_reservations() {
        return Err(KeptReason::SpotToSpotOff);
    }
    worth_asking(round, into, movers, moves)?;
    let scope = movers.iter().map(|mover| round.packed.scope(mover)).max().unwrap_or(Scope::Small);
    let verdict = round.ask(movers, moves, scope, true)?;
    let verdict = accept(round, &[into], movers, verdict)?;
    let verdict = by_the_rules_for_several(round, into, members, verdict)?;
    round.check_zones(movers, &verdict)?;
    // The pods of the other commands wait already.
    let own = round.candidates[into].movers.clone();
    round.predict(&[into], &own, &verdict.launches, true)?;
    Ok(verdict)
}

/// Whether the nodes of the command are replaced by no node of the type of one of them, unless it is cheaper, and save enough.
fn by_the_rules_for_several(
    round: &Round<'_, '_, '_>,
    into: usize,
    members: &[usize],
    mut verdict: Verdict,
) -> Result<Verdict, KeptReason> {
    let candidates: Vec<_> = members.iter().chain([&into]).map(|place| &round.candidates[*place]).collect();
    let (offers, spot_to_spot) = (&round.node_prices.offers, round.options.spot_to_spot);
    verdict.launches = replacement::cheaper(&candidates, verdict.launches, offers, spot_to_spot)?;
    let removed: f64 = candidates.iter().map(|candidate| candidate.price).sum();
    let added: f64 = verdict.launches.iter().map(|launch| launch.offering.price).sum();
    let (saving, min_saving) = (removed - added, removed * round.options.min_saving);
    if saving < min_saving { Err(KeptReason::SavingTooSmall { saving, min_saving }) } else { Ok(verdict) }
}

impl Round<'_, '_, '_> {
    /// Joins the last command, which removes a candidate, with those that move pods to that candidate.
    fn join(&mut self, members: &[usize], into: usize) {
        let Some(last) = self.commands.pop() else { return };
        let node = self.candidates[into].one.node.name.as_str();
        let joined = |command: &Command| moves_to(command, node);
        let (earlier, mut commands): (Vec<Command>, Vec<Command>) =
            std::mem::take(&mut self.commands).into_iter().partition(joined);
        let places: Vec<usize> = members.iter().copied().chain([into]).collect();
        let savings = earlier.iter().chain([&last]).map(|command| command.savings_per_hour).sum();
        let elsewhere =
            earlier.iter().flat_map(|command| &command.placements).filter(|placement| placement.node != node);
        let mut placements: Vec<_> = elsewhere.chain(&last.placements).cloned().collect();
        placements.sort();
        let command = self.command_of(&places, last.replacements, savings);
        let old: Vec<&str> = earlier.iter().map(|command| command.id.as_str()).chain([last.id.as_str()]).collect();
        for candidate in &mut self.candidates {
            for why in &mut candidate.reasons {
                if matches!(why, KeptReason::Receives(id) if old.contains(&id.as_str())) {
                    *why = KeptReason::Receives(command.id.clone());
                }
            }
        }
        commands.push(Command { placements, ..command });
        self.commands = commands;
    }
}
