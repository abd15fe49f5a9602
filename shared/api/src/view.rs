//! The cluster at one moment: what a plan reads of it, decoded.

use crate::admission::Admission;
use crate::convert::volumes::{self, Storage};
use crate::daemon_sets::ReadDaemonSet;
use crate::default_spread::{SchedulerConfig, Selectors};
use crate::devices::DeviceObjects;
use crate::slim::{CsiNode, PersistentVolume};
use crate::{CapacityBufferStatus, EC2NodeClass, NodeOverlayStatus, NodePoolStatus, ProvisioningRequestStatus};
use nodeless_devices::{ClusterDevices, ExtendedResources};
use nodeless_model::labels::is_ours;
use nodeless_model::object::{MirroredClaim, ObjectRef};
use nodeless_model::pod::VolumeClaim;
use nodeless_model::resources::may_be_devices;
use nodeless_model::{
    BufferError, CapacityBuffer, ClusterOptions, DaemonSet, DaemonSetName, Node, NodeOverlay, NodePool, OptionFault,
    OptionHolder, OtherNodeClaim, OtherNodePool, Pod, PodController, PodDisruptionBudget, PodShape,
    ProvisioningRequest, QuotaBalance, RequestError, Requirements, ResourceQuota, StringMap,
};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The state of the cluster at one moment, as far as planning uses it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterView {
    /// All nodes, ours or not.
    pub nodes: Vec<Node>,
    /// All pods that have not ended. A planner keeps them from one view to the next, so a view shares them.
    pub pods: Vec<Arc<Pod>>,
    /// All DaemonSets.
    pub daemon_sets: Vec<DaemonSet>,
    /// All PodDisruptionBudgets.
    pub disruption_budgets: Vec<PodDisruptionBudget>,
    /// The NodePools of nodeless that could be decoded.
    pub node_pools: Vec<NodePool>,
    /// All EC2NodeClasses that could be decoded, by name.
    pub node_classes: BTreeMap<String, EC2NodeClass>,
    /// The status of each NodePool, by name, so that it is written only when it changes.
    pub node_pool_statuses: BTreeMap<String, NodePoolStatus>,
    /// All NodeOverlays that could be decoded, with their status. None if the CRD is not installed.
    pub node_overlays: Vec<(NodeOverlay, NodeOverlayStatus)>,
    /// All active CapacityBuffers that could be decoded. None if the CRD is not installed.
    pub capacity_buffers: Vec<BufferView>,
    /// All ProvisioningRequests that could be decoded, are of a class that nodeless handles, and have not ended. None if the CRD is
    /// not installed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provisioning_requests: Vec<RequestView>,
    /// The workloads that have fewer pods than they are to have. Read only while pods are expected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pod_controllers: Vec<PodController>,
    /// All ResourceQuotas. Read only if there are CapacityBuffers, ProvisioningRequests or DaemonSets without a pod, or pods are expected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_quotas: Vec<ResourceQuota>,
    /// Where the volumes of pods can be used, by `namespace/claim`: any of these alternatives; none at all means
    /// anywhere. It is unknown for a claim that is not listed.
    pub volumes: BTreeMap<String, Vec<Requirements>>,
    /// The hosts that have a local volume, as their label `kubernetes.io/hostname`, by `namespace/claim`, whether a pod mounts it or not.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub volume_hosts: BTreeMap<String, BTreeSet<String>>,
    /// The CSI driver of each volume whose driver is known, by `namespace/claim`.
    pub volume_drivers: BTreeMap<String, String>,
    /// Why a pod that mounts this claim cannot be planned for, by `namespace/claim`.
    pub volume_faults: BTreeMap<String, String>,
    /// The maximum number of volumes of each driver on a node, by the node's name. Read only if volumes are needed.
    pub volume_limits: BTreeMap<String, BTreeMap<String, u32>>,
    /// Devices, and the claims for them. Read only if some pod has claims.
    #[serde(default, skip_serializing_if = "ClusterDevices::is_empty")]
    pub devices: ClusterDevices,
    /// The least number of pods of a PodGroup that are scheduled together, by `namespace/name`. Only exports have them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pod_groups: BTreeMap<String, u32>,
    /// The labels of namespaces, by name. Read only if some pod selects namespaces by label.
    pub namespaces: BTreeMap<String, StringMap>,
    /// The annotations of the Namespace `kube-system` that are ours (`nodeless.sh/`): they hold for the whole cluster.
    pub options: ClusterOptions,
    /// The NodeClaim objects whose class is an EC2NodeClass, with a record or not.
    pub node_claims: Vec<MirroredClaim>,
    /// The NodePools of other controllers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_node_pools: Vec<OtherNodePool>,
    /// The NodeClaims of other controllers. Their nodes are capacity that is used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_node_claims: Vec<OtherNodeClaim>,
    /// Objects that could not be decoded, and why.
    pub invalid: Vec<InvalidObject>,
}

