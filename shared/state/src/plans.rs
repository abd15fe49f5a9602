//! Plans: their decisions, the commands that they execute, and the records that one plan leaves for the next.

use crate::State;
use crate::claims::Created;
use crate::items::{attributes, read_deflated, read_json, read_time, text, ttl, write_deflated, write_json};
use crate::limits::LaunchLimits;
use crate::state::after;
use jiff::Timestamp;
use nodeless_model::NodeClaim;
use nodeless_model::claim::Charge;
use nodeless_ports::table::{Condition, Item, Key, Value};
use nodeless_ports::{ErrorKind, PortError};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A disruption command that has not ended. It is stored so that any process can continue it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCommand {
    /// The command's id.
    pub id: String,
    /// The number of writes. A write fails if another one came first. Zero before the first write.
    pub version: u64,
    /// The progress in one sentence, for users who read the table.
    pub summary: String,
    /// The encoded record, at most [`COMMAND_BYTES`].
    pub encoded: Vec<u8>,
}

/// The maximum size of an encoded command: DynamoDB limits an item to 400 kB.
pub const COMMAND_BYTES: usize = 350_000;

/// A plan that has begun. It is stored until the plan ends, so that the next plan detects one that did not finish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnfinishedPlan {
    /// The unique id of the plan.
    pub id: String,
    /// When it began.
    pub began: Timestamp,
    /// The number of plans immediately before this one that did not finish either.
    #[serde(default)]
    pub before: u32,
}

impl UnfinishedPlan {
    /// The number of consecutive plans that did not finish, including this one.
    #[must_use]
    pub const fn consecutive(&self) -> u32 {
        self.before.saturating_add(1)
    }
}

/// A claim that a plan terminates.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaving {
    /// The claim, with the version that was read.
    pub claim: NodeClaim,
    /// The new charge, if it changes.
    pub charge: Option<Charge>,
}

/// A decision of a plan. It is written together with the next plan revision, so that the write fails if another plan has decided
/// anything since this one read the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Commit<'a> {
    /// New claims of one NodePool, as [`State::create_together`] writes them. If the cluster has
    /// limits, the usage of all NodePools is read before the write. Charges of new claims are written only by commits (and when
    /// nodes that exist are adopted), so if the plan revision is still the same, no other launch has been added to that usage, and
    /// the limits of the cluster hold without an item that every launch and every termination would have to write.
    Launch(&'a [NodeClaim], &'a LaunchLimits),
    /// A claim whose stopped instance the plan takes for pods, as [`State::update`] writes it, with its charge: as that of a launch, it is
    /// only written if the NodePool and the cluster stay within their limits.
    Start(&'a NodeClaim, &'a Charge, &'a LaunchLimits),
    /// Claims of one NodePool that the plan terminates, at most [`MAX_TOGETHER`](crate::claims::MAX_TOGETHER), in one
    /// transaction: each as [`State::update`] writes it.
    Leave(&'a [Leaving]),
    /// A command, as [`State::put_command`] writes it.
    Command(&'a StoredCommand),
}

/// The result of a [`Commit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    /// The decision is written. The version of each claim or command and the plan revision are incremented.
    Written,
    /// Claims with these names and uids existed: an earlier attempt had succeeded.
    AlreadyThere,
    /// The NodePool's limit would be exceeded; nothing was written.
    LimitReached {
        /// The resource, or `dollars-per-hour`.
        resource: String,
    },
    /// A limit of the cluster would be exceeded; nothing was written.
    ClusterLimitReached {
        /// The resource, or `dollars-per-hour`.
        resource: String,
    },
    /// Another plan has decided something since the plan revision was read; nothing was written.
    Overtaken,
}

impl Committed {
    /// The result of a commit of new claims.
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
    /// Rejects a command that is too large to be stored.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) when it is too large.
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
        Err(PortError::new(ErrorKind::Invalid, operation, message))
    }
}

/// The Events about lasting states that are published and that the API server still has: by the second of their publication, hashes of
/// the key and of the message of each.
pub type PublishedEvents = BTreeMap<i64, Vec<(u64, u32)>>;

const UNFINISHED: &str = "plan";
const PUBLISHED_EVENTS: &str = "published-events";
const NOT_YET_EVALUATED: &str = "not-yet-evaluated";
const REQUEST: &str = "plan-request";
/// For how long a request for a plan is kept, which is answered within seconds.
const REQUEST_KEPT: Duration = Duration::from_mins(10);
/// DynamoDB limits an item to 400 kB.
const CHUNK_BYTES: usize = 350_000;

