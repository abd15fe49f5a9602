//! The invariants of every run, checked from outside: in the simulated cluster, in the account and in the claims table.
//!
//! No code of the operations is called here. To check a decision, for example against budgets, the oracle computes what is
//! allowed independently, from the JSON of the objects.

mod disruption;
mod effects;
mod empty_nodes;
mod launches;
mod leftovers;
mod local_volumes;
mod metadata;
mod nodes;
mod oracle;
mod other_controllers;
mod recorded_time;
mod records;

use disruption::{
    ami_canary, announced_ends, certificate_authorities, commands, disruption_budgets, drains, lifetimes,
    on_demand_minimum, surges, unready_replacements,
};
pub(crate) use effects::EffectChecks;
pub(crate) use launches::affinity_groups::divided_groups;
use launches::{node_pools, unused_launches, unused_nodes, virtual_pods};
pub(crate) use leftovers::leftovers;
pub(crate) use oracle::Oracle;
#[cfg(test)]
pub(crate) use records::ClaimObjects;
pub(crate) use records::Messages;

use jiff::Timestamp;
use serde_json::Value;

pub(crate) const ONE_INSTANCE: &str = "each claim has at most one instance";
pub(crate) const CLAIM_OBJECTS: &str = "a claim has its NodeClaim object";
pub(crate) const NOT_REPEATED: &str = "no message repeats for ever";
pub(crate) const LIMITS: &str = "the limits of NodePools hold";
pub(crate) const CLUSTER_LIMITS: &str = "the limits of the cluster hold";
pub(crate) const DISRUPTION_BUDGETS: &str = "disruption budgets hold";
pub(crate) const MAINTENANCE: &str = "nodes are disrupted voluntarily only within maintenance windows";
pub(crate) const DO_NOT_DISRUPT: &str = "do-not-disrupt is honoured";
pub(crate) const ONE_COMMAND: &str = "no node is in two commands";
pub(crate) const REPLACEMENTS_FIRST: &str = "no node drains before its replacements are ready";
pub(crate) const UNREADY_REPLACEMENTS: &str = "no command launches again what did not become ready for the one before";
pub(crate) const AMI_CANARY: &str = "a new AMI begins with one node";
pub(crate) const ON_DEMAND_MINIMUM: &str = "voluntary disruption keeps nodeless.sh/min-on-demand";
pub(crate) const NO_ORPHANS: &str = "no instance is without a claim for more than ten minutes";
pub(crate) const POD_DISRUPTION_BUDGETS: &str = "no pod is evicted against its PodDisruptionBudget";
pub(crate) const DRAIN_ORDER: &str = "pods are evicted in the order of their groups";
pub(crate) const MINIMUM_DRAIN: &str = "a drain lasts five seconds at least";
pub(crate) const VOLUMES: &str = "volumes are detached before an instance is terminated";
pub(crate) const MISSING: &str = "no running instance with a ready node is terminated as missing";
pub(crate) const STOPS: &str = "no instance is stopped while a pod runs there";
pub(crate) const DRAINS_END: &str = "a drain ends by the terminationGracePeriod";
pub(crate) const EXPIRY: &str = "a node does not outlive its expireAfter";
pub(crate) const INTERRUPTIONS: &str = "the node of a spot instance is drained when EC2 announces its interruption";
pub(crate) const ANNOUNCED_ENDS: &str = "pods of a node that ends for certain get their nodes before it ends";
pub(crate) const ACTIVE_AUTHORITY: &str =
    "no instance that is launched after the activation of a certificate authority lacks it";
pub(crate) const ONE_ROTATION: &str = "a rotation of the certificate authority replaces a node at most once";
pub(crate) const LOCAL_VOLUMES: &str = "consolidation removes no node with a local volume";
pub(crate) const AFFINITY_GROUPS: &str = "no pod of a group waits while the others run";
pub(crate) const STAYS_OPEN: &str = "a node that is open for pods is not closed until others join";
pub(crate) const METADATA: &str = "a Node has the labels, annotations and taints of its claim";
pub(crate) const UNUSABLE_NODE_POOLS: &str = "no claim is created for an unusable NodePool";
pub(crate) const DELETED_NODE_POOLS: &str = "the nodes of a deleted NodePool are terminated";
pub(crate) const EMPTY_NODES: &str = "no node without pods is kept";
pub(crate) const QUOTAS: &str = "what is launched for virtual pods stays within ResourceQuotas";
pub(crate) const NODES_ARE_USED: &str = "no node after another is launched for a pod that takes none of them";
pub(crate) const LAUNCHES_ARE_TAKEN: &str = "launches for pods that take none of the nodes become rare";
pub(crate) const SURGES: &str = "a pod that asks for its successor first is not the last that goes";
pub(crate) const OTHER_CONTROLLERS: &str = "nothing of another controller is written";
pub(crate) const EXPLAINED: &str = "each pending pod has a claim or a reason within two plans";
pub(crate) const PODS_RUN: &str = "a pod that can be placed runs";
pub(crate) const BECOMES_QUIESCENT: &str = "the cluster becomes quiescent";
pub(crate) const RECORDED_TIME: &str = "the cost records have the time of every instance";
pub(crate) const NO_LEFTOVERS: &str = "a quiescent cluster has no leftovers";

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Violation {
    /// The time.
    pub at: Timestamp,
    /// The invariant.
    pub invariant: &'static str,
    /// The violation.
    pub detail: String,
}

/// The text at a path in an object; empty if there is none.
fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A condition of an object's status.
fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object.pointer("/status/conditions").and_then(Value::as_array)?.iter().find(|it| it["type"] == kind)
}
