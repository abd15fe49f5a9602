//! Launch groups: who their members are, and whose each instance is.

use crate::items::{Item, number, read_deflated, read_number, ttl, write_deflated};
use crate::table::DynamoClaims;
use jiff::Timestamp;
use nodeless_aws::port_error;
use nodeless_ports::PortError;
use nodeless_ports::claims::{LAUNCH_GROUP_KEPT, StoredLaunchGroup};

impl DynamoClaims {
    pub(crate) async fn read_launch_group(&self, id: &str) -> Result<Option<StoredLaunchGroup>, PortError> {
        let Some(item) = self.item(&key(id)).await? else { return Ok(None) };
        let version = read_number(&item, "version")?;
        Ok(Some(StoredLaunchGroup { version, ..read_deflated(&item, "record")? }))
    }

    pub(crate) async fn write_launch_group(&self, group: &StoredLaunchGroup, now: Timestamp) -> Result<u64, PortError> {
        let version = group.version + 1;
        let put = self.client.put_item().table_name(&self.table);
        let put = put.set_item(Some(self.launch_group_item(group, version, now)?));
        let put = if group.version == 0 {
            put.condition_expression("attribute_not_exists(sk)")
        } else {
            put.condition_expression("version = :read").expression_attribute_values(":read", number(group.version))
        };
        put.send().await.map_err(|error| port_error("DynamoDB PutItem (launch group)", &error))?;
        Ok(version)
    }

    /// The item, as of this time.
    pub(crate) fn launch_group_item(
        &self,
        group: &StoredLaunchGroup,
        version: u64,
        now: Timestamp,
    ) -> Result<Item, PortError> {
        let mut item = self.key(&key(&group.id));
        item.insert("record".to_owned(), write_deflated(group, &group.id)?);
        item.insert("version".to_owned(), number(version));
        item.insert("expires".to_owned(), ttl(now.saturating_add(LAUNCH_GROUP_KEPT).unwrap_or(Timestamp::MAX)));
        Ok(item)
    }
}

fn key(id: &str) -> String {
    format!("launchgroup#{id}")
}
