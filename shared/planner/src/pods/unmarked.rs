//! Pods that their scheduler has not reported on yet, although it cannot place pods.
//!
//! The client of kube-scheduler writes 50 times a second. While nodes join, it attempts all pending pods again, and the reports about these
//! use up its writes: for 3 to 20 seconds new pods have no condition `PodScheduled`. A plan without them launches too little, and the next
//! plan needs nodes of its own for them.

use jiff::{SignedDuration, Timestamp};
use nodeless_model::{NodeClaim, Phase, Pod};
use nodeless_ports::cluster::ClusterView;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A scheduler with free writes reports on a pod within this time.
const REPORTED_WITHIN: SignedDuration = SignedDuration::from_millis(1_500);
/// Times of the API server are whole seconds, rounded down: a pod may be younger than it seems by nearly this much.
const ROUNDING: SignedDuration = SignedDuration::from_secs(1);
/// For how long after a scheduler marked a pod the others that wait for it count: one that does not work causes no launches.
const AFTER_ANOTHER: SignedDuration = SignedDuration::from_secs(15);
/// A pod without a report for this time waits for something else than a write, such as a plugin that holds it back.
const HELD_BACK_AFTER: SignedDuration = SignedDuration::from_mins(2);

/// Counts pods as marked that only wait for the report of a scheduler which marks pods at this time, and those that a node is being
/// launched for.
///
/// Such a pod may be about to be bound: it then fits on a node that exists, where the plan places it too, and nothing is launched for it.
pub(crate) fn count(view: &mut ClusterView, claims: &[NodeClaim], now: Timestamp) {
    if !view.pods().any(is_unmarked) {
        return;
    }
    let marks = Marks::new(view, now);
    let launched = launched_for(claims);
    let is_launched_for = |pod: &Pod| launched.get(pod.key().as_str()).is_some_and(|at| pod.created <= Some(*at));
    let counts = |pod: &Pod| is_unmarked(pod) && (is_launched_for(pod) || marks.lack(pod, view, now));
    let counted: Vec<usize> = (0..view.pods.len()).filter(|index| counts(&view.pods[*index])).collect();
    for index in counted {
        Arc::make_mut(&mut view.pods[index]).marked_unschedulable = true;
    }
}

/// Whether a pod waits for a node without any report about it.
fn is_unmarked(pod: &Pod) -> bool {
    pod.reported.is_none() && !pod.marked_unschedulable && pod.awaits_node()
}

/// The pods, `namespace/name`, whose nodes are not ready yet, each with the time at which the last of them was decided.
fn launched_for(claims: &[NodeClaim]) -> BTreeMap<&str, Timestamp> {
    let joining = claims.iter().filter(|claim| claim.phase < Phase::Initialized);
    let mut launched = BTreeMap::new();
    for claim in joining {
        for pod in &claim.spec.nominated_pods {
            let at = launched.entry(pod.as_str()).or_insert(claim.created);
            *at = claim.created.max(*at);
        }
    }
    launched
}

/// What schedulers have reported.
struct Marks<'a> {
    /// The schedulers that marked a pod a moment ago.
    schedulers: BTreeSet<Option<&'a str>>,
    /// The PodGroups, by namespace and name, with a pod that was attempted: a scheduler attempts none of a group below its quorum.
    pod_groups: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> Marks<'a> {
    fn new(view: &'a ClusterView, now: Timestamp) -> Self {
        let is_recent = |pod: &&Pod| pod.reported.is_some_and(|at| now.duration_since(at) <= AFTER_ANOTHER);
        let recent = view.pods().filter(|pod| pod.is_provisionable()).filter(is_recent);
        let attempted = view.pods().filter(|pod| pod.marked_unschedulable || pod.node_name.is_some());
        Self {
            schedulers: recent.map(|pod| pod.template.scheduler_name.as_deref()).collect(),
            pod_groups: attempted.filter_map(pod_group).collect(),
        }
    }

    /// Whether a mark is all that an unmarked pod lacks.
    fn lack(&self, pod: &Pod, view: &ClusterView, now: Timestamp) -> bool {
        let waits_for_a_write = pod.created.is_some_and(|created| {
            let age = now.duration_since(created);
            age >= REPORTED_WITHIN + ROUNDING && age < HELD_BACK_AFTER
        });
        waits_for_a_write
            && self.schedulers.contains(&pod.template.scheduler_name.as_deref())
            && pod_group(pod).is_none_or(|group| self.pod_groups.contains(&group))
            && has_its_claims(pod, view)
    }
}

fn pod_group(pod: &Pod) -> Option<(&str, &str)> {
    Some((pod.namespace.as_str(), pod.template.pod_group.as_deref()?))
}

