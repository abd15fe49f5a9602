//! What each alternative of the claims of a launch costs (`firstAvailable`). Determined only on request.

use crate::claim_needs::{Need, needs};
use crate::claims::Together;
use crate::engine::solve;
use crate::problem::solution::{Launch, Solution};
use crate::problem::{ClusterFacts, Options, Problem};
use nodeless_devices::{ClusterDevices, DeviceRequests};
use nodeless_model::Pod;
use std::collections::BTreeMap;

/// An alternative of a request of the claims of a launch.
#[derive(Clone, Debug, PartialEq)]
pub struct AlternativePrice {
    /// `request/alternative`.
    pub name: String,
    /// Whether a pod of the launch gets it.
    pub is_chosen: bool,
    /// The cheapest new nodes for the pods of the launch if there is no other alternative of the request; `None` if the NodePools launch
    /// none for all of them.
    pub nodes: Option<PricedNodes>,
}

/// New nodes, and what they cost together.
#[derive(Clone, Debug, PartialEq)]
pub struct PricedNodes {
    /// The number of nodes by instance type.
    pub instance_types: BTreeMap<String, usize>,
    /// In dollars per hour.
    pub price: f64,
}

/// The alternatives of the claims of a launch, by request in the order of the API. Empty without alternatives. The pods are planned once for
/// each of them, as if they were the only ones and limits were used only by what runs.
#[must_use]
pub fn alternative_prices(problem: &Problem<'_>, launch: &Launch, options: &Options) -> Vec<AlternativePrice> {
    let pods: Vec<&Pod> = launch.pods.iter().filter_map(|pod| problem.pods.get(*pod).copied()).collect();
    let named = alternatives(&pods, &problem.facts);
    if named.is_empty() {
        return Vec::new();
    }
    let offer = problem.node_pools.iter().find(|offer| offer.pool.name == launch.node_pool);
    let kind = offer.and_then(|offer| offer.instance_type(&launch.offering.instance_type));
    let claims = Together::new(&pods, problem.facts);
    let chosen = claims.zip(kind).and_then(|(claims, kind)| claims.on(kind).ok()).unwrap_or_default();
    let options = Options { max_explained: 0, ..*options };
    let one = |(request, alternative): (String, String)| {
        let devices = with_only(problem.facts.devices, &request, &alternative);
        let alone = Problem {
            pods: pods.clone(),
            nodes: Vec::new(),
            node_pools: problem.node_pools.clone(),
            daemon_sets: problem.daemon_sets,
            bound_pods: problem.bound_pods.clone(),
            facts: ClusterFacts { devices: &devices, ..problem.facts },
        };
        let name = format!("{request}/{alternative}");
        AlternativePrice { is_chosen: chosen.contains(&name), nodes: priced(&solve(&alone, &options)), name }
    };
    named.into_iter().map(one).collect()
}

/// The names of the alternatives of requests, each with that of the request.
fn alternatives(pods: &[&Pod], facts: &ClusterFacts<'_>) -> Vec<(String, String)> {
    let mut named = Vec::new();
    for need in pods.iter().flat_map(|pod| needs(pod, facts)) {
        let Need::Devices { devices, .. } = need else { continue };
        for request in &devices.requests {
            for alternative in &request.first_available {
                let name = (request.name.clone(), alternative.name.clone());
                if !named.contains(&name) {
                    named.push(name);
                }
            }
        }
    }
    named
}

/// The devices that new nodes have, and claims with only this alternative of a request that has it.
fn with_only(devices: &ClusterDevices, request: &str, alternative: &str) -> ClusterDevices {
    let narrow = |devices: &mut DeviceRequests| {
        let requests = devices.requests.iter_mut().filter(|one| one.name == request);
        for request in requests.filter(|one| one.first_available.iter().any(|sub| sub.name == alternative)) {
            request.first_available.retain(|sub| sub.name == alternative);
        }
    };
    let mut narrowed = ClusterDevices {
        slices: Vec::new(),
        classes: devices.classes.clone(),
        claims: devices.claims.clone(),
        templates: devices.templates.clone(),
        published_by_type: devices.published_by_type.clone(),
    };
    narrowed.templates.values_mut().for_each(narrow);
    narrowed.claims.values_mut().for_each(|claim| narrow(&mut claim.devices));
    narrowed
}

fn priced(solution: &Solution) -> Option<PricedNodes> {
    if !solution.unschedulable.is_empty() {
        return None;
    }
    let mut instance_types = BTreeMap::new();
    for launch in &solution.launches {
        *instance_types.entry(launch.offering.instance_type.clone()).or_insert(0) += 1;
    }
    Some(PricedNodes { instance_types, price: solution.price_per_hour() })
}
