//! The effects of a step, and the result of a launch.

use jiff::Timestamp;
use nodeless_model::claim::Charge;
use nodeless_model::instance::OfferingFailure;
use nodeless_model::object::{NodePatch, ObjectEvent, PodRef};
use nodeless_model::{Instance, Node, NodeClaim, ResourceList, StringMap};
use std::time::Duration;

/// The next record of a claim, and what to do once it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The next record. When it equals the last one, nothing needs to be written.
    pub claim: NodeClaim,
    /// What it is charged from now on, when that changes; to be written together with the record.
    pub charge: Option<Charge>,
    /// What to do then, in this order. When one fails, those after it wait for the next step, except that a pod that cannot be
    /// evicted or deleted does not keep the next from being tried, and that nothing waits for tags.
    pub effects: Vec<Effect>,
    /// When to look again; zero means at once, `None` that nothing is expected to happen by itself.
    pub requeue: Option<Duration>,
    /// The events to publish.
    pub events: Vec<ObjectEvent>,
    /// What could not be read and is therefore waited for, in words.
    pub blocked: Vec<String>,
}

/// One thing to do. Doing it twice is the same as doing it once.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Launch the claim's group under its client token; the answer goes to [`absorb`](crate::absorb()).
    Launch,
    /// Give these instances, found by the tag of the launch group, to the members that
    /// [`assign`](crate::group::assign()) returns.
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
    /// Change a node.
    PatchNode {
        /// The node's name.
        name: String,
        /// The node's uid.
        uid: String,
        /// What to change.
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
        /// Its node.
        node: String,
    },
    /// Delete a pod past all budgets, because the drain's deadline is near.
    DeletePod {
        /// The pod.
        pod: PodRef,
        /// How many seconds it may take to stop; at least 1.
        grace_seconds: u32,
    },
    /// Ask EC2 to terminate an instance.
    TerminateInstance {
        /// The instance id.
        id: String,
    },
    /// Remember that EC2 did not have these offerings.
    MarkUnavailable {
        /// The offerings.
        failures: Vec<OfferingFailure>,
        /// Until when they are not to be asked for.
        until: Timestamp,
    },
    /// Report on the EC2NodeClass that EC2 refuses to launch from it, and check with a dry run whether that applies to
    /// all launches.
    ReportRefusal {
        /// What EC2 reported.
        message: String,
    },
    /// Make the NodeClaim object equal to the record.
    MirrorClaim,
    /// Delete the NodeClaim object and take the finalizer off.
    RemoveMirror,
    /// Delete the record and give its charge back.
    DeleteRecord,
    /// Ask for a plan: pods may need another node.
    WakePlanner,
}

/// What is known about an instance beyond EC2's answer: from the catalog.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Learned {
    /// The labels that its type and offering fix.
    pub labels: StringMap,
    /// What its node has.
    pub capacity: ResourceList,
    /// What its pods may use.
    pub allocatable: ResourceList,
    /// Dollars per hour.
    pub price: f64,
}

/// The result of a launch for one claim.
#[derive(Clone, Debug, PartialEq)]
pub enum LaunchResult {
    /// It has an instance.
    Launched {
        /// The instance.
        instance: Box<Instance>,
        /// Its data in the catalog.
        learned: Box<Learned>,
    },
    /// EC2 answered and there is no instance for it.
    NothingLaunched {
        /// What EC2 would not launch, and why.
        failures: Vec<OfferingFailure>,
        /// Whether other claims of the group got instances: then the launch as such was in order.
        others_launched: bool,
    },
    /// There was nothing left to ask EC2 for.
    NoOffering {
        /// Why.
        message: String,
    },
    /// The call failed, so that it is not known whether EC2 did anything.
    Failed {
        /// The service's code; empty if there is none.
        code: String,
        /// What the service stated.
        message: String,
        /// Whether a retry may help. Otherwise EC2 has certainly done nothing, and a user has to correct something.
        retryable: bool,
    },
}

impl Effect {
    /// A change of a node that exists.
    pub(crate) fn patch_node(node: &Node, patch: NodePatch) -> Self {
        Self::PatchNode { name: node.name.clone(), uid: node.uid.clone(), patch: Box::new(patch) }
    }
}

impl Step {
    /// A step that changes nothing and asks for nothing.
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

    /// Look again at once.
    pub(crate) fn again(mut self) -> Self {
        self.requeue = Some(Duration::ZERO);
        self
    }

    /// Look again after a while.
    pub(crate) fn after(mut self, delay: Duration) -> Self {
        self.requeue = Some(delay);
        self
    }

    /// Do nothing because something could not be read, and look again after a while.
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
