//! What a decision consists of.

use crate::drift::Drift;
use jiff::Timestamp;
use nodeless_model::DisruptionReason;
use nodeless_model::duration::format_go_duration;
use nodeless_model::object::{ObjectEvent, PodRef};
use nodeless_scheduling::Launch;
use serde::{Serialize, Serializer};
use std::fmt;
use std::time::Duration;

/// What is to be done, and why all else stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// What is to be done, if [`crate::revalidate`] agrees later.
    pub commands: Vec<Command>,
    /// Every node of ours that no command concerns, in the order of their names, and why it stays.
    pub kept: Vec<Kept>,
    /// What should be said on the objects concerned. Repeats itself with every decision: whoever publishes it leaves out
    /// what was said before.
    pub events: Vec<ObjectEvent>,
}

/// Nodes to remove, with what takes their place.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// Which command: the same for the same nodes and time.
    pub id: String,
    /// How it was found.
    pub method: Method,
    /// Why.
    pub reason: DisruptionReason,
    /// The nodes to remove, in the order of their names.
    pub candidates: Vec<Candidate>,
    /// The nodes to launch first.
    pub replacements: Vec<Replacement>,
    /// What the removed nodes cost less what the replacements cost, in dollars per hour.
    pub savings_per_hour: f64,
    /// The pods that have to move, in the order of their names.
    pub evictions: Vec<PodRef>,
    /// When it was decided.
    pub decided: Timestamp,
}

/// How a command was found, in the order in which the methods are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Method {
    /// Nodes that no pod needs.
    Emptiness,
    /// Nodes that no longer are what their NodePool or EC2NodeClass describes.
    Drift,
}

/// A node to remove.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// The Node.
    pub node: String,
    /// The NodeClaim.
    pub node_claim: String,
    /// The NodePool.
    pub node_pool: String,
}

/// A node to launch before others are removed.
#[derive(Clone, Debug, PartialEq)]
pub struct Replacement {
    /// The node. Its list of pod indices is empty; see `pods`.
    pub launch: Launch,
    /// The pods that it is for, `namespace/name`.
    pub pods: Vec<String>,
}

/// A node that stays.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kept {
    /// The Node's name, or the NodeClaim's while there is no Node.
    pub node: String,
    /// Why: at least one reason.
    pub reasons: Vec<KeptReason>,
}

/// Why a node stays. Its text is a sentence for people.
#[derive(Clone, Debug, PartialEq)]
pub enum KeptReason {
    /// A command disrupts it already.
    InCommand(String),
    /// It is going away already.
    Leaving,
    /// It has not joined or is not ready for pods yet.
    NotInitialized,
    /// It was made for pods that may be on their way to it.
    Nominated {
        /// Until when.
        until: Timestamp,
    },
    /// A pod that waits would fit there.
    PendingPod(String),
    /// It carries the annotation `karpenter.sh/do-not-disrupt`.
    DoNotDisruptNode,
    /// One of its pods carries the annotation `karpenter.sh/do-not-disrupt`.
    DoNotDisruptPod(String),
    /// Its NodePool does not exist.
    NoNodePool(String),
    /// Its NodePool keeps a fixed number of nodes.
    Static(String),
    /// A PodDisruptionBudget allows no eviction of one of its pods.
    PodDisruptionBudget {
        /// The pod.
        pod: String,
        /// The budget.
        budget: String,
    },
    /// More than one PodDisruptionBudget covers one of its pods: the Eviction API refuses that.
    SeveralPodDisruptionBudgets(String),
    /// `consolidateAfter` is `Never`.
    ConsolidationNever,
    /// Its pods changed less than `consolidateAfter` ago.
    TooRecent {
        /// The NodePool's `consolidateAfter`.
        consolidate_after: Duration,
        /// When that is over.
        until: Timestamp,
    },
    /// It runs pods, and the NodePool consolidates empty nodes only.
    NotEmptyPolicy {
        /// How many.
        pods: usize,
    },
    /// It runs pods; consolidation of such nodes is not built yet.
    NotEmpty {
        /// How many.
        pods: usize,
    },
    /// A disruption budget is used up.
    Budget {
        /// The NodePool.
        node_pool: String,
        /// For which reason the node would go.
        reason: DisruptionReason,
        /// How many nodes may be disrupted at once.
        allowed: u32,
        /// How many are: not ready or going away, with those of this decision.
        disrupting: u32,
    },
    /// It drifted, but one of its pods would fit nowhere.
    DriftBlocked {
        /// How it drifted.
        drift: Drift,
        /// The pod.
        pod: String,
        /// Why it would fit nowhere.
        why: String,
    },
    /// It drifted, and other nodes go first.
    DriftWaits(Drift),
}

impl fmt::Display for KeptReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InCommand(id) => write!(f, "command {id} disrupts it already"),
            Self::Leaving => f.write_str("it is going away already"),
            Self::NotInitialized => f.write_str("it is not initialised yet"),
            Self::Nominated { until } => write!(f, "pods may be on their way to it until {until}"),
            Self::PendingPod(pod) => write!(f, "pending pod {pod} fits there"),
            Self::DoNotDisruptNode => f.write_str("it is annotated karpenter.sh/do-not-disrupt"),
            Self::DoNotDisruptPod(pod) => write!(f, "pod {pod} is annotated karpenter.sh/do-not-disrupt"),
            Self::NoNodePool(name) => write!(f, "its NodePool {name} does not exist"),
            Self::Static(name) => write!(f, "NodePool {name} keeps a fixed number of nodes"),
            Self::PodDisruptionBudget { pod, budget } => {
                write!(f, "PodDisruptionBudget {budget} allows no eviction of pod {pod}")
            }
            Self::SeveralPodDisruptionBudgets(pod) => {
                write!(f, "several PodDisruptionBudgets cover pod {pod}, so it cannot be evicted")
            }
            Self::ConsolidationNever => f.write_str("consolidateAfter is Never"),
            Self::TooRecent { consolidate_after, until } => write!(
                f,
                "its pods changed less than consolidateAfter ({}) ago; that is over at {until}",
                format_go_duration(*consolidate_after)
            ),
            Self::NotEmptyPolicy { pods } => {
                write!(f, "it runs {pods}, and consolidationPolicy is WhenEmpty", pods = Pods(*pods))
            }
            Self::NotEmpty { pods } => write!(
                f,
                "it runs {pods}; consolidation of nodes that are not empty is not supported yet",
                pods = Pods(*pods)
            ),
            Self::Budget { node_pool, reason, allowed, disrupting } => write!(
                f,
                "the disruption budgets of NodePool {node_pool} allow {allowed} at once for {reason:?}, and {disrupting} \
                 are disrupted or not ready"
            ),
            Self::DriftBlocked { drift, pod, why } => write!(f, "{drift}, but pod {pod} would fit nowhere: {why}"),
            Self::DriftWaits(drift) => write!(f, "{drift}; other nodes go first"),
        }
    }
}

/// So many pods, for a sentence.
struct Pods(usize);

impl fmt::Display for Pods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, if self.0 == 1 { "pod" } else { "pods" })
    }
}

impl Serialize for KeptReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
