//! Disruption commands, from the proposal to the end. Commands during which a process ends
//! are tested in `crash_points.rs`.

use crate::common::{
    Harness, check_drifted_away, check_order, check_quiescent, drift, invalid_pod, phases, pod, running_cluster,
    watched,
};
use nodeless_fake_kubernetes::resource::NODES;
use nodeless_model::claim::condition;
use nodeless_model::{Phase, Taint};
use nodeless_state::plans::StoredCommand;
use serde_json::json;

fn events(harness: &Harness, reason: &str) -> usize {
    harness.cluster.events_of(reason).len()
}

/// The node drifts, and its replacement is on its way.
async fn drift_until_waiting(harness: &mut Harness) {
    drift(harness);
    harness.queue_wake().await;
    for _ in 0..60 {
        harness.tick().await;
        if harness.claims.commands().await.unwrap().iter().any(|command| command.summary.contains("Waiting")) {
            return;
        }
    }
    panic!("no command waits for its replacement");
}

fn tainted(harness: &Harness) -> usize {
    harness.cluster.nodes().values().filter(|node| node.has_taint(&Taint::disrupted())).count()
}

#[tokio::test]
async fn a_pause_gives_back_what_a_command_has_taken() {
    let mut harness = running_cluster(1).await;
    let old = harness.records().await[0].clone();
    drift_until_waiting(&mut harness).await;
    assert_eq!(tainted(&harness), 1);
    harness.cluster.annotate_cluster("nodeless.sh/pause-disruption", Some("true"));
    watched(&mut harness, 3).await;
    assert!(harness.claims.commands().await.unwrap().is_empty());
    let claim = harness.claims.get(&old.name).await.unwrap().unwrap();
    assert_eq!(
        (claim.phase, claim.status.command, tainted(&harness), harness.cluster.bound()),
        (Phase::Initialized, None, 0, 1)
    );
    assert!(events(&harness, "DisruptionBlocked") > 0);
    harness.cluster.annotate_cluster("nodeless.sh/pause-disruption", None);
    watched(&mut harness, 12).await;
    check_quiescent(&harness, 1, 1, "after the pause").await;
    check_drifted_away(&harness, "after the pause").await;
}

#[tokio::test]
async fn what_cannot_be_understood_does_not_keep_nodes_tainted_for_ever() {
    let mut harness = running_cluster(1).await;
    let old = harness.records().await[0].clone();
    let node = harness.cluster.nodes().into_keys().next().unwrap();
    drift_until_waiting(&mut harness).await;
    harness.cluster.add_pods([invalid_pod("odd", Some(&node))]);
    watched(&mut harness, 5).await;
    let phase = async |harness: &Harness| harness.claims.get(&old.name).await.unwrap().unwrap().phase;
    assert_eq!((phase(&harness).await, tainted(&harness)), (Phase::Initialized, 1), "in doubt nothing is drained");
    watched(&mut harness, 7).await;
    assert_eq!((phase(&harness).await, tainted(&harness)), (Phase::Initialized, 0), "the time is over");
    assert!(harness.claims.commands().await.unwrap().is_empty());
    harness.cluster.remove_pod("odd");
    watched(&mut harness, 12).await;
    check_quiescent(&harness, 1, 1, "once everything is understood").await;
    check_drifted_away(&harness, "once everything is understood").await;
}

/// The API server's watch is behind: the claim is registered, and the view does not have its node.
#[tokio::test]
async fn a_node_that_the_view_does_not_have_yet_is_not_launched_again() {
    let mut harness = Harness::new().await;
    harness.cluster.add_pods([pod("web", 1500)]);
    harness.queue_wake().await;
    while harness.records().await.first().is_none_or(|claim| claim.phase < Phase::Registered) {
        harness.tick().await;
    }
    let node = harness.cluster.nodes().into_keys().next().unwrap();
    harness.cluster.patch(&NODES, &node, json!({ "metadata": { "finalizers": null } }));
    harness.cluster.delete(&NODES, &node);
    harness.cluster.remove_all_pods();
    harness.cluster.add_pods([pod("web", 1500)]);
    let report = harness.planner().run().await.unwrap();
    assert_eq!((report.pods, report.placed, report.created.len()), (1, 1, 0), "{report:?}");
    // A node that is missing for so long was deleted.
    for _ in 0..3 {
        harness.clock.advance_to(harness.clock.time().checked_add(std::time::Duration::from_secs(60)).unwrap());
    }
    let report = harness.planner().run().await.unwrap();
    assert_eq!((report.pods, report.placed, report.created.len()), (1, 0, 1), "{report:?}");
}

