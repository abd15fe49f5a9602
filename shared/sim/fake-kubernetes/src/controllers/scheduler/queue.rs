//! The order and the times of attempts: the scheduling queue of kube-scheduler 1.36 (`pkg/scheduler/backend/queue`), as a function of
//! times and events.
//!
//! Pods are attempted by priority, then by the time at which they were added. A pod that plugins rejected is unschedulable until an event
//! that may change that, or until five minutes have passed. Its backoff is 1 s after the first failed attempt and doubles up to 10 s.
//! Backoff delays such a pod only behind others: kube-scheduler 1.33 and later (`SchedulerPopFromBackoffQ`) attempts the pods that back
//! off when no other pod is ready, by the second in which their backoff ends, and an attempt takes no time here. A pod that no plugin
//! rejected, which is the case without any node, is attempted again when its backoff ends, and no event shortens that.
//!
//! The times are those of kube-scheduler: backoffs end with the second in which they are over. kube-scheduler looks every 30 seconds for
//! pods that have been unschedulable for more than five minutes; here they are attempted after exactly five minutes.

use crate::controllers::object::after;
use jiff::Timestamp;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// `DefaultPodInitialBackoffDuration`, in seconds.
const INITIAL_BACKOFF: i64 = 1;
/// `DefaultPodMaxBackoffDuration`, in seconds.
const MAX_BACKOFF: i64 = 10;
/// `DefaultPodMaxInUnschedulablePodsDuration`, in seconds.
pub(super) const MAX_UNSCHEDULABLE: i64 = 300;

/// A plugin that rejects nodes for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Plugin {
    NodeUnschedulable,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    PodTopologySpread,
    InterPodAffinity,
    VolumeBinding,
    DynamicResources,
    GangScheduling,
    /// One that is not part of Kubernetes.
    OutOfTree,
}

/// The pods that wait, by uid.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pods: BTreeMap<String, QueuedPod>,
}

/// A pod that waits.
#[derive(Debug)]
pub(super) struct QueuedPod {
    priority: i64,
    /// Namespace and name, the order of pods that are equal otherwise.
    name: (String, String),
    /// When it was added, or was last attempted.
    since: Timestamp,
    /// The number of attempts that ended because plugins rejected the pod.
    rejections: u32,
    /// The number of attempts since the last rejection that ended for other reasons.
    errors: u32,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// The pod is attempted next.
    Active,
    /// The pod is attempted when no pod is active.
    Backoff,
    /// The pod is attempted when its backoff ends.
    ErrorBackoff,
    /// The pod is attempted upon an event that may let one of these plugins accept it.
    Unschedulable(BTreeSet<Plugin>),
}

impl QueuedPod {
    /// A pod that has not been attempted.
    pub(super) fn new(namespace: &str, name: &str, priority: i64, since: Timestamp) -> Self {
        let name = (namespace.to_owned(), name.to_owned());
        Self { priority, name, since, rejections: 0, errors: 0, state: State::Active }
    }

    /// When its backoff is over, in seconds since the epoch.
    fn backoff_ends(&self) -> i64 {
        let attempts = if self.errors > 0 { self.errors } else { self.rejections };
        let Some(doublings) = attempts.checked_sub(1) else { return i64::MIN };
        let backoff = (INITIAL_BACKOFF << doublings.min(10)).min(MAX_BACKOFF);
        // The pod backs off until the second in which the backoff ends is over (`isPodBackingoff`).
        self.since.as_second() + backoff + 1
    }

    /// When it is attempted without any event.
    fn due(&self) -> Timestamp {
        match self.state {
            State::Active | State::Backoff => Timestamp::MIN,
            State::ErrorBackoff => Timestamp::from_second(self.backoff_ends()).unwrap_or(Timestamp::MAX),
            State::Unschedulable(_) => after(self.since, MAX_UNSCHEDULABLE),
        }
    }

    /// Pods with a lower value are attempted first.
    fn order(&self) -> impl Ord {
        let ends = if self.state == State::Backoff { self.backoff_ends() } else { i64::MIN };
        (ends, Reverse(self.priority), self.since, &self.name)
    }
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    pub(super) fn contains(&self, uid: &str) -> bool {
        self.pods.contains_key(uid)
    }

    /// Removes the pods that do not wait any more.
    pub(super) fn retain(&mut self, waits: impl Fn(&str) -> bool) {
        self.pods.retain(|uid, _| waits(uid));
    }

    /// Adds a pod. Its attempt is due.
    pub(super) fn add(&mut self, uid: &str, pod: QueuedPod) {
        self.pods.insert(uid.to_owned(), pod);
    }

