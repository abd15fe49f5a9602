//! What becomes of one pod, and why.

use super::report::{Offering, PricedType, remedies};
use crate::error::CliError;
use nodeless_model::Pod;
use nodeless_ports::cluster::ClusterView;
use nodeless_scheduling::{Launch, Problem, RuledOut, RuledOutCause, Solution, explain_launch};
use nodeless_snapshot::Held;
use serde::Serialize;
use std::collections::BTreeMap;

/// What becomes of a pod.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Explanation {
    /// `namespace/name`.
    pub(crate) pod: String,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Outcome {
    /// A node is launched for it.
    Launch {
        /// The place in `launches`, from 0.
        launch: usize,
        node_pool: String,
        offering: Offering,
        /// What else could be launched.
        instance_types: Vec<PricedType>,
        /// What would be cheaper, and why it cannot be launched.
        ruled_out: Vec<RuledOut>,
        /// The pods that it shares the node with.
        with: Vec<String>,
    },
    /// It fits on a node that exists or is on its way.
    Placement { node: String },
    /// It fits nowhere.
    Unschedulable {
        reasons: Vec<String>,
        /// What would make it fit.
        remedies: Vec<String>,
    },
    /// No place was looked for.
    NotPending { why: String },
}

/// What was asked about.
#[derive(Debug, PartialEq)]
pub(crate) enum Asked {
    /// `namespace/name`.
    Pod(String),
    /// The Node's name, or the NodeClaim's while it has no Node.
    Node(String),
}

/// What was asked about, by its full name. `nodes` are the names of nodes and their claims, each with the one that counts;
/// none where nodes are not explained.
pub(crate) fn resolve(
    asked: &[String],
    view: &ClusterView,
    held: &BTreeMap<String, Held>,
    nodes: &BTreeMap<String, String>,
) -> Result<Vec<Asked>, CliError> {
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let known: Vec<String> = view.pods.iter().map(Pod::key).chain(held.keys().cloned()).collect();
    let one = |name: &String| match nodes.get(name) {
        Some(node) => Ok(Asked::Node(node.clone())),
        None if nodes.is_empty() && view.nodes.iter().any(|node| node.name == *name) => {
            Err(CliError::ExplainNode { node: name.clone() })
        }
        None => resolve_one(name, &known).map(Asked::Pod),
    };
    asked.iter().map(one).collect()
}

fn resolve_one(asked: &str, known: &[String]) -> Result<String, CliError> {
    let in_default = format!("default/{asked}");
    if let Some(exact) = known.iter().find(|key| *key == asked || **key == in_default) {
        return Ok(exact.clone());
    }
    let named = |key: &&String| key.split_once('/').is_some_and(|(_, name)| name == asked);
    let mut candidates: Vec<&str> = known.iter().filter(named).map(String::as_str).collect();
    candidates.sort_unstable();
    candidates.dedup();
    match candidates.as_slice() {
        [] => Err(CliError::UnknownPod { pod: asked.to_owned() }),
        [one] => Ok((*one).to_owned()),
        several => Err(CliError::AmbiguousPod { pod: asked.to_owned(), candidates: several.join(", ") }),
    }
}

/// Everything that says what becomes of pods.
pub(crate) struct About<'p> {
    pub(crate) problem: &'p Problem<'p>,
    pub(crate) solution: &'p Solution,
    pub(crate) view: &'p ClusterView,
    /// Pods that mount what cannot be used, and why.
    pub(crate) faulty: &'p [(&'p Pod, &'p str)],
    pub(crate) held: &'p BTreeMap<String, Held>,
}

impl About<'_> {
    /// What becomes of a pod that is there.
    pub(crate) fn explain(&self, pod: &str) -> Explanation {
        let outcome = if let Some(index) = self.problem.pods.iter().position(|one| one.key() == pod) {
            pending(index, self.problem, self.solution)
        } else if let Some((_, why)) = self.faulty.iter().find(|(one, _)| one.key() == pod) {
            Outcome::Unschedulable { reasons: vec![(*why).to_owned()], remedies: Vec::new() }
        } else {
            Outcome::NotPending { why: not_pending(pod, self.view, self.held) }
        };
        Explanation { pod: pod.to_owned(), outcome }
    }
}

