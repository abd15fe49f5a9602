//! The annotation `nodeless.sh/min-on-demand`, computed from the JSON of a NodePool, the claims and EC2.

use crate::Driver;
use jiff::{SignedDuration, Timestamp};
use nodeless_model::{CapacityType, NodeClaim, Phase, labels};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum time after an involuntary loss of nodes in which an earlier decision may still be carried out.
const CONVERGES_WITHIN: SignedDuration = SignedDuration::from_mins(5);

/// A NodePool, as last observed.
#[derive(Debug)]
struct Known {
    /// The claims that are not being terminated, and whether each is on demand.
    nodes: BTreeMap<String, bool>,
    missing: i64,
    /// When nodes were last lost involuntarily.
    changed: Timestamp,
}

/// The observed NodePools with a minimum.
#[derive(Debug, Default)]
pub(in crate::invariants) struct OnDemandChecks(BTreeMap<String, Known>);

impl OnDemandChecks {
    /// Voluntary disruption after which a NodePool is further below its minimum than before. If nodes were lost otherwise within
    /// the last minutes, nothing is reported: the decision may have been made before.
    pub(in crate::invariants) fn check(
        &mut self,
        driver: &Driver,
        pools: &BTreeMap<String, Value>,
        claims: &[NodeClaim],
        leaving: &[&NodeClaim],
        now: Timestamp,
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        let facts = driver.world().ec2().facts();
        let cpus =
            |kind: &str| facts.types.get(kind).map_or(0, |facts| i64::try_from(facts.vcpus()).unwrap_or(i64::MAX));
        let voluntary: BTreeSet<&str> = leaving.iter().map(|claim| claim.name.as_str()).collect();
        for (name, pool) in pools {
            let Some(text) = pool["metadata"]["annotations"]["nodeless.sh/min-on-demand"].as_str() else { continue };
            let own = || claims.iter().filter(|claim| claim.is_of(name));
            let stays: Vec<&NodeClaim> =
                own().filter(|claim| claim.phase < Phase::Draining && !claim.is_warm()).collect();
            let missing = missing(text, &stays, cpus);
            let nodes: BTreeMap<String, bool> =
                stays.iter().map(|claim| (claim.name.clone(), is_on_demand(claim))).collect();
            let Some(before) = self.0.get(name) else {
                self.0.insert(name.clone(), Known { nodes, missing, changed: Timestamp::MIN });
                continue;
            };
            let gone = before.nodes.iter().filter(|(claim, _)| !nodes.contains_key(*claim));
            let lost = gone.clone().any(|(claim, _)| !voluntary.contains(claim.as_str()));
            let other =
                nodes.iter().any(|(claim, on_demand)| before.nodes.get(claim).is_some_and(|was| was != on_demand));
            let removed: Vec<&String> = gone.map(|(claim, _)| claim).collect();
            let changed = if lost || other { now } else { before.changed };
            let converged = now.duration_since(changed) > CONVERGES_WITHIN;
            if converged && !removed.is_empty() && missing > before.missing {
                wrong.push(format!(
                    "voluntary disruption of {removed:?} leaves NodePool {name} below its minimum on demand of {text}"
                ));
            }
            self.0.insert(name.clone(), Known { nodes, missing, changed });
        }
        wrong
    }
}

/// A claim that is not launched yet is on demand if it can be nothing else.
fn is_on_demand(claim: &NodeClaim) -> bool {
    match &claim.status.instance {
        Some(instance) => instance.capacity_type != CapacityType::Spot,
        None => claim
            .spec
            .requirements
            .get(labels::CAPACITY_TYPE)
            .is_some_and(|requirement| !requirement.has(CapacityType::Spot.as_str())),
    }
}

/// How much is missing: nodes, or hundredths of vCPUs. A claim without an instance counts with the CPUs that it is charged.
fn missing(text: &str, claims: &[&NodeClaim], cpus: impl Fn(&str) -> i64) -> i64 {
    let count = |claims: usize| i64::try_from(claims).unwrap_or(i64::MAX);
    let on_demand = || claims.iter().filter(|claim| is_on_demand(claim));
    let of = |claim: &&NodeClaim| match &claim.status.instance {
        Some(instance) => cpus(&instance.instance_type),
        None => claim.spec.charge.resources.get("cpu").milli() / 1000,
    };
    let missing = match text.strip_suffix('%') {
        Some(percent) => {
            let all: i64 = claims.iter().map(of).sum();
            percent.parse::<i64>().unwrap_or(0) * all - 100 * on_demand().map(of).sum::<i64>()
        }
        None => text.parse::<i64>().unwrap_or(0).min(count(claims.len())) - count(on_demand().count()),
    };
    missing.max(0)
}
