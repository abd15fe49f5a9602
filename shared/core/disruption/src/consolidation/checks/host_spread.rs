//! Rejects moves that violate the topology spread over hosts of pods that run on the target node.
//!
//! kube-scheduler evaluates the topology spread of the pod that it schedules, and not that of the pods that run on the node: a
//! pod without a spread may join more pods than the spread of another pod allows. Pending pods cannot be planned like that,
//! because the other pod may be scheduled last and fit on no node. So pods are not moved like that voluntarily either:
//! provisioning would not create what consolidation created, and the pod with the spread would lose the guarantee of its
//! constraint.

use crate::consolidation::round::Round;
use crate::consolidation::trial::Verdict;
use crate::reasons::KeptReason;
use crate::simulation::packed::Mover;
use nodeless_model::pod::TopologySpread;
use nodeless_model::{Pod, labels};
use std::collections::BTreeMap;

impl<'a> Round<'_, 'a, '_> {
    /// Rejects moves after which more pods share a node than the required spread over host names of a pod there allows.
    pub(crate) fn check_host_spread(&self, movers: &[Mover<'a>], verdict: &Verdict) -> Result<(), KeptReason> {
        let mut joining: BTreeMap<usize, Vec<&'a Pod>> = BTreeMap::new();
        for (mover, leaf) in &verdict.placed {
            joining.entry(*leaf).or_default().push(movers[*mover].pod);
        }
        for (leaf, joining) in joining {
            let here = self.packed.pods_at(leaf);
            let owners = here.iter().copied().filter(|pod| pod.is_active());
            let mut spreads: Vec<(&Pod, &TopologySpread)> = Vec::new();
            for (owner, spread) in owners.flat_map(|pod| host_spreads(pod).map(move |spread| (pod, spread))) {
                // Pods of one workload have the same constraints.
                let alike = |(other, known): &(&Pod, &TopologySpread)| {
                    *known == spread
                        && other.namespace == owner.namespace
                        && other.template.labels == owner.template.labels
                };
                if !spreads.iter().rev().any(alike) {
                    spreads.push((owner, spread));
                }
            }
            for (owner, spread) in spreads {
                let Some(first) = joining.iter().find(|pod| spread.counts(owner, pod)) else { continue };
                let all = here.iter().filter(|pod| pod.is_active()).chain(&joining);
                let count = all.filter(|pod| spread.counts(owner, pod)).count();
                if i64::try_from(count).unwrap_or(i64::MAX) > i64::from(spread.max_skew.max(1)) {
                    return Err(KeptReason::HostSpread {
                        pod: first.key(),
                        node: self.packed.problem.nodes[leaf].name.clone(),
                        owner: owner.key(),
                    });
                }
            }
        }
        Ok(())
    }
}

fn host_spreads(pod: &Pod) -> impl Iterator<Item = &TopologySpread> {
    pod.template.topology_spread.iter().filter(|spread| spread.hard && spread.topology_key == labels::HOSTNAME)
}
