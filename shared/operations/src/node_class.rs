//! Converts an EC2NodeClass to the inputs of the catalog and of the lifecycle of a claim.

use nodeless_api::nodeclass::kubelet::{self, KubeletConfiguration, MaxPods, ReservedField};
use nodeless_api::nodeclass::{self, SpecProblems};
use nodeless_api::view::ClusterView;
use nodeless_api::{Condition, ConditionStatus, EC2NodeClass};
use nodeless_catalog::NodeClassSettings;
use nodeless_catalog::facts::Zone;
use nodeless_catalog::node_class::{
    AmiFamily, BlockDevice, CapacityReservation, InstanceStorePolicy, KubeletExpressions, KubeletSettings,
    NetworkInterface, PlacementGroup, ReservationKind, RootVolumeSettings,
};
use nodeless_catalog::stored::{Catalog, NamedPlacementGroup};
use nodeless_disruption::{ClassImage, NodeClassFacts};
use nodeless_expressions::Expression;
use nodeless_launch::fleet;
use nodeless_launch::node_class::{check, validation};
use nodeless_launch::volume_prices;
use nodeless_lifecycle::NodeClassState;
use nodeless_model::{NodeClaim, NodePool, Quantity, ReservedInstances, ResourceList, RootVolumeSize, resources};
use nodeless_ports::queue::NodeClassGeneration;
use std::collections::{BTreeMap, BTreeSet};

/// Whether instances may be launched from the class now.
///
/// The status of an earlier generation counts if the present spec resolves to the same. Only the spec itself is validated then,
/// because EC2 may not have validated it yet.
#[must_use]
pub fn state(class: &EC2NodeClass) -> NodeClassState {
    if class.metadata.deletion_timestamp.is_some() {
        return NodeClassState::Terminating;
    }
    let Some(ready) = ready(class) else { return NodeClassState::NotYetKnown };
    let changed = matches!(
        (ready.observed_generation, class.metadata.generation),
        (Some(observed), Some(present)) if observed != present
    );
    if changed && !check::resolves_to_its_status(class) {
        return NodeClassState::NotYetKnown;
    }
    let not_ready = |reason: &str, message: &str| {
        let separator = if message.is_empty() { "" } else { ": " };
        NodeClassState::NotReady { message: format!("{reason}{separator}{message}") }
    };
    match ready.status {
        ConditionStatus::True => match changed.then(|| validation::validate_spec(&class.spec)).flatten() {
            Some(problem) => not_ready(problem.reason, &problem.message),
            None => NodeClassState::Ready,
        },
        ConditionStatus::Unknown => NodeClassState::NotYetKnown,
        ConditionStatus::False => not_ready(&ready.reason, &ready.message),
    }
}

fn ready(class: &EC2NodeClass) -> Option<&Condition> {
    class.status.iter().flat_map(|status| &status.conditions).find(|condition| condition.type_ == "Ready")
}

/// The EC2NodeClasses to resolve, with the catalog. First those that are new, changed or being deleted: the generation in their status is
/// missing or out of date. Then those of NodePools that terminate nodes first, while pods are pending and a capacity reservation has
/// more instances in use by the catalog than claims: an instance may have ended since the catalog was read.
#[must_use]
pub fn to_resolve(view: &ClusterView, claims: &[NodeClaim], catalog: &Catalog) -> Vec<NodeClassGeneration> {
    let unresolved = view.node_classes.values().filter_map(unresolved_generation);
    unresolved.chain(with_ended_instances(view, claims, catalog)).collect()
}

fn unresolved_generation(class: &EC2NodeClass) -> Option<NodeClassGeneration> {
    let present = generation(class)?;
    let observed = ready(class).map(|ready| ready.observed_generation.unwrap_or(present.generation));
    (observed != Some(present.generation)).then_some(present)
}

fn generation(class: &EC2NodeClass) -> Option<NodeClassGeneration> {
    let metadata = &class.metadata;
    Some(NodeClassGeneration {
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        generation: metadata.generation?,
    })
}

