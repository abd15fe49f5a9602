//! Instances without a record, or with one from before they were started: the table was restored to an earlier time or created again, or
//! another table served the cluster meanwhile.

use nodeless_model::object::MirroredClaim;
use nodeless_model::{Node, NodeClaim};
use std::collections::HashSet;

/// The number of NodeClaims with a NodePool whose instances have no record in the table, and of stopped instances that another table has
/// started. The sweep adopts or updates them. What is launched before that would be beyond the limits, or for pods that have a node.
pub fn unadopted(objects: &[MirroredClaim], nodes: &[Node], records: &[NodeClaim]) -> usize {
    let names: HashSet<&str> = records.iter().map(|claim| claim.name.as_str()).collect();
    let instances: HashSet<&str> =
        records.iter().filter_map(|claim| Some(claim.status.instance.as_ref()?.id.as_str())).collect();
    let is_unadopted = |object: &&MirroredClaim| {
        object.record_uid.is_some()
            // One without a NodePool is launched again by no plan, and stays when its instance has ended.
            && object.standalone.is_none()
            && object.deletion_timestamp.is_none()
            && object.instance_id().is_some_and(|id| !instances.contains(id))
            && !names.contains(object.name.as_str())
    };
    let nodes: HashSet<&str> = nodes.iter().filter(|node| node.is_registered()).filter_map(Node::instance_id).collect();
    let has_started = |claim: &&NodeClaim| {
        let launched = claim.status.instance.as_ref().filter(|_| claim.is_stopped());
        launched.is_some_and(|instance| nodes.contains(instance.id.as_str()))
    };
    objects.iter().filter(is_unadopted).count() + records.iter().filter(has_started).count()
}
