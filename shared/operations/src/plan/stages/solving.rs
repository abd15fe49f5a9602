//! The scheduling problem of the cluster, and the plan for it. With commitments, it is the plan for which least is paid in total.

use crate::plan::facts::Facts;
use crate::plan::nodes::cluster_state::ClusterState;
use crate::plan::nodes::instances;
use crate::plan::snapshot::Snapshot;
use nodeless_commitments::{Bill, Commitments, Instance, Prepaid, bill};
use nodeless_disruption::{Command, OnDemandMinimums};
use nodeless_model::node_pool::PoolUsage;
use nodeless_scheduling::{Options, PoolOffer, Problem, Solution, exchange_equal_pods};

/// The difference of sums of prices that is rounding.
const ROUNDING: f64 = 1e-9;
/// The same for limits, as in the scheduler.
const ROUNDING_OF_LIMITS: f64 = 1e-6;

/// The scheduling options of this plan, within the work budget.
const fn options(snapshot: &Snapshot) -> Options {
    Options { max_work: snapshot.work.provisioning, ..snapshot.settings.scheduling }
}

/// The scheduling problem of the cluster, and its solution.
pub(in crate::plan) fn solve<'a>(facts: Facts<'a>, cluster_state: &ClusterState<'a>) -> (Problem<'a>, Solution) {
    let problem = cluster_state.problem(facts.evaluated, facts.snapshot.now);
    let mut solution = nodeless_placement::plan(&problem, &options(facts.snapshot), facts.snapshot.is_whole());
    adjust(facts, &problem, &mut solution);
    if let Some(commitments) = &facts.snapshot.commitments {
        let current = instances::staying(cluster_state, &facts.snapshot.catalog);
        solution = paid_least(facts, &problem, solution, commitments, &current);
    }
    (problem, solution)
}

/// The part of the price of each launch that commitments cover, in dollars an hour; empty without commitments.
pub(in crate::plan) fn covered(
    facts: Facts<'_>,
    cluster_state: &ClusterState<'_>,
    problem: &Problem<'_>,
    solution: &Solution,
) -> Vec<f64> {
    let Some(commitments) = &facts.snapshot.commitments else { return Vec::new() };
    let current = instances::staying(cluster_state, &facts.snapshot.catalog);
    let bill = bill_of(&current, problem, solution, commitments);
    bill.instances.iter().skip(current.len()).map(|one| one.covered).collect()
}

/// The plan without commitments, or one for which less is paid in total: the scheduler gets the hours that are left of the commitments
/// as prepaid capacity. That is an estimate, so each plan is priced as AWS would bill it, and the cheapest is taken. It leaves no more
/// pods without a node than the plan without commitments, and never costs more. All of them share the work budget.
fn paid_least(
    facts: Facts<'_>,
    problem: &Problem<'_>,
    solution: Solution,
    commitments: &Commitments,
    current: &[Instance],
) -> Solution {
    if solution.launches.is_empty() {
        return solution;
    }
    let pods = solution.unschedulable.len();
    let mut work = solution.work;
    let mut best = (bill_of(current, problem, &solution, commitments), solution);
    for prepaid in offers(&Prepaid::left(commitments, &bill(current, commitments))) {
        for refine in [true, false] {
            let left = options(facts.snapshot).max_work.map(|max| max.saturating_sub(work));
            if left == Some(0) || (refine && !facts.snapshot.is_whole()) {
                continue;
            }
            let other = with_prepaid(facts, problem, &prepaid, left, refine);
            work = work.saturating_add(other.work);
            let bill = bill_of(current, problem, &other, commitments);
            if other.unschedulable.len() <= pods && is_better(&bill, &best.0) && is_within_limits(problem, &other) {
                best = (bill, other);
            }
        }
    }
    Solution { work, ..best.1 }
}

