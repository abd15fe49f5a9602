//! Where the pods of drifted and unhealthy nodes fit when these nodes are removed one after another, and what has to be launched for the
//! other pods.

use crate::candidates::{self, Eligible};
use crate::cluster::{Cluster, Options};
use crate::drift::own_place::{ReservedNodes, with_one_more};
use crate::output::{Command, PodPlacement, Replacement};
use crate::pods;
use crate::pods::DisruptionBudgetIndex;
use crate::policy::on_demand_minimum::OnDemandMinimums;
use crate::reasons::KeptReason;
use crate::reasons::drift::{Drift, DriftReason, KeepsPlace};
use crate::simulation::node_prices::{Reserved, reservation};
use crate::simulation::{self, Expected};
use jiff::Timestamp;
use nodeless_model::Pod;
use nodeless_model::hashed::HashSet;
use nodeless_scheduling::{Cause, ExistingNode, Launch, LimitScope, PoolOffer, Prepared, Problem, Reason, solve};
use std::collections::BTreeSet;

/// The cluster without the nodes that were removed so far, with their pods on the target nodes.
///
/// Pods that are terminating on other nodes, and pending pods, use capacity where they are expected: a new node is empty until
/// the pods arrive that it was launched for.
pub(crate) struct DriftSimulation<'c, 'a> {
    expected: &'c Expected<'a>,
    pub(super) budget_index: &'c DisruptionBudgetIndex<'a>,
    pub(super) now: Timestamp,
    problem: Problem<'a>,
    reserved: Reserved,
    reserved_nodes: ReservedNodes<'a>,
    minimums: OnDemandMinimums,
    /// Nodes that pods of removed nodes move to.
    receiving: BTreeSet<String>,
    /// The pending pods that fit on no node: they would use the part of the limits, or the place in a reservation, that a removed node
    /// releases.
    unplaced: Vec<&'a Pod>,
    /// The NodePools with nodes that are terminating or joining; none of their nodes is drained first, so that pods get
    /// a new node before the next ones lose theirs.
    pools_in_transition: BTreeSet<String>,
    /// Whose limits kept the last unschedulable pod out of a NodePool, if any did; those of the cluster if both did.
    limited: Option<LimitScope>,
    /// The NodePools of the removed nodes.
    left: BTreeSet<String>,
    prepared: Prepared<'c>,
    /// Whether the NodePools of the problem have other offerings than those that were prepared.
    has_other_offerings: bool,
    options: &'c nodeless_scheduling::Options,
    /// The work so far and its limit, in the units of [`nodeless_scheduling::Solution::work`].
    work: u64,
    max_work: u64,
}

/// The work for a node or a pod in a problem, in the same units.
const WORK_PER_ITEM: u64 = 4;

/// Why a node is not drained before its replacement is launched.
enum NotOnceGone {
    /// Other nodes are replaced like that first.
    Waits,
    /// Its pods could not be scheduled afterwards, or it keeps its place in a full capacity reservation for this reason.
    Blocked(Option<KeepsPlace>),
}

/// Where the pods of a node move.
struct Moves {
    /// Pods by their place in the problem, and nodes by name.
    placed: Vec<(usize, String)>,
    launches: Vec<Launch>,
}

impl<'c, 'a> DriftSimulation<'c, 'a> {
    pub(crate) fn new(
        cluster: &'c Cluster<'a>,
        expected: &'c Expected<'a>,
        budget_index: &'c DisruptionBudgetIndex<'a>,
        options: &'c Options,
        now: Timestamp,
    ) -> Self {
        let mut problem = simulation::problem(cluster, |_| true);
        expected.subtract_expected(&mut problem);
        let pods = cluster.nodes.iter().flat_map(|node| &node.pods).chain(&cluster.pending_pods);
        Self {
            prepared: Prepared::new(
                &cluster.node_pools,
                cluster.daemon_sets,
                pods.copied(),
                cluster.facts,
                &options.scheduling,
            ),
            expected,
            budget_index,
            now,
            problem,
            reserved: Reserved::default(),
            reserved_nodes: ReservedNodes::new(cluster),
            minimums: OnDemandMinimums::of_cluster(cluster),
            receiving: BTreeSet::new(),
            unplaced: expected.unplaced(cluster),
            pools_in_transition: pools_in_transition(cluster),
            limited: None,
            left: BTreeSet::new(),
            has_other_offerings: false,
            options: &options.scheduling,
            work: 0,
            max_work: options.max_work / 2,
        }
    }

