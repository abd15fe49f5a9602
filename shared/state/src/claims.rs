//! NodeClaim records, each written together with its charge.

use crate::items::{Item, number, read_deflated, read_number, read_text, text, write_deflated};
use crate::table::DynamoClaims;
use crate::usage::{Amounts, first_limit_passed};
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    CancellationReason, Delete, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use nodeless_aws::port_error;
use nodeless_model::NodeClaim;
use nodeless_model::claim::Charge;
use nodeless_ports::claims::{Created, PoolLimits, node_pool_of};
use nodeless_ports::{ErrorKind, PortError};
use std::time::Duration;

/// Attempts at a transaction that met another one on the same NodePool.
const ATTEMPTS: u32 = 6;

/// The writes of new claims.
pub(crate) struct Creation {
    pub(crate) writes: Vec<TransactWriteItem>,
    amounts: Amounts,
}

impl Creation {
    /// What became of new claims, given a reason for each of the writes.
    pub(crate) fn refused(
        &self,
        operation: &str,
        claims: &[NodeClaim],
        limits: Option<&PoolLimits>,
        mut reasons: Vec<Option<Refusal>>,
    ) -> Result<Created, PortError> {
        let of_charge = reasons.pop().flatten();
        if let Some((claim, _)) = claims.iter().zip(&reasons).find(|(_, reason)| reason.is_some()) {
            let same = |(claim, reason): (&NodeClaim, &Option<Refusal>)| {
                let item = reason.as_ref().and_then(|refusal| refusal.item.as_ref());
                item.is_some_and(|item| read_text(item, "uid").is_ok_and(|uid| uid == claim.uid))
            };
            let all_ours = claims.iter().zip(&reasons).all(same);
            return if all_ours { Ok(Created::AlreadyThere) } else { Err(conflict(operation, &claim.name)) };
        }
        let usage = of_charge.and_then(|refusal| refusal.item);
        let resource = limits.and_then(|limits| first_limit_passed(usage.as_ref(), &self.amounts, limits));
        let node_pool = claims.first().map_or("", |claim| claim.node_pool.as_str());
        resource.map(|resource| Created::LimitReached { resource }).ok_or_else(|| conflict(operation, node_pool))
    }
}

/// What became of a transaction.
pub(crate) enum Outcome {
    Done,
    /// One reason for each of its writes; `None` where that write was all right.
    Refused(Vec<Option<Refusal>>),
}

/// A condition that did not hold, and the item as it was.
pub(crate) struct Refusal {
    pub(crate) item: Option<Item>,
}

impl DynamoClaims {
    pub(crate) async fn list_claims(&self) -> Result<Vec<NodeClaim>, PortError> {
        self.items(PREFIX, None).await?.iter().map(decode).collect()
    }

    pub(crate) async fn get_claim(&self, name: &str) -> Result<Option<NodeClaim>, PortError> {
        self.item(&claim_key(name)).await?.as_ref().map(decode).transpose()
    }

    pub(crate) async fn claim_of_instance(&self, instance_id: &str) -> Result<Option<NodeClaim>, PortError> {
        let answer = self
            .client
            .query()
            .table_name(&self.table)
            .index_name("instance")
            .key_condition_expression("instanceId = :id")
            .filter_expression("pk = :pk")
            .expression_attribute_values(":id", text(instance_id))
            .expression_attribute_values(":pk", text(&self.cluster))
            .send()
            .await
            .map_err(|error| port_error("DynamoDB Query (instance)", &error))?;
        // The index follows the table after a moment and need not hold the whole record: read that by its key.
        let Some(item) = answer.items().first() else { return Ok(None) };
        let name = read_text(item, "sk")?.trim_start_matches(PREFIX);
        let claim = self.get_claim(name).await?;
        Ok(claim.filter(|claim| claim.status.instance.as_ref().is_some_and(|instance| instance.id == instance_id)))
    }

