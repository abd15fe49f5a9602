//! What the scheduler says to a removal.

use super::round::Round;
use crate::decision::Replacement;
use crate::packed::{Mover, Moves};
use crate::reasons::KeptReason;
use nodeless_model::Pod;
use nodeless_scheduling::{Launch, Problem, Solution, solve};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Where the scheduler sends pods.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// Places in the list of movers, and nodes of the row.
    pub(super) placed: Vec<(usize, usize)>,
    /// What has to be launched, with the places of the movers that it is for.
    pub(super) launches: Vec<Launch>,
}

/// How much more work it is to look at an instance type than at a pod.
const WORK_PER_TYPE: usize = 8;

impl<'a> Round<'_, 'a, '_> {
    /// Shows pods to the scheduler, with the nodes where a quick look would send them, or where other pods matter with
    /// all that are open; and with what can be launched, where that is allowed.
    pub(super) fn ask(
        &mut self,
        movers: &[Mover<'a>],
        moves: &Moves,
        related: bool,
        launching: bool,
    ) -> Result<Verdict, KeptReason> {
        let types = if launching { self.market.size() * WORK_PER_TYPE } else { 0 };
        let everything = self.packed.problem.bound_pods.iter().map(|node| node.pods.len() + 1).sum::<usize>();
        self.spend(movers.len() + types + if related { everything } else { 0 })?;
        let pods: Vec<&'a Pod> = movers.iter().map(|mover| mover.pod).collect();
        let offers = if launching { self.market.offers.clone() } else { Vec::new() };
        let (solution, leaves) = if related {
            let solution = self.packed.with_problem(|problem| {
                problem.pods.clone_from(&pods);
                problem.node_pools = offers;
                let solution = solve(problem, &self.options.scheduling);
                problem.pods.clear();
                problem.node_pools.clear();
                solution
            });
            (solution, None)
        } else {
            let mut used: Vec<usize> = moves.placed.iter().map(|(_, leaf)| *leaf).collect();
            used.sort_unstable();
            used.dedup();
            let problem = Problem { node_pools: offers, ..self.small(&pods, &used) };
            (solve(&problem, &self.options.scheduling), Some(used))
        };
        verdict(solution, movers, leaves.as_deref())
    }

    /// The problem reduced to a few pods and nodes, where no other pods matter.
    fn small(&self, pods: &[&'a Pod], leaves: &[usize]) -> Problem<'a> {
        let whole = &self.packed.problem;
        let mut volumes = BTreeMap::new();
        for pod in pods {
            for claim in &pod.volume_claims {
                let key = format!("{}/{}", pod.namespace, claim.claim_name);
                volumes.extend(whole.volumes.get(&key).map(|known| (key, known.clone())));
            }
        }
        Problem {
            pods: pods.to_vec(),
            nodes: leaves.iter().map(|leaf| whole.nodes[*leaf].clone()).collect(),
            daemon_sets: whole.daemon_sets,
            volumes,
            ..Problem::default()
        }
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

/// What a solution means for the movers; `leaves` are the nodes that were shown, where not all were.
fn verdict(solution: Solution, movers: &[Mover<'_>], leaves: Option<&[usize]>) -> Result<Verdict, KeptReason> {
    if let Some(stuck) = solution.unschedulable.first() {
        let why: Vec<String> = stuck.reasons.iter().map(ToString::to_string).collect();
        return Err(KeptReason::NoPlace { pod: movers[stuck.pod].pod.key(), why: why.join("; ") });
    }
    let leaf = |node: usize| leaves.map_or(node, |leaves| leaves[node]);
    let placed = solution.placements.iter().map(|placement| (placement.pod, leaf(placement.node))).collect();
    Ok(Verdict { placed, launches: solution.launches })
}

/// How many pods a verdict sends to each of two lists alike: whether the scheduler agrees with a quick look.
pub(super) fn agrees(moves: &Moves, verdict: &Verdict) -> bool {
    let quick: HashMap<usize, usize> = moves.placed.iter().copied().collect();
    let asked: HashMap<usize, usize> = verdict.placed.iter().copied().collect();
    quick == asked
}

/// The admissions of some movers; `None` where one of them can be placed nowhere.
pub(super) fn admissions(round: &Round<'_, '_, '_>, movers: &[Mover<'_>], which: &[usize]) -> Option<BTreeSet<usize>> {
    which.iter().map(|place| round.packed.class(&movers[*place]).admission.as_ref().ok().copied()).collect()
}
