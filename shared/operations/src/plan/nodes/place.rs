//! A node and its claim, as plans combine them.

use nodeless_model::{Node, NodeClaim, Pod};
use nodeless_ports::cluster::InvalidObject;

/// A node, its claim, or both, and the pods that are bound to it.
#[derive(Default)]
pub(crate) struct Place<'a> {
    pub(crate) node: Option<&'a Node>,
    pub(crate) claim: Option<&'a NodeClaim>,
    pub(crate) pods: Vec<&'a Pod>,
    /// The pods that are bound to it and could not be decoded.
    pub(crate) undecoded: Vec<&'a InvalidObject>,
    /// Whether the node may be that of a claim that launches. The claim then counts in its place, so that no capacity counts twice.
    pub(crate) counts_as_claim: bool,
}
