//! The resources that are reserved for Kubernetes and the system, and the eviction thresholds of the kubelet.

use nodeless_model::instance_type::Overhead;
use nodeless_model::resources::name;
use nodeless_model::{Quantity, ResourceList};

use super::capacity::{interface_limited_pods, pods};
use crate::node_class::{EvictionThreshold, KubeletSettings, NodeClassSettings};
use crate::type_facts::TypeFacts;

/// The kube-reserved disk in MiB.
const KUBE_RESERVED_EPHEMERAL_MIB: i64 = 1024;
/// The default `memory.available` threshold of EKS images in MiB.
const EVICTION_MEMORY_MIB: i64 = 100;
/// The default `nodefs.available` threshold, as a fraction of the disk.
const EVICTION_STORAGE_SHARE: f64 = 0.1;

/// Ranges of cpu in millicores (from, to), and the reserved fraction of each.
const CPU_BANDS: [(u64, u64, f64); 4] =
    [(0, 1_000, 0.06), (1_000, 2_000, 0.01), (2_000, 4_000, 0.005), (4_000, 1 << 31, 0.002_5)];

pub(super) fn overhead(
    facts: &TypeFacts,
    settings: &NodeClassSettings,
    kubelet: &KubeletSettings,
    capacity: &ResourceList,
) -> Overhead {
    Overhead {
        kube_reserved: kube_reserved(facts, settings, kubelet),
        system_reserved: kubelet.system_reserved.clone(),
        eviction_threshold: eviction_threshold(kubelet, capacity),
    }
}

pub(super) fn kube_reserved(
    facts: &TypeFacts,
    settings: &NodeClassSettings,
    kubelet: &KubeletSettings,
) -> ResourceList {
    let pods = if settings.ami_family.reserves_memory_for_interfaces_pods() {
        interface_limited_pods(facts, settings, 0)
    } else {
        pods(facts, settings, kubelet)
    };
    let mut reserved = ResourceList::from([
        (name::CPU, Quantity::from_milli(kube_reserved_cpu_milli(facts.cpus))),
        (name::MEMORY, Quantity::from_mebibytes(kube_reserved_memory_mib(pods))),
        (name::EPHEMERAL_STORAGE, Quantity::from_mebibytes(KUBE_RESERVED_EPHEMERAL_MIB)),
    ]);
    for (name, quantity) in kubelet.kube_reserved.iter() {
        reserved.set(name, quantity);
    }
    reserved
}

/// The kube-reserved millicores for a number of cpus: 6% of the first, 1% of the second, 0.5% of the next two and 0.25% of
/// the others, each rounded down to whole millicores, as in EKS images.
#[must_use]
pub fn kube_reserved_cpu_milli(cpus: u32) -> i64 {
    let milli = u64::from(cpus) * 1000;
    let reserved_of = |(from, to, share): (u64, u64, f64)| {
        #[expect(clippy::cast_precision_loss, reason = "bands are far below 2^53")]
        let reserved = milli.min(to).saturating_sub(from) as f64 * share;
        #[expect(clippy::cast_possible_truncation, reason = "rounded down to whole millicores on purpose")]
        let whole = reserved as i64;
        whole
    };
    CPU_BANDS.into_iter().map(reserved_of).sum()
}

/// The kube-reserved memory in MiB for a number of pods, as in EKS images.
#[must_use]
pub fn kube_reserved_memory_mib(pods: u32) -> i64 {
    11 * i64::from(pods) + 255
}

/// The smallest disk on which requests fit beside this reservation and the eviction threshold, and how much of it the requests
/// take with their part of the threshold.
pub(super) fn disk_for(requests: Quantity, reserved: Quantity, kubelet: &KubeletSettings) -> (Quantity, Quantity) {
    let with_threshold = |size: Quantity| match kubelet.eviction_nodefs_available {
        None => whole_units(size.as_f64() / (1.0 - EVICTION_STORAGE_SHARE)),
        Some(EvictionThreshold::Percent(percent)) if percent < 100.0 => {
            whole_units(size.as_f64() / (1.0 - percent / 100.0))
        }
        Some(EvictionThreshold::Percent(_) | EvictionThreshold::Quantity(_)) => size,
    };
    let kept = match kubelet.eviction_nodefs_available {
        Some(EvictionThreshold::Quantity(threshold)) => threshold,
        _ => Quantity::ZERO,
    };
    (with_threshold(requests + reserved + kept), with_threshold(requests))
}

fn eviction_threshold(kubelet: &KubeletSettings, capacity: &ResourceList) -> ResourceList {
    let memory = capacity.get(name::MEMORY);
    let storage = capacity.get(name::EPHEMERAL_STORAGE);
    let memory_available = kubelet
        .eviction_memory_available
        .map_or(Quantity::from_mebibytes(EVICTION_MEMORY_MIB), |threshold| amount(threshold, memory));
    let nodefs_available = kubelet
        .eviction_nodefs_available
        .map_or_else(|| whole_units(storage.as_f64() * EVICTION_STORAGE_SHARE), |threshold| amount(threshold, storage));
    ResourceList::from([(name::MEMORY, memory_available), (name::EPHEMERAL_STORAGE, nodefs_available)])
}

fn amount(threshold: EvictionThreshold, capacity: Quantity) -> Quantity {
    match threshold {
        EvictionThreshold::Quantity(quantity) => quantity,
        // For the kubelet, 100% means no threshold.
        EvictionThreshold::Percent(percent) if percent >= 100.0 => Quantity::ZERO,
        EvictionThreshold::Percent(percent) => whole_units(capacity.as_f64() / 100.0 * percent),
    }
}

/// Rounded up, as Karpenter rounds percentages of the capacity.
fn whole_units(units: f64) -> Quantity {
    #[expect(clippy::cast_possible_truncation, reason = "float-to-integer casts saturate")]
    let whole = units.ceil() as i64;
    Quantity::from_units(whole)
}
