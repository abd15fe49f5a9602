//! What the invariants about pods, their evictions and their waits find.

use super::tests::{CALM, broken, calm, claims, leave, only, patch, pods};
use super::*;
use crate::Outcome;
use nodeless_fake_kubernetes::resource::{PODS, VOLUME_ATTACHMENTS};
use nodeless_fake_kubernetes::{CreateOptions, DeleteOptions};
use nodeless_model::claim::TerminationReason;
use nodeless_planner::PlanReport;
use nodeless_telemetry::Null;
use nodeless_world::fault_injection::{Effect, Observer as _};
use nodeless_world::resources::NODE_POOLS;
use std::collections::BTreeSet;

#[test]
fn no_node_after_another_may_be_launched_for_a_pod_that_takes_none() {
    let mut run = calm();
    patch(&run, &NODE_POOLS, "", "general", &json!({ "spec": { "disruption": { "budgets": [{ "nodes": "3" }] } } }));
    let container = json!({ "name": "c", "image": "x", "resources": { "requests": { "cpu": "100" } } });
    let pod =
        json!({ "metadata": { "name": "lonely", "namespace": "default" }, "spec": { "containers": [container] } });
    run.driver.world().api().create(&PODS, pod, &CreateOptions::default()).unwrap();
    assert_eq!(broken(&mut run), BTreeSet::new());
    let created = after(run.driver.world().now(), SignedDuration::from_secs(1));
    for (index, mut claim) in claims(&run).into_iter().enumerate() {
        claim.created = created;
        claim.spec.nominated_pods = vec!["default/lonely".to_owned()];
        leave(&run, &mut claim, TerminationReason::Empty);
        let wrong = broken(&mut run);
        let expected = "no node after another is launched for a pod that takes none of them";
        assert_eq!(wrong.contains(expected), index >= 2, "{wrong:?}");
    }
}

/// Reports an eviction to the checks: before it and after it.
fn evict(run: &Run, pod: &Value, done: impl FnOnce()) {
    let key = format!("default/{}", pod["metadata"]["name"].as_str().unwrap());
    run.effects.before("cluster evict", &key);
    done();
    run.effects.after(&effect(run, "cluster evict", key));
}

pub(super) fn effect(run: &Run, operation: &'static str, subject: String) -> Effect {
    Effect { at: run.driver.world().now(), operation, subject, accepted: true }
}

#[test]
fn no_pod_may_be_evicted_deleted_or_cut_off_against_its_budget() {
    const BUDGET: &str = "no pod is evicted against its PodDisruptionBudget";
    let key = |pod: &Value| format!("default/{}", pod["metadata"]["name"].as_str().unwrap());
    let mut run = calm();
    let all = pods(&run);
    evict(&run, &all[0], || ());
    assert_eq!(broken(&mut run), BTreeSet::new(), "all three are healthy");
    // One pod is gone, and no further one may be evicted.
    let api = run.driver.world().api().clone();
    let options = DeleteOptions::default();
    for pod in &all[..2] {
        api.delete(&PODS, "default", pod["metadata"]["name"].as_str().unwrap(), &options).unwrap();
    }
    let delete = |pod: &Value| {
        api.delete(&PODS, "default", pod["metadata"]["name"].as_str().unwrap(), &options).unwrap();
    };
    evict(&run, &all[0], || delete(&all[0]));
    assert_eq!(broken(&mut run), BTreeSet::new(), "one that is leaving anyway");
    evict(&run, &all[2], || delete(&all[2]));
    assert_eq!(broken(&mut run), only(BUDGET), "an eviction");

    let mut run = calm();
    let pod = pods(&run).remove(0);
    run.effects.before("cluster delete pod", &key(&pod));
    run.effects.after(&effect(&run, "cluster delete pod", key(&pod)));
    assert_eq!(broken(&mut run), BTreeSet::new(), "a deletion without effect, since the pod is another one");
    run.effects.before("cluster delete pod", &key(&pod));
    run.driver.world().api().delete(&PODS, "default", pod["metadata"]["name"].as_str().unwrap(), &options).unwrap();
    run.effects.after(&effect(&run, "cluster delete pod", key(&pod)));
    assert_eq!(broken(&mut run), only(BUDGET), "a deletion");

    let mut run = calm();
    let id = claims(&run)[0].status.instance.as_ref().unwrap().id.clone();
    run.effects.after(&effect(&run, "cloud terminate", id));
    assert_eq!(broken(&mut run), only(BUDGET), "the end of its machine");
}

#[test]
fn no_pod_may_be_evicted_before_those_of_earlier_groups() {
    let mut run = calm();
    let ordinary = pods(&run).remove(0);
    let critical = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "dns" }, "spec": {
        "nodeName": ordinary["spec"]["nodeName"], "priorityClassName": "system-cluster-critical",
        "containers": [{ "name": "dns", "image": "registry.k8s.io/pause:3.9" }],
    } });
    objects::apply(&run.driver, &critical).unwrap();
    let later = after(run.driver.world().now(), SignedDuration::from_mins(2));
    run.driver.world_mut().advance_to(later).unwrap();
    evict(&run, &ordinary, || ());
    assert_eq!(broken(&mut run), BTreeSet::new());
    let critical = run.driver.world().api().get(&PODS, "default", "dns").unwrap();
    evict(&run, &critical, || ());
    assert_eq!(broken(&mut run), only("pods are evicted in the order of their groups"));
}

