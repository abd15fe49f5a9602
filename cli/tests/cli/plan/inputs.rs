//! `nodeless plan` of input that is not valid, incomplete or not applied.

use crate::plan::{CLASS, POOL, documents, node, parsed, piped, pod};
use crate::support::{Folder, nodeless, run};
use serde_json::json;
use std::fs;

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
