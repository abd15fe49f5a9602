//! Instance types, where they are offered, and the zones.

use super::prices::Prices;
use super::type_info;
use aws_sdk_ec2::Client;
use aws_sdk_ec2::types::{AvailabilityZone, AvailabilityZoneOptInStatus, Filter, LocationType};
use nodeless_aws::port_error;
use nodeless_catalog::facts::{Facts, InstanceTypeInfo, VpcLimits, Zone};
use nodeless_ports::{ErrorKind, PortError};
use std::collections::BTreeMap;

/// The maximum page size of DescribeInstanceTypes.
const TYPES_A_PAGE: i32 = 100;
/// The maximum page size of DescribeInstanceTypeOfferings.
const OFFERINGS_A_PAGE: i32 = 1000;

/// What EC2 reports about the region, without prices.
pub(super) struct Region {
    pub(super) zones: Vec<Zone>,
    /// The zone group of each Local Zone and Wavelength Zone, by the zone's name.
    pub(super) local_groups: BTreeMap<String, String>,
    pub(super) instance_types: BTreeMap<String, InstanceTypeInfo>,
    pub(super) offerings: BTreeMap<String, Vec<String>>,
}

/// Reads zones, types and offerings.
///
/// # Errors
/// When one of them cannot be read or is empty: every region has offerings.
pub(super) async fn read(client: &Client) -> Result<Region, PortError> {
    let listed = read_zones(client).await?;
    let region = Region {
        zones: zones(&listed),
        local_groups: local_groups(&listed),
        instance_types: read_types(client).await?,
        offerings: read_offerings(client).await?,
    };
    let counts = [
        ("EC2 DescribeAvailabilityZones", region.zones.len()),
        ("EC2 DescribeInstanceTypes", region.instance_types.len()),
        ("EC2 DescribeInstanceTypeOfferings", region.offerings.len()),
    ];
    match counts.into_iter().find(|(_, count)| *count == 0) {
        Some((operation, _)) => {
            let message = "EC2 listed none; the stored catalog is still used, and the next refresh reads them again";
            Err(PortError::new(ErrorKind::Unavailable, operation, message))
        }
        None => Ok(region),
    }
}

/// All zones that the account can use: EC2 lists zones that are not opted in only on request.
async fn read_zones(client: &Client) -> Result<Vec<AvailabilityZone>, PortError> {
    let answer = client
        .describe_availability_zones()
        .send()
        .await
        .map_err(|error| port_error("EC2 DescribeAvailabilityZones", &error))?;
    Ok(answer.availability_zones.unwrap_or_default())
}

/// The zones, Local Zones and Wavelength Zones included, as in Karpenter: an EC2NodeClass decides by its subnets which of them are used.
fn zones(listed: &[AvailabilityZone]) -> Vec<Zone> {
    let usable = |zone: &&AvailabilityZone| zone.opt_in_status() != Some(&AvailabilityZoneOptInStatus::NotOptedIn);
    let named = |zone: &AvailabilityZone| {
        Some(Zone { name: zone.zone_name()?.to_owned(), id: zone.zone_id().unwrap_or_default().to_owned() })
    };
    let mut zones: Vec<Zone> = listed.iter().filter(usable).filter_map(named).collect();
    zones.sort();
    zones
}

/// The zone group of each Local Zone and Wavelength Zone, which is their region code in the Price List.
fn local_groups(listed: &[AvailabilityZone]) -> BTreeMap<String, String> {
    let local = |zone: &&AvailabilityZone| zone.zone_type().is_some_and(|kind| kind != "availability-zone");
    let group = |zone: &AvailabilityZone| Some((zone.zone_name()?.to_owned(), zone.group_name()?.to_owned()));
    listed.iter().filter(local).filter_map(group).collect()
}

async fn read_types(client: &Client) -> Result<BTreeMap<String, InstanceTypeInfo>, PortError> {
    let mut types = BTreeMap::new();
    let mut pages = client
        .describe_instance_types()
        .filters(filter("supported-virtualization-type", &["hvm"]))
        .filters(filter("processor-info.supported-architecture", &["x86_64", "arm64"]))
        .into_paginator()
        .page_size(TYPES_A_PAGE)
        .send();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| port_error("EC2 DescribeInstanceTypes", &error))?;
        for info in page.instance_types() {
            // A type without a name cannot be launched, so leaving it out loses nothing.
            if let Some(info) = type_info::read(info) {
                types.insert(info.instance_type.clone(), info);
            }
        }
    }
    Ok(types)
}

async fn read_offerings(client: &Client) -> Result<BTreeMap<String, Vec<String>>, PortError> {
    let mut offerings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut pages = client
        .describe_instance_type_offerings()
        .location_type(LocationType::AvailabilityZone)
        .into_paginator()
        .page_size(OFFERINGS_A_PAGE)
        .send();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| port_error("EC2 DescribeInstanceTypeOfferings", &error))?;
        for offering in page.instance_type_offerings() {
            if let (Some(kind), Some(zone)) = (offering.instance_type(), offering.location()) {
                offerings.entry(kind.as_str().to_owned()).or_default().push(zone.to_owned());
            }
        }
    }
    for zones in offerings.values_mut() {
        zones.sort();
        zones.dedup();
    }
    Ok(offerings)
}

