//! The JSON and YAML output of `--disruption`. `docs/reference/plan.schema.json` is its schema.

use super::wording::parts::{Launch, Placement};
use jiff::Timestamp;
use nodeless_disruption::repair::{Unhealthy, Verdict};
use nodeless_disruption::{Command, Kept, KeptReason, Method, NodeDetails, StaticChange, ZoneMove};
use nodeless_model::claim::LaunchedInstance;
use nodeless_model::duration::format_go_duration;
use nodeless_model::object::ObjectEvent;
use nodeless_model::{CapacityType, DisruptionReason};
use nodeless_planner::{Disruption, PoolChurn};
use serde::Serialize;
use std::collections::BTreeMap;

/// Which nodes are disrupted, and why each other node is not.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DisruptionReport {
    /// The time from which ages, schedules and durations are computed.
    pub(crate) at: Timestamp,
    /// The commands, in the order of the decisions.
    pub(crate) commands: Vec<CommandReport>,
    /// Every other node, by name, and why it is not disrupted.
    pub(crate) kept: Vec<Kept>,
    /// The unhealthy nodes, by name.
    pub(crate) repairs: Vec<RepairReport>,
    /// The input of the churn breaker for each NodePool, before these commands.
    pub(crate) churn: Vec<ChurnReport>,
    /// The events on the objects concerned.
    pub(crate) events: Vec<Event>,
    /// The sum over commands, in dollars per hour.
    pub(crate) savings_per_hour: f64,
}

/// What a static NodePool launches to reach its `replicas`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StaticReport {
    pub(crate) node_pool: String,
    pub(crate) launches: Vec<Launch>,
    /// Why fewer nodes are launched than are missing; null if all are launched.
    pub(crate) short: Option<String>,
}

/// An unhealthy node.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RepairReport {
    pub(crate) node: String,
    pub(crate) node_claim: String,
    /// The NodePool, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node_pool: Option<String>,
    /// The condition that makes it unhealthy.
    pub(crate) why: String,
    /// When the toleration duration of that condition ends.
    pub(crate) due: Timestamp,
    /// How long its drain may take before pods are deleted forcefully, unless the NodeClaim allows less.
    pub(crate) drain_within: String,
    pub(crate) action: RepairAction,
    /// Why it is not repaired although that duration has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) blocked: Option<String>,
}

/// The action for an unhealthy node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum RepairAction {
    /// The node is replaced, if `commands` have it.
    Repair,
    /// The node is drained and its instance rebooted.
    Reboot,
    /// The node was never initialized and is terminated at once.
    Terminate,
    /// The node has until `due` to recover.
    Wait,
    /// The repair is blocked.
    Blocked,
    /// The feature gate NodeRepair is off.
    Off,
}

/// The input of the churn breaker for a NodePool.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChurnReport {
    pub(crate) node_pool: String,
    /// The number of pods that voluntary disruption evicted within the last hour; null if unknown.
    pub(crate) evictions: Option<u32>,
    /// The number of these evictions after which no price fell; null if unknown.
    pub(crate) useless: Option<u32>,
    /// The number of useless evictions that are allowed; null if the breaker is off.
    #[serde(rename = "most")]
    pub(crate) max_evictions: Option<u32>,
    /// Dollars per hour for each unit of load before the first of these evictions; null if there are none.
    pub(crate) price_before: Option<f64>,
    /// Dollars per hour for each unit of load now.
    pub(crate) price_now: f64,
    /// Why disruption has stopped, or null.
    pub(crate) stopped: Option<String>,
}

/// Nodes that are disrupted together, with their replacements.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommandReport {
    /// The ID by which reasons refer to the command.
    pub(crate) id: String,
    pub(crate) method: Method,
    pub(crate) reason: DisruptionReason,
    /// The disrupted nodes, by name.
    pub(crate) nodes: Vec<String>,
    /// The nodes that are launched before the disrupted nodes are drained.
    pub(crate) replacements: Vec<Launch>,
    /// Dollars per hour.
    pub(crate) savings_per_hour: f64,
    /// The number of pods to evict.
    pub(crate) evictions: usize,
    /// The score of consolidation; null for other methods.
    pub(crate) score: Option<f64>,
    /// The existing or in-flight nodes on which the other evicted pods are expected, by pod.
    pub(crate) placements: Vec<Placement>,
    /// Whether the replacement is launched only after the node is terminated, because a limit is reached or its capacity reservation is full.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) drains_first: bool,
    /// The number of pods of a workload in each zone, before and after; only of zone balance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) zones: Option<ZoneMove>,
    /// The instances of the disrupted nodes, for the text output.
    #[serde(skip)]
    pub(crate) instances: Vec<Option<Instance>>,
}

/// The instance of a node.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instance {
    pub(crate) instance_type: String,
    pub(crate) capacity_type: CapacityType,
    pub(crate) zone: String,
}

