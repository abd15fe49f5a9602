//! Zonal shifts: nothing is launched in the zone, its nodes stay, and its instances are left alone until that is over.

use crate::common::{Harness, pod};
use jiff::{SignedDuration, Timestamp};
use nodeless_lifecycle::Collection;
use nodeless_model::Phase;
use nodeless_model::instance::{FaultKind, InstanceFault};
use nodeless_planner::decode_command;
use nodeless_ports::{Clock, ErrorKind};
use nodeless_world::resources::NODE_CLASSES;
use std::collections::BTreeSet;

/// us-east-1a, by its id in the catalog.
const ZONE: &str = "use1-az2";

fn after(harness: &Harness, minutes: i64) -> Timestamp {
    harness.clock.now().checked_add(SignedDuration::from_mins(minutes)).unwrap()
}

async fn running_cluster(pods: usize) -> Harness {
    let mut harness = Harness::new().await;
    harness.cluster.add_pods((0..pods).map(|number| pod(&format!("web-{number}"), 3000)));
    harness.queue_wake().await;
    harness.until("pods run", |harness| harness.cluster.bound() == pods).await;
    harness.minutes(2).await;
    harness.queue.clear();
    harness
}

/// The messages of the events with this reason, since the last call.
fn reported(harness: &Harness, reason: &str) -> Vec<String> {
    let found = harness.cluster.events_of(reason);
    harness.cluster.forget_events();
    found.into_iter().inspect(|event| assert_eq!(event.object.kind, "NodePool")).map(|event| event.message).collect()
}

fn names(harness: &Harness) -> Vec<String> {
    harness.cluster.nodes().keys().cloned().collect()
}

/// Lets the EC2NodeClass launch in us-east-1a and us-east-1b.
fn in_two_zones(harness: &Harness) {
    let zones = ["us-east-1a", "us-east-1b"];
    let subnets = zones.map(|zone| serde_json::json!({ "id": harness.cloud.subnet(zone), "zone": zone }));
    harness.cluster.patch_status(&NODE_CLASSES, "default", serde_json::json!({ "subnets": subnets }));
}

#[tokio::test]
async fn pods_wait_for_a_zone_and_hear_why_until_the_shift_is_over() {
    let harness = Harness::new().await;
    let sweeper = harness.sweeper();
    harness.zonal_shifts.start(ZONE, Some(after(&harness, 60)));
    sweeper.run().await.unwrap();
    assert!(harness.queue.take_plan().is_some(), "a plan follows at once");
    let active = reported(&harness, "ZonalShiftActive");
    assert!(active.len() == 1 && active[0].contains("us-east-1a (use1-az2)"), "{active:?}");

    harness.cluster.add_pods([pod("web", 1000)]);
    let report = harness.planner().run().await.unwrap();
    assert!(report.created.is_empty());
    assert!(report.unschedulable[0].1.contains("a zonal shift away from us-east-1a (use1-az2)"), "{report:?}");

    // Nothing changed, so no event is published and nothing is written. The hourly check of launch templates is not due.
    harness.clock.advance_to(after(&harness, 1));
    harness.faults.take_writes();
    sweeper.run().await.unwrap();
    assert_eq!((harness.faults.take_writes(), reported(&harness, "ZonalShiftActive").len()), (0, 0));

    harness.zonal_shifts.cancel(ZONE);
    harness.clock.advance_to(after(&harness, 1));
    sweeper.run().await.unwrap();
    assert!(harness.queue.take_plan().is_some());
    assert_eq!(reported(&harness, "ZonalShiftCleared").len(), 1);
    assert_eq!(harness.planner().run().await.unwrap().created.len(), 1);
}

