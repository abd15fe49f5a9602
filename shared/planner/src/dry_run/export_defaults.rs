//! Fills in what exports lack about nodes of NodePools, so that disruption can be evaluated.

use crate::dry_run::known_types::{KnownTypes, price, several};
use jiff::Timestamp;
use nodeless_api::EC2NodeClass;
use nodeless_catalog::Catalog;
use nodeless_catalog::stored::NamedPlacementGroup;
use nodeless_model::claim::{ConditionStatus, LaunchedInstance, NodeClaimSpec, NodeClaimStatus, condition};
use nodeless_model::node::{NodeCondition, provider_id};
use nodeless_model::{CapacityType, Node, NodeClaim, NodePool, Phase, Pod, StringMap, labels};
use nodeless_operations::node_class;
use nodeless_ports::cluster::ClusterView;
use std::collections::BTreeMap;

/// The most partitions of a placement group in a zone.
const PARTITIONS: u32 = 7;
/// The prefix of the labels of instance types.
const OF_INSTANCES: &str = "karpenter.k8s.aws/instance-";

/// Gives Nodes of NodePools of nodeless the label of their EC2NodeClass. Every Node of such a NodePool has it in a cluster; Nodes that
/// people write may lack it, and would count as Nodes of another controller.
pub(crate) fn class_labels(view: &mut ClusterView) {
    let classes: BTreeMap<&str, &str> =
        view.node_pools.iter().map(|pool| (pool.name.as_str(), pool.template.node_class.as_str())).collect();
    for node in &mut view.nodes {
        let class = node.labels.get(labels::NODE_POOL).and_then(|pool| classes.get(pool.as_str()));
        if let Some(class) = class {
            node.labels.entry(labels::EC2_NODE_CLASS.to_owned()).or_insert_with(|| (*class).to_owned());
        }
    }
}

/// Gives resolved EC2NodeClasses with the hash of Karpenter, or without one, that of nodeless, as the catalog function would: nodes are
/// compared with their AMIs, subnets and security groups.
pub(crate) fn class_hashes(view: &mut ClusterView) {
    let is_resolved = |class: &EC2NodeClass| class.status.as_ref().is_some_and(|status| !status.amis.is_empty());
    for class in view.node_classes.values_mut().filter(|class| is_resolved(class)) {
        if node_class::present_hash(class).is_none() {
            let annotations = class.metadata.annotations.get_or_insert_default();
            annotations.insert(labels::EC2_NODE_CLASS_HASH_VERSION.to_owned(), nodeless_api::hash::VERSION.to_owned());
            nodeless_api::hash::renew_ec2_node_class(class);
        }
    }
}

/// Adds the placement groups that EC2NodeClasses select to a catalog without any, with as many partitions as a zone may have.
pub(crate) fn placement_groups(view: &ClusterView, catalog: &mut Catalog, assumptions: &mut Vec<String>) {
    if !catalog.placement_groups.is_empty() {
        return;
    }
    for (class, selector) in
        view.node_classes.iter().filter_map(|(name, class)| Some((name, class.spec.placement_group_selector.as_ref()?)))
    {
        let Some(name) = selector.name.as_ref().or(selector.id.as_ref()) else { continue };
        if catalog.placement_groups.iter().any(|group| group.name == *name || group.id == *name) {
            continue;
        }
        let id = selector.id.clone().unwrap_or_else(|| format!("pg-{name}"));
        let strategy = "partition".to_owned();
        catalog.placement_groups.push(NamedPlacementGroup { id, name: name.clone(), strategy, partitions: PARTITIONS });
        assumptions.push(format!(
            "placement group {name} of EC2NodeClass {class} is not in the catalog; it is assumed to have {PARTITIONS} partitions"
        ));
    }
}