/// An event on an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Event {
    pub(crate) object: Object,
    /// `Warning` or `Normal`.
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) reason: String,
    pub(crate) message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Object {
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// The explanation of one node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeExplanation {
    pub(crate) outcome: NodeOutcome,
    /// The ID of the command that disrupts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
    /// Why it is not disrupted.
    pub(crate) reasons: Vec<KeptReason>,
    #[serde(flatten)]
    pub(crate) details: NodeDetails,
    /// The repair of the node, if it is unhealthy; otherwise null.
    pub(crate) repair: Option<RepairReport>,
    /// The events on the node, its NodePool, its pods and their PodDisruptionBudgets.
    pub(crate) events: Vec<Event>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum NodeOutcome {
    Goes,
    Stays,
}

impl DisruptionReport {
    pub(crate) fn new(found: Disruption, instances: &BTreeMap<String, LaunchedInstance>, at: Timestamp) -> Self {
        let commands: Vec<CommandReport> =
            found.commands.into_iter().map(|command| CommandReport::new(command, instances)).collect();
        let savings: f64 = commands.iter().map(|command| command.savings_per_hour).sum();
        Self {
            at,
            savings_per_hour: rounded(savings),
            commands,
            kept: found.kept,
            repairs: found.unhealthy.into_iter().map(RepairReport::from).collect(),
            churn: found.churn.into_iter().map(ChurnReport::from).collect(),
            events: found.events.into_iter().map(Event::from).collect(),
        }
    }

    /// Explains one node, given its details.
    pub(crate) fn explain(&self, details: NodeDetails) -> NodeExplanation {
        let command = self.commands.iter().find(|command| command.nodes.contains(&details.node));
        let kept = self.kept.iter().find(|kept| kept.node == details.node);
        let concerns = |event: &&Event| concerns(event, &details);
        NodeExplanation {
            outcome: if command.is_some() { NodeOutcome::Goes } else { NodeOutcome::Stays },
            command: command.map(|command| command.id.clone()),
            reasons: kept.map(|kept| kept.reasons.clone()).unwrap_or_default(),
            repair: self.repairs.iter().find(|repair| repair.node == details.node).cloned(),
            events: self.events.iter().filter(concerns).cloned().collect(),
            details,
        }
    }
}

fn concerns(event: &Event, details: &NodeDetails) -> bool {
    let Object { kind, namespace, name } = &event.object;
    let full = format!("{namespace}/{name}");
    match kind.as_str() {
        "Node" => *name == details.node,
        "NodeClaim" => Some(name) == details.node_claim.as_ref(),
        "NodePool" => Some(name) == details.node_pool.as_ref(),
        "Pod" => details.pods.iter().any(|pod| pod.pod == full),
        "PodDisruptionBudget" => {
            let blocking = details.pods.iter().flat_map(|pod| &pod.blocked_by);
            blocking
                .into_iter()
                .any(|why| matches!(why, KeptReason::PodDisruptionBudget { budget, .. } if *budget == full))
        }
        _ => false,
    }
}

impl CommandReport {
    fn new(command: Command, instances: &BTreeMap<String, LaunchedInstance>) -> Self {
        let instance = |node: &str| {
            let launched = instances.get(node)?;
            Some(Instance {
                instance_type: launched.instance_type.clone(),
                capacity_type: launched.capacity_type,
                zone: launched.zone.clone(),
            })
        };
        let nodes: Vec<String> = command.candidates.into_iter().map(|candidate| candidate.node).collect();
        let placement = |one: nodeless_disruption::PodPlacement| Placement { pod: one.pod, node: one.node };
        Self {
            id: command.id,
            method: command.method,
            reason: command.reason,
            instances: nodes.iter().map(|node| instance(node)).collect(),
            nodes,
            replacements: command.replacements.iter().map(|one| Launch::new(&one.launch, one.pods.clone())).collect(),
            savings_per_hour: rounded(command.savings_per_hour),
            evictions: command.evictions.len(),
            score: command.score,
            placements: command.placements.into_iter().map(placement).collect(),
            drains_first: command.drains_first,
            zones: command.zones,
        }
    }
}

impl From<StaticChange> for StaticReport {
    fn from(change: StaticChange) -> Self {
        let launches = change.launches.iter().map(|launch| Launch::new(launch, Vec::new())).collect();
        Self { node_pool: change.node_pool, launches, short: change.short }
    }
}

impl From<Unhealthy> for RepairReport {
    fn from(found: Unhealthy) -> Self {
        let (action, blocked) = match found.verdict {
            Verdict::Wait => (RepairAction::Wait, None),
            Verdict::Repair => (RepairAction::Repair, None),
            Verdict::Reboot => (RepairAction::Reboot, None),
            Verdict::Terminate => (RepairAction::Terminate, None),
            Verdict::Blocked(why) => (RepairAction::Blocked, Some(why)),
        };
        Self {
            node: found.node,
            node_claim: found.node_claim,
            node_pool: found.node_pool,
            why: found.message,
            due: found.due,
            drain_within: format_go_duration(found.drain),
            action,
            blocked,
        }
    }
}

impl From<PoolChurn> for ChurnReport {
    fn from(churn: PoolChurn) -> Self {
        let hour = churn.last_hour;
        Self {
            node_pool: churn.node_pool,
            evictions: Some(hour.evictions),
            useless: Some(hour.useless),
            max_evictions: churn.max_evictions,
            price_before: (hour.price_before > 0.0).then(|| rounded(hour.price_before)),
            price_now: rounded(hour.now.price()),
            stopped: churn.stopped,
        }
    }
}

impl ChurnReport {
    /// Marks the evictions as unknown.
    pub(crate) fn clear_evictions(&mut self) {
        (self.evictions, self.useless, self.price_before) = (None, None, None);
    }
}

/// Prices have six decimal places, so further digits are rounding errors. Minus zero becomes zero.
fn rounded(dollars: f64) -> f64 {
    (dollars * 1e9).round() / 1e9 + 0.0
}

impl From<ObjectEvent> for Event {
    fn from(event: ObjectEvent) -> Self {
        let object = event.object;
        Self {
            object: Object { kind: object.kind, namespace: object.namespace, name: object.name },
            kind: event.event_type.as_str(),
            reason: event.reason,
            message: event.message,
        }
    }
}