    /// The work so far.
    pub(crate) const fn work(&self) -> u64 {
        self.work
    }

    /// Whether pods of a removed node move to this one.
    pub(crate) fn receives(&self, node: &str) -> bool {
        self.receiving.contains(node)
    }

    /// Removes a node, or returns why it has to stay.
    pub(crate) fn leave(&mut self, one: &Eligible<'_, 'a>, drift: &Drift) -> Result<Command, KeptReason> {
        let (own, real, of_node) = self.moving(one, drift);
        self.limited = None;
        let place = self.problem.nodes.iter().position(|node| node.name == one.of.name());
        let gone = place.map(|place| (place, self.problem.nodes.remove(place)));
        self.problem.pods = own;
        let moves = match self.moves(of_node, drift) {
            // As in Karpenter, buffers do not keep a drifted node; the next plan launches their capacity again.
            Err(KeptReason::DriftBlocked { .. }) if real < of_node => self.moves(real, drift),
            other => other,
        };
        let moves = match moves {
            Ok(moves) if self.reserved.overdraws(&self.problem.node_pools, moves.launches.iter()) => {
                Err(KeptReason::DriftWaits(drift.clone()))
            }
            other => other,
        };
        // Replacements that can be launched only after the node is gone, and their price.
        let (moves, later) = match moves {
            Err(KeptReason::DriftBlocked { pod, why, .. }) => match self.once_it_has_gone(one, real, drift) {
                Ok((moves, price)) => (Ok(moves), Some(price)),
                Err(NotOnceGone::Waits) => (Err(KeptReason::DriftWaits(drift.clone())), None),
                Err(NotOnceGone::Blocked(place)) => {
                    let place = place.map(Box::new);
                    (Err(KeptReason::DriftBlocked { drift: drift.clone(), pod, why, place }), None)
                }
            },
            other => (other, None),
        };
        let moves = moves.and_then(|moves| match later {
            // A limit or the reservation allows no other node beside it.
            Some(_) => self.limited_to_minimum(&[one.claim.name.as_str()], moves),
            None => self.with_minimum(one, moves, of_node, drift),
        });
        match moves {
            Ok(moves) => {
                let command = self.done(one, moves, drift);
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

    /// Launches that keep the NodePool's minimum on demand. If the pods would move to existing nodes, and the minimum needs the
    /// node, its pods get a new node instead.
    fn with_minimum(
        &mut self,
        one: &Eligible<'_, 'a>,
        moves: Moves,
        of_node: usize,
        drift: &Drift,
    ) -> Result<Moves, KeptReason> {
        let going = [one.claim.name.as_str()];
        let why = match self.limited_to_minimum(&going, moves) {
            Ok(moves) => return Ok(moves),
            Err(why) => why,
        };
        if of_node == 0 {
            return Err(why);
        }
        let all = std::mem::take(&mut self.problem.nodes);
        let alone = self.ask(of_node, drift);
        self.problem.nodes = all;
        let alone = alone.and_then(|moves| self.limited_to_minimum(&going, moves));
        alone.ok().filter(|moves| !self.reserved.overdraws(&self.problem.node_pools, moves.launches.iter())).ok_or(why)
    }

    fn limited_to_minimum(&self, going: &[&str], mut moves: Moves) -> Result<Moves, KeptReason> {
        let offers = &self.problem.node_pools;
        self.minimums.limit_replacements(going, &mut moves.launches, offers);
        self.minimums.check(going, moves.launches.iter(), offers)?;
        Ok(moves)
    }

    /// Where the pods of a node move once its instance is gone, and the price of their new nodes, if only its share of the limits or its
    /// place in a full capacity reservation prevents that before. The node may then be drained first, and its pods are pending until
    /// their next node is ready.
    fn once_it_has_gone(
        &mut self,
        one: &Eligible<'_, 'a>,
        of_node: usize,
        drift: &Drift,
    ) -> Result<(Moves, f64), NotOnceGone> {
        let place = self.reserved_nodes.place(one, drift, self.budget_index, self.now);
        if let Some(scope) = self.limited {
            match self.within_limits(one, of_node, drift, scope) {
                Err(NotOnceGone::Blocked(_)) => {}
                other => return other,
            }
        }
        match place {
            None => Err(NotOnceGone::Blocked(None)),
            Some(Err(keeps)) => Err(NotOnceGone::Blocked(Some(keeps))),
            Some(Ok(id)) => self.in_its_place(one, of_node, drift, id),
        }
    }

    /// [`Self::once_it_has_gone`] for limits, where no other node of the NodePool is replaced like that. Where limits of the cluster
    /// prevent it, the same holds for the nodes of all NodePools: each could use what this one releases.
    fn within_limits(
        &mut self,
        one: &Eligible<'_, 'a>,
        of_node: usize,
        drift: &Drift,
        scope: LimitScope,
    ) -> Result<(Moves, f64), NotOnceGone> {
        let name = &one.offer.pool.name;
        let of_cluster = scope == LimitScope::Cluster;
        let holds = |pools: &BTreeSet<String>| if of_cluster { !pools.is_empty() } else { pools.contains(name) };
        if holds(&self.pools_in_transition) {
            return Err(NotOnceGone::Blocked(None));
        }
        let follows = holds(&self.left);
        let moves = self.launches_without(one, of_node, drift, self.problem.node_pools.clone())?;
        if follows || self.reserved.overdraws(&self.problem.node_pools, moves.launches.iter()) {
            return Err(NotOnceGone::Waits);
        }
        Ok(moves.later())
    }

    /// [`Self::once_it_has_gone`] for the place of the node in a full reservation, where no other node of the NodePool is terminating or
    /// joining.
    fn in_its_place(
        &mut self,
        one: &Eligible<'_, 'a>,
        of_node: usize,
        drift: &Drift,
        id: &str,
    ) -> Result<(Moves, f64), NotOnceGone> {
        let name = &one.offer.pool.name;
        if self.pools_in_transition.contains(name) || self.left.contains(name) {
            return Err(NotOnceGone::Waits);
        }
        let offers = with_one_more(&self.problem.node_pools, id);
        let mut released = offers.clone();
        PoolOffer::release(&mut released, name, &one.counted());
        if self.pending_pods_use(released, id) {
            return Err(NotOnceGone::Blocked(None));
        }
        self.has_other_offerings = true;
        let moves = self.launches_without(one, of_node, drift, offers);
        self.has_other_offerings = false;
        let moves = moves?;
        let is_its_place = matches!(&moves.launches[..], [launch] if reservation(launch).as_deref() == Some(id));
        if is_its_place { Ok(moves.later()) } else { Err(NotOnceGone::Blocked(None)) }
    }

    /// Whether a pending pod would get a node in a reservation with these offers.
    fn pending_pods_use(&mut self, offers: Vec<PoolOffer<'a>>, id: &str) -> bool {
        if self.unplaced.is_empty() {
            return false;
        }
        let own = std::mem::replace(&mut self.problem.pods, self.unplaced.clone());
        let before = std::mem::replace(&mut self.problem.node_pools, offers);
        let solution = solve(&self.problem, self.options);
        self.problem.pods = own;
        self.problem.node_pools = before;
        self.work = self.work.saturating_add(solution.work);
        solution.launches.iter().any(|launch| reservation(launch).as_deref() == Some(id))
    }

    /// Where the pods of a node move without it, if they need new nodes, with these offers.
    fn launches_without(
        &mut self,
        one: &Eligible<'_, 'a>,
        of_node: usize,
        drift: &Drift,
        mut offers: Vec<PoolOffer<'a>>,
    ) -> Result<Moves, NotOnceGone> {
        PoolOffer::release(&mut offers, &one.offer.pool.name, &one.counted());
        let before = std::mem::replace(&mut self.problem.node_pools, offers);
        let waiting = self.problem.pods.len();
        // Pending pods may use what is released first; then nothing is gained.
        let unplaced =
            self.unplaced.iter().filter(|pod| !self.problem.pods.iter().any(|own| std::ptr::eq(*own, **pod)));
        let unplaced: Vec<&Pod> = unplaced.copied().collect();
        self.problem.pods.extend(unplaced);
        let moves = self.moves(of_node, drift);
        self.problem.pods.truncate(waiting);
        self.problem.node_pools = before;
        moves.ok().filter(|moves| !moves.launches.is_empty()).ok_or(NotOnceGone::Blocked(None))
    }

    /// The pods that need another node when a node is removed, then the virtual pods of buffers, and then pending pods
    /// that may stay pending; with the number of the first, and of the first two together. A pod that stays until it is
    /// deleted by force is left out: it is unknown when that will be, except in a repair.
    fn moving(&self, one: &Eligible<'_, 'a>, drift: &Drift) -> (Vec<&'a Pod>, usize, usize) {
        let by_name = |a: &&Pod, b: &&Pod| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name));
        let (coming, mut waiting) = self.expected.coming_to(one.of.name());
        let all = drift.reason == DriftReason::Unhealthy;
        let own = pods::reschedulable(&one.of.pods);
        let own = own.filter(|pod| all || !self.budget_index.holds(pod, None, self.now));
        let (mut virtual_pods, mut moving): (Vec<&Pod>, Vec<&Pod>) =
            own.chain(coming).partition(|pod| pod.is_virtual());
        moving.sort_by(by_name);
        virtual_pods.sort_by(by_name);
        waiting.sort_by(by_name);
        let real = moving.len();
        moving.append(&mut virtual_pods);
        let count = moving.len();
        moving.append(&mut waiting);
        (moving, real, count)
    }

    /// Where the first `of_node` pods of the problem move.
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
        // The uninitialized node may never join. Ready and new nodes are tried instead.
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
        if self.work >= self.max_work {
            return Err(KeptReason::NotEvaluated);
        }
        let solution = match self.has_other_offerings {
            true => solve(&self.problem, self.options),
            false => self.prepared.solve(&self.problem),
        };
        self.work = self.work.saturating_add(work).saturating_add(solution.work);
        if let Some(stuck) = solution.unschedulable.iter().find(|stuck| stuck.pod < of_node) {
            let of_cluster = self.problem.node_pools.iter().any(|offer| offer.cluster.is_some());
            self.limited = stuck.reasons.iter().filter_map(|reason| limit_of(reason, of_cluster)).max();
            let why: Vec<String> = stuck.reasons.iter().map(ToString::to_string).collect();
            return Err(blocked(drift, self.problem.pods[stuck.pod], why.join("; ")));
        }
        let placed = solution.placements.iter().filter(|to| to.pod < of_node);
        let placed = placed.map(|to| (to.pod, self.problem.nodes[to.node].name.clone())).collect();
        let launches = solution.launches.into_iter().filter(|launch| launch.pods.iter().any(|pod| *pod < of_node));
        Ok(Moves { placed, launches: launches.collect() })
    }

