//! The facts of one region under the names of another.

use super::{Facts, Zone};
use std::collections::BTreeMap;

/// Why a text is not a region.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an AWS region; write it like us-west-2")]
pub struct RegionError(String);

/// The zones of the regions that do not have the zones a, b and c with the ids 1, 2 and 3: the letter of the name, and the number of the
/// zone id. An account of its own may have other letters in AWS, which maps them to zones by account in older regions. Source:
/// DescribeAvailabilityZones as recorded in moto 5.2 (`ec2/models/availability_zones_and_regions.py`), and
/// <https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-availability-zones.html>.
const ZONES: [(&str, &[(char, u8)]); 8] = [
    ("ap-northeast-1", &[('a', 4), ('c', 1), ('d', 2)]),
    ("ap-northeast-2", &[('a', 1), ('b', 2), ('c', 3), ('d', 4)]),
    ("ap-south-1", &[('a', 1), ('b', 3), ('c', 2)]),
    ("ap-southeast-2", &[('a', 1), ('b', 3), ('c', 2)]),
    ("ca-central-1", &[('a', 1), ('b', 2), ('d', 4)]),
    ("eu-west-1", &[('a', 3), ('b', 1), ('c', 2)]),
    ("eu-west-2", &[('a', 2), ('b', 3), ('c', 1)]),
    ("us-west-2", &[('a', 2), ('b', 1), ('c', 3), ('d', 4)]),
];
/// The zones of all other regions.
const OF_OTHERS: &[(char, u8)] = &[('a', 1), ('b', 2), ('c', 3)];

impl Facts {
    /// Renames the region and its zones to those of another region, and keeps instance types, offerings and prices. Zones without a
    /// counterpart are left out. The actual offerings and prices of that region are not known here.
    ///
    /// # Errors
    /// When the text is not the name of a region.
    pub fn renamed(&self, region: &str) -> Result<Self, RegionError> {
        if region == self.region {
            return Ok(self.clone());
        }
        let short = short_name(region).ok_or_else(|| RegionError(region.to_owned()))?;
        let known = ZONES.iter().find(|(name, _)| *name == region).map_or(OF_OTHERS, |(_, zones)| zones);
        let zone = |(letter, number): &(char, u8)| Zone {
            name: format!("{region}{letter}"),
            id: format!("{short}-az{number}"),
        };
        let zones: Vec<Zone> = known.iter().take(self.zones.len()).map(zone).collect();
        let names: BTreeMap<&str, &str> =
            self.zones.iter().zip(&zones).map(|(old, new)| (old.name.as_str(), new.name.as_str())).collect();
        let renamed = |old: &Vec<String>| {
            old.iter().filter_map(|zone| names.get(zone.as_str())).map(|zone| (*zone).to_owned()).collect()
        };
        let offerings = self.offerings.iter().map(|(kind, old)| (kind.clone(), renamed(old))).collect();
        Ok(Self { region: region.to_owned(), zones, offerings, ..self.clone() })
    }
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
    fn zones_have_the_names_and_ids_of_the_region() {
        let facts = Facts::embedded().unwrap().within_zones(&["us-east-1a", "us-east-1c"]);
        let moved = facts.renamed("ap-southeast-2").unwrap();
        let names: Vec<(&str, &str)> = moved.zones.iter().map(|zone| (zone.name.as_str(), zone.id.as_str())).collect();
        assert_eq!(names, [("ap-southeast-2a", "apse2-az1"), ("ap-southeast-2b", "apse2-az3")]);
        assert_eq!(moved.region, "ap-southeast-2");
        assert_eq!(moved.offerings["m5.large"], ["ap-southeast-2a", "ap-southeast-2b"]);
        assert_eq!(moved.on_demand_prices, facts.on_demand_prices);
    }

    #[test]
    fn a_region_has_its_own_letters() {
        let names = |region: &str| {
            let moved = Facts::embedded().unwrap().renamed(region).unwrap();
            moved.zones.iter().map(|zone| zone.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names("us-west-2"), ["us-west-2a", "us-west-2b", "us-west-2c", "us-west-2d"]);
        assert_eq!(names("ap-northeast-1"), ["ap-northeast-1a", "ap-northeast-1c", "ap-northeast-1d"]);
        assert_eq!(names("ca-central-1"), ["ca-central-1a", "ca-central-1b", "ca-central-1d"]);
        assert_eq!(names("eu-central-1"), ["eu-central-1a", "eu-central-1b", "eu-central-1c"]);
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
            assert!(Facts::embedded().unwrap().renamed(wrong).is_err(), "{wrong}");
        }
    }
}
