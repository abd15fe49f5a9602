use super::*;
use crate::snapshot::Snapshot;
use nodeless_catalog::Catalog;
use nodeless_model::{POD_TEMPLATE_HASH, Quantity, ResourceList, ResourceQuota};
use std::sync::Arc;

pub(super) fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A pod without a node of the workload `web` of this kind, created at this second, that is marked.
pub(super) fn pod(kind: &str, name: &str, created: i64) -> Pod {
    let (hash, owner) = if kind == "Deployment" { ("ReplicaSet", "web-a") } else { (kind, "web") };
    let pod = Pod {
        namespace: "shop".into(),
        name: name.into(),
        uid: format!("uid of {name}"),
        created: Some(second(created)),
        owner_kind: Some(hash.into()),
        owner_name: Some(owner.into()),
        marked_unschedulable: true,
        ..Pod::default()
    };
    pod.with_template(|it| {
        it.labels.extend((kind == "Deployment").then(|| (POD_TEMPLATE_HASH.to_owned(), "a".to_owned())));
        it.requests = ResourceList::from([("cpu", Quantity::from_units(1)), ("pods", Quantity::from_units(1))]);
    })
}

/// The workload `web` of this kind.
pub(super) fn controller(kind: &str, desired: Desired) -> PodController {
    PodController {
        workload: Workload { namespace: "shop".into(), kind: kind.into(), name: "web".into() },
        cron_job: None,
        uid: "u".into(),
        generation: 1,
        is_observed: true,
        created: Some(second(0)),
        desired,
        shape: None,
    }
}

fn replicas(count: u32) -> Desired {
    Desired::Replicas { count, surge: 0, recreates: false }
}

/// A snapshot of these workloads and pods, three seconds after the start.
fn snapshot(mode: ExpectedPods, controllers: Vec<PodController>, pods: Vec<Pod>) -> Snapshot {
    let mut snapshot = Snapshot::bare(second(3), Arc::new(Catalog::embedded().unwrap()));
    snapshot.settings.expected_pods = mode;
    snapshot.view.pod_controllers = controllers;
    snapshot.view.pods = pods.into_iter().map(Arc::new).collect();
    snapshot
}

fn expected_after(snapshot: &Snapshot, before: &Expectations, restricted: &[RestrictedPod]) -> Expected {
    let facts = Facts { snapshot, evaluated: &[], claims: &[], commands: &snapshot.commands };
    expect(facts, before, restricted, &mut snapshot.view.quota_balance())
}

/// How many pods the first plan expects.
fn expected(snapshot: &Snapshot) -> usize {
    expected_after(snapshot, &Expectations::default(), &[]).pods.len()
}

fn of_samples(pods: Vec<Pod>) -> Snapshot {
    snapshot(ExpectedPods::Samples, vec![controller("Deployment", replicas(100))], pods)
}

#[test]
fn a_workload_of_which_a_pod_waits_is_expected_to_create_the_others() {
    let waiting = pod("Deployment", "web-a-1", 1);
    assert_eq!(expected(&of_samples(vec![waiting.clone()])), 99);
    assert_eq!(expected(&of_samples(vec![])), 0, "it has no pod");
    let mut off = of_samples(vec![waiting.clone()]);
    off.settings.expected_pods = ExpectedPods::Off;
    assert_eq!(expected(&off), 0);
    let all = expected_after(&of_samples(vec![waiting.clone()]), &Expectations::default(), &[]);
    let template = &all.pods[0].template;
    assert_eq!((&template.requests, all.pods[0].is_virtual()), (&waiting.template.requests, true));
    assert!(all.again().is_some());
}

#[test]
fn pods_that_do_not_wait_for_a_node_make_none_expected() {
    let waiting = || pod("Deployment", "web-a-1", 1);
    let gated = waiting().with_template(|it| it.scheduling_gates = vec!["queue".into()]);
    let consuming = waiting().with_template(|it| {
        it.annotations = [(nodeless_model::labels::CONSUMES_REQUEST.to_owned(), "train".to_owned())].into();
    });
    let bound = Pod { node_name: Some("n".into()), ..waiting() };
    for other in [gated, consuming, bound] {
        assert_eq!(expected(&of_samples(vec![other.clone()])), 0, "{other:?}");
    }
    let unmarked = Pod { marked_unschedulable: false, ..waiting() };
    assert_eq!(expected(&of_samples(vec![unmarked.clone()])), 0, "no other pod is marked");
    assert_eq!(expected(&of_samples(vec![unmarked, pod("Job", "other-1", 1)])), 99);
    let restricted = [RestrictedPod { pod: waiting(), without_launch: Some("why".to_owned()) }];
    let none = expected_after(&of_samples(vec![waiting()]), &Expectations::default(), &restricted);
    assert!(none.pods.is_empty(), "its launches were not taken");
}

