//! Decisions of plans: each is written in one transaction with the next plan revision, on condition that the plan read the
//! current revision. So of two plans that run at the same time at most one decides anything.

use crate::State;
use crate::claims::replacements;
use crate::commands::command_write;
use crate::items::{attributes, number, read_number};
use crate::limits::LaunchLimits;
use crate::plans::{Commit, Committed};
use crate::state::{conflict, first_refused};
use crate::usage::{Amounts, first_cluster_limit_passed, first_limit_passed};
use nodeless_model::NodeClaim;
use nodeless_model::claim::Charge;
use nodeless_ports::table::{Change, Condition, Key, Outcome, Write};
use nodeless_ports::{ErrorKind, PortError};

const KEY: &str = "plan-revision";
const REVISION: &str = "revision";

impl State {
    /// The plan revision, read consistently. A plan reads it before anything else.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn plan_revision(&self) -> Result<u64, PortError> {
        self.item("claims plan revision", KEY).await?.map_or(Ok(0), |item| read_number(&item, REVISION))
    }

    /// Writes a decision of a plan and the next plan revision in one transaction, if the revision is still the one that the plan
    /// read.
    ///
    /// # Errors
    /// As for the write itself: [`Conflict`](crate::ErrorKind::Conflict) when another process wrote the claim or command first,
    /// `Invalid` for invalid input, and when the table cannot be written. In the last case the write may have succeeded.
    pub async fn commit(&self, commit: Commit<'_>, revision: u64) -> Result<Committed, PortError> {
        match commit {
            Commit::Launch(claims, limits) => self.commit_launch(claims, limits, revision).await,
            Commit::Start(claim, charge, limits) => self.commit_start(claim, charge, limits, revision).await,
            Commit::Leave(leaving) => {
                const OPERATION: &str = "claims update";
                let changes: Vec<_> = leaving.iter().map(|one| (&one.claim, one.charge.as_ref())).collect();
                let writes = replacements(OPERATION, &changes)?;
                let names: Vec<&str> = leaving.iter().map(|one| one.claim.name.as_str()).collect();
                self.with_revision(OPERATION, writes, revision, &names).await
            }
            Commit::Command(command) => {
                const OPERATION: &str = "claims put command";
                self.with_revision(OPERATION, vec![command_write(OPERATION, command)?], revision, &[&command.id]).await
            }
        }
    }

    async fn commit_launch(
        &self,
        claims: &[NodeClaim],
        LaunchLimits { node_pool: limits, cluster }: &LaunchLimits,
        revision: u64,
    ) -> Result<Committed, PortError> {
        const OPERATION: &str = "claims create";
        let creation = match self.creation(OPERATION, claims, Some(limits))? {
            Ok(creation) => creation,
            Err(resource) => return Ok(Committed::LimitReached { resource }),
        };
        if !cluster.are_none() {
            // Read after the plan revision: see `Commit::Launch`.
            let usage = self.usage().await?;
            if let Some(resource) = first_cluster_limit_passed(&usage, &creation.amounts, cluster) {
                return Ok(Committed::ClusterLimitReached { resource });
            }
        }
        let mut writes = creation.writes.clone();
        writes.push(next_revision(revision));
        let Outcome::Refused(mut refusals) = self.table.write(OPERATION, writes).await? else {
            return Ok(Committed::Written);
        };
        let overtaken = refusals.pop().flatten().is_some();
        let claims_refused = refusals.iter().take(claims.len()).any(Option::is_some);
        // If claims of this plan exist, an earlier attempt wrote them and incremented the revision.
        if overtaken && !claims_refused {
            return Ok(Committed::Overtaken);
        }
        creation.refused(OPERATION, claims, Some(limits), refusals).map(Committed::created)
    }

    async fn commit_start(
        &self,
        claim: &NodeClaim,
        charge: &Charge,
        LaunchLimits { node_pool: limits, cluster }: &LaunchLimits,
        revision: u64,
    ) -> Result<Committed, PortError> {
        const OPERATION: &str = "claims start";
        let Some(node_pool) = claim.node_pool.as_deref() else {
            let message = format!("claim {} has no NodePool, and only nodes of NodePools are started", claim.name);
            return Err(PortError::new(ErrorKind::Invalid, OPERATION, message));
        };
        let amounts = Amounts::new(charge).minus(&Amounts::new(&claim.spec.charge));
        if let Some(resource) = first_limit_passed(None, &amounts, limits) {
            return Ok(Committed::LimitReached { resource });
        }
        if !cluster.are_none() {
            // Read after the plan revision: see `Commit::Launch`.
            let usage = self.usage().await?;
            if let Some(resource) = first_cluster_limit_passed(&usage, &amounts, cluster) {
                return Ok(Committed::ClusterLimitReached { resource });
            }
        }
        let mut writes = replacements(OPERATION, &[(&charged(claim, charge), None)])?;
        writes.extend([amounts.charge(node_pool, Some(limits)), next_revision(revision)]);
        let Outcome::Refused(refusals) = self.table.write(OPERATION, writes).await? else {
            return Ok(Committed::Written);
        };
        match refusals.as_slice() {
            [.., Some(_)] => Ok(Committed::Overtaken),
            [None, Some(refusal), ..] => {
                let resource = first_limit_passed(refusal.item.as_ref(), &amounts, limits);
                resource
                    .map(|resource| Committed::LimitReached { resource })
                    .ok_or_else(|| conflict(OPERATION, node_pool))
            }
            _ => Err(conflict(OPERATION, &claim.name)),
        }
    }

    /// Writes the items with these names and the next revision.
    async fn with_revision(
        &self,
        operation: &'static str,
        mut writes: Vec<Write>,
        revision: u64,
        names: &[&str],
    ) -> Result<Committed, PortError> {
        writes.push(next_revision(revision));
        match self.table.write(operation, writes).await? {
            Outcome::Written => Ok(Committed::Written),
            Outcome::Refused(refusals) if refusals.last().is_some_and(Option::is_some) => Ok(Committed::Overtaken),
            Outcome::Refused(refusals) => Err(conflict(operation, first_refused(names.iter().copied(), &refusals))),
        }
    }
}

/// The claim with this charge.
fn charged(claim: &NodeClaim, charge: &Charge) -> NodeClaim {
    let mut next = claim.clone();
    next.spec.charge = charge.clone();
    next
}

/// The write of the next revision.
fn next_revision(read: u64) -> Write {
    let condition = match read {
        0 => Condition::Missing,
        read => Condition::Is(REVISION.to_owned(), number(read)),
    };
    Write::new(Key::of_cluster(KEY), Change::Set(attributes([(REVISION, number(read + 1))]))).on(condition)
}
