//! The pods of a queue, and their binding one after another.

use super::affinity::Affinity;
use super::domains::Domains;
use super::order::{Choices, queue};
use super::preference::Scoring;
use super::score::{
    BALANCED_ALLOCATION, INTER_POD_AFFINITY, Load, NODE_AFFINITY, POD_TOPOLOGY_SPREAD, RESOURCES_FIT, TAINT_TOLERATION,
    balanced_allocation, least_allocated, normalize, normalize_affinity,
};
use super::spread::{Running, Spread};
use super::{Bindings, NODES_PER_UNIT, Row, required_only};
use crate::classes::{Class, Classes, Level, Order};
use crate::constraints::covers;
use crate::constraints::groups::{Groups, Kind};
use crate::dense;
use crate::engine::nodes::{self, Node, may_go_to};
use crate::packing::assigning::{self, Eligible};
use crate::problem::Problem;
use crate::topology::{ABSENT, Standing, Standings, Target, Topology};
use nodeless_model::{Requirement, Requirements, TaintEffect};
use std::cell::{Cell, OnceCell};

/// The work to read a pod of the queue, and a running pod that topology constraints count.
const WORK_PER_POD: usize = 20;
const WORK_PER_RUNNING_POD: usize = 4;

/// `minFeasibleNodesToFind` and `minFeasibleNodesPercentageToFind`.
const MIN_COMPARED: usize = 100;
const MIN_COMPARED_PERCENT: usize = 5;

/// Pods that wait for their nodes.
pub(super) struct Queue<'m, 'p, 'a> {
    of: &'m Bindings<'a>,
    problem: &'p Problem<'a>,
    topology: Topology<'a>,
    classes: Classes<'a>,
    /// The class of each pod.
    class_of: Vec<usize>,
    facts: Vec<ClassFacts>,
    running: nodes::Running<'a, 'p>,
    /// By index, the nodes that were compared with a pod, and the domains of all keys there: of a large cluster mostly a part.
    nodes: Vec<OnceCell<Box<(Node<'p>, Target)>>>,
    domains: Domains<'p>,
    /// The preferences for pods on nodes, by class, before any pod of the queue is bound.
    preferences: Vec<(Spread, Affinity)>,
    work: usize,
}

/// The facts that are computed once for each class.
#[derive(Clone, Debug, Default)]
struct ClassFacts {
    /// By index, whether the pods may be bound to a node before others are, as far as known.
    fitting: Vec<Cell<Option<bool>>>,
    eligible: Eligible,
    preferred: Vec<(i64, Requirements)>,
    load: Load,
}

impl<'m, 'p, 'a> Queue<'m, 'p, 'a> {
    pub(super) fn new(of: &'m Bindings<'a>, problem: &'p Problem<'a>) -> Self {
        let topology = Topology::new(problem, Groups::of(problem, false), &mut []);
        let order = Order { by_priority: false, some_taint_prefers: false };
        let classes = Classes::of(problem, &required_only(), &of.resources, &topology, (order, None));
        let mut class_of = vec![0; problem.pods.len()];
        for (index, class) in classes.list.iter().enumerate() {
            class.pods.iter().for_each(|pod| class_of[*pod] = index);
        }
        let running: usize = problem.bound_pods.iter().map(|node| node.pods.len()).sum();
        Self {
            work: problem.pods.len() * WORK_PER_POD + running * WORK_PER_RUNNING_POD,
            of,
            problem,
            topology,
            classes,
            class_of,
            facts: Vec::new(),
            running: nodes::Running::default(),
            nodes: Vec::new(),
            domains: Domains::of_nodes(&problem.nodes),
            preferences: Vec::new(),
        }
    }

    pub(super) fn work(&self) -> u64 {
        u64::try_from(self.work).unwrap_or(u64::MAX)
    }

