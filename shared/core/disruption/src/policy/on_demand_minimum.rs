//! The part of a NodePool's capacity that is not spot, at least: the annotation [`MIN_ON_DEMAND`].
//!
//! Launches are limited to on-demand offerings as far as the minimum needs them, and voluntary disruption does not go below it.
//! Nothing is launched or removed only to reach it.

use crate::cluster::Cluster;
use crate::output::Command;
use crate::reasons::KeptReason;
use crate::simulation::launch_types::{allows, on_demand};
use nodeless_model::events::below_min_on_demand;
use nodeless_model::hashed::HashMap;
use nodeless_model::labels::MIN_ON_DEMAND;
use nodeless_model::object::ObjectEvent;
use nodeless_model::plural::counted;
use nodeless_model::{CapacityType, InstanceType, NodeClaim, OnDemandMinimum, labels, resources};
use nodeless_scheduling::{Launch, PoolOffer};
use std::collections::{BTreeMap, BTreeSet};

/// The contribution of a node to its NodePool's capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    /// Thousandths of CPUs.
    cpu: i64,
    on_demand: bool,
}

/// The nodes of a NodePool: in number and in thousandths of CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Capacity {
    nodes: i64,
    on_demand_nodes: i64,
    cpu: i64,
    on_demand_cpu: i64,
}

impl Capacity {
    fn add(&mut self, share: Share) {
        self.change(share, 1);
    }

    fn remove(&mut self, share: Share) {
        self.change(share, -1);
    }

    fn change(&mut self, share: Share, sign: i64) {
        let cpu = share.cpu.saturating_mul(sign);
        self.nodes += sign;
        self.cpu = self.cpu.saturating_add(cpu);
        if share.on_demand {
            self.on_demand_nodes += sign;
            self.on_demand_cpu = self.on_demand_cpu.saturating_add(cpu);
        }
    }

    /// The amount below the minimum: nodes, or thousandths of CPUs times 100. Zero if the minimum is met.
    fn missing(&self, minimum: OnDemandMinimum) -> i64 {
        let missing = match minimum {
            OnDemandMinimum::Nodes(nodes) => i64::from(nodes).min(self.nodes) - self.on_demand_nodes,
            OnDemandMinimum::Percent(percent) => {
                let required = self.cpu.saturating_mul(i64::from(percent));
                required.saturating_sub(self.on_demand_cpu.saturating_mul(100))
            }
        };
        missing.max(0)
    }
}

/// A NodePool with a minimum.
#[derive(Clone, Debug)]
struct Pool {
    minimum: OnDemandMinimum,
    capacity: Capacity,
    /// By claim.
    nodes: HashMap<String, Share>,
}

/// The NodePools with a minimum, and their nodes: those that exist, launch, or replace the nodes of commands in progress.
/// Nodes that terminate, or that a command removes, do not count.
#[derive(Clone, Debug, Default)]
pub struct OnDemandMinimums(BTreeMap<String, Pool>);

