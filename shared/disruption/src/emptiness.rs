//! Emptiness: nodes that no pod needs.

use crate::budgets::Budgets;
use crate::candidates::{Eligible, initialized_since};
use crate::cluster::Cluster;
use crate::decision::{Command, KeptReason, Method};
use crate::{decide, pods};
use jiff::{SignedDuration, Timestamp};
use nodeless_model::{ConsolidationPolicy, DisruptionReason, NillableDuration, PodDisruptionBudget};
use std::collections::BTreeMap;

/// The command that removes all empty nodes that the budgets allow, the dearest first; and why each other one of the
/// eligible nodes stays.
pub(crate) fn find(
    cluster: &Cluster<'_>,
    eligible: &[Eligible<'_, '_>],
    wanted: &BTreeMap<String, String>,
    budgets: &mut Budgets,
    now: Timestamp,
) -> (Option<Command>, BTreeMap<String, KeptReason>) {
    let mut kept = BTreeMap::new();
    let mut empty: Vec<&Eligible<'_, '_>> = Vec::new();
    for one in eligible {
        match why_not_empty(one, wanted, cluster.disruption_budgets, now) {
            Some(why) => {
                kept.insert(one.node.name.clone(), why);
            }
            None => empty.push(one),
        }
    }
    empty.sort_by(|a, b| b.price().total_cmp(&a.price()).then_with(|| a.node.name.cmp(&b.node.name)));
    let mut taken = Vec::new();
    for one in empty {
        match budgets.take(&one.claim.node_pool, DisruptionReason::Empty) {
            Ok(()) => taken.push(*one),
            Err(why) => {
                kept.insert(one.node.name.clone(), why);
            }
        }
    }
    let command = (!taken.is_empty())
        .then(|| decide::command(Method::Emptiness, DisruptionReason::Empty, &taken, Vec::new(), now));
    (command, kept)
}

/// Why a node does not count as empty, or may not be removed though it is.
fn why_not_empty(
    one: &Eligible<'_, '_>,
    wanted: &BTreeMap<String, String>,
    budgets: &[PodDisruptionBudget],
    now: Timestamp,
) -> Option<KeptReason> {
    let disruption = &one.offer.pool.disruption;
    let NillableDuration::After(consolidate_after) = disruption.consolidate_after else {
        return Some(KeptReason::ConsolidationNever);
    };
    if !pods::is_empty(&one.of.pods) {
        let pods = pods::reschedulable(&one.of.pods).count();
        return Some(match disruption.consolidation_policy {
            ConsolidationPolicy::WhenEmpty => KeptReason::NotEmptyPolicy { pods },
            _ => KeptReason::NotEmpty { pods },
        });
    }
    if let Some(pod) = wanted.get(&one.node.name) {
        return Some(KeptReason::PendingPod(pod.clone()));
    }
    if let Some(why) = pods::first_blocking(&one.of.pods, budgets, now) {
        return Some(why);
    }
    let since = one
        .claim
        .status
        .last_pod_event
        .map_or(initialized_since(one.claim), |event| event.max(initialized_since(one.claim)));
    // A time beyond the end of all time never comes.
    let until = SignedDuration::try_from(consolidate_after)
        .ok()
        .and_then(|duration| since.checked_add(duration).ok())
        .unwrap_or(Timestamp::MAX);
    (until > now).then_some(KeptReason::TooRecent { consolidate_after, until })
}
