//! Gangs: at least so many pods of a PodGroup are planned, or none; and all pods of a ProvisioningRequest, or none.

use nodeless_model::Pod;
use nodeless_model::plural::counted;
use nodeless_scheduling::{PodFault, Problem, Reason, Solution, Unschedulable};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// After so many solutions, all gangs that are incomplete are left out at once, and none is tried again; after one more, all gangs.
const SOLUTIONS: usize = 6;

/// The pods that are planned together, of which some have no node.
struct Gang<'a> {
    /// The PodGroup, as `namespace/name`; `None` for a request, whose pods are virtual.
    pod_group: Option<(&'a str, &'a str)>,
    least: usize,
    /// Its pods that are to be planned, by index.
    pods: BTreeSet<usize>,
    /// The number of its pods that run.
    bound: usize,
}

/// A solution without some gangs, by index.
struct Attempt {
    left_out: BTreeSet<usize>,
    solution: Solution,
}

/// Solves a problem within this work. While a gang has fewer pods with nodes than it needs, the last one of these is left out, and the
/// problem is solved again; then those that were left out for one that is left out itself are tried again, the first one first. `whole`
/// are further pods, by uid, that all get nodes or none, in the order of their importance.
///
/// All solutions share the work: the search takes half of it at most, and what is left is for the solution without the gangs that the
/// search has found no nodes for.
pub(crate) fn plan<'a>(
    problem: &Problem<'a>,
    whole: &[Vec<&'a str>],
    max_work: Option<u64>,
    mut solve: impl FnMut(&Problem<'a>, Option<u64>) -> Solution,
) -> Solution {
    let gangs = gangs(problem, whole);
    if gangs.is_empty() {
        return solve(problem, max_work);
    }
    let reasons = gangs.iter().enumerate().filter_map(|(index, gang)| Some((index, gang.too_few()?))).collect();
    Search { problem, gangs, reasons, max_work, work: 0, solutions: 0, solve }.found()
}

/// The search for the gangs that have nodes.
struct Search<'p, 'a, S> {
    problem: &'p Problem<'a>,
    gangs: Vec<Gang<'a>>,
    /// Why gangs are left out, by index.
    reasons: BTreeMap<usize, Reason>,
    max_work: Option<u64>,
    /// The work and the number of the solutions until now.
    work: u64,
    solutions: usize,
    solve: S,
}

impl<'a, S: FnMut(&Problem<'a>, Option<u64>) -> Solution> Search<'_, 'a, S> {
    fn found(mut self) -> Solution {
        let mut again: Vec<usize> = Vec::new();
        let mut found = self.attempt(self.reasons.keys().copied().collect());
        let mut is_last = false;
        loop {
            let mut incomplete = incomplete(&self.gangs, &found);
            if incomplete.is_empty() {
                break;
            }
            let searches = self.is_searching();
            let last = if searches { incomplete.len() - 1 } else { 0 };
            let mut left_out = found.left_out;
            for (index, reason) in incomplete.drain(last..) {
                left_out.insert(index);
                again.push(index);
                self.reasons.insert(index, reason);
            }
            if !searches && is_last {
                let others: Vec<usize> = (0..self.gangs.len()).filter(|index| !left_out.contains(index)).collect();
                self.reasons.extend(others.iter().map(|index| (*index, Reason::OutOfWork)));
                left_out.extend(others);
            }
            is_last = !searches;
            found = self.attempt(left_out);
        }
        // Without the last one, the others fit.
        again.pop();
        while self.is_searching()
            && let Some(index) = again.pop()
        {
            let other = self.attempt(found.left_out.iter().copied().filter(|one| *one != index).collect());
            if incomplete(&self.gangs, &other).is_empty() {
                found = other;
            }
        }
        self.explained(found)
    }

    /// Whether single gangs are left out or tried again.
    fn is_searching(&self) -> bool {
        self.solutions < SOLUTIONS && self.max_work.is_none_or(|max| self.work < max / 2)
    }

    /// The work for the next solution, which has so many gangs.
    fn left(&self, gangs: usize) -> Option<u64> {
        let left = |max: u64| max.saturating_sub(self.work);
        Some(match self.max_work? {
            max if self.is_searching() => left(max / 2),
            max if gangs == 0 => left(max),
            // A part is kept for the solution without gangs.
            max => left(max) / 2,
        })
    }

    /// The solution without the pods of these gangs.
    fn attempt(&mut self, left_out: BTreeSet<usize>) -> Attempt {
        let left = self.left(self.gangs.len() - left_out.len());
        let out: BTreeSet<usize> = left_out.iter().flat_map(|index| self.gangs[*index].pods.iter().copied()).collect();
        let solution = if out.is_empty() {
            (self.solve)(self.problem, left)
        } else {
            let kept: Vec<usize> = (0..self.problem.pods.len()).filter(|pod| !out.contains(pod)).collect();
            let pods = kept.iter().map(|pod| self.problem.pods[*pod]).collect();
            let mut solution = (self.solve)(&Problem { pods, ..self.problem.clone() }, left);
            solution.placements.iter_mut().for_each(|placement| placement.pod = kept[placement.pod]);
            solution.unschedulable.iter_mut().for_each(|refused| refused.pod = kept[refused.pod]);
            solution.launches.iter_mut().flat_map(|launch| &mut launch.pods).for_each(|pod| *pod = kept[*pod]);
            solution
        };
        self.solutions += 1;
        self.work = self.work.saturating_add(solution.work);
        Attempt { left_out, solution }
    }

