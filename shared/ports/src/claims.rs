//! Claims: the nodes that are planned, launched or terminating, their charges, and their launch groups.

use crate::{ErrorKind, PortError};
use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_model::claim::Charge;
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::{ClusterLimits, EndedNode, NodeClaim, ResourceList};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The limits of a NodePool. A new claim is charged against them in the same transaction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolLimits {
    /// Resources, including `nodes`. A resource that is not listed is unlimited.
    pub resources: ResourceList,
    /// Dollars per hour.
    pub dollars_per_hour: Option<f64>,
}

/// The limits that a launch must not exceed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchLimits {
    /// The limits of the NodePool of the claims.
    pub node_pool: PoolLimits,
    /// The limits of all NodePools together.
    pub cluster: ClusterLimits,
}

/// The maximum number of claims that are written together: three less than the writes of a DynamoDB transaction, which also
/// writes the usage of the NodePool, the record of the launch group and the plan revision. It is also the maximum size of a
/// launch group.
pub const MAX_TOGETHER: usize = 97;

/// The number of partition keys of the claims of a cluster: DynamoDB reads at most 3,000 and writes at most 1,000 units a second
/// under one key. A claim is found by its name, so this number must not change while there are claims.
pub const PARTITIONS: u32 = 8;

/// The partition key of a claim, below [`PARTITIONS`].
#[must_use]
pub fn partition_of(name: &str) -> u32 {
    // FNV-1a: it is stable and needs no dependency.
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash % PARTITIONS
}

/// How long the record of a launch group is kept after its last write: far longer than any of its claims can be without an
/// instance.
pub const LAUNCH_GROUP_KEPT: Duration = Duration::from_hours(7 * 24);

/// The result of writing new claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// The claims are written, with version 1, and charged.
    Written,
    /// Claims with these names and uids existed: an earlier attempt had succeeded.
    AlreadyThere,
    /// The NodePool's limit would be exceeded; nothing was written.
    LimitReached {
        /// The resource, or `dollars-per-hour`.
        resource: String,
    },
}

/// The NodePool of claims to be written together.
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
        Some(other) => Err(invalid(format!(
            "claims of the NodePools {} and {} cannot be written together",
            first.node_pool, other.node_pool
        ))),
        None => Ok(&first.node_pool),
    }
}

/// A claim to write, with its new charge if it changes.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedClaim {
    /// The claim, with the version and the charge that were read.
    pub claim: NodeClaim,
    /// The charge that replaces that of the claim.
    pub charge: Option<Charge>,
}

/// The shared state of the members of a launch group: its claims, and the claim of each instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredLaunchGroup {
    /// The group's id.
    pub id: String,
    /// The number of writes. A write fails if another one came first. Zero before the first write.
    #[serde(skip)]
    pub version: u64,
    /// The names of its claims, in the order of their places.
    pub members: Vec<String>,
    /// The claim of each known instance that was launched for the group.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub owners: BTreeMap<String, String>,
}

impl StoredLaunchGroup {
    /// The record to write with these claims: one, if they are all claims of a launch group of several.
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

/// The claims of one cluster, the usage of its NodePools, and its launch groups.
#[async_trait]
pub trait Claims: Send + Sync {
    /// All claims, in the order of their names, read consistently.
    ///
    /// # Errors
    /// When the table cannot be read, or a record cannot be decoded.
    async fn list(&self) -> Result<Vec<NodeClaim>, PortError>;

    /// Reads a claim consistently.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn get(&self, name: &str) -> Result<Option<NodeClaim>, PortError>;

    /// The existing claims with these names, in the order of their names, read consistently.
    ///
    /// # Errors
    /// When the table cannot be read, or one record cannot be decoded.
    async fn get_all(&self, names: &[String]) -> Result<Vec<NodeClaim>, PortError>;

    /// The claim of an instance, by an eventually consistent index: a claim that was just written may not be found. Nothing that
    /// must not happen twice may depend on it.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn find_by_instance(&self, instance_id: &str) -> Result<Option<NodeClaim>, PortError>;

    /// Writes up to [`MAX_TOGETHER`] new claims of one NodePool and charges them, in one transaction that fails if a limit would
    /// be exceeded. A launch group of several gets its record in the same transaction. If `limits` is `None`, the claims are
    /// charged regardless, because adoption must not lose a node that exists.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when another claim has one of the names; `Invalid` for no claims, too many, or
    /// claims of several NodePools; and when the table cannot be written. Either nothing or the same claims were written then.
    async fn create_together(&self, claims: &[NodeClaim], limits: Option<&PoolLimits>) -> Result<Created, PortError>;

    /// [`create_together`](Self::create_together) for one claim.
    ///
    /// # Errors
    /// The same.
    async fn create(&self, claim: &NodeClaim, limits: Option<&PoolLimits>) -> Result<Created, PortError> {
        self.create_together(std::slice::from_ref(claim), limits).await
    }

    /// Writes a claim if the table still holds the version that was read, and returns the new version. `charge` replaces the
    /// charge of the claim and changes the usage of the NodePool accordingly.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when another process wrote first.
    async fn update(&self, claim: &NodeClaim, charge: Option<&Charge>) -> Result<u64, PortError>;

    /// Writes up to [`MAX_TOGETHER`] claims of one NodePool in one transaction, each as [`update`](Self::update) does. The
    /// version of each is incremented.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when another process wrote one of them first; `Invalid` for no claims, too many,
    /// or claims of several NodePools. Nothing was written then.
    async fn update_together(&self, changes: &[ChangedClaim]) -> Result<(), PortError>;

    /// Deletes a claim that has ended, if the table still holds its version, and releases its charge. A missing claim counts as
    /// success. The same transaction writes what is left of its instance, if it had one: see
    /// [`Costs::ended_nodes`](crate::Costs::ended_nodes).
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when another process wrote first.
    async fn delete_ended(&self, claim: &NodeClaim, ended: Option<&EndedNode>) -> Result<(), PortError>;

    /// [`delete_ended`](Self::delete_ended) without an instance.
    ///
    /// # Errors
    /// The same.
    async fn delete(&self, claim: &NodeClaim) -> Result<(), PortError> {
        self.delete_ended(claim, None).await
    }

    /// The usage of each NodePool: the sum of the charges of its claims.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn usage(&self) -> Result<BTreeMap<String, PoolUsage>, PortError>;

    /// Corrects a NodePool's usage to the computed sum, if it is still what was read.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when it changed meanwhile.
    async fn correct_usage(&self, node_pool: &str, read: &PoolUsage, counted: &PoolUsage) -> Result<(), PortError>;

    /// The shared state of a launch group, read consistently. A group of one has no record.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn launch_group(&self, id: &str) -> Result<Option<StoredLaunchGroup>, PortError>;

    /// Writes the shared state of a launch group, if the table still holds the version that was read (none if that is zero), and
    /// returns the new version. [`LAUNCH_GROUP_KEPT`] counts from `now`.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when another process wrote first.
    async fn put_launch_group(&self, group: &StoredLaunchGroup, now: Timestamp) -> Result<u64, PortError>;
}
