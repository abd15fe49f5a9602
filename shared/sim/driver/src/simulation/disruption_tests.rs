//! What the invariants about voluntary disruption and commands find.

use super::pod_tests::effect;
use super::tests::{broken, calm, claims, leave, only, patch, pods, write};
use super::*;
use futures::FutureExt as _;
use nodeless_disruption::command::{CommandPhase, CommandRecord};
use nodeless_fake_kubernetes::DeleteOptions;
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, NAMESPACES, NODES, PODS};
use nodeless_model::claim::{TerminationReason, condition};
use nodeless_model::{CapacityType, ConditionStatus, NodeClaim, Phase, labels};
use nodeless_planner::encode_command;
use nodeless_world::fault_injection::Observer as _;
use nodeless_world::resources::NODE_POOLS;
use std::collections::BTreeSet;

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

/// Stores a command with these claims as candidates, and its replacements.
pub(super) fn command(run: &Run, id: &str, taken: &[&NodeClaim], replacements: Vec<NodeClaim>) {
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
