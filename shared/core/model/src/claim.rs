//! NodeClaims: our record of each node that we want, from the decision to the last trace of it.
//!
//! The record in the claims table leads. The NodeClaim object in the cluster mirrors it.

use crate::{Requirement, Requirements, ResourceList, StringMap, Taint, labels, node};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// How capacity is bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityType {
    /// From a capacity reservation that is paid for anyway.
    Reserved,
    /// Spare capacity that EC2 may take back with two minutes' notice.
    Spot,
    /// At the list price, without interruption.
    OnDemand,
}

impl CapacityType {
    /// The value of the label `karpenter.sh/capacity-type`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Spot => "spot",
            Self::OnDemand => "on-demand",
        }
    }

    /// Reads the label's value.
    #[must_use]
    pub fn from_label(value: &str) -> Option<Self> {
        [Self::Reserved, Self::Spot, Self::OnDemand].into_iter().find(|kind| kind.as_str() == value)
    }

    /// Whether the labels of a node with this capacity type name a capacity reservation that it is not in.
    #[must_use]
    pub fn contradicts(self, labels: &StringMap) -> bool {
        let reserved = labels.get(labels::CAPACITY_TYPE).is_some_and(|kind| kind == Self::Reserved.as_str());
        self != Self::Reserved && (reserved || labels::OF_A_RESERVATION.iter().any(|key| labels.contains_key(*key)))
    }

    /// Takes out of labels what [contradicts](Self::contradicts) this.
    pub fn correct(self, labels: &mut StringMap) {
        if self.contradicts(labels) {
            labels.retain(|key, _| !labels::OF_A_RESERVATION.contains(&key.as_str()));
            if let Some(kind) = labels.get_mut(labels::CAPACITY_TYPE).filter(|kind| *kind == Self::Reserved.as_str()) {
                self.as_str().clone_into(kind);
            }
        }
    }
}

impl fmt::Display for CapacityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a claim stands in its life. Phases only ever go forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// Recorded and charged to its NodePool's limits; no instance is known.
    Reserved,
    /// An instance was launched; its node has not joined yet.
    Launched,
    /// Its node joined and was recognised.
    Registered,
    /// Its node was ready for pods.
    Initialized,
    /// It is going away; pods are being moved off its node.
    Draining,
    /// Its node is empty or never came; the instance is being terminated.
    Terminating,
    /// Nothing of it is left in EC2 or the cluster; the record can be deleted.
    Gone,
}

impl Phase {
    /// Whether it is going away.
    #[must_use]
    pub fn is_leaving(self) -> bool {
        self >= Self::Draining
    }
}

/// A node that we want, have or are getting rid of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaim {
    /// The name, `NODEPOOL-xxxxx`.
    pub name: String,
    /// A unique id of our own. Client tokens are made from it.
    pub uid: String,
    /// The NodePool.
    pub node_pool: String,
    /// The EC2NodeClass.
    pub node_class: String,
    /// When it was decided.
    pub created: Timestamp,
    /// Counts the writes of the record; a write is refused when another came before it. Zero before the first.
    pub version: u64,
    /// What was decided. Never changes, but for the hashes among the annotations when the way of hashing does.
    pub spec: NodeClaimSpec,
    /// Where it stands.
    pub phase: Phase,
    /// What came of it so far.
    pub status: NodeClaimStatus,
}

/// What was decided about a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClaimSpec {
    /// What its node's labels may be, instance types (cheapest first in [`Self::instance_types`]), zones and capacity
    /// types included.
    pub requirements: Requirements,
    /// The instance types that may be launched, cheapest first.
    pub instance_types: Vec<String>,
    /// Labels that its node gets.
    pub labels: StringMap,
    /// Annotations that its node gets.
    pub annotations: StringMap,
    /// Taints that its node keeps.
    pub taints: Vec<Taint>,
    /// Taints that something in the cluster removes before it is initialised.
    pub startup_taints: Vec<Taint>,
    /// What the pods that it was made for need, DaemonSets included.
    pub requests: ResourceList,
    /// The age at which it is replaced by force; `None` means never.
    pub expire_after: Option<Duration>,
    /// How long its drain may take before pods are deleted by force; `None` means for ever.
    pub termination_grace_period: Option<Duration>,
    /// Which launch it belongs to.
    pub launch_group: Option<LaunchGroup>,
    /// Offerings that it would allow and that are not asked for all the same: their launch budgets were used up by others
    /// when it was decided.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub avoided_offerings: Vec<OfferingKey>,
    /// What it is charged to its NodePool's limits.
    pub charge: Charge,
    /// The claims that it takes the place of: they begin to leave once its node is initialised, and stay if it fails.
    pub replaces: Vec<String>,
    /// The pods that it was launched for, `namespace/name`: for explanations and nominations, and so that the next plan
    /// places those that are still pending there again instead of packing them again.
    pub nominated_pods: Vec<String>,
}

