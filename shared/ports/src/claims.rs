//! The claims table: what we want, and what has been decided about it.

use crate::{ErrorKind, LaunchCheck, PortError, StoredZonalShifts};
use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_model::claim::{Charge, OfferingKey};
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::{CapacityType, NodeClaim, ResourceList};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The limits of a NodePool, against which a new claim is charged in the same transaction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolLimits {
    /// Resources, `nodes` included; one that is not listed is unlimited.
    pub resources: ResourceList,
    /// Dollars per hour.
    pub dollars_per_hour: Option<f64>,
}

/// How many new claims may be written together: one less than the writes of a DynamoDB transaction, since the charge to the
/// NodePool is one of them.
pub const MOST_CREATED: usize = 99;

/// What became of new claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// They are written, with version 1, and charged.
    Written,
    /// Claims of these names with the same uids were there already: an earlier try had succeeded.
    AlreadyThere,
    /// Their NodePool's limit would be passed; nothing was written.
    LimitReached {
        /// The resource, or `dollars-per-hour`.
        resource: String,
    },
}

/// The NodePool of claims that are to be written together.
///
/// # Errors
/// `Invalid` for no claims, more than [`MOST_CREATED`], or claims of several NodePools.
pub fn node_pool_of<'a>(operation: &str, claims: &'a [NodeClaim]) -> Result<&'a str, PortError> {
    let invalid = |message: String| PortError::new(ErrorKind::Invalid, operation, message);
    let Some(first) = claims.first().filter(|_| claims.len() <= MOST_CREATED) else {
        return Err(invalid(format!("{} claims cannot be written together, but 1 to {MOST_CREATED}", claims.len())));
    };
    match claims.iter().find(|claim| claim.node_pool != first.node_pool) {
        Some(other) => {
            Err(invalid(format!("claims of the NodePools {} and {} together", first.node_pool, other.node_pool)))
        }
        None => Ok(&first.node_pool),
    }
}

/// An offering that EC2 did not have a moment ago.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnavailableOffering {
    /// The instance type.
    pub instance_type: String,
    /// The availability zone, by name.
    pub zone: String,
    /// How it would have been bought.
    pub capacity_type: CapacityType,
    /// Until when it is not to be asked for.
    pub until: Timestamp,
    /// EC2's code, such as `InsufficientInstanceCapacity`.
    pub reason: String,
}

/// How many launches of an offering may be on their way at once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchBudget {
    /// The offering.
    pub offering: OfferingKey,
    /// How many.
    pub size: u32,
    /// Until when this holds; from then on it is as if nothing had been written.
    pub until: Timestamp,
}

/// A disruption command on its way, as it is stored: so that it survives the process that began it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCommand {
    /// The command's id.
    pub id: String,
    /// Counts the writes; a write is refused when another came before it. Zero before the first.
    pub version: u64,
    /// How far it has come, in one sentence for people who look into the table.
    pub summary: String,
    /// The record as its owner encoded it; at most [`COMMAND_BYTES`].
    pub encoded: Vec<u8>,
}

/// The most bytes that an encoded command may have: DynamoDB holds 400 kB in an item.
pub const COMMAND_BYTES: usize = 350_000;

/// What voluntary disruption did to a NodePool lately, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredChurn {
    /// The NodePool.
    pub node_pool: String,
    /// Counts the writes; a write is refused when another came before it. Zero before the first.
    pub version: u64,
    /// The record as its owner encoded it.
    pub encoded: String,
    /// From when on it says nothing any more. It may be there a while longer.
    pub expires: Timestamp,
}

/// What came of the last launches of a NodePool, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredRegistrations {
    /// The NodePool.
    pub node_pool: String,
    /// Counts the writes; a write is refused when another came before it. Zero before the first.
    pub version: u64,
    /// The record as its owner encoded it.
    pub encoded: String,
    /// From when on it may be forgotten.
    pub expires: Timestamp,
}

/// How much memory nodes reported, as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredMemory {
    /// Counts the writes; a write is refused when another came before it. Zero before the first.
    pub version: u64,
    /// The record as its owner encoded it; empty before the first.
    pub encoded: String,
    /// From when on it says nothing any more. It may be there a while longer.
    pub expires: Timestamp,
}

/// A plan that was begun, as it is stored until it ends: so that the next one knows of a plan that never did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnfinishedPlan {
    /// Which plan: no other has this id.
    pub id: String,
    /// When it was begun.
    pub began: Timestamp,
}

/// Why something was decided, for people; kept for a while and then forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// A sortable id.
    pub id: String,
    /// When.
    pub at: Timestamp,
    /// What kind: `provisioning`, `disruption`, `interruption`, `collection`.
    pub kind: String,
    /// About what: the names of claims, nodes or pods.
    pub subjects: Vec<String>,
    /// In one sentence.
    pub summary: String,
    /// The whole story as JSON text.
    pub detail: String,
}

