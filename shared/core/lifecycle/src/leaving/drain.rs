//! Selects the pods of a terminating node to evict now, by Karpenter's rules.

use crate::time::elapsed;
use jiff::Timestamp;
use nodeless_model::Pod;
use nodeless_model::object::PodRef;
use nodeless_model::pod::Protection;
use std::time::Duration;

/// The pods of a node to evict or delete now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drain {
    /// To be evicted, honouring PodDisruptionBudgets.
    pub evict: Vec<PodRef>,
    /// To be deleted bypassing PodDisruptionBudgets, each with its grace period in seconds.
    pub delete: Vec<(PodRef, u32)>,
    /// The number of pods that the drain still waits for, including these.
    pub waiting: usize,
    /// Pods, `namespace/name`, that block the drain by `karpenter.sh/do-not-disrupt`.
    pub protected: Vec<String>,
}

/// The groups of pods that a drain evicts in turn: each only after the previous group is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Ordinary,
    OrdinaryDaemon,
    Critical,
    CriticalDaemon,
}

/// Selects the pods to evict or delete now. The drain ends forcefully at the deadline.
#[must_use]
pub fn drain(pods: &[Pod], deadline: Option<Timestamp>, now: Timestamp) -> Drain {
    let waiting: Vec<&Pod> = pods.iter().filter(|pod| pod.holds_drain(now)).collect();
    let mut plan = Drain { waiting: waiting.len(), ..Drain::default() };
    let turn = waiting.iter().map(|pod| group(pod)).min();
    for pod in waiting {
        if let Some(grace) = deadline.and_then(|deadline| forced_grace(pod, deadline, now)) {
            plan.delete.push((PodRef::from(pod), grace));
        } else if pod.is_terminating() || Some(group(pod)) != turn {
            // Already terminating, or not its turn yet.
        } else if pod.protection(now) == Protection::Active {
            plan.protected.push(pod.key());
        } else {
            plan.evict.push(PodRef::from(pod));
        }
    }
    plan
}

fn group(pod: &Pod) -> Group {
    match (pod.is_critical(), pod.is_owned_by_daemon_set()) {
        (false, false) => Group::Ordinary,
        (false, true) => Group::OrdinaryDaemon,
        (true, false) => Group::Critical,
        (true, true) => Group::CriticalDaemon,
    }
}

/// The grace period in seconds of a pod that has to be deleted now: the time until the deadline, at least one. A pod without a
/// grace period is never deleted forcefully, and a pod that ends before the deadline anyway is not deleted.
fn forced_grace(pod: &Pod, deadline: Timestamp, now: Timestamp) -> Option<u32> {
    let own = Duration::from_secs(u64::try_from(pod.template.termination_grace_period_seconds?).unwrap_or(0));
    let threshold = deadline.checked_sub(own).unwrap_or(Timestamp::MIN);
    if now <= threshold || pod.deletion_timestamp.is_some_and(|end| end <= deadline) {
        return None;
    }
    Some(u32::try_from(elapsed(now, deadline).as_secs()).unwrap_or(u32::MAX).max(1))
}
