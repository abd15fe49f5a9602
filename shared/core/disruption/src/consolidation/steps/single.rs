//! Replaces a node by one or two cheaper ones.

use super::removal;
use crate::consolidation::State;
use crate::consolidation::replacement;
use crate::consolidation::round::Round;
use crate::consolidation::trial::{Verdict, admissions};
use crate::policy::budgets::Budgets;
use crate::reasons::KeptReason;
use crate::simulation::packed::{Mover, Moves, Scope};
use nodeless_model::{CapacityType, DisruptionReason, Requirement, Requirements, labels};
use nodeless_scheduling::{Launch, Problem};

/// The work of a pod of a launch of one node, in the units of [`nodeless_scheduling::Solution::work`].
const WORK_PER_POD: u64 = 60;

/// Evaluates every remaining node.
pub(crate) fn run(round: &mut Round<'_, '_, '_>, budgets: &mut Budgets) {
    let reserved = round.node_prices.has_reservations();
    for place in 0..round.candidates.len() {
        if round.candidates[place].state != State::Open {
            continue;
        }
        if round.candidates[place].reasons.iter().any(|why| matches!(why, KeptReason::MinSavings { .. })) {
            // Its removal would save too little, and a replacement saves less.
            round.candidates[place].state = State::Stays;
            continue;
        }
        let pool = round.candidates[place].one.offer.pool.name.clone();
        let allowed = budgets.check(&pool, DisruptionReason::Underutilized);
        match allowed.and_then(|()| replace(round, place, reserved)) {
            Ok(()) => {
                // The budget was checked above, and is unchanged since.
                let _taken = budgets.take(&pool, DisruptionReason::Underutilized);
            }
            Err(why) => {
                let candidate = &mut round.candidates[place];
                candidate.state = State::Stays;
                if !candidate.reasons.contains(&why) {
                    candidate.reasons.push(why);
                }
            }
        }
    }
}

fn replace(round: &mut Round<'_, '_, '_>, place: usize, reserved: bool) -> Result<(), KeptReason> {
    let candidate = &round.candidates[place];
    let spot = candidate.capacity_type == CapacityType::Spot;
    if spot && !round.options.spot_to_spot && !reserved {
        return Err(KeptReason::SpotToSpotOff);
    }
    let movers = candidate.movers.clone();
    let scope = candidate.scope;
    round.has_work_left()?;
    round.close(place);
    let outcome = evaluate(round, place, &movers, scope);
    if outcome.is_err() {
        round.reopen(place);
    }
    outcome
}

fn evaluate<'a>(
    round: &mut Round<'_, 'a, '_>,
    place: usize,
    movers: &[Mover<'a>],
    scope: Scope,
) -> Result<(), KeptReason> {
    let moves = round.place(movers, false)?;
    if moves.left.is_empty() && scope == Scope::Small {
        // Capacity became free since it was first evaluated.
        let approved = round.saving(&[place], &[]).and_then(|saving| round.approve(&[place], saving));
        let approved = approved.and_then(|()| round.keeps_minimums(&[place], &[]));
        if approved.is_err() {
            round.packed.undo(movers, &moves);
        }
        approved.and_then(|()| removal::validate(round, place, movers, &moves, scope))
    } else {
        decide(round, place, movers, &moves, scope)
    }
}

fn decide<'a>(
    round: &mut Round<'_, 'a, '_>,
    place: usize,
    movers: &[Mover<'a>],
    moves: &Moves,
    scope: Scope,
) -> Result<(), KeptReason> {
    let found = worth_asking(round, place, movers, moves)
        .and_then(|()| round.ask(movers, moves, scope, true))
        .and_then(|verdict| accept(round, &[place], movers, verdict))
        .and_then(|verdict| round.check_zones(movers, &verdict).map(|()| verdict))
        .and_then(|verdict| round.predict(&[place], movers, &verdict.launches, false).map(|()| verdict))
        .or_else(|why| if scope == Scope::Small { together(round, place, movers, why) } else { Err(why) });
    match found {
        Ok(verdict) => {
            round.conclude(&[place], movers, moves, verdict);
            Ok(())
        }
        Err(why) => {
            round.packed.undo(movers, moves);
            Err(why)
        }
    }
}

/// One cheaper node for all pods, which run together now, where several nodes would save too little, or the kube-scheduler is predicted
/// to bind the pods to them in a way that leaves one pending. `why` is the reason against several.
fn together<'a>(
    round: &mut Round<'_, 'a, '_>,
    place: usize,
    movers: &[Mover<'a>],
    why: KeptReason,
) -> Result<Verdict, KeptReason> {
    if !matches!(why, KeptReason::PredictedPending { .. } | KeptReason::SavingTooSmall { .. }) {
        return Err(why);
    }
    round.has_work_left()?;
    let Some(launch) = one_node(round, place, movers) else { return Err(why) };
    let verdict = accept(round, &[place], movers, Verdict { placed: Vec::new(), launches: vec![launch] });
    let Ok(verdict) = verdict else { return Err(why) };
    let checked = round.check_zones(movers, &verdict);
    match checked.and_then(|()| round.predict(&[place], movers, &verdict.launches, true)) {
        Ok(()) => Ok(verdict),
        Err(_) => Err(why),
    }
}

