//! The settings of the whole cluster: annotations of the Namespace `kube-system`.

use crate::objects::amount::share;
use crate::objects::pool::{BudgetRow, LimitRow, PoolFacts};
use jiff::Timestamp;
use nodeless_disruption::maintenance::waits;
use nodeless_model::cluster_limits::{MAX_DOLLARS_PER_HOUR, annotation_of};
use nodeless_model::resources::format_quantity;
use nodeless_model::{ClusterLimits, ClusterOptions, OptionFault, Quantity, StringMap};
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
    pub(crate) fn options(&self) -> ClusterOptions {
        self.metadata.annotations.as_ref().map(ClusterOptions::new).unwrap_or_default()
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
    /// The annotations of nodeless that are invalid or have no effect, and what to do.
    pub invalid: Vec<String>,
}

impl ClusterRow {
    /// The settings by the annotations. `pools` are all NodePools, each with the price of its nodes in dollars per hour.
    pub(crate) fn new(options: &ClusterOptions, pools: &[(&PoolFacts, f64)], now: Timestamp) -> Self {
        let paused = options.pause.in_effect(now).map(|pause| {
            let until = pause.until().map(|until| format!(" until {until:.0}")).unwrap_or_default();
            format!("disruption is paused for the cluster{until}")
        });
        let budget = options.dollars_per_month.valid();
        Self {
            limits: limit_rows(&options.limits(), pools),
            budget: budget.map(|budget| BudgetRow { dollars_per_month: *budget, ..BudgetRow::default() }),
            disruption_waits: paused.or_else(|| waits(options, now)),
            maintenance_until: options.maintenance_windows.valid().and_then(|windows| windows.until(now)),
            invalid: OptionFault::of_cluster(options).into_iter().map(|fault| fault.message).collect(),
        }
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
