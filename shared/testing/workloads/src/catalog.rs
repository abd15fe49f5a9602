//! Instance types of workloads.

use nodeless_catalog::node_class::AmiFamily;
use nodeless_catalog::{Catalog, Facts, NodeClassSettings, UnavailableOfferings};
use nodeless_model::{
    CapacityType, InstanceType, InstanceTypes, Offering, Overhead, Quantity, Requirement, Requirements, ResourceList,
    labels,
};

/// The zones of every workload.
pub const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];

/// The embedded catalog of us-east-1: all types in three zones, for an EC2NodeClass of Amazon Linux 2023. Its spot prices are
/// synthetic. Empty if the embedded data cannot be read, which a test of the catalog excludes.
#[must_use]
pub fn embedded() -> InstanceTypes {
    let Ok(facts) = Facts::embedded() else { return InstanceTypes::from([]) };
    let facts = facts.within_zones(&ZONES);
    let catalog = Catalog::synthetic(1, &facts);
    let settings = NodeClassSettings::new(AmiFamily::Al2023, facts.zones);
    InstanceTypes::from(catalog.instance_types(&settings, &UnavailableOfferings::default()))
}

/// Types with one ratio of memory to cpu in all sizes, as in Karpenter's benchmark.
#[must_use]
pub fn one_shape(count: i64) -> InstanceTypes {
    (1..=count).map(|cpu| sized(format!("size-{cpu:04}"), cpu, cpu * 2048, cpu * 10, 0.25 * cpu as f64)).collect()
}

/// A type with these cpus, MiB and pods that is available in all zones: on-demand at this price, as spot at three fifths of it.
#[must_use]
pub fn sized(name: String, cpu: i64, memory_mib: i64, pods: i64, price: f64) -> InstanceType {
    let one = |value: &str| Requirement::one_of([value]);
    InstanceType {
        requirements: Requirements::from([
            (labels::INSTANCE_TYPE, one(&name)),
            (labels::INSTANCE_CPU, one(&cpu.to_string())),
            (labels::ARCH, one("amd64")),
            (labels::OS, one("linux")),
            (labels::ZONE, Requirement::one_of(ZONES)),
            (labels::CAPACITY_TYPE, Requirement::one_of(["on-demand", "spot"])),
        ]),
        name,
        capacity: ResourceList::new()
            .with("cpu", Quantity::from_units(cpu))
            .with("memory", Quantity::from_mebibytes(memory_mib))
            .with("pods", Quantity::from_units(pods)),
        ebs_volumes: None,
        root_volume: None,
        overhead: Overhead {
            kube_reserved: ResourceList::new().with("cpu", Quantity::from_milli(100)),
            ..Overhead::default()
        },
        offerings: offerings(price),
    }
}

fn offerings(price: f64) -> Vec<Offering> {
    let sold = [(CapacityType::OnDemand, 1.0), (CapacityType::Spot, 0.6)];
    let offering = |zone: &str, (capacity_type, share)| Offering {
        zone: zone.into(),
        capacity_type,
        price: price * share,
        available: true,
        lacks_price: false,
        reservation: None,
        requirements: Requirements::new(),
    };
    ZONES.iter().flat_map(|zone| sold.map(|sold| offering(zone, sold))).collect()
}
