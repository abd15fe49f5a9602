//! The state of one node, for the explanation of its disruption.

use crate::candidates::{Lookup, consolidatable_from, initialized_since};
use crate::cluster::{Cluster, Options};
use crate::consolidation::UnplacedPod;
use crate::pods::DisruptionBudgetIndex;
use crate::policy::budgets::Budgets;
use crate::reasons::KeptReason;
use crate::simulation::Expected;
use crate::simulation::{buffers, preferences};
use crate::{consolidation, drift};
use jiff::Timestamp;
use nodeless_model::claim::condition;
use nodeless_model::{CapacityType, DisruptionReason, Pod};
use serde::Serialize;

/// The state of one node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDetails {
    /// The Node's name, or the NodeClaim's if there is no Node.
    pub node: String,
    /// The NodeClaim, if it is managed.
    pub node_claim: Option<String>,
    /// The NodePool, if it is managed.
    pub node_pool: Option<String>,
    /// The instance type, if known.
    pub instance_type: Option<String>,
    /// The zone, if known.
    pub zone: Option<String>,
    /// The capacity type, if known.
    pub capacity_type: Option<CapacityType>,
    /// Dollars per hour, if known.
    pub price_per_hour: Option<f64>,
    /// Since when it is initialized.
    pub initialized: Option<Timestamp>,
    /// When pods last came or went, if known.
    pub last_pod_event: Option<Timestamp>,
    /// When its pods will not have changed for `consolidateAfter`, possibly in the past; absent if never.
    pub consolidatable: Option<Timestamp>,
    /// The drift, if the node drifted and may be disrupted voluntarily.
    pub drift: Option<String>,
    /// The pods, in the order of their names.
    pub pods: Vec<PodDetails>,
    /// The present state of the NodePool's budgets.
    pub budgets: Vec<BudgetStatus>,
    /// The pod that fits on no other node, if there is one and the node may be consolidated.
    pub elsewhere: Option<UnplacedPod>,
}

/// A pod of a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodDetails {
    /// The pod, `namespace/name`.
    pub pod: String,
    /// The requests, such as `cpu 1, memory 2Gi`.
    pub requests: String,
    /// Whether the pod would need another node.
    pub moves: bool,
    /// The reasons of this pod that block the disruption of its node.
    pub blocked_by: Vec<KeptReason>,
}

/// The nodes that the budgets of a NodePool allow for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetStatus {
    /// The reason.
    pub reason: DisruptionReason,
    /// The maximum number of nodes that may be disrupted at once; absent if no budget is active now.
    pub allowed: Option<u32>,
    /// The number of nodes that count as disrupted: not ready, terminating, or in a command.
    pub disrupting: u32,
}

/// The state of a node; nothing if there is no node with this name, and no claim with this name without a node.
#[must_use]
pub fn node_details(cluster: &Cluster<'_>, name: &str, now: Timestamp, options: &Options) -> Option<NodeDetails> {
    let held = buffers::hold(cluster, options, now);
    let cluster = held.as_ref().unwrap_or(cluster);
    let of = cluster.nodes.iter().find(|node| node.name() == name)?;
    let budget_index = DisruptionBudgetIndex::new(cluster.disruption_budgets);
    let mut details = NodeDetails {
        node: name.to_owned(),
        node_claim: of.claim.map(|claim| claim.name.clone()),
        node_pool: of.node_pool().map(str::to_owned),
        pods: pods(&of.pods, &budget_index, now),
        ..NodeDetails::default()
    };
    let lookup = Lookup::new(cluster);
    if let Some(pool) = &details.node_pool {
        let standing = Budgets::new(cluster, now).standing(pool);
        let budget = |(reason, allowed, disrupting)| BudgetStatus {
            reason,
            allowed: Some(allowed).filter(|allowed| *allowed < u32::MAX),
            disrupting,
        };
        details.budgets = standing.into_iter().map(budget).collect();
    }
    let Some(claim) = of.claim else { return Some(details) };
    if let Some(instance) = &claim.status.instance {
        details.instance_type = Some(instance.instance_type.clone());
        details.zone = Some(instance.zone.clone());
        details.capacity_type = Some(instance.capacity_type);
        details.price_per_hour = Some(lookup.price(claim)).filter(|price| *price > 0.0);
    }
    let known = of.is_initialized() && claim.condition(condition::INITIALIZED).is_some();
    details.initialized = known.then(|| initialized_since(claim));
    details.last_pod_event = claim.status.last_pod_event;
    let pool = cluster.node_pools.iter().map(|offer| offer.pool).find(|pool| claim.is_of(&pool.name));
    details.consolidatable =
        pool.and_then(|pool| consolidatable_from(claim, pool.disruption.consolidate_after)).map(|(_, until)| until);
    if let Ok(one) = lookup.eligible(of, now) {
        details.drift = drift::replacement::drift_of(cluster, &one, options, now).map(|drift| drift.to_string());
        details.elsewhere = elsewhere(cluster, name, now, options);
    }
    Some(details)
}

/// The pod that fits on no other node, and why, by the rules of consolidation, which keeps preferences.
fn elsewhere(cluster: &Cluster<'_>, name: &str, now: Timestamp, options: &Options) -> Option<UnplacedPod> {
    let held = preferences::held(cluster, options);
    let keeping = preferences::with_held(cluster, &held);
    let lookup = Lookup::new(&keeping);
    let of = keeping.nodes.iter().find(|node| node.name() == name)?;
    let one = lookup.eligible(of, now).ok()?;
    let expected = Expected::new(cluster, options, now);
    consolidation::unplaced(&keeping, &one, &lookup, &expected, options, now)
}

fn pods(pods: &[&Pod], budget_index: &DisruptionBudgetIndex<'_>, now: Timestamp) -> Vec<PodDetails> {
    let mut pods: Vec<&Pod> = pods.to_vec();
    pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    let one = |pod: &Pod| PodDetails {
        pod: pod.key(),
        requests: pod.template.requests.to_string(),
        moves: pod.is_reschedulable(),
        blocked_by: budget_index.blocking(pod, now),
    };
    pods.into_iter().map(one).collect()
}
