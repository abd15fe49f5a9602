//! The settings of an EC2NodeClass that affect instance types, as plain values.

use std::collections::BTreeMap;
use std::str::FromStr;

use nodeless_expressions::Expression;
use nodeless_model::{Quantity, ReservedInstances, ResourceList, RootVolumeSize};

use crate::facts::Zone;

/// The AMI family, which determines the disk layout, the maximum number of pods and the reserved resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AmiFamily {
    /// Amazon Linux 2.
    Al2,
    /// Amazon Linux 2023.
    Al2023,
    /// Bottlerocket.
    Bottlerocket,
    /// Windows Server 2019.
    Windows2019,
    /// Windows Server 2022.
    Windows2022,
    /// Windows Server 2025.
    Windows2025,
    /// The user's own image and user data.
    Custom,
}

impl AmiFamily {
    /// The value of the label `node.kubernetes.io/windows-build`; `None` for Linux.
    #[must_use]
    pub const fn windows_build(self) -> Option<&'static str> {
        match self {
            Self::Windows2019 => Some("10.0.17763"),
            Self::Windows2022 => Some("10.0.20348"),
            Self::Windows2025 => Some("10.0.26100"),
            Self::Al2 | Self::Al2023 | Self::Bottlerocket | Self::Custom => None,
        }
    }

    /// Whether nodes run Windows.
    #[must_use]
    pub const fn is_windows(self) -> bool {
        self.windows_build().is_some()
    }

    /// Whether network interfaces limit the number of pods. Windows nodes have a fixed default instead.
    pub(crate) const fn pods_limited_by_interfaces(self) -> bool {
        !self.is_windows()
    }

    /// Whether kube-reserved memory depends on the number of pods of the network interfaces, even if `maxPods` is set.
    pub(crate) const fn reserves_memory_for_interfaces_pods(self) -> bool {
        matches!(self, Self::Al2 | Self::Al2023 | Self::Custom)
    }

    /// Whether `podsPerCore` has an effect.
    pub(crate) const fn honours_pods_per_core(self) -> bool {
        !matches!(self, Self::Bottlerocket)
    }

    /// The device for the data of containers; `None` if the user manages it.
    pub(crate) const fn ephemeral_device(self) -> Option<&'static str> {
        match self {
            Self::Al2 | Self::Al2023 => Some("/dev/xvda"),
            Self::Bottlerocket => Some("/dev/xvdb"),
            Self::Windows2019 | Self::Windows2022 | Self::Windows2025 => Some("/dev/sda1"),
            Self::Custom => None,
        }
    }

    /// The devices that the AMI maps, all of them volumes; none are known of the user's own AMI.
    pub(crate) const fn devices(self) -> &'static [&'static str] {
        match self {
            Self::Al2 | Self::Al2023 => &["/dev/xvda"],
            Self::Bottlerocket => &["/dev/xvda", "/dev/xvdb"],
            Self::Windows2019 | Self::Windows2022 | Self::Windows2025 => &["/dev/sda1"],
            Self::Custom => &[],
        }
    }

    /// The size of that device in GiB if the EC2NodeClass does not map it.
    pub(crate) const fn default_ephemeral_gib(self) -> i64 {
        if self.is_windows() { 50 } else { 20 }
    }
}

/// The amount of a resource below which the kubelet evicts pods.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EvictionThreshold {
    /// An amount.
    Quantity(Quantity),
    /// A percentage of the capacity, from 0 to 100. 100 disables the threshold, as for the kubelet.
    Percent(f64),
}

/// Why a text is not an eviction threshold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an eviction threshold; write a percentage from 0% to 100% or a quantity that is not negative, such as 200Mi"
)]
pub struct EvictionThresholdError(String);

