//! The order in which things are tried.

use crate::assigning::{self, Eligible, Prospect};
use crate::classes::{AlternativeId, Class, Classes, Order};
use crate::dense::{self, Amounts};
use crate::existing::ExistingNode;
use crate::groups::{GroupId, Groups, Kind};
use crate::hosts::HostCounts;
use crate::packing::{self, Bin, Context, Unit};
use crate::pools::{self, Pool};
use crate::problem::{Options, PreferencePolicy, Problem};
use crate::reservations::Reservations;
use crate::solution::{Placement, Solution, Unschedulable};
use crate::topology::{self, Domain, Standing, Standings, Target, Topology};
use crate::volumes::AttachedVolumes;
use crate::{against, constraints, explain, joining, launch};
use nodeless_model::pod::HostPort;
use nodeless_model::{Pod, ResourceIndex, ResourceList, Taint, TaintEffect};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Makes a plan: places every pod on an existing node or a node to launch, or says why it fits nowhere.
///
/// Where limits leave pods out, those of lower priority are left out first.
#[must_use]
pub fn solve(input: &Problem<'_>, options: &Options) -> Solution {
    let (solution, limited) = settle(input, options, false);
    let mut priorities = input.pods.iter().map(|pod| pod.priority);
    let first = priorities.next();
    if !limited || priorities.all(|priority| Some(priority) == first) {
        return solution;
    }
    settle(input, options, true).0
}

/// Plans until what topology allows rests on nothing that failed to come about.
///
/// Pods are bound for domains before anybody knows whether there is room for all of them. Where there is not, pods
/// elsewhere may have relied on them; then the plan is made again with what is known now.
fn settle(input: &Problem<'_>, options: &Options, by_priority: bool) -> (Solution, bool) {
    let mut known = Known::default();
    loop {
        let mut engine = Engine::new(input, options, by_priority, &known);
        engine.run();
        match engine.lesson() {
            Some(more) => known = more,
            None => return engine.finish(),
        }
    }
}

/// What earlier attempts at a plan have shown.
#[derive(Clone, Debug, Default)]
struct Known {
    /// How many pods of a class found room where they were bound for, where not all did.
    most: HashMap<Binding, u32>,
    /// Classes that are left out, because what they rely on never came about.
    left_out: HashSet<usize>,
    attempts: u32,
}

/// After so many attempts, what still relies on something that did not come about is left out.
const MOST_ATTEMPTS: u32 = 6;

/// Beyond all levels: what waits is bound one by one, by what has come about.
const CAREFUL: usize = usize::MAX;

/// How many rounds are spent on what is left, so that the effort stays bounded.
const MOST_CAREFUL: u32 = 64;

/// Level, class and where its pods are bound for.
type Binding = (usize, usize, Target);

/// What came of a binding.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    placed: u32,
    failed: bool,
}

struct Engine<'a, 'p> {
    input: &'p Problem<'a>,
    options: &'p Options,
    known: &'p Known,
    resources: ResourceIndex,
    topology: Topology<'a>,
    classes: Classes<'a>,
    pools: Vec<Pool<'p>>,
    nodes: Vec<Node<'p>>,
    /// Whether an alternative may go to a node; `None` where nobody has asked yet.
    allowed: Vec<Option<Box<[bool]>>>,
    /// Whether pods with an alternative count for a group; `None` inside where it leads nowhere.
    standing: HashMap<(GroupId, AlternativeId), Option<Standing>>,
    /// How many pods of each class wait.
    pending: Vec<u32>,
    /// What came of all bindings.
    outcomes: HashMap<Binding, Outcome>,
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
    hosts: HostCounts,
    volumes: AttachedVolumes,
    /// Classes, and how many of their waiting pods it was launched for.
    nominated: Vec<(usize, u32)>,
    /// What these ask for together.
    held: Amounts,
}

