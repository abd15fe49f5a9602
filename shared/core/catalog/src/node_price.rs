//! Prices of nodes, by their labels.

use crate::Catalog;
use crate::facts::region_of_zone;
use crate::stored::Price;
use nodeless_model::{CapacityType, StringMap, labels};

/// The label by which EKS names the capacity type of a node of a managed node group.
const NODE_GROUP_CAPACITY_TYPE: &str = "eks.amazonaws.com/capacityType";

/// The capacity type of a node with these labels; `None` if its label has another value. A node without the label, such as one that
/// nobody provisioned, counts as on-demand.
#[must_use]
pub fn capacity_type_of(all: &StringMap) -> Option<CapacityType> {
    match all.get(labels::CAPACITY_TYPE) {
        Some(value) => CapacityType::from_label(value),
        None if all.get(NODE_GROUP_CAPACITY_TYPE).is_some_and(|kind| kind == "SPOT") => Some(CapacityType::Spot),
        None => Some(CapacityType::OnDemand),
    }
}

impl Catalog {
    /// The price of a node with these labels, in dollars an hour; `None` if it is not known.
    #[must_use]
    pub fn node_price(&self, all: &StringMap) -> Option<f64> {
        self.dollars_per_hour(all.get(labels::INSTANCE_TYPE)?, all.get(labels::ZONE)?, capacity_type_of(all)?)
    }

    /// Whether the price of a node with these labels is derived, and not published.
    #[must_use]
    pub fn derives_price(&self, all: &StringMap) -> bool {
        let on_demand = capacity_type_of(all) == Some(CapacityType::OnDemand);
        on_demand && all.get(labels::INSTANCE_TYPE).is_some_and(|kind| self.has_derived_price(kind))
    }

    /// The price of an instance, in dollars an hour. Instances in a capacity reservation have no price of their own: the reservation is
    /// billed, whether it is used or not. The price of another region is not used.
    #[must_use]
    pub fn dollars_per_hour(&self, instance_type: &str, zone: &str, capacity_type: CapacityType) -> Option<f64> {
        let known = self.get(instance_type)?;
        let offer = known.zones(self).find(|(it, _)| it.name == zone).map(|(_, offer)| offer);
        let in_region = || region_of_zone(zone) == Some(self.region.as_str());
        let price = match capacity_type {
            CapacityType::Reserved => None,
            CapacityType::Spot => offer?.spot_price,
            CapacityType::OnDemand => match offer {
                Some(offer) => offer.on_demand_price.or(known.on_demand_price),
                None => known.on_demand_price.filter(|_| in_region()),
            },
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
    #[test]
    fn the_price_of_a_node_depends_on_its_labels() {
        let catalog = Catalog::embedded().unwrap();
        let node = |more: &[(&str, &str)]| {
            let own = [(labels::INSTANCE_TYPE, "m5.large"), (labels::ZONE, "us-east-1a")];
            let all = own.iter().chain(more).map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            catalog.node_price(&all.collect())
        };
        let on_demand = catalog.dollars_per_hour("m5.large", "us-east-1a", CapacityType::OnDemand);
        assert_eq!(node(&[]), on_demand);
        assert_eq!(node(&[(NODE_GROUP_CAPACITY_TYPE, "ON_DEMAND")]), on_demand);
        assert!(node(&[(NODE_GROUP_CAPACITY_TYPE, "SPOT")]) < on_demand);
        assert_eq!(node(&[(labels::CAPACITY_TYPE, "spot")]), node(&[(NODE_GROUP_CAPACITY_TYPE, "SPOT")]));
        assert_eq!(node(&[(labels::CAPACITY_TYPE, "other")]), None);
    }
}
