//! The effect of a node's pods on its disruption.

use jiff::{SignedDuration, Timestamp};
use nodeless_model::claim::TerminationReason;
use nodeless_model::events::{do_not_disrupt_elapsed, do_not_disrupt_until, invalid_do_not_disrupt};
use nodeless_model::object::{ObjectEvent, PodRef};
use nodeless_model::pod::Protection;
use nodeless_model::surge::SurgeMode;
use nodeless_model::{NodeClaim, Phase, Pod, PodDisruptionBudget, Setting, labels};

use crate::reasons::KeptReason;
use nodeless_model::hashed::HashMap;

/// The cost of evicting a pod: one, more or less by its disruption cost and priority, between -10 and 10. Without a disruption cost, the
/// deletion cost counts. An invalid value counts as zero.
pub(crate) fn eviction_cost(pod: &Pod) -> f64 {
    let annotated =
        [labels::DISRUPTION_COST, labels::POD_DELETION_COST].iter().find_map(|key| pod.template.annotations.get(*key));
    let annotated = annotated.and_then(|cost| cost.parse::<i32>().ok()).unwrap_or(0);
    let cost = 1.0 + f64::from(annotated) / 2_f64.powi(27) + f64::from(pod.template.priority) / 2_f64.powi(25);
    cost.clamp(-10.0, 10.0)
}

/// The pods that would need another node.
pub(crate) fn reschedulable<'p, 'a>(pods: &'p [&'a Pod]) -> impl Iterator<Item = &'a Pod> + use<'p, 'a> {
    pods.iter().copied().filter(|pod| pod.is_reschedulable())
}

/// The pods that are evicted when their node is disrupted, in order. Virtual pods of CapacityBuffers are not evicted.
pub(crate) fn evicted<'p>(pods: impl Iterator<Item = &'p Pod>) -> Vec<PodRef> {
    let mut evicted: Vec<PodRef> = pods.filter(|pod| !pod.is_virtual()).map(PodRef::from).collect();
    evicted.sort();
    evicted
}

/// The cost of moving all pods of a node: one for the node itself, and the cost of each pod that has one.
pub(crate) fn reschedule_cost(pods: &[&Pod]) -> f64 {
    let mut costs: Vec<f64> = reschedulable(pods).map(|pod| eviction_cost(pod).max(0.0)).collect();
    // So that the sum does not depend on the order of the list, not even in its last digit.
    costs.sort_unstable_by(f64::total_cmp);
    1.0 + costs.into_iter().sum::<f64>()
}

/// Whether the node is empty: it has no pods to reschedule, or only pods without an eviction cost. A node that holds the virtual
/// pods of a CapacityBuffer is not empty, although moving them costs nothing.
pub(crate) fn is_empty(pods: &[&Pod]) -> bool {
    reschedulable(pods).all(|pod| eviction_cost(pod) <= 0.0 && !pod.is_virtual())
}

/// How long a PodDisruptionBudget may block a drain before no capacity is reserved elsewhere for the pods. A budget
/// that allows one eviction after another completes within that time; a budget that waits for something else may take
/// days.
const BLOCKED_DRAIN: SignedDuration = SignedDuration::from_mins(10);

/// How long before the end of a node that is certain its pods are moving: a new node needs a few minutes, and several launches if EC2
/// lacks capacity.
const CERTAIN_END: SignedDuration = SignedDuration::from_mins(10);

/// Whether a pod leaves its node within minutes, whatever protects it: EC2 ends the instance, or the grace period of the node ends.
fn leaves_for_certain(pod: &Pod, claim: &NodeClaim, now: Timestamp) -> bool {
    let termination = claim.status.termination.as_ref();
    let deadline = termination.and_then(|termination| termination.deadline);
    // The drain deletes a pod early enough for its own grace period.
    let own = SignedDuration::from_secs(pod.template.termination_grace_period_seconds.unwrap_or(0));
    let deleted = deadline.map(|deadline| deadline.checked_sub(own).unwrap_or(Timestamp::MIN));
    let ends = [claim.status.ends, deleted].into_iter().flatten().min();
    let is_gone = termination.is_some_and(|termination| termination.reason == TerminationReason::InstanceMissing);
    is_gone || claim.phase > Phase::Draining || ends.is_some_and(|ends| ends.duration_since(now) <= CERTAIN_END)
}

