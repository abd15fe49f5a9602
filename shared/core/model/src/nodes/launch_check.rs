//! The answers of EC2 to dry runs of launches from an EC2NodeClass.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A rejection by EC2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// The reason in CamelCase: Karpenter's, for the condition ValidationSucceeded, if it has one.
    pub reason: String,
    /// The request and the answer of EC2.
    pub message: String,
}

/// The last dry runs for an EC2NodeClass, and the last answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchCheck {
    /// The EC2NodeClass.
    pub node_class: String,
    /// The key of the request: a hash of everything that the answer depends on.
    pub asked: String,
    /// When EC2 was called.
    pub asked_at: Timestamp,
    /// Why there was no answer, if there was none.
    pub problem: Option<String>,
    /// The last answer, perhaps to an earlier request.
    pub answer: Option<LaunchAnswer>,
}

/// An answer of EC2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchAnswer {
    /// The key of its request.
    pub key: String,
    /// When EC2 answered.
    pub at: Timestamp,
    /// Why EC2 would not launch; `None` if it would.
    pub refusal: Option<Refusal>,
}
