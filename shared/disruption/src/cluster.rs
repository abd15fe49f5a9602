//! What a decision is made from.

use nodeless_model::{DaemonSet, Node, NodeClaim, Phase, Pod, PodDisruptionBudget, Taint};
use nodeless_scheduling::{PoolOffer, VolumeTopology};
use std::collections::{BTreeMap, BTreeSet};

/// Everything that a decision depends on.
#[derive(Clone, Debug, Default)]
pub struct Cluster<'a> {
    /// All nodes and claims: ours, those of others, and claims without a node. In any order.
    pub nodes: Vec<ClusterNode<'a>>,
    /// All NodePools, ready or not, with what they can launch.
    pub node_pools: Vec<PoolOffer<'a>>,
    /// What drift is measured against, by the name of the EC2NodeClass. One that is missing is not measured against.
    pub node_classes: BTreeMap<String, NodeClassFacts>,
    /// Pods that wait for a node, whether or not the kube-scheduler has looked at them. Nodes that they fit on stay.
    pub pending_pods: Vec<&'a Pod>,
    /// All PodDisruptionBudgets.
    pub disruption_budgets: &'a [PodDisruptionBudget],
    /// All DaemonSets.
    pub daemon_sets: &'a [DaemonSet],
    /// Where volumes can be used, as for [`nodeless_scheduling::Problem::volumes`].
    pub volumes: BTreeMap<String, VolumeTopology>,
}

/// A node, its claim and its pods.
#[derive(Clone, Debug, Default)]
pub struct ClusterNode<'a> {
    /// The Node, once it has joined.
    pub node: Option<&'a Node>,
    /// Its claim, if it is ours.
    pub claim: Option<&'a NodeClaim>,
    /// The pods that are bound to it.
    pub pods: Vec<&'a Pod>,
    /// The command that disrupts it already, if one does.
    pub command: Option<&'a str>,
}

/// What an EC2NodeClass says of its nodes, as far as drift looks at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeClassFacts {
    /// The hash of its static fields.
    pub hash: String,
    /// The ids of the AMIs that its nodes may have. Empty while they are not known: then no AMI drifts.
    pub image_ids: BTreeSet<String>,
}

/// How decisions are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The way of hashing by which the hashes of NodePools and EC2NodeClasses here were made. Claims whose hash was made
    /// another way are not compared by hash.
    pub hash_version: String,
    /// How replacements are planned.
    pub scheduling: nodeless_scheduling::Options,
}

impl ClusterNode<'_> {
    /// The node's name, or the claim's while there is no node.
    #[must_use]
    pub fn name(&self) -> &str {
        self.node.map(|node| node.name.as_str()).or_else(|| self.claim.map(|claim| claim.name.as_str())).unwrap_or("")
    }

    /// The NodePool, if it is ours.
    #[must_use]
    pub fn node_pool(&self) -> Option<&str> {
        self.claim.map(|claim| claim.node_pool.as_str()).or_else(|| self.node.and_then(Node::node_pool))
    }

    /// Whether it has been ready for pods.
    #[must_use]
    pub fn is_initialized(&self) -> bool {
        self.node.is_some_and(Node::is_initialized)
            || (self.node.is_some() && self.claim.is_some_and(|claim| claim.phase >= Phase::Initialized))
    }

    /// Whether it is going away or has been chosen to.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.command.is_some()
            || self.claim.is_some_and(|claim| claim.phase.is_leaving())
            || self.node.is_some_and(|node| node.deletion_timestamp.is_some() || node.has_taint(&Taint::disrupted()))
    }
}
