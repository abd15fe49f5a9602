//! `nodeless plan`: its output, exit codes and errors.

mod assumptions;
mod cluster;
mod default_spread;
mod disruption;
mod explained_nodes;
mod inputs;
mod policies;
mod repair_and_churn;
mod reservations;
mod snapshot;

use crate::support::{Ended, Folder, nodeless, run};
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

pub(crate) const POOL: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: default
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
";

pub(crate) const CLASS: &str = "
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: node
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
";

/// A minimal pod manifest.
pub(crate) fn pod(name: &str, cpu: &str, rest: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers: [{{name: c, resources: {{requests: {{cpu: \
         {cpu}, memory: 1Gi}}}}}}]\n{rest}"
    )
}

pub(crate) fn node(name: &str, rest: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{topology.kubernetes.io/zone: us-east-1a}}}}\nstatus: \
         {{allocatable: {{cpu: 4, memory: 8Gi, pods: 50}}}}\n{rest}"
    )
}

pub(crate) fn documents(documents: &[&str]) -> String {
    documents.join("\n---\n")
}

/// Plans for the objects on standard input.
pub(crate) fn piped(input: &str, arguments: &[&str]) -> Ended {
    let mut command = nodeless();
    command.args(["plan", "--cluster", "-"]).args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

pub(crate) fn parsed(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", ended.stdout, ended.stderr))
}

/// Plans, expects this exit code, and returns the plan.
pub(crate) fn planned(code: i32, parts: &[&str]) -> Value {
    let ended = piped(&documents(parts), &["-o", "json"]);
    assert_eq!(ended.code, Some(code), "{}{}", ended.stdout, ended.stderr);
    parsed(&ended)
}

#[test]
fn a_launch_has_every_documented_field() {
    let plan = planned(0, &[POOL, CLASS, &pod("web", "1", "")]);
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        keys(&plan),
        ["current", "launches", "placements", "pricePerHour", "statistics", "unschedulable", "volumes"]
    );
    let launch = &plan["launches"][0];
    assert_eq!(keys(launch), ["instanceTypes", "nodePool", "offering", "pods", "requests", "requirements"]);
    assert_eq!((&launch["nodePool"], &launch["pods"]), (&json!("default"), &json!(["default/web"])));
    assert_eq!(launch["requests"], json!({ "cpu": "1", "memory": "1Gi", "pods": "1" }));
    let prices: Vec<f64> =
        launch["instanceTypes"].as_array().unwrap().iter().map(|kind| kind["pricePerHour"].as_f64().unwrap()).collect();
    assert!(prices.len() >= 15 && prices.is_sorted(), "{prices:?}");
    let offering = &launch["offering"];
    assert_eq!(keys(offering), ["capacityType", "instanceType", "pricePerHour", "zone"]);
    assert_eq!(offering["capacityType"], "on-demand");
    assert_eq!(offering["instanceType"], launch["instanceTypes"][0]["name"]);
    assert_eq!(offering["pricePerHour"], plan["pricePerHour"]);
    let term = |key: &str| launch["requirements"].as_array().unwrap().iter().find(|term| term["key"] == key).cloned();
    assert_eq!(term("karpenter.sh/capacity-type").unwrap()["values"], json!(["on-demand"]));
    let statistics = &plan["statistics"];
    assert_eq!(keys(statistics), ["elapsedMilliseconds", "instanceTypes", "nodes", "peakMemoryBytes", "pods", "work"]);
    assert_eq!((&statistics["pods"], &statistics["nodes"]), (&json!(1), &json!(0)));
    assert!(statistics["instanceTypes"].as_u64().unwrap() > 1000);
    assert!(statistics["elapsedMilliseconds"].as_f64().unwrap() > 0.0);
    assert!(statistics["work"].as_u64().unwrap() > 0);
    if cfg!(target_os = "linux") {
        assert!(statistics["peakMemoryBytes"].as_u64().unwrap() > 1 << 20);
    }
}

