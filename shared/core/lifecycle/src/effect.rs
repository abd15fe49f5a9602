//! The effects of a step, and the result of a launch.

use jiff::Timestamp;
use nodeless_model::claim::Charge;
use nodeless_model::instance::OfferingFailure;
use nodeless_model::object::{NodePatch, ObjectEvent, PodRef};
use nodeless_model::surge::{DeploymentChange, Surge};
use nodeless_model::{Instance, Node, NodeClaim, ResourceList, RootVolume, StringMap};
use std::time::Duration;

/// The next record of a claim, and its effects once it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The next record. When it equals the last one, nothing needs to be written.
    pub claim: NodeClaim,
    /// The new charge, if it changes; to be written together with the record.
    pub charge: Option<Charge>,
    /// The effects, in order. If one fails, those after it wait for the next step, with two exceptions: a pod that cannot be
    /// evicted or deleted, or whose successor cannot be created, does not block the next pod, and nothing waits for tags.
    pub effects: Vec<Effect>,
    /// When the next step is due; zero means at once, `None` that nothing is scheduled.
    pub requeue: Option<Duration>,
    /// The events to publish.
    pub events: Vec<ObjectEvent>,
    /// The errors of reads that the step waits for.
    pub blocked: Vec<String>,
}

/// An idempotent effect of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Launch the claim's group under its client token; the answer goes to [`absorb`](crate::absorb()).
    Launch,
    /// Assign these instances, found by the tag of the launch group, to the members that [`assign`](crate::group::assign())
    /// returns.
    Recover {
        /// The instances, in the order of their ids.
        instances: Vec<Instance>,
    },
    /// Add tags to an instance.
    TagInstance {
        /// The instance id.
        id: String,
        /// The tags.
        tags: StringMap,
    },
    /// Patch a node.
    PatchNode {
        /// The node's name.
        name: String,
        /// The node's uid.
        uid: String,
        /// The patch.
        patch: Box<NodePatch>,
    },
    /// Delete a node object; its finalizer holds it until the instance is gone.
    DeleteNode {
        /// The node's name.
        name: String,
        /// The node's uid.
        uid: String,
    },
    /// Evict a pod, honouring PodDisruptionBudgets.
    Evict {
        /// The pod.
        pod: PodRef,
        /// The node of the pod.
        node: String,
    },
    /// Delete a pod bypassing PodDisruptionBudgets, because the drain's deadline is near.
    DeletePod {
        /// The pod.
        pod: PodRef,
        /// The grace period in seconds; at least 1.
        grace_seconds: u32,
    },
    /// Change the Deployment of a surge.
    ChangeDeployment {
        /// The surge.
        surge: Box<Surge>,
        /// The change.
        change: DeploymentChange,
        /// The pod that the Deployment deletes if the change leaves it with too many. Before the change it gets the lowest deletion
        /// cost.
        delete_first: Option<PodRef>,
    },
    /// Stop the instance of the claim. An instance that is stopping or stopped stays so.
    StopInstance,
    /// Start the stopped instance of the claim. If EC2 rejects it, that goes to [`warm::not_started`](crate::warm::not_started()).
    StartInstance,
    /// Reboot an instance.
    RebootInstance {
        /// The instance id.
        id: String,
    },
    /// Terminate an instance.
    TerminateInstance {
        /// The instance id.
        id: String,
    },
    /// Record that EC2 has no capacity for these offerings.
    MarkUnavailable {
        /// The offerings.
        failures: Vec<OfferingFailure>,
        /// Until when they are unavailable.
        until: Timestamp,
    },
    /// Report on the EC2NodeClass that EC2 rejects launches from it, and validate by a dry run whether that applies to all
    /// launches.
    ReportRefusal {
        /// The message of EC2.
        message: String,
    },
    /// Make the NodeClaim object equal to the record.
    MirrorClaim,
    /// Delete the NodeClaim object and remove the finalizer.
    RemoveMirror,
    /// Delete the record and release its charge.
    DeleteRecord,
    /// Request a plan: pods may need another node.
    WakePlanner,
    /// Request a plan that does not wait for further pods: the node that was to run pods does not come.
    PlanAtOnce,
}

/// The data about an instance in the catalog, beyond EC2's answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Learned {
    /// The labels of its type and offering.
    pub labels: StringMap,
    /// Whether it is in a partition of a placement group that EC2 has not reported yet.
    pub awaits_partition: bool,
    /// The capacity of its node.
    pub capacity: ResourceList,
    /// The allocatable resources.
    pub allocatable: ResourceList,
    /// Dollars per hour.
    pub price: f64,
    /// Its root volume, where the NodePool determines its size.
    pub root_volume: Option<RootVolume>,
}

/// The result of a launch for one claim.
#[derive(Clone, Debug, PartialEq)]
pub enum LaunchResult {
    /// The claim has an instance.
    Launched {
        /// The instance.
        instance: Box<Instance>,
        /// The data of the instance in the catalog.
        learned: Box<Learned>,
    },
    /// EC2 answered, and there is no instance for the claim.
    NothingLaunched {
        /// The errors of EC2.
        failures: Vec<OfferingFailure>,
        /// Whether other claims of the group got instances: then the launch itself was valid.
        others_launched: bool,
    },
    /// There was no offering left to request.
    NoOffering {
        /// The reason.
        message: String,
    },
    /// The call failed, so that it is unknown whether EC2 launched anything.
    Failed {
        /// The service's code; empty if there is none.
        code: String,
        /// The message of the service.
        message: String,
        /// Whether a retry may help. Otherwise EC2 has certainly launched nothing, and a user has to fix something.
        retryable: bool,
    },
}

impl Effect {
    /// A patch of an existing node.
    pub(crate) fn patch_node(node: &Node, patch: NodePatch) -> Self {
        Self::PatchNode { name: node.name.clone(), uid: node.uid.clone(), patch: Box::new(patch) }
    }
}

impl Step {
    /// A step that changes nothing and has no effects.
    #[must_use]
    pub fn stay(claim: &NodeClaim) -> Self {
        Self {
            claim: claim.clone(),
            charge: None,
            effects: Vec::new(),
            requeue: None,
            events: Vec::new(),
            blocked: Vec::new(),
        }
    }

    /// Repeat at once.
    pub(crate) fn again(mut self) -> Self {
        self.requeue = Some(Duration::ZERO);
        self
    }

    /// Repeat after a while.
    pub(crate) fn after(mut self, delay: Duration) -> Self {
        self.requeue = Some(delay);
        self
    }

    /// Do nothing because something could not be read, and retry after a while.
    pub(crate) fn wait_for(self, what: &str, why: &str, delay: Duration) -> Self {
        self.hold(format!("{what} could not be read: {why}"), delay)
    }

    /// Do nothing because something blocks the step, and retry after a while.
    pub(crate) fn hold(mut self, why: String, delay: Duration) -> Self {
        self.blocked.push(why);
        self.requeue = Some(self.requeue.map_or(delay, |present| present.min(delay)));
        self
    }
}
