//! Events about configuration: NodePools, EC2NodeClasses, and what is invalid or contradictory.

use super::{DISRUPTION_BLOCKED, normal, warning};
use crate::labels;
use crate::object::{ObjectEvent, ObjectRef};
use std::time::Duration;

/// The deduplication time of Events about budgets and annotations, which change slowly.
const LASTING_DEDUPE_TIMEOUT: Duration = Duration::from_hours(1);

/// The reasons of Events about what DaemonSets take of new nodes.
const DAEMON_SET_LEFT_OUT: &str = "DaemonSetLeftOut";
const DAEMON_SET_LARGE: &str = "DaemonSetLarge";

/// The reason of the Event of [`other_deployment`], by which it is found.
pub const OTHER_DEPLOYMENT: &str = "OtherDeployment";

/// The status of a condition changed. Its type is the reason, as in Karpenter.
#[must_use]
pub fn condition_changed(
    object: ObjectRef,
    condition: &str,
    [before, after]: [&str; 2],
    reason: &str,
    message: &str,
) -> ObjectEvent {
    let mut text =
        format!("Status condition transitioned, Type: {condition}, Status: {before} -> {after}, Reason: {reason}");
    if !message.is_empty() {
        text.push_str(&format!(", Message: {message}"));
    }
    normal(object, condition, text).keyed([before, after, reason])
}

/// On an object: a setting of it is invalid or contradictory, and blocks disruption. `setting` is its field or annotation.
#[must_use]
pub fn misconfigured(object: impl Into<ObjectRef>, setting: &str, message: &str) -> ObjectEvent {
    warning(object, DISRUPTION_BLOCKED, message).keyed([setting])
}

/// On an object: an annotation in the domain of nodeless, or a label of a NodePool, that nodeless does not read from it.
#[must_use]
pub fn annotation_unknown(object: impl Into<ObjectRef>, annotation: &str, message: &str) -> ObjectEvent {
    warning(object, "AnnotationUnknown", message).keyed([annotation]).quiet_for(LASTING_DEDUPE_TIMEOUT)
}

/// On a NodePool: the user data of its EC2NodeClass has a script that does not run again when a stopped instance is started as a node.
#[must_use]
pub fn script_not_repeated(object: impl Into<ObjectRef>, message: &str) -> ObjectEvent {
    warning(object, "ScriptNotRepeated", message).quiet_for(LASTING_DEDUPE_TIMEOUT)
}

/// On a NodePool, or on the Namespace `kube-system` for the cluster: nodes cost more than its budget, or will at the present pace.
#[must_use]
pub fn budget_exceeded(object: impl Into<ObjectRef>, message: &str) -> ObjectEvent {
    warning(object, "BudgetExceeded", message).quiet_for(LASTING_DEDUPE_TIMEOUT)
}

/// On a NodePool, or on the Namespace `kube-system` for the cluster: its budget is not a number, so there is none.
#[must_use]
pub fn budget_invalid(object: impl Into<ObjectRef>, message: &str) -> ObjectEvent {
    warning(object, "BudgetInvalid", message).quiet_for(LASTING_DEDUPE_TIMEOUT)
}

/// On the Namespace `kube-system`: a deployment with another table than that of the annotation `nodeless.sh/table` runs, and changes
/// nothing.
#[must_use]
pub fn other_deployment(system: impl Into<ObjectRef>, message: &str) -> ObjectEvent {
    warning(system, OTHER_DEPLOYMENT, message)
}

/// On a NodePool: EC2 refuses to stop the instance of a warm node.
#[must_use]
pub fn stop_refused(pool: impl Into<ObjectRef>, instance: &str, why: &str) -> ObjectEvent {
    let message = format!(
        "EC2 refuses to stop instance {instance} as a warm node, {why}. Its node serves pods, and no instance is stopped for the NodePool for \
         six hours, or until {} changes: allow ec2:StopInstances, disable stop protection, or remove the annotation",
        labels::WARM
    );
    warning(pool, "StopRefused", message)
}

/// On a NodePool: no instance type meets its requirements, or too few do for `minValues`.
#[must_use]
pub fn no_compatible_instance_types(pool: impl Into<ObjectRef>, of_min_values: bool) -> ObjectEvent {
    let why = if of_min_values { " due to minValues incompatibility" } else { "" };
    let message = format!("NodePool requirements filtered out all compatible available instance types{why}");
    warning(pool, "NoCompatibleInstanceTypes", message)
}

/// On a NodePool: it has more nodes than its limits allow until others have left.
#[must_use]
pub fn limit_passed_while_nodes_leave(pool: impl Into<ObjectRef>, message: &str) -> ObjectEvent {
    normal(pool, "LimitPassedWhileNodesLeave", message)
}

