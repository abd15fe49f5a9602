//! Eleven clusters of ten nodes, as many as one deployment serves, and a flood of work in one of them. Each call of a service takes up to
//! 50 ms, so invocations last, and their number is limited as in Lambda.

use crate::support::{configure, create, within};
use jiff::{SignedDuration, Timestamp};
use nodeless_driver::{AccountConcurrency, Driver, FunctionSettings, Schedule};
use nodeless_fake_kubernetes::resource::DEPLOYMENTS;
use nodeless_fake_kubernetes::{PatchOptions, PatchType};
use nodeless_telemetry::Null;
use nodeless_world::fault_injection::{FaultInjection, Rates};
use nodeless_world::{World, WorldOptions};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const CLUSTERS: usize = 11;
const NODES: usize = 10;
/// The default concurrency of an account, and that of many new ones:
/// <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>.
const ACCOUNT: usize = 1000;
const NEW_ACCOUNT: usize = 10;
/// One planner, one catalog, ten of lifecycle and five of interruption.
const OF_ONE_CLUSTER: usize = 17;

/// Pods that cannot be scheduled, and events about interruptions, that come at once.
#[derive(Clone, Copy)]
struct Flood {
    pods: usize,
    interruptions: usize,
}

fn deployment(name: &str, replicas: usize, apart: bool) -> serde_json::Value {
    let labels = json!({ "app": name });
    let term = json!({ "labelSelector": { "matchLabels": labels }, "topologyKey": "kubernetes.io/hostname" });
    let terms = if apart { vec![term] } else { Vec::new() };
    let requests = json!({ "cpu": "1", "memory": "1Gi" });
    let container =
        json!({ "name": "it", "image": "registry.k8s.io/pause:3.9", "resources": { "requests": requests } });
    json!({
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": {
                "containers": [container],
                "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": terms } },
            } },
        },
    })
}

fn cluster(seed: u64, account: &AccountConcurrency) -> Driver {
    let world = World::new(WorldOptions::default()).unwrap();
    let rates = Rates { slow: 1.0, slowest: Duration::from_millis(50), ..Rates::default() };
    let slow = FaultInjection::new(world.clock().clone(), seed, rates);
    let driver =
        Driver::with_fault_injection(world, Schedule::default(), Arc::new(Null), slow, FunctionSettings::default());
    let driver = driver.in_account(account.clone());
    configure(&driver);
    create(&driver, &DEPLOYMENTS, deployment("spread", NODES, true));
    driver
}

fn launched(driver: &Driver) -> usize {
    driver.world().ec2().launched()
}

/// Time passes for all of them, until a condition holds for the clusters at these places, but not beyond a limit. Returns when it did for
/// each.
fn together(
    drivers: &mut [Driver],
    limit: Timestamp,
    places: &std::ops::Range<usize>,
    holds: impl Fn(&Driver) -> bool,
) -> Vec<Option<Timestamp>> {
    let mut since = vec![None; places.len()];
    let mut now = drivers[0].world().now();
    while now < limit && since.contains(&None) {
        let wakeups = drivers.iter_mut().filter_map(Driver::next_wakeup);
        let next = wakeups.min().unwrap_or(limit).max(now + SignedDuration::from_millis(1)).min(limit);
        for (place, driver) in drivers.iter_mut().enumerate() {
            // Work that was refused begins when an invocation of another cluster has ended.
            if driver.is_refused() || driver.next_wakeup().is_some_and(|at| at <= next) {
                driver.advance_to(next).unwrap();
                let index = place.wrapping_sub(places.start);
                if let Some(None) = since.get(index).filter(|_| places.contains(&place) && holds(driver)) {
                    since[index] = Some(next);
                }
            }
        }
        now = next;
    }
    since
}

/// How long each cluster without a flood takes to launch an instance for one more pod.
fn delays(account: &AccountConcurrency, flood: Option<Flood>) -> Vec<Option<SignedDuration>> {
    let mut drivers: Vec<Driver> = (1..).take(CLUSTERS).map(|seed| cluster(seed, account)).collect();
    let limit = within(&drivers[0], 600);
    let ready = together(&mut drivers, limit, &(0..CLUSTERS), |driver| launched(driver) >= NODES);
    assert!(!ready.contains(&None), "{ready:?}");
    let start = drivers[0].world().now() + SignedDuration::from_secs(150);
    together(&mut drivers, start, &(0..1), |_| false);
    for driver in &mut drivers {
        driver.advance_to(start).unwrap();
        assert_eq!(launched(driver), NODES);
    }
    if let Some(Flood { pods, interruptions }) = flood {
        create(&drivers[0], &DEPLOYMENTS, deployment("flood", pods, false));
        for number in 0..interruptions {
            drivers[0].receive_event(&json!({
                "source": "aws.ec2", "detail-type": "EC2 Spot Instance Interruption Warning",
                "detail": { "instance-id": format!("i-{number:017x}") },
            }));
        }
    }
    let one_more = json!({ "spec": { "replicas": NODES + 1 } });
    for driver in &drivers[1..] {
        let api = driver.world().api();
        let options = PatchOptions::default();
        api.patch(&DEPLOYMENTS, "default", "spread", None, PatchType::Merge, &one_more, &options).unwrap();
    }
    for driver in &mut drivers {
        driver.converge().unwrap();
    }
    let limit = within(&drivers[0], 300);
    let since = together(&mut drivers, limit, &(1..CLUSTERS), |driver| launched(driver) > NODES);
    since.into_iter().map(|at| Some(at?.duration_since(start))).collect()
}

#[test]
fn a_flood_in_one_cluster_delays_no_launch_in_another() {
    let account = || AccountConcurrency::new(ACCOUNT);
    let (quiet, flooded) = (account(), account());
    let undisturbed = delays(&quiet, None);
    assert!(!undisturbed.contains(&None), "{undisturbed:?}");
    let beside = delays(&flooded, Some(Flood { pods: 2_000, interruptions: 1_000 }));
    assert_eq!(beside, undisturbed);
    let (without, with) = (quiet.highest(), flooded.highest());
    assert!(with <= without + OF_ONE_CLUSTER, "{without} invocations, and {with} with the flood");
}

/// The reason why docs/design/many-clusters.md names the concurrency that an account needs.
#[test]
fn an_account_with_less_concurrency_than_a_flood_takes_delays_other_clusters() {
    let undisturbed = delays(&AccountConcurrency::new(NEW_ACCOUNT), None);
    let beside = delays(&AccountConcurrency::new(NEW_ACCOUNT), Some(Flood { pods: 200, interruptions: 1_000 }));
    let later: BTreeSet<bool> =
        beside.iter().zip(&undisturbed).map(|(beside, alone)| beside.is_none_or(|it| Some(it) > *alone)).collect();
    assert!(later.contains(&true), "{beside:?} {undisturbed:?}");
}
