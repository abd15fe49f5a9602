//! EC2, as the life of a claim needs it.

use crate::{PortError, Refusal};
use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_api::EC2NodeClass;
pub use nodeless_model::instance::{
    FaultKind, Instance, InstanceFault, InstanceState, LaunchCandidate, LaunchOutcome, OfferingFailure,
};
use nodeless_model::{NodeClaim, StringMap};

/// Instances to launch for the members of one launch group, all alike.
#[derive(Clone, Debug)]
pub struct LaunchRequest<'a> {
    /// Any member of the group: its spec is what to launch, its launch group how many, and
    /// [`NodeClaim::client_token`] the client token. The instances get the tag `nodeless.sh/launch-group`, the group's id.
    pub claim: &'a NodeClaim,
    /// The EC2NodeClass with its resolved status.
    pub node_class: &'a EC2NodeClass,
    /// What may be launched, cheapest first: what the requirements allow and the catalog has. At least one.
    pub candidates: &'a [LaunchCandidate],
}

/// EC2.
#[async_trait]
pub trait Cloud: Send + Sync {
    /// Launches instances. The same client token again gives the same answer.
    ///
    /// # Errors
    /// When the call as a whole failed; a lack of capacity is an outcome, not an error. With the code
    /// `IdempotentParameterMismatch` an earlier call with this token was made from other prices or images, and its answer is
    /// not known: [`Self::group_instances`] lists what it launched, after a while.
    async fn launch(&self, request: LaunchRequest<'_>) -> Result<LaunchOutcome, PortError>;

    /// Asks by dry runs whether EC2 would launch this, and returns why it would not. Makes the launch template that such a
    /// launch uses, and nothing else. A lack of capacity is no refusal.
    ///
    /// # Errors
    /// When EC2 could not be asked: nothing is known then.
    async fn dry_run(&self, request: LaunchRequest<'_>) -> Result<Option<Refusal>, PortError>;

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

    /// The instances that carry the tag of this launch group, other than terminated ones, as far as EC2 lists them: one that was
    /// just launched may be missing, and so may one whose tags have not come through yet.
    ///
    /// # Errors
    /// When EC2 cannot be read as a whole.
    async fn group_instances(&self, group: &str) -> Result<Vec<Instance>, PortError>;

    /// The instances, those of others too, whose status checks fail or for which EC2 plans something that takes them away, and
    /// what that is. What is over or was called off is left out.
    ///
    /// # Errors
    /// When EC2 cannot be read as a whole.
    async fn instance_faults(&self) -> Result<Vec<InstanceFault>, PortError>;

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

    /// Deletes launch templates of ours that no launch has used since this time, at most so many, and returns their names.
    ///
    /// # Errors
    /// When EC2 cannot be read, or refused a deletion.
    async fn delete_unused_launch_templates(&self, since: Timestamp, most: usize) -> Result<Vec<String>, PortError>;
}
