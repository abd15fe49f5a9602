//! Each invariant can be broken: a healthy cluster is damaged in one place, and the oracle must report it.

use super::*;
use crate::Outcome;
use crate::invariants::ClaimObjects;
use crate::scenarios::other_objects::{is_instance_of_other, is_of_other};
use futures::FutureExt as _;
use nodeless_disruption::command::{CommandPhase, CommandRecord};
use nodeless_fake_kubernetes::controllers::object::{NewEvent, publish};
use nodeless_fake_kubernetes::resource::{
    DEPLOYMENTS, NAMESPACES, NODES, POD_TEMPLATES, PODS, RESOURCE_QUOTAS, VOLUME_ATTACHMENTS,
};
use nodeless_fake_kubernetes::{CreateOptions, DeleteOptions, ListOptions, PatchOptions, PatchType, Resource};
use nodeless_lifecycle::begin_termination;
use nodeless_model::claim::{TerminationReason, condition};
use nodeless_model::{CapacityType, ConditionStatus, NodeClaim, Phase, Taint, TaintEffect, labels};
use nodeless_planner::{PlanReport, encode_command};
use nodeless_reconciler::SweepReport;
use nodeless_state::costs::StoredCosts;
use nodeless_telemetry::Null;
use nodeless_world::fault_injection::{Effect, Observer as _};
use nodeless_world::ports::FIELD_MANAGER;
use nodeless_world::resources::{CAPACITY_BUFFERS, NODE_CLAIMS, NODE_POOLS, PROVISIONING_REQUESTS};
use std::collections::BTreeSet;

pub(super) const CALM: &str = r#"
name: calm
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
      limits: { cpu: "12", nodes: "6" }
      disruption:
        consolidationPolicy: WhenEmpty
        consolidateAfter: Never
        budgets: [{ nodes: "1" }]
  - apiVersion: apps/v1
    kind: Deployment
    metadata: { name: web }
    spec:
      replicas: 3
      selector: { matchLabels: { app: web } }
      template:
        metadata: { labels: { app: web } }
        spec:
          containers:
            - name: web
              image: registry.k8s.io/pause:3.9
              resources: { requests: { cpu: 1500m, memory: 1Gi } }
  - apiVersion: policy/v1
    kind: PodDisruptionBudget
    metadata: { name: web }
    spec: { maxUnavailable: 1, selector: { matchLabels: { app: web } } }
"#;

/// Three nodes with a pod each, five minutes old, without a violation.
pub(super) fn calm() -> Run {
    let run = started(CALM);
    assert_eq!(claims(&run).len(), 3);
    run
}

/// A scenario after five minutes without a violation.
pub(super) fn started(yaml: &str) -> Run {
    let mut run = Run::new(Scenario::parse(yaml).unwrap(), 1, None, Arc::new(Null)).unwrap();
    let until = after(run.scenario.start, SignedDuration::from_mins(5));
    run.advance(until, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    assert_eq!(run.report.violations, []);
    assert!(claims(&run).iter().all(|claim| claim.phase == Phase::Initialized));
    run
}

pub(super) fn claims(run: &Run) -> Vec<NodeClaim> {
    run.driver.claims().snapshot()
}

pub(super) fn write(run: &Run, claim: &NodeClaim) {
    run.driver.claims().update(claim, None).now_or_never().unwrap().unwrap();
}

/// Checks the world, and returns the violated invariants with the first detail.
pub(super) fn broken(run: &mut Run) -> BTreeSet<&'static str> {
    run.oracle.check(&run.driver);
    let seen = run.effects.observed();
    run.oracle.violations.iter().chain(&seen.violations).map(|violation| violation.invariant).collect()
}