/// The solution of a problem with prepaid hours.
fn with_prepaid(
    facts: Facts<'_>,
    problem: &Problem<'_>,
    prepaid: &Prepaid<'_>,
    max_work: Option<u64>,
    refine: bool,
) -> Solution {
    let mut other = problem.clone();
    // A launch with prepaid hours lists one instance type, so it is no choice where minValues require one.
    for offer in other.node_pools.iter_mut().filter(|offer| !has_min_values(offer)) {
        offer.instance_types = offer.instance_types.iter().map(|kind| prepaid.offered(kind)).collect();
    }
    let mut solution = nodeless_placement::plan(&other, &Options { max_work, ..options(facts.snapshot) }, refine);
    for launch in &mut solution.launches {
        if let Some(offer) = problem.node_pools.iter().find(|offer| offer.pool.name == launch.node_pool) {
            Prepaid::at_list_price(launch, &offer.instance_types);
        }
    }
    adjust(facts, problem, &mut solution);
    solution
}

fn has_min_values(offer: &PoolOffer<'_>) -> bool {
    offer.pool.template.requirements.iter().any(|(_, requirement)| requirement.min_values().is_some())
}

/// All that is left, and Reserved Instances alone: Savings Plans apply to whatever a plan launches.
fn offers<'c>(left: &Prepaid<'c>) -> Vec<Prepaid<'c>> {
    let reserved = left.clone().reserved_only();
    let mut all = vec![left.clone()];
    all.extend(Some(reserved).filter(|reserved| reserved != left));
    all.retain(|prepaid| !prepaid.is_empty());
    all
}

/// What the nodes that stay and the launches cost with commitments, the launches last.
fn bill_of(current: &[Instance], problem: &Problem<'_>, solution: &Solution, commitments: &Commitments) -> Bill {
    let launched = solution.launches.iter().map(|launch| Instance::of_launch(launch, &problem.node_pools));
    bill(&current.iter().cloned().chain(launched).collect::<Vec<_>>(), commitments)
}

/// Whether less is paid, or as much and more is left of the commitments for others.
fn is_better(bill: &Bill, than: &Bill) -> bool {
    let (paid, other) = (bill.paid(), than.paid());
    is_less(paid, other) || (!is_less(other, paid) && is_less(than.unused(), bill.unused()))
}

fn is_less(amount: f64, than: f64) -> bool {
    amount < than - ROUNDING
}

/// Whether the launches keep within the limits in dollars. Limits count prices without commitments, and the scheduler packed prepaid
/// hours, which have nearly no price.
fn is_within_limits(problem: &Problem<'_>, solution: &Solution) -> bool {
    let mut offers = problem.node_pools.clone();
    for launch in &solution.launches {
        PoolOffer::charge(&mut offers, &launch.node_pool, &launch.charge);
    }
    let fits = |limit: Option<f64>, usage: &PoolUsage| {
        limit.is_none_or(|limit| usage.dollars_per_hour <= limit + ROUNDING_OF_LIMITS)
    };
    let launches = |offer: &PoolOffer<'_>| solution.launches.iter().any(|launch| launch.node_pool == offer.pool.name);
    offers.iter().filter(|offer| launches(offer)).all(|offer| {
        let of_cluster = offer.cluster.as_ref();
        fits(offer.pool.limit_dollars_per_hour, &offer.usage)
            && of_cluster.is_none_or(|cluster| fits(cluster.limits.dollars_per_hour, &cluster.usage))
    })
}

/// What a plan adds to the scheduler's solution: minimums of on-demand nodes, equal pods in the order of their names, and other offerings
/// than those that were interrupted.
fn adjust<'a>(facts: Facts<'a>, problem: &Problem<'a>, solution: &mut Solution) {
    let under_way: Vec<&Command> = facts.commands.records.iter().map(|record| &record.command).collect();
    let minimums = OnDemandMinimums::new(&problem.node_pools, facts.claims, &under_way);
    minimums.limit(&mut solution.launches, &problem.node_pools);
    exchange_equal_pods(problem, solution);
    let recent = facts.snapshot.recent_interruptions(facts.claims);
    recent.choose_others(&mut solution.launches, &problem.node_pools);
}
