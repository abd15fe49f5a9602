//! The plan of a case, by the names of its objects.

use std::collections::{BTreeMap, BTreeSet};

/// Labels, each with its possible values.
pub(crate) type Labels = BTreeMap<String, BTreeSet<String>>;

/// The plan.
#[derive(Debug, Default)]
pub(crate) struct CaseOutcome {
    /// The objects that cannot be used.
    pub(crate) faults: Vec<String>,
    pub(crate) warnings: Vec<String>,
    /// The new nodes.
    pub(crate) launches: Vec<Launched>,
    /// The node of each pod, those that ran before included.
    pub(crate) places: BTreeMap<String, String>,
    /// The labels of each node that has pods.
    pub(crate) labels: BTreeMap<String, Labels>,
    /// The reasons for which pods cannot be scheduled.
    pub(crate) unschedulable: BTreeMap<String, Vec<String>>,
    /// The pods that are not pending, each with the reason.
    pub(crate) held: BTreeMap<String, String>,
    /// The capacity reservations in the status of EC2NodeClasses, each with its state.
    pub(crate) reservations: BTreeMap<String, String>,
    pub(crate) disruption: Option<Disrupted>,
}

/// A new node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Launched {
    /// `new-0` and so on.
    pub(crate) name: String,
    pub(crate) pool: String,
    pub(crate) pods: Vec<String>,
    pub(crate) requests: BTreeMap<String, String>,
    /// The cheapest offering.
    pub(crate) kind: String,
    pub(crate) zone: String,
    pub(crate) capacity_type: String,
    pub(crate) price: f64,
    /// The possible instance types.
    pub(crate) types: Vec<String>,
    pub(crate) labels: Labels,
}

/// The disruption of nodes.
#[derive(Debug, Default)]
pub(crate) struct Disrupted {
    pub(crate) commands: Vec<Command>,
    /// The nodes that stay, each with the reasons.
    pub(crate) kept: BTreeMap<String, String>,
    /// The new nodes of static NodePools.
    pub(crate) static_launches: BTreeMap<String, usize>,
    /// What node repair does.
    pub(crate) repairs: BTreeMap<String, String>,
    /// The reasons and messages of events.
    pub(crate) events: Vec<String>,
    /// Why nothing is disrupted voluntarily.
    pub(crate) doubt: Option<String>,
}

/// Nodes that are disrupted together.
#[derive(Debug, Default)]
pub(crate) struct Command {
    pub(crate) reason: String,
    pub(crate) method: String,
    pub(crate) nodes: Vec<String>,
    pub(crate) replacements: Vec<Launched>,
}

/// Whether an object has this name, or the name with `-` and more after it.
pub(crate) fn is_named(name: &str, pattern: &str) -> bool {
    name.strip_prefix(pattern).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}