fn with_ended_instances(view: &ClusterView, claims: &[NodeClaim], catalog: &Catalog) -> Vec<NodeClassGeneration> {
    let asks = |pool: &&NodePool| pool.options.terminate_first.valid().is_some_and(|first| first.drift || first.repair);
    let asking = view.node_pools.iter().filter(asks);
    let asking: BTreeSet<&str> = asking.map(|pool| pool.template.node_class.as_str()).collect();
    if asking.is_empty() || view.pods.iter().all(|pod| pod.node_name.is_some()) {
        return Vec::new();
    }
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for id in claims.iter().filter_map(|claim| claim.status.instance.as_ref()?.reservation_id.as_deref()) {
        *counts.entry(id).or_default() += 1;
    }
    let has_ended = |id: &str| {
        let used = catalog.reservations.get(id).and_then(|instances| instances.used);
        used.is_some_and(|used| used > counts.get(id).copied().unwrap_or(0))
    };
    let classes = view.node_classes.iter().filter(|(name, _)| asking.contains(name.as_str())).map(|(_, class)| class);
    let reservations = |class: &EC2NodeClass| capacity_reservations(class).iter().any(|held| has_ended(&held.id));
    classes.filter(|class| reservations(class)).filter_map(generation).collect()
}

/// The settings of the class that change the properties of an instance type.
///
/// Capacity reservations count as fully used, because their status does not contain the number of available instances, and there
/// is no placement group. [`settings_with`] adds both.
///
/// # Errors
/// An error for each invalid field.
pub fn settings(class: &EC2NodeClass) -> Result<NodeClassSettings, SpecProblems> {
    let spec = &class.spec;
    let Some(family) = spec.resolved_ami_family() else {
        let problem = "spec.amiFamily: neither set nor implied by an alias in amiSelectorTerms";
        return Err(problem.to_owned().into());
    };
    let kubelet = kubelet_settings(class)?;
    let mut settings = NodeClassSettings::new(ami_family(family), zones(class));
    settings.kubelet = kubelet;
    settings.block_devices = block_devices(class)?;
    settings.instance_store_policy =
        spec.instance_store_policy.map(|nodeclass::InstanceStorePolicy::Raid0| InstanceStorePolicy::Raid0);
    settings.network_interfaces = spec.network_interfaces.iter().map(network_interface).collect();
    settings.ip_prefix_count = spec.ip_prefix_count.and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
    settings.connection_tracking = spec.connection_tracking.is_some();
    settings.nested_virtualization = spec
        .cpu_options
        .as_ref()
        .is_some_and(|options| options.nested_virtualization == Some(nodeclass::Toggle::Enabled));
    settings.enclaves = spec.enclaves();
    settings.capacity_reservations = capacity_reservations(class);
    Ok(settings)
}

fn ami_family(family: nodeclass::AmiFamily) -> AmiFamily {
    match family {
        nodeclass::AmiFamily::AL2 => AmiFamily::Al2,
        nodeclass::AmiFamily::AL2023 => AmiFamily::Al2023,
        nodeclass::AmiFamily::Bottlerocket => AmiFamily::Bottlerocket,
        nodeclass::AmiFamily::Custom => AmiFamily::Custom,
        nodeclass::AmiFamily::Windows2019 => AmiFamily::Windows2019,
        nodeclass::AmiFamily::Windows2022 => AmiFamily::Windows2022,
        nodeclass::AmiFamily::Windows2025 => AmiFamily::Windows2025,
    }
}

/// The zones of its subnets.
fn zones(class: &EC2NodeClass) -> Vec<Zone> {
    let subnets = class.status.iter().flat_map(|status| &status.subnets);
    let zones: BTreeSet<Zone> = subnets
        .map(|subnet| Zone { name: subnet.zone.clone(), id: subnet.zone_id.clone().unwrap_or_default() })
        .collect();
    zones.into_iter().collect()
}

fn kubelet_settings(class: &EC2NodeClass) -> Result<KubeletSettings, SpecProblems> {
    let from = kubelet::parse(&class.spec.kubelet)?;
    let mut problems = Vec::new();
    let mut threshold = |signal: &str| {
        let text = from.eviction_hard.get(signal)?;
        text.parse().map_err(|error| problems.push(format!("spec.kubelet.evictionHard.{signal}: {error}"))).ok()
    };
    let eviction_memory_available = threshold("memory.available");
    let eviction_nodefs_available = threshold("nodefs.available");
    // What is no quantity is an expression.
    let quantities = |field: ReservedField| {
        let mut parsed = ResourceList::new();
        for (name, quantity) in from.reserved(field) {
            if let Ok(quantity) = quantity.0.parse() {
                parsed.set(name, quantity);
            }
        }
        parsed
    };
    let settings = KubeletSettings {
        max_pods: match &from.max_pods {
            Some(MaxPods::Count(count)) => Some(*count),
            Some(MaxPods::Expression(_)) | None => None,
        },
        pods_per_core: from.pods_per_core,
        kube_reserved: quantities(ReservedField::Kube),
        system_reserved: quantities(ReservedField::System),
        expressions: expressions(&from, &mut problems),
        eviction_memory_available,
        eviction_nodefs_available,
    };
    SpecProblems(problems).or(settings)
}

