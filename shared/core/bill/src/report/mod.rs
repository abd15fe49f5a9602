//! Reports: the records of a time, added up by cluster, NodePool, namespace, controller, label or offering.

mod before;
mod columns;
mod csv;
mod inexact;
mod month;
mod records;
mod rows;
pub mod text;
mod totals;

pub use before::Before;
pub use csv::csv;
pub use inexact::Inexact;
pub use month::{BudgetReport, Forecast};
pub use records::{Records, last_hours};
pub use rows::{By, ByError, Costs, IDLE, LEAVING, Period, ReservedRow, Row, STARTING};
pub use totals::{Consolidated, Interrupted, Reserved, Spot, Totals, Volumes};

use crate::hour::HourRecord;
use crate::open::Open;
use jiff::{SignedDuration, Timestamp};
use rows::RecordOfCluster;
use serde::Serialize;

/// Times up to this long are divided by hours, longer ones by days.
const BY_HOURS: SignedDuration = SignedDuration::from_hours(48);

/// What to report.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// The start, a full hour.
    pub from: Timestamp,
    /// The end, exclusive, a full hour.
    pub to: Timestamp,
    /// By what costs are divided, once for each.
    pub by: Vec<By>,
}

/// The records of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct ClusterRecords<'a> {
    /// The cluster's name.
    pub cluster: &'a str,
    /// Since when costs are recorded: earlier costs are not known.
    pub since: Timestamp,
    /// The records of hours that have ended.
    pub hours: &'a [HourRecord],
    /// The record of the hour that has not ended.
    pub open: Option<&'a Open>,
}

/// A report. Amounts are dollars, and hours of resources.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The clusters.
    pub clusters: Vec<ClusterReport>,
    /// The start.
    pub from: Timestamp,
    /// The end, exclusive: the requested one, or the end of the records.
    pub to: Timestamp,
    /// Everything together.
    pub totals: Totals,
    /// The hours that were recorded late, so that they are not exact.
    pub inexact: Vec<Inexact>,
    /// The time of equal length before the start.
    pub before: Before,
    /// The costs of the current month, if the report ends now. `None` otherwise.
    pub forecast: Option<Forecast>,
    /// The budgets, compared with the current month if the report ends now, or with the whole month that it covers. Empty otherwise.
    pub budgets: Vec<BudgetReport>,
    /// The instances in capacity reservations, by NodePool, instance type and zone.
    pub reserved: Vec<ReservedRow>,
    /// The costs, divided once for each [`By`].
    pub divisions: Vec<Division>,
}

/// A cluster in a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReport {
    /// The name.
    pub name: String,
    /// Since when costs are recorded.
    pub recorded_since: Timestamp,
}

/// The costs, divided by something.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Division {
    /// By what: `cluster`, `nodepool`, `namespace`, `controller`, `type` or `label=KEY`.
    pub by: String,
    /// The rows, the dearest first. Rows of the same name in several clusters are one.
    pub rows: Vec<Row>,
    /// The rows of each hour, or of each day in UTC if the time is longer than two days.
    pub periods: Vec<Period>,
}

impl ClusterRecords<'_> {
    fn entries(&self) -> impl Iterator<Item = RecordOfCluster<'_>> {
        let of_open = self.open.map(|open| open.hours.as_slice()).unwrap_or_default();
        self.hours.iter().chain(of_open).map(|record| RecordOfCluster { cluster: self.cluster, record })
    }

    /// The end of the records.
    fn through(&self) -> Option<Timestamp> {
        let end = |entry: RecordOfCluster<'_>| entry.record.hour.checked_add(SignedDuration::from_hours(1)).ok();
        self.open.map(|open| open.through).or_else(|| self.entries().filter_map(end).max())
    }
}

/// Adds up the records of the hours of a query, and those of the hour that has not ended. `None` if there are none.
#[must_use]
pub fn report(query: &Query, sources: &[ClusterRecords<'_>]) -> Option<Report> {
    let within = |entry: &RecordOfCluster<'_>| entry.record.hour >= query.from && entry.record.hour < query.to;
    let entries: Vec<RecordOfCluster<'_>> = sources.iter().flat_map(ClusterRecords::entries).filter(within).collect();
    if entries.is_empty() {
        return None;
    }
    let through = sources.iter().filter_map(ClusterRecords::through).max().unwrap_or(query.to);
    let to = query.to.min(through);
    let by_hours = query.to.duration_since(query.from) <= BY_HOURS;
    let (before, earlier) = before::before(query.from, to, sources);
    let division = |by: &By| Division {
        by: by.to_string(),
        rows: rows::rows(&entries, earlier.as_deref(), by),
        periods: rows::periods(&entries, by, query.from, to, by_hours),
    };
    let cluster =
        |source: &ClusterRecords<'_>| ClusterReport { name: source.cluster.to_owned(), recorded_since: source.since };
    Some(Report {
        clusters: sources.iter().map(cluster).collect(),
        from: query.from,
        to,
        totals: Totals::new(&entries, to),
        inexact: inexact::inexact(&entries),
        before,
        forecast: month::forecast(query, sources),
        budgets: sources.iter().flat_map(|source| month::budgets(query, source)).collect(),
        reserved: rows::reserved(&entries),
        divisions: query.by.iter().map(division).collect(),
    })
}

#[cfg(test)]
mod tests;
