//! What binding needs of the nodes and of the pods that may be bound, computed once for all of them.

use super::counted::{Counted, CountedInput};
use super::score::{BALANCED_ALLOCATION, Load, RESOURCES_FIT, balanced_allocation, least_allocated};
use super::{Row, required_only};
use crate::classes::{Class, Classes, Level, Order};
use crate::constraints::AlternativeId;
use crate::constraints::groups::{GroupId, Groups, Kind};
use crate::engine::nodes::{Capacity, Running, may_go_to};
use crate::packing::assigning::Eligible;
use crate::problem::{BoundPods, ClusterFacts, ExistingNode, Problem};
use crate::topology::{ABSENT, Domain, Standings, Target, Topology, counts_node};
use crate::volumes::Attached;
use nodeless_model::hashed::HashMap;
use nodeless_model::{DaemonSet, Pod, Requirement, Requirements, ResourceIndex};

/// The work to read a pod that may be bound, and a running pod.
const WORK_PER_POD: usize = 10;
const WORK_PER_RUNNING_POD: usize = 4;

/// A pod by its namespace and name.
type Name<'a> = (&'a str, &'a str);

/// The pods that may be bound, as classes; the nodes; and the running pods that topology constraints count.
pub(super) struct Prepared<'a> {
    pub(super) topology: Topology<'a>,
    pub(super) classes: Classes<'a>,
    /// By class.
    pub(super) facts: Vec<ClassFacts>,
    pub(super) counted: Counted<'a>,
    /// By admission of classes and node, whether the labels and taints of the node admit the pods, as far as known.
    admitted: Vec<Vec<Option<bool>>>,
    nodes: Vec<Capacity>,
    /// By node, the number of its state: what changes its capacity or its row of amounts gives it a number of its own.
    pub(super) states: Vec<u32>,
    /// The number of states so far.
    state_count: u32,
    /// By node, the index of its domains.
    pub(super) target_of: Vec<usize>,
    /// The different domains of nodes for all keys of topology constraints.
    pub(super) targets: Vec<Target>,
    /// The pods that may be bound: the class of each, and where it runs.
    pods: HashMap<Name<'a>, KnownPod>,
    /// The running nodes: their domains, and the index of each among the nodes that take pods.
    sites: Vec<(Vec<Domain>, Option<usize>)>,
    /// The running nodes by name.
    pub(super) site_of: HashMap<&'a str, usize>,
    /// The number of nodes of which it was made.
    pub(super) made_of: usize,
    /// The number of scores that are kept.
    scores: usize,
    pub(super) work: usize,
}

/// A pod that may be bound.
#[derive(Debug)]
struct KnownPod {
    class: usize,
    runs: Option<Runs>,
}

/// Where a pod runs, and the groups that count it there.
#[derive(Debug)]
struct Runs {
    site: usize,
    selecting: Box<[GroupId]>,
    owned: Box<[GroupId]>,
}

/// The facts about a class.
#[derive(Debug, Default)]
pub(super) struct ClassFacts {
    /// The requests, without volumes.
    pub(super) asked: Box<[i64]>,
    load: Load,
    pub(super) eligible: Eligible,
    pub(super) preferred: Vec<(i64, Requirements)>,
    /// The index of the requirements and tolerations.
    admission: usize,
    /// Whether it depends on the node alone if it takes a pod, regardless of domains: not with affinity to pods on the node, which the
    /// first pod of all meets anywhere.
    by_node: bool,
    /// By node, as far as computed.
    scores: Vec<Score>,
}

/// What a class scores on a node in two of its states: before pods are bound to it, and while they are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Score {
    before: StateScore,
    changed: StateScore,
}

/// What a class scores on a node in a state.
#[derive(Clone, Copy, Debug, Default)]
struct StateScore {
    /// The number of the state; zero if the score is not computed.
    state: u32,
    /// By its resources, or [`TAKES_NONE`].
    score: i16,
}

impl Score {
    /// The score in a state, if it is computed.
    pub(super) const fn of_state(&self, state: u32) -> Option<i16> {
        if self.before.state == state {
            Some(self.before.score)
        } else if self.changed.state == state {
            Some(self.changed.score)
        } else {
            None
        }
    }

