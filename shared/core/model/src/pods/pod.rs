//! Pods, reduced to what scheduling, disruption and draining use.

use crate::amounts::duration::parse_go_duration;
use crate::pods::surge::{PodOptions, SurgeMode};
use crate::pods::workload_name::{POD_TEMPLATE_HASH, REPLICA_SET};
use crate::requirement::{Operator, RequirementTerm};
use crate::setting::Setting;
use crate::{LabelSelector, PodOrigin, ResourceList, StringMap, Taint, Toleration, Workload, labels};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How long after its grace period a pod counts as stuck, because no kubelet ends it any more.
const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// Whether a pod with this deletionTimestamp, the end of its grace period, is stuck, so that no drain waits for it.
#[must_use]
pub fn is_stuck(deletion_timestamp: Option<Timestamp>, now: Timestamp) -> bool {
    deletion_timestamp.is_some_and(|end| now.duration_since(end) > STUCK_AFTER)
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pod {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The uid, which distinguishes this pod from a later one of the same name.
    pub uid: String,
    /// When it was created, in whole seconds.
    pub created: Option<Timestamp>,
    /// The resource version as a number: the API server counts the changes of all objects with it. `None` where it is not a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<u64>,
    /// The deletion timestamp, if any; in Kubernetes this is the *end* of the grace period.
    pub deletion_timestamp: Option<Timestamp>,
    /// The kind of the controlling owner, such as `ReplicaSet`, `DaemonSet`, `Node`.
    pub owner_kind: Option<String>,
    /// The name of the controlling owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_name: Option<String>,
    /// Whether the API group of the controlling owner is not one of Kubernetes (core, `apps`, `batch`), whatever its kind is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owner_is_custom: bool,
    /// The node that it is bound to.
    pub node_name: Option<String>,
    /// The node whose pods are preempted for it.
    pub nominated_node_name: Option<String>,
    /// The phase.
    pub phase: PodPhase,
    /// Whether the Ready condition is true; `None` when there is no such condition.
    pub ready: Option<bool>,
    /// Whether the pod counts as one that its scheduler cannot place: the scheduler reported it (PodScheduled with reason Unschedulable).
    pub marked_unschedulable: bool,
    /// Since when its condition PodScheduled has its status, in whole seconds; `None` while it has no such condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<Timestamp>,
    /// When the kubelet accepted it.
    pub start_time: Option<Timestamp>,
    /// What the pods of a workload have in common, which they share.
    pub template: Arc<PodTemplate>,
    /// Whether it is a pod of the cluster or a virtual one.
    #[serde(skip)]
    pub origin: PodOrigin,
}

/// What the pods of a workload have in common: most of what is known of a pod, and the same for thousands of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodTemplate {
    /// Labels.
    pub labels: StringMap,
    /// Annotations.
    pub annotations: StringMap,
    /// The remaining scheduling gates.
    pub scheduling_gates: Vec<String>,
    /// The requests: containers, sidecars, init containers, overhead and pod-level resources combined, including `pods: 1`.
    pub requests: ResourceList,
    /// The same of the pod that its controller makes once it is evicted, if other requests are known: it was resized in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_again: Option<ResourceList>,
    /// Required labels of the node.
    pub node_selector: StringMap,
    /// Required node affinity: alternatives (any term suffices) of conditions (all must hold).
    pub required_node_affinity: Vec<Vec<RequirementTerm>>,
    /// Preferred node affinity: weight 1 to 100, and conditions.
    pub preferred_node_affinity: Vec<Weighted<Vec<RequirementTerm>>>,
    /// Whether node affinity uses `matchFields`, which only DaemonSet pods may.
    pub has_match_fields: bool,
    /// Required pod affinity.
    pub required_pod_affinity: Vec<PodAffinityTerm>,
    /// Preferred pod affinity.
    pub preferred_pod_affinity: Vec<Weighted<PodAffinityTerm>>,
    /// Required pod anti-affinity.
    pub required_pod_anti_affinity: Vec<PodAffinityTerm>,
    /// Preferred pod anti-affinity.
    pub preferred_pod_anti_affinity: Vec<Weighted<PodAffinityTerm>>,
    /// Topology spread constraints.
    pub topology_spread: Vec<TopologySpread>,
    /// The PodGroup that it is part of, in its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_group: Option<String>,
    /// The scheduler that places it; `None` for the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
    /// The priority.
    pub priority: i32,
    /// The priority class.
    pub priority_class_name: Option<String>,
    /// The termination grace period in seconds; Kubernetes' default is 30.
    pub termination_grace_period_seconds: Option<i64>,
    /// The host ports.
    pub host_ports: Vec<HostPort>,
    /// The persistent volume claims that it mounts.
    pub volume_claims: Vec<VolumeClaim>,
    /// The claims for devices (Dynamic Resource Allocation).
    #[serde(default)]
    pub resource_claims: Vec<ResourceClaim>,
}

