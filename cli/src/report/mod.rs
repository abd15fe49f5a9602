//! What the nodes of a cluster cost: the records of the claims table, and reports about them.

pub(crate) mod html;
#[cfg(feature = "aws")]
pub(crate) mod stored;
pub(crate) mod text;

use crate::error::CliError;
use crate::table::Item;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use nodeless_bill::report::{By, Query, Report, report};
use nodeless_bill::{HourRecord, Open, StoredError, decode, hour_of};
use serde::de::DeserializeOwned;

/// The records of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// The records of hours that have ended.
    pub(crate) hours: Vec<HourRecord>,
    /// The record of the current hour.
    pub(crate) open: Option<Open>,
}

/// The time to report, as given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) from: Option<Timestamp>,
    pub(crate) to: Option<Timestamp>,
}

impl Times {
    /// Refuses times that no report can have, before anything is read.
    ///
    /// # Errors
    /// If the end is not after the start.
    pub(crate) fn check(self) -> Result<(), CliError> {
        match (self.from, self.to) {
            (Some(from), Some(to)) if from >= to => Err(CliError::ReportTimes { from, to }),
            _ => Ok(()),
        }
    }

    /// The start and the end: without them, from the start of the month to the end of the last record, which `through` is in. `None`
    /// if the start is after the last record.
    pub(crate) fn resolve(self, through: Timestamp) -> Option<(Timestamp, Timestamp)> {
        let hour = SignedDuration::from_hours(1);
        let to = self.to.unwrap_or_else(|| hour_of(through).checked_add(hour).unwrap_or(through));
        let from = self.from.unwrap_or_else(|| month_of(to.checked_sub(hour).unwrap_or(to)));
        (from < to).then_some((from, to))
    }
}

/// The start of the month of a time in UTC.
fn month_of(at: Timestamp) -> Timestamp {
    let first = at.to_zoned(TimeZone::UTC).date().first_of_month();
    first.to_zoned(TimeZone::UTC).map_or(at, |zoned| zoned.timestamp())
}

/// A time of the command line: a date, which begins at midnight in UTC, or a full hour.
pub(crate) fn time(text: &str) -> Result<Timestamp, String> {
    let at = match text.parse::<Date>() {
        Ok(date) if !text.contains('T') => date.to_zoned(TimeZone::UTC).map(|zoned| zoned.timestamp()).ok(),
        _ => text.parse::<Timestamp>().ok(),
    };
    let at = at.ok_or("write a date such as 2026-11-01, or a time such as 2026-11-01T13:00:00Z")?;
    if hour_of(at) == at { Ok(at) } else { Err("costs are recorded by the hour: write a full hour of UTC".to_owned()) }
}

/// Decodes the record of the item `name`.
///
/// # Errors
/// If the bytes are no such record, or another version wrote them.
pub(crate) fn decoded<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T, CliError> {
    decode(bytes).map_err(|source: StoredError| CliError::CostRecord { item: name.to_owned(), source })
}

/// The records among items of the claims table.
pub(crate) fn of_items(items: &[Item]) -> Result<Records, CliError> {
    let mut records = Records::default();
    for item in items {
        if item.key == "cost#open" {
            records.open = Some(decoded(&item.key, &item.bytes()?)?);
        } else if item.key.starts_with("hour#") {
            records.hours.push(decoded(&item.key, &item.bytes()?)?);
        }
    }
    Ok(records)
}

impl Records {
    /// Until when there are records.
    pub(crate) fn through(&self) -> Option<Timestamp> {
        let last = || self.hours.iter().map(|record| record.hour).max();
        self.open.as_ref().map(|open| open.through).or_else(last)
    }

    /// The report about them.
    ///
    /// # Errors
    /// If there is no record of the time.
    pub(crate) fn report(&self, cluster: &str, times: Times, by: By) -> Result<Report, CliError> {
        let nothing = || CliError::NoCosts { what: self.recorded() };
        let (from, to) = self.through().and_then(|through| times.resolve(through)).ok_or_else(nothing)?;
        let query = Query { cluster: cluster.to_owned(), from, to, by };
        let made = report(&query, &self.hours, self.open.as_ref()).ok_or_else(nothing)?;
        self.check_label(&query.by)?;
        Ok(made)
    }

    /// Describes the recorded times, for the error of a report about other times.
    fn recorded(&self) -> String {
        let hours = || self.hours.iter().map(|record| record.hour);
        let known = match &self.open {
            Some(open) => Some((open.since, open.through)),
            None => hours().min().zip(hours().max()),
        };
        match known {
            Some((since, through)) => format!("costs are recorded from {since:.0} to {through:.0}, for hours in which a NodePool has nodes"),
            None => "no costs are recorded: check the names of the table and the cluster; the planner records them every five \
                     minutes"
                .to_owned(),
        }
    }

    /// Refuses a label that is not recorded.
    fn check_label(&self, by: &By) -> Result<(), CliError> {
        let By::Label(key) = by else { return Ok(()) };
        let open = self.open.iter().flat_map(|open| &open.hours);
        let mut known: Vec<&String> = self.hours.iter().chain(open).flat_map(|record| record.labels.keys()).collect();
        known.sort();
        known.dedup();
        if known.contains(&key) {
            return Ok(());
        }
        let known = known.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        Err(CliError::UnknownLabel { key: key.clone(), known })
    }
}

#[cfg(test)]
mod tests;
