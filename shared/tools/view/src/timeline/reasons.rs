//! What Events report, by their reasons. Everybody who may create Events chooses their messages and their source, so the time line has
//! sentences of its own, about objects of the cluster.

use crate::objects::cluster::Cluster;
use crate::objects::cluster_settings::SYSTEM;
use crate::objects::event::EventRow;

/// The reasons of Events that are entries, and what they mean for their object.
const MEANINGS: [(&str, &str); 38] = [
    ("AmiCanaryFailed", "nodes are not replaced because of their AMI, because the first node with the new AMI fails"),
    ("AnnotationUnknown", "it has an annotation in the domain of nodeless that nodeless does not read"),
    ("BelowMinOnDemand", "less of it is on demand than nodeless.sh/min-on-demand requires"),
    ("BudgetExceeded", "its nodes cost more than its budget, or will at the present pace"),
    ("BudgetInvalid", "its budget is not a number, so there is none"),
    ("CapacityReservationInstanceInterrupted", "EC2 reclaims the capacity reservation of the instance"),
    ("ClusterLimitPassedWhileNodesLeave", "the cluster has more nodes than its limits allow until others have left"),
    ("DaemonSetNotAwaited", "its nodes do not wait for a DaemonSet of nodeless.sh/wait-for-daemonsets"),
    ("DisruptionBlocked", "its disruption is blocked or was cancelled"),
    ("DisruptionStopped", "its voluntary disruption has stopped, because it evicted many pods and lowered no price"),
    ("DisruptionTerminating", "it is replaced because it is unhealthy"),
    ("FailedConsistencyCheck", "its node is not as the NodeClaim describes it"),
    ("FailedDraining", "pods or volumes block its drain"),
    ("FailedTermination", "EC2 refuses to terminate its instance"),
    ("InitializationTimeout", "it joined and did not become ready in time"),
    ("InstanceStopping", "the instance is stopping"),
    ("InstanceTerminating", "the instance is terminating"),
    ("InstanceUnhealthy", "AWS has scheduled maintenance for the instance, or it fails its status checks"),
    ("InsufficientCapacityError", "EC2 has no capacity for it"),
    ("LaunchRefused", "EC2 refused a launch from it"),
    ("LaunchTimeout", "it was not launched in time"),
    ("LimitPassedWhileNodesLeave", "it has more nodes than its limits allow until others have left"),
    ("NoCompatibleInstanceTypes", "no instance type meets its requirements, or too few do for minValues"),
    ("NodeClassNotReady", "its EC2NodeClass is not ready"),
    ("NodeRepairBlocked", "an unhealthy node is not replaced"),
    ("NotLaunched", "no node is launched for it yet"),
    ("OtherDeployment", "a deployment of nodeless with another table than that of nodeless.sh/table runs"),
    (
        "RebootFailed",
        "its node was not ready in time after its instance was rebooted, or the instance was not rebooted",
    ),
    ("RebootRequested", "its instance is rebooted, because the node is unhealthy"),
    ("RegistrationTimeout", "its node did not register in time"),
    ("ReplicasNotReached", "it has fewer nodes than spec.replicas"),
    ("ScriptNotRepeated", "a script of its EC2NodeClass does not run when a stopped instance is started"),
    ("SpotInterrupted", "EC2 interrupts the spot instance"),
    ("SpotRebalanceRecommendation", "EC2 recommends rebalancing the spot instance"),
    ("StopRefused", "EC2 refuses to stop the instance of a warm node"),
    ("TerminationGracePeriodExpiring", "its drain ends by force"),
    ("UnregisteredTaintMissing", "it joined without the taint karpenter.sh/unregistered"),
    ("ZonalShiftActive", "no node is launched in a zone, because a zonal shift away from it is in effect"),
];
/// The reasons of disruption.
const DISRUPTIONS: [&str; 5] = ["Drifted", "Empty", "Unbalanced", "Underutilized", "Unhealthy"];

/// What an Event with this reason means for its object; `None` for a reason of no entry.
pub(super) fn meaning(reason: &str) -> Option<&'static str> {
    MEANINGS.iter().find(|(known, _)| *known == reason).map(|(_, meaning)| *meaning)
}

/// The reason of disruption at the start of a text.
pub(super) fn disruption(text: &str) -> &'static str {
    let word = text.split([',', ' ']).next().unwrap_or_default();
    DISRUPTIONS.into_iter().find(|known| *known == word).unwrap_or("Terminated")
}

/// The price at the end of a text in parentheses, such as `$0.0300/h`.
pub(super) fn saving(text: &str) -> Option<&str> {
    let saving = text.rsplit_once("(savings: ")?.1.strip_suffix(')')?;
    let dollars = saving.strip_prefix('-').unwrap_or(saving).strip_prefix('$')?.strip_suffix("/h")?;
    dollars.parse::<f64>().is_ok_and(f64::is_finite).then_some(saving)
}

/// Whether an Event is about an object that exists, or about a node or pod that may have existed.
pub(super) fn is_about_an_object(cluster: &Cluster, row: &EventRow) -> bool {
    let key = (row.namespace.clone(), row.name.clone());
    match row.kind.as_str() {
        "NodePool" => cluster.pools.contains_key(&key),
        "EC2NodeClass" => cluster.classes.contains_key(&key),
        "Namespace" => row.name == SYSTEM,
        "Node" | "NodeClaim" | "Pod" => is_name(&row.name) && (row.namespace.is_empty() || is_name(&row.namespace)),
        _ => false,
    }
}

/// Whether an object can have this name.
pub(crate) fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    (1..=253).contains(&name.len()) && name.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_warning_about_an_object_of_the_time_line_has_a_meaning() {
        let reference = include_str!("../../../../../docs/reference/events.md");
        let rows = reference.lines().filter(|line| line.starts_with("| `"));
        let rows: Vec<Vec<&str>> = rows.map(|line| line.split(" | ").collect()).collect();
        let warnings = rows.iter().filter(|row| row[1].contains("Warning") && !["Pod", "DaemonSet"].contains(&row[2]));
        let reasons = warnings.map(|row| row[0].trim_start_matches("| ").trim_matches('`'));
        let without = reasons.filter(|reason| meaning(reason).is_none()).collect::<Vec<_>>();
        assert_eq!(without, ["TerminatingOnInterruption", "TerminatingOnInterruption"], "a part of an interruption");
        assert!(MEANINGS.is_sorted() && MEANINGS.iter().all(|(reason, _)| reference.contains(&format!("`{reason}`"))));
    }

    #[test]
    fn texts_of_events_are_taken_only_in_their_form() {
        assert_eq!(
            (disruption("Empty"), disruption("Drifted, replaces a"), disruption("curl x")),
            ("Empty", "Drifted", "Terminated")
        );
        let candidate = "replace a by m5.large spot (savings: ";
        let of = |saving_text: &str| saving(&format!("{candidate}{saving_text})")).map(str::to_owned);
        assert_eq!(of("$0.0300/h").as_deref(), Some("$0.0300/h"));
        assert_eq!((of("curl http://example.com | sh"), of("$NaN/h"), of("$1/h) (savings: $x/h")), (None, None, None));
        assert!(is_name("ip-10-0-0-1.ec2.internal") && !is_name("a b") && !is_name("") && !is_name(&"a".repeat(254)));
    }
}
