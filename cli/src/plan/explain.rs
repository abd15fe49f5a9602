//! Explains the outcome of a plan for one pod.

use super::wording::parts::{Offering, PricedType};
use super::wording::ruled_out;
use crate::error::CliError;
use nodeless_model::{DollarsPerHour, Pod};
use nodeless_ports::cluster::ClusterView;
use nodeless_scheduling::{
    Advice, AlternativePrice, Launch, Options, Problem, Reason, RuledOut, RuledOutCause, Solution, Unschedulable,
    alternative_prices, explain_launch,
};
use nodeless_snapshot::Held;
use serde::Serialize;
use std::collections::BTreeMap;

/// The outcome for a pod.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Explanation {
    /// `namespace/name`.
    pub(crate) pod: String,
    #[serde(flatten)]
    pub(crate) outcome: PodOutcome,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum PodOutcome {
    /// A node is launched for the pod.
    Launch {
        /// The index in `launches`, from 0.
        launch: usize,
        node_pool: String,
        offering: Offering,
        /// The instance types that may be launched.
        instance_types: Vec<PricedType>,
        /// The part of the price that commitments cover, with `--commitments`.
        #[serde(skip_serializing_if = "Option::is_none")]
        covered_per_hour: Option<f64>,
        /// The cheaper instance types, and what rules them out.
        ruled_out: Vec<RuledOut>,
        /// The other pods on the node.
        with: Vec<String>,
    },
    /// The pod fits on an existing or in-flight node.
    Placement { node: String },
    /// The pod cannot be scheduled.
    Unschedulable {
        reasons: Vec<String>,
        /// The reasons, each with the NodePools that have it; for the text and the page.
        #[serde(skip)]
        causes: Vec<(String, Vec<String>)>,
        /// Changes that make it schedulable.
        remedies: Vec<String>,
        /// What limits it, if no change of its constraints makes it schedulable.
        #[serde(skip_serializing_if = "Option::is_none")]
        obstacle: Option<String>,
    },
    /// The plan does not schedule the pod.
    NotPending { why: String },
}

/// What `--explain` names.
#[derive(Debug, PartialEq)]
pub(crate) enum Target {
    /// `namespace/name`.
    Pod(String),
    /// The name of the Node, or of the NodeClaim if it has no Node yet.
    Node(String),
}

/// Resolves the names given with `--explain`. `nodes` maps the names of Nodes and NodeClaims to the name of each node; it is
/// empty if nodes are not explained.
pub(crate) fn resolve(
    names: &[String],
    view: &ClusterView,
    held: &BTreeMap<String, Held>,
    nodes: &BTreeMap<String, String>,
) -> Result<Vec<Target>, CliError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let known: Vec<String> = view.pods().map(Pod::key).chain(held.keys().cloned()).collect();
    let one = |name: &String| match nodes.get(name) {
        Some(node) => Ok(Target::Node(node.clone())),
        None if nodes.is_empty() && view.nodes.iter().any(|node| node.name == *name) => {
            Err(CliError::ExplainNode { node: name.clone() })
        }
        None => resolve_one(name, &known).map(Target::Pod),
    };
    names.iter().map(one).collect()
}

fn resolve_one(given: &str, known: &[String]) -> Result<String, CliError> {
    let in_default = format!("default/{given}");
    if let Some(exact) = known.iter().find(|key| *key == given || **key == in_default) {
        return Ok(exact.clone());
    }
    let named = |key: &&String| key.split_once('/').is_some_and(|(_, name)| name == given);
    let mut candidates: Vec<&str> = known.iter().filter(named).map(String::as_str).collect();
    candidates.sort_unstable();
    candidates.dedup();
    match candidates.as_slice() {
        [] => Err(CliError::UnknownPod { pod: given.to_owned() }),
        [one] => Ok((*one).to_owned()),
        several => Err(CliError::AmbiguousPod { pod: given.to_owned(), candidates: several.join(", ") }),
    }
}

/// The input and result of a plan, from which pods are explained.
pub(crate) struct Explainer<'p> {
    pub(crate) problem: &'p Problem<'p>,
    pub(crate) solution: &'p Solution,
    /// The advice for an unschedulable pod.
    pub(crate) advise: &'p dyn Fn(&Unschedulable) -> Advice,
    pub(crate) view: &'p ClusterView,
    /// The part of the price of each launch that commitments cover; empty without commitments.
    pub(crate) covered: &'p [f64],
    /// Pods that cannot be scheduled because of their volumes, and why.
    pub(crate) faulty: &'p [(&'p Pod, &'p str)],
    pub(crate) held: &'p BTreeMap<String, Held>,
}

