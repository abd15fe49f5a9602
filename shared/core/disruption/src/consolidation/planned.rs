//! Consolidation of nodes that are planned and not launched yet.

use super::Found;
use super::round::Round;
use crate::candidates::Eligible;
use crate::cluster::{Cluster, ClusterNode, Options};
use crate::output::Command;
use crate::policy::budgets::Budgets;
use nodeless_model::hashed::HashMap;
use nodeless_scheduling::{Launch, PoolOffer, Prepared, Problem};

/// Planned nodes, and the existing nodes beside them.
#[derive(Debug)]
pub struct PlannedNodes<'c, 'a> {
    /// The planned nodes as initialized nodes with claims and pods, and the NodePools, DaemonSets and facts. It contains no
    /// existing node.
    pub cluster: &'c Cluster<'a>,
    /// The nodes of `cluster` that may be removed. Others only take pods, as do those without a price in
    /// [`nodeless_model::claim::LaunchedInstance::price`].
    pub movable: Vec<&'c ClusterNode<'a>>,
    /// The existing nodes ([`Problem::nodes`]) and their pods ([`Problem::bound_pods`]): they take pods, and are never removed.
    pub existing: &'c Problem<'a>,
    /// The launches of the planned nodes, each with the charge that counts in the usage of its NodePool.
    pub launches: &'c [Launch],
    /// The maximum number of nodes of each NodePool to remove.
    pub max_removed: u32,
}

/// The result of [`consolidate_planned`].
#[derive(Debug, Default)]
pub struct PlannedConsolidation {
    /// Independent commands, as in a decision: no node that one of them removes takes pods of another.
    pub commands: Vec<Command>,
    /// The work, in the units of [`nodeless_scheduling::Solution::work`].
    pub work: u64,
}

/// Finds what consolidation would change if planned nodes ran.
///
/// The policies and budgets of NodePools do not apply, because no pod has started: nothing is disrupted. For the same reason, it
/// is not predicted where the kube-scheduler binds the pods of commands, and a replacement need not be cheaper for every choice of
/// EC2. `prepared` has the NodePools of the cluster, for the pods of the planned nodes. Of the options,
/// [`Options::scheduling`], [`Options::spot_to_spot`], [`Options::min_saving`] and [`Options::max_work`] apply.
#[must_use]
pub fn consolidate_planned(
    planned: &PlannedNodes<'_, '_>,
    options: &Options,
    prepared: &mut Prepared<'_>,
) -> PlannedConsolidation {
    let mut budgets = Budgets::even(planned.cluster, planned.max_removed);
    let mut round = Round::planned(planned.cluster, &eligible(planned), planned.existing, options, prepared);
    round.node_prices.charge(planned.launches.iter());
    super::run(&mut round, &mut budgets);
    let work = round.work();
    let mut found = Found::default();
    round.finish(&mut found);
    PlannedConsolidation { commands: found.commands, work }
}

fn eligible<'c, 'a>(planned: &PlannedNodes<'c, 'a>) -> Vec<Eligible<'c, 'a>> {
    let offers: HashMap<&str, &'c PoolOffer<'a>> =
        planned.cluster.node_pools.iter().map(|offer| (offer.pool.name.as_str(), offer)).collect();
    let one = |of: &&'c ClusterNode<'a>| {
        let (node, claim) = (of.node?, of.claim?);
        let offer = offers.get(claim.node_pool.as_deref()?).copied()?;
        let price = claim.status.instance.as_ref().map_or(0.0, |instance| instance.price);
        (price > 0.0).then_some(Eligible { of, node, claim, offer, price })
    };
    planned.movable.iter().filter_map(one).collect()
}
