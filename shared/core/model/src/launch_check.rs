//! The answers of EC2 to dry runs of launches from an EC2NodeClass.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// EC2 would not launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// One CamelCase word, as Karpenter has it in the condition ValidationSucceeded where it has one.
    pub reason: String,
    /// The request and the answer of EC2.
    pub message: String,
}

/// What EC2 was last asked about an EC2NodeClass by dry runs, and what it last answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchCheck {
    /// The EC2NodeClass.
    pub node_class: String,
    /// The key of what was asked about: a hash of everything that the answer depends on.
    pub asked: String,
    /// When it was asked about.
    pub asked_at: Timestamp,
    /// Why there was no answer, if there was none.
    pub problem: Option<String>,
    /// The last answer, perhaps to an older question.
    pub answer: Option<LaunchAnswer>,
}

/// What EC2 answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchAnswer {
    /// The key of what it is about.
    pub key: String,
    /// When it came.
    pub at: Timestamp,
    /// Why EC2 would not launch; `None` where it would.
    pub refusal: Option<Refusal>,
}
