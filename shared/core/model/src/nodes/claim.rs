//! NodeClaims: the record of each node, from the decision to launch it until it is gone.
//!
//! The record in the claims table is authoritative. The NodeClaim object in the cluster mirrors it.

mod conditions;
mod phase;
mod reboot;
mod termination;

use crate::nodes::node;
use crate::pods::surge::Surge;
use crate::{Requirement, Requirements, ResourceList, RootVolume, RootVolumeSize, StringMap, Taint, labels};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

pub use conditions::{Condition, ConditionStatus, condition, reason};
pub use phase::Phase;
pub use reboot::{Reboot, RebootCall, RebootEnd};
pub use termination::{Termination, TerminationReason};

/// The time limit for a launched instance to join as a node, and for a joined node to become ready, as in Karpenter.
pub const REGISTRATION_TIMEOUT: Duration = Duration::from_mins(15);

/// [`NodeClaimStatus::pods_seen`] without pods: the first eight bytes of the SHA-256 hash of nothing.
pub const NO_PODS: u64 = 0xe3b0_c442_98fc_1c14;

/// The capacity type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityType {
    /// From a capacity reservation.
    Reserved,
    /// Spare capacity that EC2 may interrupt with two minutes' notice.
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

    /// Parses the label's value.
    #[must_use]
    pub fn from_label(value: &str) -> Option<Self> {
        [Self::Reserved, Self::Spot, Self::OnDemand].into_iter().find(|kind| kind.as_str() == value)
    }

    /// Whether the labels of a node with this capacity type name a capacity reservation to which the node does not belong.
    #[must_use]
    pub fn contradicts(self, labels: &StringMap) -> bool {
        let reserved = labels.get(labels::CAPACITY_TYPE).is_some_and(|kind| kind == Self::Reserved.as_str());
        self != Self::Reserved && (reserved || labels::OF_A_RESERVATION.iter().any(|key| labels.contains_key(*key)))
    }

    /// Removes the labels that [contradict](Self::contradicts) this.
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

/// The record of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaim {
    /// The name: `NODEPOOL-xxxxx`, or that of the NodeClaim object that it was made of.
    pub name: String,
    /// The unique id of the record: that of the NodeClaim object if it was made of one. Client tokens are derived from it.
    pub uid: String,
    /// The NodePool; `None` for a claim that was made of a NodeClaim object without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_pool: Option<String>,
    /// The EC2NodeClass.
    pub node_class: String,
    /// When it was decided.
    pub created: Timestamp,
    /// The number of writes of the record. A write fails if another one came first. Zero before the first write.
    pub version: u64,
    /// The decision. It is immutable, except for the hash annotations when the hash version changes, for the instance types, of which
    /// an initialized claim has only the launched one, and for the price of its volumes, to which that of a larger root volume is added
    /// at the launch.
    pub spec: NodeClaimSpec,
    /// The phase.
    pub phase: Phase,
    /// The status.
    pub status: NodeClaimStatus,
}

/// The decision about a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClaimSpec {
    /// The possible labels of its node, including instance types (cheapest first in [`Self::instance_types`]), zones and capacity
    /// types.
    pub requirements: Requirements,
    /// The instance types that may be launched, cheapest first.
    pub instance_types: Vec<String>,
    /// The labels of its node.
    pub labels: StringMap,
    /// The annotations of its node.
    pub annotations: StringMap,
    /// The permanent taints of its node.
    pub taints: Vec<Taint>,
    /// The startup taints, which something in the cluster removes before the node is initialized.
    pub startup_taints: Vec<Taint>,
    /// The requests of the pods that it was created for, including DaemonSets.
    pub requests: ResourceList,
    /// The age at which it is replaced forcefully; `None` means never.
    pub expire_after: Option<Duration>,
    /// How long the drain may take before pods are deleted forcefully; `None` means without limit.
    pub termination_grace_period: Option<Duration>,
    /// The launch group.
    pub launch_group: Option<LaunchGroup>,
    /// Allowed offerings that must not be used, because their launch budgets were used up at the time of the decision.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub avoided_offerings: Vec<OfferingKey>,
    /// The charge against the limits of the NodePool.
    pub charge: Charge,
    /// Dollars a month of its volumes, by list prices: before the launch, of those of its EC2NodeClass. `None` if not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes_per_month: Option<f64>,
    /// The claims that it replaces: they begin termination once its node is initialized, and stay if it fails.
    pub replaces: Vec<String>,
    /// The pods that it was launched for, `namespace/name`: for explanations and nominations, and so that the next plan assigns
    /// those that are still pending to it instead of packing them again.
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
    /// The capacity type.
    pub capacity_type: CapacityType,
}

