//! The stored form of records: compressed JSON with the number of its format.

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{Read as _, Write as _};

/// The format that this version writes, and the only one that it reads.
const FORMAT: u32 = 1;
/// The longest text that is read: a record of 400 kB, the most that an item holds, cannot be longer than this.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Why a stored record cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// The bytes are no such record.
    #[error("it is not a cost record of nodeless: {0}")]
    Json(#[from] serde_json::Error),
    /// The bytes cannot be decompressed.
    #[error("it is damaged: {0}")]
    Deflate(#[from] std::io::Error),
    /// Another version wrote it.
    #[error(
        "it has the format {0}, and this version of nodeless reads the format {FORMAT}; use the version that wrote it"
    )]
    Format(u32),
}

#[derive(Deserialize)]
struct Header {
    format: u32,
}

/// Encodes a record.
///
/// # Errors
/// If it cannot be encoded.
pub fn encode(record: &impl Serialize) -> Result<Vec<u8>, StoredError> {
    #[derive(Serialize)]
    struct Whole<'a, T> {
        format: u32,
        record: &'a T,
    }
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&serde_json::to_vec(&Whole { format: FORMAT, record })?)?;
    Ok(encoder.finish()?)
}

/// Decodes what [`encode`] returned.
///
/// # Errors
/// If it is something else, or another version wrote it.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, StoredError> {
    #[derive(Deserialize)]
    struct Whole<T> {
        record: T,
    }
    let mut text = Vec::new();
    DeflateDecoder::new(bytes).take(MAX_BYTES).read_to_end(&mut text)?;
    // Checked before the rest, which may differ in another format.
    let Header { format } = serde_json::from_slice(&text)?;
    if format != FORMAT {
        return Err(StoredError::Format(format));
    }
    let Whole { record } = serde_json::from_slice(&text)?;
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HourRecord;

    fn deflated(text: &str) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = HourRecord { idle: 0.25, ..HourRecord::new(jiff::Timestamp::UNIX_EPOCH, "default") };
        assert_eq!(decode::<HourRecord>(&encode(&record).unwrap()).unwrap(), record);
    }

    #[test]
    fn a_record_of_another_version_or_a_damaged_one_is_refused_with_the_reason() {
        let error = |bytes: &[u8]| decode::<HourRecord>(bytes).unwrap_err().to_string();
        let future = error(&deflated(r#"{"format":2,"record":{"hours":[]}}"#));
        assert_eq!(
            future,
            "it has the format 2, and this version of nodeless reads the format 1; use the version that wrote it"
        );
        assert!(error(&deflated("{}")).starts_with("it is not a cost record of nodeless"));
        assert!(error(&deflated(r#"{"format":1}"#)).starts_with("it is not a cost record of nodeless"));
        assert!(error(b"\xff\xff").starts_with("it is damaged"));
    }
}
