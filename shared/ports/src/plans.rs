//! Plans: what they decide, the commands that they carry out, and what one plan leaves for the next.

use crate::PortError;
use crate::claims::{Created, PoolLimits};
use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_model::NodeClaim;
use nodeless_model::claim::Charge;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A disruption command that has not ended, stored so that it survives the process that began it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCommand {
    /// The command's id.
    pub id: String,
    /// Counts the writes; a write is refused when another came before it. Zero before the first.
    pub version: u64,
    /// Its progress, in one sentence for people who look into the table.
    pub summary: String,
    /// The record as its owner encoded it; at most [`COMMAND_BYTES`].
    pub encoded: Vec<u8>,
}

/// The most bytes that an encoded command may have: DynamoDB holds 400 kB in an item.
pub const COMMAND_BYTES: usize = 350_000;

/// A plan that has begun, stored until it ends, so that the next plan knows of one that never ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnfinishedPlan {
    /// Which plan: no other has this id.
    pub id: String,
    /// When it began.
    pub began: Timestamp,
}

/// A claim that a plan ends.
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
    /// New claims of one NodePool, as [`Claims::create_together`](crate::Claims::create_together) writes them.
    Launch(&'a [NodeClaim], &'a PoolLimits),
    /// Claims of one NodePool that the plan ends, at most [`MAX_TOGETHER`](crate::claims::MAX_TOGETHER), all or none: each as
    /// [`Claims::update`](crate::Claims::update) writes it.
    Leave(&'a [Leaving]),
    /// A command, as [`Plans::put_command`] writes it.
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

/// What the plans of one cluster write and read.
#[async_trait]
pub trait Plans: Send + Sync {
    /// How often plans have decided something for this cluster, read consistently. A plan reads it before anything else.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn plan_revision(&self) -> Result<u64, PortError>;

    /// Writes what a plan decided and the next plan revision, both or neither, if the revision is still the one that the plan
    /// read.
    ///
    /// # Errors
    /// As for the write itself: [`Conflict`](crate::ErrorKind::Conflict) when another process wrote the claim or command first,
    /// `Invalid` for what cannot be written at all, and when the table cannot be written. In the last case it may have been
    /// written all the same.
    async fn commit(&self, commit: Commit<'_>, revision: u64) -> Result<Committed, PortError>;

    /// The disruption commands that have not ended, in the order of their ids, read consistently.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn commands(&self) -> Result<Vec<StoredCommand>, PortError>;

    /// Writes a command if the table still holds the version that was read (none where that is zero), and returns the new
    /// version.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when another process wrote first, [`Invalid`](crate::ErrorKind::Invalid) when
    /// it is too large.
    async fn put_command(&self, command: &StoredCommand) -> Result<u64, PortError>;

    /// Deletes a command that has ended, if the table still holds its version. One that is not there any more is a success.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when another process wrote first.
    async fn delete_command(&self, command: &StoredCommand) -> Result<(), PortError>;

    /// The latest plan, if it has not ended.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn unfinished_plan(&self) -> Result<Option<UnfinishedPlan>, PortError>;

    /// Records that a plan begins, in place of one that has not ended. The record expires at `until`.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn begin_plan(&self, plan: &UnfinishedPlan, until: Timestamp) -> Result<(), PortError>;

    /// Deletes the record that the plan of this id has begun. Where there is none, or that of a later plan, nothing changes.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn end_plan(&self, id: &str) -> Result<(), PortError>;

    /// The names of the nodes that the last decision about disruption had no time to evaluate: the next begins with them.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn not_yet_evaluated(&self) -> Result<BTreeSet<String>, PortError>;

    /// Writes these names in place of the earlier ones. They expire at `until`.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn put_not_yet_evaluated(&self, nodes: &BTreeSet<String>, until: Timestamp) -> Result<(), PortError>;

    /// Stores what a plan was made from, in chunks, for a person to read. It expires at `until`.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn put_snapshot(&self, id: &str, encoded: &[u8], until: Timestamp) -> Result<(), PortError>;
}
