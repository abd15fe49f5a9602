//! Disruption commands, from the proposal to the end. What becomes of them when a process ends in the middle is in
//! `crash_points.rs`.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Town, check_drifted_away, check_order, check_quiescent, drift, phases, pod, running_town, watched};
use nodeless_model::claim::condition;
use nodeless_model::{Phase, Quantity, ResourceList, Taint};
use nodeless_ports::cluster::InvalidObject;
use nodeless_ports::plans::StoredCommand;
use nodeless_ports::{Claims, Decisions, Plans};

fn events(town: &Town, reason: &str) -> usize {
    town.cluster.lock().events.iter().filter(|event| event.reason == reason).count()
}

/// The node drifts, and its replacement is on its way.
async fn drift_until_waiting(town: &mut Town) {
    drift(town);
    town.queue_wake().await;
    for _ in 0..60 {
        town.tick().await;
        if town.claims.commands().await.unwrap().iter().any(|command| command.summary.contains("Waiting")) {
            return;
        }
    }
    panic!("no command waits for its replacement");
}

fn tainted(town: &Town) -> usize {
    town.cluster.lock().nodes.values().filter(|node| node.has_taint(&Taint::disrupted())).count()
}

#[tokio::test]
async fn a_pause_gives_back_what_a_command_has_taken() {
    let mut town = running_town(1).await;
    let old = town.records().await[0].clone();
    drift_until_waiting(&mut town).await;
    assert_eq!(tainted(&town), 1);
    town.cluster.lock().annotations.insert("nodeless.sh/pause-disruption".into(), "true".into());
    watched(&mut town, 3).await;
    assert!(town.claims.commands().await.unwrap().is_empty());
    let claim = town.claims.get(&old.name).await.unwrap().unwrap();
    assert_eq!(
        (claim.phase, claim.status.command, tainted(&town), town.cluster.bound()),
        (Phase::Initialized, None, 0, 1)
    );
    assert!(events(&town, "DisruptionBlocked") > 0);
    town.cluster.lock().annotations.clear();
    watched(&mut town, 12).await;
    check_quiescent(&town, 1, 1, "after the pause").await;
    check_drifted_away(&town, "after the pause").await;
}

#[tokio::test]
async fn what_cannot_be_understood_does_not_keep_nodes_tainted_for_ever() {
    let mut town = running_town(1).await;
    let old = town.records().await[0].clone();
    drift_until_waiting(&mut town).await;
    let odd = InvalidObject { kind: "Pod".into(), name: "default/odd".into(), message: "spec: odd".into() };
    town.cluster.lock().invalid.push(odd);
    watched(&mut town, 5).await;
    let phase = async |town: &Town| town.claims.get(&old.name).await.unwrap().unwrap().phase;
    assert_eq!((phase(&town).await, tainted(&town)), (Phase::Initialized, 1), "in doubt nothing is drained");
    watched(&mut town, 7).await;
    assert_eq!((phase(&town).await, tainted(&town)), (Phase::Initialized, 0), "the time is over");
    assert!(town.claims.commands().await.unwrap().is_empty());
    town.cluster.lock().invalid.clear();
    watched(&mut town, 12).await;
    check_quiescent(&town, 1, 1, "once everything is understood").await;
    check_drifted_away(&town, "once everything is understood").await;
}

/// The API server's watch is behind: the node is there, and the view does not have it yet.
#[tokio::test]
async fn a_node_that_the_view_does_not_have_yet_is_not_launched_again() {
    let mut town = Town::new().await;
    town.cluster.add_pods([pod("web", 1500)]);
    town.queue_wake().await;
    while town.records().await.first().is_none_or(|claim| claim.phase < Phase::Registered) {
        town.tick().await;
    }
    let seen = {
        let mut state = town.cluster.lock();
        let pod = state.pods.values_mut().next().unwrap();
        (pod.node_name, pod.marked_unschedulable) = (None, true);
        std::mem::take(&mut state.nodes)
    };
    let report = town.planner().run().await.unwrap();
    assert_eq!((report.pods, report.placed, report.created.len()), (1, 1, 0), "{report:?}");
    // A node that is missing for so long was deleted.
    for _ in 0..3 {
        town.clock.advance_to(town.clock.time().checked_add(std::time::Duration::from_secs(60)).unwrap());
    }
    let report = town.planner().run().await.unwrap();
    assert_eq!((report.pods, report.placed, report.created.len()), (1, 0, 1), "{report:?}");
    town.cluster.lock().nodes = seen;
}

#[tokio::test]
async fn a_drifted_node_is_tainted_replaced_and_drained_in_this_order() {
    let mut town = running_town(1).await;
    let old = town.records().await[0].clone();
    drift(&town);
    town.queue_wake().await;
    let mut seen: Vec<String> = Vec::new();
    for _ in 0..72 {
        let before = phases(&town).await;
        town.tick().await;
        check_order(&town, &before).await;
        for command in town.claims.commands().await.unwrap() {
            let phase = command.summary.split([',', ':']).nth(1).unwrap().trim().to_owned();
            if seen.last() != Some(&phase) {
                seen.push(phase);
            }
        }
    }
    assert!(seen.len() >= 3 && seen[0] == "Proposed" && seen.contains(&"Waiting".into()), "{seen:?}");
    check_quiescent(&town, 1, 1, "at the end").await;
    check_drifted_away(&town, "at the end").await;
    assert_eq!(town.cloud.launched(), 2, "one for the pod and one for its node, and none for the pod again");
    assert!(town.claims.get(&old.name).await.unwrap().is_none());
    for reason in ["DisruptionLaunching", "DisruptionWaitingReadiness", "DisruptionTerminating"] {
        assert!(events(&town, reason) > 0, "{reason}");
    }
    let decisions = town.claims.decisions(100).await.unwrap();
    let reported = decisions.iter().find(|decision| decision.kind == "disruption").unwrap();
    assert_eq!(reported.subjects, [old.name]);
    let detail = nodeless_operations::plan::unpacked(&reported.detail).unwrap();
    let command = &detail["commands"][0];
    assert_eq!((&command["reason"], command["nodes"].as_array().unwrap().len()), (&"Drifted".into(), 1), "{detail}");
    assert_eq!(detail["claims"].as_array().unwrap().len(), 1, "the replacement: {detail}");
}

