//! The facts of regions other than us-east-1: their zones, and what their instance types cost there.

use super::{Facts, FactsError, HOME, InstanceTypeInfo, Zone};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// What each region but us-east-1 offers; `data/README.md` describes it.
static EMBEDDED: &[u8] = include_bytes!("../../data/regions.json.zz");

/// The month of the prices of us-east-1, of those of GovCloud, and of the published ones of other regions.
const MONTHS: [&str; 3] = ["July 2026", "August 2026", "May 2025"];

/// What is embedded of regions but us-east-1.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Regions {
    /// The instance types that us-east-1 does not have, by name.
    instance_types: BTreeMap<String, InstanceTypeInfo>,
    /// The offers of each region by instance type.
    regions: BTreeMap<String, Offers>,
}

type Offers = BTreeMap<String, Offer>;

/// What a region offers of an instance type, written as an array.
#[derive(Debug, Deserialize)]
struct Offer {
    /// Dollars per hour; `None` if it is unknown.
    price: Option<f64>,
    /// The numbers of the ids of the zones that offer the type; empty if they are unknown.
    zones: String,
    /// Whether the price was derived and not published.
    #[serde(default)]
    derived: bool,
}

/// Why there are no facts of a region.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RegionError {
    /// The text is not a region.
    #[error("{0:?} is not an AWS region; write it like us-west-2")]
    Name(String),
    /// The embedded data is damaged, which the crate's tests exclude.
    #[error(transparent)]
    Damaged(#[from] &'static FactsError),
}

/// The embedded prices that apply to a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddedPrices {
    /// Whether they are those of the region, and not of us-east-1.
    pub of_region: bool,
    /// The month that they are of, such as `May 2025`.
    pub month: &'static str,
}

/// The on-demand prices to assume in a region whose Price List cannot be read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AssumedPrices {
    /// Dollars per hour by instance type.
    pub by_type: BTreeMap<String, f64>,
    /// The instance types whose price was not published for the region, of a region with published prices.
    pub derived: BTreeSet<String>,
}

/// The zones of the regions that do not have the zones a, b and c with the ids 1, 2 and 3: the letter of the name, and the number of the
/// zone id. An account of its own may have other letters in AWS, which maps them to zones by account in older regions. Source:
/// DescribeAvailabilityZones as recorded in moto 5.2 (`ec2/models/availability_zones_and_regions.py`), and
/// <https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-availability-zones.html>.
const ZONES: [(&str, &[(char, u8)]); 9] = [
    ("ap-northeast-1", &[('a', 4), ('c', 1), ('d', 2)]),
    ("ap-northeast-2", &[('a', 1), ('b', 2), ('c', 3), ('d', 4)]),
    ("ap-south-1", &[('a', 1), ('b', 3), ('c', 2)]),
    ("ap-southeast-2", &[('a', 1), ('b', 3), ('c', 2)]),
    ("ca-central-1", &[('a', 1), ('b', 2), ('d', 4)]),
    ("eu-west-1", &[('a', 3), ('b', 1), ('c', 2)]),
    ("eu-west-2", &[('a', 2), ('b', 3), ('c', 1), ('d', 4)]),
    ("us-west-1", &[('a', 3), ('b', 1)]),
    ("us-west-2", &[('a', 2), ('b', 1), ('c', 3), ('d', 4)]),
];
/// The zones of all other regions.
const OF_OTHERS: &[(char, u8)] = &[('a', 1), ('b', 2), ('c', 3)];

