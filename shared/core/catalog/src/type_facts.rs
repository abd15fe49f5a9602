//! The fields of a DescribeInstanceTypes entry that scheduling needs, in parsed form.

use serde::{Deserialize, Serialize};

use crate::facts::{InstanceTypeInfo, VpcLimits};

/// The processor architecture, with the names of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Architecture {
    /// `x86_64`.
    Amd64,
    /// `arm64`.
    Arm64,
}

impl Architecture {
    /// The value of the label `kubernetes.io/arch`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }
}

/// A kind of GPU or inference accelerator, and its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The name in EC2, such as `Radeon Pro V520`.
    pub name: String,
    /// The manufacturer in EC2, such as `NVIDIA`.
    pub manufacturer: String,
    /// The number of whole devices.
    pub count: u32,
    /// The memory of one device in MiB; 0 if EC2 does not report it.
    pub memory_mib: u64,
}

/// A kind of AWS Neuron device, and its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeuronDevice {
    /// The name, such as `Trainium`.
    pub name: String,
    /// The number of devices.
    pub count: u32,
    /// The number of cores of one device.
    pub cores: u32,
}

/// A network card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkCard {
    /// The index, from 0.
    pub index: u32,
    /// The maximum number of interfaces.
    pub maximum_interfaces: u32,
}

/// Facts of one instance type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeFacts {
    /// The name, such as `m5.large`.
    pub name: String,
    /// Processor architecture.
    pub architecture: Architecture,
    /// Virtual CPUs.
    pub cpus: u32,
    /// The memory in EC2, in MiB.
    pub memory_mib: u64,
    /// `nitro` or `xen`; empty for bare metal.
    pub hypervisor: String,
    /// The manufacturer of the processor, such as `Intel`.
    pub cpu_manufacturer: Option<String>,
    /// The sustained clock speed in MHz; 0 if EC2 does not report it, as in Karpenter's label.
    pub clock_mhz: u32,
    /// Features of the processor that a launch can enable, such as `nested-virtualization`.
    pub cpu_features: Vec<String>,
    /// Whether it is sold on demand.
    pub on_demand: bool,
    /// Whether it is sold as spot.
    pub spot: bool,
    /// Whether traffic between instances is encrypted by the hardware.
    pub encryption_in_transit: bool,
    /// Whether it can run Nitro Enclaves.
    pub nitro_enclaves: bool,
    /// The total size of its instance store in GB (10^9 bytes).
    pub local_storage_gb: Option<u64>,
    /// Whether its instance store is NVMe.
    pub local_nvme: bool,
    /// The maximum EBS bandwidth in Mbps, only if it is EBS-optimized by default.
    pub ebs_bandwidth_mbps: Option<u32>,
    /// The number of volumes that EC2 attaches, which already leaves out the disks of the instance store and, if the limit is shared,
    /// the primary network interface.
    pub ebs_attachments: u32,
    /// Whether further network interfaces count against that number.
    pub interfaces_take_attachments: bool,
    /// The baseline network bandwidth in Mbps.
    pub network_bandwidth_mbps: Option<u32>,
    /// Whether it has an elastic network adapter.
    pub ena: bool,
    /// Network cards; empty if they are unknown.
    pub network_cards: Vec<NetworkCard>,
    /// The card of the primary interface.
    pub default_network_card: u32,
    /// IPv4 addresses of one interface.
    pub ipv4_per_interface: u32,
    /// The maximum number of elastic fabric adapters.
    pub maximum_efa_interfaces: u32,
    /// Branch interfaces for pods with their own security groups; 0 if the type supports no trunk interface.
    pub branch_interfaces: Option<u32>,
    /// IPv4 addresses of one interface in the table of the VPC resource controller, which applies to Windows nodes.
    pub vpc_ipv4_per_interface: Option<u32>,
    /// GPUs.
    pub gpus: Vec<Device>,
    /// Inference accelerators.
    pub inference_accelerators: Vec<Device>,
    /// AWS Neuron devices.
    pub neuron_devices: Vec<NeuronDevice>,
    /// The supported placement strategies: `cluster`, `partition`, `spread`.
    pub placement_strategies: Vec<String>,
}

