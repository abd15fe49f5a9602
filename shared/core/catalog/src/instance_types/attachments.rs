//! The number of EBS volumes that a node attaches for pods.

use std::collections::BTreeSet;

use crate::node_class::NodeClassSettings;
use crate::type_facts::TypeFacts;

/// What the EBS CSI driver reports in the CSINode of a new node by default, without `volumeAttachLimit` and
/// `reservedVolumeAttachments` (`getVolumesLimit` in `pkg/driver/node.go`): what EC2 attaches, less the volumes that are attached at
/// launch, and, where network interfaces share the limit, less the interfaces after the primary one. At least 1, because Kubernetes
/// takes 0 for no limit.
pub(super) fn ebs_volumes(facts: &TypeFacts, settings: &NodeClassSettings) -> u32 {
    let interfaces = if facts.interfaces_take_attachments { further_interfaces(facts, settings) } else { 0 };
    facts.ebs_attachments.saturating_sub(volumes_at_launch(settings)).saturating_sub(interfaces).max(1)
}

/// The names of root devices in Linux and Windows AMIs.
const ROOT_DEVICES: [&str; 2] = ["/dev/xvda", "/dev/sda1"];

/// The devices of the AMI and of the EC2NodeClass. Of an unknown AMI, at least the root device counts too.
fn volumes_at_launch(settings: &NodeClassSettings) -> u32 {
    let mut devices: BTreeSet<&str> = settings.ami_family.devices().iter().copied().collect();
    devices.extend(settings.block_devices.iter().filter_map(|device| device.device_name.as_deref()));
    let root = u32::from(!ROOT_DEVICES.iter().any(|root| devices.contains(root)));
    u32::try_from(devices.len()).unwrap_or(u32::MAX).saturating_add(root)
}

/// The interfaces after the primary one that a node has before it runs pods. The VPC CNI keeps one interface more than those that pods
/// use (`WARM_ENI_TARGET`, 1 by default), and attaches others only as pods need their addresses. Pods do not use the reserved ones.
fn further_interfaces(facts: &TypeFacts, settings: &NodeClassSettings) -> u32 {
    let at_launch = u32::try_from(settings.network_interfaces.len()).unwrap_or(u32::MAX).max(1);
    let needed = at_launch.saturating_sub(1).saturating_add(settings.reserved_enis).saturating_add(1);
    let most: u32 = facts.network_cards.iter().map(|card| card.maximum_interfaces).sum();
    if facts.network_cards.is_empty() { needed } else { needed.min(most.saturating_sub(1)) }
}
