//! Decisions, kept for a limited time so that users can read why something was done.

use crate::State;
use crate::items::{attributes, read_json, ttl, write_json};
use crate::state::after;
use jiff::Timestamp;
use nodeless_ports::PortError;
use nodeless_ports::table::{Item, Key, Partition, Query, Range};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The explanation of a decision. It expires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// A sortable id.
    pub id: String,
    /// The time of the decision.
    pub at: Timestamp,
    /// The kind: `provisioning`, `disruption`, `interruption`, `collection`.
    pub kind: String,
    /// The names of the claims, nodes or pods concerned.
    pub subjects: Vec<String>,
    /// A summary in one sentence.
    pub summary: String,
    /// The whole explanation, as JSON.
    pub detail: String,
}

const PREFIX: &str = "decision#";

/// DynamoDB limits an item to 400 kB, so longer explanations are truncated, with a note.
const DETAIL_BYTES: usize = 300_000;

impl State {
    /// Records decisions, which expire after `keep`.
    ///
    /// # Errors
    /// When the table cannot be written.
    pub async fn record_decisions(&self, decisions: &[Decision], keep: Duration) -> Result<(), PortError> {
        const OPERATION: &str = "claims record decisions";
        let item = |decision: &Decision| -> Result<Item, PortError> {
            let record = write_json(OPERATION, &shortened(decision))?;
            Ok(Item {
                key: Key::of_cluster(format!("{PREFIX}{}", decision.id)),
                attributes: attributes([("record", record), ("expires", ttl(after(decision.at, keep)))]),
            })
        };
        self.table.put_all(OPERATION, decisions.iter().map(item).collect::<Result<_, _>>()?).await
    }

    /// The latest decisions, newest first.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn decisions(&self, limit: u32) -> Result<Vec<Decision>, PortError> {
        let keys = Range::Prefix(PREFIX.to_owned());
        let query = Query { partition: Partition::Cluster, keys, last: Some(limit) };
        let items = self.table.query("claims decisions", &[query]).await?;
        items.iter().map(|item| read_json(item, "record")).collect()
    }
}

fn shortened(decision: &Decision) -> Decision {
    let mut decision = decision.clone();
    if decision.detail.len() > DETAIL_BYTES {
        let end = decision.detail.floor_char_boundary(DETAIL_BYTES);
        let cut = serde_json::json!({ "cutAfterBytes": end, "beginning": &decision.detail[..end] });
        decision.detail = cut.to_string();
    }
    decision
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_explanation_is_truncated_with_a_note() {
        let detail = "é".repeat(DETAIL_BYTES);
        let decision = Decision {
            id: "1".into(),
            at: Timestamp::UNIX_EPOCH,
            kind: "provisioning".into(),
            subjects: vec![],
            summary: String::new(),
            detail,
        };
        let short = shortened(&decision);
        assert!(short.detail.len() < DETAIL_BYTES + 100);
        let value: serde_json::Value = serde_json::from_str(&short.detail).unwrap();
        assert_eq!(value["cutAfterBytes"], DETAIL_BYTES);
    }
}
