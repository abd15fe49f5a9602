//! What launches must hold: types, reservations, limits and DaemonSets.

use crate::{accepts_labels, daemon_sets_on, launched, template_labels, usable};
use nodeless_model::{InstanceType, Pod, Requirements, ResourceList, labels};
use nodeless_scheduling::{Launch, MinValuesPolicy, Options, PoolOffer, Problem, Solution};
use std::collections::{BTreeMap, BTreeSet};

/// The capacity reservations with more possible launches than available instances.
pub(super) fn reservation_violations(problem: &Problem<'_>, solution: &Solution) -> Vec<String> {
    let mut left: BTreeMap<&str, u32> = BTreeMap::new();
    let mut used: BTreeMap<&str, u32> = BTreeMap::new();
    for offer in &problem.node_pools {
        let held =
            offer.instance_types.iter().flat_map(|kind| &kind.offerings).filter_map(|one| one.reservation.as_ref());
        left.extend(held.map(|held| (held.id.as_str(), held.remaining)));
        for launch in solution.launches.iter().filter(|launch| launch.node_pool == offer.pool.name) {
            let listed = |kind: &&InstanceType| launch.instance_types.iter().any(|listed| listed.name == kind.name);
            let offerings = offer.instance_types.iter().filter(listed).flat_map(|kind| &kind.offerings);
            let usable = offerings.filter(|offering| offering.available && offering.meets(&launch.requirements));
            let ids: BTreeSet<&str> = usable.filter_map(|one| Some(one.reservation.as_ref()?.id.as_str())).collect();
            ids.into_iter().for_each(|id| *used.entry(id).or_default() += 1);
        }
    }
    let over = used.into_iter().filter(|(id, count)| left.get(id).is_none_or(|left| count > left));
    over.map(|(id, count)| format!("{count} launches may use reservation {id}, which has fewer available instances"))
        .collect()
}

/// Which DaemonSets have no space on a new node. Of two types, the one is better that lacks space only for later ones.
pub(super) fn left_out(
    problem: &Problem<'_>,
    offer: &PoolOffer<'_>,
    kind: &InstanceType,
    node: &Requirements,
) -> Vec<bool> {
    daemon_sets_on(problem, offer, kind, node).into_iter().map(|(_, has_space)| has_space == Some(false)).collect()
}

/// The types of a launch that leave out DaemonSets which have space on another type that each of its pods could use.
fn left_out_violations(problem: &Problem<'_>, launch: &Launch, offer: &PoolOffer<'_>, pods: &[&Pod]) -> Vec<String> {
    let mut desired = launch.requirements.clone();
    desired.remove(labels::INSTANCE_TYPE);
    let without = |kind: &InstanceType| left_out(problem, offer, kind, &desired.with(&kind.requirements));
    let could_be_used = |kind: &&InstanceType| {
        let node = desired.with(&kind.requirements);
        desired.intersects(&kind.requirements)
            && kind.offerings.iter().any(|one| one.available && one.meets(&desired))
            && pods.iter().all(|pod| accepts_labels(pod, &node) && pod.template.requests.fits(&kind.allocatable()))
    };
    let Some(best) = offer.instance_types.iter().filter(could_be_used).map(without).min() else { return Vec::new() };
    let listed = |kind: &&InstanceType| launch.instance_types.iter().any(|one| one.name == kind.name);
    let listed = offer.instance_types.iter().filter(listed).filter(|kind| without(kind) > best);
    listed.map(|kind| format!("{} leaves out DaemonSets that have space on others", kind.name)).collect()
}

pub(super) fn launch_violations(problem: &Problem<'_>, launch: &Launch, options: &Options) -> Vec<String> {
    let Some(offer) = problem.node_pools.iter().find(|offer| offer.pool.name == launch.node_pool) else {
        return vec![format!("there is no NodePool {}", launch.node_pool)];
    };
    let mut wrong = Vec::new();
    if !usable(offer) {
        wrong.push(format!("NodePool {} may not launch nodes", offer.pool.name));
    }
    if launch.pods.is_empty() {
        wrong.push("it has no pods".to_owned());
    }
    if launch.instance_types.len() > options.max_instance_types
        && offer.pool.template.requirements.iter().all(|(_, r)| r.min_values().is_none())
    {
        wrong.push(format!("it lists {} instance types", launch.instance_types.len()));
    }
    if !launch.instance_types.is_sorted_by(|a, b| a.price <= b.price) {
        wrong.push("its instance types are not sorted by price".to_owned());
    }
    let pods: Vec<&Pod> = launch.pods.iter().map(|pod| problem.pods[*pod]).collect();
    let mut kinds = Vec::new();
    for listed in &launch.instance_types {
        let Some(kind) = offer.instance_types.iter().find(|kind| kind.name == listed.name) else {
            wrong.push(format!("the NodePool has no instance type {}", listed.name));
            continue;
        };
        kinds.push(kind);
        wrong.extend(type_violations(problem, offer, launch, kind, listed.price, &pods));
    }
    wrong.extend(left_out_violations(problem, launch, offer, &pods));
    if launch.instance_types.first().map(|first| (&first.name, first.price))
        != Some((&launch.offering.instance_type, launch.offering.price))
    {
        wrong.push("the chosen offering is not that of the cheapest instance type".to_owned());
    }
    if let Some(key) = short_of(offer, &kinds)
        && (options.min_values == MinValuesPolicy::Strict || !launch.min_values_relaxed)
    {
        wrong.push(format!("minValues of {key} is not satisfied"));
    }
    // A rule of the CustomResourceDefinition of NodeClaims.
    let too_few = launch.requirements.iter().filter(|(_, requirement)| {
        let values = requirement.values().map_or(usize::MAX, BTreeSet::len);
        requirement.min_values().is_some_and(|least| usize::try_from(least).is_ok_and(|least| values < least))
    });
    wrong.extend(too_few.map(|(key, _)| format!("the API server refuses a NodeClaim with so few values of {key}")));
    wrong
}