#[tokio::test]
async fn a_drifted_node_is_tainted_replaced_and_drained_in_this_order() {
    let mut harness = running_cluster(1).await;
    let old = harness.records().await[0].clone();
    drift(&harness);
    harness.queue_wake().await;
    let mut seen: Vec<String> = Vec::new();
    for _ in 0..72 {
        let before = phases(&harness).await;
        harness.tick().await;
        check_order(&harness, &before).await;
        for command in harness.claims.commands().await.unwrap() {
            let phase = command.summary.split([',', ':']).nth(1).unwrap().trim().to_owned();
            if seen.last() != Some(&phase) {
                seen.push(phase);
            }
        }
    }
    assert!(seen.len() >= 3 && seen[0] == "Proposed" && seen.contains(&"Waiting".into()), "{seen:?}");
    check_quiescent(&harness, 1, 1, "at the end").await;
    check_drifted_away(&harness, "at the end").await;
    assert_eq!(harness.cloud.launched(), 2, "one for the pod and one for its node, and none for the pod again");
    assert!(harness.claims.get(&old.name).await.unwrap().is_none());
    let launching = harness.cluster.events_of("DisruptionLaunching").remove(0);
    let replaced: Vec<&str> = nodeless_disruption::command::replaced_nodes(&launching.message).collect();
    assert_eq!(replaced, [old.status.node_name.as_deref().unwrap()], "{launching:?}");
    for reason in ["DisruptionLaunching", "DisruptionWaitingReadiness", "DisruptionTerminating"] {
        assert!(events(&harness, reason) > 0, "{reason}");
    }
    let decisions = harness.claims.decisions(100).await.unwrap();
    let reported = decisions.iter().find(|decision| decision.kind == "disruption").unwrap();
    assert_eq!(reported.subjects, [old.name]);
    let detail = nodeless_planner::unpacked(&reported.detail).unwrap();
    let command = &detail["commands"][0];
    assert_eq!((&command["reason"], command["nodes"].as_array().unwrap().len()), (&"Drifted".into(), 1), "{detail}");
    assert_eq!(detail["claims"].as_array().unwrap().len(), 1, "the replacement: {detail}");
}

#[tokio::test]
async fn the_capacity_of_a_replacement_is_kept_for_its_pods_and_not_launched_twice() {
    let mut harness = running_cluster(1).await;
    drift_until_waiting(&mut harness).await;
    let report = harness.planner().run().await.unwrap();
    assert_eq!((report.pods, report.placed, report.created.len()), (1, 1, 0), "the pod that has to move has a place");
    // Another pod that would fit on the replacement too gets a node of its own.
    harness.cluster.add_replica_sets([pod("other", 3000)]);
    let report = harness.planner().run().await.unwrap();
    assert_eq!((report.pods, report.created.len()), (2, 1), "{report:?}");
    watched(&mut harness, 8).await;
    check_quiescent(&harness, 2, 2, "at the end").await;
    check_drifted_away(&harness, "at the end").await;
    assert_eq!(harness.cloud.launched(), 3);
}

#[tokio::test]
async fn a_replacement_that_cannot_be_launched_gives_the_node_back() {
    let mut harness = running_cluster(1).await;
    let old = harness.records().await[0].clone();
    harness.cloud.set_capacity(Some(0));
    drift(&harness);
    harness.queue_wake().await;
    harness.until("it is rolled back", |harness| events(harness, "DisruptionBlocked") > 0).await;
    let mut rested = false;
    for _ in 0..24 {
        watched(&mut harness, 1).await;
        let claim = harness.claims.get(&old.name).await.unwrap().unwrap();
        assert_eq!((claim.phase, harness.cluster.bound()), (Phase::Initialized, 1));
        rested |= tainted(&harness) == 0
            && claim.status.command.is_none()
            && claim.condition(condition::DISRUPTION_REASON).is_none();
    }
    assert!(rested, "the taint or the mark stays for ever");
    let reported = harness.claims.decisions(100).await.unwrap();
    assert!(reported.iter().any(|decision| decision.kind == "disruption-rolled-back"), "{reported:#?}");
    harness.cloud.set_capacity(None);
    watched(&mut harness, 10).await;
    check_quiescent(&harness, 1, 1, "once there is capacity").await;
    check_drifted_away(&harness, "once there is capacity").await;
}

