//! A node and its claim, as plans combine them.

use jiff::Timestamp;
use nodeless_model::claim::REGISTRATION_TIMEOUT;
use nodeless_model::{Node, NodeClaim, OtherNodeClaim, Phase, Pod, labels};
use nodeless_ports::cluster::{ClusterView, InvalidObject};
use nodeless_scheduling::{ExistingNode, ExistingNodes, failed_to_initialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A node, its claim, or both, and the pods that are bound to it.
#[derive(Default)]
pub(crate) struct Place<'a> {
    pub(crate) node: Option<&'a Node>,
    pub(crate) claim: Option<&'a NodeClaim>,
    /// The capacity by the NodeClaim of another controller. Only [`Self::existing`] may use it.
    pub(crate) other: Option<&'a NodeClaim>,
    pub(crate) pods: Vec<&'a Pod>,
    /// The pods that count on it without being bound: pending ones that are about to be, and virtual ones that hold capacity.
    pub(crate) counted: Vec<&'a Pod>,
    /// The pods that are bound to it and could not be decoded.
    pub(crate) undecoded: Vec<&'a InvalidObject>,
    /// Whether the node may be that of a claim that launches. The claim then counts in its place, so that no capacity counts twice.
    pub(crate) counts_as_claim: bool,
}

impl<'a> Place<'a> {
    /// All pods that count on the node.
    pub(crate) fn all_pods(&self) -> Vec<&'a Pod> {
        [self.pods.as_slice(), &self.counted].concat()
    }

    /// The node as a target of pods, with these pods on it; `None` if it takes none. That of another controller has neither a NodeClaim
    /// nor a NodePool, so that nothing is done with them.
    pub(crate) fn existing(&self, pods: &[&Pod], converted: &mut ExistingNodes<'_>) -> Option<ExistingNode> {
        let existing = converted.node(self.node, self.claim.or(self.other), pods).ok()?;
        Some(match self.other {
            Some(_) => ExistingNode { node_claim: None, node_pool: None, ..existing },
            None => existing,
        })
    }

    /// Whether the node has joined and is no longer expected to become ready.
    pub(crate) fn failed_to_initialize(&self, now: Timestamp) -> bool {
        self.node.is_some_and(|node| failed_to_initialize(node, self.claim.or(self.other), now))
    }

    /// Whether the node is being deleted, as in Karpenter also one that nodeless does not manage.
    pub(crate) fn is_leaving(&self) -> bool {
        self.claim.is_some_and(|claim| claim.phase.is_leaving())
            || self.node.is_some_and(|node| node.deletion_timestamp.is_some())
    }

    /// Whether another controller with Karpenter's API manages the node. It launches nodes for the pods of those that it removes.
    pub(crate) fn is_of_other(&self) -> bool {
        let of_its_pool = |node: &Node| node.labels.contains_key(labels::NODE_POOL) && node.node_pool().is_none();
        self.claim.is_none() && (self.other.is_some() || self.node.is_some_and(of_its_pool))
    }
}

/// The NodeClaims of other controllers, as capacity.
pub(crate) struct Others<'a> {
    claims: Vec<(Option<&'a str>, &'a NodeClaim)>,
    by_provider_id: BTreeMap<&'a str, &'a NodeClaim>,
}

impl<'a> Others<'a> {
    pub(crate) fn new(view: &'a ClusterView) -> Self {
        let known = |other: &'a OtherNodeClaim| Some((other.provider_id.as_deref(), other.capacity.as_deref()?));
        let claims: Vec<_> = view.other_node_claims.iter().filter_map(known).collect();
        let by_provider_id = claims.iter().filter_map(|(id, claim)| Some(((*id)?, *claim))).collect();
        Self { claims, by_provider_id }
    }

    /// The capacity of a node without a claim.
    pub(crate) fn of_node(&self, node: &Node) -> Option<&'a NodeClaim> {
        self.by_provider_id.get(node.provider_id.as_deref()?).copied()
    }

    /// The nodes that others launch, and that have not joined. They count so that two controllers do not launch for the same pods.
    pub(crate) fn on_the_way(self, view: &ClusterView) -> Vec<&'a NodeClaim> {
        let joined: BTreeSet<&str> = view.nodes.iter().filter_map(|node| node.provider_id.as_deref()).collect();
        let launches = |claim: &NodeClaim| claim.phase < Phase::Registered;
        let on_the_way =
            self.claims.into_iter().filter(|(id, claim)| launches(claim) && !id.is_some_and(|id| joined.contains(id)));
        on_the_way.map(|(_, claim)| claim).collect()
    }
}

/// Whether a node that another controller launches may still join. One that nobody launches any more does not count for ever.
pub(crate) fn may_join(claim: &NodeClaim, now: Timestamp) -> bool {
    Duration::try_from(now.duration_since(claim.created)).is_ok_and(|age| age < REGISTRATION_TIMEOUT)
}
