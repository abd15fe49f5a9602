//! The input of a decision.

use crate::output::Command;
use crate::reasons::KeptReason;
use jiff::Timestamp;
use nodeless_commitments::{Commitments, Instance};
use nodeless_model::{
    ClusterOptions, DaemonSet, Node, NodeClaim, NodePool, Phase, Pod, PodDisruptionBudget, Requirements, Taint, labels,
};
use nodeless_scheduling::{ClusterFacts, ExistingNode, ExistingNodes, PoolOffer};
use std::collections::{BTreeMap, BTreeSet};

/// The cluster as a decision sees it. The same cluster, time and options always result in the same decision.
#[derive(Clone, Debug, Default)]
pub struct Cluster<'a> {
    /// All nodes and claims: managed nodes, unmanaged nodes, and claims without a node. In any order.
    pub nodes: Vec<ClusterNode<'a>>,
    /// All NodePools, ready or not, with their instance types.
    pub node_pools: Vec<PoolOffer<'a>>,
    /// The state that nodes are compared with for drift, by the name of the EC2NodeClass. Nodes of a missing
    /// EC2NodeClass are not compared with it.
    pub node_classes: BTreeMap<String, NodeClassFacts>,
    /// Pending pods, whether or not the kube-scheduler has evaluated them. Nodes that they fit on stay.
    pub pending_pods: Vec<&'a Pod>,
    /// Pods that are bound to nodes which are gone. Kubernetes deletes them within a minute, and their owners make them again.
    pub orphans: Vec<&'a Pod>,
    /// The virtual pods of CapacityBuffers and ProvisioningRequests. Nodes reserve capacity for them as for running pods; they are
    /// never evicted.
    pub virtual_pods: Vec<&'a Pod>,
    /// All PodDisruptionBudgets.
    pub disruption_budgets: &'a [PodDisruptionBudget],
    /// All DaemonSets.
    pub daemon_sets: &'a [DaemonSet],
    /// Volumes and namespaces, as for [`nodeless_scheduling::Problem::facts`].
    pub facts: ClusterFacts<'a>,
    /// The commands that are proposed or in progress, which [`ClusterNode::command`] names: the nodes to which they
    /// move pods reserve capacity for these, and pods for which they launch nodes need no other capacity. Without them
    /// the placements are computed again.
    pub under_way: Vec<&'a Command>,
    /// Names of nodes that the last decision did not evaluate ([`crate::Decision::not_evaluated`]): they are evaluated
    /// first.
    pub not_evaluated: BTreeSet<String>,
    /// The options of the whole cluster.
    pub options: ClusterOptions,
    /// The zones with a zonal shift, by name, and until when: their nodes stay, and no pods are moved there.
    pub shifted_zones: BTreeMap<String, Timestamp>,
    /// NodePools whose voluntary disruption is stopped because it evicted many pods and did not lower the price, with the reason:
    /// see [`crate::churn`]. Nodes without pods to reschedule are disrupted all the same.
    pub stopped: BTreeMap<String, String>,
    /// The NodePools from which no command launches a node, by name, and until when: the replacements of an earlier command did not
    /// become ready. See [`crate::churn::unready`].
    pub unready: BTreeMap<String, Timestamp>,
    /// The account's commitments, if decisions are made with them. Consolidation then saves what is no longer paid.
    pub commitments: Option<&'a Commitments>,
    /// NodePools whose condition `NodeRegistrationHealthy` is false, with its message.
    pub registration_failures: BTreeMap<String, String>,
}

/// A node, its claim and its pods.
#[derive(Clone, Debug, Default)]
pub struct ClusterNode<'a> {
    /// The Node, once it has joined.
    pub node: Option<&'a Node>,
    /// The claim, if the node is managed.
    pub claim: Option<&'a NodeClaim>,
    /// The pods that are bound to it.
    pub pods: Vec<&'a Pod>,
    /// The pods that are bound to it and could not be decoded. What they need is unknown: the node stays, and takes no other pods.
    pub undecoded: Vec<UndecodedPod<'a>>,
    /// The command that already disrupts it, if any.
    pub command: Option<&'a str>,
    /// Its instance, to which commitments apply; `None` without [`Cluster::commitments`].
    pub instance: Option<Instance>,
}

