//! Reports: the records of a time, added up by NodePool, namespace, controller, label or offering.

mod csv;
mod rows;
mod totals;

pub use csv::csv;
pub use rows::{By, ByError, Costs, IDLE, LEAVING, Period, Row, STARTING};
pub use totals::{Consolidated, Interrupted, Reserved, Spot, Totals};

use crate::cost_budget::{Budget, Warning};
use crate::hour::HourRecord;
use crate::open::Open;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
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
    /// The end, exclusive: the requested one, or the end of the records.
    pub to: Timestamp,
    /// Since when costs are recorded, if that is later than the start.
    pub recorded_since: Option<Timestamp>,
    /// By what rows are formed: `nodepool`, `namespace`, `controller`, `type` or `label=KEY`.
    pub by: String,
    /// Everything together.
    pub totals: Totals,
    /// The rows, the dearest first.
    pub rows: Vec<Row>,
    /// The rows of each hour, or of each day in UTC if the time is longer than two days.
    pub periods: Vec<Period>,
    /// The budgets, compared with the current month if the report ends now, or with the whole month that it covers. Empty otherwise.
    pub budgets: Vec<BudgetReport>,
}

/// A budget, and what a month cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetReport {
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
        budgets: open.map(|open| budgets(open, query, &records)).unwrap_or_default(),
    })
}

/// The budgets, with the costs of the month of a query.
fn budgets(open: &Open, query: &Query, records: &[&HourRecord]) -> Vec<BudgetReport> {
    let day = |at: Timestamp| at.to_zoned(TimeZone::UTC).date();
    let begins_month = |at: Timestamp| {
        let zoned = at.to_zoned(TimeZone::UTC);
        zoned.date() == zoned.date().first_of_month() && zoned.time() == Time::midnight()
    };
    if query.to > open.through {
        let pools: Vec<&str> = open.totals.keys().map(String::as_str).collect();
        return compared(open, day(open.through).first_of_month(), &pools, &|name| {
            let totals = open.totals_of(name, open.through);
            (totals.this_month, Some(open.paces.get(name).copied().unwrap_or(totals.this_month)))
        });
    }
    let month = day(query.from);
    let ends_with_it = month.last_of_month().tomorrow().is_ok_and(|next| next == day(query.to));
    if !(begins_month(query.from) && begins_month(query.to) && ends_with_it) {
        return Vec::new();
    }
    let rows = rows::rows(records, &By::NodePool);
    let spent = |name: &str| rows.iter().filter(|row| row.name == name).map(|row| row.costs.dollars).sum();
    let pools: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    compared(open, month, &pools, &|name| (spent(name), None))
}

/// The budgets, compared with the costs of a NodePool in a month, until now and at the present pace. The budget of the cluster is
/// compared with the sum of these NodePools.
fn compared(open: &Open, month: Date, pools: &[&str], cost: &dyn Fn(&str) -> (f64, Option<f64>)) -> Vec<BudgetReport> {
    let add =
        |all: (f64, Option<f64>), it: (f64, Option<f64>)| (all.0 + it.0, it.1.map(|pace| pace + all.1.unwrap_or(0.0)));
    let one = |(name, dollars_per_month): (&String, &f64)| {
        let (dollars, pace) = if name.is_empty() {
            pools.iter().map(|name| cost(name)).reduce(add).unwrap_or((0.0, None))
        } else {
            cost(name)
        };
        let at_this_pace = pace.unwrap_or(dollars);
        let budget = Budget { dollars_per_month: *dollars_per_month, this_month: dollars, at_this_pace };
        BudgetReport {
            node_pool: (!name.is_empty()).then(|| name.clone()),
            dollars_per_month: *dollars_per_month,
            month,
            dollars,
            dollars_at_this_pace: pace,
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
