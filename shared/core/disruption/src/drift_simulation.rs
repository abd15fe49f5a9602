//! What it takes to let nodes go whatever that costs, one after another: where their pods fit, and what has to be launched for
//! the others.

use crate::candidates::{self, Eligible};
use crate::cluster::{Cluster, Options};
use crate::drift_reason::Drift;
use crate::market::Reserved;
use crate::output::{Command, Method, PodPlacement, Replacement};
use crate::pods;
use crate::pods::Guards;
use crate::reasons::KeptReason;
use crate::simulation::{self, Expected};
use jiff::Timestamp;
use nodeless_model::buffer::is_virtual;
use nodeless_model::{DisruptionReason, Pod};
use nodeless_scheduling::{Cause, ExistingNode, Launch, Prepared, Problem, Reason};
use std::collections::{BTreeSet, HashSet};

/// The cluster without the nodes that have gone so far, and with their pods where those go.
///
/// Pods that leave other nodes already, or wait, have the room where they are expected: a new node is empty until the pods
/// come that it was launched for.
pub(crate) struct DriftSimulation<'c, 'a> {
    expected: &'c Expected<'a>,
    guards: &'c Guards<'a>,
    now: Timestamp,
    problem: Problem<'a>,
    reserved: Reserved,
    /// Nodes to which pods of those that have gone were sent.
    receiving: BTreeSet<String>,
    /// The pods that wait and fit on no node: they would take the room in limits that a node leaves.
    unplaced: Vec<&'a Pod>,
    /// The NodePools of which nodes leave already or are on their way, so that none goes before its pods have another.
    restless: BTreeSet<String>,
    /// Whether the last pod that fitted nowhere was kept out of some NodePool by its limits.
    limited: bool,
    /// The NodePools of which nodes were let go.
    left: BTreeSet<String>,
    prepared: Prepared<'c>,
    /// How much may still be looked at, in the units of [`nodeless_scheduling::Solution::work`].
    work_left: u64,
}

/// What it takes to show the scheduler a node or a pod, in the same units.
const WORK_PER_ITEM: u64 = 4;

/// What becomes of the pods of a node.
struct Moves {
    /// Pods by their place in the problem, and nodes by name.
    placed: Vec<(usize, String)>,
    launches: Vec<Launch>,
}

impl<'c, 'a> DriftSimulation<'c, 'a> {
    pub(crate) fn new(
        cluster: &'c Cluster<'a>,
        expected: &'c Expected<'a>,
        guards: &'c Guards<'a>,
        options: &'c Options,
        now: Timestamp,
    ) -> Self {
        let mut problem = simulation::problem(cluster, |_| true);
        expected.take_room(&mut problem);
        let pods = cluster.nodes.iter().flat_map(|node| &node.pods).chain(&cluster.pending_pods);
        let requests = pods.map(|pod| &pod.requests);
        Self {
            prepared: Prepared::new(&cluster.node_pools, cluster.daemon_sets, requests, &options.scheduling),
            expected,
            guards,
            now,
            problem,
            reserved: Reserved::default(),
            receiving: BTreeSet::new(),
            unplaced: expected.unplaced(cluster),
            restless: restless(cluster),
            limited: false,
            left: BTreeSet::new(),
            work_left: options.most_work,
        }
    }

    /// Whether pods of a node that has gone were sent to this one.
    pub(crate) fn receives(&self, node: &str) -> bool {
        self.receiving.contains(node)
    }

    /// Lets a node go, or says why it has to stay.
    pub(crate) fn leave(&mut self, one: &Eligible<'_, 'a>, drift: &Drift) -> Result<Command, KeptReason> {
        let (own, real, of_node) = self.moving(one);
        self.limited = false;
        let place = self.problem.nodes.iter().position(|node| node.name == one.of.name());
        let gone = place.map(|place| (place, self.problem.nodes.remove(place)));
        self.problem.pods = own;
        let moves = match self.moves(of_node, drift) {
            // As in Karpenter the room of a buffer holds no drifted node back; the next plan makes up for it.
            Err(KeptReason::DriftBlocked { .. }) if real < of_node => self.moves(real, drift),
            other => other,
        };
        let moves = match moves {
            Ok(moves) if self.reserved.overdraws(&self.problem.node_pools, moves.launches.iter()) => {
                Err(KeptReason::DriftWaits(drift.clone()))
            }
            other => other,
        };
        // What is launched only once the node has gone, if that is so, and what that costs.
        let (moves, later) = match moves {
            Err(why @ KeptReason::DriftBlocked { .. }) if self.limited => match self.once_it_has_gone(one, real, drift)
            {
                Some(Ok((moves, price))) => (Ok(moves), Some(price)),
                Some(Err(waits)) => (Err(waits), None),
                None => (Err(why), None),
            },
            other => (other, None),
        };
        match moves {
            Ok(moves) => {
                let command = self.done(one, moves);
                let savings_per_hour = command.savings_per_hour - later.unwrap_or_default();
                Ok(Command { drains_first: later.is_some(), savings_per_hour, ..command })
            }
            Err(why) => {
                if let Some((place, node)) = gone {
                    self.problem.nodes.insert(place, node);
                }
                Err(why)
            }
        }
    }