impl Facts {
    /// The embedded facts of a region: its zones, the instance types that it offers, and their on-demand prices there.
    ///
    /// The prices of newer instance types than the prices of the region ([`EmbeddedPrices::month`]) are derived or unknown. A region that
    /// has no embedded offers has the instance types and prices of us-east-1; [`Facts::embedded_prices`] distinguishes them.
    ///
    /// # Errors
    /// When the text is not the name of a region.
    pub fn of_region(region: &str) -> Result<Self, RegionError> {
        let home = Self::embedded()?;
        if region == HOME {
            return Ok(home.clone());
        }
        let regions = regions()?;
        let Some(offers) = regions.regions.get(region) else { return home.renamed(region) };
        let zones = zones(region)?;
        let offered = |numbers: &str| {
            let offers = |zone: &&Zone| {
                numbers.is_empty() || zone.id.rsplit_once("az").is_some_and(|(_, number)| numbers.contains(number))
            };
            zones.iter().filter(offers).map(|zone| zone.name.clone()).collect()
        };
        let mut instance_types = of_kinds(&home.instance_types, offers);
        instance_types.extend(of_kinds(&regions.instance_types, offers));
        let known = || offers.iter().filter(|(kind, _)| instance_types.contains_key(*kind));
        Ok(Self {
            region: region.to_owned(),
            offerings: known().map(|(kind, offer)| (kind.clone(), offered(&offer.zones))).collect(),
            on_demand_prices: known().filter_map(|(kind, offer)| Some((kind.clone(), offer.price?))).collect(),
            derived_prices: known().filter(|(_, offer)| offer.derived).map(|(kind, _)| kind.clone()).collect(),
            vpc_limits: of_kinds(&home.vpc_limits, offers),
            network_bandwidth: of_kinds(&home.network_bandwidth, offers),
            zones,
            instance_types,
            local_prices: BTreeMap::new(),
        })
    }

    /// The embedded on-demand prices to assume in a region whose Price List cannot be read: those of the region, and for instance types
    /// without one that of us-east-1.
    ///
    /// # Errors
    /// When the embedded data is damaged.
    pub fn embedded_prices_in(region: &str) -> Result<AssumedPrices, RegionError> {
        let mut by_type = Self::embedded()?.on_demand_prices.clone();
        let Some(offers) = regions()?.regions.get(region) else {
            return Ok(AssumedPrices { by_type, derived: BTreeSet::new() });
        };
        by_type.extend(offers.iter().filter_map(|(kind, offer)| Some((kind.clone(), offer.price?))));
        let is_published =
            |kind: &String| offers.get(kind).is_some_and(|offer| offer.price.is_some() && !offer.derived);
        let derived = by_type.keys().filter(|kind| !is_published(kind)).cloned().collect();
        Ok(AssumedPrices { by_type, derived })
    }

    /// The embedded prices that apply to a region.
    #[must_use]
    pub fn embedded_prices(region: &str) -> EmbeddedPrices {
        let [home, government, others] = MONTHS;
        if region == HOME || !regions().is_ok_and(|all| all.regions.contains_key(region)) {
            return EmbeddedPrices { of_region: region == HOME, month: home };
        }
        let month = if region.starts_with("us-gov-") { government } else { others };
        EmbeddedPrices { of_region: true, month }
    }

    /// Renames the region and its zones to those of another region, and keeps instance types, offerings and prices. Zones without a
    /// counterpart are left out.
    fn renamed(&self, region: &str) -> Result<Self, RegionError> {
        let mut zones = zones(region)?;
        zones.truncate(self.zones.len());
        let names: BTreeMap<&str, &str> =
            self.zones.iter().zip(&zones).map(|(old, new)| (old.name.as_str(), new.name.as_str())).collect();
        let renamed = |old: &Vec<String>| {
            old.iter().filter_map(|zone| names.get(zone.as_str())).map(|zone| (*zone).to_owned()).collect()
        };
        let offerings = self.offerings.iter().map(|(kind, old)| (kind.clone(), renamed(old))).collect();
        Ok(Self { region: region.to_owned(), zones, offerings, ..self.clone() })
    }
}

/// The facts of the instance types that a region offers.
fn of_kinds<V: Clone>(facts: &BTreeMap<String, V>, offers: &Offers) -> BTreeMap<String, V> {
    let offered = facts.iter().filter(|(kind, _)| offers.contains_key(*kind));
    offered.map(|(kind, value)| (kind.clone(), value.clone())).collect()
}

/// What is embedded of regions but us-east-1.
fn regions() -> Result<&'static Regions, &'static FactsError> {
    static REGIONS: OnceLock<Result<Regions, FactsError>> = OnceLock::new();
    REGIONS.get_or_init(|| super::decompressed(EMBEDDED)).as_ref()
}

