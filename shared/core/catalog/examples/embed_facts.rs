//! Writes the EC2 facts that are compiled into nodeless.
//!
//! ```sh
//! cargo run -p nodeless-catalog --example embed_facts -- \
//!     instance-types.json offerings.json on-demand-prices.json vpc-limits.json network-bandwidth.json \
//!     shared/core/catalog/data/us-east-1.json.zz
//! ```
//!
//! The inputs: a DescribeInstanceTypes response; `{type: [zone]}`; `{type: dollars per hour}`; `{type: VpcLimits}`;
//! `{type: Mbps}`. Fields that [`InstanceTypeInfo`](nodeless_catalog::facts::InstanceTypeInfo) does not have are dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::Path;

use nodeless_catalog::facts::{Facts, Zone, parse_instance_types};
use serde::de::DeserializeOwned;

/// Zone names differ between accounts; this is the mapping of the account that the offerings were recorded in.
const ZONES: [(&str, &str); 6] = [
    ("us-east-1a", "use1-az2"),
    ("us-east-1b", "use1-az4"),
    ("us-east-1c", "use1-az6"),
    ("us-east-1d", "use1-az1"),
    ("us-east-1e", "use1-az3"),
    ("us-east-1f", "use1-az5"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [instance_types, offerings, prices, vpc_limits, bandwidth, output] = arguments.as_slice() else {
        return Err("expected five input files and the output file; see the head of examples/embed_facts.rs".into());
    };
    let facts = Facts {
        region: "us-east-1".to_owned(),
        zones: ZONES.map(|(name, id)| Zone { name: name.to_owned(), id: id.to_owned() }).to_vec(),
        instance_types: parse_instance_types(&read(instance_types)?)?,
        offerings: parse(offerings)?,
        on_demand_prices: parse(prices)?,
        derived_prices: BTreeSet::new(),
        local_prices: BTreeMap::new(),
        vpc_limits: parse(vpc_limits)?,
        network_bandwidth: parse(bandwidth)?,
    };
    let bytes = facts.encode()?;
    fs::write(output, &bytes).map_err(|error| format!("cannot write {output}: {error}"))?;
    println!("{output}: {} instance types, {} bytes", facts.instance_types.len(), bytes.len());
    Ok(())
}

fn read(path: impl AsRef<Path>) -> Result<Vec<u8>, String> {
    let path = path.as_ref();
    fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn parse<T: DeserializeOwned>(path: &str) -> Result<T, Box<dyn Error>> {
    serde_json::from_slice(&read(path)?).map_err(|error| format!("cannot parse {path}: {error}").into())
}
