//! The binding of pods one after another.

use super::NODES_PER_UNIT;
use super::Row;
use super::order::{Choices, Queue};
use super::prepared::{NodeState, Prepared, TAKES_NONE, level};
use super::score::{NODE_AFFINITY, TAINT_TOLERATION, normalize};
use crate::classes::Class;
use crate::constraints::covers;
use crate::packing::assigning;
use crate::problem::ExistingNode;
use crate::topology::{ABSENT, Domain, Standings};
use nodeless_model::{Requirements, TaintEffect};

/// `minFeasibleNodesToFind` and `minFeasibleNodesPercentageToFind`.
const MIN_COMPARED: usize = 100;
const MIN_COMPARED_PERCENT: usize = 5;

/// A node before pods were bound to it.
struct Before {
    state: NodeState,
    row: Row,
}

/// The binding of pods in one order. What it changes is reverted by [`Self::revert`].
pub(super) struct Binding<'b, 'a> {
    prepared: &'b mut Prepared<'a>,
    nodes: &'b [ExistingNode],
    rows: &'b mut [Row],
    closed: &'b [bool],
    /// The nodes that pods were bound to, as they were before.
    before: Vec<(usize, Before)>,
    is_changed: Vec<bool>,
    /// The bound pods: class and node.
    bound: Vec<(usize, usize)>,
    /// Those that count for topology constraints: class, node and standings.
    recorded: Vec<(usize, usize, Standings)>,
    /// The node at which the next comparison begins.
    start: usize,
    choices: Choices,
    feasible: Vec<usize>,
    totals: Vec<i64>,
    /// By domains of nodes, whether topology constraints allow the pod that is bound, as far as known.
    allowed: Vec<Option<bool>>,
    /// Whether a node has a `PreferNoSchedule` taint.
    some_repel: bool,
    compared: usize,
}

impl<'b, 'a> Binding<'b, 'a> {
    pub(super) fn new(
        prepared: &'b mut Prepared<'a>,
        nodes: &'b [ExistingNode],
        rows: &'b mut [Row],
        closed: &'b [bool],
    ) -> Self {
        Self {
            some_repel: rows.iter().any(|row| row.prefers_no_schedule),
            allowed: Vec::new(),
            prepared,
            rows,
            closed,
            before: Vec::new(),
            is_changed: vec![false; nodes.len()],
            nodes,
            bound: Vec::new(),
            recorded: Vec::new(),
            start: 0,
            choices: Choices::new(0),
            feasible: Vec::new(),
            totals: Vec::new(),
            compared: 0,
        }
    }

    /// Binds pods of these classes in the order of a seed, or those before the first one that fits on no node: the node of each.
    pub(super) fn bind(&mut self, classes: &[usize], queue: &Queue, seed: u64, first_only: bool) -> Vec<Option<usize>> {
        self.choices = Choices::new(seed);
        let order = queue.order(seed, &mut self.choices);
        self.start = self.choices.below(self.nodes.len());
        let mut bound = vec![None; classes.len()];
        for pod in order {
            let class = classes[pod];
            self.find_feasible(class);
            if self.feasible.is_empty() {
                if first_only {
                    break;
                }
                continue;
            }
            let node = self.best(class);
            self.place(class, node);
            bound[pod] = Some(node);
        }
        bound
    }

    pub(super) fn work(&self) -> u64 {
        u64::try_from(self.prepared.work).unwrap_or(u64::MAX)
    }

    /// Reverts what the last order has changed.
    pub(super) fn revert(&mut self) {
        for (class, node, standings) in self.recorded.drain(..).rev() {
            self.prepared.change_bound(class, node, &standings, false);
        }
        for (class, node) in self.bound.drain(..) {
            self.prepared.counted.change(class, node, -1);
        }
        for (node, before) in self.before.drain(..) {
            self.is_changed[node] = false;
            self.prepared.restore(node, before.state);
            self.rows[node] = before.row;
        }
        self.prepared.work += self.compared / NODES_PER_UNIT;
        self.compared = 0;
    }

    /// Finds the feasible nodes that are compared, and their scores by resources.
    fn find_feasible(&mut self, class: usize) {
        let most = compared(self.nodes.len());
        self.allowed.clear();
        self.allowed.resize(self.prepared.targets.len(), None);
        self.feasible.clear();
        self.totals.clear();
        let mut scores = self.prepared.take_scores(class, self.nodes.len());
        for node in (self.start..self.nodes.len()).chain(0..self.start) {
            self.compared += 1;
            if self.closed[node] {
                continue;
            }
            let state = self.prepared.states[node];
            let score = scores[node].of_state(state).unwrap_or_else(|| {
                let score = self.prepared.score(class, node, self.nodes, self.rows);
                scores[node].set(state, score, self.is_changed[node]);
                score
            });
            if score == TAKES_NONE {
                continue;
            }
            let target = self.prepared.target_of[node];
            let allowed = match self.allowed[target] {
                Some(known) => known,
                None => {
                    let allowed = self.is_allowed(class, target);
                    self.allowed[target] = Some(allowed);
                    allowed
                }
            };
            if allowed {
                self.feasible.push(node);
                self.totals.push(i64::from(score));
                if self.feasible.len() >= most {
                    // The next pod is compared with the nodes after this one.
                    self.start = node + 1;
                    break;
                }
            }
        }
        self.prepared.keep_scores(class, scores);
    }