impl fmt::Display for OfferingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} in {}", self.instance_type, self.capacity_type, self.zone)
    }
}

/// The maximum number of launches of an offering that are in progress at once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchBudget {
    /// The offering.
    pub offering: OfferingKey,
    /// The number.
    pub size: u32,
    /// The expiry.
    pub until: Timestamp,
}

/// Claims of one plan with identical specs, launched by one CreateFleet call. The id is its client token. The owner of each
/// instance is recorded on the group before any member takes one, so that every member finds the same instance however often the
/// call or the search is repeated.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchGroup {
    /// The client token of the first launch; at most 60 ASCII characters, so that later ones can have a number appended.
    pub id: String,
    /// The index of this claim in the group, from 0.
    pub index: u32,
    /// The number of claims in the group.
    pub size: u32,
    /// Whether EC2 has to launch instances for all of them or for none, because all are for one ProvisioningRequest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_or_none: bool,
}

/// The charge of a claim against the limits of its NodePool: the maximum of its offerings, until it is launched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Charge {
    /// Resources, with `nodes: 1`.
    pub resources: ResourceList,
    /// Dollars per hour.
    pub dollars_per_hour: f64,
}

/// The status of a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClaimStatus {
    /// The instance, once launched.
    pub instance: Option<LaunchedInstance>,
    /// Whether the instance may have been requested from EC2: written before the request. Until the answer is known, the instance
    /// may exist.
    pub launch_asked: bool,
    /// Whether EC2 answered that this claim has no instance. The answer is final.
    pub launch_denied: bool,
    /// Since when it is known that EC2 may have launched its group although its answer was lost or does not mention this claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_lost: Option<Timestamp>,
    /// The number of failed launch attempts.
    pub launch_attempts: u32,
    /// The number of those launches that EC2 accepted without starting anything. An accepted client token always returns the same
    /// answer, so the next attempt needs another one: see [`NodeClaim::client_token`].
    pub launches_spent: u32,
    /// The number of launches that EC2 rejected for a permanent reason: a missing permission, an invalid parameter.
    pub launch_refusals: u32,
    /// The labels of its instance type and offering, known after the launch.
    pub labels: StringMap,
    /// Whether EC2 chose the partition of the placement group, and has not reported it yet. The node does not register before that.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub awaits_partition: bool,
    /// The capacity of its node.
    pub capacity: ResourceList,
    /// The allocatable resources of its node.
    pub allocatable: ResourceList,
    /// Its root volume, where the NodePool determined its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_volume: Option<RootVolume>,
    /// The name of the node, once joined.
    pub node_name: Option<String>,
    /// Karpenter's conditions: Launched, Registered, Initialized, Drained and so on.
    pub conditions: Vec<Condition>,
    /// When pods last came to or left its node.
    pub last_pod_event: Option<Timestamp>,
    /// A hash of the pods on its node at the last plan, by which the next plan detects a change: [`NO_PODS`] without any.
    pub pods_seen: Option<u64>,
    /// Why and since when it is terminating.
    pub termination: Option<Termination>,
    /// The disruption command of this claim. No other command may take it, and its node keeps the taint `karpenter.sh/disrupted`
    /// until the command ends.
    pub command: Option<String>,
    /// When TerminateInstances was last called.
    pub terminate_requested: Option<Timestamp>,
    /// When the drain began.
    pub drain_started: Option<Timestamp>,
    /// When an interruption of the instance was announced, if that was during the drain: it no longer waits for successors of
    /// pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<Timestamp>,
    /// When its instance ends, as EC2 announced, whatever the drain waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends: Option<Timestamp>,
    /// The pods of its node for which a successor is created during the drain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub surges: Vec<Surge>,
    /// The reboots by node repair that count, in their order; the last one may be in progress.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reboots: Vec<Reboot>,
}

impl NodeClaimStatus {
    /// Notes when the instance ends. Returns whether that is earlier than it was known to end.
    pub fn end_by(&mut self, at: Timestamp) -> bool {
        let is_earlier = self.ends.is_none_or(|known| at < known);
        if is_earlier {
            self.ends = Some(at);
        }
        is_earlier
    }

