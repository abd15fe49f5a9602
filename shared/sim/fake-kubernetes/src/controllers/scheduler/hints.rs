//! The queueing hints of kube-scheduler 1.36: the changes that may let a plugin accept a pod that it rejected (`EventsToRegister` of each
//! plugin in `pkg/scheduler/framework/plugins`, and `pkg/scheduler/eventhandlers.go`).
//!
//! Left out, because nothing here depends on them: CSINode, CSIDriver, CSIStorageCapacity and VolumeAttachment objects, and the pods that
//! a ReadWriteOncePod volume waits for. The volume plugins count as VolumeBinding, whose events
//! include those of VolumeZone.
//!
//! A DaemonSet's pod is compared with all nodes, where kube-scheduler filters only the node that its affinity names. So more plugins may
//! count as having rejected it, which only causes additional attempts.

#[cfg(test)]
mod tests;

use super::filter::{insufficient, tolerates_cordon};
use super::info::{NodeInfo, PodInfo};
use super::queue::Plugin;
use super::spec::{PodTerm, TopologySpread};
use super::topology::meant_in;
use crate::controllers::object::{has_ended, name, namespace, text};
use crate::server::path::Path as _;
use crate::server::resource::{
    DEVICE_CLASSES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES,
    STORAGE_CLASSES,
};
use crate::server::{Change, ChangeKind};
use nodeless_model::StringMap;
use serde_json::Value;

/// A change, as far as scheduling depends on it.
#[derive(Debug)]
pub(super) enum Event {
    /// A node was added.
    NodeAdded(NodeInfo),
    /// A node was changed.
    NodeUpdated { old: NodeInfo, new: NodeInfo },
    /// A node was deleted.
    NodeDeleted(NodeInfo),
    /// A pod was bound to a node.
    PodAssigned(PodInfo),
    /// A bound pod was changed.
    AssignedPodUpdated { old: PodInfo, new: PodInfo },
    /// A bound pod was deleted or has ended.
    AssignedPodDeleted(PodInfo),
    /// A pod that is not bound is not nominated for its node any more, which matters only to pods of no higher priority.
    NominationRemoved(PodInfo),
    /// A pod that is not bound was changed, which matters only to the pod itself.
    PendingPodUpdated { old: PodInfo, new: PodInfo },
    /// A claim was added or changed.
    Claim { namespace: String, name: String },
    /// A ResourceClaim was added or changed, and may have lost its devices.
    ResourceClaim { namespace: String, name: String, deallocated: bool },
    /// A ResourceSlice or DeviceClass was added or changed.
    Devices,
    /// A volume was added or changed, a StorageClass was added, or the topologies that one allows were changed.
    Storage,
}

/// The scheduling events of a change.
pub(super) fn events(change: &Change) -> Vec<Event> {
    let deleted = change.kind == ChangeKind::Deleted;
    let new = (!deleted).then_some(&*change.object);
    let old = if deleted { Some(&*change.object) } else { change.previous.as_deref() };
    if change.resource == NODES {
        node_event(old, new).into_iter().collect()
    } else if change.resource == PODS {
        let runs = |pod: &&Value| !has_ended(pod);
        pod_events(old.filter(runs), new.filter(runs))
    } else {
        new.and_then(|new| storage_event(change, old, new)).into_iter().collect()
    }
}

fn node_event(old: Option<&Value>, new: Option<&Value>) -> Option<Event> {
    match (old, new) {
        (None, Some(new)) => Some(Event::NodeAdded(NodeInfo::new(new)?)),
        (Some(old), Some(new)) => {
            let differs = |field: &&str| old.at(field) != new.at(field);
            ["/metadata/labels", "/spec", "/status/allocatable"].iter().find(|field| differs(field))?;
            Some(Event::NodeUpdated { old: NodeInfo::new(old)?, new: NodeInfo::new(new)? })
        }
        (Some(old), None) => Some(Event::NodeDeleted(NodeInfo::new(old)?)),
        (None, None) => None,
    }
}

fn pod_events(old: Option<&Value>, new: Option<&Value>) -> Vec<Event> {
    let assigned = |pod: &Value| !text(pod, "/spec/nodeName").is_empty();
    let nominated = |pod| text(pod, "/status/nominatedNodeName");
    let (Some(from), to) = (old, new) else {
        let added = new.filter(|pod| assigned(pod)).and_then(PodInfo::new);
        return added.map(Event::PodAssigned).into_iter().collect();
    };
    let Some(before) = PodInfo::new(from) else { return Vec::new() };
    let after = to.and_then(PodInfo::new);
    match (assigned(from), to.is_some_and(assigned), after) {
        (true, _, Some(new)) => vec![Event::AssignedPodUpdated { old: before, new }],
        (true, _, None) => vec![Event::AssignedPodDeleted(before)],
        (false, true, Some(new)) => vec![Event::PodAssigned(new)],
        (false, _, new) => {
            let removed = !nominated(from).is_empty() && to.is_none_or(|to| nominated(to) != nominated(from));
            let removed = removed.then(|| PodInfo::new(from)).flatten().map(Event::NominationRemoved);
            let updated = new.map(|new| Event::PendingPodUpdated { old: before, new });
            updated.into_iter().chain(removed).collect()
        }
    }
}