impl FromStr for EvictionThreshold {
    type Err = EvictionThresholdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || EvictionThresholdError(text.to_owned());
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.parse().map_err(|_| error())?;
            return if (0.0..=100.0).contains(&percent) { Ok(Self::Percent(percent)) } else { Err(error()) };
        }
        let quantity: Quantity = text.parse().map_err(|_| error())?;
        if quantity < Quantity::ZERO { Err(error()) } else { Ok(Self::Quantity(quantity)) }
    }
}

/// The kubelet settings that affect allocatable resources. `evictionSoft` does not, as in Karpenter.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KubeletSettings {
    /// The maximum number of pods, instead of the default of the AMI family.
    pub max_pods: Option<u32>,
    /// The maximum number of pods per vCPU; 0 means no limit.
    pub pods_per_core: Option<u32>,
    /// Replaces the computed reservation of each resource in it.
    pub kube_reserved: ResourceList,
    /// The resources reserved for the system; none by default.
    pub system_reserved: ResourceList,
    /// The values of the three fields above that are evaluated for each instance type.
    pub expressions: KubeletExpressions,
    /// `evictionHard` for `memory.available`.
    pub eviction_memory_available: Option<EvictionThreshold>,
    /// `evictionHard` for `nodefs.available`.
    pub eviction_nodefs_available: Option<EvictionThreshold>,
}

/// The expressions of the kubelet settings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KubeletExpressions {
    /// `maxPods`.
    pub max_pods: Option<Expression>,
    /// `kubeReserved`, by resource.
    pub kube_reserved: BTreeMap<String, Expression>,
    /// `systemReserved`, by resource.
    pub system_reserved: BTreeMap<String, Expression>,
}

impl KubeletExpressions {
    /// Whether there is no expression.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.max_pods.is_none() && self.kube_reserved.is_empty() && self.system_reserved.is_empty()
    }
}

/// A block device mapping of the EC2NodeClass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockDevice {
    /// The device name, such as `/dev/xvda`.
    pub device_name: Option<String>,
    /// Whether it is the root volume, which stores the data of containers.
    pub root_volume: bool,
    /// `None` means the size of the snapshot.
    pub volume_size: Option<Quantity>,
}

/// How the instance store is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceStorePolicy {
    /// A RAID 0 array of all disks stores the data of containers.
    Raid0,
}

/// A network interface in the EC2NodeClass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkInterface {
    /// The index of the network card, from 0.
    pub network_card_index: u32,
    /// The index of the interface on its card, from 0.
    pub device_index: u32,
    /// Whether it is an elastic fabric adapter without IP traffic.
    pub efa_only: bool,
}

/// The type of a capacity reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReservationKind {
    /// An on-demand capacity reservation.
    Default,
    /// A capacity block for machine learning.
    CapacityBlock,
}

impl ReservationKind {
    /// The value of the label `karpenter.k8s.aws/capacity-reservation-type`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::CapacityBlock => "capacity-block",
        }
    }
}

/// A capacity reservation that the EC2NodeClass selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapacityReservation {
    /// The id, `cr-…`.
    pub id: String,
    /// The reserved instance type.
    pub instance_type: String,
    /// The name of its zone.
    pub zone: String,
    /// The type of the reservation.
    pub kind: ReservationKind,
    /// Whether EC2 may interrupt its instances.
    pub interruptible: bool,
    /// Its instances, available and in use.
    pub instances: ReservedInstances,
    /// Whether it ends so soon that nothing may be launched into it.
    pub expiring: bool,
}

/// The size of the volume for the data of containers that a NodePool asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct RootVolumeSettings {
    /// The size.
    pub size: RootVolumeSize,
    /// The requests of the pods and DaemonSets of a node for ephemeral storage; `None` before the pods are known.
    pub requests: Option<Quantity>,
    /// The price of a GiB in dollars a month.
    pub dollars_per_gib: f64,
}

