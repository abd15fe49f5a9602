//! Reports: the records of a time, added up by NodePool, namespace, label or offering.

mod csv;
mod rows;
mod totals;

pub use csv::csv;
pub use rows::{By, ByError, Costs, IDLE, LEAVING, Period, Row, STARTING};
pub use totals::{Consolidated, Interrupted, Reserved, Spot, Totals};

use crate::cost_budget::{Budget, Warning};
use crate::hour::HourRecord;
use crate::open::Open;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

/// Times up to this long are divided by hours, longer ones by days.
const BY_HOURS: SignedDuration = SignedDuration::from_hours(48);

/// What to report.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// The cluster's name.
    pub cluster: String,
    /// The start, a full hour.
    pub from: Timestamp,
    /// The end, exclusive, a full hour.
    pub to: Timestamp,
    /// By what rows are formed.
    pub by: By,
}

/// A report. Amounts are dollars, and hours of resources.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The cluster's name.
    pub cluster: String,
    /// The start.
    pub from: Timestamp,
    /// The end, exclusive: what was asked for, or until when costs are recorded.
    pub to: Timestamp,
    /// Since when costs are recorded, if that is later than the start.
    pub recorded_since: Option<Timestamp>,
    /// By what rows are formed: `nodepool`, `namespace`, `type` or `label=KEY`.
    pub by: String,
    /// Everything together.
    pub totals: Totals,
    /// The rows, the dearest first.
    pub rows: Vec<Row>,
    /// The same rows for each hour, or for each day in UTC if the time is longer than two days.
    pub periods: Vec<Period>,
    /// This month's budgets.
    pub budgets: Vec<BudgetReport>,
}

/// A budget of this month.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetReport {
    /// The NodePool; `None` for the cluster.
    pub node_pool: Option<String>,
    /// The budget.
    pub dollars_per_month: f64,
    /// What the month has cost.
    pub dollars_this_month: f64,
    /// What the whole month costs at the present pace.
    pub dollars_this_month_at_this_pace: f64,
    /// Whether it is `exceeded`, or `exceeded-at-this-pace`.
    pub warning: Option<&'static str>,
}

/// Adds up the records of the hours of a query, and those of the hour that has not ended. `None` if there are none.
#[must_use]
pub fn report(query: &Query, closed: &[HourRecord], open: Option<&Open>) -> Option<Report> {
    let of_open = open.map(|open| open.hours.as_slice()).unwrap_or_default();
    let within = |record: &&HourRecord| record.hour >= query.from && record.hour < query.to;
    let records: Vec<&HourRecord> = closed.iter().chain(of_open).filter(within).collect();
    if records.is_empty() {
        return None;
    }
    let last = records.iter().filter_map(|record| record.hour.checked_add(SignedDuration::from_hours(1)).ok()).max();
    let through = open.map(|open| open.through).or(last).unwrap_or(query.to);
    let to = query.to.min(through);
    let by_hours = query.to.duration_since(query.from) <= BY_HOURS;
    let first = records.iter().map(|record| record.hour).min().unwrap_or(query.from);
    let since = open.map_or(first, |open| open.since);
    Some(Report {
        cluster: query.cluster.clone(),
        from: query.from,
        to,
        recorded_since: (since > query.from).then_some(since),
        by: query.by.to_string(),
        totals: Totals::of(&records, to),
        rows: rows::rows(&records, &query.by),
        periods: rows::periods(&records, &query.by, (query.from, to), by_hours),
        budgets: open.map(budgets).unwrap_or_default(),
    })
}

/// The budgets, with what the month has cost until now.
fn budgets(open: &Open) -> Vec<BudgetReport> {
    let cost = |name: &str| {
        let totals = open.totals_of(name, open.through);
        let pace = open.paces.get(name).copied().unwrap_or(totals.this_month);
        (totals.this_month, pace)
    };
    let one = |(name, dollars): (&String, &f64)| {
        let (this_month, at_this_pace) = if name.is_empty() {
            open.totals.keys().map(|name| cost(name)).fold((0.0, 0.0), |all, it| (all.0 + it.0, all.1 + it.1))
        } else {
            cost(name)
        };
        let budget = Budget { dollars_per_month: *dollars, this_month, at_this_pace };
        BudgetReport {
            node_pool: (!name.is_empty()).then(|| name.clone()),
            dollars_per_month: *dollars,
            dollars_this_month: this_month,
            dollars_this_month_at_this_pace: at_this_pace,
            warning: budget.warning().map(|warning| match warning {
                Warning::Exceeded => "exceeded",
                Warning::AtThisPace => "exceeded-at-this-pace",
            }),
        }
    };
    open.budgets.iter().map(one).collect()
}

#[cfg(test)]
mod tests;
