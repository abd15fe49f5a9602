//! Expected pods: those that the workloads of pending pods are about to create. kube-controller-manager creates about 17 pods a second, and
//! a plan that waited for all of them would launch their nodes that much later.
//!
//! Expected pods are virtual: they come after all real pods and within the ResourceQuotas. The NodeClaims that are launched for them list
//! them by a name of their own, until a real pod of their workload takes the [place](places) of each.

mod counting;
pub(crate) mod places;
mod progress;

use crate::facts::Facts;
use crate::standing::RestrictedPod;
use jiff::{SignedDuration, Timestamp};
use nodeless_model::{Desired, ExpectedPods, Pod, PodController, PodShape, QuotaBalance, Workload};
use nodeless_ports::cluster::ClusterView;
use places::Numbers;
pub(crate) use progress::Expectations;
use progress::{Expectation, Next};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A Deployment that was created within this time of a pending pod is one of those that were created together.
const TOGETHER: SignedDuration = SignedDuration::from_secs(10);
/// A plan expects at most this number of pods, as Cluster Autoscaler does (`--pod-injection-limit`).
const MAX_PODS: u32 = 5_000;

/// The expected pods of a plan.
#[derive(Default)]
pub(crate) struct Expected {
    /// The virtual pods.
    pub(crate) pods: Vec<Pod>,
    /// What is recorded of workloads.
    pub(crate) record: Expectations,
    /// How many pods have come since the last plan that expected them.
    pub(crate) came: usize,
    /// How many pods are not expected any more although they did not come.
    pub(crate) missing: usize,
}

impl Expected {
    /// When the next plan has to be made at the latest, because pods are expected.
    pub(crate) fn again(&self) -> Option<Duration> {
        self.record.is_any_running().then_some(progress::AGAIN)
    }
}

/// What is expected, given what earlier plans recorded.
pub(crate) fn expect(
    facts: Facts<'_>,
    before: &Expectations,
    restricted: &[RestrictedPod],
    quotas: &mut QuotaBalance<'_>,
) -> Expected {
    let (view, now) = (&facts.snapshot.view, facts.snapshot.now);
    let mut expected = Expected { record: before.remembered(now), ..Expected::default() };
    let mode = facts.snapshot.settings.expected_pods;
    if mode == ExpectedPods::Off {
        return expected;
    }
    let mut read: BTreeSet<String> = view.pod_controllers.iter().map(progress::key).collect();
    note_unread(&mut expected, &before.others(&read), view, now);
    if view.pod_controllers.is_empty() {
        return expected;
    }
    let samples = Samples::new(view, restricted, mode, now);
    let missing = |controller| counting::missing(controller, samples.pods_of(controller));
    let missing: Vec<u32> = view.pod_controllers.iter().map(missing).collect();
    let decreased = before.last_decrease(view.pod_controllers.iter().zip(missing.iter().copied()), now);
    let mut numbers = Numbers::new(facts.claims);
    for (controller, missing) in view.pod_controllers.iter().zip(missing) {
        // Of the Jobs of a CronJob, the pods of one are expected.
        if !read.remove(&progress::key(controller)) {
            continue;
        }
        let pods = samples.pods_of(controller);
        let known = before.get(controller).and_then(|known| known.continued(controller, missing, pods));
        let known = known.as_ref();
        let sample = samples.sample(controller, known.is_some_and(Expectation::is_running));
        let Next { after, came, missing: left } = match known {
            Some(known) if known.is_running() => known.next(controller, missing, decreased, now),
            Some(known) if known.waits(now) => Next::unchanged(known),
            known if missing > 0 && sample.is_some() => Next::begun(known, controller, missing, now),
            _ => continue,
        };
        expected.came += usize::try_from(came).unwrap_or(usize::MAX);
        expected.missing += usize::try_from(left).unwrap_or(usize::MAX);
        let Some(mut after) = after else { continue };
        let is_recorded = expected.record.put(controller, after.clone(), now);
        if let Some(sample) = sample.filter(|_| is_recorded && after.is_running()) {
            let left = MAX_PODS.saturating_sub(u32::try_from(expected.pods.len()).unwrap_or(MAX_PODS));
            after.planned = allowed(controller, sample, missing.min(left), quotas);
            let numbers = numbers.take(&controller.workload, after.planned);
            expected.pods.extend(controller.expected_pods(sample, numbers));
            expected.record.put(controller, after, now);
        }
    }
    expected
}