/// The settings of an EC2NodeClass and of the deployment that affect instance types.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeClassSettings {
    /// AMI family.
    pub ami_family: AmiFamily,
    /// Kubelet settings.
    pub kubelet: KubeletSettings,
    /// Block device mappings, in the order of the EC2NodeClass.
    pub block_devices: Vec<BlockDevice>,
    /// How the instance store is used; `None` if it is not used.
    pub instance_store_policy: Option<InstanceStorePolicy>,
    /// Network interfaces; empty means one primary interface.
    pub network_interfaces: Vec<NetworkInterface>,
    /// `ipPrefixCount`: the number of address prefixes of each interface at launch. As in Karpenter, it restricts the types
    /// that can be launched, but does not change the number of pods, for which `maxPods` is.
    pub ip_prefix_count: u32,
    /// Whether the EC2NodeClass sets connection tracking timeouts, which only Nitro types with a hypervisor support.
    pub connection_tracking: bool,
    /// Whether the EC2NodeClass enables nested virtualization.
    pub nested_virtualization: bool,
    /// Whether the EC2NodeClass enables Nitro Enclaves.
    pub enclaves: bool,
    /// The placement group.
    pub placement_group: Option<PlacementGroup>,
    /// Interfaces of the default card that pods cannot use (`RESERVED_ENIS`), as with custom networking.
    pub reserved_enis: u32,
    /// The fraction of memory that the hypervisor and the system use (`VM_MEMORY_OVERHEAD_PERCENT`), 0.075 for 7.5%.
    pub vm_memory_overhead_percent: f64,
    /// The zones of the subnets of the EC2NodeClass.
    pub zones: Vec<Zone>,
    /// The capacity reservations that the EC2NodeClass selects.
    pub capacity_reservations: Vec<CapacityReservation>,
    /// The size of the root volume that a NodePool asks for.
    pub root_volume: Option<RootVolumeSettings>,
    /// The memory capacity by instance type that nodes with the images of this EC2NodeClass reported
    /// ([`ReportedMemory`](crate::ReportedMemory)). It replaces the estimate.
    pub learned_memory: BTreeMap<String, Quantity>,
}

/// The placement group of an EC2NodeClass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementGroup {
    /// The id, `pg-…`.
    pub id: String,
    /// `cluster`, `partition` or `spread`.
    pub strategy: String,
    /// The number of partitions; 0 with another strategy.
    pub partitions: u32,
}

impl NodeClassSettings {
    /// Karpenter's default for `VM_MEMORY_OVERHEAD_PERCENT`.
    pub const DEFAULT_VM_MEMORY_OVERHEAD_PERCENT: f64 = 0.075;

    /// Settings with only an AMI family and the zones of subnets.
    #[must_use]
    pub fn new(ami_family: AmiFamily, zones: Vec<Zone>) -> Self {
        Self {
            ami_family,
            kubelet: KubeletSettings::default(),
            block_devices: Vec::new(),
            instance_store_policy: None,
            network_interfaces: Vec::new(),
            ip_prefix_count: 0,
            connection_tracking: false,
            nested_virtualization: false,
            enclaves: false,
            placement_group: None,
            reserved_enis: 0,
            vm_memory_overhead_percent: Self::DEFAULT_VM_MEMORY_OVERHEAD_PERCENT,
            zones,
            capacity_reservations: Vec::new(),
            root_volume: None,
            learned_memory: BTreeMap::new(),
        }
    }

    /// EFA-only network interfaces.
    pub(crate) fn efa_only_interfaces(&self) -> impl Iterator<Item = &NetworkInterface> {
        self.network_interfaces.iter().filter(|interface| interface.efa_only)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_percentages_or_amounts() {
        assert_eq!("5%".parse(), Ok(EvictionThreshold::Percent(5.0)));
        assert_eq!("200Mi".parse(), Ok(EvictionThreshold::Quantity(Quantity::from_mebibytes(200))));
        for bad in ["", "%", "101%", "-1%", "NaN%", "-5Mi", "a lot"] {
            let error = bad.parse::<EvictionThreshold>().unwrap_err();
            assert!(error.to_string().contains("not an eviction threshold"), "{bad}: {error}");
        }
    }
}
