//! The objects of everybody but the tenant.

use super::{Numbers, tenant};
use crate::common::{Harness, node_pool, pod};
use nodeless_fake_kubernetes::resource::{
    DAEMON_SETS, NAMESPACES, POD_DISRUPTION_BUDGETS, POD_TEMPLATES, REPLICA_SETS,
};
use nodeless_world::resources::{CAPACITY_BUFFERS, NODE_POOLS, PROVISIONING_REQUESTS};
use serde_json::{Value, json};
use std::sync::Arc;

/// The namespaces; one of them sorts before and one after that of the tenant.
const NAMESPACES_OF_OTHERS: [&str; 2] = ["shop", "web"];

/// The cluster before the tenant's objects: NodePools, namespaces and running pods.
pub(super) fn create(harness: &Harness, seed: u64) {
    let mut numbers = Numbers::new(seed);
    let cluster = &harness.cluster;
    cluster.create(&NODE_POOLS, tenant::node_pool_of_tenant());
    let policy =
        json!({ "disruption": { "consolidateAfter": "30s", "consolidationPolicy": "WhenEmptyOrUnderutilized" } });
    cluster.create(&NODE_POOLS, {
        let mut pool = node_pool("cheap");
        pool["spec"]["disruption"] = policy["disruption"].clone();
        pool["spec"]["template"]["spec"]["taints"] =
            json!([{ "key": "cheap", "value": "yes", "effect": "NoSchedule" }]);
        pool
    });
    for name in NAMESPACES_OF_OTHERS.into_iter().chain([tenant::NAMESPACE]) {
        cluster.create(&NAMESPACES, json!({ "metadata": { "name": name } }));
    }
    let agent = pod("agent", 100);
    let spec = json!({ "selector": { "matchLabels": { "app": "agent" } },
        "template": { "metadata": { "labels": { "app": "agent" } }, "spec": agent["spec"] } });
    cluster.create(&DAEMON_SETS, json!({ "metadata": { "name": "agent", "namespace": "shop" }, "spec": spec }));
    for number in 0..3 + numbers.below(4) {
        create_set(harness, &mut numbers, &format!("first-{number}"));
    }
}

/// Further objects, which are created after those of the tenant.
pub(super) fn create_more(harness: &Harness, seed: u64) {
    let mut numbers = Numbers::new(seed ^ 0xa11);
    for number in 0..2 + numbers.below(4) {
        create_set(harness, &mut numbers, &format!("more-{number}"));
    }
    let cluster = &harness.cluster;
    let mut refused = pod("refused", 500);
    refused["metadata"]["namespace"] = json!("web");
    refused["spec"]["nodeSelector"] = json!({ "topology.kubernetes.io/zone": "mars-1a" });
    let mut large = pod("large", 90_000);
    large["metadata"]["namespace"] = json!("shop");
    cluster.add_pods([refused, large]);
    let spec = json!({ "maxUnavailable": 0, "selector": { "matchLabels": { "app": "first-0" } } });
    cluster
        .create(&POD_DISRUPTION_BUDGETS, json!({ "metadata": { "name": "first", "namespace": "shop" }, "spec": spec }));
    let template = json!({ "metadata": { "labels": { "app": "worker" } }, "spec": pod("worker", 3000)["spec"] });
    cluster
        .create(&POD_TEMPLATES, json!({ "metadata": { "name": "worker", "namespace": "web" }, "template": template }));
    if numbers.percent(50) {
        let spec = json!({ "provisioningClassName": "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
            "podSets": [{ "count": 2, "podTemplateRef": { "name": "worker" } }] });
        cluster.create(
            &PROVISIONING_REQUESTS,
            json!({ "metadata": { "name": "train", "namespace": "web" }, "spec": spec }),
        );
    } else {
        let spec = json!({ "replicas": 1, "podTemplateRef": { "name": "worker" } });
        cluster.create(&CAPACITY_BUFFERS, json!({ "metadata": { "name": "spare", "namespace": "web" }, "spec": spec }));
    }
}

/// A ReplicaSet of a few pods.
fn create_set(harness: &Harness, numbers: &mut Numbers, name: &str) {
    let mut one = pod(name, numbers.pick(&[200, 700, 1500, 2500]));
    if numbers.percent(30) {
        one["spec"]["tolerations"] = json!([{ "key": "cheap", "operator": "Exists" }]);
    }
    if numbers.percent(25) {
        let term =
            json!({ "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": name } } });
        one["spec"]["affinity"] =
            json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } });
    }
    let labels = json!({ "app": name });
    let spec = json!({ "replicas": 1 + numbers.below(3), "selector": { "matchLabels": labels },
        "template": { "metadata": { "labels": labels }, "spec": one["spec"] } });
    let namespace = numbers.pick(&NAMESPACES_OF_OTHERS);
    harness
        .cluster
        .create(&REPLICA_SETS, json!({ "metadata": { "name": name, "namespace": namespace }, "spec": spec }));
    harness.cluster.converge();
}

/// The names of the workloads of others, whose pods have generated names.
pub(super) fn workloads(harness: &Harness) -> Vec<String> {
    let of_others = |workload: &&Arc<Value>| workload["metadata"]["namespace"] != tenant::NAMESPACE;
    let list = |resource| harness.cluster.list(resource);
    let all: Vec<_> = list(&REPLICA_SETS).into_iter().chain(list(&DAEMON_SETS)).collect();
    all.iter()
        .filter(of_others)
        .filter_map(|workload| Some(workload["metadata"]["name"].as_str()?.to_owned()))
        .collect()
}

/// The conditions and the numbers in the status of the others' objects, without times.
pub(super) fn statuses(harness: &Harness) -> Vec<String> {
    let mut statuses = Vec::new();
    for resource in [&NODE_POOLS, &PROVISIONING_REQUESTS, &CAPACITY_BUFFERS] {
        for object in harness.cluster.list(resource) {
            let metadata = &object["metadata"];
            if metadata["namespace"] == tenant::NAMESPACE || metadata["name"] == tenant::POOL {
                continue;
            }
            let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
            let conditions: Vec<String> = conditions.map(condition).collect();
            let replicas = [&object["status"]["nodes"], &object["status"]["replicas"], &object["status"]["resources"]];
            statuses.push(format!("{} {}: {conditions:?} {replicas:?}", resource.kind, metadata["name"]));
        }
    }
    statuses
}

fn condition(condition: &Value) -> String {
    format!("{}={} ({})", condition["type"], condition["status"], condition["reason"])
}