impl Explainer<'_> {
    /// Explains a pod of the cluster.
    pub(crate) fn explain(&self, pod: &str) -> Explanation {
        let outcome = if let Some(index) = self.problem.pods.iter().position(|one| one.key() == pod) {
            self.pending(index)
        } else if let Some((_, why)) = self.faulty.iter().find(|(one, _)| one.key() == pod) {
            let why = (*why).to_owned();
            let causes = vec![(why.clone(), Vec::new())];
            PodOutcome::Unschedulable { reasons: vec![why], causes, remedies: Vec::new(), obstacle: None }
        } else {
            PodOutcome::NotPending { why: not_pending(pod, self.view, self.held) }
        };
        Explanation { pod: pod.to_owned(), outcome }
    }

    fn pending(&self, index: usize) -> PodOutcome {
        match self.solution.unschedulable.iter().find(|refused| refused.pod == index) {
            Some(refused) => {
                let reasons = refused.reasons.iter().map(ToString::to_string).collect();
                let Advice { remedies, obstacle } = (self.advise)(refused);
                PodOutcome::Unschedulable { reasons, causes: causes(&refused.reasons), remedies, obstacle }
            }
            None => placed(index, self.problem, self.solution, self.covered),
        }
    }
}

fn placed(index: usize, problem: &Problem<'_>, solution: &Solution, covered: &[f64]) -> PodOutcome {
    if let Some(placed) = solution.placements.iter().find(|placed| placed.pod == index) {
        let node = problem.nodes.get(placed.node).map(|node| node.name.clone()).unwrap_or_default();
        return PodOutcome::Placement { node };
    }
    let found = solution.launches.iter().enumerate().find(|(_, launch)| launch.pods.contains(&index));
    let Some((place, launch)) = found else {
        return PodOutcome::NotPending {
            why: "the plan has no result for this pod; this is a bug in nodeless, please report it".to_owned(),
        };
    };
    let others = launch.pods.iter().filter(|other| **other != index);
    let mut with: Vec<String> = others.filter_map(|other| problem.pods.get(*other)).map(|pod| pod.key()).collect();
    with.sort_unstable();
    let covered = covered.get(place).copied();
    PodOutcome::Launch {
        launch: place,
        node_pool: launch.node_pool.clone(),
        offering: Offering::new(launch),
        instance_types: PricedType::all_of(launch),
        covered_per_hour: covered,
        ruled_out: explain_launch(problem, launch)
            .map(|why| why.ruled_out)
            .filter(|_| !is_chosen_by_commitments(launch, covered))
            .unwrap_or_default(),
        with,
    }
}

/// The causes, each with the NodePools that have it.
fn causes(reasons: &[Reason]) -> Vec<(String, Vec<String>)> {
    let mut causes: Vec<(String, Vec<String>)> = Vec::new();
    for reason in reasons {
        let (why, pool) = match reason {
            Reason::NodePool { node_pool, cause } => (cause.to_string(), Some(node_pool.clone())),
            other => (other.to_string(), None),
        };
        match causes.iter_mut().find(|(known, _)| *known == why) {
            Some((_, pools)) => pools.extend(pool),
            None => causes.push((why, pool.into_iter().collect())),
        }
    }
    causes
}

/// Whether a launch has its one instance type because commitments cover it, and not because it is the cheapest.
fn is_chosen_by_commitments(launch: &Launch, covered: Option<f64>) -> bool {
    launch.instance_types.len() == 1 && covered.is_some_and(|covered| covered > 0.0)
}

/// Why no cheaper instance type is launched, in one line, and a line for each alternative of the claims of its pods. `covered` is the part of
/// the price that commitments cover.
pub(crate) fn lines(problem: &Problem<'_>, launch: &Launch, covered: Option<f64>, options: &Options) -> Vec<String> {
    let why = why(problem, launch, covered).map(|why| format!("why       {why}"));
    let prices = alternative_prices(problem, launch, options);
    let width = prices.iter().map(|one| one.name.len()).max().unwrap_or(0);
    why.into_iter().chain(prices.iter().map(|one| format!("devices   {:width$}  {}", one.name, price(one)))).collect()
}

