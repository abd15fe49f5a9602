//! Unavailable offerings: those for which EC2 recently reported insufficient capacity.

use std::collections::HashMap;

use jiff::Timestamp;
use nodeless_model::shortage::{PlacedOffering, Shortage};

/// A record that something is unavailable for a time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unavailable {
    /// What is unavailable.
    pub shortage: Shortage,
    /// When the record expires.
    pub until: Timestamp,
}

/// The records that are valid at a time, prepared for lookups.
#[derive(Debug, Clone, Default)]
pub struct UnavailableOfferings {
    of_any_type: Vec<Shortage>,
    by_type: HashMap<String, Vec<Shortage>>,
}

impl UnavailableOfferings {
    /// The records that are valid at `now`.
    #[must_use]
    pub fn new(records: impl IntoIterator<Item = Unavailable>, now: Timestamp) -> Self {
        let mut offerings = Self::default();
        for Unavailable { shortage, .. } in records.into_iter().filter(|record| record.until > now) {
            match &shortage.instance_type {
                Some(kind) => offerings.by_type.entry(kind.clone()).or_default().push(shortage),
                None => offerings.of_any_type.push(shortage),
            }
        }
        offerings
    }

    /// Whether any record covers the offering.
    #[must_use]
    pub fn covers(&self, offering: &PlacedOffering<'_>) -> bool {
        let of_type = self.by_type.get(offering.instance_type).into_iter().flatten();
        self.of_any_type.iter().chain(of_type).any(|shortage| shortage.covers(offering))
    }

    /// Whether there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.of_any_type.is_empty() && self.by_type.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::CapacityType;

    fn at(second: i64, records: &[Shortage]) -> UnavailableOfferings {
        let until = Timestamp::from_second(180).unwrap();
        let records = records.iter().map(|shortage| Unavailable { shortage: shortage.clone(), until });
        UnavailableOfferings::new(records, Timestamp::from_second(second).unwrap())
    }

    fn offering(instance_type: &str) -> PlacedOffering<'_> {
        let capacity_type = CapacityType::Spot;
        PlacedOffering {
            instance_type,
            zone: "a",
            capacity_type,
            placement_group: None,
            partition: None,
            reservation_id: None,
        }
    }

    #[test]
    fn records_of_one_type_and_of_all_types_are_found() {
        let of_type = at(0, &[Shortage::of_offering("m5.large", "a", CapacityType::Spot)]);
        assert!(of_type.covers(&offering("m5.large")) && !of_type.covers(&offering("m5.xlarge")));
        assert!(at(0, &[Shortage::of_zone("a")]).covers(&offering("m5.xlarge")));
    }

    #[test]
    fn a_record_expires() {
        let records = [Shortage::of_offering("m5.large", "a", CapacityType::Spot)];
        assert!(at(179, &records).covers(&offering("m5.large")));
        assert!(at(180, &records).is_empty());
    }
}
