//! The price of a cluster's nodes, and the part of them that pods request.

use crate::plan::dry_run::DryRun;
use crate::plan::nodes::cluster_state::ClusterState;
use crate::plan::nodes::place::Place;
use nodeless_catalog::Catalog;
use nodeless_model::ResourceList;

/// The cluster as it is, without what the plan would launch or disrupt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CurrentCluster {
    /// The number of nodes, those of other provisioners included, and of claims whose node has not joined.
    pub nodes: usize,
    /// The price of the nodes, in dollars an hour, without those whose price is unknown.
    pub price_per_hour: f64,
    /// The number of nodes whose price is unknown.
    pub without_price: usize,
    /// The requests of the pods on the nodes, DaemonSets included.
    pub requested: ResourceList,
    /// The allocatable resources of the nodes.
    pub allocatable: ResourceList,
}

impl CurrentCluster {
    /// The part of a resource that pods request, from 0 to 1; more if pods are on nodes that are too small for them. `None` without
    /// the resource.
    #[must_use]
    pub fn share(&self, resource: &str) -> Option<f64> {
        let allocatable = self.allocatable.get(resource).as_f64();
        (allocatable > 0.0).then(|| self.requested.get(resource).as_f64() / allocatable)
    }

    fn add(&mut self, place: &Place<'_>, catalog: &Catalog) {
        self.nodes += 1;
        match price(place, catalog) {
            Some(price) => self.price_per_hour += price,
            None => self.without_price += 1,
        }
        let allocatable = place.node.map(|node| &node.allocatable);
        let allocatable = allocatable.or_else(|| place.claim.map(|claim| &claim.status.allocatable));
        allocatable.into_iter().for_each(|amounts| self.allocatable.add(amounts));
        place.pods.iter().filter(|pod| !pod.is_terminal()).for_each(|pod| self.requested.add(&pod.requests));
    }
}

/// The price at which the instance was launched, else that of the offering in the node's labels.
fn price(place: &Place<'_>, catalog: &Catalog) -> Option<f64> {
    let launched = place.claim.and_then(|claim| claim.status.instance.as_ref());
    if let Some(launched) = launched.filter(|launched| launched.price > 0.0) {
        return Some(launched.price);
    }
    let labels = place.node.map(|node| &node.labels).or_else(|| place.claim.map(|claim| &claim.status.labels));
    catalog.node_price(labels?)
}

impl DryRun {
    /// The nodes of the cluster, what they cost and how much of them pods request.
    #[must_use]
    pub fn current(&self) -> CurrentCluster {
        let mut current = CurrentCluster::default();
        let state: ClusterState<'_> = self.cluster_state();
        state.places.iter().for_each(|place| current.add(place, &self.snapshot.catalog));
        current
    }
}
