//! Complete objects for tests, which change the fields that they are about. Compiled only with the feature `test-support`,
//! which nothing that ships enables.

use crate::node_pool::BudgetNodes;
use crate::nodes::claim::LaunchedInstance;
use crate::pods::pod::TopologySpread;
use crate::{
    Budget, CapacityType, Disruption, LabelSelector, Node, NodeClaim, NodeClaimSpec, NodeClaimStatus, NodePool,
    NodePoolOptions, NodeTemplate, Phase, Pod, PodTemplate, Quantity, Requirement, Requirements, ResourceList,
    StringMap, labels,
};
use jiff::Timestamp;

/// All phases of claims.
pub const PHASES: [Phase; 13] = [
    Phase::Reserved,
    Phase::WarmReserved,
    Phase::Launched,
    Phase::WarmLaunched,
    Phase::Stopped,
    Phase::Starting,
    Phase::Registered,
    Phase::Preparing,
    Phase::Stopping,
    Phase::Initialized,
    Phase::Draining,
    Phase::Terminating,
    Phase::Gone,
];

/// A NodePool that is ready and requires nothing, of the EC2NodeClass `default`, with Karpenter's defaults for disruption.
#[must_use]
pub fn node_pool(name: &str) -> NodePool {
    NodePool {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        generation: 1,
        template: NodeTemplate { node_class: "default".to_owned(), ..NodeTemplate::default() },
        disruption: Disruption::default(),
        options: NodePoolOptions::default(),
        limits: ResourceList::new(),
        limit_dollars_per_hour: None,
        label_keys: Vec::new(),
        weight: 0,
        replicas: None,
        ready: Ok(()),
        deleting: false,
        hash: String::new(),
    }
}

/// [`node_pool`] with on-demand nodes only.
#[must_use]
pub fn on_demand_node_pool(name: &str) -> NodePool {
    let mut pool = node_pool(name);
    pool.template.requirements = Requirements::from([(labels::CAPACITY_TYPE, Requirement::one_of(["on-demand"]))]);
    pool
}

/// A budget for all reasons that is always active.
#[must_use]
pub fn budget(nodes: BudgetNodes) -> Budget {
    Budget { reasons: Vec::new(), nodes, window: None }
}

/// A pod in the namespace `default` with these requests, in thousandths of a cpu and in MiB.
#[must_use]
pub fn pod(name: impl Into<String>, cpu_milli: i64, memory_mib: i64) -> Pod {
    let name = name.into();
    Pod {
        namespace: "default".to_owned(),
        uid: format!("uid-{name}"),
        name,
        template: PodTemplate {
            requests: ResourceList::new()
                .with("cpu", Quantity::from_milli(cpu_milli))
                .with("memory", Quantity::from_mebibytes(memory_mib))
                .with("pods", Quantity::from_units(1)),
            ..PodTemplate::default()
        }
        .into(),
        ..Pod::default()
    }
}

/// The pod with one more label.
#[must_use]
pub fn labelled(mut pod: Pod, key: &str, value: &str) -> Pod {
    pod.template_mut().labels.insert(key.to_owned(), value.to_owned());
    pod
}

/// Selects objects by one label.
#[must_use]
pub fn selector(key: &str, value: &str) -> LabelSelector {
    LabelSelector::from_labels(StringMap::from([(key.to_owned(), value.to_owned())]))
}

/// A `DoNotSchedule` spread with `maxSkew` 1 of the selected pods, with Kubernetes' defaults for all else.
#[must_use]
pub fn topology_spread(topology_key: &str, selector: LabelSelector) -> TopologySpread {
    TopologySpread {
        max_skew: 1,
        topology_key: topology_key.to_owned(),
        hard: true,
        selector: Some(selector),
        match_label_keys: Vec::new(),
        min_domains: None,
        honor_node_affinity: true,
        honor_node_taints: false,
    }
}

/// A node with its hostname as a label and these allocatable resources, in thousandths of a cpu and in MiB, for 110 pods: the kubelet's
/// default.
#[must_use]
pub fn node(name: &str, cpu_milli: i64, memory_mib: i64) -> Node {
    Node {
        name: name.to_owned(),
        labels: StringMap::from([(labels::HOSTNAME.to_owned(), name.to_owned())]),
        allocatable: ResourceList::new()
            .with("cpu", Quantity::from_milli(cpu_milli))
            .with("memory", Quantity::from_mebibytes(memory_mib))
            .with("pods", Quantity::from_units(110)),
        ..Node::default()
    }
}

/// A claim of the NodePool `default` and the EC2NodeClass `default` that is not launched yet.
#[must_use]
pub fn node_claim(name: &str) -> NodeClaim {
    NodeClaim {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        node_pool: Some("default".to_owned()),
        node_class: "default".to_owned(),
        created: Timestamp::UNIX_EPOCH,
        version: 1,
        spec: NodeClaimSpec::default(),
        phase: Phase::Reserved,
        status: NodeClaimStatus::default(),
    }
}

/// An instance on demand, of which nothing else is known than what is launched.
#[must_use]
pub fn launched_instance(id: &str) -> LaunchedInstance {
    LaunchedInstance {
        id: id.to_owned(),
        instance_type: "m6i.large".to_owned(),
        zone: "us-east-1a".to_owned(),
        capacity_type: CapacityType::OnDemand,
        price: 0.1,
        image_id: "ami-1".to_owned(),
        private_dns_name: None,
        reservation_id: None,
        subnet_id: None,
        security_group_ids: Vec::new(),
        launched: Timestamp::UNIX_EPOCH,
        certificate_authority: None,
    }
}
