//! Local volumes: only the nodes that have the data can run their pods.

use crate::claims;
use crate::constraints::LevelSpec;
use crate::problem::Problem;
use crate::problem::reason::PodFault;
use nodeless_model::{Pod, Requirement, Requirements, labels};
use std::collections::BTreeSet;

/// The hosts of a problem, if it has local volumes.
#[derive(Debug, Default)]
pub(crate) struct LocalVolumes<'p>(BTreeSet<&'p str>);

impl<'p> LocalVolumes<'p> {
    pub(crate) fn new(problem: &'p Problem<'_>) -> Self {
        if problem.facts.volume_hosts.is_empty() {
            return Self::default();
        }
        let host = |requirements: &'p Requirements| requirements.get(labels::HOSTNAME).and_then(Requirement::single);
        Self(problem.nodes.iter().filter_map(|node| host(&node.requirements)).collect())
    }

    /// By claim of a pod, those of the hosts with its local volume that are among the nodes.
    fn hosts(&self, problem: &Problem<'_>, pod: &Pod) -> Vec<(String, Vec<&'p str>)> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let of_claim = |name: &String| {
            let hosts = problem.facts.volume_hosts.get(&format!("{}/{name}", pod.namespace))?;
            let present: Vec<&str> = self.0.iter().copied().filter(|host| hosts.contains(*host)).collect();
            (!present.is_empty()).then(|| (name.clone(), present))
        };
        pod.template.volume_claims.iter().filter_map(|claim| of_claim(&claim.claim_name)).collect()
    }

    /// The levels of a pod, on the hosts of its local volumes.
    pub(crate) fn pinned(
        &self,
        problem: &Problem<'_>,
        pod: &Pod,
        specs: Vec<LevelSpec>,
    ) -> Result<Vec<LevelSpec>, PodFault> {
        let of_claims = self.hosts(problem, pod);
        let pin = |(_, hosts): &(String, Vec<&str>)| {
            Requirements::from([(labels::HOSTNAME, Requirement::one_of(hosts.iter().copied()))])
        };
        let pins: Vec<Requirements> = of_claims.iter().map(pin).collect();
        claims::pinned(specs, &pins).map_err(|why| self.fault(problem, pod).unwrap_or(why))
    }

    /// Why a pod is unschedulable that has local volumes on nodes.
    pub(crate) fn fault(&self, problem: &Problem<'_>, pod: &Pod) -> Option<PodFault> {
        let (claim, hosts) = self.hosts(problem, pod).into_iter().next()?;
        Some(PodFault::LocalVolume { claim, hosts: hosts.into_iter().map(str::to_owned).collect() })
    }
}
