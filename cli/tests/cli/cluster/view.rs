//! `nodeless view` against `nodeless local`: it shows what the API server returns.

use crate::support::{Kubectl, World, example_node_pool, in_a_terminal, nodeless, run, wait_for};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const INFLATE: &str = include_str!("../../../src/demo/inflate.yaml");
/// A pod that fits on no instance type.
const TOO_LARGE: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: too-large
  namespace: default
spec:
  containers:
    - name: c
      image: registry.k8s.io/pause
      resources:
        requests:
          cpu: 5000
";

fn view(kubeconfig: &Path) -> Command {
    let mut command = nodeless();
    command.arg("view").arg("--kubeconfig").arg(kubeconfig);
    command
}

/// Five running pods on nodes of nodeless, and one pod that stays pending.
fn with_pods(world: &World) -> Option<Kubectl<'_>> {
    let kubectl = Kubectl::new(world)?;
    kubectl.apply(&example_node_pool("local"), &[]);
    kubectl.apply(INFLATE, &[]);
    kubectl.apply(TOO_LARGE, &[]);
    wait_for("five pods to run", || kubectl.running_pods() == 5);
    Some(kubectl)
}

/// The JSON of the view.
fn json(kubeconfig: &Path) -> Value {
    let ended = run(view(kubeconfig).args(["-o", "json"]));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
    serde_json::from_str(&ended.stdout).unwrap()
}