/// All PodDisruptionBudgets, by namespace and a label that they require, so that a pod is compared with few of them.
#[derive(Debug, Default)]
pub struct DisruptionBudgetIndex<'a> {
    all: &'a [PodDisruptionBudget],
    /// By namespace, and a label with its value.
    by_label: HashMap<(&'a str, &'a str, &'a str), Vec<usize>>,
    /// By namespace, those that require no label by its value.
    others: HashMap<&'a str, Vec<usize>>,
}

impl<'a> DisruptionBudgetIndex<'a> {
    /// The index of a cluster's PodDisruptionBudgets.
    #[must_use]
    pub fn new(budgets: &'a [PodDisruptionBudget]) -> Self {
        let mut index = Self { all: budgets, ..Self::default() };
        for (place, budget) in budgets.iter().enumerate() {
            let label = budget.selector.as_ref().and_then(|selector| selector.match_labels.first_key_value());
            let known = match label {
                Some((key, value)) => index.by_label.entry((&budget.namespace, key, value)).or_default(),
                None => index.others.entry(&budget.namespace).or_default(),
            };
            known.push(place);
        }
        index
    }

    /// The first pod, by name, that blocks the disruption of its node: by its annotation, or else by a PodDisruptionBudget. A budget
    /// does not block a pod that moves by a raise of its Deployment's replicas.
    pub(crate) fn first_blocking(&self, pods: &[&Pod], now: Timestamp) -> Option<KeptReason> {
        let active = || pods.iter().copied().filter(|pod| pod.is_active() && !pod.is_virtual());
        let name = |pod: &&Pod| (pod.namespace.clone(), pod.name.clone());
        if let Some(pod) = active().filter(|pod| pod.protection(now) == Protection::Active).min_by_key(name) {
            return Some(protected(pod));
        }
        if self.all.is_empty() {
            return None;
        }
        let blocked = active().filter(|pod| is_evicted_by_us(pod) && !moves_by_scale(pod));
        let blocked = blocked.filter_map(|pod| Some((pod, self.blocking_budget(pod)?)));
        blocked.min_by_key(|(pod, _)| name(pod)).map(|(_, why)| why)
    }

    /// All reasons for which a pod blocks the disruption of its node.
    pub(crate) fn blocking(&self, pod: &Pod, now: Timestamp) -> Vec<KeptReason> {
        if !pod.is_active() || pod.is_virtual() {
            return Vec::new();
        }
        let annotation = (pod.protection(now) == Protection::Active).then(|| protected(pod));
        let budget = (is_evicted_by_us(pod) && !moves_by_scale(pod)).then(|| self.blocking_budget(pod)).flatten();
        annotation.into_iter().chain(budget).collect()
    }

    /// Whether no capacity is launched or reserved for a pod, because it is unknown when it will need another node: the pod stays
    /// until it is deleted by force, or a PodDisruptionBudget still allows no eviction long after the drain of its node started.
    /// Once evicted, it is a pending pod. `claim` is that of its node: a pod whose node ends for certain is not held.
    #[must_use]
    pub fn holds(&self, pod: &Pod, claim: Option<&NodeClaim>, now: Timestamp) -> bool {
        if pod.is_virtual() || claim.is_some_and(|claim| leaves_for_certain(pod, claim, now)) {
            return false;
        }
        if pod.protection(now) == Protection::Active {
            return true;
        }
        if !is_evicted_by_us(pod) {
            return false;
        }
        match self.blocking_budget(pod) {
            None => false,
            Some(KeptReason::PodDisruptionBudget { .. }) => {
                let drain_started = claim.and_then(|claim| claim.status.drain_started);
                drain_started.is_some_and(|started| now.duration_since(started) >= BLOCKED_DRAIN)
                    || self.covering(pod).any(|budget| budget.blocks_always)
            }
            // The Eviction API rejects the eviction of a pod that several budgets select, whatever they allow.
            Some(_) => true,
        }
    }

    /// The budgets that select a pod.
    pub(crate) fn covering(&self, pod: &Pod) -> impl Iterator<Item = &'a PodDisruptionBudget> + use<'a> {
        let (namespace, labels) = (pod.namespace.as_str(), &pod.template.labels);
        let labelled =
            labels.iter().filter_map(|(key, value)| self.by_label.get(&(namespace, key.as_str(), value.as_str())));
        let mut places: Vec<usize> = labelled.chain(self.others.get(namespace)).flatten().copied().collect();
        places.retain(|place| self.all[*place].covers(namespace, labels));
        places.sort_unstable();
        let all = self.all;
        places.into_iter().map(move |place| &all[place])
    }

