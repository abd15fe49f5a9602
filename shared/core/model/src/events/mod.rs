//! Kubernetes Events: one constructor for each kind, with its reason, its type and its key for deduplication.
//!
//! Where Karpenter publishes an Event for the same cause, the reason, the type and what the key is made of are Karpenter's; the
//! name and uid of the object are part of every key. The messages are our own, but for those that tools are known to match.

mod configuration;
mod consolidation;
mod disruption;
mod nodes;
mod pods;

pub use configuration::*;
pub use consolidation::*;
pub use disruption::*;
pub use nodes::*;
pub use pods::*;

use crate::object::{EventType, ObjectEvent, ObjectRef};
use std::time::Duration;

/// The default deduplication time of Events. Karpenter's is two minutes; here persistent problems are published every five
/// minutes, for fewer writes.
pub const DEDUPE_TIMEOUT: Duration = Duration::from_mins(5);
/// The deduplication time of Events about why a node is not consolidated or repaired, as in Karpenter.
const DEDUPE_TIMEOUT_OF_NODES: Duration = Duration::from_mins(15);

/// How long the API server keeps an Event after its last write: an hour by default (`--event-ttl` of kube-apiserver), and up to a minute
/// longer, because Events of one minute share a lease of etcd.
pub const LIFETIME: Duration = Duration::from_mins(61);

/// The reason of Events about what blocks voluntary disruption.
const DISRUPTION_BLOCKED: &str = "DisruptionBlocked";
/// The reason of Events about nodes whose pods are moved.
const DISRUPTION_TERMINATING: &str = "DisruptionTerminating";
/// The reason of Events about nodes that cannot be consolidated.
const UNCONSOLIDATABLE: &str = "Unconsolidatable";

fn normal(object: impl Into<ObjectRef>, reason: &str, message: impl Into<String>) -> ObjectEvent {
    event(object.into(), EventType::Normal, reason, message.into())
}

fn warning(object: impl Into<ObjectRef>, reason: &str, message: impl Into<String>) -> ObjectEvent {
    event(object.into(), EventType::Warning, reason, message.into())
}

fn event(object: ObjectRef, event_type: EventType, reason: &str, message: String) -> ObjectEvent {
    ObjectEvent {
        object,
        event_type,
        reason: reason.to_owned(),
        message,
        dedupe_values: Vec::new(),
        dedupe_timeout: DEDUPE_TIMEOUT,
    }
}

impl ObjectEvent {
    fn keyed<const N: usize>(self, values: [&str; N]) -> Self {
        Self { dedupe_values: values.map(str::to_owned).to_vec(), ..self }
    }

    fn quiet_for(self, dedupe_timeout: Duration) -> Self {
        Self { dedupe_timeout, ..self }
    }

    /// Whether the Event reports why a Node or its NodeClaim is not disrupted.
    #[must_use]
    pub fn is_about_a_kept_node(&self) -> bool {
        self.event_type == EventType::Normal
            && matches!(self.object.kind.as_str(), "Node" | "NodeClaim")
            && matches!(self.reason.as_str(), DISRUPTION_BLOCKED | UNCONSOLIDATABLE)
    }

    /// Whether the Event reports a state that may last for weeks, of which there may be one for each node or pod. The same Event is
    /// published again only when the API server has deleted it.
    #[must_use]
    pub fn is_about_a_lasting_state(&self) -> bool {
        self.is_about_a_kept_node() || self.is_about_disruption_of_a_pod() || self.is_about_a_daemon_set()
    }

    /// Whether the Event reports what a DaemonSet takes of new nodes.
    #[must_use]
    pub fn is_about_a_daemon_set(&self) -> bool {
        self.object.kind == "DaemonSet" && configuration::LASTING.contains(&self.reason.as_str())
    }

    /// Whether the Event reports where a pod is expected to be scheduled.
    #[must_use]
    pub fn is_a_nomination(&self) -> bool {
        self.object.kind == "Pod" && self.reason == pods::NOMINATED
    }

    /// Whether the Event reports why a pod cannot be scheduled.
    #[must_use]
    pub fn is_about_an_unschedulable_pod(&self) -> bool {
        self.object.kind == "Pod" && self.reason == pods::FAILED_SCHEDULING
    }

    /// Whether the Event reports how a pod's annotations or PodDisruptionBudgets affect disruption.
    #[must_use]
    pub fn is_about_disruption_of_a_pod(&self) -> bool {
        self.object.kind == "Pod"
            && (self.reason == DISRUPTION_BLOCKED || pods::PROTECTION.contains(&self.reason.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_not_part_of_the_key_unless_the_kind_includes_it() {
        let node = || ObjectRef::node("a", "u");
        let same = |one: ObjectEvent, other: ObjectEvent| one.dedupe_key() == other.dedupe_key();
        assert!(same(unconsolidatable(node(), "costs 1"), unconsolidatable(node(), "costs 2")));
        assert!(same(disruption_blocked(node(), "a"), disruption_blocked(node(), "b")));
        assert!(!same(disruption_blocked(node(), "a"), unconsolidatable(node(), "a")));
        assert!(!same(disruption_failed(node(), "a"), disruption_blocked(node(), "a")));
        let claim = ObjectRef::node_claim("a", "u");
        assert!(!same(disruption_blocked(node(), "a"), disruption_blocked(claim, "a")));
        let pod = ObjectRef::node("p", "1");
        assert!(same(failed_scheduling(pod.clone(), "no cpu"), failed_scheduling(pod.clone(), "no memory")));
        assert!(!same(nominated(pod.clone(), "nodeclaim/a"), nominated(pod, "nodeclaim/b")));
    }

    #[test]
    fn each_kind_has_karpenters_type_and_timeout() {
        let node = || ObjectRef::node("a", "u");
        let quiet = |event: ObjectEvent| (event.event_type, event.dedupe_timeout.as_secs());
        assert_eq!(quiet(unconsolidatable(node(), "")), (EventType::Normal, 900));
        assert_eq!(quiet(node_repair_blocked(node(), "")), (EventType::Warning, 900));
        assert_eq!(quiet(failed_scheduling(node(), "")), (EventType::Warning, 300));
        assert_eq!(quiet(disruption_blocked(node(), "")), (EventType::Normal, 300));
    }

    #[test]
    fn groups_of_events_are_distinguished_by_kind_and_not_by_message() {
        let (node, pod) = (ObjectRef::node("a", ""), ObjectRef { kind: "Pod".into(), ..ObjectRef::node("p", "") });
        assert!(disruption_blocked(node.clone(), "x").is_about_a_kept_node());
        assert!(!disruption_failed(node.clone(), "x").is_about_a_kept_node());
        assert!(!failed_draining(node, "DisruptionBlocked").is_about_a_kept_node());
        let elapsed = do_not_disrupt_elapsed(pod.clone(), "x");
        let nominated = nominated(pod, "x");
        assert!(elapsed.is_about_disruption_of_a_pod() && !nominated.is_about_disruption_of_a_pod());
        assert!(nominated.is_a_nomination() && !elapsed.is_a_nomination());
    }
}