    /// Attempts unschedulable pods again after an event that may matter to them, by their uid and the plugins that rejected them
    /// (`moveAllToActiveOrBackoffQueue`).
    pub(super) fn requeue(&mut self, now: Timestamp, matters: impl Fn(&str, &BTreeSet<Plugin>) -> bool) {
        for (uid, pod) in &mut self.pods {
            if matches!(&pod.state, State::Unschedulable(rejected_by) if matters(uid, rejected_by)) {
                let backs_off = pod.backoff_ends() > now.as_second();
                pod.state = if backs_off { State::Backoff } else { State::Active };
            }
        }
    }

    /// Removes the pods to attempt now, so many at most, the first of them first.
    pub(super) fn take(&mut self, now: Timestamp, at_most: usize) -> Vec<(String, QueuedPod)> {
        for pod in self.pods.values_mut().filter(|pod| pod.state != State::Backoff && pod.due() <= now) {
            pod.state = State::Active;
        }
        let ready = |pod: &QueuedPod| matches!(pod.state, State::Active | State::Backoff);
        let (mut taken, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.pods).into_iter().partition(|(_, pod)| ready(pod));
        self.pods = others.into_iter().collect();
        taken.sort_by(|(_, pod), (_, other)| pod.order().cmp(&other.order()));
        let later = taken.split_off(at_most.min(taken.len()));
        self.pods.extend(later);
        taken
    }

    /// Removes the pods that are attempted together with another, whether they are due or not.
    pub(super) fn take_with(&mut self, belongs: impl Fn(&str) -> bool) -> Vec<(String, QueuedPod)> {
        let pods = std::mem::take(&mut self.pods);
        let (taken, others): (Vec<_>, Vec<_>) = pods.into_iter().partition(|(uid, _)| belongs(uid));
        self.pods = others.into_iter().collect();
        taken
    }

    /// Adds a pod again whose attempt failed. Without plugins that rejected it, only time lets it be attempted again
    /// (`AddUnschedulableIfNotPresent`).
    pub(super) fn failed(&mut self, uid: String, pod: QueuedPod, rejected_by: BTreeSet<Plugin>, now: Timestamp) {
        let mut pod = QueuedPod { since: now, ..pod };
        if rejected_by.is_empty() {
            pod.errors += 1;
            pod.state = State::ErrorBackoff;
        } else {
            (pod.rejections, pod.errors) = (pod.rejections + 1, 0);
            pod.state = State::Unschedulable(rejected_by);
        }
        self.pods.insert(uid, pod);
    }

    /// When a pod has to be attempted without any event.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.pods.values().map(QueuedPod::due).min()
    }
}

#[cfg(test)]
mod tests {
    use super::{Plugin, Queue, QueuedPod};
    use jiff::Timestamp;
    use std::collections::BTreeSet;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn add(queue: &mut Queue, name: &str, priority: i64, since: i64) {
        queue.add(name, QueuedPod::new("default", name, priority, at(since)));
    }

    fn names(taken: &[(String, QueuedPod)]) -> Vec<&str> {
        taken.iter().map(|(uid, _)| uid.as_str()).collect()
    }

    /// Attempts all pods that are due, and fails. Returns their names.
    fn fail(queue: &mut Queue, plugins: &[Plugin], now: i64) -> Vec<String> {
        let taken = queue.take(at(now), usize::MAX);
        let attempted = names(&taken).into_iter().map(str::to_owned).collect();
        for (uid, pod) in taken {
            queue.failed(uid, pod, plugins.iter().copied().collect(), at(now));
        }
        attempted
    }

    fn all(_: &str, _: &BTreeSet<Plugin>) -> bool {
        true
    }

