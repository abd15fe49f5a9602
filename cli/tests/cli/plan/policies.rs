//! `nodeless plan --preference-policy` and `--min-values-policy`, with the values of Karpenter's settings.

use crate::support::{Ended, Folder, nodeless, run};
use serde_json::Value;
use std::fs;

/// A NodePool of which at least three instance types have to fit, and its EC2NodeClass.
const POOL: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m5.xlarge, m5.2xlarge], minValues: 3}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: node
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
";

/// A pod that prefers to be in another zone than the others with its label.
fn spread(name: &str) -> String {
    format!(
        "
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: web}}}}
spec:
  containers: [{{name: c, resources: {{requests: {{cpu: 100m, memory: 128Mi}}}}}}]
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: topology.kubernetes.io/zone
      whenUnsatisfiable: ScheduleAnyway
      labelSelector: {{matchLabels: {{app: web}}}}
"
    )
}

/// A pod that fits two of the three instance types.
const LARGE: &str = "
---
apiVersion: v1
kind: Pod
metadata: {name: large}
spec:
  containers: [{name: c, resources: {requests: {cpu: 3, memory: 1Gi}}}]
";

fn plan(objects: &str, arguments: &[&str]) -> Ended {
    let folder = Folder::new();
    let path = folder.path().join("cluster.yaml");
    fs::write(&path, objects).unwrap();
    run(nodeless().args(["plan", "-o", "json", "--cluster"]).arg(&path).args(arguments))
}

/// The number of launches of a plan for all pods.
fn launches(objects: &str, arguments: &[&str]) -> usize {
    let ended = plan(objects, arguments);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let plan: Value = serde_json::from_str(&ended.stdout).unwrap();
    plan["launches"].as_array().unwrap().len()
}

#[test]
fn preferences_are_kept_or_ignored() {
    let objects = POOL.to_owned() + &["a", "b", "c"].map(spread).concat();
    assert_eq!(launches(&objects, &[]), 3, "a node in each zone");
    assert_eq!(launches(&objects, &["--preference-policy", "Respect"]), 3);
    assert_eq!(launches(&objects, &["--preference-policy", "Ignore"]), 1);
    assert_eq!(launches(&objects, &["--preference-policy", "ignore"]), 1, "in any case");
}

#[test]
fn min_values_are_required_or_not() {
    let objects = POOL.to_owned() + LARGE;
    for arguments in [&[][..], &["--min-values-policy", "Strict"]] {
        let ended = plan(&objects, arguments);
        assert_eq!(ended.code, Some(2), "{}{}", ended.stdout, ended.stderr);
        assert!(ended.stdout.contains("minValues"), "{}", ended.stdout);
    }
    for value in ["BestEffort", "bestEffort", "best-effort"] {
        assert_eq!(launches(&objects, &["--min-values-policy", value]), 1, "{value}");
    }
}

#[test]
fn other_values_are_refused() {
    let ended = plan(POOL, &["--min-values-policy", "Sometimes"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("[possible values: Strict, BestEffort]"), "{}", ended.stderr);
}
