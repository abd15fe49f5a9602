//! Disruption in progress, as far as the Kubernetes API shows it.
//!
//! Commands are records of the claims table. The API shows their candidates (the condition DisruptionReason of a NodeClaim) and
//! their replacements (the Event DisruptionLaunching on a NodeClaim, whose message names the nodes that it replaces).

use crate::objects::claim::ClaimRow;
use crate::objects::node::NodeRow;
use crate::objects::node_state::NodeState;
use serde::Serialize;
use std::collections::BTreeMap;

/// The nodes that are disrupted now, and the NodeClaims that replace them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// The nodes that are disrupted now.
    pub nodes: Vec<DisruptedNode>,
    /// The NodeClaims that replace nodes and are not initialized yet.
    pub replacements: Vec<String>,
    /// The commands that have replacements, each with its nodes.
    pub commands: Vec<DisruptionCommand>,
    /// The prices of the disrupted nodes less those of the replacements, in dollars an hour; `null` if one of them is not known.
    pub saving_per_hour: Option<f64>,
}

/// Nodes that are disrupted together, and the NodeClaims that replace them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DisruptionCommand {
    /// The nodes; some of them may be gone already.
    pub nodes: Vec<String>,
    /// The NodeClaims that replace them, initialized or not.
    pub replacements: Vec<String>,
    /// The prices of the nodes less those of the replacements, in dollars an hour; `null` if one of them is not known, also because
    /// it is gone.
    pub saving_per_hour: Option<f64>,
}

/// The NodeClaims that replace nodes, each with these nodes, by the Events.
pub(crate) type Replacing<'c> = BTreeMap<&'c str, Vec<&'c str>>;

/// A node that is disrupted.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DisruptedNode {
    /// The name.
    pub node: String,
    /// `Underutilized`, `Empty` or `Drifted`; `null` if the API does not show it.
    pub reason: Option<String>,
    /// The state.
    pub state: NodeState,
    /// The price in dollars an hour.
    pub price_per_hour: Option<f64>,
}

impl Disruption {
    /// `replacing` are the NodeClaims that replace nodes.
    pub(crate) fn new(nodes: &[NodeRow], claims: &[ClaimRow], replacing: &Replacing<'_>) -> Self {
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
        let replacements: Vec<(String, Option<f64>)> = launching
            .map(|claim| (claim.name.clone(), claim.price_per_hour))
            .chain(joining(nodes, replacing))
            .collect();
        let saved: Option<f64> = disrupted.iter().map(|node| node.price_per_hour).sum();
        let paid: Option<f64> = replacements.iter().map(|(_, price)| *price).sum();
        Self {
            saving_per_hour: saved.zip(paid).map(|(saved, paid)| saved - paid).filter(|_| !disrupted.is_empty()),
            commands: commands(nodes, claims, &disrupted, replacing),
            nodes: disrupted,
            replacements: replacements.into_iter().map(|(name, _)| name).collect(),
        }
    }

    /// The replacements of no command that is shown.
    #[must_use]
    pub fn other_replacements(&self) -> Vec<&str> {
        let shown =
            |name: &&str| !self.commands.iter().any(|command| command.replacements.iter().any(|one| one == name));
        self.replacements.iter().map(String::as_str).filter(shown).collect()
    }

    /// Whether nothing is disrupted or replaced.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.replacements.is_empty()
    }
}

/// The NodeClaims and prices of nodes that replace others and are not initialized.
fn joining(nodes: &[NodeRow], replacing: &Replacing<'_>) -> Vec<(String, Option<f64>)> {
    let joining = nodes.iter().filter(|node| node.state == NodeState::Joining);
    let named = joining.filter_map(|node| Some((node.node_claim.clone()?, node.price_per_hour)));
    named.filter(|(claim, _)| replacing.contains_key(claim.as_str())).collect()
}

/// The replacements of the same nodes are those of one command. A command has ended when none of its nodes is disrupted.
fn commands(
    nodes: &[NodeRow],
    claims: &[ClaimRow],
    disrupted: &[DisruptedNode],
    replacing: &Replacing<'_>,
) -> Vec<DisruptionCommand> {
    if disrupted.is_empty() || replacing.is_empty() {
        return Vec::new();
    }
    let going: BTreeMap<&str, Option<f64>> =
        disrupted.iter().map(|node| (node.node.as_str(), node.price_per_hour)).collect();
    let joined = nodes.iter().filter_map(|node| Some((node.node_claim.as_deref()?, node.price_per_hour)));
    let on_their_way = claims.iter().map(|claim| (claim.name.as_str(), claim.price_per_hour));
    let known: BTreeMap<&str, Option<f64>> = joined.chain(on_their_way).collect();
    let mut groups = BTreeMap::<&[&str], Vec<&str>>::new();
    for (claim, replaced) in replacing.iter().filter(|(claim, _)| known.contains_key(*claim)) {
        if replaced.iter().any(|node| going.contains_key(node)) {
            groups.entry(replaced).or_default().push(claim);
        }
    }
    let total = |names: &[&str], prices: &BTreeMap<&str, Option<f64>>| -> Option<f64> {
        names.iter().map(|name| prices.get(name).copied().flatten()).sum()
    };
    let command = |(nodes, replacements): (&[&str], Vec<&str>)| DisruptionCommand {
        saving_per_hour: total(nodes, &going).zip(total(&replacements, &known)).map(|(saved, paid)| saved - paid),
        nodes: nodes.iter().map(|name| (*name).to_owned()).collect(),
        replacements: replacements.iter().map(|name| (*name).to_owned()).collect(),
    };
    groups.into_iter().map(command).collect()
}