#[test]
fn deployments_that_were_created_together_are_expected_by_their_templates() {
    let shape = PodShape { pod: pod("Deployment", "web-*", 0), ..PodShape::default() };
    let other = |created: i64, is_observed| PodController {
        workload: Workload { namespace: "shop".into(), kind: "Deployment".into(), name: "api".into() },
        created: Some(second(created)),
        is_observed,
        shape: Some(shape.clone()),
        ..controller("Deployment", replicas(10))
    };
    let of = |mode, other| {
        let controllers = vec![controller("Deployment", replicas(100)), other];
        expected(&snapshot(mode, controllers, vec![pod("Deployment", "web-a-1", 1)]))
    };
    assert_eq!(of(ExpectedPods::Samples, other(0, true)), 99);
    assert_eq!(of(ExpectedPods::Templates, other(0, true)), 109);
    assert_eq!(of(ExpectedPods::Templates, other(-100, true)), 99, "it is older");
    assert_eq!(of(ExpectedPods::Templates, other(-100, false)), 109, "it was changed a moment ago");
}

#[test]
fn expected_pods_are_within_the_quota_beside_those_that_exist() {
    let mut limited = of_samples(vec![pod("Deployment", "web-a-1", 1)]);
    let list = |cpu| ResourceList::from([("requests.cpu", Quantity::from_units(cpu))]);
    limited.view.resource_quotas = vec![ResourceQuota {
        namespace: "shop".into(),
        name: "q".into(),
        hard: list(20),
        used: list(1),
        ..ResourceQuota::default()
    }];
    assert_eq!(expected(&limited), 19);
}

#[test]
fn what_does_not_come_is_not_expected_again() {
    let mut plans = of_samples(vec![pod("Deployment", "web-a-1", 1)]);
    let plan = |snapshot: &Snapshot, before: &Expectations| expected_after(snapshot, before, &[]);
    let mut record = plan(&plans, &Expectations::default()).record;
    let mut found = Vec::new();
    for now in [8, 13, 20, 600, 613] {
        plans.now = second(now);
        let next = plan(&plans, &record);
        found.push((next.pods.len(), next.missing));
        record = next.record;
    }
    assert_eq!(found, [(99, 0), (0, 99), (0, 0), (0, 0), (99, 0)]);
}

#[test]
fn a_workload_that_waits_is_not_expected_because_it_was_scaled() {
    let mut plans = of_samples(vec![pod("Deployment", "web-a-1", 1)]);
    let plan = |snapshot: &Snapshot, before: &Expectations| expected_after(snapshot, before, &[]);
    let mut record = plan(&plans, &Expectations::default()).record;
    for (generation, replicas_now) in [(2, 101), (3, 100), (4, 101)] {
        plans.now = second(10 + generation);
        let changed = PodController { generation, ..controller("Deployment", replicas(replicas_now)) };
        plans.view.pod_controllers = vec![changed];
        let next = plan(&plans, &record);
        assert_eq!(next.pods.is_empty(), generation > 2, "generation {generation}");
        record = next.record;
    }
}

#[test]
fn workloads_that_are_not_recorded_are_not_expected() {
    let named = |number: usize| PodController {
        workload: Workload::new("shop", "Job", &format!("job-{number:03}"), None),
        ..controller("Job", Desired::Active { count: 2, awaits_deleted: false })
    };
    let of = |number: usize| {
        let name = format!("job-{number:03}");
        Pod { owner_name: Some(name.clone()), ..pod("Job", &format!("{name}-a"), 1) }
    };
    let all = snapshot(ExpectedPods::Samples, (0..510).map(named).collect(), (0..510).map(of).collect());
    let first = expected_after(&all, &Expectations::default(), &[]);
    assert_eq!(first.pods.len(), 500);
    assert_eq!(expected_after(&all, &first.record, &[]).pods.len(), 500);
}

#[test]
fn the_last_pods_of_a_workload_have_come() {
    let mut plans = of_samples(vec![pod("Deployment", "web-a-1", 1)]);
    let first = expected_after(&plans, &Expectations::default(), &[]);
    plans.view.pods = (1..=100).map(|number| pod("Deployment", &format!("web-a-{number}"), 4).into()).collect();
    plans.view.pod_controllers.clear();
    plans.now = second(9);
    let last = expected_after(&plans, &first.record, &[]);
    assert_eq!((last.came, last.missing, last.record), (99, 0, Expectations::default()));
}

#[test]
fn pods_are_expected_although_those_that_came_have_nodes() {
    let mut plans = of_samples(vec![pod("Deployment", "web-a-1", 1)]);
    let first = expected_after(&plans, &Expectations::default(), &[]);
    let bound =
        |number: i64| Pod { node_name: Some("n".into()), ..pod("Deployment", &format!("web-a-{number}"), number) };
    plans.view.pods = (1..=40).map(|number| bound(number).into()).collect();
    plans.now = second(9);
    let second = expected_after(&plans, &first.record, &[]);
    assert_eq!((second.pods.len(), second.came, second.missing), (60, 39, 0));
    plans.view.pod_controllers.clear();
    let last = expected_after(&plans, &second.record, &[]);
    assert!(last.pods.is_empty() && last.again().is_none());
}
