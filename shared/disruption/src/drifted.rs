//! Replacing nodes that drifted.

use crate::budgets::Budgets;
use crate::candidates::Eligible;
use crate::cluster::{Cluster, Options};
use crate::decision::{Command, Method, Replacement};
use crate::drift::{self, Drift};
use crate::pods::Guards;
use crate::reasons::KeptReason;
use crate::{decide, expiration, pods, rebalance, simulation};
use jiff::Timestamp;
use nodeless_model::claim::condition;
use nodeless_model::{DisruptionReason, Pod};
use nodeless_scheduling::{ExistingNode, solve};
use std::collections::BTreeMap;

/// The eligible nodes that drifted.
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
        (has_pods, since, one.node.name.clone())
    });
    drifted
}

/// How a node drifted, or why it is handled as if it had.
pub(crate) fn drift_of(
    cluster: &Cluster<'_>,
    one: &Eligible<'_, '_>,
    options: &Options,
    now: Timestamp,
) -> Option<Drift> {
    let class = cluster.node_classes.get(&one.claim.node_class);
    let told = || drift::told(one.claim).filter(|_| options.trust_conditions);
    drift::drift(one.claim, one.offer, class, &options.hash_version, now)
        .or_else(told)
        .or_else(|| rebalance::recommended(one.claim, one.offer.pool))
        .or_else(|| expiration::expires_soon(one.claim, one.offer.pool, now))
}

/// The command that replaces the first drifted node that can be, those without pods and those that drifted first before
/// the others; and why each other drifted node stays.
pub(crate) fn find(
    cluster: &Cluster<'_>,
    drifted: &[(&Eligible<'_, '_>, Drift)],
    guards: &Guards<'_>,
    options: &Options,
    budgets: &mut Budgets,
    now: Timestamp,
) -> (Option<Command>, BTreeMap<String, KeptReason>) {
    let mut found = None;
    let mut kept = BTreeMap::new();
    for (one, drift) in drifted {
        let name = one.node.name.clone();
        if found.is_some() {
            kept.insert(name, KeptReason::DriftWaits(drift.clone()));
            continue;
        }
        match replace(cluster, one, drift, guards, options, budgets, now) {
            Ok(command) => found = Some(command),
            Err(why) => {
                kept.insert(name, why);
            }
        }
    }
    (found, kept)
}

fn replace(
    cluster: &Cluster<'_>,
    one: &Eligible<'_, '_>,
    drift: &Drift,
    guards: &Guards<'_>,
    options: &Options,
    budgets: &mut Budgets,
    now: Timestamp,
) -> Result<Command, KeptReason> {
    budgets.check(&one.claim.node_pool, DisruptionReason::Drifted)?;
    unless_blocked(one, guards, now)?;
    let replacements = simulate(cluster, one, drift, options)?;
    budgets.take(&one.claim.node_pool, DisruptionReason::Drifted)?;
    Ok(decide::command(Method::Drift, DisruptionReason::Drifted, &[*one], replacements, now))
}

/// Where the drain ends by force, pods that do not want to go do not hold the replacement back either.
pub(crate) fn unless_blocked(one: &Eligible<'_, '_>, guards: &Guards<'_>, now: Timestamp) -> Result<(), KeptReason> {
    if one.claim.spec.termination_grace_period.is_some() {
        return Ok(());
    }
    guards.first_blocking(&one.of.pods, now).map_or(Ok(()), Err)
}

/// What has to be launched so that all pods of a node find a place when it is gone.
fn simulate(
    cluster: &Cluster<'_>,
    one: &Eligible<'_, '_>,
    drift: &Drift,
    options: &Options,
) -> Result<Vec<Replacement>, KeptReason> {
    let blocked = |pod: &Pod, why: String| KeptReason::DriftBlocked { drift: drift.clone(), pod: pod.key(), why };
    let mut moving: Vec<&Pod> = pods::reschedulable(&one.of.pods).collect();
    if moving.is_empty() {
        return Ok(Vec::new());
    }
    moving.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    let of_node = moving.len();
    moving.extend(&cluster.pending_pods);
    let mut problem = simulation::problem(cluster, |node| node.name() != one.of.name());
    problem.pods = moving;
    let solution = solve(&problem, &options.scheduling);
    if let Some(stuck) = solution.unschedulable.iter().find(|stuck| stuck.pod < of_node) {
        let why: Vec<String> = stuck.reasons.iter().map(ToString::to_string).collect();
        return Err(blocked(problem.pods[stuck.pod], why.join("; ")));
    }
    let unready = |node: &ExistingNode| node.node_claim.is_some() && !node.initialized;
    let mut placed = solution.placements.iter().filter(|placement| placement.pod < of_node);
    if let Some(placement) = placed.find(|placement| unready(&problem.nodes[placement.node])) {
        let node = &problem.nodes[placement.node].name;
        return Err(blocked(
            problem.pods[placement.pod],
            format!("it would go to {node}, which is not initialised yet"),
        ));
    }
    let needed = solution.launches.into_iter().filter(|launch| launch.pods.iter().any(|pod| *pod < of_node));
    Ok(needed
        .map(|mut launch| {
            let pods = std::mem::take(&mut launch.pods);
            Replacement { launch, pods: pods.into_iter().map(|pod| problem.pods[pod].key()).collect() }
        })
        .collect())
}
