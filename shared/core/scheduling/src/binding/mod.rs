//! A model of how the kube-scheduler binds pods: one after another, each to the feasible node with the highest score.
//!
//! [`crate::solve`] finds *some* node for each pod. The kube-scheduler does not know that plan, and binds each pod by its own
//! scores, which prefer nodes with much free capacity. So pods that fit together by a plan need not all fit. [`Bindings`]
//! predicts whether they do, as a pure function of the nodes, the pods and a seed.
//!
//! Feasibility is that of [`crate::solve`] for existing nodes: resources, taints, labels, volumes and their limits, host ports,
//! pod affinity and anti-affinity, and topology spread. It is stricter than the kube-scheduler in two respects: the required
//! spread of pods that are bound here also applies to pods that join them later on their node, and a spread over the host name
//! counts as if an empty node existed.
//!
//! Scores are those of the default plugins with their default weights (Kubernetes 1.33): `NodeResourcesFit` with
//! `LeastAllocated`, `NodeResourcesBalancedAllocation`, `PodTopologySpread` with the default constraints, `InterPodAffinity`,
//! `TaintToleration` and `NodeAffinity`. As upstream, in clusters of 100 nodes and more only a part of the feasible nodes is
//! compared, beginning at a node that the seed chooses; and of nodes with equal scores the seed chooses one, where upstream
//! chooses at random.
//!
//! Not modelled, because the state is unknown here: `ImageLocality`, whose score is small for images that few nodes have; the
//! scores of volume plugins, which are off by default; preemption; extenders, and profiles other than the default.

mod affinity;
mod domains;
mod kinds;
mod launched;
mod order;
mod preference;
mod queue;
mod score;
mod spread;

use crate::dense;
use crate::problem::{BoundPods, ClusterFacts, ExistingNode, Options, PreferencePolicy, Problem};
use crate::volumes;
use kinds::Kinds;
use nodeless_model::{Pod, ResourceIndex, ResourceList, TaintEffect};
use queue::Queue;
use score::Load;
use std::collections::{BTreeSet, HashMap};

/// Sums by domain.
type Counts = HashMap<u32, i64>;

/// The number of comparisons of a pod with a node in a unit of work, where a few numbers decide.
const NODES_PER_UNIT: usize = 8;

/// A node of [`Bindings`].
#[derive(Clone, Debug, Default)]
pub struct BindingNode<'a> {
    /// The free capacity, labels and taints.
    pub node: ExistingNode,
    /// The allocatable resources, including those in use.
    pub allocatable: ResourceList,
    /// The pods that are bound to it.
    pub pods: Vec<&'a Pod>,
}

/// The nodes to which the kube-scheduler can bind pods.
pub struct Bindings<'a> {
    resources: ResourceIndex,
    facts: ClusterFacts<'a>,
    nodes: Vec<ExistingNode>,
    pods: Vec<Vec<&'a Pod>>,
    rows: Vec<Row>,
    closed: Vec<bool>,
    /// The running pods by their labels; `None` until they are needed.
    kinds: Option<Kinds<'a>>,
    work: u64,
}

/// The amounts of a node that are compared.
#[derive(Clone, Debug)]
struct Row {
    /// By resource, in thousandths. The limits of volumes are compared with [`Node::times`](crate::engine::nodes::Node::times).
    free: Box<[i64]>,
    allocatable: Load,
    requested: Load,
    /// `requested` with the defaults for pods without requests.
    non_zero: Load,
    prefers_no_schedule: bool,
}

/// The result of [`Bindings::bind`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// By seed, the node of each pod; `None` for pods that fit on none. The last one is the first with such a pod.
    pub orders: Vec<Vec<Option<usize>>>,
    /// Whether the work limit was reached before all orders were tried.
    pub out_of_work: bool,
}

impl Bound {
    /// The first pod that fits on no node in one of the orders.
    #[must_use]
    pub fn unbound(&self) -> Option<usize> {
        self.orders.iter().find_map(|order| order.iter().position(Option::is_none))
    }
}

impl<'a> Bindings<'a> {
    /// Without nodes. `resources` are those that the pods request.
    #[must_use]
    pub fn new(resources: ResourceIndex, facts: ClusterFacts<'a>) -> Self {
        let drivers: BTreeSet<&str> =
            facts.volume_limits.values().flat_map(|limits| limits.keys()).map(String::as_str).collect();
        Self {
            resources: resources.with_columns(volumes::columns(&drivers, &facts, &[])),
            facts,
            nodes: Vec::new(),
            pods: Vec::new(),
            rows: Vec::new(),
            closed: Vec::new(),
            kinds: None,
            work: 0,
        }
    }

    /// Adds a node, and returns its index.
    pub fn add(&mut self, node: BindingNode<'a>) -> usize {
        let mut row = Row {
            free: volumes::unlimited(self.resources.amounts(&node.node.available), &self.resources),
            allocatable: Load::of(&node.allocatable),
            requested: Load::default(),
            non_zero: Load::default(),
            prefers_no_schedule: node.node.taints.iter().any(|taint| taint.effect == TaintEffect::PreferNoSchedule),
        };
        node.pods.iter().filter(|pod| !pod.is_terminal()).for_each(|pod| row.add(Load::of(&pod.template.requests)));
        self.rows.push(row);
        self.nodes.push(node.node);
        self.pods.push(node.pods);
        self.closed.push(false);
        self.nodes.len() - 1
    }

