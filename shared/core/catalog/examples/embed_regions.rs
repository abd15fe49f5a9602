//! Writes what regions other than us-east-1 offer, which is compiled into nodeless; `data/README.md` describes the output.
//!
//! ```sh
//! cargo run -p nodeless-catalog --example embed_regions -- \
//!     instance-types.other-regions.json offerings.regions.json on-demand-prices.regions.json on-demand-prices.derived.json \
//!     shared/core/catalog/data/regions.json.zz
//! ```
//!
//! The inputs: a DescribeInstanceTypes response with the types that us-east-1 does not have; `{region: {type: numbers of zone ids}}`;
//! `{region: {type: dollars per hour}}`; the same for derived prices, which replace the others. A region without offerings offers the
//! types that have a price, in zones that are unknown.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use nodeless_catalog::facts::parse_instance_types;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A value by region and instance type.
type ByRegion<T> = BTreeMap<String, BTreeMap<String, T>>;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [instance_types, offerings, prices, derived, output] = arguments.as_slice() else {
        return Err("expected four input files and the output file; see the head of examples/embed_regions.rs".into());
    };
    let offerings: ByRegion<String> = parse(offerings)?;
    let prices: ByRegion<f64> = parse(prices)?;
    let derived: ByRegion<f64> = parse(derived)?;
    let price = |all: &ByRegion<f64>, region: &str, kind: &str| all.get(region)?.get(kind).copied();
    let offer = |region: &str, kind: &String, zones: &str| {
        let offer = match price(&derived, region, kind) {
            Some(derived) => json!([derived, zones, true]),
            None => json!([price(&prices, region, kind), zones]),
        };
        (kind.clone(), offer)
    };
    let mut regions = BTreeMap::new();
    for (region, priced) in &prices {
        let offers: BTreeMap<String, Value> = match offerings.get(region) {
            Some(offered) => offered.iter().map(|(kind, zones)| offer(region, kind, zones)).collect(),
            None => priced.keys().map(|kind| offer(region, kind, "")).collect(),
        };
        regions.insert(region, offers);
    }
    let written = json!({ "instanceTypes": parse_instance_types(&read(instance_types)?)?, "regions": regions });
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&serde_json::to_vec(&written)?)?;
    let bytes = encoder.finish()?;
    fs::write(output, &bytes).map_err(|error| format!("cannot write {output}: {error}"))?;
    println!("{output}: {} regions, {} bytes", regions.len(), bytes.len());
    Ok(())
}

fn read(path: &str) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))
}

fn parse<T: DeserializeOwned>(path: &str) -> Result<T, Box<dyn Error>> {
    serde_json::from_slice(&read(path)?).map_err(|error| format!("cannot parse {path}: {error}").into())
}