/// Violations when the instance of a claim is terminated after a drain of this duration, with or without a volume attached to it.
fn after_a_drain_of(seconds: i64, attached: bool) -> BTreeSet<&'static str> {
    let mut run = calm();
    let mut claim = claims(&run).remove(0);
    leave(&run, &mut claim, TerminationReason::Empty);
    let later = after(run.driver.world().now(), SignedDuration::from_secs(seconds));
    run.driver.world_mut().advance_to(later).unwrap();
    if attached {
        let source = json!({ "persistentVolumeName": "data" });
        let spec = json!({ "attacher": "ebs.csi.aws.com", "nodeName": claim.status.node_name, "source": source });
        let object = json!({ "metadata": { "name": "csi-data" }, "spec": spec });
        run.driver.world().api().create(&VOLUME_ATTACHMENTS, object, &CreateOptions::default()).unwrap();
    }
    run.effects.after(&effect(&run, "cloud terminate", claim.status.instance.unwrap().id));
    let mut broken = broken(&mut run);
    // The pod was not evicted.
    broken.remove("no pod is evicted against its PodDisruptionBudget");
    broken
}

#[test]
fn no_instance_may_be_terminated_before_endpoints_are_removed_and_volumes_are_detached() {
    assert_eq!(after_a_drain_of(5, false), BTreeSet::new());
    assert_eq!(after_a_drain_of(4, false), only("a drain lasts five seconds at least"));
    assert_eq!(after_a_drain_of(5, true), only("volumes are detached before an instance is terminated"));
}

/// Violations while an unschedulable pod is pending and plans report this.
fn with_a_pod_that_waits(report: &PlanReport, plans: usize) -> BTreeSet<&'static str> {
    with_a_pod_that_waits_for(&vec![report; plans])
}

fn with_a_pod_that_waits_for(reports: &[&PlanReport]) -> BTreeSet<&'static str> {
    let mut run = calm();
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "giant" }, "spec": { "containers": [
        { "name": "main", "image": "registry.k8s.io/pause:3.9", "resources": { "requests": { "cpu": "500" } } },
    ] } });
    objects::apply(&run.driver, &pod).unwrap();
    // Only the world's time advances: this test replaces the operations.
    for report in reports {
        let later = after(run.driver.world().now(), SignedDuration::from_mins(2));
        run.driver.world_mut().advance_to(later).unwrap();
        run.oracle.check(&run.driver);
        let outcome = Outcome::Planned(Ok((*report).clone()));
        run.oracle.take_outcomes(&[(later, outcome)], &run.driver);
    }
    broken(&mut run)
}

#[test]
fn a_pod_that_waits_may_not_be_forgotten() {
    let named = |reason: &str| vec![("default/giant".to_owned(), reason.to_owned())];
    let silent = PlanReport::default();
    // The first plan ends when the pod is observed first, and counts as one that missed it.
    assert_eq!(with_a_pod_that_waits(&silent, 2), BTreeSet::new(), "one more may miss it");
    assert_eq!(with_a_pod_that_waits(&silent, 3), only("each pending pod has a claim or a reason within two plans"));
    let refuses = PlanReport { unschedulable: named("no instance type fits"), ..PlanReport::default() };
    assert_eq!(with_a_pod_that_waits(&refuses, 40), BTreeSet::new());
    let promises = PlanReport { placements: named("a node"), ..PlanReport::default() };
    assert_eq!(with_a_pod_that_waits(&promises, 10), BTreeSet::new());
    let fleeting = PlanReport { created: vec!["general-gone".to_owned()], ..PlanReport::default() };
    assert!(!with_a_pod_that_waits(&fleeting, 3).is_empty(), "a claim that was never observed with the pod");
    assert_eq!(with_a_pod_that_waits(&promises, 40), only("a pod that can be placed runs"));
}

#[test]
fn a_pod_may_wait_for_as_long_as_machines_never_join() {
    // Each machine is terminated after a quarter of an hour, so the pods run after an hour.
    let yaml = format!("{CALM}actions: [{{ after: 0s, badMachines: {{ fault: neverJoins, count: 12 }} }}]\n");
    let yaml = yaml.replace("hours: 1", "hours: 2");
    let report = Run::new(Scenario::parse(&yaml).unwrap(), 1, None, Arc::new(Null)).unwrap().finish().unwrap();
    assert_eq!((report.launched, &report.violations), (15, &Vec::new()), "three pods on five machines each");
}

#[test]
fn the_time_that_a_pod_may_wait_begins_when_plans_stop_reporting_it_unschedulable() {
    let named = vec![("default/giant".to_owned(), "its NodePool is scheduled off".to_owned())];
    let refuses = PlanReport { unschedulable: named.clone(), ..PlanReport::default() };
    let promises = PlanReport { placements: named, ..PlanReport::default() };
    // Every plan is two minutes after the one before.
    for (promised, wrong) in [(22, false), (24, true)] {
        let reports: Vec<&PlanReport> = [vec![&refuses; 10], vec![&promises; promised]].concat();
        let expected = if wrong { only("a pod that can be placed runs") } else { BTreeSet::new() };
        assert_eq!(with_a_pod_that_waits_for(&reports), expected, "promised {promised} times");
    }
}

#[test]
fn a_pod_that_waits_without_a_reason_is_reported() {
    // Nobody removes the startup taint, so the nodes of the pods never become ready for them.
    let requirements = "          requirements:";
    let tainted = CALM.replacen(
        requirements,
        &format!("          startupTaints: [{{ key: example.com/agent, effect: NoSchedule }}]\n{requirements}"),
        1,
    );
    // The kubelets stop answering between joining and being ready: other nodes are launched for the pods.
    let silent = format!("{CALM}actions: [{{ after: 33s, silenceMachines: 1 }}]\n");
    for (yaml, holds) in [(tainted, false), (silent, true)] {
        let report = Run::new(Scenario::parse(&yaml).unwrap(), 1, Some(1), Arc::new(Null)).unwrap().finish().unwrap();
        assert_eq!(report.holds(), holds, "{yaml}: {:?}", report.violations);
    }
}
