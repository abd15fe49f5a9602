//! The objects that were read, by kind and name.

use crate::complete;
use crate::decode::decode;
use crate::documents::Body;
use crate::fault::SourcePlace;
use crate::kinds::PlannedKind;
use crate::workloads::{Autoscaler, VerticalAutoscaler, Workload};
use jiff::Timestamp;
use nodeless_api::admission::{Admission, RuntimeClass};
use nodeless_api::convert::ConvertError;
use nodeless_api::convert::volumes::default_class;
use nodeless_api::daemon_sets::ReadDaemonSet;
use nodeless_api::default_spread::Selectors;
use nodeless_api::limit_ranges::LimitRange;
use nodeless_api::pod_shapes::{ReadShape, RunningPod};
use nodeless_api::view::SYSTEM_NAMESPACE;
use nodeless_api::{CapacityBufferStatus, EC2NodeClass, NodeOverlayStatus, slim};
use nodeless_model as model;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The namespace, empty for cluster-scoped objects, and the name.
pub(crate) type Key = (String, String);

/// The scheduler of pods on Fargate; no instance is launched for them.
const FARGATE: &str = "fargate-scheduler";

/// The objects that were read. Sorted, so that the order of files and documents does not matter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    pub(crate) nodes: BTreeMap<Key, model::Node>,
    pub(crate) pods: BTreeMap<Key, ReadPod>,
    pub(crate) daemon_sets: BTreeMap<Key, ReadDaemonSet>,
    pub(crate) limit_ranges: BTreeMap<Key, LimitRange>,
    pub(crate) resource_quotas: BTreeMap<Key, model::ResourceQuota>,
    pub(crate) disruption_budgets: BTreeMap<Key, model::PodDisruptionBudget>,
    pub(crate) namespaces: BTreeMap<Key, slim::Namespace>,
    pub(crate) persistent_volumes: BTreeMap<Key, slim::PersistentVolume>,
    pub(crate) persistent_volume_claims: BTreeMap<Key, slim::PersistentVolumeClaim>,
    pub(crate) storage_classes: BTreeMap<Key, slim::StorageClass>,
    pub(crate) csi_nodes: BTreeMap<Key, slim::CsiNode>,
    pub(crate) resource_slices: BTreeMap<Key, slim::ResourceSlice>,
    pub(crate) device_classes: BTreeMap<Key, slim::DeviceClass>,
    pub(crate) resource_claims: BTreeMap<Key, slim::ResourceClaim>,
    pub(crate) resource_claim_templates: BTreeMap<Key, slim::ResourceClaimTemplate>,
    pub(crate) priority_classes: BTreeMap<Key, slim::PriorityClass>,
    pub(crate) runtime_classes: BTreeMap<Key, RuntimeClass>,
    pub(crate) node_pools: BTreeMap<Key, model::NodePool>,
    pub(crate) node_classes: BTreeMap<Key, EC2NodeClass>,
    pub(crate) node_claims: BTreeMap<Key, (SourcePlace, nodeless_api::NodeClaim)>,
    pub(crate) other_node_pools: BTreeMap<Key, model::OtherNodePool>,
    pub(crate) other_node_claims: BTreeMap<Key, model::OtherNodeClaim>,
    pub(crate) node_overlays: BTreeMap<Key, (model::NodeOverlay, NodeOverlayStatus)>,
    pub(crate) capacity_buffers: BTreeMap<Key, (model::CapacityBuffer, CapacityBufferStatus)>,
    /// Objects that CapacityBuffers may refer to, by kind, or why one cannot be decoded. The error matters only if a buffer
    /// refers to the object.
    pub(crate) shapes: BTreeMap<(&'static str, Key), Result<ReadShape, String>>,
    /// The pods that Services and controllers select, for default topology spread constraints.
    pub(crate) selectors: Selectors,
    /// The workloads, by kind.
    pub(crate) workloads: BTreeMap<(&'static str, Key), Workload>,
    /// The autoscalers, by kind.
    pub(crate) autoscalers: BTreeMap<(&'static str, Key), Autoscaler>,
    pub(crate) vertical_autoscalers: BTreeMap<Key, VerticalAutoscaler>,
    /// How many pods of PodGroups are scheduled together at least.
    pub(crate) pod_groups: BTreeMap<Key, u32>,
    /// The workloads whose pods that were read are replaced by those of the workload.
    pub(crate) replaced_workloads: BTreeSet<(&'static str, Key)>,
    /// PodDisruptionBudgets without allowed disruptions in their status.
    pub(crate) uncounted: BTreeMap<Key, slim::PodDisruptionBudgetSpec>,
    /// The annotations of the Namespace `kube-system`.
    pub(crate) annotations: model::StringMap,
    /// The time of the latest kubelet heartbeat.
    pub(crate) heartbeat: Option<Timestamp>,
    /// What the pod that was read last is made again from.
    last_running: Option<Arc<RunningPod>>,
    /// The claims that Kubernetes creates for pods from templates, each with its class.
    pub(crate) ephemeral: BTreeMap<Key, Option<String>>,
}

/// A pod, with fields that the pod of the model does not have.
#[derive(Clone, Debug)]
pub(crate) struct ReadPod {
    pub(crate) pod: model::Pod,
    /// Whether the priority is that of the PriorityClass.
    pub(crate) without_priority: bool,
    /// Whether it runs on Fargate.
    pub(crate) on_fargate: bool,
    /// What it was made with, if it was not admitted yet.
    pub(crate) unadmitted: Option<Arc<slim::PodSpec>>,
    /// What it is made again from, if it runs and has a controller that makes it again on any node.
    pub(crate) running: Option<Arc<RunningPod>>,
}

impl ReadPod {
    pub(crate) fn new(pod: &slim::Pod) -> Result<Self, ConvertError> {
        let read = model::Pod::try_from(pod)?;
        let is_made_again = read.node_name.is_some() && read.owner_name.is_some();
        let is_made_again = is_made_again && !read.is_owned_by_daemon_set() && !read.is_owned_by_node();
        // Admission sets the priority of every pod.
        let is_new = read.node_name.is_none() && pod.spec.priority.is_none();
        Ok(Self {
            without_priority: pod.spec.priority.is_none(),
            on_fargate: pod.spec.scheduler_name.as_deref() == Some(FARGATE),
            unadmitted: is_new.then(|| Arc::new(pod.spec.clone())),
            running: is_made_again.then(|| Arc::new(RunningPod::from(pod))),
            pod: read,
        })
    }
}

/// The fields of a Node that show the time of the export.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Beats {
    status: BeatsStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BeatsStatus {
    conditions: Vec<Beat>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Beat {
    last_heartbeat_time: Option<Timestamp>,
}

/// The fields of a PodDisruptionBudget that show whether its controller has computed its status.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Counted {
    status: CountedStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CountedStatus {
    disruptions_allowed: Option<i32>,
}

/// The fields of a Namespace besides its labels.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Annotated {
    metadata: AnnotatedMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AnnotatedMetadata {
    annotations: Option<model::StringMap>,
}

/// The fields of a pod from which claims are created.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Templates {
    spec: TemplatesSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TemplatesSpec {
    volumes: Vec<TemplatedVolume>,
}

#[derive(Deserialize)]
struct TemplatedVolume {
    name: String,
    ephemeral: Option<Ephemeral>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Ephemeral {
    volume_claim_template: slim::PersistentVolumeClaim,
}

impl Objects {
    /// What gives new pods their defaults.
    pub(crate) fn admission(&self) -> Admission {
        let named = |((_, name), class): (&Key, &RuntimeClass)| (name.clone(), class.clone());
        Admission {
            ranges: self.limit_ranges.values().cloned().collect(),
            runtime_classes: self.runtime_classes.iter().map(named).collect(),
            priority_classes: self.priority_classes.values().cloned().collect(),
        }
    }

    /// Pods of a workload, which follow each other in exports, share what they are made again from.
    pub(crate) fn share_running(&mut self, read: &mut ReadPod) {
        let Some(running) = &mut read.running else { return };
        match &self.last_running {
            Some(last) if last == running => running.clone_from(last),
            _ => self.last_running = Some(Arc::clone(running)),
        }
    }

    /// Records the latest heartbeat of the kubelet of a Node.
    pub(crate) fn note_heartbeat(&mut self, body: &Body<'_>) {
        let beats = decode::<Beats>(body).unwrap_or_default().status.conditions;
        self.heartbeat = beats.into_iter().filter_map(|beat| beat.last_heartbeat_time).chain(self.heartbeat).max();
    }

    /// Records the settings of a budget without a computed status.
    pub(crate) fn note_budget(&mut self, key: &Key, body: &Body<'_>, spec: slim::PodDisruptionBudgetSpec) {
        if decode::<Counted>(body).unwrap_or_default().status.disruptions_allowed.is_none() {
            self.uncounted.insert(key.clone(), spec);
        } else {
            self.uncounted.remove(key);
        }
    }

    /// Keeps the annotations that apply to the whole cluster.
    pub(crate) fn note_namespace(&mut self, name: &str, body: &Body<'_>) {
        if name == SYSTEM_NAMESPACE {
            self.annotations = decode::<Annotated>(body).unwrap_or_default().metadata.annotations.unwrap_or_default();
        }
    }

    /// Removes an object. A workload is removed with its pods and with the workloads that it controls.
    pub(crate) fn remove(&mut self, kind: PlannedKind, key: &Key) {
        match kind {
            PlannedKind::Node => drop(self.nodes.remove(key)),
            PlannedKind::Pod => drop(self.pods.remove(key)),
            PlannedKind::Namespace => {
                self.namespaces.remove(key);
                if key.1 == SYSTEM_NAMESPACE {
                    self.annotations.clear();
                }
            }
            PlannedKind::PersistentVolume => drop(self.persistent_volumes.remove(key)),
            PlannedKind::PersistentVolumeClaim => drop(self.persistent_volume_claims.remove(key)),
            PlannedKind::StorageClass => drop(self.storage_classes.remove(key)),
            PlannedKind::CsiNode => drop(self.csi_nodes.remove(key)),
            PlannedKind::ResourceSlice => drop(self.resource_slices.remove(key)),
            PlannedKind::DeviceClass => drop(self.device_classes.remove(key)),
            PlannedKind::ResourceClaim => drop(self.resource_claims.remove(key)),
            PlannedKind::ResourceClaimTemplate => drop(self.resource_claim_templates.remove(key)),
            PlannedKind::DaemonSet => {
                self.daemon_sets.remove(key);
                self.replaced_workloads.insert((kind.name(), key.clone()));
            }
            PlannedKind::PodDisruptionBudget => {
                self.disruption_budgets.remove(key);
                self.uncounted.remove(key);
            }
            PlannedKind::PriorityClass => drop(self.priority_classes.remove(key)),
            PlannedKind::RuntimeClass => drop(self.runtime_classes.remove(key)),
            PlannedKind::Autoscaler(name) => drop(self.autoscalers.remove(&(name, key.clone()))),
            PlannedKind::VerticalPodAutoscaler => drop(self.vertical_autoscalers.remove(key)),
            PlannedKind::PodGroup => drop(self.pod_groups.remove(key)),
            PlannedKind::LimitRange => drop(self.limit_ranges.remove(key)),
            PlannedKind::ResourceQuota => drop(self.resource_quotas.remove(key)),
            PlannedKind::NodePool => {
                self.node_pools.remove(key);
                self.other_node_pools.remove(key);
            }
            PlannedKind::NodeClass => drop(self.node_classes.remove(key)),
            PlannedKind::NodeClaim => {
                self.node_claims.remove(key);
                self.other_node_claims.remove(key);
            }
            PlannedKind::NodeOverlay => drop(self.node_overlays.remove(key)),
            PlannedKind::CapacityBuffer => drop(self.capacity_buffers.remove(key)),
            PlannedKind::PodTemplate => drop(self.shapes.remove(&(kind.name(), key.clone()))),
            PlannedKind::Selecting(name) => self.selectors.remove(name, &key.0, &key.1),
            PlannedKind::Workload(_) | PlannedKind::Templated(_) => {
                let name = kind.name();
                self.selectors.remove(name, &key.0, &key.1);
                self.shapes.remove(&(name, key.clone()));
                self.workloads.retain(|(of, other), workload| {
                    let is_controlled = |(kind, owner): &(String, String)| kind == name && *owner == key.1;
                    let controlled = other.0 == key.0 && workload.controller.as_ref().is_some_and(is_controlled);
                    !(controlled || (*of == name && other == key))
                });
                self.replaced_workloads.insert((name, key.clone()));
            }
        }
    }

    /// Records the claims that Kubernetes creates for a pod. Their names consist of the names of the pod and the volume.
    pub(crate) fn note_ephemeral(&mut self, namespace: &str, name: &str, body: &Body<'_>) {
        let templates = decode::<Templates>(body).unwrap_or_default();
        for volume in templates.spec.volumes {
            if let Some(ephemeral) = volume.ephemeral {
                let key = (namespace.to_owned(), format!("{name}-{}", volume.name));
                self.ephemeral.insert(key, ephemeral.volume_claim_template.spec.storage_class_name);
            }
        }
    }

    /// All claims: those that were read, and those that Kubernetes will create, each with the fields that admission sets.
    pub(crate) fn take_volume_claims(&mut self) -> Vec<slim::PersistentVolumeClaim> {
        for ((namespace, name), class) in std::mem::take(&mut self.ephemeral) {
            let made = || {
                let mut claim = slim::PersistentVolumeClaim::default();
                claim.metadata.namespace = Some(namespace.clone());
                claim.metadata.name = Some(name.clone());
                claim.spec.storage_class_name = class;
                claim
            };
            self.persistent_volume_claims.entry((namespace.clone(), name.clone())).or_insert_with(made);
        }
        let default = default_class(self.storage_classes.values());
        let mut claims: Vec<_> = std::mem::take(&mut self.persistent_volume_claims).into_values().collect();
        claims.iter_mut().for_each(|claim| complete::volume_claim(claim, default));
        claims
    }
}