fn expressions(kubelet: &KubeletConfiguration, problems: &mut Vec<String>) -> KubeletExpressions {
    let mut parse = |field: &str, text: &str| {
        Expression::parse(text).map_err(|error| problems.push(format!("spec.kubelet.{field}: {error}"))).ok()
    };
    let max_pods = kubelet.max_pods_expression().and_then(|text| parse("maxPods", text));
    let mut expressions = KubeletExpressions { max_pods, ..KubeletExpressions::default() };
    for (field, resource, text) in kubelet.reserved_expressions() {
        let Some(expression) = parse(&format!("{}.{resource}", field.name()), text) else { continue };
        let of_field = match field {
            ReservedField::Kube => &mut expressions.kube_reserved,
            ReservedField::System => &mut expressions.system_reserved,
        };
        of_field.insert(resource.to_owned(), expression);
    }
    expressions
}

fn block_devices(class: &EC2NodeClass) -> Result<Vec<BlockDevice>, SpecProblems> {
    let mut problems = Vec::new();
    let mut devices = Vec::new();
    for (index, mapping) in class.spec.block_device_mappings.iter().enumerate() {
        let text = mapping.ebs.as_ref().and_then(|volume| volume.volume_size.as_ref());
        let volume_size = match text.map(|text| text.parse::<Quantity>()).transpose() {
            Ok(size) => size,
            Err(error) => {
                problems.push(format!("spec.blockDeviceMappings[{index}].ebs.volumeSize: {error}"));
                None
            }
        };
        devices.push(BlockDevice {
            device_name: mapping.device_name.clone(),
            root_volume: mapping.root_volume.unwrap_or(false),
            volume_size,
        });
    }
    SpecProblems(problems).or(devices)
}

fn network_interface(interface: &nodeclass::NetworkInterface) -> NetworkInterface {
    NetworkInterface {
        network_card_index: u32::try_from(interface.network_card_index).unwrap_or(0),
        device_index: u32::try_from(interface.device_index).unwrap_or(0),
        efa_only: interface.interface_type == nodeclass::InterfaceType::EfaOnly,
    }
}

fn capacity_reservations(class: &EC2NodeClass) -> Vec<CapacityReservation> {
    let reservations = class.status.iter().flat_map(|status| &status.capacity_reservations);
    reservations
        .map(|reservation| CapacityReservation {
            id: reservation.id.clone(),
            instance_type: reservation.instance_type.clone(),
            zone: reservation.availability_zone.clone(),
            kind: match reservation.reservation_type {
                nodeclass::ReservationType::Default => ReservationKind::Default,
                nodeclass::ReservationType::CapacityBlock => ReservationKind::CapacityBlock,
            },
            interruptible: reservation.interruptible.unwrap_or(false),
            instances: ReservedInstances::default(),
            expiring: reservation.state == nodeclass::ReservationState::Expiring,
        })
        .collect()
}

/// The settings of the class with data of the catalog: the available instances of its capacity reservations, and its placement
/// group; and with the settings of the deployment for the capacity of all nodes.
///
/// # Errors
/// An error for each field that is invalid or names something that is not in the catalog.
pub fn settings_with(class: &EC2NodeClass, catalog: &Catalog) -> Result<NodeClassSettings, SpecProblems> {
    let mut settings = settings(class)?;
    settings.reserved_enis = catalog.capacity.reserved_enis;
    settings.vm_memory_overhead_percent = catalog.capacity.memory_overhead.share();
    for reservation in &mut settings.capacity_reservations {
        reservation.instances = catalog.reservations.get(&reservation.id).copied().unwrap_or_default();
    }
    if let Some(selector) = &class.spec.placement_group_selector {
        settings.placement_group = Some(placement_group(catalog, selector)?);
    }
    Ok(settings)
}

/// The settings of a class with the root volume that a NodePool asks for, for pods with these requests for ephemeral storage if they are
/// known. Without a volume whose size can be set the settings are those of the class.
#[must_use]
pub fn with_root_volume(
    settings: NodeClassSettings,
    class: &EC2NodeClass,
    size: Option<RootVolumeSize>,
    requests: Option<Quantity>,
) -> NodeClassSettings {
    let price = volume_prices::of_root_volume_gib(&class.spec).ok();
    let root_volume =
        size.zip(price).map(|(size, dollars_per_gib)| RootVolumeSettings { size, requests, dollars_per_gib });
    NodeClassSettings { root_volume, ..settings }
}

