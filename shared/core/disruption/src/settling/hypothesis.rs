//! A plan's launches as the nodes that they would become.

use super::fixed::Fixed;
use super::least_charge;
use crate::candidates::Eligible;
use crate::cluster::{Cluster, ClusterNode};
use jiff::Timestamp;
use nodeless_model::claim::{LaunchedInstance, NodeClaimSpec, NodeClaimStatus, condition};
use nodeless_model::{CapacityType, ConditionStatus, InstanceType, Node, NodeClaim, Phase, Pod, labels};
use nodeless_scheduling::{Bond, Launch, PoolOffer, Problem, Solution};
use std::collections::HashMap;

/// A plan as it would come true: each launch as the cheapest that it may be.
pub(super) struct Hypothesis<'p, 'a> {
    pub(super) problem: &'p Problem<'a>,
    fixed: &'p Fixed,
    nodes: Vec<(Node, NodeClaim)>,
    launches: HashMap<String, usize>,
    existing: HashMap<&'p str, usize>,
    pods: HashMap<String, usize>,
}

impl<'p, 'a> Hypothesis<'p, 'a> {
    /// `None` where pods cannot be told apart, or something that is launched is not known.
    pub(super) fn of(problem: &'p Problem<'a>, fixed: &'p Fixed, solution: &Solution) -> Option<Self> {
        let nodes = nodes(problem, solution)?;
        let launches = nodes.iter().enumerate().map(|(place, (node, _))| (node.name.clone(), place)).collect();
        let existing = problem.nodes.iter().enumerate().map(|(place, node)| (node.name.as_str(), place)).collect();
        let pods: HashMap<String, usize> =
            problem.pods.iter().enumerate().map(|(place, pod)| (pod.key(), place)).collect();
        (pods.len() == problem.pods.len()).then_some(Self { problem, fixed, nodes, launches, existing, pods })
    }

    /// The place of the launch that becomes a node.
    pub(super) fn launch(&self, node: &str) -> Option<usize> {
        self.launches.get(node).copied()
    }

    /// The place of a node that exists.
    pub(super) fn node(&self, name: &str) -> Option<usize> {
        self.existing.get(name).copied()
    }

    /// The place of a pod, by `namespace/name`.
    pub(super) fn pod(&self, key: &str) -> Option<usize> {
        self.pods.get(key).copied()
    }

    /// What exists, with the pods that the solution sends there.
    pub(super) fn beside(&self, solution: &Solution) -> Problem<'a> {
        existing(self.problem, solution)
    }

    /// The launches as nodes, without what exists.
    pub(super) fn cluster<'h>(&'h self, solution: &Solution) -> Cluster<'h>
    where
        'a: 'h,
    {
        let nodes = self.nodes.iter().zip(&solution.launches).map(|((node, claim), launch)| ClusterNode {
            node: Some(node),
            claim: Some(claim),
            pods: launch.pods.iter().map(|pod| self.fixed.pod(self.problem, *pod)).collect(),
            command: None,
        });
        Cluster {
            nodes: nodes.collect(),
            node_pools: self.problem.node_pools.clone(),
            daemon_sets: self.problem.daemon_sets,
            facts: self.problem.facts,
            ..Cluster::default()
        }
    }

    /// The launches with what they take of limits at the least: to what all of them may grow is for the end.
    pub(super) fn charged(&self, solution: &Solution) -> Vec<Launch> {
        let offer = |name: &str| self.problem.node_pools.iter().find(|offer| offer.pool.name == name);
        let one = |launch: &Launch| {
            Some(Launch { charge: least_charge(offer(&launch.node_pool)?, launch), ..launch.clone() })
        };
        solution.launches.iter().filter_map(one).collect()
    }

    /// The launches that may change: all but those with pods that would not have to move with their node, or that have to
    /// stay together with others.
    pub(super) fn eligible<'c, 'h>(&'h self, cluster: &'c Cluster<'h>, solution: &Solution) -> Vec<Eligible<'c, 'h>> {
        let offers: HashMap<&str, &'c PoolOffer<'h>> =
            cluster.node_pools.iter().map(|offer| (offer.pool.name.as_str(), offer)).collect();
        let one = |of: &'c ClusterNode<'h>| {
            let (node, claim) = (of.node?, of.claim?);
            let offer = offers.get(claim.node_pool.as_str()).copied()?;
            let price = claim.status.instance.as_ref().map_or(0.0, |instance| instance.price);
            let reserved =
                claim.status.instance.as_ref().is_some_and(|one| one.capacity_type == CapacityType::Reserved);
            let all_move = of.pods.iter().all(|pod: &&Pod| pod.is_reschedulable());
            (price > 0.0 && all_move && !reserved).then_some(Eligible { of, node, claim, offer, price })
        };
        let fixed = |launch: &Launch| launch.pods.iter().any(|pod| self.fixed.bond(*pod) == Bond::Other);
        let movable = cluster.nodes.iter().zip(&solution.launches).filter(|(_, launch)| !fixed(launch));
        movable.filter_map(|(node, _)| one(node)).collect()
    }
}

