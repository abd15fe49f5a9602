//! Replaces several nodes by several cheaper ones.

use super::single::accept;
use crate::consolidation::State;
use crate::consolidation::binding::Unpredicted;
use crate::consolidation::replacement::ROUNDING;
use crate::consolidation::round::Round;
use crate::consolidation::trial::Verdict;
use crate::policy::budgets::Budgets;
use crate::reasons::KeptReason;
use crate::simulation::packed::{Mover, Scope};
use nodeless_model::{CapacityType, DisruptionReason};
use std::collections::BTreeMap;

/// The maximum number of nodes that are replaced at once. All replacements of a command have to be initialized before any of its
/// nodes is drained, and one failure rolls all of it back; so the number is no larger than a tight packing needs.
const MAX_NODES_PER_COMMAND: usize = 24;

/// Replaces groups of nodes whose pods are worth much less than the price of the nodes.
pub(crate) fn run(round: &mut Round<'_, '_, '_>, budgets: &mut Budgets) {
    let reserved = round.node_prices.has_reservations();
    for spot in [false, true] {
        if spot && !round.options.spot_to_spot && !reserved {
            continue;
        }
        let wasteful = wasteful(round, spot);
        let within = within_budgets(round, &wasteful, budgets);
        // No pods are moved to nodes that may be removed themselves.
        for place in &within {
            round.close(*place);
        }
        for chunk in within.chunks(MAX_NODES_PER_COMMAND) {
            replace(round, chunk, budgets);
        }
        for place in within {
            if round.candidates[place].state != State::Goes {
                round.reopen(place);
            }
        }
    }
}

/// The nodes whose price exceeds the worth of their pods, those with the largest fraction of waste first. The others get the
/// reason why they stay.
fn wasteful(round: &mut Round<'_, '_, '_>, spot: bool) -> Vec<usize> {
    let mut found: Vec<(f64, usize)> = Vec::new();
    for place in 0..round.candidates.len() {
        let candidate = &round.candidates[place];
        if candidate.state != State::Open || (candidate.capacity_type == CapacityType::Spot) != spot {
            continue;
        }
        let price = candidate.price;
        if round.has_work_left().is_err() {
            round.candidates[place].reasons.push(KeptReason::NotEvaluated);
            continue;
        }
        let Some(worth) = worth(round, place) else { continue };
        if price - worth >= price * round.options.min_saving {
            found.push(((price - worth) / price, place));
        } else if round.options.explain {
            round.candidates[place].reasons.push(KeptReason::WellUtilized { price, worth });
        }
    }
    found.sort_by(|(a, first), (b, second)| b.total_cmp(a).then(first.cmp(second)));
    found.into_iter().map(|(_, place)| place).collect()
}