/// The settings of a class for the nodes of a claim.
#[must_use]
pub fn for_claim(settings: NodeClassSettings, class: &EC2NodeClass, claim: &NodeClaim) -> NodeClassSettings {
    let requests = claim.spec.requests.get(resources::name::EPHEMERAL_STORAGE);
    with_root_volume(settings, class, claim.root_volume_size(), Some(requests))
}

/// The placement group that a class selects.
fn placement_group(
    catalog: &Catalog,
    selector: &nodeclass::PlacementGroupSelector,
) -> Result<PlacementGroup, SpecProblems> {
    let is = |group: &&NamedPlacementGroup| {
        selector.id.as_ref().is_some_and(|id| *id == group.id)
            || selector.name.as_ref().is_some_and(|name| *name == group.name)
    };
    let group = catalog.placement_groups.iter().find(is);
    let group = group.ok_or_else(|| {
        SpecProblems::from("spec.placementGroupSelector: the catalog has no such placement group".to_owned())
    })?;
    Ok(PlacementGroup { id: group.id.clone(), strategy: group.strategy.clone(), partitions: group.partitions })
}

/// The facts that drift compares nodes with; `None` before the class is resolved for the first time.
#[must_use]
pub fn facts(class: &EC2NodeClass) -> Option<NodeClassFacts> {
    let hash = present_hash(class)?;
    let status = class.status.clone().unwrap_or_default();
    let image =
        |ami: &nodeclass::Ami| Some(ClassImage { id: ami.id.clone(), requirements: fleet::image_requirements(ami)? });
    Some(NodeClassFacts {
        hash,
        images: status.amis.iter().filter_map(image).collect(),
        subnet_ids: status.subnets.into_iter().map(|subnet| subnet.id).collect(),
        security_group_ids: status.security_groups.into_iter().map(|group| group.id).collect(),
        reservation_ids: status.capacity_reservations.into_iter().map(|reservation| reservation.id).collect(),
        certificate_authority: class.certificate_authority().map(str::to_owned),
    })
}