    pub(crate) async fn create_claims(
        &self,
        claims: &[NodeClaim],
        limits: Option<&PoolLimits>,
    ) -> Result<Created, PortError> {
        const OPERATION: &str = "DynamoDB TransactWriteItems (create claims)";
        let creation = match self.creation(OPERATION, claims, limits)? {
            Ok(creation) => creation,
            Err(resource) => return Ok(Created::LimitReached { resource }),
        };
        match self.transact(OPERATION, &creation.writes).await? {
            Outcome::Done => Ok(Created::Written),
            Outcome::Refused(reasons) => creation.refused(OPERATION, claims, limits, reasons),
        }
    }

    /// The writes of new claims: one for each, and last the charge to their NodePool. The limit that is passed whatever is
    /// charged to the NodePool already is the error.
    pub(crate) fn creation(
        &self,
        operation: &str,
        claims: &[NodeClaim],
        limits: Option<&PoolLimits>,
    ) -> Result<Result<Creation, String>, PortError> {
        let node_pool = node_pool_of(operation, claims)?;
        let mut amounts = Amounts::default();
        for claim in claims {
            amounts = amounts.plus(&Amounts::of(&claim.spec.charge));
        }
        if let Some(resource) = limits.and_then(|limits| first_limit_passed(None, &amounts, limits)) {
            return Ok(Err(resource));
        }
        let mut writes = Vec::with_capacity(claims.len() + 1);
        for claim in claims {
            let put = Put::builder()
                .table_name(&self.table)
                .set_item(Some(self.encode(&NodeClaim { version: 1, ..claim.clone() })?))
                .condition_expression("attribute_not_exists(sk)")
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
                .build()
                .map_err(|error| invalid(operation, &error))?;
            writes.push(TransactWriteItem::builder().put(put).build());
        }
        let charge = with_old_values(self.charge(node_pool, &amounts, limits)?);
        writes.push(TransactWriteItem::builder().update(charge).build());
        Ok(Ok(Creation { writes, amounts }))
    }

    pub(crate) async fn update_claim(&self, claim: &NodeClaim, charge: Option<&Charge>) -> Result<u64, PortError> {
        const OPERATION: &str = "DynamoDB TransactWriteItems (update claim)";
        let mut next = claim.clone();
        next.version = claim.version + 1;
        let mut difference = Amounts::default();
        if let Some(charge) = charge {
            difference = Amounts::of(charge).minus(&Amounts::of(&claim.spec.charge));
            next.spec.charge = charge.clone();
        }
        let put = self.replacement(OPERATION, claim.version, &next)?;
        if difference.is_zero() {
            // A single conditional write costs half of a transaction.
            self.put_conditionally(put).await?;
            return Ok(next.version);
        }
        let update = self.charge(&claim.node_pool, &difference, None)?;
        let writes =
            [TransactWriteItem::builder().put(put).build(), TransactWriteItem::builder().update(update).build()];
        match self.transact(OPERATION, &writes).await? {
            Outcome::Done => Ok(next.version),
            Outcome::Refused(_) => Err(conflict(OPERATION, &claim.name)),
        }
    }

    /// The write of a claim in place of the version that was read.
    pub(crate) fn replacement(&self, operation: &str, read: u64, next: &NodeClaim) -> Result<Put, PortError> {
        Put::builder()
            .table_name(&self.table)
            .set_item(Some(self.encode(next)?))
            .condition_expression("version = :read")
            .expression_attribute_values(":read", number(read))
            .build()
            .map_err(|error| invalid(operation, &error))
    }

    pub(crate) async fn delete_claim(&self, claim: &NodeClaim) -> Result<(), PortError> {
        const OPERATION: &str = "DynamoDB TransactWriteItems (delete claim)";
        let delete = Delete::builder()
            .table_name(&self.table)
            .set_key(Some(self.key(&claim_key(&claim.name))))
            .condition_expression("version = :read")
            .expression_attribute_values(":read", number(claim.version))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .build()
            .map_err(|error| invalid(OPERATION, &error))?;
        let refund = Amounts::default().minus(&Amounts::of(&claim.spec.charge));
        let update = self.charge(&claim.node_pool, &refund, None)?;
        let writes =
            [TransactWriteItem::builder().delete(delete).build(), TransactWriteItem::builder().update(update).build()];
        match self.transact(OPERATION, &writes).await? {
            Outcome::Done => Ok(()),
            Outcome::Refused(reasons) => match reasons.into_iter().next().flatten() {
                Some(Refusal { item: Some(_) }) => Err(conflict(OPERATION, &claim.name)),
                _ => Ok(()),
            },
        }
    }