impl<'a, 'p> Engine<'a, 'p> {
    fn new(input: &'p Problem<'a>, options: &'p Options, by_priority: bool, known: &'p Known) -> Self {
        let pod_requests = input.pods.iter().map(|pod| &pod.requests);
        let daemon_requests = input.daemon_sets.iter().map(|set| &set.template.requests);
        let resources = ResourceIndex::of(pod_requests.chain(daemon_requests));
        let ordered = pools::order(&input.node_pools);
        let usable = ordered.into_iter().filter(|offer| pools::unusable(offer.pool).is_none());
        let pools: Vec<Pool<'p>> =
            usable.map(|offer| Pool::new(offer, input.daemon_sets, &resources, options)).collect();
        let groups = Groups::of(input, options.preferences == PreferencePolicy::Respect);
        let mut topology = Topology::new(input, groups, &pools);
        let order = Order { by_priority, some_taint_prefers: some_taint_prefers(input) };
        let classes = Classes::of(input, options, &resources, &topology, order);
        let mut nodes: Vec<Node<'p>> = input
            .nodes
            .iter()
            .enumerate()
            .map(|(index, node)| Node {
                index,
                node,
                room: resources.amounts(&node.available),
                ports: node.host_ports.clone(),
                hosts: HostCounts::default(),
                volumes: AttachedVolumes::default(),
                nominated: Vec::new(),
                held: resources.amounts(&ResourceList::new()),
            })
            .collect();
        count_hosts(input, &mut topology, &mut nodes);
        count_volumes(input, &mut nodes);
        nominate(input, &classes, &mut nodes);
        nodes.sort_by_key(|node| (Reverse(node.node.initialized), &node.node.name));
        let count = |pods: &[usize]| u32::try_from(pods.len()).unwrap_or(u32::MAX);
        Self {
            input,
            options,
            known,
            resources,
            pending: classes.list.iter().map(|class| count(&class.pods)).collect(),
            allowed: Vec::new(),
            standing: HashMap::new(),
            outcomes: HashMap::new(),
            bins: pools.iter().map(|_| Vec::new()).collect(),
            placed: Vec::new(),
            topology,
            classes,
            pools,
            nodes,
        }
    }

    /// Places all classes level by level: what does not fit at one level of its preferences comes to the next.
    fn run(&mut self) {
        let levels = self.classes.list.iter().map(|class| class.levels.len()).max().unwrap_or(0);
        for level in 0..levels {
            let mut first = true;
            while self.round(level, first) {
                first = false;
            }
        }
        // What was taken back may leave room for pods elsewhere.
        if self.known.attempts > 0 || self.outcomes.values().any(|outcome| outcome.failed) {
            for _ in 0..MOST_CAREFUL {
                if !self.round(CAREFUL, false) {
                    break;
                }
            }
        }
    }

    /// Tries to place what waits, once. Returns whether another try could place more: whether something was placed, and
    /// pods wait to which that may matter.
    fn round(&mut self, level: usize, first: bool) -> bool {
        let before: u64 = self.pending.iter().map(|count| u64::from(*count)).sum();
        let mut units = self.assign(level, first);
        self.release(level, &mut units);
        self.fill_opened(level, &mut units);
        let context = Context { classes: &self.classes, level, options: self.options };
        let mut left: Option<Reservations> = None;
        for (pool, bins) in self.pools.iter_mut().zip(&mut self.bins) {
            if left.as_ref().is_some_and(|left| pool.reservations.lower_to(left)) {
                pool.reprice();
            }
            bins.extend(packing::pack(pool, context, &mut units, &mut self.topology));
            left = Some(left.map_or_else(|| pool.reservations.clone(), |left| left.with(&pool.reservations)));
        }
        for pool in &mut self.pools {
            if left.as_ref().is_some_and(|left| pool.reservations.lower_to(left)) {
                pool.reprice();
            }
        }
        let mut failed = false;
        for unit in units {
            failed |= self.take_back(level, &unit);
        }
        let after: u64 = self.pending.iter().map(|count| u64::from(*count)).sum();
        // What found no room where it was bound for is bound for elsewhere the next time.
        (after < before || failed)
            && self.classes.list.iter().zip(&self.pending).any(|(class, left)| *left > 0 && class.is_related())
    }

