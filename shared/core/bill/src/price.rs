//! The price of an instance.

use nodeless_catalog::Catalog;
use nodeless_model::CapacityType;

/// The prices of an instance, in dollars an hour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Prices {
    /// The price that is paid; `None` if it is not known.
    pub(crate) paid: Option<f64>,
    /// The on-demand price. If there is none, the price that is paid, so that no saving is reported.
    pub(crate) on_demand: Option<f64>,
}

/// The current prices of an instance. `at_launch` is its price at the launch, or zero. An instance in a capacity reservation costs
/// nothing by itself, because the reservation is billed, used or not.
pub(crate) fn prices(
    catalog: &Catalog,
    instance_type: &str,
    zone: &str,
    capacity_type: CapacityType,
    at_launch: f64,
) -> Prices {
    let listed = |kind| catalog.dollars_per_hour(instance_type, zone, kind);
    let paid = match capacity_type {
        CapacityType::Reserved => Some(0.0),
        kind => listed(kind).or((at_launch > 0.0).then_some(at_launch)),
    };
    Prices { paid, on_demand: listed(CapacityType::OnDemand).or(paid) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_price_is_that_of_the_catalog_else_that_of_the_launch() {
        let catalog = Catalog::embedded().unwrap();
        let of = |name, kind, at_launch| prices(&catalog, name, "us-east-1a", kind, at_launch);
        let listed = |kind| catalog.dollars_per_hour("m5.large", "us-east-1a", kind);
        let spot = of("m5.large", CapacityType::Spot, 7.0);
        assert_eq!(spot.paid, listed(CapacityType::Spot));
        assert_eq!(spot.on_demand, listed(CapacityType::OnDemand));
        assert!(spot.paid < spot.on_demand);
        let reserved = of("m5.large", CapacityType::Reserved, 7.0);
        assert_eq!((reserved.paid, reserved.on_demand), (Some(0.0), listed(CapacityType::OnDemand)));
        assert_eq!(of("no.type", CapacityType::Spot, 0.5), Prices { paid: Some(0.5), on_demand: Some(0.5) });
        assert_eq!(of("no.type", CapacityType::Spot, 0.0), Prices { paid: None, on_demand: None });
    }
}
