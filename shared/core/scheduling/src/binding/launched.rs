//! The nodes that launches become.

use super::BindingNode;
use crate::existing::{Excluded, ExistingNodes};
use crate::problem::PoolOffer;
use crate::problem::solution::Launch;
use nodeless_model::{DaemonSet, InstanceType, Node, Quantity, ResourceList, StringMap, labels, resources};

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
        Self::launched(name, launch, offer, &mut ExistingNodes::new(daemon_sets))
    }

    /// [`Self::of_launch`], for many nodes with the same DaemonSets.
    ///
    /// # Errors
    /// Why it takes no pods.
    pub fn launched(
        name: &str,
        launch: &Launch,
        offer: &PoolOffer<'_>,
        nodes: &mut ExistingNodes<'_>,
    ) -> Result<Self, Excluded> {
        let known = |name: &str| offer.instance_type(name);
        let kinds = || launch.instance_types.iter().filter_map(|kind| known(&kind.name));
        let node = Node {
            name: name.to_owned(),
            labels: labels_of(name, launch, known(&launch.offering.instance_type)),
            taints: offer.pool.template.taints.clone(),
            allocatable: least_allocatable(kinds()),
            ..Node::default()
        };
        let converted = nodes.node(Some(&node), None, &[])?;
        Ok(Self { node: converted, allocatable: node.allocatable, pods: Vec::new() })
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

/// The smallest amount of each resource of the first instance type, as [`InstanceType::allocatable`] has it; a missing amount is zero.
fn least_allocatable<'t>(mut kinds: impl Iterator<Item = &'t InstanceType>) -> ResourceList {
    let Some(first) = kinds.next() else { return ResourceList::new() };
    let first = first.allocatable();
    let mut least: Vec<(&str, Quantity)> = first.iter().collect();
    for kind in kinds {
        let huge_pages = kind.capacity.iter().filter(|(name, _)| name.starts_with("hugepages-"));
        let huge_pages: Quantity = huge_pages.map(|(_, amount)| amount).sum();
        let overhead = &kind.overhead;
        for (name, least) in &mut least {
            let mut amount = kind.capacity.get(name);
            for reserved in [&overhead.kube_reserved, &overhead.system_reserved, &overhead.eviction_threshold] {
                amount = amount.saturating_sub_to_zero(reserved.get(name));
            }
            if *name == resources::name::MEMORY {
                amount = amount.saturating_sub_to_zero(huge_pages);
            }
            *least = amount.min(*least);
        }
    }
    least.into_iter().map(|(name, amount)| (name.to_owned(), amount)).collect()
}
