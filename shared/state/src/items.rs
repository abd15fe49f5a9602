//! Reading and writing single attributes, with errors that name them.

use flate2::Compression;
use flate2::bufread::DeflateDecoder;
use flate2::write::DeflateEncoder;
use jiff::Timestamp;
use nodeless_ports::table::{Attributes, Item, Value};
use nodeless_ports::{ErrorKind, PortError};
use std::fmt::Display;
use std::io::{BufRead, Cursor, Read as _, Write as _};

/// Attributes by name.
pub(crate) fn attributes<const N: usize>(pairs: [(&str, Value); N]) -> Attributes {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(crate) fn text(value: impl Into<String>) -> Value {
    Value::Text(value.into())
}

/// A version, a count or an amount. The table has signed numbers, and none of these comes near their maximum.
pub(crate) fn number(value: impl TryInto<i64>) -> Value {
    Value::Number(value.try_into().unwrap_or(i64::MAX))
}

/// Seconds since 1970 for DynamoDB's TTL, rounded up so that nothing expires early.
pub(crate) fn ttl(at: Timestamp) -> Value {
    Value::Number(at.as_second().saturating_add(1))
}

pub(crate) fn read_text<'a>(item: &'a Item, attribute: &str) -> Result<&'a str, PortError> {
    match item.attributes.get(attribute) {
        Some(Value::Text(value)) => Ok(value),
        _ => Err(damaged(item, attribute, "a text")),
    }
}

pub(crate) fn read_number<T: TryFrom<i64>>(item: &Item, attribute: &str) -> Result<T, PortError> {
    match item.attributes.get(attribute) {
        Some(Value::Number(value)) => T::try_from(*value).map_err(|_| damaged(item, attribute, "such a number")),
        _ => Err(damaged(item, attribute, "a number")),
    }
}

pub(crate) fn read_bytes<'a>(item: &'a Item, attribute: &str) -> Result<&'a [u8], PortError> {
    match item.attributes.get(attribute) {
        Some(Value::Bytes(bytes)) => Ok(bytes),
        _ => Err(damaged(item, attribute, "bytes")),
    }
}

/// The time in an attribute.
pub(crate) fn read_time(item: &Item, attribute: &str) -> Result<Timestamp, PortError> {
    read_text(item, attribute)?.parse().map_err(|_| damaged(item, attribute, "a time"))
}

/// The JSON text of an attribute, decoded.
pub(crate) fn read_json<T: serde::de::DeserializeOwned>(item: &Item, attribute: &str) -> Result<T, PortError> {
    let text = read_text(item, attribute)?;
    serde_json::from_str(text).map_err(|error| damaged(item, attribute, &format!("what this version writes ({error})")))
}

pub(crate) fn write_json<T: serde::Serialize>(operation: &str, value: &T) -> Result<Value, PortError> {
    json_text(operation, value).map(Value::Text)
}

pub(crate) fn json_text<T: serde::Serialize>(operation: &str, value: &T) -> Result<String, PortError> {
    serde_json::to_string(value).map_err(|error| PortError::new(ErrorKind::Invalid, operation, error.to_string()))
}

/// The value of an attribute that [`write_deflated`] made.
pub(crate) fn read_deflated<T: serde::de::DeserializeOwned>(item: &Item, attribute: &str) -> Result<T, PortError> {
    let mut text = Vec::new();
    let unreadable = |error: &dyn Display| damaged(item, attribute, &format!("what this version writes ({error})"));
    let bytes = read_bytes(item, attribute)?;
    DeflateDecoder::new(bytes).read_to_end(&mut text).map_err(|error| unreadable(&error))?;
    serde_json::from_slice(&text).map_err(|error| unreadable(&error))
}

/// Compressed JSON. DynamoDB charges by the kilobyte, and lists of instance types shrink to a quarter.
pub(crate) fn write_deflated<T: serde::Serialize>(operation: &str, value: &T) -> Result<Value, PortError> {
    let invalid = |error: &dyn Display| PortError::new(ErrorKind::Invalid, operation, error.to_string());
    let text = serde_json::to_vec(value).map_err(|error| invalid(&error))?;
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&text).map_err(|error| invalid(&error))?;
    Ok(Value::Bytes(encoder.finish().map_err(|error| invalid(&error))?))
}

/// The value of an attribute that [`write_with_dictionary`] made.
pub(crate) fn read_with_dictionary<T: serde::de::DeserializeOwned>(
    item: &Item,
    attribute: &str,
    dictionary: &[u8],
) -> Result<T, PortError> {
    let unreadable = |error: &dyn Display| damaged(item, attribute, &format!("what this version writes ({error})"));
    let before = stored_block(dictionary);
    let mut text = Vec::new();
    let bytes = before.chain(read_bytes(item, attribute)?);
    DeflateDecoder::new(bytes).read_to_end(&mut text).map_err(|error| unreadable(&error))?;
    serde_json::from_slice(text.get(dictionary.len()..).unwrap_or_default()).map_err(|error| unreadable(&error))
}