fn storage_event(change: &Change, old: Option<&Value>, new: &Value) -> Option<Event> {
    if change.resource == PERSISTENT_VOLUME_CLAIMS {
        return Some(Event::Claim { namespace: namespace(new).to_owned(), name: name(new).to_owned() });
    }
    if change.resource == RESOURCE_CLAIMS {
        let allocated = |claim: &Value| claim.at("/status/allocation").is_some();
        let deallocated = old.is_some_and(allocated) && !allocated(new);
        let (namespace, name) = (namespace(new).to_owned(), name(new).to_owned());
        return Some(Event::ResourceClaim { namespace, name, deallocated });
    }
    if change.resource == RESOURCE_SLICES || change.resource == DEVICE_CLASSES {
        return Some(Event::Devices);
    }
    let field = "/allowedTopologies";
    let matters = change.resource == PERSISTENT_VOLUMES
        || (change.resource == STORAGE_CLASSES && old.is_none_or(|old| old.at(field) != new.at(field)));
    matters.then_some(Event::Storage)
}

impl Event {
    /// Whether a plugin that rejected a pod may accept it now.
    pub(super) fn may_help(&self, plugin: Plugin, pod: &PodInfo) -> bool {
        match self {
            Self::NodeAdded(node) => node_changed(plugin, pod, None, node),
            Self::NodeUpdated { old, new } => node_changed(plugin, pod, Some(old), new),
            Self::NodeDeleted(node) => plugin == Plugin::PodTopologySpread && has_keys(pod, node),
            Self::PodAssigned(other) => match plugin {
                Plugin::PodTopologySpread => hard(pod).any(|it| it.matches(pod, other)),
                Plugin::InterPodAffinity => all_mean(&pod.attracted, pod, other),
                Plugin::GangScheduling => other.is_of_group(pod),
                _ => false,
            },
            Self::AssignedPodUpdated { old, new } => pod_updated(plugin, pod, old, new),
            Self::AssignedPodDeleted(other) => pod_removed(plugin, pod, other),
            Self::NominationRemoved(other) => pod.priority <= other.priority && pod_removed(plugin, pod, other),
            Self::PendingPodUpdated { old, new } => new.is(pod) && itself_updated(plugin, pod, old, new),
            Self::Claim { namespace, name } => {
                plugin == Plugin::VolumeBinding && pod.namespace == *namespace && pod.volume_claims.contains(name)
            }
            Self::ResourceClaim { namespace, name, deallocated } => {
                let is_own = pod.namespace == *namespace && pod.resource_claims.iter().flatten().any(|own| own == name);
                plugin == Plugin::DynamicResources && (*deallocated || is_own)
            }
            Self::Devices => plugin == Plugin::DynamicResources,
            Self::Storage => plugin == Plugin::VolumeBinding,
        }
    }
}

/// `isSchedulableAfterNodeChange` of the plugins, and those that register node events without it.
fn node_changed(plugin: Plugin, pod: &PodInfo, old: Option<&NodeInfo>, new: &NodeInfo) -> bool {
    match plugin {
        Plugin::NodeUnschedulable => !new.unschedulable && old.is_none_or(|old| old.unschedulable),
        Plugin::TaintToleration => {
            let tolerated = |node: &NodeInfo| node.first_untolerated(pod, false).is_none();
            tolerated(new) && !old.is_some_and(tolerated)
        }
        Plugin::NodeAffinity => pod.selects(new) && !old.is_some_and(|old| pod.selects(old)),
        Plugin::NodePorts => old.is_none(),
        Plugin::NodeResourcesFit => insufficient(pod, new).is_empty() && old.is_none_or(|old| grew(pod, old, new)),
        Plugin::PodTopologySpread => {
            let Some(old) = old else { return has_keys(pod, new) };
            let moved = hard(pod).any(|it| old.labels.get(&it.topology_key) != new.labels.get(&it.topology_key));
            has_keys(pod, old) != has_keys(pod, new) || (has_keys(pod, new) && (moved || old.taints != new.taints))
        }
        Plugin::InterPodAffinity => affinity_after_node_change(pod, old, new),
        Plugin::VolumeBinding | Plugin::DynamicResources => old.is_none_or(|old| old.labels != new.labels),
        Plugin::OutOfTree => old.is_none(),
        Plugin::GangScheduling => false,
    }
}

