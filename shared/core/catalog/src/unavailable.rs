//! Unavailable offerings: those for which EC2 recently reported insufficient capacity.

use std::collections::HashMap;

use jiff::Timestamp;
use nodeless_model::CapacityType;

/// A record that something is unavailable for a time. `None` matches everything: with only a zone, nothing can be launched there;
/// with only a capacity type, it cannot be launched anywhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unavailable {
    /// The instance type.
    pub instance_type: Option<String>,
    /// The zone, by name.
    pub zone: Option<String>,
    /// The capacity type.
    pub capacity_type: Option<CapacityType>,
    /// When the record expires.
    pub until: Timestamp,
}

/// The records that are valid at a time, prepared for lookups.
#[derive(Debug, Clone, Default)]
pub struct UnavailableOfferings {
    of_any_type: Vec<Scope>,
    by_type: HashMap<String, Vec<Scope>>,
}

type Scope = (Option<String>, Option<CapacityType>);

impl UnavailableOfferings {
    /// The records that are valid at `now`.
    #[must_use]
    pub fn new(records: impl IntoIterator<Item = Unavailable>, now: Timestamp) -> Self {
        let mut offerings = Self::default();
        for record in records.into_iter().filter(|record| record.until > now) {
            let scope = (record.zone, record.capacity_type);
            match record.instance_type {
                Some(instance_type) => offerings.by_type.entry(instance_type).or_default().push(scope),
                None => offerings.of_any_type.push(scope),
            }
        }
        offerings
    }

    /// Whether any record covers the offering.
    #[must_use]
    pub fn covers(&self, instance_type: &str, zone: &str, capacity_type: CapacityType) -> bool {
        let covers = |scope: &Scope| {
            scope.0.as_deref().is_none_or(|covered| covered == zone)
                && scope.1.is_none_or(|covered| covered == capacity_type)
        };
        self.of_any_type.iter().any(covers)
            || self.by_type.get(instance_type).is_some_and(|scopes| scopes.iter().any(covers))
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

    fn record(instance_type: Option<&str>, zone: Option<&str>, capacity_type: Option<CapacityType>) -> Unavailable {
        Unavailable {
            instance_type: instance_type.map(Into::into),
            zone: zone.map(Into::into),
            capacity_type,
            until: Timestamp::from_second(180).unwrap(),
        }
    }

    fn at(second: i64, records: &[Unavailable]) -> UnavailableOfferings {
        UnavailableOfferings::new(records.iter().cloned(), Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn a_record_covers_exactly_its_offering() {
        let short = at(0, &[record(Some("m5.large"), Some("a"), Some(CapacityType::Spot))]);
        assert!(short.covers("m5.large", "a", CapacityType::Spot));
        assert!(!short.covers("m5.large", "a", CapacityType::OnDemand));
        assert!(!short.covers("m5.large", "b", CapacityType::Spot));
        assert!(!short.covers("m5.xlarge", "a", CapacityType::Spot));
    }

    #[test]
    fn an_absent_field_of_a_record_covers_all_values() {
        let short = at(0, &[record(None, Some("a"), None), record(None, None, Some(CapacityType::Spot))]);
        assert!(short.covers("m5.large", "a", CapacityType::OnDemand));
        assert!(short.covers("c5.large", "b", CapacityType::Spot));
        assert!(!short.covers("c5.large", "b", CapacityType::OnDemand));
    }

    #[test]
    fn a_record_expires() {
        let records = [record(Some("m5.large"), Some("a"), Some(CapacityType::Spot))];
        assert!(at(179, &records).covers("m5.large", "a", CapacityType::Spot));
        assert!(at(180, &records).is_empty());
    }
}
