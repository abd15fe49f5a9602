//! What EC2 was asked about EC2NodeClasses by dry runs.

use crate::items::{read_json, ttl, write_json};
use crate::table::DynamoClaims;
use nodeless_aws::port_error;
use nodeless_ports::{LaunchCheck, PortError};
use std::time::Duration;

impl DynamoClaims {
    pub(crate) async fn read_launch_check(&self, node_class: &str) -> Result<Option<LaunchCheck>, PortError> {
        let answer = self
            .client
            .get_item()
            .table_name(&self.table)
            .set_key(Some(self.key(&key(node_class))))
            .consistent_read(true)
            .send()
            .await
            .map_err(|error| port_error("DynamoDB GetItem (launch check)", &error))?;
        answer.item.map(|item| read_json(&item, "record")).transpose()
    }

    pub(crate) async fn write_launch_check(&self, check: &LaunchCheck, keep: Duration) -> Result<(), PortError> {
        let forgotten = check.asked_at.checked_add(keep).unwrap_or(jiff::Timestamp::MAX);
        let attributes = vec![("record", write_json(check, "launch check")?), ("expires", ttl(forgotten))];
        self.put(&key(&check.node_class), attributes).await
    }
}

fn key(node_class: &str) -> String {
    format!("launchcheck#{node_class}")
}
