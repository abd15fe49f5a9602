//! Nodes that can be removed without a replacement.

use crate::consolidation::State;
use crate::consolidation::round::Round;
use crate::policy::budgets::Budgets;
use crate::reasons::{DoesNotFit, KeptReason};
use crate::simulation::packed::{Mover, Moves, Scope};
use nodeless_model::DisruptionReason;

/// Removes one node after another, as long as its pods fit on the others.
pub(crate) fn run(round: &mut Round<'_, '_, '_>, budgets: &mut Budgets) {
    for place in 0..round.candidates.len() {
        if round.candidates[place].state != State::Open {
            continue;
        }
        let pool = &round.candidates[place].one.offer.pool.name;
        if let Err(why) = budgets.check(pool, DisruptionReason::Underutilized) {
            let candidate = &mut round.candidates[place];
            candidate.state = State::Stays;
            candidate.reasons = vec![why];
            continue;
        }
        match remove(round, place) {
            Ok(()) => {
                let pool = &round.candidates[place].one.offer.pool.name;
                // The budget was checked above, and is unchanged since.
                let _taken = budgets.take(pool, DisruptionReason::Underutilized);
            }
            Err(why) => {
                let candidate = &mut round.candidates[place];
                // A replacement saves less than the removal: if that is too little, so is any replacement.
                if matches!(why, KeptReason::Balanced { .. } | KeptReason::NotEvaluated | KeptReason::PaidNoLess { .. })
                {
                    candidate.state = State::Stays;
                }
                candidate.reasons.push(why);
            }
        }
    }
}

fn remove(round: &mut Round<'_, '_, '_>, place: usize) -> Result<(), KeptReason> {
    let saving = round.saving(&[place], &[])?;
    round.approve(&[place], saving)?;
    let candidate = &round.candidates[place];
    let (movers, scope) = (candidate.movers.clone(), candidate.scope);
    round.has_work_left()?;
    round.close(place);
    let outcome = match round.place(&movers, true) {
        Ok(moves) if moves.left.is_empty() => match round.keeps_minimums(&[place], &[]) {
            Ok(()) => validate(round, place, &movers, &moves, scope),
            Err(why) => {
                round.packed.undo(&movers, &moves);
                Err(why)
            }
        },
        Ok(moves) => {
            round.packed.undo(&movers, &moves);
            Err(does_not_fit(round, &movers, &moves))
        }
        Err(why) => Err(why),
    };
    if outcome.is_err() {
        round.reopen(place);
    }
    outcome
}

/// Validates moves of the packed cluster by the scheduler, and keeps its placements. If it rejects them, the moves are undone.
pub(crate) fn validate<'a>(
    round: &mut Round<'_, 'a, '_>,
    place: usize,
    movers: &[Mover<'a>],
    moves: &Moves,
    scope: Scope,
) -> Result<(), KeptReason> {
    // The free capacity in the problem does not include these moves.
    let verdict = round.ask(movers, moves, scope, false);
    let verdict = verdict.and_then(|verdict| round.check_zones(movers, &verdict).map(|()| verdict));
    match verdict.and_then(|verdict| round.predict(&[place], movers, &[], false).map(|()| verdict)) {
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

/// Why the first pod that fits on no node does not fit.
pub(crate) fn does_not_fit(round: &Round<'_, '_, '_>, movers: &[Mover<'_>], moves: &Moves) -> KeptReason {
    let Some(mover) = moves.left.first().map(|left| &movers[*left]) else { return KeptReason::NoReplacement };
    let class = round.packed.class(mover);
    if let Err(why) = &class.admission {
        return KeptReason::Unschedulable { pod: mover.pod.key(), why: why.clone() };
    }
    let obstacles = if round.options.explain { round.packed.obstacles(mover.class) } else { Default::default() };
    KeptReason::DoesNotFit(DoesNotFit { pod: mover.pod.key(), obstacles })
}