/// The identity of an offering: instance type, zone and capacity type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferingKey {
    /// The instance type.
    pub instance_type: String,
    /// The availability zone, by name.
    pub zone: String,
    /// How it is bought.
    pub capacity_type: CapacityType,
}

impl fmt::Display for OfferingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} in {}", self.instance_type, self.capacity_type, self.zone)
    }
}

/// How many launches of an offering may be on their way at once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchBudget {
    /// The offering.
    pub offering: OfferingKey,
    /// How many.
    pub size: u32,
    /// Until when this holds; from then on it is as if nothing had been written.
    pub until: Timestamp,
}

/// Claims of one plan with identical specs, launched by one CreateFleet call. The id is its client token. Which instance is
/// whose is written on the record of the group before any member takes one: so every member finds the same instance however
/// often, and by whomever, the call is repeated or its instances are looked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchGroup {
    /// The client token of the first launch; at most 60 ASCII characters, so that later ones can be numbered.
    pub id: String,
    /// The place of this claim in the group, from 0.
    pub index: u32,
    /// How many claims there are in the group.
    pub size: u32,
}

/// What a claim takes of its NodePool's limits: the largest of what it may launch, until it is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Charge {
    /// Resources, with `nodes: 1`.
    pub resources: ResourceList,
    /// Dollars per hour.
    pub dollars_per_hour: f64,
}

/// What came of a claim so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClaimStatus {
    /// The instance, once launched.
    pub instance: Option<LaunchedInstance>,
    /// Whether EC2 may have been asked for its instance: written before it is. As long as no answer is known there may be one.
    pub launch_asked: bool,
    /// Whether EC2 has answered that there is no instance for it, so that there will never be one.
    pub launch_denied: bool,
    /// Since when it is known that EC2 may have launched its group although its answer was lost or does not mention it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_lost: Option<Timestamp>,
    /// How many attempts to launch failed.
    pub launch_attempts: u32,
    /// How many of those launches EC2 accepted without starting anything. An accepted client token answers the same for
    /// ever, so the next try needs another one: see [`NodeClaim::client_token`].
    pub launches_spent: u32,
    /// How many times EC2 refused to launch for a reason that does not go by itself: a right that lacks, a parameter.
    pub launch_refusals: u32,
    /// Labels learned at launch: those that the instance type and offering fix.
    pub labels: StringMap,
    /// What its node has.
    pub capacity: ResourceList,
    /// What its pods may use.
    pub allocatable: ResourceList,
    /// Its node's name, once joined.
    pub node_name: Option<String>,
    /// Karpenter's conditions: Launched, Registered, Initialized, Drained and so on.
    pub conditions: Vec<Condition>,
    /// When pods last came to or left its node.
    pub last_pod_event: Option<Timestamp>,
    /// A hash of the pods on its node at the last plan, by which the next plan detects a change.
    pub pods_seen: Option<u64>,
    /// Why and since when it is going away.
    pub termination: Option<Termination>,
    /// The disruption command that has taken this claim. No other command may, and its node keeps the taint
    /// `karpenter.sh/disrupted` until the command ends.
    pub command: Option<String>,
    /// When TerminateInstances was last asked for.
    pub terminate_requested: Option<Timestamp>,
    /// When draining began.
    pub drain_started: Option<Timestamp>,
}

/// An EC2 instance as launched for a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchedInstance {
    /// The instance id.
    pub id: String,
    /// The instance type.
    pub instance_type: String,
    /// The availability zone, by name.
    pub zone: String,
    /// How it was bought.
    pub capacity_type: CapacityType,
    /// Dollars per hour when it was launched; zero when not known.
    pub price: f64,
    /// The AMI.
    pub image_id: String,
    /// The private DNS name, by which the node will most likely be called.
    pub private_dns_name: Option<String>,
    /// The capacity reservation that it runs in.
    pub reservation_id: Option<String>,
    /// The subnet, once known.
    #[serde(default)]
    pub subnet_id: Option<String>,
    /// The security groups, in the order of their ids; empty while not known.
    #[serde(default)]
    pub security_group_ids: Vec<String>,
    /// When EC2 launched it.
    pub launched: Timestamp,
}

