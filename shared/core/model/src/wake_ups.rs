//! Which calls of the webhook request a plan.
//!
//! Everybody who may create Events in a namespace can have the webhook called, as often as they like. A pod that no call has been about
//! requests a plan at once, as long as its namespace has not used up its budget. All other calls about pods request plans that are further
//! and further apart, up to the interval of the heartbeat, which requests a plan anyway.

use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// How long after a plan the next one for known pods is made.
const FIRST_SPACING: SignedDuration = SignedDuration::from_secs(10);
/// The longest time between such plans, the interval of the heartbeat.
const LONGEST_SPACING: SignedDuration = SignedDuration::from_mins(1);
/// The number of plans that one namespace can request at once by new pods.
const BURST: i32 = 120;
/// A namespace that used up its budget can request one more plan after each of these times.
const REFILL: SignedDuration = SignedDuration::from_secs(5);
/// The number of pods that are remembered. With more, all are forgotten, and count as new once more.
const REMEMBERED: usize = 20_000;

/// How long after a plan the next one is made for pods that it has seen, after this number of plans that found nothing new.
#[must_use]
pub fn spacing(without_news: u32) -> SignedDuration {
    (FIRST_SPACING * (1 << without_news.min(8))).min(LONGEST_SPACING)
}

/// What a process remembers of the calls of the webhook. Losing it is harmless: plans are requested earlier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WakeUps {
    /// The namespaces and uids of the pods that calls were about.
    seen: BTreeSet<(String, String)>,
    /// When the budget of each namespace is whole again.
    whole_at: BTreeMap<String, Timestamp>,
    /// When the last plan for pods was requested.
    last: Option<Timestamp>,
    /// When the last plan for other objects was requested.
    last_for_object: Option<Timestamp>,
    /// How many requests in a row were for nothing new.
    without_news: u32,
}

impl WakeUps {
    /// Whether a call about a pod, of this namespace and uid, requests a plan. One that was requested less than `interval` ago reads the
    /// cluster later, so it is also for this pod.
    pub fn requests_plan(&mut self, namespace: &str, uid: &str, interval: SignedDuration, now: Timestamp) -> bool {
        if self.seen.len() >= REMEMBERED {
            self.seen.clear();
        }
        let is_new = self.seen.insert((namespace.to_owned(), uid.to_owned()));
        let since = self.last.map(|last| now.duration_since(last)).filter(|since| !since.is_negative());
        if since.is_some_and(|since| since < interval) {
            return false;
        }
        let is_news = is_new && self.take(namespace, now);
        let is_due = is_news || since.is_none_or(|since| since >= spacing(self.without_news));
        if is_due {
            self.last = Some(now);
            self.without_news = if is_news { 0 } else { self.without_news.saturating_add(1) };
        }
        is_due
    }

    /// Whether a call about another object, which only the administrators of a cluster can create, change or delete, requests a plan.
    pub fn requests_plan_for_object(&mut self, interval: SignedDuration, now: Timestamp) -> bool {
        let is_due = self.last_for_object.is_none_or(|last| now < last || now.duration_since(last) >= interval);
        if is_due {
            self.last_for_object = Some(now);
        }
        is_due
    }

    /// The last request could not be sent: the next call repeats it.
    pub fn request_failed(&mut self) {
        (self.last, self.last_for_object) = (None, None);
    }