/// A pod that could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndecodedPod<'a> {
    /// The name, `namespace/name`.
    pub name: &'a str,
    /// The uid; empty if unknown.
    pub uid: &'a str,
    /// Why it could not be decoded.
    pub why: &'a str,
}

/// The properties that drift detection compares nodes with, from an EC2NodeClass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeClassFacts {
    /// The hash of its static fields.
    pub hash: String,
    /// The AMIs that its nodes may use, in order of preference. Empty if unknown; then no AMI drifts.
    pub images: Vec<ClassImage>,
    /// The ids of the subnets that its nodes may be in. Empty if unknown.
    pub subnet_ids: BTreeSet<String>,
    /// The ids of all security groups of its nodes. Empty if unknown.
    pub security_group_ids: BTreeSet<String>,
    /// The ids of the capacity reservations that its nodes may use.
    pub reservation_ids: BTreeSet<String>,
    /// The digests of the cluster's certificate authorities, which user data contains. `None` if unknown; then no node drifts for them.
    pub certificate_authority: Option<String>,
}

/// An AMI of an EC2NodeClass.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassImage {
    /// The AMI's id.
    pub id: String,
    /// The nodes that it supports.
    pub requirements: Requirements,
}

/// What a NodePool launches, as a text that changes with its spec, and with the spec and the AMIs of its EC2NodeClass.
#[must_use]
pub fn template_of(pool: &NodePool, class: Option<&NodeClassFacts>) -> String {
    let mut images: Vec<&str> = class.iter().flat_map(|class| &class.images).map(|image| image.id.as_str()).collect();
    images.sort_unstable();
    let hash = class.map_or("", |class| class.hash.as_str());
    format!("{} {} {hash} {}", pool.uid, pool.generation, images.join(","))
}

/// The options of a decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The version of the hash function for NodePools and EC2NodeClasses. Claims whose hash has another version are not
    /// compared by hash.
    pub hash_version: String,
    /// The options for planning replacements.
    pub scheduling: nodeless_scheduling::Options,
    /// Whether spot nodes are replaced by cheaper spot nodes (Karpenter's gate `SpotToSpotConsolidation`, disabled by default
    /// there too).
    pub spot_to_spot: bool,
    /// Whether unhealthy nodes are repaired (Karpenter's gate `NodeRepair`, disabled by default there too).
    pub node_repair: bool,
    /// Whether repair reboots nodes with some faults of GPUs before it replaces them (Karpenter's gate `RebootForRepair`, disabled by
    /// default there too).
    pub reboot_for_repair: bool,
    /// Whether a claim with a true condition `Drifted` counts as drifted although the comparison finds no drift. For exports,
    /// which lack the state that nodes are compared with; the planner has all of it.
    pub trust_conditions: bool,
    /// Whether all reasons for keeping a node are collected, and not only the first.
    pub explain: bool,
    /// The minimum savings of a command with several nodes or several replacements, as a fraction of the price of the removed
    /// nodes. A packing is approximate; below this fraction, another packing would move pods without real savings.
    pub min_saving: f64,
    /// The work limit of a decision, beyond reading the cluster, in the units of [`nodeless_scheduling::Solution::work`]. The
    /// replacement of drifted nodes takes at most half of it, and consolidation the rest. Work is counted and not timed, so the same
    /// input always results in the same decision. Nodes that were not evaluated are reported.
    pub max_work: u64,
    /// Where consolidation assumes that the kube-scheduler binds the pods that it moves.
    pub bindings: AssumedBindings,
}

/// Where the kube-scheduler is assumed to bind pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AssumedBindings {
    /// Where it is predicted to.
    #[default]
    Predicted,
    /// Where a plan places them. For measurements of what the prediction is for.
    AsPlanned,
}

/// The default of [`Options::min_saving`].
pub const MIN_SAVING: f64 = 0.1;

impl Default for Options {
    fn default() -> Self {
        Self {
            hash_version: String::new(),
            scheduling: nodeless_scheduling::Options::default(),
            spot_to_spot: false,
            node_repair: false,
            reboot_for_repair: false,
            trust_conditions: false,
            explain: false,
            min_saving: MIN_SAVING,
            max_work: 100_000_000,
            bindings: AssumedBindings::default(),
        }
    }
}