impl LaunchedInstance {
    /// The provider id of its node.
    #[must_use]
    pub fn provider_id(&self) -> String {
        node::provider_id(&self.zone, &self.id)
    }
}

/// Why and how a claim is going away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Termination {
    /// Why.
    pub reason: TerminationReason,
    /// One sentence for people.
    pub message: String,
    /// Since when.
    pub requested: Timestamp,
    /// When draining ends by force; `None` means never.
    pub deadline: Option<Timestamp>,
}

/// Why a claim is going away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TerminationReason {
    /// EC2 had none of the offerings.
    InsufficientCapacity,
    /// The EC2NodeClass was not ready, missing or being deleted.
    NodeClassNotReady,
    /// The launch did not succeed within five minutes.
    LaunchTimeout,
    /// The node did not join within fifteen minutes.
    RegistrationTimeout,
    /// It had no pods.
    Empty,
    /// Its pods fit elsewhere for less.
    Underutilized,
    /// It no longer was what its NodePool or EC2NodeClass describes.
    Drifted,
    /// It reached its NodePool's `expireAfter`.
    Expired,
    /// EC2 takes the instance back, or is about to.
    Interrupted,
    /// The node was not healthy for too long.
    Unhealthy,
    /// A person or program deleted the NodeClaim or Node.
    Deleted,
    /// The instance is gone although nodeless did not terminate it.
    InstanceMissing,
    /// The NodePool was deleted.
    NodePoolDeleted,
    /// Its NodePool keeps a fixed number of nodes, and has more.
    ScaledDown,
    /// The schedule of its NodePool has no nodes at this time. Claims of earlier versions call it `Asleep`.
    #[serde(alias = "Asleep")]
    ScheduledOff,
}

impl TerminationReason {
    /// The name in labels, metrics and messages: lower case with underscores, as Karpenter's metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InsufficientCapacity => "insufficient_capacity",
            Self::NodeClassNotReady => "nodeclass_not_ready",
            Self::LaunchTimeout => "launch_timeout",
            Self::RegistrationTimeout => "registration_timeout",
            Self::Empty => "empty",
            Self::Underutilized => "underutilized",
            Self::Drifted => "drifted",
            Self::Expired => "expired",
            Self::Interrupted => "interrupted",
            Self::Unhealthy => "unhealthy",
            Self::Deleted => "deleted",
            Self::InstanceMissing => "garbage_collected",
            Self::NodePoolDeleted => "nodepool_deleted",
            Self::ScaledDown => "scaled_down",
            Self::ScheduledOff => "nodepool_scheduled_off",
        }
    }
}

/// A condition of a claim, as in the Kubernetes API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The type, such as `Launched`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// One word why.
    pub reason: String,
    /// One sentence why.
    pub message: String,
    /// Since when it has this status.
    pub last_transition_time: Timestamp,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is not known whether it holds.
    Unknown,
}

impl ConditionStatus {
    /// The name in the Kubernetes API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// The types of a claim's conditions, as Karpenter names them.
pub mod condition {
    /// The instance was launched.
    pub const LAUNCHED: &str = "Launched";
    /// The node joined and was recognised.
    pub const REGISTERED: &str = "Registered";
    /// The node was ready for pods.
    pub const INITIALIZED: &str = "Initialized";
    /// All of the above.
    pub const READY: &str = "Ready";
    /// The node has been quiet for as long as its NodePool's `consolidateAfter`.
    pub const CONSOLIDATABLE: &str = "Consolidatable";
    /// It no longer is what its NodePool or EC2NodeClass describes.
    pub const DRIFTED: &str = "Drifted";
    /// Its node has what its instance type promises.
    pub const CONSISTENT_STATE_FOUND: &str = "ConsistentStateFound";
    /// It was chosen for disruption, and why.
    pub const DISRUPTION_REASON: &str = "DisruptionReason";
    /// Its node has no pods left that had to move.
    pub const DRAINED: &str = "Drained";
    /// Its node's volumes are detached.
    pub const VOLUMES_DETACHED: &str = "VolumesDetached";
    /// EC2 reports an elevated risk of interruption for the spot instance. A condition of nodeless; Karpenter has none.
    pub const REBALANCE_RECOMMENDED: &str = "RebalanceRecommended";
    /// The instance is being terminated.
    pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
}

impl NodeClaim {
    /// The provider id of its node, once launched.
    #[must_use]
    pub fn provider_id(&self) -> Option<String> {
        self.status.instance.as_ref().map(LaunchedInstance::provider_id)
    }