impl OnDemandMinimums {
    /// From all claims, and the commands in progress.
    pub fn new<'i>(
        offers: &[PoolOffer<'_>],
        claims: impl IntoIterator<Item = &'i NodeClaim>,
        under_way: &[&Command],
    ) -> Self {
        let with_minimum = offers.iter().filter_map(|offer| {
            let minimum = *offer.pool.min_on_demand().valid()?;
            Some((offer, Pool { minimum, capacity: Capacity::default(), nodes: HashMap::default() }))
        });
        let mut with_minimum: Vec<(&PoolOffer<'_>, Pool)> = with_minimum.collect();
        if with_minimum.is_empty() {
            return Self::default();
        }
        let candidates = under_way.iter().flat_map(|command| &command.candidates);
        let going: BTreeSet<&str> = candidates.map(|candidate| candidate.node_claim.as_str()).collect();
        let mut replaced: BTreeSet<&str> = BTreeSet::new();
        for claim in claims {
            replaced.extend(claim.spec.replaces.iter().map(String::as_str));
            let place = with_minimum.iter_mut().find(|(offer, _)| claim.is_of(&offer.pool.name));
            let Some((offer, pool)) = place else { continue };
            // A warm node runs no pods.
            if !claim.phase.is_leaving() && !claim.is_warm() && !going.contains(claim.name.as_str()) {
                let share = of_claim(claim, offer);
                pool.capacity.add(share);
                pool.nodes.insert(claim.name.clone(), share);
            }
        }
        let is_launched = |command: &Command| {
            command.candidates.iter().any(|candidate| replaced.contains(candidate.node_claim.as_str()))
        };
        let planned =
            under_way.iter().filter(|command| !is_launched(command)).flat_map(|command| &command.replacements);
        for replacement in planned {
            let launch = &replacement.launch;
            if let Some((offer, pool)) = with_minimum.iter_mut().find(|(offer, _)| offer.pool.name == launch.node_pool)
            {
                pool.capacity.add(of_launch(launch, offer));
            }
        }
        Self(with_minimum.into_iter().map(|(offer, pool)| (offer.pool.name.clone(), pool)).collect())
    }

    /// From the cluster of a decision.
    pub(crate) fn of_cluster(cluster: &Cluster<'_>) -> Self {
        Self::new(&cluster.node_pools, cluster.nodes.iter().filter_map(|node| node.claim), &cluster.under_way)
    }

    /// Limits launches to on-demand as far as their NodePools' minimums need it, the ones for which that costs least first;
    /// returns how many were limited. Launches that allow no on-demand, or for which none is available, stay as they are.
    pub fn limit(&self, launches: &mut [Launch], offers: &[PoolOffer<'_>]) -> usize {
        self.limit_after(&[], launches, offers, false)
    }

    /// [`Self::limit`] for the replacements of nodes: no more may be missing than before.
    pub(crate) fn limit_replacements(&self, leaving: &[&str], launches: &mut [Launch], offers: &[PoolOffer<'_>]) {
        self.limit_after(leaving, launches, offers, true);
    }

    fn limit_after(
        &self,
        leaving: &[&str],
        launches: &mut [Launch],
        offers: &[PoolOffer<'_>],
        may_miss: bool,
    ) -> usize {
        let mut limited = 0;
        for (name, pool) in &self.0 {
            let Some(offer) = offers.iter().find(|offer| offer.pool.name == *name) else { continue };
            let allowed = if may_miss { pool.capacity.missing(pool.minimum) } else { 0 };
            let mut after = pool.without(leaving);
            launches.iter().filter(|launch| launch.node_pool == *name).for_each(|one| after.add(of_launch(one, offer)));
            if after.missing(pool.minimum) > allowed {
                limited += pool.limit(name, after, allowed, launches, offer);
            }
        }
        limited
    }

    /// Whether these launches may replace nodes: no more may be missing than before.
    pub(crate) fn check<'l>(
        &self,
        leaving: &[&str],
        launches: impl Iterator<Item = &'l Launch>,
        offers: &[PoolOffer<'_>],
    ) -> Result<(), KeptReason> {
        let launches: Vec<&Launch> = launches.collect();
        for (name, pool) in &self.0 {
            let after = pool.after(name, leaving, launches.iter().copied(), offers);
            if after.missing(pool.minimum) > pool.capacity.missing(pool.minimum) {
                let minimum = pool.minimum.to_string();
                return Err(KeptReason::OnDemandMinimum { node_pool: name.clone(), minimum, instead: None });
            }
        }
        Ok(())
    }

    /// Counts nodes that a command removes, and those that it launches.
    pub(crate) fn apply<'l>(
        &mut self,
        leaving: &[&str],
        launches: impl Iterator<Item = &'l Launch>,
        offers: &[PoolOffer<'_>],
    ) {
        let launches: Vec<&Launch> = launches.collect();
        for (name, pool) in &mut self.0 {
            pool.capacity = pool.after(name, leaving, launches.iter().copied(), offers);
            pool.nodes.retain(|claim, _| !leaving.contains(&claim.as_str()));
        }
    }

    /// Whether the minimum counts a claim's node.
    pub(crate) fn counts(&self, claim: &NodeClaim) -> bool {
        let share =
            claim.node_pool.as_ref().and_then(|name| self.0.get(name)).and_then(|pool| pool.nodes.get(&claim.name));
        share.is_some_and(|share| share.on_demand)
    }

    /// Events on NodePools with less than their minimum.
    pub(crate) fn events(&self, offers: &[PoolOffer<'_>]) -> Vec<ObjectEvent> {
        let below = |offer: &&PoolOffer<'_>| {
            self.0.get(&offer.pool.name).is_some_and(|pool| pool.capacity.missing(pool.minimum) > 0)
        };
        let event =
            |offer: &PoolOffer<'_>| Some(below_min_on_demand(offer.pool, &self.0.get(&offer.pool.name)?.below()));
        offers.iter().filter(below).filter_map(event).collect()
    }
}

impl Pool {
    /// The capacity without these claims.
    fn without(&self, leaving: &[&str]) -> Capacity {
        let mut after = self.capacity;
        leaving.iter().filter_map(|claim| self.nodes.get(*claim)).for_each(|share| after.remove(*share));
        after
    }

    fn after<'l>(
        &self,
        name: &str,
        leaving: &[&str],
        launches: impl Iterator<Item = &'l Launch>,
        offers: &[PoolOffer<'_>],
    ) -> Capacity {
        let mut after = self.without(leaving);
        if let Some(offer) = offers.iter().find(|offer| offer.pool.name == name) {
            launches.filter(|launch| launch.node_pool == name).for_each(|launch| after.add(of_launch(launch, offer)));
        }
        after
    }

    /// Limits launches until no more than `allowed` is missing, and returns how many.
    fn limit(
        &self,
        name: &str,
        mut after: Capacity,
        allowed: i64,
        launches: &mut [Launch],
        offer: &PoolOffer<'_>,
    ) -> usize {
        let spot = |launch: &Launch| launch.node_pool == name && allows(launch, CapacityType::Spot);
        let limited = launches.iter().enumerate().filter(|(_, launch)| spot(launch)).filter_map(|(place, launch)| {
            let limited = on_demand(launch, offer)?;
            let (now, then) = (of_launch(launch, offer), of_launch(&limited, offer));
            Some(Limited { place, added: limited.offering.price - launch.offering.price, launch: limited, now, then })
        });
        let mut limited: Vec<Limited> = limited.collect();
        let rank = |one: &Limited| one.added / self.weight(one.then);
        limited.sort_by(|a, b| rank(a).total_cmp(&rank(b)).then(a.place.cmp(&b.place)));
        let mut chosen: Vec<Limited> = Vec::new();
        for one in limited {
            if after.missing(self.minimum) <= allowed {
                break;
            }
            one.change(&mut after);
            chosen.push(one);
        }
        // A later one may make an earlier one unnecessary: the most expensive one first.
        chosen.sort_by(|a, b| b.added.total_cmp(&a.added).then(a.place.cmp(&b.place)));
        chosen.retain(|one| {
            let mut without = after;
            one.undo(&mut without);
            let unnecessary = without.missing(self.minimum) <= allowed;
            if unnecessary {
                after = without;
            }
            !unnecessary
        });
        let count = chosen.len();
        chosen.into_iter().for_each(|one| launches[one.place] = one.launch);
        count
    }

    /// The contribution of an on-demand node to the minimum.
    fn weight(&self, share: Share) -> f64 {
        match self.minimum {
            OnDemandMinimum::Nodes(_) => 1.0,
            #[expect(clippy::cast_precision_loss, reason = "only compared")]
            OnDemandMinimum::Percent(_) => share.cpu.max(1) as f64,
        }
    }

    /// The actual on-demand capacity, for an Event.
    fn below(&self) -> String {
        let Capacity { nodes, on_demand_nodes, cpu, on_demand_cpu } = self.capacity;
        let actual = match self.minimum {
            OnDemandMinimum::Nodes(_) => {
                let are = if nodes == 1 { "is" } else { "are" };
                format!("{on_demand_nodes} of {} {are} on demand", counted(nodes, "node"))
            }
            OnDemandMinimum::Percent(_) => {
                format!("{} of {} CPUs are on demand", on_demand_cpu / 1000, cpu / 1000)
            }
        };
        format!(
            "{actual}, and annotation {MIN_ON_DEMAND} requires {}: the next nodes are launched on demand where EC2 has capacity",
            self.minimum
        )
    }
}

/// A launch limited to on-demand.
struct Limited {
    place: usize,
    launch: Launch,
    now: Share,
    then: Share,
    /// Dollars per hour.
    added: f64,
}

impl Limited {
    fn change(&self, capacity: &mut Capacity) {
        capacity.remove(self.now);
        capacity.add(self.then);
    }

    fn undo(&self, capacity: &mut Capacity) {
        capacity.remove(self.then);
        capacity.add(self.now);
    }
}

/// A claim that is not launched yet counts as what it may become in the worst case.
fn of_claim(claim: &NodeClaim, offer: &PoolOffer<'_>) -> Share {
    let charged = claim.spec.charge.resources.get(resources::name::CPU).milli();
    let Some(instance) = &claim.status.instance else {
        let may_be_spot = claim
            .spec
            .requirements
            .get(labels::CAPACITY_TYPE)
            .is_none_or(|requirement| requirement.has(CapacityType::Spot.as_str()));
        let cpu = if may_be_spot { charged } else { least_cpu(&claim.spec.instance_types, offer).unwrap_or(charged) };
        return Share { cpu, on_demand: !may_be_spot };
    };
    let reported = claim.status.capacity.get(resources::name::CPU).milli();
    let known = offer.instance_types.iter().find(|kind| kind.name == instance.instance_type).map(cpu_of);
    let cpu = known.unwrap_or(if reported > 0 { reported } else { charged });
    Share { cpu, on_demand: instance.capacity_type != CapacityType::Spot }
}

/// The worst case: the smallest type that may be launched on-demand, or the largest one of spot.
fn of_launch(launch: &Launch, offer: &PoolOffer<'_>) -> Share {
    let charged = launch.charge.resources.get(resources::name::CPU).milli();
    if allows(launch, CapacityType::Spot) {
        return Share { cpu: charged, on_demand: false };
    }
    let names: Vec<String> = launch.instance_types.iter().map(|kind| kind.name.clone()).collect();
    Share { cpu: least_cpu(&names, offer).unwrap_or(charged), on_demand: true }
}

fn least_cpu(names: &[String], offer: &PoolOffer<'_>) -> Option<i64> {
    offer.instance_types.iter().filter(|kind| names.contains(&kind.name)).map(cpu_of).min()
}

fn cpu_of(kind: &InstanceType) -> i64 {
    kind.capacity.get(resources::name::CPU).milli()
}