/// On the Namespace `kube-system`: the cluster has more nodes than its limits allow until others have left.
#[must_use]
pub fn cluster_limit_passed_while_nodes_leave(system: impl Into<ObjectRef>, message: &str) -> ObjectEvent {
    normal(system, "ClusterLimitPassedWhileNodesLeave", message)
}

/// On a NodePool: it has fewer nodes than `spec.replicas`.
#[must_use]
pub fn replicas_not_reached(pool: impl Into<ObjectRef>, why: &str) -> ObjectEvent {
    warning(pool, "ReplicasNotReached", format!("fewer nodes than spec.replicas: {why}"))
}

/// On a NodePool: less of it is on demand than its annotation `nodeless.sh/min-on-demand` requires.
#[must_use]
pub fn below_min_on_demand(pool: impl Into<ObjectRef>, message: &str) -> ObjectEvent {
    warning(pool, "BelowMinOnDemand", message)
}

/// The reasons of Events about DaemonSets that each plan finds again.
pub(super) const LASTING: [&str; 2] = [DAEMON_SET_LEFT_OUT, DAEMON_SET_LARGE];

/// On a NodePool: its nodes do not wait for a DaemonSet that its annotation `nodeless.sh/wait-for-daemonsets` names, or the annotation is
/// invalid.
#[must_use]
pub fn daemon_set_not_awaited(pool: impl Into<ObjectRef>, message: &str) -> ObjectEvent {
    warning(pool, "DaemonSetNotAwaited", message).keyed([message])
}

/// On a DaemonSet: its pod has no space on any instance type that the pods of new nodes could use, or a ResourceQuota allows none, so the
/// nodes are planned without it.
#[must_use]
pub fn daemon_set_left_out(set: impl Into<ObjectRef>, node_pool: &str, message: &str) -> ObjectEvent {
    warning(set, DAEMON_SET_LEFT_OUT, message).keyed([node_pool])
}

/// On a DaemonSet: its pod takes more than half of a new node.
#[must_use]
pub fn daemon_set_large(set: impl Into<ObjectRef>, node_pool: &str, message: &str) -> ObjectEvent {
    warning(set, DAEMON_SET_LARGE, message).keyed([node_pool]).quiet_for(LASTING_DEDUPE_TIMEOUT)
}

/// On a NodePool: no node is launched in a zone, because a zonal shift away from it is in effect.
#[must_use]
pub fn zonal_shift_active(pool: impl Into<ObjectRef>, zone_id: &str, shift: &str) -> ObjectEvent {
    warning(pool, "ZonalShiftActive", format!("No node is launched in this zone for the NodePool: {shift}"))
        .keyed([zone_id])
}

/// On a NodePool: the zonal shift away from a zone is over.
#[must_use]
pub fn zonal_shift_cleared(pool: impl Into<ObjectRef>, zone_id: &str, zone: &str) -> ObjectEvent {
    let message = format!("Nodes are launched in {zone} ({zone_id}) for the NodePool again: the zonal shift is over");
    normal(pool, "ZonalShiftCleared", message).keyed([zone_id])
}

/// On an EC2NodeClass: EC2 refused a launch from it.
#[must_use]
pub fn launch_refused(class: ObjectRef, node_claim: &str, why: &str) -> ObjectEvent {
    warning(class, "LaunchRefused", format!("EC2 refused to launch NodeClaim {node_claim}: {why}")).keyed([node_claim])
}

/// The most names in the message of one Event.
const NAMES: usize = 5;

/// On an EC2NodeClass that is deleted: it stays until these NodeClaims are gone.
#[must_use]
pub fn waiting_on_node_claim_termination(class: ObjectRef, names: &[&str]) -> ObjectEvent {
    let shown = names.iter().take(NAMES).copied().collect::<Vec<_>>().join(", ");
    let more = match names.len().saturating_sub(NAMES) {
        0 => String::new(),
        more => format!(" and {more} other(s)"),
    };
    normal(class, "WaitingOnNodeClaimTermination", format!("Waiting on NodeClaim termination for {shown}{more}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_claims_a_few_are_named() {
        let class = ObjectRef::node_class("default", "");
        let event = waiting_on_node_claim_termination(class, &["a", "b", "c", "d", "e", "f", "g"]);
        assert_eq!(event.message, "Waiting on NodeClaim termination for a, b, c, d, e and 2 other(s)");
        assert_eq!((event.object.kind.as_str(), event.is_warning()), ("EC2NodeClass", false));
    }

    #[test]
    fn a_changed_condition_names_both_statuses_and_has_a_message_only_if_there_is_one() {
        let of = |message| condition_changed(ObjectRef::node("a", ""), "Ready", ["True", "False"], "No", message);
        let text = "Status condition transitioned, Type: Ready, Status: True -> False, Reason: No";
        assert_eq!((of("").reason.as_str(), of("").message.as_str()), ("Ready", text));
        assert_eq!(of("why").message, format!("{text}, Message: why"));
    }
}