    /// The surge for a pod.
    #[must_use]
    pub fn surge_for(&self, pod_uid: &str) -> Option<&Surge> {
        self.surges.iter().find(|surge| surge.pod_uid == pod_uid)
    }

    /// Whether a pod's successor is created during the drain, so that the pod itself needs no capacity elsewhere.
    #[must_use]
    pub fn replaces_pod(&self, pod_uid: &str) -> bool {
        self.surge_for(pod_uid).is_some_and(Surge::replaces_pod)
    }
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
    /// The capacity type.
    pub capacity_type: CapacityType,
    /// Dollars per hour at launch; zero if unknown.
    pub price: f64,
    /// The AMI.
    pub image_id: String,
    /// The private DNS name, which will probably be the name of the node.
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
    /// The certificate authority that its user data trusts, by the tag [`labels::CERTIFICATE_AUTHORITY`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority: Option<String>,
}

impl LaunchedInstance {
    /// The provider id of its node.
    #[must_use]
    pub fn provider_id(&self) -> String {
        node::provider_id(&self.zone, &self.id)
    }
}

impl NodeClaim {
    /// Whether it is a claim of this NodePool.
    #[must_use]
    pub fn is_of(&self, node_pool: &str) -> bool {
        self.node_pool.as_deref() == Some(node_pool)
    }

    /// Whether it was made of a NodeClaim object without a NodePool, and ends with that object.
    #[must_use]
    pub const fn is_standalone(&self) -> bool {
        self.node_pool.is_none()
    }

    /// Whether it is kept for later: no pod may be planned or scheduled to its node.
    #[must_use]
    pub const fn is_warm(&self) -> bool {
        use Phase::{Preparing, Stopped, Stopping, WarmLaunched, WarmReserved};
        matches!(self.phase, WarmReserved | WarmLaunched | Preparing | Stopping | Stopped)
    }

    /// Whether its instance is stopped, so that EC2 bills nothing for it except its volumes.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.phase == Phase::Stopped || (self.phase.is_leaving() && self.shows_stopped())
    }

    /// Whether its conditions are those of a stopped instance. The NodeClaim object shows the phase by nothing else.
    #[must_use]
    pub fn shows_stopped(&self) -> bool {
        self.has_condition(condition::LAUNCHED)
            && self.condition(condition::REGISTERED).is_some_and(|registered| registered.reason == reason::STOPPED)
    }

    /// The provider id of its node, once launched.
    #[must_use]
    pub fn provider_id(&self) -> Option<String> {
        self.status.instance.as_ref().map(LaunchedInstance::provider_id)
    }

    /// The client token of its launch: the id of its launch group, with a number from the second launch on. All members of a
    /// group use the same tokens, because each increments the number only after the same answer.
    #[must_use]
    pub fn client_token(&self) -> Option<String> {
        let id = &self.spec.launch_group.as_ref()?.id;
        Some(match self.status.launches_spent {
            0 => id.clone(),
            spent => format!("{id}-{spent}"),
        })
    }

    /// The condition with a type.
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

    /// Removes a condition.
    pub fn clear_condition(&mut self, kind: &str) {
        self.status.conditions.retain(|condition| condition.kind != kind);
    }

    /// The size of its root volume, if its NodePool asked for one when it was planned.
    #[must_use]
    pub fn root_volume_size(&self) -> Option<RootVolumeSize> {
        self.node_pool.as_ref()?;
        self.spec.annotations.get(labels::ROOT_VOLUME)?.parse().ok()
    }

    /// What its root volume costs beyond that of its EC2NodeClass, in dollars per hour.
    #[must_use]
    pub fn root_volume_price(&self) -> f64 {
        self.status.root_volume.map_or(0.0, |volume| volume.dollars_per_hour)
    }

    /// The tenancy of its instance: shared hardware if the claim allows it.
    #[must_use]
    pub fn tenancy(&self) -> &'static str {
        let dedicated = |asked: &Requirement| !asked.has("default") && asked.has("dedicated");
        if self.spec.requirements.get(labels::INSTANCE_TENANCY).is_some_and(dedicated) {
            "dedicated"
        } else {
            "default"
        }
    }

    /// The labels of its node: those of the spec override those of the launch, and both override single-valued requirements. It
    /// has no label of a capacity reservation if the instance is in none.
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
    use super::*;

    #[test]
    fn a_condition_keeps_its_time_until_its_status_changes() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let mut claim = NodeClaim {
            name: "default-abcde".into(),
            uid: "u".into(),
            node_pool: Some("default".into()),
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
