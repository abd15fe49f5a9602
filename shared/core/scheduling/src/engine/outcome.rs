//! Converts the packed nodes to a solution, with reasons for the unschedulable pods.

use super::Engine;
use super::attempts::Stage;
use crate::explain::Launchable;
use crate::explain::{self, topology_barriers};
use crate::local_volumes::LocalVolumes;
use crate::packing::bin::Bin;
use crate::pools::Pool;
use crate::problem::solution::{Placement, Solution, Unschedulable};
use crate::{Reason, launch};
use std::cell::RefCell;

impl<'q> Engine<'_, '_, 'q> {
    pub(super) fn finish(mut self) -> (Solution, bool, Vec<Pool<'q>>) {
        let mut solution = Solution::default();
        let mut queues: Vec<std::vec::IntoIter<usize>> =
            self.classes.list.iter_mut().map(|class| std::mem::take(&mut class.pods).into_iter()).collect();
        for (class, node, times) in &self.placed {
            let pods = queues[*class].by_ref().take(*times as usize);
            solution.placements.extend(pods.map(|pod| Placement { pod, node: *node }));
        }
        let pods: Vec<Vec<Vec<usize>>> =
            self.bins.iter().map(|bins| bins.iter().map(|bin| draw(&mut queues, bin)).collect()).collect();
        let limited = self.explain(queues, &mut solution);
        let mut others: usize = self.bins.iter().map(Vec::len).sum();
        for ((pool, bins), pods) in self.pools.iter_mut().zip(&self.bins).zip(pods) {
            // A node without planned pods must not be used by accident.
            if !pool.reservations.is_empty() {
                pool.reservations.close();
                pool.reprice();
            }
            others -= bins.len();
            solution.launches.extend(launch::launches(pool, bins, pods, others, &self.resources, &self.options));
        }
        solution.placements.sort_unstable();
        solution.unschedulable.sort_by_key(|pod| pod.pod);
        solution.work = self.work();
        (solution, limited, self.pools)
    }

    /// Adds the reasons for which pending pods could not be scheduled, and returns whether limits are among them.
    fn explain(&mut self, queues: Vec<std::vec::IntoIter<usize>>, solution: &mut Solution) -> bool {
        let (mut limited, out_of_work) = (false, self.is_out_of_work() || self.known.stage != Stage::All);
        let launchable = RefCell::default();
        let mut explained = 0;
        for (index, queue) in queues.into_iter().enumerate() {
            if self.pending[index] == 0 {
                continue;
            }
            if out_of_work && self.classes.list[index].refused.is_none() {
                let reasons = || vec![Reason::OutOfWork];
                solution.unschedulable.extend(queue.map(|pod| Unschedulable { pod, reasons: reasons() }));
                continue;
            }
            if explained >= self.options.max_explained {
                let reasons = || vec![Reason::NotExplained];
                solution.unschedulable.extend(queue.map(|pod| Unschedulable { pod, reasons: reasons() }));
                continue;
            }
            explained += 1;
            let why = self.why(index, &launchable);
            limited |= why.limited;
            solution.unschedulable.extend(queue.map(|pod| Unschedulable { pod, reasons: why.reasons.clone() }));
        }
        limited
    }

    fn why(&mut self, index: usize, launchable: &RefCell<Launchable>) -> explain::Explanation {
        let local_volumes = LocalVolumes::new(self.input);
        if let Some(fault) = local_volumes.fault(self.input, self.classes.list[index].example) {
            return explain::Explanation::of_pod(fault);
        }
        let last = self.classes.list[index].levels.len().saturating_sub(1);
        let bound = self.classes.list[index].level(last).is_some_and(|level| !level.keys.is_empty());
        let mut alternatives =
            self.classes.list[index].level(last).map(|level| level.alternatives.clone()).unwrap_or_default();
        if bound {
            let candidates = self.candidates(index, last);
            let eligible = self.eligible(index, last);
            let class = &self.classes.list[index];
            if let Some(key) =
                class.level(last).and_then(|level| topology_barriers::absent_label(level, &self.topology))
            {
                return explain::Explanation::without_domain(self.input, key);
            }
            if let Some(level) = class.level(last)
                && !candidates.is_empty()
            {
                let barriers = topology_barriers::Barriers { input: self.input, topology: &self.topology };
                match barriers.by_domains(class, level, &candidates, &eligible) {
                    Ok(open) => alternatives = open,
                    Err(fault) => return explain::Explanation::of_pod(fault),
                }
            }
        }
        let class = &self.classes.list[index];
        let explainer = explain::Explainer {
            input: self.input,
            pools: &self.pools,
            classes: &self.classes,
            resources: &self.resources,
            options: &self.options,
            launchable,
            claims: &self.claims,
        };
        let why = explainer.explain(class, &alternatives);
        // If nothing about the node itself prevents the placement, other pods do.
        match topology_barriers::by_hosts(class, last, &self.topology) {
            Some(fault) if why.unexplained => explain::Explanation::of_pod(fault),
            _ => why,
        }
    }
}

/// Takes the pods of a node from the queues of their classes.
fn draw(queues: &mut [std::vec::IntoIter<usize>], bin: &Bin) -> Vec<usize> {
    let mut pods = Vec::new();
    for (class, count) in &bin.contents {
        pods.extend(queues[*class].by_ref().take(*count as usize));
    }
    pods
}
