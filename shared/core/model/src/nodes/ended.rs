//! Instances that have ended: what is left of a claim when its record is deleted.

use crate::nodes::claim::{CapacityType, ConditionStatus, NO_PODS, NodeClaim, TerminationReason, condition, reason};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// An instance that has ended. It is written with the deletion of its claim, so that its whole time is counted once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndedNode {
    /// The name of the claim.
    pub name: String,
    /// The uid of the claim. A NodeClaim without a NodePool that a user creates again has the name of the one before.
    pub uid: String,
    /// The NodePool, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_pool: Option<String>,
    /// The instance id.
    pub instance_id: String,
    /// The instance type.
    pub instance_type: String,
    /// The availability zone, by name.
    pub zone: String,
    /// The capacity type.
    pub capacity_type: CapacityType,
    /// Dollars per hour at launch; zero if unknown.
    pub price: f64,
    /// Dollars a month of its volumes; `None` if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes_per_month: Option<f64>,
    /// When EC2 launched it.
    pub launched: Timestamp,
    /// When its node was initialized, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialized: Option<Timestamp>,
    /// Whether it was launched for pods, and none ever ran on its node.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub took_no_pod: bool,
    /// When its termination was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaving: Option<Timestamp>,
    /// When nodeless requested its termination from EC2, or saw that it shuts down or is stopped: EC2 bills nothing from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Timestamp>,
    /// When its claim was deleted, which is after EC2 reported that it is terminated.
    pub ended: Timestamp,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<TerminationReason>,
}

impl EndedNode {
    /// The instance of a claim that is deleted now; `None` if it never had one.
    #[must_use]
    pub fn new(claim: &NodeClaim, now: Timestamp) -> Option<Self> {
        let instance = claim.status.instance.as_ref()?;
        Some(Self {
            name: claim.name.clone(),
            uid: claim.uid.clone(),
            node_pool: claim.node_pool.clone(),
            instance_id: instance.id.clone(),
            instance_type: instance.instance_type.clone(),
            zone: instance.zone.clone(),
            capacity_type: instance.capacity_type,
            price: instance.price,
            volumes_per_month: claim.spec.volumes_per_month,
            launched: instance.launched,
            initialized: claim.initialized_at(),
            took_no_pod: claim.took_no_pod(),
            leaving: claim.status.termination.as_ref().map(|termination| termination.requested),
            stopped: claim.stopped_at(),
            ended: now,
            reason: claim.status.termination.as_ref().map(|termination| termination.reason),
        })
    }
}

impl NodeClaim {
    /// Whether it was launched for pods, and none ever ran on its node although that was ready. Its removal saves nothing: without the
    /// launch, nothing would have been paid.
    #[must_use]
    pub fn took_no_pod(&self) -> bool {
        let came = self.status.last_pod_event.zip(self.true_since(condition::REGISTERED));
        !self.spec.nominated_pods.is_empty()
            && self.initialized_at().is_some()
            && self.status.pods_seen == Some(NO_PODS)
            && came.is_some_and(|(event, registered)| event <= registered)
    }

    /// When its node was initialized, if it was.
    #[must_use]
    pub fn initialized_at(&self) -> Option<Timestamp> {
        self.true_since(condition::INITIALIZED)
    }

    /// When nodeless requested the termination of its instance from EC2, or saw that it shuts down, or that it is stopped as a warm node
    /// and not started since.
    #[must_use]
    pub fn stopped_at(&self) -> Option<Timestamp> {
        let warm = self.condition(condition::REGISTERED).filter(|registered| registered.reason == reason::STOPPED);
        warm.map(|registered| registered.last_transition_time)
            .or_else(|| self.true_since(condition::INSTANCE_TERMINATING))
    }

    fn true_since(&self, kind: &str) -> Option<Timestamp> {
        let condition = self.condition(kind)?;
        (condition.status == ConditionStatus::True).then_some(condition.last_transition_time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::claim::{LaunchedInstance, NodeClaimSpec, NodeClaimStatus, Phase, Termination};
    use crate::test_support::{launched_instance, node_claim};

    #[test]
    fn a_node_took_no_pod_if_none_came_since_it_joined() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut claim = NodeClaim {
            created: at(0),
            version: 3,
            spec: NodeClaimSpec { nominated_pods: vec!["shop/web".into()], ..NodeClaimSpec::default() },
            phase: Phase::Initialized,
            status: NodeClaimStatus {
                last_pod_event: Some(at(30)),
                pods_seen: Some(NO_PODS),
                ..NodeClaimStatus::default()
            },
            ..node_claim("default-a")
        };
        claim.set_condition(condition::REGISTERED, ConditionStatus::True, "Registered", "", at(30));
        assert!(!claim.took_no_pod(), "it was not ready");
        claim.set_condition(condition::INITIALIZED, ConditionStatus::True, "Initialized", "", at(40));
        assert!(claim.took_no_pod());
        let without = |change: fn(&mut NodeClaim)| {
            let mut other = claim.clone();
            change(&mut other);
            other.took_no_pod()
        };
        assert!(!without(|claim| claim.status.last_pod_event = Timestamp::from_second(50).ok()), "a pod has left");
        assert!(!without(|claim| claim.status.pods_seen = Some(7)) && !without(|claim| claim.status.pods_seen = None));
        assert!(!without(|claim| claim.spec.nominated_pods.clear()), "it was not launched for pods");
    }

    #[test]
    fn what_is_left_of_a_claim_is_its_instance() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut claim = NodeClaim { created: at(0), version: 3, phase: Phase::Gone, ..node_claim("default-a") };
        assert_eq!(EndedNode::new(&claim, at(90)), None);
        claim.status.instance = Some(LaunchedInstance {
            instance_type: "m5.large".into(),
            capacity_type: CapacityType::Spot,
            price: 0.04,
            launched: at(10),
            ..launched_instance("i-1")
        });
        claim.set_condition(condition::INITIALIZED, ConditionStatus::True, "Initialized", "", at(40));
        let (reason, requested) = (TerminationReason::Interrupted, at(70));
        claim.status.termination = Some(Termination { reason, message: String::new(), requested, deadline: None });
        let ended = EndedNode::new(&claim, at(90)).unwrap();
        assert_eq!((ended.launched, ended.initialized, ended.leaving), (at(10), Some(at(40)), Some(at(70))));
        assert_eq!(ended.stopped, None);
        claim.set_condition(condition::INSTANCE_TERMINATING, ConditionStatus::True, "InstanceTerminating", "", at(80));
        assert_eq!(EndedNode::new(&claim, at(90)).unwrap().stopped, Some(at(80)));
        assert_eq!((ended.ended, ended.reason, ended.instance_type.as_str()), (at(90), Some(reason), "m5.large"));
        assert_eq!(ended.instance_id, "i-1");
        claim.set_condition(condition::REGISTERED, ConditionStatus::Unknown, reason::STOPPED, "", at(60));
        assert_eq!(EndedNode::new(&claim, at(90)).unwrap().stopped, Some(at(60)), "it was stopped as a warm node");
    }
}
