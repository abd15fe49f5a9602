//! Disruption commands, from the proposal to the end, and after a process ended in the middle.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Town, pod};
use nodeless_model::claim::{TerminationReason, condition};
use nodeless_model::{NodeClaim, Phase, Quantity, ResourceList, Taint};
use nodeless_ports::Claims;
use nodeless_ports::claims::StoredCommand;
use std::collections::BTreeMap;

/// A town with one node for each pod.
async fn running_town(pods: usize) -> Town {
    let mut town = Town::new().await;
    town.cluster.lock().respawn = true;
    town.cluster.add_pods((0..pods).map(|number| pod(&format!("web-{number}"), 3000)));
    town.queue_wake().await;
    town.until("pods run", |town| town.cluster.bound() == pods).await;
    town.minutes(2).await;
    town
}

/// The NodePool changes, so that every node that was made before drifts.
fn drift(town: &Town) {
    town.cluster.lock().pools[0].hash = "changed".into();
}

/// Ticks, and looks each time: no node of a command is drained before its replacement is ready, and no claim ever belongs to
/// two commands.
async fn watched(town: &mut Town, minutes: u32) {
    for _ in 0..minutes * 12 {
        let before = phases(town).await;
        town.tick().await;
        check(town, &before).await;
    }
}

async fn phases(town: &Town) -> BTreeMap<String, Phase> {
    town.records().await.into_iter().map(|claim| (claim.name, claim.phase)).collect()
}

async fn check(town: &Town, before: &BTreeMap<String, Phase>) {
    let records = town.records().await;
    for claim in &records {
        let by_choice = [TerminationReason::Drifted, TerminationReason::Underutilized];
        let chosen = claim.status.termination.as_ref().is_some_and(|end| by_choice.contains(&end.reason));
        if !chosen || before.get(&claim.name).is_some_and(|phase| phase.is_leaving()) {
            continue;
        }
        let replaced_by: Vec<&NodeClaim> =
            records.iter().filter(|other| other.spec.replaces.contains(&claim.name)).collect();
        // Nothing replaces a node whose pods have gone, or fit on nodes that are there already.
        let ready = replaced_by.is_empty() || replaced_by.iter().any(|other| other.phase == Phase::Initialized);
        assert!(ready, "{} is drained before its replacement is ready: {records:#?}", claim.name);
    }
}

fn events(town: &Town, reason: &str) -> usize {
    town.cluster.lock().events.iter().filter(|event| event.reason == reason).count()
}

/// All nodes of the new kind, one for each pod, nothing left over.
async fn check_replaced(town: &Town, pods: usize, when: &str) {
    let records = town.records().await;
    assert_eq!((records.len(), town.cloud.alive().len()), (pods, pods), "{when}: {records:#?}");
    assert_eq!(town.cluster.bound(), pods, "{when}");
    assert!(town.claims.commands().await.unwrap().is_empty(), "{when}: a command never ended");
    for claim in &records {
        assert_eq!(claim.phase, Phase::Initialized, "{when}");
        assert!(claim.status.command.is_none(), "{when}: {} is still taken", claim.name);
        let hash = claim.spec.annotations.get(nodeless_model::labels::NODE_POOL_HASH);
        assert_eq!(hash.map(String::as_str), Some("changed"), "{when}");
    }
    let state = town.cluster.lock();
    assert!(state.nodes.values().all(|node| !node.has_taint(&Taint::disrupted())), "{when}: a taint is left");
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
        check(&town, &before).await;
        for command in town.claims.commands().await.unwrap() {
            let phase = command.summary.split([',', ':']).nth(1).unwrap().trim().to_owned();
            if seen.last() != Some(&phase) {
                seen.push(phase);
            }
        }
    }
    assert!(seen.len() >= 3 && seen[0] == "Proposed" && seen.contains(&"Waiting".into()), "{seen:?}");
    check_replaced(&town, 1, "at the end").await;
    assert_eq!(town.cloud.launched(), 2, "one for the pod and one for its node, and none for the pod again");
    assert!(town.claims.get(&old.name).await.unwrap().is_none());
    for reason in ["DisruptionLaunching", "DisruptionWaitingReadiness", "DisruptionTerminating"] {
        assert!(events(&town, reason) > 0, "{reason}");
    }
    let decisions = town.claims.decisions(100).await.unwrap();
    let told = decisions.iter().find(|decision| decision.kind == "disruption").unwrap();
    assert_eq!(told.subjects, [old.name]);
    assert!(told.detail.contains("candidates"), "{}", told.detail);
}

