//! The order in which things are tried.

use crate::classes::{AlternativeId, Classes};
use crate::dense::{self, Amounts, ResourceIndex};
use crate::existing::ExistingNode;
use crate::packing::{self, Bin};
use crate::pools::{self, Pool};
use crate::problem::{Options, Problem};
use crate::solution::{Placement, Solution, Unschedulable};
use crate::{constraints, explain, launch};
use nodeless_model::pod::HostPort;
use nodeless_model::{Taint, TaintEffect};
use std::cmp::Reverse;

/// Makes a plan: places every pod on an existing node or a node to launch, or says why it fits nowhere.
///
/// Where limits leave pods out, those of lower priority are left out first.
#[must_use]
pub fn solve(input: &Problem<'_>, options: &Options) -> Solution {
    let (solution, limited) = Engine::new(input, options, false).run();
    let mut priorities = input.pods.iter().map(|pod| pod.priority);
    let first = priorities.next();
    if !limited || priorities.all(|priority| Some(priority) == first) {
        return solution;
    }
    Engine::new(input, options, true).run().0
}

struct Engine<'a, 'p> {
    input: &'p Problem<'a>,
    options: &'p Options,
    resources: ResourceIndex,
    classes: Classes<'a>,
    pools: Vec<Pool<'p>>,
    nodes: Vec<Node<'p>>,
    /// Whether an alternative may go to a node; `None` where nobody has asked yet.
    allowed: Vec<Option<Box<[bool]>>>,
    /// The nodes to launch, by NodePool.
    bins: Vec<Vec<Bin>>,
    /// Class, existing node and how many pods.
    placed: Vec<(usize, usize, u32)>,
}

/// An existing node while it is being filled.
struct Node<'p> {
    /// Its place in the problem.
    index: usize,
    node: &'p ExistingNode,
    room: Amounts,
    ports: Vec<HostPort>,
}

impl<'a, 'p> Engine<'a, 'p> {
    fn new(input: &'p Problem<'a>, options: &'p Options, by_priority: bool) -> Self {
        let pod_requests = input.pods.iter().map(|pod| &pod.requests);
        let daemon_requests = input.daemon_sets.iter().map(|set| &set.template.requests);
        let resources = ResourceIndex::of(pod_requests.chain(daemon_requests));
        let ordered = pools::order(&input.node_pools);
        let some_taint_prefers = some_taint_prefers(input);
        let classes = Classes::of(input, options, &resources, some_taint_prefers, by_priority);
        let usable = ordered.into_iter().filter(|offer| pools::unusable(offer.pool).is_none());
        let pools: Vec<Pool<'p>> = usable.map(|offer| Pool::new(offer, input.daemon_sets, &resources)).collect();
        let mut nodes: Vec<Node<'p>> = input
            .nodes
            .iter()
            .enumerate()
            .map(|(index, node)| Node {
                index,
                node,
                room: resources.amounts(&node.available),
                ports: node.host_ports.clone(),
            })
            .collect();
        nodes.sort_by_key(|node| (Reverse(node.node.initialized), &node.node.name));
        let bins = pools.iter().map(|_| Vec::new()).collect();
        let allowed = vec![None; classes.alternatives.len()];
        Self { input, options, resources, classes, pools, nodes, allowed, bins, placed: Vec::new() }
    }

    /// Places all classes level by level: what does not fit at one level of its preferences comes to the next.
    fn run(mut self) -> (Solution, bool) {
        let count = |pods: &[usize]| u32::try_from(pods.len()).unwrap_or(u32::MAX);
        let mut pending: Vec<u32> = self.classes.list.iter().map(|class| count(&class.pods)).collect();
        let levels = self.classes.list.iter().map(|class| class.levels.len()).max().unwrap_or(0);
        for level in 0..levels {
            self.fill_existing(level, &mut pending);
            self.fill_opened(level, &mut pending);
            for pool in 0..self.pools.len() {
                let current: Vec<&[AlternativeId]> =
                    self.classes.list.iter().map(|class| class.levels.get(level).map_or(&[][..], |l| &l[..])).collect();
                let bins = packing::pack(&mut self.pools[pool], &self.classes, &current, &mut pending, self.options);
                self.bins[pool].extend(bins);
            }
        }
        self.finish(&pending)
    }

