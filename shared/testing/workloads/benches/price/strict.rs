//! Preferences as requirements.

use nodeless_model::Pod;
use nodeless_workloads::Workload;

/// The workload with all preferences about other pods as requirements. A plan that satisfies all preferences is a plan for this
/// workload, so a lower bound for this workload is one for those plans.
pub fn strict(workload: &Workload) -> Workload {
    let mut strict = workload.clone();
    strict.pending.iter_mut().for_each(require);
    strict
}

fn require(pod: &mut Pod) {
    pod.template_mut().topology_spread.iter_mut().for_each(|spread| spread.hard = true);
    let near = std::mem::take(&mut pod.template_mut().preferred_pod_affinity);
    pod.template_mut().required_pod_affinity.extend(near.into_iter().map(|term| term.preference));
    let apart = std::mem::take(&mut pod.template_mut().preferred_pod_anti_affinity);
    pod.template_mut().required_pod_anti_affinity.extend(apart.into_iter().map(|term| term.preference));
}
