//! PodDisruptionBudgets that never allow an eviction, so that nodes are never drained.

use crate::facts::Facts;
use crate::finding::{Check, Finding, Severity};
use nodeless_model::plural::counted;
use nodeless_model::{Pod, PodDisruptionBudget};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    for budget in &facts.view.disruption_budgets {
        let pods = facts.view.pods.iter().filter(|pod| covers(budget, pod)).count();
        if pods == 0 {
            continue;
        }
        let pods = counted(pods, "pod");
        let finding =
            Finding::new(Severity::Warning, Check::DisruptionBudgets, format!("PodDisruptionBudget {}", named(budget)));
        if budget.blocks_always {
            findings.push(
                finding
                    .problem(format!(
                        "it never allows an eviction of its {pods} (maxUnavailable 0 or minAvailable 100%), so their nodes are \
                         never consolidated, and are drained only when spec.template.spec.terminationGracePeriod ends"
                    ))
                    .advice("set maxUnavailable: 1, or set terminationGracePeriod in the NodePool"),
            );
        } else if budget.wants_all {
            findings.push(
                finding
                    .problem(format!(
                        "minAvailable is at least the number of its pods ({pods}), so it allows no eviction before there are more, and \
                         their nodes are not drained"
                    ))
                    .advice("set maxUnavailable: 1 instead of minAvailable, or run more replicas"),
            );
        }
    }
    overlaps(facts, findings);
}

fn covers(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    !pod.is_terminal() && budget.covers(&pod.namespace, &pod.template.labels)
}

/// Budgets that cover the same pod: the eviction API refuses to evict it.
fn overlaps(facts: &Facts, findings: &mut Vec<Finding>) {
    let mut found = BTreeMap::<Vec<String>, BTreeSet<String>>::new();
    for pod in &facts.view.pods {
        let budgets = facts.view.disruption_budgets.iter().filter(|budget| covers(budget, pod));
        let mut names = budgets.map(named).collect::<Vec<_>>();
        if names.len() > 1 {
            names.sort();
            found.entry(names).or_default().insert(format!("{}/{}", pod.namespace, pod.name));
        }
    }
    for (budgets, pods) in found {
        let first = pods.first().cloned().unwrap_or_default();
        findings.push(
            Finding::new(
                Severity::Warning,
                Check::DisruptionBudgets,
                format!("PodDisruptionBudgets {}", budgets.join(" and ")),
            )
            .problem(format!(
                "they cover the same pods ({first}{}), and Kubernetes evicts no pod that several budgets cover",
                if pods.len() > 1 { format!(" and {} more", pods.len() - 1) } else { String::new() }
            ))
            .advice("change the selectors so that each pod has one budget"),
        );
    }
}

fn named(budget: &PodDisruptionBudget) -> String {
    format!("{}/{}", budget.namespace, budget.name)
}
