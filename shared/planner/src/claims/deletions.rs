//! Claims whose Node, NodeClaim object or NodePool was deleted.
//!
//! The sweep finds them within a minute. A plan that the webhook requested finds them at once, and has lifecycle terminate them.

use nodeless_model::{NodeClaim, Phase};
use nodeless_ports::cluster::ClusterView;
use std::collections::BTreeSet;

/// The names of these claims, except for those that launch or terminate, which lifecycle reconciles anyway.
pub(crate) fn deleted(claims: &[NodeClaim], view: &ClusterView) -> Vec<String> {
    let nodes = view.nodes.iter().filter(|node| node.deletion_timestamp.is_some());
    let instances: BTreeSet<&str> = nodes.filter_map(|node| node.instance_id()).collect();
    let objects = view.node_claims.iter().filter(|object| object.deletion_timestamp.is_some());
    let objects: BTreeSet<&str> = objects.map(|object| object.name.as_str()).collect();
    // A NodePool that cannot be decoded exists, and so does one of another controller.
    let invalid = view.invalid.iter().filter(|object| object.kind == "NodePool").map(|object| object.name.as_str());
    let others = view.other_node_pools.iter().map(|pool| pool.name.as_str());
    let pools: BTreeSet<&str> =
        view.node_pools.iter().map(|pool| pool.name.as_str()).chain(invalid).chain(others).collect();
    let unreadable = view.invalid.iter().any(|object| object.kind == "NodeClaim");
    let has_object = |claim: &NodeClaim| unreadable || view.node_claims.iter().any(|object| object.uid == claim.uid);
    let is_deleted = |claim: &&NodeClaim| {
        let instance = claim.status.instance.as_ref().map(|instance| instance.id.as_str());
        (Phase::Launched..Phase::Draining).contains(&claim.phase)
            && (instance.is_some_and(|id| instances.contains(id))
                || objects.contains(claim.name.as_str())
                || claim.node_pool.as_deref().is_some_and(|name| !pools.contains(name))
                || (claim.is_standalone() && !has_object(claim)))
    };
    claims.iter().filter(is_deleted).map(|claim| claim.name.clone()).collect()
}
