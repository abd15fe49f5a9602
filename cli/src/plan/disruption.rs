//! Which nodes would go and why each other one stays, as programs read it. `docs/plan.md` describes it.

use super::report::{Launch, Placement};
use jiff::Timestamp;
use nodeless_disruption::repair::{Unhealthy, Verdict};
use nodeless_disruption::{Command, Kept, KeptReason, Method, NodeDetails, StaticChange};
use nodeless_model::claim::LaunchedInstance;
use nodeless_model::object::ObjectEvent;
use nodeless_model::{CapacityType, DisruptionReason};
use nodeless_operations::{Disruption, PoolChurn};
use serde::Serialize;
use std::collections::BTreeMap;

/// Which nodes go and why each other one stays.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DisruptionReport {
    /// The moment that ages, schedules and durations are reckoned by.
    pub(crate) at: Timestamp,
    /// What is done, in the order in which it is decided.
    pub(crate) commands: Vec<CommandReport>,
    /// Every other node, by name, and why it stays.
    pub(crate) kept: Vec<Kept>,
    /// What NodePools with `replicas` launch whatever pods need.
    pub(crate) static_launches: Vec<StaticReport>,
    /// The nodes that are not healthy, by name.
    pub(crate) repairs: Vec<RepairReport>,
    /// What the churn breaker judges each NodePool by, before anything of this is done.
    pub(crate) churn: Vec<ChurnReport>,
    /// What is said on the objects concerned.
    pub(crate) events: Vec<Event>,
    /// Dollars per hour: the sum over commands.
    pub(crate) savings_per_hour: f64,
}

/// What a NodePool with `replicas` lacks.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StaticReport {
    pub(crate) node_pool: String,
    pub(crate) launches: Vec<Launch>,
    /// Why fewer are launched than are missing; null where they are not fewer.
    pub(crate) short: Option<String>,
}

/// A node that is not healthy.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RepairReport {
    pub(crate) node: String,
    pub(crate) node_claim: String,
    pub(crate) node_pool: String,
    /// What is wrong with it.
    pub(crate) why: String,
    /// When that has been so for too long.
    pub(crate) due: Timestamp,
    pub(crate) action: RepairAction,
    /// Why it is not repaired although it is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) blocked: Option<String>,
}

/// What is done about a node that is not healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum RepairAction {
    /// It is terminated by force.
    Repair,
    /// It may recover until it is due.
    Wait,
    /// Something keeps it from being repaired.
    Blocked,
    /// Node repair is switched off.
    Off,
}

/// What the churn breaker judges a NodePool by.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChurnReport {
    pub(crate) node_pool: String,
    /// How many pods were evicted by choice within the last hour; null where nobody knows.
    pub(crate) evictions: Option<u32>,
    /// How many may be without a falling price; null where the breaker is switched off.
    pub(crate) most: Option<u32>,
    /// Dollars per hour for each unit of load before the first of these evictions; null where there is none.
    pub(crate) price_before: Option<f64>,
    /// The same now.
    pub(crate) price_now: f64,
    /// Why disruption has stopped, or null.
    pub(crate) stopped: Option<String>,
}

/// Nodes that go together, with what takes their place.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommandReport {
    /// By which reasons name it.
    pub(crate) id: String,
    pub(crate) method: Method,
    pub(crate) reason: DisruptionReason,
    /// The nodes that go, by name.
    pub(crate) nodes: Vec<String>,
    /// What is launched first.
    pub(crate) replacements: Vec<Launch>,
    /// Dollars per hour.
    pub(crate) savings_per_hour: f64,
    /// How many pods have to move.
    pub(crate) evictions: usize,
    /// Only consolidation has one.
    pub(crate) score: Option<f64>,
    /// Where consolidation expects those pods that go to no replacement, by name.
    pub(crate) placements: Vec<Placement>,
    /// Whether what its pods need is launched only once it is gone, since its NodePool is at its limit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) drains_first: bool,
    /// What the nodes that go are; for people.
    #[serde(skip)]
    pub(crate) machines: Vec<Option<Machine>>,
}

/// What a node is.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Machine {
    pub(crate) instance_type: String,
    pub(crate) capacity_type: CapacityType,
    pub(crate) zone: String,
}

/// Something that is said on an object.
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

/// Everything about one node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeExplanation {
    pub(crate) outcome: NodeOutcome,
    /// The command that concerns it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
    /// Why it stays.
    pub(crate) reasons: Vec<KeptReason>,
    #[serde(flatten)]
    pub(crate) details: NodeDetails,
    /// What is wrong with its health, and what is done about it; null where nothing is.
    pub(crate) repair: Option<RepairReport>,
    /// What is said on it, its NodePool, its pods and their budgets.
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
            static_launches: found.fixed.into_iter().map(StaticReport::from).collect(),
            repairs: found.unhealthy.into_iter().map(RepairReport::from).collect(),
            churn: found.churn.into_iter().map(ChurnReport::from).collect(),
            events: found.events.into_iter().map(Event::from).collect(),
        }
    }

    /// Everything about one node, given what is known of it.
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
        let machine = |node: &str| {
            let instance = instances.get(node)?;
            Some(Machine {
                instance_type: instance.instance_type.clone(),
                capacity_type: instance.capacity_type,
                zone: instance.zone.clone(),
            })
        };
        let nodes: Vec<String> = command.candidates.into_iter().map(|candidate| candidate.node).collect();
        let placement = |one: nodeless_disruption::PodPlacement| Placement { pod: one.pod, node: one.node };
        Self {
            id: command.id,
            method: command.method,
            reason: command.reason,
            machines: nodes.iter().map(|node| machine(node)).collect(),
            nodes,
            replacements: command.replacements.iter().map(|one| Launch::new(&one.launch, one.pods.clone())).collect(),
            savings_per_hour: rounded(command.savings_per_hour),
            evictions: command.evictions.len(),
            score: command.score,
            placements: command.placements.into_iter().map(placement).collect(),
            drains_first: command.drains_first,
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
            Verdict::Blocked(why) => (RepairAction::Blocked, Some(why)),
        };
        Self {
            node: found.node,
            node_claim: found.node_claim,
            node_pool: found.node_pool,
            why: found.message,
            due: found.due,
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
            most: churn.most,
            price_before: (hour.price_before > 0.0).then(|| rounded(hour.price_before)),
            price_now: rounded(hour.price_now),
            stopped: churn.stopped,
        }
    }
}

impl ChurnReport {
    /// Says that nobody knows what was evicted.
    pub(crate) fn forget(&mut self) {
        (self.evictions, self.price_before) = (None, None);
    }
}

/// Prices have six digits behind the point; a sum shows more only by rounding. No saving is no minus zero.
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