/// The zones of a region.
fn zones(region: &str) -> Result<Vec<Zone>, RegionError> {
    let short = short_name(region).ok_or_else(|| RegionError::Name(region.to_owned()))?;
    let known = ZONES.iter().find(|(name, _)| *name == region).map_or(OF_OTHERS, |(_, zones)| zones);
    let zone =
        |(letter, number): &(char, u8)| Zone { name: format!("{region}{letter}"), id: format!("{short}-az{number}") };
    Ok(known.iter().map(zone).collect())
}

/// The first part of the zone ids of a region: `usw2` for `us-west-2`, `apse1` for `ap-southeast-1`.
fn short_name(region: &str) -> Option<String> {
    let parts: Vec<&str> = region.split('-').collect();
    let [area, middle @ .., number] = parts.as_slice() else { return None };
    let area_valid = (2..=4).contains(&area.len()) && area.chars().all(|c| c.is_ascii_lowercase());
    if !area_valid || middle.is_empty() || number.parse::<u8>().is_err() {
        return None;
    }
    let middle: Option<String> = middle.iter().map(|part| short_part(part)).collect();
    Some(format!("{area}{}{number}", middle?))
}

fn short_part(part: &str) -> Option<&'static str> {
    Some(match part {
        "north" => "n",
        "south" => "s",
        "east" => "e",
        "west" => "w",
        "central" => "c",
        "northeast" => "ne",
        "southeast" => "se",
        "northwest" => "nw",
        "southwest" => "sw",
        "gov" => "g",
        "iso" => "i",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_has_its_own_offers_and_prices() {
        let facts = Facts::of_region("eu-central-1").unwrap();
        let names: Vec<(&str, &str)> = facts.zones.iter().map(|zone| (zone.name.as_str(), zone.id.as_str())).collect();
        assert_eq!(
            names,
            [("eu-central-1a", "euc1-az1"), ("eu-central-1b", "euc1-az2"), ("eu-central-1c", "euc1-az3")],
            "the zones of the embedded table"
        );
        // <https://aws.amazon.com/ec2/pricing/on-demand/>: Linux in Europe (Frankfurt).
        assert_eq!(facts.on_demand_prices["m5.large"], 0.115);
        assert_eq!(facts.offerings["a1.large"], ["eu-central-1b", "eu-central-1c"]);
        // Released after the prices of the region.
        assert_eq!(
            (facts.on_demand_prices["m9g.large"], facts.derived_prices.contains("m9g.large")),
            (0.117_221, true)
        );
        assert!(!facts.derived_prices.contains("m5.large"));
        assert!(facts.instance_types.contains_key("g7.2xlarge") && !facts.on_demand_prices.contains_key("g7.2xlarge"));
        assert_eq!(Facts::embedded_prices("eu-central-1"), EmbeddedPrices { of_region: true, month: "May 2025" });
        let assumed = Facts::embedded_prices_in("eu-central-1").unwrap();
        let home = &Facts::embedded().unwrap().on_demand_prices;
        let of_type = |kind: &str| (assumed.by_type[kind], assumed.derived.contains(kind));
        assert_eq!(of_type("m5.large"), (0.115, false));
        assert_eq!(of_type("m9g.large"), (0.117_221, true));
        assert_eq!(
            of_type("g7.2xlarge"),
            (home["g7.2xlarge"], true),
            "it is offered there, but its price is not known"
        );
    }

    #[test]
    fn a_region_has_types_that_us_east_1_lacks() {
        let facts = Facts::of_region("eu-north-1").unwrap();
        assert!(!Facts::embedded().unwrap().instance_types.contains_key("hpc7a.96xlarge"));
        assert_eq!(facts.instance_types["hpc7a.96xlarge"].v_cpu_info.default_v_cpus, 192);
        assert_eq!(facts.network_bandwidth["hpc7a.96xlarge"], 300_000);
    }

    #[test]
    fn an_offer_states_whether_its_price_is_derived() {
        let read =
            |json: &str| serde_json::from_str::<Offer>(json).map(|offer| (offer.price, offer.zones, offer.derived));
        assert_eq!(read(r#"[0.1, "12"]"#).unwrap(), (Some(0.1), "12".to_owned(), false));
        assert_eq!(read(r#"[0.1, "", true]"#).unwrap(), (Some(0.1), String::new(), true));
        assert_eq!(read(r#"[null, "3"]"#).unwrap(), (None, "3".to_owned(), false));
        assert!(read("[0.1]").is_err());
    }

    #[test]
    fn the_embedded_offers_are_complete() {
        let regions = &regions().unwrap().regions;
        assert_eq!(regions.len(), 33);
        for (region, offers) in regions {
            assert!(offers.len() > 150, "{region}: {}", offers.len());
            let facts = Facts::of_region(region).unwrap();
            assert_eq!(facts.region, *region);
            assert_eq!(facts.instance_types.keys().collect::<Vec<_>>(), facts.offerings.keys().collect::<Vec<_>>());
            let without_limits = facts.instance_types.keys().filter(|kind| !facts.vpc_limits.contains_key(*kind));
            let families: BTreeSet<&str> = without_limits.filter_map(|kind| Some(kind.split_once('.')?.0)).collect();
            let unknown = ["hpc6a", "hpc6id", "hpc7a", "hpc8a", "t8i", "trn2", "trn2u"];
            assert!(families.iter().all(|family| unknown.contains(family)), "{region}: {families:?}");
            for (kind, zones) in &facts.offerings {
                assert!(!zones.is_empty(), "{region}: no zone has {kind}");
            }
            for (kind, price) in &facts.on_demand_prices {
                assert!(price.is_finite() && *price > 0.0, "{region}: {kind} costs {price}");
            }
            assert!(
                facts.on_demand_prices.len() > 150
                    && facts.on_demand_prices.len() * 10 > facts.instance_types.len() * 8,
                "{region}"
            );
            assert!(facts.derived_prices.iter().all(|kind| facts.on_demand_prices.contains_key(kind)), "{region}");
        }
    }

    #[test]
    fn a_region_without_offers_has_those_of_us_east_1() {
        let facts = Facts::of_region("ap-east-2").unwrap();
        assert_eq!(facts.zones[0], Zone { name: "ap-east-2a".to_owned(), id: "ape2-az1".to_owned() });
        assert_eq!(facts.on_demand_prices, Facts::embedded().unwrap().on_demand_prices);
        assert_eq!(Facts::embedded_prices("ap-east-2"), EmbeddedPrices { of_region: false, month: "July 2026" });
        assert_eq!(Facts::embedded_prices("us-east-1"), EmbeddedPrices { of_region: true, month: "July 2026" });
        assert_eq!(Facts::embedded_prices("us-gov-west-1"), EmbeddedPrices { of_region: true, month: "August 2026" });
        let one_zone = Facts::embedded().unwrap().within_zones(&["us-east-1a"]).renamed("ap-east-2").unwrap();
        assert_eq!(one_zone.offerings["m5.large"], ["ap-east-2a"]);
    }

    #[test]
    fn a_region_has_its_own_letters() {
        let names = |region: &str| {
            let moved = Facts::of_region(region).unwrap();
            moved.zones.iter().map(|zone| zone.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names("us-west-2"), ["us-west-2a", "us-west-2b", "us-west-2c", "us-west-2d"]);
        assert_eq!(names("ap-northeast-1"), ["ap-northeast-1a", "ap-northeast-1c", "ap-northeast-1d"]);
        assert_eq!(names("ca-central-1"), ["ca-central-1a", "ca-central-1b", "ca-central-1d"]);
        assert_eq!(names("eu-central-1"), ["eu-central-1a", "eu-central-1b", "eu-central-1c"]);
        assert_eq!(names("us-west-1"), ["us-west-1a", "us-west-1b"]);
        assert_eq!(names("us-east-1").len(), 6, "the zones of the embedded facts");
        for (region, zones) in ZONES {
            let mut numbers: Vec<u8> = zones.iter().map(|(_, number)| *number).collect();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), zones.len(), "{region}: two zones have the same id");
        }
    }

    #[test]
    fn the_short_names_are_those_of_aws() {
        for (region, short) in
            [("us-east-1", "use1"), ("eu-central-1", "euc1"), ("us-gov-west-1", "usgw1"), ("ap-northeast-3", "apne3")]
        {
            assert_eq!(short_name(region).as_deref(), Some(short));
        }
        for wrong in ["", "us-east", "us-east-x", "mars-up-1", "us--1", "useast1", "us-east-1a"] {
            assert!(Facts::of_region(wrong).is_err(), "{wrong}");
        }
    }
}