#[test]
fn the_exit_code_shows_whether_all_pods_can_be_scheduled() {
    let gpu =
        "kind: Pod\nmetadata: {name: gpu}\nspec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}";
    let plan = planned(2, &[POOL, CLASS, &pod("web", "1", ""), gpu]);
    assert_eq!(plan["unschedulable"][0]["pod"], "default/gpu");
    let reason = plan["unschedulable"][0]["reasons"][0].as_str().unwrap();
    assert_eq!(plan["unschedulable"][0]["remedies"][0], "do not request nvidia.com/gpu", "{plan}");
    assert!(reason.starts_with("NodePool default: no instance type offers nvidia.com/gpu"), "{reason}");
    assert_eq!(plan["launches"].as_array().unwrap().len(), 1);

    let node = "kind: Node\nmetadata: {name: a}\nstatus: {allocatable: {cpu: 500m, memory: 1Gi, pods: 9}}";
    let nothing = planned(2, &[node, &pod("web", "1", "")]);
    assert!(nothing["unschedulable"][0]["reasons"][0].as_str().unwrap().contains("there is no NodePool"));
    let empty = planned(0, &[POOL, CLASS]);
    assert_eq!((&empty["statistics"]["pods"], empty["pricePerHour"].to_string()), (&json!(0), "0.0".to_owned()));
}

#[test]
fn the_plan_depends_only_on_the_objects() {
    let pods: Vec<String> =
        (0..40).map(|index| pod(&format!("p{index}"), ["100m", "2", "500m", "7"][index % 4], "")).collect();
    let mut parts: Vec<&str> = vec![POOL, CLASS];
    parts.extend(pods.iter().map(String::as_str));
    let forwards = without_measures(planned(0, &parts));
    parts.reverse();
    assert_eq!(without_measures(planned(0, &parts)), forwards);

    // Files, folders, JSON and Lists result in the same plan.
    let folder = Folder::new();
    fs::write(folder.path().join("a.yaml"), documents(&[POOL, CLASS])).unwrap();
    let items: Vec<Value> = (0..40)
        .map(|index| {
            let cpu = ["100m", "2", "500m", "7"][index % 4];
            let resources = json!({ "requests": { "cpu": cpu, "memory": "1Gi" } });
            json!({ "kind": "Pod", "metadata": { "name": format!("p{index}") },
                "spec": { "containers": [{ "name": "c", "resources": resources }] } })
        })
        .collect();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    fs::write(folder.path().join("b.json"), list.to_string()).unwrap();
    let ended = run(nodeless().args(["plan", "-o", "json", "--cluster"]).arg(folder.path()));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(without_measures(parsed(&ended)), forwards);
}

pub(crate) fn without_measures(mut plan: Value) -> Value {
    let statistics = plan["statistics"].as_object_mut().unwrap();
    statistics.remove("elapsedMilliseconds");
    statistics.remove("peakMemoryBytes");
    plan
}

#[test]
fn daemon_sets_count_as_overhead_of_new_nodes() {
    let daemon = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: kube-system}
spec:
  template:
    spec:
      tolerations: [{operator: Exists}]
      containers: [{name: c, resources: {requests: {cpu: 200m, memory: 256Mi}}}]
";
    let plan = planned(0, &[POOL, CLASS, daemon, &pod("web", "1", "")]);
    assert_eq!(plan["launches"][0]["requests"]["cpu"], "1200m");
    assert_eq!(plan["launches"][0]["requests"]["pods"], "2");
}

