//! A zonal shift from start to end, in virtual time.

use crate::support::{create, list, picture, running, start_in, within};
use futures::FutureExt as _;
use jiff::SignedDuration;
use nodeless_disruption::command::CommandPhase;
use nodeless_driver::Driver;
use nodeless_driver::scenarios::{Action, OneZone, Scenario, TimedAction};
use nodeless_driver::simulation::Run;
use nodeless_fake_kubernetes::resource::{DEPLOYMENTS, EVENTS, NODES, PODS};
use nodeless_fake_kubernetes::{PatchOptions, PatchType};
use nodeless_planner::decode_command;
use nodeless_telemetry::Null;
use nodeless_world::WorldOptions;
use nodeless_world::resources::{NODE_CLAIMS, NODE_POOLS};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

fn deployment(name: &str, replicas: usize, node_selector: &Value) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } }, "spec": {
                "nodeSelector": node_selector,
                "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.9",
                    "resources": { "requests": { "cpu": "1500m", "memory": "1Gi" } } }],
            } },
        },
    })
}

fn scale(driver: &Driver, name: &str, replicas: usize) {
    let patch = json!({ "spec": { "replicas": replicas } });
    let options = PatchOptions::default();
    driver.world().api().patch(&DEPLOYMENTS, "default", name, None, PatchType::Merge, &patch, &options).unwrap();
}

fn zone(node: &Value) -> &str {
    node["metadata"]["labels"]["topology.kubernetes.io/zone"].as_str().unwrap_or_default()
}