    /// Removes the nodes that were added last, so that `count` are left. They must have no pods.
    pub fn truncate(&mut self, count: usize) {
        self.nodes.truncate(count);
        self.pods.truncate(count);
        self.rows.truncate(count);
        self.closed.truncate(count);
    }

    /// A node by its index.
    #[must_use]
    pub fn node(&self, index: usize) -> &ExistingNode {
        &self.nodes[index]
    }

    /// The number of nodes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no nodes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Closes a node: its pods leave it, and no pods are bound to it.
    pub fn close(&mut self, node: usize) {
        self.closed[node] = true;
    }

    /// Opens a closed node again.
    pub fn open(&mut self, node: usize) {
        self.closed[node] = false;
    }

    /// Uses the capacity of a node for a pod that is bound to it.
    pub fn place(&mut self, node: usize, pod: &'a Pod) {
        let known = &mut self.nodes[node];
        known.available.subtract(&pod.template.requests);
        known.host_ports.extend(pod.template.host_ports.iter().cloned());
        self.rows[node].free = volumes::unlimited(self.resources.amounts(&known.available), &self.resources);
        self.rows[node].add(Load::of(&pod.template.requests));
    }

    /// The work so far, in the units of [`crate::Solution::work`].
    #[must_use]
    pub const fn work(&self) -> u64 {
        self.work
    }

    /// Whether all pods fit, whichever feasible node each of them is bound to. May be false although they do.
    ///
    /// A pod fits on no node only if other pods of the queue use up each of its nodes. A node on which `n` of the largest of them
    /// still leave enough for the pod takes at least `n + 1` of them; so if the nodes together take more than there are, one is
    /// left. It holds only for pods that no topology constraint and no volume limit concerns.
    #[must_use]
    pub fn always_bound(&mut self, pods: &[&'a Pod]) -> bool {
        let mut largest: Box<[i64]> = vec![0; self.resources.len()].into();
        for pod in pods {
            let asked = self.resources.amounts(&pod.template.requests);
            largest.iter_mut().zip(&asked).for_each(|(largest, asked)| *largest = (*asked).max(*largest));
        }
        let problem = self.problem(pods, Vec::new());
        let queue = Queue::new(self, &problem);
        let (found, work) = queue.always_bound(&largest);
        self.done(problem, work);
        found
    }

    /// Binds pods in the order of each seed, until one of them fits on no node. The nodes are not changed.
    ///
    /// `bound_pods` are the running pods that topology constraints count, as in [`Problem::bound_pods`]; pods of the queue do not
    /// count there.
    pub fn bind(
        &mut self,
        pods: &[&'a Pod],
        bound_pods: Vec<BoundPods<'a>>,
        seeds: impl IntoIterator<Item = u64>,
        max_work: u64,
    ) -> Bound {
        if self.kinds.is_none() {
            let all = self.pods.iter().enumerate();
            self.kinds = Some(Kinds::of(all.flat_map(|(node, pods)| pods.iter().map(move |pod| (node, *pod)))));
            let running: usize = self.pods.iter().map(Vec::len).sum();
            self.work = self.work.saturating_add(u64::try_from(running * WORK_PER_RUNNING_POD).unwrap_or(u64::MAX));
        }
        let problem = self.problem(pods, bound_pods);
        let mut queue = Queue::new(self, &problem);
        let mut bound = Bound::default();
        queue.prepare();
        for seed in seeds {
            if queue.work() >= max_work {
                bound.out_of_work = true;
                break;
            }
            bound.orders.push(queue.bind(seed));
            if bound.unbound().is_some() {
                break;
            }
        }
        let work = queue.work();
        self.done(problem, work);
        bound
    }

    /// The pods and nodes as a problem; [`Self::done`] takes the nodes back.
    fn problem(&mut self, pods: &[&'a Pod], bound_pods: Vec<BoundPods<'a>>) -> Problem<'a> {
        let nodes = std::mem::take(&mut self.nodes);
        Problem { pods: pods.to_vec(), nodes, bound_pods, facts: self.facts, ..Problem::default() }
    }

    fn done(&mut self, problem: Problem<'a>, work: u64) {
        self.nodes = problem.nodes;
        self.work = self.work.saturating_add(work);
    }
}

/// The work to read a running pod.
const WORK_PER_RUNNING_POD: usize = 10;

impl Row {
    fn add(&mut self, asked: Load) {
        self.requested = self.requested.plus(asked);
        self.non_zero = self.non_zero.plus(asked.non_zero());
    }

    fn has_capacity(&self, asked: &[i64]) -> bool {
        dense::fits(asked, &self.free)
    }
}

/// Only what is required decides where a pod can be bound.
fn required_only() -> Options {
    Options { preferences: PreferencePolicy::Ignore, ..Options::default() }
}

#[cfg(test)]
mod tests;