/// Creates missing claims for Nodes of NodePools, and completes claims from their Nodes, pods and instance types.
///
/// - A Node without a condition `Ready` is ready.
/// - A claim without conditions is initialized if its Node is ready. So is the claim of a Node that has none. The time is the
///   creation of the Node.
/// - Without `lastPodEventTime`, the newest pod of the Node sets the time of the last pod event.
/// - Instance type, zone and capacity type come from the Node's labels, and the price comes from the catalog.
pub(crate) fn claims(
    view: &mut ClusterView,
    records: &mut Vec<NodeClaim>,
    known: &KnownTypes<'_>,
    assumptions: &mut Vec<String>,
) {
    assume_ready(view, assumptions);
    let owners = owners(view, records);
    let mut made = Vec::new();
    let mut missing = Vec::new();
    for node in &view.nodes {
        let Some(pool) = node.node_pool().filter(|_| !owners.contains_key(node.name.as_str())) else { continue };
        let pool = view.node_pools.iter().find(|one| one.name == pool);
        missing.push(node.name.as_str());
        made.push(claim(node, pool));
    }
    if !missing.is_empty() {
        let those = several("Node", &missing);
        assumptions.push(format!(
            "{those}: without a NodeClaim in the input; the claim gets the labels and annotations of the Node, its age as \
             the time since which it is ready, and the terminationGracePeriod of its NodePool; it does not expire"
        ));
    }
    let mut owners: BTreeMap<String, usize> =
        owners.into_iter().map(|(node, place)| (node.to_owned(), place)).collect();
    owners.extend(made.iter().enumerate().map(|(place, one)| (one.name.clone(), records.len() + place)));
    records.append(&mut made);
    let arrivals = arrivals(view.pods());
    let zone_ids: BTreeMap<&str, &str> =
        known.catalog.zones.iter().map(|zone| (zone.name.as_str(), zone.id.as_str())).collect();
    let mut unknown = Vec::new();
    for node in &mut view.nodes {
        let Some(claim) = owners.get(&node.name).and_then(|place| records.get_mut(*place)) else { continue };
        if claim.status.conditions.is_empty() && claim.status.termination.is_none() {
            initialize(claim, node);
        }
        let pool = view.node_pools.iter().find(|pool| claim.is_of(&pool.name));
        complete_labels(claim, node, pool, known, &zone_ids);
        if !complete_instance(claim, node) {
            unknown.push(node.name.clone());
        }
        complete_price(claim, known);
        claim.status.node_name.get_or_insert_with(|| node.name.clone());
        claim.status.last_pod_event = claim.status.last_pod_event.or(arrivals.get(&node.name).copied());
    }
    if !unknown.is_empty() {
        let those: Vec<&str> = unknown.iter().map(String::as_str).collect();
        assumptions.push(format!(
            "{}: without the labels {}, {} and {}, so its price is unknown, and it is not consolidated",
            several("Node", &those),
            labels::INSTANCE_TYPE,
            labels::ZONE,
            labels::CAPACITY_TYPE
        ));
    }
}

/// Nodes without conditions are assumed to be ready, because budgets count nodes that are not ready.
fn assume_ready(view: &mut ClusterView, assumptions: &mut Vec<String>) {
    let mut taken = Vec::new();
    for node in view.nodes.iter_mut().filter(|node| node.node_pool().is_some()) {
        if !node.conditions.iter().any(|condition| condition.kind == "Ready") {
            node.conditions.push(NodeCondition {
                kind: "Ready".to_owned(),
                status: Some(true),
                since: node.created,
                reason: String::new(),
            });
            taken.push(node.name.as_str());
        }
    }
    if !taken.is_empty() {
        assumptions.push(format!("{} without a condition Ready: assumed to be ready", several("Node", &taken)));
    }
}

/// The index of the claim of each Node that has one, joined as planning joins them.
fn owners<'v>(view: &'v ClusterView, records: &[NodeClaim]) -> BTreeMap<&'v str, usize> {
    let numbered = || records.iter().enumerate();
    let by_instance: BTreeMap<&str, usize> =
        numbered().filter_map(|(place, claim)| Some((claim.status.instance.as_ref()?.id.as_str(), place))).collect();
    let by_node: BTreeMap<&str, usize> =
        numbered().filter_map(|(place, claim)| Some((claim.status.node_name.as_deref()?, place))).collect();
    let owner = |node: &Node| {
        let instance = node.instance_id().and_then(|id| by_instance.get(id));
        // A claim of another instance belongs to a Node that is gone.
        let same = |place: &&usize| node.instance_id().is_none() || records[**place].status.instance.is_none();
        instance.or_else(|| by_node.get(node.name.as_str()).filter(same)).copied()
    };
    view.nodes.iter().filter_map(|node| Some((node.name.as_str(), owner(node)?))).collect()
}

/// The claim that a Node of a NodePool must have.
fn claim(node: &Node, pool: Option<&NodePool>) -> NodeClaim {
    let template = pool.map(|pool| &pool.template);
    let class = node.labels.get(labels::EC2_NODE_CLASS).or(template.map(|template| &template.node_class));
    let mut own = template.map(|template| template.labels.clone()).unwrap_or_default();
    own.extend(node.labels.clone());
    NodeClaim {
        name: node.name.clone(),
        uid: node.name.clone(),
        node_pool: node.node_pool().map(str::to_owned),
        node_class: class.cloned().unwrap_or_default(),
        created: node.created.unwrap_or(Timestamp::UNIX_EPOCH),
        version: 0,
        spec: NodeClaimSpec {
            labels: own,
            annotations: node.annotations.clone(),
            termination_grace_period: template.and_then(|template| template.termination_grace_period),
            ..NodeClaimSpec::default()
        },
        phase: Phase::Registered,
        status: NodeClaimStatus {
            capacity: node.capacity.clone(),
            allocatable: node.allocatable.clone(),
            node_name: Some(node.name.clone()),
            ..NodeClaimStatus::default()
        },
    }
}

/// A Node that is ready, and does not wait for its initialized label, is assumed to be ready since its creation.
fn initialize(claim: &mut NodeClaim, node: &Node) {
    let waits = node.labels.get(labels::INITIALIZED).map_or(node.is_registered(), |value| value != "true");
    if waits || !node.is_ready() {
        claim.phase = Phase::Registered;
        return;
    }
    claim.phase = Phase::Initialized;
    if let Some(created) = node.created {
        claim.set_condition(condition::INITIALIZED, ConditionStatus::True, "Initialized", "", created);
    }
}

