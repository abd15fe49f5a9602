//! `nodeless plan`: its output, exit codes and errors.

use crate::support::objects::Objects;
use crate::support::{Ended, Folder, nodeless, run};
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

const POOL: &str = "
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

const CLASS: &str = "
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
fn pod(name: &str, cpu: &str, rest: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers: [{{name: c, resources: {{requests: {{cpu: \
         {cpu}, memory: 1Gi}}}}}}]\n{rest}"
    )
}

fn node(name: &str, rest: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{topology.kubernetes.io/zone: us-east-1a}}}}\nstatus: \
         {{allocatable: {{cpu: 4, memory: 8Gi, pods: 50}}}}\n{rest}"
    )
}

fn documents(documents: &[&str]) -> String {
    documents.join("\n---\n")
}

/// Plans for the objects on standard input.
fn piped(input: &str, arguments: &[&str]) -> Ended {
    let mut command = nodeless();
    command.args(["plan", "--cluster", "-"]).args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

fn parsed(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", ended.stdout, ended.stderr))
}

/// Plans, expects this exit code, and returns the plan.
fn planned(code: i32, parts: &[&str]) -> Value {
    let ended = piped(&documents(parts), &["-o", "json"]);
    assert_eq!(ended.code, Some(code), "{}{}", ended.stdout, ended.stderr);
    parsed(&ended)
}

#[test]
fn what_the_api_server_would_refuse_is_an_error() {
    let class = |from: &str, to: &str| {
        assert!(CLASS.contains(from), "{from}");
        piped(&documents(&[POOL, &CLASS.replace(from, to), &pod("web", "1", "")]), &[]).stderr
    };
    for (from, to, field) in [
        ("role: node", "role: ''", "spec.role: "),
        ("subnetSelectorTerms: [{tags: {a: b}}]", "subnetSelectorTerms: [{}]", "spec.subnetSelectorTerms: "),
        ("subnetSelectorTerms: [{tags: {a: b}}]", "subnetSelectorTerms: []", "spec.subnetSelectorTerms: "),
        ("role: node", "kubelet: {kubeReserved: {cpu: '-1'}}", "spec.kubelet.kubeReserved: "),
    ] {
        let printed = class(from, to);
        assert!(printed.contains(&format!("EC2NodeClass default: {field}")), "{to}: {printed}");
    }
    // Planning does not use fields that are missing, and a cluster has its own definitions.
    assert!(!class("  role: node\n", "").contains("EC2NodeClass default:"));
    let stored = class("metadata: {name: default}", "metadata: {name: default, uid: a}");
    assert!(!stored.contains("EC2NodeClass default:"), "{stored}");
    let pool = POOL.replace("metadata:\n  name: default\nspec:", "metadata:\n  name: default\nspec:\n  weight: 1000");
    let printed = piped(&documents(&[&pool, CLASS, &pod("web", "1", "")]), &[]).stderr;
    assert!(printed.contains("NodePool default: spec.weight: "), "{printed}");
    for (manifest, field) in [
        (pod("web", "-1", ""), "Pod default/web: spec.containers[0].resources.requests.cpu: \"-1\" must be"),
        (node("n", "").replace("cpu: 4", "cpu: -4"), "Node n: status.allocatable.cpu: \"-4\" must be"),
    ] {
        let printed = piped(&documents(&[POOL, CLASS, &manifest]), &[]).stderr;
        assert!(printed.contains(field), "{printed}");
    }
}

/// The built-in NodePool of EKS Auto Mode, whose class has the name of the EC2NodeClass.
const AUTO_MODE: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general-purpose}
spec:
  template:
    spec:
      nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: default}
      requirements: [{key: eks.amazonaws.com/instance-category, operator: In, values: [c, m, r]}]
  disruption: {consolidationPolicy: WhenAWSLikes}
";

