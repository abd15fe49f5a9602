//! Whether a sweep finds nothing to do with what exists.

use super::Read;
use super::usage::{charged, same_usage};
use nodeless_model::managed::may_be_managed;
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::{NodeClaim, Phase};
use std::collections::{BTreeMap, BTreeSet};

/// Whether the claims, the instances, the Nodes and the NodeClaim objects belong together one by one, and nothing launches, joins or ends.
///
/// An eventually consistent read of the claims costs half of a consistent one, and may lack the last writes. In a cluster like this it
/// lacks no claim and has none that is gone, so nothing follows from it that would not follow from a consistent read.
pub(super) fn is_idle(claims: &[NodeClaim], read: &Read, usage: &BTreeMap<String, PoolUsage>) -> bool {
    let instances: BTreeSet<&str> =
        read.instances.iter().filter(|instance| instance.is_alive()).map(|instance| instance.id.as_str()).collect();
    let nodes: BTreeSet<&str> = read.nodes.iter().filter_map(|node| node.instance_id()).collect();
    let mirrors: BTreeSet<&str> = read.mirrors.iter().map(|mirror| mirror.name.as_str()).collect();
    let managed = read.nodes.iter().filter(|node| may_be_managed(&node.labels)).count();
    let counts = [instances.len(), managed, read.mirrors.len()];
    let is_complete = |claim: &NodeClaim| {
        let id = claim.status.instance.as_ref().map(|instance| instance.id.as_str());
        claim.phase == Phase::Initialized
            && id.is_some_and(|id| instances.contains(id) && nodes.contains(id))
            && mirrors.contains(claim.name.as_str())
    };
    let is_charged =
        |(name, right): (String, PoolUsage)| same_usage(&usage.get(&name).cloned().unwrap_or_default(), &right);
    counts.iter().all(|count| *count == claims.len())
        && claims.iter().all(is_complete)
        && charged(claims, usage).into_iter().all(is_charged)
}