/// The phase of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PodPhase {
    /// Not all containers run yet.
    #[default]
    Pending,
    /// At least one container runs.
    Running,
    /// All containers succeeded.
    Succeeded,
    /// All containers terminated, and at least one failed.
    Failed,
    /// The node does not respond.
    Unknown,
}

/// The effect of a pod's annotation `karpenter.sh/do-not-disrupt` at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// No protection, or no longer.
    None,
    /// The pod may not be disrupted.
    Active,
    /// The annotation is invalid and protects nothing.
    Invalid,
}

/// Something with a weight from 1 to 100.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Weighted<T> {
    /// The weight.
    pub weight: i32,
    /// The preference.
    pub preference: T,
}

/// The pods that a pod must or must not run near.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodAffinityTerm {
    /// The selected pods; `None` selects no pod.
    pub selector: Option<LabelSelector>,
    /// Keys of the pod's own labels whose values are added to the selector.
    pub match_label_keys: Vec<String>,
    /// Keys of the pod's own labels whose values are excluded by the selector.
    pub mismatch_label_keys: Vec<String>,
    /// In which namespaces; empty, without a selector of namespaces, means the pod's own.
    pub namespaces: Vec<String>,
    /// In which namespaces, by their labels; the empty selector means all.
    pub namespace_selector: Option<LabelSelector>,
    /// The node label that defines the domains.
    pub topology_key: String,
}

/// A topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologySpread {
    /// The maximum difference between the fullest and the emptiest domain.
    pub max_skew: i32,
    /// The node label whose values are the domains.
    pub topology_key: String,
    /// Whether the constraint is hard (`DoNotSchedule`) rather than a preference (`ScheduleAnyway`).
    pub hard: bool,
    /// The counted pods; `None` selects no pod.
    pub selector: Option<LabelSelector>,
    /// Keys of the pod's own labels whose values are added to the selector.
    pub match_label_keys: Vec<String>,
    /// The least number of domains; fewer count as an empty one. One when not given.
    pub min_domains: Option<i32>,
    /// Whether domains that the pod's node affinity excludes are left out (`Honor`, the default).
    pub honor_node_affinity: bool,
    /// Whether domains whose taints the pod does not tolerate are left out (`Ignore` is the default).
    pub honor_node_taints: bool,
}

impl TopologySpread {
    /// Whether this spread of `owner` counts another pod.
    #[must_use]
    pub fn counts(&self, owner: &Pod, other: &Pod) -> bool {
        let alike = |key: &String| {
            owner.template.labels.get(key).is_none_or(|value| other.template.labels.get(key) == Some(value))
        };
        owner.namespace == other.namespace
            && self.selector.as_ref().is_some_and(|selector| selector.matches(&other.template.labels))
            && self.match_label_keys.iter().all(alike)
    }
}

/// A port taken on the node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostPort {
    /// The address, or empty for all addresses.
    pub ip: String,
    /// The port number.
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
}

impl HostPort {
    /// Whether the two ports conflict on one node.
    #[must_use]
    pub fn conflicts_with(&self, other: &Self) -> bool {
        let unspecified = |ip: &str| matches!(ip, "" | "0.0.0.0" | "::");
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || unspecified(&self.ip) || unspecified(&other.ip))
    }
}

/// A claim of a pod for devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceClaim {
    /// The name that the pod's containers refer to.
    pub name: String,
    /// The ResourceClaim's name in the pod's namespace: the one that the pod refers to, or that was made for it from the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// The ResourceClaimTemplate's name in the pod's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
}

/// A volume claim that a pod mounts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeClaim {
    /// The PersistentVolumeClaim's name in the pod's namespace.
    pub claim_name: String,
    /// Whether the claim is made for this pod from a template (a generic ephemeral volume).
    pub ephemeral: bool,
}

impl PodTemplate {
    /// What the pod requests on the node that it gets next. On its node it counts with [`requests`](Self::requests).
    #[must_use]
    pub fn next_requests(&self) -> &ResourceList {
        self.requests_again.as_ref().unwrap_or(&self.requests)
    }
}

