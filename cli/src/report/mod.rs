//! What the nodes of clusters cost: the records of the claims table, and reports about them.

pub(crate) mod clusters;
mod columns;
pub(crate) mod commitments;
pub(crate) mod html;
#[cfg(feature = "aws")]
pub(crate) mod stored;
pub(crate) mod text;
pub(crate) mod times;

use crate::error::CliError;
use crate::table::Item;
use jiff::{SignedDuration, Timestamp};
use nodeless_bill::{HourRecord, Open, StoredError, decode};
use nodeless_state::costs::HOURS_KEPT;
use serde::de::DeserializeOwned;

/// The key of the record of the current hour.
const OPEN: &str = "cost#open";
/// The beginning of the keys of records of hours that have ended.
const HOUR: &str = "hour#";

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

/// The records of a cluster among items of its claims table.
///
/// # Errors
/// If a record cannot be decoded.
pub(crate) fn records<'a>(items: impl IntoIterator<Item = &'a Item>) -> Result<Records, CliError> {
    let mut records = Records::default();
    for item in items {
        if item.key == OPEN {
            records.open = Some(decoded(&item.key, &item.bytes()?)?);
        } else if item.key.starts_with(HOUR) {
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

    /// Since when there are records: since they began, or since those that have not expired.
    fn since(&self) -> Option<Timestamp> {
        let first = || self.hours.iter().map(|record| record.hour).min();
        let kept = |open: &Open| open.through.checked_sub(HOURS_KEPT).map_or(open.since, |kept| kept.max(open.since));
        self.open.as_ref().map(kept).or_else(first)
    }

    /// The labels by which costs are recorded.
    fn labels(&self) -> impl Iterator<Item = &str> {
        let open = self.open.iter().flat_map(|open| &open.hours);
        self.hours.iter().chain(open).flat_map(|record| record.labels.keys()).map(String::as_str)
    }
}

#[cfg(test)]
mod tests;
