//! The cluster after a plan, in which changes are tried.

use crate::problem::solution::{Launch, Solution};
use crate::problem::{BoundPods, PoolOffer, Problem};
use nodeless_model::hashed::HashMap;
use nodeless_model::{Pod, StringMap, Taint, labels};

/// What a plan adds to a problem: the Nodes of launches, and of existing nodes without a Node.
pub(super) struct Planned<'s> {
    nodes: Vec<PlannedNode<'s>>,
}

struct PlannedNode<'s> {
    name: String,
    labels: StringMap,
    taints: &'s [Taint],
    pods: Vec<&'s Pod>,
}

impl<'s> Planned<'s> {
    pub(super) fn new(problem: &'s Problem<'_>, solution: &Solution) -> Self {
        let launched = solution.launches.iter().enumerate();
        let mut nodes: Vec<PlannedNode<'s>> =
            launched.map(|(place, launch)| of_launch(problem, place, launch)).collect();
        let bound: HashMap<&str, ()> = problem.bound_pods.iter().map(|bound| (bound.name, ())).collect();
        let mut by_node: HashMap<usize, Vec<&'s Pod>> = HashMap::default();
        for placement in &solution.placements {
            let node = &problem.nodes[placement.node];
            if !bound.contains_key(node.name.as_str()) {
                by_node.entry(placement.node).or_default().push(problem.pods[placement.pod]);
            }
        }
        let mut of_nodes: Vec<(usize, Vec<&'s Pod>)> = by_node.into_iter().collect();
        of_nodes.sort_unstable_by_key(|(node, _)| *node);
        nodes.extend(of_nodes.into_iter().map(|(node, pods)| {
            let node = &problem.nodes[node];
            let labels = node.requirements.single_values();
            PlannedNode { name: node.name.clone(), labels, taints: &node.taints, pods }
        }));
        Self { nodes }
    }

    /// The problem without its pods, after the plan: placed pods run, and launches count against limits.
    pub(super) fn problem<'t>(&'t self, problem: &Problem<'t>, solution: &Solution) -> Problem<'t>
    where
        's: 't,
    {
        let mut after = Problem { pods: Vec::new(), ..problem.clone() };
        let bound: HashMap<&str, usize> =
            problem.bound_pods.iter().enumerate().map(|(place, bound)| (bound.name, place)).collect();
        for placement in &solution.placements {
            let (pod, node) = (problem.pods[placement.pod], &mut after.nodes[placement.node]);
            node.available.subtract(pod.template.next_requests());
            node.host_ports.extend(pod.template.host_ports.iter().cloned());
            if let Some(place) = bound.get(node.name.as_str()) {
                after.bound_pods[*place].pods.push(pod);
            }
        }
        // The expected pods have arrived.
        after.nodes.iter_mut().for_each(|node| node.nominated.clear());
        for launch in &solution.launches {
            PoolOffer::charge(&mut after.node_pools, &launch.node_pool, &launch.charge);
        }
        after.bound_pods.extend(self.nodes.iter().map(|node| BoundPods {
            name: &node.name,
            labels: &node.labels,
            taints: node.taints,
            pods: node.pods.clone(),
        }));
        after
    }
}

fn of_launch<'s>(problem: &'s Problem<'_>, place: usize, launch: &Launch) -> PlannedNode<'s> {
    // No Node has such a name.
    let name = format!("launch/{place:06}");
    let mut of_node = launch.requirements.single_values();
    for (key, value) in [(labels::ZONE, launch.offering.zone.as_str()), (labels::HOSTNAME, &name)] {
        of_node.insert(key.to_owned(), value.to_owned());
    }
    let offer = problem.node_pools.iter().find(|offer| offer.pool.name == launch.node_pool);
    let taints: &[Taint] = offer.map_or(&[], |offer| &offer.pool.template.taints);
    let pods = launch.pods.iter().map(|pod| problem.pods[*pod]).collect();
    PlannedNode { name, labels: of_node, taints, pods }
}