    /// Creates the command. From here on its node is removed, and its pods are on their new nodes.
    fn done(&mut self, one: &Eligible<'_, 'a>, moves: Moves, drift: &Drift) -> Command {
        let own = std::mem::take(&mut self.problem.pods);
        self.left.insert(one.offer.pool.name.clone());
        self.minimums.apply(&[one.claim.name.as_str()], moves.launches.iter(), &self.problem.node_pools);
        self.reserved.charge(&mut self.problem.node_pools, moves.launches.iter());
        let mut placements = Vec::with_capacity(moves.placed.len());
        for (pod, name) in moves.placed {
            let pod = own[pod];
            placements.push(PodPlacement { pod: pod.key(), node: name.clone() });
            if let Some(node) = self.problem.nodes.iter_mut().find(|node| node.name == name) {
                node.available.subtract(pod.template.next_requests());
                node.host_ports.extend(pod.template.host_ports.iter().cloned());
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
        let command = candidates::replacing(one, drift, replacements, self.now);
        Command { placements, ..command }
    }
}

impl Moves {
    const fn none() -> Self {
        Self { placed: Vec::new(), launches: Vec::new() }
    }

    /// Without the launches, which the plan makes that finds the pods pending, and their price.
    fn later(self) -> (Self, f64) {
        let price = self.launches.iter().map(|launch| launch.offering.price).sum();
        (Self { launches: Vec::new(), ..self }, price)
    }
}

/// Whose limit a reason is, if it is one. `of_cluster` is whether the cluster has limits.
fn limit_of(reason: &Reason, of_cluster: bool) -> Option<LimitScope> {
    match reason {
        Reason::NodePool { cause: Cause::Limit { scope, .. } | Cause::DollarLimit { scope, .. }, .. } => Some(*scope),
        Reason::NodePool { cause: Cause::Limits, .. } if of_cluster => Some(LimitScope::Cluster),
        Reason::NodePool { cause: Cause::Limits, .. } => Some(LimitScope::NodePool),
        _ => None,
    }
}

/// The NodePools with a node that is terminating or joining.
pub(crate) fn pools_in_transition(cluster: &Cluster<'_>) -> BTreeSet<String> {
    let moving = cluster.nodes.iter().filter(|node| node.is_leaving() || !node.is_initialized());
    moving.filter_map(|node| node.node_pool()).map(str::to_owned).collect()
}

fn blocked(drift: &Drift, pod: &Pod, why: String) -> KeptReason {
    KeptReason::DriftBlocked { drift: drift.clone(), pod: pod.key(), why, place: None }
}