#[test]
fn daemon_sets_that_take_most_of_a_node_or_have_no_space_are_named() {
    let daemon = |cpu: &str| {
        format!(
            "
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: large, namespace: tenant}}
spec: {{template: {{spec: {{containers: [{{name: c, resources: {{requests: {{cpu: '{cpu}'}}}}}}]}}}}}}
"
        )
    };
    let web = pod("web", "1", "");
    let without = planned(0, &[POOL, CLASS, &web]);
    assert_eq!(without["daemonSets"], json!(null));
    let left_out = planned(0, &[POOL, CLASS, &daemon("1000"), &web]);
    assert_eq!(left_out["launches"], without["launches"]);
    let found = &left_out["daemonSets"][0];
    assert_eq!((&found["daemonSet"], &found["effect"]), (&json!("tenant/large"), &json!("leftOut")));
    let large = planned(0, &[POOL, CLASS, &daemon("90"), &web]);
    let (found, launch) = (&large["daemonSets"][0], &large["launches"][0]);
    assert_eq!((&found["effect"], &found["requested"]), (&json!("large"), &json!("90")));
    let price = launch["offering"]["pricePerHour"].as_f64().unwrap();
    let expected = found["share"].as_f64().unwrap() * price;
    assert!((found["pricePerHour"].as_f64().unwrap() - expected).abs() < 1e-5 && expected > price / 2.0, "{found}");
}

#[test]
fn an_ec2_node_class_limits_launches() {
    let many: Vec<String> = (0..12).map(|index| pod(&format!("p{index}"), "10m", "")).collect();
    let with = |class: &str| {
        let mut parts = vec![POOL, class];
        parts.extend(many.iter().map(String::as_str));
        planned(0, &parts)["launches"].as_array().unwrap().len()
    };
    assert_eq!(with(CLASS), 1);
    assert!(with(&format!("{CLASS}  kubelet: {{maxPods: 4}}\n")) >= 3);
    // An EC2NodeClass that is not ready, or is missing while others exist, launches nothing.
    let condition =
        "{type: Ready, status: 'False', reason: SubnetsNotFound, lastTransitionTime: '2026-01-01T00:00:00Z'}";
    let unready = format!("{CLASS}status: {{conditions: [{condition}]}}\n");
    for class in [unready, CLASS.replace("name: default", "name: other")] {
        let ended = piped(&documents(&[POOL, &class, &many[0]]), &["-o", "json"]);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("warning: NodePool default cannot be used: EC2NodeClass default"),
            "{}",
            ended.stderr
        );
    }
    // Without any EC2NodeClass the export is assumed to omit them.
    let ended = piped(&documents(&[POOL, &many[0]]), &["-o", "json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("there is no EC2NodeClass; default is assumed to be AL2023"), "{}", ended.stderr);
}

const CATALOG: &str = r#"{
  "region": "test", "zones": ["test-a", "test-b"],
  "instanceTypes": [ENTRIES],
  "offerings": [
    {"instanceType": "m5.large", "zone": "test-a", "capacityType": "on-demand", "pricePerHour": 0.5},
    {"instanceType": "m5.large", "zone": "test-b", "capacityType": "on-demand", "pricePerHour": 0.25, "available": false}
  ]
}"#;

