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

mod counted;
mod domains;
mod kinds;
mod launched;
mod order;
mod preference;
mod prepared;
mod queue;
mod score;
mod spread;

use crate::classes::Class;
use crate::dense;
use crate::problem::{BoundPods, ClusterFacts, ExistingNode, Options, PreferencePolicy, Problem};
use crate::volumes;
use nodeless_model::{DaemonSet, Pod, ResourceIndex, ResourceList, TaintEffect};
use order::Queue;
use prepared::{NodeState, Prepared, Source};
use queue::Binding;
use score::Load;
use std::collections::BTreeSet;

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
    /// The DaemonSets to which nodes refer.
    daemon_sets: &'a [DaemonSet],
    /// The pods that may be bound.
    pods: Vec<&'a Pod>,
    /// The running pods that topology constraints count.
    running: Vec<BoundPods<'a>>,
    nodes: Vec<ExistingNode>,
    /// The running pods of each node, which are the same for all predictions.
    running_on: Vec<Vec<&'a Pod>>,
    rows: Vec<Row>,
    closed: Vec<bool>,
    /// `None` until it is needed.
    prepared: Option<Prepared<'a>>,
    work: u64,
}

/// The amounts of a node that are compared.
#[derive(Clone, Debug)]
struct Row {
    /// By resource, in thousandths, without the limits of volumes.
    free: Box<[i64]>,
    allocatable: Load,
    requested: Load,
    /// `requested` with the defaults for pods without requests.
    non_zero: Load,
    prefers_no_schedule: bool,
}

/// A node of [`Bindings`] before pods were placed on it.
pub struct SavedNode {
    index: usize,
    node: ExistingNode,
    row: Row,
    state: Option<NodeState>,
}

/// What [`Bindings::bind`] leaves out.
#[derive(Clone, Copy, Debug)]
pub struct BindingLimits {
    /// Once this work is done, no more orders are tried.
    pub max_work: u64,
    /// Whether an order ends with the first pod that fits on no node.
    pub first_only: bool,
}

impl BindingLimits {
    /// All pods in all orders.
    pub const NONE: Self = Self { max_work: u64::MAX, first_only: false };
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
        self.all_unbound().first().copied()
    }

    /// The pods that fit on no node in the first order with such a pod. If an order ends with the first one, those after it are listed, too.
    #[must_use]
    pub fn all_unbound(&self) -> Vec<usize> {
        let unbound = |order: &Vec<Option<usize>>| -> Vec<usize> {
            order.iter().enumerate().filter_map(|(pod, node)| node.is_none().then_some(pod)).collect()
        };
        self.orders.iter().map(unbound).find(|unbound| !unbound.is_empty()).unwrap_or_default()
    }
}

impl<'a> Bindings<'a> {
    /// Without nodes. `resources` are those that the pods request. `pods` are all that may be bound, and `running` the running pods
    /// that topology constraints count, as in [`Problem::bound_pods`]; some of them may be bound elsewhere.
    #[must_use]
    pub fn new(
        resources: ResourceIndex,
        facts: ClusterFacts<'a>,
        pods: Vec<&'a Pod>,
        running: Vec<BoundPods<'a>>,
    ) -> Self {
        let drivers: BTreeSet<&str> =
            facts.volume_limits.values().flat_map(|limits| limits.keys()).map(String::as_str).collect();
        Self {
            resources: resources.with_columns(volumes::columns(&drivers, &facts, &[])),
            facts,
            daemon_sets: &[],
            pods,
            running,
            nodes: Vec::new(),
            running_on: Vec::new(),
            rows: Vec::new(),
            closed: Vec::new(),
            prepared: None,
            work: 0,
        }
    }

    /// The same, with the DaemonSets to which nodes refer ([`ExistingNode::daemon_sets`]).
    #[must_use]
    pub fn with_daemon_sets(self, daemon_sets: &'a [DaemonSet]) -> Self {
        Self { daemon_sets, prepared: None, ..self }
    }

    /// Computes what binding needs of the nodes so far, so that it is kept when nodes that are added later are removed again.
    pub fn prepare(&mut self) {
        let prepared = self.take_prepared();
        self.keep(prepared);
    }

