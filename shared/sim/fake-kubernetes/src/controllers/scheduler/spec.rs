//! The part of a pod's JSON that decides on which node it may run.
//!
//! Parsed here and not with the types of `nodeless-api`, so that this scheduler checks nodeless independently.

use jiff::Timestamp;
use nodeless_model::{LabelSelector, Quantity, ResourceList, StringMap, Taint, TaintEffect, Toleration};
use serde::{Deserialize, Deserializer};

#[derive(Debug, Deserialize)]
pub(super) struct Pod {
    #[serde(default)]
    pub(super) metadata: Metadata,
    #[serde(default)]
    pub(super) spec: PodSpec,
    #[serde(default)]
    pub(super) status: PodStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) labels: StringMap,
    pub(super) creation_timestamp: Option<Timestamp>,
    pub(super) deletion_timestamp: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodSpec {
    pub(super) node_selector: StringMap,
    pub(super) affinity: Option<Affinity>,
    #[serde(deserialize_with = "tolerations")]
    pub(super) tolerations: Vec<Toleration>,
    pub(super) topology_spread_constraints: Vec<TopologySpread>,
    containers: Vec<Container>,
    init_containers: Vec<Container>,
    overhead: ResourceList,
    resources: Option<Resources>,
    pub(super) priority: Option<i64>,
    pub(super) preemption_policy: Option<String>,
    volumes: Vec<Volume>,
    resource_claims: Vec<PodClaim>,
    pub(super) scheduling_group: Option<SchedulingGroup>,
}

/// A claim of a pod for devices, or the claim that was made for it from a template.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodClaim {
    name: String,
    resource_claim_name: Option<String>,
}

/// The PodGroup of a pod, in its namespace.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SchedulingGroup {
    pub(super) pod_group_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Affinity {
    pub(super) pod_affinity: Option<PodTerms>,
    pub(super) pod_anti_affinity: Option<PodTerms>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodTerms {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub(super) required: Vec<PodTerm>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub(super) preferred: Vec<WeightedPodTerm>,
}

/// A preferred term of pod affinity or anti-affinity.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WeightedPodTerm {
    pub(super) weight: i64,
    pub(super) pod_affinity_term: PodTerm,
}

/// A term of pod affinity or anti-affinity.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodTerm {
    pub(super) topology_key: String,
    pub(super) label_selector: Option<LabelSelector>,
    #[serde(default)]
    pub(super) match_label_keys: Vec<String>,
    #[serde(default)]
    pub(super) mismatch_label_keys: Vec<String>,
    #[serde(default)]
    pub(super) namespaces: Vec<String>,
    pub(super) namespace_selector: Option<LabelSelector>,
}