    fn blocking_budget(&self, pod: &Pod) -> Option<KeptReason> {
        let mut covering = self.covering(pod);
        let budget = covering.next()?;
        let name = |budget: &PodDisruptionBudget| format!("{}/{}", budget.namespace, budget.name);
        if let Some(second) = covering.next() {
            let budgets = [budget, second].into_iter().chain(covering).map(name).collect();
            return Some(KeptReason::SeveralPodDisruptionBudgets { pod: pod.key(), budgets });
        }
        let passes = budget.disruptions_allowed > 0 || (budget.always_allows_unhealthy && pod.ready == Some(false));
        (!passes).then(|| KeptReason::PodDisruptionBudget { pod: pod.key(), budget: name(budget) })
    }
}

/// Pods that tolerate the disruption taint or belong to the node are not evicted, so PodDisruptionBudgets do not apply.
fn is_evicted_by_us(pod: &Pod) -> bool {
    !pod.tolerates_disruption() && !pod.is_owned_by_node()
}

/// Whether one more replica of its Deployment replaces the pod without an eviction. A restart does not count: it moves the other
/// pods of the Deployment too, to places that no decision has planned, and the next decision would move them again.
pub(crate) fn moves_by_scale(pod: &Pod) -> bool {
    pod.is_surged() && pod.surge_mode() == Setting::Valid(SurgeMode::Scale)
}

fn protected(pod: &Pod) -> KeptReason {
    KeptReason::DoNotDisruptPod { pod: pod.key(), until: pod.protected_until() }
}

/// The time for which an Event reports that a pod is no longer protected.
const ELAPSED_IS_NEWS: SignedDuration = SignedDuration::from_mins(5);

/// Events on pods about the annotation `karpenter.sh/do-not-disrupt`: until when it protects them, that it has expired,
/// or that it is invalid.
pub(crate) fn annotation_events(pods: &[&Pod], now: Timestamp) -> Vec<ObjectEvent> {
    let real = pods.iter().filter(|pod| pod.is_active() && !pod.is_virtual());
    real.filter_map(|pod| annotation_event(pod, now)).collect()
}

fn annotation_event(pod: &Pod, now: Timestamp) -> Option<ObjectEvent> {
    let value = pod.template.annotations.get(labels::DO_NOT_DISRUPT)?;
    let key = labels::DO_NOT_DISRUPT;
    match (pod.protection(now), pod.protected_until()) {
        (Protection::Invalid, _) => {
            let message =
                format!("annotation {key} is {value:?}, which is ignored: write true or a duration such as 30m");
            Some(invalid_do_not_disrupt(pod, &message))
        }
        (Protection::Active, Some(until)) => {
            let message = format!("annotation {key} protects the pod until {until:.0}, {value} after its start");
            Some(do_not_disrupt_until(pod, until, &message))
        }
        (Protection::None, Some(until)) if now.duration_since(until) < ELAPSED_IS_NEWS => {
            let message = format!(
                "annotation {key} protected the pod until {until:.0}, {value} after its start, and does so no longer"
            );
            Some(do_not_disrupt_elapsed(pod, &message))
        }
        _ => None,
    }
}

/// Labels that differ between the pods of one StatefulSet.
const OF_ONE_POD: [&str; 2] = ["statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"];

/// Pods with the same namespace, kind of owner and labels belong to one workload.
pub(crate) type Workload<'p> = (&'p str, Option<&'p str>, Vec<(&'p str, &'p str)>);

