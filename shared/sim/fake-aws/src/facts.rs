//! The catalog of the region: instance types, the zones that offer them, prices.

use std::collections::BTreeMap;

use nodeless_catalog::facts::synthetic_spot_price;
use serde_json::Value;

/// An availability zone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Zone {
    /// Name, such as `us-east-1a`.
    pub name: String,
    /// Account-independent id, such as `use1-az1`.
    pub id: String,
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
            facts.on_demand_price.filter(|_| facts.zones.iter().any(|offered| offered == zone))
        }
    }

    /// The facts of the catalog, with its synthetic spot prices. A type without an on-demand price is not available.
    pub fn from_catalog(facts: &nodeless_catalog::facts::Facts) -> Self {
        let zones = facts.zones.iter().map(|zone| Zone { name: zone.name.clone(), id: zone.id.clone() }).collect();
        let types = facts.instance_types.iter().map(|(name, info)| {
            let on_demand_price = facts.on_demand_prices.get(name).copied();
            let zones = facts.offerings.get(name).cloned().unwrap_or_default();
            let sells_spot = info.supported_usage_classes.iter().any(|class| class == "spot");
            let spot_prices = match on_demand_price.filter(|_| sells_spot) {
                Some(price) => {
                    let prices = zones.iter().map(|zone| (zone.clone(), synthetic_spot_price(name, zone, price)));
                    prices.collect()
                }
                None => BTreeMap::new(),
            };
            let description = serde_json::to_value(info).unwrap_or_default();
            (name.clone(), TypeFacts { description, zones, on_demand_price, spot_prices })
        });
        Self { region: facts.region.clone(), zones, types: types.collect() }
    }
}