    pub(super) const fn set(&mut self, state: u32, score: i16, is_changed: bool) {
        let of_state = StateScore { state, score };
        if is_changed {
            self.changed = of_state;
        } else {
            self.before = of_state;
        }
    }
}

/// A state of a node, which [`Prepared::restore`] takes back.
pub(super) struct NodeState {
    capacity: Capacity,
    number: u32,
}

/// The score of a node that takes no pod of a class, whatever topology constraints over other domains.
pub(super) const TAKES_NONE: i16 = -1;

/// The maximum number of scores that are kept: 32 MB.
const MAX_SCORES: usize = 1 << 21;

/// The nodes, and their running pods.
pub(super) struct Source<'s, 'a> {
    pub(super) resources: &'s ResourceIndex,
    pub(super) facts: ClusterFacts<'a>,
    pub(super) daemon_sets: &'a [DaemonSet],
    /// The running pods of each node that takes pods, for scores.
    pub(super) running_on: &'s [Vec<&'a Pod>],
}

impl<'a> Prepared<'a> {
    /// Reads the problem of the pods that may be bound: its nodes, and the running pods that topology constraints count.
    pub(super) fn new(problem: &Problem<'a>, source: &Source<'_, 'a>) -> Self {
        let mut topology = Topology::new(problem, Groups::new(problem, false), &mut []);
        let order = Order { by_priority: false, some_taint_prefers: false };
        let classes = Classes::new(problem, &required_only(), source.resources, &topology, order, None);
        let mut pods: HashMap<Name<'a>, KnownPod> = HashMap::default();
        pods.reserve(problem.pods.len());
        for (index, class) in classes.list.iter().enumerate() {
            pods.extend(class.pods.iter().map(|pod| (name(problem.pods[*pod]), KnownPod { class: index, runs: None })));
        }
        let running = Running::on(problem, source.resources, &mut topology);
        let number: usize = source.running_on.iter().map(Vec::len).sum();
        let mut admissions: HashMap<&[AlternativeId], usize> = HashMap::default();
        let mut facts = Vec::with_capacity(classes.list.len());
        for class in &classes.list {
            let next = admissions.len();
            let alternatives = level(class).map_or(&[][..], |level| &level.alternatives);
            let admission = *admissions.entry(alternatives).or_insert(next);
            facts.push(ClassFacts { admission, ..class_facts(class, &topology, source.resources) });
        }
        let mut prepared = Self {
            admitted: vec![Vec::new(); admissions.len()],
            facts,
            scores: 0,
            counted: Counted::new(source.running_on, &classes),
            nodes: Vec::with_capacity(problem.nodes.len()),
            states: Vec::with_capacity(problem.nodes.len()),
            state_count: 0,
            target_of: Vec::with_capacity(problem.nodes.len()),
            targets: Vec::new(),
            pods,
            sites: problem.bound_pods.iter().map(|node| (topology.domains_of_node(node), None)).collect(),
            site_of: problem.bound_pods.iter().enumerate().map(|(site, node)| (node.name, site)).collect(),
            made_of: problem.nodes.len(),
            work: problem.pods.len() * WORK_PER_POD + number * WORK_PER_RUNNING_POD,
            topology,
            classes,
        };
        for index in 0..problem.nodes.len() {
            let capacity = running.capacity(problem, index, source.resources, &prepared.classes.volumes);
            let target = target(&problem.nodes[index], &prepared.topology);
            prepared.push(capacity, target);
        }
        let places: HashMap<&str, usize> =
            problem.nodes.iter().enumerate().map(|(index, node)| (node.name.as_str(), index)).collect();
        for (site, node) in problem.bound_pods.iter().enumerate() {
            prepared.sites[site].1 = places.get(node.name).copied();
            for pod in node.pods.iter().copied().filter(|pod| pod.is_active()) {
                prepared.converge(pod, site, node);
            }
        }
        prepared
    }

