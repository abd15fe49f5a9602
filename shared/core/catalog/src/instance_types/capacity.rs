//! The capacity of an instance type.

use nodeless_model::resources::name;
use nodeless_model::root_volume::quantity;
use nodeless_model::{Quantity, ResourceList, RootVolumes};

use super::resource;
use crate::node_class::{AmiFamily, BlockDevice, InstanceStorePolicy, KubeletSettings, NodeClassSettings};
use crate::type_facts::{Architecture, TypeFacts};

/// The number of pods of a node without a limit by interfaces or `maxPods`: the kubelet's default.
const DEFAULT_MAX_PODS: u32 = 110;
/// Memory of arm64 types in MiB that EC2 reports but that is not available to the system.
const ARM64_HIDDEN_MEMORY_MIB: u64 = 64;
const BYTES_PER_MIB: f64 = 1_048_576.0;
const BYTES_PER_GB: i64 = 1_000_000_000;

/// The capacity, with this root volume if a NodePool determines its size.
pub(super) fn capacity(
    facts: &TypeFacts,
    settings: &NodeClassSettings,
    kubelet: &KubeletSettings,
    root_volume: Option<&RootVolumes>,
) -> ResourceList {
    let storage = || local_storage(facts, settings).unwrap_or_else(|| volume_of_class(settings));
    let mut capacity = ResourceList::from([
        (name::CPU, Quantity::from_units(i64::from(facts.cpus))),
        (name::MEMORY, memory(facts, settings)),
        (name::EPHEMERAL_STORAGE, root_volume.map_or_else(storage, |volumes| quantity(volumes.planned.gib))),
        (name::PODS, Quantity::from_units(i64::from(pods(facts, settings, kubelet)))),
    ]);
    for (name, count) in devices(facts, settings) {
        if count > 0 {
            capacity.set(name, Quantity::from_units(i64::from(count)));
        }
    }
    capacity
}

/// The memory that nodes of this type reported, or else the memory in EC2 minus the overhead of the hypervisor and the
/// system. The floating-point operations have the same order as in Karpenter, so that the result is equal to the MiB.
fn memory(facts: &TypeFacts, settings: &NodeClassSettings) -> Quantity {
    if let Some(learned) = settings.learned_memory.get(&facts.name) {
        return *learned;
    }
    let hidden = if facts.architecture == Architecture::Arm64 { ARM64_HIDDEN_MEMORY_MIB } else { 0 };
    let stated = facts.memory_mib.saturating_sub(hidden);
    #[expect(clippy::cast_precision_loss, reason = "sizes of memory in bytes are far below 2^53")]
    let overhead = (stated as f64 * BYTES_PER_MIB * settings.vm_memory_overhead_percent / 1024.0 / 1024.0).ceil();
    #[expect(clippy::cast_possible_truncation, reason = "float-to-integer casts saturate")]
    let left = i64::try_from(stated).unwrap_or(i64::MAX).saturating_sub(overhead as i64);
    Quantity::from_mebibytes(left)
}

/// The disks of the instance, if the data of containers is there.
pub(super) fn local_storage(facts: &TypeFacts, settings: &NodeClassSettings) -> Option<Quantity> {
    let gigabytes =
        facts.local_storage_gb.filter(|_| settings.instance_store_policy == Some(InstanceStorePolicy::Raid0))?;
    Some(Quantity::from_units(i64::try_from(gigabytes).unwrap_or(i64::MAX).saturating_mul(BYTES_PER_GB)))
}

/// The size of the volume for the data of containers that the EC2NodeClass states.
pub(super) fn volume_of_class(settings: &NodeClassSettings) -> Quantity {
    mapped_size(settings)
        .unwrap_or_else(|| Quantity::from_mebibytes(settings.ami_family.default_ephemeral_gib().saturating_mul(1024)))
}

