//! What the invariants about pods that cannot go anywhere find.

use super::tests::{broken, claims, leave, only, patch, pods, started, write};
use super::*;
use crate::Outcome;
use crate::invariants::{ANNOUNCED_ENDS, LOCAL_VOLUMES};
use futures::FutureExt as _;
use nodeless_fake_kubernetes::resource::{PODS, STATEFUL_SETS};
use nodeless_fake_kubernetes::{CreateOptions, PatchOptions, PatchType};
use nodeless_model::Phase;
use nodeless_model::claim::TerminationReason;
use nodeless_planner::PlanReport;
use serde_json::{Value, json};

/// A StatefulSet with a volume on its node, and a pod that must run on a host with one of its own kind.
const SCENARIO: &str = r#"
name: moving
hours: 1
zones: [us-east-1a]
instanceFamilies: [m6i]
objects:
  - apiVersion: karpenter.sh/v1
    kind: NodePool
    metadata: { name: general }
    spec:
      template:
        spec:
          nodeClassRef: { group: karpenter.k8s.aws, kind: EC2NodeClass, name: default }
          requirements:
            - { key: karpenter.sh/capacity-type, operator: In, values: [on-demand] }
            - { key: karpenter.k8s.aws/instance-size, operator: In, values: [large] }
      disruption: { consolidationPolicy: WhenEmpty, consolidateAfter: Never, budgets: [{ nodes: "1" }] }
  - apiVersion: storage.k8s.io/v1
    kind: StorageClass
    metadata: { name: local-path }
    provisioner: rancher.io/local-path
    volumeBindingMode: WaitForFirstConsumer
  - apiVersion: apps/v1
    kind: StatefulSet
    metadata: { name: index }
    spec:
      replicas: 1
      serviceName: index
      selector: { matchLabels: { app: index } }
      template:
        metadata: { labels: { app: index } }
        spec:
          affinity: { podAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [{ topologyKey: kubernetes.io/hostname, labelSelector: { matchLabels: { app: index } } }] } }
          containers: [{ name: index, image: x, resources: { requests: { cpu: "1", memory: 1Gi } } }]
      volumeClaimTemplates:
        - metadata: { name: data }
          spec: { storageClassName: local-path, accessModes: [ReadWriteOnce], resources: { requests: { storage: 10Gi } } }
"#;

#[test]
fn a_node_with_a_local_volume_is_not_consolidated() {
    for (reason, expected) in [
        (TerminationReason::Empty, true),
        (TerminationReason::Underutilized, true),
        (TerminationReason::Drifted, false),
    ] {
        let mut run = started(SCENARIO);
        leave(&run, &mut claims(&run)[0], reason);
        assert_eq!(broken(&mut run).contains(LOCAL_VOLUMES), expected, "{reason:?}");
    }
}

#[test]
fn a_node_with_a_local_volume_that_no_pod_mounts_stays() {
    let mut run = started(&SCENARIO.replace("consolidateAfter: Never", "consolidateAfter: 10s"));
    patch(&run, &STATEFUL_SETS, "default", "index", &json!({ "spec": { "replicas": 0 } }));
    let until = after(run.driver.world().now(), SignedDuration::from_mins(5));
    run.advance(until, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    assert!(claims(&run).iter().all(|claim| claim.phase == Phase::Initialized));
    assert!(pods(&run).iter().all(|pod| pod["metadata"]["labels"]["app"] != "index"));
    assert_eq!(broken(&mut run), [].into());
    leave(&run, &mut claims(&run)[0], TerminationReason::Empty);
    assert!(broken(&mut run).contains(LOCAL_VOLUMES));
}

#[test]
fn a_plan_has_a_place_for_each_pod_of_a_node_that_ends_for_certain() {
    let with_plan = |placed: bool| {
        let mut run = started(SCENARIO);
        let now = run.driver.world().now();
        let mut claim = claims(&run).remove(0);
        leave(&run, &mut claim, TerminationReason::Interrupted);
        let mut claim = claims(&run).remove(0);
        claim.status.ends = Some(after(now, SignedDuration::from_mins(2)));
        write(&run, &claim);
        assert_eq!(broken(&mut run), [].into());
        let placements = placed.then(|| ("default/index-0".to_owned(), "n".to_owned())).into_iter().collect();
        let report = PlanReport { placements, ..PlanReport::default() };
        for seconds in [10, 40, 100] {
            let at = after(now, SignedDuration::from_secs(seconds));
            run.oracle.take_outcomes(&[(at, Outcome::Planned(Ok(report.clone())))], &run.driver);
            assert_eq!(run.oracle.violations.len(), usize::from(!placed && seconds > 30), "once, and not too early");
        }
        broken(&mut run)
    };
    assert_eq!(with_plan(true), [].into());
    assert_eq!(with_plan(false), only(ANNOUNCED_ENDS));
}

#[test]
fn the_node_for_a_pod_of_a_node_that_ends_does_not_leave_before_it() {
    let mut run = started(SCENARIO);
    let now = run.driver.world().now();
    let mut claim = claims(&run).remove(0);
    leave(&run, &mut claim, TerminationReason::Interrupted);
    let mut claim = claims(&run).remove(0);
    claim.status.ends = Some(after(now, SignedDuration::from_mins(2)));
    write(&run, &claim);
    assert_eq!(broken(&mut run), [].into());
    let mut next = claims(&run).remove(0);
    (next.name, next.uid, next.created, next.version) = ("next".into(), "next".into(), now, 0);
    (next.phase, next.status) = (Phase::Initialized, nodeless_model::NodeClaimStatus::default());
    next.spec.nominated_pods = vec!["default/index-0".into()];
    next.spec.launch_group = None;
    run.driver.claims().create(&next, None).now_or_never().unwrap().unwrap();
    let mut next = claims(&run).into_iter().find(|claim| claim.name == "next").unwrap();
    leave(&run, &mut next, TerminationReason::Empty);
    assert!(broken(&mut run).contains(ANNOUNCED_ENDS));
}

#[test]
fn a_pod_waits_although_its_group_runs() {
    let run = started(SCENARIO);
    assert_eq!(divided_groups(&run.driver), [] as [String; 0]);
    let running = pods(&run).into_iter().find(|pod| pod["metadata"]["name"] == "index-0").unwrap();
    let mut waiting: Value = running.as_ref().clone();
    waiting["metadata"] = json!({ "name": "late", "namespace": "default", "labels": { "app": "index" } });
    waiting["spec"].as_object_mut().unwrap().remove("nodeName");
    waiting["status"] = json!({ "phase": "Pending" });
    run.driver.world().api().create(&PODS, waiting, &CreateOptions::default()).unwrap();
    assert_eq!(divided_groups(&run.driver), ["pod default/late waits, and other pods of its group run"]);
    patch(&run, &PODS, "default", "late", &json!({ "metadata": { "labels": { "app": "other" } } }));
    assert_eq!(divided_groups(&run.driver), [] as [String; 0]);
    patch(&run, &PODS, "default", "late", &json!({ "metadata": { "labels": { "app": "index" } } }));
    assert_eq!(divided_groups(&run.driver).len(), 1);
    let at_once = json!({ "type": "PodScheduled", "status": "True", "lastTransitionTime": running["metadata"]["creationTimestamp"] });
    let status = json!({ "status": { "conditions": [at_once] } });
    let options = PatchOptions::default();
    let api = run.driver.world().api();
    api.patch(&PODS, "default", "index-0", Some("status"), PatchType::Merge, &status, &options).unwrap();
    assert_eq!(divided_groups(&run.driver), [] as [String; 0], "no plan was asked");
}
