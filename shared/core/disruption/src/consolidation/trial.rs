//! Validation of a removal by the scheduler.

use super::round::Round;
use crate::output::Replacement;
use crate::reasons::KeptReason;
use crate::simulation::packed::{Mover, Moves, Scope};
use nodeless_model::Pod;
use nodeless_model::hashed::HashMap;
use nodeless_scheduling::{Launch, PoolOffer, Problem, Reason, Solution, Unschedulable};
use std::collections::BTreeSet;

/// Where the scheduler places pods.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// Indices of movers and of nodes.
    pub(super) placed: Vec<(usize, usize)>,
    /// The launches, with the indices of their movers.
    pub(super) launches: Vec<Launch>,
}

/// The work for a pod, a node or a running pod in a problem, in the units of [`Solution::work`].
const WORK_PER_ITEM: usize = 30;

impl<'a> Round<'_, 'a, '_> {
    /// Schedules pods on the nodes that the packed cluster chose, or, if other pods affect them, on those and more; and on new
    /// nodes, if `launching` allows that. Moves that violate the spread or taints of target nodes are rejected.
    pub(super) fn ask(
        &mut self,
        movers: &[Mover<'a>],
        moves: &Moves,
        scope: Scope,
        launching: bool,
    ) -> Result<Verdict, KeptReason> {
        let verdict = self.ask_scheduler(movers, moves, scope, launching)?;
        self.check_host_spread(movers, &verdict)?;
        self.check_taints(movers, &verdict)?;
        Ok(verdict)
    }

    fn ask_scheduler(
        &mut self,
        movers: &[Mover<'a>],
        moves: &Moves,
        scope: Scope,
        launching: bool,
    ) -> Result<Verdict, KeptReason> {
        self.has_work_left()?;
        let pods: Vec<&'a Pod> = movers.iter().map(|mover| mover.pod).collect();
        let offers = if launching { self.node_prices.offers.clone() } else { Vec::new() };
        let mut problem = match scope {
            Scope::Whole => return self.ask_whole(movers, pods, offers),
            Scope::Small => {
                let leaves: BTreeSet<usize> = moves.placed.iter().map(|(_, leaf)| *leaf).collect();
                self.small(&pods, leaves.into_iter().collect())
            }
            Scope::Related => {
                let (bound, count) = self.packed.relevant(movers);
                let leaves = self.packed.candidate_nodes(movers, moves);
                self.spend(work(count + bound.len()));
                let mut reduced = self.small(&pods, leaves);
                reduced.0.bound_pods = bound;
                reduced
            }
        };
        problem.0.node_pools = offers;
        self.spend(work(movers.len() + problem.1.len()));
        self.has_work_left()?;
        let left = self.work_left();
        let solution = self.scheduler.solve(&problem.0, left);
        self.spend(solution.work);
        verdict(solution, movers, Some(&problem.1))
    }

    fn ask_whole(
        &mut self,
        movers: &[Mover<'a>],
        pods: Vec<&'a Pod>,
        offers: Vec<PoolOffer<'a>>,
    ) -> Result<Verdict, KeptReason> {
        let everything = self.packed.problem.bound_pods.iter().map(|node| node.pods.len() + 1).sum::<usize>();
        self.spend(work(everything));
        self.has_work_left()?;
        let left = self.work_left();
        let scheduler = &mut *self.scheduler;
        let solution = self.packed.with_problem(|problem| {
            (problem.pods, problem.node_pools) = (pods, offers);
            let solution = scheduler.solve(problem, left);
            problem.pods.clear();
            problem.node_pools.clear();
            solution
        });
        self.spend(solution.work);
        verdict(solution, movers, None)
    }

    /// The problem reduced to a few pods and nodes, and which nodes these are.
    fn small(&self, pods: &[&'a Pod], leaves: Vec<usize>) -> (Problem<'a>, Vec<usize>) {
        let whole = &self.packed.problem;
        let problem = Problem {
            pods: pods.to_vec(),
            nodes: leaves.iter().map(|leaf| whole.nodes[*leaf].clone()).collect(),
            daemon_sets: whole.daemon_sets,
            facts: whole.facts,
            ..Problem::default()
        };
        (problem, leaves)
    }

    /// Sorts pods, the largest first.
    pub(super) fn largest_first(&self, movers: &mut [Mover<'a>]) {
        movers.sort_by(|a, b| {
            let asked = |mover: &Mover<'a>| &self.packed.class(mover).asked;
            let name = |mover: &Mover<'a>| (&mover.pod.namespace, &mover.pod.name);
            asked(b).cmp(asked(a)).then_with(|| name(a).cmp(&name(b)))
        });
    }

    /// Makes the command of a result. Its placements replace the moves in the packed cluster.
    pub(super) fn conclude(&mut self, places: &[usize], movers: &[Mover<'a>], moves: &Moves, verdict: Verdict) {
        self.note_zones(movers, &verdict);
        if !agrees(moves, &verdict) {
            self.packed.undo(movers, moves);
            self.packed.apply(movers, &verdict.placed);
        }
        let replacements = Self::replacements(verdict.launches, movers);
        self.command(places, movers, &verdict.placed, replacements);
    }

    /// Replacements with the names of their pods.
    pub(super) fn replacements(launches: Vec<Launch>, movers: &[Mover<'a>]) -> Vec<Replacement> {
        let one = |mut launch: Launch| {
            let pods = std::mem::take(&mut launch.pods);
            Replacement { launch, pods: pods.into_iter().map(|pod| movers[pod].pod.key()).collect() }
        };
        launches.into_iter().map(one).collect()
    }
}

fn work(items: usize) -> u64 {
    u64::try_from(items * WORK_PER_ITEM).unwrap_or(u64::MAX)
}

/// The result of a solution for the movers; `leaves` are the nodes of the reduced problem, if it was reduced.
fn verdict(solution: Solution, movers: &[Mover<'_>], leaves: Option<&[usize]>) -> Result<Verdict, KeptReason> {
    let explained = |stuck: &&Unschedulable| !stuck.reasons.contains(&Reason::NotExplained);
    let stuck = solution.unschedulable.iter().find(explained).or(solution.unschedulable.first());
    if solution.unschedulable.iter().any(|stuck| stuck.reasons.contains(&Reason::OutOfWork)) {
        return Err(KeptReason::NotEvaluated);
    }
    if let Some(stuck) = stuck {
        let why: Vec<String> = stuck.reasons.iter().map(ToString::to_string).collect();
        return Err(KeptReason::Unschedulable { pod: movers[stuck.pod].pod.key(), why: why.join("; ") });
    }
    let leaf = |node: usize| leaves.map_or(node, |leaves| leaves[node]);
    let placed = solution.placements.iter().map(|placement| (placement.pod, leaf(placement.node))).collect();
    Ok(Verdict { placed, launches: solution.launches })
}

/// Whether the scheduler places the pods as the packed cluster did.
fn agrees(moves: &Moves, verdict: &Verdict) -> bool {
    let quick: HashMap<usize, usize> = moves.placed.iter().copied().collect();
    let asked: HashMap<usize, usize> = verdict.placed.iter().copied().collect();
    quick == asked
}

/// The admissions of some movers; `None` where one of them cannot be scheduled on any node.
pub(super) fn admissions(round: &Round<'_, '_, '_>, movers: &[Mover<'_>], which: &[usize]) -> Option<BTreeSet<usize>> {
    which.iter().map(|place| round.packed.class(&movers[*place]).admission.as_ref().ok().copied()).collect()
}