    /// Counts what came of a unit, and lets what found no room wait again. Returns whether it failed there for the first
    /// time.
    fn take_back(&mut self, level: usize, unit: &Unit) -> bool {
        self.pending[unit.class] += unit.pending;
        if unit.target.is_empty() {
            return false;
        }
        let standings = self.standings(unit.class, &unit.alternatives);
        let class = &self.classes.list[unit.class];
        self.topology.forget((&class.selected, &class.required), &standings, &unit.target, unit.pending);
        let outcome = self.outcomes.entry((level, unit.class, unit.target.clone())).or_default();
        outcome.placed += unit.assigned - unit.pending;
        let first = unit.pending > 0 && !outcome.failed;
        outcome.failed |= first;
        first
    }

    /// Makes units of all that waits, and fills existing nodes with them in the order of the classes.
    fn assign(&mut self, level: usize, first: bool) -> Vec<Unit> {
        let mut units = Vec::new();
        let mut again = true;
        let mut first_pass = first;
        while again {
            again = false;
            for class in 0..self.classes.list.len() {
                if self.pending[class] == 0 || self.known.left_out.contains(&class) {
                    continue;
                }
                let of_class = &self.classes.list[class];
                let bound = of_class.level(level).is_some_and(|level| !level.keys.is_empty());
                // Nothing that happens meanwhile helps pods that no topology concerns.
                let tried = (level >= of_class.levels.len() || !first_pass) && !of_class.is_related();
                if tried || of_class.levels.is_empty() {
                    continue;
                }
                let made = if bound { self.bound_units(class, level) } else { self.free_unit(class, level) };
                for mut unit in made {
                    self.pending[class] -= unit.assigned;
                    again |= bound && level != CAREFUL;
                    self.fill_existing(level, &mut unit);
                    units.push(unit);
                }
            }
            first_pass = false;
        }
        units
    }

    fn free_unit(&self, class: usize, level: usize) -> Vec<Unit> {
        let alternatives = self.classes.list[class].level(level).map(|level| level.alternatives.clone());
        let pending = self.pending[class];
        vec![Unit {
            class,
            alternatives: alternatives.unwrap_or_default(),
            target: Vec::new(),
            assigned: pending,
            pending,
        }]
    }

    fn bound_units(&mut self, class: usize, level: usize) -> Vec<Unit> {
        let mut prospects = self.prospects(class, level);
        let eligible = self.eligible(class, level, &prospects);
        let of_class = &self.classes.list[class];
        let pending = if level == CAREFUL { 1 } else { self.pending[class] };
        if let Some(of_level) = of_class.level(level) {
            assigning::assign(of_class, of_level, &mut prospects, &eligible, pending, &mut self.topology);
        }
        assigning::units(class, prospects)
    }

    /// The domains by which the spread of a class is measured.
    fn eligible(&mut self, class: usize, level: usize, prospects: &[Prospect]) -> Eligible {
        let Some(of_level) = self.classes.list[class].level(level) else { return Eligible::new() };
        if !of_level.bounded.iter().any(|group| matches!(self.topology.kind(*group), Kind::Spread { .. })) {
            return Eligible::new();
        }
        let strict = self.classes.list[class].levels.last().map(|level| level.alternatives.clone()).unwrap_or_default();
        let launchable: Vec<Target> = if strict == of_level.alternatives {
            let launched = prospects.iter().filter(|prospect| prospect.worth.is_some());
            launched.map(|prospect| prospect.target.clone()).collect()
        } else {
            let targets = assigning::targets(&mut self.classes, class, level, &strict, &self.topology);
            let mut launchable = Vec::new();
            for (target, alternatives) in targets {
                if self.worth(class, &alternatives).is_some() {
                    launchable.push(target);
                }
            }
            launchable
        };
        let Some(of_level) = self.classes.list[class].level(level) else { return Eligible::new() };
        assigning::eligible(of_level, &launchable, &self.topology)
    }

