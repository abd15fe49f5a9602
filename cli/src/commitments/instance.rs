//! Nodes as commitments see them.

use nodeless_catalog::{Catalog, capacity_type_of};
use nodeless_commitments::Usage;
use nodeless_model::{CapacityType, Requirement, labels};
use nodeless_operations::plan::CurrentNode;
use nodeless_scheduling::{Launch, Problem};

/// The instance of a node that runs, or that would be launched.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Instance {
    instance_type: String,
    zone: String,
    capacity_type: CapacityType,
    linux: bool,
    price: Option<f64>,
}

impl Default for Instance {
    fn default() -> Self {
        Self {
            instance_type: String::new(),
            zone: String::new(),
            capacity_type: CapacityType::OnDemand,
            linux: true,
            price: None,
        }
    }
}

impl Instance {
    /// The instance of a node of the cluster.
    pub(crate) fn of_node(node: &CurrentNode, catalog: &Catalog) -> Self {
        let label = |key: &str| node.labels.get(key).cloned().unwrap_or_default();
        let linux = node.labels.get(labels::OS).is_none_or(|os| os == "linux");
        let own =
            Self { instance_type: label(labels::INSTANCE_TYPE), zone: label(labels::ZONE), linux, ..Self::default() };
        match capacity_type_of(&node.labels) {
            Some(capacity_type) => Self { capacity_type, ..own }.priced(node.price_per_hour, catalog),
            None => own,
        }
    }

    /// The instance of a launch.
    pub(crate) fn of_launch(launch: &Launch, problem: &Problem<'_>, catalog: &Catalog) -> Self {
        let offering = &launch.offering;
        let offer = problem.node_pools.iter().find(|offer| offer.pool.name == launch.node_pool);
        let kind = offer.and_then(|offer| offer.instance_types.iter().find(|kind| kind.name == offering.instance_type));
        let os = kind.and_then(|kind| kind.requirements.get(labels::OS)).and_then(Requirement::single);
        let own = Self {
            instance_type: offering.instance_type.clone(),
            zone: offering.zone.clone(),
            capacity_type: offering.capacity_type,
            linux: os.is_none_or(|os| os == "linux"),
            price: None,
        };
        own.priced(Some(offering.price), catalog)
    }

    /// With its price. Instances in a capacity reservation have none of their own: commitments apply to the on-demand price.
    fn priced(mut self, price: Option<f64>, catalog: &Catalog) -> Self {
        self.price = match self.capacity_type {
            CapacityType::Reserved => catalog.dollars_per_hour(&self.instance_type, &self.zone, CapacityType::OnDemand),
            CapacityType::OnDemand | CapacityType::Spot => price,
        };
        self
    }

    /// The instance for an hour.
    pub(crate) fn usage(&self) -> Usage<'_> {
        Usage {
            instance_type: &self.instance_type,
            zone: &self.zone,
            capacity_type: self.capacity_type,
            linux: self.linux,
            hours: 1.0,
            price: self.price,
        }
    }
}