fn filter(name: &str, values: &[&str]) -> Filter {
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    Filter::builder().name(name).set_values(Some(values)).build()
}

/// The facts of the region. The limits of interfaces and the baseline bandwidth, which EC2 does not return, come from the
/// embedded facts; for a newer type, from what EC2 reports about its network cards.
pub(super) fn facts(region: &str, read: Region, prices: Prices, known: &Facts) -> Facts {
    let types = &read.instance_types;
    let is_new = |name: &str| !known.instance_types.contains_key(name);
    let limits = types.iter().filter_map(|(name, info)| {
        let limits = known.vpc_limits.get(name).copied();
        Some((name.clone(), limits.or_else(|| is_new(name).then(|| limits_of_cards(info)))?))
    });
    let bandwidth = types.iter().filter_map(|(name, info)| {
        let mbps = known.network_bandwidth.get(name).copied();
        Some((name.clone(), mbps.or_else(|| bandwidth_of_cards(info).filter(|_| is_new(name)))?))
    });
    Facts {
        region: region.to_owned(),
        vpc_limits: limits.collect(),
        network_bandwidth: bandwidth.collect(),
        zones: read.zones,
        instance_types: read.instance_types,
        offerings: read.offerings,
        on_demand_prices: prices.by_type,
        derived_prices: prices.derived,
        local_prices: prices.by_local_zone,
    }
}

/// Interfaces of the default card. EC2 does not return whether an unknown type supports a trunk interface, so it counts as not
/// supported.
fn limits_of_cards(info: &InstanceTypeInfo) -> VpcLimits {
    let network = &info.network_info;
    let card = network.network_cards.iter().find(|card| card.network_card_index == network.default_network_card_index);
    VpcLimits {
        interfaces: card.map_or(network.maximum_network_interfaces, |card| card.maximum_network_interfaces),
        ipv4_per_interface: network.ipv4_addresses_per_interface,
        trunking_compatible: false,
        branch_interfaces: 0,
    }
}

/// The total baseline of all cards, in Mbps; unknown if that of one card is.
fn bandwidth_of_cards(info: &InstanceTypeInfo) -> Option<u32> {
    let cards = &info.network_info.network_cards;
    let gbps: Option<f64> = cards.iter().map(|card| card.baseline_bandwidth_in_gbps).sum();
    let mbps = (gbps.filter(|_| !cards.is_empty())? * 1000.0).round();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range")]
    let mbps = mbps.clamp(0.0, f64::from(u32::MAX)) as u32;
    Some(mbps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zones_that_can_be_used_count() {
        let zone = |name: &str, kind: &str, status: AvailabilityZoneOptInStatus| {
            let zone = AvailabilityZone::builder().zone_name(name).zone_id(name).group_name(format!("{name}'s group"));
            zone.zone_type(kind).opt_in_status(status).build()
        };
        let listed = [
            zone("us-east-1b", "availability-zone", AvailabilityZoneOptInStatus::OptInNotRequired),
            zone("us-east-1a", "availability-zone", AvailabilityZoneOptInStatus::OptedIn),
            zone("us-east-1c", "availability-zone", AvailabilityZoneOptInStatus::NotOptedIn),
            zone("us-east-1-bos-1a", "local-zone", AvailabilityZoneOptInStatus::OptedIn),
            zone("us-east-1-wl1-bos-wlz-1", "wavelength-zone", AvailabilityZoneOptInStatus::OptedIn),
        ];
        let names: Vec<String> = zones(&listed).into_iter().map(|zone| zone.name).collect();
        assert_eq!(names, ["us-east-1-bos-1a", "us-east-1-wl1-bos-wlz-1", "us-east-1a", "us-east-1b"]);
        let groups =
            ["us-east-1-bos-1a", "us-east-1-wl1-bos-wlz-1"].map(|zone| (zone.into(), format!("{zone}'s group")));
        assert_eq!(local_groups(&listed), BTreeMap::from(groups));
    }

    #[test]
    fn unknown_limits_of_a_type_are_derived_from_its_cards() {
        let known = Facts::embedded().unwrap();
        let region = || Region {
            zones: known.zones.clone(),
            local_groups: BTreeMap::new(),
            instance_types: known.instance_types.clone(),
            offerings: known.offerings.clone(),
        };
        let full = facts("us-east-1", region(), Prices::default(), known);
        assert_eq!(full.vpc_limits["m5.large"], known.vpc_limits["m5.large"]);
        assert_eq!(full.network_bandwidth["m5.large"], known.network_bandwidth["m5.large"]);
        // Were the tables empty, the cards would state the same of most types.
        let derived = facts("us-east-1", region(), Prices::default(), &Facts::default());
        let limits = derived.vpc_limits["m5.large"];
        assert_eq!((limits.interfaces, limits.ipv4_per_interface, limits.branch_interfaces), (3, 10, 0));
        assert!(!limits.trunking_compatible);
        assert_eq!(derived.network_bandwidth["m5.large"], known.network_bandwidth["m5.large"]);
        let same =
            known.network_bandwidth.iter().filter(|(name, mbps)| derived.network_bandwidth.get(*name) == Some(mbps));
        assert!(same.count() > 1_100);
    }
}