/// The labels of a claim's Node, or those that its instance type implies. If the catalog does not list the type, these are the
/// labels that its name implies and the requirements of its NodePool, which launched it.
fn complete_labels(
    claim: &mut NodeClaim,
    node: &Node,
    pool: Option<&NodePool>,
    known: &KnownTypes<'_>,
    zone_ids: &BTreeMap<&str, &str>,
) {
    let own = &mut claim.status.labels;
    for (key, value) in &node.labels {
        own.entry(key.clone()).or_insert_with(|| value.clone());
    }
    if !claim.node_class.is_empty() {
        own.entry(labels::EC2_NODE_CLASS.to_owned()).or_insert_with(|| claim.node_class.clone());
    }
    if let Some(id) = node.labels.get(labels::ZONE).and_then(|zone| zone_ids.get(zone.as_str())) {
        own.entry(labels::ZONE_ID.to_owned()).or_insert_with(|| (*id).to_owned());
    }
    let implied = match known.type_of(Some(&claim.node_class), own) {
        Some(kind) => kind.requirements.single_values(),
        None => {
            let mut implied = own.get(labels::INSTANCE_TYPE).map(|name| named(name)).unwrap_or_default();
            let required = pool.into_iter().flat_map(|pool| pool.template.requirements.iter());
            for (key, requirement) in required.filter(|(key, _)| key.starts_with(OF_INSTANCES)) {
                if let Some(value) = requirement.values().and_then(|values| values.iter().next()) {
                    implied.entry(key.to_owned()).or_insert_with(|| value.clone());
                }
            }
            implied
        }
    };
    for (key, value) in implied {
        own.entry(key).or_insert(value);
    }
}

/// The labels that the name of an instance type implies: `m5.large` is of category m, family m5, generation 5, size large.
fn named(name: &str) -> StringMap {
    let Some((family, size)) = name.split_once('.') else { return StringMap::new() };
    let category: String = family.chars().take_while(char::is_ascii_alphabetic).collect();
    let generation: String =
        family.chars().skip_while(char::is_ascii_alphabetic).take_while(char::is_ascii_digit).collect();
    let of = [
        (labels::INSTANCE_CATEGORY, category.as_str()),
        (labels::INSTANCE_FAMILY, family),
        (labels::INSTANCE_GENERATION, &generation),
        (labels::INSTANCE_SIZE, size),
    ];
    let stated = of.into_iter().filter(|(_, value)| !value.is_empty());
    stated.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// The instance according to its labels, and whether they are sufficient. If the provider id of the Node is not of EC2, it gets a
/// unique one, so that the Node and its claim are joined.
fn complete_instance(claim: &mut NodeClaim, node: &mut Node) -> bool {
    if claim.status.instance.is_none() {
        let label = |key: &str| claim.status.labels.get(key).cloned();
        let capacity_type = label(labels::CAPACITY_TYPE).and_then(|text| CapacityType::from_label(&text));
        let (Some(instance_type), Some(zone), Some(capacity_type)) =
            (label(labels::INSTANCE_TYPE), label(labels::ZONE), capacity_type)
        else {
            return false;
        };
        let id = node.instance_id().map_or_else(|| format!("i-{}", node.name), str::to_owned);
        claim.status.instance = Some(LaunchedInstance {
            id,
            instance_type,
            zone,
            capacity_type,
            price: 0.0,
            image_id: String::new(),
            private_dns_name: None,
            reservation_id: label(labels::CAPACITY_RESERVATION_ID),
            subnet_id: None,
            security_group_ids: Vec::new(),
            launched: claim.created,
            certificate_authority: None,
        });
    }
    if let (Some(instance), None) = (&claim.status.instance, node.instance_id()) {
        node.provider_id = Some(provider_id(&instance.zone, &instance.id));
    }
    true
}

/// The price according to the catalog, if its NodePool does not launch this instance type any more.
fn complete_price(claim: &mut NodeClaim, known: &KnownTypes<'_>) {
    let kind = known.type_of(Some(&claim.node_class), &claim.status.labels);
    if let (Some(instance), Some(kind)) = (&mut claim.status.instance, kind)
        && instance.price <= 0.0
    {
        instance.price = price(&claim.status.labels, std::slice::from_ref(&kind));
    }
}

/// When the newest pod of each Node started, except for pods of DaemonSets.
fn arrivals<'p>(pods: impl Iterator<Item = &'p Pod>) -> BTreeMap<String, Timestamp> {
    let mut latest: BTreeMap<String, Timestamp> = BTreeMap::new();
    for pod in pods.filter(|pod| pod.is_active() && !pod.is_owned_by_daemon_set()) {
        if let (Some(node), Some(came)) = (&pod.node_name, pod.start_time.or(pod.created)) {
            let known = latest.entry(node.clone()).or_insert(came);
            *known = came.max(*known);
        }
    }
    latest
}