/// The Namespace whose annotations hold for the whole cluster.
pub const SYSTEM_NAMESPACE: &str = "kube-system";

/// A CapacityBuffer with what it is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BufferView {
    /// The buffer.
    pub buffer: CapacityBuffer,
    /// The status.
    pub status: CapacityBufferStatus,
    /// A chunk; or why it is unknown.
    pub shape: Result<PodShape, BufferError>,
}

/// A ProvisioningRequest with what it is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestView {
    /// The request.
    pub request: ProvisioningRequest,
    /// The status.
    pub status: ProvisioningRequestStatus,
    /// A pod of each PodTemplate, in the order of the pod sets; or why one is unknown.
    pub templates: Result<Vec<PodShape>, RequestError>,
}

impl ClusterView {
    /// All pods that have not ended.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> + Clone {
        self.pods.iter().map(Arc::as_ref)
    }

    /// What is wrong with the annotations of nodeless on NodePools, the Namespace [`SYSTEM_NAMESPACE`], EC2NodeClasses and pods. For each
    /// workload one pod stands.
    #[must_use]
    pub fn option_faults(&self) -> Vec<OptionFault> {
        let pools = self.node_pools.iter().flat_map(OptionFault::of_node_pool);
        let classes = self.node_classes.iter().flat_map(|(name, class)| {
            let object = ObjectRef::node_class(name, class.metadata.uid.as_deref().unwrap_or_default());
            let keys = class.metadata.annotations.iter().flatten().map(|(key, _)| key.as_str());
            OptionFault::unknown(&object, OptionHolder::NodeClass, keys).collect::<Vec<_>>()
        });
        let mut of_workloads: BTreeMap<_, OptionFault> = BTreeMap::new();
        let annotated = self.pods().filter(|pod| pod.template.annotations.keys().any(|key| is_ours(key)));
        for pod in annotated.filter(|pod| pod.is_active()) {
            let workload = pod.workload().map_or_else(|| pod.key(), |workload| workload.to_string());
            for fault in OptionFault::of_pod(pod) {
                let known = of_workloads.entry((workload.clone(), fault.key.clone())).or_insert_with(|| fault.clone());
                if fault.object.name < known.object.name {
                    *known = fault;
                }
            }
        }
        pools.chain(OptionFault::of_cluster(&self.options)).chain(classes).chain(of_workloads.into_values()).collect()
    }

    /// Takes over the requests, host ports and priority of the newest pod of each DaemonSet, as Karpenter does: a LimitRange, a mutating
    /// webhook or the VerticalPodAutoscaler may have changed those of its template. Returns the DaemonSets without a pod. Call it once
    /// DaemonSets and pods are there.
    pub fn set_daemon_pods(&mut self) -> BTreeSet<DaemonSetName> {
        let mut newest: BTreeMap<(&str, &str), &Pod> = BTreeMap::new();
        for pod in self.pods.iter().filter(|pod| pod.is_owned_by_daemon_set() && pod.is_active()) {
            let Some(owner) = &pod.owner_name else { continue };
            let known = newest.entry((&pod.namespace, owner)).or_insert(pod);
            if (known.created, &known.name) < (pod.created, &pod.name) {
                *known = pod;
            }
        }
        let mut without = BTreeSet::new();
        for set in &mut self.daemon_sets {
            if let Some(pod) = newest.get(&(set.namespace.as_str(), set.name.as_str())) {
                let template = set.template.template_mut();
                template.requests.clone_from(&pod.template.requests);
                template.host_ports.clone_from(&pod.template.host_ports);
                template.priority = pod.template.priority;
            } else {
                without.insert(DaemonSetName { namespace: set.namespace.clone(), name: set.name.clone() });
            }
        }
        without
    }

    /// Gives the first pods of these DaemonSets what admission gives them, and finds the ResourceQuotas that allow them no pod. DaemonSets
    /// whose requests cannot be computed are invalid. Call it once ResourceQuotas are there.
    pub fn set_first_pods<'a>(
        &mut self,
        without_pod: &BTreeSet<DaemonSetName>,
        read: impl IntoIterator<Item = &'a ReadDaemonSet>,
        admission: &Admission,
    ) {
        let first: BTreeMap<DaemonSetName, _> = read
            .into_iter()
            .map(|read| (read.name(), read))
            .filter(|(name, _)| without_pod.contains(name))
            .map(|(name, read)| (name, read.first_pod(admission)))
            .collect();
        let quotas = &self.resource_quotas;
        self.daemon_sets.retain_mut(|set| match first.iter().find(|(name, _)| name.is_of(set)) {
            Some((_, Ok(first))) => {
                set.template.template.clone_from(&first.pod.template);
                let mut own = quotas.iter().filter(|quota| quota.namespace == set.namespace);
                set.refused_by = own.find_map(|quota| quota.refusal(first));
                true
            }
            Some((name, Err(error))) => {
                self.invalid.push(InvalidObject {
                    kind: "DaemonSet".to_owned(),
                    name: name.to_string(),
                    message: format!("{}: {}", error.field, error.problem),
                    outline: Outline::default(),
                });
                false
            }
            None => true,
        });
    }

    /// Gives the default topology spread constraints of kube-scheduler to its pods, and to those of CapacityBuffers. Call it once pods and
    /// buffers are there.
    pub fn set_default_spread(&mut self, config: &SchedulerConfig, selectors: &Selectors) {
        let mut spread = config.spread(selectors);
        for pod in &mut self.pods {
            if let Some(template) = spread.given_to(pod) {
                Arc::make_mut(pod).template = template;
            }
        }
        for shape in self.capacity_buffers.iter_mut().filter_map(|buffer| buffer.shape.as_mut().ok()) {
            if let Some(template) = spread.given_to(&shape.pod) {
                shape.pod.template = template;
            }
        }
    }

    /// What the ResourceQuotas leave for virtual pods.
    #[must_use]
    pub fn quota_balance(&self) -> QuotaBalance<'_> {
        let undecoded = self.invalid.iter().filter(|object| object.kind == "ResourceQuota");
        QuotaBalance::new(&self.resource_quotas, undecoded.filter_map(|object| object.name.split_once('/')))
    }

    /// Whether the topology of volumes is needed: some pod mounts a volume claim, or virtual pods would, or one of the cluster's volumes is
    /// local and bound to a claim.
    #[must_use]
    pub fn needs_volumes(&self, volumes: &[PersistentVolume]) -> bool {
        let mounts = |pod: &Pod| !pod.template.volume_claims.is_empty() && !pod.is_terminal();
        self.pods().any(mounts)
            || self.shapes().any(|shape| mounts(&shape.pod))
            || volumes.iter().any(|volume| volume.is_local() && volume.spec.claim_ref.is_some())
    }

    /// What the virtual pods of CapacityBuffers and ProvisioningRequests are like.
    fn shapes(&self) -> impl Iterator<Item = &PodShape> {
        let of_buffers = self.capacity_buffers.iter().filter_map(|buffer| buffer.shape.as_ref().ok());
        let of_requests = self.provisioning_requests.iter().filter_map(|request| request.templates.as_ref().ok());
        of_buffers.chain(of_requests.flatten())
    }

    fn shapes_mut(&mut self) -> impl Iterator<Item = &mut PodShape> {
        let of_buffers = self.capacity_buffers.iter_mut().filter_map(|buffer| buffer.shape.as_mut().ok());
        let of_requests = self.provisioning_requests.iter_mut().filter_map(|request| request.templates.as_mut().ok());
        of_buffers.chain(of_requests.flatten())
    }

    /// Whether some pod claims devices, or requests an extended resource that may be given as devices, so that devices are needed.
    #[must_use]
    pub fn claims_devices(&self) -> bool {
        let claims = |pod: &Pod| !pod.template.resource_claims.is_empty() && !pod.is_terminal();
        self.pods().any(claims) || !requested_extended_resources(&self.pods).is_empty()
    }

    /// Takes over devices and claims. Call it once nodes are there.
    pub fn set_devices(&mut self, objects: DeviceObjects) {
        self.devices = objects.into();
        let types = self.nodes.iter().filter_map(|node| {
            Some((node.name.as_str(), node.labels.get(nodeless_model::labels::INSTANCE_TYPE)?.as_str()))
        });
        self.devices.learn(types);
        self.add_extended_resources();
    }

    /// Adds the resources that DeviceClasses give on nodes whose kubelet does not report them. Where a device plugin reports a resource,
    /// the kube-scheduler goes by that.
    fn add_extended_resources(&mut self) {
        let requested = requested_extended_resources(&self.pods);
        let extended = ExtendedResources::new(&self.devices, &requested);
        if extended.is_empty() {
            return;
        }
        for node in &mut self.nodes {
            for (resource, count) in extended.of_node(&node.name, &node.labels) {
                if node.allocatable.get(resource).is_zero() {
                    node.capacity.set(resource, count);
                    node.allocatable.set(resource, count);
                }
            }
        }
    }

    /// The extended resources that pods request and DeviceClasses give.
    #[must_use]
    pub fn extended_resources(&self) -> ExtendedResources<'_> {
        let has_classes = !self.devices.classes.is_empty();
        let requested = if has_classes { requested_extended_resources(&self.pods) } else { BTreeSet::new() };
        ExtendedResources::new(&self.devices, &requested)
    }

    /// Whether some pod selects namespaces by label, so that their labels are needed.
    #[must_use]
    pub fn selects_namespaces(&self) -> bool {
        let selects = |pod: &Pod| {
            let preferred = pod.template.preferred_pod_affinity.iter().chain(&pod.template.preferred_pod_anti_affinity);
            let required = pod.template.required_pod_affinity.iter().chain(&pod.template.required_pod_anti_affinity);
            let mut terms = required.chain(preferred.map(|weighted| &weighted.preference));
            terms.any(|term| {
                term.namespace_selector.as_ref().is_some_and(|by| {
                    // The empty selector means all of them, whatever their labels.
                    !by.match_labels.is_empty() || !by.match_expressions.is_empty()
                })
            })
        };
        self.pods().any(selects)
    }

    /// Takes over where the volumes of its pods and of virtual pods can be used. Call it once nodes, pods, buffers and requests are
    /// there.
    ///
    /// Virtual pods are without the volumes of which that is not known: what lacks may be made together with the pods.
    pub fn set_volumes(&mut self, storage: Storage<'_>, nodes: &[CsiNode]) {
        let facts = volumes::resolve(storage, self.pods(), self.zones());
        self.volumes = facts.topologies;
        self.volume_hosts = facts.hosts;
        self.volume_drivers = facts.drivers;
        self.volume_faults = facts.faults;
        if self.shapes().any(|shape| !shape.pod.template.volume_claims.is_empty()) {
            self.set_volumes_of_shapes(storage);
        }
        let limits = nodes.iter().map(|node| (node.metadata.name.clone().unwrap_or_default(), volumes::limits(node)));
        self.volume_limits = limits.filter(|(_, limits)| !limits.is_empty()).collect();
    }

    fn set_volumes_of_shapes(&mut self, storage: Storage<'_>) {
        let made: Vec<_> = self.shapes().flat_map(|shape| volumes::made_claims(shape, storage.classes)).collect();
        let claims = [storage.claims, &made[..]].concat();
        let storage = Storage { claims: &claims, ..storage };
        let facts = volumes::resolve(storage, self.shapes().map(|shape| &shape.pod), self.zones());
        for shape in self.shapes_mut() {
            let namespace = shape.pod.namespace.clone();
            let key = |claim: &VolumeClaim| format!("{namespace}/{}", claim.claim_name);
            shape.pod.template_mut().volume_claims.retain(|claim| facts.topologies.contains_key(&key(claim)));
        }
        self.volumes.extend(facts.topologies);
        self.volume_hosts.extend(facts.hosts);
        self.volume_drivers.extend(facts.drivers);
    }

    /// The zone of a node by its name.
    fn zones(&self) -> impl Fn(&str) -> Option<String> {
        let zone = |node: &Node| Some((node.name.clone(), node.labels.get(nodeless_model::labels::ZONE)?.clone()));
        let zones: BTreeMap<String, String> = self.nodes.iter().filter_map(zone).collect();
        move |node: &str| zones.get(node).cloned()
    }
}

