//! The places of expected pods on the nodes that were launched for them, and the pods that take these.

use crate::nodes::promised::opens;
use jiff::{SignedDuration, Timestamp};
use nodeless_model::{ExpectedPod, ExpectedPods, NodeClaim, Phase, Pod, Workload};
use nodeless_ports::cluster::ClusterView;
use std::collections::{BTreeMap, BTreeSet};

/// For how long after its launch a node may have places of pods that are still to come.
const LAUNCHED_WITHIN: SignedDuration = SignedDuration::from_mins(10);

/// Whether the workloads that are about to create pods are read: pods are pending, or nodes launched for expected ones a while ago.
pub(crate) fn are_read(mode: ExpectedPods, view: &ClusterView, claims: &[NodeClaim], now: Timestamp) -> bool {
    let is_young = |claim: &&NodeClaim| now.duration_since(claim.created) < LAUNCHED_WITHIN;
    mode != ExpectedPods::Off
        && (view.pods().any(Pod::is_provisionable)
            || claims.iter().filter(is_young).any(|claim| claim.spec.nominated_pods.iter().any(|key| is_expected(key))))
}

fn is_expected(key: &str) -> bool {
    ExpectedPod::parse(key).is_some()
}

/// Names the pods that took the places of expected ones in the claims that list these: first those on the nodes of the claims, then the
/// oldest pods that wait for a node, in the order of the launches. A pod takes one place, and none if a claim was launched for it.
pub(crate) fn take(claims: &mut [NodeClaim], view: &ClusterView, now: Timestamp) {
    let named: BTreeSet<String> = claims.iter().flat_map(|claim| claim.spec.nominated_pods.iter().cloned()).collect();
    let mut order: Vec<&mut NodeClaim> = claims
        .iter_mut()
        .filter(|claim| !claim.phase.is_leaving() && claim.spec.nominated_pods.iter().any(|key| is_expected(key)))
        .collect();
    if order.is_empty() {
        return;
    }
    let mut pods: BTreeMap<Workload, Vec<&Pod>> = BTreeMap::new();
    for pod in view.pods().filter(|pod| pod.is_active() && !named.contains(&pod.key())) {
        if let Some(workload) = pod.pod_controller() {
            pods.entry(workload).or_default().push(pod);
        }
    }
    pods.values_mut().for_each(|pods| pods.sort_by_key(|pod| (pod.created, &pod.name)));
    order.sort_by(|one, other| (one.created, &one.name).cmp(&(other.created, &other.name)));
    for claim in &mut order {
        let Some(node) = claim.status.node_name.clone() else { continue };
        let is_there = |pod: &Pod| pod.node_name.as_ref().or(pod.nominated_node_name.as_ref()) == Some(&node);
        replace(claim, &mut pods, is_there);
    }
    for claim in order.iter_mut().filter(|claim| claim.phase < Phase::Initialized || opens(claim, now)) {
        replace(claim, &mut pods, Pod::awaits_node);
    }
}

/// Replaces expected pods of a claim by pods of their workloads.
fn replace(claim: &mut NodeClaim, pods: &mut BTreeMap<Workload, Vec<&Pod>>, takes: impl Fn(&Pod) -> bool) {
    for key in &mut claim.spec.nominated_pods {
        let Some(pods) = ExpectedPod::parse(key).and_then(|expected| pods.get_mut(&expected.workload)) else {
            continue;
        };
        if let Some(place) = pods.iter().position(|pod| takes(pod)) {
            *key = pods.remove(place).key();
        }
    }
}

/// How many seconds ago a claim was created, if none of the pods came that it was launched for.
pub(crate) fn unused_seconds(claim: &NodeClaim, now: Timestamp) -> Option<f64> {
    let pods = &claim.spec.nominated_pods;
    (!pods.is_empty() && pods.iter().all(|key| is_expected(key)))
        .then(|| now.duration_since(claim.created).as_secs_f64())
}

/// The numbers of expected pods. Those with a place on a node that launches have the numbers in its claim, so that the plan finds them there.
pub(super) struct Numbers(BTreeMap<Workload, BTreeSet<u32>>);

