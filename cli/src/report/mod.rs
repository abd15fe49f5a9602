//! What the nodes of a cluster cost: the records of the claims table, and reports about them.

pub(crate) mod html;
#[cfg(feature = "aws")]
pub(crate) mod stored;
pub(crate) mod text;
pub(crate) mod times;

use crate::error::CliError;
use crate::table::Item;
use jiff::{SignedDuration, Timestamp};
use nodeless_bill::report::{By, Query, Report, report};
use nodeless_bill::{HourRecord, Open, StoredError, decode};
use serde::de::DeserializeOwned;
use times::Times;

/// The records of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// The records of hours that have ended.
    pub(crate) hours: Vec<HourRecord>,
    /// The record of the current hour.
    pub(crate) open: Option<Open>,
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
        let end = |record: &HourRecord| record.hour.checked_add(SignedDuration::from_hours(1)).ok();
        let last = || self.hours.iter().filter_map(end).max();
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
