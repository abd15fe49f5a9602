//! Warm nodes: stopped instances of a NodePool that have joined the cluster once (the annotation `nodeless.sh/warm`).

use serde::{Deserialize, Serialize};

/// What is done with the instance of a claim that is or was kept warm. A claim that is not terminating passes through these in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Warm {
    /// The instance is launched, and its node joins, cordoned, so that the pods of DaemonSets start and their images are pulled.
    Preparing,
    /// The instance is being stopped; its Node is deleted once EC2 reports that it is stopped.
    Stopping,
    /// The instance is stopped. It has no Node.
    Stopped,
    /// A plan took the claim for pods: the instance is being started.
    Starting,
    /// The instance was started, and its node joins as that of a launch.
    Started,
}

impl Warm {
    /// The reason of the conditions Registered and Initialized of a claim in the state [`Stopped`](Self::Stopped). Of this state, the
    /// NodeClaim object has nothing else.
    pub const STOPPED: &'static str = "Stopped";
    /// The reason of the condition Initialized while the node is prepared to be stopped, and while its instance stops.
    pub const WARMING: &'static str = "Warming";
}