/// Compressed JSON that refers to a dictionary, a text of up to 64 KiB that is not stored: a raw deflate stream with a preset dictionary
/// (`inflateSetDictionary` of zlib). Short records have little to refer to in themselves.
pub(crate) fn write_with_dictionary<T: serde::Serialize>(
    operation: &str,
    value: &T,
    dictionary: &[u8],
) -> Result<Value, PortError> {
    let invalid = |error: &dyn Display| PortError::new(ErrorKind::Invalid, operation, error.to_string());
    let text = serde_json::to_vec(value).map_err(|error| invalid(&error))?;
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    // What follows a flush begins at a byte.
    encoder.write_all(dictionary).and_then(|()| encoder.flush()).map_err(|error| invalid(&error))?;
    let of_dictionary = encoder.get_ref().len();
    encoder.write_all(&text).map_err(|error| invalid(&error))?;
    let mut bytes = encoder.finish().map_err(|error| invalid(&error))?;
    Ok(Value::Bytes(bytes.split_off(of_dictionary)))
}

/// A dictionary as the uncompressed block of a deflate stream (RFC 1951, section 3.2.4) that does not end it.
fn stored_block(dictionary: &[u8]) -> impl BufRead {
    let length = u16::try_from(dictionary.len()).unwrap_or(u16::MAX);
    let [low, high] = length.to_le_bytes();
    Cursor::new([0, low, high, !low, !high]).chain(dictionary)
}

/// The parts of a sort key after its kind: `kind#A#B#C`.
pub(crate) fn key_parts<const N: usize>(item: &Item) -> Result<[&str; N], PortError> {
    let parts: Vec<&str> = item.key.sort.split('#').skip(1).collect();
    parts.try_into().map_err(|_| unusable(item, &format!("its key does not have {N} parts")))
}

/// The error of an item that can be deleted without loss.
pub(crate) fn unusable(item: &Item, why: &str) -> PortError {
    PortError::new(
        ErrorKind::Invalid,
        "the read of the claims table",
        format!("item {:?}: {why}; delete it", item.key.sort),
    )
}

fn damaged(item: &Item, attribute: &str, expected: &str) -> PortError {
    let message = format!(
        "the attribute {attribute:?} of item {:?} is not {expected}; if another version of nodeless wrote it, use that version; \
         otherwise delete that item",
        item.key.sort
    );
    PortError::new(ErrorKind::Invalid, "the read of the claims table", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_ports::table::Key;

    fn item(name: &str, value: Value) -> Item {
        Item { key: Key::of_cluster("nodeclaim#a"), attributes: attributes([(name, value)]) }
    }

    #[test]
    fn a_damaged_item_is_named() {
        let error = read_number::<u64>(&item("version", text("x")), "version").unwrap_err().to_string();
        assert!(error.contains("\"version\" of item \"nodeclaim#a\""), "{error}");
        let error = read_number::<u64>(&item("version", Value::Number(-1)), "version").unwrap_err().to_string();
        assert!(error.contains("is not such a number"), "{error}");
    }

    #[test]
    fn what_refers_to_a_dictionary_comes_back_and_is_smaller() {
        let dictionary = br#"{"name":"","phase":"Initialized","conditions":["Launched","Registered","Initialized"]}"#;
        let text =
            |name: &str| format!(r#"{{"name":"{name}","phase":"Initialized","conditions":["Launched","Registered"]}}"#);
        for name in ["default-a", &"é".repeat(100_000)] {
            let value: serde_json::Value = serde_json::from_str(&text(name)).unwrap();
            let written = write_with_dictionary("test", &value, dictionary).unwrap();
            assert_eq!(
                read_with_dictionary::<serde_json::Value>(&item("record", written), "record", dictionary).unwrap(),
                value
            );
        }
        let value: serde_json::Value = serde_json::from_str(&text("default-a")).unwrap();
        let [with, without] =
            [write_with_dictionary("test", &value, dictionary).unwrap(), write_deflated("test", &value).unwrap()];
        assert!(with.bytes() * 2 < without.bytes(), "{} and {}", with.bytes(), without.bytes());
        for bytes in [vec![], vec![1], vec![255; 20]] {
            let damaged =
                read_with_dictionary::<serde_json::Value>(&item("record", Value::Bytes(bytes)), "record", dictionary);
            assert!(damaged.unwrap_err().to_string().contains("\"record\" of item \"nodeclaim#a\""));
        }
    }

    #[test]
    fn what_is_deflated_comes_back_and_is_smaller() {
        let types: Vec<String> = (0..60).map(|size| format!("m{}i.{size}xlarge", size % 7)).collect();
        let value = write_deflated("test", &types).unwrap();
        assert!(value.bytes() * 2 < serde_json::to_string(&types).unwrap().len());
        assert_eq!(read_deflated::<Vec<String>>(&item("record", value), "record").unwrap(), types);
        let error = read_deflated::<Vec<String>>(&item("record", Value::Bytes(vec![1])), "record").unwrap_err();
        assert!(error.to_string().contains("\"record\" of item \"nodeclaim#a\""), "{error}");
    }
}
