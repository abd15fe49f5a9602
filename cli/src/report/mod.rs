//! What the nodes of clusters cost: the records of the claims table, and reports about them.

pub(crate) mod clusters;
pub(crate) mod commitments;
pub(crate) mod html;
#[cfg(feature = "aws")]
pub(crate) mod stored;
pub(crate) mod times;

use crate::error::CliError;
use crate::table::Item;
use nodeless_bill::report::Records;
use nodeless_bill::{StoredError, decode};
use serde::de::DeserializeOwned;

/// The key of the record of the current hour.
const OPEN: &str = "cost#open";
/// The beginning of the keys of records of hours that have ended.
const HOUR: &str = "hour#";

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

#[cfg(test)]
mod tests;
