//! Converts DescribeInstanceTypes entries from the SDK to the catalog.

use aws_sdk_ec2::types;
use nodeless_catalog::facts::{
    DiskInfo, EbsInfo, EbsOptimizedInfo, EfaInfo, GpuDeviceInfo, GpuInfo, InferenceAcceleratorInfo,
    InferenceDeviceInfo, InstanceStorageInfo, InstanceTypeInfo, MemoryInfo, NetworkCardInfo, NetworkInfo,
    NeuronCoreInfo, NeuronDeviceInfo, NeuronInfo, PlacementGroupInfo, ProcessorInfo, VCpuInfo,
};

/// Converts an entry; `None` if it has no name.
pub(super) fn read(info: &types::InstanceTypeInfo) -> Option<InstanceTypeInfo> {
    Some(InstanceTypeInfo {
        instance_type: info.instance_type()?.as_str().to_owned(),
        current_generation: yes(info.current_generation()),
        free_tier_eligible: yes(info.free_tier_eligible()),
        supported_usage_classes: words(info.supported_usage_classes(), types::UsageClassType::as_str),
        supported_root_device_types: words(info.supported_root_device_types(), types::RootDeviceType::as_str),
        supported_virtualization_types: words(info.supported_virtualization_types(), types::VirtualizationType::as_str),
        bare_metal: yes(info.bare_metal()),
        hypervisor: info.hypervisor().map(|kind| kind.as_str().to_owned()),
        processor_info: info.processor_info().map(processor).unwrap_or_default(),
        v_cpu_info: info.v_cpu_info().map(v_cpu).unwrap_or_default(),
        memory_info: memory_i64(info.memory_info().and_then(types::MemoryInfo::size_in_mib)),
        instance_storage_supported: yes(info.instance_storage_supported()),
        instance_storage_info: info.instance_storage_info().map(storage),
        ebs_info: info.ebs_info().map(ebs).unwrap_or_default(),
        network_info: info.network_info().map(network).unwrap_or_default(),
        gpu_info: info.gpu_info().map(gpus),
        inference_accelerator_info: info.inference_accelerator_info().map(accelerators),
        neuron_info: info.neuron_info().map(neurons),
        placement_group_info: PlacementGroupInfo {
            supported_strategies: info.placement_group_info().map_or_else(Vec::new, |placement| {
                words(placement.supported_strategies(), types::PlacementGroupStrategy::as_str)
            }),
        },
        hibernation_supported: yes(info.hibernation_supported()),
        burstable_performance_supported: yes(info.burstable_performance_supported()),
        dedicated_hosts_supported: yes(info.dedicated_hosts_supported()),
        auto_recovery_supported: yes(info.auto_recovery_supported()),
        supported_boot_modes: words(info.supported_boot_modes(), types::BootModeType::as_str),
        nitro_enclaves_support: word(info.nitro_enclaves_support().map(types::NitroEnclavesSupport::as_str)),
        nitro_tpm_support: word(info.nitro_tpm_support().map(types::NitroTpmSupport::as_str)),
    })
}

fn yes(flag: Option<bool>) -> bool {
    flag.unwrap_or(false)
}

fn word(word: Option<&str>) -> String {
    word.unwrap_or_default().to_owned()
}

fn words<T>(list: &[T], as_str: impl Fn(&T) -> &str) -> Vec<String> {
    list.iter().map(|item| as_str(item).to_owned()).collect()
}

/// EC2's counts are never negative; a negative one counts as missing.
fn count(number: Option<i32>) -> u32 {
    number.and_then(|number| u32::try_from(number).ok()).unwrap_or_default()
}

