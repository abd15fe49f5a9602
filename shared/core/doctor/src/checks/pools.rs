//! NodePools that nothing can serve, pods that cannot be scheduled, and DaemonSets that take most of nodes.

use crate::facts::{Facts, Placed, Planned, ProbeOutcome, Read};
use crate::finding::{Check, Finding, Severity};
use std::collections::BTreeMap;

/// The number of pods with the same reason that a finding names.
const NAMED_PODS: usize = 3;

pub(super) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    if facts.view.node_pools.is_empty() {
        findings.push(
            Finding::new(Severity::Warning, Check::NodePools, "")
                .problem("there is no NodePool, so no node is ever launched")
                .advice("apply a NodePool and its EC2NodeClass; `terraform output -raw node_pool` prints an example"),
        );
    }
    let planned = match &facts.planned {
        Read::Done(planned) => planned,
        Read::Not(why) => {
            for check in [Check::NodePools, Check::Pods, Check::DaemonSets] {
                findings.push(Finding::not_checked(
                    check,
                    why,
                    "write the catalog of your region with `nodeless catalog export --write catalog.json`, and give it with --catalog",
                ));
            }
            &Planned::default()
        }
    };
    for pool in &facts.view.node_pools {
        let finding = Finding::new(Severity::Error, Check::NodePools, format!("NodePool {}", pool.name));
        let class = &pool.template.node_class;
        if !facts.view.node_classes.contains_key(class) {
            findings.push(
                finding
                    .problem(format!("its EC2NodeClass {class} does not exist"))
                    .advice("apply the EC2NodeClass, or change spec.template.spec.nodeClassRef.name"),
            );
        } else if let Err(why) = &pool.ready {
            findings.push(
                finding.problem(format!("it cannot be used: {why}")).advice("change the field that the message names"),
            );
        } else if let Some((reasons, remedies)) = refusal(planned.probes.iter().find(|probe| probe.name == pool.name)) {
            let own = format!("NodePool {}: ", pool.name);
            let reasons = reasons.iter().map(|reason| reason.strip_prefix(&own).unwrap_or(reason)).collect::<Vec<_>>();
            findings.push(
                finding
                    .problem(format!(
                        "no node can be launched from it, not even for a small pod: {}",
                        reasons.join("; ")
                    ))
                    .advice(help(remedies, "compare its requirements and limits with `nodeless catalog show`")),
            );
        }
    }
    pods(&planned.pending, findings);
    for (name, problem) in &planned.daemon_sets {
        findings.push(
            Finding::new(Severity::Warning, Check::DaemonSets, format!("DaemonSet {name}"))
                .problem(problem.clone())
                .advice("reduce its requests, or exclude the nodes with its node affinity"),
        );
    }
}

fn refusal(placed: Option<&Placed>) -> Option<(&[String], &[String])> {
    match &placed?.outcome {
        ProbeOutcome::Placed => None,
        ProbeOutcome::Unschedulable { reasons, remedies } => Some((reasons, remedies)),
    }
}

/// Pods with the same reasons are one finding.
fn pods(pending: &[Placed], findings: &mut Vec<Finding>) {
    let mut by_reason = BTreeMap::<(&[String], &[String]), Vec<&str>>::new();
    for pod in pending {
        if let Some(reasons) = refusal(Some(pod)) {
            by_reason.entry(reasons).or_default().push(&pod.name);
        }
    }
    for ((reasons, remedies), pods) in by_reason {
        let more = pods.len().saturating_sub(NAMED_PODS);
        let named = pods.iter().take(NAMED_PODS).copied().collect::<Vec<_>>().join(", ");
        let object = match (pods.len(), more) {
            (1, _) => format!("Pod {named}"),
            (_, 0) => format!("Pods {named}"),
            _ => format!("Pods {named} and {more} more"),
        };
        findings.push(
            Finding::new(Severity::Warning, Check::Pods, object)
                .problem(format!(
                    "no node is launched for {}: {}",
                    if pods.len() == 1 { "it" } else { "them" },
                    reasons.join("; ")
                ))
                .advice(help(remedies, "see `nodeless plan --explain NAMESPACE/NAME`")),
        );
    }
}

fn help(remedies: &[String], otherwise: &str) -> String {
    if remedies.is_empty() { otherwise.to_owned() } else { remedies.join("; or ") }
}
