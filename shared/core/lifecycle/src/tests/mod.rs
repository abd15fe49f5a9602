//! The life of claims, by table and by property.

mod collection;
mod group;
mod joining;
mod launching;
mod leaving;
mod opening;
mod phases;
mod properties;
mod reboot;
mod reservation;
mod standalone;
mod surges;
mod warm;
mod without_instance;

use crate::{
    LaunchResult, Learned, NodeClassState, Nominations, Observation, Seen, SeenGroup, SeenOwners, Settings, prepare,
};
use jiff::Timestamp;
use nodeless_model::claim::{LaunchGroup, LaunchedInstance, condition, reason};
use nodeless_model::node::NodeCondition;
use nodeless_model::object::MirroredClaim;
use nodeless_model::{
    CapacityType, ConditionStatus, DaemonSetName, Instance, InstanceState, Node, NodeClaim, NodeClaimSpec,
    NodeClaimStatus, Phase, Pod, PodTemplate, Quantity, Requirement, ResourceList, RootVolume, StringMap, Taint,
    labels,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn settings() -> Settings {
    Settings::new("example")
}

/// A claim as the planner writes it at time 0: the second of a group of three.
pub(crate) fn reserved() -> NodeClaim {
    let mut claim = NodeClaim {
        name: "default-bbbbb".into(),
        uid: "uid".into(),
        node_pool: Some("default".into()),
        node_class: "default".into(),
        created: at(0),
        version: 1,
        spec: NodeClaimSpec {
            launch_group: Some(LaunchGroup { id: "group".into(), index: 1, size: 3, all_or_none: false }),
            labels: StringMap::from(
                [labels::NODE_POOL, labels::EC2_NODE_CLASS].map(|key| (key.into(), "default".into())),
            ),
            requests: ResourceList::from([("cpu", Quantity::from_units(1))]),
            ..NodeClaimSpec::default()
        },
        phase: Phase::Reserved,
        status: NodeClaimStatus::default(),
    };
    prepare(&mut claim);
    claim
}

fn instance(id: &str, state: InstanceState) -> Instance {
    Instance {
        id: id.into(),
        state,
        instance_type: "m6i.large".into(),
        zone: "us-east-1a".into(),
        capacity_type: CapacityType::OnDemand,
        image_id: "ami-1".into(),
        subnet_id: None,
        security_group_ids: Vec::new(),
        private_dns_name: None,
        reservation_id: None,
        partition: None,
        launched: at(0),
        tags: StringMap::from([
            (labels::NODE_POOL.into(), "default".into()),
            (labels::EC2_NODE_CLASS.into(), "default".into()),
        ]),
    }
}

fn learned() -> Learned {
    Learned {
        labels: StringMap::from([(labels::ZONE.into(), "us-east-1a".into())]),
        awaits_partition: false,
        capacity: ResourceList::from([("cpu", Quantity::from_units(2))]),
        allocatable: ResourceList::from([("cpu", Quantity::from_milli(1900))]),
        price: 0.1,
        root_volume: None,
    }
}

fn launch_result(id: &str) -> LaunchResult {
    LaunchResult::Launched { instance: Box::new(instance(id, InstanceState::Pending)), learned: Box::new(learned()) }
}

/// A claim in any phase, as it would be at time 0, with the instance `i-1` from launched on.
pub(crate) fn claim(phase: Phase) -> NodeClaim {
    let mut claim = reserved();
    claim.phase = phase;
    if phase < Phase::Launched {
        return claim;
    }
    let one = instance("i-1", InstanceState::Running);
    claim.status.instance = Some(LaunchedInstance {
        id: one.id,
        instance_type: one.instance_type,
        zone: one.zone,
        capacity_type: one.capacity_type,
        price: 0.1,
        image_id: one.image_id,
        private_dns_name: None,
        reservation_id: None,
        subnet_id: None,
        security_group_ids: Vec::new(),
        launched: at(0),
        certificate_authority: None,
    });
    claim.set_condition(condition::LAUNCHED, ConditionStatus::True, "Launched", "", at(0));
    if phase >= Phase::Registered {
        claim.status.node_name = Some("node-1".into());
        claim.set_condition(condition::REGISTERED, ConditionStatus::True, "Registered", "", at(0));
    }
    if phase >= Phase::Initialized {
        claim.set_condition(condition::INITIALIZED, ConditionStatus::True, "Initialized", "", at(0));
    }
    claim
}

/// The node of `i-1` as it joins.
fn joined() -> Node {
    Node {
        name: "node-1".into(),
        uid: "node-uid".into(),
        provider_id: Some("aws:///us-east-1a/i-1".into()),
        labels: StringMap::from([labels::NODE_POOL, labels::EC2_NODE_CLASS].map(|key| (key.into(), "default".into()))),
        taints: vec![Taint::unregistered()],
        allocatable: ResourceList::from([("cpu", Quantity::from_milli(1900))]),
        conditions: vec![NodeCondition {
            kind: "Ready".into(),
            status: Some(true),
            since: None,
            reason: String::new(),
        }],
        ..Node::default()
    }
}

/// The joined node once it is registered and ready for pods.
pub(crate) fn ready_node() -> Node {
    let mut node = joined();
    node.taints.clear();
    node.finalizers.push(labels::TERMINATION_FINALIZER.into());
    node.labels.insert(labels::REGISTERED.into(), "true".into());
    node.labels.insert(labels::INITIALIZED.into(), "true".into());
    node
}

fn mirror() -> MirroredClaim {
    MirroredClaim {
        name: "default-bbbbb".into(),
        uid: "mirror-uid".into(),
        record_uid: Some("uid".into()),
        provider_id: Some("aws:///us-east-1a/i-1".into()),
        owner: Some("pool-uid".into()),
        ..MirroredClaim::default()
    }
}

fn pod(name: &str) -> Pod {
    Pod {
        namespace: "default".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
        owner_kind: Some("ReplicaSet".into()),
        node_name: Some("node-1".into()),
        template: PodTemplate { termination_grace_period_seconds: Some(30), ..PodTemplate::default() }.into(),
        ..Pod::default()
    }
}

fn daemon_set_name(name: &str) -> DaemonSetName {
    DaemonSetName { namespace: "kube-system".into(), name: name.into() }
}

/// A world in which all is well: the instance runs, its node is ready and empty.
fn all_is_well() -> Observation {
    let mut tagged = instance("i-1", InstanceState::Running);
    tagged.tags.extend([
        (labels::NODE_CLAIM_TAG.into(), "default-bbbbb".into()),
        (labels::CLUSTER_NAME_TAG.into(), "example".into()),
        ("Name".into(), "node-1".into()),
    ]);
    Observation {
        node_class: Seen::Known(NodeClassState::Ready),
        node_pool_exists: Seen::Known(true),
        instance: Seen::Known(Some(tagged)),
        launch_group: Seen::Known(SeenGroup::default()),
        nodes: Seen::Known(vec![ready_node()]),
        joining_listed: 0,
        nominations: Nominations::None,
        daemon_sets_not_ready: Seen::Known(BTreeSet::new()),
        device_resources: Seen::Known(ResourceList::new()),
        pods: Seen::Known(Vec::new()),
        volume_attachments: Seen::Known(Vec::new()),
        owners: SeenOwners::default(),
        mirror: Seen::Known(Some(mirror())),
        zonal_shift: None,
    }
}

fn minutes(count: u64) -> Duration {
    Duration::from_mins(count)
}
