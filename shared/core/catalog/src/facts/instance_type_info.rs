//! An entry of a DescribeInstanceTypes response, in the JSON form of the EC2 API.
//!
//! The field names are those of EC2. Fields that neither instance types nor the simulated EC2 need are omitted, and unknown
//! fields are ignored, so the output of `aws ec2 describe-instance-types` can be read unchanged.
//! Quantities without a unit in the name have EC2's units: memory in MiB, disks in GB (10^9 bytes).

use serde::{Deserialize, Serialize};

/// An instance type in DescribeInstanceTypes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct InstanceTypeInfo {
    /// The type's name, such as `m5.large`.
    pub instance_type: String,
    /// Whether the type is of the current generation.
    #[serde(default)]
    pub current_generation: bool,
    /// Whether the free tier includes it.
    #[serde(default)]
    pub free_tier_eligible: bool,
    /// `on-demand`, `spot`, `capacity-block`.
    #[serde(default)]
    pub supported_usage_classes: Vec<String>,
    /// `ebs`, `instance-store`.
    #[serde(default)]
    pub supported_root_device_types: Vec<String>,
    /// `hvm`, `paravirtual`.
    #[serde(default)]
    pub supported_virtualization_types: Vec<String>,
    /// Whether there is no hypervisor.
    #[serde(default)]
    pub bare_metal: bool,
    /// `nitro` or `xen`; absent for bare metal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// The processor.
    pub processor_info: ProcessorInfo,
    /// Virtual CPUs.
    #[serde(rename = "VCpuInfo")]
    pub v_cpu_info: VCpuInfo,
    /// Memory.
    pub memory_info: MemoryInfo,
    /// Whether it has an instance store.
    #[serde(default)]
    pub instance_storage_supported: bool,
    /// The instance store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_storage_info: Option<InstanceStorageInfo>,
    /// Elastic Block Store.
    #[serde(default)]
    pub ebs_info: EbsInfo,
    /// Network.
    #[serde(default)]
    pub network_info: NetworkInfo,
    /// GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_info: Option<GpuInfo>,
    /// Inference accelerators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inference_accelerator_info: Option<InferenceAcceleratorInfo>,
    /// AWS Neuron devices (Inferentia, Trainium).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neuron_info: Option<NeuronInfo>,
    /// Placement strategies.
    #[serde(default)]
    pub placement_group_info: PlacementGroupInfo,
    /// Whether it can hibernate.
    #[serde(default)]
    pub hibernation_supported: bool,
    /// Whether its CPU earns and spends credits (t2, t3, t3a, t4g).
    #[serde(default)]
    pub burstable_performance_supported: bool,
    /// Whether it runs on dedicated hosts.
    #[serde(default)]
    pub dedicated_hosts_supported: bool,
    /// Whether EC2 recovers it automatically.
    #[serde(default)]
    pub auto_recovery_supported: bool,
    /// `legacy-bios`, `uefi`.
    #[serde(default)]
    pub supported_boot_modes: Vec<String>,
    /// `supported` or `unsupported`.
    #[serde(default)]
    pub nitro_enclaves_support: String,
    /// `supported` or `unsupported`.
    #[serde(default)]
    pub nitro_tpm_support: String,
}

/// The processor of a type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ProcessorInfo {
    /// `x86_64`, `arm64`, `i386`, `arm64_mac`, `x86_64_mac`; the first one is the architecture of the node.
    pub supported_architectures: Vec<String>,
    /// In GHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sustained_clock_speed_in_ghz: Option<f64>,
    /// `amd-sev-snp`, `nested-virtualization`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supported_features: Vec<String>,
    /// `Intel`, `AMD`, `AWS`, `Apple`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manufacturer: Option<String>,
}

/// Virtual CPUs of a type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VCpuInfo {
    /// Virtual CPUs with default options.
    #[serde(rename = "DefaultVCpus")]
    pub default_v_cpus: u32,
    /// Cores with default options.
    #[serde(rename = "DefaultCores", default)]
    pub default_cores: u32,
    /// Threads of a core with default options.
    #[serde(rename = "DefaultThreadsPerCore", default)]
    pub default_threads_per_core: u32,
}

/// An amount of memory: that of a type, or of one GPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryInfo {
    /// In MiB.
    #[serde(rename = "SizeInMiB")]
    pub size_in_mib: u64,
}

/// The instance store of a type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct InstanceStorageInfo {
    /// The total size of all disks in GB (10^9 bytes).
    #[serde(rename = "TotalSizeInGB", default, skip_serializing_if = "Option::is_none")]
    pub total_size_in_gb: Option<u64>,
    /// Kinds of disk.
    #[serde(default)]
    pub disks: Vec<DiskInfo>,
    /// `required`, `supported` or `unsupported`.
    #[serde(default)]
    pub nvme_support: String,
    /// `required` or `unsupported`.
    #[serde(default)]
    pub encryption_support: String,
}

/// A kind of disk, and its number.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct DiskInfo {
    /// The size of one disk in GB (10^9 bytes).
    #[serde(rename = "SizeInGB", default)]
    pub size_in_gb: u64,
    /// The number of disks.
    #[serde(default)]
    pub count: u32,
    /// `ssd` or `hdd`.
    #[serde(rename = "Type", default)]
    pub disk_type: String,
}

/// Elastic Block Store on a type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct EbsInfo {
    /// `default`, `supported` or `unsupported`.
    #[serde(default)]
    pub ebs_optimized_support: String,
    /// `supported` or `unsupported`.
    #[serde(default)]
    pub encryption_support: String,
    /// Speeds when EBS-optimised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ebs_optimized_info: Option<EbsOptimizedInfo>,
    /// `required`, `supported` or `unsupported`.
    #[serde(default)]
    pub nvme_support: String,
    /// The maximum number of attached volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum_ebs_attachments: Option<u32>,
    /// `shared` (with network interfaces and NVMe disks) or `dedicated`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment_limit_type: Option<String>,
}

