//! Gangs: at least so many pods of a PodGroup are planned, or none.

use nodeless_model::Pod;
use nodeless_scheduling::{PodFault, Problem, Reason, Solution, Unschedulable};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// After so many solutions, all gangs that are incomplete are left out at once, and none is tried again.
const SOLUTIONS: usize = 6;

/// The pods of a PodGroup with a minimum, of which some have no node.
struct Gang<'a> {
    namespace: &'a str,
    name: &'a str,
    least: u32,
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

/// Solves a problem. While a gang has fewer pods with nodes than it needs, the last one of these is left out, and the problem is solved
/// again; then those that were left out for one that is left out itself are tried again.
pub(crate) fn plan<'a>(problem: &Problem<'a>, mut solve: impl FnMut(&Problem<'a>) -> Solution) -> Solution {
    let gangs = gangs(problem);
    if gangs.is_empty() {
        return solve(problem);
    }
    let mut reasons: BTreeMap<usize, Reason> = BTreeMap::new();
    reasons.extend(gangs.iter().enumerate().filter_map(|(index, gang)| Some((index, gang.too_few()?))));
    let mut work = 0_u64;
    let mut attempt = |left_out: BTreeSet<usize>| {
        let attempt = Attempt { solution: without(problem, &gangs, &left_out, &mut solve), left_out };
        work = work.saturating_add(attempt.solution.work);
        attempt
    };
    let mut again: Vec<usize> = Vec::new();
    let mut found = attempt(reasons.keys().copied().collect());
    let mut solutions = 1;
    loop {
        let mut incomplete = incomplete(&gangs, &found);
        if incomplete.is_empty() {
            break;
        }
        let last = if solutions < SOLUTIONS { incomplete.len() - 1 } else { 0 };
        let mut left_out = found.left_out;
        for (index, reason) in incomplete.drain(last..) {
            left_out.insert(index);
            again.push(index);
            reasons.insert(index, reason);
        }
        found = attempt(left_out);
        solutions += 1;
    }
    // Without the last one, the others fit.
    again.pop();
    for index in again {
        if solutions >= SOLUTIONS {
            break;
        }
        let left_out = found.left_out.iter().copied().filter(|one| *one != index).collect();
        let other = attempt(left_out);
        solutions += 1;
        if incomplete(&gangs, &other).is_empty() {
            found = other;
        }
    }
    let Attempt { left_out, mut solution } = found;
    for index in left_out {
        let reason = reasons.get(&index);
        let refused = |pod: &usize| Unschedulable { pod: *pod, reasons: reason.cloned().into_iter().collect() };
        solution.unschedulable.extend(gangs[index].pods.iter().map(refused));
    }
    solution.unschedulable.sort_by_key(|refused| refused.pod);
    Solution { work, ..solution }
}

/// The gangs with pods that are to be planned: those of the highest priority first, then the oldest.
fn gangs<'a>(problem: &Problem<'a>) -> Vec<Gang<'a>> {
    let groups = problem.facts.pod_groups;
    if groups.is_empty() {
        return Vec::new();
    }
    let of = |pod: &'a Pod| {
        let name = pod.template.pod_group.as_deref()?;
        let (namespace, name) = (pod.namespace.as_str(), name);
        let least = groups.get(&format!("{namespace}/{name}"))?;
        Some((namespace, name, *least))
    };
    let mut gangs: BTreeMap<(&str, &str), Gang<'a>> = BTreeMap::new();
    for (index, pod) in problem.pods.iter().enumerate() {
        let Some((namespace, name, least)) = of(pod) else { continue };
        let new = || Gang { namespace, name, least, pods: BTreeSet::new(), bound: 0 };
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

/// The solution without the pods of some gangs.
fn without<'a>(
    problem: &Problem<'a>,
    gangs: &[Gang<'_>],
    left_out: &BTreeSet<usize>,
    solve: &mut impl FnMut(&Problem<'a>) -> Solution,
) -> Solution {
    let out: BTreeSet<usize> = left_out.iter().flat_map(|index| gangs[*index].pods.iter().copied()).collect();
    if out.is_empty() {
        return solve(problem);
    }
    let kept: Vec<usize> = (0..problem.pods.len()).filter(|pod| !out.contains(pod)).collect();
    let pods = kept.iter().map(|pod| problem.pods[*pod]).collect();
    let mut solution = solve(&Problem { pods, ..problem.clone() });
    solution.placements.iter_mut().for_each(|placement| placement.pod = kept[placement.pod]);
    solution.unschedulable.iter_mut().for_each(|refused| refused.pod = kept[refused.pod]);
    solution.launches.iter_mut().flat_map(|launch| &mut launch.pods).for_each(|pod| *pod = kept[*pod]);
    solution
}

/// The gangs that have too few pods with nodes, each with the reason.
fn incomplete(gangs: &[Gang<'_>], attempt: &Attempt) -> Vec<(usize, Reason)> {
    let refused: BTreeMap<usize, &Unschedulable> =
        attempt.solution.unschedulable.iter().map(|refused| (refused.pod, refused)).collect();
    let planned = gangs.iter().enumerate().filter(|(index, _)| !attempt.left_out.contains(index));
    let reason = |(index, gang): (usize, &Gang<'_>)| {
        let stuck: Vec<&Unschedulable> = gang.pods.iter().filter_map(|pod| refused.get(pod).copied()).collect();
        let fit = gang.bound + gang.pods.len() - stuck.len();
        let first = stuck.first()?;
        let is_left = stuck.iter().any(|refused| refused.reasons.contains(&Reason::OutOfWork));
        gang.is_short_of(fit).then(|| {
            if is_left {
                return (index, Reason::OutOfWork);
            }
            let why = first.reasons.iter().map(Reason::to_string).collect::<Vec<_>>().join("; ");
            (index, gang.reason(&format!("nodes for {fit}: {why}")))
        })
    };
    planned.filter_map(reason).collect()
}

impl Gang<'_> {
    /// Why none of its pods is planned yet, if too few of them exist.
    fn too_few(&self) -> Option<Reason> {
        let exist = self.bound + self.pods.len();
        self.is_short_of(exist).then(|| self.reason(&exist.to_string()))
    }

    fn is_short_of(&self, pods: usize) -> bool {
        u32::try_from(pods).is_ok_and(|pods| pods < self.least)
    }

    fn reason(&self, there: &str) -> Reason {
        let Self { namespace, name, least, .. } = self;
        let message = format!(
            "PodGroup {namespace}/{name} schedules {least} pods at once (gang.minCount), and there are {there}"
        );
        Reason::Pod(PodFault::PodGroup { message })
    }
}
