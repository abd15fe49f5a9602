//! Deployments that ask for successors before a node is drained, where the annotation has no effect or lifecycle lacks the right.

use crate::facts::{Facts, Read, Surging};
use crate::finding::{Check, Finding, Severity};
use nodeless_model::labels::SURGE_BEFORE_DRAIN;
use nodeless_model::shell::quoted;
use nodeless_model::surge::PodOptions;
use std::collections::BTreeMap;

/// The number of Deployments without the right that a finding names.
const NAMED: usize = 3;

pub(super) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    let surges = match &facts.surges {
        Read::Done(surges) => surges,
        Read::Not(why) => {
            return findings.push(Finding::not_checked(
                Check::Surges,
                why,
                format!(
                    "use a kubeconfig whose user may list Deployments and create SubjectAccessReviews; or, if Deployments have the annotation \
                     {SURGE_BEFORE_DRAIN}, check with `kubectl auth can-i patch deployments -n NAMESPACE --as nodeless --as-group \
                     nodeless:lifecycle`"
                ),
            ));
        }
    };
    let mut denied = BTreeMap::<(&str, &[String]), Vec<&str>>::new();
    for Surging { namespace, name, value, in_template, denied: rights } in surges {
        let options = PodOptions::new(&[(SURGE_BEFORE_DRAIN.to_owned(), value.clone())].into());
        if !in_template {
            findings.push(
                Finding::new(Severity::Warning, Check::Surges, format!("Deployment {namespace}/{name}"))
                    .problem(format!(
                        "its annotation {SURGE_BEFORE_DRAIN} has no effect, because the pod template does not have it; pods are evicted before \
                         they have a successor"
                    ))
                    .advice(
                        "move the annotation to spec.template.metadata.annotations (docs/surge.md); that replaces the pods of the Deployment",
                    ),
            );
        } else if let Some(invalid) = options.surge.invalid() {
            findings.push(
                Finding::new(Severity::Warning, Check::Surges, format!("Deployment {namespace}/{name}"))
                    .problem(format!("its pods are evicted before they have a successor: {invalid}"))
                    .advice(format!("correct the annotation {SURGE_BEFORE_DRAIN} of its pod template (docs/surge.md)")),
            );
        } else if !rights.is_empty() {
            denied.entry((namespace, rights)).or_default().push(name);
        }
    }
    for ((namespace, rights), names) in denied {
        let more = names.len().saturating_sub(NAMED);
        let named = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        let object = match (names.len(), more) {
            (1, _) => format!("Deployment {namespace}/{named}"),
            (_, 0) => format!("Deployments {named} in namespace {namespace}"),
            _ => format!("Deployments {named} and {more} more in namespace {namespace}"),
        };
        findings.push(
            Finding::new(Severity::Warning, Check::Surges, object)
                .problem(format!(
                    "the annotation {SURGE_BEFORE_DRAIN} has no effect, because lifecycle may not {}; pods are evicted before they have a \
                     successor",
                    rights.join(" and ")
                ))
                .advice(format!(
                    "run `kubectl apply -f infra/rbac/optional/surge.yaml`, or, for this namespace only, apply its ClusterRole and run `kubectl \
                     create rolebinding nodeless-surge -n {} --clusterrole=nodeless:surge --group=nodeless:lifecycle`",
                    quoted(namespace)
                )),
        );
    }
}
