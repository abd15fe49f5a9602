//! Rejects moves that place pods on nodes with a `PreferNoSchedule` taint.

use crate::consolidation::round::Round;
use crate::consolidation::trial::Verdict;
use crate::reasons::KeptReason;
use crate::simulation::packed::Mover;
use nodeless_model::{Pod, Taint, TaintEffect};

impl Round<'_, '_, '_> {
    /// Rejects moves to a node with a taint `PreferNoSchedule` that a pod does not tolerate, if its current node has none.
    pub(crate) fn check_taints(&self, movers: &[Mover<'_>], verdict: &Verdict) -> Result<(), KeptReason> {
        for (mover, leaf) in &verdict.placed {
            let (pod, node) = (movers[*mover].pod, &self.packed.problem.nodes[*leaf]);
            let Some(taint) = repelling(&node.taints, pod) else { continue };
            if !self.runs_repelled(pod) {
                let why = format!("it does not tolerate the taint {taint} of node {}", node.name);
                return Err(KeptReason::Unschedulable { pod: pod.key(), why });
            }
        }
        Ok(())
    }

    /// Whether a pod already runs on such a node, or on no node.
    fn runs_repelled(&self, pod: &Pod) -> bool {
        let runs = |mover: &Mover<'_>| std::ptr::eq(mover.pod, pod);
        let of = self.candidates.iter().find(|candidate| candidate.movers.iter().any(runs));
        of.is_none_or(|candidate| repelling(&candidate.one.node.taints, pod).is_some())
    }
}

/// The first `PreferNoSchedule` taint that a pod does not tolerate.
fn repelling<'t>(taints: &'t [Taint], pod: &Pod) -> Option<&'t Taint> {
    let prefers = |taint: &&Taint| taint.effect == TaintEffect::PreferNoSchedule;
    taints.iter().filter(prefers).find(|taint| !pod.template.tolerations.iter().any(|one| one.tolerates(taint)))
}
