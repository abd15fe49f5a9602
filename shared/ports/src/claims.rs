//! The claims table: what we want, and what has been decided about it.

use crate::{ErrorKind, LaunchCheck, PortError, StoredZonalShifts};
use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_model::claim::Charge;
pub use nodeless_model::claim::LaunchBudget;
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

/// How many claims may be written together: three less than the writes of a DynamoDB transaction, since the charge to the
/// NodePool, the record of the launch group and the plan revision are among them. So it is the greatest size of a launch group,
/// too.
pub const MAX_TOGETHER: usize = 97;

/// For how long the record of a launch group is kept after its last write: far longer than any of its claims can be without an
/// instance.
pub const LAUNCH_GROUP_KEPT: Duration = Duration::from_hours(7 * 24);

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
/// `Invalid` for no claims, more than [`MAX_TOGETHER`], or claims of several NodePools.
pub fn node_pool_of<'a>(
    operation: &str,
    claims: impl ExactSizeIterator<Item = &'a NodeClaim>,
) -> Result<&'a str, PortError> {
    let invalid = |message: String| PortError::new(ErrorKind::Invalid, operation, message);
    let (count, mut rest) = (claims.len(), claims);
    let Some(first) = rest.next().filter(|_| count <= MAX_TOGETHER) else {
        return Err(invalid(format!("{count} claims cannot be written together, but 1 to {MAX_TOGETHER}")));
    };
    match rest.find(|claim| claim.node_pool != first.node_pool) {
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

/// What the members of a launch group share: who they are, and whose each instance is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredLaunchGroup {
    /// The group's id.
    pub id: String,
    /// Counts the writes; a write is refused when another came before it. Zero before the first.
    #[serde(skip)]
    pub version: u64,
    /// The names of its claims, in the order of their places.
    pub members: Vec<String>,
    /// The claim of each instance that was launched for the group, as far as its instances are known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub owners: BTreeMap<String, String>,
}

impl StoredLaunchGroup {
    /// The record that is written with these claims: one, if they are the whole of a launch group of several.
    #[must_use]
    pub fn of(claims: &[NodeClaim]) -> Option<Self> {
        let group = claims.first()?.spec.launch_group.as_ref()?;
        let mut places = BTreeMap::new();
        for claim in claims {
            let theirs = claim.spec.launch_group.as_ref().filter(|theirs| theirs.id == group.id)?;
            places.insert(theirs.index, claim.name.clone());
        }
        let whole = group.size > 1 && usize::try_from(group.size).is_ok_and(|size| size == places.len());
        let members = places.into_values().collect();
        whole.then(|| Self { id: group.id.clone(), version: 0, members, owners: BTreeMap::new() })
    }
}

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

/// A claim that is told to leave.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaving {
    /// The claim, with the version that was read.
    pub claim: NodeClaim,
    /// What it is charged from now on, if that changes.
    pub charge: Option<Charge>,
}

/// What a plan decides. It is written together with the next plan revision, so that it is written only while no other plan has
/// decided anything since this one read the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Commit<'a> {
    /// New claims of one NodePool, as [`Claims::create_together`] writes them.
    Launch(&'a [NodeClaim], &'a PoolLimits),
    /// Claims of one NodePool that are told to leave, at most [`MAX_TOGETHER`], each as [`Claims::update`] writes it; all or none.
    Leave(&'a [Leaving]),
    /// A command, as [`Claims::put_command`] writes it.
    Command(&'a StoredCommand),
}

/// What became of a [`Commit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    /// It is written, the version of each claim or command is one higher, and so is the plan revision.
    Written,
    /// Claims of these names with the same uids were there already: an earlier try had succeeded.
    AlreadyThere,
    /// The NodePool's limit would be passed; nothing was written.
    LimitReached {
        /// The resource, or `dollars-per-hour`.
        resource: String,
    },
    /// Another plan has decided something since the plan revision was read; nothing was written.
    Overtaken,
}

impl Committed {
    /// The same of new claims.
    #[must_use]
    pub fn created(created: Created) -> Self {
        match created {
            Created::Written => Self::Written,
            Created::AlreadyThere => Self::AlreadyThere,
            Created::LimitReached { resource } => Self::LimitReached { resource },
        }
    }
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

    /// The claims of these names that there are, in the order of their names, read consistently.
    ///
    /// # Errors
    /// When the table cannot be read, or one record cannot be decoded.
    async fn get_all(&self, names: &[String]) -> Result<Vec<NodeClaim>, PortError>;

    /// What the members of a launch group share, read consistently. A group of one has no record.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn launch_group(&self, id: &str) -> Result<Option<StoredLaunchGroup>, PortError>;

    /// Writes what the members of a launch group share, if the table still holds the version that was read (none where that is
    /// zero), and returns the new version. `now` is what [`LAUNCH_GROUP_KEPT`] counts from.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when somebody else wrote first.
    async fn put_launch_group(&self, group: &StoredLaunchGroup, now: Timestamp) -> Result<u64, PortError>;

    /// The claim of an instance, by an index that follows the table after a moment: a claim that was just written may not be
    /// found. So nothing that must not happen twice may depend on it.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn find_by_instance(&self, instance_id: &str) -> Result<Option<NodeClaim>, PortError>;

    /// Writes new claims of one NodePool, at most [`MAX_TOGETHER`], and charges it, all or nothing: in one transaction that
    /// fails when a limit would be passed. A launch group of several gets its record in the same transaction. With `limits` of
    /// `None` the charge is made regardless: adoption must not lose a
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
    async fn not_yet_evaluated(&self) -> Result<BTreeSet<String>, PortError>;

    /// Writes these names in place of those that were there. They may be forgotten from `until` on.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn put_not_yet_evaluated(&self, nodes: &BTreeSet<String>, until: Timestamp) -> Result<(), PortError>;

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

    /// How often plans have decided something for this cluster, read consistently. A plan reads it before anything else.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn plan_revision(&self) -> Result<u64, PortError>;

    /// Writes what a plan decided and the next plan revision, both or neither, if the revision is still the one that the plan
    /// read.
    ///
    /// # Errors
    /// As for the write itself: [`Conflict`](crate::ErrorKind::Conflict) when somebody else wrote the claim or command first,
    /// `Invalid` for what cannot be written at all, and when the table cannot be written. In the last case it may have been
    /// written all the same.
    async fn commit(&self, commit: Commit<'_>, revision: u64) -> Result<Committed, PortError>;
}
