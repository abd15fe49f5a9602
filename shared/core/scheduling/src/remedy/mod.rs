//! What makes unschedulable pods schedulable: every change is tried in the planner before it is advised.

mod after;
mod candidates;
mod change;

use crate::engine::{Prepared, solve};
use crate::problem::reason::{Cause, PodFault, Reason};
use crate::problem::solution::{Solution, Unschedulable};
use crate::problem::{Options, PoolOffer, Problem};
use after::Planned;
use candidates::candidates;
use change::{Change, PoolChange};
use nodeless_model::resources::compared;
use nodeless_model::{NodePool, Pod, Quantity};
use std::collections::BTreeMap;

/// The maximum work of all trials together, in the units of [`Solution::work`]: less than a second.
const MAX_WORK: u64 = 10_000_000;

/// The trials for a pod take at most this part of the work that is left, so that other pods get advice too.
const MAX_SHARE: u64 = 4;

/// The work to copy a node for a trial, and a NodePool.
const WORK_PER_NODE: usize = 200;
const WORK_PER_POOL: usize = 200;

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
    /// What limits the pod if no change of its constraints helps, that no change was found, or that not all changes were tried.
    pub obstacle: Option<String>,
}

impl Advice {
    fn one(remedy: &str) -> Self {
        Self { remedies: vec![remedy.to_owned()], obstacle: None }
    }
}

/// Advice for pods, and the work that it took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advised {
    /// The advice, in the order of the pods.
    pub advice: Vec<Advice>,
    /// The work, in the units of [`Solution::work`].
    pub work: u64,
}

/// What is stated about changes that were not tried because of the work limit.
const NOT_TRIED: &str = "no change was tried, because that takes too much work";
const NOT_ALL_TRIED: &str = "not all changes were tried, because that takes too much work";

/// Advice for unschedulable pods of a solution, in their order. Each change is tried with the pod alone, after the plan. That takes at
/// most [`Options::max_work`], and less than a second in total; the advice for pods after that states it.
#[must_use]
pub fn advise<'u>(
    problem: &Problem<'_>,
    solution: &Solution,
    refused: impl IntoIterator<Item = &'u Unschedulable>,
    options: &Options,
) -> Advised {
    let refused: Vec<&Unschedulable> = refused.into_iter().collect();
    if refused.is_empty() {
        return Advised::default();
    }
    let planned = Planned::new(problem, solution);
    let after = planned.problem(problem, solution);
    let max_work = options.max_work.map_or(MAX_WORK, |max| max.min(MAX_WORK));
    let options = Options { max_explained: 1, max_work: None, ..*options };
    let pods = refused.iter().map(|refused| problem.pods[refused.pod]);
    let prepared = Prepared::new(&after.node_pools, after.daemon_sets, pods, after.facts, &options);
    let mut trials = Trials { after: &after, options, max_work, of_pod: 0, work: prepared.work(), count: 0, prepared };
    let mut known: Vec<(&Pod, &[Reason], Advice)> = Vec::new();
    let advised = refused.into_iter().map(|refused| {
        let pod = problem.pods[refused.pod];
        let same = known.iter().find(|(other, reasons, _)| *reasons == refused.reasons && is_alike(pod, other));
        if let Some((_, _, advice)) = same {
            return advice.clone();
        }
        let advice = trials.advice(pod, &refused.reasons);
        // The next one like it is not tried either.
        if trials.work < trials.max_work {
            known.push((pod, &refused.reasons, advice.clone()));
        }
        advice
    });
    let advice = advised.collect();
    Advised { advice, work: trials.work }
}

/// Whether the same changes make both pods schedulable.
fn is_alike(one: &Pod, other: &Pod) -> bool {
    one.namespace == other.namespace
        && one.template.labels == other.template.labels
        && one.template.next_requests() == other.template.next_requests()
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
    /// The NodePools as they are, for trials that change only the pod.
    prepared: Prepared<'t>,
    /// The maximum work, and the work so far.
    max_work: u64,
    work: u64,
    /// The maximum work until the end of the trials for this pod.
    of_pod: u64,
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
            [Reason::NoNodePools] => return Advice::one("create a NodePool"),
            [Reason::NoValidNodePools] => return Advice::one("create a NodePool, or correct one with an error"),
            // A change of one pod does not bring the others of its PodGroup.
            [Reason::OutOfWork | Reason::NotExplained | Reason::Pod(PodFault::PodGroup { .. })] => {
                return Advice::default();
            }
            _ => {}
        }
        (self.count, self.of_pod) = (0, self.work + self.max_work.saturating_sub(self.work) / MAX_SHARE);
        let reasons = match self.outcome(pod, &[]) {
            Outcome::Refused(reasons) => reasons,
            // Without a change the next plan may place it.
            Outcome::Placed => return Advice::default(),
            Outcome::NotTried => return Advice { obstacle: Some(NOT_TRIED.to_owned()), ..Advice::default() },
        };
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
                // A NodePool that one change does not help is not helped by one of another.
                let of_two_pools =
                    first.node_pool().is_some_and(|own| second.node_pool().is_some_and(|other| own != other));
                if *first != second && !of_two_pools && !pairs.iter().any(known) {
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

    /// Plans the pod alone with changes. With a change of a NodePool only this one is tried, because the others cannot run the pod without
    /// it.
    fn outcome(&mut self, pod: &Pod, changes: &[&Change]) -> Outcome {
        if self.work >= self.of_pod || self.count == MAX_TRIALS {
            return Outcome::NotTried;
        }
        self.count += 1;
        let mut pod = pod.clone();
        changes.iter().for_each(|change| change.change_pod(&mut pod));
        let name = changes.iter().find_map(|change| change.node_pool());
        let offers = self.after.node_pools.iter().filter(|offer| name.is_none_or(|name| offer.pool.name == name));
        let offers: Vec<PoolOffer<'_>> = offers.cloned().collect();
        let pools: Vec<NodePool> = match name {
            Some(_) => offers.iter().map(|offer| changed(offer.pool, changes)).collect(),
            None => Vec::new(),
        };
        let mut problem: Problem<'_> = Problem { pods: vec![&pod], node_pools: offers, ..self.after.clone() };
        problem.node_pools.iter_mut().zip(&pools).for_each(|(offer, pool)| offer.pool = pool);
        for change in changes {
            change.change_limits(&mut problem);
            change.change_types(&mut problem);
        }
        let left = self.of_pod - self.work;
        let solution = match name {
            Some(_) => solve(&problem, &Options { max_work: Some(left), ..self.options }),
            None => self.prepared.solve_within(&problem, left),
        };
        let copied = problem.nodes.len() * WORK_PER_NODE + problem.node_pools.len() * WORK_PER_POOL;
        let copied = u64::try_from(copied).unwrap_or(u64::MAX);
        self.work = self.work.saturating_add(solution.work).saturating_add(copied);
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
            if let Reason::NodePool { cause: Cause::TooLarge { resource, requested, largest, .. }, .. } = reason {
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
            let helps = if self.found.is_empty() { "no change of the pod's constraints helps: it" } else { "the pod" };
            return Some(format!(
                "{helps} needs {requested} of {resource}, and the largest instance type that the NodePools allow leaves {most}"
            ));
        }
        if self.cut_off {
            return Some(NOT_ALL_TRIED.to_owned());
        }
        (self.found.is_empty() && !self.failed.is_empty()).then(|| {
            "no change of the pod, of a NodePool or of a limit that was tried helps, and no two of them together"
                .to_owned()
        })
    }
}
