//! Prints how long the catalog takes to decode and to build, and how large it is. Use a release build.
//!
//! ```sh
//! cargo run --release -p nodeless-catalog --example measure
//! ```

use std::error::Error;
use std::time::{Duration, Instant};

use nodeless_catalog::facts::parse_instance_types;
use nodeless_catalog::node_class::AmiFamily;
use nodeless_catalog::{Catalog, Facts, NodeClassSettings, UnavailableOfferings};

const ROUNDS: usize = 21;

fn main() -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let facts = Facts::embedded()?;
    println!("facts from the embedded file   {:>8.2} ms, once", milliseconds(start.elapsed()));

    let raw = serde_json::to_vec(&facts.instance_types.values().collect::<Vec<_>>())?;
    let catalog = Catalog::synthetic(1, facts);
    let bytes = catalog.encode()?;
    let offers: usize = catalog.types.iter().map(|entry| entry.offers.len()).sum();
    println!("{} types, {offers} types in zones, {} bytes stored", catalog.types.len(), bytes.len());

    let settings = NodeClassSettings::new(AmiFamily::Al2023, facts.zones.clone());
    let short = UnavailableOfferings::default();
    let build = || catalog.instance_types(&settings, &short).len();
    println!(
        "catalog from its stored form   {:>8.2} ms",
        median(|| Catalog::decode(&bytes).map_or(0, |c| c.types.len()))
    );
    println!("instance types of a node class {:>8.2} ms", median(build));
    println!(
        "both, from raw JSON ({:.1} MB)   {:>8.2} ms",
        f64::from(u32::try_from(raw.len())?) / 1e6,
        median(|| {
            let instance_types = parse_instance_types(&raw).unwrap_or_default();
            let catalog = Catalog::synthetic(1, &Facts { instance_types, ..rest(facts) });
            catalog.instance_types(&settings, &short).len()
        })
    );
    Ok(())
}

/// The facts without instance types.
fn rest(facts: &Facts) -> Facts {
    Facts {
        region: facts.region.clone(),
        zones: facts.zones.clone(),
        instance_types: std::collections::BTreeMap::new(),
        offerings: facts.offerings.clone(),
        on_demand_prices: facts.on_demand_prices.clone(),
        vpc_limits: facts.vpc_limits.clone(),
        network_bandwidth: facts.network_bandwidth.clone(),
    }
}

fn median(mut work: impl FnMut() -> usize) -> f64 {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            std::hint::black_box(work());
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    milliseconds(times[ROUNDS / 2])
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
