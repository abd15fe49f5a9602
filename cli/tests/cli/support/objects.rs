//! The objects of a cluster to plan for.

use super::{Ended, nodeless};
use nodeless_api::test_support::{ec2_node_class_manifest, node_pool_manifest};
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::Stdio;

/// The latest time in every cluster.
pub(crate) const LATEST: &str = "2026-01-10T12:00:00Z";

/// The objects of a cluster.
#[derive(Default)]
pub(crate) struct Objects(pub(crate) Vec<Value>);

impl Objects {
    /// A NodePool without restrictive disruption budgets, and its EC2NodeClass.
    pub(crate) fn new() -> Self {
        let mut objects = Self::default();
        let requirements = json!([
            { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand", "spot"] },
            { "key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5", "c5"] },
        ]);
        let disruption = json!({
            "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m", "budgets": [{ "nodes": "100%" }]
        });
        objects.0.push(node_pool_manifest("default", &requirements, &json!({ "disruption": disruption })));
        objects.0.push(ec2_node_class_manifest("default", "example", &json!({})));
        objects
    }

    /// A Node as the kubelet and the cloud controller label it, with its last heartbeat at the latest time.
    pub(crate) fn node(&mut self, name: &str, instance_type: &str, capacity_type: &str) -> &mut Value {
        self.0.push(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": name, "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {
                    "karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": "default",
                "node.kubernetes.io/instance-type": instance_type,
                    "karpenter.sh/capacity-type": capacity_type, "topology.kubernetes.io/zone": "us-east-1a",
                    "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
                    "kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"
                }
            },
            "status": { "conditions": [{
                "type": "Ready", "status": "True",
                "lastTransitionTime": "2026-01-01T00:01:00Z", "lastHeartbeatTime": LATEST
            }] }
        }));
        self.0.last_mut().unwrap()
    }

    /// A pod on a node, or a pending pod.
    pub(crate) fn pod(&mut self, name: &str, node: Option<&str>, cpu: &str) -> &mut Value {
        self.0.push(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "creationTimestamp": "2026-01-02T00:00:00Z", "labels": { "app": name } },
            "spec": {
                "nodeName": node,
                "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu, "memory": "1Gi" } } }]
            }
        }));
        self.0.last_mut().unwrap()
    }

    pub(crate) fn budget(&mut self, name: &str, app: &str, most: u32) {
        self.0.push(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": name },
            "spec": { "maxUnavailable": most, "selector": { "matchLabels": { "app": app } } }
        }));
    }

    pub(crate) fn pool(&mut self) -> &mut Value {
        &mut self.0[0]
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": self.0 });
        let mut command = nodeless();
        command.args(["plan", "--disruption", "--cluster", "-"]).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(list.to_string().as_bytes()).unwrap();
        child.wait_with_output().unwrap().into()
    }

    /// Plans, expects this exit code, and returns the plan.
    pub(crate) fn plan(&self, code: i32, arguments: &[&str]) -> Value {
        let ended = self.run(&[&["-o", "json"], arguments].concat());
        assert_eq!(ended.code, Some(code), "{}{}", ended.stdout, ended.stderr);
        serde_json::from_str(&ended.stdout).unwrap()
    }
}

/// The reasons why a node is not disrupted, in one string; empty if it is not listed.
pub(crate) fn kept(plan: &Value, node: &str) -> String {
    let all = plan["kept"].as_array().unwrap();
    let reasons = all.iter().find(|kept| kept["node"] == node).map(|kept| kept["reasons"].as_array().unwrap().clone());
    let reasons = reasons.unwrap_or_default();
    reasons.iter().map(|reason| reason.as_str().unwrap()).collect::<Vec<_>>().join("; ")
}

/// The events on an object, one per line.
pub(crate) fn events(plan: &Value, kind: &str, name: &str) -> String {
    let events = plan["events"].as_array().unwrap().iter();
    let own = events.filter(|event| event["object"]["kind"] == kind && event["object"]["name"] == name);
    own.map(|event| format!("{}: {}", event["reason"].as_str().unwrap(), event["message"].as_str().unwrap()))
        .collect::<Vec<_>>()
        .join("\n")
}
