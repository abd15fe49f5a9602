//! `nodeless doctor`, against a local cluster.

use crate::support::{Ended, Kubectl, World, example_node_pool, nodeless, run, wait_for};
use serde_json::{Value, json};

const FAULTS: &str = "apiVersion: karpenter.sh/v1
kind: NodePool
metadata: { name: impossible }
spec:
  template:
    spec:
      nodeClassRef: { group: karpenter.k8s.aws, kind: EC2NodeClass, name: default }
      requirements: [{ key: karpenter.k8s.aws/instance-family, operator: In, values: [zz9] }]
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: { name: untagged }
spec:
  role: local-node
  amiSelectorTerms: [{ alias: al2023@latest }]
  subnetSelectorTerms: [{ tags: { karpenter.sh/discovery: other } }]
  securityGroupSelectorTerms: [{ tags: { karpenter.sh/discovery: local } }]
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: autoscaler, namespace: kube-system }
spec:
  replicas: 1
  selector: { matchLabels: { app: autoscaler } }
  template:
    metadata: { labels: { app: autoscaler } }
    spec: { containers: [{ name: controller, image: \"public.ecr.aws/karpenter/controller:1.1.0\" }] }
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: { name: never, namespace: kube-system }
spec: { maxUnavailable: 0, selector: { matchLabels: { app: autoscaler } } }
---
apiVersion: v1
kind: Pod
metadata: { name: huge, namespace: default }
spec: { containers: [{ name: huge, image: huge, resources: { requests: { cpu: 9k } } }] }
";

fn doctor(world: &World, arguments: &[&str]) -> Ended {
    run(nodeless().arg("doctor").arg("--kubeconfig").arg(&world.kubeconfig).args(arguments))
}

/// The findings as `severity check object`.
fn findings(ended: &Ended) -> Vec<String> {
    let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let all = report["findings"].as_array().unwrap().iter();
    all.map(|finding| format!("{} {} {}", text(finding, "severity"), text(finding, "check"), text(finding, "object")))
        .collect()
}

#[test]
fn a_local_cluster_is_ready_until_something_is_wrong() {
    let world = World::start(&["--speed", "20"]);
    let Some(kubectl) = Kubectl::new(&world) else { return };
    let not_checked = ["notChecked access ", "notChecked quotas "];
    let empty = doctor(&world, &["-o", "json"]);
    assert_eq!(findings(&empty), [&["warning nodePools "], &not_checked[..]].concat());
    assert_eq!(empty.code, Some(0));

    kubectl.apply(&example_node_pool("local"), &[]);
    kubectl.run(&["wait", "nodepool/default", "--for=condition=Ready", "--timeout=60s"]);
    let note = "note bootTime EC2NodeClass default";
    assert_eq!(findings(&doctor(&world, &["-o", "json"])), [&not_checked[..], &[note]].concat());

    kubectl.apply(FAULTS, &[]);
    wait_for("the status of the class", || {
        kubectl.run(&["get", "ec2nodeclass", "untagged", "-o", "yaml"]).contains("SubnetsNotFound")
    });
    wait_for("the pod of the controller", || kubectl.run(&["get", "pods", "-A"]).contains("autoscaler-"));
    let found = doctor(&world, &["-o", "json"]);
    assert_eq!(found.code, Some(3), "{}", found.stderr);
    let expected = [
        "error karpenter Deployment kube-system/autoscaler",
        "error discovery EC2NodeClass untagged",
        "error nodePools NodePool impossible",
        "warning disruptionBudgets PodDisruptionBudget kube-system/never",
        "warning pods Pod default/huge",
    ];
    let notes = ["note bootTime EC2NodeClasses default, untagged"];
    assert_eq!(findings(&found), [&expected[..], &not_checked[..], &notes[..]].concat(), "{}", found.stdout);

    let text = doctor(&world, &[]);
    assert_eq!(text.code, Some(3));
    assert!(text.stdout.ends_with("3 errors, 2 warnings, 2 not checked, 1 note\n"), "{}", text.stdout);
    assert!(text.stdout.contains("no instance type meets its requirements"), "{}", text.stdout);
    assert!(text.stdout.lines().all(|line| line.chars().count() <= 120), "{}", text.stdout);
}

/// A block of YAML of a page of the documentation.
fn example(page: &str) -> String {
    let text = std::fs::read_to_string(nodeless_tests::workspace().join("docs/nodepools").join(page)).unwrap();
    let block = text.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    block.unwrap_or_else(|| panic!("no YAML in {page}")).to_owned()
}

#[test]
fn node_pools_without_nodes_for_pods_are_no_faults() {
    let world = World::start(&["--speed", "20"]);
    let Some(kubectl) = Kubectl::new(&world) else { return };
    kubectl.apply(&example_node_pool("local"), &[]);
    // A fixed number of nodes, and a schedule by which the NodePool has no nodes at any time.
    kubectl.apply(&example("static.md"), &[]);
    let scheduled = example("night.md").replace("0 20 * * mon-thu for 11h; 0 20 * * fri for 59h", "0 0 * * * for 24h");
    assert!(scheduled.contains("nodeless.sh/sleep: 0 0 * * * for 24h"), "{scheduled}");
    kubectl.apply(&scheduled, &[]);
    for pool in ["default", "ingress", "dev"] {
        kubectl.run(&["wait", &format!("nodepool/{pool}"), "--for=condition=Ready", "--timeout=60s"]);
    }
    let found = doctor(&world, &["-o", "json"]);
    let expected = ["notChecked access ", "notChecked quotas ", "note bootTime EC2NodeClass default"];
    assert_eq!(findings(&found), expected, "{}", found.stdout);
    assert_eq!(found.code, Some(0));
}

#[test]
fn a_catalog_of_another_region_is_not_used() {
    let world = World::start(&["--speed", "20"]);
    let Some(kubectl) = Kubectl::new(&world) else { return };
    kubectl.apply(&example_node_pool("local"), &[]);
    kubectl.run(&["wait", "nodepool/default", "--for=condition=Ready", "--timeout=60s"]);
    let folder = crate::support::Folder::new();
    let path = folder.path().join("catalog.json");
    let catalog = json!({
        "region": "eu-west-1", "zones": ["eu-west-1a"],
        "instanceTypes": [{
            "InstanceType": "m5.large", "VCpuInfo": { "DefaultVCpus": 2 }, "MemoryInfo": { "SizeInMiB": 8192 },
            "ProcessorInfo": { "SupportedArchitectures": ["x86_64"] },
            "NetworkInfo": {
                "MaximumNetworkInterfaces": 3, "Ipv4AddressesPerInterface": 10,
                "NetworkCards": [{ "NetworkCardIndex": 0, "MaximumNetworkInterfaces": 3 }],
            },
        }],
        "offerings": [
            { "instanceType": "m5.large", "zone": "eu-west-1a", "capacityType": "on-demand", "pricePerHour": 0.1 },
        ],
    });
    std::fs::write(&path, catalog.to_string()).unwrap();
    let ended = doctor(&world, &["-o", "json", "--catalog", path.to_str().unwrap()]);
    let expected = [
        "notChecked access ",
        "notChecked nodePools ",
        "notChecked quotas ",
        "notChecked pods ",
        "notChecked daemonSets ",
        "note bootTime EC2NodeClass default",
    ]
    .map(str::to_owned);
    assert_eq!(findings(&ended), expected, "{}", ended.stdout);
    assert!(ended.stdout.contains("the cluster is in us-east-1, and the catalog is of eu-west-1"), "{}", ended.stdout);
}

#[test]
fn a_cluster_that_cannot_be_reached_is_an_error() {
    let folder = crate::support::Folder::new();
    let ended = run(nodeless().args(["doctor", "--kubeconfig"]).arg(folder.path().join("none")));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.contains("kubeconfig"), "{}", ended.stderr);
}
