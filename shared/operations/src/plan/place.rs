//! A node and its claim, as plans combine them.

use nodeless_model::{Node, NodeClaim, Pod};

/// A node, its claim, or both, and the pods that are bound to it.
pub(super) struct Place<'a> {
    pub(super) node: Option<&'a Node>,
    pub(super) claim: Option<&'a NodeClaim>,
    pub(super) pods: Vec<&'a Pod>,
}
