//! Launch templates as plain values: one for each distinct configuration, named after its content.

use crate::ClusterDetails;
use crate::block_devices::{NoRootVolume, block_devices, with_root_volume};
use crate::kubelet_values::{ReservedValues, with_values};
use crate::user_data::{UserDataError, UserDataInput, user_data};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nodeless_api::EC2NodeClass;
use nodeless_api::nodeclass::{
    AmiFamily, BlockDeviceMapping, ConnectionTracking, EC2NodeClassSpec, InterfaceType, MetadataOptions,
    NetworkInterface, PlacementGroupSelector, SpecProblems, Toggle, kubelet,
};
use nodeless_model::shell::quoted;
use nodeless_model::{NodeClaim, ParseQuantityError, Quantity, StringMap, Taint, labels};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// The largest volume that EBS has, in GiB.
const LARGEST_VOLUME_GIB: i32 = 65_536;

/// The resource that pods request to get an elastic fabric adapter.
pub const EFA_RESOURCE: &str = "vpc.amazonaws.com/efa";

/// The content of a launch template. The name is computed from it, so that equal templates are shared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TemplateSpec {
    /// The AMI.
    pub image_id: String,
    /// User data in base64; empty if there is none.
    pub user_data: String,
    /// The instance profile, by name.
    pub instance_profile: String,
    /// Security groups, by id.
    pub security_group_ids: Vec<String>,
    /// Whether the primary interface gets a public address; `None` leaves it to the subnet.
    pub associate_public_ip_address: Option<bool>,
    /// The number of address prefixes of each interface for IP traffic.
    pub ip_prefix_count: Option<i32>,
    /// Whether interfaces get IPv6 addresses rather than IPv4 prefixes.
    pub ipv6: bool,
    /// All interfaces, the primary one first.
    pub network_interfaces: Vec<Interface>,
    /// Idle timeouts of connections.
    pub connection_tracking: Option<ConnectionTracking>,
    /// Disks.
    pub block_devices: Vec<BlockDeviceMapping>,
    /// The metadata service options.
    pub metadata_options: MetadataOptions,
    /// Whether detailed monitoring is enabled.
    pub detailed_monitoring: bool,
    /// Whether nested virtualization is enabled.
    pub nested_virtualization: Option<Toggle>,
    /// The capacity reservation to launch into; without one, open reservations are not used.
    pub reservation_id: Option<String>,
    /// The market type of that reservation, if it has one of its own.
    pub market: Option<Market>,
    /// `dedicated`, if the claim requires it.
    pub tenancy: Option<&'static str>,
    /// The placement group.
    pub placement_group: Option<PlacementGroupSelector>,
    /// The partition of the placement group; `None` leaves the choice to EC2.
    pub partition: Option<u32>,
    /// Whether Nitro Enclaves are enabled.
    pub enclaves: bool,
    /// The capacity type: requests for spot instances are tagged too.
    pub spot: bool,
    /// Tags of the resources that the template creates beside the instance: network interfaces, and the template itself.
    pub tags: StringMap,
}

/// Why a launch template cannot be made from an EC2NodeClass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The class is not resolved yet.
    #[error(
        "EC2NodeClass {class} has no {what} in its status; `kubectl describe ec2nodeclass {}` shows why",
        quoted(class)
    )]
    Unresolved {
        /// The class.
        class: String,
        /// What is missing.
        what: &'static str,
    },
    /// An invalid disk size.
    #[error("EC2NodeClass {class}: spec.blockDeviceMappings: {source}")]
    BlockDevice {
        /// The class.
        class: String,
        /// What is wrong.
        source: VolumeSizeError,
    },
    /// The NodePool determines the size of a volume that the class does not have.
    #[error("EC2NodeClass {class}: {source}")]
    NoRootVolume {
        /// The class.
        class: String,
        /// What is wrong.
        source: NoRootVolume,
    },
    /// An invalid kubelet setting.
    #[error("EC2NodeClass {class}: {source}")]
    Kubelet {
        /// The class.
        class: String,
        /// What is wrong.
        source: SpecProblems,
    },
    /// The user data cannot be created.
    #[error("EC2NodeClass {class}: {source}")]
    UserData {
        /// The class.
        class: String,
        /// The reason.
        source: UserDataError,
    },
}

/// The parameters that distinguish the templates of one launch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Variant {
    /// The AMI.
    pub image_id: String,
    /// The maximum number of pods.
    pub max_pods: u32,
    /// The values of the class's expressions in `kubeReserved` and `systemReserved`.
    pub reserved: ReservedValues,
    /// The capacity reservation.
    pub reservation_id: Option<String>,
    /// The partition of the placement group; `None` leaves the choice to EC2.
    pub partition: Option<u32>,
    /// The market type of the reservation, if it has one of its own.
    pub market: Option<Market>,
    /// Elastic fabric adapters, one for each network card; 0 if no pod requests one or the class lists its interfaces.
    pub efa_interfaces: u32,
    /// The size in GiB of the volume for the data of containers; `None` if the class decides.
    pub root_volume_gib: Option<u32>,
}

