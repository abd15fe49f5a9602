//! Surges: the successor of a pod is created before the pod's node is drained.

use crate::labels;
use crate::pods::pod_ref::PodRef;
use crate::setting::options;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The age at which another claim's raise of a Deployment is no longer waited for. A drain that holds a pod takes minutes; an
/// older raise was left behind.
const RAISE_LASTS: SignedDuration = SignedDuration::from_hours(1);

/// After this time a surge is attempted again that the API server denied: the right may have been granted meanwhile.
const DENIED_FOR: SignedDuration = SignedDuration::from_mins(5);

/// How the successor of a pod is created, by the pod's annotation `nodeless.sh/surge-before-drain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SurgeMode {
    /// The Deployment is restarted, as by `kubectl rollout restart`.
    Restart,
    /// The Deployment gets one more replica for the time.
    Scale,
}

impl SurgeMode {
    /// The value of the annotation.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Scale => "scale",
        }
    }

    /// The mode of this value of the annotation.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Restart, Self::Scale].into_iter().find(|mode| mode.as_str() == text)
    }
}

options! {
    /// The options of a pod: its annotations, in the template of its workload.
    PodOptions {
        /// [`labels::SURGE_BEFORE_DRAIN`].
        pub surge: SurgeMode = labels::SURGE_BEFORE_DRAIN, |text| SurgeMode::parse(text).ok_or(None),
            "`restart` or `scale`", "which is ignored";
    }
}

/// The surge for one pod of a draining node, on the record of the node's claim: written before the Deployment is changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Surge {
    /// The namespace of the pod and its Deployment.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The pod's uid.
    pub pod_uid: String,
    /// The name of the Deployment.
    pub deployment: String,
    /// How the successor is created.
    pub mode: SurgeMode,
    /// Since when. A restart has this time in the template's annotation, so that a repeated restart changes nothing.
    pub started: Timestamp,
    /// The Deployment's replicas before.
    pub replicas: i32,
    /// The Deployment's available replicas before: with one more, the successor is available.
    pub available: i32,
    /// The progress.
    pub state: SurgeState,
}

/// The progress of a surge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SurgeState {
    /// The Deployment is about to be changed.
    Requested,
    /// The Deployment was changed, and the successor is not available yet.
    Underway,
    /// The successor is available, and the replicas are being lowered, which deletes the pod.
    Lowering {
        /// Since when.
        since: Timestamp,
    },
    /// The surge cannot be carried out, or was undone by another party: the pod is evicted without it.
    Refused {
        /// The reason.
        why: String,
        /// When it is attempted again; `None` if it is not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        again: Option<Timestamp>,
    },
}

impl SurgeState {
    /// The API server denies the change now, for a missing right or by a policy of the cluster.
    #[must_use]
    pub fn denied(why: &str, now: Timestamp) -> Self {
        Self::Refused { why: why.to_owned(), again: now.checked_add(DENIED_FOR).ok() }
    }
}

impl Surge {
    /// Whether the successor exists or is being created, so that the pod itself needs no other node.
    #[must_use]
    pub const fn replaces_pod(&self) -> bool {
        !matches!(self.state, SurgeState::Refused { .. })
    }

    /// Whether the surge was denied, and is attempted again now.
    #[must_use]
    pub fn begins_again(&self, now: Timestamp) -> bool {
        matches!(self.state, SurgeState::Refused { again: Some(again), .. } if again <= now)
    }
}

/// The annotation `nodeless.sh/surge` of a Deployment whose replicas are raised for a time. Beside these fields it has the uid and the
/// generation of the Deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Raise {
    /// The claim whose node is drained.
    pub claim: String,
    /// The uid of the pod that gets a successor.
    pub pod: String,
    /// The replicas before.
    pub from: i32,
    /// The replicas during the surge.
    pub to: i32,
    /// Since when.
    pub at: Timestamp,
}

impl Raise {
    /// Whether the raise was made for this pod of this claim's node.
    #[must_use]
    pub fn is_for(&self, claim: &str, pod_uid: &str) -> bool {
        self.claim == claim && self.pod == pod_uid
    }

    /// Whether the raise was left behind, because its claim's record was lost.
    #[must_use]
    pub fn is_left_behind(&self, now: Timestamp) -> bool {
        now.duration_since(self.at) > RAISE_LASTS
    }
}

