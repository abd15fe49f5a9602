//! Wake-ups that need no plan yet: the kube-scheduler reports again and again that it finds no node for a pod, for example whenever a node
//! joins, although the last plan placed the pod on a node that is being launched, or found that it fits nowhere.

use crate::records::report::PlanReport;
use jiff::Timestamp;
use nodeless_model::Pod;
use nodeless_model::wake_ups::spacing;
use nodeless_ports::queue::WakeSource;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What the last plan of this process has seen. Losing it is harmless: the next plan is made earlier.
#[derive(Debug, Default)]
pub(super) struct LastPlan(Mutex<Option<Seen>>);

#[derive(Debug)]
struct Seen {
    /// When the plan was made.
    at: Timestamp,
    /// The uids of the pods that were pending.
    pods: BTreeSet<String>,
    /// How many plans in a row were requested by reports about pods, and found nothing new.
    without_news: u32,
}

/// Whether these wake-ups are only reports that pods cannot be scheduled.
fn is_about_pods(woken: &[WakeSource]) -> bool {
    !woken.is_empty() && woken.iter().all(|source| *source == WakeSource::Webhook)
}

impl LastPlan {
    /// Remembers the pending pods of a plan at this time.
    pub(super) fn note<'p>(
        &self,
        woken: &[WakeSource],
        pods: impl Iterator<Item = &'p Pod>,
        report: &PlanReport,
        at: Timestamp,
    ) {
        let pods: BTreeSet<String> = pods.filter(|pod| pod.is_provisionable()).map(|pod| pod.uid.clone()).collect();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let without_news = match &*last {
            Some(seen) if pods.is_subset(&seen.pods) && report.created.is_empty() && report.leaving.is_empty() => {
                seen.without_news.saturating_add(u32::from(is_about_pods(woken)))
            }
            _ => 0,
        };
        *last = Some(Seen { at, pods, without_news });
    }

    /// The uids of the pods that the last plan has seen.
    pub(super) fn pods(&self) -> BTreeSet<String> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().map(|last| last.pods.clone()).unwrap_or_default()
    }

    /// Whether these wake-ups are only about pods that the last plan has seen.
    pub(super) fn has_seen(&self, woken: &[WakeSource], pending: &BTreeSet<String>) -> bool {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        is_about_pods(woken) && last.as_ref().is_some_and(|last| pending.is_subset(&last.pods))
    }

    /// After what time to plan, if these wake-ups are only about pods that the last plan has seen: later with each plan that found
    /// nothing new.
    pub(super) fn wait(&self, woken: &[WakeSource], pending: &BTreeSet<String>, now: Timestamp) -> Option<Duration> {
        if !self.has_seen(woken, pending) {
            return None;
        }
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = last.as_ref()?;
        let since = now.duration_since(last.at);
        let wait = Duration::try_from(spacing(last.without_news) - since).ok();
        wait.filter(|wait| !since.is_negative() && !wait.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEBHOOK: [WakeSource; 2] = [WakeSource::Webhook, WakeSource::Webhook];

    fn pod(uid: &str) -> Pod {
        Pod { uid: uid.into(), marked_unschedulable: true, ..Pod::default() }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn wait(last: &LastPlan, woken: &[WakeSource], pods: &[&str], second: i64) -> Option<u64> {
        let pods = pods.iter().map(|pod| (*pod).to_owned()).collect();
        last.wait(woken, &pods, at(second)).map(|wait| wait.as_secs())
    }

    #[test]
    fn only_repeated_reports_about_pods_that_were_planned_wait() {
        let last = LastPlan::default();
        assert_eq!(wait(&last, &WEBHOOK, &["a"], 100), None, "no plan has been made");
        last.note(&[], [pod("a"), pod("b")].iter(), &PlanReport::default(), at(100));
        assert_eq!(wait(&last, &WEBHOOK, &["a", "b"], 103), Some(7));
        assert_eq!(wait(&last, &WEBHOOK, &["b"], 103), Some(7));
        assert_eq!(wait(&last, &WEBHOOK, &[], 103), Some(7), "the report is about no pending pod");
        assert_eq!(wait(&last, &WEBHOOK, &["a"], 110), None, "its node may have failed, or other pods use it");
        assert_eq!(wait(&last, &WEBHOOK, &["a"], 99), None, "the clock was changed");
        assert_eq!(wait(&last, &WEBHOOK, &["a", "c"], 103), None, "a pod is new");
        assert_eq!(wait(&last, &[], &["a"], 103), None);
        for source in [WakeSource::Lifecycle, WakeSource::Object, WakeSource::Heartbeat] {
            assert_eq!(wait(&last, &[WakeSource::Webhook, source], &["a"], 103), None, "{source:?}");
        }
    }

    #[test]
    fn plans_that_find_nothing_new_are_further_and_further_apart() {
        let last = LastPlan::default();
        let pods = [pod("a"), pod("b")];
        let why = "it is too large".to_owned();
        let nothing = PlanReport { unschedulable: vec![("default/a".to_owned(), why)], ..PlanReport::default() };
        let mut second = 100;
        let mut apart = Vec::new();
        for _ in 0..6 {
            last.note(&WEBHOOK, pods.iter(), &nothing, at(second));
            let seconds = wait(&last, &WEBHOOK, &["a", "b"], second).unwrap();
            apart.push(seconds);
            second += i64::try_from(seconds).unwrap();
        }
        assert_eq!(apart, [10, 20, 40, 60, 60, 60]);
        last.note(&[WakeSource::Heartbeat], pods.iter(), &nothing, at(second));
        assert_eq!(wait(&last, &WEBHOOK, &["a"], second), Some(60), "the heartbeat found nothing new either");
        let launched = PlanReport { created: vec!["default-x".to_owned()], ..PlanReport::default() };
        last.note(&WEBHOOK, pods.iter(), &launched, at(second));
        assert_eq!(wait(&last, &WEBHOOK, &["a"], second), Some(10));
        last.note(&WEBHOOK, pods.iter(), &nothing, at(second));
        last.note(&WEBHOOK, [pod("c")].iter(), &nothing, at(second));
        assert_eq!(wait(&last, &WEBHOOK, &["c"], second), Some(10), "a pod was new");
    }
}
