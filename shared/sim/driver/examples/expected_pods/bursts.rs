//! Scenarios of an hour in which workloads create many pods at once.

use nodeless_driver::scenarios::Scenario;
use serde_json::{Value, json};

/// The names of the scenarios.
pub(crate) const NAMES: [&str; 9] = [
    "deployments-300",
    "deployments-1000",
    "jobs-300",
    "jobs-1000",
    "parallel-stateful-set-300",
    "stateful-set-by-one",
    "oscillating-autoscaler",
    "rollout-with-surge",
    "quota-refuses-half",
];

/// The scenario of this name.
pub(crate) fn scenario(name: &str) -> Option<Scenario> {
    let (objects, more) = match name {
        "deployments-300" => deployments(300),
        "deployments-1000" => deployments(1_000),
        "jobs-300" => jobs(300),
        "jobs-1000" => jobs(1_000),
        "parallel-stateful-set-300" => stateful_set("Parallel", 300),
        "stateful-set-by-one" => stateful_set("OrderedReady", 40),
        "oscillating-autoscaler" => autoscaler(),
        "rollout-with-surge" => rollout(),
        "quota-refuses-half" => quota(),
        _ => return None,
    };
    let mut scenario = json!({
        "name": name, "hours": 1, "instanceFamilies": ["c6i", "m6i", "r6i"],
        "machines": { "visibilityDelay": "2s" }, "objects": [node_pool()],
    });
    scenario["objects"].as_array_mut().unwrap().extend(objects);
    scenario.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Some(Scenario::parse(&scenario.to_string()).unwrap())
}

fn node_pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "general" },
        "spec": {
            "template": { "spec": {
                "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
                "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] }],
            } },
            "disruption": { "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "30s" },
        },
    })
}

/// The template of pods with this label and these millicores.
fn template(app: &str, cpu: u32) -> Value {
    let requests = json!({ "cpu": format!("{cpu}m"), "memory": "1Gi" });
    json!({
        "metadata": { "labels": { "app": app } },
        "spec": { "containers": [{ "name": app, "image": "x", "resources": { "requests": requests } }] },
    })
}

fn workload(kind: &str, name: &str, replicas: u32, cpu: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": name },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "app": name } }, "template": template(name, cpu),
        },
    })
}

/// Ten Deployments that are scaled up together twice, and down again.
fn deployments(pods: u32) -> (Vec<Value>, Value) {
    let names: Vec<String> = (0..10).map(|number| format!("web-{number}")).collect();
    let objects = names.iter().zip(1..).map(|(name, number)| workload("Deployment", name, 0, number * 200)).collect();
    let each = pods / 10;
    let scale = |name: &String| json!({ "name": name, "after": { "5m": each, "20m": 0, "35m": each, "50m": 0 } });
    (objects, json!({ "scale": names.iter().map(scale).collect::<Vec<_>>() }))
}

/// Five Jobs at a time.
fn jobs(pods: u32) -> (Vec<Value>, Value) {
    let job = |number: u32| {
        let mut template = template(&format!("batch-{number}"), number * 300);
        template["spec"]["restartPolicy"] = json!("Never");
        template["spec"]["containers"][0]["command"] = json!(["sleep", "300"]);
        let each = pods / 5;
        let spec = json!({ "parallelism": each, "completions": each, "template": template });
        json!({ "name": format!("batch-{number}"), "every": "14m", "spec": spec })
    };
    (Vec::new(), json!({ "jobs": (1..=5).map(job).collect::<Vec<_>>() }))
}

fn stateful_set(policy: &str, pods: u32) -> (Vec<Value>, Value) {
    let mut set = workload("StatefulSet", "store", 0, 900);
    set["spec"]["podManagementPolicy"] = json!(policy);
    set["spec"]["serviceName"] = json!("store");
    let after = json!({ "5m": pods, "50m": 0 });
    (vec![set], json!({ "scale": [{ "kind": "StatefulSet", "name": "store", "after": after }] }))
}

/// The load is high and low in turn, for three minutes each.
fn autoscaler() -> (Vec<Value>, Value) {
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
    let cpu = json!({ "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 60 } });
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "web" },
        "spec": {
            "scaleTargetRef": target, "minReplicas": 10, "maxReplicas": 150,
            "metrics": [{ "type": "Resource", "resource": cpu }],
            "behavior": { "scaleDown": { "stabilizationWindowSeconds": 0 } },
        },
    });
    let load = |minute: u32| (format!("{minute}m"), json!(if minute.is_multiple_of(6) { 60 } else { 6 }));
    let after: serde_json::Map<String, Value> = (3..57).step_by(3).map(load).collect();
    (vec![workload("Deployment", "web", 10, 1_000), autoscaler], json!({ "load": [{ "name": "web", "after": after }] }))
}

/// All pods of a Deployment are replaced, and the new ones are created before the old ones are deleted.
fn rollout() -> (Vec<Value>, Value) {
    let of = |version: &str| {
        let mut web = workload("Deployment", "web", 200, 700);
        let strategy = json!({ "maxSurge": "100%", "maxUnavailable": 0 });
        web["spec"]["strategy"] = json!({ "type": "RollingUpdate", "rollingUpdate": strategy });
        web["spec"]["template"]["metadata"]["annotations"] = json!({ "version": version });
        web
    };
    let apply = |after: &str, version: &str| json!({ "after": after, "apply": of(version) });
    (vec![of("1")], json!({ "actions": [apply("20m", "2"), apply("40m", "3")] }))
}

fn quota() -> (Vec<Value>, Value) {
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "half" }, "spec": { "hard": { "pods": "150" } },
    });
    let (mut objects, more) = deployments(300);
    objects.push(quota);
    (objects, more)
}