pub(crate) fn workload(pod: &Pod) -> Workload<'_> {
    let labels = pod.template.labels.iter().filter(|(key, _)| !OF_ONE_POD.contains(&key.as_str()));
    let labels = labels.map(|(key, value)| (key.as_str(), value.as_str())).collect();
    (&pod.namespace, pod.owner_kind.as_deref(), labels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::claim::Termination;
    use nodeless_model::{LabelSelector, NodeClaimSpec, NodeClaimStatus, PodTemplate, StringMap};

    fn pod(surge: Option<&str>, replica_set: Option<&str>) -> Pod {
        Pod {
            namespace: "shop".into(),
            name: "cart".into(),
            owner_kind: replica_set.map(|_| "ReplicaSet".into()),
            owner_name: replica_set.map(Into::into),
            template: PodTemplate {
                annotations: surge
                    .map(|mode| (labels::SURGE_BEFORE_DRAIN.to_owned(), mode.to_owned()))
                    .into_iter()
                    .collect(),
                ..PodTemplate::default()
            }
            .into(),
            ..Pod::default()
        }
    }

    #[test]
    fn only_a_raise_of_a_deployment_moves_a_pod_without_an_eviction() {
        for (surge, replica_set, moves) in [
            (Some("scale"), Some("cart-1"), true),
            (Some("restart"), Some("cart-1"), false),
            (Some("scaled"), Some("cart-1"), false),
            (Some("scale"), None, false),
            (None, Some("cart-1"), false),
        ] {
            assert_eq!(moves_by_scale(&pod(surge, replica_set)), moves, "{surge:?} {replica_set:?}");
        }
    }

    #[test]
    fn no_pod_is_held_on_a_node_that_ends_for_certain() {
        let never = PodDisruptionBudget {
            namespace: "shop".into(),
            name: "never".into(),
            selector: Some(LabelSelector::default()),
            blocks_always: true,
            ..PodDisruptionBudget::default()
        };
        let budgets = [never];
        let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        let mut protected = pod(None, Some("cart-1"));
        let annotation = (labels::DO_NOT_DISRUPT.to_owned(), "true".to_owned());
        protected.template_mut().annotations.extend(StringMap::from([annotation]));
        protected.template_mut().termination_grace_period_seconds = Some(300);
        let budgeted = pod(None, Some("cart-1"));
        let without = DisruptionBudgetIndex::default();
        let with = DisruptionBudgetIndex::new(&budgets);
        let held = |claim: &NodeClaim, minute| {
            let seen = [(&without, &protected), (&with, &budgeted)];
            seen.map(|(index, pod)| index.holds(pod, Some(claim), at(minute)))
        };
        let draining = |reason, deadline| {
            let termination = Termination { reason, message: String::new(), requested: at(0), deadline };
            NodeClaim {
                name: "cart".into(),
                uid: "uid".into(),
                node_pool: None,
                node_class: "default".into(),
                created: at(0),
                version: 1,
                spec: NodeClaimSpec::default(),
                phase: Phase::Draining,
                status: NodeClaimStatus { termination: Some(termination), ..NodeClaimStatus::default() },
            }
        };
        let deleted = draining(TerminationReason::Deleted, None);
        assert_eq!(held(&deleted, 0), [true, true]);
        let mut interrupted = deleted.clone();
        assert!(interrupted.status.end_by(at(60)) && !interrupted.status.end_by(at(70)));
        assert_eq!((held(&interrupted, 49), held(&interrupted, 50)), ([true, true], [false, false]));
        // The drain deletes a pod before the deadline by its own grace period.
        let graceful = draining(TerminationReason::Deleted, Some(at(60)));
        assert_eq!([44, 45, 50].map(|minute| held(&graceful, minute)), [[true, true], [false, true], [false, false]]);
        assert_eq!(held(&draining(TerminationReason::InstanceMissing, None), 0), [false, false]);
        assert_eq!(held(&NodeClaim { phase: Phase::Terminating, ..deleted }, 0), [false, false]);
    }

    #[test]
    fn a_budget_does_not_block_the_node_of_a_pod_that_moves_by_a_raise() {
        let never = PodDisruptionBudget {
            namespace: "shop".into(),
            name: "never".into(),
            selector: Some(LabelSelector::default()),
            ..PodDisruptionBudget::default()
        };
        let budgets = [never];
        let budget_index = DisruptionBudgetIndex::new(&budgets);
        let now = Timestamp::UNIX_EPOCH;
        let blocks = |pod: &Pod| {
            let all = budget_index.blocking(pod, now);
            assert_eq!(budget_index.first_blocking(&[pod], now), all.first().cloned());
            !all.is_empty()
        };
        assert!(!blocks(&pod(Some("scale"), Some("cart-1"))));
        assert!(blocks(&pod(Some("restart"), Some("cart-1"))) && blocks(&pod(Some("scale"), None)));
        let mut protected = pod(Some("scale"), Some("cart-1"));
        protected
            .template_mut()
            .annotations
            .extend(StringMap::from([(labels::DO_NOT_DISRUPT.to_owned(), "true".to_owned())]));
        assert!(blocks(&protected), "the annotation protects it all the same");
    }
}
