//! The conditional write of items that have a version.

use crate::items::{Item, number};
use crate::table::DynamoClaims;
use aws_sdk_dynamodb::types::Put;
use nodeless_aws::port_error;
use nodeless_ports::{ErrorKind, PortError};

/// The precondition on the stored item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// No item.
    Nothing,
    /// The item with this version.
    Version(u64),
    /// The item with this version, or none: DynamoDB may delete an expired item between the read and the write.
    VersionUnlessExpired(u64),
}

impl Stored {
    /// The version that was read; zero if there was no item.
    pub(crate) const fn read(version: u64) -> Self {
        if version == 0 { Self::Nothing } else { Self::Version(version) }
    }

    /// Like [`read`](Self::read), for items that expire.
    pub(crate) const fn read_expiring(version: u64) -> Self {
        if version == 0 { Self::Nothing } else { Self::VersionUnlessExpired(version) }
    }

    /// The version of the written item.
    pub(crate) const fn next(self) -> u64 {
        match self {
            Self::Nothing => 1,
            Self::Version(read) | Self::VersionUnlessExpired(read) => read + 1,
        }
    }
}

impl DynamoClaims {
    /// The write of an item with the next version.
    pub(crate) fn versioned(&self, operation: &str, mut item: Item, stored: Stored) -> Result<Put, PortError> {
        item.insert("version".to_owned(), number(stored.next()));
        let put = Put::builder().table_name(&self.table).set_item(Some(item));
        let put = match stored {
            Stored::Nothing => put.condition_expression("attribute_not_exists(sk)"),
            Stored::Version(read) => {
                put.condition_expression("version = :read").expression_attribute_values(":read", number(read))
            }
            Stored::VersionUnlessExpired(read) => put
                .condition_expression("attribute_not_exists(sk) OR version = :read")
                .expression_attribute_values(":read", number(read)),
        };
        put.build().map_err(|error| PortError::new(ErrorKind::Invalid, operation, error.to_string()))
    }

    /// Writes an item with the next version, and returns that version.
    pub(crate) async fn put_versioned(&self, operation: &str, item: Item, stored: Stored) -> Result<u64, PortError> {
        let put = self.versioned(operation, item, stored)?;
        self.client
            .put_item()
            .table_name(put.table_name)
            .set_item(Some(put.item))
            .set_condition_expression(put.condition_expression)
            .set_expression_attribute_values(put.expression_attribute_values)
            .send()
            .await
            .map_err(|error| port_error(operation, &error))?;
        Ok(stored.next())
    }
}