/// The size of that disk in the block device mappings of the EC2NodeClass, if any.
fn mapped_size(settings: &NodeClassSettings) -> Option<Quantity> {
    let size = |device: &BlockDevice| device.volume_size;
    let devices = &settings.block_devices;
    if let Some(root) = devices.iter().find(|device| device.root_volume).and_then(size) {
        return Some(root);
    }
    if settings.ami_family == AmiFamily::Custom {
        return devices.last().and_then(size);
    }
    let ephemeral = settings.ami_family.ephemeral_device();
    devices.iter().find(|device| device.device_name.as_deref() == ephemeral).and_then(size)
}

/// The maximum number of pods on a node of this type, with its kubelet settings.
pub(super) fn pods(facts: &TypeFacts, settings: &NodeClassSettings, kubelet: &KubeletSettings) -> u32 {
    let family = settings.ami_family;
    let pods = match kubelet.max_pods {
        Some(max_pods) => max_pods,
        None if family.pods_limited_by_interfaces() => interface_limited_pods(facts, settings, settings.reserved_enis),
        None => DEFAULT_MAX_PODS,
    };
    match kubelet.pods_per_core {
        Some(per_core) if per_core > 0 && family.honours_pods_per_core() => {
            pods.min(per_core.saturating_mul(facts.cpus))
        }
        _ => pods,
    }
}

/// The number of pods that get an address from the VPC CNI without prefix delegation. One address of each usable interface of
/// the default card is its primary address, and two pods use the host network. 0 if there is no usable interface; the
/// kubelet's default if the cards of the type are unknown.
#[must_use]
pub fn interface_limited_pods(facts: &TypeFacts, settings: &NodeClassSettings, reserved_enis: u32) -> u32 {
    if facts.network_cards.is_empty() {
        return DEFAULT_MAX_PODS;
    }
    let card = facts.network_cards.iter().find(|card| card.index == facts.default_network_card);
    let efa_only = settings.efa_only_interfaces().filter(|interface| interface.network_card_index == 0).count();
    let usable = card
        .map_or(0, |card| card.maximum_interfaces)
        .saturating_sub(reserved_enis)
        .saturating_sub(u32::try_from(efa_only).unwrap_or(u32::MAX));
    if usable == 0 { 0 } else { usable.saturating_mul(facts.ipv4_per_interface.saturating_sub(1)).saturating_add(2) }
}

/// Extended resources, with 0 for those that the type does not have.
fn devices(facts: &TypeFacts, settings: &NodeClassSettings) -> [(&'static str, u32); 8] {
    let gpus = |manufacturer: &str| {
        let gpus = facts.gpus.iter().filter(|gpu| gpu.manufacturer.eq_ignore_ascii_case(manufacturer));
        gpus.map(|gpu| gpu.count).sum()
    };
    let neuron_devices = facts.neuron_devices.iter().map(|device| device.count).sum();
    let neuron_cores = facts.neuron_devices.first().map_or(0, |device| device.count * device.cores);
    let efas = if settings.network_interfaces.is_empty() {
        facts.maximum_efa_interfaces
    } else {
        u32::try_from(settings.efa_only_interfaces().count()).unwrap_or(u32::MAX)
    };
    let windows_addresses = match facts.vpc_ipv4_per_interface {
        Some(addresses) if settings.ami_family.is_windows() => addresses.saturating_sub(1),
        _ => 0,
    };
    [
        (resource::NVIDIA_GPU, gpus("NVIDIA")),
        (resource::AMD_GPU, gpus("AMD")),
        (resource::HABANA_GAUDI, gpus("Habana")),
        (resource::AWS_NEURON, neuron_devices),
        (resource::AWS_NEURON_CORE, neuron_cores),
        (resource::AWS_POD_ENI, facts.branch_interfaces.unwrap_or(0)),
        (resource::AWS_PRIVATE_IPV4, windows_addresses),
        (resource::AWS_EFA, efas),
    ]
}
