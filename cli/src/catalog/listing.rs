//! The JSON of `nodeless catalog show`.

use nodeless_catalog::Catalog;
use nodeless_model::instance_type::Offering;
use nodeless_model::{CapacityType, InstanceType, ResourceList, StringMap, labels};
use serde::Serialize;

/// Labels of an offering, which are listed with the offerings and not with the type.
const OF_OFFERINGS: [&str; 3] = [labels::ZONE, labels::ZONE_ID, labels::CAPACITY_TYPE];

#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    labels: StringMap,
    capacity: ResourceList,
    allocatable: ResourceList,
    offerings: Vec<ListedOffering<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedOffering<'a> {
    zone: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone_id: Option<String>,
    capacity_type: CapacityType,
    /// `null` if the price is unknown.
    price_per_hour: Option<f64>,
    available: bool,
    /// Whether the price is derived and not published.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    derived: bool,
}

/// An array with one object for each type.
pub(crate) fn listed(types: &[InstanceType], catalog: &Catalog) -> impl Serialize {
    types.iter().map(|kind| listed_type(kind, catalog.has_derived_price(&kind.name))).collect::<Vec<_>>()
}

fn listed_type(kind: &InstanceType, derived_price: bool) -> Listed<'_> {
    Listed {
        name: &kind.name,
        labels: type_labels(kind),
        capacity: without_zeros(&kind.capacity),
        allocatable: without_zeros(&kind.allocatable()),
        offerings: kind.offerings.iter().map(|offering| listed_offering(offering, derived_price)).collect(),
    }
}

/// The labels that every node of the type has, in any zone and with any capacity type.
fn type_labels(kind: &InstanceType) -> StringMap {
    let mut labels = kind.requirements.single_values();
    labels.retain(|key, _| !OF_OFFERINGS.contains(&key.as_str()));
    labels
}

fn without_zeros(list: &ResourceList) -> ResourceList {
    let kept = list.iter().filter(|(_, quantity)| !quantity.is_zero());
    kept.map(|(name, quantity)| (name.to_owned(), quantity)).collect()
}

fn listed_offering(offering: &Offering, derived_price: bool) -> ListedOffering<'_> {
    ListedOffering {
        zone: &offering.zone,
        zone_id: offering.requirements.get(labels::ZONE_ID).and_then(|id| id.single()).map(str::to_owned),
        capacity_type: offering.capacity_type,
        price_per_hour: (offering.price > 0.0).then_some(offering.price),
        available: offering.available,
        derived: derived_price && offering.capacity_type == CapacityType::OnDemand,
    }
}
