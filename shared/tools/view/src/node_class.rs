//! EC2NodeClasses.

use nodeless_api::{Condition, ConditionStatus};
use serde::{Deserialize, Serialize};

/// An EC2NodeClass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClassRow {
    /// The name.
    pub name: String,
    /// Why no nodes are launched from it; `null` if it is ready or not evaluated yet.
    pub not_ready: Option<String>,
}

/// The fields of an EC2NodeClass that are shown.
#[derive(Deserialize)]
pub(crate) struct RawNodeClass {
    metadata: RawMetadata,
    #[serde(default)]
    status: RawStatus,
}

#[derive(Deserialize)]
struct RawMetadata {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawStatus {
    conditions: Vec<Condition>,
}

impl From<RawNodeClass> for NodeClassRow {
    fn from(raw: RawNodeClass) -> Self {
        Self { name: raw.metadata.name, not_ready: not_ready(&raw.status.conditions) }
    }
}

/// Why the condition Ready is False: its message, or else its reason.
pub(crate) fn not_ready(conditions: &[Condition]) -> Option<String> {
    let ready = conditions.iter().find(|one| one.type_ == "Ready" && one.status == ConditionStatus::False)?;
    Some(if ready.message.is_empty() { &ready.reason } else { &ready.message }.clone())
}
