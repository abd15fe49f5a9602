//! What a month costs, and the budgets for it.

use super::rows::{self, By, RecordOfCluster};
use super::{ClusterRecords, Query};
use crate::cost_budget::{Budget, Warning};
use crate::hour::hour_of;
use crate::open::{Open, day_of, start_of};
use jiff::Timestamp;
use jiff::civil::Date;
use serde::Serialize;
use std::collections::BTreeMap;

/// The costs of the current month.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// The first day of the month.
    pub month: Date,
    /// The costs of the month until now.
    pub dollars: f64,
    /// The costs of the whole month at the present pace.
    pub dollars_at_this_pace: f64,
}

/// A budget, and what a month cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetReport {
    /// The cluster.
    pub cluster: String,
    /// The NodePool; `None` for the cluster.
    pub node_pool: Option<String>,
    /// The budget, as it is set now.
    pub dollars_per_month: f64,
    /// The first day of the month.
    pub month: Date,
    /// The costs of the month.
    pub dollars: f64,
    /// The costs of the whole month at the present pace; `None` for a month that has ended.
    pub dollars_at_this_pace: Option<f64>,
    /// `exceeded` or `exceeded-at-this-pace`, if it is.
    pub warning: Option<&'static str>,
}

/// The month that a report is about.
enum Month {
    /// The current one: the report ends now.
    Current,
    /// The whole of one that has ended.
    Ended(Date),
}

/// The month that a report is about; `None` if it is about another time.
fn month(query: &Query, through: Timestamp) -> Option<Month> {
    if query.to > through {
        return Some(Month::Current);
    }
    let first = day_of(query.from).first_of_month();
    let next = first.last_of_month().tomorrow().ok()?;
    if query.from == start_of(first) && query.to == start_of(next) {
        return Some(Month::Ended(first));
    }
    (query.to >= hour_of(through)).then_some(Month::Current)
}

/// The costs of the current month in all clusters. `None` if the report does not end now, or not all have a record of the current hour.
pub(super) fn forecast(query: &Query, sources: &[ClusterRecords<'_>]) -> Option<Forecast> {
    let opens: Option<Vec<&Open>> = sources.iter().map(|source| source.open).collect();
    let opens = opens?;
    let through = opens.iter().map(|open| open.through).max()?;
    let Month::Current = month(query, through)? else { return None };
    let month = day_of(through).first_of_month();
    // A cluster whose records ended in an earlier month has cost nothing in this one.
    let current = opens.iter().filter(|open| day_of(open.through) >= month);
    let (dollars, dollars_at_this_pace) = sum(current.flat_map(|open| this_month_by_pool(open).into_values()));
    Some(Forecast { month, dollars, dollars_at_this_pace })
}

/// The costs of each NodePool in the current month, until now and at the present pace.
fn this_month_by_pool(open: &Open) -> BTreeMap<&str, (f64, f64)> {
    let of = |name: &String| {
        let until_now = open.totals_of(name, open.through).this_month;
        (until_now, open.paces.get(name).copied().unwrap_or(until_now))
    };
    open.totals.keys().chain(open.paces.keys()).map(|name| (name.as_str(), of(name))).collect()
}

fn sum(all: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    all.fold((0.0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1))
}

/// The budgets of a cluster, with the costs of the month of a query.
pub(super) fn budgets(query: &Query, source: &ClusterRecords<'_>) -> Vec<BudgetReport> {
    let Some(open) = source.open else { return Vec::new() };
    match month(query, open.through) {
        None => Vec::new(),
        Some(Month::Current) => {
            let month = day_of(open.through).first_of_month();
            compared(source.cluster, open, month, &this_month_by_pool(open), true)
        }
        Some(Month::Ended(month)) => {
            let within = |entry: &RecordOfCluster<'_>| entry.record.hour >= query.from && entry.record.hour < query.to;
            let entries: Vec<RecordOfCluster<'_>> = source.entries().filter(within).collect();
            let rows = rows::rows(&entries, None, &By::NodePool);
            let spent = rows.iter().map(|row| (row.name.as_str(), (row.costs.dollars, row.costs.dollars))).collect();
            compared(source.cluster, open, month, &spent, false)
        }
    }
}

/// The budgets, compared with the costs of each NodePool in a month, until now and at the present pace. The budget of the cluster is
/// compared with the sum of these NodePools.
fn compared(
    cluster: &str,
    open: &Open,
    month: Date,
    by_pool: &BTreeMap<&str, (f64, f64)>,
    is_current: bool,
) -> Vec<BudgetReport> {
    let one = |(name, dollars_per_month): (&String, &f64)| {
        let of_pool = || by_pool.get(name.as_str()).copied().unwrap_or_default();
        let (dollars, at_this_pace) = if name.is_empty() { sum(by_pool.values().copied()) } else { of_pool() };
        let budget = Budget { dollars_per_month: *dollars_per_month, this_month: dollars, at_this_pace };
        BudgetReport {
            cluster: cluster.to_owned(),
            node_pool: (!name.is_empty()).then(|| name.clone()),
            dollars_per_month: *dollars_per_month,
            month,
            dollars,
            dollars_at_this_pace: is_current.then_some(at_this_pace),
            warning: budget.warning().map(|warning| match warning {
                Warning::Exceeded => "exceeded",
                Warning::AtThisPace => "exceeded-at-this-pace",
            }),
        }
    };
    open.budgets.iter().map(one).collect()
}
