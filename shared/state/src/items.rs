//! Reading and writing single attributes, with errors that name them.

use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;
use nodeless_ports::{ErrorKind, PortError};
use std::collections::HashMap;
use std::fmt::Display;

/// An item as the SDK gives it.
pub(crate) type Item = HashMap<String, AttributeValue>;

pub(crate) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub(crate) fn number(value: impl Display) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// Seconds since 1970, as DynamoDB's TTL wants them, rounded up so that nothing expires early.
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

fn damaged(item: &Item, attribute: &str, expected: &str) -> PortError {
    let key = match item.get("sk") {
        Some(AttributeValue::S(key)) => key.as_str(),
        _ => "an item without sk",
    };
    let message = format!(
        "the attribute {attribute:?} of item {key:?} is not {expected}; restore the table to a point before the item was \
         damaged, or delete that item"
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
}
