//! The facts of one region under the names of another.

use super::{Facts, Zone};
use std::collections::BTreeMap;

/// Why a text is not a region.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an AWS region; write it like us-west-2")]
pub struct RegionError(String);

impl Facts {
    /// The same instance types, offerings and prices with the names of another region: its zones are `REGIONa`, `REGIONb` and so on,
    /// with zone ids in the form that AWS uses. What is offered there really, and at which prices, is not known here.
    ///
    /// # Errors
    /// When the text is not the name of a region.
    pub fn renamed(&self, region: &str) -> Result<Self, RegionError> {
        let short = short_name(region).ok_or_else(|| RegionError(region.to_owned()))?;
        let zone = |(index, letter): (usize, char)| Zone {
            name: format!("{region}{letter}"),
            id: format!("{short}-az{}", index + 1),
        };
        let zones: Vec<Zone> = ('a'..='z').enumerate().take(self.zones.len()).map(zone).collect();
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
        assert_eq!(names, [("ap-southeast-2a", "apse2-az1"), ("ap-southeast-2b", "apse2-az2")]);
        assert_eq!(moved.region, "ap-southeast-2");
        assert_eq!(moved.offerings["m5.large"], ["ap-southeast-2a", "ap-southeast-2b"]);
        assert_eq!(moved.on_demand_prices, facts.on_demand_prices);
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