/// The market type of a capacity reservation that is not used like on-demand capacity.
///
/// Of reservations with the same price, an earlier one is used first, as in Karpenter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Market {
    /// A capacity block.
    CapacityBlock,
    /// A reservation whose owner may reclaim it: EC2 then terminates the instances, two minutes after a notice.
    /// <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/interruptible-capacity-reservations.html>
    Interruptible,
}

impl Market {
    /// EC2's name of the market type and of the reservation type of a fleet.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CapacityBlock => "capacity-block",
            Self::Interruptible => "interruptible-capacity-reservation",
        }
    }
}

/// A network interface of a template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// The index of the card, from 0.
    pub network_card_index: i32,
    /// The index of the interface on its card, from 0.
    pub device_index: i32,
    /// The kind of traffic.
    pub kind: InterfaceKind,
}

/// The traffic of a network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum InterfaceKind {
    /// IP traffic.
    Interface,
    /// IP and elastic fabric traffic.
    Efa,
    /// Only elastic fabric traffic.
    EfaOnly,
}

impl InterfaceKind {
    /// EC2's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Interface => "interface",
            Self::Efa => "efa",
            Self::EfaOnly => "efa-only",
        }
    }
}

impl TemplateSpec {
    /// The template for a claim, its class and a variant.
    ///
    /// # Errors
    /// See [`TemplateError`].
    pub fn new(
        cluster: &ClusterDetails,
        claim: &NodeClaim,
        class: &EC2NodeClass,
        variant: &Variant,
        spot: bool,
    ) -> Result<Self, TemplateError> {
        let name = || class.metadata.name.clone().unwrap_or_default();
        let spec = &class.spec;
        let status = class.status.clone().unwrap_or_default();
        let family = spec.resolved_ami_family().unwrap_or(AmiFamily::Custom);
        let kubelet =
            kubelet::parse(&spec.kubelet).map_err(|source| TemplateError::Kubelet { class: name(), source })?;
        let (kubelet, kubelet_fields) = with_values(kubelet, &spec.kubelet, &variant.reserved);
        let mut taints = claim.spec.taints.clone();
        taints.extend(claim.spec.startup_taints.iter().cloned());
        taints.push(Taint::unregistered());
        let text = user_data(&UserDataInput {
            cluster,
            family,
            image: status.amis.iter().find(|ami| ami.id == variant.image_id).and_then(|ami| ami.name.as_deref()),
            custom: spec.user_data.as_deref(),
            kubelet: &kubelet,
            kubelet_fields: &kubelet_fields,
            max_pods: variant.max_pods,
            instance_store: spec.instance_store_policy,
            labels: &claim.node_labels(),
            taints: &taints,
        })
        .map_err(|source| TemplateError::UserData { class: name(), source })?;
        let mut block_devices = block_devices(&spec.block_device_mappings, family);
        if let Some(gib) = variant.root_volume_gib {
            let sized = with_root_volume(&mut block_devices, family, gib);
            sized.map_err(|source| TemplateError::NoRootVolume { class: name(), source })?;
        }
        for volume in block_devices.iter().filter_map(|mapping| mapping.ebs.as_ref()?.volume_size.as_deref()) {
            gibibytes(volume).map_err(|source| TemplateError::BlockDevice { class: name(), source })?;
        }
        let missing = |what| TemplateError::Unresolved { class: name(), what };
        if status.security_groups.is_empty() {
            return Err(missing("securityGroups"));
        }
        Ok(Self {
            image_id: variant.image_id.clone(),
            user_data: STANDARD.encode(text),
            instance_profile: status.instance_profile.ok_or_else(|| missing("instanceProfile"))?,
            security_group_ids: status.security_groups.into_iter().map(|group| group.id).collect(),
            associate_public_ip_address: spec.associate_public_ip_address,
            ip_prefix_count: spec.ip_prefix_count,
            ipv6: cluster.is_ipv6(),
            network_interfaces: interfaces(&spec.network_interfaces, variant.efa_interfaces),
            connection_tracking: spec.connection_tracking.clone(),
            block_devices,
            metadata_options: spec.metadata_options.clone(),
            detailed_monitoring: spec.detailed_monitoring.unwrap_or(false),
            nested_virtualization: spec.cpu_options.as_ref().and_then(|options| options.nested_virtualization),
            reservation_id: variant.reservation_id.clone(),
            market: variant.market,
            tenancy: tenancy(claim),
            placement_group: spec.placement_group_selector.clone(),
            partition: variant.partition,
            enclaves: spec.enclaves(),
            spot,
            tags: owner_tags(cluster, claim, &spec.tags),
        })
    }

    /// The template's name: the first 64 bits of the SHA-256 of its content, so that the same content is found again after any
    /// crash, and changed content becomes a new template.
    #[must_use]
    pub fn name(&self) -> String {
        // Plain data can always be serialized; otherwise the name would still be deterministic.
        let content = serde_json::to_vec(self).unwrap_or_default();
        let hash = Sha256::digest(&content).iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        format!("nodeless/{hash:016x}")
    }
}

