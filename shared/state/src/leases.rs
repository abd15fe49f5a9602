//! Leases: the right to do something alone, which lapses by itself.

use crate::items::{number, read_number, text};
use crate::table::DynamoClaims;
use aws_sdk_dynamodb::types::ReturnValue;
use jiff::Timestamp;
use nodeless_aws::port_error;
use nodeless_ports::claims::Lease;
use nodeless_ports::{ErrorKind, PortError};
use std::time::Duration;

impl DynamoClaims {
    pub(crate) async fn take_lease(
        &self,
        name: &str,
        holder: &str,
        now: Timestamp,
        duration: Duration,
    ) -> Result<Option<Lease>, PortError> {
        let expires = now.checked_add(duration).unwrap_or(Timestamp::MAX);
        let result = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(self.key(&lease_key(name))))
            .update_expression("SET holder = :me, expiresMilliseconds = :until ADD fencing :one")
            .condition_expression("attribute_not_exists(sk) OR holder = :me OR expiresMilliseconds <= :now")
            .expression_attribute_values(":me", text(holder))
            .expression_attribute_values(":until", number(expires.as_millisecond()))
            .expression_attribute_values(":now", number(now.as_millisecond()))
            .expression_attribute_values(":one", number(1))
            .return_values(ReturnValue::AllNew)
            .send()
            .await;
        let answer = match result.map_err(|error| port_error("DynamoDB UpdateItem (lease)", &error)) {
            Ok(answer) => answer,
            Err(error) if error.kind == ErrorKind::Conflict => return Ok(None),
            Err(error) => return Err(error),
        };
        let fencing = read_number(&answer.attributes.unwrap_or_default(), "fencing")?;
        Ok(Some(Lease { name: name.to_owned(), holder: holder.to_owned(), fencing, expires }))
    }

    pub(crate) async fn give_lease_back(&self, lease: &Lease) -> Result<(), PortError> {
        // The item stays, so that the fencing number goes on growing.
        let result = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(self.key(&lease_key(&lease.name))))
            .update_expression("SET expiresMilliseconds = :past")
            .condition_expression("holder = :me AND fencing = :mine")
            .expression_attribute_values(":me", text(&lease.holder))
            .expression_attribute_values(":mine", number(lease.fencing))
            .expression_attribute_values(":past", number(0))
            .send()
            .await;
        match result.map_err(|error| port_error("DynamoDB UpdateItem (release lease)", &error)) {
            Err(error) if error.kind != ErrorKind::Conflict => Err(error),
            _ => Ok(()),
        }
    }
}

fn lease_key(name: &str) -> String {
    format!("lease#{name}")
}