fn names(rows: &Value) -> BTreeSet<String> {
    rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

/// The names of the pods on a node, as the API server lists them.
fn pods_on(kubectl: &Kubectl<'_>, node: &str) -> BTreeSet<String> {
    let selector = format!("--field-selector=spec.nodeName={node}");
    let all =
        kubectl.run(&["get", "pods", "--all-namespaces", &selector, "--output=jsonpath={.items[*].metadata.name}"]);
    all.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn json_has_the_nodes_and_pods_of_the_api_server() {
    let world = World::start(&["--speed", "20"]);
    let Some(kubectl) = with_pods(&world) else { return };
    let shows_reason = |picture: &Value| picture["pending"][0]["reason"].as_str().unwrap_or_default().contains("cpu");
    wait_for("the reason of the pending pod", || shows_reason(&json(&world.kubeconfig)));
    let picture = json(&world.kubeconfig);
    let nodes: BTreeSet<String> = kubectl.names("nodes").into_iter().collect();
    assert_eq!(names(&picture["nodes"]), nodes);
    for node in picture["nodes"].as_array().unwrap() {
        assert_eq!(names(&node["pods"]), pods_on(&kubectl, node["name"].as_str().unwrap()), "{node}");
        assert_eq!(node["nodePool"], "default");
        let claim = node["nodeClaim"].as_str().unwrap();
        let of_claim = format!("jsonpath={{.metadata.labels.{}}}", "node\\.kubernetes\\.io/instance-type");
        assert_eq!(
            kubectl.run(&["get", "nodeclaim", claim, "--output", &of_claim]),
            node["instanceType"].as_str().unwrap()
        );
        assert!(node["pricePerHour"].as_f64().unwrap() > 0.0);
    }
    let requested: i64 = picture["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["load"]["requested"]["cpuMillicores"].as_i64().unwrap())
        .sum();
    assert_eq!((requested, &picture["totals"]["pods"]), (5_000, &5.into()), "five pods of one CPU");
    assert_eq!(names(&picture["pending"]), BTreeSet::from(["too-large".to_owned()]));
    assert_eq!(
        (&picture["pending"][0]["reportedBy"], &picture["warnings"]),
        (&"nodeless".into(), &Value::Array(vec![]))
    );
    assert!(picture["events"].as_array().unwrap().iter().any(|event| event["reason"] == "Nominated"));
}

#[test]
fn once_prints_a_line_for_each_node_and_plain_prints_sentences() {
    let world = World::start(&["--speed", "20"]);
    let Some(kubectl) = with_pods(&world) else { return };
    let node = kubectl.names("nodes").remove(0);
    let table = run(view(&world.kubeconfig).arg("--once"));
    assert_eq!((table.code, table.stderr.as_str()), (Some(0), ""), "{}", table.stdout);
    assert!(table.stdout.contains(&format!("\n {node} ")), "{}", table.stdout);
    let attention = table.stdout.lines().position(|line| line.starts_with("Needs attention (1)")).unwrap();
    assert!(attention < 6 && table.stdout.contains("Pod default/too-large has no node: "), "{}", table.stdout);
    let timeline = table.stdout.split("\nTime line\n").nth(1).unwrap();
    assert!(timeline.contains(" launch ") && timeline.contains("of NodePool default"), "{timeline}");
    assert!(!table.stdout.contains("Status condition transitioned"), "{}", table.stdout);
    assert!(
        table.stdout.contains("NodePool default  ") && table.stdout.contains("  default/too-large, "),
        "{}",
        table.stdout
    );
    assert!(!table.stdout.contains('\u{1b}'), "a pipe gets no escape sequences");
    let sentences = run(view(&world.kubeconfig).args(["--once", "--plain"]));
    assert!(sentences.stdout.contains(&format!("\nNode {node}: ready, ")), "{}", sentences.stdout);
    assert!(sentences.stdout.lines().all(|line| line.is_ascii()), "no drawing: {}", sentences.stdout);
}

#[test]
fn nodes_are_selected_grouped_and_shown_with_labels_and_gpus() {
    let world = World::start(&["--speed", "20"]);
    let Some(kubectl) = with_pods(&world) else { return };
    let nodes = kubectl.names("nodes");
    kubectl.run(&["label", "node", &nodes[0], "example.com/team=ml"]);
    let gpus = r#"{"status":{"allocatable":{"nvidia.com/gpu":"8"},"capacity":{"nvidia.com/gpu":"8"}}}"#;
    kubectl.run(&["patch", "node", &nodes[0], "--subresource=status", "--type=merge", "--patch", gpus]);
    let selected = |selector: &str| {
        let ended = run(view(&world.kubeconfig).args(["-o", "json", "-l", selector, "--group-by", "zone"]));
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
        serde_json::from_str::<Value>(&ended.stdout).unwrap()
    };
    for (selector, count) in [
        ("example.com/team=ml", 1),
        ("example.com/team in (ml, web),karpenter.sh/nodepool!=other", 1),
        ("example.com/team", 1),
        ("!example.com/team", nodes.len() - 1),
        ("example.com/team notin (ml)", nodes.len() - 1),
        ("karpenter.k8s.aws/instance-cpu>0", nodes.len()),
        ("karpenter.k8s.aws/instance-cpu<1", 0),
    ] {
        let picture = selected(selector);
        // kubectl selects the same nodes.
        let own = kubectl.run(&["get", "nodes", "--selector", selector, "--output=name"]);
        assert_eq!(own.lines().filter(|line| line.starts_with("node/")).count(), count, "{selector}: {own}");
        assert_eq!(picture["nodes"].as_array().unwrap().len(), count, "{selector}");
        assert_eq!(picture["hidden"]["nodes"], nodes.len() - count, "{selector}: {}", picture["hidden"]);
        let pods = picture["totals"]["pods"].as_u64().unwrap() + picture["hidden"]["pods"].as_u64().unwrap();
        assert_eq!(pods, 5, "{selector}");
        let zones: u64 = picture["groups"].as_array().unwrap().iter().map(|zone| zone["nodes"].as_u64().unwrap()).sum();
        assert_eq!(zones, count as u64, "{selector}");
    }
    let table =
        run(view(&world.kubeconfig).args(["--once", "-L", "example.com/team", "--group-by=capacity-type"])).stdout;
    assert!(table.contains(" GPU TEAM STATE") && table.contains(" 0/8 ml "), "{table}");
    assert!(table.contains("\nCapacity type ") && !table.contains("\nNodePool default"), "{table}");
    assert!(table.contains("/month; ") && table.contains(", nvidia.com/gpu 0/8\n"), "{table}");
    let sentences = run(view(&world.kubeconfig).args(["--once", "--plain", "--selector", "!example.com/team"])).stdout;
    assert!(sentences.lines().nth(1).unwrap().starts_with("The selector !example.com/team hides 1 of "), "{sentences}");
    for selector in ["a in b", "{{ .Values.team }}=ml", "a>b"] {
        let refused = run(view(&world.kubeconfig).args(["--once", "--selector", selector]));
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{selector}");
        assert!(refused.stderr.contains("--selector <SELECTOR>"), "{}", refused.stderr);
    }
}

#[test]
fn ages_are_those_of_kubectl_at_every_speed() {
    let started = Instant::now();
    let world = World::start(&["--speed", "500"]);
    let Some(kubectl) = with_pods(&world) else { return };
    // The server computes the ages of Tables, and clients those of timestamps; both count wall-clock time.
    let rows = kubectl.run(&["get", "nodes", "--no-headers"]);
    let ages: Vec<&str> = rows.lines().filter_map(|row| row.split_whitespace().nth(3)).collect();
    let sentences = run(view(&world.kubeconfig).args(["--once", "--plain"])).stdout;
    let shown =
        sentences.lines().filter(|line| line.starts_with("Node ")).filter_map(|line| line.split(", age ").nth(1));
    let shown: Vec<&str> = shown.filter_map(|rest| rest.split(',').next()).collect();
    let longest = started.elapsed().as_secs() + 1;
    let seconds = |age: &str| match age.split_once('m') {
        Some((minutes, rest)) => {
            60 * minutes.parse::<u64>().unwrap() + rest.trim_end_matches('s').parse::<u64>().unwrap_or(0)
        }
        None => age.trim_end_matches('s').parse::<u64>().unwrap_or_else(|_| panic!("{age}")),
    };
    assert!(!ages.is_empty() && ages.len() == shown.len(), "{rows}{sentences}");
    for age in ages.into_iter().chain(shown) {
        assert!(seconds(age) <= longest, "{age} is more than {longest} s: {rows}{sentences}");
    }
}

#[test]
fn plain_prints_each_change_until_its_reader_or_a_signal_ends_it() {
    let world = World::start(&["--speed", "20"]);
    let Some(kubectl) = Kubectl::new(&world) else { return };
    let mut child = view(&world.kubeconfig).arg("--plain").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().starts_with("0 nodes, 0 pods, 0 pods without a node, "));
    kubectl.apply(&example_node_pool("local"), &[]);
    kubectl.apply(INFLATE, &[]);
    let joined = lines.find(|line| line.starts_with("Joined: Node ip-")).unwrap();
    // Before nodeless has registered the node, its labels do not have the capacity type.
    assert!(joined.contains(" us-east-1"), "{joined}");
    drop(lines);
    // The next line does not reach a reader. Deleting the pods leads to one.
    kubectl.run(&["delete", "deployment", "inflate"]);
    wait_for("the end after the pipe was closed", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn without_a_terminal_or_a_cluster_it_states_what_to_do() {
    let ended = run(view(Path::new("/does/not/exist")).stdout(Stdio::piped()));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.contains("not a terminal") && ended.stderr.contains("--once, --plain"), "{}", ended.stderr);
    let ended = run(view(Path::new("/does/not/exist")).arg("--once"));
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("/does/not/exist"), "{}", ended.stderr);
}

#[test]
fn a_cluster_that_does_not_answer_is_one_error() {
    let world = World::start(&["--no-controllers"]);
    let kubeconfig = std::fs::read_to_string(&world.kubeconfig).unwrap();
    let port = nodeless_tests::free_port();
    let other = kubeconfig.replace(&world.kubernetes, &format!("http://127.0.0.1:{port}"));
    assert_ne!(other, kubeconfig);
    let path = world.kubeconfig.with_file_name("other");
    std::fs::write(&path, other).unwrap();
    let ended = run(view(&path).args(["-o", "json"]));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(
        ended.stderr.starts_with("error: Kubernetes list ") && ended.stderr.contains("kubectl cluster-info"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.stderr.lines().filter(|line| line.starts_with("error")).count(), 1, "{}", ended.stderr);
}

#[test]
fn the_terminal_is_restored_however_it_ends() {
    let world = World::start(&["--no-controllers"]);
    let binary = env!("CARGO_BIN_EXE_nodeless");
    let command = format!("{binary} view --kubeconfig {}", world.kubeconfig.display());
    for (keys, size) in [("q", "cols 80 rows 24"), ("\u{3}", "cols 160 rows 50"), ("/x\u{3}", "cols 80 rows 24")] {
        let commands = format!("stty {size}; {command}; echo ended with $?; stty -a");
        let Some(output) = in_a_terminal(&commands, "sorted", keys) else { return };
        let (during, after) = output.rsplit_once("ended with ").unwrap();
        assert!(during.contains("nodeless") && during.contains("\u{1b}[?1049h"), "{output}");
        assert!(during.contains("\u{1b}[?1049l"), "the alternate screen is left: {output}");
        assert!(after.starts_with('0') && after.contains(" icanon") && after.contains(" echo "), "{output}");
    }
    let commands = format!("stty cols 80 rows 24; timeout --foreground 3 {command}; echo ended with $?; stty -a");
    let output = in_a_terminal(&commands, "", "").unwrap();
    let (during, after) = output.rsplit_once("ended with ").unwrap();
    assert!(during.contains("\u{1b}[?1049h") && during.contains("\u{1b}[?1049l"), "SIGTERM: {output}");
    assert!(after.contains(" icanon") && after.contains(" echo "), "{output}");
    let commands = format!("stty cols 40 rows 8; {command}; echo ended with $?");
    let output = in_a_terminal(&commands, "", "").unwrap();
    // Errors are wrapped to the width of the terminal.
    let words = output.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("40 columns and 8 rows") && words.contains("ended with 1"), "{output}");
    assert!(!output.contains("\u{1b}[?1049h"), "nothing is drawn: {output}");
}
