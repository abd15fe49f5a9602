//! Records for instances that others launched, such as Karpenter, or whose record was lost.

use crate::effect::Learned;
use crate::warm;
use jiff::Timestamp;
use nodeless_model::claim::{Charge, NodeClaimSpec, NodeClaimStatus, condition};
use nodeless_model::node_pool::NodeTemplate;
use nodeless_model::object::MirroredClaim;
use nodeless_model::{
    ConditionStatus, Instance, Node, NodeClaim, NodePool, Phase, Quantity, Requirements, StringMap, Taint, labels,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// The characters of generated names, without those that are easily confused, as in Kubernetes.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A record for an instance that changes nothing about its node: the node's labels, annotations and taints become the desired
/// ones. `None` if neither the Node nor the instance's tags name a NodePool, and the tag is not empty, as that of a NodeClaim without one.
///
/// `expireAfter` and the termination grace period come from the NodeClaim object, or else from the NodePool. Of an instance whose node has
/// not joined, the taints are those of the template, the hashes for drift those of the NodeClaim object, and [`complete`] adds its resources.
#[must_use]
pub fn adopted(
    instance: &Instance,
    node: Option<&Node>,
    mirror: Option<&MirroredClaim>,
    node_pools: &[NodePool],
    taken: &BTreeSet<String>,
    now: Timestamp,
) -> Option<NodeClaim> {
    let value = |key: &str| {
        node.and_then(|node| node.labels.get(key))
            .or_else(|| instance.tags.get(key))
            .filter(|value| !value.is_empty())
            .cloned()
    };
    let node_pool = value(labels::NODE_POOL);
    if node_pool.is_none() && !instance.tags.contains_key(labels::NODE_POOL) {
        return None;
    }
    let pool = node_pool.as_ref().and_then(|name| node_pools.iter().find(|pool| pool.name == *name));
    let node_class = value(labels::EC2_NODE_CLASS).or_else(|| pool.map(|pool| pool.template.node_class.clone()))?;
    let name = match mirror {
        Some(mirror) => mirror.name.clone(),
        None => free_name(node_pool.as_ref().unwrap_or(&node_class), instance, taken),
    };
    let created = mirror.and_then(|mirror| mirror.created).unwrap_or(instance.launched);
    let (expire_after, termination_grace_period) = times(mirror, pool);
    // What the node gets when it registers, if it has not yet.
    let registered = node.filter(|node| node.is_registered());
    let known = match mirror.and_then(|mirror| mirror.standalone.as_deref()) {
        Some(standalone) => standalone.as_ref().ok().map(|standalone| &standalone.template),
        None => pool.map(|pool| &pool.template),
    };
    let template = known.filter(|_| registered.is_none());
    let taints = Taints::new(registered, known);
    let node_labels = with_template(labels_of(instance, node, node_pool.as_deref(), &node_class), template);
    // A claim without a NodePool ends with its object, so it has the identity of that.
    let identity = |mirror: &MirroredClaim| {
        if node_pool.is_some() { mirror.record_uid.clone() } else { Some(mirror.uid.clone()) }
    };
    let joined = phase(node);
    let phase = if node_pool.is_some() { warm::adopted(joined, instance, mirror) } else { joined };
    let is_charged = node_pool.is_some() && phase != Phase::Stopped;
    let charge = if is_charged { charge(node) } else { Charge::default() };
    let mut claim = NodeClaim {
        name,
        uid: mirror.and_then(identity).unwrap_or_else(|| format!("adopted-{}", instance.id)),
        node_pool,
        node_class,
        created,
        version: 0,
        spec: NodeClaimSpec {
            requirements: defining(&node_labels),
            instance_types: vec![instance.instance_type.clone()],
            annotations: annotations(registered, mirror),
            taints: taints.lasting,
            startup_taints: taints.startup,
            expire_after,
            termination_grace_period,
            charge,
            labels: node_labels,
            ..NodeClaimSpec::default()
        },
        phase: joined,
        status: status(instance, node, now),
    };
    show_phase(&mut claim, phase, mirror, now);
    Some(claim)
}

/// `expireAfter` and the termination grace period.
fn times(mirror: Option<&MirroredClaim>, pool: Option<&NodePool>) -> (Option<Duration>, Option<Duration>) {
    match (mirror, pool) {
        (Some(mirror), _) => (mirror.expire_after, mirror.termination_grace_period),
        (None, Some(pool)) => (
            pool.template.expire_after.and_then(nodeless_model::NillableDuration::duration),
            pool.template.termination_grace_period,
        ),
        (None, None) => (None, None),
    }
}

/// The labels of the claim: those of its node, and those that it gets from its template when it registers.
fn with_template(mut node_labels: StringMap, template: Option<&NodeTemplate>) -> StringMap {
    for (key, value) in template.into_iter().flat_map(|template| &template.labels) {
        node_labels.entry(key.clone()).or_insert_with(|| value.clone());
    }
    node_labels
}

/// Those of a registered node; before that, the hashes for drift.
fn annotations(registered: Option<&Node>, mirror: Option<&MirroredClaim>) -> StringMap {
    match registered {
        Some(node) => own_annotations(node),
        None => mirror.map(|mirror| mirror.hashes.clone()).unwrap_or_default(),
    }
}

fn status(instance: &Instance, node: Option<&Node>, now: Timestamp) -> NodeClaimStatus {
    NodeClaimStatus {
        instance: Some(instance.launched_for(0.0)),
        capacity: node.map(|node| node.capacity.clone()).unwrap_or_default(),
        allocatable: node.map(|node| node.allocatable.clone()).unwrap_or_default(),
        node_name: node.filter(|node| node.is_registered()).map(|node| node.name.clone()),
        last_pod_event: Some(now),
        ..NodeClaimStatus::default()
    }
}

/// Sets the phase and the conditions of a claim that has the phase of its node.
fn show_phase(claim: &mut NodeClaim, phase: Phase, mirror: Option<&MirroredClaim>, now: Timestamp) {
    set_conditions(claim, now);
    claim.phase = phase;
    if phase == Phase::Stopped {
        warm::show_stopped(claim, now);
        crate::conditions::set_ready(claim, now);
    }
    // Claims that had drifted stay drifted, although their hashes have another version.
    if let Some((status, reason)) = mirror.and_then(|mirror| mirror.conditions.get(condition::DRIFTED))
        && status == ConditionStatus::True.as_str()
    {
        claim.set_condition(condition::DRIFTED, ConditionStatus::True, reason, "adopted", now);
    }
}

/// Adds what the catalog knows about the instance of an adopted claim: its price, and the resources of a node that has not joined.
pub fn complete(claim: &mut NodeClaim, learned: &Learned) {
    if let Some(launched) = &mut claim.status.instance {
        launched.price = learned.price;
    }
    if claim.status.capacity.is_empty() {
        claim.status.labels.clone_from(&learned.labels);
        claim.status.labels.insert(labels::INSTANCE_TENANCY.to_owned(), claim.tenancy().to_owned());
        claim.status.capacity.clone_from(&learned.capacity);
        claim.status.allocatable.clone_from(&learned.allocatable);
    }
    claim.status.root_volume = learned.root_volume;
    if claim.spec.charge != Charge::default() {
        let resources = claim.status.capacity.clone().with("nodes", Quantity::from_units(1));
        let dollars_per_hour = learned.price + claim.root_volume_price();
        claim.spec.charge = Charge { resources, dollars_per_hour };
    }
}

/// The name in the instance's tag if it is free, otherwise one that is computed from its id.
fn free_name(prefix: &str, instance: &Instance, taken: &BTreeSet<String>) -> String {
    let tagged = instance.tags.get(labels::NODE_CLAIM_TAG).filter(|name| !name.is_empty() && !taken.contains(*name));
    if let Some(name) = tagged {
        return name.clone();
    }
    // FNV-1a: it is stable and needs no dependency. If a name is taken, the next one is tried.
    let mut hash = instance
        .id
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    loop {
        let name = format!("{prefix}-{}", suffix(hash));
        if !taken.contains(&name) {
            return name;
        }
        hash = hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
    }
}

/// Five characters computed from a number: the suffix of a generated name.
#[must_use]
pub fn suffix(number: u64) -> String {
    let base = LETTERS.len() as u64;
    let letter = |position: u32| {
        let digit = number / base.pow(position) % base;
        usize::try_from(digit).ok().and_then(|digit| LETTERS.get(digit)).map_or('b', |letter| char::from(*letter))
    };
    (0..5).map(letter).collect()
}

/// The labels of its node that a launch or NodePool sets; for an instance without a node, what EC2 reports.
fn labels_of(instance: &Instance, node: Option<&Node>, node_pool: Option<&str>, node_class: &str) -> StringMap {
    let bookkeeping = [labels::HOSTNAME, labels::REGISTERED, labels::INITIALIZED, labels::EXCLUDE_FROM_LOAD_BALANCERS];
    let is_alias = |key: &str| labels::normalize(key) != key;
    let mut known: StringMap = node
        .into_iter()
        .flat_map(|node| &node.labels)
        .filter(|(key, _)| !bookkeeping.contains(&key.as_str()) && !is_alias(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    for (key, value) in [
        (labels::NODE_POOL, node_pool),
        (labels::EC2_NODE_CLASS, Some(node_class)),
        (labels::INSTANCE_TYPE, Some(&*instance.instance_type)),
        (labels::ZONE, Some(&*instance.zone)),
        (labels::CAPACITY_TYPE, Some(instance.capacity_type.as_str())),
    ] {
        let Some(value) = value else { continue };
        known.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    }
    // The instance may have left the reservation that it was launched into.
    instance.capacity_type.correct(&mut known);
    known
}

/// The requirements of an adopted claim: only labels that a launch defines. The definition of NodeClaims refuses others, such as
/// `karpenter.sh/do-not-sync-taints`, which the kubelet sets.
fn defining(node_labels: &StringMap) -> Requirements {
    let defined = node_labels.iter().filter(|(key, _)| labels::is_well_known(key));
    Requirements::from_labels(&defined.map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// The annotations of a node that came from its claim: the hashes for drift, the DaemonSets that it waits for, and the size of its root
/// volume.
fn own_annotations(node: &Node) -> StringMap {
    let prefixes = ["karpenter.sh/", "karpenter.k8s.aws/", labels::WAIT_FOR_DAEMON_SETS, labels::ROOT_VOLUME];
    let ours = |key: &str| prefixes.iter().any(|prefix| key.starts_with(prefix));
    let momentary = [labels::TERMINATION_TIMESTAMP, labels::DO_NOT_DISRUPT];
    let kept = node.annotations.iter().filter(|(key, _)| ours(key) && !momentary.contains(&key.as_str()));
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The taints of an adopted claim: those that its node keeps, and those that it loses before it is initialized.
struct Taints {
    lasting: Vec<Taint>,
    startup: Vec<Taint>,
}

impl Taints {
    /// Of a registered node, its own; otherwise those of its template.
    fn new(registered: Option<&Node>, template: Option<&NodeTemplate>) -> Self {
        let mut startup = template.map(|template| template.startup_taints.clone()).unwrap_or_default();
        let Some(node) = registered else {
            let lasting = template.map(|template| template.taints.clone()).unwrap_or_default();
            return Self { lasting, startup };
        };
        startup.push(Taint::daemon_sets_not_ready());
        startup.retain(|taint| node.has_taint(taint));
        let mut lasting = lasting_taints(node);
        lasting.retain(|taint| !startup.iter().any(|other| other.matches(taint)));
        Self { lasting, startup }
    }
}

fn lasting_taints(node: &Node) -> Vec<Taint> {
    let momentary = |taint: &Taint| {
        taint.is_ephemeral()
            || taint.key == labels::DISRUPTED_TAINT
            || taint.key.starts_with("node.kubernetes.io/")
            || taint.key.starts_with("node.cloudprovider.kubernetes.io/")
    };
    node.taints.iter().filter(|taint| !momentary(taint)).cloned().collect()
}

fn charge(node: Option<&Node>) -> Charge {
    let resources = node.map(|node| node.capacity.clone()).unwrap_or_default();
    Charge { resources: resources.with("nodes", Quantity::from_units(1)), dollars_per_hour: 0.0 }
}

fn phase(node: Option<&Node>) -> Phase {
    match node {
        Some(node) if node.is_initialized() => Phase::Initialized,
        Some(node) if node.is_registered() => Phase::Registered,
        _ => Phase::Launched,
    }
}

fn set_conditions(claim: &mut NodeClaim, now: Timestamp) {
    let phase = claim.phase;
    for (kind, reached) in [
        (condition::LAUNCHED, Phase::Launched),
        (condition::REGISTERED, Phase::Registered),
        (condition::INITIALIZED, Phase::Initialized),
    ] {
        if phase >= reached {
            claim.set_condition(kind, ConditionStatus::True, kind, "adopted", now);
        } else {
            claim.set_condition(kind, ConditionStatus::Unknown, "NodeNotFound", "adopted", now);
        }
    }
    crate::conditions::set_ready(claim, now);
}