    fn push(&mut self, capacity: Capacity, target: Target) {
        let place = self.targets.iter().position(|known| *known == target).unwrap_or_else(|| {
            self.targets.push(target);
            self.targets.len() - 1
        });
        self.nodes.push(capacity);
        self.target_of.push(place);
        self.states.push(0);
        self.note_change(self.nodes.len() - 1);
    }

    /// The capacity of a node or its row of amounts changes.
    fn note_change(&mut self, node: usize) {
        self.state_count += 1;
        self.states[node] = self.state_count;
    }

    /// The state of a node.
    pub(super) fn state(&self, node: usize) -> NodeState {
        NodeState { capacity: self.nodes[node].clone(), number: self.states[node] }
    }

    /// Makes a node what it was, once its row of amounts is so too: scores that were computed then hold again.
    pub(super) fn restore(&mut self, node: usize, NodeState { capacity, number }: NodeState) {
        self.nodes[node] = capacity;
        self.states[node] = number;
    }

    /// Adds a node without pods; `false` if what is known does not hold with it.
    pub(super) fn add(&mut self, node: &ExistingNode, source: &Source<'_, 'a>) -> bool {
        let counted = node.daemon_sets.iter().filter_map(|set| source.daemon_sets.get(*set)).any(|set| {
            let signature = self.topology.groups.signature(&set.template);
            let groups = &self.topology.groups;
            !groups.selected[signature].is_empty() || !groups.owned_by_bound(&set.template).is_empty()
        });
        let target = target(node, &self.topology);
        let is_new = |(key, domain): &(usize, Domain)| {
            let value = node.requirements.get(&self.topology.keys[*key]).and_then(Requirement::single);
            *domain == ABSENT && value.is_some()
        };
        let known = |(key, domain): &(usize, Domain)| {
            let mut groups =
                (0..self.topology.groups.list.len()).filter(|group| self.topology.key(*group) == Some(*key));
            *domain == ABSENT
                || groups.all(|group| self.topology.present(group).get(*domain).is_none_or(|known| *known))
        };
        if counted || target.iter().any(is_new) || !target.iter().all(known) {
            return false;
        }
        let alone = Problem { nodes: vec![node.clone()], facts: source.facts, ..Problem::default() };
        let capacity = Running::default().capacity(&alone, 0, source.resources, &self.classes.volumes);
        self.push(capacity, target);
        self.counted.add(node);
        true
    }

    /// Removes the nodes that were added last, so that `count` are left.
    pub(super) fn truncate(&mut self, count: usize) {
        self.nodes.truncate(count);
        self.states.truncate(count);
        self.target_of.truncate(count);
        self.counted.truncate(count);
        self.admitted.iter_mut().for_each(|admitted| admitted.truncate(count));
    }