#[tokio::test]
async fn the_room_of_a_replacement_is_not_given_away_and_not_launched_twice() {
    let mut town = running_town(1).await;
    drift(&town);
    town.queue_wake().await;
    let mut waiting = false;
    for _ in 0..60 {
        town.tick().await;
        if town.claims.commands().await.unwrap().iter().any(|command| command.summary.contains("Waiting")) {
            waiting = true;
            break;
        }
    }
    assert!(waiting, "no command waits for its replacement");
    let report = town.planner().run().await.unwrap();
    assert_eq!((report.pods, report.placed, report.created.len()), (1, 1, 0), "the pod that has to move has a place");
    // Another pod comes that would fit there too: it gets a node of its own.
    town.cluster.add_pods([pod("other", 3000)]);
    let report = town.planner().run().await.unwrap();
    assert_eq!((report.pods, report.created.len()), (2, 1), "{report:?}");
    watched(&mut town, 8).await;
    check_replaced(&town, 2, "at the end").await;
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
    let told = town.claims.decisions(100).await.unwrap();
    assert!(told.iter().any(|decision| decision.kind == "disruption-rolled-back"), "{told:#?}");
    town.cloud.set_capacity(None);
    watched(&mut town, 10).await;
    check_replaced(&town, 1, "once there is capacity").await;
}

#[tokio::test]
async fn a_replacement_that_passes_a_limit_is_not_launched() {
    let mut town = running_town(1).await;
    town.cluster.lock().pools[0].limits = ResourceList::from([("nodes", Quantity::from_units(1))]);
    drift(&town);
    watched(&mut town, 6).await;
    assert_eq!((town.cloud.launched(), town.cluster.bound(), town.records().await.len()), (1, 1, 1));
    assert_eq!(town.records().await[0].phase, Phase::Initialized);
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
    check_replaced(&town, 2, "at the end").await;
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

/// Two drifted nodes are replaced one after the other.
async fn drift_life(town: &mut Town, when: &str) {
    drift(town);
    town.queue_wake().await;
    for _ in 0..40 {
        watched(town, 1).await;
        let done = town.records().await.iter().all(|claim| {
            claim.phase == Phase::Initialized
                && claim
                    .spec
                    .annotations
                    .get(nodeless_model::labels::NODE_POOL_HASH)
                    .is_some_and(|hash| hash == "changed")
        });
        if done && town.cluster.bound() == 2 && town.claims.commands().await.unwrap().is_empty() {
            break;
        }
    }
    watched(town, 3).await;
    check_replaced(town, 2, when).await;
}

#[tokio::test]
async fn a_drift_replacement_survives_the_end_of_its_process_after_any_write() {
    let mut town = running_town(2).await;
    town.faults.revive();
    drift_life(&mut town, "undisturbed").await;
    assert_eq!(town.cloud.launched(), 4);
    let (writes, _) = town.faults.revive();
    assert!(writes > 60, "only {writes} writes: the scenario has shrunk");
    for write in 0..writes {
        for done in [false, true] {
            let mut town = running_town(2).await;
            town.faults.revive();
            town.faults.die_at(write, done);
            drift_life(&mut town, &format!("write {write}, done {done}")).await;
            assert!(town.cloud.launched() <= 5, "write {write}, done {done}: {} launches", town.cloud.launched());
        }
    }
}

/// A large node has a small pod left, so that a smaller node does.
async fn oversized_town() -> Town {
    let town = running_town(1).await;
    {
        let mut state = town.cluster.lock();
        state.pools[0].disruption.consolidation_policy = nodeless_model::ConsolidationPolicy::WhenEmptyOrUnderutilized;
        for pod in state.pods.values_mut() {
            pod.requests.set("cpu", Quantity::from_milli(500));
        }
    }
    town.faults.revive();
    town
}

/// The node is replaced by a cheaper one, and that one stays.
async fn consolidation_life(town: &mut Town, when: &str) {
    let before = town.cloud.alive()[0].id.clone();
    let price = town.records().await[0].status.instance.as_ref().unwrap().price;
    for _ in 0..40 {
        watched(town, 1).await;
        let alive = town.cloud.alive();
        if alive.len() == 1 && alive[0].id != before && town.claims.commands().await.unwrap().is_empty() {
            break;
        }
    }
    watched(town, 3).await;
    let records = town.records().await;
    assert_eq!((records.len(), town.cloud.alive().len(), town.cluster.bound()), (1, 1, 1), "{when}: {records:#?}");
    let kept = &records[0];
    assert!(kept.status.instance.as_ref().unwrap().price < price, "{when}: {kept:#?}");
    assert!(kept.status.command.is_none() && kept.phase == Phase::Initialized, "{when}: {kept:#?}");
    assert!(town.claims.commands().await.unwrap().is_empty(), "{when}");
    let state = town.cluster.lock();
    assert!(state.nodes.values().all(|node| !node.has_taint(&Taint::disrupted())), "{when}: a taint is left");
}

#[tokio::test]
async fn a_consolidation_survives_the_end_of_its_process_after_any_write() {
    let mut town = oversized_town().await;
    consolidation_life(&mut town, "undisturbed").await;
    assert_eq!(town.cloud.launched(), 2);
    let (writes, _) = town.faults.revive();
    assert!(writes > 30, "only {writes} writes: the scenario has shrunk");
    for write in 0..writes {
        for done in [false, true] {
            let mut town = oversized_town().await;
            town.faults.die_at(write, done);
            consolidation_life(&mut town, &format!("write {write}, done {done}")).await;
            assert!(town.cloud.launched() <= 3, "write {write}, done {done}: {} launches", town.cloud.launched());
        }
    }
}
