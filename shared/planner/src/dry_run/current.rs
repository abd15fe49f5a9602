//! The price of a cluster's nodes, and the part of them that pods request.

use crate::dry_run::DryRun;
use crate::nodes::cluster_state::ClusterState;
use crate::nodes::instances::{self, node_labels, price};
use crate::nodes::place::Place;
use nodeless_catalog::Catalog;
use nodeless_commitments::Instance;
use nodeless_model::{DaemonSetName, ResourceList, StringMap, labels};
use nodeless_scheduling::DaemonSetEffect;

/// A node of the cluster as it is, or a claim whose node has not joined.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CurrentNode {
    /// The Node's name, or the NodeClaim's if there is no Node.
    pub name: String,
    /// The name of its NodeClaim, if it has one.
    pub node_claim: Option<String>,
    /// Its NodePool; `None` if no NodePool manages it.
    pub node_pool: Option<String>,
    /// Its labels.
    pub labels: StringMap,
    /// Its price in dollars an hour, if that is known.
    pub price_per_hour: Option<f64>,
    /// The requests of its pods, DaemonSets included.
    pub requested: ResourceList,
    /// Its allocatable resources.
    pub allocatable: ResourceList,
}

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

    fn add(&mut self, node: &CurrentNode) {
        self.nodes += 1;
        match node.price_per_hour {
            Some(price) => self.price_per_hour += price,
            None => self.without_price += 1,
        }
        self.allocatable.add(&node.allocatable);
        self.requested.add(&node.requested);
    }
}

impl CurrentNode {
    /// Its instance, as commitments see it.
    #[must_use]
    pub fn instance(&self, catalog: &Catalog) -> Instance {
        instances::of_labels(Some(&self.labels), self.price_per_hour, catalog)
    }

    fn new(place: &Place<'_>, catalog: &Catalog) -> Self {
        let (node, claim) = (place.node, place.claim);
        let of_claim = claim.and_then(|claim| claim.node_pool.as_ref());
        let node_pool = node.and_then(|node| node.node_pool()).map(str::to_owned).or_else(|| of_claim.cloned());
        let mut requested = ResourceList::new();
        place.pods.iter().filter(|pod| !pod.is_terminal()).for_each(|pod| requested.add(&pod.template.requests));
        let name = node.map(|node| &node.name).or_else(|| claim.map(|claim| &claim.name));
        let allocatable = node.map(|node| &node.allocatable);
        Self {
            name: name.cloned().unwrap_or_default(),
            node_claim: claim.map(|claim| claim.name.clone()),
            node_pool,
            labels: node_labels(place).cloned().unwrap_or_default(),
            price_per_hour: price(place, catalog),
            requested,
            allocatable: allocatable
                .or_else(|| claim.map(|claim| &claim.status.allocatable))
                .cloned()
                .unwrap_or_default(),
        }
    }
}

impl DryRun {
    /// The nodes of the cluster, what they cost and how much of them pods request.
    #[must_use]
    pub fn current(&self) -> CurrentCluster {
        let mut current = CurrentCluster::default();
        self.current_nodes().iter().for_each(|node| current.add(node));
        current
    }

    /// The DaemonSets whose pods take more than half of nodes of NodePools that run.
    #[must_use]
    pub fn large_daemon_sets(&self) -> Vec<DaemonSetEffect> {
        let state: ClusterState<'_> = self.cluster_state();
        let mut found = Vec::new();
        for place in &state.places {
            let Some((node, node_pool)) = place.node.and_then(|node| Some((node, node.node_pool()?))) else { continue };
            let instance_type = node.labels.get(labels::INSTANCE_TYPE).map_or("node", String::as_str);
            let of_daemon_sets = place.pods.iter().filter(|pod| pod.is_owned_by_daemon_set() && !pod.is_terminal());
            for pod in of_daemon_sets {
                let name = pod.owner_name.clone().unwrap_or_default();
                let name = DaemonSetName { namespace: pod.namespace.clone(), name };
                let price = price(place, &self.snapshot.catalog).unwrap_or_default();
                found.extend(DaemonSetEffect::large(
                    name,
                    node_pool,
                    &pod.template.requests,
                    &node.allocatable,
                    instance_type,
                    price,
                ));
            }
        }
        DaemonSetEffect::combined(found)
    }

    /// The nodes of the cluster one by one, and the claims whose node has not joined.
    #[must_use]
    pub fn current_nodes(&self) -> Vec<CurrentNode> {
        let state: ClusterState<'_> = self.cluster_state();
        state.places.iter().map(|place| CurrentNode::new(place, &self.snapshot.catalog)).collect()
    }
}
