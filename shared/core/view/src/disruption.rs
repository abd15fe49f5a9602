//! Disruption in progress, as far as the Kubernetes API shows it.
//!
//! Commands are records of the claims table. The API shows their candidates (the condition DisruptionReason of a NodeClaim) and
//! their replacements (the Event DisruptionLaunching on a NodeClaim), and not which replacement belongs to which candidate.

use crate::claim::ClaimRow;
use crate::node::NodeRow;
use crate::node_state::NodeState;
use serde::Serialize;

/// The nodes that are disrupted now, and the NodeClaims that replace them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// The nodes that are disrupted now.
    pub nodes: Vec<DisruptedNode>,
    /// The NodeClaims that replace nodes and are not initialized yet.
    pub replacements: Vec<String>,
    /// The prices of the disrupted nodes less those of the replacements, in dollars an hour; `null` if one of them is not known.
    pub saving_per_hour: Option<f64>,
}

/// A node that is disrupted.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DisruptedNode {
    /// Its name.
    pub node: String,
    /// `Underutilized`, `Empty` or `Drifted`; `null` if the API does not show it.
    pub reason: Option<String>,
    /// Its state.
    pub state: NodeState,
    /// Its price in dollars an hour.
    pub price_per_hour: Option<f64>,
}

impl Disruption {
    /// `joining` are the nodes that replace others and are not initialized, with their NodeClaims and prices.
    pub(crate) fn new(nodes: &[NodeRow], claims: &[ClaimRow], joining: &[(String, Option<f64>)]) -> Self {
        let is_disrupted = |node: &&NodeRow| node.disruption_reason.is_some() || node.state == NodeState::Disrupted;
        let disrupted: Vec<DisruptedNode> = nodes
            .iter()
            .filter(is_disrupted)
            .map(|node| DisruptedNode {
                node: node.name.clone(),
                reason: node.disruption_reason.clone(),
                state: node.state,
                price_per_hour: node.price_per_hour,
            })
            .collect();
        let launching = claims.iter().filter(|claim| claim.replacement && !claim.deleting);
        let replacements: Vec<(String, Option<f64>)> =
            launching.map(|claim| (claim.name.clone(), claim.price_per_hour)).chain(joining.iter().cloned()).collect();
        let saved: Option<f64> = disrupted.iter().map(|node| node.price_per_hour).sum();
        let paid: Option<f64> = replacements.iter().map(|(_, price)| *price).sum();
        Self {
            saving_per_hour: saved.zip(paid).map(|(saved, paid)| saved - paid).filter(|_| !disrupted.is_empty()),
            nodes: disrupted,
            replacements: replacements.into_iter().map(|(name, _)| name).collect(),
        }
    }

    /// Whether nothing is disrupted or replaced.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.replacements.is_empty()
    }
}
