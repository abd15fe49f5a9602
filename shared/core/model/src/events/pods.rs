//! Events on pods.

use super::{normal, warning};
use crate::object::{ObjectEvent, ObjectRef};
use jiff::Timestamp;

/// The reason of the Events about where a pod is expected to be scheduled.
pub(super) const NOMINATED: &str = "Nominated";
/// The reason of the Events about why no node can be launched for a pod.
pub(super) const FAILED_SCHEDULING: &str = "FailedScheduling";
const INVALID: &str = "InvalidDoNotDisruptAnnotation";
const UNTIL: &str = "DoNotDisruptUntil";
const ELAPSED: &str = "DoNotDisruptGracePeriodElapsed";
/// The reasons of the Events about the annotation `karpenter.sh/do-not-disrupt`.
pub(super) const PROTECTION: [&str; 3] = [INVALID, UNTIL, ELAPSED];

/// Where a pod is expected to be scheduled: `nodeclaim/NAME`, `node/NAME`, or both. Karpenter's key is the pod's uid alone; here
/// the target is part of it, so that a pod's next NodeClaim is published although the first one was a moment ago.
#[must_use]
pub fn nominated(pod: impl Into<ObjectRef>, target: &str) -> ObjectEvent {
    normal(pod, NOMINATED, format!("Pod should schedule on: {target}")).keyed([target])
}

/// Why no node can be launched for a pod.
#[must_use]
pub fn failed_scheduling(pod: impl Into<ObjectRef>, why: &str) -> ObjectEvent {
    warning(pod, FAILED_SCHEDULING, format!("Failed to schedule pod, {why}"))
}

/// The kube-scheduler did not schedule a pod on the node that it was planned for.
#[must_use]
pub fn not_scheduled_as_planned(pod: impl Into<ObjectRef>, node: &str, since: Timestamp) -> ObjectEvent {
    let message = format!(
        "Since {since:.0} the pod fits on nodes that are ready for pods, {node} at last, and kube-scheduler has not scheduled it \
         there: it is planned without them"
    );
    warning(pod, "NotScheduledAsPlanned", message)
}

/// The annotation `karpenter.sh/do-not-disrupt` has a value that is ignored.
#[must_use]
pub fn invalid_do_not_disrupt(pod: impl Into<ObjectRef>, message: &str) -> ObjectEvent {
    warning(pod, INVALID, message).keyed([message])
}

/// The annotation `karpenter.sh/do-not-disrupt` protects the pod for a limited time.
#[must_use]
pub fn do_not_disrupt_until(pod: impl Into<ObjectRef>, until: Timestamp, message: &str) -> ObjectEvent {
    normal(pod, UNTIL, message).keyed([&format!("{until:.0}")])
}

/// The annotation `karpenter.sh/do-not-disrupt` no longer protects the pod.
#[must_use]
pub fn do_not_disrupt_elapsed(pod: impl Into<ObjectRef>, message: &str) -> ObjectEvent {
    normal(pod, ELAPSED, message)
}

/// The pod's node is being removed, and has its local volume: the data goes with the node.
#[must_use]
pub fn local_volume_lost(pod: impl Into<ObjectRef>, claim: &str, node: &str) -> ObjectEvent {
    let message = format!(
        "Node {node} is being removed, and PersistentVolumeClaim {claim} is a local volume of it: its data is lost"
    );
    warning(pod, "LocalVolumeLost", message).keyed([claim, node])
}

/// The pod was evicted.
#[must_use]
pub fn evicted(pod: impl Into<ObjectRef>, why: &str) -> ObjectEvent {
    normal(pod, "Evicted", format!("Evicted pod: {why}"))
}

/// The pod was deleted, because its node is terminated whatever protects its pods.
#[must_use]
pub fn disrupted(pod: impl Into<ObjectRef>, message: &str) -> ObjectEvent {
    normal(pod, "Disrupted", message)
}

/// The pod's successor is created before the pod is removed from its node, by its annotation `nodeless.sh/surge-before-drain`.
#[must_use]
pub fn surge_started(pod: impl Into<ObjectRef>, message: &str) -> ObjectEvent {
    normal(pod, "SurgeStarted", message)
}

/// The pod's successor cannot be created first, and why: the pod is evicted without it.
#[must_use]
pub fn surge_refused(pod: impl Into<ObjectRef>, why: &str) -> ObjectEvent {
    warning(pod, "SurgeRefused", format!("Evicted without a successor first: {why}")).keyed([why])
}

/// The pod's successor was not available in time: the pod is evicted without it.
#[must_use]
pub fn surge_timed_out(pod: impl Into<ObjectRef>, message: &str) -> ObjectEvent {
    warning(pod, "SurgeTimedOut", message)
}
