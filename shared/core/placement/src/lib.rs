//! The plan for pending pods: where they run, and which nodes are launched for them.
//!
//! [`plan`] is a pure function of the [`Problem`]. It solves the problem with [`nodeless_scheduling`], and then refines the
//! solution (`refinement`): the planned nodes are consolidated with [`nodeless_disruption::consolidate_planned`] before they are
//! launched.
//!
//! | module of `refinement` | has |
//! |---|---|
//! | `planned_nodes` | the launches of a plan as nodes |
//! | `pinned` | the zones and preferences that refinement keeps |
//! | `planned_cluster` | the cluster after a plan, for consolidation to evaluate |
//! | `resize` | launches for other pods than the scheduler packed, within the limits |

mod refinement;

use nodeless_scheduling::{Options, Prepared, Problem, Solution};

/// Makes a plan: [`nodeless_scheduling::solve`], and the refinement of its launches.
///
/// If `refine` is false, and once [`Options::max_work`] is used up, the plan is the scheduler's: valid, and no more expensive than
/// that.
#[must_use]
pub fn plan(problem: &Problem<'_>, options: &Options, refine: bool) -> Solution {
    let pods = (problem.pods.iter().copied(), problem.facts);
    let mut prepared = Prepared::new(&problem.node_pools, problem.daemon_sets, pods, options);
    let mut solution = prepared.solve(problem);
    solution.work = solution.work.saturating_add(prepared.work());
    let left = options.max_work.map_or(u64::MAX, |max| max.saturating_sub(solution.work));
    let max_work = solution.work.min(left);
    // The reasons for unschedulable pods are not read from here on.
    prepared.explain_at_most(1);
    if refine { refinement::refine(problem, solution, options, &mut prepared, max_work) } else { solution }
}
