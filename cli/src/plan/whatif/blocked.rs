//! The nodes that disruption does not replace until something in the cluster is changed.

use nodeless_disruption::{Kept, KeptReason};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What keeps disruption from reaching an alternative.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Blocked {
    /// The names of the nodes.
    pub(crate) nodes: BTreeSet<String>,
    /// The causes, those of most nodes first.
    pub(crate) causes: Vec<Cause>,
    /// What the alternative costs while these nodes stay, in whole dollars a month.
    pub(crate) dollars_per_month: i64,
}

/// A cause, and the number of nodes that it keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Cause {
    pub(crate) why: String,
    pub(crate) nodes: usize,
}

/// The nodes that stay until something is changed, by name, each with the causes.
pub(super) fn nodes(kept: &[Kept]) -> BTreeMap<String, BTreeSet<String>> {
    let of = |kept: &Kept| {
        let causes: BTreeSet<String> = kept.reasons.iter().filter_map(cause).collect();
        (!causes.is_empty()).then(|| (kept.node.clone(), causes))
    };
    kept.iter().filter_map(of).collect()
}

/// The causes, those of most nodes first.
pub(super) fn causes(nodes: &BTreeMap<String, BTreeSet<String>>) -> Vec<Cause> {
    let mut counted: BTreeMap<&String, usize> = BTreeMap::new();
    nodes.values().flatten().for_each(|why| *counted.entry(why).or_default() += 1);
    let mut causes: Vec<Cause> = counted.into_iter().map(|(why, nodes)| Cause { why: why.clone(), nodes }).collect();
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.nodes));
    causes
}

/// What has to be changed before the node is disrupted; `None` for a reason that passes with time, or that is about prices.
fn cause(reason: &KeptReason) -> Option<String> {
    Some(match reason {
        KeptReason::PodDisruptionBudget { budget, .. } => format!("PodDisruptionBudget {budget} allows no eviction"),
        KeptReason::SeveralPodDisruptionBudgets { budgets, .. } => {
            format!("PodDisruptionBudgets {} cover the same pod, which then cannot be evicted", budgets.join(" and "))
        }
        KeptReason::DoNotDisruptNode => "the node is annotated karpenter.sh/do-not-disrupt".to_owned(),
        KeptReason::DoNotDisruptPod { until: None, .. } => "a pod is annotated karpenter.sh/do-not-disrupt".to_owned(),
        KeptReason::UndecodedPod { .. } => "a pod cannot be decoded".to_owned(),
        KeptReason::ConsolidationNever => "consolidateAfter is Never".to_owned(),
        KeptReason::NotEmptyPolicy { .. } => "consolidationPolicy is WhenEmpty".to_owned(),
        KeptReason::Paused { until: None, .. } | KeptReason::NoNodePool(_) | KeptReason::SpotToSpotOff => {
            reason.to_string()
        }
        KeptReason::PriceUnknown(_) => "its price is unknown".to_owned(),
        KeptReason::Budget { node_pool, allowed: 0, .. } => {
            format!("a disruption budget of NodePool {node_pool} allows no node")
        }
        _ => return None,
    })
}
