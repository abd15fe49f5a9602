//! NodePools of other controllers with Karpenter's API, which run beside nodeless.

use crate::facts::Facts;
use crate::finding::{Check, Finding, Severity};
use nodeless_model::OtherNodePool;

pub(super) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    if let Some(sentence) = OtherNodePool::in_words(&facts.view.other_node_pools) {
        findings.push(
            Finding::new(Severity::Warning, Check::OtherControllers, "")
                .problem(format!(
                    "{sentence}. Both controllers launch nodes for a pod that NodePools of both can serve"
                ))
                .advice(
                    "let each workload select the NodePools of one of them, by a taint or by required labels \
                     (docs/migrate/auto-mode.md#side-by-side)",
                ),
        );
    }
}
