//! What makes unschedulable pods schedulable: every change is tried in the planner before it is advised.

mod after;
mod candidates;
mod change;

use crate::engine::solve;
use crate::problem::reason::{Cause, Reason};
use crate::problem::solution::{Solution, Unschedulable};
use crate::problem::{Options, Problem};
use after::Planned;
use candidates::candidates;
use change::{Change, PoolChange};
use nodeless_model::resources::compared;
use nodeless_model::{NodePool, Pod, Quantity};
use std::collections::BTreeMap;

/// The maximum work of all trials together, in the units of [`Solution::work`]: some seconds.
const MAX_WORK: u64 = 100_000_000;

/// The work to copy a node for a trial.
const WORK_PER_NODE: usize = 200;

/// The maximum number of trials for a pod.
const MAX_TRIALS: usize = 100;

/// The maximum number of remedies of a pod.
const MAX_REMEDIES: usize = 5;

/// What makes a pod schedulable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// Changes of the pod, of a NodePool or of a limit, the smallest first: each alone makes the pod schedulable. If none does, each
    /// is a combination of two.
    pub remedies: Vec<String>,
    /// What limits the pod if no change of its constraints helps, or that no change was found.
    pub obstacle: Option<String>,
}

/// Advice for unschedulable pods of a solution, in their order. Each change is tried with the pod alone, after the plan. That takes as
/// much work as several plans, at most [`Options::max_work`] and some seconds in total; pods after that get no advice.
#[must_use]
pub fn advise<'u>(
    problem: &Problem<'_>,
    solution: &Solution,
    refused: impl IntoIterator<Item = &'u Unschedulable>,
    options: &Options,
) -> Vec<Advice> {
    let planned = Planned::of(problem, solution);
    let after = planned.problem(problem, solution);
    let left = options.max_work.map_or(MAX_WORK, |max| max.min(MAX_WORK));
    let mut trials = Trials { after: &after, options: *options, left, count: 0 };
    let mut known: Vec<(&Pod, &[Reason], Advice)> = Vec::new();
    let advised = refused.into_iter().map(|refused| {
        let pod = problem.pods[refused.pod];
        let same = known.iter().find(|(other, reasons, _)| *reasons == refused.reasons && is_alike(pod, other));
        if let Some((_, _, advice)) = same {
            return advice.clone();
        }
        let advice = trials.advice(pod, &refused.reasons);
        known.push((pod, &refused.reasons, advice.clone()));
        advice
    });
    advised.collect()
}

/// Whether the same changes make both pods schedulable.
fn is_alike(one: &Pod, other: &Pod) -> bool {
    one.namespace == other.namespace
        && one.template.labels == other.template.labels
        && one.template.requests == other.template.requests
        && one.template.node_selector == other.template.node_selector
        && one.template.required_node_affinity == other.template.required_node_affinity
        && one.template.has_match_fields == other.template.has_match_fields
        && one.template.required_pod_affinity == other.template.required_pod_affinity
        && one.template.required_pod_anti_affinity == other.template.required_pod_anti_affinity
        && one.template.topology_spread == other.template.topology_spread
        && one.template.tolerations == other.template.tolerations
        && one.template.host_ports == other.template.host_ports
        && one.template.volume_claims == other.template.volume_claims
        && one.template.resource_claims == other.template.resource_claims
}

/// The result of a trial.
enum Outcome {
    Placed,
    Refused(Vec<Reason>),
    /// The limit of work or of trials is reached.
    NotTried,
}

/// Tries changes of one pod after the other.
struct Trials<'t, 'a> {
    after: &'t Problem<'a>,
    options: Options,
    /// The remaining work.
    left: u64,
    /// The number of trials for this pod.
    count: usize,
}

/// The trials for a pod.
#[derive(Default)]
struct Search {
    found: Vec<Vec<Change>>,
    /// Changes that do not suffice, and what is in the way then.
    failed: Vec<(Change, Vec<Reason>)>,
    cut_off: bool,
    /// By resource of which no instance type has enough: the request, and the most that any leaves.
    too_large: BTreeMap<String, (Quantity, Quantity)>,
}

impl Trials<'_, '_> {
    fn advice(&mut self, pod: &Pod, reasons: &[Reason]) -> Advice {
        match reasons {
            [Reason::NoNodePools] => {
                return Advice { remedies: vec!["create a NodePool".to_owned()], obstacle: None };
            }
            [Reason::OutOfWork | Reason::NotExplained] => return Advice::default(),
            _ => {}
        }
        self.count = 0;
        // Without a change the next plan may place it.
        let Outcome::Refused(reasons) = self.outcome(pod, &[]) else { return Advice::default() };
        let mut search = Search::default();
        search.note(&reasons);
        self.singles(pod, &reasons, &mut search);
        if search.found.is_empty() {
            self.pairs(pod, &mut search);
        }
        if search.found.is_empty() {
            self.untried(&mut search);
        }
        search.advice()
    }

    fn singles(&mut self, pod: &Pod, reasons: &[Reason], search: &mut Search) {
        for change in candidates(reasons, pod, &self.after.node_pools) {
            if search.found.len() == MAX_REMEDIES || search.is_superfluous(&change) {
                continue;
            }
            match self.outcome(pod, &[&change]) {
                Outcome::Placed => search.found.push(vec![change]),
                Outcome::Refused(reasons) => {
                    if change.is_of_constraints() {
                        search.note(&reasons);
                    }
                    search.failed.push((change, reasons));
                }
                Outcome::NotTried => search.cut_off = true,
            }
        }
    }