    /// Where pods of a class could be bound for, and what there is.
    fn prospects(&mut self, class: usize, level: usize) -> Vec<Prospect> {
        let alternatives = self.classes.list[class].level(level).map(|level| level.alternatives.clone());
        let alternatives = alternatives.unwrap_or_default();
        let targets = assigning::targets(&mut self.classes, class, level, &alternatives, &self.topology);
        let mut prospects = Vec::new();
        for (target, alternatives) in targets {
            let worth = self.worth(class, &alternatives);
            let room = self.room(class, level, &alternatives);
            if worth.is_none() && room == 0 {
                continue;
            }
            let binding = (level, class, target);
            let outcome = self.outcomes.get(&binding).copied().unwrap_or_default();
            let most = self.known.most.get(&binding).map_or(u32::MAX, |most| most.saturating_sub(outcome.placed));
            let most = if outcome.failed { 0 } else { most };
            let standings = self.standings(class, &alternatives);
            prospects.push(Prospect { target: binding.2, alternatives, standings, worth, room, most, assigned: 0 });
        }
        prospects
    }

    /// Whether pods of a class count for spreads that leave out some nodes, wherever these alternatives let them go.
    fn standings(&mut self, class: usize, alternatives: &[AlternativeId]) -> Standings {
        let selected = self.classes.list[class].selected.iter().copied();
        let particular: Vec<GroupId> = selected.filter(|group| self.topology.is_particular(*group)).collect();
        particular
            .into_iter()
            .map(|group| {
                let each = alternatives.iter().filter_map(|&alternative| self.standing(group, alternative));
                (group, each.reduce(Standing::and).unwrap_or(Standing::Counts))
            })
            .collect()
    }

    /// The same of one group and alternative; `None` where it leads nowhere.
    fn standing(&mut self, group: GroupId, alternative: AlternativeId) -> Option<Standing> {
        if let Some(known) = self.standing.get(&(group, alternative)) {
            return *known;
        }
        let mut found: Option<Standing> = None;
        let mut add = |standing: Standing| found = Some(found.map_or(standing, |known| known.and(standing)));
        for pool in &mut self.pools {
            if let Some(set) = pool.admit(pools::BASE, alternative, &self.classes.alternatives) {
                add(self.topology.standing(group, &pool.set(set).requirements, &pool.pool.template.taints, false));
            }
        }
        self.allow(alternative);
        let allowed = self.allowed[alternative].iter().flat_map(|allowed| allowed.iter());
        for (node, _) in self.nodes.iter().zip(allowed).filter(|(_, allowed)| **allowed) {
            add(self.topology.standing(group, &node.node.requirements, &node.node.taints, true));
        }
        self.standing.insert((group, alternative), found);
        found
    }

    /// What one pod is worth where it is cheapest; `None` where no node can be launched for it.
    fn worth(&mut self, class: usize, alternatives: &[AlternativeId]) -> Option<f64> {
        let requests = &self.classes.list[class].requests;
        let mut worths = Vec::new();
        for pool in &mut self.pools {
            for &alternative in alternatives {
                if let Some(set) = pool.admit(pools::BASE, alternative, &self.classes.alternatives) {
                    worths.extend(packing::worth(pool, set, requests));
                }
            }
        }
        worths.into_iter().min_by(f64::total_cmp)
    }

    /// How many pods of a class existing nodes hold.
    fn room(&mut self, class: usize, level: usize, alternatives: &[AlternativeId]) -> u32 {
        let pending = self.pending[class];
        let mut room = 0;
        for &alternative in alternatives {
            self.allow(alternative);
            let allowed = self.allowed[alternative].iter().flat_map(|allowed| allowed.iter());
            let of_class = &self.classes.list[class];
            for (node, _) in self.nodes.iter().zip(allowed).filter(|(_, allowed)| **allowed) {
                room += node.times(self.input, (class, of_class), level, &self.topology, pending - room);
                if room >= pending {
                    return room;
                }
            }
        }
        room
    }

    /// Works out to which nodes an alternative may go.
    fn allow(&mut self, alternative: AlternativeId) {
        if self.allowed.len() <= alternative {
            self.allowed.resize(alternative + 1, None);
        }
        self.allowed[alternative].get_or_insert_with(|| {
            let alternative = &self.classes.alternatives[alternative];
            self.nodes.iter().map(|node| may_go_to(alternative, node.node)).collect()
        });
    }

