//! Whether expected pods come. If they do not, whatever the reason is, they are not expected again for a time.

use jiff::{SignedDuration, Timestamp};
use nodeless_model::{Desired, PodController};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
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

/// The pods that are expected of one generation of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Expectation {
    uid: String,
    generation: i64,
    /// Since when they are expected.
    since: Timestamp,
    /// How many were missing then.
    first: u32,
    /// How few were missing since then.
    least: u32,
    /// When that number last fell.
    fell: Timestamp,
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

    /// The first plan that expects pods of this generation, or the first after a wait.
    pub(super) fn begun(known: Option<&Expectation>, controller: &PodController, missing: u32, now: Timestamp) -> Self {
        let after = Expectation {
            uid: controller.uid.clone(),
            generation: controller.generation,
            since: now,
            first: missing,
            least: missing,
            fell: now,
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

    /// What became of pods that are expected. `others_fell` is when the number of any workload last fell: those of which no pod was created
    /// may wait for others.
    pub(super) fn next(
        &self,
        controller: &PodController,
        missing: u32,
        others_fell: Option<Timestamp>,
        now: Timestamp,
    ) -> Next {
        let came = self.least.saturating_sub(missing);
        match controller.desired {
            Desired::Nothing => return Next { after: None, came: 0, missing: 0 },
            Desired::Refused => return self.end(0, now),
            _ if missing == 0 => return Next { after: None, came, missing: 0 },
            _ => {}
        }
        let fell = if came > 0 { now } else { self.fell };
        let waits_for_others = missing >= self.first;
        let last = others_fell.filter(|_| waits_for_others).map_or(fell, |others| others.max(fell));
        let longest = EXPECTED_FOR + SignedDuration::from_secs(i64::from(self.first / A_SECOND));
        if now.duration_since(last) >= COME_WITHIN || now.duration_since(self.since) >= longest {
            return Self { least: self.least.min(missing), ..self.clone() }.end(came, now);
        }
        let after = Self { least: self.least.min(missing), fell, ..self.clone() };
        Next { after: Some(after), came, missing: 0 }
    }

    fn end(&self, came: u32, now: Timestamp) -> Next {
        let after = Self { ended: Some(now), times: self.times.saturating_add(1), ..self.clone() };
        Next { after: Some(after), came, missing: self.least.min(self.planned) }
    }
}

impl Expectations {
    /// What is recorded of this generation of a workload.
    pub(super) fn get(&self, controller: &PodController) -> Option<&Expectation> {
        let known = self.0.get(&controller.workload.to_string())?;
        (known.uid == controller.uid && known.generation == controller.generation).then_some(known)
    }

    pub(super) fn put(&mut self, controller: &PodController, expectation: Expectation) {
        let key = controller.workload.to_string();
        if self.0.len() < MAX_RECORDED || self.0.contains_key(&key) {
            self.0.insert(key, expectation);
        }
    }

    /// Those that ended without the pods, until they are forgotten: an hour after they may be expected again.
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

    pub(super) fn is_any_running(&self) -> bool {
        self.0.values().any(Expectation::is_running)
    }

    /// When the missing number of any of these workloads last fell.
    pub(super) fn last_fall<'c>(
        &self,
        controllers: impl Iterator<Item = (&'c PodController, u32)>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let falls = |(controller, missing): (&PodController, u32)| {
            self.get(controller).is_some_and(|known| known.is_running() && missing < known.least)
        };
        let before = self.0.values().filter(|one| one.is_running()).map(|one| one.fell).max();
        if controllers.into_iter().any(falls) { Some(now) } else { before }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{controller, second};
    use super::*;

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
    fn what_is_refused_ends_at_once_and_what_is_paused_is_forgotten() {
        let known = begun(90);
        let of = |desired| known.next(&controller("Deployment", desired), 0, None, second(1));
        let refused = of(Desired::Refused);
        assert!(refused.after.unwrap().waits(second(600)) && refused.missing == 90);
        let paused = of(Desired::Nothing);
        assert_eq!((paused.after, paused.came, paused.missing), (None, 0, 0));
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
    fn another_generation_is_another_expectation() {
        let mut all = Expectations::default();
        all.put(&deployment(), begun(90));
        assert!(all.get(&deployment()).is_some() && all.is_any_running());
        assert!(all.get(&PodController { generation: 2, ..deployment() }).is_none());
        assert!(all.get(&PodController { uid: "other".into(), ..deployment() }).is_none());
        assert_eq!(all.remembered(second(1)), Expectations::default(), "what is expected is seen in the cluster");
        all.put(&deployment(), next(&begun(90), 90, 10).after.unwrap());
        assert!(all.remembered(second(700)) == all && !all.is_any_running());
        assert_eq!(all.remembered(second(610 + 3_600)), Expectations::default());
        assert!(Expectations::default().lacks_only_ended(&all), "its removal alone is not written");
        assert!(!all.lacks_only_ended(&Expectations::default()));
    }
}