#[test]
fn a_node_pool_of_another_controller_is_named_once_and_launches_nothing() {
    let pod = pod("web", "1", "  nodeSelector: {karpenter.sh/nodepool: general-purpose}");
    let ended = piped(&documents(&[POOL, AUTO_MODE, CLASS, &pod]), &["-o", "json"]);
    assert_eq!(parsed(&ended)["launches"], json!([]), "{}", ended.stdout);
    let named: Vec<&str> = ended.stderr.lines().filter(|line| line.contains("general-purpose")).collect();
    let [line] = named[..] else { panic!("{}", ended.stderr) };
    assert!(
        line.starts_with("warning: NodePool of other controllers: general-purpose (class eks.amazonaws.com/NodeClass)")
    );
}

#[test]
fn what_another_controller_launches_is_capacity_for_pods() {
    let claim = |name: &str, created: &str| {
        format!(
            "
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: {name}
  creationTimestamp: {created}
  labels: {{karpenter.sh/nodepool: general-purpose, topology.kubernetes.io/zone: us-east-1a}}
spec:
  nodeClassRef: {{group: eks.amazonaws.com, kind: NodeClass, name: default}}
  requirements: []
status: {{providerID: 'aws:///us-east-1a/i-0a', allocatable: {{cpu: 4, memory: 8Gi, pods: 50}}}}
"
        )
    };
    let at = |seconds: u32| format!("'2026-01-01T00:{:02}:{:02}Z'", seconds / 60, seconds % 60);
    let web = pod("web", "1", "").replace("{name: web}", &format!("{{name: web, creationTimestamp: {}}}", at(1200)));
    let launches =
        |claim: &str| planned(0, &[POOL, AUTO_MODE, CLASS, &web, claim])["launches"].as_array().unwrap().len();
    assert_eq!(launches(&claim("general-purpose-abcde", &at(1190))), 0, "its node is about to join");
    assert_eq!(launches(&claim("general-purpose-abcde", &at(100))), 1, "its node does not join any more");
    let small = claim("general-purpose-abcde", &at(1190)).replace("cpu: 4", "cpu: 500m");
    assert_eq!(launches(&small), 1, "it is too small");
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
fn manifests_without_a_node_pool_are_planned_with_an_assumed_one() {
    let ended = piped(&documents(&[&pod("web", "100m", "")]), &["-o", "json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let expected = "warning: the input has no NodePool and no Node; the NodePool default is assumed: on-demand, amd64, instance categories c, \
                    m, r of generations above 2";
    assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    let offering = &parsed(&ended)["launches"][0]["offering"];
    assert_eq!(offering["capacityType"], "on-demand", "{}", ended.stdout);
    // The cheapest of these categories is an m1.small.
    assert!(!offering["instanceType"].as_str().unwrap().starts_with("m1."), "{}", ended.stdout);
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
fn an_invalid_object_is_an_error_and_the_others_are_planned() {
    let invalid = pod("bad", "many", "");
    let ended = piped(&documents(&[POOL, CLASS, &invalid, &pod("web", "1", "")]), &["-o", "json"]);
    assert_eq!(ended.code, Some(1));
    let expected = "error: standard input: document 3 (line 25): Pod default/bad: spec.containers[0].resources.requests.cpu: \"many\"";
    assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    assert_eq!(parsed(&ended)["launches"][0]["pods"], json!(["default/web"]));
}

#[test]
fn invalid_input_prints_only_the_error() {
    let folder = Folder::new();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let good = write("good.yaml", &documents(&[POOL, CLASS]));
    let cases: [(Vec<&str>, &str); 6] = [
        (vec!["--cluster", "/nonexistent.yaml"], "/nonexistent.yaml cannot be read"),
        (vec!["--cluster", &good, "--catalog", "/nonexistent.json"], "/nonexistent.json cannot be read"),
        (vec!["--cluster", &good, "--catalog", &good], "good.yaml: not JSON"),
        (vec!["--cluster", &good, "--explain", "none"], "--explain none: no pod has this name"),
        (vec!["--cluster", &good, "--output", "table"], "invalid value 'table'"),
        (vec!["--kubeconfig", "/nonexistent"], "no kubeconfig at /nonexistent"),
    ];
    for (arguments, expected) in cases {
        let ended = run(nodeless().arg("plan").args(&arguments));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{arguments:?}: {}", ended.stderr);
    }
    let garbage = piped("a: [", &[]);
    assert_eq!((garbage.code, garbage.stdout.as_str()), (Some(1), ""), "{}", garbage.stderr);
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let ended = run(nodeless().args(["plan", "--cluster"]).arg(&empty));
    assert!(ended.code == Some(1) && ended.stderr.contains("has no .yaml"), "{}", ended.stderr);
}

#[test]
fn templating_left_in_manifests_is_named() {
    let chart = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Release.Name }}-web\n";
    let ended = piped(chart, &[]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("line 4: the manifest has templating left in it ({{ .Release.Name }})"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("helm template"), "{}", ended.stderr);
}

#[test]
fn input_without_an_object_that_planning_uses_is_an_error() {
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n";
    for (input, found) in
        [("", "in standard input; give"), ("# nothing\n", "in standard input; give"), (service, "only 1 Service;")]
    {
        let ended = piped(input, &[]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{input:?}");
        assert!(
            ended.stderr.contains("no object that planning uses") && ended.stderr.contains(found),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn kinds_before_karpenter_1_are_errors_that_name_convert() {
    let old = "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: default}\n---\n\
               apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: default}\n---\n\
               apiVersion: karpenter.sh/v1alpha5\nkind: Machine\nmetadata: {name: default-x7k2p}\n";
    let errors = [
        "Provisioner default: apiVersion: \"karpenter.sh/v1alpha5\" was removed in Karpenter 1.0; make a NodePool of it with \
         `nodeless convert -f FILE`",
        "AWSNodeTemplate default: apiVersion: \"karpenter.k8s.aws/v1alpha1\" was removed in Karpenter 1.0; make an EC2NodeClass of it \
         with `nodeless convert -f FILE`",
        "Machine default-x7k2p: apiVersion: \"karpenter.sh/v1alpha5\" was removed in Karpenter 1.0; convert the file with `nodeless \
         convert -f FILE`, which leaves Machines out",
    ];
    // Alone they are no file without objects.
    for parts in [&[old, POOL, CLASS][..], &[old]] {
        let ended = piped(&documents(parts), &[]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        for error in errors {
            assert!(ended.stderr.contains(error), "no {error:?} in {}", ended.stderr);
        }
        assert!(!ended.stderr.contains("skipped"), "{}", ended.stderr);
    }
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

fn without_measures(mut plan: Value) -> Value {
    let statistics = plan["statistics"].as_object_mut().unwrap();
    statistics.remove("elapsedMilliseconds");
    statistics.remove("peakMemoryBytes");
    plan
}

#[test]
fn pods_are_scheduled_to_existing_and_in_flight_nodes() {
    let bound = "kind: Pod\nmetadata: {name: old}\nspec: {nodeName: n, containers: [{name: c, resources: {requests: {cpu: 3}}}]}";
    let plan = planned(0, &[POOL, CLASS, &node("n", ""), bound, &pod("small", "500m", ""), &pod("large", "2", "")]);
    assert_eq!(plan["placements"], json!([{ "pod": "default/small", "node": "n" }]));
    assert_eq!(plan["launches"][0]["pods"], json!(["default/large"]));
    assert_eq!(plan["statistics"]["nodes"], 1);

    let claim = "
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: default-abcde, labels: {karpenter.sh/nodepool: default, karpenter.sh/capacity-type: on-demand,
  topology.kubernetes.io/zone: us-east-1a, node.kubernetes.io/instance-type: m5.xlarge}}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
  requirements: []
status: {providerID: 'aws:///us-east-1a/i-0123', conditions: []}
";
    let plan = planned(0, &[POOL, CLASS, claim, &pod("web", "3", "")]);
    assert_eq!(plan["placements"], json!([{ "pod": "default/web", "node": "default-abcde" }]));

    let cordoned = planned(0, &[POOL, CLASS, &node("n", "spec: {unschedulable: true}"), &pod("web", "1", "")]);
    assert_eq!(cordoned["placements"], json!([]));
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
fn limits_count_existing_nodes() {
    let limited = format!("{POOL}  limits: {{cpu: 6}}\n");
    let existing =
        "kind: Node\nmetadata: {name: n, labels: {karpenter.sh/nodepool: default}}\nstatus: {capacity: {cpu: 4}}\n";
    let plan = planned(2, &[&limited, CLASS, existing, &pod("web", "3", "")]);
    let reason = plan["unschedulable"][0]["reasons"][0].as_str().unwrap();
    assert!(reason.contains("limit cpu 6 reached: 4 used"), "{reason}");
    assert_eq!(planned(0, &[&limited, CLASS, &pod("web", "3", "")])["unschedulable"], json!([]));
}

#[test]
fn annotations_that_are_invalid_or_not_read_are_reported() {
    let annotated = POOL.replacen("name: default", "name: default\n  annotations: {nodeless.sh/balance-zone: '0'}", 1);
    assert_ne!(annotated, POOL);
    let system = "kind: Namespace\nmetadata: {name: kube-system, annotations: {nodeless.sh/pause-disruption: maybe}}\n";
    let class = CLASS.replacen("{name: default}", "{name: default, annotations: {nodeless.sh/ami-canary: 30m}}", 1);
    assert_ne!(class, CLASS);
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api, annotations: {nodeless.sh/surge-before-drain: scale}}\n\
                      spec:\n  selector: {matchLabels: {app: api}}\n  template:\n    metadata:\n      labels: {app: api}\n      \
                      annotations: {nodeless.sh/surge-before-drain: scaled, nodeless.sh/min-on-demand: '2'}\n    spec: {containers: [{name: a}]}\n";
    let ended = piped(&documents(&[&annotated, &class, system, deployment, &pod("web", "1", "")]), &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for warning in [
        "warning: EC2NodeClass default: annotation nodeless.sh/ami-canary has no effect, because nodeless does not read it from this \
         object: set it on a NodePool",
        "warning: Deployment default/api: annotation nodeless.sh/surge-before-drain has no effect, because nodeless does not read it from \
         this object: set it on the pod template",
        ": annotation nodeless.sh/surge-before-drain is \"scaled\", which is ignored: write restart or scale",
        ": annotation nodeless.sh/min-on-demand has no effect, because nodeless does not read it from this object: set it on a NodePool",
        "warning: NodePool default: annotation nodeless.sh/balance-zone has no effect, because nodeless does not read it from this object: \
         did you mean nodeless.sh/balance-zones?",
        "warning: Namespace kube-system: annotation nodeless.sh/pause-disruption is \"maybe\", which pauses disruption until it is",
    ] {
        assert!(ended.stderr.contains(warning), "{}", ended.stderr);
    }
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

#[cfg(unix)]
#[test]
fn a_live_cluster_and_its_export_have_the_same_plan() {
    use crate::support::{Kubectl, World};
    // Without controllers nothing is launched, and the pods stay pending.
    let world = World::start(&["--no-controllers"]);
    let Some(kubectl) = Kubectl::new(&world) else { return };
    kubectl.apply(&documents(&[POOL, CLASS, include_str!("../../src/demo/inflate.yaml")]), &[]);
    crate::support::wait_for("five pending pods", || kubectl.names("pods").len() == 5);
    let mut live = nodeless();
    live.args(["plan", "-o", "json", "--kubeconfig"]).arg(&world.kubeconfig);
    let live = run(&mut live);
    assert_eq!(live.code, Some(0), "{}{}", live.stdout, live.stderr);
    let plan = without_measures(parsed(&live));
    assert_eq!(plan["statistics"]["pods"], 5);
    for format in ["yaml", "json"] {
        let export = kubectl.run(&["get", "pods,nodepools,ec2nodeclasses", "-A", "--output", format]);
        let offline = piped(&export, &["-o", "json"]);
        assert_eq!(offline.code, Some(0), "{format}: {}", offline.stderr);
        assert_eq!(without_measures(parsed(&offline)), plan, "{format}");
    }
}

const VOLUME: &str = "
{kind: PersistentVolume, apiVersion: v1, metadata: {name: pv}, spec: {csi: {driver: ebs.csi.aws.com, volumeHandle: vol-1},
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [
    {key: topology.kubernetes.io/zone, operator: In, values: [us-east-1b]}]}]}}}}
---
{kind: PersistentVolumeClaim, apiVersion: v1, metadata: {name: data}, spec: {volumeName: pv}}
---
{kind: PersistentVolumeClaim, apiVersion: v1, metadata: {name: lost}, spec: {volumeName: pv}, status: {phase: Lost}}";

#[test]
fn pods_are_scheduled_to_the_zone_of_their_volumes() {
    let with = |claim: &str| {
        pod("db", "1", &format!("  volumes: [{{name: v, persistentVolumeClaim: {{claimName: {claim}}}}}]\n"))
    };
    let plan = planned(0, &[POOL, CLASS, VOLUME, &with("data")]);
    assert_eq!(plan["launches"][0]["offering"]["zone"], "us-east-1b");
    for claim in ["lost", "missing"] {
        let plan = planned(2, &[POOL, CLASS, VOLUME, &with(claim)]);
        let reason = plan["unschedulable"][0]["reasons"][0].as_str().unwrap();
        assert!(reason.contains(claim), "{reason}");
        assert_eq!(plan["statistics"]["pods"], 1);
    }
    // An ephemeral volume of the default StorageClass.
    let class = "{kind: StorageClass, apiVersion: storage.k8s.io/v1, metadata: {name: gp3, annotations: \
                 {storageclass.kubernetes.io/is-default-class: 'true'}}, provisioner: ebs.csi.aws.com, volumeBindingMode: \
                 WaitForFirstConsumer, allowedTopologies: [{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: \
                 [us-east-1c]}]}]}";
    let scratch = pod("scratch", "1", "  volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {}}}}]\n");
    assert_eq!(planned(0, &[POOL, CLASS, class, &scratch])["launches"][0]["offering"]["zone"], "us-east-1c");
    assert_eq!(planned(0, &[POOL, CLASS, &scratch])["unschedulable"], json!([]), "a default StorageClass is assumed");
    // A CSINode limits the number of volumes of a node.
    let full = "{kind: CSINode, apiVersion: storage.k8s.io/v1, metadata: {name: n}, spec: {drivers: [{name: ebs.csi.aws.com, \
                nodeID: n, topologyKeys: [], allocatable: {count: 0}}]}}";
    let node = node("n", "").replace("us-east-1a", "us-east-1b");
    assert_eq!(planned(0, &[POOL, CLASS, VOLUME, &node, &with("data")])["placements"][0]["node"], "n");
    assert_eq!(planned(0, &[POOL, CLASS, VOLUME, &node, full, &with("data")])["placements"], json!([]));
}

#[test]
fn pods_are_scheduled_to_nodes_with_the_devices_that_they_claim() {
    let pool = POOL.replace("[c, m, r]", "[c, m, r, g]");
    let class = "{kind: DeviceClass, apiVersion: resource.k8s.io/v1, metadata: {name: gpu.nvidia.com}, spec: {selectors: [{cel: \
                 {expression: \"device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'\"}}]}}";
    let template = |name: &str, expression: &str| {
        format!(
            "{{kind: ResourceClaimTemplate, apiVersion: resource.k8s.io/v1, metadata: {{name: {name}}}, spec: {{spec: {{devices: \
             {{requests: [{{name: r, exactly: {{deviceClassName: gpu.nvidia.com, selectors: [{{cel: {{expression: \"{expression}\"}}}}]}}}}]}}}}}}}}"
        )
    };
    let ada = template("ada", "device.attributes['gpu.nvidia.com'].architecture == 'Ada Lovelace'");
    let new = template("new", "device.attributes['gpu.nvidia.com'].driverVersion.isGreaterThan(semver('580.0.0'))");
    let claiming =
        |name: &str| pod(name, "1", &format!("  resourceClaims: [{{name: gpu, resourceClaimTemplateName: {name}}}]\n"));
    let plan = planned(0, &[&pool, CLASS, class, &ada, &claiming("ada")]);
    let chosen = plan["launches"][0]["offering"]["instanceType"].as_str().unwrap();
    assert!(chosen.starts_with("g6"), "{chosen}");
    for (pods, expected) in [
        (
            claiming("new"),
            "needs attribute gpu.nvidia.com/driverVersion of driver gpu.nvidia.com, which is not known before",
        ),
        (claiming("none"), "ResourceClaimTemplate default/none does not exist"),
    ] {
        let plan = planned(2, &[&pool, CLASS, class, &new, &pods]);
        let reason = plan["unschedulable"][0]["reasons"][0].as_str().unwrap();
        assert!(reason.contains(expected), "{reason}");
    }
    // The first alternative is chosen, and each has its price.
    let requests = |family: &str| {
        format!(
            "{{name: {family}, deviceClassName: gpu.nvidia.com, selectors: [{{cel: {{expression: \"device.attributes['gpu.nvidia.com'].productName == 'NVIDIA {family}'\"}}}}]}}"
        )
    };
    let either = format!(
        "{{kind: ResourceClaimTemplate, apiVersion: resource.k8s.io/v1, metadata: {{name: either}}, spec: {{spec: {{devices: {{requests: \
         [{{name: r, firstAvailable: [{}, {}, {}]}}]}}}}}}}}",
        requests("L40S"),
        requests("L4"),
        requests("H200")
    );
    let text = piped(&documents(&[&pool, CLASS, class, &either, &claiming("either")]), &[]).stdout;
    let lines: Vec<&str> = text.lines().filter_map(|line| line.trim_start().strip_prefix("devices   ")).collect();
    assert!(
        lines.len() == 3 && lines[0].starts_with("r/L40S  $") && lines[0].ends_with("/h (g6e.xlarge), chosen"),
        "{text}"
    );
    assert!(lines[1].starts_with("r/L4    $") && lines[1].contains("/h (g6"), "{text}");
    assert_eq!(lines[2], "r/H200  no NodePool launches a node with it");
    // A node of the cluster has devices of its own.
    let slice = "{kind: ResourceSlice, apiVersion: resource.k8s.io/v1, metadata: {name: s}, spec: {driver: gpu.nvidia.com, nodeName: n, \
                 pool: {name: n, generation: 1, resourceSliceCount: 1}, devices: [{name: gpu-0, attributes: {type: {string: gpu}, \
                 driverVersion: {version: 581.0.0}}}]}}";
    let plan = planned(0, &[&pool, CLASS, class, &new, &node("n", ""), slice, &claiming("new")]);
    assert_eq!(plan["placements"][0]["node"], "n");
    let malformed = slice.replace("generation: 1", "generation: one");
    let ended = piped(&documents(&[&pool, CLASS, class, &ada, &malformed, &claiming("ada")]), &["-o", "json"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("ResourceSlice"), "{}", ended.stderr);
}

#[test]
fn node_overlays_and_capacity_buffers_apply() {
    let overlay = "
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: cheap}
spec: {requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.4xlarge]}], price: '0.0001'}";
    let plan = planned(0, &[POOL, CLASS, overlay, &pod("web", "1", "")]);
    assert_eq!(plan["launches"][0]["offering"]["instanceType"], "m5.4xlarge");
    assert_eq!(plan["pricePerHour"], 0.0001);

    let buffer = "
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: spare, namespace: default}
spec: {provisioningStrategy: buffer.x-k8s.io/active-capacity, scalableRef: {apiGroup: apps, kind: Deployment, name: inflate}, replicas: 2}";
    let plan = planned(0, &[POOL, CLASS, buffer, include_str!("../../src/demo/inflate.yaml")]);
    let launches = plan["launches"].as_array().unwrap().iter();
    let pods: Vec<&str> =
        launches.flat_map(|launch| launch["pods"].as_array().unwrap()).map(|pod| pod.as_str().unwrap()).collect();
    assert_eq!(pods.len(), 7, "two of the buffer, and five of the Deployment");
    assert_eq!(pods[..2], ["default/capacity-buffer-spare-0", "default/capacity-buffer-spare-1"]);
    let quota =
        "{apiVersion: v1, kind: ResourceQuota, metadata: {name: team, namespace: default}, spec: {hard: {pods: '1'}}}";
    let limited = piped(&documents(&[POOL, CLASS, buffer, quota, include_str!("../../src/demo/inflate.yaml")]), &[]);
    assert!(
        limited.stderr.contains("CapacityBuffer default/spare has 1 of 2 chunks: ResourceQuota default/team"),
        "{}",
        limited.stderr
    );
    let missing = piped(&documents(&[POOL, CLASS, buffer]), &[]);
    assert!(
        missing.stderr.contains("CapacityBuffer default/spare is left out: Deployment inflate does not exist"),
        "{}",
        missing.stderr
    );
}

#[test]
fn namespace_selectors_use_namespace_labels() {
    let namespace = "{kind: Namespace, apiVersion: v1, metadata: {name: other, labels: {team: a}}}";
    let away = "  affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: \
                kubernetes.io/hostname, labelSelector: {matchLabels: {app: x}}, namespaceSelector: {matchLabels: {team: a}}}]}}\n";
    let bound = "{kind: Pod, metadata: {name: x, namespace: other, labels: {app: x}}, spec: {nodeName: n, containers: [{name: c}]}}";
    let without = planned(0, &[POOL, CLASS, &node("n", ""), bound, &pod("web", "1", away)]);
    assert_eq!(without["placements"][0]["node"], "n");
    let with = planned(0, &[POOL, CLASS, &node("n", ""), bound, namespace, &pod("web", "1", away)]);
    assert_eq!(with["placements"], json!([]));
}

#[test]
fn a_zonal_shift_prevents_launches_in_its_zone() {
    let bound = "  nodeSelector: {topology.kubernetes.io/zone: us-east-1a}\n";
    let input = documents(&[POOL, CLASS, &pod("free", "2", ""), &pod("bound", "2", bound)]);
    let plan = |arguments: &[&str]| -> Value {
        let ended = piped(&input, &[&["-o", "json"], arguments].concat());
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
    };
    assert_eq!(plan(&[])["unschedulable"], json!([]));
    for zone in ["us-east-1a", "use1-az2"] {
        let plan = plan(&["--zonal-shift", zone]);
        assert_eq!(plan["unschedulable"][0]["pod"], "default/bound", "{plan}");
        let launches = plan["launches"].as_array().unwrap();
        assert!(launches.len() == 1 && launches[0]["offering"]["zone"] != "us-east-1a", "{plan}");
    }
    let ended = piped(&input, &["--zonal-shift", "us-east-9z"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("us-east-9z") && ended.stderr.contains("us-east-1a"), "{}", ended.stderr);
}

#[test]
fn the_plan_shows_what_the_cluster_costs_now_and_how_full_it_is() {
    let mut objects = Objects::new();
    objects.node("a", "m5.large", "on-demand");
    objects.node("b", "m5.4xlarge", "on-demand");
    objects.node("elsewhere", "x99.large", "on-demand");
    objects.pod("web", Some("b"), "1500m");
    let plan = objects.plan(0, &[]);
    let current = &plan["current"];
    assert_eq!((&current["nodes"], &current["withoutPrice"]), (&json!(3), &json!(1)), "{current:#}");
    // The prices of m5.large and m5.4xlarge.
    assert_eq!(current["pricePerHour"], json!(0.864));
    assert_eq!(current["requested"]["cpu"], "1500m");
    let text = objects.run(&[]).stdout;
    let line = text.lines().find(|line| line.starts_with("Now: ")).unwrap();
    assert!(
        line.starts_with(
            "Now: 3 nodes for $0.8640/h ($631 a month) without 1 node whose price is unknown; pods request "
        ),
        "{line}"
    );
    let cpu = current["allocatable"]["cpu"].as_str().unwrap();
    assert!(line.contains("% of cpu and ") && line.ends_with("% of memory."), "{line} {cpu}");
}

#[test]
fn a_cluster_of_another_region_has_its_prices() {
    let pool = format!(
        "{POOL}        - {{key: topology.kubernetes.io/zone, operator: In, values: [eu-central-1a, eu-central-1b]}}\n"
    );
    let input = documents(&[&pool, CLASS, &pod("web", "1", "")]);
    let ended = piped(&input, &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("Prices: eu-central-1, on-demand prices of May 2025"), "{}", ended.stdout);
    let plan = planned(0, &[&pool, CLASS, &pod("web", "1", "")]);
    let offering = &plan["launches"][0]["offering"];
    assert!(offering["zone"].as_str().unwrap().starts_with("eu-central-1"), "{offering}");
    assert_eq!(plan["derivedPrices"], Value::Null, "its price is published");
    let newer = format!("{pool}        - {{key: karpenter.k8s.aws/instance-family, operator: In, values: [c8a]}}\n");
    let plan = planned(0, &[&newer, CLASS, &pod("web", "1", "")]);
    assert_eq!(plan["derivedPrices"], json!([plan["launches"][0]["offering"]["instanceType"]]));
    let ended = piped(&documents(&[&newer, CLASS, &pod("web", "1", "")]), &[]);
    assert!(ended.stdout.contains("Derived, not published: the on-demand prices of c8a."), "{}", ended.stdout);
    // Files that name no region are planned for us-east-1, or for the region of the command line.
    let anywhere = documents(&[POOL, CLASS, &pod("web", "1", "")]);
    let home = piped(&anywhere, &[]);
    assert!(home.stdout.contains("Prices: us-east-1, on-demand prices of July 2026"), "{}", home.stdout);
    let chosen = piped(&anywhere, &["--region", "sa-east-1"]);
    assert!(chosen.stdout.contains("Prices: sa-east-1"), "{}", chosen.stdout);
    let new = piped(&anywhere, &["--region", "ap-east-2"]);
    assert!(new.stdout.contains("ap-east-2, for which no prices are embedded"), "{}", new.stdout);
    let wrong = piped(&anywhere, &["--region", "frankfurt"]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.stderr.contains("\"frankfurt\" is not an AWS region"), "{}", wrong.stderr);
}

#[test]
fn a_manifest_that_is_not_applied_is_planned_with_its_replicas() {
    let deployment = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 10
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, resources: {requests: {cpu: 1, memory: 1Gi}}}]
";
    let ended = piped(&documents(&[deployment, POOL, CLASS]), &["--explain", "default/web-7"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("Of 10 pods: 10 on new nodes"), "{}", ended.stdout);
    assert!(ended.stderr.contains("pods of workloads that have none in the input: Deployment default/web (10)"));
    assert!(ended.stdout.contains("default/web-7"), "{}", ended.stdout);
}
