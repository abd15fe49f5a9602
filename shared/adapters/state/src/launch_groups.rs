//! Launch groups: their claims, and the claim of each instance.

use crate::items::{Item, read_deflated, read_number, ttl, write_deflated};
use crate::table::DynamoClaims;
use crate::versioned::Stored;
use jiff::Timestamp;
use nodeless_ports::PortError;
use nodeless_ports::claims::{LAUNCH_GROUP_KEPT, StoredLaunchGroup};

impl DynamoClaims {
    pub(crate) async fn read_launch_group(&self, id: &str) -> Result<Option<StoredLaunchGroup>, PortError> {
        let Some(item) = self.item(&key(id)).await? else { return Ok(None) };
        let version = read_number(&item, "version")?;
        Ok(Some(StoredLaunchGroup { version, ..read_deflated(&item, "record")? }))
    }

    pub(crate) async fn write_launch_group(&self, group: &StoredLaunchGroup, now: Timestamp) -> Result<u64, PortError> {
        let item = self.launch_group_item(group, now)?;
        self.put_versioned("DynamoDB PutItem (launch group)", item, Stored::read(group.version)).await
    }

    /// The item without its version, at this time.
    pub(crate) fn launch_group_item(&self, group: &StoredLaunchGroup, now: Timestamp) -> Result<Item, PortError> {
        let mut item = self.key(&key(&group.id));
        item.insert("record".to_owned(), write_deflated(group, &group.id)?);
        item.insert("expires".to_owned(), ttl(now.saturating_add(LAUNCH_GROUP_KEPT).unwrap_or(Timestamp::MAX)));
        Ok(item)
    }
}

fn key(id: &str) -> String {
    format!("launchgroup#{id}")
}
