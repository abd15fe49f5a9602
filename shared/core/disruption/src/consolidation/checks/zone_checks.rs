//! Compares moves of pods with the spread over zones that commands keep.

use crate::consolidation::round::Round;
use crate::consolidation::trial::Verdict;
use crate::consolidation::zone_guard::key;
use crate::reasons::KeptReason;
use crate::simulation::packed::Mover;
use nodeless_model::Pod;
use nodeless_scheduling::{BindingNode, Bindings, Bound, ExistingNode, ZoneChanges};

impl<'a> Round<'_, 'a, '_> {
    /// Rejects moves that make the spread over zones worse, together with those of the commands before.
    pub(crate) fn check_zones(&mut self, movers: &[Mover<'a>], verdict: &Verdict) -> Result<(), KeptReason> {
        let Some(mut guard) = self.zones.take() else { return Ok(()) };
        let mut changes = guard.planned.clone();
        for (pod, node) in self.targets(movers, verdict) {
            guard.move_pod(&mut changes, pod, &node);
        }
        let outcome = guard.check(&changes);
        self.zones = Some(guard);
        outcome
    }

    /// Counts the moves of a command.
    pub(crate) fn note_zones(&mut self, movers: &[Mover<'a>], verdict: &Verdict) {
        let Some(mut guard) = self.zones.take() else { return };
        let mut changes = std::mem::take(&mut guard.planned);
        for (pod, node) in self.targets(movers, verdict) {
            guard.move_pod(&mut changes, pod, &node);
            guard.at.insert(key(pod), node);
        }
        guard.planned = changes;
        self.zones = Some(guard);
    }

    /// The changes of these moves alone.
    pub(crate) fn zone_changes(&mut self, movers: &[Mover<'a>], verdict: &Verdict) -> ZoneChanges {
        let mut changes = ZoneChanges::default();
        let targets = self.targets(movers, verdict);
        if let Some(guard) = &mut self.zones {
            targets.iter().for_each(|(pod, node)| guard.spreads.move_pod(&mut changes, pod, node));
        }
        changes
    }

    /// The pods that move, and their nodes.
    fn targets(&self, movers: &[Mover<'a>], verdict: &Verdict) -> Vec<(&'a Pod, ExistingNode)> {
        let placed = verdict.placed.iter();
        let mut targets: Vec<(&'a Pod, ExistingNode)> =
            placed.map(|(mover, leaf)| (movers[*mover].pod, self.packed.problem.nodes[*leaf].clone())).collect();
        for launch in &verdict.launches {
            let offer = self.node_prices.offers.iter().find(|offer| offer.pool.name == launch.node_pool);
            let daemon_sets = self.packed.problem.daemon_sets;
            let node = offer.and_then(|offer| BindingNode::of_launch("new", launch, offer, daemon_sets).ok());
            let Some(BindingNode { node, .. }) = node else { continue };
            targets.extend(launch.pods.iter().map(|pod| (movers[*pod].pod, node.clone())));
        }
        targets
    }

    /// Rejects a command after which the spread over zones is worse where the kube-scheduler is predicted to bind the pods, in one of the
    /// orders. `bound` are pods of commands before, with their nodes.
    pub(crate) fn check_bound_zones(
        &mut self,
        bindings: &Bindings<'a>,
        bound: &[(usize, Mover<'a>)],
        movers: &[Mover<'a>],
        found: &Bound,
    ) -> Result<(), KeptReason> {
        let Some(guard) = &mut self.zones else { return Ok(()) };
        for order in &found.orders {
            let mut changes = ZoneChanges::default();
            let queued = movers.iter().zip(order).filter_map(|(mover, node)| Some((*node.as_ref()?, *mover)));
            for (node, mover) in bound.iter().copied().chain(queued) {
                guard.spreads.move_pod(&mut changes, mover.pod, bindings.node(node));
            }
            guard.check(&changes)?;
        }
        Ok(())
    }

    /// Whether no spread over zones counts any of these pods.
    pub(crate) fn no_zones_count(&mut self, movers: &[Mover<'a>]) -> bool {
        let Some(guard) = &mut self.zones else { return true };
        movers.iter().all(|mover| guard.spreads.selecting(mover.pod).is_empty())
    }
}
