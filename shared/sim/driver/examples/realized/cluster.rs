//! A simulated cluster with the pods of a mix.

use crate::Arm;
use futures::FutureExt as _;
use jiff::SignedDuration;
use nodeless_driver::{Driver, FunctionSettings, Schedule};
use nodeless_fake_kubernetes::resource::{DAEMON_SETS, DEPLOYMENTS, NAMESPACES, PODS};
use nodeless_fake_kubernetes::{CreateOptions, ListOptions, Resource};
use nodeless_model::NodeClaim;
use nodeless_telemetry::Null;
use nodeless_workloads::Mix;
use nodeless_workloads::export::{Fullness, export};
use nodeless_world::resources::{NODE_CLASSES, NODE_POOLS};
use nodeless_world::{JoinTiming, World, WorldOptions};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The owner of the pods.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// No owner. Nodes are not consolidated.
    Nothing,
    /// A Deployment for all pods with equal specifications. Nodes are consolidated after 30 seconds, without budgets.
    Deployments,
}

pub(crate) fn claims(driver: &Driver) -> Vec<NodeClaim> {
    driver.claims().list().now_or_never().unwrap().unwrap()
}

/// Adds the claims of the first plan as they are launched. The claims of a plan were created at the same time.
pub(crate) fn note_first_plan(planned: &mut BTreeMap<String, NodeClaim>, present: &[NodeClaim]) {
    let first = planned.values().chain(present).map(|claim| claim.created).min();
    for claim in present.iter().filter(|claim| Some(claim.created) == first && claim.status.instance.is_some()) {
        planned.entry(claim.name.clone()).or_insert_with(|| claim.clone());
    }
}

pub(crate) fn price<'c>(claims: impl Iterator<Item = &'c NodeClaim>) -> f64 {
    claims.filter_map(|claim| claim.status.instance.as_ref()).map(|instance| instance.price).sum()
}

pub(crate) fn pods(driver: &Driver) -> Vec<Arc<Value>> {
    let all = driver.world().api().list(&PODS, &ListOptions::default()).unwrap().items;
    all.into_iter().filter(|pod| pod["metadata"]["ownerReferences"][0]["kind"] != "DaemonSet").collect()
}

/// Nodes join up to 20 seconds apart, on demand.
pub(crate) fn start(mix: Mix, count: usize, seed: u64, arm: Arm, owner: Owner) -> Driver {
    let join = JoinTiming { spread: SignedDuration::from_secs(20), ..JoinTiming::default() };
    // The EC2NodeClass of the export selects the subnets of this cluster.
    let options = WorldOptions { cluster_name: "example".to_owned(), join, seed, ..WorldOptions::default() };
    let driver = Driver::with_settings(
        World::new(options).unwrap(),
        Schedule::default(),
        Arc::new(Null),
        FunctionSettings { without: arm.without, ..FunctionSettings::default() },
    );
    let objects: Value = serde_json::from_str(&export(&mix.pending(count, seed), Fullness::Sparse)).unwrap();
    let create = |resource: &Resource, object: Value| {
        driver.world().api().create(resource, object, &CreateOptions::default()).unwrap();
    };
    let mut replicas: BTreeMap<String, (Value, u32)> = BTreeMap::new();
    for mut object in objects["items"].as_array().unwrap().iter().cloned() {
        for field in ["uid", "creationTimestamp", "ownerReferences"] {
            object["metadata"].as_object_mut().unwrap().remove(field);
        }
        object.as_object_mut().unwrap().remove("status");
        for spec in ["/spec", "/spec/template/spec"] {
            let containers = object.pointer_mut(&format!("{spec}/containers")).and_then(Value::as_array_mut);
            containers.into_iter().flatten().for_each(|container| container["image"] = json!("pause"));
        }
        match object["kind"].as_str().unwrap() {
            "Pod" if owner == Owner::Deployments => {
                let metadata = &object["metadata"];
                let template = json!({
                    "metadata": { "labels": metadata["labels"], "annotations": metadata["annotations"] },
                    "spec": object["spec"],
                });
                let key = format!("{}{template}", metadata["namespace"]);
                let namespace = metadata["namespace"].clone();
                let deployment = || (json!({ "namespace": namespace, "template": template }), 0);
                replicas.entry(key).or_insert_with(deployment).1 += 1;
            }
            "Pod" => create(&PODS, object),
            "DaemonSet" => create(&DAEMON_SETS, object),
            "Namespace" => create(&NAMESPACES, object),
            "EC2NodeClass" => create(&NODE_CLASSES, object),
            "NodePool" => create(&NODE_POOLS, node_pool(object, owner)),
            other => panic!("{other}"),
        }
    }
    for (number, (of, replicas)) in replicas.into_values().enumerate() {
        create(&DEPLOYMENTS, deployment(&format!("group-{number}"), &of, replicas));
    }
    driver
}

fn deployment(name: &str, of: &Value, replicas: u32) -> Value {
    let mut template = of["template"].clone();
    if template["metadata"]["labels"].is_null() {
        template["metadata"]["labels"] = json!({});
    }
    template["metadata"]["labels"]["deployment"] = json!(name);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name, "namespace": of["namespace"] },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "deployment": name } }, "template": template,
        },
    })
}

fn node_pool(mut object: Value, owner: Owner) -> Value {
    let spec = &mut object["spec"];
    spec["disruption"] = match owner {
        Owner::Nothing => json!({ "consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never" }),
        Owner::Deployments => json!({
            "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "30s",
            "budgets": [{ "nodes": "100%" }],
        }),
    };
    spec.as_object_mut().unwrap().remove("limits");
    let requirements = spec["template"]["spec"]["requirements"].as_array_mut().unwrap();
    requirements.retain(|one| one["key"] != "karpenter.sh/capacity-type");
    requirements.push(json!({ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] }));
    object
}