/// Whether a node has more of a resource that the pod requests.
fn grew(pod: &PodInfo, old: &NodeInfo, new: &NodeInfo) -> bool {
    let grew = |name: &str| new.allocatable.get(name) > old.allocatable.get(name);
    pod.requests.iter().any(|(name, asked)| !asked.is_zero() && grew(name))
}

/// A new node matters only to pods with required terms of their own; a pod that others repel does not become schedulable by it.
fn affinity_after_node_change(pod: &PodInfo, old: Option<&NodeInfo>, new: &NodeInfo) -> bool {
    let domain = |term: &PodTerm| {
        let of = |node: &NodeInfo| node.labels.get(&term.topology_key).cloned();
        (old.and_then(of), of(new))
    };
    let attracts = |term| matches!(domain(term), (before, Some(now)) if before.as_ref() != Some(&now));
    let repels = |term| matches!(domain(term), (Some(before), now) if now.as_ref() != Some(&before));
    pod.attracted.iter().any(attracts) || pod.repelled.iter().any(|term| old.is_none() || repels(term))
}

fn pod_removed(plugin: Plugin, pod: &PodInfo, other: &PodInfo) -> bool {
    match plugin {
        Plugin::NodeResourcesFit => true,
        Plugin::NodePorts => {
            pod.host_ports.iter().any(|port| other.host_ports.iter().any(|it| it.conflicts_with(port)))
        }
        Plugin::PodTopologySpread => hard(pod).any(|it| it.matches(pod, other)),
        Plugin::InterPodAffinity => all_mean(&pod.repelled, pod, other) || all_mean(&other.repelled, other, pod),
        _ => false,
    }
}

fn pod_updated(plugin: Plugin, pod: &PodInfo, old: &PodInfo, new: &PodInfo) -> bool {
    let relabelled = old.labels != new.labels;
    match plugin {
        Plugin::NodeResourcesFit => {
            let shrank = |name: &str| new.requests.get(name) < old.requests.get(name);
            pod.requests.iter().any(|(name, asked)| !asked.is_zero() && shrank(name))
        }
        Plugin::PodTopologySpread => relabelled && hard(pod).any(|it| it.matches(pod, old) != it.matches(pod, new)),
        Plugin::InterPodAffinity => {
            let begins = |terms: &[PodTerm]| !all_mean(terms, pod, old) && all_mean(terms, pod, new);
            let ends = |terms: &[PodTerm]| all_mean(terms, pod, old) && !all_mean(terms, pod, new);
            relabelled && (begins(&pod.attracted) || ends(&pod.repelled))
        }
        _ => false,
    }
}

/// Whether an update of the pod itself may let the plugin accept it. A nomination does not.
fn itself_updated(plugin: Plugin, pod: &PodInfo, old: &PodInfo, new: &PodInfo) -> bool {
    let tolerates_more = old.tolerations() != new.tolerations();
    match plugin {
        Plugin::TaintToleration => tolerates_more,
        Plugin::NodeUnschedulable => tolerates_more && tolerates_cordon(new),
        Plugin::NodeResourcesFit => old.requests.iter().any(|(name, before)| new.requests.get(name) < before),
        Plugin::PodTopologySpread => {
            let counts = |it: &TopologySpread| it.matches(pod, old) != it.matches(pod, new);
            let eligible = tolerates_more && hard(pod).any(TopologySpread::honors_taints);
            eligible || (old.labels != new.labels && hard(pod).any(counts))
        }
        Plugin::InterPodAffinity => old.labels != new.labels,
        Plugin::NodeAffinity
        | Plugin::NodePorts
        | Plugin::VolumeBinding
        | Plugin::DynamicResources
        | Plugin::GangScheduling
        | Plugin::OutOfTree => false,
    }
}

fn hard(pod: &PodInfo) -> impl Iterator<Item = &TopologySpread> {
    pod.topology_spread.iter().filter(|constraint| constraint.is_hard())
}

/// Whether a node has the keys of all hard spread constraints.
fn has_keys(pod: &PodInfo, node: &NodeInfo) -> bool {
    hard(pod).all(|constraint| node.labels.contains_key(&constraint.topology_key))
}

/// Whether there are terms, and all of them match another pod. Namespace selectors are compared with no labels, as in kube-scheduler
/// (`podMatchesAllAffinityTerms` with terms of `GetAffinityTerms`).
fn all_mean(terms: &[PodTerm], pod: &PodInfo, other: &PodInfo) -> bool {
    !terms.is_empty() && terms.iter().all(|term| meant_in(Some(&StringMap::new()), pod, term, other))
}
