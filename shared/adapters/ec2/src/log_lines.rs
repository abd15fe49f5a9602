//! The log lines.

use jiff::Timestamp;
use nodeless_catalog::stored::OnDemandPriceSource;
use nodeless_telemetry::lines;
use std::collections::BTreeSet;

lines! {
    /// The free addresses of subnets could not be read. Of several subnets in a zone, the launch uses the one that had the most when the EC2NodeClass was resolved.
    FreeAddressesUnread, "free-addresses-unread", Warn { node_class: &'a str, error: &'a str, }
    /// A launch needs more launch templates than a fleet may name. The most expensive offerings of these instance types are left out.
    InstanceTypesLeftOut, "instance-types-left-out", Warn { claim: &'a str, instance_types: &'a BTreeSet<String>, }
    /// The available capacity of capacity reservations could not be read. The numbers of the last refresh are still used.
    ReservationsUnread, "reservations-unread", Warn { error: &'a str, }
    /// The placement groups could not be read. Those of the last refresh are still used.
    PlacementGroupsUnread, "placement-groups-unread", Warn { error: &'a str, }
    /// The account's Savings Plans or Reserved Instances could not be read. Those of the last refresh are still used, until they end; without any (`kept` is false), nodes are planned without commitments.
    CommitmentsUnread, "commitments-unread", Warn { kept: bool, error: &'a str, }
    /// Commitments of the account are not used, each with the reason.
    CommitmentsLeftOut, "commitments-left-out", Warn { left_out: &'a [String], }
    /// On-demand prices could not be read. The prices of this source, which were read at this time, are still used; the next refresh reads them again.
    OnDemandPricesUnread, "on-demand-prices-unread", Warn { source: OnDemandPriceSource, read: Option<Timestamp>, error: &'a str, }
    /// Spot prices could not be read. Those of the last refresh are still used; without any (`kept` is false), on-demand prices are used instead.
    SpotPricesUnread, "spot-prices-unread", Warn { kept: bool, error: &'a str, }
    /// A capacity reservation that an EC2NodeClass selects is left out, because EC2 describes it in an unknown way.
    ReservationSkipped, "reservation-skipped", Warn { node_class: &'a str, why: &'a str, }
    /// An SSM parameter of an alias or term in `spec.amiSelectorTerms` of an EC2NodeClass does not exist, or contains no AMI id. It selects nothing.
    ParameterWithoutAmi, "parameter-without-ami", Warn { node_class: &'a str, parameter: &'a str, }
    /// An SSM parameter of an alias in `spec.amiSelectorTerms` of an EC2NodeClass could not be read. The AMI that it selected before is kept, if the class was resolved before.
    ParameterUnread, "parameter-unread", Warn { node_class: &'a str, parameter: &'a str, error: &'a str, }
    /// EKS did not describe the cluster. AMI aliases use the Kubernetes version, and launches the certificate authority, that were read last.
    ControlPlaneUnread, "control-plane-unread", Warn { error: &'a str, }
}
