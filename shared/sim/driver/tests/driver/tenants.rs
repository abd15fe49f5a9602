//! What a tenant writes in a namespace does not stop anything for the others: the invariants of every simulation hold beside it.

use nodeless_driver::scenarios::Scenario;
use nodeless_driver::simulation::{Report, Run};
use nodeless_telemetry::Null;
use serde_json::{Value, json};
use std::sync::Arc;

/// A shop whose pods need more nodes than the NodePool may have, so that some of them wait, with a reason on each.
const SHOP: &str = r#"
name: shop
hours: 1
zones: [us-east-1a, us-east-1b]
instanceFamilies: [m6i]
objects:
  - { apiVersion: v1, kind: Namespace, metadata: { name: aaa } }
  - { apiVersion: v1, kind: Namespace, metadata: { name: shop } }
  - apiVersion: karpenter.sh/v1
    kind: NodePool
    metadata: { name: general }
    spec:
      template:
        spec:
          nodeClassRef: { group: karpenter.k8s.aws, kind: EC2NodeClass, name: default }
          requirements:
            - { key: karpenter.sh/capacity-type, operator: In, values: [on-demand] }
            - { key: karpenter.k8s.aws/instance-size, operator: In, values: [large] }
      limits: { cpu: "8" }
  - apiVersion: apps/v1
    kind: Deployment
    metadata: { name: web, namespace: shop }
    spec:
      replicas: 8
      selector: { matchLabels: { app: web } }
      template:
        metadata: { labels: { app: web } }
        spec:
          containers: [{ name: web, image: x, resources: { requests: { cpu: 1200m, memory: 1Gi } } }]
"#;

/// The shop with this limit of CPUs beside these objects of a tenant.
fn beside(cpu: &str, objects: impl IntoIterator<Item = Value>) -> Report {
    let mut scenario = Scenario::parse(SHOP).unwrap();
    let pool = scenario.objects.iter_mut().find(|object| object["kind"] == "NodePool").unwrap();
    pool["spec"]["limits"]["cpu"] = json!(cpu);
    scenario.objects.extend(objects);
    Run::new(scenario, 7, None, Arc::new(Null)).unwrap().finish().unwrap()
}

/// A DaemonSet of the tenant's namespace, which runs on all nodes.
fn agent(cpu: &str) -> Value {
    let labels = json!({ "app": "agent" });
    let container = json!({ "name": "c", "image": "x", "resources": { "requests": { "cpu": cpu } } });
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "agent", "namespace": "aaa" },
        "spec": { "selector": { "matchLabels": labels }, "template": {
            "metadata": { "labels": labels }, "spec": { "containers": [container] },
        } },
    })
}

/// A pod of the tenant's namespace, which is sorted before all others.
fn pod(name: &str, cpu: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "aaa", "annotations": annotations },
        "spec": { "containers": [{ "name": "c", "image": "x", "resources": { "requests": { "cpu": cpu } } }] },
    })
}

#[test]
fn a_pod_that_claims_to_be_virtual_silences_no_other() {
    let marks = json!({
        "karpenter.sh/capacity-buffer-fake-pod": "true",
        "karpenter.sh/capacity-buffer-name": "spare",
        "karpenter.sh/capacity-buffer-namespace": "shop",
        "autoscaling.x-k8s.io/provisioning-class-name": "check-capacity.autoscaling.x-k8s.io",
        "autoscaling.x-k8s.io/consume-provisioning-request": "train",
    });
    let report = beside("8", [pod("unschedulable", "900", &marks), pod("pending", "1200m", &marks)]);
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    assert_eq!(report.launched, 4, "as many nodes as the limit allows");
}

#[test]
fn a_namespace_launches_nothing_beyond_its_quota() {
    let metadata = |name: &str| json!({ "name": name, "namespace": "aaa" });
    let container =
        json!({ "name": "c", "image": "x", "resources": { "requests": { "cpu": "1200m", "memory": "1Gi" } } });
    let alone = beside("40", []).launched;
    let report = beside(
        "40",
        [
            json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata("q"),
            "spec": { "hard": { "requests.cpu": "1", "pods": "2" } } }),
            json!({ "apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata("big"),
            "template": { "spec": { "containers": [container] } } }),
            json!({ "apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": metadata("request"),
            "spec": { "provisioningClassName": "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
                "podSets": [{ "podTemplateRef": { "name": "big" }, "count": 2 }] } }),
            json!({ "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": metadata("buffer"),
            "spec": { "podTemplateRef": { "name": "big" }, "replicas": 2 } }),
        ],
    );
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    assert_eq!(report.launched, alone);
}

#[test]
fn no_node_is_launched_again_and_again_for_a_pod_that_a_daemon_set_keeps_off() {
    let agent = agent("100m");
    for key in ["kubernetes.io/hostname", "topology.kubernetes.io/zone"] {
        let term = json!({ "labelSelector": { "matchLabels": { "app": "agent" } }, "topologyKey": key });
        let mut lonely = pod("lonely", "1", &json!({}));
        lonely["spec"]["affinity"] =
            json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } });
        let alone = beside("40", [agent.clone()]).launched;
        let report = beside("40", [agent.clone(), lonely]);
        assert!(report.violations.is_empty(), "{key}: {:#?}", report.violations);
        assert_eq!(report.launched, alone, "{key}");
    }
}

#[test]
fn a_pod_near_the_pod_of_a_daemon_set_gets_a_node() {
    let agent = agent("100m");
    let term =
        json!({ "labelSelector": { "matchLabels": { "app": "agent" } }, "topologyKey": "kubernetes.io/hostname" });
    let mut near = pod("near", "1500m", &json!({}));
    near["spec"]["affinity"] = json!({ "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } });
    let alone = beside("40", [agent.clone()]).launched;
    let report = beside("40", [agent, near]);
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    assert_eq!(report.launched, alone + 1);
}

#[test]
fn a_daemon_set_that_a_quota_refuses_takes_nothing() {
    let agent = agent("1");
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "small", "namespace": "aaa" },
        "spec": { "hard": { "requests.cpu": "900m" } },
    });
    // Beside one CPU of the DaemonSet, no pod of the shop has space.
    let alone = beside("40", []).launched;
    let report = beside("40", [agent, quota]);
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    assert_eq!(report.launched, alone);
}