    /// The classes of pods.
    pub(super) fn classes_of(&self, pods: &[&'a Pod]) -> Vec<usize> {
        pods.iter().filter_map(|pod| self.pods.get(&name(pod))).map(|known| known.class).collect()
    }

    /// Counts a running pod that may be bound on this node.
    pub(super) fn converge(&mut self, pod: &'a Pod, site: usize, node: &BoundPods<'a>) {
        let Some(known) = self.pods.get_mut(&name(pod)) else { return };
        let signature = self.topology.groups.signature(pod);
        let groups = &self.topology.groups;
        let selected = groups.selected[signature].iter().copied();
        let selecting = selected.filter(|group| counts_node(&groups.list[*group].filter, node)).collect();
        known.runs = Some(Runs { site, selecting, owned: groups.owned_by_bound(pod).into() });
        self.count(pod);
    }

    /// Counts a running pod that may be bound on no node any more, and returns its node.
    pub(super) fn leave(&mut self, pod: &'a Pod) -> Option<usize> {
        self.forget(pod);
        self.pods.get_mut(&name(pod))?.runs.take().map(|runs| runs.site)
    }

    /// Counts a pod that may be bound where it runs.
    pub(super) fn count(&mut self, pod: &'a Pod) {
        self.change_running(pod, |number| *number += 1);
    }

    /// Counts a pod no longer where it runs.
    pub(super) fn forget(&mut self, pod: &'a Pod) {
        self.change_running(pod, |number| *number = number.saturating_sub(1));
    }

    fn change_running(&mut self, pod: &'a Pod, change: impl Fn(&mut u32)) {
        let Some(Runs { site, selecting, owned }) = self.pods.get(&name(pod)).and_then(|known| known.runs.as_ref())
        else {
            return;
        };
        let (domains, node) = &self.sites[*site];
        self.topology.change_running(selecting.iter(), owned, domains, &change);
        let topology = &self.topology;
        let over_hosts = |group: &&GroupId| topology.key(**group).is_none();
        if let Some(node) = *node
            && selecting.iter().chain(owned).any(|group| over_hosts(&group))
        {
            let hosts = &mut self.nodes[node].hosts;
            hosts.change_bound(selecting.iter().filter(over_hosts), owned.iter().filter(over_hosts), change);
            self.note_change(node);
        }
    }

    /// Uses the capacity of a node for a pod.
    pub(super) fn place(&mut self, node: usize, pod: &Pod, resources: &ResourceIndex) {
        self.nodes[node].take(&resources.amounts(pod.template.next_requests()), &pod.template.host_ports);
        self.note_change(node);
    }

    /// Computes again which volumes are attached to a running node.
    pub(super) fn attach(&mut self, site: usize, nodes: &[ExistingNode], pods: &[&Pod], source: &Source<'_, 'a>) {
        let Some(node) = self.sites[site].1 else { return };
        let facts = Problem { facts: source.facts, ..Problem::default() };
        let attached = Attached::new(&facts, source.resources, &self.classes.volumes, &nodes[node], pods);
        self.nodes[node].attach(attached);
        self.note_change(node);
    }

    /// Whether the labels and taints of a node admit a class.
    pub(super) fn admits(&mut self, class: usize, node: usize, nodes: &[ExistingNode]) -> bool {
        let admitted = &mut self.admitted[self.facts[class].admission];
        if admitted.len() <= node {
            admitted.resize(nodes.len(), None);
        }
        let (classes, work) = (&self.classes, &mut self.work);
        *admitted[node].get_or_insert_with(|| {
            *work += 1;
            let mut alternatives = level(&classes.list[class]).into_iter().flat_map(|level| &level.alternatives);
            alternatives.any(|one| may_go_to(&classes.alternatives[*one], &nodes[node]))
        })
    }

    /// The kept scores of a class. [`Self::keep_scores`] takes them back.
    pub(super) fn take_scores(&mut self, class: usize, nodes: usize) -> Vec<Score> {
        let more = nodes.saturating_sub(self.facts[class].scores.len());
        if self.scores + more > MAX_SCORES {
            self.facts.iter_mut().for_each(|facts| facts.scores = Vec::new());
            self.scores = 0;
        }
        let facts = &mut self.facts[class];
        self.scores += nodes.saturating_sub(facts.scores.len());
        facts.scores.resize(nodes.max(facts.scores.len()), Score::default());
        if !facts.by_node {
            facts.scores.fill(Score::default());
        }
        std::mem::take(&mut facts.scores)
    }

    pub(super) fn keep_scores(&mut self, class: usize, scores: Vec<Score>) {
        self.facts[class].scores = scores;
    }

    /// The score of a node by its resources for a pod of a class, or [`TAKES_NONE`], whatever topology constraints over other domains.
    pub(super) fn score(&mut self, class: usize, node: usize, nodes: &[ExistingNode], rows: &[Row]) -> i16 {
        let of = &self.classes.list[class];
        let last = of.levels.len().saturating_sub(1);
        if !self.nodes[node].takes(of, last, &self.topology) || !self.admits(class, node, nodes) {
            return TAKES_NONE;
        }
        let (row, asked) = (&rows[node], self.facts[class].load);
        let least = least_allocated(row.non_zero.plus(asked.non_zero()), row.allocatable);
        let balanced = balanced_allocation(asked, row.requested.plus(asked), row.allocatable);
        i16::try_from(RESOURCES_FIT * least + BALANCED_ALLOCATION * balanced).unwrap_or(i16::MAX)
    }

    /// Binds a pod of a class to a node.
    pub(super) fn bind(&mut self, index: usize, node: usize, rows: &mut [Row]) {
        let class = &self.classes.list[index];
        self.nodes[node].put(class, class.levels.len().saturating_sub(1), 1);
        rows[node].add(self.facts[index].load);
        self.note_change(node);
        self.work += self.counted.change(index, node, 1);
    }

    /// Counts a pod of a class that was bound to a node for topology constraints, or no longer.
    pub(super) fn change_bound(&mut self, index: usize, node: usize, standings: &Standings, bound: bool) {
        let class = &self.classes.list[index];
        let target = &self.targets[self.target_of[node]];
        if bound {
            self.topology.record(&class.selected, &class.required, standings, target, 1);
            self.topology.record_host(&class.selected_hosts, 1);
        } else {
            self.topology.forget(&class.selected, &class.required, standings, target, 1);
            self.topology.forget_host(&class.selected_hosts, 1);
        }
    }

    /// Whether pods of a class count on a node for spreads that leave out some nodes.
    pub(super) fn standings(&self, class: usize, node: &ExistingNode) -> Standings {
        let selected = self.classes.list[class].selected.iter().copied();
        let particular = selected.filter(|group| self.topology.is_particular(*group));
        let standing = |group| (group, self.topology.standing(group, &node.requirements, &node.taints, true));
        particular.map(standing).collect()
    }

    /// Computes what the preferences of classes count.
    pub(super) fn prepare_scores(
        &mut self,
        classes: &[usize],
        nodes: &[ExistingNode],
        closed: &[bool],
        facts: &ClusterFacts<'a>,
    ) {
        let input = CountedInput { classes: &self.classes, nodes, closed, facts };
        self.work += classes.iter().map(|class| self.counted.prepare(*class, input)).sum::<usize>();
    }

    /// Counts the running pods of a node for scores, with a negative sign no longer.
    pub(super) fn change_node(
        &mut self,
        node: usize,
        sign: i64,
        nodes: &[ExistingNode],
        closed: &[bool],
        facts: &ClusterFacts<'a>,
    ) {
        self.counted.change_node(node, sign, CountedInput { classes: &self.classes, nodes, closed, facts });
    }
}

/// The key of a pod.
pub(super) fn name(pod: &Pod) -> Name<'_> {
    (&pod.namespace, &pod.name)
}

