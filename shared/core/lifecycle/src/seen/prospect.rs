//! Whether a node and the pods on it stay.

use nodeless_model::{Node, NodeClaim, Taint};

/// Whether a node is expected to stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prospect {
    /// The node stays.
    Stays,
    /// The node is drained, or selected for that, and no pod is scheduled to it any more.
    Leaves,
    /// The node is drained, or selected for that, and lacks the taint: pods may still be scheduled to it.
    LeavesUntainted,
}

/// Whether a node is expected to stay, given its claim. A node that is cordoned or not ready counts as leaving, because its pods will
/// not serve for long.
///
/// # Errors
/// If this is unknown: nodeless manages the node, and its claim was not found.
pub fn prospect(node: Option<&Node>, claim: Option<&NodeClaim>) -> Result<Prospect, String> {
    let Some(node) = node else { return Ok(Prospect::Leaves) };
    if node.has_taint(&Taint::disrupted()) || node.unschedulable || !node.is_ready() {
        return Ok(Prospect::Leaves);
    }
    if node.deletion_timestamp.is_some() {
        return Ok(Prospect::LeavesUntainted);
    }
    match claim {
        Some(claim) if claim.phase.is_leaving() || claim.status.command.is_some() => Ok(Prospect::LeavesUntainted),
        None if node.node_pool().is_some() => Err(format!("the NodeClaim of node {} was not found", node.name)),
        _ => Ok(Prospect::Stays),
    }
}