    /// Fills the nodes that exist, in their order.
    fn fill_existing(&mut self, level: usize, unit: &mut Unit) {
        if self.nodes.is_empty() {
            return;
        }
        for &alternative in &unit.alternatives {
            self.allow(alternative);
            let class = &self.classes.list[unit.class];
            // Nodes that were launched for these pods come first.
            for first in [true, false] {
                let allowed = self.allowed[alternative].iter().flat_map(|allowed| allowed.iter());
                for (node, _) in self.nodes.iter_mut().zip(allowed).filter(|(_, allowed)| **allowed) {
                    if unit.pending == 0 {
                        return;
                    }
                    let most = if first { node.nominated(unit.class).min(unit.pending) } else { unit.pending };
                    if most == 0 {
                        continue;
                    }
                    let times = node.times(self.input, (unit.class, class), level, &self.topology, most);
                    if times > 0 {
                        node.put(self.input, (unit.class, class), level, times);
                        self.topology.record_host(&class.selected_hosts, times);
                        unit.pending -= times;
                        self.placed.push((unit.class, node.index, times));
                    }
                }
            }
        }
    }

    /// Gives up the room that is held for pods that did not go where they were expected.
    fn release(&mut self, level: usize, units: &mut [Unit]) {
        let mut any = false;
        for node in self.nodes.iter_mut().filter(|node| !node.nominated.is_empty()) {
            any = true;
            node.nominated.clear();
            node.held.fill(0);
        }
        if any {
            units.iter_mut().filter(|unit| unit.pending > 0).for_each(|unit| self.fill_existing(level, unit));
        }
    }

    /// Fills what is left of nodes that were opened before, where that makes them no dearer.
    fn fill_opened(&mut self, level: usize, units: &mut [Unit]) {
        let context = Context { classes: &self.classes, level, options: self.options };
        for (pool, bins) in self.pools.iter_mut().zip(&mut self.bins) {
            for bin in bins {
                for unit in units.iter_mut().filter(|unit| unit.pending > 0) {
                    joining::join(pool, bin, unit, context, &mut self.topology);
                }
            }
        }
    }

    /// What another attempt has to know, if pods rely on others that found no room in the end.
    fn lesson(&mut self) -> Option<Known> {
        let failed: Vec<(Binding, u32)> = self
            .outcomes
            .iter()
            .filter(|(_, outcome)| outcome.failed)
            .map(|(binding, outcome)| (binding.clone(), outcome.placed))
            .collect();
        if failed.is_empty() {
            return None;
        }
        let placed: BTreeSet<(usize, Target)> = self
            .outcomes
            .iter()
            .filter(|(_, outcome)| outcome.placed > 0)
            .map(|((_, class, target), _)| (*class, target.clone()))
            .collect();
        let missing: BTreeSet<usize> = failed.iter().map(|((_, class, _), _)| *class).collect();
        let adrift: Vec<usize> = placed
            .into_iter()
            .filter(|(class, target)| self.is_adrift(*class, target, &missing))
            .map(|(class, _)| class)
            .collect();
        if adrift.is_empty() {
            return None;
        }
        let mut known = self.known.clone();
        known.attempts += 1;
        // What is bound one by one goes by what has come about, which is something else each time.
        for (binding, placed) in failed.into_iter().filter(|((level, _, _), _)| *level != CAREFUL) {
            let most = known.most.entry(binding).or_insert(placed);
            *most = placed.min(*most);
        }
        if known.attempts > MOST_ATTEMPTS {
            known.left_out.extend(adrift);
        }
        Some(known)
    }

    /// Whether pods of a class are where they are only because of pods that are missing now.
    fn is_adrift(&mut self, class: usize, target: &[(usize, Domain)], missing: &BTreeSet<usize>) -> bool {
        let last = self.classes.list[class].levels.len().saturating_sub(1);
        let prospects = self.prospects(class, last);
        let eligible = self.eligible(class, last, &prospects);
        let of_class = &self.classes.list[class];
        let Some(level) = of_class.level(last) else { return false };
        let relies = |group: usize| missing.iter().any(|missing| self.classes.list[*missing].is_selected_by(group));
        level.bounded.iter().any(|&group| {
            let here = self.topology.matching(group, assigning::domain_of(target, self.topology.key(group)));
            relies(group)
                && match self.topology.kind(group) {
                    Kind::Affinity => {
                        here <= self.followers(group, target) && self.topology.matches_beyond(group, target)
                    }
                    Kind::Anti => false,
                    Kind::Spread { max_skew, min_domains } => {
                        let known = eligible.iter().find(|(one, _)| *one == group);
                        let least = known.map_or(0, |(_, known)| self.topology.least(group, known, min_domains));
                        here > least.saturating_add(max_skew)
                    }
                }
        })
    }