pub(super) fn only(invariant: &'static str) -> BTreeSet<&'static str> {
    BTreeSet::from([invariant])
}

pub(super) fn patch(run: &Run, resource: &Resource, namespace: &str, name: &str, patch: &Value) {
    let api = run.driver.world().api();
    api.patch(resource, namespace, name, None, PatchType::Merge, patch, &PatchOptions::default()).unwrap();
}

pub(super) fn pods(run: &Run) -> Vec<Arc<Value>> {
    run.driver.world().api().list(&PODS, &ListOptions::default()).unwrap().items
}

/// The voluntary disruption of a claim begins.
pub(super) fn leave(run: &Run, claim: &mut NodeClaim, reason: TerminationReason) {
    begin_termination(claim, reason, "of a test", run.driver.world().now());
    write(run, claim);
}

/// What nodeless does with the first of these objects that exists.
fn nodeless_patches(run: &Run, resource: &Resource, body: &Value) {
    let all = run.driver.world().api().list(resource, &ListOptions::default()).unwrap().items;
    let other = all.iter().find(|object| is_of_other(resource, object)).unwrap();
    let api = run.driver.world().api().as_user(FIELD_MANAGER);
    let name = other["metadata"]["name"].as_str().unwrap();
    api.patch(resource, "", name, None, PatchType::Merge, body, &PatchOptions::default()).unwrap();
}

#[test]
fn nothing_of_another_controller_may_be_written() {
    let labelled = json!({ "metadata": { "labels": { "a": "b" } } });
    let finalized = json!({ "metadata": { "finalizers": null } });
    for (resource, body) in [(NODE_POOLS, &labelled), (NODE_CLAIMS, &labelled), (NODES, &labelled), (NODES, &finalized)]
    {
        let mut run = calm();
        nodeless_patches(&run, &resource, body);
        assert_eq!(broken(&mut run), only(OTHER_CONTROLLERS), "{} {body}", resource.kind);
    }
    let mut run = calm();
    let about = run.driver.world().api().get(&NODE_POOLS, "", "other").unwrap();
    let event = NewEvent { component: FIELD_MANAGER, kind: "Normal", reason: "Any", message: "" };
    publish(&run.driver.world().api().as_user(FIELD_MANAGER), &about, &event, run.driver.world().now()).unwrap();
    assert_eq!(broken(&mut run), only(OTHER_CONTROLLERS));

    let mut run = calm();
    let instance = run.driver.world().ec2().instances().into_iter().find(is_instance_of_other).unwrap();
    run.driver.world().ec2().change_instance(&instance.id, |one| drop(one.tags.insert("a".into(), "b".into())));
    let until = after(run.driver.world().now(), SignedDuration::from_secs(5));
    run.advance(until, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    assert!(run.report.violations.iter().any(|one| one.invariant == OTHER_CONTROLLERS), "{:?}", run.report.violations);
}

#[test]
fn the_nodes_of_another_controller_come_and_go() {
    let mut run = started(CALM);
    let seen = |run: &Run, resource: &Resource| {
        let all = run.driver.world().api().list(resource, &ListOptions::default()).unwrap().items;
        all.iter().filter(|object| is_of_other(resource, object)).count()
    };
    let mut counts = BTreeSet::new();
    for minute in 6..180 {
        let until = after(run.scenario.start, SignedDuration::from_mins(minute));
        run.advance(until, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
        counts.insert((seen(&run, &NODE_CLAIMS), seen(&run, &NODES)));
    }
    assert_eq!(run.report.violations, []);
    assert!(counts.iter().any(|(claims, nodes)| claims > nodes), "a node joins: {counts:?}");
    assert!(counts.iter().any(|(claims, nodes)| claims < nodes), "only a finalizer keeps a node: {counts:?}");
    assert_eq!(claims(&run).len(), 3, "nodeless launches nothing for them");
}

#[test]
fn two_claims_may_not_share_an_instance_and_none_may_change_it() {
    let mut run = calm();
    let mut claim = claims(&run).remove(0);
    claim.status.instance = claims(&run)[1].status.instance.clone();
    write(&run, &claim);
    assert!(broken(&mut run).contains("each claim has at most one instance"));
    let reported: Vec<&str> = run.oracle.violations.iter().map(|violation| violation.detail.as_str()).collect();
    assert!(reported.iter().any(|detail| detail.contains("both have instance")), "{reported:?}");
    assert!(reported.iter().any(|detail| detail.contains("and now has")), "{reported:?}");
}

#[test]
fn two_claims_may_not_have_one_place_in_a_launch_group() {
    let mut run = calm();
    let all = claims(&run);
    let mut claim = all[0].clone();
    claim.spec.launch_group.clone_from(&all[1].spec.launch_group);
    write(&run, &claim);
    assert_eq!(broken(&mut run), only("each claim has at most one instance"));
}

#[test]
fn a_claim_without_an_object_and_a_message_that_repeats_are_reported() {
    let run = calm();
    let claim = claims(&run).remove(0);
    patch(&run, &NODE_CLAIMS, "", &claim.name, &json!({ "metadata": { "finalizers": null } }));
    run.driver.world().api().delete(&NODE_CLAIMS, "", &claim.name, &DeleteOptions::default()).unwrap();
    let swept = |problems: &[&str]| {
        let problems = problems.iter().map(|problem| (*problem).to_owned()).collect();
        (run.driver.world().now(), Outcome::Swept(Ok(SweepReport { problems, ..SweepReport::default() })))
    };
    let mut objects = ClaimObjects::default();
    let missing = objects.missing(&[(); 10].map(|()| swept(&[])), &run.driver);
    assert!(missing.is_empty(), "ten sweeps may have failed: {missing:?}");
    let expected = format!("claim {} has none after 11 sweeps", claim.name);
    assert_eq!(objects.missing(&[swept(&[])], &run.driver), [expected]);
    let mut messages = Messages::default();
    let start = run.driver.world().now();
    (0..19).for_each(|_| messages.add(&[swept(&["refused"])]));
    assert!(messages.repeated(start).is_empty());
    messages.add(&[swept(&["refused"])]);
    assert_eq!(messages.repeated(start), ["20 times: refused"]);
}

#[test]
fn a_launch_group_may_not_have_more_instances_than_members() {
    let mut run = calm();
    for mut claim in claims(&run) {
        claim.spec.launch_group.as_mut().unwrap().size = 1;
        write(&run, &claim);
    }
    assert_eq!(broken(&mut run), only("each claim has at most one instance"));
}

#[test]
fn what_ec2_runs_may_not_pass_a_limit() {
    for (limits, annotation) in [
        (json!({ "cpu": "5" }), Value::Null),
        (json!({ "memory": "20Gi" }), Value::Null),
        (json!({ "nodes": "2" }), Value::Null),
        (json!({}), json!({ "nodeless.sh/dollars-per-hour": "0.2" })),
        (json!({ "nodeless.sh/dollars-per-hour": "0.2" }), Value::Null),
    ] {
        let mut run = calm();
        let change = json!({ "metadata": { "annotations": annotation }, "spec": { "limits": limits } });
        patch(&run, &NODE_POOLS, "", "general", &change);
        let mut claim = claims(&run).remove(0);
        claim.status.last_pod_event = Some(run.driver.world().now());
        write(&run, &claim);
        assert_eq!(broken(&mut run), only("the limits of NodePools hold"), "{change}");
    }
}

#[test]
fn three_nodes_of_eight_gibibytes_are_within_a_limit_of_twenty_four() {
    let mut run = calm();
    patch(&run, &NODE_POOLS, "", "general", &json!({ "spec": { "limits": { "memory": "24Gi" } } }));
    let mut claim = claims(&run).remove(0);
    claim.status.last_pod_event = Some(run.driver.world().now());
    write(&run, &claim);
    assert_eq!(broken(&mut run), BTreeSet::new());
}

#[test]
fn what_ec2_runs_may_not_pass_a_limit_of_gpus() {
    let mut run = started(&CALM.replace("[m6i]", "[g4dn]").replace("[large]", "[xlarge]"));
    let gpus = claims(&run).len();
    for (limit, expected) in [(gpus, BTreeSet::new()), (gpus - 1, only("the limits of NodePools hold"))] {
        let limits = json!({ "nvidia.com/gpu": limit.to_string() });
        patch(&run, &NODE_POOLS, "", "general", &json!({ "spec": { "limits": limits } }));
        let mut claim = claims(&run).remove(0);
        claim.status.last_pod_event = Some(run.driver.world().now());
        write(&run, &claim);
        assert_eq!(broken(&mut run), expected, "{limit} of {gpus}");
    }
}

#[test]
fn what_ec2_runs_may_not_pass_a_limit_of_the_cluster() {
    for (annotation, limit) in
        [("nodeless.sh/max-cpu", "5"), ("nodeless.sh/max-nodes", "2"), ("nodeless.sh/max-dollars-per-hour", "0.2")]
    {
        let mut run = calm();
        let change = json!({ "metadata": { "annotations": { annotation: limit } } });
        patch(&run, &NAMESPACES, "", "kube-system", &change);
        let mut claim = claims(&run).remove(0);
        claim.status.last_pod_event = Some(run.driver.world().now());
        write(&run, &claim);
        assert_eq!(broken(&mut run), only("the limits of the cluster hold"), "{change}");
    }
}

#[test]
fn what_leaves_by_force_does_not_count_against_a_limit() {
    for (reason, counts) in [(TerminationReason::Interrupted, false), (TerminationReason::Drifted, true)] {
        let mut run = calm();
        let all = claims(&run);
        let change = json!({ "spec": { "limits": { "nodes": (all.len() - 1).to_string() } } });
        patch(&run, &NODE_POOLS, "", "general", &change);
        let mut claim = all[0].clone();
        leave(&run, &mut claim, reason);
        assert_eq!(broken(&mut run).contains("the limits of NodePools hold"), counts, "{reason:?}");
    }
}

#[test]
fn no_node_may_leave_by_choice_outside_of_maintenance_windows() {
    for (windows, reason, allowed) in [
        ("0 0 * * * for 30m", TerminationReason::Empty, true),
        ("30 0 * * * for 30m", TerminationReason::Empty, false),
        ("30 0 * * * for 30m", TerminationReason::Expired, true),
    ] {
        let mut run = calm();
        let change = json!({ "metadata": { "annotations": { "nodeless.sh/maintenance-windows": windows } } });
        patch(&run, &NAMESPACES, "", "kube-system", &change);
        let mut claim = claims(&run).remove(0);
        leave(&run, &mut claim, reason);
        let invariant = "nodes are disrupted voluntarily only within maintenance windows";
        assert_eq!(!broken(&mut run).contains(invariant), allowed, "{windows} {reason:?}");
    }
}

#[test]
fn no_more_nodes_may_leave_by_choice_than_a_budget_allows() {
    let mut run = calm();
    let mut all = claims(&run);
    leave(&run, &mut all[0], TerminationReason::Empty);
    assert_eq!(broken(&mut run), BTreeSet::new(), "one may");
    leave(&run, &mut all[1], TerminationReason::Empty);
    assert_eq!(broken(&mut run), only("disruption budgets hold"));
}

#[test]
fn a_budget_whose_window_begins_after_the_decision_does_not_hold_it_up() {
    let budgets = json!([{ "nodes": "0", "schedule": "5 0 * * *", "duration": "10m" }]);
    let change = json!({ "spec": { "disruption": { "budgets": budgets } } });
    // When the command records its validation, how long it was observed before its node is disrupted, and whether that is a
    // violation.
    for (validated, seen, wrong) in [(-1, 5, false), (1, 5, true), (-1, 120, true), (-3_600, 5, false)] {
        let mut run = calm();
        patch(&run, &NODE_POOLS, "", "general", &change);
        let mut claim = claims(&run).remove(0);
        let since = after(run.driver.world().now(), SignedDuration::from_secs(validated));
        command_of(&run, "first", &[&claim], Vec::new(), CommandPhase::Draining, since);
        run.oracle.check(&run.driver);
        let later = after(run.driver.world().now(), SignedDuration::from_secs(seen));
        run.driver.world_mut().advance_to(later).unwrap();
        leave(&run, &mut claim, TerminationReason::Underutilized);
        let expected = if wrong { only("disruption budgets hold") } else { BTreeSet::new() };
        assert_eq!(
            broken(&mut run),
            expected,
            "validated {validated} s after the window began, and left {seen} s later"
        );
    }
}

#[test]
fn a_command_that_two_plans_validate_and_end_between_checks_was_decided_by_the_first() {
    let budgets = json!([{ "nodes": "0", "schedule": "5 0 * * *", "duration": "10m" }]);
    let change = json!({ "spec": { "disruption": { "budgets": budgets } } });
    // Whether the command was observed as proposed, the seconds from the window's start until its node leaves, and whether that is a
    // violation.
    for (proposed, seconds, wrong) in [(true, 2, false), (true, 120, true), (false, 2, true)] {
        let mut run = calm();
        patch(&run, &NODE_POOLS, "", "general", &change);
        let mut claim = claims(&run).remove(0);
        let now = run.driver.world().now();
        if proposed {
            command_of(&run, "first", &[&claim], Vec::new(), CommandPhase::Proposed, now);
        }
        run.oracle.check(&run.driver);
        run.driver.world_mut().advance_to(after(now, SignedDuration::from_secs(seconds))).unwrap();
        if proposed {
            let stored = run.driver.claims().commands().now_or_never().unwrap().unwrap();
            for command in &stored {
                run.driver.claims().delete_command(command).now_or_never().unwrap().unwrap();
            }
        }
        leave(&run, &mut claim, TerminationReason::Underutilized);
        let expected = if wrong { only("disruption budgets hold") } else { BTreeSet::new() };
        assert_eq!(broken(&mut run), expected, "proposed: {proposed}, and left {seconds} s after the window began");
    }
}

/// Three nodes whose pods are gone, and a NodePool that removes empty nodes.
fn emptied(pool: &Value, system: &Value, node: &Value) -> Run {
    let run = calm();
    let consolidates = json!({ "spec": { "disruption": { "consolidateAfter": "1m", "budgets": [{ "nodes": "3" }] } } });
    patch(&run, &NODE_POOLS, "", "general", &consolidates);
    patch(&run, &NODE_POOLS, "", "general", pool);
    patch(&run, &NAMESPACES, "", "kube-system", &json!({ "metadata": { "annotations": system } }));
    for claim in claims(&run) {
        let change = json!({ "metadata": { "annotations": node } });
        patch(&run, &NODES, "", claim.status.node_name.as_ref().unwrap(), &change);
    }
    patch(&run, &DEPLOYMENTS, "default", "web", &json!({ "spec": { "replicas": 0 } }));
    run
}

#[test]
fn a_node_without_pods_may_not_be_kept() {
    let (nothing, forbidden) =
        (json!({}), |key: &str, value: &str| json!({ "metadata": { "annotations": { key: value } } }));
    for (pool, system, node, exempt) in [
        (nothing.clone(), nothing.clone(), nothing.clone(), None),
        (nothing.clone(), json!({ "nodeless.sh/maintenance-windows": "0 0 * * * for 24h" }), nothing.clone(), None),
        (
            json!({ "spec": { "disruption": { "consolidateAfter": "Never" } } }),
            nothing.clone(),
            nothing.clone(),
            Some("Never"),
        ),
        (
            json!({ "spec": { "disruption": { "budgets": [{ "nodes": "0" }] } } }),
            nothing.clone(),
            nothing.clone(),
            Some("budget"),
        ),
        (forbidden(labels::WARM, "1"), nothing.clone(), nothing.clone(), Some("warm")),
        (forbidden("nodeless.sh/min-on-demand", "3"), nothing.clone(), nothing.clone(), Some("minimum")),
        (forbidden("nodeless.sh/pause-disruption", "true"), nothing.clone(), nothing.clone(), Some("pause")),
        (
            nothing.clone(),
            json!({ "nodeless.sh/maintenance-windows": "0 5 * * * for 1m" }),
            nothing.clone(),
            Some("window"),
        ),
        (nothing.clone(), nothing, json!({ labels::DO_NOT_DISRUPT: "true" }), Some("do-not-disrupt")),
    ] {
        let mut run = emptied(&pool, &system, &node);
        // No operation runs while only the world advances.
        for minutes in [2, 14, 4] {
            let later = after(run.driver.world().now(), SignedDuration::from_mins(minutes));
            assert_eq!(broken(&mut run), BTreeSet::new(), "{pool} {system} {node}");
            run.driver.world_mut().advance_to(later).unwrap();
        }
        let expected = if exempt.is_none() { only("no node without pods is kept") } else { BTreeSet::new() };
        assert_eq!(broken(&mut run), expected, "{pool} {system} {node}");
        let seen = &run.oracle.empty_nodes;
        assert_eq!(seen.exempt.keys().copied().collect::<Vec<_>>(), exempt.into_iter().collect::<Vec<_>>());
        assert_eq!(seen.counted > 0, exempt.is_none(), "{pool} {system} {node}");
    }
}

#[test]
fn a_node_that_is_not_ready_counts_against_the_budget_of_those_without_pods() {
    let budget = json!({ "spec": { "disruption": { "budgets": [{ "nodes": "1" }] } } });
    let mut run = emptied(&budget, &json!({}), &json!({}));
    let instance = claims(&run)[0].status.instance.as_ref().unwrap().id.clone();
    assert!(run.driver.world_mut().silence(&instance));
    for minutes in [2, 20] {
        let later = after(run.driver.world().now(), SignedDuration::from_mins(minutes));
        run.driver.world_mut().advance_to(later).unwrap();
        assert_eq!(broken(&mut run), BTreeSet::new(), "after {minutes} minutes");
    }
    let exempt = &run.oracle.empty_nodes.exempt;
    assert_eq!(exempt.keys().copied().collect::<Vec<_>>(), ["budget", "not ready"]);
}

#[test]
fn nodes_without_pods_are_removed_and_few_are_exempt() {
    let mut run = emptied(&json!({}), &json!({}), &json!({}));
    let until = after(run.driver.world().now(), SignedDuration::from_mins(30));
    run.advance(until, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    assert_eq!(run.report.violations, []);
    assert_eq!(claims(&run).len(), 0);
    let seen = &run.oracle.empty_nodes;
    assert!(seen.counted > 0 && seen.exempt.is_empty(), "{seen:?}");
}

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

#[test]
fn nodes_for_virtual_pods_may_not_exceed_quotas() {
    let metadata = |name: &str| json!({ "metadata": { "name": name, "namespace": "default" } });
    let container =
        json!({ "name": "c", "image": "x", "resources": { "requests": { "cpu": "500m", "memory": "1Gi" } } });
    let with = |name: &str, field: &str, value: Value| {
        let mut object = metadata(name);
        object[field] = value;
        object
    };
    let set = json!({ "podTemplateRef": { "name": "small" }, "count": 2 });
    let class = "best-effort-atomic-scale-up.autoscaling.x-k8s.io";
    for (hard, allowed) in [
        (json!({ "requests.cpu": "1", "memory": "2Gi", "pods": 2 }), true),
        (json!({ "requests.cpu": "900m" }), false),
        (json!({ "requests.memory": "1500Mi" }), false),
        (json!({ "pods": "1" }), false),
    ] {
        for pods in [
            ["capacity-buffer-spare-0", "capacity-buffer-spare-1"],
            ["provisioning-request-job-0-0", "provisioning-request-job-0-1"],
        ] {
            let mut run = calm();
            let api = run.driver.world().api();
            let create = |resource: &Resource, object: Value| {
                api.create(resource, object, &CreateOptions::default()).unwrap();
            };
            create(&POD_TEMPLATES, with("small", "template", json!({ "spec": { "containers": [container] } })));
            create(
                &CAPACITY_BUFFERS,
                with("spare", "spec", json!({ "podTemplateRef": { "name": "small" }, "replicas": 2 })),
            );
            let spec = json!({ "provisioningClassName": class, "podSets": [set] });
            create(&PROVISIONING_REQUESTS, with("job", "spec", spec));
            create(&RESOURCE_QUOTAS, with("small", "spec", json!({ "hard": hard })));
            assert_eq!(broken(&mut run), BTreeSet::new());
            let mut claim = claims(&run).remove(0);
            claim.spec.nominated_pods.extend(pods.map(|pod| format!("default/{pod}")));
            write(&run, &claim);
            let expected = if allowed {
                BTreeSet::new()
            } else {
                only("what is launched for virtual pods stays within ResourceQuotas")
            };
            assert_eq!(broken(&mut run), expected, "{hard}");
            assert!(run.oracle.virtual_pods.counted > 0);
        }
    }
}

#[test]
fn nothing_may_leave_by_choice_that_asks_not_to_be_disrupted() {
    let asks = json!({ "metadata": { "annotations": { labels::DO_NOT_DISRUPT: "true" } } });
    let mut run = calm();
    let mut claim = claims(&run).remove(0);
    patch(&run, &NODES, "", claim.status.node_name.as_ref().unwrap(), &asks);
    leave(&run, &mut claim, TerminationReason::Underutilized);
    assert_eq!(broken(&mut run), only("do-not-disrupt is honoured"), "a node");

    let mut run = calm();
    for pod in pods(&run) {
        patch(&run, &PODS, "default", pod["metadata"]["name"].as_str().unwrap(), &asks);
    }
    let mut claim = claims(&run).remove(0);
    leave(&run, &mut claim, TerminationReason::Drifted);
    assert_eq!(broken(&mut run), only("do-not-disrupt is honoured"), "a pod");
    run.oracle.violations.clear();
    let key = format!("default/{}", pods(&run)[0]["metadata"]["name"].as_str().unwrap());
    run.effects.after(&effect(&run, "cluster evict", key));
    assert!(broken(&mut run).contains("do-not-disrupt is honoured"), "an eviction");
}

#[test]
fn the_last_node_on_demand_may_not_leave_by_choice_below_a_minimum() {
    let annotated = json!({ "metadata": { "annotations": { "nodeless.sh/min-on-demand": "1" } } });
    for (percent, leaves, wrong) in [(false, 2, true), (false, 0, false), (true, 2, true), (true, 0, false)] {
        let mut run = calm();
        let annotated = if percent {
            json!({ "metadata": { "annotations": { "nodeless.sh/min-on-demand": "30%" } } })
        } else {
            annotated.clone()
        };
        patch(&run, &NODE_POOLS, "", "general", &annotated);
        for mut claim in claims(&run).into_iter().take(2) {
            claim.status.instance.as_mut().unwrap().capacity_type = CapacityType::Spot;
            write(&run, &claim);
        }
        assert_eq!(broken(&mut run), BTreeSet::new());
        let mut claim = claims(&run).remove(leaves);
        leave(&run, &mut claim, TerminationReason::Drifted);
        let expected =
            if wrong { only("voluntary disruption keeps nodeless.sh/min-on-demand") } else { BTreeSet::new() };
        assert_eq!(broken(&mut run), expected, "{percent} {leaves}");
    }
}

#[test]
fn no_node_may_follow_the_first_with_a_new_image_too_early() {
    for (period, wrong) in [("1h", true), ("1m", false)] {
        let mut run = calm();
        patch(
            &run,
            &NODE_POOLS,
            "",
            "general",
            &json!({ "metadata": { "annotations": { "nodeless.sh/ami-canary": period } } }),
        );
        let mut all = claims(&run);
        all[1].status.instance.as_mut().unwrap().image_id = "ami-new".into();
        write(&run, &all[1]);
        let now = run.driver.world().now();
        all[0].set_condition(condition::DRIFTED, ConditionStatus::True, "AMIDrift", "", now);
        leave(&run, &mut all[0], TerminationReason::Drifted);
        let expected = if wrong { only("a new AMI begins with one node") } else { BTreeSet::new() };
        assert_eq!(broken(&mut run), expected, "{period}");
    }
}

#[test]
fn the_last_pod_that_asks_for_a_successor_may_not_go_first() {
    for (annotated, reason, wrong) in [
        (true, TerminationReason::Drifted, true),
        (true, TerminationReason::Interrupted, false),
        (false, TerminationReason::Drifted, false),
    ] {
        let mut run = calm();
        let annotation = json!({ "nodeless.sh/surge-before-drain": "restart" });
        let template = json!({ "metadata": { "annotations": annotation } });
        let mut spec = json!({ "replicas": 1 });
        if annotated {
            spec["template"] = template;
        }
        patch(&run, &DEPLOYMENTS, "default", "web", &json!({ "spec": spec }));
        let later = after(run.driver.world().now(), SignedDuration::from_mins(2));
        run.driver.world_mut().advance_to(later).unwrap();
        assert_eq!(broken(&mut run), BTreeSet::new());
        let pod = pods(&run).remove(0);
        let node = pod["spec"]["nodeName"].as_str().unwrap();
        let mut claim = claims(&run).into_iter().find(|claim| claim.status.node_name.as_deref() == Some(node)).unwrap();
        leave(&run, &mut claim, reason);
        let name = pod["metadata"]["name"].as_str().unwrap();
        run.driver.world().api().delete(&PODS, "default", name, &DeleteOptions::default()).unwrap();
        let expected = if wrong {
            only("a pod that asks for its successor first is not the last that goes")
        } else {
            BTreeSet::new()
        };
        assert_eq!(broken(&mut run), expected, "{annotated} {reason:?}");
    }
}

#[test]
fn no_instance_may_be_without_a_claim_for_long() {
    let mut run = calm();
    let claim = claims(&run).remove(0);
    run.driver.claims().delete(&claim).now_or_never().unwrap().unwrap();
    assert_eq!(broken(&mut run), BTreeSet::new(), "not yet");
    let later = after(run.driver.world().now(), SignedDuration::from_mins(11));
    run.driver.world_mut().advance_to(later).unwrap();
    assert_eq!(broken(&mut run), only("no instance is without a claim for more than ten minutes"));
}

/// Reports an eviction to the checks: before it and after it.
fn evict(run: &Run, pod: &Value, done: impl FnOnce()) {
    let key = format!("default/{}", pod["metadata"]["name"].as_str().unwrap());
    run.effects.before("cluster evict", &key);
    done();
    run.effects.after(&effect(run, "cluster evict", key));
}

fn effect(run: &Run, operation: &'static str, subject: String) -> Effect {
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

#[test]
fn no_node_may_outlive_its_expire_after() {
    let mut run = calm();
    let mut claim = claims(&run).remove(0);
    claim.spec.expire_after = Some(std::time::Duration::from_mins(5));
    write(&run, &claim);
    for (minutes, expected) in [(9, BTreeSet::new()), (2, only("a node does not outlive its expireAfter"))] {
        let later = after(run.driver.world().now(), SignedDuration::from_mins(minutes));
        run.driver.world_mut().advance_to(later).unwrap();
        assert_eq!(broken(&mut run), expected, "{minutes} minutes later");
    }
}

#[test]
fn the_node_of_an_interrupted_spot_instance_may_not_run_to_its_end() {
    let yaml = CALM.replace("[on-demand]", "[spot]");
    let invariant = "the node of a spot instance is drained when EC2 announces its interruption";
    for (handled, unreliable) in [(true, false), (false, false), (false, true)] {
        let faults = if unreliable { "faults: { calls: { lost: 0.001 } }\n" } else { "" };
        let mut run = started(&format!("{yaml}{faults}"));
        let id = claims(&run).remove(0).status.instance.unwrap().id;
        run.driver.world().ec2().interrupt_spot(&id).unwrap();
        let later = after(run.driver.world().now(), SignedDuration::from_secs(121));
        if handled {
            run.advance(later, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
            run.oracle.violations.append(&mut run.report.violations);
        } else {
            run.driver.world_mut().advance_to(later).unwrap();
        }
        let expected = if handled || unreliable { BTreeSet::new() } else { only(invariant) };
        assert_eq!(broken(&mut run), expected, "handled: {handled}, unreliable: {unreliable}");
    }
}

#[test]
fn a_node_may_not_lack_what_its_claim_has() {
    let changes: [fn(&mut NodeClaim); 3] = [
        |claim| drop(claim.spec.labels.insert("example.com/team".to_owned(), "a".to_owned())),
        |claim| drop(claim.spec.annotations.insert("example.com/owner".to_owned(), "b".to_owned())),
        |claim| claim.spec.taints.push(Taint::new("example.com/role", TaintEffect::NoSchedule)),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let mut run = calm();
        let mut claim = claims(&run).remove(0);
        change(&mut claim);
        write(&run, &claim);
        let expected = only("a Node has the labels, annotations and taints of its claim");
        assert_eq!(broken(&mut run), expected, "change {index}");
    }
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

/// Stores a command with these claims as candidates, and its replacements.
fn command(run: &Run, id: &str, taken: &[&NodeClaim], replacements: Vec<NodeClaim>) {
    command_of(run, id, taken, replacements, CommandPhase::Waiting, run.driver.world().now());
}

/// A command that is in this phase since a time.
fn command_of(
    run: &Run,
    id: &str,
    taken: &[&NodeClaim],
    replacements: Vec<NodeClaim>,
    phase: CommandPhase,
    since: Timestamp,
) {
    put(run, &record_of(run, id, taken, replacements, phase, since));
}

fn put(run: &Run, record: &CommandRecord) {
    run.driver.claims().put_command(&encode_command(record).unwrap()).now_or_never().unwrap().unwrap();
}

fn record_of(
    run: &Run,
    id: &str,
    taken: &[&NodeClaim],
    replacements: Vec<NodeClaim>,
    phase: CommandPhase,
    since: Timestamp,
) -> CommandRecord {
    let candidates: Vec<Value> = taken
        .iter()
        .map(|claim| json!({ "node": claim.status.node_name, "nodeClaim": claim.name, "nodePool": claim.node_pool }))
        .collect();
    let now = run.driver.world().now();
    let command = json!({
        "id": id, "method": "Drift", "reason": "Drifted", "candidates": candidates, "replacements": [],
        "savingsPerHour": 0.0, "evictions": [], "placements": [], "score": null, "decided": now,
    });
    let mut record = CommandRecord::propose(serde_json::from_value(command).unwrap());
    (record.phase, record.since) = (phase, since);
    record.replacements = replacements;
    record
}

#[test]
fn what_did_not_become_ready_may_not_be_launched_again_at_once() {
    for (case, expected) in [("again", true), ("a node becomes ready", false), ("the template changes", false)] {
        let mut run = calm();
        let mut all = claims(&run);
        (all[2].phase, all[2].created) = (Phase::Launched, run.driver.world().now());
        write(&run, &all[2]);
        let now = run.driver.world().now();
        let record = record_of(&run, "first", &[&all[0]], vec![all[2].clone()], CommandPhase::Waiting, now);
        put(&run, &CommandRecord { deadline: Some(now), ..record });
        broken(&mut run);
        let stored = run.driver.claims().commands_now().remove(0);
        run.driver.claims().delete_command(&stored).now_or_never().unwrap().unwrap();
        broken(&mut run);
        match case {
            "a node becomes ready" => {
                let at = after(now, SignedDuration::from_secs(1));
                let mut ready = claims(&run).remove(1);
                ready.set_condition(condition::INITIALIZED, ConditionStatus::False, "NotYet", "", now);
                ready.set_condition(condition::INITIALIZED, ConditionStatus::True, "Ready", "", at);
                write(&run, &ready);
            }
            "the template changes" => {
                let change = json!({ "spec": { "template": { "metadata": { "labels": { "a": "b" } } } } });
                patch(&run, &NODE_POOLS, "", "general", &change);
            }
            _ => {}
        }
        command(&run, "second", &[&all[0]], vec![all[2].clone()]);
        let invariant = "no command launches again what did not become ready for the one before";
        assert_eq!(broken(&mut run).contains(invariant), expected, "{case}: {:?}", run.oracle.violations);
    }
}

#[test]
fn no_node_may_be_in_two_commands() {
    let mut run = calm();
    let mut all = claims(&run);
    command(&run, "first", &[&all[0], &all[1]], Vec::new());
    all[0].status.command = Some("first".to_owned());
    write(&run, &all[0]);
    assert_eq!(broken(&mut run), BTreeSet::new());
    command(&run, "second", &[&all[1], &all[2]], Vec::new());
    write(&run, &all[2]);
    assert_eq!(broken(&mut run), only("no node is in two commands"));
}

#[test]
fn no_node_may_drain_before_its_replacement_is_ready() {
    for ready in [true, false] {
        let mut run = calm();
        let mut all = claims(&run);
        let replacement = all[2].clone();
        command(&run, "first", &[&all[0]], vec![replacement]);
        if !ready {
            all[2].name = "general-other".to_owned();
            let created = all[2].created;
            all[2].set_condition(condition::INITIALIZED, ConditionStatus::False, "NotYet", "", created);
            command(&run, "first-2", &[&all[0]], vec![all[2].clone()]);
        }
        let id = if ready { "first" } else { "first-2" };
        all[0].status.command = Some(id.to_owned());
        write(&run, &all[0]);
        run.oracle.check(&run.driver);
        run.oracle.violations.clear();
        all[0] = claims(&run).remove(0);
        leave(&run, &mut all[0], TerminationReason::Drifted);
        let expected = if ready { BTreeSet::new() } else { only("no node drains before its replacements are ready") };
        assert!(broken(&mut run).is_superset(&expected), "ready: {ready}: {:?}", run.oracle.violations);
        let reported = run.oracle.violations.iter().any(|it| it.invariant.starts_with("no node drains"));
        assert_eq!(reported, !ready, "{:?}", run.oracle.violations);
    }
}

#[test]
fn which_claims_are_due_is_no_effect_on_the_cluster() {
    let run = calm();
    run.effects.observed().effects.clear();
    run.effects.after(&effect(&run, "claims put shard", "0".to_owned()));
    assert_eq!(run.effects.observed().effects, []);
    let update = effect(&run, "claims update", claims(&run).remove(0).name);
    run.effects.after(&update);
    assert_eq!(run.effects.observed().effects, [update]);
}

#[test]
fn a_cluster_that_never_becomes_quiescent_is_reported() {
    // Nodes expire after ten minutes.
    let class = "nodeClassRef: { group: karpenter.k8s.aws, kind: EC2NodeClass, name: default }";
    let yaml = CALM.replace(class, &format!("{class}\n          expireAfter: 10m"));
    let scenario = Scenario::parse(&yaml).unwrap();
    let report = Run::new(scenario, 1, Some(1), Arc::new(Null)).unwrap().finish().unwrap();
    let reported: BTreeSet<&str> = report.violations.iter().map(|violation| violation.invariant).collect();
    assert!(reported.contains("the cluster becomes quiescent"), "{reported:?}");
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

#[test]
fn a_scenario_with_a_field_that_its_kind_does_not_have_is_refused_before_it_begins() {
    let pool =
        "{ apiVersion: karpenter.sh/v1, kind: NodePool, metadata: { name: general }, spec: { limit: { cpu: 1 } } }";
    for (from, to, reported) in [
        (
            "replicas: 3",
            "replicaz: 3",
            r#"objects[1], Deployment web: there is no field "spec.replicaz" in a Deployment of apps/v1"#,
        ),
        ("image:", "imag:", r#"no field "spec.template.spec.containers[0].imag""#),
        (
            "consolidateAfter: Never",
            "consolidateAftr: Never",
            r#"objects[0], NodePool general: there is no field "spec.disruption.consolidateAftr""#,
        ),
        (
            "policy/v1",
            "policy/v1beta1",
            r#"objects[2], PodDisruptionBudget web: apiVersion is "policy/v1beta1"; write policy/v1"#,
        ),
        (
            "kind: PodDisruptionBudget\n    metadata: { name: web }",
            "kind: PodDisruptionBudget",
            "it has no metadata.name",
        ),
        (
            "hours: 1\n",
            &format!("hours: 1\nactions: [{{ after: 1m, apply: {pool} }}]\n"),
            r#"actions[0].apply, NodePool general: there is no field "spec.limit""#,
        ),
        (
            "hours: 1\n",
            "hours: 1\nactions: [{ after: 1m, delete: { kind: Service, name: a } }]\n",
            "Service is not simulated",
        ),
        (
            "hours: 1\n",
            "hours: 1\njobs: [{ name: a, every: 1m, spec: { paralelism: 1 } }]\n",
            r#"jobs[0], Job a-0: there is no field "spec.paralelism""#,
        ),
    ] {
        let yaml = CALM.replacen(from, to, 1);
        assert_ne!(yaml, CALM, "{from}");
        let error = Run::new(Scenario::parse(&yaml).unwrap(), 1, None, Arc::new(Null)).err().unwrap().to_string();
        assert!(error.contains(reported), "{reported}: {error}");
    }
}

#[test]
fn leftovers_of_a_quiescent_cluster_are_reported() {
    let reported = |damage: &dyn Fn(&Run)| {
        let run = calm();
        assert_eq!(leftovers(&run.driver), Vec::<String>::new());
        damage(&run);
        leftovers(&run.driver).join("; ")
    };
    let taint = reported(&|run| {
        let name = claims(run).remove(0).status.node_name.unwrap();
        let taints = json!([{ "key": labels::DISRUPTED_TAINT, "effect": "NoSchedule" }]);
        patch(run, &NODES, "", &name, &json!({ "spec": { "taints": taints } }));
    });
    assert!(taint.contains("has the taint karpenter.sh/disrupted and stays"), "{taint}");
    let held = reported(&|run| {
        let mut claim = claims(run).remove(0);
        claim.status.command = Some("gone".to_owned());
        write(run, &claim);
    });
    assert!(held.contains("is held by command"), "{held}");
    let stored = reported(&|run| command(run, "first", &[&claims(run)[0]], Vec::new()));
    assert!(stored.contains("command first is there"), "{stored}");
    let counted = reported(&|run| {
        let mut claim = claims(run).remove(0);
        claim.spec.charge.dollars_per_hour += 1.0;
        write(run, &claim);
    });
    assert!(counted.contains("dollars per hour, and its claims cost"), "{counted}");
    let raised = reported(&|run| {
        let annotated = json!({ "metadata": { "annotations": { "nodeless.sh/surge": "{}" } } });
        patch(run, &DEPLOYMENTS, "default", "web", &annotated);
    });
    assert!(raised.contains("Deployment web has the annotation nodeless.sh/surge and stays raised"), "{raised}");
    let gone = reported(&|run| run.driver.claims().delete(&claims(run)[0]).now_or_never().unwrap().unwrap());
    assert!(gone.contains("no claim in the table is that of NodeClaim general-"), "{gone}");
    let unseen = reported(&|run| {
        let name = claims(run).remove(0).name;
        let finalizers = json!({ "metadata": { "finalizers": null } });
        patch(run, &NODE_CLAIMS, "", &name, &finalizers);
        run.driver.world().api().delete(&NODE_CLAIMS, "", &name, &DeleteOptions::default()).unwrap();
    });
    assert!(unseen.contains("no NodeClaim mirrors claim general-"), "{unseen}");
}

/// Changes the open cost record.
fn change_costs(run: &Run, change: impl FnOnce(&mut nodeless_bill::Open)) {
    let claims = run.driver.claims();
    let stored = claims.open_costs().now_or_never().unwrap().unwrap();
    let mut open: nodeless_bill::Open = nodeless_bill::decode(&stored.encoded).unwrap();
    change(&mut open);
    let changed = StoredCosts { encoded: nodeless_bill::encode(&open).unwrap(), ..stored };
    claims.put_costs(&changed, &[]).now_or_never().unwrap().unwrap();
}

#[test]
fn cost_records_without_the_time_of_an_instance_or_with_it_twice_are_reported() {
    let mut run = calm();
    let until = after(run.scenario.start, SignedDuration::from_mins(30));
    run.advance(until, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    let mut found = |change: fn(&mut nodeless_bill::Open)| {
        change_costs(&run, change);
        run.oracle.check(&run.driver);
        run.oracle.check_recorded_time(&run.driver);
        std::mem::take(&mut run.oracle.violations).into_iter().map(|it| it.invariant).collect::<Vec<_>>()
    };
    assert_eq!(found(|_| {}), Vec::<&str>::new());
    let invariant = ["the cost records have the time of every instance"];
    assert_eq!(found(|open| open.hours[0].offerings[0].seconds -= 600.0), invariant);
    assert_eq!(found(|open| open.hours[0].offerings[0].seconds += 1200.0), invariant);
}
