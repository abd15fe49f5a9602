//! A plan's launches as nodes.

use jiff::Timestamp;
use nodeless_model::claim::{LaunchedInstance, NodeClaimSpec, NodeClaimStatus, condition};
use nodeless_model::{ConditionStatus, EBS_DRIVER, InstanceType, Node, NodeClaim, Phase, Pod, labels};
use nodeless_scheduling::{Launch, Problem, Solution};
use std::collections::{BTreeMap, HashMap};

/// The nodes of all launches of a solution, and their claims; `None` if a launch refers to something unknown.
pub(super) fn nodes(problem: &Problem<'_>, solution: &Solution) -> Option<Vec<(Node, NodeClaim)>> {
    solution.launches.iter().enumerate().map(|(place, launch)| node(problem, place, launch)).collect()
}

/// The limits of volumes of a problem and of these planned nodes; `None` if no pod mounts a volume.
pub(super) fn volume_limits(
    problem: &Problem<'_>,
    nodes: &[(Node, NodeClaim)],
) -> Option<BTreeMap<String, BTreeMap<String, u32>>> {
    if problem.pods.iter().all(|pod| pod.template.volume_claims.is_empty()) {
        return None;
    }
    let mut limits = problem.facts.volume_limits.clone();
    for (node, claim) in nodes {
        let offer = problem.node_pools.iter().find(|offer| claim.is_of(&offer.pool.name));
        let kinds = offer.into_iter().flat_map(|offer| offer.instance_types.iter());
        let kind = kinds.into_iter().find(|kind| node.labels.get(labels::INSTANCE_TYPE) == Some(&kind.name));
        if let Some(limit) = kind.and_then(|kind| kind.ebs_volumes) {
            limits.insert(node.name.clone(), BTreeMap::from([(EBS_DRIVER.to_owned(), limit)]));
        }
    }
    Some(limits)
}

/// The pods of a launch.
pub(super) fn of_launch<'a>(problem: &Problem<'a>, launch: &Launch) -> Vec<&'a Pod> {
    launch.pods.iter().map(|pod| problem.pods[*pod]).collect()
}

/// The existing nodes, with the pods that a solution schedules there.
pub(super) fn existing<'a>(problem: &Problem<'a>, solution: &Solution) -> Problem<'a> {
    let mut beside =
        Problem { nodes: problem.nodes.clone(), bound_pods: problem.bound_pods.clone(), ..Problem::default() };
    let bound: HashMap<&str, usize> =
        problem.bound_pods.iter().enumerate().map(|(place, bound)| (bound.name, place)).collect();
    for placement in &solution.placements {
        let pod = problem.pods[placement.pod];
        let node = &mut beside.nodes[placement.node];
        node.available.subtract(pod.template.next_requests());
        node.host_ports.extend(pod.template.host_ports.iter().cloned());
        if let Some(place) = bound.get(node.name.as_str()) {
            beside.bound_pods[*place].pods.push(pod);
        }
    }
    // The expected pods have arrived.
    beside.nodes.iter_mut().for_each(|node| node.nominated.clear());
    beside
}

/// The node of a launch, and its claim.
fn node(problem: &Problem<'_>, place: usize, launch: &Launch) -> Option<(Node, NodeClaim)> {
    let offer = problem.node_pools.iter().find(|offer| offer.pool.name == launch.node_pool)?;
    let chosen = &launch.offering;
    let kind: &InstanceType = offer.instance_types.iter().find(|kind| kind.name == chosen.instance_type)?;
    // No Node has such a name, so it does not conflict with an existing node.
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
        certificate_authority: None,
        subnet_id: None,
        security_group_ids: Vec::new(),
    };
    let taints = offer.pool.template.taints.clone();
    let mut claim = NodeClaim {
        name: name.clone(),
        uid: name.clone(),
        node_pool: Some(launch.node_pool.clone()),
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
