//! Prices of nodes.

use nodeless_catalog::Catalog;
use nodeless_catalog::stored::{CatalogType, Price};
use nodeless_model::{CapacityType, StringMap, labels};

/// Knows what a node costs.
pub trait Prices {
    /// Dollars an hour of an instance; `None` if the price is not known.
    fn dollars_per_hour(&self, instance_type: &str, zone: &str, capacity_type: CapacityType) -> Option<f64>;

    /// Dollars an hour of a node with these labels. A node without a capacity type, such as one of a managed node group, counts
    /// as on-demand.
    fn of_labels(&self, all: &StringMap) -> Option<f64> {
        let capacity_type = match all.get(labels::CAPACITY_TYPE) {
            Some(value) => CapacityType::from_label(value)?,
            None if all.get("eks.amazonaws.com/capacityType").is_some_and(|kind| kind == "SPOT") => CapacityType::Spot,
            None => CapacityType::OnDemand,
        };
        self.dollars_per_hour(all.get(labels::INSTANCE_TYPE)?, all.get(labels::ZONE)?, capacity_type)
    }
}

impl Prices for Catalog {
    /// The price in the catalog. Instances in a capacity reservation have none: the reservation is paid for, whether it is used
    /// or not. The price of another region is not used.
    fn dollars_per_hour(&self, instance_type: &str, zone: &str, capacity_type: CapacityType) -> Option<f64> {
        let known: &CatalogType = self.get(instance_type)?;
        let offer = known.zones(self).find(|(it, _)| it.name == zone).map(|(_, offer)| offer);
        let in_region = || zone.strip_prefix(self.region.as_str()).is_some_and(|letter| letter.len() == 1);
        let price = match capacity_type {
            CapacityType::Reserved => None,
            CapacityType::Spot => offer?.spot_price,
            CapacityType::OnDemand => {
                offer.and_then(|offer| offer.on_demand_price).or(known.on_demand_price.filter(|_| in_region()))
            }
        };
        price.map(Price::dollars)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_price_of_a_region_is_not_used_for_another() {
        let catalog = Catalog::embedded().unwrap();
        let on_demand = |zone| catalog.dollars_per_hour("m5.large", zone, CapacityType::OnDemand);
        assert!(on_demand("us-east-1a").is_some_and(|price| price > 0.0));
        assert_eq!(on_demand("us-east-1f"), on_demand("us-east-1a"), "a zone that the catalog does not list");
        assert_eq!(on_demand("eu-west-1a"), None);
        assert_eq!(catalog.dollars_per_hour("m5.large", "us-east-1a", CapacityType::Reserved), None);
        assert_eq!(catalog.dollars_per_hour("no.type", "us-east-1a", CapacityType::OnDemand), None);
        let spot = catalog.dollars_per_hour("m5.large", "us-east-1a", CapacityType::Spot).unwrap();
        assert!(spot < on_demand("us-east-1a").unwrap());
    }
}
