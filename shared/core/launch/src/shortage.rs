//! Errors of CreateFleet that report a lack of capacity, and what each of them covers.

use nodeless_model::instance::OfferingFailure;
use nodeless_model::shortage::Shortage;

/// Codes of CreateFleet for a temporary lack of capacity rather than an invalid request.
const LACKS_CAPACITY: [&str; 11] = [
    // The account has never used spot, and the role may not create the service-linked role: only on-demand is possible.
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
    "InsufficientInstanceCapacity",
    "MaxSpotInstanceCountExceeded",
    "VcpuLimitExceeded",
    "UnfulfillableCapacity",
    "Unsupported",
    NO_ADDRESSES,
    "MaxFleetCountExceeded",
    // The price of a spot instance is above the maximum price of the request.
    "SpotMaxPriceTooLow",
    RESERVATION_FULL,
    // An interruptible capacity reservation is being reclaimed.
    "InvalidCapacityReservationState.Unavailable",
];
const NO_ADDRESSES: &str = "InsufficientFreeAddressesInSubnet";
const RESERVATION_FULL: &str = "ReservationCapacityExceeded";
/// The codes of which a placement group may be the cause. Quotas of the account do not depend on one.
const OF_A_PLACEMENT_GROUP: [&str; 3] = ["InsufficientInstanceCapacity", "UnfulfillableCapacity", "Unsupported"];
/// The part of EC2's message by which Karpenter recognizes that a spread placement group has seven instances in a zone. The code is
/// that of any lack of capacity:
/// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html#placement-groups-limitations-spread
const SPREAD_LIMIT: &str = "limit of instances in this spread placement group";

/// Whether an error code of CreateFleet reports a temporary lack of capacity rather than an invalid request.
#[must_use]
pub fn lacks_capacity(code: &str) -> bool {
    LACKS_CAPACITY.contains(&code)
}

/// What lacks capacity after a failed launch, as in Karpenter; `None` if the failure is no lack of capacity, or EC2 does not name
/// the offering.
#[must_use]
pub fn shortage(failure: &OfferingFailure) -> Option<Shortage> {
    let known = |name: &String| (!name.is_empty()).then(|| name.clone());
    let zone = known(&failure.zone).filter(|_| failure.lacks_capacity)?;
    let zone = Shortage::of_zone(&zone);
    let code = failure.code.as_str();
    if failure.placement_group.is_some() && failure.message.contains(SPREAD_LIMIT) {
        // The limit counts the group's instances of all types.
        return Some(Shortage { placement_group: failure.placement_group.clone(), ..zone });
    }
    let of_type = Shortage { instance_type: Some(known(&failure.instance_type)?), ..zone };
    if code == NO_ADDRESSES {
        // A subnet without free addresses lacks them for every capacity type.
        return Some(of_type);
    }
    let of_group = OF_A_PLACEMENT_GROUP.contains(&code);
    Some(Shortage {
        capacity_type: Some(failure.capacity_type),
        placement_group: failure.placement_group.clone().filter(|_| of_group),
        partition: failure.partition.filter(|_| of_group),
        reservation_id: failure.reservation_id.clone(),
        ..of_type
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::CapacityType;

    fn failure(code: &str, message: &str) -> OfferingFailure {
        OfferingFailure {
            instance_type: "m5.large".into(),
            zone: "a".into(),
            capacity_type: CapacityType::OnDemand,
            code: code.into(),
            message: message.into(),
            lacks_capacity: lacks_capacity(code),
            placement_group: Some("pg-1".into()),
            partition: None,
            reservation_id: None,
        }
    }

    #[test]
    fn a_shortage_in_a_placement_group_is_one_of_the_group() {
        let offering = Shortage::of_offering("m5.large", "a", CapacityType::OnDemand);
        let in_group = Shortage { placement_group: Some("pg-1".into()), ..offering.clone() };
        assert_eq!(shortage(&failure("InsufficientInstanceCapacity", "no capacity")), Some(in_group));
        let outside = OfferingFailure { placement_group: None, ..failure("InsufficientInstanceCapacity", "") };
        assert_eq!(shortage(&outside), Some(offering.clone()));
        assert_eq!(shortage(&failure("VcpuLimitExceeded", "")), Some(offering.clone()), "a quota of the account");
        let of_partition =
            OfferingFailure { partition: Some(2), ..failure("InsufficientInstanceCapacity", "no capacity") };
        let expected = Shortage { placement_group: Some("pg-1".into()), partition: Some(2), ..offering.clone() };
        assert_eq!(shortage(&of_partition), Some(expected), "the partition that was requested");
        let of_quota = OfferingFailure { partition: Some(2), ..failure("VcpuLimitExceeded", "") };
        assert_eq!(shortage(&of_quota), Some(offering.clone()));
        let of_type = Shortage { capacity_type: None, ..offering };
        assert_eq!(shortage(&failure("InsufficientFreeAddressesInSubnet", "")), Some(of_type));
        assert_eq!(shortage(&failure("UnauthorizedOperation", "")), None);
    }

    #[test]
    fn the_limit_of_a_spread_placement_group_is_of_all_types_in_the_zone() {
        let message = "You've reached the limit of instances in this spread placement group. A spread placement group can have up \
                       to seven instances per Availability Zone.";
        let limit = failure("InsufficientInstanceCapacity", message);
        let zone = Shortage { placement_group: Some("pg-1".into()), ..Shortage::of_zone("a") };
        assert_eq!(shortage(&limit), Some(zone));
        let unknown = OfferingFailure { zone: String::new(), ..limit };
        assert_eq!(shortage(&unknown), None, "a shortage of all zones would be more than EC2 reports");
    }

    #[test]
    fn a_full_reservation_is_a_shortage_of_that_reservation() {
        let full = OfferingFailure {
            capacity_type: CapacityType::Reserved,
            reservation_id: Some("cr-1".into()),
            ..failure("ReservationCapacityExceeded", "")
        };
        let expected = Shortage {
            reservation_id: Some("cr-1".into()),
            ..Shortage::of_offering("m5.large", "a", CapacityType::Reserved)
        };
        assert_eq!(shortage(&full), Some(expected), "in every placement group");
    }
}
