//! The output of [`crate::decide`]: commands, and the reasons for which the other nodes stay.

use crate::reasons::KeptReason;
use jiff::Timestamp;
use nodeless_model::DisruptionReason;
use nodeless_model::object::{ObjectEvent, PodRef};
use nodeless_scheduling::Launch;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// The commands, and why all other nodes stay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The commands, if [`crate::revalidate`] confirms them later.
    pub commands: Vec<Command>,
    /// Every managed node that is in no command, in the order of names, and why it stays.
    pub kept: Vec<Kept>,
    /// Nodes that were not evaluated for drift or consolidation because the decision reached its work limit
    /// ([`crate::Options::max_work`]); the next decision evaluates them first.
    pub not_evaluated: BTreeSet<String>,
    /// The NodePools where the replacement of nodes by a new AMI has stopped: see [`crate::AMI_CANARY`].
    pub failed_canaries: BTreeSet<String>,
    /// Events on the objects concerned. Every decision repeats them; the publisher omits those that were published before.
    pub events: Vec<ObjectEvent>,
    /// The work of the decision, in the units of [`nodeless_scheduling::Solution::work`].
    pub work: u64,
}

/// Nodes to remove, with their replacements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Command {
    /// The id: the same for the same nodes and time.
    pub id: String,
    /// The method that found it.
    pub method: Method,
    /// The reason.
    pub reason: DisruptionReason,
    /// The nodes to remove, in the order of their names.
    pub candidates: Vec<Candidate>,
    /// The nodes to launch first.
    pub replacements: Vec<Replacement>,
    /// The price of the removed nodes less that of the replacements, in dollars per hour.
    pub savings_per_hour: f64,
    /// The pods that have to move, in the order of their names.
    pub evictions: Vec<PodRef>,
    /// The target nodes of those pods that need no new node, and of pods that were expected on the removed nodes, in the order of
    /// their names.
    pub placements: Vec<PodPlacement>,
    /// The score of the policy `Balanced`: the fraction of the NodePool's price that is saved, divided by the fraction of its
    /// pods that is disrupted; the minimum over the NodePools concerned. Only consolidation has one, and only if it is known.
    pub score: Option<f64>,
    /// Whether limits, or a full capacity reservation, exclude replacements until the nodes are gone, so that these are launched for the
    /// pending pods.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drains_first: bool,
    /// The spread over zones that it improves; only of zone balance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zones: Option<ZoneMove>,
    /// The repair of its node; only of node repair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
    /// When it was decided.
    pub decided: Timestamp,
}

/// The repair of an unhealthy node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Repair {
    /// The unhealthy condition, in one sentence.
    pub why: String,
    /// How long the drain may take before pods are deleted forcefully.
    pub drain_within: Duration,
}

/// How a command of zone balance changes the pods of a workload in each zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ZoneMove {
    /// The workload, such as `Deployment default/web`.
    pub workload: String,
    /// The number of pods in each zone before.
    pub before: BTreeMap<String, u32>,
    /// The number of pods in each zone after.
    pub after: BTreeMap<String, u32>,
}

impl fmt::Display for ZoneMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} over zones: ", self.workload)?;
        let zones: BTreeSet<&String> = self.before.keys().chain(self.after.keys()).collect();
        for (index, zone) in zones.into_iter().enumerate() {
            let in_zone = |counts: &BTreeMap<String, u32>| counts.get(zone).copied().unwrap_or(0);
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{zone} {} to {}", in_zone(&self.before), in_zone(&self.after))?;
        }
        Ok(())
    }
}

/// The methods, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Method {
    /// Nodes that have been unhealthy for too long.
    Repair,
    /// Nodes that no pod needs.
    Emptiness,
    /// Drifted nodes of static NodePools.
    StaticDrift,
    /// Nodes that no longer match their NodePool or EC2NodeClass.
    Drift,
    /// Several nodes whose pods fit elsewhere, or on other nodes that cost less.
    MultiNodeConsolidation,
    /// A node whose pods fit elsewhere, or on other nodes that cost less.
    SingleNodeConsolidation,
    /// A node with pods of a workload that is uneven over zones.
    ZoneBalance,
}

impl Method {
    /// The name in ids and metrics: lower case with hyphens.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Repair => "repair",
            Self::Emptiness => "emptiness",
            Self::StaticDrift => "static-drift",
            Self::Drift => "drift",
            Self::MultiNodeConsolidation => "multi-node",
            Self::SingleNodeConsolidation => "single-node",
            Self::ZoneBalance => "zone-balance",
        }
    }

    /// Whether the method only concerns the price.
    #[must_use]
    pub const fn is_consolidation(self) -> bool {
        matches!(self, Self::MultiNodeConsolidation | Self::SingleNodeConsolidation)
    }
}

/// A pod that moves to an existing node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodPlacement {
    /// The pod, `namespace/name`.
    pub pod: String,
    /// The node.
    pub node: String,
}

/// A node to remove.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Replacement {
    /// The node. Its list of pod indices is empty; see `pods`.
    pub launch: Launch,
    /// The pods that it is for, `namespace/name`.
    pub pods: Vec<String>,
}

/// A node that stays.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kept {
    /// The Node's name, or the NodeClaim's if there is no Node.
    pub node: String,
    /// The reasons: at least one.
    pub reasons: Vec<KeptReason>,
}

/// A command in the output. `nodeless plan --disruption` prints the same, with full launches.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandReport<'a> {
    /// The id by which reasons refer to it.
    pub id: &'a str,
    /// The method.
    pub method: Method,
    /// The reason.
    pub reason: DisruptionReason,
    /// The nodes to remove.
    pub nodes: Vec<&'a str>,
    /// The launches.
    pub replacements: Vec<ReplacementReport<'a>>,
    /// Dollars per hour.
    pub savings_per_hour: f64,
    /// The number of pods that have to move.
    pub evictions: usize,
    /// See [`Command::score`].
    pub score: Option<f64>,
    /// See [`Command::placements`].
    pub placements: &'a [PodPlacement],
    /// See [`Command::drains_first`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub drains_first: bool,
    /// See [`Command::zones`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zones: Option<&'a ZoneMove>,
}

/// A replacement in the output.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplacementReport<'a> {
    /// The NodePool.
    pub node_pool: &'a str,
    /// The most likely offering.
    pub offering: &'a nodeless_scheduling::ChosenOffering,
    /// All launchable instance types, the cheapest first.
    pub instance_types: Vec<&'a str>,
    /// The pods.
    pub pods: &'a [String],
}

impl Command {
    /// Converts a command to its output.
    #[must_use]
    pub fn report(&self) -> CommandReport<'_> {
        CommandReport {
            id: &self.id,
            method: self.method,
            reason: self.reason,
            nodes: self.candidates.iter().map(|candidate| candidate.node.as_str()).collect(),
            replacements: self.replacements.iter().map(Replacement::report).collect(),
            savings_per_hour: self.savings_per_hour,
            evictions: self.evictions.len(),
            score: self.score,
            placements: &self.placements,
            drains_first: self.drains_first,
            zones: self.zones.as_ref(),
        }
    }
}

impl Replacement {
    fn report(&self) -> ReplacementReport<'_> {
        ReplacementReport {
            node_pool: &self.launch.node_pool,
            offering: &self.launch.offering,
            instance_types: self.launch.instance_types.iter().map(|kind| kind.name.as_str()).collect(),
            pods: &self.pods,
        }
    }
}
