//! Facts about EC2 in one region, as AWS publishes them.

mod instance_type_info;
mod region;
mod spot;
mod zone;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::sync::OnceLock;

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use instance_type_info::*;
pub use region::{AssumedPrices, EmbeddedPrices, RegionError};
pub use spot::synthetic_spot_price;
pub use zone::{Zone, is_local_zone, region_of_zone};

/// The region of the embedded facts, if nothing names another.
pub(crate) const HOME: &str = "us-east-1";

/// The facts of us-east-1, written by `examples/embed_facts.rs`: JSON of [`Facts`], compressed with zlib.
static EMBEDDED: &[u8] = include_bytes!("../../data/us-east-1.json.zz");

/// Facts about EC2 in one region.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// The region, such as `us-east-1`.
    pub region: String,
    /// The region's zones, by name.
    pub zones: Vec<Zone>,
    /// Instance types from DescribeInstanceTypes, by name.
    pub instance_types: BTreeMap<String, InstanceTypeInfo>,
    /// The names of the zones that offer an instance type, from DescribeInstanceTypeOfferings.
    pub offerings: BTreeMap<String, Vec<String>>,
    /// Linux on-demand price by instance type, in dollars per hour.
    pub on_demand_prices: BTreeMap<String, f64>,
    /// The instance types whose on-demand price was derived from those of other types and regions, because the price in this region is
    /// not known.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub derived_prices: BTreeSet<String>,
    /// Linux on-demand price, in dollars per hour, by zone and instance type, in zones with prices of their own: Local Zones and
    /// Wavelength Zones.
    #[serde(default)]
    pub local_prices: BTreeMap<String, BTreeMap<String, f64>>,
    /// The limits of the VPC CNI and the VPC resource controller for a type's interfaces, by instance type.
    pub vpc_limits: BTreeMap<String, VpcLimits>,
    /// Baseline network bandwidth by instance type, in Mbps.
    pub network_bandwidth: BTreeMap<String, u32>,
}

/// Network interfaces of a type, as amazon-vpc-resource-controller-k8s publishes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VpcLimits {
    /// Interfaces of the default network card.
    pub interfaces: u32,
    /// IPv4 addresses of one interface.
    #[serde(rename = "ipv4PerInterface")]
    pub ipv4_per_interface: u32,
    /// Whether the type supports a trunk interface, which security groups for pods need.
    pub trunking_compatible: bool,
    /// Branch interfaces of the trunk, one for each pod.
    pub branch_interfaces: u32,
}

/// Why facts could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FactsError {
    /// The bytes are not a zlib stream, or are damaged.
    #[error(
        "cannot decompress the EC2 facts: {0}; write the file again with `cargo run -p nodeless-catalog --example embed_facts`"
    )]
    Compression(#[from] std::io::Error),
    /// The decompressed text is not JSON of facts.
    #[error(
        "cannot read the EC2 facts: {0}; write the file again with `cargo run -p nodeless-catalog --example embed_facts`"
    )]
    Json(#[from] serde_json::Error),
}

/// Why a DescribeInstanceTypes response could not be read.
#[derive(Debug, thiserror::Error)]
pub enum InstanceTypesFileError {
    /// The response is neither an array of entries nor an object with `InstanceTypes`.
    #[error(
        "not a DescribeInstanceTypes response: {0}; expected a JSON array of entries, or an object with the array `InstanceTypes`"
    )]
    Shape(serde_json::Error),
    /// An entry cannot be read.
    #[error("entry {index} ({instance_type}) of the DescribeInstanceTypes response: {source}")]
    Entry {
        /// The index in the array, from 0.
        index: usize,
        /// The entry's own name, or `no InstanceType`.
        instance_type: String,
        /// What is wrong.
        source: serde_json::Error,
    },
}

impl Facts {
    /// Real facts of us-east-1 (1,381 instance types in six zones, Linux on-demand prices of July 2026). Six of the types, those of g4ad
    /// and dl1, are no longer offered in any zone.
    ///
    /// The first call decodes them, which takes some tens of milliseconds; later calls return the result. The mapping of zone
    /// names to zone ids differs between accounts; this is one of many: `us-east-1e` is use1-az3, which EKS does not support.
    ///
    /// # Errors
    ///
    /// If the embedded data is damaged, which the crate's tests exclude.
    pub fn embedded() -> Result<&'static Self, &'static FactsError> {
        static FACTS: OnceLock<Result<Facts, FactsError>> = OnceLock::new();
        FACTS.get_or_init(|| Self::decode(EMBEDDED)).as_ref()
    }

    /// The zones, types and prices of only these zones; unknown names are ignored.
    #[must_use]
    pub fn within_zones(&self, names: &[&str]) -> Self {
        let mut facts = self.clone();
        facts.retain_zones(|name| names.contains(&name));
        facts
    }

    /// Leaves out other zones.
    pub(crate) fn retain_zones(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.zones.retain(|zone| is_kept(&zone.name));
        self.offerings.values_mut().for_each(|zones| zones.retain(|zone| is_kept(zone)));
    }

    /// Decodes the bytes of [`Facts::encode`].
    ///
    /// # Errors
    ///
    /// When the bytes are damaged or have another format.
    pub fn decode(bytes: &[u8]) -> Result<Self, FactsError> {
        decompressed(bytes)
    }

    /// Encodes the facts as compressed JSON. Equal facts have equal bytes.
    ///
    /// # Errors
    ///
    /// When a price is not a finite number.
    pub fn encode(&self) -> Result<Vec<u8>, FactsError> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&serde_json::to_vec(self)?)?;
        Ok(encoder.finish()?)
    }
}

/// Decodes compressed JSON.
fn decompressed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, FactsError> {
    let mut json = Vec::new();
    ZlibDecoder::new(bytes).read_to_end(&mut json)?;
    Ok(serde_json::from_slice(&json)?)
}

/// The two forms of a DescribeInstanceTypes response.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Answer {
    Entries(Vec<serde_json::Value>),
    Object {
        #[serde(rename = "InstanceTypes")]
        entries: Vec<serde_json::Value>,
    },
}

/// Reads a DescribeInstanceTypes response: an array of entries, or the object that the AWS CLI prints.
///
/// # Errors
///
/// When the text is not such a response; the error contains the invalid entry.
pub fn parse_instance_types(json: &[u8]) -> Result<BTreeMap<String, InstanceTypeInfo>, InstanceTypesFileError> {
    // A valid array, the usual case, is read in one pass. Otherwise it is read entry by entry, to report the invalid one.
    if let Ok(entries) = serde_json::from_slice::<Vec<InstanceTypeInfo>>(json) {
        return Ok(entries.into_iter().map(|entry| (entry.instance_type.clone(), entry)).collect());
    }
    let (Answer::Entries(entries) | Answer::Object { entries }) =
        serde_json::from_slice(json).map_err(InstanceTypesFileError::Shape)?;
    let read = |(index, entry): (usize, serde_json::Value)| {
        let name = entry["InstanceType"].as_str().unwrap_or("no InstanceType").to_owned();
        match serde_json::from_value::<InstanceTypeInfo>(entry) {
            Ok(info) => Ok((name, info)),
            Err(source) => Err(InstanceTypesFileError::Entry { index, instance_type: name, source }),
        }
    };
    entries.into_iter().enumerate().map(read).collect()
}

#[cfg(test)]
mod tests;