/// The right to do something alone for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// What it is about.
    pub name: String,
    /// Who holds it.
    pub holder: String,
    /// Grows with each new holder; a write that carries an older number is refused.
    pub fencing: u64,
    /// When it lapses by itself.
    pub expires: Timestamp,
}

impl StoredCommand {
    /// Refuses a command that is too large to be stored.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) when it is.
    pub fn check_size(&self, operation: &str) -> Result<(), PortError> {
        if self.encoded.len() <= COMMAND_BYTES {
            return Ok(());
        }
        let message = format!(
            "the command {} takes {} bytes, and at most {COMMAND_BYTES} can be stored; its nodes are disrupted when fewer of \
             them go at once",
            self.id,
            self.encoded.len()
        );
        Err(PortError::new(crate::ErrorKind::Invalid, operation, message))
    }
}

/// The claims table of one cluster.
#[async_trait]
pub trait Claims: Send + Sync {
    /// All claims, in the order of their names, read consistently.
    ///
    /// # Errors
    /// When the table cannot be read, or one record cannot be decoded: then nothing is known for sure.
    async fn list(&self) -> Result<Vec<NodeClaim>, PortError>;

    /// One claim, read consistently.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn get(&self, name: &str) -> Result<Option<NodeClaim>, PortError>;

    /// The claim of an instance.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn find_by_instance(&self, instance_id: &str) -> Result<Option<NodeClaim>, PortError>;

    /// Writes new claims of one NodePool, at most [`MOST_CREATED`], and charges it, all or nothing: in one transaction that
    /// fails when a limit would be passed. With `limits` of `None` the charge is made regardless: adoption must not lose a
    /// node that exists.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when another claim has one of the names; `Invalid` for no claims, too many,
    /// or claims of several NodePools; and when the table cannot be written. Nothing was written then, or the very same
    /// claims were.
    async fn create_together(&self, claims: &[NodeClaim], limits: Option<&PoolLimits>) -> Result<Created, PortError>;

    /// [`create_together`](Self::create_together) for one claim.
    ///
    /// # Errors
    /// The same.
    async fn create(&self, claim: &NodeClaim, limits: Option<&PoolLimits>) -> Result<Created, PortError> {
        self.create_together(std::slice::from_ref(claim), limits).await
    }

    /// Writes a claim if the table still holds the version that was read, and returns the new version.
    /// When `charge` is given, the claim's charge becomes that, and the pool's usage changes with it.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when somebody else wrote first.
    async fn update(&self, claim: &NodeClaim, charge: Option<&Charge>) -> Result<u64, PortError>;

    /// Deletes a claim that is gone, if the table still holds its version, and gives its charge back. A claim that is
    /// not there any more is a success.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when somebody else wrote first.
    async fn delete(&self, claim: &NodeClaim) -> Result<(), PortError>;

    /// The names of the nodes that the last decision about disruption had no time to look at: the next begins with them.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn backlog(&self) -> Result<BTreeSet<String>, PortError>;

    /// Writes these names in place of those that were there. They may be forgotten from `until` on.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn put_backlog(&self, nodes: &BTreeSet<String>, until: Timestamp) -> Result<(), PortError>;

    /// The plan that was begun last, unless it has ended.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn unfinished_plan(&self) -> Result<Option<UnfinishedPlan>, PortError>;

    /// Writes that a plan begins, in place of one that has not ended. It may be forgotten from `until` on.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn begin_plan(&self, plan: &UnfinishedPlan, until: Timestamp) -> Result<(), PortError>;

    /// Writes that the plan of this id has ended. When another was begun since, or none, nothing changes.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn end_plan(&self, id: &str) -> Result<(), PortError>;

    /// Keeps what a plan was made from, in chunks, for a person to fetch; forgotten from `until` on.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn put_snapshot(&self, id: &str, encoded: &[u8], until: Timestamp) -> Result<(), PortError>;

    /// What the claims of each NodePool are charged.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn usage(&self) -> Result<BTreeMap<String, PoolUsage>, PortError>;

    /// Corrects a NodePool's usage to what was counted afresh, if it still is what was read.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when it changed meanwhile.
    async fn correct_usage(&self, node_pool: &str, read: &PoolUsage, counted: &PoolUsage) -> Result<(), PortError>;

    /// Remembers offerings that EC2 did not have.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn mark_unavailable(&self, offerings: &[UnavailableOffering]) -> Result<(), PortError>;

    /// The offerings that are not to be asked for at this time.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn unavailable(&self, now: Timestamp) -> Result<Vec<UnavailableOffering>, PortError>;