impl State {
    /// The latest plan, if it has not ended.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn unfinished_plan(&self) -> Result<Option<UnfinishedPlan>, PortError> {
        self.item("claims unfinished plan", UNFINISHED).await?.map(|item| read_json(&item, "record")).transpose()
    }

    /// Records that a plan begins. This replaces the record of an unfinished plan. The record expires at `until`.
    ///
    /// # Errors
    /// When the table cannot be written.
    pub async fn begin_plan(&self, plan: &UnfinishedPlan, until: Timestamp) -> Result<(), PortError> {
        const OPERATION: &str = "claims begin plan";
        let record = write_json(OPERATION, plan)?;
        let attributes = attributes([("record", record), ("id", text(&plan.id)), ("expires", ttl(until))]);
        self.put(OPERATION, UNFINISHED, attributes).await
    }

    /// Deletes the record of the plan with this id. If it is missing, or a later plan has replaced it, nothing changes.
    ///
    /// # Errors
    /// When the table cannot be written.
    pub async fn end_plan(&self, id: &str) -> Result<(), PortError> {
        let is_of_this_plan = Condition::Is("id".to_owned(), text(id));
        self.delete_if("claims end plan", UNFINISHED, is_of_this_plan).await.map(drop)
    }

    /// When a plan was last requested that does not wait for the end of a batch window.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn requested_plan(&self) -> Result<Option<Timestamp>, PortError> {
        self.item("claims plan request", REQUEST).await?.map(|item| read_time(&item, "at")).transpose()
    }

    /// Requests a plan that does not wait for the end of a batch window. The message that wakes the planner is sent apart from it.
    ///
    /// # Errors
    /// When the table cannot be written.
    pub async fn request_plan(&self, at: Timestamp) -> Result<(), PortError> {
        let attributes = attributes([("at", text(at.to_string())), ("expires", ttl(after(at, REQUEST_KEPT)))]);
        self.put("claims put plan request", REQUEST, attributes).await
    }

    /// The names of the nodes that the last disruption decision did not evaluate. The next decision starts with them.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn not_yet_evaluated(&self) -> Result<BTreeSet<String>, PortError> {
        let item = self.item("claims not yet evaluated", NOT_YET_EVALUATED).await?;
        item.map_or_else(|| Ok(BTreeSet::new()), |item| read_deflated(&item, "record"))
    }

    /// Replaces these names. They expire at `until`.
    ///
    /// # Errors
    /// When the table cannot be written.
    pub async fn put_not_yet_evaluated(&self, nodes: &BTreeSet<String>, until: Timestamp) -> Result<(), PortError> {
        const OPERATION: &str = "claims put not yet evaluated";
        let record = write_deflated(OPERATION, nodes)?;
        self.put(OPERATION, NOT_YET_EVALUATED, attributes([("record", record), ("expires", ttl(until))])).await
    }

    /// The recorded Events that are published.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn published_events(&self) -> Result<PublishedEvents, PortError> {
        let item = self.item("claims published events", PUBLISHED_EVENTS).await?;
        item.map_or_else(|| Ok(PublishedEvents::new()), |item| read_deflated(&item, "record"))
    }

    /// Replaces them. They expire at `until`.
    ///
    /// # Errors
    /// When the table cannot be written.
    pub async fn put_published_events(&self, events: &PublishedEvents, until: Timestamp) -> Result<(), PortError> {
        const OPERATION: &str = "claims put published events";
        let record = write_deflated(OPERATION, events)?;
        self.put(OPERATION, PUBLISHED_EVENTS, attributes([("record", record), ("expires", ttl(until))])).await
    }

    /// Stores the snapshot of a plan in chunks. It expires at `until`.
    ///
    /// # Errors
    /// When the table cannot be written.
    pub async fn put_snapshot(&self, id: &str, encoded: &[u8], until: Timestamp) -> Result<(), PortError> {
        let chunk = |(index, chunk): (usize, &[u8])| Item {
            key: Key::of_cluster(format!("snapshot#{id}#{index:03}")),
            attributes: attributes([("chunk", Value::Bytes(chunk.to_vec())), ("expires", ttl(until))]),
        };
        self.table.put_all("claims put snapshot", encoded.chunks(CHUNK_BYTES).enumerate().map(chunk).collect()).await
    }
}