/// The worth of the pods of a candidate; `None` if one of them cannot be scheduled on any node.
fn worth(round: &mut Round<'_, '_, '_>, place: usize) -> Option<f64> {
    let movers: &[Mover<'_>] = &round.candidates[place].movers;
    let classes: Option<Vec<(usize, usize)>> = movers
        .iter()
        .map(|mover| Some((mover.class, *round.packed.classes.list[mover.class].admission.as_ref().ok()?)))
        .collect();
    let mut sum = 0.0;
    for (class, admission) in classes? {
        sum += round.query_node_prices(|prices, asker| {
            let asked = &asker.classes.list[class].asked;
            prices.worth(asked, admission, asker)
        });
    }
    Some(sum)
}

/// The candidates that the budgets allow, in their order.
fn within_budgets(round: &Round<'_, '_, '_>, places: &[usize], budgets: &Budgets) -> Vec<usize> {
    let mut taken: BTreeMap<&str, u32> = BTreeMap::new();
    let allowed = |place: &usize| {
        let pool = round.candidates[*place].one.offer.pool.name.as_str();
        let count = taken.entry(pool).or_default();
        let allowed = *count < budgets.left(pool, DisruptionReason::Underutilized);
        *count += u32::from(allowed);
        allowed
    };
    places.iter().copied().filter(allowed).collect()
}

/// Replaces a group, or else its halves.
fn replace(round: &mut Round<'_, '_, '_>, places: &[usize], budgets: &mut Budgets) {
    let places: Vec<usize> =
        places.iter().copied().filter(|place| round.candidates[*place].state == State::Open).collect();
    if places.len() < 2 {
        return;
    }
    match attempt(round, &places) {
        Ok(()) => {
            for place in places {
                let pool = &round.candidates[place].one.offer.pool.name;
                // The group was formed within the budgets, and nothing else was taken since.
                let _taken = budgets.take(pool, DisruptionReason::Underutilized);
            }
        }
        Err(Refusal::Unchanged(unchanged)) => {
            let others: Vec<usize> = places.into_iter().filter(|place| !unchanged.contains(place)).collect();
            replace(round, &others, budgets);
        }
        Err(Refusal::Kept(why @ KeptReason::NotEvaluated)) => {
            for place in places {
                round.candidates[place].reasons.push(why.clone());
            }
        }
        Err(Refusal::Pending(pods)) => {
            let runs_one =
                |place: &usize| round.candidates[*place].movers.iter().any(|mover| pods.contains(&mover.pod.key()));
            let (running, others): (Vec<usize>, Vec<usize>) = places.iter().copied().partition(runs_one);
            if running.is_empty() || others.is_empty() {
                replace_halves(round, &places, budgets);
            } else {
                replace(round, &others, budgets);
                replace(round, &running, budgets);
            }
        }
        Err(Refusal::Kept(_)) => replace_halves(round, &places, budgets),
    }
}

fn replace_halves(round: &mut Round<'_, '_, '_>, places: &[usize], budgets: &mut Budgets) {
    let (first, second) = places.split_at(places.len() / 2);
    replace(round, first, budgets);
    replace(round, second, budgets);
}

/// Why a group is not replaced.
enum Refusal {
    Kept(KeptReason),
    /// These pods are predicted to stay pending.
    Pending(Vec<String>),
    /// Equal nodes would only be launched again.
    Unchanged(Vec<usize>),
}

fn attempt(round: &mut Round<'_, '_, '_>, places: &[usize]) -> Result<(), Refusal> {
    let candidates = || places.iter().map(|place| &round.candidates[*place]);
    let scope = candidates().map(|candidate| candidate.scope).max().unwrap_or(Scope::Small);
    let mut movers: Vec<Mover<'_>> = candidates().flat_map(|candidate| candidate.movers.iter().copied()).collect();
    round.largest_first(&mut movers);
    let moves = round.place(&movers, false).map_err(Refusal::Kept)?;
    // Reasons for groups are not reported. If priorities differ, the scheduler itself needs the result of the limits.
    let alike = movers.windows(2).all(|pair| pair[0].pod.template.priority == pair[1].pod.template.priority);
    round.scheduler.explain_at_most(u32::from(!alike));
    let found = round.ask(&movers, &moves, scope, true).and_then(|verdict| accept(round, places, &movers, verdict));
    round.scheduler.explain_at_most(1);
    let found = found.map_err(Refusal::Kept).and_then(|verdict| {
        let unchanged = unchanged(round, places, &movers, &verdict);
        if !unchanged.is_empty() {
            return Err(Refusal::Unchanged(unchanged));
        }
        round.check_zones(&movers, &verdict).map_err(Refusal::Kept)?;
        round.predict_pods(places, &movers, &verdict.launches, false).map_err(|why| match why {
            Unpredicted::Pending(pods) => Refusal::Pending(pods),
            Unpredicted::Kept(why) => Refusal::Kept(why),
        })?;
        Ok(verdict)
    });
    match found {
        Ok(verdict) => {
            round.conclude(places, &movers, &moves, verdict);
            Ok(())
        }
        Err(why) => {
            round.packed.undo(&movers, &moves);
            Err(why)
        }
    }
}

/// The nodes whose pods would all move to one new node of the same price without other pods: moving them saves nothing. If the
/// nodes are only planned, it is harmless.
fn unchanged(round: &Round<'_, '_, '_>, places: &[usize], movers: &[Mover<'_>], verdict: &Verdict) -> Vec<usize> {
    if round.planned {
        return Vec::new();
    }
    let comes_again = |place: &usize| {
        let candidate = &round.candidates[*place];
        let is_own = |pod: &usize| candidate.movers.iter().any(|own| std::ptr::eq(own.pod, movers[*pod].pod));
        verdict.launches.iter().any(|launch| {
            launch.offering.price >= candidate.price * (1.0 - ROUNDING)
                && launch.pods.len() == candidate.movers.len()
                && launch.pods.iter().all(is_own)
        })
    };
    places.iter().copied().filter(comes_again).collect()
}