fn large(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

fn memory(size_in_mib: Option<i32>) -> MemoryInfo {
    MemoryInfo { size_in_mib: u64::from(count(size_in_mib)) }
}

fn memory_i64(size_in_mib: Option<i64>) -> MemoryInfo {
    MemoryInfo { size_in_mib: size_in_mib.map_or(0, large) }
}

fn processor(info: &types::ProcessorInfo) -> ProcessorInfo {
    ProcessorInfo {
        supported_architectures: words(info.supported_architectures(), types::ArchitectureType::as_str),
        sustained_clock_speed_in_ghz: info.sustained_clock_speed_in_ghz(),
        supported_features: words(info.supported_features(), types::SupportedAdditionalProcessorFeature::as_str),
        manufacturer: info.manufacturer().map(str::to_owned),
    }
}

fn v_cpu(info: &types::VCpuInfo) -> VCpuInfo {
    VCpuInfo {
        default_v_cpus: count(info.default_v_cpus()),
        default_cores: count(info.default_cores()),
        default_threads_per_core: count(info.default_threads_per_core()),
    }
}

fn storage(info: &types::InstanceStorageInfo) -> InstanceStorageInfo {
    let disk = |disk: &types::DiskInfo| DiskInfo {
        size_in_gb: disk.size_in_gb().map_or(0, large),
        count: count(disk.count()),
        disk_type: word(disk.r#type().map(types::DiskType::as_str)),
    };
    InstanceStorageInfo {
        total_size_in_gb: info.total_size_in_gb().map(large),
        disks: info.disks().iter().map(disk).collect(),
        nvme_support: word(info.nvme_support().map(types::EphemeralNvmeSupport::as_str)),
        encryption_support: word(info.encryption_support().map(types::InstanceStorageEncryptionSupport::as_str)),
    }
}

fn ebs(info: &types::EbsInfo) -> EbsInfo {
    let optimized = |speeds: &types::EbsOptimizedInfo| EbsOptimizedInfo {
        baseline_bandwidth_in_mbps: count(speeds.baseline_bandwidth_in_mbps()),
        baseline_throughput_in_mbps: speeds.baseline_throughput_in_m_bps().unwrap_or_default(),
        baseline_iops: count(speeds.baseline_iops()),
        maximum_bandwidth_in_mbps: count(speeds.maximum_bandwidth_in_mbps()),
        maximum_throughput_in_mbps: speeds.maximum_throughput_in_m_bps().unwrap_or_default(),
        maximum_iops: count(speeds.maximum_iops()),
    };
    EbsInfo {
        ebs_optimized_support: word(info.ebs_optimized_support().map(types::EbsOptimizedSupport::as_str)),
        encryption_support: word(info.encryption_support().map(types::EbsEncryptionSupport::as_str)),
        ebs_optimized_info: info.ebs_optimized_info().map(optimized),
        nvme_support: word(info.nvme_support().map(types::EbsNvmeSupport::as_str)),
        maximum_ebs_attachments: info.maximum_ebs_attachments().map(|number| count(Some(number))),
        attachment_limit_type: info.attachment_limit_type().map(|kind| kind.as_str().to_owned()),
    }
}

fn network(info: &types::NetworkInfo) -> NetworkInfo {
    let card = |card: &types::NetworkCardInfo| NetworkCardInfo {
        network_card_index: count(card.network_card_index()),
        network_performance: word(card.network_performance()),
        maximum_network_interfaces: count(card.maximum_network_interfaces()),
        baseline_bandwidth_in_gbps: card.baseline_bandwidth_in_gbps(),
        peak_bandwidth_in_gbps: card.peak_bandwidth_in_gbps(),
    };
    NetworkInfo {
        network_performance: word(info.network_performance()),
        maximum_network_interfaces: count(info.maximum_network_interfaces()),
        maximum_network_cards: count(info.maximum_network_cards()),
        default_network_card_index: count(info.default_network_card_index()),
        network_cards: info.network_cards().iter().map(card).collect(),
        ipv4_addresses_per_interface: count(info.ipv4_addresses_per_interface()),
        ipv6_addresses_per_interface: count(info.ipv6_addresses_per_interface()),
        ipv6_supported: yes(info.ipv6_supported()),
        ena_support: word(info.ena_support().map(types::EnaSupport::as_str)),
        efa_supported: yes(info.efa_supported()),
        efa_info: info.efa_info().map(|efa| EfaInfo { maximum_efa_interfaces: count(efa.maximum_efa_interfaces()) }),
        encryption_in_transit_supported: yes(info.encryption_in_transit_supported()),
        ena_srd_supported: yes(info.ena_srd_supported()),
    }
}

fn gpus(info: &types::GpuInfo) -> GpuInfo {
    let gpu = |gpu: &types::GpuDeviceInfo| GpuDeviceInfo {
        name: word(gpu.name()),
        manufacturer: word(gpu.manufacturer()),
        count: count(gpu.count()),
        memory_info: memory(gpu.memory_info().and_then(types::GpuDeviceMemoryInfo::size_in_mib)),
    };
    GpuInfo {
        gpus: info.gpus().iter().map(gpu).collect(),
        total_gpu_memory_in_mib: u64::from(count(info.total_gpu_memory_in_mib())),
    }
}

fn accelerators(info: &types::InferenceAcceleratorInfo) -> InferenceAcceleratorInfo {
    let accelerator = |device: &types::InferenceDeviceInfo| InferenceDeviceInfo {
        count: count(device.count()),
        name: word(device.name()),
        manufacturer: word(device.manufacturer()),
    };
    InferenceAcceleratorInfo { accelerators: info.accelerators().iter().map(accelerator).collect() }
}

fn neurons(info: &types::NeuronInfo) -> NeuronInfo {
    let device = |device: &types::NeuronDeviceInfo| NeuronDeviceInfo {
        count: count(device.count()),
        name: word(device.name()),
        core_info: NeuronCoreInfo {
            count: count(device.core_info().and_then(types::NeuronDeviceCoreInfo::count)),
            version: count(device.core_info().and_then(types::NeuronDeviceCoreInfo::version)),
        },
        memory_info: memory(device.memory_info().and_then(types::NeuronDeviceMemoryInfo::size_in_mib)),
    };
    NeuronInfo { neuron_devices: info.neuron_devices().iter().map(device).collect() }
}
