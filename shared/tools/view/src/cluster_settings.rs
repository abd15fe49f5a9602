//! The settings of the whole cluster: annotations of the Namespace `kube-system`.

use crate::amount::share;
use crate::pool::{BudgetRow, LimitRow, PoolFacts};
use jiff::Timestamp;
use nodeless_disruption::maintenance::{Maintenance, maintenance, waits};
use nodeless_disruption::pause::{Pause, pause};
use nodeless_model::cluster_limits::{MAX_DOLLARS_PER_HOUR, annotation_of};
use nodeless_model::monthly_budget::dollars_per_month;
use nodeless_model::resources::format_quantity;
use nodeless_model::{ClusterLimits, Quantity, StringMap};
use serde::{Deserialize, Serialize};

/// The name of the Namespace.
pub(crate) const SYSTEM: &str = "kube-system";

/// A Namespace, reduced to its annotations.
#[derive(Deserialize)]
pub(crate) struct Namespace {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    annotations: Option<StringMap>,
}

impl Namespace {
    pub(crate) fn annotations(self) -> StringMap {
        self.metadata.annotations.unwrap_or_default()
    }
}

/// The settings of the whole cluster, and how they apply now.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRow {
    /// The limits of all NodePools together.
    pub limits: Vec<LimitRow>,
    /// The budget of all NodePools together; `null` without one.
    pub budget: Option<BudgetRow>,
    /// Why no node of the cluster is disrupted voluntarily now, because of a pause or maintenance windows; `null` if none of them
    /// prevents it.
    pub disruption_waits: Option<String>,
    /// Until when the open maintenance window lasts; `null` if there are no windows, or none is open.
    pub maintenance_until: Option<Timestamp>,
    /// The annotations that are invalid, and what to do.
    pub invalid: Vec<String>,
}

impl ClusterRow {
    /// The settings by the annotations. `pools` are all NodePools, each with the price of its nodes in dollars per hour.
    pub(crate) fn new(annotations: &StringMap, pools: &[(&PoolFacts, f64)], now: Timestamp) -> Self {
        let (limits, invalid) = ClusterLimits::of(annotations);
        let mut invalid: Vec<String> = invalid.into_iter().map(|one| one.message).collect();
        let (mut disruption_waits, mut maintenance_until) = (waits(annotations, now), None);
        match maintenance(annotations, now) {
            Maintenance::Open { until } => maintenance_until = Some(until),
            Maintenance::Invalid(why) => invalid.push(why),
            Maintenance::Unrestricted | Maintenance::Closed { .. } => {}
        }
        match pause(annotations, now) {
            Pause::None => {}
            Pause::Paused { until: None } => disruption_waits = Some("disruption is paused for the cluster".to_owned()),
            Pause::Paused { until: Some(until) } => {
                disruption_waits = Some(format!("disruption is paused for the cluster until {until:.0}"));
            }
            Pause::Invalid(why) => {
                disruption_waits = Some("disruption is paused for the cluster".to_owned());
                invalid.push(why);
            }
        }
        let budget = dollars_per_month(annotations)
            .ok()
            .flatten()
            .map(|dollars_per_month| BudgetRow { dollars_per_month, ..BudgetRow::default() });
        Self { limits: limit_rows(&limits, pools), budget, disruption_waits, maintenance_until, invalid }
    }
}

fn limit_rows(limits: &ClusterLimits, pools: &[(&PoolFacts, f64)]) -> Vec<LimitRow> {
    let resources = limits.resources.iter().map(|(name, limit)| {
        let used: Quantity = pools.iter().fold(Quantity::ZERO, |sum, (pool, _)| sum + pool.used(name));
        LimitRow {
            resource: annotation_of(name).to_owned(),
            used: format_quantity(name, used),
            limit: format_quantity(name, limit),
            share: share(used.milli(), limit.milli()),
        }
    });
    let price = limits.dollars_per_hour.map(|limit| {
        let charged: f64 = pools.iter().map(|(pool, price)| pool.charged(*price)).sum();
        LimitRow::of_price(MAX_DOLLARS_PER_HOUR, charged, limit)
    });
    resources.chain(price).collect()
}
