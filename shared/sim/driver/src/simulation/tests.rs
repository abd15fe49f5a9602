//! Each invariant can be broken: a healthy cluster is damaged in one place, and the oracle must report it.

use super::disruption_tests::command;
use super::pod_tests::effect;
use super::*;
use crate::Outcome;
use crate::invariants::ClaimObjects;
use crate::scenarios::other_objects::{is_instance_of_other, is_of_other};
use futures::FutureExt as _;
use nodeless_fake_kubernetes::controllers::object::{NewEvent, publish};
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, NODES, PODS};
use nodeless_fake_kubernetes::{DeleteOptions, ListOptions, PatchOptions, PatchType, Resource};
use nodeless_lifecycle::begin_termination;
use nodeless_model::claim::TerminationReason;
use nodeless_model::{NodeClaim, Phase, Taint, TaintEffect, labels};
use nodeless_reconciler::SweepReport;
use nodeless_state::costs::StoredCosts;
use nodeless_telemetry::Null;
use nodeless_world::fault_injection::Observer as _;
use nodeless_world::ports::FIELD_MANAGER;
use nodeless_world::resources::{NODE_CLAIMS, NODE_POOLS};
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
fn no_instance_may_be_without_a_claim_for_long() {
    let mut run = calm();
    let claim = claims(&run).remove(0);
    run.driver.claims().delete(&claim).now_or_never().unwrap().unwrap();
    assert_eq!(broken(&mut run), BTreeSet::new(), "not yet");
    let later = after(run.driver.world().now(), SignedDuration::from_mins(11));
    run.driver.world_mut().advance_to(later).unwrap();
    assert_eq!(broken(&mut run), only("no instance is without a claim for more than ten minutes"));
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
