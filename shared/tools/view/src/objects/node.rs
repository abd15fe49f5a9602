//! The rows of nodes.

use crate::objects::amount::{Amount, Extended, Load, extended};
use crate::objects::claim::ClaimFacts;
use crate::objects::node_state::{Blocking, NodeState, Waiting, waiting};
use crate::objects::pod::PodFacts;
use jiff::Timestamp;
use nodeless_catalog::Catalog;
use nodeless_model::claim::condition;
use nodeless_model::{Node, StringMap, labels};
use serde::Serialize;
use std::sync::Arc;

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    /// The name.
    pub name: String,
    /// The NodePool.
    pub node_pool: Option<String>,
    /// The NodeClaim.
    pub node_claim: Option<String>,
    /// The instance type.
    pub instance_type: Option<String>,
    /// The zone.
    pub zone: Option<String>,
    /// The capacity type.
    pub capacity_type: Option<String>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// The price in dollars an hour; `null` if it is not known.
    pub price_per_hour: Option<f64>,
    /// Whether that price is one of the catalog that is derived and not published.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub derived_price: bool,
    /// The allocatable and used resources.
    pub load: Load,
    /// The number of pods that it can run.
    pub pod_capacity: i64,
    /// The state.
    pub state: NodeState,
    /// Since when it is not ready; `null` in every other state, and if it is not known.
    pub not_ready_since: Option<Timestamp>,
    /// What the node waits for while it joins.
    pub joining: Option<String>,
    /// Since when it drains; `null` in every other state.
    pub draining_since: Option<Timestamp>,
    /// The pods that its drain waits for.
    pub waits_for: Vec<Waiting>,
    /// Why it is disrupted: `Underutilized`, `Empty` or `Drifted`.
    pub disruption_reason: Option<String>,
    /// The objects whose annotation `karpenter.sh/do-not-disrupt` protects it: `Node NAME`, `Pod NAMESPACE/NAME`.
    pub protected_by: Vec<String>,
    /// Why it has drifted.
    pub drifted: Option<String>,
    /// Whether the node may be consolidated: its NodePool's `consolidateAfter` has passed.
    pub consolidatable: bool,
    /// When it expires.
    pub expires: Option<Timestamp>,
    /// The labels of the label columns.
    pub labels: StringMap,
    /// The pods that are bound to it and have not ended.
    pub pods: Vec<Arc<PodFacts>>,
}

/// What the row of a node is made from.
pub(crate) struct NodeSource<'s> {
    pub(crate) claim: Option<&'s ClaimFacts>,
    pub(crate) pods: Vec<Arc<PodFacts>>,
    pub(crate) used: Option<Amount>,
    pub(crate) budgets: &'s Blocking<'s>,
    pub(crate) prices: &'s Catalog,
    pub(crate) now: Timestamp,
    pub(crate) label_columns: &'s [String],
}

impl NodeRow {
    pub(crate) fn new(node: &Node, source: NodeSource<'_>) -> Self {
        let NodeSource { claim, pods, used, budgets, prices, now, label_columns } = source;
        let label = |key: &str| node.labels.get(key).cloned();
        let state = NodeState::new(node, claim);
        let recorded = claim.and_then(|claim| claim.price);
        let mut requested = Amount::default();
        let mut more = Extended { allocatable: extended(&node.allocatable), ..Extended::default() };
        for pod in &pods {
            requested += pod.requests;
            more.requested.add(&pod.extended);
        }
        Self {
            name: node.name.clone(),
            node_pool: node.node_pool().map(str::to_owned),
            node_claim: claim.map(|claim| claim.name.clone()),
            instance_type: label(labels::INSTANCE_TYPE),
            zone: label(labels::ZONE),
            capacity_type: label(labels::CAPACITY_TYPE),
            created: node.created,
            price_per_hour: recorded.or_else(|| prices.node_price(&node.labels)),
            derived_price: recorded.is_none() && prices.derives_price(&node.labels),
            load: Load { allocatable: Amount::from_list(&node.allocatable), requested, used, extended: more },
            pod_capacity: node.allocatable.get("pods").units(),
            state,
            not_ready_since: node.ready_changed().filter(|_| state == NodeState::NotReady),
            joining: (state == NodeState::Joining).then(|| joining(claim)),
            draining_since: draining_since(node, claim).filter(|_| state == NodeState::Draining),
            waits_for: if state == NodeState::Draining { waiting(&pods, budgets, now) } else { Vec::new() },
            disruption_reason: claim.and_then(disruption_reason),
            protected_by: protected_by(node, &pods, now),
            drifted: claim.and_then(drifted),
            consolidatable: claim.is_some_and(|claim| claim.has(condition::CONSOLIDATABLE)),
            expires: claim.and_then(|claim| claim.expires),
            labels: label_columns.iter().filter_map(|key| Some((key.clone(), label(key)?))).collect(),
            pods,
        }
    }

    /// Whether an annotation protects the node from voluntary disruption.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        !self.protected_by.is_empty()
    }
}

/// The first time that the API shows of a drain.
fn draining_since(node: &Node, claim: Option<&ClaimFacts>) -> Option<Timestamp> {
    let drained = claim.and_then(|claim| claim.condition(condition::DRAINED)?.last_transition_time);
    let deleted = claim.and_then(|claim| claim.deletion_timestamp);
    [drained, deleted, node.deletion_timestamp].into_iter().flatten().min()
}

fn joining(claim: Option<&ClaimFacts>) -> String {
    let Some((waits_for, message)) = claim.and_then(ClaimFacts::missing) else {
        return "it waits to be initialized".to_owned();
    };
    if message.is_empty() {
        format!("it waits for {waits_for}")
    } else {
        format!("it waits for {waits_for}: {message}")
    }
}

fn disruption_reason(claim: &ClaimFacts) -> Option<String> {
    let found = claim.condition(condition::DISRUPTION_REASON).filter(|found| found.status == "True")?;
    Some(found.reason.clone())
}

fn drifted(claim: &ClaimFacts) -> Option<String> {
    let found = claim.condition(condition::DRIFTED).filter(|found| found.status == "True")?;
    Some(if found.message.is_empty() { found.reason.clone() } else { found.message.clone() })
}

fn protected_by(node: &Node, pods: &[Arc<PodFacts>], now: Timestamp) -> Vec<String> {
    let own = (node.annotations.get(labels::DO_NOT_DISRUPT).map(String::as_str) == Some("true"))
        .then(|| format!("Node {}", node.name));
    let pods = pods.iter().filter(|pod| pod.is_protected(now)).map(|pod| format!("Pod {}", pod.key()));
    own.into_iter().chain(pods).collect()
}
