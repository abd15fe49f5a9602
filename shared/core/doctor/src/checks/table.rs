//! Deployments of nodeless that run in a cluster which another one serves.

use crate::facts::{Facts, Read};
use crate::finding::{Check, Finding, Severity};
use nodeless_model::labels::TABLE;

pub(super) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    match &facts.other_deployment {
        Read::Done(false) => {}
        // Everybody who may create Events in the Namespace default could have written it, so its text is not shown.
        Read::Done(true) => findings.push(
            Finding::new(Severity::Warning, Check::Table, "Namespace kube-system")
                .problem("another deployment of nodeless runs in this cluster: an Event says so, not verified")
                .advice(format!(
                    "compare the annotation {TABLE} of the Namespace kube-system with the table of each of your deployments (Terraform's \
                     output table_name), and destroy one that is not to serve the cluster (docs/moving.md#move-to-another-table)"
                )),
        ),
        Read::Not(why) => {
            let advice = format!(
                "use a kubeconfig whose user may list Events in the Namespace default; the annotation {TABLE} of the Namespace kube-system \
                 names the table of the deployment that serves the cluster"
            );
            findings.push(Finding::not_checked(Check::Table, why, advice));
        }
    }
}
