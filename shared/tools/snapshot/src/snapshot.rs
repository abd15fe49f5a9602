//! The snapshot, the input of planning, from the objects that were read.

mod next_requests;

use crate::complete;
use crate::fault::{Fault, explained};
use crate::manifests::{Identity, Manifest};
use crate::objects::{Key, Objects, ReadPod};
use jiff::Timestamp;
use next_requests::NextRequests;
use nodeless_api::admission::Admission;
use nodeless_api::convert::ConvertError;
use nodeless_api::convert::volumes::Storage;
use nodeless_api::default_spread::{SchedulerConfig, Selectors};
use nodeless_api::devices::DeviceObjects;
use nodeless_api::pod_shapes::ReadShape;
use nodeless_api::view::{BufferView, ClusterView, InvalidObject, Outline};
use nodeless_api::{CapacityBufferStatus, slim};
use nodeless_model::object::MirroredClaim;
use nodeless_model::plural::counted;
use nodeless_model::quotes::shortened;
use nodeless_model::{
    BufferError, BufferSource, CapacityBuffer, ClusterOptions, Node, NodeClaim, Pod, PodDisruptionBudget, PodTemplate,
    SharedTemplates,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// The state of a cluster at one time, from its exports.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The cluster as an API server would show it, without terminated pods.
    pub view: ClusterView,
    /// The NodeClaims, as records.
    pub claims: Vec<NodeClaim>,
    /// The latest time in the export, from which ages are computed, because a plan must not depend on the time at which it is
    /// made. The Unix epoch if the export contains no time.
    pub latest: Timestamp,
    /// Pods without a node that do not need one, as `namespace/name`, with the reason.
    pub held: BTreeMap<String, Held>,
    /// Objects that cannot be used.
    pub faults: Vec<Fault>,
    /// Warnings.
    pub warnings: Vec<String>,
    /// The number of objects that planning does not use, by kind.
    pub skipped: BTreeMap<String, usize>,
    /// The objects among them that pods would be created from.
    pub not_planned: BTreeSet<String>,
    /// The options of `nodeless plan` that name the templates of these.
    pub template_options: BTreeSet<String>,
    /// The number of objects that were read.
    pub objects: usize,
    /// The names of Nodes without capacity: their kubelet has not reported it yet, or the export does not contain their status.
    pub without_status: BTreeSet<String>,
    /// PodDisruptionBudgets without a status, as `namespace/name`, with the computed number of allowed disruptions.
    pub counted: BTreeMap<String, i32>,
    /// The number of terminated pods.
    pub ended: usize,
    /// The workloads whose pods were created, such as `Deployment default/web`, each with their number.
    pub created: BTreeMap<String, usize>,
    /// The workloads that autoscalers may give more pods, each with the largest number.
    pub at_most: BTreeMap<String, u64>,
    /// The objects that replaced others or were added with them, with the numbers of their pods.
    pub manifests: BTreeMap<Identity, Manifest>,
}

/// Why a pod without a node does not need one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// The pod has scheduling gates.
    Gated(Vec<String>),
    /// The pod is being deleted.
    Deleting,
    /// The pod belongs to a DaemonSet, whose pods are created for nodes.
    DaemonSet,
    /// The pod is a static pod of a kubelet.
    Static,
    /// Other pods are being preempted for the pod on a node.
    Nominated(String),
    /// The pod runs on Fargate.
    Fargate,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gated(gates) => write!(f, "it has the scheduling gates {}", gates.join(", ")),
            Self::Deleting => f.write_str("it is being deleted"),
            Self::DaemonSet => f.write_str("it belongs to a DaemonSet, whose pods are created for nodes"),
            Self::Static => f.write_str("it is a static pod of its node"),
            Self::Nominated(node) => write!(f, "pods on node {node} are being preempted for it"),
            Self::Fargate => f.write_str("it runs on Fargate"),
        }
    }
}

