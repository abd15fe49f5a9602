//! Consolidation: removes nodes whose pods fit on other nodes, or on new nodes that cost less.
//!
//! 1. `removal`: removes nodes one after another from the packed cluster, the node with the most savings for its disruption
//!    first.
//! 2. `groups`: replaces several nodes whose pods are worth much less than the price of the nodes by several cheaper ones.
//! 3. `single`: compares each remaining node with one or two new nodes for the pods that fit on no other.
//! 4. `merge`: replaces a node to which pods move together with the nodes that they come from, so that no pod is evicted twice.
//!
//! `zone_balance` is a method of its own with the same parts: it replaces a node with pods that are uneven over zones. Where a NodePool
//! asks for it, no command makes the spread over zones worse (`zone_guard`).
//!
//! With commitments, a command has to lower what is paid for all nodes together (`paid`).
//!
//! The scheduler validates every result (`trial`), and its pods have to fit where the kube-scheduler is predicted to bind
//! them (`binding`). Commands of one decision are independent of each other: no node that one of
//! them removes takes pods of another, and capacity is used once.

mod binding;
mod checks;
pub(crate) mod method;
mod planned;
mod prediction;
mod replacement;
mod round;
mod savings;
mod steps;
mod trial;
mod unplaced;
mod validation;
pub(crate) mod zone_balance;
mod zone_guard;

pub use planned::{PlannedConsolidation, PlannedNodes, consolidate_planned};
pub(crate) use unplaced::unplaced;
pub use unplaced::{OtherNode, UnplacedPod};

use crate::candidates::{Eligible, Lookup};
use crate::cluster::Cluster;
use crate::output::Command;
use crate::policy::budgets::Budgets;
use crate::reasons::KeptReason;
use crate::simulation::Expected;
use crate::simulation::packed::{Mover, Scope};
use nodeless_model::{CapacityType, DisruptionReason};
use prediction::Prediction;
use round::{Round, Setting};
use std::collections::{BTreeMap, BTreeSet};
use zone_guard::ZoneGuard;

/// A node that may be consolidated.
#[derive(Debug)]
pub(crate) struct Candidate<'c, 'a> {
    pub(crate) one: Eligible<'c, 'a>,
    pub(crate) price: f64,
    /// The cost of moving its pods, as [`crate::pods::reschedule_cost`].
    pub(crate) cost: f64,
    pub(crate) capacity_type: CapacityType,
    pub(crate) instance_type: &'a str,
    /// The pods that have to move, the largest first.
    pub(crate) movers: Vec<Mover<'a>>,
    /// The index in the packed cluster.
    pub(crate) leaf: usize,
    /// The part of the cluster that the scheduler needs to evaluate the pods.
    pub(crate) scope: Scope,
    pub(crate) state: State,
    /// Why it stays, as far as known.
    pub(crate) reasons: Vec<KeptReason>,
}

/// The state of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum State {
    /// Nothing yet.
    Open,
    /// The candidate is not evaluated any more; the reasons explain why.
    Stays,
    /// A command removes it.
    Goes,
}

/// The result of consolidation.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) commands: Vec<Command>,
    pub(crate) kept: BTreeMap<String, Vec<KeptReason>>,
    pub(crate) not_evaluated: BTreeSet<String>,
    pub(crate) work: u64,
}

/// The cluster that is evaluated, the cluster with the pods as users declared them, and the pods that are expected on nodes.
#[derive(Clone, Copy)]
struct Observed<'c, 'a> {
    cluster: &'c Cluster<'a>,
    declared: &'c Cluster<'a>,
    expected: &'c Expected<'a>,
}

/// Finds what can be consolidated among these nodes.
fn find<'c, 'a>(
    observed: Observed<'c, 'a>,
    eligible: &[Eligible<'c, 'a>],
    lookup: &Lookup<'c, 'a>,
    budgets: &mut Budgets,
    setting: Setting<'_>,
) -> Found {
    let (Observed { cluster, declared, expected }, Setting { options, now }) = (observed, setting);
    let mut found = Found::default();
    let mut known = Vec::new();
    for one in eligible {
        match budgets.check(&one.offer.pool.name, DisruptionReason::Underutilized).and_then(|()| priced(one)) {
            Ok(()) => known.push(*one),
            Err(why) => found.kept.entry(one.node.name.clone()).or_default().push(why),
        }
    }
    if known.is_empty() {
        return found;
    }
    let mut prepared = round::prepared(&cluster.node_pools, cluster, &known, options);
    let zones = ZoneGuard::new(declared, &mut prepared, now);
    let mut round = Round::new(cluster, &known, lookup, expected, setting, &mut prepared);
    round.zones = zones;
    round.prediction = Prediction::assumed(cluster, declared, expected, options);
    run(&mut round, budgets);
    found.work = round.work();
    round.finish(&mut found);
    found
}

/// Finds commands of one, of several and again of one node, and joins those that would evict pods twice, as far as the budgets allow.
fn run(round: &mut Round<'_, '_, '_>, budgets: &mut Budgets) {
    steps::removal::run(round, budgets);
    steps::groups::run(round, budgets);
    steps::single::run(round, budgets);
    steps::merge::run(round, budgets);
}

/// Whether the price of a node is known.
fn priced(one: &Eligible<'_, '_>) -> Result<(), KeptReason> {
    let kind = one.claim.status.instance.as_ref().map(|instance| instance.instance_type.clone());
    match kind {
        Some(_) if one.price > 0.0 => Ok(()),
        kind => Err(KeptReason::PriceUnknown(kind.unwrap_or_default())),
    }
}