impl Cluster<'_> {
    /// The zone of a node and when its zonal shift ends, if there is one.
    #[must_use]
    pub fn shifted<'n>(&self, node: &'n ClusterNode<'_>) -> Option<(&'n str, Timestamp)> {
        if self.shifted_zones.is_empty() {
            return None;
        }
        let zone = node.zone()?;
        Some((zone, *self.shifted_zones.get(zone)?))
    }

    /// Why a command has to wait that launches nodes, now or once its nodes are gone.
    pub(crate) fn launches_wait(&self, command: &Command) -> Option<KeptReason> {
        let now = command.replacements.iter().map(|replacement| &replacement.launch.node_pool);
        let later = command.candidates.iter().filter(|_| command.drains_first).map(|candidate| &candidate.node_pool);
        let (node_pool, until) = now.chain(later).find_map(|pool| self.unready.get_key_value(pool))?;
        Some(KeptReason::UnreadyReplacements { node_pool: node_pool.clone(), until: *until })
    }
}

impl ClusterNode<'_> {
    /// The name of the zone, if known.
    #[must_use]
    pub fn zone(&self) -> Option<&str> {
        let launched =
            self.claim.and_then(|claim| claim.status.instance.as_ref()).map(|instance| instance.zone.as_str());
        launched.or_else(|| self.node?.labels.get(labels::ZONE).map(String::as_str))
    }

    /// The node's name, or the claim's if there is no node.
    #[must_use]
    pub fn name(&self) -> &str {
        self.node.map(|node| node.name.as_str()).or_else(|| self.claim.map(|claim| claim.name.as_str())).unwrap_or("")
    }

    /// The NodePool, if it has one.
    #[must_use]
    pub fn node_pool(&self) -> Option<&str> {
        match self.claim {
            Some(claim) => claim.node_pool.as_deref(),
            None => self.node.and_then(Node::node_pool),
        }
    }

    /// Whether nodeless manages it: it has a claim, or the label of a NodePool.
    #[must_use]
    pub fn is_managed(&self) -> bool {
        self.claim.is_some() || self.node_pool().is_some()
    }

    /// The node as a target of pods; `None` if it takes none.
    pub(crate) fn existing(&self, converted: &mut ExistingNodes<'_>) -> Option<ExistingNode> {
        if !self.undecoded.is_empty() {
            return None;
        }
        converted.node(self.node, self.claim, &self.pods).ok()
    }

    /// Whether the node was initialized.
    #[must_use]
    pub fn is_initialized(&self) -> bool {
        self.node.is_some_and(Node::is_initialized)
            || (self.node.is_some() && self.claim.is_some_and(|claim| claim.phase >= Phase::Initialized))
    }

    /// Whether node repair reboots its instance.
    #[must_use]
    pub fn is_rebooting(&self) -> bool {
        self.claim.is_some_and(|claim| claim.rebooting().is_some())
    }

    /// Whether the node is terminating or was selected for disruption.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.command.is_some()
            || self.claim.is_some_and(|claim| claim.phase.is_leaving())
            || self.node.is_some_and(|node| node.deletion_timestamp.is_some() || node.has_taint(&Taint::disrupted()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::test_support;

    #[test]
    fn the_template_changes_with_the_node_pool_and_with_its_amis() {
        let image = |id: &str| ClassImage { id: id.into(), requirements: Requirements::new() };
        let class = |images: &[&str], hash: &str| NodeClassFacts {
            hash: hash.into(),
            images: images.iter().map(|id| image(id)).collect(),
            ..NodeClassFacts::default()
        };
        let mut pool = test_support::node_pool("default");
        let first = template_of(&pool, Some(&class(&["ami-1", "ami-2"], "1")));
        assert_eq!(template_of(&pool, Some(&class(&["ami-2", "ami-1"], "1"))), first);
        assert_ne!(template_of(&pool, Some(&class(&["ami-3"], "1"))), first);
        assert_ne!(template_of(&pool, Some(&class(&["ami-1", "ami-2"], "2"))), first);
        pool.generation += 1;
        assert_ne!(template_of(&pool, Some(&class(&["ami-1", "ami-2"], "1"))), first);
    }
}