#[test]
fn a_catalog_file_sets_types_zones_and_prices() {
    let folder = Folder::new();
    let path = folder.path().join("catalog.json");
    let entry = json!({
        "InstanceType": "m5.large", "CurrentGeneration": true, "BareMetal": false, "Hypervisor": "nitro",
        "SupportedUsageClasses": ["on-demand", "spot"], "SupportedVirtualizationTypes": ["hvm"],
        "ProcessorInfo": { "SupportedArchitectures": ["x86_64"], "SustainedClockSpeedInGhz": 3.1, "Manufacturer": "Intel" },
        "VCpuInfo": { "DefaultVCpus": 2, "DefaultCores": 1, "DefaultThreadsPerCore": 2 },
        "MemoryInfo": { "SizeInMiB": 8192 }, "InstanceStorageSupported": false,
        "EbsInfo": { "EbsOptimizedSupport": "default", "EncryptionSupport": "supported", "NvmeSupport": "required" },
        "NetworkInfo": {
            "NetworkPerformance": "Up to 10 Gigabit", "MaximumNetworkInterfaces": 3, "MaximumNetworkCards": 1,
            "DefaultNetworkCardIndex": 0, "Ipv4AddressesPerInterface": 10, "Ipv6AddressesPerInterface": 10,
            "Ipv6Supported": true, "EnaSupport": "required", "EfaSupported": false, "EncryptionInTransitSupported": false,
            "NetworkCards": [{ "NetworkCardIndex": 0, "NetworkPerformance": "Up to 10 Gigabit", "MaximumNetworkInterfaces": 3 }]
        },
        "PlacementGroupInfo": { "SupportedStrategies": ["cluster", "partition", "spread"] },
        "HibernationSupported": true, "BurstablePerformanceSupported": false, "DedicatedHostsSupported": true,
        "AutoRecoverySupported": true, "SupportedRootDeviceTypes": ["ebs"], "FreeTierEligible": false
    });
    fs::write(&path, CATALOG.replace("ENTRIES", &entry.to_string())).unwrap();
    let catalog = ["-o", "json", "--catalog", path.to_str().unwrap()];
    let ended = piped(&documents(&[POOL, CLASS, &pod("web", "1", "")]), &catalog);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let plan = parsed(&ended);
    let offering =
        json!({ "instanceType": "m5.large", "zone": "test-a", "capacityType": "on-demand", "pricePerHour": 0.5 });
    assert_eq!(plan["launches"][0]["offering"], offering);
    assert_eq!((&plan["pricePerHour"], &plan["statistics"]["instanceTypes"]), (&json!(0.5), &json!(1)));
    let elsewhere = piped(
        &documents(&[POOL, CLASS, &pod("web", "1", "  nodeSelector: {topology.kubernetes.io/zone: test-b}\n")]),
        &catalog,
    );
    assert_eq!(elsewhere.code, Some(2), "{}", elsewhere.stdout);
    let node = piped(&documents(&[&node("n", ""), &pod("web", "1", "")]), &catalog);
    assert!(node.stderr.contains("us-east-1a, which the catalog of test does not contain"), "{}", node.stderr);
}

#[test]
fn pods_with_higher_priority_are_scheduled_first_under_a_limit() {
    let classes = "
{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: high}, value: 1000}
---
{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: low}, value: -5, globalDefault: true}";
    let limited = format!("{POOL}  limits: {{nodes: 1}}\n");
    let spread = "  nodeSelector: {topology.kubernetes.io/zone: us-east-1a}\n";
    let one = pod("a-large", "250", spread);
    let other = pod("b-important", "300", &format!("{spread}  priorityClassName: high\n"));
    let plan = planned(2, &[&limited, CLASS, classes, &one, &other]);
    assert_eq!(plan["launches"][0]["pods"], json!(["default/b-important"]));
    assert_eq!(plan["unschedulable"][0]["pod"], "default/a-large");
}

#[test]
fn a_pod_is_explained_for_every_outcome() {
    let bound = "kind: Pod\nmetadata: {name: old}\nspec: {nodeName: n, containers: [{name: c}]}";
    let gated = "kind: Pod\nmetadata: {name: gated, namespace: shop}\nspec: {schedulingGates: [{name: wait}]}";
    let parts = [
        POOL,
        CLASS,
        &node("n", ""),
        bound,
        gated,
        &pod("small", "1", ""),
        &pod("large", "8", ""),
        &pod("huge", "900", ""),
    ];
    let input = documents(&parts);
    let explain: Vec<&str> =
        ["default/old", "gated", "small", "large", "huge"].into_iter().flat_map(|pod| ["--explain", pod]).collect();
    let ended = piped(&input, &[&["-o", "json"], explain.as_slice()].concat());
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    let plan = parsed(&ended);
    let outcome = |index: usize| plan["explanations"][index]["outcome"].as_str().unwrap().to_owned();
    let outcomes: Vec<String> = (0..5).map(outcome).collect();
    assert_eq!(outcomes, ["notPending", "notPending", "placement", "launch", "unschedulable"]);
    assert_eq!(plan["explanations"][1]["why"], "it has the scheduling gates wait");
    assert_eq!(plan["explanations"][2]["node"], "n");

    let text = piped(&input, &explain).stdout;
    for expected in [
        "Pod default/old is not pending: it is bound to node n",
        "Pod shop/gated is not pending: it has the scheduling gates wait",
        "Pod default/small fits on node n",
        "Pod default/large is scheduled to a new node of NodePool default",
        "Pod default/huge is unschedulable",
        "NodePool default: no instance type has enough cpu",
    ] {
        assert!(text.contains(expected), "{expected:?} is missing in\n{text}");
    }
    assert!(text.starts_with("Pod default/old is not pending"), "the answers are first: {text}");
    assert!(!text.contains("to launch") && text.contains("\nTotal: "), "the plan is printed without --explain: {text}");
}