/// The required level of a class, without preferences.
pub(super) fn level<'c>(class: &'c Class<'_>) -> Option<&'c Level> {
    class.levels.last()
}

fn class_facts(class: &Class<'_>, topology: &Topology<'_>, resources: &ResourceIndex) -> ClassFacts {
    let template = &class.example.template;
    let preferred = template.preferred_node_affinity.iter().filter(|one| !one.preference.is_empty());
    let preferred =
        preferred.filter_map(|one| Some((i64::from(one.weight), Requirements::from_terms(&one.preference).ok()?)));
    let groups = level(class).map_or(&[][..], |level| &level.bounded);
    let spreads = groups.iter().filter(|group| matches!(topology.kind(**group), Kind::Spread { .. }));
    let counted = |group: &usize| {
        let present = topology.present(*group).iter().enumerate();
        (*group, present.map(|(domain, present)| domain != ABSENT && *present).collect())
    };
    let mut hosts = level(class).into_iter().flat_map(|level| &level.hosts);
    ClassFacts {
        by_node: hosts.all(|group| topology.kind(*group) != Kind::Affinity),
        asked: resources.amounts(template.next_requests()),
        load: Load::new(template.next_requests()),
        eligible: spreads.map(counted).collect(),
        preferred: preferred.collect(),
        ..ClassFacts::default()
    }
}

/// The domains of a node for all keys of topology constraints.
fn target(node: &ExistingNode, topology: &Topology<'_>) -> Target {
    let domain = |(key, name): (usize, &String)| {
        let value = node.requirements.get(name).and_then(Requirement::single);
        let place =
            value.and_then(|value| topology.domains[key].binary_search_by(|known| known.as_str().cmp(value)).ok());
        (key, place.unwrap_or(ABSENT))
    };
    topology.keys.iter().enumerate().map(domain).collect()
}
