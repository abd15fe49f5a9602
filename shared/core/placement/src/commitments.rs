//! The plan with commitments: the one for which least is paid in total.

use crate::Policy;
use nodeless_commitments::{Bill, Commitments, Instance, Prepaid, bill};
use nodeless_model::node_pool::PoolUsage;
use nodeless_scheduling::{Options, PoolOffer, Problem, Solution};

/// The difference of sums of prices that is rounding.
const ROUNDING: f64 = 1e-9;
/// The same for limits, as in the scheduler.
const ROUNDING_OF_LIMITS: f64 = 1e-6;

/// The commitments of the account, and the instances that use them already.
#[derive(Clone, Debug)]
pub struct Committed<'a> {
    /// The Savings Plans and Reserved Instances.
    pub commitments: &'a Commitments,
    /// The instances of the nodes that stay.
    pub current: Vec<Instance>,
}

impl Committed<'_> {
    /// The part of the price of each launch that commitments cover, in dollars an hour.
    #[must_use]
    pub fn covered(&self, problem: &Problem<'_>, solution: &Solution) -> Vec<f64> {
        let bill = self.bill(problem, solution);
        bill.instances.iter().skip(self.current.len()).map(|one| one.covered).collect()
    }

    /// The plan without commitments, or one for which less is paid in total: the scheduler gets the hours that are left of the
    /// commitments as prepaid capacity. That is an estimate, so each plan is priced as AWS would bill it, and the cheapest is taken. It
    /// leaves no more pods without a node than the plan without commitments, and never costs more. All of them share the work budget.
    pub(crate) fn paid_least(&self, problem: &Problem<'_>, policy: &Policy<'_>, solution: Solution) -> Solution {
        if solution.launches.is_empty() {
            return solution;
        }
        let pods = solution.unschedulable.len();
        let mut work = solution.work;
        let mut best = (self.bill(problem, &solution), solution);
        for prepaid in offers(&Prepaid::left(self.commitments, &bill(&self.current, self.commitments))) {
            for refine in [true, false] {
                let left = policy.options.max_work.map(|max| max.saturating_sub(work));
                if left == Some(0) || (refine && !policy.refine) {
                    continue;
                }
                let options = Options { max_work: left, ..policy.options };
                let other = with_prepaid(problem, &Policy { options, refine, ..policy.clone() }, &prepaid);
                work = work.saturating_add(other.work);
                let bill = self.bill(problem, &other);
                if other.unschedulable.len() <= pods && is_better(&bill, &best.0) && is_within_limits(problem, &other) {
                    best = (bill, other);
                }
            }
        }
        Solution { work, ..best.1 }
    }

    /// What the nodes that stay and the launches cost, the launches last.
    fn bill(&self, problem: &Problem<'_>, solution: &Solution) -> Bill {
        let launched = solution.launches.iter().map(|launch| Instance::of_launch(launch, &problem.node_pools));
        bill(&self.current.iter().cloned().chain(launched).collect::<Vec<_>>(), self.commitments)
    }
}

/// The solution of a problem with prepaid hours.
fn with_prepaid(problem: &Problem<'_>, policy: &Policy<'_>, prepaid: &Prepaid<'_>) -> Solution {
    let mut other = policy.stopped.offered(problem).into_owned();
    // A launch with prepaid hours lists one instance type, so it is no choice where minValues require one.
    for offer in other.node_pools.iter_mut().filter(|offer| !has_min_values(offer)) {
        offer.instance_types = offer.instance_types.iter().map(|kind| prepaid.offered(kind)).collect();
    }
    let mut solution = crate::scheduled(&other, policy);
    for launch in &mut solution.launches {
        if let Some(offer) = problem.node_pools.iter().find(|offer| offer.pool.name == launch.node_pool) {
            Prepaid::at_list_price(launch, &offer.instance_types);
        }
    }
    policy.adjust(problem, &mut solution);
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
