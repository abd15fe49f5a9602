//! The packed cluster: the free capacity of every node, in a form in which a removal can be tried and undone.
//!
//! To check whether a node can be removed, its pods are placed on the other nodes and, if that fails, the placements are undone;
//! nothing else is computed again. This compares resources, ports, labels and taints. It cannot evaluate topology constraints, so
//! [`nodeless_scheduling::solve`] validates every result before it is used.

mod classes;
mod relations;
mod tree;

pub(crate) use classes::{Class, Classes};
pub(crate) use relations::Repelling;
pub(crate) use tree::{Tree, fits};

use crate::meter;
use nodeless_model::hashed::{HashMap, HashSet};
use nodeless_model::pod::HostPort;
use nodeless_model::{Pod, Quantity, Requirement, ResourceIndex, ResourceList, labels};
use nodeless_scheduling::{Admission, BoundPods, ExistingNode, Problem};
use relations::Neighbours;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A pod that may have to move, and its class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mover<'a> {
    pub(crate) class: usize,
    pub(crate) pod: &'a Pod,
}

/// Where pods would move: indices in a list of movers, and indices of nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moves {
    pub(crate) placed: Vec<(usize, usize)>,
    /// Pods that fit on no node.
    pub(crate) left: Vec<usize>,
}

/// The part of the cluster that the scheduler needs to evaluate some pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// Only the nodes that they would move to.
    Small,
    /// Also the pods that affect them, and more nodes.
    Related,
    /// Everything.
    Whole,
}

/// Whether the labels and taints of a node admit pods, as far as known.
const UNKNOWN: u8 = 0;
const YES: u8 = 1;
const NO: u8 = 2;

/// The packed cluster. Nodes are in the order in which they are filled: those that are least likely to be removed first.
pub(crate) struct Packed<'a> {
    pub(crate) classes: Classes<'a>,
    pub(crate) resources: ResourceIndex,
    /// The packed cluster as a scheduling problem, with the same order of nodes, and including the decisions so far.
    pub(crate) problem: Problem<'a>,
    tree: Tree,
    /// The free capacity of a node when it was closed.
    closed: BTreeMap<usize, Box<[i64]>>,
    /// By admission and node.
    admits: Vec<Vec<u8>>,
    /// The index in `problem.bound_pods` by the Node's name.
    bound: HashMap<&'a str, usize>,
    /// Zones by number, of the nodes of the row.
    zones: Vec<usize>,
    /// In how many zones these are.
    zone_count: usize,
    /// The first node of each zone in `problem.bound_pods`.
    first_of_zone: Vec<usize>,
    /// The work besides that of the tree.
    work: u64,
}

/// The work of the first comparison of the labels and taints of a node with an admission.
const WORK_OF_ADMISSION: u64 = 10;

impl<'a> Packed<'a> {
    /// Packs the nodes of a problem, in their order.
    pub(crate) fn new(problem: Problem<'a>, mut classes: Classes<'a>, resources: ResourceIndex) -> Self {
        let leaves: HashMap<&str, usize> =
            problem.nodes.iter().enumerate().map(|(leaf, node)| (node.name.as_str(), leaf)).collect();
        let leaf = |node: &BoundPods<'_>| leaves.get(node.name).copied();
        classes.neighbours.add_bound(&problem.bound_pods, problem.bound_pods.iter().map(leaf).collect());
        let mut known: HashMap<Option<String>, usize> = HashMap::default();
        let mut number = |zone: Option<&str>| {
            let next = known.len();
            *known.entry(zone.map(str::to_owned)).or_insert(next)
        };
        let zone =
            |node: &ExistingNode| node.requirements.get(labels::ZONE).and_then(Requirement::single).map(str::to_owned);
        let zones: Vec<usize> = problem.nodes.iter().map(|node| number(zone(node).as_deref())).collect();
        let of_bound = |node: &BoundPods<'_>| number(node.labels.get(labels::ZONE).map(String::as_str));
        let mut seen: HashSet<usize> = HashSet::default();
        let bound_zones: Vec<usize> = problem.bound_pods.iter().map(of_bound).collect();
        let first = |(place, zone): (usize, &usize)| seen.insert(*zone).then_some(place);
        let first_of_zone = bound_zones.iter().enumerate().filter_map(first).collect();
        let free: Vec<Box<[i64]>> = problem.nodes.iter().map(|node| resources.amounts(&node.available)).collect();
        let bound = problem.bound_pods.iter().enumerate().map(|(place, node)| (node.name, place)).collect();
        Self {
            tree: Tree::new(resources.len(), &free),
            admits: vec![Vec::new(); classes.admissions.len()],
            closed: BTreeMap::new(),
            bound,
            zone_count: zones.iter().collect::<HashSet<_>>().len(),
            zones,
            first_of_zone,
            work: 0,
            classes,
            resources,
            problem,
        }
    }