/// Notes which pods came of workloads that are recorded and not read now.
fn note_unread(expected: &mut Expected, recorded: &BTreeMap<&str, &Expectation>, view: &ClusterView, now: Timestamp) {
    if recorded.is_empty() {
        return;
    }
    let mut created: BTreeMap<&str, u32> = BTreeMap::new();
    for pod in view.pods().filter(|pod| pod.is_active()) {
        for (key, known) in pod.expectation_keys().filter_map(|key| recorded.get_key_value(key.as_str())) {
            let came = pod.created.is_some_and(|at| at.as_second() >= known.began().as_second());
            *created.entry(*key).or_default() += u32::from(came);
        }
    }
    for (key, known) in recorded {
        let next = known.next_unread(created.get(key).copied().unwrap_or_default(), now);
        expected.came += usize::try_from(next.came).unwrap_or(usize::MAX);
        if known.is_running() || next.after.is_none() {
            expected.record.set(key, next.after);
        }
    }
}

/// How many of these pods the ResourceQuotas of their namespace allow.
fn allowed(controller: &PodController, sample: &Pod, count: u32, quotas: &mut QuotaBalance<'_>) -> u32 {
    let limits = controller.shape.as_ref().map(|shape| shape.limits.clone()).unwrap_or_default();
    let shape = PodShape { pod: sample.clone(), limits, ..PodShape::default() };
    quotas.take_some(&controller.workload.namespace, &shape, count).0
}

/// What expected pods are like.
struct Samples<'a> {
    /// The pods of the workloads.
    pods: BTreeMap<Workload, Vec<&'a Pod>>,
    /// When the pods were created for which nodes are launched.
    pending: Vec<Timestamp>,
    /// The uids of the pods for which nothing is launched.
    without_launch: BTreeSet<&'a str>,
    mode: ExpectedPods,
    now: Timestamp,
}

impl<'a> Samples<'a> {
    fn new(view: &'a ClusterView, restricted: &'a [RestrictedPod], mode: ExpectedPods, now: Timestamp) -> Self {
        let workloads = view.pod_controllers.iter().map(|controller| (controller.workload.clone(), Vec::new()));
        let mut pods: BTreeMap<Workload, Vec<&Pod>> = workloads.collect();
        for pod in view.pods() {
            if let Some(own) = pod.pod_controller().and_then(|workload| pods.get_mut(&workload)) {
                own.push(pod);
            }
        }
        let pending = view.pods().filter(|pod| pod.is_provisionable()).filter_map(|pod| pod.created).collect();
        let without_launch = restricted.iter().filter(|one| one.without_launch.is_some());
        let without_launch = without_launch.map(|one| one.pod.uid.as_str()).collect();
        Self { pods, pending, without_launch, mode, now }
    }

    fn pods_of(&self, controller: &PodController) -> &[&'a Pod] {
        self.pods.get(&controller.workload).map(Vec::as_slice).unwrap_or_default()
    }

    /// The pod that those to come are like: the newest one that waits for a node, or, while they are coming, the newest one.
    fn sample(&self, controller: &'a PodController, is_running: bool) -> Option<&'a Pod> {
        let own = counting::of_newest_template(self.pods_of(controller));
        let usable = own.filter(|pod| pod.is_active() && self.is_plain(pod) && (is_running || self.waits(pod)));
        let newest = usable.max_by_key(|pod| (self.waits(pod), pod.created, &pod.name));
        newest.or_else(|| self.of_template(controller, is_running))
    }

    /// Whether a pod makes its workload one whose pods are expected. A scheduler may have had no time yet to report on a new one.
    fn waits(&self, pod: &Pod) -> bool {
        let is_new = || pod.created.is_some_and(|created| self.now.duration_since(created) < TOGETHER);
        pod.is_provisionable() || (!self.pending.is_empty() && pod.awaits_node() && pod.reported.is_none() && is_new())
    }

    /// Whether nothing but its workload decides about the pods that are like this one.
    fn is_plain(&self, pod: &Pod) -> bool {
        pod.is_plain() && !self.without_launch.contains(pod.uid.as_str())
    }

    /// A pod of the template of a Deployment without pods that was created or changed together with others.
    fn of_template(&self, controller: &'a PodController, is_running: bool) -> Option<&'a Pod> {
        let has_pods = self.pods_of(controller).iter().any(|pod| pod.is_active());
        let is_deployment = matches!(controller.desired, Desired::Replicas { .. });
        let is_near =
            |at: &Timestamp| controller.created.is_some_and(|created| created.duration_since(*at).abs() <= TOGETHER);
        let is_one = || !self.pending.is_empty() && (!controller.is_observed || self.pending.iter().any(is_near));
        let pod = &controller.shape.as_ref()?.pod;
        (self.mode == ExpectedPods::Templates
            && is_deployment
            && !has_pods
            && self.is_plain(pod)
            && (is_running || is_one()))
        .then_some(pod)
    }
}

#[cfg(test)]
mod tests;
