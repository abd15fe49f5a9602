//! The catalog of the region: instance types, the zones that offer them, prices.

use std::collections::BTreeMap;

use nodeless_catalog::facts::{is_local_zone, region_of_zone, synthetic_spot_price};
use serde_json::Value;

/// An Availability Zone, Local Zone or Wavelength Zone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Zone {
    /// Name, such as `us-east-1a` or `us-west-2-lax-1a`.
    pub name: String,
    /// Account-independent id, such as `use1-az1`.
    pub id: String,
}

impl Zone {
    /// The zone type, by the name as EC2 forms it.
    pub fn kind(&self) -> &'static str {
        match self.location() {
            None => "availability-zone",
            Some(location) if location.starts_with("-wl") => "wavelength-zone",
            Some(_) => "local-zone",
        }
    }

    /// The opt-in status: a zone of the account that is not an Availability Zone was opted in.
    pub fn opt_in_status(&self) -> &'static str {
        if self.location().is_none() { "opt-in-not-required" } else { "opted-in" }
    }

    /// The zone group: `us-west-2-lax-1` of `us-west-2-lax-1a`, and the name of a Wavelength Zone. It is the region code of the zone's prices
    /// in the Price List.
    pub fn group(&self) -> String {
        match (region_of_zone(&self.name), self.location()) {
            (Some(region), None) => format!("{region}-zg-1"),
            _ => self.name.trim_end_matches(|letter: char| letter.is_ascii_lowercase()).to_owned(),
        }
    }

    /// What follows the region in the name of a Local Zone or Wavelength Zone.
    fn location(&self) -> Option<&str> {
        let rest = self.name.strip_prefix(region_of_zone(&self.name)?)?;
        rest.starts_with('-').then_some(rest)
    }
}

/// An instance type of the region.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TypeFacts {
    /// The DescribeInstanceTypes entry, in the SDK's member names (`VCpuInfo.DefaultVCpus` and so on).
    pub description: Value,
    /// Zones that offer the type.
    pub zones: Vec<String>,
    /// Linux on-demand price in dollars an hour; a type without a price is not available.
    pub on_demand_price: Option<f64>,
    /// Linux on-demand price in dollars an hour by zone, in zones with a price of their own.
    pub local_prices: BTreeMap<String, f64>,
    /// Spot price in dollars an hour by zone. A zone without an entry has no spot capacity of the type.
    pub spot_prices: BTreeMap<String, f64>,
}

impl TypeFacts {
    /// The architectures that the type runs, `x86_64` or `arm64` among them.
    pub fn architectures(&self) -> Vec<&str> {
        self.strings("/ProcessorInfo/SupportedArchitectures")
    }

    /// Virtual CPUs, 0 if the description has none.
    pub fn vcpus(&self) -> u64 {
        self.description.pointer("/VCpuInfo/DefaultVCpus").and_then(Value::as_u64).unwrap_or(0)
    }

    /// Memory in MiB, 0 if the description has none.
    pub fn memory_mib(&self) -> u64 {
        self.description.pointer("/MemoryInfo/SizeInMiB").and_then(Value::as_u64).unwrap_or(0)
    }

    /// Whether the type is bare metal.
    pub fn bare_metal(&self) -> bool {
        self.description.pointer("/BareMetal").and_then(Value::as_bool).unwrap_or(false)
    }

    fn strings(&self, pointer: &str) -> Vec<&str> {
        let list = self.description.pointer(pointer).and_then(Value::as_array);
        list.map(|values| values.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
    }
}

/// The catalog of the region.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RegionFacts {
    /// Region name, such as `us-east-1`.
    pub region: String,
    /// Zones, by name.
    pub zones: Vec<Zone>,
    /// Instance types by name.
    pub types: BTreeMap<String, TypeFacts>,
}

impl RegionFacts {
    /// The zone with this name.
    pub fn zone(&self, name: &str) -> Option<&Zone> {
        self.zones.iter().find(|zone| zone.name == name)
    }

    /// The hourly price of an instance type in a zone, if it is available.
    pub fn price(&self, instance_type: &str, zone: &str, spot: bool) -> Option<f64> {
        let facts = self.types.get(instance_type)?;
        if spot {
            facts.spot_prices.get(zone).copied()
        } else {
            let price = facts.local_prices.get(zone).copied().or(facts.on_demand_price);
            price.filter(|_| facts.zones.iter().any(|offered| offered == zone))
        }
    }

    /// The facts of the catalog, with its synthetic spot prices. A type without an on-demand price is not available, and Local Zones sell
    /// no spot capacity.
    pub fn from_catalog(facts: &nodeless_catalog::facts::Facts) -> Self {
        let zones = facts.zones.iter().map(|zone| Zone { name: zone.name.clone(), id: zone.id.clone() }).collect();
        let types = facts.instance_types.iter().map(|(name, info)| {
            let on_demand_price = facts.on_demand_prices.get(name).copied();
            let own_price =
                |(zone, prices): (&String, &BTreeMap<String, f64>)| Some((zone.clone(), *prices.get(name)?));
            let local_prices = facts.local_prices.iter().filter_map(own_price).collect();
            let zones = facts.offerings.get(name).cloned().unwrap_or_default();
            let sells_spot = info.supported_usage_classes.iter().any(|class| class == "spot");
            let spot_prices = match on_demand_price.filter(|_| sells_spot) {
                Some(price) => {
                    let sells = zones.iter().filter(|zone| !is_local_zone(zone));
                    let prices = sells.map(|zone| (zone.clone(), synthetic_spot_price(name, zone, price)));
                    prices.collect()
                }
                None => BTreeMap::new(),
            };
            let description = serde_json::to_value(info).unwrap_or_default();
            (name.clone(), TypeFacts { description, zones, on_demand_price, local_prices, spot_prices })
        });
        Self { region: facts.region.clone(), zones, types: types.collect() }
    }
}
