//! Decisions, kept for a limited time so that users can read why something was done.

use crate::State;
use crate::items::{attributes, json_text, number, read_number, read_text, text, ttl, unusable};
use crate::state::after;
use jiff::Timestamp;
use nodeless_ports::PortError;
use nodeless_ports::table::{Attributes, ITEM_BYTES, Item, Key, Partition, Query, Range};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The explanation of a decision. It expires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// A sortable id.
    pub id: String,
    /// The time of the decision.
    pub at: Timestamp,
    /// The kind: one of [`KINDS`].
    pub kind: String,
    /// The names of the claims, nodes or pods concerned.
    pub subjects: Vec<String>,
    /// A summary in one sentence.
    pub summary: String,
    /// The whole explanation, as JSON.
    pub detail: String,
}

/// The kinds of decisions.
pub const KINDS: [&str; 8] = [
    "provisioning",
    "disruption-proposed",
    "disruption",
    "disruption-rolled-back",
    "interruption",
    "static-capacity",
    "standalone-nodeclaim",
    "plan-unfinished",
];
/// How long decisions are kept by default.
pub const KEPT: Duration = Duration::from_hours(7 * 24);

const PREFIX: &str = "decision#";
/// The attribute with the number of items of a record that is longer than one item can hold.
const PARTS: &str = "parts";
/// The maximum number of bytes of a record in one item, which leaves some for the key and the other attributes.
const PART_BYTES: usize = ITEM_BYTES - 4096;

impl Decision {
    /// A decision with these subjects, of which the first is part of the id: several decisions of a kind may be made at once.
    #[must_use]
    pub fn new(kind: &str, subjects: Vec<String>, summary: String, detail: String, at: Timestamp) -> Self {
        let id = format!("{:020}-{kind}-{}", at.as_nanosecond(), subjects.first().map_or("", String::as_str));
        Self { id, at, kind: kind.to_owned(), subjects, summary, detail }
    }
}

impl State {
    /// Records decisions, which expire after `keep`. A record that is longer than an item can be is stored in several items.
    ///
    /// # Errors
    /// When the table cannot be written.
    pub async fn record_decisions(&self, decisions: &[Decision], keep: Duration) -> Result<(), PortError> {
        const OPERATION: &str = "claims record decisions";
        let (mut first, mut following) = (Vec::new(), Vec::new());
        for decision in decisions {
            let record = json_text(OPERATION, decision)?;
            let parts = parts(&record);
            let expires = ttl(after(decision.at, keep));
            for (index, part) in parts.iter().enumerate() {
                let stored = attributes([("record", text(*part)), ("expires", expires.clone())]);
                let item = |sort: String, attributes: Attributes| Item { key: Key::of_cluster(sort), attributes };
                match index {
                    0 if parts.len() == 1 => first.push(item(key(&decision.id), stored)),
                    0 => {
                        let counted = attributes([(PARTS, number(parts.len()))]);
                        first.push(item(key(&decision.id), stored.into_iter().chain(counted).collect()));
                    }
                    _ => following.push(item(part_key(&decision.id, index), stored)),
                }
            }
        }
        // A record that is found has all its items.
        if !following.is_empty() {
            self.table.put_all(OPERATION, following).await?;
        }
        self.table.put_all(OPERATION, first).await
    }

    /// The latest decisions, newest first.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn decisions(&self, limit: u32) -> Result<Vec<Decision>, PortError> {
        let mut last = limit;
        loop {
            let query = Query {
                partition: Partition::Cluster,
                keys: Range::Prefix(PREFIX.to_owned()),
                last: Some(last),
                consistent: true,
            };
            let items = self.table.query("claims decisions", &[query]).await?;
            let read = u32::try_from(items.len()).unwrap_or(u32::MAX);
            let following = u32::try_from(items.iter().filter(|item| is_part(item)).count()).unwrap_or(u32::MAX);
            if read < last || read.saturating_sub(following) >= limit {
                let mut decisions = joined(&items)?;
                decisions.truncate(limit as usize);
                return Ok(decisions);
            }
            last = last.saturating_add(following);
        }
    }
}

fn key(id: &str) -> String {
    format!("{PREFIX}{id}")
}

/// The key of a part after the first one. It follows the key of the first part, and no other record is between them.
fn part_key(id: &str, index: usize) -> String {
    format!("{PREFIX}{id}#{index:03}")
}

fn is_part(item: &Item) -> bool {
    item.key.sort.strip_prefix(PREFIX).is_some_and(|id| id.contains('#'))
}

/// A text in parts of at most [`PART_BYTES`].
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while rest.len() > PART_BYTES {
        let (part, after) = rest.split_at(rest.floor_char_boundary(PART_BYTES));
        parts.push(part);
        rest = after;
    }
    parts.push(rest);
    parts
}

/// The decisions in these items, in the order of their first parts. DynamoDB deletes each expired item for itself, so a record without
/// one of its parts has expired.
fn joined(items: &[Item]) -> Result<Vec<Decision>, PortError> {
    let by_key: BTreeMap<&str, &Item> = items.iter().map(|item| (item.key.sort.as_str(), item)).collect();
    let mut decisions = Vec::new();
    for item in items.iter().filter(|item| !is_part(item)) {
        let count: usize = if item.attributes.contains_key(PARTS) { read_number(item, PARTS)? } else { 1 };
        let id = item.key.sort.strip_prefix(PREFIX).unwrap_or_default();
        let following: Option<Vec<&Item>> =
            (1..count).map(|index| by_key.get(part_key(id, index).as_str()).copied()).collect();
        let Some(following) = following else { continue };
        let mut record = read_text(item, "record")?.to_owned();
        for part in following {
            record.push_str(read_text(part, "record")?);
        }
        let decision = serde_json::from_str(&record)
            .map_err(|error| unusable(item, &format!("its attribute \"record\" is not a decision ({error})")))?;
        decisions.push(decision);
    }
    Ok(decisions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_divided_between_characters() {
        let text = format!("a{}", "é".repeat(PART_BYTES));
        let divided = parts(&text);
        assert_eq!((divided.len(), divided.concat() == text), (3, true));
        assert!(divided.iter().all(|part| part.len() <= PART_BYTES));
        assert_eq!(parts(""), [""]);
    }
}
