//! The packed cluster: what is free on every node, so that a removal is a change that can be made and unmade.
//!
//! To see whether a node can go, its few pods are placed on the others and, if that fails, taken back; nothing else is
//! computed anew. This looks at resources, ports, labels and taints. What has to do with where other pods are it cannot
//! judge, so whatever comes out of it is shown to [`nodeless_scheduling::solve`] before anybody acts on it.

mod classes;
mod relations;
mod tree;

pub(crate) use classes::{Class, Classes, Resources};
pub(crate) use relations::Repelling;
pub(crate) use tree::{Tree, fits};

use nodeless_model::pod::HostPort;
use nodeless_model::{Pod, Quantity, ResourceList};
use nodeless_scheduling::Problem;
use std::collections::{BTreeMap, HashMap};

/// A pod that may have to move, and its class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mover<'a> {
    pub(crate) class: usize,
    pub(crate) pod: &'a Pod,
}

/// Where pods would go: places in a list of movers, and nodes by their place in the row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moves {
    pub(crate) placed: Vec<(usize, usize)>,
    /// Those that fit on no node.
    pub(crate) left: Vec<usize>,
}

/// What is known of whether a node's labels and taints let pods in.
const UNKNOWN: u8 = 0;
const YES: u8 = 1;
const NO: u8 = 2;

/// The packed cluster. Nodes are in the order in which they are filled: those that will stay longest first.
pub(crate) struct Packed<'a> {
    pub(crate) classes: Classes<'a>,
    pub(crate) resources: Resources,
    /// The same as a scheduling problem: its nodes are those of the row, what was decided so far taken into account.
    pub(crate) problem: Problem<'a>,
    tree: Tree,
    /// What was free on a node when it was closed.
    closed: BTreeMap<usize, Box<[i64]>>,
    /// By admission and node.
    admits: Vec<Vec<u8>>,
    /// The place in `problem.bound_pods` by the Node's name.
    bound: HashMap<&'a str, usize>,
}

impl<'a> Packed<'a> {
    /// Packs the nodes of a problem, in their order.
    pub(crate) fn new(problem: Problem<'a>, classes: Classes<'a>, resources: Resources) -> Self {
        let rooms: Vec<Box<[i64]>> = problem.nodes.iter().map(|node| resources.amounts(&node.available)).collect();
        let bound = problem.bound_pods.iter().enumerate().map(|(place, node)| (node.name, place)).collect();
        Self {
            tree: Tree::new(resources.len(), &rooms),
            admits: vec![Vec::new(); classes.admissions.len()],
            closed: BTreeMap::new(),
            bound,
            classes,
            resources,
            problem,
        }
    }

