//! What is kept up from plan to plan: when pods last came and went, and what was said already.

use super::disrupt::class_facts;
use super::pools::Judged;
use super::{PlanReport, Planner};
use jiff::Timestamp;
use nodeless_disruption::{Drift, DriftReason, drift};
use nodeless_lifecycle::transitions;
use nodeless_model::claim::{Condition, condition};
use nodeless_model::object::ObjectEvent;
use nodeless_model::{ConditionStatus, NodeClaim, Phase, Pod};
use nodeless_ports::ErrorKind;
use nodeless_ports::cluster::ClusterView;
use nodeless_scheduling::PoolOffer;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// How long the same event is not published again.
const QUIET: Duration = Duration::from_mins(5);
/// How long it is not said again why a node cannot be consolidated, even if it is for another reason, as in Karpenter.
const QUIET_ON_NODES: Duration = Duration::from_mins(15);
/// How many events of one plan say why nodes stay, two for each node: those that are left come with the plans that follow.
const STAYING: usize = 200;
/// How many events of one plan are about annotations and PodDisruptionBudgets of pods: a workload may have thousands. Those that
/// are left come with the plans that follow, too.
const ON_PODS: usize = 100;

/// Events that were published a short while ago, each with the time until which it is not said again.
#[derive(Default)]
pub(super) struct Recent {
    told: HashMap<ObjectEvent, Timestamp>,
}

impl Recent {
    /// Those of the events that were not published lately.
    pub(super) fn fresh(&mut self, events: Vec<ObjectEvent>, now: Timestamp) -> Vec<ObjectEvent> {
        self.told.retain(|_, until| *until > now);
        let (mut staying, mut on_pods) = (0, 0);
        let mut is_fresh = |event: &ObjectEvent| {
            let (stays, of_pod) = (says_why_a_node_stays(event), is_about_a_pods_disruption(event));
            // Why a node stays is full of numbers and names that change from plan to plan.
            let message = if stays { String::new() } else { event.message.clone() };
            let key = ObjectEvent { message, ..event.clone() };
            // One that is kept back stays as old as it is, so that what lasts is said again after a while.
            if self.told.contains_key(&key) || (stays && staying == STAYING) || (of_pod && on_pods == ON_PODS) {
                return false;
            }
            staying += usize::from(stays);
            on_pods += usize::from(of_pod);
            let quiet = if event.reason == "Unconsolidatable" { QUIET_ON_NODES } else { QUIET };
            self.told.insert(key, now.saturating_add(quiet).unwrap_or(Timestamp::MAX));
            true
        };
        events.into_iter().filter(|event| is_fresh(event)).collect()
    }
}

fn says_why_a_node_stays(event: &ObjectEvent) -> bool {
    !event.warning
        && matches!(event.object.kind.as_str(), "Node" | "NodeClaim")
        && matches!(event.reason.as_str(), "DisruptionBlocked" | "Unconsolidatable")
}

fn is_about_a_pods_disruption(event: &ObjectEvent) -> bool {
    event.object.kind == "Pod" && (event.reason == "DisruptionBlocked" || event.reason.contains("DoNotDisrupt"))
}

impl Planner {
    /// Notes on each claim when pods last came to its node or left it. The record keeps a hash of the pods, so that a
    /// planner without memory sees a change too. Gives the claims as they are then.
    pub(super) async fn note_pod_events(
        &self,
        mut records: Vec<NodeClaim>,
        view: &ClusterView,
        now: Timestamp,
        report: &mut PlanReport,
    ) -> Vec<NodeClaim> {
        let mut pods: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
        for pod in view.pods.iter().filter(|pod| pod.is_active() && !pod.is_owned_by_daemon_set()) {
            if let Some(node) = &pod.node_name {
                pods.entry(node).or_default().push(pod);
            }
        }
        for claim in &mut records {
            let Some(name) = &claim.status.node_name else { continue };
            let settled = matches!(claim.phase, Phase::Registered | Phase::Initialized);
            if !settled || !view.nodes.iter().any(|node| node.name == *name) {
                continue;
            }
            let present = fingerprint(pods.get(name.as_str()).map_or(&[], Vec::as_slice));
            if claim.status.pods_seen == Some(present) {
                continue;
            }
            let mut next = claim.clone();
            if next.status.pods_seen.is_some() || next.status.last_pod_event.is_none() {
                next.status.last_pod_event = Some(now);
            }
            next.status.pods_seen = Some(present);
            match self.claims.update(&next, None).await {
                Ok(version) => {
                    next.version = version;
                    *claim = next;
                }
                // Someone else writes it just now; the next plan notes it, and until then it counts as changed.
                Err(error) if error.kind == ErrorKind::Conflict => claim.status.last_pod_event = Some(now),
                Err(error) => {
                    claim.status.last_pod_event = Some(now);
                    report.problems.push(format!("NodeClaim {}: {error}", claim.name));
                }
            }
        }
        records
    }
}