/// An object that could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InvalidObject {
    /// The kind.
    pub kind: String,
    /// The name, with the namespace if the kind has one: `namespace/name`.
    pub name: String,
    /// The problem, naming the field.
    pub message: String,
    /// What could be read of it.
    pub outline: Outline,
}

/// What can be read of an object that cannot be decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outline {
    /// The uid; empty if unknown.
    pub uid: String,
    /// The node of a Pod. No other kind has one.
    pub binding: Binding,
}

/// The node that a Pod is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Binding {
    /// It could not be read.
    #[default]
    Unknown,
    /// The Pod is not bound to a node.
    Unbound,
    /// The Pod is bound to the node of this name.
    Node(String),
}

impl Outline {
    /// Reads the fields of an object and ignores all others, which may be invalid.
    pub fn read<'de, D: Deserializer<'de>>(object: D) -> Self {
        #[derive(Deserialize)]
        struct Object {
            metadata: Metadata,
            spec: Spec,
        }
        #[derive(Deserialize)]
        struct Metadata {
            #[serde(default)]
            uid: Option<String>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Spec {
            #[serde(default)]
            node_name: Option<String>,
        }
        let Ok(Object { metadata, spec }) = Object::deserialize(object) else { return Self::default() };
        let node = spec.node_name.filter(|name| !name.is_empty());
        Self { uid: metadata.uid.unwrap_or_default(), binding: node.map_or(Binding::Unbound, Binding::Node) }
    }
}

/// A NodeClaim of another controller, where one of nodeless is expected: nothing is known about that.
impl From<&OtherNodeClaim> for InvalidObject {
    fn from(other: &OtherNodeClaim) -> Self {
        let (kind, name) = ("NodeClaim".to_owned(), other.name.clone());
        Self { kind, name, message: other.to_string(), outline: Outline::default() }
    }
}

impl InvalidObject {
    /// A Pod that is bound to a node that is known, with the node's name.
    #[must_use]
    pub fn node_of_pod(&self) -> Option<&str> {
        match &self.outline.binding {
            Binding::Node(name) if self.kind == POD => Some(name),
            _ => None,
        }
    }

