//! The offerings of an instance type, with prices.

use nodeless_model::instance_type::{Offering, Reservation, Reuse};
use nodeless_model::shortage::PlacedOffering;
use nodeless_model::{CapacityType, Requirement, Requirements, labels};

use super::incompatibility;
use super::labels::{one_of_partitions, reservations};
use crate::facts::Zone;
use crate::node_class::{CapacityReservation, NodeClassSettings};
use crate::stored::{Catalog, CatalogType, Listing, Price};
use crate::unavailable::UnavailableOfferings;

/// Reservations are already paid for, so their offerings have a very low price: a fraction of the on-demand price, which
/// keeps their order.
const RESERVED_SHARE_OF_ON_DEMAND: f64 = 1e-7;

pub(super) fn offerings(
    catalog: &Catalog,
    entry: &CatalogType,
    settings: &NodeClassSettings,
    unavailable: &UnavailableOfferings,
) -> Vec<Offering> {
    let facts = &entry.facts;
    let compatible = incompatibility(facts, settings).is_none();
    // Nodes in a reservation are distinguished from others only if the type has a reservation.
    let unreserved = reservations(facts, settings).next().is_some();
    let open = |zone: &Zone| compatible && settings.zones.iter().any(|subnet| subnet.name == zone.name);
    let placement_group = settings.placement_group.as_ref().map(|group| group.id.as_str());
    let all_partitions = settings.placement_group.as_ref().map_or(0, |group| group.partitions);
    let mut offerings = Vec::with_capacity(2 * catalog.zones.len());
    for (zone, offer) in entry.zones(catalog) {
        // The ids of the EC2NodeClass are those of the account.
        let of_class = settings.zones.iter().find(|subnet| subnet.name == zone.name && !subnet.id.is_empty());
        let zone = of_class.unwrap_or(zone);
        // Whether the offering lacks capacity, for each of the partitions or without any.
        let shortages = |capacity_type, reservation_id| {
            let (instance_type, zone) = (facts.name.as_str(), zone.name.as_str());
            Places::with_and_without_capacity(all_partitions, |partition| {
                unavailable.covers(&PlacedOffering {
                    instance_type,
                    zone,
                    capacity_type,
                    placement_group,
                    partition,
                    reservation_id,
                })
            })
        };
        let mut add = |capacity_type: CapacityType, sold: bool, listing: Listing, price: Option<Price>| {
            if sold && listing != Listing::Absent {
                for places in shortages(capacity_type, None) {
                    let short = listing == Listing::Withheld || places.short;
                    offerings.push(Offering {
                        zone: zone.name.clone(),
                        capacity_type,
                        price: price.map_or(0.0, Price::dollars),
                        available: open(zone) && !short && price.is_some(),
                        lacks_price: open(zone) && !short && price.is_none(),
                        reservation: None,
                        requirements: places.label(own_labels(zone, unreserved)),
                    });
                }
            }
        };
        let on_demand_price = offer.on_demand_price.or(entry.on_demand_price);
        add(CapacityType::OnDemand, facts.on_demand, offer.on_demand, on_demand_price);
        add(CapacityType::Spot, facts.spot, offer.spot, offer.spot_price);
        for reservation in reservations(facts, settings).filter(|reservation| reservation.zone == zone.name) {
            for places in shortages(CapacityType::Reserved, Some(reservation.id.as_str())) {
                let offering = reserved(zone, reservation, on_demand_price, open(zone) && !places.short);
                let requirements = places.label(offering.requirements.clone());
                offerings.push(Offering { requirements, ..offering });
            }
        }
    }
    offerings
}

/// The partitions of a placement group in which an offering has capacity, or those in which it has none. One offering stands for all
/// partitions with capacity: they differ in nothing else, and EC2 chooses among them unless a pod requires one.
struct Places {
    /// Empty without partitions.
    partitions: Vec<u32>,
    short: bool,
}

impl Places {
    /// At most two: with capacity, and without.
    fn with_and_without_capacity(partitions: u32, is_short: impl Fn(Option<u32>) -> bool) -> Vec<Self> {
        if partitions == 0 {
            return vec![Self { partitions: Vec::new(), short: is_short(None) }];
        }
        let (without, with): (Vec<u32>, Vec<u32>) = (1..=partitions).partition(|number| is_short(Some(*number)));
        let both = [Self { partitions: with, short: false }, Self { partitions: without, short: true }];
        both.into_iter().filter(|places| !places.partitions.is_empty()).collect()
    }

    fn label(&self, mut requirements: Requirements) -> Requirements {
        if !self.partitions.is_empty() {
            requirements.add(labels::PLACEMENT_GROUP_PARTITION, one_of_partitions(self.partitions.iter().copied()));
        }
        requirements
    }
}

fn own_labels(zone: &Zone, outside_reservations: bool) -> Requirements {
    // A zone with an unknown id has no label with the id, instead of an empty one.
    let id = Some(zone.id.as_str()).filter(|id| !id.is_empty());
    let mut requirements = Requirements::from([(labels::ZONE_ID, Requirement::one_of(id))]);
    if outside_reservations {
        for key in [
            labels::CAPACITY_RESERVATION_ID,
            labels::CAPACITY_RESERVATION_TYPE,
            labels::CAPACITY_RESERVATION_INTERRUPTIBLE,
        ] {
            requirements.add(key, Requirement::does_not_exist());
        }
    }
    requirements
}

fn reserved(zone: &Zone, reservation: &CapacityReservation, on_demand: Option<Price>, open: bool) -> Offering {
    let mut requirements = own_labels(zone, false);
    let own = [
        (labels::CAPACITY_RESERVATION_ID, reservation.id.clone()),
        (labels::CAPACITY_RESERVATION_TYPE, reservation.kind.as_str().to_owned()),
        (labels::CAPACITY_RESERVATION_INTERRUPTIBLE, reservation.interruptible.to_string()),
    ];
    for (key, value) in own {
        requirements.add(key, Requirement::one_of([value]));
    }
    let (open, remaining) = (open && !reservation.expiring, reservation.instances.available);
    let reuse = match reservation.instances.used.filter(|_| !reservation.interruptible) {
        _ if !open => Reuse::No,
        None => Reuse::Shared,
        Some(used) => Reuse::Owned { used },
    };
    Offering {
        zone: zone.name.clone(),
        capacity_type: CapacityType::Reserved,
        price: on_demand.map_or(0.0, |price| price.dollars() * RESERVED_SHARE_OF_ON_DEMAND),
        available: open && remaining > 0,
        lacks_price: false,
        reservation: Some(Reservation { id: reservation.id.clone(), remaining, each: 1, reuse }),
        requirements,
    }
}
