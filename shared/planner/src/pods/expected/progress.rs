//! Whether expected pods come. If they do not, whatever the reason is, they are not expected again for a time.

use jiff::{SignedDuration, Timestamp};
use nodeless_model::{Desired, Pod, PodController};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The next plan is made after this time at the latest while pods are expected.
pub(super) const AGAIN: Duration = Duration::from_secs(10);
/// Pods of which none was created for this time do not come.
const COME_WITHIN: SignedDuration = SignedDuration::from_secs(10);
/// Pods are expected for this time, and for a second more for each [`A_SECOND`] of them.
const EXPECTED_FOR: SignedDuration = SignedDuration::from_mins(1);
/// kube-controller-manager creates more pods in a second, by default (`--kube-api-qps`).
const A_SECOND: u32 = 10;
/// How long pods that did not come are not expected again. It doubles each time.
const FIRST_WAIT: SignedDuration = SignedDuration::from_mins(10);
/// The wait doubles this number of times at most: up to 160 minutes.
const MAX_DOUBLINGS: u32 = 4;
/// At most this number of workloads is recorded, so that the record stays below the size of an item.
const MAX_RECORDED: usize = 500;

/// What is recorded of workloads whose pods are expected, or did not come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Expectations(BTreeMap<String, Expectation>);

/// The pods that are expected of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Expectation {
    uid: String,
    generation: i64,
    /// Since when they are expected.
    since: Timestamp,
    /// How many were missing then, or when they ceased to be expected.
    first: u32,
    /// How few were missing since then.
    least: u32,
    /// When that number last decreased.
    decreased: Timestamp,
    /// How many virtual pods the last plan had.
    pub(super) planned: u32,
    /// Since when they are not expected any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<Timestamp>,
    /// How often that happened.
    #[serde(default)]
    times: u32,
}

/// What a plan finds of the pods that an earlier one expected.
pub(super) struct Next {
    /// What is recorded; `None` if all of them came.
    pub(super) after: Option<Expectation>,
    /// How many came since then.
    pub(super) came: u32,
    /// How many did not come and are not expected any more.
    pub(super) missing: u32,
}

impl Next {
    pub(super) fn unchanged(known: &Expectation) -> Self {
        Self { after: Some(known.clone()), came: 0, missing: 0 }
    }

    /// The first plan that expects pods of a workload, or the first after a wait.
    pub(super) fn begun(known: Option<&Expectation>, controller: &PodController, missing: u32, now: Timestamp) -> Self {
        let after = Expectation {
            uid: controller.uid.clone(),
            generation: controller.generation,
            since: now,
            first: missing,
            least: missing,
            decreased: now,
            planned: 0,
            ended: None,
            times: known.map_or(0, |known| known.times),
        };
        Self { after: Some(after), came: 0, missing: 0 }
    }
}

impl Expectation {
    /// Whether the pods are expected.
    pub(super) const fn is_running(&self) -> bool {
        self.ended.is_none()
    }

    /// Whether the pods are not to be expected now.
    pub(super) fn waits(&self, now: Timestamp) -> bool {
        self.until().is_some_and(|until| now < until)
    }

    /// Until when the pods are not expected.
    fn until(&self) -> Option<Timestamp> {
        let doublings = self.times.saturating_sub(1).min(MAX_DOUBLINGS);
        Some(self.ended?.checked_add(FIRST_WAIT * (1 << doublings)).unwrap_or(Timestamp::MAX))
    }

    /// What became of pods that are expected. `others_decreased` is when the number of any workload last decreased: those of which no pod
    /// was created may wait for others.
    pub(super) fn next(
        &self,
        controller: &PodController,
        missing: u32,
        others_decreased: Option<Timestamp>,
        now: Timestamp,
    ) -> Next {
        let came = self.least.saturating_sub(missing);
        match controller.desired {
            Desired::Nothing => return Next { after: self.interrupted(now), came: 0, missing: 0 },
            Desired::Refused => return self.end(0, now),
            _ if missing == 0 => return Next { after: None, came, missing: 0 },
            _ => {}
        }
        let decreased = if came > 0 { now } else { self.decreased };
        let waits_for_others = missing >= self.first;
        let last = others_decreased.filter(|_| waits_for_others).map_or(decreased, |others| others.max(decreased));
        let longest = EXPECTED_FOR + SignedDuration::from_secs(i64::from(self.first / A_SECOND));
        if now.duration_since(last) >= COME_WITHIN || now.duration_since(self.since) >= longest {
            return Self { least: self.least.min(missing), ..self.clone() }.end(came, now);
        }
        let after = Self { least: self.least.min(missing), decreased, ..self.clone() };
        Next { after: Some(after), came, missing: 0 }
    }

