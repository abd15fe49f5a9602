//! A Karpenter that runs beside nodeless.

use crate::facts::{Facts, Read, Workload};
use crate::finding::{Check, Finding, Severity};
use jiff::SignedDuration;
use nodeless_model::shell::quoted;

/// Karpenter renews its lease every few seconds; after this time nobody has it.
const LEASE: SignedDuration = SignedDuration::from_mins(1);

pub(super) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    let advice = "use a kubeconfig whose user may list Deployments and Leases, or check with `kubectl get deployments -A -l \
                  app.kubernetes.io/name=karpenter`";
    let running = match &facts.karpenter {
        Read::Done(workloads) => workloads.iter().filter(|workload| runs(workload)).collect::<Vec<_>>(),
        Read::Not(why) => {
            findings.push(Finding::not_checked(Check::Karpenter, why, advice));
            Vec::new()
        }
    };
    for Workload { namespace, name, replicas, running } in &running {
        findings.push(
            Finding::new(Severity::Error, Check::Karpenter, format!("Deployment {namespace}/{name}"))
                .problem(format!(
                    "Karpenter runs (replicas: {replicas}, pods: {running}); nodeless and Karpenter would both launch nodes for the same \
                     pods"
                ))
                .advice(format!(
                    "run `kubectl -n {} scale deployment {} --replicas=0` before `terraform apply`",
                    quoted(namespace),
                    quoted(name)
                )),
        );
    }
    match &facts.lease {
        Read::Done(Some(renewed)) if running.is_empty() && facts.now.duration_since(*renewed) < LEASE => findings.push(
            Finding::new(Severity::Error, Check::Karpenter, "Lease karpenter-leader-election")
                .problem(format!("it was renewed at {renewed}, so a Karpenter runs that is no Deployment of this cluster"))
                .advice("find the process that holds it with `kubectl get lease -A karpenter-leader-election -o yaml`, and stop it"),
        ),
        Read::Done(_) => {}
        Read::Not(why) => findings.push(Finding::not_checked(Check::Karpenter, why, advice)),
    }
}

const fn runs(workload: &Workload) -> bool {
    workload.replicas > 0 || workload.running > 0
}