    /// Fills the nodes that exist, in their order, with what the level allows.
    fn fill_existing(&mut self, level: usize, pending: &mut [u32]) {
        for (index, class) in self.classes.list.iter().enumerate() {
            for &alternative in class.levels.get(level).into_iter().flatten() {
                if pending[index] == 0 {
                    break;
                }
                let allowed = self.allowed[alternative].get_or_insert_with(|| {
                    let alternative = &self.classes.alternatives[alternative];
                    self.nodes.iter().map(|node| may_go_to(alternative, node.node)).collect()
                });
                for (node, _) in self.nodes.iter_mut().zip(allowed.iter()).filter(|(_, allowed)| **allowed) {
                    let most = pending[index].min(class.most_per_node());
                    let times = dense::times_fitting(&class.requests, &node.room, most);
                    if times > 0 && class.ports_free(&node.ports) {
                        dense::take(&mut node.room, &class.requests, times);
                        node.ports.extend(class.host_ports.iter().cloned());
                        pending[index] -= times;
                        self.placed.push((index, node.index, times));
                    }
                    if pending[index] == 0 {
                        break;
                    }
                }
            }
        }
    }

    /// Fills what is left of nodes that an earlier level opened, where that makes them no dearer.
    fn fill_opened(&mut self, level: usize, pending: &mut [u32]) {
        for (pool, bins) in self.pools.iter_mut().zip(&mut self.bins) {
            for bin in bins {
                for (index, class) in self.classes.list.iter().enumerate() {
                    for &alternative in class.levels.get(level).into_iter().flatten() {
                        if pending[index] > 0 {
                            pending[index] -= join(pool, bin, index, &self.classes, alternative, pending[index]);
                        }
                    }
                }
            }
        }
    }

    fn finish(mut self, pending: &[u32]) -> (Solution, bool) {
        let mut solution = Solution::default();
        let mut queues: Vec<std::vec::IntoIter<usize>> =
            self.classes.list.iter_mut().map(|class| std::mem::take(&mut class.pods).into_iter()).collect();
        for (class, node, times) in &self.placed {
            let pods = queues[*class].by_ref().take(*times as usize);
            solution.placements.extend(pods.map(|pod| Placement { pod, node: *node }));
        }
        let pods: Vec<Vec<Vec<usize>>> =
            self.bins.iter().map(|bins| bins.iter().map(|bin| draw(&mut queues, bin)).collect()).collect();
        let limited = self.explain(pending, queues, &mut solution);
        for ((pool, bins), pods) in self.pools.iter_mut().zip(&self.bins).zip(pods) {
            solution.launches.extend(launch::launches(pool, bins, pods, &self.resources, self.options));
        }
        solution.placements.sort_unstable();
        solution.unschedulable.sort_by_key(|pod| pod.pod);
        (solution, limited)
    }

    /// Says why what is pending found no place, and returns whether limits are among the reasons.
    fn explain(&self, pending: &[u32], queues: Vec<std::vec::IntoIter<usize>>, solution: &mut Solution) -> bool {
        let mut limited = false;
        for (index, queue) in queues.into_iter().enumerate().filter(|(index, _)| pending[*index] > 0) {
            let class = &self.classes.list[index];
            let why = explain::explain(self.input, &self.pools, &self.classes, class, &self.resources, self.options);
            limited |= why.limited;
            solution.unschedulable.extend(queue.map(|pod| Unschedulable { pod, reasons: why.reasons.clone() }));
        }
        limited
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

fn may_go_to(alternative: &constraints::Alternative, node: &ExistingNode) -> bool {
    alternative.first_repelling(&node.taints).is_none()
        && constraints::covers(&node.requirements, &alternative.requirements)
}

/// Puts pods of a class on a node that is to be launched, as far as its shape holds them at the same price. Returns how
/// many.
fn join(
    pool: &mut Pool<'_>,
    bin: &mut Bin,
    index: usize,
    classes: &Classes<'_>,
    alternative: AlternativeId,
    pending: u32,
) -> u32 {
    let class = &classes.list[index];
    let kind = &pool.types[bin.shape];
    let mut room = kind.room.clone();
    dense::take(&mut room, &bin.used, 1);
    let times = dense::times_fitting(&class.requests, &room, pending.min(class.most_per_node()));
    let ports_free = class.ports_free(&bin.ports) && class.ports_free(&kind.daemon_ports);
    // Adding to a node could leave too few instance types for `minValues`.
    if times == 0 || !ports_free || !pool.min_values.is_empty() {
        return 0;
    }
    let present = pool.set(bin.set).choice(bin.shape).map(|choice| choice.price);
    let Some(set) = pool.admit(bin.set, alternative, &classes.alternatives) else { return 0 };
    if pool.set(set).choice(bin.shape).map(|choice| choice.price) > present || present.is_none() {
        return 0;
    }
    if pool.set(set).choice(bin.shape).is_none() {
        return 0;
    }
    bin.set = set;
    bin.add(index, class, times);
    times
}

/// Whether any taint that a pod could meet only prefers to keep pods away.
fn some_taint_prefers(input: &Problem<'_>) -> bool {
    let prefers = |taints: &[Taint]| taints.iter().any(|taint| taint.effect == TaintEffect::PreferNoSchedule);
    input.node_pools.iter().any(|offer| prefers(&offer.pool.template.taints))
        || input.nodes.iter().any(|node| prefers(&node.taints))
}
