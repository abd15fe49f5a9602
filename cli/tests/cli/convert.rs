//! `nodeless convert`, and what other commands report about manifests that need it.

use crate::support::{Ended, Folder, World, nodeless, run};
use std::fs;
use std::io::Write as _;
use std::process::Stdio;

const OLD: &str = "# Pools of 2022
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: { name: default }
spec:
  providerRef: { name: default }
  kubeletConfiguration: { maxPods: 20 }
  limits: { resources: { cpu: 100 } } # enough
  consolidation: { enabled: true }
---
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: { name: default }
spec:
  amiFamily: AL2023
  subnetSelector: { karpenter.sh/discovery: demo }
  securityGroupSelector: { karpenter.sh/discovery: demo }
";
const BETA: &str = "apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: { name: beta }
spec:
  template: { spec: { nodeClassRef: { name: default }, requirements: [] } }
";
const POD: &str = "apiVersion: v1
kind: Pod
metadata: { name: web-0, namespace: default }
spec:
  containers: [{ name: web, image: web, resources: { requests: { cpu: \"1\" } } }]
";

fn piped(arguments: &[&str], input: &str) -> Ended {
    let mut command = nodeless();
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

#[test]
fn a_workload_can_be_planned_with_converted_objects() {
    let converted = piped(&["convert", "-", "--role", "node"], OLD);
    assert_eq!(converted.code, Some(0), "{}", converted.stderr);
    assert!(converted.stdout.starts_with("# Pools of 2022\napiVersion: karpenter.sh/v1\n"), "{}", converted.stdout);
    assert!(converted.stderr.lines().all(|line| line.starts_with("changed: standard input: ")), "{}", converted.stderr);

    let planned = piped(&["plan", "--cluster", "-", "-o", "json"], &format!("{}---\n{POD}", converted.stdout));
    assert_eq!(planned.code, Some(0), "{}{}", planned.stdout, planned.stderr);
    let plan: serde_json::Value = serde_json::from_str(&planned.stdout).unwrap();
    assert_eq!(plan["launches"][0]["nodePool"], "default", "{plan:#}");
    assert!(!planned.stderr.contains("cannot be used"), "{}", planned.stderr);
}

#[test]
fn an_error_names_the_field_and_nothing_is_printed() {
    let cases = [
        (OLD.to_owned(), "error: standard input: AWSNodeTemplate default: spec.role: v1 requires"),
        (
            BETA.replace("requirements: []", "requirements: [], unknown: 1"),
            "spec.template.spec.unknown: it is not a field of a v1 NodePool",
        ),
        (
            BETA.replace("requirements: []", "requirements: [{ key: karpenter.sh/nodepool, operator: Exists }]"),
            "NodePool beta: spec.template.spec.requirements[0].key: the v1 NodePool would be refused",
        ),
        (BETA.replace("name: beta", "name: {{ .Release.Name }}"), "line 3: the manifest has templating left in it"),
    ];
    for (input, expected) in cases {
        let ended = piped(&["convert", "-f", "-"], &input);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{input}");
        assert!(ended.stderr.contains(expected), "no {expected:?} in {}", ended.stderr);
        assert!(ended.stderr.ends_with("error: nothing was written because of 1 error\n"), "{}", ended.stderr);
    }
    for empty in ["", "# nothing\n"] {
        let ended = piped(&["convert", "-f", "-"], empty);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
        assert!(ended.stderr.contains("no Kubernetes object in "), "{}", ended.stderr);
    }
}

#[test]
fn files_of_a_directory_are_one_stream() {
    let folder = Folder::new();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("a.yaml"), POD.trim_end()).unwrap();
    fs::write(path("b.yml"), BETA).unwrap();
    fs::write(path("notes.txt"), "{{").unwrap();
    let ended = run(nodeless().args(["convert"]).arg(folder.path()));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.starts_with(&format!("{POD}---\napiVersion: karpenter.sh/v1\n")), "{}", ended.stdout);

    fs::write(path("c.yaml"), [0xff, 0x00]).unwrap();
    let ended = run(nodeless().args(["convert", "-f"]).arg(folder.path()));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.contains("c.yaml is not UTF-8 text"), "{}", ended.stderr);
}

#[test]
fn what_is_current_is_printed_as_it_is() {
    let ended = piped(&["convert", "-f", "-"], POD);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), POD));
    assert!(ended.stderr.contains("nothing to convert"), "{}", ended.stderr);
}

#[test]
fn plan_names_the_command_for_v1beta1() {
    let ended = piped(&["plan", "--cluster", "-"], &format!("{BETA}---\n{POD}"));
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("NodePool beta: apiVersion: \"karpenter.sh/v1beta1\" is not supported; convert it to v1 with `nodeless convert -f FILE`"),
        "{}",
        ended.stderr
    );
}

#[cfg(unix)]
#[test]
fn a_local_cluster_refuses_earlier_apis_and_names_the_command() {
    let world = World::start(&["--speed", "20"]);
    let Some(kubectl) = crate::support::Kubectl::new(&world) else { return };
    let folder = Folder::new();
    let path = folder.path().join("old.yaml");
    for (manifest, object) in [
        (BETA, "\"beta\" is invalid"),
        (OLD, "Provisioner.karpenter.sh \"default\" is invalid"),
        (OLD, "AWSNodeTemplate.karpenter.k8s.aws \"default\" is invalid"),
    ] {
        fs::write(&path, manifest).unwrap();
        let ended = kubectl.attempt(&["apply", "-f", path.to_str().unwrap()]);
        assert_eq!(ended.code, Some(1), "{}", ended.stdout);
        assert!(ended.stderr.contains(object) && ended.stderr.contains("nodeless convert -f FILE"), "{}", ended.stderr);
    }
    let converted = piped(&["convert", "-f", "-", "--role", "local-node"], &OLD.replace("demo", "local"));
    assert!(kubectl.apply(&converted.stdout, &[]).contains("nodepool.karpenter.sh/default created"));
    // The version that nodeless serves is the one that clients use.
    assert!(kubectl.run(&["get", "nodepools", "-o", "yaml"]).contains("apiVersion: karpenter.sh/v1\n"));
    kubectl.run(&["wait", "nodepool/default", "--for=condition=Ready", "--timeout=60s"]);
}
