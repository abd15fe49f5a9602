//! The cluster after a plan, for consolidation to evaluate.

use super::pinned::Pinned;
use super::planned_nodes::{existing, nodes, volume_limits};
use super::resize::min_charge;
use nodeless_disruption::{Cluster, ClusterNode};
use nodeless_model::{Node, NodeClaim};
use nodeless_scheduling::{ClusterFacts, Dependence, Launch, Problem, Solution};
use std::collections::{BTreeMap, HashMap};

/// The cluster after a plan: each launch as its cheapest instance type.
pub(super) struct PlannedCluster<'p, 'a> {
    pub(super) problem: &'p Problem<'a>,
    pinned: &'p Pinned,
    nodes: Vec<(Node, NodeClaim)>,
    /// Those of the problem and of the planned nodes, if any pod mounts a volume.
    volume_limits: Option<BTreeMap<String, BTreeMap<String, u32>>>,
    launches: HashMap<String, usize>,
    existing: HashMap<&'p str, usize>,
    pods: HashMap<String, usize>,
}

impl<'p, 'a> PlannedCluster<'p, 'a> {
    /// `None` where two pods have the same name, or the NodePool or instance type of a launch is unknown.
    pub(super) fn new(problem: &'p Problem<'a>, pinned: &'p Pinned, solution: &Solution) -> Option<Self> {
        let nodes = nodes(problem, solution)?;
        let launches = nodes.iter().enumerate().map(|(place, (node, _))| (node.name.clone(), place)).collect();
        let existing = problem.nodes.iter().enumerate().map(|(place, node)| (node.name.as_str(), place)).collect();
        let volume_limits = volume_limits(problem, &nodes);
        let pods: HashMap<String, usize> =
            problem.pods.iter().enumerate().map(|(place, pod)| (pod.key(), place)).collect();
        (pods.len() == problem.pods.len()).then_some(Self {
            problem,
            pinned,
            nodes,
            volume_limits,
            launches,
            existing,
            pods,
        })
    }

    /// The index of the launch of a planned node.
    pub(super) fn launch(&self, node: &str) -> Option<usize> {
        self.launches.get(node).copied()
    }

    /// The index of an existing node.
    pub(super) fn node(&self, name: &str) -> Option<usize> {
        self.existing.get(name).copied()
    }

    /// The index of a pod, by `namespace/name`.
    pub(super) fn pod(&self, key: &str) -> Option<usize> {
        self.pods.get(key).copied()
    }

    /// The existing nodes, with the pods that the solution schedules there.
    pub(super) fn existing_nodes(&self, solution: &Solution) -> Problem<'a> {
        existing(self.problem, solution)
    }

    /// The launches as nodes, without the existing nodes.
    pub(super) fn cluster<'h>(&'h self, solution: &Solution) -> Cluster<'h>
    where
        'a: 'h,
    {
        let nodes = self.nodes.iter().zip(&solution.launches).map(|((node, claim), launch)| ClusterNode {
            node: Some(node),
            claim: Some(claim),
            pods: launch.pods.iter().map(|pod| self.pinned.pod(self.problem, *pod)).collect(),
            ..ClusterNode::default()
        });
        Cluster {
            nodes: nodes.collect(),
            node_pools: self.problem.node_pools.clone(),
            daemon_sets: self.problem.daemon_sets,
            facts: ClusterFacts {
                volume_limits: self.volume_limits.as_ref().unwrap_or(self.problem.facts.volume_limits),
                ..self.problem.facts
            },
            ..Cluster::default()
        }
    }

    /// The launches with their minimum usage of the limits; they are extended to other instance types at the end.
    pub(super) fn charged(&self, solution: &Solution) -> Vec<Launch> {
        let offer = |name: &str| self.problem.node_pools.iter().find(|offer| offer.pool.name == name);
        let one =
            |launch: &Launch| Some(Launch { charge: min_charge(offer(&launch.node_pool)?, launch), ..launch.clone() });
        solution.launches.iter().filter_map(one).collect()
    }

    /// The nodes of the launches that may change: all except for reserved capacity, and for those with pods that would not move
    /// with their node, or that have to stay together with others.
    pub(super) fn movable<'c, 'h>(&self, cluster: &'c Cluster<'h>, solution: &Solution) -> Vec<&'c ClusterNode<'h>> {
        let fixed = |launch: &Launch| {
            launch.is_fixed() || launch.pods.iter().any(|pod| self.pinned.dependence(*pod) == Dependence::Other)
        };
        let all_move = |node: &ClusterNode<'_>| node.pods.iter().all(|pod| pod.is_reschedulable());
        let movable = cluster.nodes.iter().zip(&solution.launches);
        movable.filter(|(node, launch)| !fixed(launch) && all_move(node)).map(|(node, _)| node).collect()
    }
}
