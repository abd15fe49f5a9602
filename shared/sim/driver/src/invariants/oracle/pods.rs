//! Pods without a node, and whether plans explain each of them.

use super::Oracle;
use crate::invariants::{ANNOUNCED_ENDS, CLAIM_OBJECTS, EXPLAINED, PODS_RUN, condition, text};
use crate::{Driver, Outcome};
use jiff::{SignedDuration, Timestamp};
use nodeless_fake_kubernetes::resource::{EVENTS, PODS};
use nodeless_fake_kubernetes::{Change, ChangeKind, ListOptions};
use nodeless_planner::PlanReport;
use serde_json::Value;
use std::collections::BTreeSet;

/// A plan has seen a pod that was pending for this long when the plan ended, including batching, slow calls and stale snapshots.
const SEEN_AFTER: SignedDuration = SignedDuration::from_secs(60);
/// How long a pod may wait for the node that a plan assigned to it.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_mins(45);
/// The additional wait for each of its instances that never joins: until the claim is deleted, as in Karpenter, and the next one is
/// planned.
const WAIT_PER_FAILURE: SignedDuration = SignedDuration::from_mins(16);

/// A pod without a node.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) key: String,
    pub(super) created: Timestamp,
    /// When the scheduler first reported it as unschedulable.
    marked: Option<Timestamp>,
    /// The number of successful plans that have ended and could have seen the pod.
    plans: u32,
    /// Whether the last such plan reported the pod as unschedulable.
    refused: bool,
    /// When a plan last reported the pod as unschedulable, or an Event that kube-scheduler does not place it as planned: until then there
    /// was no node to wait for.
    last_refused: Option<Timestamp>,
    /// The last message of kube-scheduler about the pod.
    pub(super) message: String,
}

/// Whether a plan that ended at this time could see that the pod is pending.
fn is_seen(pod: &Pending, at: Timestamp) -> bool {
    pod.marked.is_some_and(|marked| at.duration_since(marked) >= SEEN_AFTER)
}

impl Oracle {
    pub(super) fn pod_changed(&mut self, change: &Change, now: Timestamp) {
        let pod = &change.object;
        let uid = text(pod, "/metadata/uid");
        let bound = !text(pod, "/spec/nodeName").is_empty();
        let gone = change.kind == ChangeKind::Deleted || pod.pointer("/metadata/deletionTimestamp").is_some();
        if bound || gone {
            if let Some(waited) = self.pending.remove(uid)
                && bound
            {
                let wait = now.duration_since(waited.created).as_millis();
                self.waits.push(i64::try_from(wait).unwrap_or(i64::MAX));
            }
            return;
        }
        let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        if owners.into_iter().flatten().any(|owner| owner["kind"] == "DaemonSet") {
            return;
        }
        let unschedulable = condition(pod, "PodScheduled")
            .is_some_and(|scheduled| scheduled["status"] == "False" && scheduled["reason"] == "Unschedulable");
        let entry = self.pending.entry(uid.to_owned()).or_insert_with(|| Pending {
            key: format!("{}/{}", text(pod, "/metadata/namespace"), text(pod, "/metadata/name")),
            created: now,
            marked: None,
            plans: 0,
            refused: false,
            last_refused: None,
            message: String::new(),
        });
        if unschedulable {
            entry.marked.get_or_insert(now);
        }
        if let Some(scheduled) = condition(pod, "PodScheduled") {
            entry.message = scheduled["message"].as_str().unwrap_or_default().to_owned();
        }
    }

    /// An Event may state that kube-scheduler does not place a pod where plans do.
    pub(super) fn note_event(&mut self, change: &Change, now: Timestamp) {
        if change.resource == EVENTS
            && text(&change.object, "/reason") == "NotScheduledAsPlanned"
            && let Some(pod) = self.pending.get_mut(text(&change.object, "/involvedObject/uid"))
        {
            pod.last_refused = Some(now);
        }
    }

