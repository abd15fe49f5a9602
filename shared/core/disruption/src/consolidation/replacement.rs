//! The replacements of nodes: only launches that are cheaper, whichever offering EC2 chooses.

use super::Candidate;
use crate::reasons::KeptReason;
use crate::simulation::launch_types::{allows, first_short, rebuilt, sorted};
use crate::simulation::node_prices::worst_price;
use nodeless_model::{CapacityType, InstanceType, Offering, Requirement, labels};
use nodeless_scheduling::{Launch, PoolOffer};

/// The number of cheaper types that are required to replace a spot node by a spot node, as in Karpenter: with fewer, the new node
/// would be interrupted more often.
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

/// Narrows launches to instance types that together cost at most this much in dollars per hour, whichever offering EC2 chooses; or
/// returns why that is not possible.
pub(super) fn at_most(launches: Vec<Launch>, offers: &[PoolOffer<'_>], most: f64) -> Result<Vec<Launch>, KeptReason> {
    let least: f64 = launches.iter().map(|launch| launch.offering.price).sum();
    let one = |launch: Launch| {
        let share = if least > 0.0 { launch.offering.price / least } else { 1.0 };
        // The price itself is allowed.
        let cap = (launch.offering.price + (most - least).max(0.0) * share) * (1.0 + ROUNDING);
        let Some(offer) = offers.iter().find(|offer| offer.pool.name == launch.node_pool) else {
            return Err(KeptReason::NoNodePool(launch.node_pool));
        };
        let only_spot = allows(&launch, CapacityType::Spot) && allows(&launch, CapacityType::OnDemand);
        narrow(launch, offer, cap, only_spot, false)
    };
    launches.into_iter().map(one).collect()
}

/// If a replacement may have the same instance type as a candidate, several nodes could be replaced by it one by one: so it has
/// to be cheaper than the cheapest candidate of that type.
fn same_type_cap(candidates: &[&Candidate<'_, '_>], launch: &Launch) -> f64 {
    let again = candidates
        .iter()
        .filter(|candidate| launch.instance_types.iter().any(|kind| kind.name == candidate.instance_type));
    again.map(|candidate| candidate.price).fold(f64::INFINITY, f64::min)
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
        let kind = offer.instance_type(&listed.name)?;
        let offerings: Vec<&Offering> = kind.available_offerings(&launch.requirements).collect();
        worst_price(&offerings).filter(|worst| *worst < cap)?;
        let cheapest = offerings.iter().map(|offering| offering.price).min_by(f64::total_cmp)?;
        Some((cheapest, kind))
    });
    let mut kinds: Vec<&InstanceType> = sorted(kinds.collect());
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
        while most < kinds.len() && first_short(&launch.requirements, &kinds[..most]).is_some() {
            most += 1;
        }
        kinds.truncate(most);
    }
    if !launch.min_values_relaxed
        && let Some(key) = first_short(&launch.requirements, &kinds)
    {
        return Err(KeptReason::MinValues { node_pool: launch.node_pool, key });
    }
    Ok(rebuilt(launch, &kinds))
}