    /// What becomes of the pods of a node once its instance is gone, where only what that takes of its NodePool's limits keeps
    /// them from having a place before: then the node may go first, and its pods wait for their next node. Nothing where
    /// limits are not all that is in the way; why not yet, where one node at a time has to do.
    fn once_it_has_gone(
        &mut self,
        one: &Eligible<'_, 'a>,
        of_node: usize,
        drift: &Drift,
    ) -> Option<Result<(Moves, f64), KeptReason>> {
        let name = &one.claim.node_pool;
        if self.restless.contains(name) {
            return None;
        }
        let place = self.problem.node_pools.iter().position(|offer| offer.pool.name == *name)?;
        let offer = &mut self.problem.node_pools[place];
        let charge = one.counted();
        let used = offer.usage.clone();
        offer.usage.resources.subtract(&charge.resources);
        offer.usage.dollars_per_hour -= charge.dollars_per_hour;
        let waiting = self.problem.pods.len();
        // Whoever waits already may take that room first; then nothing would be gained.
        let unplaced =
            self.unplaced.iter().filter(|pod| !self.problem.pods.iter().any(|own| std::ptr::eq(*own, **pod)));
        let unplaced: Vec<&Pod> = unplaced.copied().collect();
        self.problem.pods.extend(unplaced);
        let moves = self.moves(of_node, drift);
        self.problem.pods.truncate(waiting);
        self.problem.node_pools[place].usage = used;
        let moves = moves.ok().filter(|moves| !moves.launches.is_empty())?;
        if self.left.contains(name) || self.reserved.overdraws(&self.problem.node_pools, moves.launches.iter()) {
            return Some(Err(KeptReason::DriftWaits(drift.clone())));
        }
        // Its next node is launched once there is room for it, by whoever sees the pods wait.
        let price = moves.launches.iter().map(|launch| launch.offering.price).sum();
        Some(Ok((Moves { launches: Vec::new(), ..moves }, price)))
    }

