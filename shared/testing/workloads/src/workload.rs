//! A cluster with its pods, as values of the model.

use nodeless_disruption::{Cluster, ClusterNode};
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::{
    DaemonSet, InstanceTypes, Node, NodeClaim, NodePool, Pod, PodDisruptionBudget, Quantity, Requirements,
    ResourceList, SharedTemplates, StringMap,
};
use nodeless_scheduling::{BoundPods, ClusterFacts, ExistingNodes, PoolOffer, Problem};
use std::collections::BTreeMap;

/// A node, its claim and its pods.
#[derive(Clone, Debug)]
pub struct Place {
    /// The Node.
    pub node: Node,
    /// The claim of the node.
    pub claim: NodeClaim,
    /// The pods that are bound to it, without those of DaemonSets.
    pub pods: Vec<Pod>,
}

/// A cluster with its pods.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// The NodePools, all of one EC2NodeClass.
    pub node_pools: Vec<NodePool>,
    /// The instance types of each of them.
    pub instance_types: InstanceTypes,
    /// The pending pods.
    pub pending: Vec<Pod>,
    /// The nodes.
    pub places: Vec<Place>,
    /// The DaemonSets.
    pub daemon_sets: Vec<DaemonSet>,
    /// The PodDisruptionBudgets.
    pub disruption_budgets: Vec<PodDisruptionBudget>,
    /// See [`ClusterFacts::volumes`].
    pub volumes: BTreeMap<String, Vec<Requirements>>,
    /// See [`ClusterFacts::volume_drivers`].
    pub volume_drivers: BTreeMap<String, String>,
    /// See [`ClusterFacts::volume_limits`].
    pub volume_limits: BTreeMap<String, BTreeMap<String, u32>>,
    /// See [`ClusterFacts::namespaces`].
    pub namespaces: BTreeMap<String, StringMap>,
}

impl Workload {
    /// The same with pods that share equal templates, as those of a view do.
    pub(crate) fn shared(mut self) -> Self {
        let mut templates = SharedTemplates::default();
        let bound = self.places.iter_mut().flat_map(|place| &mut place.pods);
        for pod in self.pending.iter_mut().chain(bound) {
            templates.share(&mut pod.template);
        }
        self
    }

    /// The problem of the pending pods.
    #[must_use]
    pub fn problem(&self) -> Problem<'_> {
        let mut converted = ExistingNodes::new(&self.daemon_sets);
        let existing = |place: &Place| {
            let pods: Vec<&Pod> = place.pods.iter().collect();
            converted.node(Some(&place.node), Some(&place.claim), &pods).ok()
        };
        Problem {
            pods: self.pending.iter().collect(),
            nodes: self.places.iter().filter_map(existing).collect(),
            node_pools: self.offers(),
            daemon_sets: &self.daemon_sets,
            bound_pods: self.places.iter().map(|it| BoundPods::on(&it.node, it.pods.iter().collect())).collect(),
            facts: self.facts(),
        }
    }

    /// The cluster for a decision, with the pending pods.
    #[must_use]
    pub fn cluster(&self) -> Cluster<'_> {
        Cluster {
            nodes: self
                .places
                .iter()
                .map(|place| ClusterNode {
                    node: Some(&place.node),
                    claim: Some(&place.claim),
                    pods: place.pods.iter().collect(),
                    ..ClusterNode::default()
                })
                .collect(),
            node_pools: self.offers(),
            pending_pods: self.pending.iter().collect(),
            disruption_budgets: &self.disruption_budgets,
            daemon_sets: &self.daemon_sets,
            facts: self.facts(),
            ..Cluster::default()
        }
    }

    /// The number of pending and running pods.
    #[must_use]
    pub fn pods(&self) -> usize {
        self.pending.len() + self.places.iter().map(|place| place.pods.len()).sum::<usize>()
    }

    fn facts(&self) -> ClusterFacts<'_> {
        ClusterFacts {
            volumes: &self.volumes,
            volume_drivers: &self.volume_drivers,
            volume_limits: &self.volume_limits,
            namespaces: &self.namespaces,
            ..ClusterFacts::default()
        }
    }

    fn offers(&self) -> Vec<PoolOffer<'_>> {
        let offer = |pool| PoolOffer {
            pool,
            instance_types: self.instance_types.clone(),
            usage: self.usage(pool),
            cluster: None,
        };
        self.node_pools.iter().map(offer).collect()
    }

    fn usage(&self, pool: &NodePool) -> PoolUsage {
        let mut usage = PoolUsage::default();
        for place in self.places.iter().filter(|place| place.claim.is_of(&pool.name)) {
            usage.resources.add(&place.node.capacity);
            usage.resources.add(&ResourceList::from([("nodes", Quantity::from_units(1))]));
            usage.dollars_per_hour += place.claim.status.instance.as_ref().map_or(0.0, |instance| instance.price);
        }
        usage
    }
}
