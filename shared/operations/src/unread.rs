//! Parts of a snapshot that could not be read, and without which a plan can be made.

use nodeless_ports::PortError;
use serde::{Deserialize, Serialize};

/// Why a part of a snapshot could not be read. A plan can do without it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(transparent)]
#[error("{0}")]
pub struct Unread(pub String);

impl From<PortError> for Unread {
    fn from(error: PortError) -> Self {
        Self(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_stored_as_its_text() {
        let stored = r#"{"Err":"DynamoDB Query: throttled"}"#;
        let read: Result<Vec<u8>, Unread> = serde_json::from_str(stored).unwrap();
        assert_eq!(read, Err(Unread("DynamoDB Query: throttled".to_owned())));
        assert_eq!(serde_json::to_string(&read).unwrap(), stored);
    }
}
