//! The batch window before a plan, and the pods that become pending in it.

use nodeless_model::{ExpectedPods, Pod, Workload};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// The batch window before a plan: how long the plan waits for further pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchWindow {
    /// The window ends when no further pod has become pending for this time.
    pub idle: Duration,
    /// The maximum length while pods become pending.
    pub max: Duration,
    /// The maximum length while [`BURST`] pods become pending within each [`BURST_TIME`].
    pub burst: Duration,
    /// The minimum length, even if no pod is pending.
    pub min: Duration,
    /// Which pods are not waited for.
    pub expecting: Expecting,
}

/// Which pods a plan expects without having seen them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expecting {
    /// Those of which workloads.
    pub mode: ExpectedPods,
    /// The workloads of which none are expected, by [`Pod::expectation_keys`].
    pub except: BTreeSet<String>,
}

/// This number of pods within [`BURST_TIME`] are those of a workload that a controller is creating. kube-controller-manager sends 20 requests
/// a second by default (`--kube-api-qps`), of which those that create pods are more than a half.
pub const BURST: usize = 10;

/// The time of [`BURST`].
pub const BURST_TIME: Duration = Duration::from_secs(2);

/// A batch window, and when pods became pending in it. All times are since its start.
#[derive(Clone, Debug)]
pub struct PodBatch {
    window: BatchWindow,
    /// When the last pods became pending, [`BURST`] at most, the earliest first.
    last: VecDeque<Duration>,
    /// The workloads of the pending pods.
    workloads: BTreeSet<Workload>,
}

