//! What the pods of a node say about its disruption.

use jiff::{SignedDuration, Timestamp};
use nodeless_model::duration::parse_go_duration;
use nodeless_model::object::{ObjectEvent, ObjectRef};
use nodeless_model::{Pod, PodDisruptionBudget, Taint, labels};

use crate::decision::KeptReason;

/// What the annotation do-not-disrupt of a pod says at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// Nothing, or no longer.
    None,
    /// The pod may not be disrupted.
    Active,
    /// The annotation cannot be read and so protects nothing.
    Invalid,
}

/// What the annotation do-not-disrupt of a pod says. `true` protects for ever; a duration protects from the pod's start,
/// and a pod that has not started is protected.
pub(crate) fn protection(pod: &Pod, now: Timestamp) -> Protection {
    let Some(value) = pod.annotations.get(labels::DO_NOT_DISRUPT) else { return Protection::None };
    match value.as_str() {
        "true" => return Protection::Active,
        "false" => return Protection::None,
        _ => {}
    }
    let Some(duration) = parse_go_duration(value).ok().filter(|duration| !duration.is_zero()) else {
        return Protection::Invalid;
    };
    let end = pod.start_time.and_then(|start| start.checked_add(SignedDuration::try_from(duration).ok()?).ok());
    match (pod.start_time, end) {
        (Some(_), Some(end)) if end <= now => Protection::None,
        _ => Protection::Active,
    }
}

/// What it costs to evict a pod: one, more or less by its deletion cost and priority, between -10 and 10.
pub(crate) fn eviction_cost(pod: &Pod) -> f64 {
    let deletion_cost = pod.annotations.get(labels::POD_DELETION_COST).and_then(|cost| cost.parse::<i32>().ok());
    let cost = 1.0 + f64::from(deletion_cost.unwrap_or(0)) / 2_f64.powi(27) + f64::from(pod.priority) / 2_f64.powi(25);
    cost.clamp(-10.0, 10.0)
}

/// The pods that would have to find another node.
pub(crate) fn reschedulable<'p, 'a>(pods: &'p [&'a Pod]) -> impl Iterator<Item = &'a Pod> + use<'p, 'a> {
    pods.iter().copied().filter(|pod| pod.is_reschedulable())
}

/// Whether no pod would miss the node: none has to move, or only such as cost nothing to evict.
pub(crate) fn is_empty(pods: &[&Pod]) -> bool {
    reschedulable(pods).all(|pod| eviction_cost(pod) <= 0.0)
}

/// The first pod that forbids the disruption of its node: by its annotation, or by a PodDisruptionBudget.
pub(crate) fn first_blocking(pods: &[&Pod], budgets: &[PodDisruptionBudget], now: Timestamp) -> Option<KeptReason> {
    let mut sorted: Vec<&Pod> = pods.iter().copied().filter(|pod| pod.is_active()).collect();
    sorted.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    let protected = sorted.iter().find(|pod| protection(pod, now) == Protection::Active);
    if let Some(pod) = protected {
        return Some(KeptReason::DoNotDisruptPod(pod.key()));
    }
    sorted.iter().filter(|pod| is_evicted_by_us(pod)).find_map(|pod| blocking_budget(pod, budgets))
}

/// Pods that stay until the end are not evicted, so no PodDisruptionBudget matters to them.
fn is_evicted_by_us(pod: &Pod) -> bool {
    let tolerates_disruption = pod.tolerations.iter().any(|toleration| toleration.tolerates(&Taint::disrupted()));
    !tolerates_disruption && !pod.is_owned_by_node()
}

fn blocking_budget(pod: &Pod, budgets: &[PodDisruptionBudget]) -> Option<KeptReason> {
    let mut covering = budgets.iter().filter(|budget| budget.covers(&pod.namespace, &pod.labels));
    let budget = covering.next()?;
    if covering.next().is_some() {
        return Some(KeptReason::SeveralPodDisruptionBudgets(pod.key()));
    }
    let passes = budget.disruptions_allowed > 0 || (budget.always_allows_unhealthy && pod.ready == Some(false));
    (!passes).then(|| KeptReason::PodDisruptionBudget {
        pod: pod.key(),
        budget: format!("{}/{}", budget.namespace, budget.name),
    })
}

/// Warnings about annotations that cannot be read.
pub(crate) fn annotation_events(pods: &[&Pod], now: Timestamp) -> Vec<ObjectEvent> {
    let invalid = pods.iter().filter(|pod| pod.is_active() && protection(pod, now) == Protection::Invalid);
    invalid
        .map(|pod| ObjectEvent {
            object: ObjectRef {
                api_version: "v1".into(),
                kind: "Pod".into(),
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                uid: pod.uid.clone(),
            },
            warning: true,
            reason: "InvalidDoNotDisruptAnnotation".into(),
            message: format!(
                "annotation {} is {:?}, which is ignored: write true or a duration such as 30m",
                labels::DO_NOT_DISRUPT,
                pod.annotations.get(labels::DO_NOT_DISRUPT).map_or("", String::as_str)
            ),
        })
        .collect()
}