    /// Takes a plan from the budget of a namespace, if something is left of it.
    fn take(&mut self, namespace: &str, now: Timestamp) -> bool {
        let whole_at = self.whole_at.entry(namespace.to_owned()).or_insert(now);
        let next = (*whole_at).max(now).checked_add(REFILL).unwrap_or(Timestamp::MAX);
        let is_left = next.duration_since(now) <= REFILL * BURST;
        if is_left {
            *whole_at = next;
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: SignedDuration = SignedDuration::from_millis(500);

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(1_000_000 + milliseconds).unwrap()
    }

    /// The number of plans that calls about these pods request, one a second.
    fn plans(
        wake_ups: &mut WakeUps,
        seconds: std::ops::Range<i64>,
        pod: impl Fn(i64) -> (&'static str, String),
    ) -> usize {
        let due = seconds.filter(|second| {
            let (namespace, uid) = pod(*second);
            wake_ups.requests_plan(namespace, &uid, INTERVAL, at(second * 1000))
        });
        due.count()
    }

    #[test]
    fn plans_for_known_pods_are_spaced_up_to_the_heartbeat() {
        assert_eq!([0, 1, 2, 3, 40].map(|number| spacing(number).as_secs()), [10, 20, 40, 60, 60]);
        let mut wake_ups = WakeUps::default();
        let due: Vec<i64> =
            (0..300).filter(|second| wake_ups.requests_plan("shop", "a", INTERVAL, at(second * 1000))).collect();
        assert_eq!(due, [0, 10, 30, 70, 130, 190, 250]);
        assert!(wake_ups.requests_plan("shop", "b", INTERVAL, at(251_000)), "a pod is new");
        assert!(!wake_ups.requests_plan("shop", "a", INTERVAL, at(260_999)));
        assert!(wake_ups.requests_plan("shop", "a", INTERVAL, at(261_000)), "the last plan found something new");
    }

    #[test]
    fn a_plan_that_was_requested_a_moment_ago_is_for_all_pods() {
        let mut wake_ups = WakeUps::default();
        let due = [("a", 0), ("b", 300), ("c", 499), ("d", 500), ("b", 1100)]
            .map(|(uid, time)| wake_ups.requests_plan("shop", uid, INTERVAL, at(time)));
        assert_eq!(due, [true, false, false, true, false]);
        wake_ups.request_failed();
        assert!(wake_ups.requests_plan("shop", "b", INTERVAL, at(1200)), "nothing was sent");
        assert!(wake_ups.requests_plan("shop", "b", INTERVAL, at(100)), "the clock was set back");
    }

    #[test]
    fn a_flood_of_one_namespace_delays_no_pod_of_another() {
        let mut wake_ups = WakeUps::default();
        let flood = plans(&mut wake_ups, 0..3600, |second| ("tenant", format!("forged-{second}")));
        assert_eq!(flood, 120 + 3600 / 5 - 1, "a burst, and then one every five seconds");
        let mut both = wake_ups.clone();
        let mut due = Vec::new();
        for second in 3600..3620 {
            both.requests_plan("tenant", &format!("forged-{second}"), INTERVAL, at(second * 1000));
            due.push(both.requests_plan("shop", &format!("pod-{second}"), INTERVAL, at(second * 1000 + 600)));
        }
        assert!(due.iter().all(|due| *due));
        let quiet = plans(&mut wake_ups, 10_000..10_060, |second| ("tenant", format!("later-{second}")));
        assert_eq!(quiet, 60, "the budget is whole again");
    }

    #[test]
    fn a_flood_about_known_pods_ends_in_the_rate_of_the_heartbeat() {
        let mut wake_ups = WakeUps::default();
        let pod = |second: i64| ("tenant", format!("pod-{}", second % 20));
        plans(&mut wake_ups, 0..600, pod);
        assert_eq!(plans(&mut wake_ups, 600..4200, pod), 60);
    }

    #[test]
    fn calls_about_other_objects_are_not_spaced() {
        let mut wake_ups = WakeUps::default();
        assert!(wake_ups.requests_plan("shop", "a", INTERVAL, at(0)));
        let due = [400, 500, 900, 1000].map(|time| wake_ups.requests_plan_for_object(INTERVAL, at(time)));
        assert_eq!(due, [true, false, true, false]);
        assert!(!wake_ups.requests_plan("shop", "a", INTERVAL, at(1000)), "nor do they count for pods");
    }

    #[test]
    fn memory_is_bounded() {
        let mut wake_ups = WakeUps::default();
        for number in 0..30_000 {
            wake_ups.requests_plan("shop", &number.to_string(), INTERVAL, at(number * 1000));
        }
        assert!(wake_ups.seen.len() <= REMEMBERED);
    }
}
