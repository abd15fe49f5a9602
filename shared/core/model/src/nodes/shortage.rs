//! What a lack of capacity covers.

use crate::CapacityType;
use serde::{Deserialize, Serialize};

/// The codes of CreateFleet for a lack of capacity that does not pass by itself, with what to do.
const ADVICE: [(&str, &str); 5] = [
    ("VcpuLimitExceeded", "raise the account's quota of on-demand vCPUs in Service Quotas"),
    (
        "MaxSpotInstanceCountExceeded",
        "raise the account's quota of spot vCPUs in Service Quotas, or allow on-demand in the NodePool",
    ),
    (
        "MaxFleetCountExceeded",
        "a quota of fleets does not apply to instant fleets, and AWS reports it for new or blocked accounts: ask AWS Support",
    ),
    ("InsufficientFreeAddressesInSubnet", "add a subnet with free addresses to the EC2NodeClass"),
    (
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
        "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
    ),
];

/// The advice for a code of CreateFleet, if there is one.
#[must_use]
pub fn advice(code: &str) -> Option<&'static str> {
    ADVICE.iter().find(|(advised, _)| *advised == code).map(|(_, advice)| *advice)
}

/// The code with advice that a message names, and the advice.
#[must_use]
pub fn advised(message: &str) -> Option<(&'static str, &'static str)> {
    ADVICE.into_iter().find(|(code, _)| message.contains(code))
}

/// The offerings that lack capacity: those that have all values that are set. `None` matches every value: with only a zone, nothing
/// can be launched there.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Shortage {
    /// The instance type.
    pub instance_type: Option<String>,
    /// The availability zone, by name.
    pub zone: Option<String>,
    /// The capacity type.
    pub capacity_type: Option<CapacityType>,
    /// The id of the placement group that lacks capacity. An EC2NodeClass with another group, or without one, is not affected.
    pub placement_group: Option<String>,
    /// The partition of the placement group.
    pub partition: Option<u32>,
    /// The id of the capacity reservation that is full.
    pub reservation_id: Option<String>,
}

/// An offering, and the placement group of its EC2NodeClass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedOffering<'a> {
    /// The instance type.
    pub instance_type: &'a str,
    /// The availability zone, by name.
    pub zone: &'a str,
    /// The capacity type.
    pub capacity_type: CapacityType,
    /// The id of the placement group.
    pub placement_group: Option<&'a str>,
    /// The partition of the placement group, if it has partitions.
    pub partition: Option<u32>,
    /// The id of the capacity reservation.
    pub reservation_id: Option<&'a str>,
}

impl Shortage {
    /// The shortage of one offering in every placement group and reservation.
    #[must_use]
    pub fn of_offering(instance_type: &str, zone: &str, capacity_type: CapacityType) -> Self {
        Self {
            instance_type: Some(instance_type.to_owned()),
            zone: Some(zone.to_owned()),
            capacity_type: Some(capacity_type),
            ..Self::default()
        }
    }

    /// The shortage of everything in a zone.
    #[must_use]
    pub fn of_zone(zone: &str) -> Self {
        Self { zone: Some(zone.to_owned()), ..Self::default() }
    }

    /// Whether the offering lacks capacity.
    #[must_use]
    pub fn covers(&self, offering: &PlacedOffering<'_>) -> bool {
        let is = |covered: &Option<String>, value: Option<&str>| {
            covered.as_deref().is_none_or(|covered| value == Some(covered))
        };
        is(&self.instance_type, Some(offering.instance_type))
            && is(&self.zone, Some(offering.zone))
            && self.capacity_type.is_none_or(|covered| covered == offering.capacity_type)
            && is(&self.placement_group, offering.placement_group)
            && self.partition.is_none_or(|covered| offering.partition == Some(covered))
            && is(&self.reservation_id, offering.reservation_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPOT: PlacedOffering<'static> = PlacedOffering {
        instance_type: "m5.large",
        zone: "a",
        capacity_type: CapacityType::Spot,
        placement_group: None,
        partition: None,
        reservation_id: None,
    };

    #[test]
    fn a_shortage_covers_exactly_its_offering() {
        let short = Shortage::of_offering("m5.large", "a", CapacityType::Spot);
        assert!(short.covers(&SPOT));
        assert!(short.covers(&PlacedOffering { placement_group: Some("pg-1"), ..SPOT }), "of every group");
        assert!(!short.covers(&PlacedOffering { capacity_type: CapacityType::OnDemand, ..SPOT }));
        assert!(!short.covers(&PlacedOffering { zone: "b", ..SPOT }));
        assert!(!short.covers(&PlacedOffering { instance_type: "m5.xlarge", ..SPOT }));
    }

    #[test]
    fn a_value_that_is_not_set_covers_all_values() {
        let zone = Shortage::of_zone("a");
        assert!(zone.covers(&SPOT) && zone.covers(&PlacedOffering { instance_type: "c5.large", ..SPOT }));
        assert!(!zone.covers(&PlacedOffering { zone: "b", ..SPOT }));
    }

    #[test]
    fn a_shortage_of_a_partition_covers_no_other_partition() {
        let partition = Shortage {
            placement_group: Some("pg-1".into()),
            partition: Some(2),
            ..Shortage::of_offering("m5.large", "a", CapacityType::Spot)
        };
        let covers =
            |placement_group, number| partition.covers(&PlacedOffering { placement_group, partition: number, ..SPOT });
        assert!(covers(Some("pg-1"), Some(2)));
        assert!(!covers(Some("pg-1"), Some(1)) && !covers(Some("pg-1"), None) && !covers(Some("pg-2"), Some(2)));
        let whole = Shortage { partition: None, ..partition.clone() };
        assert!(whole.covers(&PlacedOffering { placement_group: Some("pg-1"), partition: Some(7), ..SPOT }));
    }

    #[test]
    fn a_shortage_of_a_placement_group_or_reservation_covers_nothing_outside_it() {
        let group = Shortage { placement_group: Some("pg-1".into()), ..Shortage::of_zone("a") };
        let covers = |placement_group| group.covers(&PlacedOffering { placement_group, ..SPOT });
        assert_eq!([Some("pg-1"), Some("pg-2"), None].map(covers), [true, false, false]);
        let reserved = PlacedOffering { capacity_type: CapacityType::Reserved, ..SPOT };
        let full = Shortage {
            reservation_id: Some("cr-1".into()),
            ..Shortage::of_offering("m5.large", "a", CapacityType::Reserved)
        };
        let covers = |reservation_id| full.covers(&PlacedOffering { reservation_id, ..reserved });
        assert_eq!([Some("cr-1"), Some("cr-2"), None].map(covers), [true, false, false]);
    }
}