    /// Whether [`Bindings::always_bound`] holds, and the work.
    pub(super) fn always_bound(mut self, largest: &[i64]) -> (bool, u64) {
        let pods = self.problem.pods.len();
        let mut found = true;
        for class in &self.classes.list {
            let mut taken = 0_usize;
            let mut compared = 0;
            if !class.is_related() {
                for (node, row) in self.of.rows.iter().enumerate() {
                    if taken >= pods {
                        break;
                    }
                    compared += 1;
                    if self.of.closed[node] || !row.has_capacity(&class.requests) {
                        continue;
                    }
                    self.work += 1;
                    if !may_be_bound(&self.classes, class, self.problem, node) {
                        continue;
                    }
                    let mut left = row.free.clone();
                    dense::take(&mut left, &class.requests, 1);
                    let most = u32::try_from(pods).unwrap_or(u32::MAX);
                    let more = if class.host_ports.is_empty() { dense::times_fitting(largest, &left, most) } else { 0 };
                    taken = taken.saturating_add(more as usize + 1);
                }
            }
            self.work += compared / NODES_PER_UNIT + 1;
            if taken < pods {
                found = false;
                break;
            }
        }
        let work = self.work();
        (found, work)
    }

    /// Computes what binding needs.
    pub(super) fn prepare(&mut self) {
        self.facts = self.classes.list.iter().map(|class| self.class_facts(class)).collect();
        self.running = nodes::Running::on(self.problem, &self.of.resources, &mut self.topology);
        self.nodes = std::iter::repeat_with(OnceCell::new).take(self.problem.nodes.len()).collect();
        self.preferences = self.preferences();
    }

    fn class_facts(&self, class: &Class<'_>) -> ClassFacts {
        let preferred = class.example.template.preferred_node_affinity.iter().filter(|one| !one.preference.is_empty());
        let preferred =
            preferred.filter_map(|one| Some((i64::from(one.weight), Requirements::from_terms(&one.preference).ok()?)));
        let groups = level(class).map_or(&[][..], |level| &level.bounded);
        let spreads = groups.iter().filter(|group| matches!(self.topology.kind(**group), Kind::Spread { .. }));
        let counted = |group: &usize| {
            let present = self.topology.present(*group).iter().enumerate();
            (*group, present.map(|(domain, present)| domain != ABSENT && *present).collect())
        };
        ClassFacts {
            fitting: vec![Cell::new(None); self.problem.nodes.len()],
            eligible: spreads.map(counted).collect(),
            preferred: preferred.collect(),
            load: Load::of(&class.example.template.requests),
        }
    }

    /// Whether pods of a class may be bound to a node before the others are.
    fn fits(&mut self, index: usize, node: usize) -> bool {
        let known = &self.facts[index].fitting[node];
        if let Some(known) = known.get() {
            return known;
        }
        let class = &self.classes.list[index];
        let large_enough = !self.of.closed[node] && self.of.rows[node].has_capacity(&class.requests);
        let fits = large_enough && may_be_bound(&self.classes, class, self.problem, node);
        known.set(Some(fits));
        self.work += usize::from(large_enough);
        fits
    }

    /// A node before the pods of the queue are bound, and its domains.
    fn at(&self, node: usize) -> &(Node<'p>, Target) {
        self.nodes[node].get_or_init(|| {
            let made = self.running.node(self.problem, node, (&self.of.resources, &self.classes.volumes));
            Box::new((made, self.target(node)))
        })
    }

    /// The domains of a node for all keys of topology constraints.
    fn target(&self, node: usize) -> Target {
        let labels = &self.problem.nodes[node].requirements;
        let domain = |(key, name): (usize, &String)| {
            let value = labels.get(name).and_then(Requirement::single);
            let place = value
                .and_then(|value| self.topology.domains[key].binary_search_by(|known| known.as_str().cmp(value)).ok());
            (key, place.unwrap_or(ABSENT))
        };
        self.topology.keys.iter().enumerate().map(domain).collect()
    }

    /// Binds the pods in the order of a seed.
    pub(super) fn bind(&mut self, seed: u64) -> Vec<Option<usize>> {
        let mut choices = Choices::of(seed);
        let order = queue(&self.problem.pods, seed, &mut choices);
        let mut state = State {
            changed: Vec::new(),
            place_of: vec![None; self.problem.nodes.len()],
            preferences: self.preferences.clone(),
            start: choices.below(self.problem.nodes.len()),
            recorded: Vec::new(),
        };
        let mut bound = vec![None; self.problem.pods.len()];
        for pod in order {
            let class = self.class_of[pod];
            let feasible = self.feasible(class, &mut state);
            if feasible.is_empty() {
                continue;
            }
            let node = self.best(class, &feasible, &state, &mut choices);
            self.place(class, node, &mut state);
            bound[pod] = Some(node);
        }
        for (class, node, standings) in state.recorded.into_iter().rev() {
            let class = &self.classes.list[class];
            let target = self.at(node).1.clone();
            self.topology.forget((&class.selected, &class.required), &standings, &target, 1);
            self.topology.forget_host(&class.selected_hosts, 1);
        }
        bound
    }

