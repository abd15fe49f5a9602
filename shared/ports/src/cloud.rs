//! EC2, as the life of a claim needs it.

use crate::PortError;
use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_api::EC2NodeClass;
use nodeless_model::{CapacityType, NodeClaim, StringMap};

/// Instances to launch for the members of one launch group, all alike.
#[derive(Clone, Debug)]
pub struct LaunchRequest<'a> {
    /// Any member of the group: its spec says what to launch, its launch group the client token and how many.
    pub claim: &'a NodeClaim,
    /// The EC2NodeClass with its resolved status.
    pub node_class: &'a EC2NodeClass,
    /// What may be launched, cheapest first: what the requirements allow and the catalog has. At least one.
    pub candidates: &'a [LaunchCandidate],
}

/// One thing that may be launched.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchCandidate {
    /// The instance type.
    pub instance_type: String,
    /// Its processor architecture, `amd64` or `arm64`, which decides the AMI.
    pub architecture: String,
    /// The labels of the type that AMI selection looks at (GPU count, accelerator count and so on).
    pub labels: StringMap,
    /// The greatest number of pods, for the kubelet.
    pub max_pods: u32,
    /// The availability zone, by name.
    pub zone: String,
    /// How it is bought.
    pub capacity_type: CapacityType,
    /// Dollars per hour.
    pub price: f64,
    /// The capacity reservation, where the capacity type is `reserved`.
    pub reservation_id: Option<String>,
}

/// What EC2 did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaunchOutcome {
    /// The instances, in the order of their ids. Fewer than asked for when capacity ran out.
    pub instances: Vec<Instance>,
    /// What EC2 would not launch, and why.
    pub failures: Vec<OfferingFailure>,
}

/// An offering that EC2 would not launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferingFailure {
    /// The instance type.
    pub instance_type: String,
    /// The availability zone, by name.
    pub zone: String,
    /// How it would have been bought.
    pub capacity_type: CapacityType,
    /// EC2's code.
    pub code: String,
    /// EC2's message.
    pub message: String,
    /// Whether it is a lack of capacity, which passes, rather than an error, which a person must mend.
    pub lacks_capacity: bool,
}

/// An instance that carries our tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The instance id.
    pub id: String,
    /// Where it stands.
    pub state: InstanceState,
    /// The instance type.
    pub instance_type: String,
    /// The availability zone, by name.
    pub zone: String,
    /// How it was bought.
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
    /// When EC2 launched it.
    pub launched: Timestamp,
    /// All its tags.
    pub tags: StringMap,
}

/// Where an instance stands, by EC2's names.
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

impl Instance {
    /// Whether it exists and is not being terminated.
    #[must_use]
    pub const fn is_alive(&self) -> bool {
        !matches!(self.state, InstanceState::ShuttingDown | InstanceState::Terminated)
    }
}

/// EC2.
#[async_trait]
pub trait Cloud: Send + Sync {
    /// Launches instances. The group's id is the client token: the same call again finds the same instances.
    ///
    /// # Errors
    /// When the call as a whole failed; a lack of capacity is an outcome, not an error.
    async fn launch(&self, request: LaunchRequest<'_>) -> Result<LaunchOutcome, PortError>;

    /// The instances with these ids that EC2 knows; terminated ones too, for as long as EC2 lists them.
    ///
    /// # Errors
    /// When EC2 cannot be read. An id that EC2 does not know is left out, not an error.
    async fn instances(&self, ids: &[String]) -> Result<Vec<Instance>, PortError>;

    /// All instances with this cluster's tags, other than terminated ones. Instances that Karpenter made are among them.
    ///
    /// # Errors
    /// When EC2 cannot be read as a whole.
    async fn all_instances(&self) -> Result<Vec<Instance>, PortError>;

    /// Asks for termination. Instances that are gone already are a success.
    ///
    /// # Errors
    /// When one of them could not be asked for.
    async fn terminate(&self, ids: &[String]) -> Result<(), PortError>;

    /// Adds tags to an instance; tags of the same key are replaced.
    ///
    /// # Errors
    /// When EC2 refused.
    async fn tag(&self, id: &str, tags: &StringMap) -> Result<(), PortError>;

    /// Deletes launch templates of ours that no launch has used since this time, and returns their names.
    ///
    /// # Errors
    /// When EC2 cannot be read, or refused a deletion.
    async fn delete_unused_launch_templates(&self, since: Timestamp) -> Result<Vec<String>, PortError>;
}
