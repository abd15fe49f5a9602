//! Zonal shifts: nothing is launched in the zone, its nodes stay, and its instances are left alone until that is over.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Town, pod};
use jiff::{SignedDuration, Timestamp};
use nodeless_lifecycle::Collection;
use nodeless_model::instance::{FaultKind, InstanceFault};
use nodeless_model::{Phase, StringMap, labels};
use nodeless_operations::plan::decode_command;
use nodeless_ports::{Claims, Clock, ErrorKind, Plans};
use std::collections::BTreeSet;

/// us-east-1a, by its id in the catalog.
const ZONE: &str = "use1-az6";

fn after(town: &Town, minutes: i64) -> Timestamp {
    town.clock.now().checked_add(SignedDuration::from_mins(minutes)).unwrap()
}

async fn running_town(pods: usize) -> Town {
    let mut town = Town::new().await;
    town.cluster.add_pods((0..pods).map(|number| pod(&format!("web-{number}"), 3000)));
    town.queue_wake().await;
    town.until("pods run", |town| town.cluster.bound() == pods).await;
    town.minutes(2).await;
    town.queue.clear();
    town
}

/// The messages of the events with this reason, since the last call.
fn reported(town: &Town, reason: &str) -> Vec<String> {
    let mut state = town.cluster.lock();
    let (found, others) = std::mem::take(&mut state.events).into_iter().partition(|event| event.reason == reason);
    state.events = others;
    found.into_iter().inspect(|event| assert_eq!(event.object.kind, "NodePool")).map(|event| event.message).collect()
}

fn names(town: &Town) -> Vec<String> {
    town.cluster.lock().nodes.keys().cloned().collect()
}

/// Lets the EC2NodeClass launch in us-east-1a and us-east-1b.
fn in_two_zones(town: &Town) {
    let subnets =
        serde_json::json!([{ "id": "subnet-1", "zone": "us-east-1a" }, { "id": "subnet-2", "zone": "us-east-1b" }]);
    let class = town.cluster.lock().classes["default"].clone();
    let mut class = serde_json::to_value(class).unwrap();
    class["status"]["subnets"] = subnets;
    town.cluster.lock().classes.insert("default".into(), serde_json::from_value(class).unwrap());
}

#[tokio::test]
async fn pods_wait_for_a_zone_and_hear_why_until_the_shift_is_over() {
    let town = Town::new().await;
    let sweeper = town.sweeper();
    town.zonal_shifts.start(ZONE, Some(after(&town, 60)));
    sweeper.run().await.unwrap();
    assert!(town.queue.take_plan().is_some(), "a plan follows at once");
    let active = reported(&town, "ZonalShiftActive");
    assert!(active.len() == 1 && active[0].contains("us-east-1a (use1-az6)"), "{active:?}");

    town.cluster.add_pods([pod("web", 1000)]);
    let report = town.planner().run().await.unwrap();
    assert!(report.created.is_empty());
    assert!(report.unschedulable[0].1.contains("a zonal shift away from us-east-1a (use1-az6)"), "{report:?}");

    // Nothing changed, so nothing is stated or written. Once an hour launch templates are looked at, which is not now.
    town.clock.advance_to(after(&town, 1));
    town.faults.take_writes();
    sweeper.run().await.unwrap();
    assert_eq!((town.faults.take_writes(), reported(&town, "ZonalShiftActive").len()), (0, 0));

    town.zonal_shifts.cancel(ZONE);
    town.clock.advance_to(after(&town, 1));
    sweeper.run().await.unwrap();
    assert!(town.queue.take_plan().is_some());
    assert_eq!(reported(&town, "ZonalShiftCleared").len(), 1);
    assert_eq!(town.planner().run().await.unwrap().created.len(), 1);
}