    fn end(&self, came: u32, now: Timestamp) -> Next {
        let times = self.times.saturating_add(1);
        let after = Self { ended: Some(now), times, first: self.least, ..self.clone() };
        Next { after: Some(after), came, missing: self.least.min(self.planned) }
    }

    /// What is recorded once the workload creates no pods for a time: how long the last wait was, if there was one.
    pub(super) fn interrupted(&self, now: Timestamp) -> Option<Self> {
        (self.times > 0).then(|| Self { ended: Some(now), first: self.least, ..self.clone() })
    }

    /// When the expectation, or the wait after it, began.
    pub(super) fn began(&self) -> Timestamp {
        self.ended.unwrap_or(self.since)
    }

    /// What became of pods of a workload that is not read now: it has all its pods, creates none for a time, or is gone. `created` is how
    /// many of its pods were created since [`began`](Self::began).
    pub(super) fn next_unread(&self, created: u32, now: Timestamp) -> Next {
        let came = created.saturating_sub(self.first.saturating_sub(self.least)).min(self.least);
        let after = if came == self.least {
            None
        } else if self.is_running() {
            self.interrupted(now)
        } else {
            Some(self.clone())
        };
        Next { after, came: if self.is_running() { came } else { 0 }, missing: 0 }
    }

    /// What is recorded of the workload as it is now. A new generation or object continues the expectation or the wait of the last one;
    /// `None` if a pod came since that began.
    pub(super) fn continued(&self, controller: &PodController, missing: u32, pods: &[&Pod]) -> Option<Self> {
        let is_counted = controller.desired.most() > 0;
        if self.is_of(controller) {
            let seen = if is_counted && !self.is_running() { self.least.min(missing) } else { self.least };
            return Some(Self { least: seen, ..self.clone() });
        }
        let (first, least) = if is_counted { (missing, missing) } else { (self.first, self.least) };
        let generation = controller.generation;
        let is_later = |pod: &&Pod| pod.is_active() && pod.created.is_some_and(|created| created > self.since);
        let came = self.least < self.first || (self.is_running() && pods.iter().any(is_later));
        (!came).then(|| Self { uid: controller.uid.clone(), generation, first, least, ..self.clone() })
    }

    fn is_of(&self, controller: &PodController) -> bool {
        self.uid == controller.uid && self.generation == controller.generation
    }
}

/// The name by which a workload is recorded: for a Job of a CronJob that of the CronJob, whose Jobs are alike.
pub(super) fn key(controller: &PodController) -> String {
    controller.cron_job.as_ref().unwrap_or(&controller.workload).to_string()
}

impl Expectations {
    /// What is recorded of a workload.
    pub(super) fn get(&self, controller: &PodController) -> Option<&Expectation> {
        self.0.get(&key(controller))
    }