    /// What is known of zonal shifts, read consistently; nothing where nobody ever wrote it.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn zonal_shifts(&self) -> Result<StoredZonalShifts, PortError>;

    /// Writes what is known of zonal shifts if the table still holds the version that was read (none where that is zero),
    /// and returns the new version.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when somebody else wrote first.
    async fn put_zonal_shifts(&self, shifts: &StoredZonalShifts) -> Result<u64, PortError>;

    /// The launch budgets that hold at this time. An offering that is not among them has the initial one.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn launch_budgets(&self, now: Timestamp) -> Result<Vec<LaunchBudget>, PortError>;

    /// Writes those that are greater than what holds now, which is `initial` where nothing is written.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn raise_launch_budgets(
        &self,
        budgets: &[LaunchBudget],
        initial: u32,
        now: Timestamp,
    ) -> Result<(), PortError>;

    /// Writes them, whatever holds now.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn reset_launch_budgets(&self, budgets: &[LaunchBudget]) -> Result<(), PortError>;

    /// What EC2 was last asked about an EC2NodeClass by dry runs; `None` where it never was, or long ago.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn launch_check(&self, node_class: &str) -> Result<Option<LaunchCheck>, PortError>;

    /// Remembers what EC2 was asked about an EC2NodeClass, in place of what was remembered; forgotten after `keep`.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn put_launch_check(&self, check: &LaunchCheck, keep: Duration) -> Result<(), PortError>;

    /// Stores the encoded catalog under its version, in chunks; readers see the old or the new one, never a mixture.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn put_catalog(&self, version: &str, encoded: &[u8]) -> Result<(), PortError>;

    /// The version of the catalog that is stored.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn catalog_version(&self) -> Result<Option<String>, PortError>;

    /// The stored catalog and its version.
    ///
    /// # Errors
    /// When the table cannot be read or a chunk is missing.
    async fn catalog(&self) -> Result<Option<(String, Vec<u8>)>, PortError>;

    /// The disruption commands that are on their way, in the order of their ids, read consistently.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn commands(&self) -> Result<Vec<StoredCommand>, PortError>;

    /// Writes a command if the table still holds the version that was read (none where that is zero), and returns the new
    /// version.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when somebody else wrote first, [`Invalid`](crate::ErrorKind::Invalid) when
    /// it is too large.
    async fn put_command(&self, command: &StoredCommand) -> Result<u64, PortError>;

    /// Deletes a command that has ended, if the table still holds its version. One that is not there any more is a success.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when somebody else wrote first.
    async fn delete_command(&self, command: &StoredCommand) -> Result<(), PortError>;

    /// What voluntary disruption did to each NodePool lately, in the order of their names, read consistently.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn churn(&self) -> Result<Vec<StoredChurn>, PortError>;

    /// Writes what voluntary disruption did to a NodePool if the table still holds the version that was read (none where that
    /// is zero), and returns the new version.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when somebody else wrote first.
    async fn put_churn(&self, churn: &StoredChurn) -> Result<u64, PortError>;

    /// What came of the last launches of each NodePool, in the order of their names, read consistently.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn registrations(&self) -> Result<Vec<StoredRegistrations>, PortError>;

    /// What came of the last launches of one NodePool, read consistently.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn registrations_of(&self, node_pool: &str) -> Result<Option<StoredRegistrations>, PortError>;

    /// Writes what came of the last launches of a NodePool if the table still holds the version that was read (none where that
    /// is zero), and returns the new version.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when somebody else wrote first.
    async fn put_registrations(&self, registrations: &StoredRegistrations) -> Result<u64, PortError>;

    /// How much memory nodes reported, read consistently; nothing where nobody ever wrote it.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn reported_memory(&self) -> Result<StoredMemory, PortError>;

    /// Writes how much memory nodes reported if the table still holds the version that was read (none where that is zero), and
    /// returns the new version.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when somebody else wrote first.
    async fn put_reported_memory(&self, memory: &StoredMemory) -> Result<u64, PortError>;

    /// Writes down why something was decided; forgotten after `keep`.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn record_decisions(&self, decisions: &[Decision], keep: Duration) -> Result<(), PortError>;

    /// The latest decisions, newest first.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn decisions(&self, limit: u32) -> Result<Vec<Decision>, PortError>;

    /// Takes a lease that is free, lapsed or held by the same holder; `None` when another holds it.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn acquire_lease(
        &self,
        name: &str,
        holder: &str,
        now: Timestamp,
        duration: Duration,
    ) -> Result<Option<Lease>, PortError>;

    /// Gives a lease back; one that has passed to another is left alone.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn release_lease(&self, lease: &Lease) -> Result<(), PortError>;
}
