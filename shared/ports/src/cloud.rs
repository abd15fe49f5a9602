//! EC2, for the lifecycle of a claim.

use crate::PortError;
use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_api::EC2NodeClass;
pub use nodeless_model::instance::{
    FaultKind, Instance, InstanceFault, InstanceState, LaunchCandidate, LaunchOutcome, OfferingFailure,
};
use nodeless_model::launch_check::Refusal;
use nodeless_model::{NodeClaim, StringMap};

/// The launch of identical instances for the members of one launch group.
#[derive(Clone, Debug)]
pub struct LaunchRequest<'a> {
    /// Any member of the group: its spec defines the instances, its launch group the number, and [`NodeClaim::client_token`] the
    /// client token. The instances get the tag `nodeless.sh/launch-group` with the group's id.
    pub claim: &'a NodeClaim,
    /// The EC2NodeClass with its resolved status.
    pub node_class: &'a EC2NodeClass,
    /// The offerings that the requirements allow and the catalog has, cheapest first. At least one.
    pub candidates: &'a [LaunchCandidate],
}

/// EC2.
#[async_trait]
pub trait Cloud: Send + Sync {
    /// Launches instances. The same client token returns the same answer.
    ///
    /// # Errors
    /// When the call as a whole failed. A lack of capacity is a result, not an error. The code `IdempotentParameterMismatch`
    /// means that an earlier call with this token used other prices or images, and that its answer is unknown:
    /// [`Self::group_instances`] eventually lists what it launched.
    async fn launch(&self, request: LaunchRequest<'_>) -> Result<LaunchOutcome, PortError>;

    /// Checks by dry runs whether EC2 would launch this, and returns the reason if not. Creates only the launch template that
    /// such a launch uses. A lack of capacity is not a rejection.
    ///
    /// # Errors
    /// When EC2 did not answer. The result is unknown then.
    async fn dry_run(&self, request: LaunchRequest<'_>) -> Result<Option<Refusal>, PortError>;

    /// The existing instances with these ids, including terminated ones for as long as EC2 lists them.
    ///
    /// # Errors
    /// When EC2 cannot be read. A missing id is left out, which is not an error.
    async fn instances(&self, ids: &[String]) -> Result<Vec<Instance>, PortError>;

    /// All instances with this cluster's tags, except for terminated ones. This includes instances that Karpenter launched.
    ///
    /// # Errors
    /// When EC2 cannot be read as a whole.
    async fn all_instances(&self) -> Result<Vec<Instance>, PortError>;

    /// The instances with the tag of this launch group, except for terminated ones. The list is eventually consistent: an
    /// instance that was just launched, or whose tags are not visible yet, may be missing.
    ///
    /// # Errors
    /// When EC2 cannot be read as a whole.
    async fn group_instances(&self, group: &str) -> Result<Vec<Instance>, PortError>;

    /// The instances, including those of others, that fail a status check or have a scheduled event that ends them, with the
    /// fault. Completed and canceled events are left out.
    ///
    /// # Errors
    /// When EC2 cannot be read as a whole.
    async fn instance_faults(&self) -> Result<Vec<InstanceFault>, PortError>;

    /// Requests termination. Instances that are already gone count as success.
    ///
    /// # Errors
    /// When one of the requests failed.
    async fn terminate(&self, ids: &[String]) -> Result<(), PortError>;

    /// Stops running instances with one call: all or none. Those that are stopping or stopped stay so.
    ///
    /// # Errors
    /// When EC2 rejected it.
    async fn stop(&self, ids: &[String]) -> Result<(), PortError>;

    /// Starts stopped instances with one call: all or none. Those that are pending or running stay so.
    ///
    /// # Errors
    /// When EC2 rejected it, with its code: `InsufficientInstanceCapacity` when it has no capacity for all of them now.
    async fn start(&self, ids: &[String]) -> Result<(), PortError>;

    /// Reboots a running instance. Its state stays `running`, and each call reboots it.
    ///
    /// # Errors
    /// When EC2 rejected it.
    async fn reboot(&self, id: &str) -> Result<(), PortError>;

    /// Adds tags to an instance. Tags with the same key are replaced.
    ///
    /// # Errors
    /// When EC2 rejected it.
    async fn tag(&self, id: &str, tags: &StringMap) -> Result<(), PortError>;

    /// Deletes up to `max_count` launch templates of the cluster that no launch has used since this time, and returns their names.
    ///
    /// # Errors
    /// When EC2 cannot be read, or rejected a deletion.
    async fn delete_unused_launch_templates(
        &self,
        since: Timestamp,
        max_count: usize,
    ) -> Result<Vec<String>, PortError>;
}
