//! Wake-ups that need no plan yet: the kube-scheduler reports again and again that it finds no node for a pod, for example whenever a node
//! joins, although the last plan placed the pod on a node that is being launched.

use crate::plan::records::report::PlanReport;
use jiff::{SignedDuration, Timestamp};
use nodeless_model::Pod;
use nodeless_ports::queue::WakeSource;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long no plan is made for pods that the last one placed, unless another function or the heartbeat requests it. A call of the webhook
/// for another object, such as a deleted Node, waits as long where pods are pending.
const AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// When the last plan of this process was made, and the pods that it placed. Losing it is harmless: the next plan is made earlier.
#[derive(Debug, Default)]
pub(super) struct LastPlan(Mutex<Option<(Timestamp, BTreeSet<String>)>>);

impl LastPlan {
    /// Remembers the pending pods of a plan at this time, if it placed all of them.
    pub(super) fn note<'p>(&self, pods: impl Iterator<Item = &'p Pod>, report: &PlanReport, at: Timestamp) {
        let placed = report.unschedulable.is_empty().then(|| {
            let pending = pods.filter(|pod| pod.is_provisionable());
            (at, pending.map(|pod| pod.uid.clone()).collect())
        });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = placed;
    }

    /// After what time to plan, if these wake-ups are only for pods that the last plan placed a moment ago.
    pub(super) fn wait(&self, woken: &[WakeSource], pending: &BTreeSet<String>, now: Timestamp) -> Option<Duration> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, placed) = last.as_ref()?;
        let only_pods = !woken.is_empty() && woken.iter().all(|source| *source == WakeSource::Webhook);
        let since = now.duration_since(*at);
        let is_repeated = only_pods && !pending.is_empty() && pending.is_subset(placed) && !since.is_negative();
        Duration::try_from(AGAIN - since).ok().filter(|wait| is_repeated && !wait.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str) -> Pod {
        Pod { uid: uid.into(), marked_unschedulable: true, ..Pod::default() }
    }

    #[test]
    fn only_repeated_calls_of_the_webhook_for_placed_pods_wait() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let last = LastPlan::default();
        let wait = |woken: &[WakeSource], pods: &[&str], second| {
            last.wait(woken, &pods.iter().map(|pod| (*pod).to_owned()).collect(), at(second))
        };
        let webhook = [WakeSource::Webhook, WakeSource::Webhook];
        assert_eq!(wait(&webhook, &["a"], 100), None, "no plan has been made");
        last.note([pod("a"), pod("b")].iter(), &PlanReport::default(), at(100));
        assert_eq!(wait(&webhook, &["a", "b"], 103), Some(Duration::from_secs(7)));
        assert_eq!(wait(&webhook, &["b"], 103), Some(Duration::from_secs(7)));
        assert_eq!(wait(&webhook, &["a"], 110), None, "its node may have failed, or other pods use it");
        assert_eq!(wait(&webhook, &["a"], 99), None, "the clock was changed");
        assert_eq!(wait(&webhook, &["a", "c"], 103), None, "a pod is new");
        assert_eq!(wait(&webhook, &[], 103), None, "the webhook was called for another object");
        assert_eq!(wait(&[], &["a"], 103), None);
        assert_eq!(wait(&[WakeSource::Webhook, WakeSource::Lifecycle], &["a"], 103), None, "a launch failed");
        let unschedulable = vec![("default/b".to_owned(), "it is too large".to_owned())];
        last.note([pod("a"), pod("b")].iter(), &PlanReport { unschedulable, ..PlanReport::default() }, at(104));
        assert_eq!(wait(&webhook, &["a"], 105), None);
    }
}