impl Pod {
    /// What it has in common with others, to be changed for this pod alone.
    pub fn template_mut(&mut self) -> &mut PodTemplate {
        Arc::make_mut(&mut self.template)
    }

    /// The pod, with a change of its template.
    #[must_use]
    pub fn with_template(mut self, change: impl FnOnce(&mut PodTemplate)) -> Self {
        change(self.template_mut());
        self
    }

    /// `namespace/name`.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Whether all containers have ended.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// Whether deletion was requested.
    #[must_use]
    pub const fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Whether the pod runs or will run: neither ended nor being deleted.
    #[must_use]
    pub const fn is_active(&self) -> bool {
        !self.is_terminal() && !self.is_terminating()
    }

    /// The name of the ReplicaSet that controls it, if one does.
    #[must_use]
    pub fn replica_set(&self) -> Option<&str> {
        self.owner_name.as_deref().filter(|_| self.owner_kind.as_deref() == Some(REPLICA_SET))
    }

    /// The workload that it is part of: its controlling owner, or the Deployment of its ReplicaSet. `None` without an owner.
    #[must_use]
    pub fn workload(&self) -> Option<Workload> {
        let (kind, name) = (self.owner_kind.as_deref()?, self.owner_name.as_deref()?);
        let hash = self.template.labels.get(POD_TEMPLATE_HASH).map(String::as_str);
        Some(Workload::new(&self.namespace, kind, name, hash))
    }

    /// Whether a DaemonSet owns the pod.
    #[must_use]
    pub fn is_owned_by_daemon_set(&self) -> bool {
        self.owner_kind.as_deref() == Some("DaemonSet")
    }

    /// Whether the kubelet owns the pod (a static, or mirror, pod).
    #[must_use]
    pub fn is_owned_by_node(&self) -> bool {
        self.owner_kind.as_deref() == Some("Node") || self.template.annotations.contains_key(labels::MIRROR_POD)
    }

    /// Whether the pod tolerates the taint of drained nodes, and so is not evicted from them.
    #[must_use]
    pub fn tolerates_disruption(&self) -> bool {
        self.template.tolerations.iter().any(|toleration| toleration.tolerates(&Taint::disrupted()))
    }

    /// Whether a drain waits for the pod. Drains do not wait for pods that tolerate the taint of a drain, static pods, pods that
    /// have ended, and pods whose kubelet does not end them within a minute after their grace period.
    #[must_use]
    pub fn holds_drain(&self, now: Timestamp) -> bool {
        !(self.is_left_by_drains() || is_stuck(self.deletion_timestamp, now))
    }

    /// Whether drains do not evict the pod: it tolerates the taint of a drain, is static, or has ended.
    #[must_use]
    pub fn is_left_by_drains(&self) -> bool {
        self.is_terminal() || self.is_owned_by_node() || self.tolerates_disruption()
    }

    /// Whether every term of the pod's node affinity excludes nodes with the label `karpenter.sh/nodepool`, so that it runs on no
    /// node of a NodePool.
    #[must_use]
    pub fn keeps_off_node_pools(&self) -> bool {
        let excludes =
            |term: &RequirementTerm| term.key == labels::NODE_POOL && term.operator == Operator::DoesNotExist;
        let terms = &self.template.required_node_affinity;
        !terms.is_empty() && terms.iter().all(|term| term.iter().any(excludes))
    }

    /// Whether a node should be provisioned for the pod: its scheduler reported that it cannot place it, or is about to.
    #[must_use]
    pub fn is_provisionable(&self) -> bool {
        self.marked_unschedulable && self.awaits_node()
    }

    /// Whether the pod is pending, whether or not a scheduler has evaluated it: for plans made offline.
    #[must_use]
    pub fn awaits_node(&self) -> bool {
        self.is_active()
            && self.node_name.is_none()
            && self.nominated_node_name.is_none()
            && self.template.scheduling_gates.is_empty()
            && !self.is_owned_by_daemon_set()
            && !self.is_owned_by_node()
    }

    /// Whether the pod must find another node when its own is removed: not kept by the node, and not ending anyway. A terminating
    /// pod of a StatefulSet counts, because its successor cannot start before it is gone.
    #[must_use]
    pub fn is_reschedulable(&self) -> bool {
        let successor_waits = self.is_terminating() && self.owner_kind.as_deref() == Some("StatefulSet");
        (self.is_active() || (successor_waits && !self.is_terminal()))
            && !self.is_owned_by_daemon_set()
            && !self.is_owned_by_node()
    }

