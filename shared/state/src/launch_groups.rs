//! Launch groups: their claims, and the claim of each instance.

use crate::State;
use crate::claims::{LAUNCH_GROUP_KEPT, StoredLaunchGroup};
use crate::items::{attributes, read_deflated, read_number, ttl, write_deflated};
use crate::state::after;
use crate::versioned::Stored;
use jiff::Timestamp;
use nodeless_ports::PortError;
use nodeless_ports::table::{Attributes, Key};

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
