//! The names that the EC2 query protocol uses where they differ from the SDK's.

use serde_json::Value;

/// The SDK's name of a launch template member that a request spells in the singular.
pub(crate) fn launch_template_member(parent: &str, name: &str) -> String {
    let renamed = match (parent, name) {
        ("NetworkInterface" | "NetworkInterfaces", "SecurityGroupId") => "Groups",
        (_, "BlockDeviceMapping") => "BlockDeviceMappings",
        (_, "NetworkInterface") => "NetworkInterfaces",
        (_, "TagSpecification") => "TagSpecifications",
        (_, "Tag") => "Tags",
        (_, "SecurityGroupId") => "SecurityGroupIds",
        (_, "Ipv4Prefix") if parent == "NetworkInterface" => "Ipv4Prefixes",
        (_, "Ipv6Prefix") if parent == "NetworkInterface" => "Ipv6Prefixes",
        (_, other) => other,
    };
    renamed.to_owned()
}

/// A tree in the SDK's member names, in the names that answers use.
pub(crate) fn to_wire(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(name, value)| (wire_name(&name), to_wire(value))).collect())
        }
        Value::Array(entries) => Value::Array(entries.into_iter().map(to_wire).collect()),
        other => other,
    }
}

fn wire_name(name: &str) -> String {
    let renamed = match name {
        "BlockDeviceMappings" => "blockDeviceMappingSet",
        "EbsCards" => "ebsCardSet",
        "Groups" => "groupSet",
        "Ipv4Prefixes" => "ipv4PrefixSet",
        "Ipv6Addresses" => "ipv6AddressesSet",
        "Ipv6Prefixes" => "ipv6PrefixSet",
        "NetworkInterfaces" => "networkInterfaceSet",
        "PrivateIpAddresses" => "privateIpAddressesSet",
        "SecurityGroupIds" => "securityGroupIdSet",
        "TagSpecifications" => "tagSpecificationSet",
        "Tags" => "tagSet",
        "Workloads" => "workloadSet",
        other => {
            let mut letters = other.chars();
            let first = letters.next().map(|letter| letter.to_ascii_lowercase());
            return first.into_iter().chain(letters).collect();
        }
    };
    renamed.to_owned()
}