/// The annotations of a claim that is created from it, for drift.
#[must_use]
pub fn hash_annotations(class: &EC2NodeClass) -> BTreeMap<String, String> {
    use nodeless_model::labels::{EC2_NODE_CLASS_HASH, EC2_NODE_CLASS_HASH_VERSION};
    let present = class.metadata.annotations.iter().flatten();
    present
        .filter(|(key, _)| [EC2_NODE_CLASS_HASH, EC2_NODE_CLASS_HASH_VERSION].contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// The hash of its static fields, if it was computed by nodeless. Right after a migration, the class still has Karpenter's hash.
#[must_use]
pub fn present_hash(class: &EC2NodeClass) -> Option<String> {
    use nodeless_model::labels::{EC2_NODE_CLASS_HASH, EC2_NODE_CLASS_HASH_VERSION};
    let mut present = hash_annotations(class);
    let ours = present.get(EC2_NODE_CLASS_HASH_VERSION).is_some_and(|made| made == nodeless_api::hash::VERSION);
    present.remove(EC2_NODE_CLASS_HASH).filter(|hash| ours && !hash.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_catalog::Facts;
    use nodeless_model::labels;
    use nodeless_model::test_support::{node_pool, pod};
    use serde_json::{Value, json};
    use std::sync::Arc;

    /// A class of generation 3, whose Ready states this.
    fn class(name: &str, ready: &Value) -> (String, EC2NodeClass) {
        let discovery = json!([{ "tags": { "karpenter.sh/discovery": "example" } }]);
        let mut class = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": { "name": name, "uid": format!("uid-of-{name}"), "generation": 3 },
            "spec": {
                "role": "node", "amiSelectorTerms": [{ "alias": "al2023@latest" }],
                "subnetSelectorTerms": discovery, "securityGroupSelectorTerms": discovery,
            },
        });
        if !ready.is_null() {
            class["status"] = json!({ "conditions": [ready] });
        }
        (name.to_owned(), serde_json::from_value(class).unwrap())
    }

    /// The state of a class of generation 3 whose status, of generation 2, is `ready`, after these fields were changed.
    fn changed(ready: &str, fields: &Value) -> NodeClassState {
        let condition = json!({
            "type": "Ready", "status": ready, "reason": "Why", "message": "because", "observedGeneration": 2,
            "lastTransitionTime": "2026-11-22T00:00:00Z",
        });
        let (_, mut class) = class("default", &condition);
        class.status.as_mut().unwrap().resolved_hash = Some(nodeless_api::hash::resolved_fields(&class.spec));
        let mut spec = serde_json::to_value(&class.spec).unwrap();
        spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        class.spec = serde_json::from_value(spec).unwrap();
        assert_eq!(unresolved_generation(&class).map(|unresolved| unresolved.generation), Some(3));
        state(&class)
    }

    #[test]
    fn the_status_of_an_earlier_generation_counts_while_the_spec_resolves_to_the_same() {
        let tag = json!({ "tags": { "team": "search" } });
        assert_eq!(changed("True", &tag), NodeClassState::Ready);
        assert_eq!(changed("Unknown", &tag), NodeClassState::NotYetKnown);
        assert_eq!(changed("False", &tag), NodeClassState::NotReady { message: "Why: because".to_owned() });
        for ready in ["True", "False"] {
            let terms = json!({ "subnetSelectorTerms": [{ "id": "subnet-1" }] });
            assert_eq!(changed(ready, &terms), NodeClassState::NotYetKnown);
        }
        let (_, mut class) = class("default", &Value::Null);
        class.metadata.deletion_timestamp = Some(jiff::Timestamp::UNIX_EPOCH.into());
        assert_eq!(state(&class), NodeClassState::Terminating);
    }

    #[test]
    fn a_change_that_makes_the_spec_invalid_stops_launches() {
        for (fields, reason) in [
            (json!({ "tags": { "aws:team": "search" } }), "TagValidationFailed"),
            (json!({ "kubelet": { "maxPodz": 20 } }), "InvalidKubeletConfiguration"),
        ] {
            let NodeClassState::NotReady { message } = changed("True", &fields) else { panic!("{fields}") };
            assert!(message.starts_with(reason), "{message}");
        }
    }

    #[test]
    fn a_class_is_unresolved_until_its_status_is_of_its_generation() {
        let ready = |observed: Value| {
            let mut ready = json!({
                "type": "Ready", "status": "Unknown", "reason": "AwaitingDryRun", "message": "",
                "lastTransitionTime": "2026-11-22T00:00:00Z",
            });
            if !observed.is_null() {
                ready["observedGeneration"] = observed;
            }
            ready
        };
        let classes = BTreeMap::from([
            class("changed", &ready(json!(2))),
            class("new", &Value::Null),
            class("of-karpenter", &ready(Value::Null)),
            class("resolved", &ready(json!(3))),
        ]);
        let view = ClusterView { node_classes: classes, ..ClusterView::default() };
        let found = to_resolve(&view, &[], &catalog());
        let names: Vec<&str> = found.iter().map(|class| class.name.as_str()).collect();
        assert_eq!(names, ["changed", "new"]);
        assert_eq!((found[0].uid.as_str(), found[0].generation), ("uid-of-changed", 3));
    }

    fn catalog() -> Catalog {
        Catalog::synthetic(1, Facts::embedded().unwrap())
    }

    #[test]
    fn a_class_is_resolved_again_if_an_instance_in_its_reservation_has_ended_while_pods_wait() {
        let (name, mut of_reservation) = class("default", &Value::Null);
        of_reservation.status = serde_json::from_value(json!({
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 3,
                "lastTransitionTime": "2026-11-22T00:00:00Z",
            }],
            "capacityReservations": [{
                "id": "cr-1", "availabilityZone": "us-east-1a", "instanceMatchCriteria": "targeted", "instanceType": "m5.large",
                "ownerID": "111122223333",
            }],
        }))
        .unwrap();
        let mut view = ClusterView {
            node_pools: vec![node_pool("default")],
            node_classes: [(name, of_reservation)].into(),
            pods: vec![Arc::new(pod("web", 100, 100))],
            ..ClusterView::default()
        };
        view.node_pools[0].options.set(labels::TERMINATE_FIRST, Some("drift"));
        let mut catalog = catalog();
        let resolves = |view: &ClusterView, catalog: &Catalog| to_resolve(view, &[], catalog).len();
        assert_eq!(resolves(&view, &catalog), 0, "nothing is known of the reservation");
        catalog.reservations = [("cr-1".to_owned(), ReservedInstances { available: 0, used: Some(1) })].into();
        assert_eq!(resolves(&view, &catalog), 1);
        catalog.reservations = [("cr-1".to_owned(), ReservedInstances { available: 1, used: Some(0) })].into();
        assert_eq!(resolves(&view, &catalog), 0, "the catalog has it");
        catalog.reservations = [("cr-1".to_owned(), ReservedInstances { available: 0, used: Some(1) })].into();
        let asks = view.node_pools[0].clone();
        view.node_pools[0].options.set(labels::TERMINATE_FIRST, None);
        assert_eq!(resolves(&view, &catalog), 0, "its nodes are not terminated first");
        view.node_pools[0] = asks;
        view.pods.clear();
        assert_eq!(resolves(&view, &catalog), 0, "no pod waits");
    }
}