    pub(crate) fn class(&self, mover: &Mover<'_>) -> &Class<'a> {
        &self.classes.list[mover.class]
    }

    /// Lets nothing more onto a node.
    pub(crate) fn close(&mut self, leaf: usize) {
        if !self.closed.contains_key(&leaf) {
            self.closed.insert(leaf, self.tree.room(leaf).into());
            let nothing = vec![-1; self.resources.len()];
            self.tree.set(leaf, &nothing);
        }
    }

    /// Lets pods onto a node again.
    pub(crate) fn open(&mut self, leaf: usize) {
        if let Some(room) = self.closed.remove(&leaf) {
            self.tree.set(leaf, &room);
        }
    }

    /// Places pods, each on the first node that takes it. With `all` it stops at the first that fits nowhere.
    pub(crate) fn place(&mut self, movers: &[Mover<'a>], all: bool) -> Moves {
        let mut moves = Moves::default();
        let mut ports: Vec<(usize, &'a [HostPort])> = Vec::new();
        for (place, mover) in movers.iter().enumerate() {
            match self.first_place(mover.class, &ports) {
                Some(leaf) => {
                    let class = &self.classes.list[mover.class];
                    self.tree.take(leaf, &class.asked, 1);
                    if !class.ports.is_empty() {
                        ports.push((leaf, class.ports));
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

    /// Unmakes moves.
    pub(crate) fn undo(&mut self, movers: &[Mover<'a>], moves: &Moves) {
        for (place, leaf) in &moves.placed {
            let class = &self.classes.list[movers[*place].class];
            self.tree.take(*leaf, &class.asked, -1);
        }
    }

    /// Takes over moves that are made in the row already, so that whatever is decided next counts with them.
    pub(crate) fn commit(&mut self, movers: &[Mover<'a>], placed: &[(usize, usize)]) {
        for (place, leaf) in placed {
            let pod = movers[*place].pod;
            let node = &mut self.problem.nodes[*leaf];
            node.available.subtract(&pod.requests);
            node.host_ports.extend(pod.host_ports.iter().cloned());
            if let Some(bound) = self.bound.get(node.name.as_str()) {
                self.problem.bound_pods[*bound].pods.push(pod);
            }
        }
    }

    /// Counts pods no longer on the node that they leave.
    pub(crate) fn forget(&mut self, node: &str, movers: &[Mover<'a>]) {
        let Some(bound) = self.bound.get(node) else { return };
        let pods = &mut self.problem.bound_pods[*bound].pods;
        pods.retain(|pod| !movers.iter().any(|mover| std::ptr::eq(mover.pod, *pod)));
    }

    /// Makes moves in the row without asking whether they fit.
    pub(crate) fn apply(&mut self, movers: &[Mover<'a>], placed: &[(usize, usize)]) {
        for (place, leaf) in placed {
            let class = &self.classes.list[movers[*place].class];
            self.tree.take(*leaf, &class.asked, 1);
        }
    }

    fn first_place(&mut self, class: usize, ports: &[(usize, &'a [HostPort])]) -> Option<usize> {
        let class = &self.classes.list[class];
        let admission = *class.admission.as_ref().ok()?;
        let nodes = &self.problem.nodes;
        let known = &mut self.admits[admission];
        if known.is_empty() {
            known.resize(nodes.len(), UNKNOWN);
        }
        let asks = &self.classes.admissions[admission];
        self.tree.first(&class.asked, &mut |leaf| {
            if known[leaf] == UNKNOWN {
                known[leaf] = if asks.admits(&nodes[leaf]) { YES } else { NO };
            }
            known[leaf] == YES
                && (class.ports.is_empty() || ports_free(class.ports, leaf, &nodes[leaf].host_ports, ports))
        })
    }

    /// What keeps a pod off the nodes that are open, and how many of them.
    pub(crate) fn obstacles(&self, class: usize) -> BTreeMap<String, usize> {
        let class = &self.classes.list[class];
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        for (leaf, node) in self.problem.nodes.iter().enumerate() {
            if self.closed.contains_key(&leaf) {
                continue;
            }
            let admitted = class.admission.as_ref().is_ok_and(|id| self.classes.admissions[*id].admits(node));
            let room = self.tree.room(leaf);
            let short = (0..self.resources.len()).find(|&place| room[place] < class.asked[place].max(0));
            let what = match (admitted, short) {
                (false, _) => "labels or taints".to_owned(),
                (true, Some(place)) => format!("too little {}", self.resources.name(place)),
                (true, None) if !ports_free(class.ports, leaf, &node.host_ports, &[]) => "host ports".to_owned(),
                // It would fit there alone, but not together with the pods that move with it.
                (true, None) => "other pods of its node".to_owned(),
            };
            *found.entry(what).or_default() += 1;
        }
        found
    }

    /// The problem as it stands, closed nodes without any room, for a look at it by the scheduler.
    pub(crate) fn with_problem<T>(&mut self, look: impl FnOnce(&mut Problem<'a>) -> T) -> T {
        let none = ResourceList::new()
            .with(nodeless_model::resources::name::CPU, Quantity::from_milli(-1))
            .with(nodeless_model::resources::name::PODS, Quantity::from_milli(-1));
        let leaves: Vec<usize> = self.closed.keys().copied().collect();
        let rooms: Vec<ResourceList> = leaves
            .iter()
            .map(|&leaf| std::mem::replace(&mut self.problem.nodes[leaf].available, none.clone()))
            .collect();
        let seen = look(&mut self.problem);
        for (leaf, room) in leaves.into_iter().zip(rooms) {
            self.problem.nodes[leaf].available = room;
        }
        seen
    }
}

fn ports_free(asked: &[HostPort], leaf: usize, taken: &[HostPort], trial: &[(usize, &[HostPort])]) -> bool {
    let trial = trial.iter().filter(|(other, _)| *other == leaf).flat_map(|(_, ports)| ports.iter());
    let mut all = taken.iter().chain(trial);
    !all.any(|other| asked.iter().any(|port| port.conflicts_with(other)))
}