    /// The pods that need another place when a node goes, after them those that stand for the room of buffers, and then those
    /// that may stay pending; and how many the first are, and the first two together. A pod that stays until it is taken away
    /// by force is none: nobody knows when that will be.
    fn moving(&self, one: &Eligible<'_, 'a>) -> (Vec<&'a Pod>, usize, usize) {
        let by_name = |a: &&Pod, b: &&Pod| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name));
        let (coming, mut waiting) = self.expected.coming_to(one.of.name());
        let own = pods::reschedulable(&one.of.pods).filter(|pod| !self.guards.holds(pod, None, self.now));
        let (mut virtual_pods, mut moving): (Vec<&Pod>, Vec<&Pod>) = own.chain(coming).partition(|pod| is_virtual(pod));
        moving.sort_by(by_name);
        virtual_pods.sort_by(by_name);
        waiting.sort_by(by_name);
        let real = moving.len();
        moving.append(&mut virtual_pods);
        let count = moving.len();
        moving.append(&mut waiting);
        (moving, real, count)
    }

    /// What becomes of the first `of_node` pods of the problem.
    fn moves(&mut self, of_node: usize, drift: &Drift) -> Result<Moves, KeptReason> {
        if of_node == 0 {
            return Ok(Moves::none());
        }
        let unready = |node: &ExistingNode| node.node_claim.is_some() && !node.initialized;
        let moves = self.ask(of_node, drift)?;
        let names: HashSet<&str> =
            self.problem.nodes.iter().filter(|node| unready(node)).map(|node| node.name.as_str()).collect();
        let Some((pod, node)) = moves.placed.iter().find(|(_, node)| names.contains(node.as_str())) else {
            return Ok(moves);
        };
        let why =
            blocked(drift, self.problem.pods[*pod], format!("it would go to {node}, which is not initialized yet"));
        // Nobody knows whether that node ever joins; what is ready now and new nodes of its own are as good.
        let all = std::mem::take(&mut self.problem.nodes);
        self.problem.nodes = all.iter().filter(|node| !unready(node)).cloned().collect();
        let without = self.ask(of_node, drift);
        self.problem.nodes = all;
        without.map_err(|_| why)
    }

    fn ask(&mut self, of_node: usize, drift: &Drift) -> Result<Moves, KeptReason> {
        let work: usize =
            self.problem.nodes.len() + self.problem.bound_pods.iter().map(|on| on.pods.len()).sum::<usize>();
        let work = u64::try_from(work + self.problem.pods.len()).unwrap_or(u64::MAX).saturating_mul(WORK_PER_ITEM);
        if self.work_left == 0 {
            return Err(KeptReason::NotLookedAt);
        }
        let solution = self.prepared.solve(&self.problem);
        self.work_left = self.work_left.saturating_sub(work.saturating_add(solution.work));
        if let Some(stuck) = solution.unschedulable.iter().find(|stuck| stuck.pod < of_node) {
            self.limited = stuck.reasons.iter().any(is_limit);
            let why: Vec<String> = stuck.reasons.iter().map(ToString::to_string).collect();
            return Err(blocked(drift, self.problem.pods[stuck.pod], why.join("; ")));
        }
        let placed = solution.placements.iter().filter(|to| to.pod < of_node);
        let placed = placed.map(|to| (to.pod, self.problem.nodes[to.node].name.clone())).collect();
        let launches = solution.launches.into_iter().filter(|launch| launch.pods.iter().any(|pod| *pod < of_node));
        Ok(Moves { placed, launches: launches.collect() })
    }

    /// The command; from here on its node is gone, and its pods are where they go.
    fn done(&mut self, one: &Eligible<'_, 'a>, moves: Moves) -> Command {
        let own = std::mem::take(&mut self.problem.pods);
        self.left.insert(one.claim.node_pool.clone());
        self.reserved.charge(&mut self.problem.node_pools, moves.launches.iter());
        let mut placements = Vec::with_capacity(moves.placed.len());
        for (pod, name) in moves.placed {
            let pod = own[pod];
            placements.push(PodPlacement { pod: pod.key(), node: name.clone() });
            if let Some(node) = self.problem.nodes.iter_mut().find(|node| node.name == name) {
                node.available.subtract(&pod.requests);
                node.host_ports.extend(pod.host_ports.iter().cloned());
            }
            for bound in &mut self.problem.bound_pods {
                bound.pods.retain(|there| !std::ptr::eq(*there, pod));
                if bound.name == name {
                    bound.pods.push(pod);
                }
            }
            self.receiving.insert(name);
        }
        placements.sort();
        let replacement = |mut launch: Launch| {
            let pods = std::mem::take(&mut launch.pods);
            Replacement { launch, pods: pods.into_iter().map(|pod| own[pod].key()).collect() }
        };
        let replacements = moves.launches.into_iter().map(replacement).collect();
        let command = candidates::command(Method::Drift, DisruptionReason::Drifted, &[*one], replacements, self.now);
        Command { placements, ..command }
    }
}

impl Moves {
    const fn none() -> Self {
        Self { placed: Vec::new(), launches: Vec::new() }
    }
}

fn is_limit(reason: &Reason) -> bool {
    matches!(reason, Reason::NodePool { cause: Cause::Limit { .. } | Cause::DollarLimit { .. } | Cause::Limits, .. })
}

/// The NodePools of which a node leaves, or is on its way.
pub(crate) fn restless(cluster: &Cluster<'_>) -> BTreeSet<String> {
    let moving = cluster.nodes.iter().filter(|node| node.is_leaving() || !node.is_initialized());
    moving.filter_map(|node| node.node_pool()).map(str::to_owned).collect()
}

fn blocked(drift: &Drift, pod: &Pod, why: String) -> KeptReason {
    KeptReason::DriftBlocked { drift: drift.clone(), pod: pod.key(), why }
}
