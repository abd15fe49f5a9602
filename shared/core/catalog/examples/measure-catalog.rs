//! Prints the times to decode and build the catalog, and its size. Use a release build.
//!
//! ```sh
//! cargo run --release -p nodeless-catalog --example measure-catalog
//! ```

use std::error::Error;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nodeless_catalog::facts::parse_instance_types;
use nodeless_catalog::node_class::AmiFamily;
use nodeless_catalog::{Catalog, Facts, NodeClassSettings, UnavailableOfferings, file};

const ROUNDS: usize = 5;
const REPETITIONS: u32 = 30;

fn main() -> Result<(), Box<dyn Error>> {
    let start = processor_time();
    let facts = Facts::embedded()?;
    println!("facts from the embedded file   {:>8.2} ms, once", milliseconds(processor_time().saturating_sub(start)));

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
        best(|| Catalog::decode(&bytes).map_or(0, |c| c.types.len()))
    );
    println!("instance types of a node class {:>8.2} ms", best(build));
    println!(
        "both, from raw JSON ({:.1} MB)   {:>8.2} ms",
        f64::from(u32::try_from(raw.len())?) / 1e6,
        best(|| {
            let instance_types = parse_instance_types(&raw).unwrap_or_default();
            let catalog = Catalog::synthetic(1, &Facts { instance_types, ..rest(facts) });
            catalog.instance_types(&settings, &short).len()
        })
    );
    let text = file::write(facts, &catalog)?;
    println!(
        "a catalog file ({:.1} MB)        {:>8.2} ms",
        f64::from(u32::try_from(text.len())?) / 1e6,
        best(|| file::parse(text.as_bytes()).map_or(0, |read| read.catalog.types.len()))
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
        derived_prices: facts.derived_prices.clone(),
        local_prices: facts.local_prices.clone(),
        vpc_limits: facts.vpc_limits.clone(),
        network_bandwidth: facts.network_bandwidth.clone(),
    }
}

/// The minimum processor time of several rounds in milliseconds, which other programs on the machine hardly affect. A round
/// repeats the work, because Linux measures in steps of some milliseconds.
fn best(mut work: impl FnMut() -> usize) -> f64 {
    let times = (0..ROUNDS).map(|_| {
        let start = processor_time();
        for _ in 0..REPETITIONS {
            std::hint::black_box(work());
        }
        processor_time().saturating_sub(start) / REPETITIONS
    });
    milliseconds(times.min().unwrap_or_default())
}

/// The processor time of this thread on Linux; the time of day on other systems.
fn processor_time() -> Duration {
    let on_linux = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    match on_linux.as_deref().and_then(|text| text.split(' ').next()?.parse().ok()) {
        Some(nanoseconds) => Duration::from_nanos(nanoseconds),
        None => {
            static START: OnceLock<Instant> = OnceLock::new();
            START.get_or_init(Instant::now).elapsed()
        }
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