fn pending(index: usize, problem: &Problem<'_>, solution: &Solution) -> Outcome {
    if let Some(placed) = solution.placements.iter().find(|placed| placed.pod == index) {
        let node = problem.nodes.get(placed.node).map(|node| node.name.clone()).unwrap_or_default();
        return Outcome::Placement { node };
    }
    if let Some(refused) = solution.unschedulable.iter().find(|refused| refused.pod == index) {
        let reasons = refused.reasons.iter().map(ToString::to_string).collect();
        return Outcome::Unschedulable { reasons, remedies: remedies(refused) };
    }
    let found = solution.launches.iter().enumerate().find(|(_, launch)| launch.pods.contains(&index));
    let Some((place, launch)) = found else {
        return Outcome::NotPending { why: "the plan says nothing about it; please report this".to_owned() };
    };
    let others = launch.pods.iter().filter(|other| **other != index);
    let mut with: Vec<String> = others.filter_map(|other| problem.pods.get(*other)).map(|pod| pod.key()).collect();
    with.sort_unstable();
    Outcome::Launch {
        launch: place,
        node_pool: launch.node_pool.clone(),
        offering: Offering::of(launch),
        instance_types: PricedType::all_of(launch),
        ruled_out: explain_launch(problem, launch).map(|why| why.ruled_out).unwrap_or_default(),
        with,
    }
}

/// Why nothing cheaper is launched, in one line.
pub(crate) fn why(problem: &Problem<'_>, launch: &Launch) -> Option<String> {
    let ruled_out = explain_launch(problem, launch)?.ruled_out;
    if ruled_out.is_empty() {
        return Some("no instance type is cheaper".to_owned());
    }
    let mut causes: Vec<(String, usize)> = Vec::new();
    for cause in ruled_out.iter().map(|one| in_short(&one.cause)) {
        match causes.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, count)) => *count += 1,
            None => causes.push((cause, 1)),
        }
    }
    // The sort is stable: among equals, what rules out the cheapest comes first.
    causes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let each: Vec<String> = causes.iter().map(|(cause, count)| format!("{count} {cause}")).collect();
    let types = if ruled_out.len() == 1 { "type is" } else { "types are" };
    Some(format!("{} {types} cheaper but ruled out: {}", ruled_out.len(), each.join(", ")))
}

fn in_short(cause: &RuledOutCause) -> String {
    match cause {
        RuledOutCause::NodePool { key, .. } => format!("by the NodePool's {key}"),
        RuledOutCause::Pod { .. } => "by what a pod requires".to_owned(),
        RuledOutCause::Plan { key, .. } => format!("by {key}, as the pods together need it"),
        RuledOutCause::NotOffered { .. } => "not sold there".to_owned(),
        RuledOutCause::Unavailable { .. } => "not to be had now".to_owned(),
        RuledOutCause::TooSmall { resource, .. } => format!("with too little {resource}"),
        RuledOutCause::HostPort { port } => format!("where host port {port} is taken"),
        RuledOutCause::Limit { limit } => format!("by limit {limit}"),
        RuledOutCause::Unused => "needed elsewhere in the plan".to_owned(),
    }
}

fn not_pending(pod: &str, view: &ClusterView, held: &BTreeMap<String, Held>) -> String {
    if let Some(why) = held.get(pod) {
        return why.to_string();
    }
    let node = view.pods.iter().find(|one| one.key() == pod).and_then(|pod| pod.node_name.as_deref());
    match node {
        Some(node) if view.nodes.iter().any(|one| one.name == node) => format!("it is bound to node {node}"),
        Some(node) => format!("it is bound to node {node}, which is not among the nodes"),
        None => "it waits for no node".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_found_by_its_full_name_or_by_a_name_that_only_it_has() {
        let known = ["default/web", "shop/web", "shop/cart", "a/db", "b/db"].map(str::to_owned);
        for (asked, found) in [("shop/web", "shop/web"), ("web", "default/web"), ("cart", "shop/cart")] {
            assert_eq!(resolve_one(asked, &known).unwrap(), found);
        }
        assert!(matches!(resolve_one("none", &known), Err(CliError::UnknownPod { .. })));
        let CliError::AmbiguousPod { candidates, .. } = resolve_one("db", &known).unwrap_err() else { panic!() };
        assert_eq!(candidates, "a/db, b/db");
    }
}
