//! A scheduler that binds a fixed number of pods to each node. It replaces the simulated kube-scheduler, which compares each pod with
//! each node again when anything changes, so that large sizes measure the functions and not the simulation.

use nodeless_fake_kubernetes::{UpdateOptions, resource};
use nodeless_tests::stage::Stage;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The `schedulerName` of the pods.
pub(crate) const NAME: &str = "measure-sizes";
const LOOK: Duration = Duration::from_millis(200);

/// Schedules for as long as anybody else holds the stage.
pub(crate) fn start(stage: &Arc<Stage>, pods_a_node: u32) {
    let stage = Arc::downgrade(stage);
    tokio::spawn(async move {
        while let Some(stage) = stage.upgrade() {
            let started = Instant::now();
            look(&stage, pods_a_node as usize);
            drop(stage);
            // Half of a processor at most.
            tokio::time::sleep(LOOK.max(started.elapsed())).await;
        }
    });
}

fn look(stage: &Stage, pods_a_node: usize) {
    let pods = stage.list(&resource::PODS);
    let mut bound: BTreeMap<&str, usize> = BTreeMap::new();
    for node in pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()) {
        *bound.entry(node).or_default() += 1;
    }
    let mut pending = pods.iter().filter(|pod| {
        pod["spec"]["schedulerName"] == NAME
            && pod["spec"]["nodeName"].is_null()
            && pod["metadata"]["deletionTimestamp"].is_null()
    });
    let api = stage.api();
    for node in stage.list(&resource::NODES).iter().filter(|node| accepts_pods(node)) {
        let name = node["metadata"]["name"].as_str().unwrap();
        let free = pods_a_node.saturating_sub(bound.get(name).copied().unwrap_or_default());
        for pod in pending.by_ref().take(free) {
            api.bind("default", pod["metadata"]["name"].as_str().unwrap(), name).unwrap();
        }
    }
    for pod in pending.filter(|pod| pod["status"]["conditions"].is_null()) {
        let mut refused = Value::clone(pod);
        refused["status"]["conditions"] =
            json!([{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node" }]);
        // If the pod has changed meanwhile, the next look repeats it.
        let _changed = api.update_status(&resource::PODS, refused, &UpdateOptions::default());
    }
}

fn accepts_pods(node: &Value) -> bool {
    let is_ready = |conditions: &Vec<Value>| {
        conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    let repels = |taints: &Vec<Value>| taints.iter().any(|taint| taint["effect"] != "PreferNoSchedule");
    node["status"]["conditions"].as_array().is_some_and(is_ready)
        && !node["spec"]["taints"].as_array().is_some_and(repels)
        && node["spec"]["unschedulable"] != true
}