impl Snapshot {
    pub(crate) fn new(
        mut objects: Objects,
        faults: Vec<Fault>,
        warnings: Vec<String>,
        invalid: Vec<InvalidObject>,
        skipped: BTreeMap<String, usize>,
    ) -> Self {
        let mut snapshot = Self { faults, warnings, skipped, ..Self::default() };
        snapshot.objects = count(&objects);
        let admission = objects.admission();
        snapshot.take_pods(&mut objects, &admission);
        let claims = objects.take_volume_claims();
        snapshot.view.invalid = invalid;
        snapshot.view.nodes = objects.nodes.into_values().collect();
        snapshot.without_status = snapshot
            .view
            .nodes
            .iter()
            .filter(|node| node.allocatable.is_empty())
            .map(|node| node.name.clone())
            .collect();
        snapshot.take_claims(objects.node_claims);
        snapshot.view.daemon_sets = objects.daemon_sets.values().map(|read| read.set.clone()).collect();
        let without_pod = snapshot.view.set_daemon_pods();
        snapshot.view.resource_quotas = objects.resource_quotas.into_values().collect();
        snapshot.view.set_first_pods(&without_pod, objects.daemon_sets.values(), &admission);
        snapshot.view.options = ClusterOptions::new(&objects.annotations);
        snapshot.take_budgets(objects.disruption_budgets, &objects.uncounted);
        let gangs = objects.pod_groups.into_iter().filter(|(_, least)| *least > 0);
        snapshot.view.pod_groups =
            gangs.map(|((namespace, name), least)| (format!("{namespace}/{name}"), least)).collect();
        snapshot.view.node_pools = objects.node_pools.into_values().collect();
        snapshot.view.other_node_pools = objects.other_node_pools.into_values().collect();
        snapshot.view.other_node_claims = objects.other_node_claims.into_values().collect();
        snapshot.view.node_classes = objects.node_classes.into_iter().map(|((_, name), class)| (name, class)).collect();
        snapshot.view.node_overlays = objects.node_overlays.into_values().collect();
        let active = objects.capacity_buffers.into_values().filter(|(buffer, _)| buffer.is_active());
        snapshot.view.capacity_buffers =
            active.map(|(buffer, status)| buffer_view(buffer, status, &objects.shapes, &admission)).collect();
        let named = |namespace: slim::Namespace| {
            (namespace.metadata.name.unwrap_or_default(), namespace.metadata.labels.unwrap_or_default())
        };
        snapshot.view.namespaces = objects.namespaces.into_values().map(named).collect();
        let volumes: Vec<_> = objects.persistent_volumes.into_values().collect();
        let classes: Vec<_> = objects.storage_classes.into_values().collect();
        let nodes: Vec<_> = objects.csi_nodes.into_values().collect();
        snapshot.view.set_volumes(Storage { claims: &claims, volumes: &volumes, classes: &classes }, &nodes);
        snapshot.view.set_devices(DeviceObjects {
            slices: objects.resource_slices.into_values().collect(),
            classes: objects.device_classes.into_values().collect(),
            claims: objects.resource_claims.into_values().collect(),
            templates: objects.resource_claim_templates.into_values().collect(),
        });
        snapshot.latest = latest(&snapshot).max(objects.heartbeat.unwrap_or(Timestamp::UNIX_EPOCH));
        snapshot
    }

    /// Gives pods the default topology spread constraints of the scheduler.
    pub(crate) fn set_default_spread(&mut self, config: &SchedulerConfig, selectors: &Selectors) {
        if config.is_empty() {
            return;
        }
        let unknown =
            self.view.pods.iter().filter(|pod| pod.template.topology_spread.is_empty() && selectors.lack_owner_of(pod));
        let unknown = unknown.count();
        if unknown > 0 {
            self.warnings.push(format!(
                "the ReplicaSets, StatefulSets or ReplicationControllers of {} are not in the export; default topology spread \
                 constraints apply there only if a Service selects the pods",
                counted(unknown, "pod")
            ));
        }
        self.view.set_default_spread(config, selectors);
    }