/// Speeds of an EBS-optimised type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct EbsOptimizedInfo {
    /// In Mbps.
    #[serde(default)]
    pub baseline_bandwidth_in_mbps: u32,
    /// In MB/s.
    #[serde(rename = "BaselineThroughputInMBps", default)]
    pub baseline_throughput_in_mbps: f64,
    /// Operations a second.
    #[serde(default)]
    pub baseline_iops: u32,
    /// In Mbps.
    #[serde(default)]
    pub maximum_bandwidth_in_mbps: u32,
    /// In MB/s.
    #[serde(rename = "MaximumThroughputInMBps", default)]
    pub maximum_throughput_in_mbps: f64,
    /// Operations a second.
    #[serde(default)]
    pub maximum_iops: u32,
}

/// Network of a type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct NetworkInfo {
    /// The performance as text, such as `Up to 10 Gigabit`.
    #[serde(default)]
    pub network_performance: String,
    /// The maximum number of interfaces on all cards.
    #[serde(default)]
    pub maximum_network_interfaces: u32,
    /// The number of cards.
    #[serde(default)]
    pub maximum_network_cards: u32,
    /// The card of the primary interface.
    #[serde(default)]
    pub default_network_card_index: u32,
    /// The cards.
    #[serde(default)]
    pub network_cards: Vec<NetworkCardInfo>,
    /// IPv4 addresses of one interface.
    #[serde(rename = "Ipv4AddressesPerInterface", default)]
    pub ipv4_addresses_per_interface: u32,
    /// IPv6 addresses of one interface.
    #[serde(rename = "Ipv6AddressesPerInterface", default)]
    pub ipv6_addresses_per_interface: u32,
    /// Whether it supports IPv6.
    #[serde(rename = "Ipv6Supported", default)]
    pub ipv6_supported: bool,
    /// `required`, `supported` or `unsupported`.
    #[serde(default)]
    pub ena_support: String,
    /// Whether it has elastic fabric adapters.
    #[serde(default)]
    pub efa_supported: bool,
    /// Elastic fabric adapters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efa_info: Option<EfaInfo>,
    /// Whether traffic between instances is encrypted by the hardware.
    #[serde(default)]
    pub encryption_in_transit_supported: bool,
    /// Whether it has ENA Express.
    #[serde(default)]
    pub ena_srd_supported: bool,
}

/// A network card.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct NetworkCardInfo {
    /// From 0.
    #[serde(default)]
    pub network_card_index: u32,
    /// The performance as text, such as `100 Gigabit`.
    #[serde(default)]
    pub network_performance: String,
    /// The maximum number of interfaces on this card.
    #[serde(default)]
    pub maximum_network_interfaces: u32,
    /// In Gbps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_bandwidth_in_gbps: Option<f64>,
    /// In Gbps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bandwidth_in_gbps: Option<f64>,
}

/// Elastic fabric adapters of a type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct EfaInfo {
    /// The maximum number.
    #[serde(default)]
    pub maximum_efa_interfaces: u32,
}

/// GPUs of a type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct GpuInfo {
    /// Kinds of GPU.
    #[serde(default)]
    pub gpus: Vec<GpuDeviceInfo>,
    /// The total memory of all GPUs in MiB.
    #[serde(rename = "TotalGpuMemoryInMiB", default)]
    pub total_gpu_memory_in_mib: u64,
}

/// A kind of GPU, and its number.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct GpuDeviceInfo {
    /// Such as `T4`.
    #[serde(default)]
    pub name: String,
    /// `NVIDIA`, `AMD`, `Habana`.
    #[serde(default)]
    pub manufacturer: String,
    /// The number of whole GPUs: 0 if the type has a fraction of one.
    #[serde(default)]
    pub count: u32,
    /// The memory of one GPU.
    #[serde(default)]
    pub memory_info: MemoryInfo,
}

/// Inference accelerators of a type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct InferenceAcceleratorInfo {
    /// Kinds of accelerator.
    #[serde(default)]
    pub accelerators: Vec<InferenceDeviceInfo>,
}

/// A kind of inference accelerator, and its number.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct InferenceDeviceInfo {
    /// The number of accelerators.
    #[serde(default)]
    pub count: u32,
    /// Such as `Inferentia`.
    #[serde(default)]
    pub name: String,
    /// Such as `AWS`.
    #[serde(default)]
    pub manufacturer: String,
}

/// AWS Neuron devices of a type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct NeuronInfo {
    /// Kinds of device.
    #[serde(default)]
    pub neuron_devices: Vec<NeuronDeviceInfo>,
}

/// A kind of Neuron device, and its number.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct NeuronDeviceInfo {
    /// The number of devices.
    #[serde(default)]
    pub count: u32,
    /// Such as `Trainium`.
    #[serde(default)]
    pub name: String,
    /// Cores of one device.
    #[serde(default)]
    pub core_info: NeuronCoreInfo,
    /// The memory of one device.
    #[serde(default)]
    pub memory_info: MemoryInfo,
}

/// Cores of one Neuron device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct NeuronCoreInfo {
    /// The number of cores.
    #[serde(default)]
    pub count: u32,
    /// Generation of the core.
    #[serde(default)]
    pub version: u32,
}

/// Placement strategies of a type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct PlacementGroupInfo {
    /// `cluster`, `partition`, `spread`.
    #[serde(default)]
    pub supported_strategies: Vec<String>,
}