    /// A solution with the reason on all pods of the gangs that are left out.
    fn explained(self, found: Attempt) -> Solution {
        let Attempt { left_out, mut solution } = found;
        for index in left_out {
            let reason = self.reasons.get(&index);
            let refused = |pod: &usize| Unschedulable { pod: *pod, reasons: reason.cloned().into_iter().collect() };
            solution.unschedulable.extend(self.gangs[index].pods.iter().map(refused));
        }
        solution.unschedulable.sort_by_key(|refused| refused.pod);
        Solution { work: self.work, ..solution }
    }
}

/// The gangs with pods that are to be planned: PodGroups of the highest priority first, then the oldest; after them requests.
fn gangs<'a>(problem: &Problem<'a>, whole: &[Vec<&'a str>]) -> Vec<Gang<'a>> {
    let mut gangs = pod_groups(problem);
    if !whole.is_empty() {
        let pods = problem.pods.iter().enumerate().map(|(index, pod)| (pod.uid.as_str(), index));
        let by_uid: HashMap<&str, usize> = pods.collect();
        gangs.extend(whole.iter().map(|uids| {
            let pods: BTreeSet<usize> = uids.iter().filter_map(|uid| by_uid.get(uid).copied()).collect();
            Gang { pod_group: None, least: pods.len(), pods, bound: 0 }
        }));
    }
    gangs
}

fn pod_groups<'a>(problem: &Problem<'a>) -> Vec<Gang<'a>> {
    let groups = problem.facts.pod_groups;
    if groups.is_empty() {
        return Vec::new();
    }
    let of = |pod: &'a Pod| {
        let name = pod.template.pod_group.as_deref()?;
        let (namespace, name) = (pod.namespace.as_str(), name);
        let least = groups.get(&format!("{namespace}/{name}"))?;
        Some((namespace, name, usize::try_from(*least).unwrap_or(usize::MAX)))
    };
    let mut gangs: BTreeMap<(&str, &str), Gang<'a>> = BTreeMap::new();
    for (index, pod) in problem.pods.iter().enumerate() {
        let Some((namespace, name, least)) = of(pod) else { continue };
        let pod_group = Some((namespace, name));
        let new = || Gang { pod_group, least, pods: BTreeSet::new(), bound: 0 };
        gangs.entry((namespace, name)).or_insert_with(new).pods.insert(index);
    }
    let planned: BTreeSet<(&str, &str)> =
        gangs.values().flat_map(|gang| &gang.pods).map(|pod| key(problem.pods[*pod])).collect();
    for pod in problem.bound_pods.iter().flat_map(|bound| &bound.pods) {
        let gang = pod.template.pod_group.as_deref().and_then(|name| gangs.get_mut(&(pod.namespace.as_str(), name)));
        if let Some(gang) = gang.filter(|_| pod.is_active() && !planned.contains(&key(pod))) {
            gang.bound += 1;
        }
    }
    let mut gangs: Vec<Gang<'a>> = gangs.into_values().collect();
    let first = |gang: &Gang<'a>| {
        let pods = || gang.pods.iter().map(|pod| problem.pods[*pod]);
        (Reverse(pods().map(|pod| pod.template.priority).max()), pods().filter_map(|pod| pod.created).min())
    };
    gangs.sort_by_key(first);
    gangs
}

fn key(pod: &Pod) -> (&str, &str) {
    (&pod.namespace, &pod.name)
}

/// The gangs that have too few pods with nodes, each with the reason.
fn incomplete(gangs: &[Gang<'_>], attempt: &Attempt) -> Vec<(usize, Reason)> {
    let refused: BTreeMap<usize, &Unschedulable> =
        attempt.solution.unschedulable.iter().map(|refused| (refused.pod, refused)).collect();
    let planned = gangs.iter().enumerate().filter(|(index, _)| !attempt.left_out.contains(index));
    let reason = |(index, gang): (usize, &Gang<'_>)| {
        let stuck: Vec<&Unschedulable> = gang.pods.iter().filter_map(|pod| refused.get(pod).copied()).collect();
        gang.incomplete(&stuck).map(|reason| (index, reason))
    };
    planned.filter_map(reason).collect()
}

impl Gang<'_> {
    /// Why none of its pods is planned yet, if too few of them exist.
    fn too_few(&self) -> Option<Reason> {
        let exist = self.bound + self.pods.len();
        (exist < self.least).then(|| self.reason(&exist.to_string()))
    }

    /// Why none of its pods is planned although others than these have nodes, if they are too few.
    fn incomplete(&self, stuck: &[&Unschedulable]) -> Option<Reason> {
        let fit = self.bound + self.pods.len() - stuck.len();
        let first = stuck.first().filter(|_| fit < self.least)?;
        let is_left = stuck.iter().any(|refused| refused.reasons.contains(&Reason::OutOfWork));
        if is_left && self.pod_group.is_some() {
            return Some(Reason::OutOfWork);
        }
        let why = first.reasons.iter().map(Reason::to_string).collect::<Vec<_>>().join("; ");
        Some(match self.pod_group {
            Some(_) => self.reason(&format!("nodes for {fit}: {why}")),
            None => {
                let (count, pods) = (stuck.len(), counted(self.pods.len(), "pod"));
                together(format!("no node for {count} of {pods}, so that none is launched: {why}"))
            }
        })
    }

    fn reason(&self, there: &str) -> Reason {
        let least = counted(self.least, "pod");
        let (namespace, name) = self.pod_group.unwrap_or_default();
        together(format!(
            "PodGroup {namespace}/{name} schedules {least} at once (gang.minCount), and there are {there}"
        ))
    }
}

const fn together(message: String) -> Reason {
    Reason::Pod(PodFault::PodGroup { message })
}
