//! Pods.

use crate::objects::amount::{Amount, extended};
use jiff::Timestamp;
use nodeless_model::pod::{PodPhase, Protection, is_stuck};
use nodeless_model::{Pod, ResourceList, StringMap};
use serde::{Deserialize, Serialize};

/// A pod that has not ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodFacts {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The node that it is bound to.
    #[serde(skip)]
    pub node: Option<String>,
    /// The phase.
    pub phase: PodPhase,
    /// The requests.
    pub requests: Amount,
    /// The requests of GPUs and other resources.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub extended: ResourceList,
    /// Whether a DaemonSet owns it.
    pub daemon_set: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// When it was created.
    pub created: Option<Timestamp>,
    #[serde(skip)]
    pub(crate) labels: StringMap,
    /// The end of its grace period, if it is being deleted.
    #[serde(skip)]
    pub(crate) ends: Option<Timestamp>,
    /// Whether a drain leaves the pod on its node.
    #[serde(skip)]
    pub(crate) stays: bool,
    #[serde(skip)]
    pub(crate) guard: Guard,
    #[serde(skip)]
    pub(crate) gates: Vec<String>,
    /// The workload, such as `Deployment shop/web`, if it has no node.
    #[serde(skip)]
    pub(crate) workload: Option<String>,
    /// The message of its condition `PodScheduled`, if it has no node.
    #[serde(skip)]
    pub(crate) unscheduled: Option<String>,
}

/// The protection of a pod by `karpenter.sh/do-not-disrupt`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Guard {
    #[default]
    None,
    /// Without end, or its end is not known because the pod has not started.
    Always,
    Until(Timestamp),
}

impl PodFacts {
    /// Takes what is shown of a pod.
    #[must_use]
    pub fn new(pod: Pod, unscheduled: Option<String>) -> Self {
        let guard = match (pod.protection(Timestamp::MIN), pod.protected_until()) {
            (Protection::Active, Some(end)) => Guard::Until(end),
            (Protection::Active, None) => Guard::Always,
            _ => Guard::None,
        };
        Self {
            phase: pod.phase,
            requests: Amount::from_list(&pod.template.requests),
            extended: extended(&pod.template.requests),
            daemon_set: pod.is_owned_by_daemon_set(),
            terminating: pod.is_terminating(),
            created: pod.created,
            ends: pod.deletion_timestamp,
            stays: pod.is_left_by_drains(),
            guard,
            workload: pod.workload().filter(|_| pod.node_name.is_none()).map(|workload| workload.to_string()),
            unscheduled: unscheduled.filter(|_| pod.node_name.is_none()),
            namespace: pod.namespace,
            name: pod.name,
            node: pod.node_name,
            labels: pod.template.labels.clone(),
            gates: pod.template.scheduling_gates.clone(),
        }
    }

    /// `namespace/name`.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Whether the drain of the node waits for the pod.
    pub(crate) fn holds_drain(&self, now: Timestamp) -> bool {
        !(self.stays || is_stuck(self.ends, now))
    }

    /// Whether `karpenter.sh/do-not-disrupt` protects the pod now.
    pub(crate) fn is_protected(&self, now: Timestamp) -> bool {
        match self.guard {
            Guard::None => false,
            Guard::Always => !self.terminating,
            Guard::Until(end) => !self.terminating && now < end,
        }
    }
}

/// The fields of a pod that its reduced form does not have: the messages of its conditions.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Messages {
    status: MessagesOfStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MessagesOfStatus {
    conditions: Vec<Message>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Message {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    message: Option<String>,
}

impl Messages {
    /// Why the scheduler did not place the pod.
    pub(crate) fn unscheduled(self) -> Option<String> {
        let scheduled = |one: &Message| one.kind == "PodScheduled" && one.status == "False";
        self.status.conditions.into_iter().find(scheduled)?.message
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::PodTemplate;
    use nodeless_model::Toleration;
    use nodeless_model::taint::TolerationOperator;

    #[test]
    fn a_drain_waits_for_the_pods_that_lifecycle_waits_for() {
        let now = Timestamp::from_second(1000).unwrap();
        let everything = Toleration { operator: TolerationOperator::Exists, ..Toleration::default() };
        let pods = [
            Pod::default(),
            Pod { owner_kind: Some("Node".into()), ..Pod::default() },
            Pod {
                template: PodTemplate { tolerations: vec![everything], ..PodTemplate::default() }.into(),
                ..Pod::default()
            },
        ];
        let ends = [None, Some(940), Some(939)].map(|end| end.map(|end| Timestamp::from_second(end).unwrap()));
        let mut waits = Vec::new();
        for pod in &pods {
            for deletion_timestamp in ends {
                let pod = Pod { deletion_timestamp, ..pod.clone() };
                let expected = pod.holds_drain(now);
                assert_eq!(PodFacts::new(pod.clone(), None).holds_drain(now), expected, "{pod:?}");
                waits.push(expected);
            }
        }
        assert!(waits.contains(&true) && waits.contains(&false), "{waits:?}");
    }
}