    fn take_pods(&mut self, objects: &mut Objects, admission: &Admission) {
        let mut unknown: BTreeMap<String, usize> = BTreeMap::new();
        let mut without_class: BTreeMap<String, usize> = BTreeMap::new();
        let [mut prioritized, mut admitted] = [Changed::default(), Changed::default()];
        let mut errors: Vec<ConvertError> = Vec::new();
        let mut templates = SharedTemplates::default();
        let pods = std::mem::take(&mut objects.pods);
        let mut again = NextRequests::new(objects);
        for read in pods.into_values() {
            let ReadPod { mut pod, without_priority, on_fargate, unadmitted, running } = read;
            if pod.is_terminal() {
                self.ended += 1;
                continue;
            }
            if without_priority {
                match admission.priority(pod.template.priority_class_name.as_deref()) {
                    Some(priority) if priority == pod.template.priority => {}
                    Some(priority) => prioritized.apply(&mut pod, |template| template.priority = priority),
                    None => {
                        *unknown.entry(pod.template.priority_class_name.clone().unwrap_or_default()).or_default() += 1;
                    }
                }
            }
            if let Some(spec) = unadmitted {
                let namespace = pod.namespace.clone();
                admitted.apply(&mut pod, |template| errors.extend(admission.admit(&namespace, template, &spec).err()));
                let class = spec.runtime_class_name.clone().filter(|_| spec.overhead.is_empty());
                let class = class.filter(|name| !name.is_empty());
                if let Some(name) = class.filter(|name| !admission.runtime_classes.contains_key(name)) {
                    *without_class.entry(name).or_default() += 1;
                }
            }
            // The kube-scheduler drops such a nomination at its next attempt.
            pod.nominated_node_name.take_if(|node| !objects.nodes.contains_key(&(String::new(), node.clone())));
            if pod.node_name.is_none() {
                let why = held(&pod, on_fargate);
                let fargate = why == Some(Held::Fargate);
                self.held.extend(why.map(|why| (pod.key(), why)));
                if fargate {
                    continue;
                }
            }
            if let Some(running) = running {
                again.set(&mut pod, &running);
            }
            templates.share(&mut pod.template);
            self.view.pods.push(Arc::new(pod));
        }
        self.warnings.extend(again.warnings());
        let unadmitted =
            errors.iter().map(|error| format!("pods are planned without what admission gives them: {error}"));
        self.warnings.extend(unadmitted);
        for (class, pods) in unknown {
            self.warnings.push(format!(
                "PriorityClass {} of {} is not in the export; the priority is assumed to be 0",
                shortened(&class),
                counted(pods, "pod")
            ));
        }
        for (class, pods) in without_class {
            self.warnings.push(format!(
                "RuntimeClass {} of {} is not in the export; its overhead is not planned",
                shortened(&class),
                counted(pods, "pod")
            ));
        }
    }

    /// Adds PodDisruptionBudgets. The allowed disruptions of those without a status are computed from the pods that were read.
    fn take_budgets(
        &mut self,
        budgets: BTreeMap<Key, PodDisruptionBudget>,
        uncounted: &BTreeMap<Key, slim::PodDisruptionBudgetSpec>,
    ) {
        for (key, mut budget) in budgets {
            if let Some(spec) = uncounted.get(&key) {
                let of_budget = |pod: &&Pod| pod.is_active() && budget.covers(&pod.namespace, &pod.template.labels);
                let covered: Vec<&Pod> = self.view.pods().filter(of_budget).collect();
                let healthy = covered.iter().filter(|pod| pod.node_name.is_some() && pod.ready != Some(false)).count();
                if let Some((allowed, wants_all)) = complete::disruptions_allowed(spec, covered.len(), healthy) {
                    budget.disruptions_allowed = allowed;
                    budget.wants_all = wants_all;
                    self.counted.insert(format!("{}/{}", budget.namespace, budget.name), allowed);
                }
            }
            self.view.disruption_budgets.push(budget);
        }
    }

    fn take_claims(&mut self, claims: BTreeMap<Key, (crate::SourcePlace, nodeless_api::NodeClaim)>) {
        let by_provider: BTreeMap<&str, &Node> =
            self.view.nodes.iter().filter_map(|node| Some((node.provider_id.as_deref()?, node))).collect();
        let by_name: BTreeMap<&str, &Node> = self.view.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
        for ((_, name), (place, object)) in claims {
            let status = object.status.as_ref();
            let provider_id = status.and_then(|status| status.provider_id.as_deref());
            let node_name = status.and_then(|status| status.node_name.as_deref());
            let node = provider_id.and_then(|id| by_provider.get(id)).or_else(|| by_name.get(node_name?)).copied();
            match complete::claim(&object, node) {
                Ok(claim) => {
                    self.view.node_claims.push(mirrored(&claim));
                    self.claims.push(claim);
                }
                Err(error) => {
                    let problem = explained(&error.problem);
                    let message = format!("{}: {problem}", error.field);
                    let (kind, outline) = ("NodeClaim".to_owned(), Outline::default());
                    self.view.invalid.push(InvalidObject { kind, name, message, outline });
                    let object = Some(error.object);
                    self.faults.push(Fault { place, object, field: error.field, problem });
                }
            }
        }
    }
}

/// A change of templates. Equal pods share their template, which is changed once for pods that follow each other.
#[derive(Default)]
struct Changed(Option<[Arc<PodTemplate>; 2]>);

impl Changed {
    fn apply(&mut self, pod: &mut Pod, change: impl FnOnce(&mut PodTemplate)) {
        match &self.0 {
            Some([before, after]) if Arc::ptr_eq(before, &pod.template) => pod.template = Arc::clone(after),
            _ => {
                let before = Arc::clone(&pod.template);
                change(pod.template_mut());
                self.0 = Some([before, Arc::clone(&pod.template)]);
            }
        }
    }
}