    /// How many of the pods that an affinity counts in a domain are there because of it.
    fn followers(&self, group: GroupId, target: &[(usize, Domain)]) -> u32 {
        let domain = |target: &[(usize, Domain)]| assigning::domain_of(target, self.topology.key(group));
        let follow = |class: usize| {
            let class = &self.classes.list[class];
            class.required.contains(&group) && class.is_selected_by(group)
        };
        let here =
            self.outcomes.iter().filter(|((_, class, place), _)| follow(*class) && domain(place) == domain(target));
        here.map(|(_, outcome)| outcome.placed).sum()
    }

    fn finish(mut self) -> (Solution, bool) {
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
        for ((pool, bins), pods) in self.pools.iter_mut().zip(&self.bins).zip(pods) {
            // What no node was planned for is not to be used by accident.
            if !pool.reservations.is_empty() {
                pool.reservations.close();
                pool.reprice();
            }
            solution.launches.extend(launch::launches(pool, bins, pods, &self.resources, self.options));
        }
        solution.placements.sort_unstable();
        solution.unschedulable.sort_by_key(|pod| pod.pod);
        (solution, limited)
    }

    /// Says why what is pending found no place, and returns whether limits are among the reasons.
    fn explain(&mut self, queues: Vec<std::vec::IntoIter<usize>>, solution: &mut Solution) -> bool {
        let mut limited = false;
        for (index, queue) in queues.into_iter().enumerate() {
            if self.pending[index] == 0 {
                continue;
            }
            let why = self.why(index);
            limited |= why.limited;
            solution.unschedulable.extend(queue.map(|pod| Unschedulable { pod, reasons: why.reasons.clone() }));
        }
        limited
    }

    fn why(&mut self, index: usize) -> explain::Explanation {
        let last = self.classes.list[index].levels.len().saturating_sub(1);
        let bound = self.classes.list[index].level(last).is_some_and(|level| !level.keys.is_empty());
        let mut alternatives =
            self.classes.list[index].level(last).map(|level| level.alternatives.clone()).unwrap_or_default();
        if bound {
            let prospects = self.prospects(index, last);
            let eligible = self.eligible(index, last, &prospects);
            let class = &self.classes.list[index];
            if let Some(fault) = class.level(last).and_then(|level| against::by_absence(level, &self.topology)) {
                return explain::Explanation::of_pod(fault);
            }
            if let Some(level) = class.level(last)
                && !prospects.is_empty()
            {
                match against::by_domains(class, level, &prospects, &eligible, &self.topology) {
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
            options: self.options,
        };
        let why = explainer.explain(class, &alternatives);
        // Where nothing of the node itself is in the way, other pods are.
        match against::by_hosts(class, last, &self.topology) {
            Some(fault) if why.unexplained => explain::Explanation::of_pod(fault),
            _ => why,
        }
    }
}

/// Counts what runs on existing nodes for the groups over the host name.
fn count_hosts<'a>(input: &Problem<'a>, topology: &mut Topology<'a>, nodes: &mut [Node<'_>]) {
    if topology.groups.list.is_empty() {
        return;
    }
    let places: HashMap<&str, usize> =
        input.nodes.iter().enumerate().map(|(place, node)| (node.name.as_str(), place)).collect();
    let pending = topology::pending_names(input);
    for bound in &input.bound_pods {
        let Some(&place) = places.get(bound.name) else { continue };
        for pod in topology::counted_pods(bound, &pending) {
            let signature = topology.groups.signature(pod);
            let over_hosts = |groups: &[usize]| -> Vec<usize> {
                groups.iter().copied().filter(|group| topology.key(*group).is_none()).collect()
            };
            let selected: Vec<usize> = over_hosts(&topology.groups.selected[signature])
                .into_iter()
                .filter(|group| topology::counts_node(&topology.groups.list[*group].filter, bound))
                .collect();
            let owned = over_hosts(topology.groups.owned_by_bound(pod));
            nodes[place].hosts.add_bound(&selected, &owned);
        }
    }
}

