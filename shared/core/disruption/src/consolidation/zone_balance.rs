//! Zone balance: replaces one node with pods of which more run in its zone than their topology spread allows.
//!
//! It runs if no other method proposes a command, on nodes that may be consolidated and whose NodePool has the annotation
//! [`crate::BALANCE_ZONES`]. All pods of the node move, with their spread over zones as required. The move has to lower the number of pods
//! above their spread, where the plan places the pods and in each order in which the kube-scheduler is predicted to bind them; no
//! constraint may get worse, and it may cost no more than the annotation allows. Consolidation keeps what it achieves (`zone_guard`), so
//! the two come to rest: each command of zone balance lowers the number of pods above their spread, which no command of consolidation
//! raises, and each command of consolidation lowers the price.

use super::prediction::Prediction;
use super::round::{self, Round, Setting};
use super::steps::single::lighter;
use super::trial::Verdict;
use super::zone_guard::ZoneGuard;
use super::{priced, replacement};
use crate::candidates::{self, Eligible, Lookup};
use crate::cluster::Options;
use crate::method::{DisruptionMethod, Progress};
use crate::output::{Command, Method, PodPlacement, ZoneMove};
use crate::policy::balance_zones::balanced;
use crate::reasons::KeptReason;
use crate::simulation::preferences;
use nodeless_model::DisruptionReason;
use nodeless_model::hashed::HashSet;
use nodeless_scheduling::{ZoneChanges, ZoneSpreadId};
use std::collections::BTreeMap;

/// The difference of prices, in dollars per hour, that counts as rounding: prices have millionths.
const ROUNDING: f64 = 1e-7;

/// Zone balance of nodes that pods need.
pub(crate) struct ZoneBalance<'c, 'a>(pub(crate) Vec<Eligible<'c, 'a>>);

impl<'a> DisruptionMethod<'a> for ZoneBalance<'_, 'a> {
    /// One command at most. One is in progress at a time, because pods of one workload run in several NodePools.
    fn propose(&self, progress: &mut Progress<'_, 'a>) -> Vec<Command> {
        let Progress { input, expected, now, .. } = *progress;
        let pools = balanced(input);
        let in_progress = input.under_way.iter().any(|command| command.method == Method::ZoneBalance);
        // A zone with a zonal shift loses its pods on purpose.
        if pools.is_empty() || in_progress || !input.shifted_zones.is_empty() {
            return Vec::new();
        }
        let left = progress.options.max_work.saturating_sub(progress.work);
        let options = Options { max_work: left, ..progress.options.clone() };
        let held = preferences::held_with_zone_spreads(input, &options, &pools);
        let keeping = preferences::with_held(input, &held);
        let lookup = Lookup::new(&keeping);
        let included: HashSet<&str> = self.0.iter().map(|one| one.of.name()).collect();
        let nodes = keeping
            .nodes
            .iter()
            .filter(|node| included.contains(node.name()) && node.node_pool().is_some_and(|pool| pools.contains(pool)));
        let known: Vec<Eligible<'_, '_>> =
            nodes.filter_map(|node| lookup.eligible(node, now).ok()).filter(|one| priced(one).is_ok()).collect();
        if known.is_empty() {
            return Vec::new();
        }
        let mut prepared = round::prepared(&keeping.node_pools, &keeping, &known, &options);
        let zones = ZoneGuard::new(input, &mut prepared, now).map(ZoneGuard::improving);
        let mut round =
            Round::new(&keeping, &known, &lookup, expected, Setting { options: &options, now }, &mut prepared);
        round.zones = zones;
        round.prediction = Prediction::assumed(&keeping, input, expected, &options);
        let mut found = Vec::new();
        for (place, spread) in uneven(&mut round) {
            match replace(&mut round, place, spread, progress) {
                Ok(command) => {
                    found.push(command);
                    break;
                }
                Err(why) => progress.keep([(round.candidates[place].one.node.name.clone(), why)]),
            }
        }
        progress.work = progress.work.saturating_add(round.work());
        found
    }

    // Every node has a reason of consolidation, which waits too.
    fn wait(&self, _: &mut Progress<'_, 'a>) {}
}

/// The nodes with pods above their spread, each with the constraint of most of these: those first where the least is evicted for each such
/// pod.
fn uneven(round: &mut Round<'_, '_, '_>) -> Vec<(usize, ZoneSpreadId)> {
    let Some(guard) = &mut round.zones else { return Vec::new() };
    let mut found: Vec<(f64, usize, ZoneSpreadId)> = Vec::new();
    for (place, candidate) in round.candidates.iter().enumerate() {
        let mut pods: BTreeMap<ZoneSpreadId, u32> = BTreeMap::new();
        for mover in &candidate.movers {
            guard.spreads.above(mover.pod).into_iter().for_each(|spread| *pods.entry(spread).or_default() += 1);
        }
        let all: u32 = pods.values().sum();
        if let Some((spread, _)) = pods.into_iter().max_by_key(|(spread, pods)| (*pods, std::cmp::Reverse(*spread))) {
            found.push((f64::from(all) / candidate.cost, place, spread));
        }
    }
    let name = |place: usize| &round.candidates[place].one.node.name;
    found.sort_by(|(a, one, _), (b, other, _)| b.total_cmp(a).then_with(|| name(*one).cmp(name(*other))));
    found.into_iter().map(|(_, place, spread)| (place, spread)).collect()
}

