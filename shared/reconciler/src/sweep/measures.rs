//! The metrics of a sweep: nodes, what they cost, orphans, and the age of the catalog.

use super::{SweepReport, Sweeper, age};
use jiff::Timestamp;
use nodeless_model::NodeClaim;
use nodeless_operations::log_lines::Failed;
use nodeless_operations::offers::catalog_written;
use nodeless_ports::PortError;
use nodeless_telemetry::{Metric, Metrics};
use std::collections::BTreeMap;
use std::time::Duration;

/// From this age of the catalog on, its age is a metric: the schedule refreshes it every five minutes.
const CATALOG_IS_OLD: Duration = Duration::from_mins(15);

impl Sweeper {
    pub(super) async fn measure(&self, claims: &[NodeClaim], report: &SweepReport, metrics: &mut Metrics) {
        let running = || claims.iter().filter(|claim| !claim.is_stopped());
        let spend: f64 =
            running().filter_map(|claim| claim.status.instance.as_ref()).map(|instance| instance.price).sum();
        // Only after a complete sweep: an alarm fires if it is missing for a while.
        metrics.count(Metric::NodeCount, running().filter(|claim| !claim.phase.is_leaving()).count());
        metrics.record(Metric::HourlySpendDollars, spend);
        measure_node_pools(claims, metrics);
        metrics.count(Metric::OrphansCollected, report.collected.len());
        match self.last_refresh().await {
            Ok(Some(refreshed)) => {
                let age = age(refreshed, self.context.now());
                if age >= CATALOG_IS_OLD {
                    metrics.record(Metric::CatalogAgeSeconds, age.as_secs_f64());
                }
            }
            Ok(None) => {}
            Err(error) => {
                self.context.log(&Failed { what: "read the time of the last refresh", why: &error.to_string() });
            }
        }
    }

    /// The time of the last refresh that read everything. Before the first one, that of the catalog.
    async fn last_refresh(&self) -> Result<Option<Timestamp>, PortError> {
        match self.claims.catalog_refreshed().await? {
            Some(refreshed) => Ok(Some(refreshed)),
            None => Ok(self.claims.catalog_version().await?.as_deref().and_then(catalog_written)),
        }
    }
}

/// The nodes of each NodePool that has claims, and what they cost.
fn measure_node_pools(claims: &[NodeClaim], metrics: &mut Metrics) {
    let mut pools: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for claim in claims.iter().filter(|claim| !claim.is_stopped()) {
        let Some(name) = &claim.node_pool else { continue };
        let (nodes, dollars) = pools.entry(name).or_default();
        *nodes += if claim.phase.is_leaving() { 0.0 } else { 1.0 };
        *dollars += claim.status.instance.as_ref().map_or(0.0, |instance| instance.price);
    }
    for (pool, (nodes, dollars)) in pools {
        metrics.record_of(pool, Metric::NodeCount, nodes);
        metrics.record_of(pool, Metric::HourlySpendDollars, dollars);
    }
}
