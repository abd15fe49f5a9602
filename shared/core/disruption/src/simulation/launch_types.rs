//! Launches with fewer instance types or capacity types than were planned.

use nodeless_model::{
    CapacityType, InstanceType, Offering, Quantity, Requirement, Requirements, ResourceList, labels, resources,
};
use nodeless_scheduling::{ChosenOffering, Launch, PoolOffer, PricedType};
use std::collections::BTreeSet;

/// Whether a launch may have a capacity type.
pub(crate) fn allows(launch: &Launch, capacity_type: CapacityType) -> bool {
    launch.requirements.get(labels::CAPACITY_TYPE).is_none_or(|requirement| requirement.has(capacity_type.as_str()))
}

/// The launch with only its on-demand offerings. `None` if it does not allow on-demand, if no offering is available, or if
/// the types that are left do not satisfy `minValues`.
pub(crate) fn on_demand(launch: &Launch, offer: &PoolOffer<'_>) -> Option<Launch> {
    if !allows(launch, CapacityType::OnDemand) {
        return None;
    }
    let mut launch = launch.clone();
    launch.requirements.add(labels::CAPACITY_TYPE, Requirement::one_of([CapacityType::OnDemand.as_str()]));
    let listed: BTreeSet<&str> = launch.instance_types.iter().map(|kind| kind.name.as_str()).collect();
    let kinds = offer.instance_types.iter().filter(|kind| listed.contains(kind.name.as_str()));
    let mut kinds: Vec<&InstanceType> =
        kinds.filter(|kind| kind.available_offerings(&launch.requirements).next().is_some()).collect();
    if kinds.is_empty() || (!launch.min_values_relaxed && first_short(&launch.requirements, &kinds).is_some()) {
        return None;
    }
    cheapest_first(&mut kinds, &launch.requirements);
    Some(rebuilt(launch, &kinds))
}

/// Sorts instance types by the price of their cheapest offering that meets the requirements.
pub(crate) fn cheapest_first(kinds: &mut [&InstanceType], requirements: &Requirements) {
    let priced = |kind: &InstanceType| kind.cheapest_offering(requirements).map_or(f64::INFINITY, |one| one.price);
    let sorted = sorted(kinds.iter().map(|kind| (priced(kind), *kind)).collect());
    kinds.copy_from_slice(&sorted);
}

/// Instance types with their prices, the cheapest first.
pub(crate) fn sorted(mut priced: Vec<(f64, &InstanceType)>) -> Vec<&InstanceType> {
    priced.sort_by(|(a, one), (b, other)| a.total_cmp(b).then_with(|| one.name.cmp(&other.name)));
    priced.into_iter().map(|(_, kind)| kind).collect()
}

/// The first `minValues` that these types do not satisfy with the values that the requirements of a launch allow.
pub(crate) fn first_short(requirements: &Requirements, kinds: &[&InstanceType]) -> Option<String> {
    requirements.iter().find_map(|(key, requirement)| {
        let least = requirement.min_values()?;
        let listed = kinds.iter().filter_map(|kind| kind.requirements.get(key).and_then(Requirement::values));
        let values: BTreeSet<&String> = listed.flatten().filter(|value| requirement.has(value)).collect();
        (values.len() < least as usize).then(|| key.to_owned())
    })
}

/// The launch with only these types.
pub(crate) fn rebuilt<'k>(mut launch: Launch, kinds: &[&'k InstanceType]) -> Launch {
    let of_kind = |kind: &&'k InstanceType| kind.available_offerings(&launch.requirements).collect();
    let by_kind: Vec<Vec<&Offering>> = kinds.iter().map(of_kind).collect();
    let offerings =
        || kinds.iter().zip(&by_kind).flat_map(|(kind, sold)| sold.iter().map(move |offering| (*kind, *offering)));
    let mut greatest = ResourceList::new();
    for kind in kinds {
        greatest.max_with(&kind.capacity);
    }
    greatest.set(resources::name::NODES, Quantity::from_units(1));
    launch.charge.resources = greatest;
    let counted = offerings().map(|(kind, offering)| offering.price + kind.root_volume_price());
    launch.charge.dollars_per_hour = counted.fold(0.0, f64::max);
    if let Some((kind, offering)) = offerings().min_by(|(_, a), (_, b)| a.cmp_price(b)) {
        launch.offering = ChosenOffering {
            instance_type: kind.name.clone(),
            zone: offering.zone.clone(),
            capacity_type: offering.capacity_type,
            price: offering.price,
        };
    }
    let cheapest = |sold: &[&Offering]| sold.iter().map(|offering| offering.price).fold(f64::INFINITY, f64::min);
    let types = kinds.iter().zip(&by_kind);
    launch.instance_types =
        types.map(|(kind, sold)| PricedType { name: kind.name.clone(), price: cheapest(sold) }).collect();
    let zones: BTreeSet<&str> = offerings().map(|(_, offering)| offering.zone.as_str()).collect();
    let capacity_types: BTreeSet<&str> = offerings().map(|(_, offering)| offering.capacity_type.as_str()).collect();
    launch.requirements.add(labels::INSTANCE_TYPE, Requirement::one_of(kinds.iter().map(|kind| kind.name.as_str())));
    launch.requirements.add(labels::ZONE, Requirement::one_of(zones));
    launch.requirements.add(labels::CAPACITY_TYPE, Requirement::one_of(capacity_types));
    launch
}
