//! Attributes of items, as the SDK has them.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use nodeless_ports::table::{Attributes, Item, Key, Value};
use nodeless_ports::{ErrorKind, PortError};
use std::collections::HashMap;

/// An item or a key as the SDK has it.
pub(crate) type Raw = HashMap<String, AttributeValue>;

pub(crate) fn encode_value(value: &Value) -> AttributeValue {
    match value {
        Value::Text(text) => AttributeValue::S(text.clone()),
        Value::Number(number) => AttributeValue::N(number.to_string()),
        Value::Bytes(bytes) => AttributeValue::B(Blob::new(bytes.clone())),
    }
}

pub(crate) fn encode(attributes: &Attributes) -> impl Iterator<Item = (String, AttributeValue)> {
    attributes.iter().map(|(name, value)| (name.clone(), encode_value(value)))
}

/// The item with this key. Attributes of other types than [`Value`] has are left out: nodeless writes none.
pub(crate) fn decode(key: Key, raw: Raw) -> Result<Item, PortError> {
    let mut attributes = Attributes::new();
    for (name, value) in raw {
        let value = match value {
            _ if name == "pk" || name == "sk" => continue,
            AttributeValue::S(text) => Value::Text(text),
            AttributeValue::B(bytes) => Value::Bytes(bytes.into_inner()),
            AttributeValue::N(number) => Value::Number(number.parse().map_err(|_| {
                let message =
                    format!("the attribute {name:?} of item {:?} is not a whole number; delete that item", key.sort);
                PortError::new(ErrorKind::Invalid, "DynamoDB read", message)
            })?),
            _ => continue,
        };
        attributes.insert(name, value);
    }
    Ok(Item { key, attributes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_not_whole_is_an_error_that_names_it() {
        let raw = |number: &str| Raw::from([("version".to_owned(), AttributeValue::N(number.to_owned()))]);
        let key = || Key::of_cluster("plan");
        assert_eq!(decode(key(), raw("12")).unwrap().attributes["version"], Value::Number(12));
        let error = decode(key(), raw("1.5")).unwrap_err().to_string();
        assert!(error.contains("\"version\" of item \"plan\""), "{error}");
    }
}