#[tokio::test]
async fn the_room_of_a_replacement_is_not_given_away_and_not_launched_twice() {
    let mut town = running_town(1).await;
    drift_until_waiting(&mut town).await;
    let report = town.planner().run().await.unwrap();
    assert_eq!((report.pods, report.placed, report.created.len()), (1, 1, 0), "the pod that has to move has a place");
    // Another pod comes that would fit there too: it gets a node of its own.
    town.cluster.add_pods([pod("other", 3000)]);
    let report = town.planner().run().await.unwrap();
    assert_eq!((report.pods, report.created.len()), (2, 1), "{report:?}");
    watched(&mut town, 8).await;
    check_quiescent(&town, 2, 2, "at the end").await;
    check_drifted_away(&town, "at the end").await;
    assert_eq!(town.cloud.launched(), 3);
}

#[tokio::test]
async fn a_replacement_that_cannot_be_launched_gives_the_node_back() {
    let mut town = running_town(1).await;
    let old = town.records().await[0].clone();
    town.cloud.set_capacity(Some(0));
    drift(&town);
    town.queue_wake().await;
    town.until("it is rolled back", |town| events(town, "DisruptionBlocked") > 0).await;
    let mut rested = false;
    for _ in 0..24 {
        watched(&mut town, 1).await;
        let claim = town.claims.get(&old.name).await.unwrap().unwrap();
        assert_eq!((claim.phase, town.cluster.bound()), (Phase::Initialized, 1));
        let state = town.cluster.lock();
        let tainted = state.nodes.values().any(|node| node.has_taint(&Taint::disrupted()));
        rested |= !tainted && claim.status.command.is_none() && claim.condition(condition::DISRUPTION_REASON).is_none();
    }
    assert!(rested, "the taint or the mark stays for ever");
    let reported = town.claims.decisions(100).await.unwrap();
    assert!(reported.iter().any(|decision| decision.kind == "disruption-rolled-back"), "{reported:#?}");
    town.cloud.set_capacity(None);
    watched(&mut town, 10).await;
    check_quiescent(&town, 1, 1, "once there is capacity").await;
    check_drifted_away(&town, "once there is capacity").await;
}

#[tokio::test]
async fn a_replacement_that_passes_a_limit_is_not_launched() {
    let mut town = running_town(1).await;
    drift(&town);
    town.queue_wake().await;
    let proposed = async |town: &Town| !town.claims.commands().await.unwrap().is_empty();
    while !proposed(&town).await {
        town.tick().await;
    }
    // The limit is lowered between the proposal and the launch.
    town.cluster.lock().pools[0].limits = ResourceList::from([("nodes", Quantity::from_units(1))]);
    for _ in 0..72 {
        town.tick().await;
        assert!(town.cloud.alive().len() <= 1);
    }
    // The node goes first then, and the next comes when it is gone.
    check_quiescent(&town, 1, 1, "at its limit").await;
    check_drifted_away(&town, "at its limit").await;
    assert_eq!(town.cloud.launched(), 2);
}

#[tokio::test]
async fn a_command_that_cannot_be_understood_stops_disruption_and_nothing_else() {
    let mut town = running_town(1).await;
    let odd =
        StoredCommand { id: "odd".into(), version: 0, summary: String::new(), encoded: b"of another version".to_vec() };
    town.claims.put_command(&odd).await.unwrap();
    drift(&town);
    town.cluster.add_pods([pod("other", 3000)]);
    town.queue_wake().await;
    watched(&mut town, 4).await;
    assert_eq!((town.cloud.launched(), town.cluster.bound()), (2, 2));
    let report = town.planner().run().await.unwrap();
    assert!(report.problems.iter().any(|problem| problem.contains("command#odd")), "{:?}", report.problems);
    town.claims.delete_command(&StoredCommand { version: 1, ..odd }).await.unwrap();
    watched(&mut town, 12).await;
    check_quiescent(&town, 2, 2, "at the end").await;
    check_drifted_away(&town, "at the end").await;
}

#[tokio::test]
async fn a_claim_whose_command_is_gone_is_released() {
    let mut town = running_town(1).await;
    let mut claim = town.records().await[0].clone();
    claim.status.command = Some("forgotten".into());
    town.claims.update(&claim, None).await.unwrap();
    town.reconciler().run(&claim.name).await.unwrap();
    assert!(town.cluster.lock().nodes.values().all(|node| node.has_taint(&Taint::disrupted())));
    watched(&mut town, 2).await;
    let claim = town.records().await[0].clone();
    assert_eq!((claim.status.command, claim.phase), (None, Phase::Initialized));
    assert!(town.cluster.lock().nodes.values().all(|node| !node.has_taint(&Taint::disrupted())));
}
