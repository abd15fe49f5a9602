//! Annotations of nodeless that are invalid, or that nodeless does not read.

use crate::facts::{Facts, Read};
use crate::finding::{Check, Finding, Severity};
use nodeless_model::OptionFault;
use nodeless_model::labels::SURGE_BEFORE_DRAIN;

pub(super) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    let of_deployments = facts.deployment_options.iter().cloned();
    let all = facts.view.option_faults().into_iter().filter(|fault| !is_in_surges(fault, facts)).chain(of_deployments);
    findings.extend(all.map(|fault| {
        let (severity, advice) = match fault.is_unknown {
            true => (Severity::Warning, "see docs/reference/labels.md for the annotations of each kind"),
            false => (Severity::Error, "see docs/reference/labels.md for its values"),
        };
        Finding::new(severity, Check::Options, fault.object_name()).problem(fault.message).advice(advice)
    }));
}

/// Whether the check of surges reports it, on the Deployment.
fn is_in_surges(fault: &OptionFault, facts: &Facts) -> bool {
    let Read::Done(surges) = &facts.surges else { return false };
    let owns = |namespace: &str, name: &str| {
        let rest = fault.object.name.strip_prefix(name);
        namespace == fault.object.namespace && rest.is_some_and(|rest| rest.starts_with('-'))
    };
    fault.key == SURGE_BEFORE_DRAIN && surges.iter().any(|one| owns(&one.namespace, &one.name))
}
