//! The instances of nodes, as commitments see them.

use crate::nodes::cluster_state::ClusterState;
use crate::nodes::place::Place;
use nodeless_catalog::{Catalog, capacity_type_of};
use nodeless_commitments::Instance;
use nodeless_model::{CapacityType, NodeClaim, Requirement, StringMap, labels};

/// The instances of the nodes and claims that stay. Those that leave no longer use commitments when what a plan launches runs.
pub(crate) fn staying(cluster_state: &ClusterState<'_>, catalog: &Catalog) -> Vec<Instance> {
    cluster_state.places.iter().filter(|place| !place.is_leaving()).map(|place| of_place(place, catalog)).collect()
}

/// The instance of a node, or that of a claim: the one that is most likely launched if there is none yet.
pub(crate) fn of_place(place: &Place<'_>, catalog: &Catalog) -> Instance {
    match (place.node, place.claim) {
        (None, Some(claim)) if claim.status.instance.is_none() => of_pending(claim, catalog),
        _ => of_labels(node_labels(place), price(place, catalog), catalog),
    }
}

/// The instance of a node with these labels and this price.
pub(crate) fn of_labels(all: Option<&StringMap>, price: Option<f64>, catalog: &Catalog) -> Instance {
    let label = |key: &str| all.and_then(|all| all.get(key)).cloned().unwrap_or_default();
    let linux = all.and_then(|all| all.get(labels::OS)).is_none_or(|os| os == "linux");
    let own = Instance {
        instance_type: label(labels::INSTANCE_TYPE),
        zone: label(labels::ZONE),
        linux,
        ..Instance::default()
    };
    match all.and_then(capacity_type_of) {
        Some(capacity_type) => priced(Instance { capacity_type, ..own }, price, catalog),
        None => own,
    }
}

/// The first of the instance types of a claim that is not launched yet.
fn of_pending(claim: &NodeClaim, catalog: &Catalog) -> Instance {
    let required = |key: &str| claim.spec.requirements.get(key);
    let allows = |kind: &CapacityType| required(labels::CAPACITY_TYPE).is_none_or(|one| one.has(kind.as_str()));
    // The order in which a launch tries them.
    let kinds = [CapacityType::Reserved, CapacityType::Spot, CapacityType::OnDemand];
    let instance_type = claim.spec.instance_types.first().cloned().unwrap_or_default();
    let zone = required(labels::ZONE).and_then(Requirement::some_value).unwrap_or_default();
    let capacity_type = kinds.into_iter().find(allows).unwrap_or(CapacityType::OnDemand);
    let linux = required(labels::OS).and_then(Requirement::single).is_none_or(|os| os == "linux");
    let price = catalog.dollars_per_hour(&instance_type, &zone, capacity_type);
    priced(Instance { instance_type, zone, capacity_type, linux, price: None }, price, catalog)
}

/// With its price. Instances in a capacity reservation have none of their own: commitments apply to the on-demand price.
fn priced(own: Instance, price: Option<f64>, catalog: &Catalog) -> Instance {
    let price = match own.capacity_type {
        CapacityType::Reserved => catalog.dollars_per_hour(&own.instance_type, &own.zone, CapacityType::OnDemand),
        CapacityType::OnDemand | CapacityType::Spot => price,
    };
    Instance { price, ..own }
}

/// The price at which the instance was launched, else that of the offering in the node's labels.
pub(crate) fn price(place: &Place<'_>, catalog: &Catalog) -> Option<f64> {
    let launched = place.claim.and_then(|claim| claim.status.instance.as_ref());
    if let Some(launched) = launched.filter(|launched| launched.price > 0.0) {
        return Some(launched.price);
    }
    catalog.node_price(node_labels(place)?)
}

pub(crate) fn node_labels<'a>(place: &Place<'a>) -> Option<&'a StringMap> {
    place.node.map(|node| &node.labels).or_else(|| place.claim.map(|claim| &claim.status.labels))
}
