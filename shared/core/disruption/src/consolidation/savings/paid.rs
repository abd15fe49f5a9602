//! What is paid for the nodes of a cluster with commitments.
//!
//! A commitment is paid, used or not. Removing a node that it covers saves nothing, and a replacement that it does not cover costs more,
//! whatever their prices are.

use crate::cluster::Cluster;
use crate::output::Command;
use nodeless_commitments::{Commitments, Instance, Instances};
use nodeless_model::CapacityType;
use nodeless_scheduling::{Launch, PoolOffer};
use std::collections::BTreeSet;

/// The nodes of a cluster that stay, and what commitments cover of them.
#[derive(Debug)]
pub(crate) struct Paid<'c> {
    commitments: &'c Commitments,
    /// Those that earlier commands of the decision leave.
    instances: Instances,
    per_hour: f64,
}

impl<'c> Paid<'c> {
    /// `None` without commitments. `price` is the present price of the node of an index; zero if it is unknown.
    pub(crate) fn new(cluster: &'c Cluster<'_>, price: impl Fn(usize) -> f64) -> Option<Self> {
        let commitments = cluster.commitments?;
        let staying = cluster.nodes.iter().enumerate().filter(|(_, node)| !node.is_leaving());
        let instances = staying.filter_map(|(place, node)| Some(at_price(node.instance.as_ref()?, price(place))));
        let mut instances: Instances = instances.collect();
        let replacements = unlaunched(cluster).flat_map(|command| &command.replacements);
        replacements.for_each(|one| instances.add(&Instance::of_launch(&one.launch, &cluster.node_pools)));
        let per_hour = instances.paid(commitments);
        Some(Self { commitments, instances, per_hour })
    }

    /// What is no longer paid if these launches replace these nodes, in dollars an hour.
    pub(crate) fn saving(&self, removed: &[Instance], added: impl Iterator<Item = Instance>) -> f64 {
        self.per_hour - self.after(removed, added).paid(self.commitments)
    }

    /// The work of a comparison, in the units of [`nodeless_scheduling::Solution::work`].
    pub(crate) fn work(&self) -> u64 {
        let pairs =
            self.instances.kinds().saturating_mul(1 + self.commitments.plans.len() + self.commitments.reserved.len());
        u64::try_from(pairs).unwrap_or(u64::MAX)
    }

    /// Counts a command.
    pub(crate) fn apply(&mut self, removed: &[Instance], added: impl Iterator<Item = Instance>) {
        self.instances = self.after(removed, added);
        self.per_hour = self.instances.paid(self.commitments);
    }

    fn after(&self, removed: &[Instance], added: impl Iterator<Item = Instance>) -> Instances {
        let mut after = self.instances.clone();
        removed.iter().for_each(|instance| after.remove(instance));
        added.for_each(|instance| after.add(&instance));
        after
    }
}

/// The commands in progress whose replacements are no claims yet.
fn unlaunched<'c>(cluster: &'c Cluster<'_>) -> impl Iterator<Item = &'c Command> {
    let claims = cluster.nodes.iter().filter_map(|node| node.claim);
    let replaced: BTreeSet<&str> = claims.flat_map(|claim| &claim.spec.replaces).map(String::as_str).collect();
    let is_replaced = move |command: &Command| {
        command.candidates.iter().any(|candidate| replaced.contains(candidate.node_claim.as_str()))
    };
    cluster.under_way.iter().copied().filter(move |command| !is_replaced(command))
}

/// An instance at the price that decisions use. Those in a capacity reservation keep theirs, which is that of on-demand.
pub(crate) fn at_price(instance: &Instance, price: f64) -> Instance {
    match instance.capacity_type {
        CapacityType::Reserved => instance.clone(),
        CapacityType::OnDemand | CapacityType::Spot => {
            Instance { price: Some(price).filter(|price| *price > 0.0).or(instance.price), ..instance.clone() }
        }
    }
}

/// The most likely instances of launches.
pub(crate) fn likely<'l>(launches: &'l [Launch], offers: &'l [PoolOffer<'_>]) -> impl Iterator<Item = Instance> + 'l {
    launches.iter().map(|launch| Instance::of_launch(launch, offers))
}

/// The most expensive instances of launches: EC2 may choose any of them.
pub(crate) fn dearest<'l>(launches: &'l [Launch], offers: &'l [PoolOffer<'_>]) -> impl Iterator<Item = Instance> + 'l {
    launches.iter().map(|launch| Instance::dearest_of_launch(launch, offers))
}
