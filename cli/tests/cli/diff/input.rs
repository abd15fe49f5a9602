//! Input that cannot be compared: one clear error, exit code 1, and nothing on standard output.

use super::{between, deployment, ended, set, written};
use crate::support::{Ended, Folder, nodeless, run};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// What is wrong with this text as HEAD.
fn refused(text: &[u8], expected: &str) {
    let folder = Folder::new();
    let base = written(&folder, "base", &set(&[]));
    let head = folder.path().join("head.yaml");
    fs::write(&head, text).unwrap();
    for paths in [[base.as_path(), &head], [&head, base.as_path()]] {
        is_error(&between(paths, &["-o", "markdown"]), expected);
    }
}

fn is_error(ended: &Ended, expected: &str) {
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{expected}: {}", ended.stderr);
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert!(lines.len() <= 2 && lines.iter().all(|line| line.starts_with("error: ")), "{expected}: {}", ended.stderr);
    assert!(lines[0].contains(expected), "{expected}: {}", ended.stderr);
}

#[test]
fn what_is_no_whole_manifest_is_refused() {
    let web = deployment("web", 1, "1").to_string();
    refused(b"kind: Deployment\nmetadata:\n  name: {{ .Values.name }}\n", "template");
    refused(b"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: 'web-{{ .Release.Name }}'}\n", "template");
    refused(&web.as_bytes()[..web.len() / 2], "head.yaml: document 1");
    refused(b"kind: Deployment\nmetadata:\n  name: [web\n", "it is not YAML");
    refused(b"replicaCount: 3\nimage: {tag: 'v1'}\n", "this is not a Kubernetes object");
    refused(&[0x7f, b'E', b'L', b'F', 0, 0xff, 0xfe, 0x80], "head.yaml: document 1");
    refused(b"kind: Deployment\nmetadata: {name: web}\nspec: {replicas: many}\n", "spec.replicas");
    refused(b"kind: Deployment\nmetadata: {name: web}\nspec: {replicas: 4000000000}\n", "replicas");
}

#[test]
fn the_state_of_a_cluster_is_no_set() {
    for (object, expected) in [
        (
            json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" } }),
            "Node n: Nodes, NodeClaims and Pods with a node",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" }, "spec": { "nodeName": "n", "containers": [] } }),
            "Pod default/p: Nodes, NodeClaims and Pods with a node",
        ),
    ] {
        refused(object.to_string().as_bytes(), expected);
    }
}

#[test]
fn paths_without_objects_are_refused() {
    let folder = Folder::new();
    let set = written(&folder, "set", &set(&[]));
    let (absent, empty) = (folder.path().join("absent"), folder.path().join("empty"));
    fs::create_dir_all(empty.join(".git")).unwrap();
    fs::write(empty.join(".git/a.yaml"), "kind: Pod").unwrap();
    fs::write(empty.join("README.md"), "# chart").unwrap();
    is_error(&between([&set, &absent], &[]), "absent cannot be read");
    is_error(&between([&empty, &set], &[]), "empty has no .yaml, .yml or .json file");
    let other = folder.path().join("other.yaml");
    fs::write(&other, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}").unwrap();
    is_error(
        &between([&other, Path::new("/dev/null")], &[]),
        "neither BASE nor HEAD has an object that planning uses, only ConfigMap",
    );
    is_error(&between([Path::new("-"), Path::new("-")], &[]), "standard input can be given once");
}

/// Whoever opens a pull request chooses what links in it lead to, and sees the errors.
#[cfg(unix)]
#[test]
fn links_that_leave_the_directory_are_refused() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new();
    let base = written(&folder, "base", &set(&[]));
    let outside = folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret.yaml"), "root:x:0:0:root:/root:/bin/bash").unwrap();
    for (name, target) in [
        ("p.yaml", "/etc/passwd"),
        ("p.yml", "../outside/secret.yaml"),
        ("charts/p.json", "../../outside/secret.yaml"),
        ("charts/p.yaml", "web/../../../outside/secret.yaml"),
        ("p.yaml", "charts/.hidden"),
        ("charts/deeper", "../../outside"),
        ("all", "/"),
    ] {
        let head = written(&folder, "head", &set(&[]));
        symlink(outside.join("secret.yaml"), head.join("charts/.hidden")).unwrap();
        symlink(target, head.join(name)).unwrap();
        for paths in [[&base, &head], [&head, &base]] {
            let ended = between([paths[0], paths[1]], &["-o", "markdown"]);
            is_error(&ended, &format!("{name} is a symbolic link that leaves "));
            assert!(!ended.stderr.contains("root:"), "{name}: {}", ended.stderr);
        }
        let refused = run(nodeless().arg("convert").arg("-f").arg(&head));
        assert!(refused.code == Some(1) && refused.stderr.contains("is a symbolic link that leaves "), "{refused:?}");
        fs::remove_dir_all(&head).unwrap();
    }
    let head = written(&folder, "head", &set(&[]));
    symlink("nothing.yaml", head.join("p.yaml")).unwrap();
    is_error(&between([&base, &head], &[]), "p.yaml cannot be read");
}

