//! Refinement of a plan before it is executed.
//!
//! The scheduler packs one node after another and does not revise its choices. Consolidation would revise them later by moving
//! pods that have just started. So consolidation evaluates a plan's launches as nodes, and its commands change the plan before
//! any pod has started.
//!
//! Refinement takes at most as much work as the plan itself, with everything that it does counted. Its result needs no further
//! validation: pods that depend on the placement of others stay in the zone, or on the node, for which they were planned, so the
//! kube-scheduler can still place all pods in some order; and preferences that the plan meets count as required.

mod pinned;
mod planned_cluster;
mod planned_nodes;
mod resize;

use nodeless_disruption::{Command, MIN_SAVING, Options, PlannedNodes, consolidate_planned};
use nodeless_scheduling::{Launch, Placement, Prepared, Problem, Solution};
use pinned::Pinned;
use planned_cluster::PlannedCluster;
use resize::{LaunchResizer, work_at_the_end};
use std::collections::BTreeMap;

/// Plans with more launches are not refined: one evaluation would use most of the work limit, and the possible savings are small
/// with that number of nodes.
const MAX_REFINED_LAUNCHES: usize = 500;

/// Plans with at most this number of launches are evaluated with every one of [`BUDGETS`].
const MAX_LAUNCHES_FOR_ALL_BUDGETS: usize = 64;

/// The numbers of nodes of a NodePool that may be removed in one evaluation. With a small budget the other nodes stay and take
/// pods, which may lead to a cheaper plan than without one.
const BUDGETS: [u32; 7] = [u32::MAX, 2, 3, 4, 5, 8, 12];

/// The maximum number of evaluations of a plan.
const MAX_EVALUATIONS: usize = 32;

/// The work to prepare an evaluation, for each pod and node of the plan, in the units of [`Solution::work`].
const WORK_OF_PREPARATION: u64 = 40;

/// The work to find what refinement has to keep: for each pod and node of the plan, and for each running pod.
const WORK_OF_PINNING: u64 = 20;
const WORK_OF_PINNING_RUNNING: u64 = 4;

/// The minimum savings of a group of nodes, as a fraction of its price. First less than in consolidation, because these savings
/// do not prevent those of other groups; then as much, because consolidation forms other groups.
const MIN_SAVINGS: [f64; 2] = [0.05, MIN_SAVING];

/// Changes a solution until consolidation would not change its launches, or `max_work` is used up.
///
/// Launches whose pods fit elsewhere are removed, and groups of launches are replaced by cheaper ones, as
/// [`decide`](nodeless_disruption::decide) would do once they are nodes, regardless of policies and budgets. All scheduled pods
/// stay scheduled, and the solution remains valid; existing nodes only get more pods. The work is bounded by counts, so the same
/// input always has the same result.
pub(crate) fn refine(
    problem: &Problem<'_>,
    solution: Solution,
    options: &nodeless_scheduling::Options,
    prepared: &mut Prepared<'_>,
    max_work: u64,
) -> Solution {
    if solution.launches.is_empty() || solution.launches.len() > MAX_REFINED_LAUNCHES {
        return solution;
    }
    let launches = count(solution.launches.len());
    let items = count(problem.pods.len() + problem.nodes.len()).saturating_add(launches);
    let preparation = items.saturating_mul(WORK_OF_PREPARATION);
    let mut work = work_of_pinning(problem, items);
    if work.saturating_add(preparation) > max_work {
        return solution;
    }
    let Some(pinned) = Pinned::new(problem, &solution, options) else { return solution };
    let mut refined: Option<Solution> = None;
    let budgets = if solution.launches.len() > MAX_LAUNCHES_FOR_ALL_BUDGETS { &BUDGETS[..1] } else { &BUDGETS[..] };
    // Evaluations with unlimited budgets are the same as the first.
    let tight = |budget: &u32| *budget == u32::MAX || u64::from(*budget) < launches;
    let budgets: Vec<u32> = budgets.iter().copied().filter(tight).collect();
    let mut ways =
        MIN_SAVINGS.into_iter().flat_map(|least| budgets.iter().map(move |budget| (*budget, least))).peekable();
    for _ in 0..MAX_EVALUATIONS {
        let Some(&(budget, min_saving)) = ways.peek() else { break };
        let present = refined.as_ref().unwrap_or(&solution);
        // The work of the last steps is reserved for them.
        let end = max_work.saturating_sub(work_at_the_end(problem, present));
        if work.saturating_add(preparation) > end {
            break;
        }
        work += preparation;
        let Some(planned) = PlannedCluster::new(problem, &pinned, present) else { break };
        let cluster = planned.cluster(present);
        let (existing, charged) = (planned.existing_nodes(present), planned.charged(present));
        let nodes = PlannedNodes {
            cluster: &cluster,
            movable: planned.movable(&cluster, present),
            existing: &existing,
            launches: &charged,
            max_removed: budget,
        };
        let look = Options {
            scheduling: nodeless_scheduling::Options { max_work: None, ..*options },
            spot_to_spot: true,
            min_saving,
            max_work: end - work,
            ..Options::default()
        };
        let found = consolidate_planned(&nodes, &look, prepared);
        work = work.saturating_add(found.work);
        let resizer = LaunchResizer { problem, prepared: &mut *prepared, work, max_work: end };
        let mut next = Plan { pinned: &pinned, solution: present.clone(), resizer };
        let changes = found.commands.iter().filter_map(|command| planned.change(command));
        let changed = changes.filter(|change| next.make(change)).count() > 0;
        work = next.resizer.work;
        if changed {
            refined = Some(tidy(next.solution));
        } else {
            ways.next();
        }
    }
    let mut resizer = LaunchResizer { problem, prepared, work, max_work };
    let refined = refined.and_then(|refined| resizer.within_limits(refined));
    let work = solution.work.saturating_add(resizer.work);
    Solution { work, ..refined.unwrap_or(solution) }
}

/// The work of [`Pinned::new`].
fn work_of_pinning(problem: &Problem<'_>, items: u64) -> u64 {
    let running = count(problem.bound_pods.iter().map(|node| node.pods.len()).sum());
    let of_running = running.saturating_mul(WORK_OF_PINNING_RUNNING);
    items.saturating_mul(WORK_OF_PINNING).saturating_add(of_running)
}

fn count(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}

/// The change of a solution by a command.
#[derive(Default)]
struct Change {
    /// The removed launches.
    going: Vec<usize>,
    placements: Vec<Placement>,
    launches: Vec<Launch>,
    /// Pods that join launches.
    joining: BTreeMap<usize, Vec<usize>>,
}

/// A solution during refinement. Removed launches are empty, so that the indices of others stay the same.
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
    /// The change by a command; `None` if it refers to something else.
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