#[tokio::test]
async fn pods_go_to_another_zone_and_back_after_it() {
    let mut town = Town::new().await;
    in_two_zones(&town);
    for (zone, other) in [("use1-az6", "us-east-1b"), ("use1-az1", "us-east-1a")] {
        town.zonal_shifts.start(zone, None);
        town.sweeper().run().await.unwrap();
        town.cluster.add_pods([pod(zone, 3000)]);
        town.queue_wake().await;
        let key = format!("default/{zone}");
        town.until("the pod runs", |town| town.cluster.lock().pods[&key].node_name.is_some()).await;
        let newest = town.records().await.into_iter().max_by_key(|claim| claim.created).unwrap();
        assert_eq!(newest.status.instance.unwrap().zone, other);
        town.zonal_shifts.cancel(zone);
        town.sweeper().run().await.unwrap();
    }
}

#[tokio::test]
async fn a_claim_that_was_planned_before_is_not_launched_there() {
    let town = Town::new().await;
    town.cluster.add_pods([pod("web", 1000)]);
    let name = town.planner().run().await.unwrap().created[0].clone();
    town.zonal_shifts.start(ZONE, None);
    town.sweeper().run().await.unwrap();
    town.reconciler().run(&name).await.unwrap();
    assert_eq!(town.cloud.launch_calls(), 0);
    assert!(town.claims.get(&name).await.unwrap().is_none_or(|claim| claim.phase.is_leaving()));
}

#[tokio::test]
async fn nodes_stay_by_choice_and_what_leaves_is_drained_but_not_terminated() {
    let mut town = running_town(2).await;
    let nodes = names(&town);
    town.zonal_shifts.start(ZONE, Some(after(&town, 60)));
    town.sweeper().run().await.unwrap();
    town.cluster.lock().pods.remove("default/web-1").unwrap();
    town.minutes(10).await;
    assert_eq!(names(&town), nodes, "an empty node is needed when the shift is over");
    let kept = town.planner().run().await.unwrap().kept;
    assert!(kept.iter().flat_map(|kept| &kept.reasons).any(|why| why.to_string().contains("zonal shift")), "{kept:?}");

    let full = town.cluster.lock().pods["default/web-0"].node_name.clone().unwrap();
    let records = town.records().await;
    let leaving = records.iter().find(|claim| claim.status.node_name.as_ref() == Some(&full)).unwrap();
    town.cluster.lock().mirrors.get_mut(&leaving.name).unwrap().deletion_timestamp = Some(town.clock.now());
    town.minutes(10).await;
    assert!(town.cluster.lock().pods.is_empty(), "its pod was evicted");
    let waits = town.claims.get(&leaving.name).await.unwrap().unwrap();
    assert_eq!((waits.phase, town.cloud.running().len()), (Phase::Terminating, 2));
    assert!(town.cluster.lock().nodes.contains_key(&full));

    town.zonal_shifts.cancel(ZONE);
    let deleted = leaving.name.clone();
    town.until("it goes", |town| !town.cluster.lock().mirrors.contains_key(&deleted)).await;
    town.until("the empty node goes, too", |town| town.cloud.alive().is_empty()).await;
}

#[tokio::test]
async fn while_arc_cannot_be_read_a_shift_holds_until_its_end() {
    let town = Town::new().await;
    town.zonal_shifts.start(ZONE, Some(after(&town, 10)));
    town.sweeper().run().await.unwrap();
    assert_eq!(reported(&town, "ZonalShiftActive").len(), 1);
    town.cluster.add_pods([pod("web", 1000)]);
    // It is cancelled while it cannot be read.
    town.zonal_shifts.cancel(ZONE);
    town.faults.fail("arc", ErrorKind::Denied);
    town.clock.advance_to(after(&town, 9));
    let report = town.sweeper().run().await.unwrap();
    assert!(report.problems[0].contains("zonal shifts: arc zonal shifts"), "{report:?}");
    assert!(town.planner().run().await.unwrap().created.is_empty());

    town.clock.advance_to(after(&town, 1));
    town.sweeper().run().await.unwrap();
    assert_eq!(reported(&town, "ZonalShiftCleared").len(), 1);
    assert_eq!(town.planner().run().await.unwrap().created.len(), 1);
}