    /// The protection by its annotation `karpenter.sh/do-not-disrupt`, as in Karpenter: `true` protects without end; a
    /// duration protects from the pod's start, and a pod that has not started is protected.
    #[must_use]
    pub fn protection(&self, now: Timestamp) -> Protection {
        let Some(value) = self.template.annotations.get(labels::DO_NOT_DISRUPT) else { return Protection::None };
        match value.as_str() {
            "true" => return Protection::Active,
            "false" => return Protection::None,
            _ => {}
        }
        if parse_go_duration(value).ok().is_none_or(|duration| duration.is_zero()) {
            return Protection::Invalid;
        }
        match self.protected_until() {
            Some(end) if end <= now => Protection::None,
            _ => Protection::Active,
        }
    }

    /// When the protection by its annotation `karpenter.sh/do-not-disrupt` ends; `None` where it has no end, or where
    /// the pod has not started, so that its end is unknown.
    #[must_use]
    pub fn protected_until(&self) -> Option<Timestamp> {
        let duration = parse_go_duration(self.template.annotations.get(labels::DO_NOT_DISRUPT)?).ok()?;
        let duration = SignedDuration::try_from(duration).ok().filter(|duration| !duration.is_zero())?;
        self.start_time?.checked_add(duration).ok()
    }

    /// How the pod's successor is created before the node is drained, by the annotation `nodeless.sh/surge-before-drain`.
    #[must_use]
    pub fn surge_mode(&self) -> Setting<SurgeMode> {
        PodOptions::surge(&self.template.annotations)
    }

    /// Whether the pod's successor is created first, as far as the pod itself shows: its Deployment may not permit it.
    #[must_use]
    pub fn is_surged(&self) -> bool {
        self.replica_set().is_some() && self.surge_mode().valid().is_some()
    }

    /// Whether the priority class is `system-cluster-critical` or `system-node-critical`.
    #[must_use]
    pub fn is_critical(&self) -> bool {
        matches!(self.template.priority_class_name.as_deref(), Some("system-cluster-critical" | "system-node-critical"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::taint::TolerationOperator;

    #[test]
    fn all_replica_sets_of_a_deployment_are_one_workload() {
        let owned = |kind: Option<&str>, name: &str, hash: Option<&str>| Pod {
            namespace: "shop".into(),
            owner_kind: kind.map(Into::into),
            owner_name: Some(name.into()),
            template: PodTemplate {
                labels: hash.map(|hash| (POD_TEMPLATE_HASH.to_owned(), hash.to_owned())).into_iter().collect(),
                ..PodTemplate::default()
            }
            .into(),
            ..Pod::default()
        };
        let shown = |pod: &Pod| pod.workload().map(|workload| workload.to_string());
        for (kind, name, hash, workload) in [
            (Some("ReplicaSet"), "cart-7d4b9", Some("7d4b9"), Some("Deployment shop/cart")),
            (Some("ReplicaSet"), "cart-65fc8", Some("65fc8"), Some("Deployment shop/cart")),
            (Some("ReplicaSet"), "cart-7d4b9", None, Some("ReplicaSet shop/cart-7d4b9")),
            (Some("ReplicaSet"), "cart", Some("7d4b9"), Some("ReplicaSet shop/cart")),
            (Some("StatefulSet"), "queue-1", Some("1"), Some("StatefulSet shop/queue-1")),
            (None, "cart", None, None),
        ] {
            assert_eq!(shown(&owned(kind, name, hash)).as_deref(), workload, "{kind:?} {name} {hash:?}");
        }
        assert_eq!(owned(Some("ReplicaSet"), "cart-1", None).replica_set(), Some("cart-1"));
        assert_eq!(owned(Some("StatefulSet"), "cart-1", None).replica_set(), None);
    }

    #[test]
    fn a_drain_does_not_wait_for_pods_that_stay() {
        let now = Timestamp::from_second(1_000).unwrap();
        let plain = Pod::default();
        assert!(plain.holds_drain(now));
        let everything = Toleration { operator: TolerationOperator::Exists, ..Toleration::default() };
        assert!(!plain.clone().with_template(|it| it.tolerations = vec![everything]).holds_drain(now));
        assert!(!Pod { owner_kind: Some("Node".into()), ..plain.clone() }.holds_drain(now));
        assert!(!Pod { phase: PodPhase::Succeeded, ..plain.clone() }.holds_drain(now));
        let ending =
            |seconds| Pod { deletion_timestamp: Some(Timestamp::from_second(seconds).unwrap()), ..plain.clone() };
        assert!(ending(940).holds_drain(now));
        assert!(!ending(939).holds_drain(now));
    }
}
