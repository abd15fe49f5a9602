//! The plan for pending pods: where they run, and which nodes are launched for them.
//!
//! [`plan`] is a pure function of the [`Problem`] and the [`Policy`]. It solves the problem with [`nodeless_scheduling`], and then
//! refines the solution (`refinement`): the planned nodes are consolidated with [`nodeless_disruption::consolidate_planned`] before they
//! are launched. The policy then changes launches of a valid plan: minimums of on-demand nodes, offerings that were interrupted, and
//! commitments.
//!
//! | module | has |
//! |---|---|
//! | `gangs` | the plan without the PodGroups and ProvisioningRequests that have too few nodes |
//! | `commitments` | the plan for which least is paid with Savings Plans and Reserved Instances |
//! | `stopped` | the stopped instances of warm nodes as offerings |
//! | `refinement::planned_nodes` | the launches of a plan as nodes |
//! | `refinement::pinned` | the zones and preferences that refinement keeps |
//! | `refinement::planned_cluster` | the cluster after a plan, for consolidation to evaluate |
//! | `refinement::resize` | launches for other pods than the scheduler packed, within the limits |

mod commitments;
mod gangs;
mod refinement;
mod stopped;

pub use commitments::Committed;
pub use stopped::StoppedInstances;

use nodeless_disruption::OnDemandMinimums;
use nodeless_disruption::spot_interruptions::RecentInterruptions;
use nodeless_scheduling::{Options, Prepared, Problem, Solution, exchange_equal_pods};

/// What decides about a plan besides its problem.
#[derive(Clone, Debug, Default)]
pub struct Policy<'a> {
    /// The options of the scheduler, with the limit of work of the whole plan.
    pub options: Options,
    /// Whether launches are refined; otherwise they are the scheduler's.
    pub refine: bool,
    /// Whether equal pods are exchanged, so that the kube-scheduler can bind them where they are planned.
    pub exchange: bool,
    /// By uid, pods that all get nodes or none, in the order of their importance: the virtual pods of each ProvisioningRequest.
    pub whole: Vec<Vec<&'a str>>,
    /// The stopped instances that may be started.
    pub stopped: StoppedInstances<'a>,
    /// The minimums of on-demand nodes.
    pub minimums: OnDemandMinimums,
    /// The offerings that were interrupted recently.
    pub interruptions: RecentInterruptions,
    /// The commitments of the account, if they are used.
    pub committed: Option<Committed<'a>>,
}

impl Policy<'_> {
    /// Without stopped instances, minimums, interruptions and commitments.
    #[must_use]
    pub fn new(options: &Options, refine: bool) -> Self {
        Self { options: *options, refine, exchange: true, ..Self::default() }
    }

    /// Names the stopped instances that are started, changes launches for the minimums and interruptions, and gives equal pods their places in the order of their names.
    fn adjust(&self, problem: &Problem<'_>, solution: &mut Solution) {
        self.stopped.assign(&mut solution.launches, &problem.node_pools);
        self.minimums.limit(&mut solution.launches, &problem.node_pools);
        if self.exchange {
            exchange_equal_pods(problem, solution);
        }
        self.interruptions.choose_others(&mut solution.launches, &problem.node_pools);
    }
}

/// Makes a plan.
///
/// Without refinement, and once [`Options::max_work`] is used up, the launches are the scheduler's: valid, and no more expensive than
/// that. Fewer pods of a PodGroup than are scheduled together, and fewer than all of [`Policy::whole`], get no place (`gangs`).
#[must_use]
pub fn plan(problem: &Problem<'_>, policy: &Policy<'_>) -> Solution {
    let mut solution = scheduled(&policy.stopped.offered(problem), policy);
    policy.adjust(problem, &mut solution);
    match &policy.committed {
        Some(committed) => committed.paid_least(problem, policy, solution),
        None => solution,
    }
}

/// The scheduler's solution with whole gangs, refined where the policy asks for it.
fn scheduled(problem: &Problem<'_>, policy: &Policy<'_>) -> Solution {
    let solve = |problem: &Problem<'_>, max_work| refined(problem, policy, &Options { max_work, ..policy.options });
    gangs::plan(problem, &policy.whole, policy.options.max_work, solve)
}

fn refined(problem: &Problem<'_>, policy: &Policy<'_>, options: &Options) -> Solution {
    let pods = problem.pods.iter().copied();
    let mut prepared = Prepared::new(&problem.node_pools, problem.daemon_sets, pods, problem.facts, options);
    let mut solution = prepared.solve(problem);
    solution.work = solution.work.saturating_add(prepared.work());
    let left = options.max_work.map_or(u64::MAX, |max| max.saturating_sub(solution.work));
    let max_work = solution.work.min(left);
    // The reasons for unschedulable pods are not read from here on.
    prepared.explain_at_most(1);
    if policy.refine { refinement::refine(problem, solution, options, &mut prepared, max_work) } else { solution }
}
