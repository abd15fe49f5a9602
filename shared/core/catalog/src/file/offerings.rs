//! The `offerings` of a catalog file.

use std::collections::{BTreeMap, BTreeSet};

use nodeless_model::CapacityType;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{Note, entry};
use crate::facts::Zone;
use crate::stored::{CatalogType, Listing, Price, ZoneOffer};
use crate::type_facts::TypeFacts;

/// An offering of an instance type.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfferingEntry {
    pub instance_type: String,
    pub zone: String,
    pub capacity_type: CapacityType,
    #[serde(default, deserialize_with = "price")]
    pub price_per_hour: Option<f64>,
    #[serde(default)]
    pub available: Option<bool>,
    /// Whether the price was derived and not published.
    #[serde(default)]
    pub derived: bool,
}

/// A price is a number, or a string with a number, as in the price lists of AWS.
fn price<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a number of dollars per hour")]
    enum Written {
        Number(f64),
        Text(String),
    }
    match Option::deserialize(deserializer)? {
        None => Ok(None),
        Some(Written::Number(price)) => Ok(Some(price)),
        Some(Written::Text(text)) => text
            .parse()
            .map(Some)
            .map_err(|_| serde::de::Error::custom(format!("{text:?} is not a number of dollars per hour"))),
    }
}

/// Reads entries one by one. An invalid one is reported and omitted.
pub(super) fn read(entries: Vec<Value>, notes: &mut Vec<Note>) -> Vec<(usize, OfferingEntry)> {
    let mut good = Vec::with_capacity(entries.len());
    for (index, value) in entries.into_iter().enumerate() {
        let named = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or("?").to_owned();
        let place = place(index, &named("instanceType"), &named("zone"));
        match entry::<OfferingEntry>(value) {
            Ok(offering) => good.push((index, offering)),
            Err(error) => notes.push(Note { place, message: format!("{error}; the offering is omitted") }),
        }
    }
    good
}

fn place(index: usize, instance_type: &str, zone: &str) -> String {
    format!("offerings[{index}] ({instance_type} in {zone})")
}

/// The offerings of a type in a zone: for each capacity type the price, if known, and whether it is available.
#[derive(Default)]
struct Sold {
    on_demand: Option<(Option<Price>, Listing)>,
    spot: Option<(Option<Price>, Listing)>,
    /// Whether the on-demand price is derived.
    derived: bool,
}

/// Adds the offerings to the types. Offerings with an unknown type or zone are reported and omitted.
pub(super) fn attach(
    types: BTreeMap<String, TypeFacts>,
    left_out: &BTreeSet<String>,
    zones: &[Zone],
    offerings: Vec<(usize, OfferingEntry)>,
    notes: &mut Vec<Note>,
) -> Vec<CatalogType> {
    let position: BTreeMap<&str, u8> = zones.iter().map(|zone| zone.name.as_str()).zip(0_u8..=u8::MAX).collect();
    let mut sold: BTreeMap<String, BTreeMap<u8, Sold>> = BTreeMap::new();
    for (index, entry) in offerings {
        let named = place(index, &entry.instance_type, &entry.zone);
        let mut note = |message: String| notes.push(Note { place: named.clone(), message });
        if left_out.contains(&entry.instance_type) {
            continue;
        }
        if !types.contains_key(&entry.instance_type) {
            note(format!("instanceType: {} is not in instanceTypes; the offering is omitted", entry.instance_type));
            continue;
        }
        let Some(zone) = position.get(entry.zone.as_str()) else {
            note(format!("zone: {} is not in zones; the offering is omitted", entry.zone));
            continue;
        };
        if entry.capacity_type == CapacityType::Reserved {
            note(
                "capacityType: reserved; reservations come from status.capacityReservations of an EC2NodeClass; the \
                 offering is omitted"
                    .to_owned(),
            );
            continue;
        }
        let price = entry.price_per_hour.and_then(Price::from_dollars);
        if price.is_none() {
            let written = entry.price_per_hour.map_or("missing".to_owned(), |price| format!("{price} is not a price"));
            note(format!("pricePerHour: {written}; the offering counts as not available"));
        }
        let listing = if entry.available == Some(false) { Listing::Withheld } else { Listing::Open };
        let here = sold.entry(entry.instance_type).or_default().entry(*zone).or_default();
        let slot = if entry.capacity_type == CapacityType::Spot { &mut here.spot } else { &mut here.on_demand };
        if slot.is_some() {
            note("duplicate; the first entry is used".to_owned());
        } else {
            *slot = Some((price, listing));
            here.derived |= entry.derived && entry.capacity_type == CapacityType::OnDemand;
        }
    }
    types.into_iter().map(|(name, facts)| catalog_type(facts, sold.remove(&name).unwrap_or_default())).collect()
}

fn catalog_type(mut facts: TypeFacts, sold: BTreeMap<u8, Sold>) -> CatalogType {
    facts.on_demand = sold.values().any(|here| here.on_demand.is_some());
    facts.spot = sold.values().any(|here| here.spot.is_some());
    let on_demand_price = sold.values().find_map(|here| here.on_demand?.0);
    let derived_price = sold.values().any(|here| here.derived);
    // A zone without its own price would use the price of the type, so it must not be available.
    let listing = |sold: Option<(Option<Price>, Listing)>| match sold {
        None => Listing::Absent,
        Some((None, _)) => Listing::Withheld,
        Some((Some(_), listing)) => listing,
    };
    let offers = sold.into_iter().map(|(zone, here)| ZoneOffer {
        zone,
        spot_price: here.spot.and_then(|(price, _)| price),
        on_demand_price: here.on_demand.and_then(|(price, _)| price).filter(|price| Some(*price) != on_demand_price),
        on_demand: listing(here.on_demand),
        spot: listing(here.spot),
    });
    CatalogType { offers: offers.collect(), facts, on_demand_price, derived_price }
}