/// A buffer with the object that it refers to.
fn buffer_view(
    buffer: CapacityBuffer,
    status: CapacityBufferStatus,
    shapes: &BTreeMap<(&'static str, Key), Result<ReadShape, String>>,
    admission: &Admission,
) -> BufferView {
    let shape = buffer.source().and_then(|source| {
        let (kind, name) = match source {
            BufferSource::PodTemplate { name } => ("PodTemplate", name),
            BufferSource::Workload { kind, name, .. } => (kind.as_str(), name),
        };
        let own =
            |(known, (namespace, of)): &(&str, Key)| *known == kind && *namespace == buffer.namespace && of == name;
        let (_, read) = shapes.iter().find(|(key, _)| own(key)).ok_or_else(|| buffer.missing_source(source))?;
        let read = read.as_ref().map_err(Clone::clone);
        let shape = read.and_then(|read| read.admitted(admission).map_err(|error| error.to_string()));
        shape.map_err(|why| BufferError::Resolution(format!("{kind} cannot be decoded: {why}")))
    });
    BufferView { status, shape, buffer }
}

fn mirrored(claim: &NodeClaim) -> MirroredClaim {
    MirroredClaim {
        name: claim.name.clone(),
        uid: claim.uid.clone(),
        provider_id: claim.provider_id(),
        node_pool: claim.node_pool.clone(),
        created: Some(claim.created),
        expire_after: claim.spec.expire_after,
        termination_grace_period: claim.spec.termination_grace_period,
        deletion_timestamp: claim.status.termination.as_ref().map(|termination| termination.requested),
        ..MirroredClaim::default()
    }
}

fn held(pod: &Pod, on_fargate: bool) -> Option<Held> {
    if on_fargate {
        Some(Held::Fargate)
    } else if pod.is_terminating() {
        Some(Held::Deleting)
    } else if pod.is_owned_by_daemon_set() {
        Some(Held::DaemonSet)
    } else if pod.is_owned_by_node() {
        Some(Held::Static)
    } else if !pod.template.scheduling_gates.is_empty() {
        Some(Held::Gated(pod.template.scheduling_gates.clone()))
    } else {
        pod.nominated_node_name.clone().map(Held::Nominated)
    }
}

fn latest(snapshot: &Snapshot) -> Timestamp {
    let view = &snapshot.view;
    let pods = view.pods.iter().flat_map(|pod| [pod.created, pod.start_time]).flatten();
    let conditions = view.nodes.iter().flat_map(|node| &node.conditions).filter_map(|condition| condition.since);
    let nodes = view.nodes.iter().filter_map(|node| node.created).chain(conditions);
    let of_claims = |claim: &NodeClaim| {
        let conditions = claim.status.conditions.iter().map(|condition| condition.last_transition_time);
        conditions.chain(claim.status.last_pod_event).chain([claim.created]).max()
    };
    let claims = snapshot.claims.iter().filter_map(of_claims);
    pods.chain(nodes).chain(claims).max().unwrap_or(Timestamp::UNIX_EPOCH)
}

fn count(objects: &Objects) -> usize {
    let Objects { nodes, pods, daemon_sets, disruption_budgets, namespaces, .. } = objects;
    let Objects { persistent_volumes, persistent_volume_claims, storage_classes, csi_nodes, .. } = objects;
    let Objects { priority_classes, node_pools, node_classes, node_claims, .. } = objects;
    let Objects {
        node_overlays,
        capacity_buffers,
        limit_ranges,
        resource_quotas,
        vertical_autoscalers,
        pod_groups,
        ..
    } = objects;
    let Objects { other_node_pools, other_node_claims, .. } = objects;
    let Objects { resource_slices, device_classes, resource_claims, resource_claim_templates, .. } = objects;
    nodes.len()
        + pods.len()
        + daemon_sets.len()
        + disruption_budgets.len()
        + namespaces.len()
        + persistent_volumes.len()
        + persistent_volume_claims.len()
        + storage_classes.len()
        + csi_nodes.len()
        + priority_classes.len()
        + node_pools.len()
        + node_classes.len()
        + node_claims.len()
        + other_node_pools.len()
        + other_node_claims.len()
        + node_overlays.len()
        + capacity_buffers.len()
        + vertical_autoscalers.len()
        + pod_groups.len()
        + limit_ranges.len()
        + resource_quotas.len()
        + resource_slices.len()
        + device_classes.len()
        + resource_claims.len()
        + resource_claim_templates.len()
}
