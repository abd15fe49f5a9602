//! Reading and writing single attributes, with errors that name them.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use jiff::Timestamp;
use nodeless_ports::{ErrorKind, PortError};
use std::collections::HashMap;
use std::fmt::Display;
use std::io::Read as _;

/// An item as the SDK gives it.
pub(crate) type Item = HashMap<String, AttributeValue>;

pub(crate) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub(crate) fn number(value: impl Display) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// Seconds since 1970 for DynamoDB's TTL, rounded up so that nothing expires early.
pub(crate) fn ttl(at: Timestamp) -> AttributeValue {
    number(at.as_second().saturating_add(1))
}

pub(crate) fn read_text<'a>(item: &'a Item, attribute: &str) -> Result<&'a str, PortError> {
    match item.get(attribute) {
        Some(AttributeValue::S(value)) => Ok(value),
        _ => Err(damaged(item, attribute, "a text")),
    }
}

pub(crate) fn read_number<T: std::str::FromStr>(item: &Item, attribute: &str) -> Result<T, PortError> {
    match item.get(attribute) {
        Some(AttributeValue::N(value)) => value.parse().map_err(|_| damaged(item, attribute, "such a number")),
        _ => Err(damaged(item, attribute, "a number")),
    }
}

/// The JSON text of an attribute, decoded.
pub(crate) fn read_json<T: serde::de::DeserializeOwned>(item: &Item, attribute: &str) -> Result<T, PortError> {
    let text = read_text(item, attribute)?;
    serde_json::from_str(text).map_err(|error| damaged(item, attribute, &format!("what this version writes ({error})")))
}

pub(crate) fn write_json<T: serde::Serialize>(value: &T, what: &str) -> Result<AttributeValue, PortError> {
    serde_json::to_string(value)
        .map(AttributeValue::S)
        .map_err(|error| PortError::new(ErrorKind::Invalid, format!("DynamoDB write {what}"), error.to_string()))
}

/// The value of an attribute that [`write_deflated`] made.
pub(crate) fn read_deflated<T: serde::de::DeserializeOwned>(item: &Item, attribute: &str) -> Result<T, PortError> {
    let Some(AttributeValue::B(bytes)) = item.get(attribute) else { return Err(damaged(item, attribute, "bytes")) };
    let mut text = Vec::new();
    let unreadable = |error: &dyn Display| damaged(item, attribute, &format!("what this version writes ({error})"));
    DeflateDecoder::new(bytes.as_ref()).read_to_end(&mut text).map_err(|error| unreadable(&error))?;
    serde_json::from_slice(&text).map_err(|error| unreadable(&error))
}

/// Compressed JSON. DynamoDB charges by the kilobyte, and lists of instance types shrink to a quarter.
pub(crate) fn write_deflated<T: serde::Serialize>(value: &T, what: &str) -> Result<AttributeValue, PortError> {
    let invalid =
        |error: &dyn Display| PortError::new(ErrorKind::Invalid, format!("DynamoDB write {what}"), error.to_string());
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    serde_json::to_writer(&mut encoder, value).map_err(|error| invalid(&error))?;
    Ok(AttributeValue::B(Blob::new(encoder.finish().map_err(|error| invalid(&error))?)))
}

fn damaged(item: &Item, attribute: &str, expected: &str) -> PortError {
    let key = match item.get("sk") {
        Some(AttributeValue::S(key)) => key.as_str(),
        _ => "an item without sk",
    };
    let message = format!(
        "the attribute {attribute:?} of item {key:?} is not {expected}; if another version of nodeless wrote it, use that version; \
         otherwise restore the table to a point before the item was damaged, or delete that item"
    );
    PortError::new(ErrorKind::Invalid, "DynamoDB read", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_item_is_named() {
        let item = Item::from([("sk".to_owned(), text("nodeclaim#a")), ("version".to_owned(), text("x"))]);
        let error = read_number::<u64>(&item, "version").unwrap_err().to_string();
        assert!(error.contains("\"version\" of item \"nodeclaim#a\""), "{error}");
    }

    #[test]
    fn what_is_deflated_comes_back_and_is_smaller() {
        let types: Vec<String> = (0..60).map(|size| format!("m{}i.{size}xlarge", size % 7)).collect();
        let value = write_deflated(&types, "types").unwrap();
        let AttributeValue::B(bytes) = &value else { panic!("{value:?}") };
        assert!(bytes.as_ref().len() * 2 < serde_json::to_string(&types).unwrap().len());
        let mut item = Item::from([("sk".to_owned(), text("nodeclaim#a")), ("record".to_owned(), value)]);
        assert_eq!(read_deflated::<Vec<String>>(&item, "record").unwrap(), types);
        item.insert("record".to_owned(), AttributeValue::B(Blob::new(*b"no")));
        let error = read_deflated::<Vec<String>>(&item, "record").unwrap_err().to_string();
        assert!(error.contains("\"record\" of item \"nodeclaim#a\""), "{error}");
    }
}
