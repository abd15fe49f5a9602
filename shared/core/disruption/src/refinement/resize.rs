//! Launches for other pods than the scheduler packed.

use nodeless_model::claim::Charge;
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::{CapacityType, NodePool, Quantity, Requirement, Requirements, labels, resources};
use nodeless_scheduling::{Launch, PoolOffer, Prepared, Problem, Solution};

/// Creates launches for other pods.
pub(super) struct LaunchResizer<'p, 'a, 'q> {
    pub(super) problem: &'p Problem<'a>,
    pub(super) prepared: &'p mut Prepared<'q>,
    pub(super) work_left: u64,
}

impl LaunchResizer<'_, '_, '_> {
    /// The launch with more pods: of the same NodePool, with requirements at least as narrow, and for all of them on
    /// one node. Limits are not checked. With `in_zone` it stays in the zone that was chosen for it. `None` where no
    /// such launch exists.
    pub(super) fn grown(&mut self, launch: &Launch, more: &[usize], in_zone: bool) -> Option<Launch> {
        if launch.offering.capacity_type == CapacityType::Reserved {
            return None;
        }
        let offer = self.problem.node_pools.iter().find(|offer| offer.pool.name == launch.node_pool)?;
        let mut within = narrowing(launch);
        if in_zone {
            within.add(labels::ZONE, Requirement::one_of([launch.offering.zone.as_str()]));
        }
        let usage = unlimited(offer.pool);
        let pods = launch.pods.iter().chain(more).copied().collect();
        self.together(&PoolOffer { usage, ..offer.clone() }, &within, pods)
    }

    /// Extends the launches of all NodePools with limits to as many instance types as the limits allow, each with an
    /// equal part of what is left. `None` where the limits do not allow all launches.
    pub(super) fn within_limits(&mut self, mut solution: Solution) -> Option<Solution> {
        for offer in &self.problem.node_pools {
            if offer.pool.limits.is_empty() && offer.pool.limit_dollars_per_hour.is_none() {
                continue;
            }
            let of_pool = |launch: &&mut Launch| launch.node_pool == offer.pool.name;
            let mut own: Vec<&mut Launch> = solution.launches.iter_mut().filter(of_pool).collect();
            let mut used = offer.usage.clone();
            for launch in &own {
                add(&mut used, &min_charge(offer, launch));
            }
            let count = own.len();
            for (index, launch) in own.iter_mut().enumerate() {
                // Its minimum usage, and its part of the remaining limits.
                let least = min_charge(offer, launch);
                let usage = usage_for(offer, &used, &least, count - index);
                let offer = PoolOffer { usage, ..offer.clone() };
                let widened = self.together(&offer, &narrowing(launch), launch.pods.clone())?;
                used.resources.subtract(&least.resources);
                used.dollars_per_hour -= least.dollars_per_hour;
                add(&mut used, &widened.charge);
                **launch = widened;
            }
        }
        Some(solution)
    }

    fn together(&mut self, offer: &PoolOffer<'_>, within: &Requirements, mut pods: Vec<usize>) -> Option<Launch> {
        pods.sort_unstable();
        let alone = Problem {
            pods: pods.iter().map(|pod| self.problem.pods[*pod]).collect(),
            daemon_sets: self.problem.daemon_sets,
            facts: self.problem.facts,
            ..Problem::default()
        };
        let mut work = u64::try_from(pods.len()).unwrap_or(u64::MAX).saturating_mul(WORK_PER_POD);
        let launch = self.prepared.launch_together(&alone, offer, within, &mut work);
        self.work_left = self.work_left.saturating_sub(work);
        Some(Launch { pods, ..launch? })
    }
}

/// The work to evaluate a pod of a launch, in the units of [`Solution::work`].
const WORK_PER_POD: u64 = 60;

/// A usage that never exceeds a limit.
fn unlimited(pool: &NodePool) -> PoolUsage {
    let mut usage = PoolUsage::default();
    for (name, _) in pool.limits.iter() {
        usage.resources.set(name, Quantity::from_milli(i64::MIN / 4));
    }
    usage.dollars_per_hour = pool.limit_dollars_per_hour.map_or(0.0, |_| f64::MIN / 4.0);
    usage
}

/// The minimum usage of a launch: its cheapest instance type, at the price of the most expensive offering of that type.
pub(super) fn min_charge(offer: &PoolOffer<'_>, launch: &Launch) -> Charge {
    let Some(kind) = offer.instance_types.iter().find(|kind| kind.name == launch.offering.instance_type) else {
        return launch.charge.clone();
    };
    let mut resources = kind.capacity.clone();
    resources.set(resources::name::NODES, Quantity::from_units(1));
    let prices = kind.available_offerings(&launch.requirements).map(|offering| offering.price);
    Charge { resources, dollars_per_hour: prices.fold(launch.offering.price, f64::max) }
}

fn add(usage: &mut PoolUsage, charge: &Charge) {
    usage.resources.add(&charge.resources);
    usage.dollars_per_hour += charge.dollars_per_hour;
}

/// The usage with which a launch takes at most its minimum and an equal part of the remaining limits.
fn usage_for(offer: &PoolOffer<'_>, used: &PoolUsage, least: &Charge, launches: usize) -> PoolUsage {
    let mut usage = used.clone();
    let parts = i64::try_from(launches).unwrap_or(i64::MAX).max(1);
    for (name, limit) in offer.pool.limits.iter() {
        let part = (limit - used.resources.get(name)).milli().max(0) / parts;
        usage.resources.set(name, limit - least.resources.get(name) - Quantity::from_milli(part));
    }
    if let Some(limit) = offer.pool.limit_dollars_per_hour {
        let part = (limit - used.dollars_per_hour).max(0.0) / f64::from(u32::try_from(launches).unwrap_or(u32::MAX));
        usage.dollars_per_hour = limit - least.dollars_per_hour - part;
    }
    usage
}

/// The requirements that all instance types of a launch satisfy.
fn narrowing(launch: &Launch) -> Requirements {
    let mut requirements = launch.requirements.clone();
    requirements.remove(labels::INSTANCE_TYPE);
    requirements
}