/// The launch of one node for pods of a candidate, in its NodePool and zone.
pub(crate) fn one_node<'a>(round: &mut Round<'_, 'a, '_>, place: usize, movers: &[Mover<'a>]) -> Option<Launch> {
    let one = round.candidates[place].one;
    let offer = round.node_prices.offers.iter().find(|offer| offer.pool.name == one.offer.pool.name)?.clone();
    let mut within = Requirements::new();
    if let Some(zone) = one.node.labels.get(labels::ZONE) {
        within.add(labels::ZONE, Requirement::one_of([zone.as_str()]));
    }
    let whole = &round.packed.problem;
    let pods = movers.iter().map(|mover| mover.pod).collect();
    let problem = Problem { pods, daemon_sets: whole.daemon_sets, facts: whole.facts, ..Problem::default() };
    let mut work = u64::try_from(movers.len()).unwrap_or(u64::MAX).saturating_mul(WORK_PER_POD);
    let launch = round.scheduler.launch_together(&problem, &offer, &within, &mut work);
    round.spend(work);
    launch
}

/// Whether new nodes for the pods that fit on no other node can be cheaper.
pub(crate) fn worth_asking(
    round: &mut Round<'_, '_, '_>,
    place: usize,
    movers: &[Mover<'_>],
    moves: &Moves,
) -> Result<(), KeptReason> {
    if moves.left.is_empty() {
        return Ok(());
    }
    let Some(keys) = admissions(round, movers, &moves.left) else {
        return Err(removal::does_not_fit(round, movers, moves));
    };
    let mut load = vec![0_i64; round.packed.resources.len()];
    for left in &moves.left {
        for (sum, asked) in load.iter_mut().zip(&round.packed.class(&movers[*left]).asked) {
            *sum = sum.saturating_add(*asked);
        }
    }
    let price = round.candidates[place].price;
    let bound =
        round.query_node_prices(|prices, asker| prices.bound(&load, &keys, asker)).ok_or(KeptReason::NoReplacement)?;
    if bound.price >= price * (1.0 - replacement::ROUNDING) {
        return Err(KeptReason::NotCheaper { price, replacement: bound.price, instance_types: bound.instance_types });
    }
    let several = bound.instance_types.len() > 1;
    let min_saving = if several { price * round.options.min_saving } else { 0.0 };
    if price - bound.price < min_saving {
        return Err(KeptReason::SavingTooSmall { saving: price - bound.price, min_saving });
    }
    round.approve(&[place], price - bound.price)
}

/// Whether the launches of the scheduler are cheap enough, whichever offering EC2 chooses. Returns them reduced to such
/// offerings.
pub(crate) fn accept(
    round: &mut Round<'_, '_, '_>,
    places: &[usize],
    movers: &[Mover<'_>],
    mut verdict: Verdict,
) -> Result<Verdict, KeptReason> {
    let candidates: Vec<_> = places.iter().map(|place| &round.candidates[*place]).collect();
    let removed: f64 = candidates.iter().map(|candidate| candidate.price).sum();
    if !verdict.launches.is_empty() {
        lighter(round, places, movers, &verdict.launches)?;
        let mut launches = verdict.launches.clone();
        round.limit_to_minimums(places, &mut launches);
        round.keeps_minimums(places, &launches)?;
        let cheaper =
            replacement::cheaper(&candidates, launches, &round.node_prices.offers, round.options.spot_to_spot)
                .map_err(|why| round.because_of_minimum(places, &verdict.launches, why))?;
        if !round.planned {
            verdict.launches = cheaper;
        }
    } else {
        round.keeps_minimums(places, &[])?;
    }
    if round.node_prices.overdraws(verdict.launches.iter()) {
        return Err(KeptReason::ConsolidationWaits);
    }
    let saving = round.saving(places, &verdict.launches)?;
    // As in Karpenter, a single node may replace another for any saving; several nodes have to save more.
    if places.len() > 1 || verdict.launches.len() > 1 {
        let min_saving = removed * round.options.min_saving;
        if saving < min_saving {
            return Err(KeptReason::SavingTooSmall { saving, min_saving });
        }
    }
    round.approve(places, saving)?;
    Ok(verdict)
}

/// Rejects launches of a NodePool for pods whose own NodePool has a higher weight and could launch nodes but for its limits:
/// users prefer these pods there.
pub(crate) fn lighter(
    round: &Round<'_, '_, '_>,
    places: &[usize],
    movers: &[Mover<'_>],
    launches: &[Launch],
) -> Result<(), KeptReason> {
    let offers = &round.node_prices.offers;
    for place in places {
        let candidate = &round.candidates[*place];
        let own = candidate.one.offer.pool;
        if !offers.iter().any(|offer| offer.pool.name == own.name) {
            continue;
        }
        let lighter = launches.iter().find(|launch| {
            let pool = offers.iter().find(|offer| offer.pool.name == launch.node_pool).map(|offer| offer.pool);
            let of_candidate = |pod: &usize| candidate.movers.iter().any(|own| std::ptr::eq(own.pod, movers[*pod].pod));
            pool.is_some_and(|pool| pool.weight < own.weight) && launch.pods.iter().any(of_candidate)
        });
        if let Some(launch) = lighter {
            let (node_pool, lighter) = (own.name.clone(), launch.node_pool.clone());
            return Err(KeptReason::LowerWeightNodePool { node_pool, lighter });
        }
    }
    Ok(())
}