    /// The work so far, in the units of [`nodeless_scheduling::Solution::work`]: the ranges of nodes that were compared with a pod or
    /// changed, and the comparisons of pods with nodes and with pods that move there.
    pub(crate) fn work(&self) -> u64 {
        self.tree.work().saturating_add(self.work)
    }

    pub(crate) fn class(&self, mover: &Mover<'_>) -> &Class<'a> {
        &self.classes.list[mover.class]
    }

    /// Closes a node: no more pods are placed on it.
    pub(crate) fn close(&mut self, leaf: usize) {
        if !self.closed.contains_key(&leaf) {
            self.closed.insert(leaf, self.tree.free(leaf).into());
            let nothing = vec![-1; self.resources.len()];
            self.tree.set(leaf, &nothing);
        }
    }

    /// Closes all nodes except for these, and returns which it has closed.
    pub(crate) fn close_all_but(&mut self, needed: &HashSet<usize>) -> Vec<usize> {
        let open =
            (0..self.problem.nodes.len()).filter(|leaf| !needed.contains(leaf) && !self.closed.contains_key(leaf));
        let open: Vec<usize> = open.collect();
        open.iter().for_each(|leaf| self.close(*leaf));
        open
    }

    /// Opens a closed node again.
    pub(crate) fn open(&mut self, leaf: usize) {
        if let Some(free) = self.closed.remove(&leaf) {
            self.tree.set(leaf, &free);
        }
    }

    /// Places pods, each on the first node that fits. With `all` it stops at the first pod that fits on no node.
    pub(crate) fn place(&mut self, movers: &[Mover<'a>], all: bool) -> Moves {
        self.place_within(movers, all, u64::MAX)
    }

    /// [`Self::place`] with a work limit. Once half of `max_work` is used up no more pods are placed, so that the rest is left to
    /// undo the moves.
    pub(crate) fn place_within(&mut self, movers: &[Mover<'a>], all: bool, max_work: u64) -> Moves {
        let mut moves = Moves::default();
        let end = self.work().saturating_add(max_work / 2);
        // The pods placed so far that restrict later ones.
        let mut before: Vec<(usize, &'a Pod)> = Vec::new();
        for (place, mover) in movers.iter().enumerate() {
            let found = if self.work() < end { self.first_place(mover, &before) } else { None };
            match found {
                Some(leaf) => {
                    let class = &self.classes.list[mover.class];
                    self.tree.take(leaf, &class.asked, 1);
                    if !class.ports.is_empty() || class.relation.is_some() {
                        before.push((leaf, mover.pod));
                    }
                    moves.placed.push((place, leaf));
                }
                None => {
                    moves.left.push(place);
                    if all {
                        break;
                    }
                }
            }
        }
        moves
    }

    /// Undoes moves.
    pub(crate) fn undo(&mut self, movers: &[Mover<'a>], moves: &Moves) {
        for (place, leaf) in &moves.placed {
            let class = &self.classes.list[movers[*place].class];
            self.tree.take(*leaf, &class.asked, -1);
        }
    }

    /// Makes moves part of the problem, so that later decisions take them into account.
    pub(crate) fn commit(&mut self, movers: &[Mover<'a>], placed: &[(usize, usize)]) {
        for (place, leaf) in placed {
            let pod = movers[*place].pod;
            let node = &mut self.problem.nodes[*leaf];
            node.available.subtract(pod.template.next_requests());
            node.host_ports.extend(pod.template.host_ports.iter().cloned());
            if let Some(bound) = self.bound.get(node.name.as_str()) {
                self.problem.bound_pods[*bound].pods.push(pod);
                self.classes.neighbours.moved(pod, Some(*bound));
            }
        }
    }

    /// The pods on a node, including the decided moves.
    pub(crate) fn pods_at(&self, leaf: usize) -> &[&'a Pod] {
        let bound = self.bound.get(self.problem.nodes[leaf].name.as_str());
        bound.map_or(&[], |bound| &self.problem.bound_pods[*bound].pods)
    }

    /// Removes pods from the node that they leave.
    pub(crate) fn forget(&mut self, node: &str, movers: &[Mover<'a>]) {
        let Some(bound) = self.bound.get(node) else { return };
        let pods = &mut self.problem.bound_pods[*bound].pods;
        pods.retain(|pod| !movers.iter().any(|mover| std::ptr::eq(mover.pod, *pod)));
        for mover in movers {
            self.classes.neighbours.moved(mover.pod, None);
        }
    }

    /// Makes moves without checking whether they fit.
    pub(crate) fn apply(&mut self, movers: &[Mover<'a>], placed: &[(usize, usize)]) {
        for (place, leaf) in placed {
            let class = &self.classes.list[movers[*place].class];
            self.tree.take(*leaf, &class.asked, 1);
        }
    }

    fn first_place(&mut self, mover: &Mover<'a>, before: &[(usize, &'a Pod)]) -> Option<usize> {
        let work = &mut self.work;
        let Classes { list, admissions, neighbours, .. } = &mut self.classes;
        let class = &list[mover.class];
        let admission = *class.admission.as_ref().ok()?;
        let blocked = class.relation.map(|relation| neighbours.blocked(relation));
        let nodes = &self.problem.nodes;
        let known = &mut self.admits[admission];
        let asks = &admissions[admission];
        self.tree.first(&class.asked, &mut |leaf| {
            *work = work.saturating_add(u64::try_from(before.len()).unwrap_or(u64::MAX));
            let mut here = before.iter().filter(|(other, _)| *other == leaf);
            admits(asks, nodes, leaf, known, work)
                && blocked.is_none_or(|blocked| !blocked.contains_key(&leaf))
                && ports_free(class.ports, &nodes[leaf].host_ports)
                && here.all(|(_, other)| {
                    ports_free(class.ports, &other.template.host_ports) && !Neighbours::repel(mover.pod, other)
                })
        })
    }

    /// Candidate nodes for some pods, enough to choose from in every zone, and the nodes that [`Self::place`] chose.
    pub(crate) fn candidate_nodes(&mut self, movers: &[Mover<'a>], moves: &Moves) -> Vec<usize> {
        let mut found: BTreeSet<usize> = moves.placed.iter().map(|(_, leaf)| *leaf).collect();
        let classes: BTreeSet<usize> = movers.iter().map(|mover| mover.class).collect();
        for class in classes {
            let Classes { list, admissions, neighbours, .. } = &mut self.classes;
            let class = &list[class];
            // Other pods go where [`Self::place`] puts them.
            let (Ok(admission), Some(relation)) = (&class.admission, class.relation) else { continue };
            let blocked = neighbours.blocked(relation);
            let mut counts = vec![0; self.zones.iter().max().map_or(0, |most| most + 1)];
            let (known, work, mut full) = (&mut self.admits[*admission], &mut self.work, 0);
            self.tree.first(&class.asked, &mut |leaf| {
                let count = &mut counts[self.zones[leaf]];
                let is_candidate = *count < CANDIDATES_PER_ZONE
                    && !blocked.contains_key(&leaf)
                    && admits(&admissions[*admission], &self.problem.nodes, leaf, known, work);
                if is_candidate {
                    *count += 1;
                    full += usize::from(*count == CANDIDATES_PER_ZONE);
                    found.insert(leaf);
                }
                full == self.zone_count
            });
        }
        found.into_iter().collect()
    }

    /// All nodes, with only those pods that may affect some movers; and the number of these pods.
    pub(crate) fn relevant(&self, movers: &[Mover<'a>]) -> (Vec<BoundPods<'a>>, usize) {
        let relation = |mover: &Mover<'a>| self.classes.list[mover.class].relation;
        self.classes.neighbours.relevant(&self.problem.bound_pods, &self.first_of_zone, movers, relation)
    }

    /// The part of the cluster that the scheduler needs to evaluate a pod.
    pub(crate) fn scope(&self, mover: &Mover<'_>) -> Scope {
        let class = &self.classes.list[mover.class];
        match (class.counts_volumes, class.relation) {
            (true, _) => Scope::Whole,
            (false, Some(_)) => Scope::Related,
            (false, None) => Scope::Small,
        }
    }

    /// Why a pod does not fit on the open nodes, and on how many of them.
    pub(crate) fn obstacles(&self, class: usize) -> BTreeMap<String, usize> {
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        for leaf in (0..self.problem.nodes.len()).filter(|leaf| !self.closed.contains_key(leaf)) {
            *found.entry(self.obstacle(class, leaf).to_string()).or_default() += 1;
        }
        found
    }

    /// The obstacle that prevents a pod from fitting on a node.
    pub(crate) fn obstacle(&self, class: usize, leaf: usize) -> Obstacle<'_> {
        let class = &self.classes.list[class];
        let node = &self.problem.nodes[leaf];
        let admitted = class.admission.as_ref().is_ok_and(|id| self.classes.admissions[*id].admits(node));
        let free = self.tree.free(leaf);
        let short = (0..self.resources.len()).find(|&place| free[place] < class.asked[place].max(0));
        match (admitted, short) {
            (false, _) => Obstacle::Labels,
            (true, Some(place)) => Obstacle::InsufficientResource {
                resource: self.resources.name(place),
                asked: class.asked[place],
                free: free[place],
            },
            (true, None) if !ports_free(class.ports, &node.host_ports) => Obstacle::HostPorts,
            (true, None) if self.classes.is_blocked(class, leaf) => Obstacle::AntiAffinity,
            (true, None) => Obstacle::OtherPods,
        }
    }

    /// Calls `look` with the current problem, in which closed nodes have no free capacity.
    pub(crate) fn with_problem<T>(&mut self, look: impl FnOnce(&mut Problem<'a>) -> T) -> T {
        let none = ResourceList::new()
            .with(nodeless_model::resources::name::CPU, Quantity::from_milli(-1))
            .with(nodeless_model::resources::name::PODS, Quantity::from_milli(-1));
        let leaves: Vec<usize> = self.closed.keys().copied().collect();
        let free: Vec<ResourceList> = leaves
            .iter()
            .map(|&leaf| std::mem::replace(&mut self.problem.nodes[leaf].available, none.clone()))
            .collect();
        let seen = look(&mut self.problem);
        for (leaf, free) in leaves.into_iter().zip(free) {
            self.problem.nodes[leaf].available = free;
        }
        seen
    }
}

/// Whether an admission admits a node, computed once; `known` is what is known by node.
fn admits(asks: &Admission, nodes: &[ExistingNode], leaf: usize, known: &mut Vec<u8>, work: &mut u64) -> bool {
    if known.is_empty() {
        known.resize(nodes.len(), UNKNOWN);
    }
    if known[leaf] == UNKNOWN {
        *work = work.saturating_add(WORK_OF_ADMISSION);
        meter::admission();
        known[leaf] = if asks.admits(&nodes[leaf]) { YES } else { NO };
    }
    known[leaf] == YES
}

/// Why a pod does not fit on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle<'n> {
    /// The pod's label requirements, or a taint.
    Labels,
    /// Insufficient resources, in thousandths.
    InsufficientResource { resource: &'n str, asked: i64, free: i64 },
    /// A host port conflict.
    HostPorts,
    /// Anti-affinity between this pod and a pod there.
    AntiAffinity,
    /// The pod would fit alone, but not together with the pods that move with it.
    OtherPods,
}

impl fmt::Display for Obstacle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Labels => f.write_str("labels or taints"),
            Self::InsufficientResource { resource, .. } => write!(f, "insufficient {resource}"),
            Self::HostPorts => f.write_str("host ports"),
            Self::AntiAffinity => f.write_str("anti-affinity"),
            Self::OtherPods => f.write_str("the other pods of its node"),
        }
    }
}

/// The number of nodes of each zone that the scheduler chooses from if other pods matter.
const CANDIDATES_PER_ZONE: usize = 24;

fn ports_free(asked: &[HostPort], taken: &[HostPort]) -> bool {
    asked.is_empty() || !taken.iter().any(|other| asked.iter().any(|port| port.conflicts_with(other)))
}
