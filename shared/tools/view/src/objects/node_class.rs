//! EC2NodeClasses.

use jiff::Timestamp;
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
    /// The capacity reservations that it selects.
    #[serde(skip)]
    pub(crate) reservations: Vec<Selected>,
}

/// A capacity reservation in the status of an EC2NodeClass. All fields are optional, so that none of another version hides the class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Selected {
    pub(crate) id: String,
    pub(crate) instance_type: Option<String>,
    pub(crate) availability_zone: Option<String>,
    pub(crate) reservation_type: Option<String>,
    pub(crate) interruptible: Option<bool>,
    pub(crate) state: Option<String>,
    pub(crate) end_time: Option<Timestamp>,
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
#[serde(rename_all = "camelCase", default)]
struct RawStatus {
    conditions: Vec<Condition>,
    capacity_reservations: Vec<Selected>,
}

impl From<RawNodeClass> for NodeClassRow {
    fn from(raw: RawNodeClass) -> Self {
        Self {
            name: raw.metadata.name,
            not_ready: not_ready(&raw.status.conditions),
            reservations: raw.status.capacity_reservations,
        }
    }
}

/// Why the condition Ready is False: its message, or else its reason.
pub(crate) fn not_ready(conditions: &[Condition]) -> Option<String> {
    let ready = conditions.iter().find(|one| one.type_ == "Ready" && one.status == ConditionStatus::False)?;
    Some(if ready.message.is_empty() { &ready.reason } else { &ready.message }.clone())
}
