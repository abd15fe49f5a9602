//! Launches whose pods are others than the scheduler packed.

use nodeless_model::claim::Charge;
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::{CapacityType, NodePool, Quantity, Requirement, labels, resources};
use nodeless_scheduling::{Launch, Options, PoolOffer, Problem, Solution, launch_together};

/// The launch with further pods: of the same NodePool, no wider than it was, and for all of them on one node. Limits are
/// not looked at. Where it has to `stay`, its zone is the one that was chosen for it. `None` where there is no such launch.
pub(super) fn grown(
    problem: &Problem<'_>,
    launch: &Launch,
    more: &[usize],
    stay: bool,
    options: &Options,
) -> Option<Launch> {
    if launch.offering.capacity_type == CapacityType::Reserved {
        return None;
    }
    let offer = problem.node_pools.iter().find(|offer| offer.pool.name == launch.node_pool)?;
    let mut pool = narrowed(offer.pool, launch);
    (pool.limits, pool.limit_dollars_per_hour) = (Default::default(), None);
    if stay {
        pool.template.requirements.add(labels::ZONE, Requirement::one_of([launch.offering.zone.as_str()]));
    }
    let pods = launch.pods.iter().chain(more).copied().collect();
    together(problem, PoolOffer { pool: &pool, ..offer.clone() }, pods, options)
}

/// What a launch takes of limits at the least: its cheapest instance type, at the price of that one's dearest offering.
pub(super) fn least_charge(offer: &PoolOffer<'_>, launch: &Launch) -> Charge {
    let Some(kind) = offer.instance_types.iter().find(|kind| kind.name == launch.offering.instance_type) else {
        return launch.charge.clone();
    };
    let mut resources = kind.capacity.clone();
    resources.set(resources::name::NODES, Quantity::from_units(1));
    let prices = kind.available_offerings(&launch.requirements).map(|offering| offering.price);
    Charge { resources, dollars_per_hour: prices.fold(launch.offering.price, f64::max) }
}

/// Lets the launches of all NodePools with limits be as many instance types as these have room for, each its even part of
/// what is left. `None` where they do not have room for all of them.
pub(super) fn within_limits(problem: &Problem<'_>, mut solution: Solution, options: &Options) -> Option<Solution> {
    for offer in &problem.node_pools {
        if offer.pool.limits.is_empty() && offer.pool.limit_dollars_per_hour.is_none() {
            continue;
        }
        let of_pool = |launch: &&mut Launch| launch.node_pool == offer.pool.name;
        let mut own: Vec<&mut Launch> = solution.launches.iter_mut().filter(of_pool).collect();
        let mut used = offer.usage.clone();
        for launch in &own {
            add(&mut used, &least_charge(offer, launch));
        }
        let count = own.len();
        for (index, launch) in own.iter_mut().enumerate() {
            // What it is to become, and its part of what nobody needs.
            let least = least_charge(offer, launch);
            let usage = usage_for(offer, &used, &least, count - index);
            let pool = narrowed(offer.pool, launch);
            let offer = PoolOffer { pool: &pool, instance_types: offer.instance_types.clone(), usage };
            let widened = together(problem, offer, launch.pods.clone(), options)?;
            used.resources.subtract(&least.resources);
            used.dollars_per_hour -= least.dollars_per_hour;
            add(&mut used, &widened.charge);
            **launch = widened;
        }
    }
    Some(solution)
}

fn add(usage: &mut PoolUsage, charge: &Charge) {
    usage.resources.add(&charge.resources);
    usage.dollars_per_hour += charge.dollars_per_hour;
}

/// What has to count as used, so that a launch takes no more than its least charge and an even part of what is left.
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

fn together(problem: &Problem<'_>, offer: PoolOffer<'_>, mut pods: Vec<usize>, options: &Options) -> Option<Launch> {
    pods.sort_unstable();
    let alone = Problem {
        pods: pods.iter().map(|pod| problem.pods[*pod]).collect(),
        node_pools: vec![offer],
        daemon_sets: problem.daemon_sets,
        volumes: problem.volumes.clone(),
        namespaces: problem.namespaces.clone(),
        ..Problem::default()
    };
    Some(Launch { pods, ..launch_together(&alone, options)? })
}

/// The NodePool as far as a launch may use it, whichever instance type it is.
fn narrowed(pool: &NodePool, launch: &Launch) -> NodePool {
    let mut narrowed = pool.clone();
    let own = pool.template.requirements.get(labels::INSTANCE_TYPE).cloned();
    narrowed.template.requirements.clone_from(&launch.requirements);
    narrowed.template.requirements.remove(labels::INSTANCE_TYPE);
    if let Some(own) = own {
        narrowed.template.requirements.add(labels::INSTANCE_TYPE, own);
    }
    narrowed
}