    /// Whether it is a Pod that is not bound to a node.
    #[must_use]
    pub fn is_unbound_pod(&self) -> bool {
        self.kind == POD && self.outline.binding == Binding::Unbound
    }
}

/// The kind of pods.
const POD: &str = "Pod";

/// The extended resources that pods request.
fn requested_extended_resources(pods: &[Arc<Pod>]) -> BTreeSet<&str> {
    let templates = pods.iter().filter(|pod| !pod.is_terminal()).map(|pod| &pod.template);
    let requested = templates.flat_map(|template| template.requests.iter().chain(template.next_requests().iter()));
    requested.map(|(name, _)| name).filter(|name| may_be_devices(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(object: &Value) -> Outline {
        let of_tree = Outline::read(object);
        let text = object.to_string();
        assert_eq!(Outline::read(&mut serde_json::Deserializer::from_str(&text)), of_tree);
        of_tree
    }

    #[test]
    fn the_node_of_a_pod_is_read_whatever_its_other_fields_are() {
        let odd = json!([{ "operator": 7, "resources": { "requests": { "cpu": true } } }]);
        let mut pod = json!({
            "metadata": { "uid": "u-1", "labels": odd },
            "spec": { "nodeName": "a", "tolerations": odd, "containers": odd },
            "status": odd,
        });
        assert_eq!(read(&pod), Outline { uid: "u-1".into(), binding: Binding::Node("a".into()) });
        for unbound in [json!(""), Value::Null] {
            pod["spec"]["nodeName"] = unbound;
            assert_eq!(read(&pod).binding, Binding::Unbound);
        }
        pod["spec"].as_object_mut().unwrap().remove("nodeName");
        assert_eq!(read(&pod).binding, Binding::Unbound);
    }

    #[test]
    fn a_node_that_cannot_be_read_is_unknown() {
        for object in [
            json!({ "metadata": {}, "spec": { "nodeName": ["a"] } }),
            json!({ "metadata": {}, "spec": "odd" }),
            json!({ "metadata": {} }),
            json!("pod"),
        ] {
            assert_eq!(read(&object), Outline::default(), "{object}");
        }
        assert_eq!(Outline::read(&mut serde_json::Deserializer::from_str("{ \"spec\"")), Outline::default());
    }
}
