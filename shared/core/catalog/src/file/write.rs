//! A catalog file from the responses of EC2.

use nodeless_model::CapacityType;
use serde::Serialize;

use crate::facts::{Facts, InstanceTypeInfo, Zone};
use crate::stored::{Catalog, Listing, NamedPlacementGroup, Price};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    region: &'a str,
    /// With their ids, which differ between accounts.
    zones: &'a [Zone],
    instance_types: Vec<&'a InstanceTypeInfo>,
    offerings: Vec<WrittenOffering<'a>>,
    placement_groups: &'a [NamedPlacementGroup],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenOffering<'a> {
    instance_type: &'a str,
    zone: &'a str,
    capacity_type: CapacityType,
    price_per_hour: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    available: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    derived: Option<bool>,
}

/// The text of a catalog file: the types in `facts` that can be nodes, with the offerings and prices of the catalog that was
/// created from them. Offerings without a known price are omitted. [`parse`](super::parse) reads it.
///
/// # Errors
/// Only if a number of the facts has no JSON form.
pub fn write(facts: &Facts, catalog: &Catalog) -> Result<String, serde_json::Error> {
    let mut offerings = Vec::new();
    for entry in &catalog.types {
        for (zone, offer) in entry.zones(catalog) {
            let is_derived = entry.derived_price && offer.on_demand_price.is_none();
            let mut add = |capacity_type, sold: bool, listing: Listing, price: Option<Price>| {
                if let Some(price) = price.filter(|_| sold && listing != Listing::Absent) {
                    offerings.push(WrittenOffering {
                        instance_type: &entry.facts.name,
                        zone: &zone.name,
                        capacity_type,
                        price_per_hour: price.dollars(),
                        available: (listing == Listing::Withheld).then_some(false),
                        derived: (is_derived && capacity_type == CapacityType::OnDemand).then_some(true),
                    });
                }
            };
            let on_demand_price = offer.on_demand_price.or(entry.on_demand_price);
            add(CapacityType::OnDemand, entry.facts.on_demand, offer.on_demand, on_demand_price);
            add(CapacityType::Spot, entry.facts.spot, offer.spot, offer.spot_price);
        }
    }
    let described = catalog.types.iter().filter_map(|entry| facts.instance_types.get(&entry.facts.name));
    serde_json::to_string(&Written {
        region: &catalog.region,
        zones: &catalog.zones,
        instance_types: described.collect(),
        offerings,
        placement_groups: &catalog.placement_groups,
    })
}