#[tokio::test]
async fn a_replacement_that_passes_a_limit_is_not_launched() {
    let mut harness = running_cluster(1).await;
    drift(&harness);
    harness.queue_wake().await;
    let proposed = async |harness: &Harness| !harness.claims.commands().await.unwrap().is_empty();
    while !proposed(&harness).await {
        harness.tick().await;
    }
    // The limit is lowered between the proposal and the launch.
    harness.cluster.patch_node_pool(json!({ "spec": { "limits": { "cpu": null, "nodes": "1" } } }));
    for _ in 0..72 {
        harness.tick().await;
        assert!(harness.cloud.alive().len() <= 1);
    }
    // The node goes first then, and the next comes when it is gone.
    check_quiescent(&harness, 1, 1, "at its limit").await;
    check_drifted_away(&harness, "at its limit").await;
    assert_eq!(harness.cloud.launched(), 2);
}

#[tokio::test]
async fn a_command_that_cannot_be_understood_stops_disruption_and_nothing_else() {
    let mut harness = running_cluster(1).await;
    let odd =
        StoredCommand { id: "odd".into(), version: 0, summary: String::new(), encoded: b"of another version".to_vec() };
    harness.claims.put_command(&odd).await.unwrap();
    drift(&harness);
    harness.cluster.add_replica_sets([pod("other", 3000)]);
    harness.queue_wake().await;
    watched(&mut harness, 4).await;
    assert_eq!((harness.cloud.launched(), harness.cluster.bound()), (2, 2));
    let report = harness.planner().run().await.unwrap();
    assert!(report.problems.iter().any(|problem| problem.contains("command#odd")), "{:?}", report.problems);
    harness.claims.delete_command(&StoredCommand { version: 1, ..odd }).await.unwrap();
    watched(&mut harness, 12).await;
    check_quiescent(&harness, 2, 2, "at the end").await;
    check_drifted_away(&harness, "at the end").await;
}

#[tokio::test]
async fn a_claim_whose_command_is_gone_is_released() {
    let mut harness = running_cluster(1).await;
    let mut claim = harness.records().await[0].clone();
    claim.status.command = Some("forgotten".into());
    harness.claims.update(&claim, None).await.unwrap();
    harness.reconciler().run(&claim.name).await.unwrap();
    assert!(harness.cluster.nodes().values().all(|node| node.has_taint(&Taint::disrupted())));
    watched(&mut harness, 2).await;
    let claim = harness.records().await[0].clone();
    assert_eq!((claim.status.command, claim.phase), (None, Phase::Initialized));
    assert!(harness.cluster.nodes().values().all(|node| !node.has_taint(&Taint::disrupted())));
}

#[tokio::test]
async fn what_did_not_become_ready_is_not_launched_again_at_once() {
    let mut harness = running_cluster(1).await;
    harness.cloud.spoil_joins(20);
    drift(&harness);
    harness.queue_wake().await;
    let rolled_back = async |harness: &Harness| {
        let all = harness.claims.decisions(100).await.unwrap();
        all.iter().filter(|decision| decision.kind == "disruption-rolled-back").count()
    };
    watched(&mut harness, 28).await;
    assert_eq!((rolled_back(&harness).await, harness.cloud.launched()), (1, 2));
    let blocked = harness.cluster.events_of("DisruptionBlocked");
    assert!(blocked.iter().any(|event| event.message.contains("did not become ready")), "{blocked:?}");
    // Twenty minutes after the first one, and forty after the second one.
    watched(&mut harness, 50).await;
    assert_eq!((rolled_back(&harness).await, harness.cloud.launched()), (2, 3));
    // Another template may become ready.
    harness.repair_joins();
    let labels = json!({ "spec": { "template": { "metadata": { "labels": { "repaired": "yes" } } } } });
    harness.cluster.patch_node_pool(labels);
    watched(&mut harness, 12).await;
    check_quiescent(&harness, 1, 1, "at the end").await;
    check_drifted_away(&harness, "at the end").await;
}