impl PodBatch {
    /// A window that begins with these pods pending.
    pub fn new<'p>(window: BatchWindow, pending: impl IntoIterator<Item = &'p Pod>) -> Self {
        let mut batch = Self { window, last: VecDeque::new(), workloads: BTreeSet::new() };
        for pod in pending {
            batch.last = VecDeque::from([Duration::ZERO]);
            batch.is_expected(pod);
        }
        batch
    }

    /// Whether the plan expects the pod without having seen it, by its workload.
    fn is_expected(&mut self, pod: &Pod) -> bool {
        let Expecting { mode, except } = &self.window.expecting;
        if *mode == ExpectedPods::Off || !pod.is_plain() || pod.expectation_keys().any(|key| except.contains(&key)) {
            return false;
        }
        let Some(workload) = pod.pod_controller() else { return false };
        (*mode == ExpectedPods::Templates && workload.kind == "Deployment") || !self.workloads.insert(workload)
    }

    /// Notes that a pod became pending.
    pub fn note(&mut self, at: Duration, pod: &Pod) {
        if self.is_expected(pod) {
            return;
        }
        if self.last.len() == BURST {
            self.last.pop_front();
        }
        self.last.push_back(at);
    }

    /// The end of the window, if no further pod becomes pending.
    #[must_use]
    pub fn end(&self) -> Duration {
        let BatchWindow { idle, max, burst, min, .. } = self.window;
        let (Some(first), Some(last)) = (self.last.front(), self.last.back()) else { return min };
        let is_burst = self.last.len() == BURST && last.saturating_sub(*first) <= BURST_TIME;
        let longest = if is_burst { max.max(burst) } else { max };
        (*last + idle).min(longest).max(min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::pod::ResourceClaim;

    #[test]
    fn the_batch_window_ends_when_no_pod_arrives_but_not_before_its_minimum() {
        let seconds = Duration::from_secs;
        let end = |min, pending: bool, last: &[u64]| {
            let (idle, max, burst, min) = (seconds(2), seconds(10), seconds(20), seconds(min));
            let window = BatchWindow { idle, max, burst, min, ..BatchWindow::default() };
            let mut batch = PodBatch::new(window, pending.then(Pod::default).iter());
            last.iter().for_each(|at| batch.note(seconds(*at), &Pod::default()));
            batch.end()
        };
        assert_eq!(end(0, false, &[]), seconds(0), "nothing to wait for");
        assert_eq!(end(1, false, &[]), seconds(1));
        assert_eq!(end(0, true, &[]), seconds(2));
        assert_eq!(end(0, false, &[1, 3]), seconds(5));
        assert_eq!(end(0, false, &[9]), seconds(10));
        assert_eq!(end(4, false, &[1]), seconds(4));
        assert_eq!(end(12, false, &[9]), seconds(12));
    }

    #[test]
    fn the_batch_window_is_longer_while_a_controller_creates_pods() {
        let seconds = Duration::from_secs_f64;
        let end = |max: f64, per_second: u32, until: f64| {
            let (idle, max, burst) = (seconds(1.0), seconds(max), seconds(20.0));
            let window = BatchWindow { idle, max, burst, ..BatchWindow::default() };
            let mut batch = PodBatch::new(window, []);
            let times = (0..).map(|pod| seconds(f64::from(pod) / f64::from(per_second)));
            times.take_while(|at| *at <= seconds(until)).for_each(|at| batch.note(at, &Pod::default()));
            batch.end()
        };
        assert_eq!(end(10.0, 20, 14.0), seconds(15.0), "all pods are of one plan");
        assert_eq!(end(10.0, 20, 19.5), seconds(20.0));
        assert_eq!(end(10.0, 20, 60.0), seconds(20.0));
        assert_eq!(end(10.0, 8, 14.0), seconds(14.0 + 1.0), "the controller has other requests, too");
        assert_eq!(end(10.0, 4, 14.0), seconds(10.0), "too few pods");
        assert_eq!(end(10.0, 20, 4.0), seconds(5.0));
        assert_eq!(end(25.0, 20, 60.0), seconds(25.0), "a longer maximum stays");
    }

    /// The end of a window that begins with this pod pending, if a pod like the other becomes pending each second.
    fn end(expecting: Expecting, first: &Pod, other: &Pod) -> u64 {
        let [idle, max, burst] = [1, 10, 20].map(Duration::from_secs);
        let mut batch = PodBatch::new(BatchWindow { idle, max, burst, min: idle, expecting }, [first]);
        (1..15).for_each(|at| batch.note(Duration::from_secs(at), other));
        batch.end().as_secs()
    }

    fn pod(kind: &str, name: &str) -> Pod {
        let pod = Pod {
            namespace: "shop".into(),
            owner_kind: Some(kind.into()),
            owner_name: Some(format!("{name}-1")),
            ..Pod::default()
        };
        pod.with_template(|it| it.labels = [("pod-template-hash".into(), "1".into())].into())
    }

    fn all(mode: ExpectedPods) -> Expecting {
        Expecting { mode, ..Expecting::default() }
    }

    #[test]
    fn pods_of_a_workload_that_the_plan_expects_do_not_extend_the_batch_window() {
        use ExpectedPods::{Off, Samples, Templates};
        let end = |mode, kind: &str, name: &str| end(all(mode), &pod("ReplicaSet", "web"), &pod(kind, name));
        assert_eq!([Off, Samples, Templates].map(|mode| end(mode, "ReplicaSet", "web")), [10, 1, 1]);
        assert_eq!(
            [Off, Samples, Templates].map(|mode| end(mode, "ReplicaSet", "api")),
            [10, 2, 1],
            "the first is new"
        );
        assert_eq!([Off, Samples, Templates].map(|mode| end(mode, "Job", "web")), [10, 2, 2]);
        assert_eq!([Samples, Templates].map(|mode| end(mode, "Workflow", "web")), [10, 10]);
    }

    #[test]
    fn pods_that_the_plan_does_not_expect_extend_the_batch_window() {
        let of = |kind: &str| pod(kind, "web");
        let custom = |kind: &str| Pod { owner_is_custom: true, ..of(kind) };
        let claiming = of("Job").with_template(|it| it.resource_claims = vec![ResourceClaim::default()]);
        for mode in [ExpectedPods::Samples, ExpectedPods::Templates] {
            for other in [custom("Deployment"), custom("Job"), custom("ReplicaSet"), claiming.clone()] {
                assert_eq!(end(all(mode), &other, &other), 10, "{other:?}");
            }
            for (kind, waits) in [("ReplicaSet", "Deployment"), ("StatefulSet", "StatefulSet"), ("Job", "CronJob")] {
                let name = if waits == "StatefulSet" { "web-1" } else { "web" };
                let except = [format!("{waits} shop/{name}")].into();
                assert_eq!(end(Expecting { mode, except }, &of(kind), &of(kind)), 10, "{waits}");
                assert_eq!(end(all(mode), &of(kind), &of(kind)), 1, "{kind}");
            }
        }
    }
}