#[tokio::test]
async fn pods_go_to_another_zone_and_back_after_it() {
    let mut harness = Harness::new().await;
    in_two_zones(&harness);
    for (zone, other) in [("use1-az2", "us-east-1b"), ("use1-az4", "us-east-1a")] {
        harness.zonal_shifts.start(zone, None);
        harness.sweeper().run().await.unwrap();
        harness.cluster.add_pods([pod(zone, 3000)]);
        harness.queue_wake().await;
        let key = format!("default/{zone}");
        harness.until("the pod runs", |harness| harness.cluster.pods()[&key].node_name.is_some()).await;
        let newest = harness.records().await.into_iter().max_by_key(|claim| claim.created).unwrap();
        assert_eq!(newest.status.instance.unwrap().zone, other);
        harness.zonal_shifts.cancel(zone);
        harness.sweeper().run().await.unwrap();
    }
}

#[tokio::test]
async fn a_claim_that_was_planned_before_is_not_launched_there() {
    let harness = Harness::new().await;
    harness.cluster.add_pods([pod("web", 1000)]);
    let name = harness.planner().run().await.unwrap().created[0].clone();
    harness.zonal_shifts.start(ZONE, None);
    harness.sweeper().run().await.unwrap();
    harness.reconciler().run(&name).await.unwrap();
    assert_eq!(harness.cloud.launch_calls(), 0);
    assert!(harness.claims.get(&name).await.unwrap().is_none_or(|claim| claim.phase.is_leaving()));
}

#[tokio::test]
async fn nodes_stay_by_choice_and_what_leaves_is_drained_but_not_terminated() {
    let mut harness = running_cluster(2).await;
    let nodes = names(&harness);
    harness.zonal_shifts.start(ZONE, Some(after(&harness, 60)));
    harness.sweeper().run().await.unwrap();
    harness.cluster.remove_pod("web-1");
    harness.minutes(10).await;
    assert_eq!(names(&harness), nodes, "an empty node is needed when the shift is over");
    let kept = harness.planner().run().await.unwrap().kept;
    assert!(kept.iter().flat_map(|kept| &kept.reasons).any(|why| why.to_string().contains("zonal shift")), "{kept:?}");

    let full = harness.cluster.pods()["default/web-0"].node_name.clone().unwrap();
    let records = harness.records().await;
    let leaving = records.iter().find(|claim| claim.status.node_name.as_ref() == Some(&full)).unwrap();
    harness.cluster.delete_node_claim(&leaving.name);
    harness.minutes(10).await;
    assert!(harness.cluster.pods().is_empty(), "its pod was evicted");
    let waits = harness.claims.get(&leaving.name).await.unwrap().unwrap();
    assert_eq!((waits.phase, harness.cloud.running().len()), (Phase::Terminating, 2));
    assert!(harness.cluster.nodes().contains_key(&full));

    harness.zonal_shifts.cancel(ZONE);
    let deleted = leaving.name.clone();
    harness.until("it goes", |harness| !harness.cluster.node_claims().contains_key(&deleted)).await;
    harness.until("the empty node goes, too", |harness| harness.cloud.alive().is_empty()).await;
}

#[tokio::test]
async fn while_arc_cannot_be_read_a_shift_holds_until_its_end() {
    let harness = Harness::new().await;
    harness.zonal_shifts.start(ZONE, Some(after(&harness, 10)));
    harness.sweeper().run().await.unwrap();
    assert_eq!(reported(&harness, "ZonalShiftActive").len(), 1);
    harness.cluster.add_pods([pod("web", 1000)]);
    // The shift is cancelled while ARC cannot be read.
    harness.zonal_shifts.cancel(ZONE);
    harness.faults.fail("arc", ErrorKind::Denied);
    harness.clock.advance_to(after(&harness, 9));
    let report = harness.sweeper().run().await.unwrap();
    assert!(report.problems[0].contains("zonal shifts: arc zonal shifts"), "{report:?}");
    assert!(harness.planner().run().await.unwrap().created.is_empty());

    harness.clock.advance_to(after(&harness, 1));
    harness.sweeper().run().await.unwrap();
    assert_eq!(reported(&harness, "ZonalShiftCleared").len(), 1);
    assert_eq!(harness.planner().run().await.unwrap().created.len(), 1);
}

