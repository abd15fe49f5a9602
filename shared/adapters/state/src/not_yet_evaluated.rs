//! The nodes that a decision had no time to look at.

use crate::items::{read_deflated, ttl, write_deflated};
use crate::table::DynamoClaims;
use jiff::Timestamp;
use nodeless_ports::PortError;
use std::collections::BTreeSet;

const KEY: &str = "not-yet-evaluated";

impl DynamoClaims {
    pub(crate) async fn read_not_yet_evaluated(&self) -> Result<BTreeSet<String>, PortError> {
        self.item(KEY).await?.map_or_else(|| Ok(BTreeSet::new()), |item| read_deflated(&item, "record"))
    }

    pub(crate) async fn write_not_yet_evaluated(
        &self,
        nodes: &BTreeSet<String>,
        until: Timestamp,
    ) -> Result<(), PortError> {
        self.put(KEY, vec![("record", write_deflated(nodes, "not-yet-evaluated")?), ("expires", ttl(until))]).await
    }
}