    /// Adds a node, and returns its index.
    pub fn add(&mut self, node: BindingNode<'a>) -> usize {
        let mut row = Row {
            free: volumes::unlimited(self.resources.amounts(&node.node.available), &self.resources),
            allocatable: Load::new(&node.allocatable),
            requested: Load::default(),
            non_zero: Load::default(),
            prefers_no_schedule: node.node.taints.iter().any(|taint| taint.effect == TaintEffect::PreferNoSchedule),
        };
        node.pods.iter().filter(|pod| !pod.is_terminal()).for_each(|pod| row.add(Load::new(&pod.template.requests)));
        if let Some(mut prepared) = self.prepared.take()
            && node.pods.is_empty()
            && prepared.add(&node.node, &self.source())
        {
            self.prepared = Some(prepared);
        }
        self.rows.push(row);
        self.nodes.push(node.node);
        self.running_on.push(node.pods);
        self.closed.push(false);
        self.nodes.len() - 1
    }

    /// Removes the nodes that were added last, so that `count` are left. They must have no pods.
    pub fn truncate(&mut self, count: usize) {
        self.nodes.truncate(count);
        self.running_on.truncate(count);
        self.rows.truncate(count);
        self.closed.truncate(count);
        match &mut self.prepared {
            Some(prepared) if prepared.made_of <= count => prepared.truncate(count),
            _ => self.prepared = None,
        }
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
        self.set_closed(node, true);
    }

    /// Opens a closed node again.
    pub fn open(&mut self, node: usize) {
        self.set_closed(node, false);
    }

    fn set_closed(&mut self, node: usize, closed: bool) {
        if self.closed[node] == closed {
            return;
        }
        self.closed[node] = closed;
        if let Some(prepared) = &mut self.prepared {
            prepared.change_node(node, if closed { -1 } else { 1 }, &self.nodes, &self.closed, &self.facts);
        }
    }

    /// Uses the capacity of a node for a pod that is bound to it.
    pub fn place(&mut self, node: usize, pod: &'a Pod) {
        let known = &mut self.nodes[node];
        known.available.subtract(pod.template.next_requests());
        known.host_ports.extend(pod.template.host_ports.iter().cloned());
        self.rows[node].free = volumes::unlimited(self.resources.amounts(&known.available), &self.resources);
        self.rows[node].add(Load::new(pod.template.next_requests()));
        if let Some(prepared) = &mut self.prepared {
            prepared.place(node, pod, &self.resources);
        }
    }

    /// The state of a node, which [`Self::restore`] takes back.
    #[must_use]
    pub fn save(&self, node: usize) -> SavedNode {
        let state = self.prepared.as_ref().map(|prepared| prepared.state(node));
        SavedNode { index: node, node: self.nodes[node].clone(), row: self.rows[node].clone(), state }
    }

    /// Reverts what was placed on a node since it was saved.
    pub fn restore(&mut self, SavedNode { index, node, row, state }: SavedNode) {
        self.nodes[index] = node;
        self.rows[index] = row;
        match (&mut self.prepared, state) {
            (Some(prepared), Some(state)) => prepared.restore(index, state),
            _ => self.prepared = None,
        }
    }