#[tokio::test]
async fn an_unknown_zone_is_reported_and_blocks_nothing() {
    let harness = Harness::new().await;
    harness.zonal_shifts.start("use1-az99", None);
    let report = harness.sweeper().run().await.unwrap();
    assert!(report.problems[0].contains("use1-az99"), "{report:?}");
    harness.cluster.add_pods([pod("web", 1000)]);
    assert_eq!(harness.planner().run().await.unwrap().created.len(), 1);
}

#[tokio::test]
async fn neither_orphans_nor_failing_instances_go_before_the_shift_is_over() {
    let harness = running_cluster(1).await;
    let orphan = harness.cloud.launch_orphan();
    let claim = harness.records().await.remove(0);
    harness.faults.set_instance_faults(vec![InstanceFault {
        id: claim.status.instance.unwrap().id,
        kind: FaultKind::CheckFailed { check: "system", since: Some(after(&harness, -10)) },
    }]);
    harness.zonal_shifts.start(ZONE, None);
    assert_eq!(harness.sweeper().run().await.unwrap().collected, []);
    assert_eq!(harness.claims.get(&claim.name).await.unwrap().unwrap().phase, Phase::Initialized);
    assert_eq!(harness.cloud.alive().len(), 2);

    harness.zonal_shifts.cancel(ZONE);
    let report = harness.sweeper().run().await.unwrap();
    assert!(matches!(&report.collected[..], [Collection::TerminateInstance { id, .. }] if *id == orphan), "{report:?}");
    assert!(harness.claims.get(&claim.name).await.unwrap().unwrap().phase.is_leaving());
}

/// Half a tick: a plan, or a look at each claim that is due.
async fn act(harness: &mut Harness, plan: bool) {
    if plan {
        harness.planner().run().await.unwrap();
    } else {
        for name in harness.take_claims().await {
            harness.reconciler().run(&name).await.unwrap();
        }
        harness.cloud.boot();
        harness.cluster.converge();
    }
    harness.clock.advance_to(harness.clock.now().checked_add(SignedDuration::from_secs(5)).unwrap());
}

/// A shift that begins at any moment of a drift command: whatever that still launches is launched elsewhere.
#[tokio::test]
async fn commands_under_way_launch_nothing_into_a_zone_that_is_shifted_away_from() {
    let (mut seen, mut elsewhere) = (BTreeSet::new(), 0);
    for acts in 1..16 {
        let mut harness = crate::common::running_cluster(1).await;
        harness.queue.clear();
        in_two_zones(&harness);
        crate::common::drift(&harness);
        for number in 0..acts {
            act(&mut harness, number % 2 == 0).await;
        }
        let command =
            harness.claims.commands().await.unwrap().first().map(|stored| decode_command(stored).unwrap().phase);
        let made = harness.records().await.into_iter().find(|claim| !claim.spec.replaces.is_empty());
        seen.insert(format!("{command:?} {:?}", made.map(|claim| claim.phase)));
        let since = harness.clock.now();
        harness.zonal_shifts.start(ZONE, Some(after(&harness, 60)));
        harness.sweeper().run().await.unwrap();
        harness.minutes(20).await;
        let launched = harness.cloud.alive().into_iter().filter(|instance| instance.launched >= since);
        let (inside, outside): (Vec<_>, Vec<_>) = launched.partition(|instance| instance.zone == "us-east-1a");
        assert!(inside.is_empty(), "after {acts} acts, {command:?}: {inside:?}");
        elsewhere += outside.len();
        assert_eq!(harness.cluster.bound(), 1, "after {acts} acts, {command:?}");
    }
    let moments = ["Some(Proposed) None", "Some(Tainting) None", "Some(Waiting) Some(Reserved)"];
    assert!(moments.iter().all(|moment| seen.contains(*moment)) && elsewhere > 0, "{elsewhere}: {seen:#?}");
}
