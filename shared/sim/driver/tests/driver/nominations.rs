//! Pods run where they were planned, although their nodes join one after the other.

use crate::support::{create, list, picture, start_in, within};
use futures::FutureExt as _;
use jiff::SignedDuration;
use nodeless_driver::{Driver, Outcome};
use nodeless_fake_kubernetes::resource::{NODES, PODS};
use nodeless_fake_kubernetes::{PatchOptions, PatchType};
use nodeless_model::{NodeClaim, labels};
use nodeless_world::resources::NODE_POOLS;
use nodeless_world::{JoinTiming, WorldOptions};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A cluster whose machines register up to this number of seconds apart. Nothing is consolidated, and no node has more than 8 vCPUs.
fn start(spread: i64, nominations: bool) -> Driver {
    let join = JoinTiming { spread: SignedDuration::from_secs(spread), ..JoinTiming::default() };
    let driver = start_in(WorldOptions { join, nominations, ..WorldOptions::default() });
    let body = json!({ "spec": {
        "limits": { "cpu": "1000" },
        "disruption": { "consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never" },
        "template": { "spec": { "requirements": [
            { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
            { "key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"] },
            { "key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": ["9"] },
        ] } },
    } });
    let options = PatchOptions::default();
    driver.world().api().patch(&NODE_POOLS, "", "default", None, PatchType::Merge, &body, &options).unwrap();
    driver
}

/// Pods of different shapes, so that only some combinations fill a node.
fn add_pods(driver: &Driver, count: usize) {
    for number in 0..count {
        let (cpu, memory) = ([300, 700, 1_100, 1_900][number % 4], [512, 3_000, 700, 6_000, 1_500][number % 5]);
        let requests = json!({ "cpu": format!("{cpu}m"), "memory": format!("{memory}Mi") });
        let container = json!({ "name": "main", "image": "pause", "resources": { "requests": requests } });
        let metadata = json!({ "name": format!("pod-{number:03}"), "namespace": "default" });
        create(driver, &PODS, json!({ "metadata": metadata, "spec": { "containers": [container] } }));
    }
}

fn claims(driver: &Driver) -> Vec<NodeClaim> {
    driver.claims().list().now_or_never().unwrap().unwrap()
}

/// The claim of each pod's node, by the pod.
fn placed(driver: &Driver) -> BTreeMap<String, String> {
    let by_node: BTreeMap<String, String> =
        claims(driver).into_iter().filter_map(|claim| Some((claim.status.node_name?, claim.name))).collect();
    let of = |pod: &Value| {
        let (name, node) = (pod["metadata"]["name"].as_str()?, pod["spec"]["nodeName"].as_str()?);
        Some((format!("default/{name}"), by_node.get(node)?.clone()))
    };
    list(driver, &PODS).iter().filter_map(|pod| of(pod)).collect()
}

/// Runs until every pod is bound. Returns the number of planned nodes, of nodes, and of pods that run where they were planned.
fn run(driver: &mut Driver, pods: usize) -> (usize, usize, usize) {
    let limit = within(driver, 600);
    let mut first = BTreeMap::new();
    let all_bound = driver
        .advance_until(limit, |driver| {
            if first.is_empty() {
                for claim in claims(driver) {
                    first.extend(claim.spec.nominated_pods.iter().map(|pod| (pod.clone(), claim.name.clone())));
                }
            }
            placed(driver).len() == pods
        })
        .unwrap();
    assert!(all_bound, "{}", picture(driver));
    let planned: std::collections::BTreeSet<&String> = first.values().collect();
    let placed = placed(driver);
    let right = first.iter().filter(|(pod, claim)| placed.get(*pod) == Some(*claim)).count();
    (planned.len(), claims(driver).len(), right)
}

fn has_joining_taint(node: &Value) -> bool {
    node["spec"]["taints"]
        .as_array()
        .is_some_and(|taints| taints.iter().any(|taint| taint["key"] == labels::JOINING_TAINT))
}

#[test]
fn pods_run_where_they_were_planned_although_nodes_join_in_any_order() {
    for spread in [0, 5, 20] {
        let mut driver = start(spread, true);
        add_pods(&driver, 80);
        let (planned, nodes, right) = run(&mut driver, 80);
        assert!(planned > 5);
        assert_eq!((nodes, right), (planned, 80), "spread {spread}");
        let end = within(&driver, 60);
        driver.advance_to(end).unwrap();
        assert!(!list(&driver, &NODES).iter().any(|node| has_joining_taint(node)));
        let failed: Vec<_> = driver.take_outcomes().into_iter().filter_map(|(_, it)| Outcome::failure(&it)).collect();
        assert!(failed.is_empty(), "{failed:?}");
    }
}

#[test]
fn without_nominations_the_scheduler_spreads_pods_and_no_node_is_closed() {
    let mut driver = start(5, false);
    add_pods(&driver, 80);
    let (planned, nodes, right) = run(&mut driver, 80);
    assert!(right < 60 && nodes >= planned, "{right} of 80 where planned, {nodes} nodes of {planned}");
}

#[test]
fn a_node_that_joins_much_later_than_others_is_not_waited_for() {
    let mut driver = start(150, true);
    add_pods(&driver, 40);
    let start = driver.world().now();
    let limit = within(&driver, 600);
    let mut closed_since: BTreeMap<String, i64> = BTreeMap::new();
    let mut longest = 0;
    let bound = driver
        .advance_until(limit, |driver| {
            let now = driver.world().now().duration_since(start).as_secs();
            for node in list(driver, &NODES) {
                let name = node["metadata"]["name"].as_str().unwrap().to_owned();
                if has_joining_taint(&node) {
                    longest = longest.max(now - *closed_since.entry(name).or_insert(now));
                }
            }
            placed(driver).len() == 40
        })
        .unwrap();
    assert!(bound, "{}", picture(&mut driver));
    assert!((10..=33).contains(&longest), "{longest} s: 30 s and the interval of two seconds between looks");
}