    /// Counts a running pod that may be bound for topology constraints on another Node from now on; without one, on none.
    pub fn move_running(&mut self, pod: &'a Pod, to: Option<&str>) {
        let mut prepared = self.take_prepared();
        let to = to.and_then(|to| prepared.site_of.get(to)).copied();
        let from = prepared.leave(pod);
        if let Some(from) = from {
            self.running[from].pods.retain(|other| prepared::name(other) != prepared::name(pod));
        }
        if let Some(to) = to {
            self.running[to].pods.push(pod);
            prepared.converge(pod, to, &self.running[to]);
        }
        if !pod.template.volume_claims.is_empty() && self.resources.columns().next().is_some() {
            for site in from.into_iter().chain(to) {
                prepared.attach(site, &self.nodes, &self.running[site].pods, &self.source());
            }
        }
        self.prepared = Some(prepared);
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
    /// left. It holds only for pods that no topology constraint and no volume limit concerns: it is false for others.
    #[must_use]
    pub fn always_bound(&mut self, pods: &[&'a Pod]) -> bool {
        let mut prepared = self.take_prepared();
        let found = self.are_always_bound(pods, &mut prepared);
        self.keep(prepared);
        found
    }

    fn are_always_bound(&self, pods: &[&'a Pod], prepared: &mut Prepared<'a>) -> bool {
        let mut classes = prepared.classes_of(pods);
        classes.sort_unstable();
        classes.dedup();
        let mut largest: Box<[i64]> = vec![0; self.resources.len()].into();
        for class in &classes {
            let asked = &prepared.facts[*class].asked;
            largest.iter_mut().zip(asked).for_each(|(largest, asked)| *largest = (*asked).max(*largest));
        }
        let mounts_limited = |class: &Class<'_>| {
            let mut columns = self.resources.columns();
            !class.shared_volumes.is_empty() || columns.any(|(place, _)| class.requests[place] > 0)
        };
        let is_concerned = |class: &usize| {
            let class = &prepared.classes.list[*class];
            class.is_related() || mounts_limited(class)
        };
        !classes.iter().any(is_concerned)
            && classes.iter().all(|class| self.takes_all(pods.len(), *class, &largest, prepared))
    }

    /// Whether the nodes of a class take all pods, of which none asks for more than the largest.
    fn takes_all(&self, pods: usize, class: usize, largest: &[i64], prepared: &mut Prepared<'a>) -> bool {
        let most = u32::try_from(pods).unwrap_or(u32::MAX);
        let mut left: Box<[i64]> = vec![0; self.resources.len()].into();
        let (mut taken, mut compared) = (0_usize, 0);
        for (node, row) in self.rows.iter().enumerate() {
            if taken >= pods {
                break;
            }
            compared += 1;
            if self.closed[node]
                || !row.has_capacity(&prepared.facts[class].asked)
                || !prepared.admits(class, node, &self.nodes)
            {
                continue;
            }
            left.copy_from_slice(&row.free);
            dense::take(&mut left, &prepared.facts[class].asked, 1);
            let of_class = &prepared.classes.list[class];
            let more = if of_class.host_ports.is_empty() { dense::times_fitting(largest, &left, most) } else { 0 };
            taken = taken.saturating_add(more as usize + 1);
        }
        prepared.work += compared / NODES_PER_UNIT + 1;
        taken >= pods
    }

    /// Binds pods in the order of each seed, until one of them fits on no node. The nodes are not changed.
    ///
    /// Running pods that are bound here count for topology constraints only where they are bound.
    pub fn bind(&mut self, pods: &[&'a Pod], seeds: impl IntoIterator<Item = u64>, limits: BindingLimits) -> Bound {
        let mut prepared = self.take_prepared();
        let classes = prepared.classes_of(pods);
        let mut distinct = classes.clone();
        distinct.sort_unstable();
        distinct.dedup();
        prepared.prepare_scores(&distinct, &self.nodes, &self.closed, &self.facts);
        pods.iter().for_each(|pod| prepared.forget(pod));
        prepared.work += pods.len();
        let queue = Queue::new(pods);
        let mut bound = Bound::default();
        let mut binding = Binding::new(&mut prepared, &self.nodes, &mut self.rows, &self.closed);
        for seed in seeds {
            if binding.work() >= limits.max_work {
                bound.out_of_work = true;
                break;
            }
            bound.orders.push(binding.bind(&classes, &queue, seed, limits.first_only));
            binding.revert();
            if bound.unbound().is_some() {
                break;
            }
        }
        pods.iter().for_each(|pod| prepared.count(pod));
        self.keep(prepared);
        bound
    }

    /// What binding needs, computed if it is not known. [`Self::keep`] takes it back.
    fn take_prepared(&mut self) -> Prepared<'a> {
        if let Some(prepared) = self.prepared.take() {
            return prepared;
        }
        let problem = Problem {
            pods: std::mem::take(&mut self.pods),
            nodes: std::mem::take(&mut self.nodes),
            bound_pods: std::mem::take(&mut self.running),
            facts: self.facts,
            daemon_sets: self.daemon_sets,
            ..Problem::default()
        };
        let prepared = Prepared::new(&problem, &self.source());
        (self.pods, self.nodes, self.running) = (problem.pods, problem.nodes, problem.bound_pods);
        prepared
    }

    fn keep(&mut self, mut prepared: Prepared<'a>) {
        let work = std::mem::take(&mut prepared.work);
        self.work = self.work.saturating_add(u64::try_from(work).unwrap_or(u64::MAX));
        self.prepared = Some(prepared);
    }

    fn source(&self) -> Source<'_, 'a> {
        Source {
            resources: &self.resources,
            facts: self.facts,
            daemon_sets: self.daemon_sets,
            running_on: &self.running_on,
        }
    }
}

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