    /// Whether topology constraints allow a pod of a class in these domains.
    fn is_allowed(&self, index: usize, target: usize) -> bool {
        let Prepared { classes, topology, facts, targets, .. } = &*self.prepared;
        let (class, target) = (&classes.list[index], &targets[target]);
        let Some(level) = level(class) else { return false };
        let lacks = |(key, domain): &(usize, Domain)| *domain == ABSENT && level.needs_label(*key);
        !target.iter().any(lacks)
            && assigning::first_against(class, level, target, &facts[index].eligible, topology).is_none()
    }

    /// The feasible node with the highest score.
    fn best(&mut self, index: usize) -> usize {
        let (prepared, rows, nodes) = (&mut *self.prepared, &*self.rows, self.nodes);
        self.compared += self.feasible.len();
        let (facts, class) = (&prepared.facts[index], &prepared.classes.list[index]);
        let mut add = |weight: i64, scores: &[i64]| {
            self.totals.iter_mut().zip(scores).for_each(|(total, score)| *total += weight * score);
        };
        if self.some_repel && self.feasible.iter().any(|node| rows[*node].prefers_no_schedule) {
            let mut repelled: Vec<i64> = self.feasible.iter().map(|node| repelling(class, &nodes[*node])).collect();
            normalize(&mut repelled, true);
            add(TAINT_TOLERATION, &repelled);
        }
        if !facts.preferred.is_empty() {
            let meets = |node: &usize, required: &Requirements| covers(&nodes[*node].requirements, required);
            let weight = |node: &usize| {
                facts.preferred.iter().filter(|(_, one)| meets(node, one)).map(|(weight, _)| *weight).sum()
            };
            let mut preferred: Vec<i64> = self.feasible.iter().map(weight).collect();
            normalize(&mut preferred, false);
            add(NODE_AFFINITY, &preferred);
        }
        prepared.counted.add_scores(index, &self.feasible, &mut self.totals);
        let (mut highest, mut number) = (i64::MIN, 0);
        for total in &self.totals {
            if *total > highest {
                (highest, number) = (*total, 1);
            } else if *total == highest {
                number += 1;
            }
        }
        let chosen = self.choices.below(number);
        let mut equal = self.totals.iter().zip(&self.feasible).filter(|(total, _)| **total == highest);
        equal.nth(chosen).map_or(self.feasible[0], |(_, node)| *node)
    }

    /// Binds a pod of a class to a node.
    fn place(&mut self, index: usize, node: usize) {
        if !self.is_changed[node] {
            self.is_changed[node] = true;
            self.before.push((node, Before { state: self.prepared.state(node), row: self.rows[node].clone() }));
        }
        self.prepared.bind(index, node, self.rows);
        self.bound.push((index, node));
        if self.prepared.classes.list[index].is_related() {
            let standings = self.prepared.standings(index, &self.nodes[node]);
            self.prepared.change_bound(index, node, &standings, true);
            self.recorded.push((index, node, standings));
        }
    }
}

/// The number of `PreferNoSchedule` taints of a node that a class does not tolerate.
fn repelling(class: &Class<'_>, node: &ExistingNode) -> i64 {
    let tolerated = |taint| class.example.template.tolerations.iter().any(|toleration| toleration.tolerates(taint));
    let prefers = node.taints.iter().filter(|taint| taint.effect == TaintEffect::PreferNoSchedule);
    i64::try_from(prefers.filter(|taint| !tolerated(taint)).count()).unwrap_or(i64::MAX)
}

/// `numFeasibleNodesToFind`: after how many feasible nodes no more are compared.
fn compared(nodes: usize) -> usize {
    if nodes < MIN_COMPARED {
        return nodes.max(1);
    }
    let percent = 50_usize.saturating_sub(nodes / 125).max(MIN_COMPARED_PERCENT);
    (nodes * percent / 100).max(MIN_COMPARED)
}

#[cfg(test)]
mod tests {
    use super::compared;

    #[test]
    fn large_clusters_are_compared_in_part() {
        let of: Vec<usize> = [10, 100, 1000, 5000, 10_000].into_iter().map(compared).collect();
        assert_eq!(of, [10, 100, 420, 500, 500], "schedule_one.go");
    }
}
