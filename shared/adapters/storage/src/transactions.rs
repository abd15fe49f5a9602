//! Conditional writes: of one item, or of several in a transaction.

use crate::expressions::Expression;
use crate::items::Raw;
use crate::table::{DynamoTable, invalid};
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::error::ConditionalCheckFailedException as Failed;
use aws_sdk_dynamodb::types::{
    CancellationReason, Delete, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use nodeless_aws::port_error;
use nodeless_ports::table::{Change, Item, Outcome, Refusal, Write};
use nodeless_ports::{ErrorKind, PortError};
use std::collections::HashMap;
use std::time::Duration;

/// How many times a transaction that conflicts with another one on the same item is tried.
const ATTEMPTS: u32 = 6;
/// A failed condition returns the item that it was evaluated on.
const OLD: ReturnValuesOnConditionCheckFailure = ReturnValuesOnConditionCheckFailure::AllOld;
const FAILED: &str = "ConditionalCheckFailed";

/// A write, as each call of DynamoDB takes it.
struct Call {
    kind: Kind,
    condition: Option<String>,
    names: Option<HashMap<String, String>>,
    values: Option<Raw>,
}

enum Kind {
    /// The item.
    Put(Raw),
    /// The key and the update.
    Update(Raw, String),
    /// The key.
    Delete(Raw),
}

impl DynamoTable {
    fn call(&self, Write { key, change, condition }: Write) -> Call {
        let mut expression = Expression::default();
        let kind = match change {
            Change::Put(attributes) => Kind::Put(self.raw(&Item { key, attributes })),
            Change::Set(attributes) => Kind::Update(self.key(&key), expression.set(&attributes)),
            Change::Add(numbers) => Kind::Update(self.key(&key), expression.add(&numbers)),
            Change::Delete => Kind::Delete(self.key(&key)),
        };
        let condition = expression.condition(&condition);
        let Expression { names, values } = expression;
        Call {
            kind,
            condition,
            names: (!names.is_empty()).then_some(names),
            values: (!values.is_empty()).then_some(values),
        }
    }

    /// Writes one item. It is not a transaction, which would cost twice as much.
    pub(crate) async fn write_one(&self, operation: &str, write: Write) -> Result<Outcome, PortError> {
        let Call { kind, condition, names, values } = self.call(write);
        match kind {
            Kind::Put(item) => {
                let request = self.client.put_item().table_name(&self.table).set_item(Some(item));
                let request = request.set_condition_expression(condition).set_expression_attribute_names(names);
                let request = request.set_expression_attribute_values(values);
                let written = request.return_values_on_condition_check_failure(OLD).send().await;
                self.outcome(&format!("DynamoDB PutItem ({operation})"), written, |error| match error {
                    PutItemError::ConditionalCheckFailedException(failed) => Some(failed),
                    _ => None,
                })
            }
            Kind::Update(key, update) => {
                let request = self.client.update_item().table_name(&self.table).set_key(Some(key));
                let request = request.update_expression(update).set_condition_expression(condition);
                let request = request.set_expression_attribute_names(names).set_expression_attribute_values(values);
                let written = request.return_values_on_condition_check_failure(OLD).send().await;
                self.outcome(&format!("DynamoDB UpdateItem ({operation})"), written, |error| match error {
                    UpdateItemError::ConditionalCheckFailedException(failed) => Some(failed),
                    _ => None,
                })
            }
            Kind::Delete(key) => {
                let request = self.client.delete_item().table_name(&self.table).set_key(Some(key));
                let request = request.set_condition_expression(condition).set_expression_attribute_names(names);
                let request = request.set_expression_attribute_values(values);
                let written = request.return_values_on_condition_check_failure(OLD).send().await;
                self.outcome(&format!("DynamoDB DeleteItem ({operation})"), written, |error| match error {
                    DeleteItemError::ConditionalCheckFailedException(failed) => Some(failed),
                    _ => None,
                })
            }
        }
    }

    fn outcome<T, E>(
        &self,
        operation: &str,
        written: Result<T, SdkError<E, HttpResponse>>,
        failed: fn(&E) -> Option<&Failed>,
    ) -> Result<Outcome, PortError>
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let Err(error) = written else { return Ok(Outcome::Written) };
        match error.as_service_error().and_then(failed) {
            Some(failed) => Ok(Outcome::Refused(vec![Some(self.refusal(operation, failed.item.clone())?)])),
            None => Err(port_error(operation, &error)),
        }
    }

    fn refusal(&self, operation: &str, item: Option<Raw>) -> Result<Refusal, PortError> {
        // An emulator may give an empty item in place of none.
        let item = item.filter(|raw| !raw.is_empty());
        Ok(Refusal { item: item.map(|raw| self.item(operation, raw)).transpose()? })
    }

    fn part(&self, operation: &str, write: Write) -> Result<TransactWriteItem, PortError> {
        let Call { kind, condition, names, values } = self.call(write);
        let part = TransactWriteItem::builder();
        let part = match kind {
            Kind::Put(item) => {
                let put = Put::builder().table_name(&self.table).set_item(Some(item));
                let put = put.set_condition_expression(condition).set_expression_attribute_names(names);
                let put = put.set_expression_attribute_values(values).return_values_on_condition_check_failure(OLD);
                part.put(put.build().map_err(|error| invalid(operation, &error))?)
            }
            Kind::Update(key, update) => {
                let built = Update::builder().table_name(&self.table).set_key(Some(key)).update_expression(update);
                let built = built.set_condition_expression(condition).set_expression_attribute_names(names);
                let built = built.set_expression_attribute_values(values).return_values_on_condition_check_failure(OLD);
                part.update(built.build().map_err(|error| invalid(operation, &error))?)
            }
            Kind::Delete(key) => {
                let delete = Delete::builder().table_name(&self.table).set_key(Some(key));
                let delete = delete.set_condition_expression(condition).set_expression_attribute_names(names);
                let delete =
                    delete.set_expression_attribute_values(values).return_values_on_condition_check_failure(OLD);
                part.delete(delete.build().map_err(|error| invalid(operation, &error))?)
            }
        };
        Ok(part.build())
    }

    /// Runs a transaction. It is retried if it conflicts with another one on the same item, or is throttled.
    pub(crate) async fn transact(&self, operation: &str, writes: Vec<Write>) -> Result<Outcome, PortError> {
        let named = format!("DynamoDB TransactWriteItems ({operation})");
        let parts: Vec<TransactWriteItem> =
            writes.into_iter().map(|write| self.part(&named, write)).collect::<Result<_, _>>()?;
        let mut throttled = false;
        for attempt in 0..ATTEMPTS {
            let result = self.client.transact_write_items().set_transact_items(Some(parts.clone())).send().await;
            let Err(error) = result else { return Ok(Outcome::Written) };
            let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) = error.as_service_error()
            else {
                return Err(port_error(&named, &error));
            };
            let reasons = cancelled.cancellation_reasons();
            if reasons.iter().any(|reason| reason.code() == Some(FAILED)) {
                return self.refused(&named, reasons);
            }
            let passing = |code| matches!(code, "None" | "TransactionConflict") || is_throttling(code);
            if let Some(reason) = reasons.iter().find(|reason| !passing(reason.code().unwrap_or("None"))) {
                let message = reason.message().unwrap_or("the transaction was cancelled without a message");
                return Err(invalid(&named, message).with_code(reason.code().unwrap_or_default()));
            }
            throttled = reasons.iter().any(|reason| reason.code().is_some_and(is_throttling));
            tokio::time::sleep(Duration::from_millis(20 << attempt)).await;
        }
        Err(gave_up(&named, throttled))
    }

    fn refused(&self, operation: &str, reasons: &[CancellationReason]) -> Result<Outcome, PortError> {
        let refusal = |reason: &CancellationReason| {
            let failed = reason.code() == Some(FAILED);
            failed.then(|| self.refusal(operation, reason.item.clone())).transpose()
        };
        Ok(Outcome::Refused(reasons.iter().map(refusal).collect::<Result<_, _>>()?))
    }
}

/// Whether a transaction was cancelled because a partition or the table had no units left.
fn is_throttling(code: &str) -> bool {
    matches!(code, "ThrottlingError" | "ProvisionedThroughputExceeded")
}

/// The error of a transaction that failed in every attempt. The next run makes it again.
fn gave_up(operation: &str, throttled: bool) -> PortError {
    let (code, message) = match throttled {
        true => ("ThrottlingError", format!("DynamoDB throttled the transaction {ATTEMPTS} times in a row")),
        false => ("TransactionConflict", format!("other transactions wrote the same items {ATTEMPTS} times in a row")),
    };
    PortError::new(ErrorKind::Throttled, operation, message).with_code(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_that_failed_in_every_attempt_reports_why() {
        assert!(["ThrottlingError", "ProvisionedThroughputExceeded"].into_iter().all(is_throttling));
        assert!(!is_throttling("TransactionConflict"));
        for (throttled, code) in [(true, "ThrottlingError"), (false, "TransactionConflict")] {
            let error = gave_up("claims create", throttled);
            assert_eq!((error.kind, error.code.as_str()), (ErrorKind::Throttled, code));
            assert_eq!(error.message.contains("throttled"), throttled, "{error}");
        }
    }
}