/// A link to another file of the directory is read, as is a path that is a link itself: the caller gave it.
#[cfg(unix)]
#[test]
fn links_within_the_directory_are_followed() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new();
    let base = written(&folder, "base", &set(&[]));
    let head = written(&folder, "head", &set(&[]));
    fs::create_dir(head.join("..data")).unwrap();
    fs::write(head.join("..data/web.yaml"), deployment("web", 1, "1").to_string()).unwrap();
    symlink("..data/web.yaml", head.join("web.yaml")).unwrap();
    symlink("..", head.join("charts/above")).unwrap();
    symlink("/etc", head.join(".hidden")).unwrap();
    symlink("/etc/passwd", head.join("README.md")).unwrap();
    symlink(&head, folder.path().join("link")).unwrap();
    let ended = between([&base, &folder.path().join("link")], &["-o", "json"]);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    assert!(super::dollars(&report) > 0, "{report}");
}

#[test]
fn a_cluster_or_catalog_that_cannot_be_read_is_an_error() {
    let folder = Folder::new();
    let sets = [set(&[]), set(&[])];
    let half = folder.path().join("half.json");
    fs::write(&half, "{\"kind\": \"List\", \"items\": [").unwrap();
    let half = half.to_str().unwrap();
    let of = |arguments: &[&str]| ended(&folder, [&sets[0], &sets[1]], arguments);
    is_error(&of(&["--cluster", half]), "half.json: document 1");
    is_error(&of(&["--catalog", half]), "half.json");
    is_error(&of(&["--region", "mars-1"]), "\"mars-1\" is not an AWS region");
}

#[test]
fn combinations_without_a_meaning_are_refused() {
    let folder = Folder::new();
    let sets = [set(&[]), set(&[])];
    for arguments in [
        ["--what-if", ""].as_slice(),
        &["--disruption", ""],
        &["--context", "a"],
        &["--html", "page.html"],
        &["--max-increase", "-1"],
        &["--max-increase", "many"],
    ] {
        let arguments: Vec<&str> = arguments.iter().copied().filter(|argument| !argument.is_empty()).collect();
        let ended = ended(&folder, [&sets[0], &sets[1]], &arguments);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{arguments:?}: {}", ended.stderr);
    }
    let plan = run(nodeless().args(["plan", "--cluster", "-", "-o", "markdown"]));
    assert!(plan.code == Some(1) && plan.stderr.contains("-o markdown is a format of --diff"), "{plan:?}");
    let alone = run(nodeless().args(["plan", "--cluster", "-", "--max-increase", "1"]));
    assert!(alone.code == Some(1) && alone.stderr.contains("--diff"), "{alone:?}");
}

#[test]
fn an_object_twice_in_a_set_is_a_warning() {
    let folder = Folder::new();
    let twice = set(&[deployment("web", 1, "1"), deployment("web", 3, "1")]);
    let ended = ended(&folder, [&twice, &twice], &["-o", "json"]);
    assert!(
        ended.code == Some(0) && ended.stderr.contains("Deployment default/web exists more than once"),
        "{ended:?}"
    );
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["headline"], "no change of nodes");
}

/// A hundred megabytes of a chart are compared, or refused with an error.
#[test]
fn large_files_end() {
    let folder = Folder::new();
    let base = written(&folder, "base", &set(&[]));
    let head = folder.path().join("head.yaml");
    fs::write(&head, vec![b'x'; 100 << 20]).unwrap();
    let ended = between([&base, &head], &[]);
    is_error(&ended, "head.yaml: document 1");
    assert!(ended.stderr.len() < 2_000, "{} bytes", ended.stderr.len());
    let annotated =
        format!("kind: Deployment\nmetadata:\n  name: web\n  annotations: {{a: {}}}\n", "y".repeat(20 << 20));
    fs::write(&head, annotated).unwrap();
    assert_eq!(between([&base, &head], &[]).code, Some(2), "a large annotation is no error; the pod has no NodePool");
}
