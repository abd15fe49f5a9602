//! Small records of the claims table: how they are encoded.

use jiff::Timestamp;
use nodeless_ports::{ErrorKind, PortError};
use nodeless_state::{RecordKind, StoredRecord};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A record that this version cannot decode.
#[derive(Debug, thiserror::Error)]
#[error("the item {key} of the claims table cannot be decoded: {source}")]
pub struct RecordError {
    key: String,
    source: serde_json::Error,
}

impl From<RecordError> for PortError {
    fn from(error: RecordError) -> Self {
        Self::new(ErrorKind::Invalid, "decode record", error.to_string())
    }
}

/// Decodes a record.
///
/// # Errors
/// If this version cannot decode it.
pub fn decode<T: DeserializeOwned>(kind: RecordKind, stored: &StoredRecord) -> Result<T, RecordError> {
    serde_json::from_str(&stored.encoded).map_err(|source| RecordError { key: kind.key(&stored.node_pool), source })
}

/// The record of a NodePool, or of the cluster if the name is empty. It replaces the version that was read.
///
/// # Errors
/// If it cannot be encoded.
pub fn encode<T: Serialize>(
    node_pool: &str,
    version: u64,
    value: &T,
    expires: Option<Timestamp>,
) -> Result<StoredRecord, PortError> {
    let encoded = serde_json::to_string(value)
        .map_err(|error| PortError::new(ErrorKind::Invalid, "encode record", error.to_string()))?;
    Ok(StoredRecord { node_pool: node_pool.to_owned(), version, encoded, expires })
}