impl Planner {
    /// Notes on each claim how it drifted, or that it did not, as the condition `Drifted`: people read it, and those that
    /// drifted first are replaced first. Gives the claims as they are then.
    pub(super) async fn note_drift(
        &self,
        mut records: Vec<NodeClaim>,
        view: &ClusterView,
        judged: &[Judged],
        now: Timestamp,
        report: &mut PlanReport,
        events: &mut Vec<ObjectEvent>,
    ) -> Vec<NodeClaim> {
        let facts = class_facts(view);
        let offers: Vec<PoolOffer<'_>> = judged.iter().map(Judged::offer).collect();
        for claim in &mut records {
            if !matches!(claim.phase, Phase::Launched | Phase::Registered | Phase::Initialized) {
                continue;
            }
            let Some(offer) = offers.iter().find(|offer| offer.pool.name == claim.node_pool) else { continue };
            let class = facts.get(&claim.node_class);
            let found = drift(claim, offer, class, nodeless_api::hash::VERSION, now);
            let Some(next) = with_drift(claim, found.as_ref(), class.is_some(), now) else { continue };
            match self.claims.update(&next, None).await {
                Ok(version) => {
                    events.extend(transitions(claim, &next, ""));
                    *claim = NodeClaim { version, ..next };
                }
                // Someone else writes it just now; the next plan notes it.
                Err(error) if error.kind == ErrorKind::Conflict => {}
                Err(error) => report.problems.push(format!("NodeClaim {}: {error}", claim.name)),
            }
        }
        records
    }
}

/// The claim with how it drifted, or without; nothing if it says so already. Where its EC2NodeClass is not `known`, nobody can
/// say that the claim is like it again.
fn with_drift(claim: &NodeClaim, drift: Option<&Drift>, known: bool, now: Timestamp) -> Option<NodeClaim> {
    let present = claim.condition(condition::DRIFTED);
    let mut next = claim.clone();
    match (present, drift) {
        (None, None) => return None,
        (Some(present), None) if !known && of_class(present) => return None,
        (Some(_), None) => next.clear_condition(condition::DRIFTED),
        (present, Some(drift)) => {
            let reason = drift.reason.as_str();
            let same = |present: &Condition| {
                present.status == ConditionStatus::True && present.reason == reason && present.message == drift.message
            };
            if present.is_some_and(same) {
                return None;
            }
            next.set_condition(condition::DRIFTED, ConditionStatus::True, reason, &drift.message, now);
        }
    }
    Some(next)
}

/// Whether a drift was found by comparing with the EC2NodeClass.
fn of_class(present: &Condition) -> bool {
    [DriftReason::NodeClassDrift, DriftReason::AMIDrift].iter().any(|reason| reason.as_str() == present.reason)
}

/// A hash of which pods these are.
fn fingerprint(pods: &[&Pod]) -> u64 {
    let mut ids: Vec<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
    ids.sort_unstable();
    let digest = Sha256::digest(ids.join("\n"));
    digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::object::ObjectRef;

    #[test]
    fn what_lasts_is_said_again_after_a_while() {
        let event = ObjectEvent {
            object: ObjectRef {
                api_version: "v1".into(),
                kind: "Node".into(),
                namespace: String::new(),
                name: "a".into(),
                uid: String::new(),
            },
            warning: false,
            reason: "DisruptionBlocked".into(),
            message: "A PodDisruptionBudget holds its pods".into(),
        };
        let mut recent = Recent::default();
        let said = (0..12).filter(|minute| {
            let now = Timestamp::UNIX_EPOCH + QUIET * *minute / 5;
            !recent.fresh(vec![event.clone(), event.clone()], now).is_empty()
        });
        assert_eq!(said.collect::<Vec<_>>(), [0, 5, 10]);
    }

    #[test]
    fn what_is_wrong_with_many_pods_is_told_plan_by_plan() {
        let of_pod = |number: usize| ObjectEvent {
            object: ObjectRef {
                api_version: "v1".into(),
                kind: "Pod".into(),
                namespace: "default".into(),
                name: number.to_string(),
                uid: String::new(),
            },
            warning: true,
            reason: "InvalidDoNotDisruptAnnotation".into(),
            message: "it is ignored".into(),
        };
        let all: Vec<ObjectEvent> = (0..250).map(of_pod).collect();
        let mut recent = Recent::default();
        let told = (0..4).map(|minute| recent.fresh(all.clone(), Timestamp::UNIX_EPOCH + QUIET * minute / 5).len());
        assert_eq!(told.collect::<Vec<_>>(), [100, 100, 50, 0]);
    }
}
