//! Instances and commitments of tests.

use nodeless_commitments::{Commitments, ReservedInstances, SavingsPlan, Usage};
use nodeless_model::CapacityType;

pub(crate) fn on_demand<'a>(instance_type: &'a str, zone: &'a str, price: f64) -> Usage<'a> {
    Usage { instance_type, zone, capacity_type: CapacityType::OnDemand, linux: true, hours: 1.0, price: Some(price) }
}

/// Reserved Instances that cost half a dollar an hour each.
pub(crate) fn reserved(instance_type: &str, count: u32, zone: Option<&str>) -> ReservedInstances {
    ReservedInstances {
        id: format!("{instance_type}/{}", zone.unwrap_or("region")),
        instance_type: instance_type.to_owned(),
        count: f64::from(count),
        zone: zone.map(str::to_owned),
        dollars_per_hour: f64::from(count) * 0.5,
    }
}

pub(crate) fn plan(family: Option<&str>, dollars_per_hour: f64, rates: &[(&str, f64)]) -> SavingsPlan {
    SavingsPlan {
        id: format!("plan-{}", family.unwrap_or("compute")),
        family: family.map(str::to_owned),
        dollars_per_hour,
        rates: rates.iter().map(|(name, rate)| ((*name).to_owned(), *rate)).collect(),
    }
}

pub(crate) fn commitments(reserved: Vec<ReservedInstances>, plans: Vec<SavingsPlan>) -> Commitments {
    Commitments { reserved, plans, notes: Vec::new() }
}

#[track_caller]
pub(crate) fn close(one: f64, two: f64) {
    assert!((one - two).abs() < 1e-9, "{one} is not {two}");
}