/// For every instance type of the launch, all its pods have to fit, and its charge has to be sufficient.
fn type_violations(
    problem: &Problem<'_>,
    offer: &PoolOffer<'_>,
    launch: &Launch,
    kind: &InstanceType,
    price: f64,
    pods: &[&Pod],
) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut cheapest = f64::INFINITY;
    for offering in kind.offerings.iter().filter(|offering| offering.available && offering.meets(&launch.requirements))
    {
        cheapest = cheapest.min(offering.price);
        let node = launch.requirements.with(&kind.requirements).with(&offering.node_requirements());
        if !template_labels(offer).intersects(&node) {
            wrong.push(format!("{} does not meet the NodePool's requirements", kind.name));
        }
        launched(problem, offer, kind, &node, &kind.name, |place| {
            wrong.extend(place.violations(problem, pods));
            true
        });
        if offering.price > launch.charge.dollars_per_hour + 1e-9 {
            wrong.push(format!("{} costs more than is charged", kind.name));
        }
    }
    if (cheapest - price).abs() > 1e-9 {
        wrong.push(format!("{} is listed at {price}, and its cheapest offering costs {cheapest}", kind.name));
    }
    if !kind.capacity.fits(&launch.charge.resources) {
        wrong.push(format!("{} has more than is charged", kind.name));
    }
    wrong
}

/// The first key whose `minValues` is not satisfied.
pub(super) fn short_of(offer: &PoolOffer<'_>, kinds: &[&InstanceType]) -> Option<String> {
    offer.pool.template.requirements.iter().find_map(|(key, requirement)| {
        let listed = kinds.iter().filter_map(|kind| kind.requirements.get(key)?.values()).flatten();
        let values: BTreeSet<&String> = listed.collect();
        (values.len() < requirement.min_values()? as usize).then(|| key.to_owned())
    })
}

/// The total of a NodePool's nodes with a solution: resources and dollars per hour.
pub(super) fn used_by(offer: &PoolOffer<'_>, solution: &Solution) -> (ResourceList, f64) {
    let mut used = (offer.usage.resources.clone(), offer.usage.dollars_per_hour);
    for launch in solution.launches.iter().filter(|launch| launch.node_pool == offer.pool.name) {
        used.0.add(&launch.charge.resources);
        used.1 += launch.charge.dollars_per_hour;
    }
    used
}

/// The first limit that is exceeded.
pub(super) fn passed(offer: &PoolOffer<'_>, used: &(ResourceList, f64)) -> Option<String> {
    let resource = offer.pool.limits.iter().find(|(name, limit)| used.0.get(name) > *limit);
    let dollars = offer.pool.limit_dollars_per_hour.filter(|limit| used.1 > limit + 1e-6);
    resource.map(|(name, _)| name.to_owned()).or_else(|| dollars.map(|_| "dollars per hour".to_owned()))
}

/// The first limit of the cluster that is exceeded by launches.
pub(super) fn cluster_limit_violation(problem: &Problem<'_>, solution: &Solution) -> Option<String> {
    let cluster = problem.node_pools.iter().find_map(|offer| offer.cluster.as_ref())?;
    if solution.launches.is_empty() {
        return None;
    }
    let mut used = (cluster.usage.resources.clone(), cluster.usage.dollars_per_hour);
    for launch in &solution.launches {
        used.0.add(&launch.charge.resources);
        used.1 += launch.charge.dollars_per_hour;
    }
    let resource = cluster.limits.resources.iter().find(|(name, limit)| used.0.get(name) > *limit);
    let dollars = cluster.limits.dollars_per_hour.filter(|limit| used.1 > limit + 1e-6);
    let limit = resource.map(|(name, _)| name.to_owned()).or_else(|| dollars.map(|_| "dollars per hour".to_owned()))?;
    Some(format!("limit {limit} of the cluster is exceeded"))
}

pub(super) fn limit_violations(offer: &PoolOffer<'_>, solution: &Solution) -> Option<String> {
    // A limit that was already exceeded is not an error of the plan if it launches nothing.
    if !solution.launches.iter().any(|launch| launch.node_pool == offer.pool.name) {
        return None;
    }
    passed(offer, &used_by(offer, solution))
        .map(|limit| format!("NodePool {}: limit {limit} is exceeded", offer.pool.name))
}
