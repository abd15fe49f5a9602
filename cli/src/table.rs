//! Reads items of the claims table from the output of `aws dynamodb query` and from responses of DynamoDB, without the AWS SDK.

use crate::error::CliError;
use crate::origin::Origin;
use crate::output::report;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use nodeless_state::StoredRecord;
use nodeless_state::decisions::Decision;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Read as _, stdin};
use std::path::{Path, PathBuf};

/// The sort keys of decisions begin with this.
const DECISION: &str = "decision#";

/// An item: its sort key, and its attributes as DynamoDB JSON.
pub(crate) struct Item {
    pub(crate) key: String,
    attributes: Value,
    origin: Origin,
}

/// Reads the output of `aws dynamodb query --output json` from files or standard input (`-`).
pub(crate) fn read(paths: &[PathBuf]) -> Result<Vec<Item>, CliError> {
    let mut items = Vec::new();
    for path in paths {
        let is_standard_input = path.as_os_str() == "-";
        if is_standard_input && stdin().is_terminal() {
            return Err(CliError::NoRecords);
        }
        let text = text_of(path).map_err(|source| unreadable(path, source))?;
        if is_standard_input && text.trim().is_empty() {
            return Err(CliError::NoRecords);
        }
        items.extend(parse(&text, path)?);
    }
    Ok(items)
}

/// The items in a text. Errors name `path` as its source.
pub(crate) fn parse(text: &str, path: &Path) -> Result<Vec<Item>, CliError> {
    let damaged = |why| CliError::Items { path: path.to_owned(), why };
    // The output of `aws dynamodb query` without items has the empty list Items.
    if text.trim().is_empty() {
        return Err(damaged("it is empty".to_owned()));
    }
    items(text, &Origin::File(path.to_owned())).map_err(damaged)
}

/// The items in a text, or what is wrong with the text.
pub(crate) fn items(text: &str, origin: &Origin) -> Result<Vec<Item>, String> {
    let mut items = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let mut value = value.map_err(|error| format!("it is not JSON ({error})"))?;
        let found = match value.get_mut("Items") {
            Some(found) => found.take(),
            None => value,
        };
        let Value::Array(found) = found else { return Err("it has no list Items".to_owned()) };
        for attributes in found {
            let key = attributes["sk"]["S"].as_str().ok_or("an item has no attribute sk")?.to_owned();
            items.push(Item { key, attributes, origin: origin.clone() });
        }
    }
    Ok(with_whole_decisions(items))
}

/// Joins the items of decisions that are stored in several, which `nodeless-state` describes.
fn with_whole_decisions(items: Vec<Item>) -> Vec<Item> {
    let is_part = |item: &Item| item.key.strip_prefix(DECISION).is_some_and(|id| id.contains('#'));
    let (parts, mut items): (Vec<Item>, Vec<Item>) = items.into_iter().partition(is_part);
    let parts: BTreeMap<&str, &Item> = parts.iter().map(|part| (part.key.as_str(), part)).collect();
    items.retain_mut(|item| {
        let Some(count) = item.number("parts").filter(|_| item.key.starts_with(DECISION)) else { return true };
        let keys = (1..count).map(|index| format!("{}#{index:03}", item.key));
        let following: Option<Vec<&str>> =
            keys.map(|key| parts.get(key.as_str())?.attributes["record"]["S"].as_str()).collect();
        let whole = following.zip(item.record().ok()).map(|(following, first)| first.to_owned() + &following.concat());
        match whole {
            Some(whole) => item.attributes["record"]["S"] = whole.into(),
            None => {
                report!("note: {} is left out, because the input does not have all of its {count} items", item.key);
                return false;
            }
        }
        true
    });
    items
}

/// The error for a file that cannot be read, or is not text.
fn unreadable(path: &Path, source: std::io::Error) -> CliError {
    let path = path.to_owned();
    match source.kind() {
        std::io::ErrorKind::InvalidData => CliError::Items { path, why: "it is not UTF-8 text".to_owned() },
        _ => CliError::Read { path, source },
    }
}

fn text_of(path: &Path) -> std::io::Result<String> {
    if path.as_os_str() != "-" {
        return std::fs::read_to_string(path);
    }
    let mut text = String::new();
    stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}

impl Item {
    /// The item in which a decision is stored.
    #[cfg(feature = "aws")]
    pub(crate) fn of_decision(decision: &Decision, table: &str) -> Result<Self, CliError> {
        let record = serde_json::to_string(decision).map_err(CliError::Json)?;
        let attributes = serde_json::json!({ "record": { "S": record } });
        Ok(Self { key: format!("decision#{}", decision.id), attributes, origin: Origin::Table(table.to_owned()) })
    }

    /// The recent evictions of a NodePool by voluntary disruption; `None` if the item is of another kind.
    pub(crate) fn churn(&self) -> Option<Result<StoredRecord, CliError>> {
        let node_pool = self.key.strip_prefix("churn#")?.to_owned();
        Some(self.record().map(|record| StoredRecord {
            node_pool,
            version: 0,
            encoded: record.to_owned(),
            expires: self.seconds("expires"),
        }))
    }

    /// A decision record; `None` if the item is of another kind.
    pub(crate) fn decision(&self) -> Option<Result<Decision, CliError>> {
        self.key.starts_with(DECISION).then(|| {
            serde_json::from_str(self.record()?)
                .map_err(|error| self.damaged(&format!("attribute record: it is not a decision ({error})")))
        })
    }

    /// A chunk of the snapshot of a plan: the ID of the snapshot, the number of the chunk, and its content as base64; `None` if
    /// the item is of another kind.
    pub(crate) fn chunk(&self) -> Option<(&str, u32, &str)> {
        let (id, number) = self.key.strip_prefix("snapshot#")?.rsplit_once('#')?;
        Some((id, number.parse().ok()?, self.attributes["chunk"]["B"].as_str()?))
    }

    /// The partition key: for cost records, the cluster's name.
    pub(crate) fn partition(&self) -> Option<&str> {
        self.attributes["pk"]["S"].as_str()
    }

    /// The bytes of the attribute `record`.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, CliError> {
        let text = self.attributes["record"]["B"].as_str();
        let text = text.ok_or_else(|| self.damaged("it has no attribute record with bytes"))?;
        STANDARD.decode(text).map_err(|error| self.damaged(&format!("attribute record: it is not base64 ({error})")))
    }

    /// The error for an item that this version cannot read.
    pub(crate) fn damaged(&self, why: &str) -> CliError {
        CliError::Record { origin: self.origin.clone(), item: self.key.clone(), why: why.to_owned() }
    }

    /// The error for an item of another kind than a command reads.
    pub(crate) fn misplaced(&self, why: &str) -> CliError {
        CliError::OtherItem { origin: self.origin.clone(), item: self.key.clone(), why: why.to_owned() }
    }

    fn record(&self) -> Result<&str, CliError> {
        let record = self.attributes["record"]["S"].as_str();
        record.ok_or_else(|| self.damaged("it has no attribute record"))
    }

    fn seconds(&self, attribute: &str) -> Option<Timestamp> {
        Timestamp::from_second(self.number(attribute)?).ok()
    }

    fn number(&self, attribute: &str) -> Option<i64> {
        self.attributes[attribute]["N"].as_str()?.parse().ok()
    }
}