/// The command that replaces a node, or why it stays.
fn replace(
    round: &mut Round<'_, '_, '_>,
    place: usize,
    spread: ZoneSpreadId,
    progress: &mut Progress<'_, '_>,
) -> Result<Command, KeptReason> {
    let pool = round.candidates[place].one.offer.pool;
    progress.budgets.check(&pool.name, DisruptionReason::Unbalanced)?;
    round.has_work_left()?;
    round.close(place);
    let outcome = evaluate(round, place, spread);
    round.reopen(place);
    let command = outcome?;
    progress.budgets.take(&pool.name, DisruptionReason::Unbalanced)?;
    Ok(command)
}

fn evaluate(round: &mut Round<'_, '_, '_>, place: usize, spread: ZoneSpreadId) -> Result<Command, KeptReason> {
    let candidate = &round.candidates[place];
    let (movers, scope, one) = (candidate.movers.clone(), candidate.scope, candidate.one);
    let moves = round.place(&movers, false)?;
    let verdict = round.ask(&movers, &moves, scope, true);
    round.packed.undo(&movers, &moves);
    let mut verdict = verdict?;
    lighter(round, &[place], &movers, &verdict.launches)?;
    round.limit_to_minimums(&[place], &mut verdict.launches);
    round.keeps_minimums(&[place], &verdict.launches)?;
    verdict.launches = affordable(round, place, spread, verdict.launches)?;
    if round.node_prices.overdraws(verdict.launches.iter()) {
        return Err(KeptReason::ConsolidationWaits);
    }
    round.check_zones(&movers, &verdict)?;
    round.predict(&[place], &movers, &verdict.launches, false)?;
    let changes = round.zone_changes(&movers, &verdict);
    let zones = round.zones.as_ref().and_then(|guard| zone_move(guard, &changes));
    let (cost, _) = round.cost(&[place], &verdict.launches);
    let Verdict { placed, launches } = verdict;
    let mut placements: Vec<PodPlacement> = placed
        .iter()
        .map(|(mover, leaf)| PodPlacement {
            pod: movers[*mover].pod.key(),
            node: round.packed.problem.nodes[*leaf].name.clone(),
        })
        .collect();
    placements.sort();
    let replacements = Round::replacements(launches, &movers);
    let (method, reason) = (Method::ZoneBalance, DisruptionReason::Unbalanced);
    let command = candidates::command(method, reason, &[one], replacements, round.now);
    Ok(Command { placements, savings_per_hour: 0.0 - cost, zones, ..command })
}

/// Launches that cost no more than the annotation of the NodePool allows, whichever offering EC2 chooses.
fn affordable(
    round: &mut Round<'_, '_, '_>,
    place: usize,
    spread: ZoneSpreadId,
    launches: Vec<nodeless_scheduling::Launch>,
) -> Result<Vec<nodeless_scheduling::Launch>, KeptReason> {
    let candidate = &round.candidates[place];
    let (pool, price) = (candidate.one.offer.pool, candidate.price);
    let max_cost = pool.options.balance_zones.valid().copied().unwrap_or(0.0);
    let workload = round.zones.as_ref().map_or_else(String::new, |guard| guard.workload(spread));
    let too_much =
        |cost| KeptReason::ZoneBalanceCost { node_pool: pool.name.clone(), workload: workload.clone(), cost, max_cost };
    let least: f64 = launches.iter().map(|launch| launch.offering.price).sum();
    if least - price > max_cost + ROUNDING {
        return Err(too_much(least - price));
    }
    let narrowed = replacement::at_most(launches, &round.node_prices.offers, price + max_cost)?;
    let (_, most) = round.cost(&[place], &narrowed);
    if most > max_cost + ROUNDING { Err(too_much(most)) } else { Ok(narrowed) }
}

/// The change of the constraint that improves most.
fn zone_move(guard: &ZoneGuard<'_>, changes: &ZoneChanges) -> Option<ZoneMove> {
    let spreads = &guard.spreads;
    let quiescent = spreads.changed(changes).filter(|spread| spreads.is_quiescent(*spread));
    let best = quiescent.max_by_key(|spread| (spreads.gain(*spread, changes), std::cmp::Reverse(*spread)))?;
    let counts = |changes: &ZoneChanges| {
        let counts = spreads.counts(best, changes);
        counts.map(|(zone, count)| (zone.to_owned(), u32::try_from(count).unwrap_or(0))).collect()
    };
    Some(ZoneMove { workload: guard.workload(best), before: counts(&ZoneChanges::default()), after: counts(changes) })
}