    #[test]
    fn pods_are_attempted_by_priority_then_by_the_time_at_which_they_were_added() {
        let mut queue = Queue::default();
        for (name, priority, since) in [("a", 0, 12), ("b", 0, 11), ("c", 5, 13), ("d", 0, 11)] {
            add(&mut queue, name, priority, since);
        }
        assert_eq!(names(&queue.take(at(20), usize::MAX)), ["c", "b", "d", "a"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn pods_beyond_what_is_attempted_at_once_stay_first() {
        let mut queue = Queue::default();
        for (name, since) in [("a", 12), ("b", 11), ("c", 13)] {
            add(&mut queue, name, 0, since);
        }
        assert_eq!(names(&queue.take(at(20), 2)), ["b", "a"]);
        add(&mut queue, "d", 0, 14);
        assert_eq!(names(&queue.take(at(21), 2)), ["c", "d"]);
    }

    #[test]
    fn a_failed_attempt_counts_as_the_time_at_which_a_pod_was_added() {
        let mut queue = Queue::default();
        add(&mut queue, "attempted", 0, 10);
        fail(&mut queue, &[Plugin::NodeAffinity], 20);
        add(&mut queue, "new", 0, 15);
        queue.requeue(at(60), all);
        assert_eq!(names(&queue.take(at(60), usize::MAX)), ["new", "attempted"]);
    }

    #[test]
    fn a_rejected_pod_waits_for_an_event_that_matters_to_its_plugins() {
        let mut queue = Queue::default();
        add(&mut queue, "a", 0, 10);
        assert_eq!(fail(&mut queue, &[Plugin::NodeResourcesFit], 10), ["a"]);
        assert!(queue.take(at(100), usize::MAX).is_empty());
        let concerns = |plugin| move |uid: &str, by: &BTreeSet<Plugin>| uid == "a" && by.contains(&plugin);
        queue.requeue(at(100), concerns(Plugin::NodeAffinity));
        assert!(queue.take(at(100), usize::MAX).is_empty());
        queue.requeue(at(100), concerns(Plugin::NodeResourcesFit));
        assert_eq!(names(&queue.take(at(100), usize::MAX)), ["a"]);
    }

    #[test]
    fn pods_that_back_off_come_after_the_others_by_the_end_of_their_backoff() {
        let mut queue = Queue::default();
        add(&mut queue, "twice", 9, 10);
        fail(&mut queue, &[Plugin::NodeAffinity], 10);
        queue.requeue(at(10), all);
        for (name, priority) in [("once", 0), ("once-preferred", 1)] {
            add(&mut queue, name, priority, 10);
        }
        fail(&mut queue, &[Plugin::NodeAffinity], 10);
        add(&mut queue, "new", 0, 11);
        queue.requeue(at(11), all);
        assert_eq!(names(&queue.take(at(11), usize::MAX)), ["new", "once-preferred", "once", "twice"]);
    }

    #[test]
    fn after_its_backoff_a_rejected_pod_is_one_of_the_others() {
        let mut queue = Queue::default();
        add(&mut queue, "rejected", 9, 10);
        fail(&mut queue, &[Plugin::NodeAffinity], 10);
        add(&mut queue, "new", 0, 12);
        queue.requeue(at(12), all);
        assert_eq!(names(&queue.take(at(12), usize::MAX)), ["rejected", "new"]);
    }

    #[test]
    fn a_rejected_pod_is_attempted_again_after_five_minutes() {
        let mut queue = Queue::default();
        add(&mut queue, "a", 0, 10);
        fail(&mut queue, &[Plugin::NodeResourcesFit], 20);
        assert_eq!(queue.next_due(), Some(at(320)));
        assert!(queue.take(at(319), usize::MAX).is_empty());
        assert_eq!(names(&queue.take(at(1000), usize::MAX)), ["a"], "also if time skips that moment");
    }

    #[test]
    fn a_pod_that_no_plugin_rejected_is_attempted_when_its_backoff_ends() {
        let mut queue = Queue::default();
        add(&mut queue, "a", 0, 0);
        let mut now = 0;
        let mut waited = Vec::new();
        for _ in 0..7 {
            assert_eq!(fail(&mut queue, &[], now), ["a"]);
            queue.requeue(at(now), all);
            let due = queue.next_due().unwrap().as_second();
            assert!(queue.take(at(due - 1), usize::MAX).is_empty(), "events do not matter");
            waited.push(due - now);
            now = due;
        }
        // 1 s, 2 s, 4 s, 8 s and 10 s, and the second in which that ends.
        assert_eq!(waited, [2, 3, 5, 9, 11, 11, 11]);
    }

    #[test]
    fn a_rejection_resets_the_backoff_of_errors() {
        let mut queue = Queue::default();
        add(&mut queue, "a", 0, 0);
        for now in [0, 10, 20] {
            fail(&mut queue, &[], now);
        }
        fail(&mut queue, &[Plugin::NodeAffinity], 40);
        queue.requeue(at(42), all);
        add(&mut queue, "b", 0, 41);
        assert_eq!(names(&queue.take(at(42), usize::MAX)), ["a", "b"], "one second of backoff is over");
    }

    #[test]
    fn a_pod_that_does_not_wait_any_more_is_removed() {
        let mut queue = Queue::default();
        add(&mut queue, "a", 0, 0);
        add(&mut queue, "b", 0, 0);
        queue.retain(|uid| uid == "b");
        assert!(queue.contains("b") && !queue.contains("a"));
    }
}
