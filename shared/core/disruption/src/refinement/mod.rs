//! Refinement of a plan before it is carried out.
//!
//! The scheduler packs one node after another and does not revise its choices. Consolidation would revise them later,
//! by moving pods that have just started. So consolidation evaluates a plan's launches as if they were nodes, and what
//! it finds changes the plan, before any pod has started.
//!
//! Refinement takes at most as much work as the plan itself. Its result needs no further validation: pods that depend
//! on the placement of others stay in the zone, or on the node, for which they were planned, so the kube-scheduler can
//! still place all pods in some order; and preferences that the plan meets count as required.

mod pinned;
mod planned_cluster;
mod planned_nodes;
mod resize;

use crate::cluster::{MIN_SAVING, Options};
use crate::consolidation;
use crate::output::Command;
use nodeless_scheduling::{Launch, Placement, Prepared, Problem, Solution};
use pinned::Pinned;
use planned_cluster::PlannedCluster;
use resize::LaunchResizer;
use std::collections::BTreeMap;

/// Plans with more launches are not refined: evaluating them once would use most of the work limit, and there is little
/// to save where nodes are that many.
const MAX_REFINED_LAUNCHES: usize = 500;

/// Plans with at most this number of launches are evaluated with every one of [`BUDGETS`].
const MAX_LAUNCHES_FOR_ALL_BUDGETS: usize = 64;

/// How many nodes of a NodePool may be removed in one evaluation. With a small budget the other nodes stay and take
/// pods, which may lead to a cheaper plan than without one.
const BUDGETS: [u32; 7] = [u32::MAX, 2, 3, 4, 5, 8, 12];

/// How often a plan is evaluated at most.
const MAX_EVALUATIONS: usize = 32;

/// The work to prepare an evaluation, for each pod and node of the plan, in the units of [`Solution::work`].
const WORK_OF_PREPARATION: u64 = 60;

/// What a group of nodes must save, as a share of what it costs. First less than consolidation asks for, since other groups
/// of the same nodes must not save that much either; then as much, since it makes other groups of them.
const MIN_SAVINGS: [f64; 2] = [0.05, MIN_SAVING];

/// Makes a plan: [`nodeless_scheduling::solve`], and the refinement of what it launches.
///
/// With `refine` false, and once [`nodeless_scheduling::Options::max_work`] is used up, the plan stays as it was made
/// first: valid, and no dearer than the scheduler found.
#[must_use]
pub fn plan(problem: &Problem<'_>, options: &nodeless_scheduling::Options, refine: bool) -> Solution {
    let requests = problem.pods.iter().map(|pod| &pod.requests);
    let mut prepared = Prepared::new(&problem.node_pools, problem.daemon_sets, requests, options);
    let mut solution = prepared.solve(problem);
    solution.work = solution.work.saturating_add(prepared.work());
    let left = options.max_work.map_or(u64::MAX, |max| max.saturating_sub(solution.work));
    let max_work = solution.work.min(left);
    // The reasons for unschedulable pods are not read from here on.
    prepared.explain_at_most(1);
    if refine { refine_solution(problem, solution, options, &mut prepared, max_work) } else { solution }
}

