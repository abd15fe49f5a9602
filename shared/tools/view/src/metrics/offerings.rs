//! Metrics of instance types and their prices: `pkg/controllers/metrics/metrics.go` and `pkg/providers/instancetype/metrics.go` of
//! Karpenter's AWS provider.

use super::Sources;
use super::text::{Labels, Writer};
use nodeless_catalog::stored::Listing;
use nodeless_model::CapacityType;

/// Whether an offering is available is not published: which offerings EC2 refused recently is known to nodeless alone.
pub(super) fn write(sources: &Sources<'_>, writer: &mut Writer<'_>) {
    let catalog = sources.catalog;
    let named = |name: &str| Labels::default().with("instance_type", name);
    writer.gauge("karpenter_cloudprovider_instance_type_cpu_cores", "VCPUs cores for a given instance type.", &[]);
    for one in &catalog.types {
        writer.sample(&named(&one.facts.name), f64::from(one.facts.cpus));
    }
    writer.gauge(
        "karpenter_cloudprovider_instance_type_memory_bytes",
        "Memory, in bytes, for a given instance type.",
        &[],
    );
    for one in &catalog.types {
        #[expect(clippy::cast_precision_loss, reason = "less than 2^52 MiB")]
        let mebibytes = one.facts.memory_mib as f64;
        writer.sample(&named(&one.facts.name), mebibytes * 1024.0 * 1024.0);
    }
    writer.gauge(
        "karpenter_cloudprovider_instance_type_offering_price_estimate",
        "Instance type offering estimated hourly price used when making informed decisions on node cost calculation, based on instance type, capacity type, and zone.",
        &[],
    );
    for one in &catalog.types {
        for (zone, offer) in one.zones(catalog) {
            let mut price = |capacity_type: CapacityType, is_sold: bool, listing: Listing| {
                if !is_sold || listing == Listing::Absent {
                    return;
                }
                if let Some(price) = catalog.dollars_per_hour(&one.facts.name, &zone.name, capacity_type) {
                    let labels =
                        named(&one.facts.name).with("capacity_type", capacity_type.as_str()).with("zone", &zone.name);
                    writer.sample(&labels, price);
                }
            };
            price(CapacityType::OnDemand, one.facts.on_demand, offer.on_demand);
            price(CapacityType::Spot, one.facts.spot && sources.has_spot_prices(), offer.spot);
        }
    }
}