    /// Checks the reports of operations.
    pub(crate) fn take_outcomes(&mut self, outcomes: &[(Timestamp, Outcome)], driver: &Driver) {
        for (at, outcome) in outcomes {
            if let Outcome::Planned(Ok(report)) = outcome
                && !report.repeated
            {
                self.note_refused(*at, report);
                if report.problems.is_empty() {
                    self.planned(*at, report, driver);
                }
            }
        }
        let now = driver.world().now();
        let missing = self.claim_objects.missing(outcomes, driver);
        self.violated(now, CLAIM_OBJECTS, missing);
        let waited = |pod: &Pending| {
            let since = pod.last_refused.max(pod.marked).filter(|_| !pod.refused && pod.marked.is_some());
            since.map_or(SignedDuration::ZERO, |since| now.duration_since(since))
        };
        let stuck = self.pending.values().filter(|pod| waited(pod) > LONGEST_WAIT);
        let stuck: Vec<String> = stuck
            .map(|pod| (pod, self.failed_instances(&pod.key, driver)))
            .filter(|(pod, dead)| waited(pod) > LONGEST_WAIT + WAIT_PER_FAILURE * *dead)
            .map(|(pod, dead)| {
                let waited = waited(pod).as_mins();
                format!(
                    "pod {} has waited for {waited} minutes and {dead} instances that never joined, although no plan \
                     reports it unschedulable; kube-scheduler: {}",
                    pod.key, pod.message
                )
            })
            .collect();
        self.violated(now, PODS_RUN, stuck);
    }

    /// The number of machines that were launched for a pod and never join.
    fn failed_instances(&self, pod: &str, driver: &Driver) -> i32 {
        let pods_of = |id: &str| self.nominated.get(self.machines.get(id)?);
        let dead = driver.world().ec2().instances().into_iter().filter(|instance| !instance.joins);
        let of_pod = dead.filter(|instance| pods_of(&instance.id).is_some_and(|pods| pods.contains(pod)));
        i32::try_from(of_pod.count()).unwrap_or(i32::MAX)
    }

    /// Which pods a plan reports as unschedulable. A plan with problems does too.
    fn note_refused(&mut self, at: Timestamp, report: &PlanReport) {
        let refused: BTreeSet<&str> = report.unschedulable.iter().map(|(pod, _)| pod.as_str()).collect();
        for pod in self.pending.values_mut().filter(|pod| is_seen(pod, at)) {
            pod.refused = refused.contains(pod.key.as_str());
            if pod.refused {
                pod.last_refused = Some(at);
            }
        }
    }

    fn planned(&mut self, at: Timestamp, report: &PlanReport, driver: &Driver) {
        if self.pending.is_empty() && self.announced_ends.is_none() {
            return;
        }
        let refused: BTreeSet<&str> = report.unschedulable.iter().map(|(pod, _)| pod.as_str()).collect();
        let placed: BTreeSet<&str> = report.placements.iter().map(|(pod, _)| pod.as_str()).collect();
        let claims = driver.claims().snapshot();
        let names = claims.iter().map(|claim| &claim.name).chain(&report.created);
        let nominated: BTreeSet<&str> =
            names.filter_map(|name| self.nominated.get(name)).flatten().map(String::as_str).collect();
        // The node that ends may have been launched for the pod itself.
        let staying = claims.iter().filter(|claim| !claim.phase.is_leaving()).map(|claim| &claim.name);
        let staying: BTreeSet<&str> = staying
            .chain(&report.created)
            .filter_map(|name| self.nominated.get(name))
            .flatten()
            .map(String::as_str)
            .collect();
        let has_other_place = |pod: &str| refused.contains(pod) || placed.contains(pod) || staying.contains(pod);
        let ends = self.announced_ends.as_mut();
        let without = ends.map(|checks| checks.planned(driver, at, &claims, has_other_place)).unwrap_or_default();
        let mut forgotten = Vec::new();
        for pod in self.pending.values_mut().filter(|pod| is_seen(pod, at)) {
            pod.plans += 1;
            let key = pod.key.as_str();
            if pod.plans >= 2 && !pod.refused && !placed.contains(key) && !nominated.contains(key) {
                forgotten.push(format!(
                    "pod {key} is pending since {} and {} plans do not mention it",
                    pod.created, pod.plans
                ));
            }
        }
        self.violated(at, ANNOUNCED_ENDS, without);
        self.violated(at, EXPLAINED, forgotten);
    }

    /// Pending pods for which no plan gives a reason.
    pub(crate) fn unexplained(&self) -> Vec<String> {
        self.pending.values().filter(|pod| pod.marked.is_some() && !pod.refused).map(|pod| pod.key.clone()).collect()
    }

    /// The numbers of pods without a node, and of running pods.
    pub(crate) fn pods(&self, driver: &Driver) -> (usize, usize) {
        let pods = driver.world().api().list(&PODS, &ListOptions::default());
        let pods = pods.map(|list| list.items).unwrap_or_default();
        (self.pending.len(), pods.iter().filter(|pod| text(pod, "/status/phase") == "Running").count())
    }
}
