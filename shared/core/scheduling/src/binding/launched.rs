//! The nodes that launches become.

use super::BindingNode;
use crate::existing::{Excluded, existing_node};
use crate::problem::PoolOffer;
use crate::problem::solution::Launch;
use nodeless_model::{DaemonSet, InstanceType, Node, ResourceList, StringMap, labels};

impl BindingNode<'_> {
    /// The node that a launch becomes: with the labels of its chosen offering, and of each resource the least that any of its
    /// possible instance types has.
    ///
    /// # Errors
    /// Why it takes no pods.
    pub fn of_launch(
        name: &str,
        launch: &Launch,
        offer: &PoolOffer<'_>,
        daemon_sets: &[DaemonSet],
    ) -> Result<Self, Excluded> {
        let known = |name: &str| offer.instance_type(name);
        let kinds = || launch.instance_types.iter().filter_map(|kind| known(&kind.name));
        let node = Node {
            name: name.to_owned(),
            labels: labels_of(name, launch, known(&launch.offering.instance_type)),
            taints: offer.pool.template.taints.clone(),
            allocatable: kinds().map(InstanceType::allocatable).reduce(|a, b| least(&a, &b)).unwrap_or_default(),
            ..Node::default()
        };
        let allocatable = node.allocatable.clone();
        let node = existing_node(Some(&node), None, &[], daemon_sets)?;
        Ok(Self { node, allocatable, pods: Vec::new() })
    }
}

fn labels_of(name: &str, launch: &Launch, kind: Option<&InstanceType>) -> StringMap {
    let mut of_node = launch.requirements.single_values();
    of_node.extend(kind.map(|kind| kind.requirements.single_values()).unwrap_or_default());
    for (key, value) in [
        (labels::HOSTNAME, name),
        (labels::INSTANCE_TYPE, launch.offering.instance_type.as_str()),
        (labels::ZONE, launch.offering.zone.as_str()),
        (labels::CAPACITY_TYPE, launch.offering.capacity_type.as_str()),
        (labels::REGISTERED, "true"),
        (labels::INITIALIZED, "true"),
    ] {
        of_node.insert(key.to_owned(), value.to_owned());
    }
    of_node
}

/// The smaller amount of each resource; a missing amount is zero.
fn least(a: &ResourceList, b: &ResourceList) -> ResourceList {
    a.iter().map(|(name, amount)| (name.to_owned(), amount.min(b.get(name)))).collect()
}
