//! Launch groups: their claims, and the claim of each instance.

use crate::State;
use crate::items::{attributes, read_deflated, read_number, ttl, write_deflated};
use crate::state::after;
use crate::versioned::Stored;
use jiff::Timestamp;
use nodeless_model::NodeClaim;
use nodeless_ports::PortError;
use nodeless_ports::table::{Attributes, Key};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long the record of a launch group is kept after its last write: far longer than any of its claims can be without an
/// instance.
pub const LAUNCH_GROUP_KEPT: Duration = Duration::from_hours(7 * 24);

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
    pub fn new(claims: &[NodeClaim]) -> Option<Self> {
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

impl State {
    /// The shared state of a launch group, read consistently. A group of one has no record.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn launch_group(&self, id: &str) -> Result<Option<StoredLaunchGroup>, PortError> {
        let Some(item) = self.table.get("claims launch group", &key(id)).await? else { return Ok(None) };
        let version = read_number(&item, "version")?;
        Ok(Some(StoredLaunchGroup { version, ..read_deflated(&item, "record")? }))
    }

    /// Writes the shared state of a launch group, if the table still holds the version that was read (none if that is zero), and
    /// returns the new version. [`LAUNCH_GROUP_KEPT`] counts from `now`.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when another process wrote first.
    pub async fn put_launch_group(&self, group: &StoredLaunchGroup, now: Timestamp) -> Result<u64, PortError> {
        const OPERATION: &str = "claims put launch group";
        let stored = Stored::read(group.version);
        self.put_versioned(OPERATION, key(&group.id), record(OPERATION, group, now)?, stored).await
    }
}

/// The attributes of a launch group at this time, without its version.
pub(crate) fn record(operation: &str, group: &StoredLaunchGroup, now: Timestamp) -> Result<Attributes, PortError> {
    let record = write_deflated(operation, group)?;
    Ok(attributes([("record", record), ("expires", ttl(after(now, LAUNCH_GROUP_KEPT)))]))
}

pub(crate) fn key(id: &str) -> Key {
    Key::of_cluster(format!("launchgroup#{id}"))
}
