//! Clusters whose first node would go, or be replaced by something cheaper, were it not for one constraint.

use super::*;
use nodeless_model::requirement::RequirementTerm;

pub const FIRST: &str = "node-00000";

pub fn world() -> TestCluster {
    TestCluster::new(vec![node_pool("default")])
}

/// A pod that keeps its node.
pub fn held(mut pod: Pod) -> Pod {
    pod.template_mut().annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
    pod
}

pub fn app(name: &str, app: &str) -> Pod {
    labelled(pod(name, 500, 512), "app", app)
}

pub fn web(name: &str) -> Pod {
    app(name, "web")
}

/// Adds the node that is to go: it is of the smallest type, so that it is removed only if others have free capacity.
pub fn going(world: &mut TestCluster, zone: &str, pods: Vec<Pod>) {
    world.node("default", "c9.large", CapacityType::OnDemand, zone, pods);
}

/// Adds a node that stays, with free capacity for one more pod.
pub fn staying<'w>(world: &'w mut TestCluster, zone: &str, mut pods: Vec<Pod>) -> &'w mut Place {
    let cpu = 1400 - 500 * i64::try_from(pods.len()).unwrap();
    pods.push(pod(&format!("filler-{}", world.places.len()), cpu, 512));
    let pods = pods.into_iter().map(held).collect();
    world.node("default", "c9.large", CapacityType::OnDemand, zone, pods)
}

/// [`staying`] without free capacity.
pub fn full(world: &mut TestCluster, zone: &str, pods: Vec<Pod>) {
    let place = staying(world, zone, pods);
    place.pods.push(Pod { node_name: Some(place.node.name.clone()), ..held(pod("rest", 600, 512)) });
}

/// A pod on a node that is to go, and another node with free capacity for it in the same zone.
pub fn pair(pod: Pod) -> TestCluster {
    let mut world = world();
    going(&mut world, ZONES[0], vec![pod]);
    staying(&mut world, ZONES[0], Vec::new());
    world
}

/// The commands of consolidation.
pub fn commands(world: &TestCluster) -> Vec<Command> {
    let commands = world.decide().commands;
    assert!(commands.iter().all(|command| command.method.is_consolidation()), "{commands:#?}");
    commands
}

/// Whether the first node is removed.
pub fn goes(world: &TestCluster) -> bool {
    commands(world).iter().flat_map(|command| &command.candidates).any(|candidate| candidate.node == FIRST)
}

/// The instance types of what the first node is replaced by, and the command.
pub fn replaced(world: &TestCluster) -> Option<(Vec<String>, Command)> {
    let of_first = |command: &Command| command.candidates.iter().any(|one| one.node == FIRST);
    let command = commands(world).into_iter().find(of_first)?;
    let types = command.replacements.iter().map(|one| one.launch.offering.instance_type.clone()).collect();
    Some((types, command))
}

/// A node that is far too large for its pods.
pub fn oversized(pods: Vec<Pod>) -> TestCluster {
    let mut world = world();
    world.on_demand("m9.4xlarge", pods);
    world
}

pub fn term(key: &str, operator: Operator, values: &[&str]) -> RequirementTerm {
    let values = values.iter().map(|&value| value.to_owned()).collect();
    RequirementTerm { key: key.into(), operator, values, min_values: None }
}
