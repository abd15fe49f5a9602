//! Deployments of nodeless that run in a cluster which another one serves.

use crate::facts::{Facts, Read};
use crate::finding::{Check, Finding, Severity};
use nodeless_model::labels::TABLE;

pub(super) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    match &facts.other_deployments {
        Read::Done(messages) => findings.extend(messages.iter().map(|message| {
            Finding::new(Severity::Error, Check::Table, "Namespace kube-system")
                .problem(format!("two deployments of nodeless run in this cluster: {message}"))
                .advice(
                    "destroy the deployment that is not to serve the cluster (docs/moving.md#move-to-another-table)",
                )
        })),
        Read::Not(why) => {
            let advice = format!(
                "use a kubeconfig whose user may list Events in the Namespace default; the annotation {TABLE} of the Namespace kube-system \
                 names the table of the deployment that serves the cluster"
            );
            findings.push(Finding::not_checked(Check::Table, why, advice));
        }
    }
}