/// A Deployment with the annotation and the label `nodeless.sh/surge`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaisedDeployment {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The raise, by its annotation.
    pub raise: Raise,
    /// Whether the annotation was written for this Deployment, and nobody has changed its spec since.
    pub is_as_raised: bool,
}

/// A ready pod of a Deployment that is not being deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadyPod {
    /// The namespace, name and uid.
    pub pod: PodRef,
    /// The name of its node.
    pub node: String,
    /// Since when it is ready.
    pub since: Option<Timestamp>,
}

/// A Deployment, as far as the surge for one of its pods uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwningDeployment {
    /// The name.
    pub name: String,
    /// Whether the status describes the present spec.
    pub observed: bool,
    /// Whether the pod has the present template. Otherwise a rollout is replacing the pod.
    pub current: bool,
    /// Whether the rollout is paused.
    pub paused: bool,
    /// Whether the strategy is Recreate, which deletes all pods first.
    pub recreate: bool,
    /// The desired replicas.
    pub replicas: i32,
    /// The maximum number of pods above the desired replicas during a rolling update.
    pub max_surge: i32,
    /// The maximum number of pods below the desired replicas during a rolling update.
    pub max_unavailable: i32,
    /// The `minReadySeconds`.
    pub min_ready: SignedDuration,
    /// The ready pods that are not being deleted. The pod that has been ready for the longest time is first.
    pub ready: Vec<ReadyPod>,
    /// The raise that is in effect, by its annotation.
    pub raise: Option<Raise>,
}

impl OwningDeployment {
    /// The pods that have been ready for `minReadySeconds`.
    pub fn available(&self, now: Timestamp) -> impl Iterator<Item = &ReadyPod> {
        self.ready.iter().filter(move |pod| {
            let long_enough = |since| now.duration_since(since) >= self.min_ready;
            self.min_ready.is_zero() || pod.since.is_some_and(long_enough)
        })
    }
}

/// A change of a Deployment. Repeating it has no further effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeploymentChange {
    /// Restart it, with this time in the annotation of the template.
    Restart {
        /// The time.
        at: Timestamp,
    },
    /// Raise its replicas, and record that on it, if they are still those before.
    Raise(Raise),
    /// Undo the raise for this pod of this claim's node. Replicas that another party has changed since stay as they are.
    Lower {
        /// The claim.
        claim: String,
        /// The uid of the pod.
        pod: String,
    },
    /// Undo this raise, which no claim knows of. Nothing happens unless the Deployment is as the raise left it.
    LowerLeftBehind(Raise),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotation_has_two_values() {
        let surge = |text: &str| PodOptions::new(&[(labels::SURGE_BEFORE_DRAIN.into(), text.into())].into()).surge;
        assert_eq!(surge("restart").valid(), Some(&SurgeMode::Restart));
        assert_eq!(surge("scale").valid(), Some(&SurgeMode::Scale));
        let why = surge("true").invalid().unwrap().to_string();
        assert!(why.contains("nodeless.sh/surge-before-drain") && why.contains("write restart or scale"), "{why}");
    }

    #[test]
    fn a_pod_is_available_after_min_ready_seconds() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let ready = |since: Option<i64>| ReadyPod { since: since.map(at), ..ReadyPod::default() };
        let mut deployment = OwningDeployment {
            ready: vec![ready(Some(10)), ready(Some(20)), ready(None)],
            ..OwningDeployment::default()
        };
        assert_eq!(deployment.available(at(20)).count(), 3);
        deployment.min_ready = SignedDuration::from_secs(5);
        assert_eq!(deployment.available(at(24)).count(), 1);
        assert_eq!(deployment.available(at(25)).count(), 2);
    }

    #[test]
    fn a_raise_is_left_behind_after_an_hour() {
        let at = Timestamp::UNIX_EPOCH;
        let raise = Raise { claim: "a".into(), pod: "p".into(), from: 1, to: 2, at };
        assert!(!raise.is_left_behind(at + RAISE_LASTS) && raise.is_left_behind(at + RAISE_LASTS * 2));
        assert!(raise.is_for("a", "p") && !raise.is_for("a", "q") && !raise.is_for("b", "p"));
    }
}
