//! Replaces drifted nodes.

use crate::candidates::Eligible;
use crate::cluster::{Cluster, Options};
use crate::drift::ami_canary::Canaries;
use crate::drift::detection::{drift, drifted_condition};
use crate::drift::simulation::DriftSimulation;
use crate::forceful::{expiration, rebalance};
use crate::output::Command;
use crate::pods;
use crate::pods::DisruptionBudgetIndex;
use crate::policy::budgets::Budgets;
use crate::reasons::KeptReason;
use crate::reasons::drift::{Drift, DriftReason};
use jiff::{SignedDuration, Timestamp};
use nodeless_model::claim::condition;
use nodeless_model::{DisruptionReason, NodeClaim};
use std::collections::BTreeMap;

/// How long the condition of a claim has to report that its capacity reservation is no longer selected. An instance
/// whose reservation ended keeps running outside it and has not drifted; that is detected once a minute.
const CONFIRMATION: SignedDuration = SignedDuration::from_mins(3);

/// The eligible nodes that drifted: first those that the last decision did not evaluate, then those without pods, then
/// those that drifted first.
pub(crate) fn drifted<'e, 'c, 'a>(
    cluster: &Cluster<'_>,
    eligible: &'e [Eligible<'c, 'a>],
    options: &Options,
    now: Timestamp,
) -> Vec<(&'e Eligible<'c, 'a>, Drift)> {
    let mut drifted: Vec<_> =
        eligible.iter().filter_map(|one| Some((one, drift_of(cluster, one, options, now)?))).collect();
    drifted.sort_by_cached_key(|(one, _)| {
        let since = one.claim.condition(condition::DRIFTED).map_or(now, |condition| condition.last_transition_time);
        let has_pods = pods::reschedulable(&one.of.pods).next().is_some();
        let evaluated = !cluster.not_evaluated.contains(&one.node.name);
        (evaluated, has_pods, since, one.node.name.clone())
    });
    drifted
}

/// The drift of a node, or the reason for which it is handled as drifted.
pub(crate) fn drift_of(
    cluster: &Cluster<'_>,
    one: &Eligible<'_, '_>,
    options: &Options,
    now: Timestamp,
) -> Option<Drift> {
    let class = cluster.node_classes.get(&one.claim.node_class);
    let by_condition = || drifted_condition(one.claim).filter(|_| options.trust_conditions);
    drift(one.claim, one.offer, class, &options.hash_version, now)
        .filter(|drift| drift.reason != DriftReason::CapacityReservationDrift || is_confirmed(one.claim, drift, now))
        .or_else(by_condition)
        .or_else(|| rebalance::recommended(one.claim, one.offer.pool))
        .or_else(|| expiration::expires_soon(one.claim, one.offer.pool, now))
}

/// Whether the condition of the claim has reported this drift for long enough.
fn is_confirmed(claim: &NodeClaim, drift: &Drift, now: Timestamp) -> bool {
    let noted = claim.condition(condition::DRIFTED).filter(|_| claim.has_condition(condition::DRIFTED));
    noted.is_some_and(|noted| {
        noted.reason == drift.reason.as_str() && now.duration_since(noted.last_transition_time) >= CONFIRMATION
    })
}

/// The commands that replace drifted nodes one by one, as far as the budgets allow, those without pods and those that drifted
/// first before the others; and why each other drifted node stays.
///
/// The commands do not depend on each other: no node that one of them removes takes pods of another, and capacity,
/// limits and capacity reservations are used once.
pub(crate) fn find<'a>(
    drifted: &[(&Eligible<'_, 'a>, Drift)],
    simulation: &mut DriftSimulation<'_, 'a>,
    budgets: &mut Budgets,
    canaries: &mut Canaries,
) -> (Vec<Command>, BTreeMap<String, KeptReason>) {
    let (mut commands, mut kept) = (Vec::new(), BTreeMap::new());
    for (one, drift) in drifted {
        match replace(one, drift, simulation, budgets, canaries) {
            Ok(command) => commands.push(command),
            Err(why) => {
                kept.insert(one.node.name.clone(), why);
            }
        }
    }
    (commands, kept)
}

/// The command that replaces one drifted node, or why it stays.
fn replace<'a>(
    one: &Eligible<'_, 'a>,
    drift: &Drift,
    simulation: &mut DriftSimulation<'_, 'a>,
    budgets: &mut Budgets,
    canaries: &mut Canaries,
) -> Result<Command, KeptReason> {
    canaries.check(one, drift)?;
    budgets.check(&one.offer.pool.name, DisruptionReason::Drifted)?;
    unless_blocked(one, simulation.budget_index, simulation.now)?;
    if simulation.receives(&one.node.name) {
        return Err(KeptReason::DriftWaits(drift.clone()));
    }
    let command = simulation.leave(one, drift)?;
    budgets.take(&one.offer.pool.name, DisruptionReason::Drifted)?;
    canaries.replaced(one);
    Ok(command)
}

/// If the drain ends forcefully, protected pods do not prevent the replacement either.
pub(crate) fn unless_blocked(
    one: &Eligible<'_, '_>,
    budget_index: &DisruptionBudgetIndex<'_>,
    now: Timestamp,
) -> Result<(), KeptReason> {
    if one.claim.spec.termination_grace_period.is_some() {
        return Ok(());
    }
    budget_index.first_blocking(&one.of.pods, now).map_or(Ok(()), Err)
}
