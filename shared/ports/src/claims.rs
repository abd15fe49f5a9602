//! Claims: the nodes that are planned, launched or on their way out, what they are charged, and their launch groups.

use crate::{ErrorKind, PortError};
use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_model::claim::Charge;
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::{NodeClaim, ResourceList};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
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
        Some(other) => Err(invalid(format!(
            "claims of the NodePools {} and {} cannot be written together",
            first.node_pool, other.node_pool
        ))),
        None => Ok(&first.node_pool),
    }
}

/// A claim that is written, and what it is charged from now on, where that changes.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedClaim {
    /// The claim, with the version and the charge that were read.
    pub claim: NodeClaim,
    /// The charge that replaces that of the claim.
    pub charge: Option<Charge>,
}

/// What the members of a launch group share: its claims, and the claim of each instance.
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

/// The claims of one cluster, the usage of its NodePools, and its launch groups.
#[async_trait]
pub trait Claims: Send + Sync {
    /// All claims, in the order of their names, read consistently.
    ///
    /// # Errors
    /// When the table cannot be read, or one record cannot be decoded: then nothing is known.
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

    /// The claim of an instance, by an index that follows the table after a moment: a claim that was just written may not be
    /// found. So nothing that must not happen twice may depend on it.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn find_by_instance(&self, instance_id: &str) -> Result<Option<NodeClaim>, PortError>;

    /// Writes new claims of one NodePool, at most [`MAX_TOGETHER`], and charges it, all or nothing: in one transaction that
    /// fails when a limit would be passed. A launch group of several gets its record in the same transaction. With `limits` of
    /// `None` the charge is made regardless: adoption must not lose a node that exists.
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
    /// [`Conflict`](crate::ErrorKind::Conflict) when another process wrote first.
    async fn update(&self, claim: &NodeClaim, charge: Option<&Charge>) -> Result<u64, PortError>;

    /// Writes claims of one NodePool, at most [`MAX_TOGETHER`], each as [`update`](Self::update) does, all or nothing: in one
    /// transaction. Each then has the version after the one that was read.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when another process wrote one of them first; `Invalid` for no claims, too many,
    /// or claims of several NodePools. Nothing was written then.
    async fn update_together(&self, changes: &[ChangedClaim]) -> Result<(), PortError>;

    /// Deletes a claim that is gone, if the table still holds its version, and gives its charge back. A claim that is
    /// not there any more is a success.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when another process wrote first.
    async fn delete(&self, claim: &NodeClaim) -> Result<(), PortError>;

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

    /// What the members of a launch group share, read consistently. A group of one has no record.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn launch_group(&self, id: &str) -> Result<Option<StoredLaunchGroup>, PortError>;

    /// Writes what the members of a launch group share, if the table still holds the version that was read (none where that is
    /// zero), and returns the new version. `now` is what [`LAUNCH_GROUP_KEPT`] counts from.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when another process wrote first.
    async fn put_launch_group(&self, group: &StoredLaunchGroup, now: Timestamp) -> Result<u64, PortError>;
}