/// Whether all claims of a pod for volumes and devices exist: it is not attempted before.
fn has_its_claims(pod: &Pod, view: &ClusterView) -> bool {
    let key = |claim: &String| format!("{}/{claim}", pod.namespace);
    let is_made = |claim: &String| view.devices.claims.contains_key(&key(claim));
    pod.template.volume_claims.iter().all(|claim| view.volumes.contains_key(&key(&claim.claim_name)))
        && pod.template.resource_claims.iter().all(|claim| claim.claim.as_ref().is_some_and(is_made))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::pod::{ResourceClaim, VolumeClaim};
    use nodeless_model::{NodeClaimSpec, NodeClaimStatus, PodTemplate};

    /// When the plan is made.
    const NOW: i64 = 1_000;

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn marked(reported: i64) -> Pod {
        let (name, uid) = ("marked".to_owned(), "marked".to_owned());
        let created = Some(second(reported));
        Pod { name, uid, created, marked_unschedulable: true, reported: created, ..Pod::default() }
    }

    fn unmarked(created: i64) -> Pod {
        Pod { name: "new".into(), uid: "new".into(), created: Some(second(created)), ..Pod::default() }
    }

    /// Whether the last of these pods counts.
    fn counts_beside(view: ClusterView, claims: &[NodeClaim], pods: Vec<Pod>) -> bool {
        let mut view = ClusterView { pods: pods.into_iter().map(Arc::new).collect(), ..view };
        count(&mut view, claims, second(NOW));
        view.pods.last().unwrap().is_provisionable()
    }

    fn counts(pod: Pod) -> bool {
        counts_beside(ClusterView::default(), &[], vec![marked(NOW - 1), pod])
    }

    fn with(change: impl FnOnce(&mut PodTemplate)) -> Pod {
        unmarked(NOW - 10).with_template(change)
    }

    #[test]
    fn a_pod_counts_once_it_is_certainly_older_than_a_second_and_a_half() {
        let ages: Vec<i64> = (0..200).filter(|age| counts(unmarked(NOW - age))).collect();
        assert_eq!((ages.first(), ages.last(), ages.len()), (Some(&3), Some(&119), 117));
        assert!(!counts(Pod { created: None, ..unmarked(0) }));
    }

    #[test]
    fn a_pod_counts_only_for_a_while_after_its_scheduler_marked_another() {
        let beside = |other: Pod, pod: Pod| counts_beside(ClusterView::default(), &[], vec![other, pod]);
        assert!(beside(marked(NOW - 15), unmarked(NOW - 10)));
        assert!(!beside(marked(NOW - 16), unmarked(NOW - 10)));
        assert!(!beside(unmarked(NOW - 10), unmarked(NOW - 10)));
        let of_other = |it: &mut PodTemplate| it.scheduler_name = Some("other".into());
        assert!(!beside(marked(NOW - 1), with(of_other)));
        assert!(!beside(marked(NOW - 1).with_template(of_other), unmarked(NOW - 10)));
        assert!(beside(marked(NOW - 1).with_template(of_other), with(of_other)));
        let bound = Pod { node_name: Some("n".into()), marked_unschedulable: false, ..marked(NOW - 1) };
        assert!(!beside(bound, unmarked(NOW - 10)), "it was placed");
    }

    #[test]
    fn what_has_a_report_or_waits_for_something_else_does_not_count() {
        let old = || unmarked(NOW - 10);
        assert!(counts(old()));
        for other in [
            Pod { reported: Some(second(NOW - 9)), ..old() },
            Pod { node_name: Some("n".into()), ..old() },
            Pod { nominated_node_name: Some("n".into()), ..old() },
            Pod { deletion_timestamp: Some(second(NOW)), ..old() },
            Pod { owner_kind: Some("DaemonSet".into()), ..old() },
            with(|it| it.scheduling_gates = vec!["wait".into()]),
        ] {
            assert!(!counts(other.clone()), "{other:?}");
        }
    }

    #[test]
    fn a_pod_counts_with_all_of_its_claims() {
        let pod = with(|it| {
            it.volume_claims = vec![VolumeClaim { claim_name: "data".into(), ephemeral: false }];
            let claim = |name: Option<&str>| ResourceClaim { claim: name.map(Into::into), ..ResourceClaim::default() };
            it.resource_claims = vec![claim(Some("gpu"))];
        });
        let mut view = ClusterView::default();
        let found = |view: &ClusterView, pod: &Pod| counts_beside(view.clone(), &[], vec![marked(NOW), pod.clone()]);
        assert!(!found(&view, &pod));
        view.volumes.insert("/data".into(), Vec::new());
        assert!(!found(&view, &pod));
        view.devices.claims.insert("/gpu".into(), Default::default());
        assert!(found(&view, &pod));
        let not_made = pod.with_template(|it| it.resource_claims[0].claim = None);
        assert!(!found(&view, &not_made));
    }

    #[test]
    fn a_pod_of_a_group_counts_once_one_of_the_group_was_attempted() {
        let of_group = |it: &mut PodTemplate| it.pod_group = Some("train".into());
        let beside = |other: Pod| counts_beside(ClusterView::default(), &[], vec![marked(NOW), other, with(of_group)]);
        assert!(!beside(with(of_group)), "the group may be below its quorum");
        assert!(!beside(marked(NOW - 60)));
        assert!(beside(marked(NOW - 60).with_template(of_group)));
        assert!(beside(Pod { node_name: Some("n".into()), ..with(of_group) }));
    }

    #[test]
    fn a_pod_counts_while_a_node_is_launched_for_it() {
        let claim = |phase, created| NodeClaim {
            name: "default-a".into(),
            uid: "a".into(),
            node_pool: Some("default".into()),
            node_class: "default".into(),
            created: second(created),
            version: 1,
            spec: NodeClaimSpec { nominated_pods: vec!["/new".into()], ..NodeClaimSpec::default() },
            phase,
            status: NodeClaimStatus::default(),
        };
        let counts = |claim: NodeClaim, created| {
            counts_beside(ClusterView::default(), &[claim], vec![marked(NOW - 60), unmarked(created)])
        };
        for phase in [Phase::Reserved, Phase::Launched, Phase::Registered] {
            assert!(counts(claim(phase, NOW - 200), NOW - 300));
        }
        assert!(!counts(claim(Phase::Initialized, NOW - 200), NOW - 300), "the node is ready");
        assert!(!counts(claim(Phase::Launched, NOW - 20), NOW - 10), "it was launched for an earlier pod of this name");
    }
}