/// Changes a solution until consolidation would leave its launches alone, or `max_work` is used up.
///
/// Launches whose pods fit elsewhere are left out, and groups of launches give way to cheaper ones, as
/// [`decide`](crate::decide) would do it once they are nodes, whatever the policies and budgets. All pods that had a place
/// keep one, and the solution is as valid as before; existing nodes only get more pods. The effort is bounded by counts, so
/// the same input always has the same outcome.
fn refine_solution(
    problem: &Problem<'_>,
    solution: Solution,
    options: &nodeless_scheduling::Options,
    prepared: &mut Prepared<'_>,
    max_work: u64,
) -> Solution {
    if solution.launches.is_empty() || solution.launches.len() > MAX_REFINED_LAUNCHES {
        return solution;
    }
    let Some(pinned) = Pinned::of(problem, &solution, options) else { return solution };
    let launches = u64::try_from(solution.launches.len()).unwrap_or(u64::MAX);
    let pods = u64::try_from(problem.pods.len() + problem.nodes.len()).unwrap_or(u64::MAX);
    let mut work_left = max_work;
    let mut refined: Option<Solution> = None;
    let budgets = if solution.launches.len() > MAX_LAUNCHES_FOR_ALL_BUDGETS { &BUDGETS[..1] } else { &BUDGETS[..] };
    // Those that allow all nodes are no others than the first.
    let tight = |budget: &u32| *budget == u32::MAX || u64::from(*budget) < launches;
    let budgets: Vec<u32> = budgets.iter().copied().filter(tight).collect();
    let mut ways =
        MIN_SAVINGS.into_iter().flat_map(|least| budgets.iter().map(move |budget| (*budget, least))).peekable();
    for _ in 0..MAX_EVALUATIONS {
        let Some(&(budget, least_saving)) = ways.peek() else { break };
        let Some(left) = work_left.checked_sub(pods.saturating_add(launches).saturating_mul(WORK_OF_PREPARATION))
        else {
            break;
        };
        let present = refined.as_ref().unwrap_or(&solution);
        let Some(planned) = PlannedCluster::of(problem, &pinned, present) else { break };
        let cluster = planned.cluster(present);
        let eligible = planned.eligible(&cluster, present);
        let (beside, charged) = (planned.beside(present), planned.charged(present));
        let look = Options {
            scheduling: nodeless_scheduling::Options { max_work: None, ..*options },
            spot_to_spot: true,
            least_saving,
            most_work: left,
            ..Options::default()
        };
        let (commands, left) =
            consolidation::find_planned(&cluster, &eligible, (&beside, &charged), budget, &look, prepared);
        let resizer = LaunchResizer { problem, prepared: &mut *prepared, work_left: left };
        let mut next = Plan { pinned: &pinned, solution: present.clone(), resizer };
        let changes = commands.iter().filter_map(|command| planned.change(command));
        let changed = changes.filter(|change| next.make(change)).count() > 0;
        work_left = next.resizer.work_left;
        if changed {
            refined = Some(tidy(next.solution));
        } else {
            ways.next();
        }
    }
    let work = solution.work.saturating_add(max_work.saturating_sub(work_left));
    let mut resizer = LaunchResizer { problem, prepared, work_left: u64::MAX };
    let refined = refined.and_then(|refined| resizer.within_limits(refined));
    Solution { work, ..refined.unwrap_or(solution) }
}

/// What a command does to a solution.
#[derive(Default)]
struct Change {
    /// The launches that go.
    going: Vec<usize>,
    placements: Vec<Placement>,
    launches: Vec<Launch>,
    /// Pods that join launches.
    joining: BTreeMap<usize, Vec<usize>>,
}

/// A solution while it changes. Launches that went are empty, so that the places of others stay.
struct Plan<'p, 'a, 'q> {
    pinned: &'p Pinned,
    solution: Solution,
    resizer: LaunchResizer<'p, 'a, 'q>,
}

impl Plan<'_, '_, '_> {
    /// Makes a change, if there are launches for it.
    fn make(&mut self, change: &Change) -> bool {
        let Some(grown) = self.grown(change) else { return false };
        change.going.iter().for_each(|place| self.solution.launches[*place].pods.clear());
        grown.into_iter().for_each(|(place, launch)| self.solution.launches[place] = launch);
        self.solution.placements.extend(&change.placements);
        self.solution.launches.extend(change.launches.iter().cloned());
        true
    }

    /// The launches that get more pods.
    fn grown(&mut self, change: &Change) -> Option<Vec<(usize, Launch)>> {
        let mut grown = Vec::with_capacity(change.joining.len());
        for (place, pods) in &change.joining {
            let launch = &self.solution.launches[*place];
            let in_zone = launch.pods.iter().chain(pods).any(|pod| self.pinned.keeps_zone(*pod));
            grown.push((*place, self.resizer.grown(launch, pods, in_zone)?));
        }
        Some(grown)
    }
}

fn tidy(mut solution: Solution) -> Solution {
    solution.launches.retain(|launch| !launch.pods.is_empty());
    solution.placements.sort_unstable();
    solution
}

impl PlannedCluster<'_, '_> {
    /// What a command does; `None` where it speaks of something else.
    fn change(&self, command: &Command) -> Option<Change> {
        let mut change = Change::default();
        for candidate in &command.candidates {
            change.going.push(self.launch(&candidate.node)?);
        }
        for to in &command.placements {
            let pod = self.pod(&to.pod)?;
            match self.launch(&to.node) {
                Some(launch) => change.joining.entry(launch).or_default().push(pod),
                None => change.placements.push(Placement { pod, node: self.node(&to.node)? }),
            }
        }
        for replacement in &command.replacements {
            let pods: Option<Vec<usize>> = replacement.pods.iter().map(|pod| self.pod(pod)).collect();
            let mut pods = pods?;
            pods.sort_unstable();
            change.launches.push(Launch { pods, ..replacement.launch.clone() });
        }
        Some(change)
    }
}
