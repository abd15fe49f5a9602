//! `nodeless plan --scheduler-config`: the default topology spread constraints of the cluster's scheduler.

use crate::support::{Ended, Folder, nodeless, run};
use serde_json::Value;
use std::fs;

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

const REPLICA_SET: &str = "
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-1}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
";

const SERVICE: &str = "
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}}
";

/// Pods of a Deployment that has not been applied.
const DEPLOYMENT: &str = "
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, resources: {requests: {cpu: 100m, memory: 128Mi}}}]
";

const BY_ZONE: &str = "
podTopologySpread:
  defaultConstraints:
    - maxSkew: 1
      topologyKey: topology.kubernetes.io/zone
      whenUnsatisfiable: DoNotSchedule
";

/// Three pods of the ReplicaSet `web-1`, with these further fields of their specs.
fn pods(spec: &str) -> String {
    let pod = |name: &str| {
        format!(
            "
---
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  labels: {{app: web}}
  ownerReferences: [{{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: u, controller: true}}]
spec:
  containers: [{{name: c, resources: {{requests: {{cpu: 100m, memory: 128Mi}}}}}}]
  {spec}
"
        )
    };
    ["a", "b", "c"].map(pod).concat()
}

fn plan(objects: &str, config: Option<&str>) -> Ended {
    let folder = Folder::new();
    let write = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let mut command = nodeless();
    command.args(["plan", "-o", "json", "--cluster"]).arg(write("cluster.yaml", objects));
    if let Some(config) = config {
        command.arg("--scheduler-config").arg(write("scheduler.yaml", config));
    }
    run(&mut command)
}

/// The number of launches of a plan for all pods, and the warnings.
fn launches(objects: &str, config: Option<&str>) -> (usize, String) {
    let ended = plan(objects, config);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let plan: Value = serde_json::from_str(&ended.stdout).unwrap();
    (plan["launches"].as_array().unwrap().len(), ended.stderr)
}

#[test]
fn pods_of_services_and_controllers_are_spread() {
    let owned = POOL.to_owned() + REPLICA_SET + &pods("");
    assert_eq!(launches(&owned, None).0, 1, "without the setting");
    assert_eq!(launches(&owned, Some("{}")).0, 1, "without constraints");
    assert_eq!(launches(&owned, Some(BY_ZONE)).0, 3, "the selector of the ReplicaSet");
    let selected = POOL.to_owned() + SERVICE + &pods("");
    assert_eq!(launches(&selected, Some(BY_ZONE)).0, 3, "the selector of the Service");
    assert_eq!(launches(&(POOL.to_owned() + DEPLOYMENT), Some(BY_ZONE)).0, 3, "the selector of the Deployment");
}

#[test]
fn scheduling_anyway_is_a_preference_and_json_is_read() {
    let json = r#"{"podTopologySpread": {"defaultConstraints": [{"maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}]}}"#;
    let owned = POOL.to_owned() + REPLICA_SET + &pods("");
    assert_eq!(launches(&owned, Some(json)).0, 3);
}

#[test]
fn pods_with_constraints_of_their_own_and_pods_that_nothing_selects_are_not() {
    let own = "topologySpreadConstraints: [{maxSkew: 3, topologyKey: kubernetes.io/hostname, \
               whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]";
    let constrained = POOL.to_owned() + REPLICA_SET + &pods(own);
    assert_eq!(launches(&constrained, Some(BY_ZONE)).0, 1);
    let (count, warnings) = launches(&(POOL.to_owned() + &pods("")), Some(BY_ZONE));
    assert_eq!(count, 1);
    assert!(warnings.contains("of 3 pods are not in the export"), "{warnings}");
}

#[test]
fn a_malformed_configuration_is_refused() {
    let refused = |config: &str| {
        let ended = plan(POOL, Some(config));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
        assert_eq!(ended.stderr.trim_end().lines().count(), 1, "{}", ended.stderr);
        assert!(
            ended.stderr.contains("--scheduler-config ") && ended.stderr.contains("scheduler.yaml: "),
            "{}",
            ended.stderr
        );
        ended.stderr
    };
    for (config, problem) in [
        (
            "podTopologySpread: {defaultConstraints: [{maxSkew: 0, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]}",
            "podTopologySpread.defaultConstraints[0].maxSkew must be greater than 0",
        ),
        ("podTopologySpread: {defaultingType: List}", "defaultingType"),
        ("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n", "apiVersion"),
        ("podTopologySpread: {{ .Values.spread }}", ""),
        ("podTopologySpread: {", ""),
        (&"# \n".repeat(40_000), "it has more than 65536 bytes"),
    ] {
        let error = refused(config);
        assert!(error.contains(problem), "{problem}: {error}");
    }
    let ended = run(nodeless().args(["plan", "--scheduler-config", "/does/not/exist", "--cluster", "-"]));
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("/does/not/exist cannot be read"), "{}", ended.stderr);
}
