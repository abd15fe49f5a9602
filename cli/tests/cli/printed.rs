//! What others wrote is printed without characters that change how a terminal shows the text around them.

use crate::support::objects::Objects;
use crate::support::{Ended, Folder, nodeless, run};
use nodeless_model::printable::printable_json;
use serde_json::{Value, json};
use std::fs;

/// An escape sequence with its end, a control character that begins another one, and characters that set the direction of text.
const HOSTILE: &str = "x\u{1b}]0;y\u{7}\u{7f}\u{9b}2J\u{202e}\u{2066}\u{200e}\u{200f}\u{61c}z";

fn is_hostile(character: char) -> bool {
    character != '\n' && HOSTILE.contains(character) && !character.is_ascii_graphic()
}

/// The string in double quotes, with escapes for the characters that YAML does not allow.
fn in_yaml(text: &str) -> String {
    printable_json(&serde_json::to_string(text).unwrap()).into_owned()
}

#[track_caller]
fn assert_harmless(ended: &Ended) {
    for text in [&ended.stdout, &ended.stderr] {
        assert!(!text.contains(is_hostile), "{text:?}");
    }
}

fn cluster(folder: &Folder) -> String {
    let mut objects = Objects::new();
    objects.pod(HOSTILE, None, "1");
    objects.pod(&format!("huge-{HOSTILE}"), None, "9000");
    let node = format!("node-{HOSTILE}");
    objects.node(&node, "m5.4xlarge", "on-demand");
    objects.pod("bound", Some(&node), "2")["metadata"]["annotations"] =
        json!({ "karpenter.sh/do-not-disrupt": HOSTILE });
    objects.budget(HOSTILE, "bound", 0);
    objects.0.push(json!({ "apiVersion": "example.com/v1", "kind": HOSTILE, "metadata": { "name": "other" } }));
    objects.0.push(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": HOSTILE }, "spec": HOSTILE }));
    let path = folder.path().join("cluster.json");
    fs::write(&path, json!({ "apiVersion": "v1", "kind": "List", "items": objects.0 }).to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

fn plan(path: &str, arguments: &[&str]) -> Ended {
    run(nodeless().args(["plan", "--disruption", "--cluster", path]).args(arguments))
}

#[test]
fn a_plan_prints_no_control_characters() {
    let folder = Folder::new();
    let path = cluster(&folder);
    let text = plan(&path, &["--explain", &format!("default/{HOSTILE}")]);
    assert_harmless(&text);
    assert!(text.stdout.contains("x\u{fffd}]0;y") && text.stderr.contains("x\u{fffd}]0;y"), "{text:?}");
}

/// The pods of a plan that are scheduled to new nodes.
fn launched(plan: &Value) -> Vec<&str> {
    let launches = plan["launches"].as_array().unwrap().iter();
    launches.flat_map(|launch| launch["pods"].as_array().unwrap()).filter_map(Value::as_str).collect()
}

#[test]
fn names_stay_the_same_in_json_and_yaml() {
    let folder = Folder::new();
    let path = cluster(&folder);
    let json = plan(&path, &["-o", "json"]);
    assert_harmless(&json);
    let as_json: Value = serde_json::from_str(&json.stdout).unwrap();
    let name = format!("default/{HOSTILE}");
    assert!(as_json.to_string().contains(&serde_json::to_string(&name).unwrap()), "{}", json.stdout);
    let yaml = plan(&path, &["-o", "yaml"]);
    assert_harmless(&yaml);
    let as_yaml: Value = serde_saphyr::from_str(&yaml.stdout).unwrap();
    assert_eq!(launched(&as_json), launched(&as_yaml));
    assert_eq!(as_json["unschedulable"], as_yaml["unschedulable"]);
}

#[test]
fn a_message_of_several_lines_begins_no_line_of_its_own() {
    let folder = Folder::new();
    let path = folder.path().join("cluster.yaml");
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a\nwarning: b" }, "spec": "none" });
    fs::write(&path, pod.to_string()).unwrap();
    let ended = plan(path.to_str().unwrap(), &[]);
    assert!(ended.stderr.contains("warning: b") && !ended.stderr.contains("\nwarning: b"), "{}", ended.stderr);
}

#[test]
fn converted_manifests_keep_their_values() {
    let folder = Folder::new();
    let path = folder.path().join("old.yaml");
    let direction = "\u{202e}\u{2066}\u{200e}\u{61c}";
    let quoted = in_yaml(HOSTILE);
    let manifest = format!(
        "# A comment{direction}\napiVersion: karpenter.sh/v1beta1\nkind: NodePool # right{direction}\n\
         metadata: {{ name: a, annotations: {{ a: {quoted}, b: plain{direction}text, c: 'single{direction}' }} }}\n\
         spec: {{ template: {{ spec: {{ nodeClassRef: {{ name: default }}, requirements: [] }} }} }}\n\
         ---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: other{direction} }}\ndata:\n  text: |\n    a{direction}\n    b\n\
         ---\n# Only a comment{direction}\n"
    );
    fs::write(&path, manifest).unwrap();
    let ended = run(nodeless().args(["convert", "-f"]).arg(&path));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_harmless(&ended);
    let objects = ended.stdout.split("---\n").take(2);
    let objects: Vec<Value> = objects.map(|text| serde_saphyr::from_str(text).unwrap()).collect();
    let annotations = &objects[0]["metadata"]["annotations"];
    assert_eq!(annotations["a"], HOSTILE);
    assert_eq!(annotations["b"], format!("plain{direction}text"));
    assert_eq!(annotations["c"], format!("single{direction}"));
    assert_eq!(objects[1]["metadata"]["name"], format!("other{direction}"));
    assert_eq!(objects[1]["data"]["text"], format!("a{direction}\nb\n"));
    assert!(
        ended.stdout.contains("# A comment\u{fffd}") && ended.stdout.contains("# Only a comment\u{fffd}"),
        "{ended:?}"
    );
}

#[test]
fn decisions_print_no_control_characters() {
    let folder = Folder::new();
    let path = folder.path().join("items.json");
    let detail = json!({ "unschedulable": [{ "pod": HOSTILE, "reasons": [HOSTILE] }], "failure": HOSTILE });
    let record = json!({ "id": "1", "at": "2026-01-01T00:00:00Z", "kind": "provisioning", "subjects": [HOSTILE],
        "summary": HOSTILE, "detail": detail.to_string() });
    let item = json!({ "pk": { "S": HOSTILE }, "sk": { "S": "decision#1" }, "record": { "S": record.to_string() } });
    fs::write(&path, json!({ "Items": [item] }).to_string()).unwrap();
    let decisions = |arguments: &[&str]| {
        let ended = run(nodeless().arg("decisions").arg(&path).args(arguments));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_harmless(&ended);
        ended.stdout
    };
    assert!(decisions(&[]).contains("x\u{fffd}]0;y"));
    let json: Value = serde_json::from_str(&decisions(&["-o", "json"])).unwrap();
    assert_eq!(json[0]["summary"], HOSTILE);
}

#[test]
fn a_simulation_prints_no_control_characters() {
    let folder = Folder::new();
    let path = folder.path().join("scenario.yaml");
    let scenario = format!("name: {}\nhours: 1\n", in_yaml(HOSTILE));
    fs::write(&path, scenario).unwrap();
    let ended = run(nodeless().args(["simulate", "--seeds", "0..1", "--hours", "1", "--scenario"]).arg(&path));
    assert_harmless(&ended);
    assert!(ended.stdout.contains("1 seeds of x\u{fffd}]0;y"), "{ended:?}");
}