/// A topology spread constraint.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TopologySpread {
    pub(super) max_skew: i64,
    pub(super) topology_key: String,
    pub(super) when_unsatisfiable: WhenUnsatisfiable,
    pub(super) label_selector: Option<LabelSelector>,
    #[serde(default)]
    pub(super) match_label_keys: Vec<String>,
    pub(super) min_domains: Option<usize>,
    pub(super) node_affinity_policy: Option<NodeInclusionPolicy>,
    pub(super) node_taints_policy: Option<NodeInclusionPolicy>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum WhenUnsatisfiable {
    DoNotSchedule,
    ScheduleAnyway,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum NodeInclusionPolicy {
    Honor,
    Ignore,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    name: String,
    image: String,
    resources: Resources,
    ports: Vec<Port>,
    restart_policy: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Resources {
    requests: ResourceList,
    limits: ResourceList,
}

/// A port that a container uses on its node, where `host_port` is not 0.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Port {
    host_port: i64,
    #[serde(rename = "hostIP")]
    host_ip: String,
    protocol: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Volume {
    name: String,
    persistent_volume_claim: Option<VolumeClaim>,
    ephemeral: Option<serde::de::IgnoredAny>,
    image: Option<ImageVolume>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ImageVolume {
    reference: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VolumeClaim {
    claim_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodStatus {
    pub(super) nominated_node_name: String,
    conditions: Vec<Condition>,
    container_statuses: Vec<ContainerStatus>,
    init_container_statuses: Vec<ContainerStatus>,
    resource_claim_statuses: Vec<PodClaim>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    name: String,
    allocated_resources: ResourceList,
    resources: Option<Resources>,
}

/// Tolerations, where an empty effect or operator counts as absent.
fn tolerations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Toleration>, D::Error> {
    let mut tolerations = Vec::<serde_json::Map<String, serde_json::Value>>::deserialize(deserializer)?;
    for toleration in &mut tolerations {
        toleration.retain(|_, value| value != "");
    }
    let read = |map| serde_json::from_value(serde_json::Value::Object(map)).map_err(serde::de::Error::custom);
    tolerations.into_iter().map(read).collect()
}

impl Port {
    /// Whether two host ports conflict.
    pub(super) fn conflicts_with(&self, other: &Self) -> bool {
        let every = |port: &Self| matches!(port.host_ip.as_str(), "" | "0.0.0.0" | "::");
        let protocol = |port: &Self| port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
        self.host_port == other.host_port
            && protocol(self) == protocol(other)
            && (self.host_ip == other.host_ip || every(self) || every(other))
    }
}

impl Pod {
    /// The host ports of the pod.
    pub(super) fn host_ports(&self) -> Vec<Port> {
        let sidecars = self.spec.init_containers.iter().filter(|container| container.is_sidecar());
        let ports = self.spec.containers.iter().chain(sidecars).flat_map(|container| &container.ports);
        ports.filter(|port| port.host_port != 0).cloned().collect()
    }

    /// The names of the persistent volume claims that the pod mounts.
    pub(super) fn volume_claims(&self) -> Vec<String> {
        let claim = |volume: &Volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => Some(claim.claim_name.clone()),
            (None, Some(_)) => Some(format!("{}-{}", self.metadata.name, volume.name)),
            (None, None) => None,
        };
        self.spec.volumes.iter().filter_map(claim).collect()
    }

    /// The images of its containers and volumes, with the tag `latest` if they have none.
    pub(super) fn images(&self) -> Vec<String> {
        let containers = self.spec.init_containers.iter().chain(&self.spec.containers).map(|it| &it.image);
        let volumes = self.spec.volumes.iter().filter_map(|volume| volume.image.as_ref()).map(|it| &it.reference);
        let tagged = |image: &String| {
            if image.rfind(':') <= image.rfind('/') { format!("{image}:latest") } else { image.clone() }
        };
        containers.chain(volumes).map(tagged).collect()
    }

    /// The number of its containers and init containers.
    pub(super) fn containers(&self) -> usize {
        self.spec.init_containers.len() + self.spec.containers.len()
    }

    /// The names of its ResourceClaims; `None` for one that is not made yet.
    pub(super) fn resource_claims(&self) -> Vec<Option<String>> {
        let made = |claim: &PodClaim| {
            let made = self.status.resource_claim_statuses.iter().find(|made| made.name == claim.name);
            claim.resource_claim_name.clone().or_else(|| made?.resource_claim_name.clone())
        };
        self.spec.resource_claims.iter().map(made).collect()
    }

    /// The resources that the pod requests, by the kube-scheduler's rules: the sum of its containers, or the requests of an init
    /// container with the sidecars before it if they are higher; pod-level requests instead if there are any; its overhead; and
    /// one of `pods`.
    pub(super) fn requests(&self) -> ResourceList {
        self.requests_with(&ResourceList::new())
    }

    /// The requests that kube-scheduler's `NodeResourcesLeastAllocated` counts: those of [`Self::requests`], with 100m cpu and 200Mi
    /// memory for a container that requests none (`DefaultMilliCPURequest` and `DefaultMemoryRequest` of kube-scheduler).
    pub(super) fn scored_requests(&self) -> ResourceList {
        let mut missing = ResourceList::new();
        missing.set("cpu", Quantity::from_milli(100));
        missing.set("memory", Quantity::from_units(200 << 20));
        self.requests_with(&missing)
    }

    fn requests_with(&self, missing: &ResourceList) -> ResourceList {
        let mut sum = ResourceList::new();
        for container in &self.spec.containers {
            sum.add(&self.requests_of(container, &self.status.container_statuses, missing));
        }
        let mut sidecars = ResourceList::new();
        let mut peak = ResourceList::new();
        for container in &self.spec.init_containers {
            let own = self.requests_of(container, &self.status.init_container_statuses, missing);
            let mut at_once = sidecars.clone();
            at_once.add(&own);
            peak.max_with(&at_once);
            if container.is_sidecar() {
                sum.add(&own);
                sidecars = at_once;
            }
        }
        sum.max_with(&peak);
        if let Some(whole) = &self.spec.resources {
            for (name, quantity) in whole.or_limits().iter() {
                let only_limited = !whole.requests.contains(name);
                if !(only_limited && sum.contains(name)) {
                    sum.set(name, quantity);
                }
            }
        }
        sum.add(&self.spec.overhead);
        sum.set("pods", Quantity::from_units(1));
        sum
    }

    /// The requests of a container; during a resize, the maximum of the desired, allocated and actual requests. A resize that is
    /// infeasible for the node does not count.
    fn requests_of(&self, container: &Container, statuses: &[ContainerStatus], missing: &ResourceList) -> ResourceList {
        let mut asked = container.resources.or_limits();
        set_missing(&mut asked, missing);
        let Some(status) = statuses.iter().find(|status| status.name == container.name) else { return asked };
        let mut requests = status.allocated_resources.clone();
        if let Some(in_force) = &status.resources {
            requests.max_with(&in_force.requests);
        }
        let infeasible = |it: &Condition| it.kind == "PodResizePending" && it.reason.as_deref() == Some("Infeasible");
        if requests.is_empty() || !self.status.conditions.iter().any(infeasible) {
            requests.max_with(&asked);
        }
        requests
    }
}

impl Container {
    fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

impl Resources {
    /// The requests, defaulting to the limits.
    fn or_limits(&self) -> ResourceList {
        let mut requests = self.requests.clone();
        set_missing(&mut requests, &self.limits);
        requests
    }
}

/// Adds the quantities of resources that a list does not have.
fn set_missing(list: &mut ResourceList, others: &ResourceList) {
    for (name, quantity) in others.iter() {
        if !list.contains(name) {
            list.set(name, quantity);
        }
    }
}

/// A node, as far as scheduling uses it.
#[derive(Debug, Deserialize)]
pub(super) struct Node {
    pub(super) metadata: Metadata,
    #[serde(default)]
    pub(super) spec: NodeSpec,
    #[serde(default)]
    pub(super) status: NodeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeSpec {
    pub(super) taints: Vec<Taint>,
    pub(super) unschedulable: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeStatus {
    pub(super) allocatable: ResourceList,
    pub(super) images: Vec<Image>,
}

/// An image on a node.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Image {
    names: Vec<String>,
    size_bytes: i64,
}

impl Image {
    /// The size of the image by each of its names.
    pub(super) fn sizes(&self) -> impl Iterator<Item = (String, i64)> {
        self.names.iter().map(|name| (name.clone(), self.size_bytes))
    }
}

/// The taints of a node that evict pods.
pub(in crate::controllers) fn executing_taints(node: &serde_json::Value) -> Vec<Taint> {
    let node = Node::deserialize(node);
    let taints = node.map(|node| node.spec.taints).unwrap_or_default();
    taints.into_iter().filter(|taint| taint.effect == TaintEffect::NoExecute).collect()
}

#[cfg(test)]
mod tests {
    use super::Pod;
    use serde::Deserialize as _;
    use serde_json::{Value, json};

    fn read(pod: &Value) -> Pod {
        Pod::deserialize(pod).unwrap()
    }

    fn container(cpu: &str) -> Value {
        json!({ "name": "c", "resources": { "requests": { "cpu": cpu } } })
    }

    #[test]
    fn requests_are_added_up_as_in_kubernetes() {
        let cpu = |pod: &Value| read(pod).requests().get("cpu").milli();
        let sidecar = json!({ "name": "s", "restartPolicy": "Always", "resources": { "limits": { "cpu": "200m" } } });
        let spec = |init: Value| json!({ "spec": { "containers": [container("1"), container("500m")], "initContainers": init } });
        assert_eq!(cpu(&spec(json!([]))), 1_500);
        assert_eq!(cpu(&spec(json!([container("2")]))), 2_000, "an init container runs alone");
        assert_eq!(cpu(&spec(json!([container("1"), sidecar]))), 1_700, "a sidecar runs beside the containers");
        assert_eq!(cpu(&spec(json!([sidecar, container("1600m")]))), 1_800, "and beside later init containers");
        let mut whole = spec(json!([]));
        whole["spec"]["resources"] = json!({ "requests": { "cpu": "4" }, "limits": { "memory": "1Gi" } });
        whole["spec"]["overhead"] = json!({ "cpu": "250m" });
        assert_eq!(cpu(&whole), 4_250, "requests of the pod replace those of its containers");
        assert_eq!(read(&whole).requests().get("memory").units(), 1 << 30);
        assert_eq!(read(&whole).requests().get("pods").units(), 1);
    }

    #[test]
    fn a_container_without_requests_is_scored_with_defaults() {
        let pod = read(&json!({ "spec": { "containers": [container("1"), { "name": "d" }] } }));
        assert_eq!(pod.scored_requests().get("cpu").milli(), 1_100);
        assert_eq!(pod.scored_requests().get("memory").units(), 400 << 20);
        assert_eq!(pod.requests().get("memory").units(), 0, "only scores count the defaults");
    }

    #[test]
    fn a_resize_counts_what_is_set_aside_until_it_is_infeasible() {
        let pod = |reason: &str| {
            json!({
                "spec": { "containers": [container("3")] },
                "status": {
                    "conditions": [{ "type": "PodResizePending", "reason": reason }],
                    "containerStatuses": [{ "name": "c", "allocatedResources": { "cpu": "1" } }],
                },
            })
        };
        assert_eq!(read(&pod("Deferred")).requests().get("cpu").milli(), 3_000);
        assert_eq!(read(&pod("Infeasible")).requests().get("cpu").milli(), 1_000);
    }

    #[test]
    fn ports_claims_and_absent_fields_are_read() {
        let pod = read(&json!({
            "metadata": { "name": "db-0", "namespace": "default" },
            "spec": {
                "affinity": { "podAffinity": null },
                "tolerations": [{ "key": "a", "operator": "", "effect": "" }],
                "volumes": [
                    { "name": "data", "persistentVolumeClaim": { "claimName": "data-db-0" } },
                    { "name": "scratch", "ephemeral": { "volumeClaimTemplate": {} } },
                    { "name": "config", "configMap": { "name": "config" } },
                ],
                "containers": [{ "name": "c", "ports": [{ "containerPort": 80 }, { "hostPort": 53, "protocol": "UDP" }] }],
            },
        }));
        assert_eq!(pod.volume_claims(), ["data-db-0", "db-0-scratch"]);
        let ports = pod.host_ports();
        assert_eq!(ports.len(), 1);
        let other = |port: Value| super::Port::deserialize(port).unwrap();
        assert!(ports[0].conflicts_with(&other(json!({ "hostPort": 53, "hostIP": "10.0.0.1", "protocol": "UDP" }))));
        assert!(!ports[0].conflicts_with(&other(json!({ "hostPort": 53 }))), "TCP");
        assert_eq!((pod.spec.tolerations.len(), pod.spec.tolerations[0].effect), (1, None));
    }
}
