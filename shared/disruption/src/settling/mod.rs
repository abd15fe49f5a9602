//! The second look at a plan, taken before anybody acts on it.
//!
//! The scheduler packs one node after another and never looks back. Consolidation does nothing else, and would move pods off
//! nodes on which they have only just been started. So a plan's launches are looked at as if they were nodes already, by
//! consolidation itself, and whatever it finds is done to the plan, where it costs nobody anything.

mod doubt;
mod hypothesis;
mod relaunch;

use crate::cluster::{LEAST_SAVING, Options};
use crate::consolidation;
use crate::decision::Command;
use doubt::Doubt;
use hypothesis::Hypothesis;
use nodeless_scheduling::{Launch, Placement, Problem, Solution};
use relaunch::{grown, within_limits};
use std::collections::BTreeMap;

/// Plans of more nodes are left as they are: looking at each would take longer than planning them.
const MOST_LAUNCHES: usize = 500;

/// Plans of at most so many nodes are looked at with every one of [`BUDGETS`].
const MOST_IN_DETAIL: usize = 64;

/// How many nodes of a NodePool may go at once. Where budgets let through few, those may find a cheaper way that all together
/// did not find, as the others stay and take pods.
const BUDGETS: [u32; 7] = [u32::MAX, 2, 3, 4, 5, 8, 12];

/// How often a plan is looked at again at most.
const MOST_LOOKS: usize = 32;

/// Work for each launch in one look, in pods shown to the scheduler.
const WORK_PER_LAUNCH: u64 = 300;

/// Work for any look beside that.
const LEAST_WORK: u64 = 60_000;

/// What a group of nodes must save, as a share of what it costs. First less than consolidation asks for, since other groups
/// of the same nodes must not save that much either; then as much, since it makes other groups of them.
const LEAST_SAVINGS: [f64; 2] = [0.05, LEAST_SAVING];

/// Changes a solution until consolidation would leave its launches alone.
///
/// Launches whose pods fit elsewhere are left out, and groups of launches give way to cheaper ones, as
/// [`decide`](crate::decide) would do it once they are nodes, whatever the policies and budgets. All pods that had a place
/// keep one, and the solution is as valid as before; existing nodes only get more pods. Plans of very many nodes are left as
/// they are, and so are pods whose place matters to very many others. The effort is bounded by counts, so
/// the same input always has the same outcome.
#[must_use]
pub fn settle(problem: &Problem<'_>, solution: Solution, options: &nodeless_scheduling::Options) -> Solution {
    if solution.launches.is_empty() || solution.launches.len() > MOST_LAUNCHES {
        return solution;
    }
    let launches = u64::try_from(solution.launches.len()).unwrap_or(u64::MAX);
    let looks = |least_saving| Options {
        scheduling: *options,
        spot_to_spot: true,
        least_saving,
        most_work: LEAST_WORK + WORK_PER_LAUNCH.saturating_mul(launches),
        ..Options::default()
    };
    let mut doubt = Doubt::of(problem);
    let mut settled: Option<Solution> = None;
    let budgets = if solution.launches.len() > MOST_IN_DETAIL { &BUDGETS[..1] } else { &BUDGETS[..] };
    // Those that allow all nodes are no others than the first.
    let tight = |budget: &u32| *budget == u32::MAX || u64::from(*budget) < launches;
    let budgets: Vec<u32> = budgets.iter().copied().filter(tight).collect();
    let mut ways =
        LEAST_SAVINGS.into_iter().flat_map(|least| budgets.iter().map(move |budget| (*budget, least))).peekable();
    for _ in 0..MOST_LOOKS {
        let Some(&(budget, least_saving)) = ways.peek() else { break };
        let present = settled.as_ref().unwrap_or(&solution);
        let Some(hypothesis) = Hypothesis::of(problem, present) else { break };
        let cluster = hypothesis.cluster(present);
        let eligible = hypothesis.eligible(&cluster, present, &doubt);
        let (beside, charged) = (hypothesis.beside(present), hypothesis.charged(present));
        let commands =
            consolidation::find_planned(&cluster, &eligible, &beside, &charged, budget, &looks(least_saving));
        let mut next = Plan { problem, options, solution: present.clone(), doubt: &mut doubt };
        let changes = commands.iter().filter_map(|command| hypothesis.change(command));
        if changes.filter(|change| next.make(change)).count() > 0 {
            settled = Some(tidy(next.solution));
        } else {
            ways.next();
        }
    }
    settled.and_then(|settled| within_limits(problem, settled, options)).unwrap_or(solution)
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
struct Plan<'p, 'a> {
    problem: &'p Problem<'a>,
    options: &'p nodeless_scheduling::Options,
    solution: Solution,
    doubt: &'p mut Doubt,
}

impl Plan<'_, '_> {
    /// Makes a change, if that leads to a valid plan.
    fn make(&mut self, change: &Change) -> bool {
        let Some(grown) = self.grown(change) else { return false };
        let doubted = self.is_doubted(change);
        let before = doubted.then(|| self.solution.clone());
        change.going.iter().for_each(|place| self.solution.launches[*place].pods.clear());
        grown.into_iter().for_each(|(place, launch)| self.solution.launches[place] = launch);
        self.solution.placements.extend(&change.placements);
        self.solution.launches.extend(change.launches.iter().cloned());
        match before {
            Some(before) if !self.holds() => {
                self.solution = before;
                false
            }
            _ => true,
        }
    }

    /// The launches that get more pods.
    fn grown(&self, change: &Change) -> Option<Vec<(usize, Launch)>> {
        let one = |(place, pods): (&usize, &Vec<usize>)| {
            let launch = &self.solution.launches[*place];
            let stays = launch.pods.iter().chain(pods).any(|pod| self.doubt.concerns(*pod));
            Some((*place, grown(self.problem, launch, pods, stays, self.options)?))
        };
        change.joining.iter().map(one).collect()
    }

    fn is_doubted(&self, change: &Change) -> bool {
        let mut moved = change.going.iter().flat_map(|place| &self.solution.launches[*place].pods);
        moved.any(|pod| self.doubt.concerns(*pod))
    }

    fn holds(&mut self) -> bool {
        let solution = tidy(self.solution.clone());
        within_limits(self.problem, solution, self.options)
            .is_some_and(|solution| self.doubt.dispels(self.problem, &solution, self.options))
    }
}

fn tidy(mut solution: Solution) -> Solution {
    solution.launches.retain(|launch| !launch.pods.is_empty());
    solution.placements.sort_unstable();
    solution
}

impl Hypothesis<'_, '_> {
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
