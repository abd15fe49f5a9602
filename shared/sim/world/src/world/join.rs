//! Converts a running instance to a machine whose kubelet registers.

use super::user_data::{self, Registration, System};
use super::{RealMemory, WorldOptions};
use jiff::{SignedDuration, Timestamp};
use nodeless_catalog::node_class::{AmiFamily, BlockDevice};
use nodeless_catalog::{Catalog, NodeClassSettings, UnavailableOfferings, instance_types};
use nodeless_fake_aws::Instance;
use nodeless_fake_kubernetes::controllers::Machine;
use nodeless_model::{Quantity, ResourceList, StringMap, labels, resources};

/// How long a machine takes to become a ready node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinTiming {
    /// From running to registration.
    pub registers_after: SignedDuration,
    /// From registration to being ready.
    pub ready_after: SignedDuration,
    /// The maximum time by which a machine registers later than others. It depends on the instance id.
    pub spread: SignedDuration,
    /// The same as the first two, for an instance that is started again: its volume has the image's blocks and the container images.
    pub restarted: (SignedDuration, SignedDuration),
}

impl Default for JoinTiming {
    /// Typical for an EKS-optimized image.
    fn default() -> Self {
        Self {
            registers_after: SignedDuration::from_secs(10),
            ready_after: SignedDuration::from_secs(10),
            spread: SignedDuration::ZERO,
            // An assumption: nothing is read from the snapshot of the image, and no image is pulled.
            restarted: (SignedDuration::from_secs(5), SignedDuration::from_secs(3)),
        }
    }
}

/// The machine of an instance that has started; `None` if it never joins.
pub(super) fn machine(
    instance: &Instance,
    catalog: &Catalog,
    options: &WorldOptions,
    now: Timestamp,
) -> Option<Machine> {
    if !instance.joins {
        return None;
    }
    let registration = match user_data::registration(instance.data.user_data.as_deref()) {
        Ok(Some(registration)) => registration,
        Ok(None) => {
            tracing::warn!(instance = instance.id, "the instance's user data does not join a cluster");
            return None;
        }
        Err(error) => {
            tracing::warn!(instance = instance.id, error, "the instance cannot join");
            return None;
        }
    };
    let Some((capacity, allocatable)) = resources_of(instance, &registration, catalog, &options.memory) else {
        let instance_type = &instance.offering.instance_type;
        tracing::warn!(instance = instance.id, instance_type, "an instance of this type cannot be a node");
        return None;
    };
    let later = later(&instance.id, options.join.spread);
    let join = options.join;
    let (registers_after, ready_after) =
        if instance.restarted { join.restarted } else { (join.registers_after, join.ready_after) };
    let registers = now.saturating_add(registers_after + later).unwrap_or(now);
    Some(Machine {
        name: instance.private_dns_name.clone(),
        provider_id: nodeless_model::node::provider_id(&instance.offering.zone, &instance.id),
        internal_ip: instance.private_ip.clone(),
        labels: node_labels(instance, &registration, &catalog.region),
        taints: registration.taints,
        capacity,
        allocatable,
        version: format!("v{}.0-eks-simulated", options.version),
        os_image: match registration.system {
            System::AmazonLinux => "Amazon Linux 2023 (simulated)",
            System::Bottlerocket => "Bottlerocket OS (simulated)",
            System::AmazonLinux2 => "Amazon Linux 2 (simulated)",
            System::Windows => "Windows Server Datacenter (simulated)",
        }
        .to_owned(),
        registers,
        ready: registers.saturating_add(ready_after).unwrap_or(registers),
    })
}

/// The time by which the machine of an instance registers later than others: FNV-1a of the id, up to `spread`.
fn later(id: &str, spread: SignedDuration) -> SignedDuration {
    let hash = id
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let milliseconds = u64::try_from(spread.as_millis()).unwrap_or(0);
    SignedDuration::from_millis(i64::try_from(hash % (milliseconds + 1)).unwrap_or(0))
}

/// The settings of the user data, what the kubelet detects, and what the cloud provider adds.
fn node_labels(instance: &Instance, registration: &Registration, region: &str) -> StringMap {
    let architecture = if instance.architecture == "x86_64" { "amd64" } else { &instance.architecture };
    let offering = &instance.offering;
    let os = if registration.system == System::Windows { "windows" } else { "linux" };
    let mut all = registration.labels.clone();
    for (key, value) in [
        (labels::ARCH, architecture),
        ("beta.kubernetes.io/arch", architecture),
        (labels::OS, os),
        ("beta.kubernetes.io/os", os),
        (labels::HOSTNAME, &instance.private_dns_name),
        (labels::INSTANCE_TYPE, &offering.instance_type),
        ("beta.kubernetes.io/instance-type", &offering.instance_type),
        (labels::REGION, region),
        ("failure-domain.beta.kubernetes.io/region", region),
        (labels::ZONE, &offering.zone),
        ("failure-domain.beta.kubernetes.io/zone", &offering.zone),
        (labels::ZONE_ID, &instance.zone_id),
    ] {
        all.insert(key.to_owned(), value.to_owned());
    }
    all
}

/// The volumes of the instance with their sizes.
fn block_devices(instance: &Instance) -> Vec<BlockDevice> {
    let mappings = instance.data.other.get("BlockDeviceMappings").and_then(serde_json::Value::as_array);
    let device = |mapping: &serde_json::Value| BlockDevice {
        device_name: mapping["DeviceName"].as_str().map(str::to_owned),
        root_volume: false,
        volume_size: mapping["Ebs"]["VolumeSize"].as_i64().map(|gib| Quantity::from_mebibytes(gib * 1024)),
    };
    mappings.into_iter().flatten().map(device).collect()
}

/// Capacity and allocatable of the instance type, by the rules of its operating system. Of the kubelet's settings only the
/// maximum number of pods is used.
fn resources_of(
    instance: &Instance,
    registration: &Registration,
    catalog: &Catalog,
    memory: &RealMemory,
) -> Option<(ResourceList, ResourceList)> {
    let entry = catalog.get(&instance.offering.instance_type)?;
    let family = match registration.system {
        System::AmazonLinux => AmiFamily::Al2023,
        System::Bottlerocket => AmiFamily::Bottlerocket,
        System::AmazonLinux2 => AmiFamily::Al2,
        System::Windows => AmiFamily::Windows2022,
    };
    let mut settings = NodeClassSettings::new(family, catalog.zones.clone());
    settings.kubelet.max_pods = registration.max_pods;
    settings.block_devices = block_devices(instance);
    let expected = instance_types::instance_type(catalog, entry, &settings, &UnavailableOfferings::default());
    let real = memory.of_type(&expected.name, expected.capacity.get(resources::name::MEMORY));
    settings.learned_memory.insert(expected.name, real);
    let kind = instance_types::instance_type(catalog, entry, &settings, &UnavailableOfferings::default());
    let present = |list: &ResourceList| -> ResourceList {
        let some = list.iter().filter(|(_, quantity)| !quantity.is_zero());
        some.map(|(name, quantity)| (name.to_owned(), quantity)).collect()
    };
    Some((present(&kind.capacity), present(&kind.allocatable())))
}
