//! The region and zones of a cluster, as its objects name them.

use crate::facts::{Facts, HOME, RegionError, region_of_zone};
use nodeless_model::{StringMap, labels};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The number of zones of a region that a cluster is assumed to have, besides those that its objects name.
const ASSUMED_ZONES: usize = 3;

/// The region of a cluster and its zones, as its objects name them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// How many objects name a region.
    regions: BTreeMap<String, usize>,
    /// The ids of zones by name; `None` if no object names the id.
    zones: BTreeMap<String, Option<String>>,
}

impl Location {
    /// Adds the labels of a node.
    pub fn add_node(&mut self, all: &StringMap) {
        let zone = all.get(labels::ZONE);
        if let Some(zone) = zone {
            self.note_zone(zone, all.get(labels::ZONE_ID).map(String::as_str));
        }
        let of_zone = || zone.and_then(|zone| region_of_zone(zone)).map(str::to_owned);
        if let Some(region) = all.get(labels::REGION).cloned().or_else(of_zone) {
            *self.regions.entry(region).or_default() += 1;
        }
    }

    /// Adds a zone by name, with its id if that is known. A text that is not a zone is ignored.
    pub fn add_zone(&mut self, name: &str, id: Option<&str>) {
        if let Some(region) = region_of_zone(name) {
            *self.regions.entry(region.to_owned()).or_default() += 1;
            self.note_zone(name, id);
        }
    }

    fn note_zone(&mut self, name: &str, id: Option<&str>) {
        let known = self.zones.entry(name.to_owned()).or_default();
        if known.is_none() {
            *known = id.map(str::to_owned);
        }
    }

    /// The region that most objects name.
    #[must_use]
    pub fn region(&self) -> Option<&str> {
        self.regions.iter().max_by_key(|(name, count)| (**count, Reverse(*name))).map(|(name, _)| name.as_str())
    }

    /// The embedded facts of the cluster's region, or of another one. They have the zones that the cluster names, and the first three of
    /// the region. Names are assigned to ids as the cluster has them, because they differ between accounts.
    ///
    /// # Errors
    /// When there are no facts of the region.
    pub fn facts(&self, region: Option<&str>) -> Result<Facts, RegionError> {
        let facts = Facts::of_region(region.or_else(|| self.region()).unwrap_or(HOME))?;
        let mut facts = facts.with_zone_names(&self.zones);
        let assumed = facts.zones.iter().take(ASSUMED_ZONES);
        let named = facts.zones.iter().filter(|zone| self.zones.contains_key(&zone.name));
        let kept: Vec<String> = assumed.chain(named).map(|zone| zone.name.clone()).collect();
        facts.retain_zones(|name| kept.iter().any(|kept| kept == name));
        Ok(facts)
    }
}

impl Facts {
    /// Assigns the names of zones to the ids that an account has for them. Zones whose name or id is not given share the other names in
    /// their order; names of other regions are ignored.
    fn with_zone_names(mut self, given: &BTreeMap<String, Option<String>>) -> Self {
        let is_here = |name: &String| self.zones.iter().any(|zone| zone.name == *name);
        let by_id: BTreeMap<&str, &String> = given
            .iter()
            .filter(|(name, _)| is_here(name))
            .filter_map(|(name, id)| Some((id.as_deref()?, name)))
            .filter(|(id, _)| self.zones.iter().any(|zone| zone.id == *id))
            .collect();
        let mut others = self.zones.iter().map(|zone| &zone.name).filter(|name| !by_id.values().any(|it| it == name));
        let renamed: BTreeMap<String, String> = self
            .zones
            .iter()
            .filter_map(|zone| {
                let name = by_id.get(zone.id.as_str()).copied().or_else(|| others.next())?;
                Some((zone.name.clone(), name.clone()))
            })
            .collect();
        let rename = |name: &mut String| {
            if let Some(new) = renamed.get(name) {
                name.clone_from(new);
            }
        };
        self.zones.iter_mut().for_each(|zone| rename(&mut zone.name));
        self.zones.sort();
        for zones in self.offerings.values_mut() {
            zones.iter_mut().for_each(rename);
            zones.sort();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(pairs: &[(&str, &str)]) -> StringMap {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn zones(facts: &Facts) -> Vec<(&str, &str)> {
        facts.zones.iter().map(|zone| (zone.name.as_str(), zone.id.as_str())).collect()
    }

    #[test]
    fn without_objects_it_is_us_east_1() {
        let location = Location::default();
        assert_eq!(location.region(), None);
        let facts = location.facts(None).unwrap();
        assert_eq!(zones(&facts), [("us-east-1a", "use1-az2"), ("us-east-1b", "use1-az4"), ("us-east-1c", "use1-az6")]);
        assert_eq!(location.facts(Some("eu-west-3")).unwrap().region, "eu-west-3");
        assert!(location.facts(Some("mars")).is_err());
    }

    #[test]
    fn the_region_is_the_one_that_most_objects_name() {
        let mut location = Location::default();
        location.add_zone("us-west-2a", None);
        location.add_node(&node(&[(labels::REGION, "eu-central-1"), (labels::ZONE, "eu-central-1a")]));
        location.add_node(&node(&[(labels::ZONE, "eu-central-1b")]));
        location.add_zone("us-west-2-lax-1a", None);
        location.add_zone("anywhere", None);
        assert_eq!(location.region(), Some("eu-central-1"));
        assert_eq!(location.facts(None).unwrap().on_demand_prices["m5.large"], 0.115);
    }

    #[test]
    fn the_zones_of_an_account_keep_their_offerings() {
        let mut location = Location::default();
        // In this account, a is az2 and c is az1; the id of b is not known.
        location.add_node(&node(&[(labels::ZONE, "eu-central-1a"), (labels::ZONE_ID, "euc1-az2")]));
        location.add_zone("eu-central-1c", Some("euc1-az1"));
        location.add_zone("eu-central-1b", None);
        let facts = location.facts(None).unwrap();
        assert_eq!(
            zones(&facts),
            [("eu-central-1a", "euc1-az2"), ("eu-central-1b", "euc1-az3"), ("eu-central-1c", "euc1-az1")]
        );
        // euc1-az2 and euc1-az3 offer it.
        assert_eq!(facts.offerings["a1.large"], ["eu-central-1a", "eu-central-1b"]);
    }

    #[test]
    fn a_zone_that_is_named_is_added() {
        let mut location = Location::default();
        location.add_zone("us-east-1f", None);
        let names: Vec<String> = location.facts(None).unwrap().zones.into_iter().map(|zone| zone.name).collect();
        assert_eq!(names, ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1f"]);
    }
}
