//! The number of further volumes that a node can attach.

use crate::problem::Problem;
use nodeless_model::Pod;
use std::collections::{BTreeMap, BTreeSet};

/// The attached volumes of an existing node by driver, where its CSINode reports a limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttachedVolumes {
    limits: BTreeMap<String, u32>,
    /// Driver and claim, each once: pods that share a claim share the attachment.
    attached: BTreeSet<(String, String)>,
}

impl AttachedVolumes {
    /// The limits of a node, with what its pods have attached.
    pub(crate) fn of(problem: &Problem<'_>, node: &str, pods: &[&Pod]) -> Self {
        let limits = problem.facts.volume_limits.get(node).cloned().unwrap_or_default();
        let mut volumes = Self { limits, attached: BTreeSet::new() };
        if !volumes.limits.is_empty() {
            for pod in pods.iter().filter(|pod| !pod.is_terminal()) {
                volumes.put(problem, pod);
            }
        }
        volumes
    }

    /// Whether a pod's volumes can be attached as well.
    pub(crate) fn can_attach(&self, problem: &Problem<'_>, pod: &Pod) -> bool {
        if self.limits.is_empty() || pod.volume_claims.is_empty() {
            return true;
        }
        let mounted: BTreeSet<(String, String)> = claims(problem, pod).collect();
        self.limits.iter().all(|(driver, limit)| {
            let of_driver = |set: &BTreeSet<(String, String)>| set.iter().filter(|(one, _)| one == driver).count();
            let more = mounted.difference(&self.attached).filter(|(one, _)| one == driver).count();
            more == 0 || of_driver(&self.attached) + more <= *limit as usize
        })
    }

    pub(crate) fn put(&mut self, problem: &Problem<'_>, pod: &Pod) {
        if !self.limits.is_empty() {
            self.attached.extend(claims(problem, pod));
        }
    }
}

/// Driver and claim of all volumes of a pod whose driver is known.
fn claims(problem: &Problem<'_>, pod: &Pod) -> impl Iterator<Item = (String, String)> {
    pod.volume_claims.iter().filter_map(|volume| {
        let claim = format!("{}/{}", pod.namespace, volume.claim_name);
        Some((problem.facts.volume_drivers.get(&claim)?.clone(), claim))
    })
}
