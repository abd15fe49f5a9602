//! Decisions, kept for a limited time.

use crate::items::{read_json, ttl, write_json};
use crate::table::DynamoClaims;
use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_ports::decisions::Decision;
use nodeless_ports::{Decisions, PortError};
use std::time::Duration;

const PREFIX: &str = "decision#";

/// DynamoDB limits an item to 400 kB, so longer explanations are truncated, with a note.
const DETAIL_BYTES: usize = 300_000;

#[async_trait]
impl Decisions for DynamoClaims {
    async fn record_decisions(&self, decisions: &[Decision], keep: Duration) -> Result<(), PortError> {
        let mut items = Vec::with_capacity(decisions.len());
        for decision in decisions {
            let mut item = self.key(&format!("{PREFIX}{}", decision.id));
            item.insert("record".to_owned(), write_json(&shortened(decision), "decision")?);
            item.insert("expires".to_owned(), ttl(expiry(decision.at, keep)));
            items.push(item);
        }
        self.put_all(items.into_iter()).await
    }

    async fn decisions(&self, limit: u32) -> Result<Vec<Decision>, PortError> {
        let items = self.items(PREFIX, Some(limit)).await?;
        items.iter().take(limit as usize).map(|item| read_json(item, "record")).collect()
    }
}

fn expiry(at: Timestamp, keep: Duration) -> Timestamp {
    at.checked_add(keep).unwrap_or(Timestamp::MAX)
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