/// The nodes in a zone, by name.
fn nodes_in(driver: &Driver, expected: &str) -> BTreeSet<String> {
    let nodes = list(driver, &NODES);
    let inside = nodes.iter().filter(|node| zone(node) == expected);
    inside.map(|node| node["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn events(driver: &Driver, reason: &str) -> usize {
    list(driver, &EVENTS).iter().filter(|event| event["reason"] == reason).count()
}

fn wait(driver: &mut Driver, seconds: i64, what: &str, holds: impl Fn(&Driver) -> bool) {
    let limit = within(driver, seconds);
    let came = driver.advance_until(limit, holds).unwrap();
    assert!(came, "{what}: {}", picture(driver));
}

#[test]
fn a_zone_is_left_alone_during_a_shift_and_used_again_after_it() {
    let mut driver = start_in(WorldOptions { zonal_shift: true, ..WorldOptions::default() });
    driver.advance_to(within(&driver, 5)).unwrap();
    create(&driver, &DEPLOYMENTS, deployment("web", 4, &json!({})));
    wait(&mut driver, 300, "web runs", |it| running(it) == 4);
    // The zone that is cheapest now will be cheapest again.
    let away = zone(&list(&driver, &NODES)[0]).to_owned();
    let before = nodes_in(&driver, &away);

    let until = within(&driver, 2400);
    assert!(driver.world_mut().start_zonal_shift(&away, until));
    wait(&mut driver, 10, "the NodePool gets an event, without waiting for the sweep", |it| {
        events(it, "ZonalShiftActive") == 1
    });
    let cordoned = |it: &Driver| list(it, &NODES).iter().filter(|node| node["spec"]["unschedulable"] == true).count();
    assert_eq!(cordoned(&driver), before.len());

    // Pods that may run elsewhere do; the others wait and launch nothing.
    scale(&driver, "web", 10);
    create(&driver, &DEPLOYMENTS, deployment("bound", 1, &json!({ "topology.kubernetes.io/zone": away })));
    wait(&mut driver, 300, "web runs elsewhere", |it| running(it) == 10);
    driver.advance_to(within(&driver, 300)).unwrap();
    assert_eq!(nodes_in(&driver, &away), before, "none came, none went: {}", picture(&mut driver));
    let pods = list(&driver, &PODS);
    let bound = pods.iter().find(|pod| pod["metadata"]["labels"]["app"] == "bound").unwrap();
    assert_eq!(bound["status"]["phase"], "Pending");
    let reported = list(&driver, &EVENTS).iter().any(|event| {
        event["involvedObject"]["name"] == bound["metadata"]["name"]
            && event["message"].as_str().unwrap_or_default().contains("a zonal shift away from")
    });
    assert!(reported, "the pod gets an event with the reason");

    // Empty nodes are removed in other zones, and stay in this one.
    scale(&driver, "web", 0);
    wait(&mut driver, 900, "nodes go elsewhere", |it| list(it, &NODES).len() == before.len());
    driver.advance_to(within(&driver, 300)).unwrap();
    assert_eq!(nodes_in(&driver, &away), before, "{}", picture(&mut driver));

    // A node that a user deletes keeps its instance, and its claim is not lost.
    let claim = list(&driver, &NODE_CLAIMS)[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let options = nodeless_fake_kubernetes::DeleteOptions::default();
    driver.world().api().delete(&NODE_CLAIMS, "", &claim, &options).unwrap();
    let margin = until.saturating_sub(SignedDuration::from_secs(1)).unwrap();
    driver.advance_to(margin).unwrap();
    let is_there = |it: &Driver| list(it, &NODE_CLAIMS).iter().any(|found| found["metadata"]["name"] == claim.as_str());
    assert!(is_there(&driver) && nodes_in(&driver, &away) == before, "{}", picture(&mut driver));

    // The shift expires, which causes no event: the next sweep reads it.
    wait(&mut driver, 70, "the NodePool gets an event", |it| events(it, "ZonalShiftCleared") == 1);
    wait(&mut driver, 300, "the pod that waited runs", |it| running(it) == 1);
    wait(&mut driver, 600, "the empty nodes are removed", |it| {
        let left = nodes_in(it, &away);
        !is_there(it) && left.len() == 1 && cordoned(it) == 0
    });
}

#[test]
fn a_shift_is_no_business_of_those_who_did_not_ask() {
    let mut driver = start_in(WorldOptions::default());
    driver.advance_to(within(&driver, 5)).unwrap();
    for zone in ["us-east-1a", "us-east-1b", "us-east-1c"] {
        let until = within(&driver, 3600);
        assert!(driver.world_mut().start_zonal_shift(zone, until));
    }
    create(&driver, &DEPLOYMENTS, deployment("web", 1, &json!({})));
    wait(&mut driver, 120, "a node is launched", |it| !list(it, &NODES).is_empty());
    assert_eq!(events(&driver, "ZonalShiftActive"), 0);
}

/// Zonal shifts start and end while spot is interrupted, calls fail and processes end; the invariants of every simulation hold.
#[test]
fn nothing_is_lost_when_all_else_goes_wrong_during_shifts() {
    let shift = |after, zone: &str, lasts| TimedAction {
        after: SignedDuration::from_mins(after),
        action: Action::ZonalShift(OneZone { zone: zone.to_owned(), lasts: SignedDuration::from_mins(lasts) }),
    };
    for seed in 0..2 {
        let mut scenario = Scenario::built_in("faults-all-features").unwrap();
        let (a, b) = (scenario.zones[0].clone(), scenario.zones[1].clone());
        scenario.actions.extend([shift(5, &a, 15), shift(15, &b, 10), shift(45, &a, 600)]);
        let report = Run::new(scenario, seed, Some(1), Arc::new(Null)).unwrap().finish().unwrap();
        assert!(report.violations.is_empty(), "seed {seed}: {:#?}", report.violations);
        assert!(report.launched > 0 && report.plans.0 > 50, "the scenario covers too little");
    }
}

/// The phases of the commands in progress.
fn phases(driver: &Driver) -> Vec<CommandPhase> {
    let stored = driver.claims().commands().now_or_never().unwrap().unwrap();
    stored.iter().map(|one| decode_command(one).unwrap().phase).collect()
}

/// A zonal shift that starts while commands are in progress after their validation: further launches are in other zones, or the
/// commands are rolled back; and after the shift, everything completes.
#[test]
fn commands_under_way_launch_nothing_into_a_zone_once_it_is_shifted_away_from() {
    // The states in between pass within one moment here; `shared/operations/tests/operations/disruption/zonal_shift.rs` checks them.
    for phase in [CommandPhase::Proposed, CommandPhase::Waiting] {
        let mut driver = start_in(WorldOptions { zonal_shift: true, ..WorldOptions::default() });
        driver.advance_to(within(&driver, 5)).unwrap();
        // Small nodes, one for each pod, in the zone where they are cheapest.
        let small = json!({ "spec": {
            "template": { "spec": { "requirements": [
                { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
                { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"] },
            ] } },
            "disruption": { "budgets": [{ "nodes": "100%" }] },
        } });
        let change = |it: &Driver, to: &Value| {
            let options = PatchOptions::default();
            it.world().api().patch(&NODE_POOLS, "", "default", None, PatchType::Merge, to, &options).unwrap();
        };
        change(&driver, &small);
        create(&driver, &DEPLOYMENTS, deployment("web", 3, &json!({})));
        wait(&mut driver, 300, "web runs", |it| running(it) == 3 && list(it, &NODES).len() == 3);
        driver.advance_to(within(&driver, 120)).unwrap();
        let away = zone(&list(&driver, &NODES)[0]).to_owned();

        change(&driver, &json!({ "spec": { "template": { "metadata": { "labels": { "team": "b" } } } } }));
        wait(&mut driver, 600, "a command gets there", |it| phases(it).contains(&phase));
        let until = within(&driver, 2400);
        assert!(driver.world_mut().start_zonal_shift(&away, until));
        wait(&mut driver, 10, "the NodePool gets an event", |it| events(it, "ZonalShiftActive") == 1);
        let since = driver.world().now();
        let launched = |it: &Driver, inside: bool| {
            let all = it.world().ec2().instances().into_iter().filter(|instance| instance.launched > since);
            all.filter(|instance| (instance.offering.zone == away) == inside).count()
        };
        // Pods that need a node meanwhile get one in another zone.
        scale(&driver, "web", 4);
        driver.advance_to(until.saturating_sub(SignedDuration::from_secs(1)).unwrap()).unwrap();
        assert_eq!(launched(&driver, true), 0, "{phase:?}: {}", picture(&mut driver));
        assert!(launched(&driver, false) > 0 && running(&driver) == 4, "{phase:?}");
        wait(&mut driver, 1800, "all nodes are replaced", |it| {
            let nodes = list(it, &NODES);
            nodes.iter().all(|node| node["metadata"]["labels"]["team"] == "b")
                && phases(it).is_empty()
                && running(it) == 4
        });
    }
}