impl Numbers {
    pub(super) fn new(claims: &[NodeClaim]) -> Self {
        let mut numbers: BTreeMap<Workload, BTreeSet<u32>> = BTreeMap::new();
        let present = claims.iter().filter(|claim| !claim.phase.is_leaving());
        for pod in present.flat_map(|claim| &claim.spec.nominated_pods).filter_map(|key| ExpectedPod::parse(key)) {
            numbers.entry(pod.workload).or_default().insert(pod.number);
        }
        Self(numbers)
    }

    /// So many numbers: those in claims first.
    pub(super) fn take(&mut self, workload: &Workload, count: u32) -> Vec<u32> {
        let given = self.0.remove(workload).unwrap_or_default();
        let new = (0..u32::MAX).filter(|number| !given.contains(number));
        given.iter().copied().chain(new).take(usize::try_from(count).unwrap_or(usize::MAX)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{pod, second};
    use super::*;
    use nodeless_model::test_support::node_claim;

    fn claim(name: &str, created: i64, phase: Phase, pods: &[&str]) -> NodeClaim {
        let mut claim = NodeClaim { created: second(created), phase, ..node_claim(name) };
        claim.spec.nominated_pods = pods.iter().map(|pod| format!("shop/{pod}")).collect();
        claim.status.node_name = (phase >= Phase::Registered).then(|| format!("node-{name}"));
        claim
    }

    fn taken(claims: &mut [NodeClaim], pods: Vec<Pod>) -> Vec<Vec<&str>> {
        let view = ClusterView { pods: pods.into_iter().map(Into::into).collect(), ..ClusterView::default() };
        take(claims, &view, second(100));
        claims.iter().map(|claim| claim.spec.nominated_pods.iter().map(|pod| &pod["shop/".len()..]).collect()).collect()
    }

    #[test]
    fn pods_take_the_places_of_the_expected_pods_of_their_workload() {
        let on = |node: &str, pod: Pod| Pod { node_name: Some(node.into()), ..pod };
        let pods = vec![
            pod("Job", "web-c", 3),
            pod("Job", "web-b", 2),
            pod("Job", "web-a", 1),
            on("node-two", pod("Job", "web-d", 4)),
            on("elsewhere", pod("Job", "web-e", 0)),
            pod("StatefulSet", "web-0", 0),
        ];
        let mut claims = [
            claim("three", 30, Phase::Launched, &["Job-web-+7", "web-b"]),
            claim("two", 20, Phase::Registered, &["Job-web-+1", "Job-web-+2"]),
            claim("one", 10, Phase::Draining, &["Job-web-+3"]),
            claim("four", 5, Phase::Initialized, &["Job-web-+4"]),
        ];
        let expected = [vec!["web-c", "web-b"], vec!["web-d", "web-a"], vec!["Job-web-+3"], vec!["Job-web-+4"]];
        assert_eq!(taken(&mut claims, pods), expected);
    }

    #[test]
    fn expected_pods_with_a_place_keep_their_numbers() {
        let web = Workload { namespace: "shop".into(), kind: "Job".into(), name: "web".into() };
        let claims = [claim("a", 0, Phase::Launched, &["Job-web-+1", "Job-web-+4", "Job-other-+0"])];
        assert_eq!(Numbers::new(&claims).take(&web, 4), [1, 4, 0, 2]);
        assert_eq!(Numbers::new(&claims).take(&web, 1), [1]);
    }

    #[test]
    fn a_node_is_unused_if_none_of_its_pods_came() {
        let seconds = |pods: &[&str]| unused_seconds(&claim("a", 40, Phase::Initialized, pods), second(100));
        assert_eq!(seconds(&["Job-web-+1", "Job-web-+2"]), Some(60.0));
        assert_eq!([seconds(&["Job-web-+1", "web-a"]), seconds(&[])], [None, None]);
    }

    #[test]
    fn workloads_are_read_while_their_pods_may_come() {
        let mut view = ClusterView::default();
        let claims = [claim("a", 0, Phase::Launched, &["Job-web-+1"])];
        let is_read =
            |view: &ClusterView, claims: &[NodeClaim], now| are_read(ExpectedPods::Samples, view, claims, second(now));
        assert_eq!([599, 600].map(|now| is_read(&view, &claims, now)), [true, false]);
        assert!(!is_read(&view, &[], 0));
        view.pods = vec![pod("Job", "web-a", 0).into()];
        assert!(is_read(&view, &[], 0) && !are_read(ExpectedPods::Off, &view, &claims, second(0)));
    }
}
