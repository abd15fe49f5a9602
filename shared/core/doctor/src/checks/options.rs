//! Annotations of nodeless that are invalid, or that nodeless does not read.

use crate::facts::Facts;
use crate::finding::{Check, Finding, Severity};
use nodeless_disruption::options::{cluster_faults, node_pool_faults};

pub(super) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    let pools = facts.view.node_pools.iter().flat_map(|pool| node_pool_faults(pool, facts.now));
    for fault in pools.chain(cluster_faults(&facts.view.annotations, facts.now)) {
        let (severity, advice) = match fault.is_unknown {
            true => (Severity::Warning, "see docs/reference/labels.md for the annotations of each kind"),
            false => (Severity::Error, "see docs/reference/labels.md for its values"),
        };
        let object = format!("{} {}", fault.object.kind, fault.object.name);
        findings.push(Finding::new(severity, Check::Options, object).problem(fault.message).advice(advice));
    }
}