    /// The client token of its launch: the id of its launch group, numbered from the second launch on. All members of a
    /// group come to the same tokens, because each counts on only after the same answer.
    #[must_use]
    pub fn client_token(&self) -> Option<String> {
        let id = &self.spec.launch_group.as_ref()?.id;
        Some(match self.status.launches_spent {
            0 => id.clone(),
            spent => format!("{id}-{spent}"),
        })
    }

    /// The condition of a type.
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// Whether a condition is true.
    #[must_use]
    pub fn has_condition(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|condition| condition.status == ConditionStatus::True)
    }

    /// Sets a condition. Its transition time changes only with its status.
    pub fn set_condition(&mut self, kind: &str, status: ConditionStatus, reason: &str, message: &str, now: Timestamp) {
        if let Some(present) = self.status.conditions.iter_mut().find(|condition| condition.kind == kind) {
            if present.status != status {
                present.last_transition_time = now;
            }
            present.status = status;
            reason.clone_into(&mut present.reason);
            message.clone_into(&mut present.message);
        } else {
            self.status.conditions.push(Condition {
                kind: kind.to_owned(),
                status,
                reason: reason.to_owned(),
                message: message.to_owned(),
                last_transition_time: now,
            });
        }
    }

    /// Forgets a condition.
    pub fn clear_condition(&mut self, kind: &str) {
        self.status.conditions.retain(|condition| condition.kind != kind);
    }

    /// The tenancy of its instance: shared hardware where the claim allows it.
    #[must_use]
    pub fn tenancy(&self) -> &'static str {
        let dedicated = |asked: &Requirement| !asked.has("default") && asked.has("dedicated");
        if self.spec.requirements.get(labels::INSTANCE_TENANCY).is_some_and(dedicated) {
            "dedicated"
        } else {
            "default"
        }
    }

    /// The labels that its node has or will have: those of the spec over those learned at launch, and the single-valued
    /// requirements under both. None of a capacity reservation where the instance is in none, whatever it was launched for.
    #[must_use]
    pub fn node_labels(&self) -> StringMap {
        let mut labels = self.spec.requirements.single_values();
        labels.extend(self.status.labels.clone());
        labels.extend(self.spec.labels.clone());
        if let Some(instance) = &self.status.instance {
            instance.capacity_type.correct(&mut labels);
        }
        labels
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn claims_of_earlier_versions_name_the_schedule_differently() {
        let reason: super::TerminationReason = serde_json::from_str("\"Asleep\"").unwrap();
        assert_eq!(reason, super::TerminationReason::ScheduledOff);
        assert_eq!(serde_json::to_string(&reason).unwrap(), "\"ScheduledOff\"");
    }

    use super::*;

    #[test]
    fn phases_go_forwards() {
        assert!(
            Phase::Reserved < Phase::Launched
                && Phase::Initialized < Phase::Draining
                && Phase::Terminating < Phase::Gone
        );
        assert!(Phase::Draining.is_leaving() && !Phase::Initialized.is_leaving());
    }

    #[test]
    fn a_condition_keeps_its_time_until_its_status_changes() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let mut claim = NodeClaim {
            name: "default-abcde".into(),
            uid: "u".into(),
            node_pool: "default".into(),
            node_class: "default".into(),
            created: at(0),
            version: 0,
            spec: NodeClaimSpec::default(),
            phase: Phase::Reserved,
            status: NodeClaimStatus::default(),
        };
        claim.set_condition(condition::LAUNCHED, ConditionStatus::Unknown, "AwaitingLaunch", "", at(1));
        claim.set_condition(condition::LAUNCHED, ConditionStatus::Unknown, "LaunchFailed", "no", at(2));
        assert_eq!(claim.condition(condition::LAUNCHED).unwrap().last_transition_time, at(1));
        claim.set_condition(condition::LAUNCHED, ConditionStatus::True, "Launched", "", at(3));
        assert_eq!(claim.condition(condition::LAUNCHED).unwrap().last_transition_time, at(3));
        assert!(claim.has_condition(condition::LAUNCHED));
        let json = serde_json::to_string(&claim).unwrap();
        assert_eq!(serde_json::from_str::<NodeClaim>(&json).unwrap(), claim);
    }
}
