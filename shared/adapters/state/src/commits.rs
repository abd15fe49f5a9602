//! Decisions of plans: each is written in one transaction with the next plan revision, on condition that the plan read the
//! current revision. So of two plans that run at the same time at most one decides anything.

use crate::claims::{Outcome, conflict};
use crate::items::{number, read_number};
use crate::table::DynamoClaims;
use crate::usage::{Amounts, finish, first_cluster_limit_passed};
use aws_sdk_dynamodb::types::{TransactWriteItem, Update};
use nodeless_model::NodeClaim;
use nodeless_model::claim::Charge;
use nodeless_ports::PortError;
use nodeless_ports::claims::{LaunchLimits, node_pool_of};
use nodeless_ports::plans::{Commit, Committed, Leaving, StoredCommand};

const KEY: &str = "plan-revision";

impl DynamoClaims {
    pub(crate) async fn read_plan_revision(&self) -> Result<u64, PortError> {
        self.item(KEY).await?.map_or(Ok(0), |item| read_number(&item, "revision"))
    }

    pub(crate) async fn write_commit(&self, commit: Commit<'_>, revision: u64) -> Result<Committed, PortError> {
        match commit {
            Commit::Launch(claims, limits) => self.commit_launch(claims, limits, revision).await,
            Commit::Leave(leaving) => self.commit_leave(leaving, revision).await,
            Commit::Command(command) => self.commit_command(command, revision).await,
        }
    }

    async fn commit_launch(
        &self,
        claims: &[NodeClaim],
        LaunchLimits { node_pool: limits, cluster }: &LaunchLimits,
        revision: u64,
    ) -> Result<Committed, PortError> {
        const OPERATION: &str = "DynamoDB TransactWriteItems (launch)";
        let creation = match self.creation(OPERATION, claims, Some(limits))? {
            Ok(creation) => creation,
            Err(resource) => return Ok(Committed::LimitReached { resource }),
        };
        if !cluster.are_none() {
            // Read after the plan revision: see `Commit::Launch`.
            let usage = self.read_usage().await?;
            if let Some(resource) = first_cluster_limit_passed(&usage, &creation.amounts, cluster) {
                return Ok(Committed::ClusterLimitReached { resource });
            }
        }
        let mut writes = creation.writes.clone();
        writes.push(self.next_revision(revision)?);
        let Outcome::Refused(mut reasons) = self.transact(OPERATION, &writes).await? else {
            return Ok(Committed::Written);
        };
        let overtaken = reasons.pop().flatten().is_some();
        let claims_refused = reasons.iter().take(claims.len()).any(Option::is_some);
        // If claims of this plan exist, an earlier attempt wrote them and incremented the revision.
        if overtaken && !claims_refused {
            return Ok(Committed::Overtaken);
        }
        creation.refused(OPERATION, claims, Some(limits), reasons).map(Committed::created)
    }

    async fn commit_leave(&self, leaving: &[Leaving], revision: u64) -> Result<Committed, PortError> {
        const OPERATION: &str = "DynamoDB TransactWriteItems (claims leave)";
        let changes: Vec<_> = leaving.iter().map(|one| (&one.claim, one.charge.as_ref())).collect();
        let writes = self.replacements(OPERATION, &changes)?;
        let names: Vec<&str> = leaving.iter().map(|one| one.claim.name.as_str()).collect();
        self.with_revision(OPERATION, writes, revision, &names).await
    }

    /// The writes of claims of one NodePool, each replacing the version that was read, with its new charge if it changes.
    pub(crate) fn replacements(
        &self,
        operation: &str,
        changes: &[(&NodeClaim, Option<&Charge>)],
    ) -> Result<Vec<TransactWriteItem>, PortError> {
        let node_pool = node_pool_of(operation, changes.iter().map(|(claim, _)| *claim))?;
        let mut difference = Amounts::default();
        let mut writes = Vec::with_capacity(changes.len() + 2);
        for (claim, charge) in changes {
            let mut next = (*claim).clone();
            if let Some(charge) = charge {
                difference = difference.plus(&Amounts::of(charge)).minus(&Amounts::of(&claim.spec.charge));
                next.spec.charge = (*charge).clone();
            }
            let put = self.replacement(operation, &next)?;
            writes.push(TransactWriteItem::builder().put(put).build());
        }
        if !difference.is_zero() {
            let update = self.charge(node_pool, &difference, None)?;
            writes.push(TransactWriteItem::builder().update(update).build());
        }
        Ok(writes)
    }

    async fn commit_command(&self, command: &StoredCommand, revision: u64) -> Result<Committed, PortError> {
        const OPERATION: &str = "DynamoDB TransactWriteItems (command)";
        let put = self.command_put(OPERATION, command)?;
        let writes = vec![TransactWriteItem::builder().put(put).build()];
        self.with_revision(OPERATION, writes, revision, &[&command.id]).await
    }

    /// Writes the items with these names and the next revision.
    async fn with_revision(
        &self,
        operation: &str,
        mut writes: Vec<TransactWriteItem>,
        revision: u64,
        names: &[&str],
    ) -> Result<Committed, PortError> {
        writes.push(self.next_revision(revision)?);
        match self.transact(operation, &writes).await? {
            Outcome::Done => Ok(Committed::Written),
            Outcome::Refused(reasons) => {
                if reasons.last().is_some_and(Option::is_some) {
                    return Ok(Committed::Overtaken);
                }
                let changed = names.iter().zip(&reasons).find(|(_, reason)| reason.is_some());
                Err(conflict(operation, changed.map_or("of this write", |(name, _)| name)))
            }
        }
    }

    /// The write of the next revision.
    fn next_revision(&self, read: u64) -> Result<TransactWriteItem, PortError> {
        let update = Update::builder()
            .table_name(&self.table)
            .set_key(Some(self.key(KEY)))
            .update_expression("SET revision = :next")
            .expression_attribute_values(":next", number(read + 1));
        let update = if read == 0 {
            update.condition_expression("attribute_not_exists(sk)")
        } else {
            update.condition_expression("revision = :read").expression_attribute_values(":read", number(read))
        };
        Ok(TransactWriteItem::builder().update(finish(update)?).build())
    }
}