    /// Tries each change that does not suffice with those that help against what is in the way then.
    fn pairs(&mut self, pod: &Pod, search: &mut Search) {
        let mut pairs: Vec<(Change, Change)> = Vec::new();
        for (first, reasons) in &search.failed {
            let mut changed = pod.clone();
            first.change_pod(&mut changed);
            for second in candidates(reasons, &changed, &self.after.node_pools) {
                let known = |(one, other): &(Change, Change)| {
                    (one == first && *other == second) || (*one == second && other == first)
                };
                if *first != second && !pairs.iter().any(known) {
                    pairs.push((first.clone(), second));
                }
            }
        }
        pairs.sort_by_key(|(one, other)| u16::from(one.rank()) + u16::from(other.rank()));
        for (first, second) in pairs {
            if search.found.len() == MAX_REMEDIES {
                break;
            }
            match self.outcome(pod, &[&first, &second]) {
                Outcome::Placed => search.found.push(vec![first, second]),
                Outcome::Refused(reasons) if first.is_of_constraints() && second.is_of_constraints() => {
                    search.note(&reasons);
                }
                Outcome::Refused(_) => {}
                Outcome::NotTried => search.cut_off = true,
            }
        }
    }

    /// What a NodePool can launch is unknown until it is ready, so that it has to be ready first.
    fn untried(&self, search: &mut Search) {
        let is_unknown = |change: &Change| match change {
            Change::NodePool(name, PoolChange::Ready) => {
                let offer = self.after.node_pools.iter().find(|offer| offer.pool.name == *name);
                offer.is_some_and(|offer| offer.instance_types.is_empty())
            }
            _ => false,
        };
        let unknown = search.failed.iter().map(|(change, _)| change).filter(|change| is_unknown(change));
        search.found = unknown.map(|change| vec![change.clone()]).collect();
    }

    /// Plans the pod alone with changes.
    fn outcome(&mut self, pod: &Pod, changes: &[&Change]) -> Outcome {
        if self.left == 0 || self.count == MAX_TRIALS {
            return Outcome::NotTried;
        }
        self.count += 1;
        let mut pod = pod.clone();
        changes.iter().for_each(|change| change.change_pod(&mut pod));
        let pools: Vec<NodePool> = self.after.node_pools.iter().map(|offer| changed(offer.pool, changes)).collect();
        let mut problem: Problem<'_> = self.after.clone();
        problem.pods = vec![&pod];
        problem.node_pools.iter_mut().zip(&pools).for_each(|(offer, pool)| offer.pool = pool);
        changes.iter().for_each(|change| change.change_limits(&mut problem));
        let options = Options { max_work: Some(self.left), max_explained: 1, ..self.options };
        let solution = solve(&problem, &options);
        let copied = u64::try_from(problem.nodes.len() * WORK_PER_NODE).unwrap_or(u64::MAX);
        self.left = self.left.saturating_sub(solution.work.saturating_add(copied));
        match solution.unschedulable.into_iter().next() {
            None => Outcome::Placed,
            Some(refused) if refused.reasons.contains(&Reason::OutOfWork) => Outcome::NotTried,
            Some(refused) => Outcome::Refused(refused.reasons),
        }
    }
}

fn changed(pool: &NodePool, changes: &[&Change]) -> NodePool {
    let mut pool = pool.clone();
    changes.iter().for_each(|change| change.change_node_pool(&mut pool));
    pool
}

impl Search {
    /// Notes which requests no instance type of the NodePools fulfils.
    fn note(&mut self, reasons: &[Reason]) {
        for reason in reasons {
            if let Reason::NodePool { cause: Cause::TooLarge { resource, requested, largest }, .. } = reason {
                let (_, most) = self.too_large.entry(resource.clone()).or_insert((*requested, *largest));
                *most = (*most).max(*largest);
            }
        }
    }

    fn is_superfluous(&self, change: &Change) -> bool {
        self.found.iter().flatten().any(|found| change.is_more_than(found))
    }

    fn advice(self) -> Advice {
        let obstacle = self.obstacle();
        let text = |changes: &Vec<Change>| changes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", and ");
        Advice { remedies: self.found.iter().map(text).collect(), obstacle }
    }

    fn obstacle(&self) -> Option<String> {
        let avoids_size = |changes: &Vec<Change>| !changes.iter().any(Change::is_of_size);
        if let Some((resource, (requested, most))) = self.too_large.first_key_value()
            && !self.found.iter().any(avoids_size)
        {
            let [requested, most] = compared(resource, [*requested, *most]);
            return Some(format!(
                "no change of the pod's constraints helps: it needs {requested} of {resource}, and the largest instance type that the \
                 NodePools allow leaves {most}"
            ));
        }
        if !self.found.is_empty() {
            return None;
        }
        if self.cut_off {
            return Some("not all changes were tried, because that takes too much work".to_owned());
        }
        (!self.failed.is_empty()).then(|| {
            "no change of the pod, of a NodePool or of a limit that was tried helps, and no two of them together"
                .to_owned()
        })
    }
}
