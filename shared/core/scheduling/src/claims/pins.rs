//! The labels that claims require of nodes.

use crate::constraints::{Alternative, LevelSpec};
use crate::problem::reason::PodFault;
use crate::problem::{ExistingNode, Problem};
use nodeless_devices::NodeSelector;
use nodeless_model::{Requirement, Requirements, labels};

/// The node labels that the devices of a claim require.
pub(super) fn pin(problem: &Problem<'_>, claim: &str) -> Result<Option<Requirements>, PodFault> {
    let allocation = problem.facts.devices.claims.get(claim).and_then(|state| state.allocation.as_ref());
    let Some(selector) = allocation.and_then(|allocation| allocation.node_selector.as_ref()) else { return Ok(None) };
    let fault = |why: &str| PodFault::Claim { message: format!("ResourceClaim {claim} has devices {why}") };
    let [term] = &selector.node_selector_terms[..] else {
        return Err(fault("for nodes of several kinds, which is not supported"));
    };
    let mut required = Requirements::from_terms(&term.match_expressions)
        .map_err(|error| fault(&format!("whose nodes are unknown: {error}")))?;
    if let Some(name) = single_node(selector) {
        let node = problem.nodes.iter().find(|node| node.name == name);
        let node = node.ok_or_else(|| fault(&format!("on node {name}, which takes no pods")))?;
        required.add(labels::HOSTNAME, Requirement::one_of([host_name(node)]));
    }
    Ok(Some(required))
}

/// The value of the label of a node that its pods require.
pub(super) fn host_name(node: &ExistingNode) -> &str {
    node.requirements.get(labels::HOSTNAME).and_then(Requirement::single).unwrap_or(&node.name)
}

/// The node that a selector names.
fn single_node(selector: &NodeSelector) -> Option<&str> {
    let fields = &selector.node_selector_terms.first()?.match_fields;
    fields.first()?.values.first().map(String::as_str)
}

/// Levels with further required labels.
pub(crate) fn pinned(specs: Vec<LevelSpec>, pins: &[Requirements]) -> Result<Vec<LevelSpec>, PodFault> {
    if pins.is_empty() {
        return Ok(specs);
    }
    let pinned =
        |spec: LevelSpec| LevelSpec { alternatives: narrowed(&spec.alternatives, pins).collect(), groups: spec.groups };
    let mut levels: Vec<LevelSpec> = specs.into_iter().map(pinned).collect();
    levels.retain(|level| !level.alternatives.is_empty());
    if levels.is_empty() {
        let message = "the nodes that can use the devices of its claims do not have the labels that it requires";
        return Err(PodFault::Claim { message: message.to_owned() });
    }
    Ok(levels)
}

/// The alternatives that these required labels leave.
pub(super) fn narrowed<'a>(
    alternatives: &'a [Alternative],
    pins: &'a [Requirements],
) -> impl Iterator<Item = Alternative> + use<'a> {
    alternatives.iter().filter_map(move |alternative| {
        let mut alternative = alternative.clone();
        for pin in pins {
            if !alternative.requirements.intersects(pin) {
                return None;
            }
            alternative.requirements = alternative.requirements.with(pin);
        }
        Some(alternative)
    })
}
