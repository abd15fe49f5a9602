//! Whether a change of a plan leaves it in an order in which the kube-scheduler could place its pods.
//!
//! Consolidation moves pods that run, one after another, so it may move a pod that the spread of another counts. All pods of
//! a plan wait, though: there the same move can leave no order that keeps the spread.

use nodeless_model::pod::PodAffinityTerm;
use nodeless_model::{LabelSelector, Pod, labels};
use nodeless_scheduling::{Options, Problem, Solution, checker};

/// How many pairs of pods the checker may go through for one plan. More than that is doubted without a look.
const MOST_PAIRS: u64 = 2_000_000;

/// Which pods of a problem matter to where others of them go.
pub(super) struct Doubt {
    matters: Vec<bool>,
    pairs: u64,
    pairs_left: u64,
}

impl Doubt {
    pub(super) fn of(problem: &Problem<'_>) -> Self {
        let mut selectors: Vec<&LabelSelector> = Vec::new();
        for selector in problem.pods.iter().flat_map(selectors_of) {
            // Pods of one workload say the same; most often one of the last said it too.
            if !selectors.iter().rev().take(64).any(|known| *known == selector) {
                selectors.push(selector);
            }
        }
        let matters = |pod: &&Pod| {
            selectors_of(pod).next().is_some() || selectors.iter().any(|selector| selector.matches(&pod.labels))
        };
        let running: usize = problem.bound_pods.iter().map(|bound| bound.pods.len()).sum();
        let pods = u64::try_from(problem.pods.len() + running).unwrap_or(u64::MAX);
        Self {
            matters: problem.pods.iter().map(matters).collect(),
            pairs: pods.saturating_mul(pods),
            pairs_left: MOST_PAIRS,
        }
    }

    /// Whether it matters to other pods of the problem where a pod goes, or the other way round.
    pub(super) fn concerns(&self, pod: usize) -> bool {
        self.matters.get(pod).copied().unwrap_or(true)
    }

    /// Whether no more solutions to which such a pod has come can be looked at.
    pub(super) const fn stays(&self) -> bool {
        self.pairs_left < self.pairs
    }

    /// Whether a solution to which such a pod has come is valid, as far as there is work left to look at it.
    pub(super) fn dispels(&mut self, problem: &Problem<'_>, solution: &Solution, options: &Options) -> bool {
        let Some(left) = self.pairs_left.checked_sub(self.pairs) else { return false };
        self.pairs_left = left;
        checker::violations(problem, solution, options).is_empty()
    }
}

/// What a pod requires of where others are, where the order matters: anti-affinity over the host name holds both ways, so
/// there it does not.
fn selectors_of<'a>(pod: &&'a Pod) -> impl Iterator<Item = &'a LabelSelector> + use<'a> {
    let spread = pod.topology_spread.iter().filter(|spread| spread.hard).filter_map(|spread| spread.selector.as_ref());
    let beyond_hosts = |term: &&PodAffinityTerm| term.topology_key != labels::HOSTNAME;
    let anti = pod.required_pod_anti_affinity.iter().filter(beyond_hosts);
    let near = pod.required_pod_affinity.iter().chain(anti).filter_map(|term| term.selector.as_ref());
    spread.chain(near)
}
