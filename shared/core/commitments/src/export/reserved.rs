//! Reserved Instances, as AWS lists them.

use super::plans::within;
use crate::model::{ReservedInstances, Share};
use jiff::Timestamp;
use nodeless_model::listed_commitments::ListedReservedInstances;

/// The states in which they are in effect between start and end.
const BY_TIME: [&str; 3] = ["active", "queued", "retired"];

/// Whether a zone is in a region, such as `us-west-2a` and the Local Zone `us-west-2-lax-1a` in `us-west-2`.
pub(super) fn is_in(zone: &str, region: &str) -> bool {
    let is_letter = |rest: &str| rest.len() == 1 && rest.bytes().all(|byte| byte.is_ascii_lowercase());
    zone.strip_prefix(region).is_some_and(|rest| rest.starts_with('-') || is_letter(rest))
}

/// The zone of zonal ones.
pub(super) fn zone_of(reserved: &ListedReservedInstances) -> Option<&str> {
    reserved.availability_zone.as_deref().filter(|zone| !zone.is_empty())
}

/// Whether the values can be used.
pub(super) fn check(reserved: &ListedReservedInstances) -> Result<(), String> {
    let charges = reserved.recurring_charges.iter().map(|charge| charge.amount);
    let amounts: Vec<f64> = charges.chain([reserved.fixed_price, reserved.usage_price]).collect();
    if reserved.duration <= 0.0 || amounts.iter().any(|amount| !amount.is_finite() || *amount < 0.0) {
        return Err("its duration and prices are no positive numbers".to_owned());
    }
    Ok(())
}

/// Whether they count for a region at a time, or why not. `elsewhere` states that regional ones are of another region.
pub(super) fn in_effect(
    reserved: &ListedReservedInstances,
    region: &str,
    at: Timestamp,
    elsewhere: bool,
) -> Result<(), String> {
    if !BY_TIME.contains(&reserved.state.as_str()) {
        return Err(format!("their state is {}", reserved.state));
    }
    within(reserved.start, reserved.end, at).map_err(|why| why.replacen("it ", "their term ", 1))?;
    if !matches!(reserved.product_description.as_str(), "Linux/UNIX" | "Linux/UNIX (Amazon VPC)") {
        return Err(format!("they are for {}", reserved.product_description));
    }
    if reserved.instance_tenancy != "default" {
        return Err(format!("their tenancy is {}", reserved.instance_tenancy));
    }
    if reserved.currency_code != "USD" {
        return Err(format!("their currency is {}, and prices are in USD", reserved.currency_code));
    }
    if reserved.usage_price > 0.0 {
        return Err("they have a price for each hour of use, which is not supported".to_owned());
    }
    match zone_of(reserved) {
        Some(zone) if !is_in(zone, region) => Err(format!("they are of zone {zone}")),
        None if elsewhere => Err(format!("their file has zones of another region than {region}")),
        _ => Ok(()),
    }
}

/// They as a commitment, with this part of them.
pub(super) fn committed(reserved: &ListedReservedInstances, share: Share) -> ReservedInstances {
    let hourly = reserved.recurring_charges.iter().filter(|charge| charge.frequency == "Hourly");
    let recurring = hourly.fold(0.0, |sum, charge| sum + charge.amount);
    let count = f64::from(reserved.instance_count) * share.of_one();
    ReservedInstances {
        id: reserved.id.clone(),
        instance_type: reserved.instance_type.clone(),
        count,
        zone: zone_of(reserved).map(str::to_owned),
        dollars_per_hour: count * (reserved.fixed_price / (reserved.duration / 3600.0) + recurring),
    }
}