/// The nodes that all launches of a solution become, and their claims; `None` where something that is launched is not known.
pub(super) fn nodes(problem: &Problem<'_>, solution: &Solution) -> Option<Vec<(Node, NodeClaim)>> {
    solution.launches.iter().enumerate().map(|(place, launch)| node(problem, place, launch)).collect()
}

/// The pods of a launch.
pub(super) fn of_launch<'a>(problem: &Problem<'a>, launch: &Launch) -> Vec<&'a Pod> {
    launch.pods.iter().map(|pod| problem.pods[*pod]).collect()
}

/// What exists, with the pods that a solution sends there.
pub(super) fn existing<'a>(problem: &Problem<'a>, solution: &Solution) -> Problem<'a> {
    let mut beside =
        Problem { nodes: problem.nodes.clone(), bound_pods: problem.bound_pods.clone(), ..Problem::default() };
    let bound: HashMap<&str, usize> =
        problem.bound_pods.iter().enumerate().map(|(place, bound)| (bound.name, place)).collect();
    for placement in &solution.placements {
        let pod = problem.pods[placement.pod];
        let node = &mut beside.nodes[placement.node];
        node.available.subtract(&pod.requests);
        node.host_ports.extend(pod.host_ports.iter().cloned());
        if let Some(place) = bound.get(node.name.as_str()) {
            beside.bound_pods[*place].pods.push(pod);
        }
    }
    // What was expected there has come.
    beside.nodes.iter_mut().for_each(|node| node.nominated.clear());
    beside
}

/// The node that a launch becomes, and its claim.
fn node(problem: &Problem<'_>, place: usize, launch: &Launch) -> Option<(Node, NodeClaim)> {
    let offer = problem.node_pools.iter().find(|offer| offer.pool.name == launch.node_pool)?;
    let chosen = &launch.offering;
    let kind: &InstanceType = offer.instance_types.iter().find(|kind| kind.name == chosen.instance_type)?;
    // No Node has such a name, so it is no existing node's.
    let name = format!("launch/{place:06}");
    let mut of_node = launch.requirements.with(&kind.requirements).single_values();
    of_node.extend(offer.pool.template.labels.clone());
    for (key, value) in [
        (labels::NODE_POOL, launch.node_pool.as_str()),
        (labels::EC2_NODE_CLASS, &launch.node_class),
        (labels::INSTANCE_TYPE, &chosen.instance_type),
        (labels::ZONE, &chosen.zone),
        (labels::CAPACITY_TYPE, chosen.capacity_type.as_str()),
        (labels::HOSTNAME, &name),
        (labels::REGISTERED, "true"),
        (labels::INITIALIZED, "true"),
    ] {
        of_node.insert(key.to_owned(), value.to_owned());
    }
    let instance = LaunchedInstance {
        id: name.clone(),
        instance_type: chosen.instance_type.clone(),
        zone: chosen.zone.clone(),
        capacity_type: chosen.capacity_type,
        price: chosen.price,
        image_id: String::new(),
        private_dns_name: None,
        reservation_id: None,
        launched: Timestamp::MIN,
        subnet_id: None,
        security_group_ids: Vec::new(),
    };
    let taints = offer.pool.template.taints.clone();
    let mut claim = NodeClaim {
        name: name.clone(),
        uid: name.clone(),
        node_pool: launch.node_pool.clone(),
        node_class: launch.node_class.clone(),
        created: Timestamp::MIN,
        version: 0,
        spec: NodeClaimSpec { taints: taints.clone(), ..NodeClaimSpec::default() },
        phase: Phase::Initialized,
        status: NodeClaimStatus { instance: Some(instance), ..NodeClaimStatus::default() },
    };
    claim.set_condition(condition::INITIALIZED, ConditionStatus::True, "Planned", "", Timestamp::MIN);
    let node = Node {
        name,
        labels: of_node,
        taints,
        capacity: kind.capacity.clone(),
        allocatable: kind.allocatable(),
        ..Node::default()
    };
    Some((node, claim))
}