/// The tags that identify the owner of an instance, volume, interface or template. The user's tags come first and cannot override
/// those of nodeless.
#[must_use]
pub fn owner_tags(cluster: &ClusterDetails, claim: &NodeClaim, users: &StringMap) -> StringMap {
    let mut tags = users.clone();
    tags.extend([
        (format!("kubernetes.io/cluster/{}", cluster.name), "owned".to_owned()),
        (labels::CLUSTER_NAME_TAG.to_owned(), cluster.name.clone()),
        // Also of a claim without a NodePool, with an empty value, as Karpenter: instances are listed by this key.
        (labels::NODE_POOL.to_owned(), claim.node_pool.clone().unwrap_or_default()),
        (labels::EC2_NODE_CLASS.to_owned(), claim.node_class.clone()),
    ]);
    tags
}

/// The tags of the instances of a launch. An instance that is launched alone has the name of its claim from the start; instances
/// that are launched together get it afterwards, because one call tags all its instances equally.
#[must_use]
pub fn instance_tags(cluster: &ClusterDetails, claim: &NodeClaim, class: &EC2NodeClassSpec) -> StringMap {
    let mut tags = owner_tags(cluster, claim, &class.tags);
    // User data of the family Custom is the user's own, so it is not known which authority it trusts.
    let has_authority = class.resolved_ami_family().is_some_and(|family| family != AmiFamily::Custom);
    if let Some(digest) = cluster.authority_digests().filter(|_| has_authority) {
        tags.insert(labels::CERTIFICATE_AUTHORITY.to_owned(), digest);
    }
    if let Some(group) = &claim.spec.launch_group {
        tags.insert(labels::LAUNCH_GROUP_TAG.to_owned(), group.id.clone());
    }
    if claim.spec.launch_group.as_ref().is_none_or(|group| group.size == 1) {
        tags.insert(labels::NODE_CLAIM_TAG.to_owned(), claim.name.clone());
    }
    tags
}

/// The class's interfaces; otherwise one primary interface, or one with an elastic fabric adapter for each card, as requested.
fn interfaces(listed: &[NetworkInterface], efa_interfaces: u32) -> Vec<Interface> {
    if !listed.is_empty() {
        let interface = |interface: &NetworkInterface| Interface {
            network_card_index: interface.network_card_index,
            device_index: interface.device_index,
            kind: match interface.interface_type {
                InterfaceType::Interface => InterfaceKind::Interface,
                InterfaceType::EfaOnly => InterfaceKind::EfaOnly,
            },
        };
        return listed.iter().map(interface).collect();
    }
    if efa_interfaces == 0 {
        return vec![Interface { network_card_index: 0, device_index: 0, kind: InterfaceKind::Interface }];
    }
    // EC2 has at most a few dozen cards.
    let cards = 0..i32::try_from(efa_interfaces).unwrap_or(i32::MAX);
    cards
        .map(|card| Interface { network_card_index: card, device_index: i32::from(card > 0), kind: InterfaceKind::Efa })
        .collect()
}

/// The tenancy, if it is not EC2's default.
fn tenancy(claim: &NodeClaim) -> Option<&'static str> {
    Some(claim.tenancy()).filter(|tenancy| *tenancy != "default")
}

/// A size that no EBS volume has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeSizeError {
    /// The size is not a quantity.
    #[error("volumeSize: {0}")]
    Quantity(#[from] ParseQuantityError),
    /// The size is negative.
    #[error("volumeSize: {0} is negative")]
    Negative(String),
    /// The size exceeds the maximum of EBS.
    #[error("volumeSize: {0} is more than the 64Ti that a volume can have")]
    TooLarge(String),
}

/// EBS uses whole GiB; other quantities are rounded up.
///
/// # Errors
/// When the text is not a valid EBS size.
pub fn gibibytes(size: &str) -> Result<i32, VolumeSizeError> {
    let quantity: Quantity = size.parse()?;
    let bytes = u64::try_from(quantity.units()).map_err(|_| VolumeSizeError::Negative(size.to_owned()))?;
    let gibibytes = i32::try_from(bytes.div_ceil(1 << 30)).ok().filter(|size| *size <= LARGEST_VOLUME_GIB);
    gibibytes.ok_or_else(|| VolumeSizeError::TooLarge(size.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_whole_gibibytes_rounded_up() {
        for (text, size) in [("20Gi", 20), ("1Ti", 1024), ("20G", 19), ("1G", 1)] {
            assert_eq!(gibibytes(text), Ok(size), "{text}");
        }
        for bad in ["x", "-1Gi", "65Ti"] {
            assert!(gibibytes(bad).unwrap_err().to_string().contains("volumeSize"), "{bad}");
        }
    }

    #[test]
    fn each_card_gets_one_adapter_and_the_first_is_the_primary() {
        let places = |count| -> Vec<(i32, i32)> {
            interfaces(&[], count).iter().map(|it| (it.network_card_index, it.device_index)).collect()
        };
        assert_eq!(places(0), [(0, 0)]);
        assert_eq!(places(3), [(0, 0), (1, 1), (2, 1)]);
        assert!(interfaces(&[], 3).iter().all(|it| it.kind == InterfaceKind::Efa));
    }
}
