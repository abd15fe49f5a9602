//! EC2 instances, and the results of launches.

use crate::nodes::claim::LaunchedInstance;
use crate::{CapacityType, ResourceList, StringMap, labels};
use jiff::Timestamp;

/// The code of a launch that EC2 accepted without reporting its result.
pub const LAUNCH_UNANSWERED: &str = "LaunchUnanswered";

/// An offering that may be launched.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchCandidate {
    /// The instance type.
    pub instance_type: String,
    /// The processor architecture, `amd64` or `arm64`, which decides the AMI.
    pub architecture: String,
    /// The labels of the type that AMI selection looks at (GPU count, accelerator count and so on), and of the
    /// offering (kind of capacity reservation).
    pub labels: StringMap,
    /// The maximum number of pods, for the kubelet.
    pub max_pods: u32,
    /// The resources reserved for the kubelet and the container runtime.
    pub kube_reserved: ResourceList,
    /// The resources reserved for the operating system.
    pub system_reserved: ResourceList,
    /// The availability zone, by name.
    pub zone: String,
    /// The capacity type.
    pub capacity_type: CapacityType,
    /// Dollars per hour.
    pub price: f64,
    /// The capacity reservation, where the capacity type is `reserved`.
    pub reservation_id: Option<String>,
    /// The partition of the placement group that EC2 has to use; `None` leaves the choice to EC2.
    pub partition: Option<u32>,
    /// Elastic fabric adapters that its nodes offer to pods.
    pub efa_interfaces: u32,
    /// The size in GiB of the volume for the data of containers; `None` if the EC2NodeClass decides.
    pub root_volume_gib: Option<u32>,
}

/// The result of a launch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaunchOutcome {
    /// The instances, in the order of their ids. Fewer than requested if capacity ran out.
    pub instances: Vec<Instance>,
    /// The errors of EC2.
    pub failures: Vec<OfferingFailure>,
}

/// An offering that EC2 did not launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferingFailure {
    /// The instance type.
    pub instance_type: String,
    /// The availability zone, by name.
    pub zone: String,
    /// The capacity type.
    pub capacity_type: CapacityType,
    /// EC2's code.
    pub code: String,
    /// EC2's message.
    pub message: String,
    /// Whether the error is a lack of capacity, which is transient, rather than an error that a user has to correct.
    pub lacks_capacity: bool,
    /// The id of the placement group of the launch.
    pub placement_group: Option<String>,
    /// The partition of the placement group that the launch requested.
    pub partition: Option<u32>,
    /// The id of the capacity reservation of the launch.
    pub reservation_id: Option<String>,
}

/// An instance with the tags of nodeless or Karpenter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The instance id.
    pub id: String,
    /// The state.
    pub state: InstanceState,
    /// The instance type.
    pub instance_type: String,
    /// The availability zone, by name.
    pub zone: String,
    /// The capacity type.
    pub capacity_type: CapacityType,
    /// The AMI.
    pub image_id: String,
    /// The subnet.
    pub subnet_id: Option<String>,
    /// The security groups.
    pub security_group_ids: Vec<String>,
    /// The private DNS name.
    pub private_dns_name: Option<String>,
    /// The capacity reservation that it runs in.
    pub reservation_id: Option<String>,
    /// The partition of its placement group, as far as it is known.
    pub partition: Option<u32>,
    /// When EC2 launched it.
    pub launched: Timestamp,
    /// All its tags.
    pub tags: StringMap,
}

/// The state of an instance, by EC2's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InstanceState {
    /// Being started.
    Pending,
    /// Running.
    Running,
    /// Being stopped.
    Stopping,
    /// Stopped.
    Stopped,
    /// Being terminated.
    ShuttingDown,
    /// Terminated; EC2 still lists it for about an hour.
    Terminated,
}

/// A problem that EC2 reports about an instance: a failed status check or a scheduled event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceFault {
    /// The instance id.
    pub id: String,
    /// The fault.
    pub kind: FaultKind,
}

/// The kinds of problems that EC2 reports about instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A status check fails.
    CheckFailed {
        /// The kind of check: `instance` for the instance status check, `system` for the system status check.
        check: &'static str,
        /// Since when, where EC2 reports that.
        since: Option<Timestamp>,
    },
    /// A scheduled event that ends or interrupts the instance.
    Planned {
        /// EC2's code, such as `instance-retirement`.
        code: String,
        /// The earliest time, where EC2 reports that.
        not_before: Option<Timestamp>,
    },
}

impl Instance {
    /// What the claim that owns it keeps of it. `price` is in dollars per hour, zero if unknown.
    #[must_use]
    pub fn launched_for(&self, price: f64) -> LaunchedInstance {
        let mut security_group_ids = self.security_group_ids.clone();
        security_group_ids.sort();
        security_group_ids.dedup();
        LaunchedInstance {
            id: self.id.clone(),
            instance_type: self.instance_type.clone(),
            zone: self.zone.clone(),
            capacity_type: self.capacity_type,
            price,
            image_id: self.image_id.clone(),
            private_dns_name: self.private_dns_name.clone(),
            reservation_id: self.reservation_id.clone(),
            subnet_id: self.subnet_id.clone(),
            security_group_ids,
            launched: self.launched,
            certificate_authority: self.tags.get(labels::CERTIFICATE_AUTHORITY).cloned(),
        }
    }

    /// Whether the instance exists and is not being terminated.
    #[must_use]
    pub const fn is_alive(&self) -> bool {
        !matches!(self.state, InstanceState::ShuttingDown | InstanceState::Terminated)
    }
}
