//! What a decision is made from.

use crate::output::Command;
use jiff::Timestamp;
use nodeless_model::{
    DaemonSet, Node, NodeClaim, Phase, Pod, PodDisruptionBudget, Requirements, StringMap, Taint, labels,
};
use nodeless_scheduling::{ClusterFacts, PoolOffer};
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
    /// The virtual pods of CapacityBuffers. Nodes hold room for them as if they ran there; nobody evicts them.
    pub buffer_pods: Vec<&'a Pod>,
    /// All PodDisruptionBudgets.
    pub disruption_budgets: &'a [PodDisruptionBudget],
    /// All DaemonSets.
    pub daemon_sets: &'a [DaemonSet],
    /// Volumes and namespaces, as for [`nodeless_scheduling::Problem::facts`].
    pub facts: ClusterFacts<'a>,
    /// The commands that are proposed or on their way, those that [`ClusterNode::command`] names: where they send pods,
    /// room is kept, and pods for which they launch nodes need none elsewhere. Without them that is worked out anew.
    pub under_way: Vec<&'a Command>,
    /// Names of nodes that the last decision did not look at ([`crate::Decision::not_looked_at`]): they come first now.
    pub not_looked_at: BTreeSet<String>,
    /// The annotations of the Namespace `kube-system` that begin with `nodeless.sh/`: what is said there holds for the
    /// whole cluster.
    pub annotations: StringMap,
    /// The zones that the cluster is shifted away from, by name, and until when: their nodes stay, and no pods are sent there.
    pub shifted_zones: BTreeMap<String, Timestamp>,
    /// NodePools whose voluntary disruption has stopped because it led nowhere: see [`crate::churn`].
    pub stopped: BTreeMap<String, String>,
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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeClassFacts {
    /// The hash of its static fields.
    pub hash: String,
    /// The AMIs that its nodes may have; of those that are for a node the first is the one. Empty while they are not known:
    /// then no AMI drifts.
    pub images: Vec<ClassImage>,
    /// The ids of the subnets that its nodes may be in. Empty while they are not known.
    pub subnet_ids: BTreeSet<String>,
    /// The ids of the security groups that its nodes have, all of them. Empty while they are not known.
    pub security_group_ids: BTreeSet<String>,
    /// The ids of the capacity reservations that its nodes may use.
    pub reservation_ids: BTreeSet<String>,
}

/// An AMI of an EC2NodeClass.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassImage {
    /// The AMI's id.
    pub id: String,
    /// Which nodes it is for.
    pub requirements: Requirements,
}

/// How decisions are made.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The way of hashing by which the hashes of NodePools and EC2NodeClasses here were made. Claims whose hash was made
    /// another way are not compared by hash.
    pub hash_version: String,
    /// How replacements are planned.
    pub scheduling: nodeless_scheduling::Options,
    /// Whether spot nodes are replaced by cheaper spot nodes (Karpenter's gate `SpotToSpotConsolidation`, off there too).
    pub spot_to_spot: bool,
    /// Whether a claim whose condition `Drifted` is true counts as drifted where nothing that is known here says so. For
    /// exports, which leave out what drift is measured against; the planner knows it all.
    pub trust_conditions: bool,
    /// Whether the reasons for keeping a node tell all that is known, not only what was found first.
    pub explain: bool,
    /// What several nodes, or several replacements, must save at least, as a share of what the removed nodes cost. A
    /// plan is only as good as its packing; below this, another arrangement would move pods for the noise in it.
    pub least_saving: f64,
    /// How much work consolidation, and the replacement of drifted nodes, may be, in the units of
    /// [`nodeless_scheduling::Solution::work`]. The same input always does the same work, so nothing is cut off by time; what
    /// was not looked at is reported.
    pub most_work: u64,
}

/// [`Options::least_saving`] unless somebody says otherwise.
pub(crate) const MIN_SAVING: f64 = 0.1;

impl Default for Options {
    fn default() -> Self {
        Self {
            hash_version: String::new(),
            scheduling: nodeless_scheduling::Options::default(),
            spot_to_spot: false,
            trust_conditions: false,
            explain: false,
            least_saving: MIN_SAVING,
            most_work: 100_000_000,
        }
    }
}

impl Cluster<'_> {
    /// The zone of a node and until when it is shifted away from, if it is.
    #[must_use]
    pub fn shifted<'n>(&self, node: &'n ClusterNode<'_>) -> Option<(&'n str, Timestamp)> {
        if self.shifted_zones.is_empty() {
            return None;
        }
        let zone = node.zone()?;
        Some((zone, *self.shifted_zones.get(zone)?))
    }
}

impl ClusterNode<'_> {
    /// The zone that it is in, by name, once that is known.
    #[must_use]
    pub fn zone(&self) -> Option<&str> {
        let launched =
            self.claim.and_then(|claim| claim.status.instance.as_ref()).map(|instance| instance.zone.as_str());
        launched.or_else(|| self.node?.labels.get(labels::ZONE).map(String::as_str))
    }

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