/// Counts the volumes that are attached to existing nodes with a limit.
fn count_volumes(input: &Problem<'_>, nodes: &mut [Node<'_>]) {
    if input.volume_limits.is_empty() {
        return;
    }
    let pods: HashMap<&str, &[&Pod]> = input.bound_pods.iter().map(|node| (node.name, &node.pods[..])).collect();
    for node in nodes {
        let name = node.node.name.as_str();
        node.volumes = AttachedVolumes::of(input, name, pods.get(name).copied().unwrap_or_default());
    }
}

/// Counts for each node the pods that it was launched for and that wait.
fn nominate(input: &Problem<'_>, classes: &Classes<'_>, nodes: &mut [Node<'_>]) {
    if nodes.iter().all(|node| node.node.nominated.is_empty()) {
        return;
    }
    let mut class_of: HashMap<(&str, &str), usize> = HashMap::new();
    for (index, class) in classes.list.iter().enumerate() {
        let names = class.pods.iter().map(|pod| (input.pods[*pod].namespace.as_str(), input.pods[*pod].name.as_str()));
        class_of.extend(names.map(|name| (name, index)));
    }
    for node in nodes {
        for pod in &node.node.nominated {
            // A pod goes to one node, should two have been launched for it.
            let Some(class) = pod.split_once('/').and_then(|name| class_of.remove(&name)) else { continue };
            match node.nominated.iter_mut().find(|(known, _)| *known == class) {
                Some((_, count)) => *count += 1,
                None => node.nominated.push((class, 1)),
            }
            dense::add(&mut node.held, &classes.list[class].requests, 1);
        }
    }
}

impl Node<'_> {
    /// How many pods of a class it was launched for that wait.
    fn nominated(&self, class: usize) -> u32 {
        self.nominated.iter().find(|(known, _)| *known == class).map_or(0, |(_, count)| *count)
    }

    /// How many pods of a class fit beside what is there and what is expected, at most `most`.
    fn times(
        &self,
        input: &Problem<'_>,
        (index, class): (usize, &Class<'_>),
        level: usize,
        topology: &Topology<'_>,
        most: u32,
    ) -> u32 {
        let most = most.min(class.most_per_node());
        let times = if self.nominated.is_empty() {
            dense::times_fitting(&class.requests, &self.room, most)
        } else {
            let mut room = self.room.clone();
            dense::take(&mut room, &self.held, 1);
            dense::add(&mut room, &class.requests, self.nominated(index));
            dense::times_fitting(&class.requests, &room, most)
        };
        // Pods of a class mount the same claims, so what one attaches serves all.
        if times == 0 || !class.ports_free(&self.ports) || !self.volumes.have_room(input, class.example) {
            return 0;
        }
        if class.is_related() { times.min(self.hosts.room(class, level, topology)) } else { times }
    }

    fn put(&mut self, input: &Problem<'_>, (index, class): (usize, &Class<'_>), level: usize, times: u32) {
        self.volumes.put(input, class.example);
        dense::take(&mut self.room, &class.requests, times);
        if let Some((_, count)) = self.nominated.iter_mut().find(|(known, _)| *known == index) {
            let expected = times.min(*count);
            *count -= expected;
            dense::take(&mut self.held, &class.requests, expected);
        }
        self.ports.extend(class.host_ports.iter().cloned());
        self.hosts.add(class, level, times);
        self.hosts.drop_wishes();
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

/// Whether any taint that a pod could meet only prefers to keep pods away.
fn some_taint_prefers(input: &Problem<'_>) -> bool {
    let prefers = |taints: &[Taint]| taints.iter().any(|taint| taint.effect == TaintEffect::PreferNoSchedule);
    input.node_pools.iter().any(|offer| prefers(&offer.pool.template.taints))
        || input.nodes.iter().any(|node| prefers(&node.taints))
}
