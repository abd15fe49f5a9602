//! Events.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The components whose Events report decisions about nodes.
pub(crate) const DECIDING: [&str; 2] = ["nodeless", "karpenter"];
/// The reason of kube-scheduler's Events about pods that fit on no node.
pub(crate) const FAILED_SCHEDULING: &str = "FailedScheduling";
/// The reason of Events about where a pod is expected to be scheduled.
pub(crate) const NOMINATED: &str = "Nominated";
/// The reason of Events about NodeClaims that replace nodes.
pub(crate) const DISRUPTION_LAUNCHING: &str = "DisruptionLaunching";

/// The reason of Events about budgets.
pub(crate) const BUDGET_EXCEEDED: &str = "BudgetExceeded";

/// The reason of Events about nodes whose pods are moved.
pub(crate) const DISRUPTION_TERMINATING: &str = "DisruptionTerminating";
/// The reasons of Events about nodes that stay, and about pods that are expected to be scheduled; nodeless repeats them.
const ROUTINE: [&str; 3] = ["Unconsolidatable", "DisruptionBlocked", NOMINATED];
/// The start of the messages about conditions whose status changed, as in Karpenter.
const TRANSITION: &str = "Status condition transitioned";

/// An Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFacts {
    pub(crate) row: EventRow,
    pub(crate) component: String,
    /// When it was published for the first time.
    pub(crate) first: Option<Timestamp>,
    /// When the API server created the object.
    pub(crate) created: Option<Timestamp>,
}

/// An Event about a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventRow {
    /// When it was last published.
    pub time: Option<Timestamp>,
    /// The kind of the object, such as `NodeClaim`.
    pub kind: String,
    /// The namespace of the object; empty if it has none.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub event_type: String,
    /// The reason, such as `DisruptionBlocked`.
    pub reason: String,
    /// The message.
    pub message: String,
    /// How often it was published.
    pub count: i64,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawEvent {
    metadata: RawMetadata,
    involved_object: RawObject,
    #[serde(rename = "type")]
    event_type: String,
    reason: String,
    message: Option<String>,
    count: Option<i64>,
    first_timestamp: Option<Timestamp>,
    last_timestamp: Option<Timestamp>,
    event_time: Option<Timestamp>,
    series: Option<RawSeries>,
    source: RawSource,
    reporting_component: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawMetadata {
    creation_timestamp: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawObject {
    kind: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSeries {
    count: Option<i64>,
    last_observed_time: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawSource {
    component: String,
}

impl From<RawEvent> for EventFacts {
    fn from(raw: RawEvent) -> Self {
        let series = raw.series.unwrap_or_default();
        let times = [series.last_observed_time, raw.last_timestamp, raw.event_time, raw.first_timestamp];
        let first = [raw.first_timestamp, raw.event_time, raw.metadata.creation_timestamp, raw.last_timestamp];
        let component = if raw.reporting_component.is_empty() { raw.source.component } else { raw.reporting_component };
        Self {
            row: EventRow {
                time: times.into_iter().flatten().max().or(raw.metadata.creation_timestamp),
                kind: raw.involved_object.kind,
                namespace: raw.involved_object.namespace,
                name: raw.involved_object.name,
                event_type: raw.event_type,
                reason: raw.reason,
                message: raw.message.unwrap_or_default(),
                count: series.count.or(raw.count).unwrap_or(1),
            },
            component,
            created: raw.metadata.creation_timestamp,
            first: first.into_iter().flatten().min(),
        }
    }
}

impl EventFacts {
    /// Whether the Event reports a decision about nodes, or why a pod has none. Other Events are not kept.
    pub(crate) fn is_relevant(&self) -> bool {
        self.is_decision() || self.row.reason == FAILED_SCHEDULING
    }

    /// Whether a component that launches and terminates nodes published the Event.
    pub(crate) fn is_decision(&self) -> bool {
        DECIDING.contains(&self.component.as_str())
    }

    /// Whether the Event reports that the status of a condition changed.
    pub(crate) fn is_transition(&self) -> bool {
        self.row.is_transition()
    }
}

impl EventRow {
    /// Whether the Event is repeated for every node or pod and reports no change of what is running: transitions of conditions,
    /// nominations, and why a node stays.
    #[must_use]
    pub fn is_routine(&self) -> bool {
        self.event_type == "Normal" && (self.is_transition() || ROUTINE.contains(&self.reason.as_str()))
    }

    fn is_transition(&self) -> bool {
        self.message.starts_with(TRANSITION)
    }

    /// `NodeClaim default-abcde` or `Pod shop/cart`.
    #[must_use]
    pub fn object(&self) -> String {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        format!("{} {}{slash}{}", self.kind, self.namespace, self.name)
    }
}