    async fn put_conditionally(&self, put: Put) -> Result<(), PortError> {
        self.client
            .put_item()
            .table_name(put.table_name)
            .set_item(Some(put.item))
            .set_condition_expression(put.condition_expression)
            .set_expression_attribute_values(put.expression_attribute_values)
            .send()
            .await
            .map_err(|error| port_error("DynamoDB PutItem (update claim)", &error))?;
        Ok(())
    }

    /// Runs a transaction. One that meets another transaction on the same item is tried again.
    pub(crate) async fn transact(&self, operation: &str, writes: &[TransactWriteItem]) -> Result<Outcome, PortError> {
        for attempt in 0..ATTEMPTS {
            let result = self.client.transact_write_items().set_transact_items(Some(writes.to_vec())).send().await;
            let error = match result {
                Ok(_) => return Ok(Outcome::Done),
                Err(error) => error,
            };
            let SdkError::ServiceError(service) = &error else { return Err(port_error(operation, &error)) };
            let TransactWriteItemsError::TransactionCanceledException(cancelled) = service.err() else {
                return Err(port_error(operation, &error));
            };
            let reasons = cancelled.cancellation_reasons();
            if reasons.iter().any(|reason| reason.code() == Some("ConditionalCheckFailed")) {
                return Ok(Outcome::Refused(reasons.iter().map(refusal).collect()));
            }
            let passing = |code| matches!(code, "None" | "TransactionConflict" | "ThrottlingError");
            if let Some(reason) = reasons.iter().find(|reason| !passing(reason.code().unwrap_or("None"))) {
                let message = reason.message().unwrap_or("the transaction was cancelled without a message");
                return Err(
                    PortError::new(ErrorKind::Invalid, operation, message).with_code(reason.code().unwrap_or_default())
                );
            }
            tokio::time::sleep(Duration::from_millis(20 << attempt)).await;
        }
        let message = format!("the same items were being written by others {ATTEMPTS} times in a row");
        Err(PortError::new(ErrorKind::Throttled, operation, message).with_code("TransactionConflict"))
    }

    fn encode(&self, claim: &NodeClaim) -> Result<Item, PortError> {
        let mut item = self.key(&claim_key(&claim.name));
        item.insert("record".to_owned(), write_deflated(claim, &claim.name)?);
        // For people who look at the table.
        item.insert("phase".to_owned(), text(format!("{:?}", claim.phase)));
        item.insert("version".to_owned(), number(claim.version));
        item.insert("uid".to_owned(), text(&claim.uid));
        item.insert("nodePool".to_owned(), text(&claim.node_pool));
        if let Some(instance) = &claim.status.instance {
            item.insert("instanceId".to_owned(), text(&instance.id));
        }
        Ok(item)
    }
}

const PREFIX: &str = "nodeclaim#";

fn claim_key(name: &str) -> String {
    format!("{PREFIX}{name}")
}

fn decode(item: &Item) -> Result<NodeClaim, PortError> {
    let mut claim: NodeClaim = read_deflated(item, "record")?;
    claim.version = read_number(item, "version")?;
    Ok(claim)
}

fn refusal(reason: &CancellationReason) -> Option<Refusal> {
    (reason.code() == Some("ConditionalCheckFailed")).then(|| Refusal { item: reason.item.clone() })
}

fn with_old_values(mut update: Update) -> Update {
    update.return_values_on_condition_check_failure = Some(ReturnValuesOnConditionCheckFailure::AllOld);
    update
}

pub(crate) fn conflict(operation: &str, name: &str) -> PortError {
    let message = format!("{name} was written by somebody else first; read it again");
    PortError::new(ErrorKind::Conflict, operation, message)
}

pub(crate) fn invalid(operation: &str, error: &dyn std::fmt::Display) -> PortError {
    PortError::new(ErrorKind::Invalid, operation, error.to_string())
}
