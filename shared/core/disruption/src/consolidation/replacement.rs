//! The replacements of nodes: only launches that are cheaper, whichever offering EC2 chooses.

use super::Candidate;
use crate::market::worst_price;
use crate::reasons::KeptReason;
use nodeless_model::{CapacityType, InstanceType, Offering, Quantity, Requirement, ResourceList, labels, resources};
use nodeless_scheduling::{ChosenOffering, Launch, PoolOffer, PricedType};
use std::collections::BTreeSet;

/// How many cheaper types are required to replace a spot node by a spot node, as in Karpenter: with fewer, the new node would be
/// interrupted more often.
pub(crate) const SPOT_TO_SPOT_TYPES: usize = 15;

/// The fraction of a price that counts as rounding.
pub(super) const ROUNDING: f64 = 1e-9;

/// Narrows launches to instance types that cost less than the candidates, or returns why none does.
///
/// Each launch may cost its fraction of the price of the candidates, by its cheapest price; so all of them together cost less,
/// whichever of their types and zones EC2 chooses.
pub(super) fn cheaper(
    candidates: &[&Candidate<'_, '_>],
    launches: Vec<Launch>,
    offers: &[PoolOffer<'_>],
    spot_to_spot: bool,
) -> Result<Vec<Launch>, KeptReason> {
    let removed: f64 = candidates.iter().map(|candidate| candidate.price).sum();
    let least: f64 = launches.iter().map(|launch| launch.offering.price).sum();
    // Sums of prices are rounded; a difference within the rounding is no savings.
    let removed = removed * (1.0 - ROUNDING);
    if least >= removed {
        let instance_types = launches.iter().map(|launch| launch.offering.instance_type.clone()).collect();
        return Err(KeptReason::NotCheaper { price: removed, replacement: least, instance_types });
    }
    let all_spot = candidates.iter().all(|candidate| candidate.capacity_type == CapacityType::Spot);
    let single = candidates.len() == 1;
    let count = launches.len();
    let mut narrowed = Vec::with_capacity(count);
    for launch in launches {
        let share = if least > 0.0 { launch.offering.price / least } else { 1.0 };
        let mut cap = launch.offering.price + (removed - least) * share;
        if !single && count == 1 {
            cap = cap.min(same_type_cap(candidates, &launch));
        }
        let Some(offer) = offers.iter().find(|offer| offer.pool.name == launch.node_pool) else {
            return Err(KeptReason::NoNodePool(launch.node_pool));
        };
        let may_be_spot = allows(&launch, CapacityType::Spot);
        let spot = all_spot && may_be_spot;
        if spot && !spot_to_spot {
            return Err(KeptReason::SpotToSpotOff);
        }
        // On-demand could be more expensive than the candidates, if EC2 falls back to it.
        let only_spot = may_be_spot && (spot || allows(&launch, CapacityType::OnDemand));
        narrowed.push(narrow(launch, offer, cap, only_spot, spot && single)?);
    }
    Ok(narrowed)
}

/// If a replacement may have the same instance type as a candidate, several nodes could be replaced by it one by one: so it has
/// to be cheaper than the cheapest candidate of that type.
fn same_type_cap(candidates: &[&Candidate<'_, '_>], launch: &Launch) -> f64 {
    let again = candidates
        .iter()
        .filter(|candidate| launch.instance_types.iter().any(|kind| kind.name == candidate.instance_type));
    again.map(|candidate| candidate.price).fold(f64::INFINITY, f64::min)
}

fn allows(launch: &Launch, capacity_type: CapacityType) -> bool {
    launch.requirements.get(labels::CAPACITY_TYPE).is_none_or(|requirement| requirement.has(capacity_type.as_str()))
}

/// Keeps the types of a launch whose price is below a maximum in any case.
fn narrow(
    mut launch: Launch,
    offer: &PoolOffer<'_>,
    cap: f64,
    only_spot: bool,
    flexible: bool,
) -> Result<Launch, KeptReason> {
    if only_spot {
        launch.requirements.add(labels::CAPACITY_TYPE, Requirement::one_of([CapacityType::Spot.as_str()]));
    }
    let kinds = launch.instance_types.iter().filter_map(|listed| {
        let kind = offer.instance_types.iter().find(|kind| kind.name == listed.name)?;
        let worst = worst_price(kind, &launch.requirements).filter(|worst| *worst < cap)?;
        Some((worst, kind))
    });
    let mut kinds: Vec<&InstanceType> = kinds.map(|(_, kind)| kind).collect();
    let priced =
        |kind: &InstanceType| kind.cheapest_offering(&launch.requirements).map_or(f64::INFINITY, |one| one.price);
    kinds.sort_by(|a, b| priced(a).total_cmp(&priced(b)).then_with(|| a.name.cmp(&b.name)));
    if kinds.is_empty() {
        return Err(KeptReason::NotCheaper {
            price: cap,
            replacement: launch.instance_types.first().map_or(0.0, |kind| kind.price),
            instance_types: launch.instance_types.iter().take(1).map(|kind| kind.name.clone()).collect(),
        });
    }
    if flexible {
        if kinds.len() < SPOT_TO_SPOT_TYPES {
            return Err(KeptReason::SpotToSpotTypes { found: kinds.len(), needed: SPOT_TO_SPOT_TYPES });
        }
        let mut most = SPOT_TO_SPOT_TYPES;
        while most < kinds.len() && first_short(offer, &kinds[..most]).is_some() {
            most += 1;
        }
        kinds.truncate(most);
    }
    if !launch.min_values_relaxed
        && let Some(key) = first_short(offer, &kinds)
    {
        return Err(KeptReason::MinValues { node_pool: launch.node_pool, key });
    }
    Ok(rebuilt(launch, &kinds))
}

/// The first `minValues` that these types do not satisfy.
fn first_short(offer: &PoolOffer<'_>, kinds: &[&InstanceType]) -> Option<String> {
    offer.pool.template.requirements.iter().find_map(|(key, requirement)| {
        let least = requirement.min_values()?;
        let listed = kinds.iter().filter_map(|kind| kind.requirements.get(key).and_then(Requirement::values));
        let values: BTreeSet<&String> = listed.flatten().collect();
        (values.len() < least as usize).then(|| key.to_owned())
    })
}

/// The launch with only these types.
fn rebuilt(mut launch: Launch, kinds: &[&InstanceType]) -> Launch {
    let offerings: Vec<(&InstanceType, &Offering)> = kinds
        .iter()
        .flat_map(|kind| kind.available_offerings(&launch.requirements).map(|offering| (*kind, offering)))
        .collect();
    let mut greatest = ResourceList::new();
    for kind in kinds {
        greatest.max_with(&kind.capacity);
    }
    greatest.set(resources::name::NODES, Quantity::from_units(1));
    launch.charge.resources = greatest;
    launch.charge.dollars_per_hour = offerings.iter().map(|(_, offering)| offering.price).fold(0.0, f64::max);
    if let Some((kind, offering)) = offerings.iter().min_by(|(_, a), (_, b)| a.cmp_price(b)) {
        launch.offering = ChosenOffering {
            instance_type: kind.name.clone(),
            zone: offering.zone.clone(),
            capacity_type: offering.capacity_type,
            price: offering.price,
        };
    }
    let cheapest = |kind: &InstanceType| {
        let of_kind = offerings.iter().filter(|(other, _)| other.name == kind.name);
        of_kind.map(|(_, offering)| offering.price).fold(f64::INFINITY, f64::min)
    };
    launch.instance_types =
        kinds.iter().map(|kind| PricedType { name: kind.name.clone(), price: cheapest(kind) }).collect();
    let zones: BTreeSet<&str> = offerings.iter().map(|(_, offering)| offering.zone.as_str()).collect();
    let capacity_types: BTreeSet<&str> =
        offerings.iter().map(|(_, offering)| offering.capacity_type.as_str()).collect();
    launch.requirements.add(labels::INSTANCE_TYPE, Requirement::one_of(kinds.iter().map(|kind| kind.name.as_str())));
    launch.requirements.add(labels::ZONE, Requirement::one_of(zones));
    launch.requirements.add(labels::CAPACITY_TYPE, Requirement::one_of(capacity_types));
    launch
}
