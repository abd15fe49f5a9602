//! The settings of an EC2NodeClass that change what an instance type is, as plain values.

use std::collections::BTreeMap;
use std::str::FromStr;

use nodeless_model::{Quantity, ResourceList};

use crate::facts::Zone;

/// The family of machine images, which decides the disk layout, the density of pods and what the system reserves.
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

    /// Whether it runs Windows.
    #[must_use]
    pub const fn is_windows(self) -> bool {
        self.windows_build().is_some()
    }

    /// Whether its network interfaces bound the number of pods. Windows nodes have a fixed default instead.
    pub(crate) const fn pods_limited_by_interfaces(self) -> bool {
        !self.is_windows()
    }

    /// Whether kube-reserved memory follows the interfaces' pods even where `maxPods` states otherwise.
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

    /// The size of that device where the node class maps none, in GiB.
    pub(crate) const fn default_ephemeral_gib(self) -> i64 {
        if self.is_windows() { 50 } else { 20 }
    }
}

/// How much of a resource has to be free, or else the kubelet evicts pods.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EvictionThreshold {
    /// An amount.
    Quantity(Quantity),
    /// A share of the capacity, in percent, from 0 to 100. 100 means that the threshold is off, as for the kubelet.
    Percent(f64),
}

/// Why a text is no eviction threshold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no eviction threshold; write a percentage from 0% to 100% or a quantity that is not negative, such as 200Mi"
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

/// The kubelet settings that change what pods may use. `evictionSoft` does not, as in Karpenter.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KubeletSettings {
    /// Pods at most, instead of what the family would allow.
    pub max_pods: Option<u32>,
    /// Pods per virtual CPU at most; 0 is no limit.
    pub pods_per_core: Option<u32>,
    /// Replaces the computed reservation, resource by resource.
    pub kube_reserved: ResourceList,
    /// Nothing is reserved for the system unless stated here.
    pub system_reserved: ResourceList,
    /// `evictionHard` for `memory.available`.
    pub eviction_memory_available: Option<EvictionThreshold>,
    /// `evictionHard` for `nodefs.available`.
    pub eviction_nodefs_available: Option<EvictionThreshold>,
}

/// A disk that the node class maps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockDevice {
    /// Such as `/dev/xvda`.
    pub device_name: Option<String>,
    /// Whether the node class marks it as the one that holds containers' data.
    pub root_volume: bool,
    /// `None` where the snapshot's size holds.
    pub volume_size: Option<Quantity>,
}

/// What becomes of the instance's own disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceStorePolicy {
    /// One array of all of them holds containers' data.
    Raid0,
}

/// A network interface that the node class lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkInterface {
    /// Which card, from 0.
    pub network_card_index: u32,
    /// Which interface of the card, from 0.
    pub device_index: u32,
    /// Whether it is an elastic fabric adapter without IP traffic.
    pub efa_only: bool,
}

/// What kind of promise a capacity reservation is.
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

/// A capacity reservation that the node class selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapacityReservation {
    /// `cr-…`.
    pub id: String,
    /// The type that it holds.
    pub instance_type: String,
    /// The zone that it holds it in, by name.
    pub zone: String,
    /// What kind of promise it is.
    pub kind: ReservationKind,
    /// Whether EC2 may take its instances back.
    pub interruptible: bool,
    /// How many instances are left in it.
    pub remaining: u32,
    /// Whether its end is so near that nothing new may be launched into it.
    pub expiring: bool,
}

/// The settings of an EC2NodeClass, and of the controller, that change what an instance type is.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeClassSettings {
    /// Family of machine images.
    pub ami_family: AmiFamily,
    /// Kubelet settings.
    pub kubelet: KubeletSettings,
    /// Disks, in the order of the node class.
    pub block_devices: Vec<BlockDevice>,
    /// What becomes of the instance's own disks; `None` leaves them alone.
    pub instance_store_policy: Option<InstanceStorePolicy>,
    /// Network interfaces; empty where one primary interface does.
    pub network_interfaces: Vec<NetworkInterface>,
    /// `ipPrefixCount`: address prefixes given to each interface at launch. As in Karpenter it changes which types can
    /// be launched but not how many pods fit: that stays with `maxPods`.
    pub ip_prefix_count: u32,
    /// Whether the node class sets connection tracking timeouts, which only Nitro types with a hypervisor support.
    pub connection_tracking: bool,
    /// Whether the node class enables nested virtualisation.
    pub nested_virtualization: bool,
    /// The placement group.
    pub placement_group: Option<PlacementGroup>,
    /// Interfaces of the default card that pods cannot use (`RESERVED_ENIS`), as with custom networking.
    pub reserved_enis: u32,
    /// The share of memory that the hypervisor and the system take (`VM_MEMORY_OVERHEAD_PERCENT`), 0.075 for 7.5%.
    pub vm_memory_overhead_percent: f64,
    /// The zones that the node class has subnets in.
    pub zones: Vec<Zone>,
    /// Capacity reservations that the node class selects.
    pub capacity_reservations: Vec<CapacityReservation>,
    /// Memory capacity by instance type, as nodes with this class's images reported it
    /// ([`ReportedMemory`](crate::ReportedMemory)); it replaces the estimate.
    pub learned_memory: BTreeMap<String, Quantity>,
}

/// A placement group of a node class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementGroup {
    /// `pg-…`.
    pub id: String,
    /// `cluster`, `partition` or `spread`.
    pub strategy: String,
}

impl NodeClassSettings {
    /// Karpenter's default for `VM_MEMORY_OVERHEAD_PERCENT`.
    pub const DEFAULT_VM_MEMORY_OVERHEAD_PERCENT: f64 = 0.075;

    /// A node class that sets nothing but its family and its subnets' zones.
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
            placement_group: None,
            reserved_enis: 0,
            vm_memory_overhead_percent: Self::DEFAULT_VM_MEMORY_OVERHEAD_PERCENT,
            zones,
            capacity_reservations: Vec::new(),
            learned_memory: BTreeMap::new(),
        }
    }

    /// Network interfaces that carry nothing but elastic fabric traffic.
    pub(crate) fn efa_only_interfaces(&self) -> impl Iterator<Item = &NetworkInterface> {
        self.network_interfaces.iter().filter(|interface| interface.efa_only)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_shares_or_amounts() {
        assert_eq!("5%".parse(), Ok(EvictionThreshold::Percent(5.0)));
        assert_eq!("200Mi".parse(), Ok(EvictionThreshold::Quantity(Quantity::from_mebibytes(200))));
        for bad in ["", "%", "101%", "-1%", "NaN%", "-5Mi", "a lot"] {
            let error = bad.parse::<EvictionThreshold>().unwrap_err();
            assert!(error.to_string().contains("no eviction threshold"), "{bad}: {error}");
        }
    }
}