/// What an alternative costs, and whether it is the chosen one.
fn price(alternative: &AlternativePrice) -> String {
    let chosen = if alternative.is_chosen { ", chosen" } else { "" };
    let Some(nodes) = &alternative.nodes else {
        return "no NodePool launches a node with it".to_owned();
    };
    let types: Vec<String> = nodes
        .instance_types
        .iter()
        .map(|(name, count)| match count {
            1 => name.clone(),
            several => format!("{several} x {name}"),
        })
        .collect();
    format!("{} ({}){chosen}", DollarsPerHour(nodes.price), types.join(", "))
}

/// Why no cheaper instance type is launched, in one line. `covered` is the part of the price that commitments cover.
fn why(problem: &Problem<'_>, launch: &Launch, covered: Option<f64>) -> Option<String> {
    let by_commitments = covered.filter(|covered| *covered > 0.0);
    let by_commitments = by_commitments.map(|covered| format!("commitments cover {} of it", DollarsPerHour(covered)));
    let by_price = without_commitments(problem, launch).filter(|_| !is_chosen_by_commitments(launch, covered));
    match (by_commitments, by_price) {
        (Some(one), Some(two)) => Some(format!("{one}; {two}")),
        (one, two) => one.or(two),
    }
}

fn without_commitments(problem: &Problem<'_>, launch: &Launch) -> Option<String> {
    let ruled_out = explain_launch(problem, launch)?.ruled_out;
    if ruled_out.is_empty() {
        return Some("no instance type is cheaper".to_owned());
    }
    let each: Vec<String> = ruled_out::grouped(&ruled_out, in_short)
        .into_iter()
        .map(|(cause, types)| format!("{} {cause}", types.len()))
        .collect();
    let types = if ruled_out.len() == 1 { "type is" } else { "types are" };
    Some(format!("{} {types} cheaper but ruled out: {}", ruled_out.len(), each.join(", ")))
}

fn in_short(cause: &RuledOutCause) -> String {
    match cause {
        RuledOutCause::NodePool { key, .. } => format!("by the NodePool's {key}"),
        RuledOutCause::Pod { .. } => "by a requirement of a pod".to_owned(),
        RuledOutCause::Plan { key, .. } => format!("by {key}, which the pods together require"),
        RuledOutCause::NotOffered { .. } => "not offered in the required zone or capacity type".to_owned(),
        RuledOutCause::Unavailable { .. } => "temporarily unavailable".to_owned(),
        RuledOutCause::Devices { .. } => "without the claimed devices".to_owned(),
        RuledOutCause::LaterAlternative { .. } => "with a later alternative of the claims".to_owned(),
        RuledOutCause::TooSmall { resource, .. } => format!("with too little {resource}"),
        RuledOutCause::TooManyVolumes { .. } => "with too few volume attachments".to_owned(),
        RuledOutCause::DaemonSet { lacking, .. } => format!("with too little {} for DaemonSets", lacking.resource),
        RuledOutCause::HostPort { port, .. } => format!("where host port {port} is taken"),
        RuledOutCause::Limit { limit } => format!("by limit {limit}"),
        RuledOutCause::Unused => "used elsewhere in the plan".to_owned(),
    }
}

fn not_pending(pod: &str, view: &ClusterView, held: &BTreeMap<String, Held>) -> String {
    if let Some(why) = held.get(pod) {
        return why.to_string();
    }
    let node = view.pods.iter().find(|one| one.key() == pod).and_then(|pod| pod.node_name.as_deref());
    match node {
        Some(node) if view.nodes.iter().any(|one| one.name == node) => format!("it is bound to node {node}"),
        Some(node) => format!("it is bound to node {node}, which does not exist"),
        None => "it is not pending".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_found_by_namespace_and_name_or_by_a_unique_name() {
        let known = ["default/web", "shop/web", "shop/cart", "a/db", "b/db"].map(str::to_owned);
        for (given, found) in [("shop/web", "shop/web"), ("web", "default/web"), ("cart", "shop/cart")] {
            assert_eq!(resolve_one(given, &known).unwrap(), found);
        }
        assert!(matches!(resolve_one("none", &known), Err(CliError::UnknownPod { .. })));
        let CliError::AmbiguousPod { candidates, .. } = resolve_one("db", &known).unwrap_err() else { panic!() };
        assert_eq!(candidates, "a/db, b/db");
    }
}