impl TypeFacts {
    /// Parses an entry. `None` for types that cannot be nodes: those that are neither x86_64 nor arm64 (Macs), or that run only
    /// paravirtual images. Karpenter omits them too.
    #[must_use]
    pub fn new(
        info: &InstanceTypeInfo,
        vpc_limits: Option<&VpcLimits>,
        network_bandwidth_mbps: Option<u32>,
    ) -> Option<Self> {
        let architecture = info.processor_info.supported_architectures.iter().find_map(|architecture| {
            match architecture.as_str() {
                "x86_64" => Some(Architecture::Amd64),
                "arm64" => Some(Architecture::Arm64),
                _ => None,
            }
        })?;
        // An entry in a file may omit it; EC2 always reports it.
        let kinds = &info.supported_virtualization_types;
        if !kinds.is_empty() && !kinds.iter().any(|kind| kind == "hvm") {
            return None;
        }
        let usage = |class: &str| info.supported_usage_classes.iter().any(|supported| supported == class);
        let storage = info.instance_storage_info.as_ref();
        let network = &info.network_info;
        Some(Self {
            name: info.instance_type.clone(),
            architecture,
            cpus: info.v_cpu_info.default_v_cpus,
            memory_mib: info.memory_info.size_in_mib,
            hypervisor: info.hypervisor.clone().unwrap_or_default(),
            cpu_manufacturer: info.processor_info.manufacturer.clone(),
            clock_mhz: clock_mhz(info.processor_info.sustained_clock_speed_in_ghz),
            cpu_features: info.processor_info.supported_features.clone(),
            on_demand: usage("on-demand"),
            spot: usage("spot"),
            encryption_in_transit: network.encryption_in_transit_supported,
            nitro_enclaves: info.nitro_enclaves_support == "supported",
            local_storage_gb: storage.and_then(|storage| storage.total_size_in_gb),
            local_nvme: storage
                .is_some_and(|storage| matches!(storage.nvme_support.as_str(), "required" | "supported")),
            ebs_bandwidth_mbps: (info.ebs_info.ebs_optimized_support == "default")
                .then(|| info.ebs_info.ebs_optimized_info.as_ref().map(|speeds| speeds.maximum_bandwidth_in_mbps))
                .flatten(),
            ebs_attachments: ebs_attachments(info),
            interfaces_take_attachments: interfaces_take_attachments(info),
            network_bandwidth_mbps,
            ena: matches!(network.ena_support.as_str(), "required" | "supported"),
            network_cards: network
                .network_cards
                .iter()
                .map(|card| NetworkCard {
                    index: card.network_card_index,
                    maximum_interfaces: card.maximum_network_interfaces,
                })
                .collect(),
            default_network_card: network.default_network_card_index,
            ipv4_per_interface: network.ipv4_addresses_per_interface,
            maximum_efa_interfaces: network.efa_info.as_ref().map_or(0, |efa| efa.maximum_efa_interfaces),
            branch_interfaces: vpc_limits
                .filter(|limits| limits.trunking_compatible)
                .map(|limits| limits.branch_interfaces),
            vpc_ipv4_per_interface: vpc_limits.map(|limits| limits.ipv4_per_interface),
            gpus: gpus(info),
            inference_accelerators: inference_accelerators(info),
            neuron_devices: neuron_devices(info),
            placement_strategies: info.placement_group_info.supported_strategies.clone(),
        })
    }
}

/// The limits of the EBS CSI driver where EC2 reports none, and for Xen types, for which EC2 reports one more than the driver counts on.
const DEFAULT_EBS_ATTACHMENTS: u32 = 27;
const XEN_EBS_ATTACHMENTS: u32 = 39;

/// As `GetVolumeLimits` of the EBS CSI driver (`pkg/cloud/limits/volume_limits.go`), whose table is made of DescribeInstanceTypes.
fn ebs_attachments(info: &InstanceTypeInfo) -> u32 {
    if is_xen(info) {
        return XEN_EBS_ATTACHMENTS;
    }
    info.ebs_info.maximum_ebs_attachments.unwrap_or(DEFAULT_EBS_ATTACHMENTS)
}

fn interfaces_take_attachments(info: &InstanceTypeInfo) -> bool {
    !is_xen(info) && info.ebs_info.attachment_limit_type.as_deref() != Some("dedicated")
}

fn is_xen(info: &InstanceTypeInfo) -> bool {
    info.hypervisor.as_deref() == Some("xen")
}

/// GHz, rounded to MHz; 0 if EC2 does not report it.
fn clock_mhz(ghz: Option<f64>) -> u32 {
    let mhz = (ghz.unwrap_or_default() * 1000.0).round();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range")]
    let mhz = mhz.clamp(0.0, f64::from(u32::MAX)) as u32;
    mhz
}

fn gpus(info: &InstanceTypeInfo) -> Vec<Device> {
    let gpus = info.gpu_info.iter().flat_map(|info| &info.gpus);
    gpus.map(|gpu| Device {
        name: gpu.name.clone(),
        manufacturer: gpu.manufacturer.clone(),
        count: gpu.count,
        memory_mib: gpu.memory_info.size_in_mib,
    })
    .collect()
}

fn inference_accelerators(info: &InstanceTypeInfo) -> Vec<Device> {
    let accelerators = info.inference_accelerator_info.iter().flat_map(|info| &info.accelerators);
    accelerators
        .map(|accelerator| Device {
            name: accelerator.name.clone(),
            manufacturer: accelerator.manufacturer.clone(),
            count: accelerator.count,
            memory_mib: 0,
        })
        .collect()
}

fn neuron_devices(info: &InstanceTypeInfo) -> Vec<NeuronDevice> {
    let devices = info.neuron_info.iter().flat_map(|info| &info.neuron_devices);
    devices
        .map(|device| NeuronDevice { name: device.name.clone(), count: device.count, cores: device.core_info.count })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Facts;

    #[test]
    fn macs_cannot_be_nodes() {
        let facts = Facts::embedded().unwrap();
        assert_eq!(TypeFacts::new(&facts.instance_types["mac2.metal"], None, None), None);
        assert_eq!(TypeFacts::new(&facts.instance_types["mac1.metal"], None, None), None);
    }

    #[test]
    fn types_that_support_i386_too_are_amd64() {
        let facts = Facts::embedded().unwrap();
        let info = &facts.instance_types["c1.medium"];
        assert_eq!(info.processor_info.supported_architectures[0], "i386");
        assert_eq!(TypeFacts::new(info, None, None).unwrap().architecture, Architecture::Amd64);
    }

    #[test]
    fn a_type_without_trunk_interface_has_no_branch_interfaces() {
        let facts = Facts::embedded().unwrap();
        let limits = |trunking_compatible| VpcLimits {
            interfaces: 3,
            ipv4_per_interface: 10,
            trunking_compatible,
            branch_interfaces: 9,
        };
        let branches = |limits: VpcLimits| {
            TypeFacts::new(&facts.instance_types["m5.large"], Some(&limits), None).unwrap().branch_interfaces
        };
        assert_eq!(branches(limits(true)), Some(9));
        assert_eq!(branches(limits(false)), None);
    }
}