#[test]
fn an_explanation_fits_on_a_screen_and_the_rest_is_in_json() {
    let pods = [pod("large", "40", "  nodeSelector: {kubernetes.io/arch: amd64}"), pod("huge", "900", "")];
    let input = documents(&[POOL, CLASS, &pods[0], &pods[1]]);
    let ended = piped(&input, &["--explain", "large"]);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert!(lines.len() <= 40, "{}", ended.stdout);
    assert_eq!(lines[0], "Pod default/large is scheduled to a new node of NodePool default");
    for part in [": the cheapest offering of the ", "or another of them, up to $", " more"] {
        assert!(lines[1..10].iter().any(|line| line.contains(part)), "{part}: {}", ended.stdout);
    }
    let ruled_out =
        lines.iter().position(|line| line.ends_with(" instance types are cheaper, but ruled out:")).unwrap();
    let types: usize = lines[ruled_out].split_whitespace().next().unwrap().parse().unwrap();
    let groups: Vec<&str> =
        lines[ruled_out + 1..].iter().take_while(|line| line.starts_with("    ")).copied().collect();
    let count = |group: &&str| group.split_whitespace().next().unwrap().parse::<usize>().unwrap();
    assert_eq!(groups.iter().map(count).sum::<usize>(), types, "{}", ended.stdout);
    assert!(
        groups.iter().any(|group| group.contains(" types: the pods need cpu 40, the largest leaves 3")),
        "{groups:?}"
    );
    assert!(groups.iter().any(|group| group.contains(" requires kubernetes.io/arch In [amd64]")), "{groups:?}");
    assert_eq!(lines[ruled_out + 1 + groups.len()], "  nodeless plan -o json lists all");

    let json = parsed(&piped(&input, &["--explain", "large", "-o", "json"]));
    let all = json["explanations"][0]["ruledOut"].as_array().unwrap();
    assert_eq!(all.len(), types);

    let huge = piped(&input, &["--explain", "huge"]).stdout;
    let [answer, remedy, ..] = huge.lines().collect::<Vec<_>>()[..] else { panic!("{huge}") };
    assert!(answer.starts_with("Pod default/huge is unschedulable: NodePool default: no instance type has enough cpu"));
    assert!(remedy.starts_with("  to schedule: "), "{huge}");
}

#[test]
fn text_lists_launches_placements_reasons_and_a_total() {
    let input = documents(&[
        POOL,
        CLASS,
        &node("n", ""),
        &pod("small", "1", ""),
        &pod("large", "8", ""),
        &pod("huge", "900", ""),
    ]);
    let ended = piped(&input, &[]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    for expected in [
        "1 node to launch",
        "NodePool  default",
        "default/large",
        "1 pod to schedule on 1 existing or in-flight node",
        "1 unschedulable pod",
        "Of 3 pods: 1 on new nodes, 1 on existing or in-flight nodes, 1 unschedulable.",
        "Solved in ",
        "spot prices synthetic",
    ] {
        assert!(ended.stdout.contains(expected), "{expected:?} is missing in\n{}", ended.stdout);
    }
    let yaml = piped(&input, &["-o", "yaml"]);
    assert!(yaml.stdout.starts_with("launches:\n") && yaml.stdout.contains("pricePerHour:"), "{}", yaml.stdout);
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let folder = Folder::new();
    let path = folder.path().join("cluster.yaml");
    fs::write(&path, documents(&[POOL, CLASS, &pod("web", "1", "")])).unwrap();
    let mut command: Command = nodeless();
    let mut child =
        command.args(["plan", "--cluster"]).arg(&path).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
}