#[tokio::test]
async fn a_zone_that_nobody_knows_is_told_and_stops_nothing() {
    let town = Town::new().await;
    town.zonal_shifts.start("use1-az99", None);
    let report = town.sweeper().run().await.unwrap();
    assert!(report.problems[0].contains("use1-az99"), "{report:?}");
    town.cluster.add_pods([pod("web", 1000)]);
    assert_eq!(town.planner().run().await.unwrap().created.len(), 1);
}

#[tokio::test]
async fn neither_orphans_nor_failing_instances_go_before_the_shift_is_over() {
    let town = running_town(1).await;
    let mut orphan = town.cloud.running()[0].clone();
    orphan.id = "i-orphan".into();
    orphan.tags = StringMap::from([(labels::NODE_POOL.into(), "default".into())]);
    town.cloud.put(orphan);
    let claim = town.records().await.remove(0);
    town.cloud.set_against(vec![InstanceFault {
        id: claim.status.instance.unwrap().id,
        kind: FaultKind::CheckFailed { check: "system", since: Some(after(&town, -10)) },
    }]);
    town.zonal_shifts.start(ZONE, None);
    assert_eq!(town.sweeper().run().await.unwrap().collected, []);
    assert_eq!(town.claims.get(&claim.name).await.unwrap().unwrap().phase, Phase::Initialized);
    assert_eq!(town.cloud.alive().len(), 2);

    town.zonal_shifts.cancel(ZONE);
    let report = town.sweeper().run().await.unwrap();
    assert!(
        matches!(&report.collected[..], [Collection::TerminateInstance { id, .. }] if id == "i-orphan"),
        "{report:?}"
    );
    assert!(town.claims.get(&claim.name).await.unwrap().unwrap().phase.is_leaving());
}

/// Half a tick: a plan, or a look at each claim that is due.
async fn act(town: &mut Town, plan: bool) {
    if plan {
        town.planner().run().await.unwrap();
    } else {
        for name in town.take_claims().await {
            town.reconciler().run(&name).await.unwrap();
        }
        town.cloud.boot();
        town.cluster.join(&town.cloud.running());
    }
    town.clock.advance_to(town.clock.now().checked_add(SignedDuration::from_secs(5)).unwrap());
}

/// A shift that begins at any moment of a drift command: whatever that still launches is launched elsewhere.
#[tokio::test]
async fn commands_under_way_launch_nothing_into_a_zone_that_is_shifted_away_from() {
    let (mut seen, mut elsewhere) = (BTreeSet::new(), 0);
    for acts in 1..16 {
        let mut town = running_town(1).await;
        in_two_zones(&town);
        town.cluster.lock().respawn = true;
        common::drift(&town);
        for number in 0..acts {
            act(&mut town, number % 2 == 0).await;
        }
        let command = town.claims.commands().await.unwrap().first().map(|stored| decode_command(stored).unwrap().phase);
        let made = town.records().await.into_iter().find(|claim| !claim.spec.replaces.is_empty());
        seen.insert(format!("{command:?} {:?}", made.map(|claim| claim.phase)));
        let since = town.clock.now();
        town.zonal_shifts.start(ZONE, Some(after(&town, 60)));
        town.sweeper().run().await.unwrap();
        town.minutes(20).await;
        let launched = town.cloud.alive().into_iter().filter(|instance| instance.launched >= since);
        let (inside, outside): (Vec<_>, Vec<_>) = launched.partition(|instance| instance.zone == "us-east-1a");
        assert!(inside.is_empty(), "after {acts} acts, {command:?}: {inside:?}");
        elsewhere += outside.len();
        assert_eq!(town.cluster.bound(), 1, "after {acts} acts, {command:?}");
    }
    let moments = ["Some(Proposed) None", "Some(Tainting) None", "Some(Waiting) Some(Reserved)"];
    assert!(moments.iter().all(|moment| seen.contains(*moment)) && elsewhere > 0, "{elsewhere}: {seen:#?}");
}
