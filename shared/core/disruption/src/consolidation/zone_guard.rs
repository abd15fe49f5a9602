//! Keeps the spread of pods over zones where a NodePool has the annotation [`crate::BALANCE_ZONES`].
//!
//! Consolidation keeps a spread that is satisfied, required or preferred, because it treats it as required. One that is not satisfied is
//! no more than a preference to it. So each command is also compared with the present counts, where the plan places its pods and where
//! the kube-scheduler is predicted to bind them: no constraint may get worse. Otherwise consolidation and zone balance could move the same
//! pods forever.

use crate::cluster::Cluster;
use crate::policy::balance_zones::balanced;
use crate::policy::schedules::may_launch;
use crate::reasons::KeptReason;
use crate::simulation::bound_pods;
use jiff::Timestamp;
use nodeless_model::Pod;
use nodeless_model::hashed::HashMap;
use nodeless_scheduling::{ExistingNode, PoolOffer, Prepared, ZoneChanges, ZoneSpreadId, ZoneSpreads};

/// The spread over zones that commands keep.
pub(super) struct ZoneGuard<'a> {
    pub(super) spreads: ZoneSpreads<'a>,
    /// The moves of the commands so far.
    pub(super) planned: ZoneChanges,
    /// The nodes to which these move pods.
    pub(super) at: HashMap<(&'a str, &'a str), ExistingNode>,
    /// Whether a command has to make the spread more even. Otherwise it may not make it less even.
    improves: bool,
}

impl<'a> ZoneGuard<'a> {
    /// The constraints of the pods on nodes of NodePools with the annotation; `None` without such NodePools. `declared` is the cluster
    /// with the pods as users declared them.
    pub(super) fn new(declared: &Cluster<'a>, prepared: &mut Prepared<'_>, now: Timestamp) -> Option<Self> {
        let pools = balanced(declared);
        if pools.is_empty() {
            return None;
        }
        let real = |pod: &&Pod| !pod.is_virtual();
        let is_balanced = |node: &&crate::ClusterNode<'a>| node.node_pool().is_some_and(|pool| pools.contains(pool));
        let owners = declared.nodes.iter().filter(is_balanced).flat_map(|node| &node.pods).copied().filter(real);
        let mut running = bound_pods(declared);
        running.iter_mut().for_each(|node| node.pods.retain(real));
        let leaves = |node: &&crate::ClusterNode<'a>| node.is_leaving();
        let leaving = declared.nodes.iter().filter(leaves).flat_map(|node| &node.pods);
        let moving: Vec<&'a Pod> = leaving.chain(&declared.pending_pods).copied().filter(real).collect();
        let offers: Vec<PoolOffer<'_>> =
            declared.node_pools.iter().filter(|offer| may_launch(offer.pool, now)).cloned().collect();
        let spreads = prepared.zone_spreads(owners, running, &moving, &offers, declared.facts);
        Some(Self { spreads, planned: ZoneChanges::default(), at: HashMap::default(), improves: false })
    }

    /// The same for commands that have to make the spread more even.
    pub(super) fn improving(self) -> Self {
        Self { improves: true, ..self }
    }

    /// Moves a pod, from the node to which a command before has moved it if one has.
    pub(super) fn move_pod(&mut self, changes: &mut ZoneChanges, pod: &'a Pod, to: &ExistingNode) {
        if let Some(from) = self.at.get(&key(pod)) {
            self.spreads.move_back(changes, pod, from);
        }
        self.spreads.move_pod(changes, pod, to);
    }

    /// Whether changes are acceptable.
    pub(super) fn check(&self, changes: &ZoneChanges) -> Result<(), KeptReason> {
        if let Some(worse) = self.spreads.first_worse(changes) {
            return Err(KeptReason::ZonesWorse { workload: self.workload(worse) });
        }
        if self.improves && self.gain(changes) <= 0 {
            let any = self.spreads.changed(changes).next();
            let workload = any.map_or_else(String::new, |spread| self.workload(spread));
            return Err(KeptReason::ZonesNoBetter { workload });
        }
        Ok(())
    }

    fn gain(&self, changes: &ZoneChanges) -> i64 {
        let quiescent = self.spreads.changed(changes).filter(|spread| self.spreads.is_quiescent(*spread));
        quiescent.map(|spread| self.spreads.gain(spread, changes)).sum()
    }

    /// The workload of the pods with a constraint, for messages.
    pub(super) fn workload(&self, spread: ZoneSpreadId) -> String {
        let owner = self.spreads.owner(spread);
        owner.workload().map_or_else(|| format!("Pod {}", owner.key()), |workload| workload.to_string())
    }
}

pub(super) fn key(pod: &Pod) -> (&str, &str) {
    (&pod.namespace, &pod.name)
}