    /// What is recorded of workloads other than these.
    pub(super) fn others<'a>(&'a self, read: &BTreeSet<String>) -> BTreeMap<&'a str, &'a Expectation> {
        let others = self.0.iter().filter(|(key, _)| !read.contains(*key));
        others.map(|(key, one)| (key.as_str(), one)).collect()
    }

    pub(super) fn set(&mut self, key: &str, expectation: Option<Expectation>) {
        match expectation {
            Some(expectation) => drop(self.0.insert(key.to_owned(), expectation)),
            None => drop(self.0.remove(key)),
        }
    }

    /// Records it, in place of the workload whose wait ended first if there are too many. Returns whether it is recorded.
    pub(super) fn put(&mut self, controller: &PodController, expectation: Expectation, now: Timestamp) -> bool {
        let key = key(controller);
        if self.0.len() >= MAX_RECORDED && !self.0.contains_key(&key) {
            let over = self.0.iter().filter_map(|(key, one)| Some((one.until().filter(|until| *until <= now)?, key)));
            let Some(oldest) = over.min().map(|(_, key)| key.clone()) else { return false };
            self.0.remove(&oldest);
        }
        self.0.insert(key, expectation);
        true
    }

    /// Those that ended without the pods, until they are removed from the record: an hour after they may be expected again.
    pub(super) fn remembered(&self, now: Timestamp) -> Self {
        let is_remembered = |one: &Expectation| {
            one.until().is_some_and(|until| now.duration_since(until) < SignedDuration::from_hours(1))
        };
        let remembered = self.0.iter().filter(|(_, one)| is_remembered(one));
        Self(remembered.map(|(key, one)| (key.clone(), one.clone())).collect())
    }

    /// Whether these are the others but for some that have ended, whose removal is no reason to write the record.
    pub(in crate::pods) fn lacks_only_ended(&self, before: &Self) -> bool {
        self.0.iter().all(|(key, one)| before.0.get(key) == Some(one))
            && before.0.iter().all(|(key, one)| self.0.contains_key(key) || !one.is_running())
    }

    /// The names of the workloads whose pods are not to be expected now.
    pub(in crate::pods) fn waiting(&self, now: Timestamp) -> BTreeSet<String> {
        self.0.iter().filter(|(_, one)| one.waits(now)).map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn is_any_running(&self) -> bool {
        self.0.values().any(Expectation::is_running)
    }

    /// When the missing number of any of these workloads last decreased.
    pub(super) fn last_decrease<'c>(
        &self,
        controllers: impl Iterator<Item = (&'c PodController, u32)>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let decreases = |(controller, missing): (&PodController, u32)| {
            let is_lower = |known: &Expectation| known.is_running() && known.is_of(controller) && missing < known.least;
            self.get(controller).is_some_and(is_lower)
        };
        let before = self.0.values().filter(|one| one.is_running()).map(|one| one.decreased).max();
        if controllers.into_iter().any(decreases) { Some(now) } else { before }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{controller, pod, second};
    use super::*;
    use nodeless_model::Workload;

    fn deployment() -> PodController {
        controller("Deployment", Desired::Replicas { count: 100, surge: 0, recreates: false })
    }

    /// The expectation of this number of pods since second 0.
    fn begun(missing: u32) -> Expectation {
        let begun = Next::begun(None, &deployment(), missing, second(0)).after.unwrap();
        Expectation { planned: missing, ..begun }
    }

    fn next(known: &Expectation, missing: u32, now: i64) -> Next {
        known.next(&deployment(), missing, None, second(now))
    }

    #[test]
    fn pods_are_expected_while_they_come() {
        let mut known = begun(90);
        for (now, missing, came) in [(9, 50, 40), (18, 49, 1), (27, 60, 0)] {
            let step = next(&known, missing, now);
            assert_eq!((step.came, step.missing), (came, 0), "second {now}");
            known = step.after.unwrap();
            assert!(known.is_running());
        }
        let done = next(&known, 0, 27);
        assert_eq!((done.after, done.came, done.missing), (None, 49, 0));
    }

    #[test]
    fn pods_that_do_not_come_are_not_expected_again_for_ten_minutes_and_then_for_longer() {
        let mut known = begun(90);
        assert!(next(&known, 90, 9).after.unwrap().is_running());
        let mut waits = Vec::new();
        for end in [10, 2_000, 6_000] {
            let step = next(&known, 90, end);
            assert_eq!((step.came, step.missing), (0, 90));
            known = step.after.unwrap();
            waits.push((0..).find(|minute| !known.waits(second(end + minute * 60))).unwrap());
            known = Next::begun(Some(&known), &deployment(), 90, second(end + 1_900)).after.unwrap();
            known.planned = 90;
        }
        assert_eq!(waits, [10, 20, 40]);
    }

    #[test]
    fn what_is_refused_ends_at_once_and_what_is_paused_is_removed_from_the_record_unless_it_has_waited() {
        let known = begun(90);
        let of = |desired| known.next(&controller("Deployment", desired), 0, None, second(1));
        let refused = of(Desired::Refused);
        assert!(refused.after.unwrap().waits(second(600)) && refused.missing == 90);
        let paused = of(Desired::Nothing);
        assert_eq!((paused.after, paused.came, paused.missing), (None, 0, 0));
        let ended = next(&known, 90, 10).after.unwrap();
        let again = Next::begun(Some(&ended), &deployment(), 90, second(700)).after.unwrap();
        let paused = again.next(&controller("Deployment", Desired::Nothing), 0, None, second(701)).after.unwrap();
        assert_eq!((paused.times, paused.waits(second(702))), (1, true), "a pause does not shorten the waits");
    }

    #[test]
    fn a_workload_without_a_pod_waits_for_others_but_not_for_ever() {
        let known = begun(1);
        let with_others = |now: i64| known.next(&deployment(), 1, Some(second(now - 1)), second(now)).after.unwrap();
        assert_eq!([10, 59, 60].map(|now| with_others(now).is_running()), [true, true, false]);
        let some_came = begun(90).next(&deployment(), 80, None, second(1)).after.unwrap();
        let step = some_came.next(&deployment(), 80, Some(second(10)), second(11));
        assert!(!step.after.unwrap().is_running(), "its own do not come any more");
    }

    #[test]
    fn another_generation_or_object_continues_until_a_pod_came() {
        let others =
            [PodController { generation: 2, ..deployment() }, PodController { uid: "other".into(), ..deployment() }];
        for other in others {
            let moved = begun(90).continued(&other, 80, &[]).unwrap();
            assert!(moved.is_running() && moved.is_of(&other));
            let ended = moved.next(&other, 80, None, second(10));
            assert_eq!((ended.came, ended.missing), (0, 80), "fewer are to come, but none came");
            let waits = ended.after.unwrap().continued(&deployment(), 90, &[]).unwrap();
            assert_eq!((waits.times, waits.waits(second(609))), (1, true));
            let came = waits.continued(&deployment(), 89, &[]).unwrap();
            assert!(came.waits(second(609)), "the wait of this generation stays");
            assert!(came.continued(&other, 90, &[]).is_none());
            let some_came = next(&begun(90), 80, 1).after.unwrap();
            assert!(some_came.continued(&other, 90, &[]).is_none());
            let pods = [0, 1].map(|created| pod("Deployment", "web-a-1", created));
            let unseen = |pod: &Pod| begun(90).continued(&other, 90, &[pod]).is_none();
            assert_eq!(pods.each_ref().map(unseen), [false, true], "one came since the last plan");
        }
    }

    #[test]
    fn the_jobs_of_a_cron_job_are_recorded_as_one() {
        let of = |name: &str| {
            let named = |kind: &str, name: &str| Workload::new("shop", kind, name, None);
            let job = controller("Job", Desired::Active { count: 90, awaits_deleted: false });
            PodController { workload: named("Job", name), cron_job: Some(named("CronJob", "web")), ..job }
        };
        let mut all = Expectations::default();
        assert!(all.put(&of("web-1"), begun(90), second(0)));
        assert!(all.get(&of("web-2")).is_some());
    }

    #[test]
    fn a_full_record_takes_another_workload_only_in_place_of_one_whose_wait_is_over() {
        let named = |number: usize| {
            let workload = Workload::new("shop", "Deployment", &format!("web-{number:03}"), None);
            PodController { workload, ..deployment() }
        };
        let mut all = Expectations::default();
        for number in 0..MAX_RECORDED {
            let ended = next(&begun(90), 90, if number == 7 { 10 } else { 20 }).after.unwrap();
            assert!(all.put(&named(number), ended, second(20)));
        }
        assert!(!all.put(&named(MAX_RECORDED), begun(90), second(609)), "all of them wait");
        assert!(all.put(&named(MAX_RECORDED), begun(90), second(700)));
        assert!(all.get(&named(7)).is_none() && all.get(&named(MAX_RECORDED)).is_some());
        assert_eq!(all.0.len(), MAX_RECORDED);
    }

    #[test]
    fn what_has_ended_is_removed_from_the_record_an_hour_after_its_wait() {
        let mut all = Expectations::default();
        assert!(all.put(&deployment(), begun(90), second(0)));
        assert!(all.get(&deployment()).is_some() && all.is_any_running());
        assert_eq!(all.remembered(second(1)), Expectations::default(), "what is expected is seen in the cluster");
        assert!(all.put(&deployment(), next(&begun(90), 90, 10).after.unwrap(), second(10)));
        assert!(all.remembered(second(700)) == all && !all.is_any_running());
        assert_eq!(all.remembered(second(610 + 3_600)), Expectations::default());
        assert!(Expectations::default().lacks_only_ended(&all), "its removal alone is not written");
        assert!(!all.lacks_only_ended(&Expectations::default()));
    }
}