    fn preferences(&mut self) -> Vec<(Spread, Affinity)> {
        let Some(kinds) = &self.of.kinds else { return vec![Default::default(); self.classes.list.len()] };
        let (classes, domains, work) = (&self.classes, &mut self.domains, &mut self.work);
        let closed = &self.of.closed[..];
        let all: Vec<(&Class<'a>, Vec<Scoring>)> =
            classes.list.iter().map(|class| (class, Scoring::of(class.example))).collect();
        let of_class = |(index, class): (usize, &Class<'a>)| {
            // The pods of the class fit on no node.
            if class.refused.is_some() {
                return Default::default();
            }
            let required = level(class).into_iter().flat_map(|level| &level.alternatives);
            let required = required.map(|one| &classes.alternatives[*one]).collect();
            let running = Running { kinds, nodes: &self.problem.nodes, closed, required };
            let spread = Spread::of(class, &classes.list, &running, (domains, work));
            (spread, Affinity::of(index, &all, kinds, &self.problem.facts, (domains, closed, work)))
        };
        classes.list.iter().enumerate().map(of_class).collect()
    }

    /// The feasible nodes that are compared, as indices.
    fn feasible(&mut self, class: usize, state: &mut State<'p>) -> Vec<usize> {
        let most = compared(self.problem.nodes.len());
        let mut found = Vec::new();
        for node in (state.start..self.problem.nodes.len()).chain(0..state.start) {
            if !self.fits(class, node) {
                continue;
            }
            self.work += 1;
            if self.is_feasible(class, node, state) {
                found.push(node);
                if found.len() >= most {
                    // The next pod is compared with the nodes after this one.
                    state.start = node + 1;
                    break;
                }
            }
        }
        found
    }

    fn is_feasible(&self, index: usize, node: usize, state: &State<'p>) -> bool {
        let class = &self.classes.list[index];
        let last = class.levels.len().saturating_sub(1);
        let (unchanged, target) = self.at(node);
        let now = state.of(node).map_or(unchanged, |(changed, _)| changed);
        if now.times((index, class), last, &self.topology, 1) == 0 {
            return false;
        }
        let Some(level) = level(class) else { return false };
        let lacks = |(key, domain): &(usize, usize)| *domain == ABSENT && level.needs_label(*key);
        !target.iter().any(lacks)
            && assigning::first_against(class, level, target, &self.facts[index].eligible, &self.topology).is_none()
    }

    /// The node with the highest score.
    fn best(&mut self, index: usize, feasible: &[usize], state: &State<'p>, choices: &mut Choices) -> usize {
        self.work += feasible.len();
        let (facts, class) = (&self.facts[index], &self.classes.list[index]);
        let (spread, affinity) = &state.preferences[index];
        let node = |index: &usize| &self.problem.nodes[*index];
        let row = |index: &usize| state.of(*index).map_or(&self.of.rows[*index], |(_, row)| row);
        let mut totals = vec![0_i64; feasible.len()];
        for (total, index) in totals.iter_mut().zip(feasible) {
            let (row, asked) = (row(index), facts.load);
            let least = least_allocated(row.non_zero.plus(asked.non_zero()), row.allocatable);
            let balanced = balanced_allocation(asked, row.requested.plus(asked), row.allocatable);
            *total += RESOURCES_FIT * least + BALANCED_ALLOCATION * balanced;
        }
        let mut add = |weight: i64, scores: &[i64]| {
            totals.iter_mut().zip(scores).for_each(|(total, score)| *total += weight * score);
        };
        if feasible.iter().any(|index| row(index).prefers_no_schedule) {
            let mut repelled: Vec<i64> = feasible.iter().map(|index| repelling(class, node(index))).collect();
            normalize(&mut repelled, true);
            add(TAINT_TOLERATION, &repelled);
        }
        if !facts.preferred.is_empty() {
            let meets = |index: &usize, required: &Requirements| covers(&node(index).requirements, required);
            let weight = |index: &usize| {
                facts.preferred.iter().filter(|(_, one)| meets(index, one)).map(|(weight, _)| *weight).sum()
            };
            let mut preferred: Vec<i64> = feasible.iter().map(weight).collect();
            normalize(&mut preferred, false);
            add(NODE_AFFINITY, &preferred);
        }
        add(POD_TOPOLOGY_SPREAD, &spread.scores(feasible, &self.domains));
        let near: Option<Vec<i64>> = feasible.iter().map(|node| affinity.score(*node, &self.domains)).collect();
        if let Some(mut near) = near {
            normalize_affinity(&mut near);
            add(INTER_POD_AFFINITY, &near);
        }
        let highest = totals.iter().copied().max().unwrap_or(0);
        let equal: Vec<usize> = (0..totals.len()).filter(|place| totals[*place] == highest).collect();
        feasible[equal[choices.below(equal.len())]]
    }

    /// Binds a pod of a class to a node.
    fn place(&mut self, index: usize, node: usize, state: &mut State<'p>) {
        let class = &self.classes.list[index];
        let last = class.levels.len().saturating_sub(1);
        let (changed, row) = state.change(node, || (self.at(node).0.clone(), self.of.rows[node].clone()));
        changed.put((index, class), last, 1);
        row.add(self.facts[index].load);
        for (spread, affinity) in &mut state.preferences {
            spread.bound(index, node, &self.domains);
            affinity.bound(index, node, &self.domains);
        }
        self.work += state.preferences.len();
        if class.is_related() {
            let standings = self.standings(index, node);
            let target = self.at(node).1.clone();
            let class = &self.classes.list[index];
            self.topology.record((&class.selected, &class.required), &standings, &target, 1);
            self.topology.record_host(&class.selected_hosts, 1);
            state.recorded.push((index, node, standings));
        }
    }

    /// Whether pods of a class count on a node for spreads that leave out some nodes.
    fn standings(&self, index: usize, node: usize) -> Standings {
        let node = &self.problem.nodes[node];
        let selected = self.classes.list[index].selected.iter().copied();
        let particular = selected.filter(|group| self.topology.is_particular(*group));
        let standing = |group| (group, self.topology.standing(group, &node.requirements, &node.taints, true));
        particular.map(standing).collect::<Vec<(usize, Standing)>>()
    }
}

/// The state while the pods of one order are bound.
struct State<'p> {
    /// The nodes that pods were bound to, and by index their place in this list.
    changed: Vec<(Node<'p>, Row)>,
    place_of: Vec<Option<u32>>,
    preferences: Vec<(Spread, Affinity)>,
    /// The node at which the next comparison begins.
    start: usize,
    /// The counted pods for topology constraints: class, node and standings.
    recorded: Vec<(usize, usize, Standings)>,
}

impl<'p> State<'p> {
    /// A node, if pods were bound to it.
    fn of(&self, node: usize) -> Option<&(Node<'p>, Row)> {
        self.changed.get(self.place_of[node]? as usize)
    }

    /// A node to change, as it is before if no pod was bound to it yet.
    fn change(&mut self, node: usize, before: impl FnOnce() -> (Node<'p>, Row)) -> &mut (Node<'p>, Row) {
        let next = self.changed.len();
        let place = self.place_of[node].map_or(next, |place| place as usize);
        if place == next {
            self.place_of[node] = u32::try_from(next).ok();
            self.changed.push(before());
        }
        &mut self.changed[place]
    }
}

/// The required level of a class, without preferences.
fn level<'c>(class: &'c Class<'_>) -> Option<&'c Level> {
    class.levels.last()
}

/// Whether the labels and taints of a node admit a class.
fn may_be_bound(classes: &Classes<'_>, class: &Class<'_>, problem: &Problem<'_>, node: usize) -> bool {
    let alternatives = level(class).into_iter().flat_map(|level| &level.alternatives);
    alternatives.into_iter().any(|one| may_go_to(&classes.alternatives[*one], &problem.nodes[node]))
}

/// The number of `PreferNoSchedule` taints of a node that a class does not tolerate.
fn repelling(class: &Class<'_>, node: &crate::ExistingNode) -> i64 {
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
